//! Fault injection in the driver and in NVIDIA's libraries. After every fault, the result equals the CPU's
//! and the report names the fallback, or the operation fails with a typed error. Nothing hangs, nothing is
//! leaked, and the next operation works.
//!
//! The simulator fails at the n-th call of a kind, for every n until an operation has no more such calls.

mod operation;

use std::env;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use swath::device::{CodecBackend, Gpu, Storage};
use swath::read::OnCorrupt;
use swath::tiff::Compression;
use swath::{Error, FallbackPolicy, ReadRequest};
use swath_codec::predictor::Predictor;
use swath_gpu::Error as DeviceError;
use swath_sim::{device_bytes, events, pinned_bytes, reset};

use self::operation::{Choices, Done, Operation, is_typed, reads, writes};
use crate::files::{Cut, Dice, File, open};
use crate::subject::same_pixels;

const LIBRARIES: [&str; 4] = ["nvcomp.6", "nvjpeg2k", "nvjpeg", "cufile"];

/// Runs a test in a process that loads the simulated libraries.
fn with_libraries(test: &str, variables: &[(&str, &str)], hazard: fn()) {
    // Few threads, because most of the time is spent in threads that wait for each other.
    let few = [("SWATH_SIM_CUFILE_WORKERS", "2"), ("POCL_CPU_MAX_CU_COUNT", "1"), ("POCL_MAX_PTHREAD_COUNT", "1")];
    if swath_sim::inside_with(test, &LIBRARIES, &[&few, variables].concat()) {
        crate::files::ON_DISK.store(true, Ordering::Relaxed);
        hazard();
    }
}

fn set(variable: &str, value: &str) {
    // SAFETY: no operation runs, so no other thread reads environment variables.
    unsafe { env::set_var(variable, value) };
}

fn unset(variable: &str) {
    // SAFETY: as above.
    unsafe { env::remove_var(variable) };
}

fn device() -> Gpu {
    Gpu::cuda(0).expect("the simulator opens")
}

/// Runs an operation with a fault and returns whether the fault occurred. No report is required if the device
/// can overcome the fault with smaller batches, or if only the cleanup was left.
fn suffer(operation: &Arc<Operation>, fault: &str, policy: FallbackPolicy, overcome: bool) -> bool {
    let what = format!("{}, {fault}, {policy:?}", operation.name);
    let gpu = device();
    reset();
    set("SWATH_SIM_FAIL", fault);
    let done = operation.run(&gpu, Choices::of_libraries(policy));
    unset("SWATH_SIM_FAIL");
    let suffered = events().iter().any(|event| event.starts_with("injected failure: "));
    let work = work_done();
    if let Err(error) = &done {
        assert!(suffered, "{what}: {error}");
        is_typed(&what, error);
    }
    let all_work = nothing_is_left(&what, operation, gpu);
    if let Ok(done) = &done {
        operation.check(&what, done);
        let fallbacks = &done.report.fallbacks;
        assert!(fallbacks.is_empty() || (suffered && policy == FallbackPolicy::Auto), "{what}: {fallbacks:?}");
        assert!(!fallbacks.is_empty() || !suffered || overcome || work == all_work, "{what}: no fallback was reported");
    }
    suffered
}

/// The amount of work that the device and the libraries received since the last reset.
fn work_done() -> usize {
    let events = events();
    // Copies on the device do not count: a strip that is uploaded ahead needs one more, if its source is early enough.
    let work = ["upload", "download", "launch", "cuFile", "nvcompBatched", "nvjpeg"];
    events.iter().filter(|event| work.iter().any(|work| event.starts_with(work))).count()
}

