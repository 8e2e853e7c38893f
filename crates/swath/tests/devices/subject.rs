//! The devices that the suite runs on, and the child processes that have them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::{env, fs};

use swath::device::Gpu;
use swath::io::Source;
use swath::read::Placement;
use swath::tiff::ReadAt;
use swath::{Dataset, Image, Limits, Raster, ReadRequest};
use swath_gpu::vendor::{self, Library};
use swath_gpu::{Api, Arg, Device, DeviceInfo, Handle, Kernel, MemoryInfo, OpenCl, Queue, Result};

use crate::files::File;

/// A device under test.
pub(crate) struct Subject {
    pub(crate) gpu: Gpu,
    /// Whether a tool checks every access, so that inputs must be small.
    pub(crate) slow: bool,
    /// Whether NVIDIA's libraries are available.
    pub(crate) nvidia: bool,
}

/// A test function.
pub(crate) type Hazard = fn(&Subject);

impl Subject {
    /// Returns `much`, or `little` on a slow subject.
    pub(crate) fn amount<T>(&self, much: T, little: T) -> T {
        if self.slow { little } else { much }
    }

    /// Opens the same device again, with its own memory pool. Oclgrind can be opened only once.
    pub(crate) fn another(&self) -> Option<Gpu> {
        match self.gpu.info().api {
            Api::Cuda => Some(Gpu::cuda(self.gpu.info().index).expect("it opened before")),
            _ if self.slow => None,
            _ => Some(Gpu::new(OpenCl::choose(Some(&self.gpu.info().index.to_string())).expect("it opened before"))),
        }
    }

    /// Returns the request in strict mode on the device.
    pub(crate) fn strict<'a>(&self, request: &ReadRequest<'a>) -> ReadRequest<'a> {
        request.clone().device(&self.gpu).fallback(swath::FallbackPolicy::Strict)
    }

    /// Reads on the device alone and on the CPU, compares everything that must be equal, and returns the
    /// raster of the device.
    pub(crate) fn check(&self, name: &str, image: &Image, request: &ReadRequest<'_>) -> Raster {
        let expected = image.read(&request.clone().threads(1)).unwrap_or_else(|error| panic!("{name}: CPU: {error}"));
        self.gpu.reset_peak();
        let raster = image.read(&self.strict(request)).unwrap_or_else(|error| panic!("{name}: {error}"));
        same_pixels(name, expected.pixels.as_bytes(), raster.pixels.as_bytes());
        assert_eq!(raster.shape, expected.shape, "{name}");
        let (ours, theirs) = (&raster.report, &expected.report);
        assert_eq!((ours.blocks, ours.sparse_blocks), (theirs.blocks, theirs.sparse_blocks), "{name}: blocks");
        let gpu = ours.gpu.as_ref().unwrap_or_else(|| panic!("{name}: the report does not speak of the device"));
        assert_eq!((&gpu.name, gpu.fallbacks.len()), (&self.gpu.info().name, 0), "{name}");
        raster
    }
}

/// Compares pixels and prints only the first difference.
pub(crate) fn same_pixels(name: &str, expected: &[u8], found: &[u8]) {
    assert_eq!(found.len(), expected.len(), "{name}: bytes");
    if let Some(at) = expected.iter().zip(found).position(|(expected, found)| expected != found) {
        let differ = expected.iter().zip(found).filter(|(expected, found)| expected != found).count();
        panic!(
            "{name}: {differ} of {} bytes differ, from byte {at} on: {:#04x}, the CPU has {:#04x}",
            found.len(),
            found[at],
            expected[at]
        );
    }
}

/// Runs on PoCL, in this process.
pub(crate) fn on_pocl(_test: &str, hazard: Hazard) {
    let device = OpenCl::choose(Some("pocl")).unwrap_or_else(|none| {
        panic!("{none}; 'make test' installs the packages pocl-opencl-icd and ocl-icd-libopencl1")
    });
    hazard(&Subject { gpu: Gpu::new(device), slow: false, nvidia: false });
}

/// The variable that names a device of this machine.
const TEST_DEVICE: &str = "SWATH_TEST_DEVICE";

/// Runs on the device that the environment names, in this process, with the driver and NVIDIA's libraries of the
/// machine.
pub(crate) fn on_named(test: &str, hazard: Hazard) {
    if let Some(subject) = named(test) {
        hazard(&subject);
    }
}

/// As [`on_named`], if NVIDIA's libraries are installed.
pub(crate) fn on_named_with_libraries(test: &str, hazard: Hazard) {
    match named(test) {
        Some(subject) if subject.nvidia => hazard(&subject),
        Some(_) => eprintln!("{test}: NOT TESTED, because nvCOMP is not installed or the device is not CUDA"),
        None => {}
    }
}