/// Checks that memory is freed while the device is open (unless it died) and when it is closed, that no
/// library was misused, and that the operation works again. Returns the amount of work of that operation.
fn nothing_is_left(what: &str, operation: &Arc<Operation>, gpu: Gpu) -> usize {
    let reported: Vec<String> = events().into_iter().filter(|event| event.starts_with("reported: ")).collect();
    assert_eq!(reported, [""; 0], "{what}");
    gpu.trim();
    assert_eq!(gpu.stats().current_bytes, 0, "{what}: buffers");
    let gpu = match gpu.memory() {
        Ok(_) => gpu,
        Err(_) => {
            drop(gpu);
            assert_eq!((device_bytes(), pinned_bytes()), (0, 0), "{what}: bytes after the device died");
            reset();
            device()
        }
    };
    assert_eq!((device_bytes(), pinned_bytes()), (0, 0), "{what}: bytes of the device and pinned ones");
    reset();
    works(&format!("{what}, afterwards"), operation, &gpu, Choices::of_libraries(FallbackPolicy::Strict));
    let work = work_done();
    drop(gpu);
    assert_eq!((device_bytes(), pinned_bytes()), (0, 0), "{what}: bytes of the device and pinned ones in the end");
    work
}

/// Runs the operation and checks its result.
fn works(what: &str, operation: &Arc<Operation>, gpu: &Gpu, choices: Choices) -> Done {
    let done = operation.run(gpu, choices).unwrap_or_else(|error| panic!("{what}: {error}"));
    operation.check(what, &done);
    assert_eq!(done.report.fallbacks, [], "{what}");
    done
}

/// Injects a fault at the first call of a kind, the second, and so on: once alone, and once with all later
/// calls. Returns the number of calls.
fn at_calls(operation: &Arc<Operation>, kind: &str, overcome: bool, step: impl Fn(u64) -> u64) -> u64 {
    let mut call = 1;
    while suffer(operation, &format!("{kind}:{call}"), FallbackPolicy::Auto, overcome) {
        suffer(operation, &format!("{kind}:{call}"), FallbackPolicy::Strict, overcome);
        suffer(operation, &format!("{kind}:{call}+"), FallbackPolicy::Auto, overcome);
        call += step(call);
        assert!(call < 10_000, "{}: {kind} has no end", operation.name);
    }
    call - 1
}

fn every(_: u64) -> u64 {
    1
}

/// Steps through the first few calls one by one, and through fewer of the later ones.
fn some(call: u64) -> u64 {
    1 + call / 2
}

fn memory_runs_out(operations: Vec<Arc<Operation>>) {
    for operation in operations {
        let allocations = at_calls(&operation, "alloc", true, every);
        let pinned = at_calls(&operation, "pin", true, every);
        assert!(allocations > 2 && pinned > 1, "{}: {allocations} and {pinned}", operation.name);
    }
}

/// Faults in every call that submits work to a stream, creates one or waits for it.
fn driver_fails(operations: Vec<Arc<Operation>>) {
    for operation in operations {
        let kinds = ["stream", "upload", "download", "copy", "launch", "synchronize"];
        let calls: u64 = kinds.iter().map(|kind| at_calls(&operation, kind, false, some)).sum();
        assert!(calls > 10, "{}: {calls}", operation.name);
    }
}

fn device_is_lost(operations: Vec<Arc<Operation>>) {
    for operation in operations {
        let mut call = 1;
        while suffer(&operation, &format!("lost:{call}"), FallbackPolicy::Auto, false) {
            call += 1 + call / 6;
        }
        assert!(call > 30, "{}: {call}", operation.name);
    }
}