/// Opens the device that the environment names.
fn named(test: &str) -> Option<Subject> {
    let Some(name) = env::var(TEST_DEVICE).ok().filter(|name| !name.is_empty()) else {
        eprintln!("{test}: NOT TESTED, because {TEST_DEVICE} is not set");
        return None;
    };
    let opened = swath::Device::open(&name).unwrap_or_else(|error| panic!("{TEST_DEVICE}={name}: {error}"));
    let gpu = opened.gpu().unwrap_or_else(|| panic!("{TEST_DEVICE}={name} is not a GPU")).clone();
    eprintln!("{test} runs on {}", gpu.info().name);
    let nvidia = gpu.info().api == Api::Cuda && vendor::find(Library::NvComp).is_ok();
    Some(Subject { gpu, slow: false, nvidia })
}

/// Runs on CUDA with the simulator, in a separate process that loads it instead of NVIDIA's driver.
pub(crate) fn on_cuda(test: &str, hazard: Hazard) {
    if swath_sim::inside(short_name(test), &[]) {
        let gpu = Gpu::cuda(0).unwrap_or_else(|none| panic!("the simulator does not open: {none}"));
        assert!(gpu.info().name.contains("simulated"), "this runs on {}", gpu.info().name);
        let slow = gpu.info().name.contains("library of kernels");
        hazard(&Subject { gpu, slow, nvidia: false });
        no_faults(slow);
    }
}

/// As [`on_cuda`], with two devices.
pub(crate) fn on_two_of_cuda(test: &str, hazard: Hazard) {
    if swath_sim::inside(short_name(test), &[("SWATH_SIM_DEVICES", "2")]) {
        let gpu = Gpu::cuda(0).unwrap_or_else(|none| panic!("the simulator does not open: {none}"));
        hazard(&Subject { gpu, slow: false, nvidia: false });
    }
}

/// Runs on PoCL with two devices, in a separate process: PoCL reads the variable when it is loaded.
pub(crate) fn on_two_of_pocl(test: &str, hazard: Hazard) {
    if swath_sim::inside(short_name(test), &[("POCL_DEVICES", "pthread pthread")]) {
        let gpu = Gpu::new(OpenCl::choose(Some("0")).unwrap_or_else(|none| panic!("{none}")));
        hazard(&Subject { gpu, slow: false, nvidia: false });
    }
}

/// Runs on CUDA with the simulator, which executes the PTX that Swath ships and checks every access. The threads
/// run in random order.
pub(crate) fn on_ptx(test: &str, hazard: Hazard) {
    on_ptx_in_order(test, "random:7", hazard);
}

/// As [`on_ptx`], but the last thread runs first.
pub(crate) fn on_ptx_in_reverse(test: &str, hazard: Hazard) {
    on_ptx_in_order(test, "reverse", hazard);
}

/// As [`on_ptx`], but the lanes of a warp run together.
pub(crate) fn on_ptx_in_warps(test: &str, hazard: Hazard) {
    on_ptx_in_order(test, "warp", hazard);
}

fn on_ptx_in_order(test: &str, order: &str, hazard: Hazard) {
    if swath_sim::inside(short_name(test), &[("SWATH_SIM_KERNELS", "ptx"), ("SWATH_SIM_ORDER", order)]) {
        let gpu = Gpu::cuda(0).unwrap_or_else(|none| panic!("the simulator does not open: {none}"));
        assert!(gpu.info().name.contains("executing PTX"), "this runs on {}", gpu.info().name);
        hazard(&Subject { gpu, slow: true, nvidia: false });
        no_faults(true);
    }
}

/// Checks that the simulator found no fault in a kernel. The engine may have used the CPU where a kernel failed.
fn no_faults(executes_ptx: bool) {
    let faults: Vec<String> = swath_sim::events().into_iter().filter(|event| event.starts_with("reported: ")).collect();
    assert!(!executes_ptx || faults.is_empty(), "{}", faults.join("\n"));
}

/// Runs on CUDA with all of NVIDIA's libraries, with the simulator, and with files on disk.
pub(crate) fn on_nvidia(test: &str, hazard: Hazard) {
    on_nvidia_with(test, &[], hazard);
}

/// As [`on_nvidia`], with environment variables that configure the simulator.
pub(crate) fn on_nvidia_with(test: &str, variables: &[(&str, &str)], hazard: Hazard) {
    if swath_sim::inside_with(short_name(test), &["nvcomp.6", "nvjpeg2k", "nvjpeg", "cufile"], variables) {
        crate::files::ON_DISK.store(true, std::sync::atomic::Ordering::Relaxed);
        let gpu = Gpu::cuda(0).unwrap_or_else(|none| panic!("the simulator does not open: {none}"));
        assert!(gpu.info().name.contains("simulated"), "this runs on {}", gpu.info().name);
        hazard(&Subject { gpu, slow: false, nvidia: true });
        assert_eq!(swath_sim::device_bytes(), 0, "bytes of the device that nobody gave back");
    }
}