/// Injects faults into calls of nvCOMP, nvJPEG2000 and nvJPEG, into the status and the size that nvCOMP reports for a
/// single chunk, and into the queries of these libraries.
fn decoders_and_encoders_fail(operations: Vec<Arc<Operation>>) {
    for operation in operations {
        // If the query of working memory fails during compression, the encoder uses fewer chunks at a time.
        let questions = at_calls(&operation, "nvcomp-temp", operation.writes(), some);
        let of_nvcomp =
            ["nvcomp", "nvcomp-idle", "chunk", "chunk-size", "chunk-large", "compress-chunk", "compress-large"];
        let (of_jpeg2000, of_jpeg) = (
            ["j2k-parse", "j2k-state", "j2k-decode", "j2k-encode"],
            ["jpeg-info", "jpeg-state", "jpeg-decode", "jpeg-encode"],
        );
        let count = |kinds: &[&str]| -> u64 { kinds.iter().map(|kind| at_calls(&operation, kind, false, some)).sum() };
        let (chunks, jpeg2000, jpeg) = (count(&of_nvcomp), count(&of_jpeg2000), count(&of_jpeg));
        // A fault that occurs when the stream reaches the call destroys the context.
        let late = at_calls(&operation, "j2k-late", false, some);
        let name = operation.name;
        let nvcomp = !["LZW", "no codec", "JPEG"].iter().any(|other| name.contains(other));
        let (nvjpeg2000, nvjpeg) = (name.contains("JPEG 2000"), name.contains("JPEG") && !name.contains("JPEG 2000"));
        assert_eq!((questions > 0, chunks > 5), (nvcomp, nvcomp), "{name}");
        assert_eq!((jpeg2000 > 5, late > 0), (nvjpeg2000, nvjpeg2000 && !operation.writes()), "{name}");
        assert_eq!(jpeg > 5, nvjpeg, "{name}: {jpeg}");
    }
}

fn cufile_fails(operations: Vec<Arc<Operation>>) {
    for operation in operations.into_iter().filter(|operation| operation.uses_cufile()) {
        let kinds = ["register", "read", "short", "write", "short-write"];
        let calls: u64 = kinds.iter().map(|kind| at_calls(&operation, kind, false, some)).sum();
        assert!(calls > 2, "{}: {calls}", operation.name);
    }
}

macro_rules! on_reads_and_writes {
    ($($hazard:ident: $in_a_read:ident, $in_a_write:ident;)*) => {
        $(
            #[test]
            fn $in_a_read() {
                with_libraries(concat!("faults::", stringify!($in_a_read)), &[], || $hazard(reads()));
            }

            #[test]
            fn $in_a_write() {
                with_libraries(concat!("faults::", stringify!($in_a_write)), &[], || $hazard(writes()));
            }
        )*
    };
}

on_reads_and_writes! {
    memory_runs_out: memory_that_runs_out_in_a_read, memory_that_runs_out_in_a_write;
    driver_fails: driver_that_fails_in_a_read, driver_that_fails_in_a_write;
    device_is_lost: device_that_is_lost_in_a_read, device_that_is_lost_in_a_write;
    decoders_and_encoders_fail: decoder_that_fails_in_a_read, encoder_that_fails_in_a_write;
    cufile_fails: cufile_that_fails_in_a_read, cufile_that_fails_in_a_write;
}

/// Tiles that grew and that cuFile did not write need host memory, which is not available either.
#[test]
fn second_fault_on_the_way_out_of_the_first() {
    with_libraries("faults::second_fault_on_the_way_out_of_the_first", &[], || {
        for operation in reads().iter().chain(&writes()).filter(|operation| operation.uses_cufile()) {
            let first = if operation.writes() { "short-write:1" } else { "short:1" };
            for second in ["alloc", "pin", "upload", "download", "launch", "nvcomp", "chunk"] {
                for call in 1..6 {
                    let fault = format!("{first},{second}:{call}+");
                    assert!(suffer(operation, &fault, FallbackPolicy::Auto, true), "{fault}");
                }
            }
        }
    });
}

#[test]
fn device_that_does_not_open_gives_a_reason() {
    with_libraries("faults::device_that_does_not_open_gives_a_reason", &[], || {
        for fault in ["init:1", "module:1", "lost:1", "lost:2", "lost:3", "lost:9"] {
            reset();
            set("SWATH_SIM_FAIL", fault);
            let opened = Gpu::cuda(0);
            unset("SWATH_SIM_FAIL");
            let error = opened.err().unwrap_or_else(|| panic!("{fault}: it opened"));
            assert!(!error.is_memory() && error.to_string().contains("CUDA"), "{fault}: {error}");
            reset();
            drop(device());
        }
    });
}