/// As [`on_nvidia`], with one fault after another, each in a separate process.
pub(crate) fn on_failing_nvidia(test: &str, failures: &[&str], hazard: Hazard) {
    let requested = env::var(FAIL);
    for failure in
        failures.iter().filter(|failure| requested.as_ref().is_ok_and(|it| it == *failure) || requested.is_err())
    {
        on_nvidia_with(test, &[(FAIL, failure)], hazard);
    }
}

/// The variable that names the fault of the simulator.
pub(crate) const FAIL: &str = "SWATH_SIM_FAIL";

/// Runs on Oclgrind, in a separate process that sees no other driver.
pub(crate) fn on_oclgrind(test: &str, hazard: Hazard) {
    if is_child(test) {
        hazard(&Subject { gpu: oclgrind(u64::MAX), slow: true, nvidia: false });
    } else {
        let run = run_under_oclgrind(test);
        let first: Vec<&str> = run.reports.lines().take(40).collect();
        assert!(first.is_empty(), "Oclgrind on {test}:\n{}", first.join("\n"));
        assert!(run.succeeded, "{test} failed under Oclgrind:\n{}", run.output);
    }
}

/// Checks that Oclgrind's reports are noticed: kernels write to a buffer that is shorter than they expect.
pub(crate) fn on_oclgrind_with_short_buffers(test: &str) {
    if is_child(test) {
        // Oclgrind says that it is a GPU, for which the image is too small.
        let request = ReadRequest::new().device(&oclgrind(64)).placement(Placement::Device);
        let _ = File::default().open().read(&request);
    } else {
        let run = run_under_oclgrind(test);
        assert!(run.reports.contains("Invalid write"), "{}\n{}", run.reports, run.output);
    }
}

/// Opens Oclgrind with buffers for decoded blocks of at most this many bytes.
fn oclgrind(decoded_bytes: u64) -> Gpu {
    let device = on_one_thread(|| OpenCl::choose(Some("oclgrind")));
    let device = device.unwrap_or_else(|none| panic!("Oclgrind does not open: {none}"));
    report(&format!("{RUNS_ON} {}", device.info().name));
    Gpu::new(Oclgrind { device, decoded_bytes })
}

/// Prints a line for the parent process.
#[expect(clippy::print_stdout, reason = "the parent reads what a child prints")]
fn report(text: &str) {
    println!("{text}");
}

/// The variable that tells a child process which test it runs.
const CHILD: &str = "SWATH_DEVICES_CHILD";
/// The text before the name of the device in the output of a child.
const RUNS_ON: &str = "this runs on";
/// The path in the package oclgrind.
const OCLGRIND: &str = "/usr/lib/oclgrind/liboclgrind-rt-icd.so";

/// The name of a test in the test harness, without the crate.
fn short_name(test: &str) -> &str {
    test.split_once("::").map_or(test, |(_, name)| name)
}

fn is_child(test: &str) -> bool {
    env::var(CHILD).is_ok_and(|name| name == test)
}

/// The result of a child process.
struct OclgrindRun {
    succeeded: bool,
    output: String,
    /// The reports of Oclgrind.
    reports: String,
}

/// Runs this test again, alone, in a process whose only OpenCL driver is Oclgrind, with all checks enabled.
fn run_under_oclgrind(test: &str) -> OclgrindRun {
    assert!(Path::new(OCLGRIND).exists(), "there is no {OCLGRIND}; 'make test' installs the package oclgrind");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test.replace("::", "-"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder for the driver");
    fs::write(folder.join("oclgrind.icd"), OCLGRIND).expect("the name of the driver");
    let log = folder.join("log");
    let output = Command::new(env::current_exe().expect("a program that runs has a name"))
        .args(["--exact", short_name(test), "--nocapture", "--test-threads", "1"])
        .env(CHILD, test)
        .env("OCL_ICD_VENDORS", &folder)
        .env("OCLGRIND_LOG", &log)
        .envs([("OCLGRIND_DATA_RACES", "1"), ("OCLGRIND_UNINITIALIZED", "1"), ("OCLGRIND_CHECK_API", "1")])
        .output()
        .expect("this program starts again");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains(&format!("{RUNS_ON} Oclgrind")), "it did not run on Oclgrind:\n{stdout}\n{stderr}");
    let reports = fs::read_to_string(&log).unwrap_or_default();
    let _ = fs::remove_dir_all(&folder);
    // Some reports do not go to its log.
    let others = stderr.lines().filter(|line| line.contains("Oclgrind") || line.contains("OCLGRIND"));
    let reports = others.fold(reports, |reports, line| reports + line + "\n");
    OclgrindRun { succeeded: output.status.success(), output: format!("{stdout}\n{stderr}"), reports }
}