/// Memory that cuFile may still access is neither reused nor freed.
#[test]
fn memory_of_a_transfer_that_never_ends_is_left_alone() {
    let variables = [("SWATH_CUFILE_TIMEOUT", "1")];
    with_libraries("faults::memory_of_a_transfer_that_never_ends_is_left_alone", &variables, || {
        let (gpu, mut left) = (device(), 0);
        for operation in [&reads()[0], &writes()[0]] {
            let name = operation.name;
            reset();
            set("SWATH_SIM_FAIL", "hung:1");
            let done = operation.run(&gpu, Choices::of_libraries(FallbackPolicy::Auto));
            unset("SWATH_SIM_FAIL");
            match done {
                Ok(done) if !operation.writes() => {
                    operation.check(name, &done);
                    assert!(done.report.fallbacks[0].reason.contains("did not finish a read"), "{name}");
                }
                // cuFile may still write to the file, so the file is not published.
                Err(error) if operation.writes() => {
                    is_typed(name, &error);
                    assert!(error.to_string().contains("did not finish a write"), "{name}: {error}");
                }
                other => panic!("{name}: {other:?}"),
            }
            let reported: Vec<String> = events().into_iter().filter(|event| event.starts_with("reported: ")).collect();
            assert_eq!(reported, [""; 0], "{name}: neither destroyed nor freed");
            gpu.trim();
            assert!(device_bytes() > left, "{name}: {} bytes, before {left}", device_bytes());
            left = device_bytes();
            reset();
            works(&format!("{name}, afterwards"), operation, &gpu, Choices::of_libraries(FallbackPolicy::Strict));
            gpu.trim();
            assert_eq!(device_bytes(), left, "{name}: what works leaves nothing");
        }
    });
}

/// Memory that cuFile cannot register is used through a buffer of cuFile's, and the report says so.
#[test]
fn memory_that_cufile_cannot_register_is_reported() {
    with_libraries("faults::memory_that_cufile_cannot_register_is_reported", &[], || {
        for operation in reads().iter().chain(&writes()).filter(|operation| operation.uses_cufile()) {
            let (gpu, choices) = (device(), Choices::of_libraries(FallbackPolicy::Strict));
            let direct = works(operation.name, operation, &gpu, choices).report;
            gpu.trim();
            set("SWATH_SIM_CUFILE_REGISTER", "fail");
            let copied = works(operation.name, operation, &gpu, choices).report;
            unset("SWATH_SIM_CUFILE_REGISTER");
            let (direct, copied) = match operation.writes() {
                true => (direct.written_by, copied.written_by),
                false => (direct.read_by, copied.read_by),
            };
            assert!(direct.contains("GPUDirect"), "{}: {direct}", operation.name);
            assert!(copied.contains("could not be registered"), "{}: {copied}", operation.name);
            nothing_is_left(operation.name, operation, gpu);
        }
    });
}

/// From a device without enough memory for anything to one with enough memory.
#[test]
fn device_with_little_memory_fails_or_uses_smaller_batches() {
    with_libraries("faults::device_with_little_memory_fails_or_uses_smaller_batches", &[], || {
        for operation in reads().iter().chain(&writes()) {
            let (mut refused, mut memory) = (0, 512_u64);
            loop {
                let what = format!("{} with {memory} bytes", operation.name);
                set("SWATH_SIM_MEMORY", &memory.to_string());
                let gpu = device();
                let done = operation.run(&gpu, Choices::of_libraries(FallbackPolicy::Strict));
                unset("SWATH_SIM_MEMORY");
                match &done {
                    Ok(done) => operation.check(&what, done),
                    Err(Error::Device(error)) if error.is_memory() => refused += 1,
                    // The libraries need memory of their own.
                    Err(Error::Fallback { reason, .. })
                        if reason.contains("ALLOCATOR") || reason.contains("bytes of device memory") =>
                    {
                        refused += 1;
                    }
                    Err(error) => panic!("{what}: {error}"),
                }
                gpu.trim();
                assert_eq!((device_bytes(), pinned_bytes()), (0, 0), "{what}");
                // The device records the available memory when it is opened.
                drop(gpu);
                nothing_is_left(&what, operation, device());
                if done.is_ok() && memory > 1 << 24 {
                    break;
                }
                memory *= 4;
            }
            assert!(refused > 1, "{}: {refused}", operation.name);
        }
    });
}

/// nvCOMP may accept damaged streams. If the format has a checksum, the damage is detected. If not, our
/// decoder detects what is detectable, and with nvCOMP only the damaged blocks are wrong.
#[test]
fn damage_that_nvcomp_does_not_see_stays_in_its_block() {
    with_libraries("faults::damage_that_nvcomp_does_not_see_stays_in_its_block", &[], || {
        set("SWATH_SIM_NVCOMP_CORRUPT", "silent");
        let gpu = device();
        let mut caught = 0;
        for round in 0..60 {
            let compression = if round % 2 == 0 { Compression::DEFLATE } else { Compression::ZSTD };
            let file =
                File { compression, cut: Cut::Tiles(16, 16), predictor: Predictor::Horizontal, ..File::default() };
            let mut dice = Dice::new(round);
            let bad = dice.below(file.blocks());
            let image = open(file.build_with(|number, block| {
                if number == bad {
                    // The header is checked before, so damage only what follows it.
                    let at = 16 + dice.below(block.len() - 16);
                    block[at] ^= 1 << dice.below(8);
                }
            }));
            let what = format!("{compression:?}, round {round}, block {bad}");
            let fill = ReadRequest::new().on_corrupt(OnCorrupt::Fill).threads(1);
            let expected = image.read(&fill).expect("what is corrupt is filled");
            let nvcomp = CodecBackend::NvComp;
            let choices: &[CodecBackend] = if compression == Compression::DEFLATE {
                &[nvcomp, CodecBackend::Builtin]
            } else {
                &[CodecBackend::Builtin]
            };
            for &choice in choices {
                // Damage may hit bits that no decoder uses. In that case the CPU may have to decide.
                let on_device = fill.clone().device(&gpu).decoder(choice);
                let found = image.read(&on_device).unwrap_or_else(|error| panic!("{what}: {error}"));
                same_pixels(&what, expected.pixels.as_bytes(), found.pixels.as_bytes());
                assert_eq!(found.report.filled_blocks, expected.report.filled_blocks, "{what}");
                caught += found.report.filled_blocks;
                let (cpu, device) =
                    (image.read(&ReadRequest::new()), image.read(&on_device.on_corrupt(OnCorrupt::Fail)));
                assert_eq!(cpu.is_ok(), device.is_ok(), "{what}");
            }
            let raster = image.read(&fill.clone().device(&gpu).decoder(nvcomp)).expect("what is corrupt is filled");
            let (row, col) = (bad / 4 * 16, bad % 4 * 16);
            let (expected, found): (&[u16], &[u16]) =
                (expected.pixels.as_slice().expect("16 bits"), raster.pixels.as_slice().expect("16 bits"));
            for (i, (expected, found)) in expected.iter().zip(found).enumerate() {
                let inside = (row..row + 16).contains(&(i / 50)) && (col..col + 16).contains(&(i % 50));
                assert!(inside || expected == found, "{what}: pixel {i} of another block");
            }
        }
        assert!(caught > 30, "{caught}");
        unset("SWATH_SIM_NVCOMP_CORRUPT");
        gpu.trim();
        assert_eq!((device_bytes(), pinned_bytes()), (0, 0));
    });
}