/// A device on Oclgrind that frees nothing. Oclgrind 21.10 treats memory that is allocated a second time as
/// the first allocation, with its size, and then reports the bytes after that as uninitialised.
#[derive(Debug)]
struct Oclgrind {
    device: OpenCl,
    /// Buffers for decoded blocks have at most this many bytes, regardless of the request.
    decoded_bytes: u64,
}

// SAFETY: memory is never freed. Buffers that are too short are harmless: Oclgrind prevents every access
// outside a buffer.
unsafe impl Device for Oclgrind {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn memory(&self, held: u64) -> Result<MemoryInfo> {
        self.device.memory(held)
    }

    fn allocate(&self, stage: &'static str, bytes: u64) -> Result<Handle> {
        let bytes = if stage == "the decoded batch" { bytes.min(self.decoded_bytes) } else { bytes };
        on_one_thread(|| self.device.allocate(stage, bytes))
    }

    unsafe fn release(&self, _handle: Handle) {}

    fn pin(&self, bytes: usize) -> Result<(Handle, *mut u8)> {
        let pinned = on_one_thread(|| self.device.pin(bytes).map(|(handle, memory)| (handle, memory as usize)));
        pinned.map(|(handle, memory)| (handle, memory as *mut u8))
    }

    unsafe fn unpin(&self, _handle: Handle, _memory: *mut u8) {}

    fn queue(&self) -> Result<Box<dyn Queue>> {
        Ok(Box::new(OnOneThread(on_one_thread(|| self.device.queue())?)))
    }
}

/// A queue whose work is always submitted by the same thread. Oclgrind 21.10 detects uninitialised values
/// with thread-local data that exists only in a thread that ran a kernel or opened the device, and crashes in
/// any other.
#[derive(Debug)]
struct OnOneThread(Box<dyn Queue>);

impl Queue for OnOneThread {
    unsafe fn upload(&mut self, from: &[u8], to: Handle, at: u64) -> Result<()> {
        // SAFETY: here and below, the caller gives the guarantees.
        on_one_thread(|| unsafe { self.0.upload(from, to, at) })
    }

    unsafe fn download(&mut self, from: Handle, at: u64, to: &mut [u8]) -> Result<()> {
        // SAFETY: as above.
        on_one_thread(|| unsafe { self.0.download(from, at, to) })
    }

    unsafe fn copy(&mut self, from: Handle, from_at: u64, to: Handle, to_at: u64, bytes: u64) -> Result<()> {
        // SAFETY: as above.
        on_one_thread(|| unsafe { self.0.copy(from, from_at, to, to_at, bytes) })
    }

    unsafe fn launch(&mut self, kernel: Kernel, groups: u32, args: &[Arg<'_>]) -> Result<()> {
        // SAFETY: as above.
        on_one_thread(|| unsafe { self.0.launch(kernel, groups, args) })
    }

    fn flush(&mut self) -> Result<()> {
        on_one_thread(|| self.0.flush())
    }

    fn synchronize(&mut self) -> Result<()> {
        on_one_thread(|| self.0.synchronize())
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// Runs `work` on a thread that is always the same.
fn on_one_thread<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    static THREAD: OnceLock<Sender<Work>> = OnceLock::new();
    let thread = THREAD.get_or_init(|| {
        let (work_to, work) = channel::<Work>();
        std::thread::spawn(move || work.into_iter().for_each(|work| work()));
        work_to
    });
    let (done_to, done) = channel();
    let work: Box<dyn FnOnce() + Send + '_> = Box::new(move || {
        let _ = done_to.send(work());
    });
    // SAFETY: this function waits for the work, so everything that it borrows lives long enough.
    let work = unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Work>(work) };
    thread.send(work).expect("the thread runs as long as the process");
    done.recv().expect("the work does not panic")
}

/// An image whose file is unreadable at one place, in the middle of its blocks.
pub(crate) fn failing(file: &[u8]) -> Image {
    let bad = file.len() as u64 / 2;
    let source = Failing { bytes: file.to_vec(), bad };
    Dataset::from_source(Arc::new(source), Limits::default()).and_then(|dataset| dataset.image(0)).expect("it opens")
}

#[derive(Debug)]
struct Failing {
    bytes: Vec<u8>,
    bad: u64,
}

impl ReadAt for Failing {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        if (offset..offset + out.len() as u64).contains(&self.bad) {
            return Err(std::io::Error::other("the disk is out of order"));
        }
        out.copy_from_slice(&self.bytes[offset as usize..][..out.len()]);
        Ok(())
    }
}

impl Source for Failing {
    fn name(&self) -> String {
        "a file".into()
    }

    fn sibling(&self, _change: &dyn Fn(&Path) -> PathBuf) -> swath::io::Result<Option<Box<dyn Source>>> {
        Ok(None)
    }
}