/// A process with other libraries than usual.
struct Without {
    name: &'static str,
    /// The function that the libraries do not export.
    symbol: Option<&'static str>,
    libraries: [&'static str; 4],
    variables: &'static [(&'static str, &'static str)],
    hazard: fn(),
}

impl Without {
    const fn symbol(symbol: &'static str, hazard: fn()) -> Without {
        Without { name: symbol, symbol: Some(symbol), libraries: LIBRARIES, variables: &[], hazard }
    }

    const fn with(name: &'static str, variables: &'static [(&'static str, &'static str)], hazard: fn()) -> Without {
        Without { name, symbol: None, libraries: LIBRARIES, variables, hazard }
    }
}

const WITHOUT: [Without; 16] = [
    Without::symbol("cuMemcpyDtoDAsync_v2", no_driver),
    Without::symbol("cuStreamSynchronize", no_driver),
    Without::symbol("nvcompGetProperties", no_nvcomp),
    Without::symbol("nvcompBatchedZstdCompressAsync", no_nvcomp),
    Without::symbol("cuFileRead", no_cufile),
    Without::symbol("cuFileGetVersion", no_cufile),
    Without::symbol("nvjpeg2kDecode", no_pictures),
    Without::symbol("nvjpeg2kEncode", no_pictures),
    Without::symbol("nvjpegDecodeBatched", no_pictures),
    Without::symbol("nvjpegEncodeImage", no_pictures),
    Without::with("nvCOMP 4", &[("SWATH_SIM_NVCOMP", "4200")], no_nvcomp),
    Without::with("nvCOMP 7", &[("SWATH_SIM_NVCOMP", "7000")], no_nvcomp),
    Without {
        name: "nvCOMP 5.3",
        symbol: None,
        libraries: ["nvcomp.5", "nvjpeg2k", "nvjpeg", "cufile"],
        variables: &[("SWATH_SIM_NVCOMP", "5300")],
        hazard: nvcomp_5,
    },
    Without::with("no nvidia-fs", &[("SWATH_SIM_CUFILE", "absent")], no_cufile),
    Without::with("cuFile closed", &[("SWATH_SIM_CUFILE", "closed")], no_cufile),
    Without::with("compatibility mode", &[("SWATH_SIM_CUFILE", "compat")], compatible),
];

/// Libraries of another version, libraries without a function, and libraries that do not start.
#[test]
fn unusable_library_is_reported_or_not_needed() {
    const CASE: &str = "SWATH_FAULTS_CASE";
    let test = "faults::unusable_library_is_reported_or_not_needed";
    if let Ok(name) = env::var(CASE) {
        crate::files::ON_DISK.store(true, Ordering::Relaxed);
        let case = WITHOUT.iter().find(|case| case.name == name).expect("the parent knows it");
        return (case.hazard)();
    }
    for Without { name, symbol, libraries, variables, .. } in &WITHOUT {
        let folder = match symbol {
            Some(symbol) => swath_sim::without(symbol, libraries),
            None => swath_sim::folder(libraries),
        };
        let folder = folder.unwrap_or_else(|missing| panic!("{name}: {missing}"));
        let variables = [&[(CASE, *name)], *variables].concat();
        assert!(!swath_sim::rerun(test, &folder, &variables), "this is the parent");
    }
}

fn no_driver() {
    let (name, error) =
        (env::var("SWATH_FAULTS_CASE").expect("a child"), Gpu::cuda(0).expect_err("there is no driver"));
    assert!(matches!(&error, DeviceError::NoDevice { reason, .. } if reason.contains(&name)), "{error}");
}

/// A requested library that is not available is reported, or refused in strict mode.
fn told_or_refused(operation: &Arc<Operation>, codec: CodecBackend, storage: Storage, word: &str) {
    let (gpu, name) = (device(), operation.name);
    let auto = Choices { policy: FallbackPolicy::Auto, codec, storage };
    let done = operation.run(&gpu, auto).unwrap_or_else(|error| panic!("{name}: {error}"));
    operation.check(name, &done);
    let fallbacks = &done.report.fallbacks;
    assert!(fallbacks.iter().any(|fallback| fallback.reason.contains(word)), "{name}: {fallbacks:?}");
    let error = operation.run(&gpu, Choices { policy: FallbackPolicy::Strict, ..auto }).expect_err("it is refused");
    is_typed(name, &error);
    assert!(matches!(&error, Error::Fallback { reason, .. } if reason.contains(word)), "{name}: {error}");
    gpu.trim();
    assert_eq!((device_bytes(), pinned_bytes()), (0, 0), "{name}");
}

/// A library that the caller did not request is not reported as missing.
fn not_missed(operation: &Arc<Operation>) -> Done {
    let choices = Choices { policy: FallbackPolicy::Strict, codec: CodecBackend::Auto, storage: Storage::Auto };
    works(operation.name, operation, &device(), choices)
}

fn no_nvcomp() {
    let version = env::var("SWATH_SIM_NVCOMP").map(|version| format!("is version {}.", &version[..1]));
    let word = version.unwrap_or_else(|_| env::var("SWATH_FAULTS_CASE").expect("a child"));
    for operation in reads().iter().chain(&writes()).filter(|operation| operation.uses_cufile()) {
        match operation.name {
            "LZW to a raster" | "no codec to the host" | "no codec to a raster" => {
                assert_eq!(not_missed(operation).report.fallbacks, []);
            }
            // No kernel decodes it.
            "LZ4 to the host" | "LZ4 to a raster" => {
                told_or_refused(operation, CodecBackend::Auto, Storage::Auto, &word)
            }
            _ => {
                told_or_refused(operation, CodecBackend::NvComp, Storage::Auto, &word);
                let by = not_missed(operation).report;
                assert!(!by.decoded_by.contains("nvCOMP") && !by.compressed_by.contains("nvCOMP"), "{by:?}");
            }
        }
    }
}

fn no_pictures() {
    let symbol = env::var("SWATH_FAULTS_CASE").expect("a child");
    let codec = if symbol.starts_with("nvjpeg2k") { "JPEG 2000 " } else { "JPEG to" };
    let operations = [reads(), writes()].concat();
    let concerned: Vec<_> = operations.iter().filter(|operation| operation.name.contains(codec)).collect();
    assert!(concerned.len() > 1, "a read and a write");
    for operation in concerned {
        told_or_refused(operation, CodecBackend::NvComp, Storage::Auto, &symbol);
    }
}

fn no_cufile() {
    for operation in reads().iter().chain(&writes()).filter(|operation| operation.uses_cufile()) {
        told_or_refused(operation, CodecBackend::Auto, Storage::CuFile, "cuFile");
        let by = not_missed(operation).report;
        assert!(!by.read_by.contains("cuFile") && by.written_by.is_empty(), "{by:?}");
    }
}

fn compatible() {
    for operation in reads().iter().chain(&writes()).filter(|operation| operation.uses_cufile()) {
        let strict = Choices::of_libraries(FallbackPolicy::Strict);
        let report = works(operation.name, operation, &device(), strict).report;
        let by = if operation.writes() { report.written_by } else { report.read_by };
        assert!(by.contains("compatibility mode"), "{}: {by}", operation.name);
        // If the library brings no gain, it is not used.
        let by = not_missed(operation).report;
        assert!(!by.read_by.contains("cuFile") && by.written_by.is_empty(), "{by:?}");
    }
}

fn nvcomp_5() {
    for operation in reads().iter().chain(&writes()) {
        let strict = Choices::of_libraries(FallbackPolicy::Strict);
        let report = works(operation.name, operation, &device(), strict).report;
        let by = [report.decoded_by, report.compressed_by].concat();
        let other = ["LZW", "no codec", "JPEG"].iter().any(|other| operation.name.contains(other));
        assert!(other || by.contains("nvCOMP 5.3.0"), "{}: {by}", operation.name);
    }
    assert_eq!((device_bytes(), pinned_bytes()), (0, 0));
}
