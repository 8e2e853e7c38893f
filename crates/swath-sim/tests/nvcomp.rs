//! Calls the simulated nvCOMP through its C interface, in a process that loads it as `libnvcomp.so.6` or
//! `.so.5`.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use libdeflater::{CompressionLvl, Compressor};
use libloading::os::unix::Library;
use swath_gpu::{Buffer, Cuda, Device, Gpu, Queue};
use swath_sim::{events, forget, inside_with};

const POISON: u8 = 0xA5;

/// Returns the options of a call: their numbers, and zeros.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Options([i32; 16]);

fn options(first: i32) -> Options {
    let mut options = Options::default();
    options.0[0] = first;
    options
}

type Decompress = unsafe extern "C" fn(u64, u64, u64, u64, usize, u64, usize, u64, Options, u64, *mut c_void) -> c_int;
type Compress = unsafe extern "C" fn(u64, u64, usize, usize, u64, usize, u64, u64, Options, u64, *mut c_void) -> c_int;
type Temp6 = unsafe extern "C" fn(usize, usize, Options, *mut usize, usize, *mut c_void) -> c_int;
type Temp5 = unsafe extern "C" fn(usize, usize, Options, *mut usize, usize) -> c_int;

/// A device, a stream on it, and nvCOMP.
struct Bench {
    driver: Library,
    nvcomp: Library,
    stream: *mut c_void,
    queue: Box<dyn Queue>,
    gpu: Gpu,
}

impl Bench {
    fn new(library: &str) -> Bench {
        // The tests use memory without streams of Swath, so it comes from `cuMemAlloc`.
        // SAFETY: no other thread of this process runs yet.
        unsafe { std::env::set_var("SWATH_SIM_POOLS", "0") };
        let device = Cuda::open(0).expect("the simulator opens");
        let gpu = Gpu::new(Cuda::open(0).expect("it opened before"));
        // SAFETY: the simulator has no initialisers.
        let load = |name: &str| unsafe { Library::new(name) }.expect("the simulator is there by this name");
        let (driver, nvcomp) = (load("libcuda.so.1"), load(library));
        let (mut context, mut stream) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the types are those of `cuda.h`, and all results have space.
        unsafe {
            let retain =
                driver.get::<unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_uint>(b"cuDevicePrimaryCtxRetain");
            assert_eq!(retain.unwrap()(&mut context, 0), 0);
            let push = driver.get::<unsafe extern "C" fn(*mut c_void) -> c_uint>(b"cuCtxPushCurrent_v2");
            assert_eq!(push.unwrap()(context), 0);
            let create = driver.get::<unsafe extern "C" fn(*mut *mut c_void, c_uint) -> c_uint>(b"cuStreamCreate");
            assert_eq!(create.unwrap()(&mut stream, 1), 0);
        }
        Bench { driver, nvcomp, stream, queue: device.queue().expect("a queue"), gpu }
    }

    fn synchronize(&self) -> c_uint {
        // SAFETY: the type is that of `cuda.h`.
        unsafe {
            let call = self.driver.get::<unsafe extern "C" fn(*mut c_void) -> c_uint>(b"cuStreamSynchronize");
            call.unwrap()(self.stream)
        }
    }

    fn function<T: Copy>(&self, name: &str) -> T {
        // SAFETY: every caller states the type that nvCOMP's headers declare for the function.
        *unsafe { self.nvcomp.get::<T>(name.as_bytes()) }.unwrap_or_else(|_| panic!("there is no {name}"))
    }

    fn buffer(&mut self, bytes: &[u8]) -> Buffer {
        let buffer = self.gpu.alloc("test", Some(bytes.len().max(1) as u64)).expect("there is memory");
        if !bytes.is_empty() {
            // SAFETY: the bytes fill the buffer, and the copy is synchronised.
            unsafe { self.queue.upload(bytes, buffer.handle(), 0) }.expect("an upload");
            self.queue.synchronize().expect("nothing went wrong");
        }
        buffer
    }

    /// Returns the current content of a buffer, whatever is pending in the stream.
    fn contents(&mut self, from: &Buffer) -> Vec<u8> {
        let mut bytes = vec![0; from.bytes() as usize];
        // SAFETY: the whole buffer, and nothing reads it before the next line.
        unsafe { self.queue.download(from.handle(), 0, &mut bytes) }.expect("a download");
        self.queue.synchronize().expect("nothing went wrong");
        bytes
    }

    fn words(&mut self, from: &Buffer) -> Vec<u64> {
        bytemuck::pod_collect_to_vec(&self.contents(from))
    }

    fn max_output(&self, codec: &str, bytes: usize) -> usize {
        let mut most = 0;
        let call: unsafe extern "C" fn(usize, Options, *mut usize) -> c_int =
            self.function(&format!("nvcompBatched{codec}CompressGetMaxOutputChunkSize"));
        // SAFETY: there is space for the number.
        assert_eq!(unsafe { call(bytes, options(0), &mut most) }, 0);
        most
    }

    /// Returns the size of the temporary memory, with the function of version 6.
    fn temp(&self, function: &str, count: usize, chunk: usize) -> Result<usize, c_int> {
        let mut bytes = 0;
        let call: Temp6 = self.function(function);
        // SAFETY: there is space for the number.
        match unsafe { call(count, chunk, options(0), &mut bytes, count * chunk, self.stream) } {
            0 => Ok(bytes),
            code => Err(code),
        }
    }

    /// Copies chunks to the device, with buffers for their results. `change` may change the arrays before the
    /// copy.
    fn lay(&mut self, chunks: &[Vec<u8>], rooms: &[usize], temp: usize, change: impl FnOnce(&mut Arrays)) -> Laid {
        let chunk_buffers: Vec<Buffer> = chunks.iter().map(|chunk| self.buffer(chunk)).collect();
        let room_buffers: Vec<Buffer> = rooms.iter().map(|&room| self.buffer(&vec![POISON; room])).collect();
        let mut arrays = Arrays {
            inputs: chunk_buffers.iter().map(Buffer::handle).collect(),
            input_bytes: chunks.iter().map(|chunk| chunk.len() as u64).collect(),
            rooms: rooms.iter().map(|&room| room as u64).collect(),
            outputs: room_buffers.iter().map(Buffer::handle).collect(),
        };
        change(&mut arrays);
        Laid {
            inputs: self.buffer(bytemuck::cast_slice(&arrays.inputs)),
            input_bytes: self.buffer(bytemuck::cast_slice(&arrays.input_bytes)),
            rooms: self.buffer(bytemuck::cast_slice(&arrays.rooms)),
            outputs: self.buffer(bytemuck::cast_slice(&arrays.outputs)),
            output_bytes: self.buffer(&vec![POISON; 8 * chunks.len()]),
            statuses: self.buffer(&vec![POISON; 4 * chunks.len()]),
            temp: self.buffer(&vec![7; temp]),
            temp_bytes: temp,
            chunk_buffers,
            room_buffers,
        }
    }

    fn decompress(&self, codec: &str, laid: &Laid) -> c_int {
        let call: Decompress = self.function(&format!("nvcompBatched{codec}DecompressAsync"));
        // SAFETY: the simulator checks every address before it uses it.
        unsafe {
            call(
                laid.inputs.handle(),
                laid.input_bytes.handle(),
                laid.rooms.handle(),
                laid.output_bytes.handle(),
                laid.chunk_buffers.len(),
                laid.temp.handle(),
                laid.temp_bytes,
                laid.outputs.handle(),
                options(0),
                laid.statuses.handle(),
                self.stream,
            )
        }
    }

    fn compress(&self, codec: &str, first: i32, most: usize, laid: &Laid) -> c_int {
        let call: Compress = self.function(&format!("nvcompBatched{codec}CompressAsync"));
        // SAFETY: the simulator checks every address before it uses it.
        unsafe {
            call(
                laid.inputs.handle(),
                laid.input_bytes.handle(),
                most,
                laid.chunk_buffers.len(),
                laid.temp.handle(),
                laid.temp_bytes,
                laid.outputs.handle(),
                laid.output_bytes.handle(),
                options(first),
                laid.statuses.handle(),
                self.stream,
            )
        }
    }

    /// Returns the status, size and buffer of each chunk.
    fn results(&mut self, laid: &Laid) -> Vec<(i32, u64, Vec<u8>)> {
        let statuses: Vec<i32> = bytemuck::pod_collect_to_vec(&self.contents(&laid.statuses));
        let sizes = self.words(&laid.output_bytes);
        let rooms: Vec<_> = laid.room_buffers.iter().map(|room| self.contents(room)).collect();
        statuses.into_iter().zip(sizes).zip(rooms).map(|((status, size), room)| (status, size, room)).collect()
    }
}

/// The arrays of a call that the host fills.
struct Arrays {
    inputs: Vec<u64>,
    input_bytes: Vec<u64>,
    rooms: Vec<u64>,
    outputs: Vec<u64>,
}

/// A batch in device memory.
struct Laid {
    inputs: Buffer,
    input_bytes: Buffer,
    rooms: Buffer,
    outputs: Buffer,
    output_bytes: Buffer,
    statuses: Buffer,
    temp: Buffer,
    temp_bytes: usize,
    chunk_buffers: Vec<Buffer>,
    room_buffers: Vec<Buffer>,
}

/// Returns bytes that can be compressed, but not to nearly nothing.
fn plain(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|i| ((i / 7).wrapping_mul(2_654_435_761) >> 26) as u8).collect()
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut compressor = Compressor::new(CompressionLvl::default());
    let mut packed = vec![0; compressor.deflate_compress_bound(bytes.len())];
    let length = compressor.deflate_compress(bytes, &mut packed).unwrap();
    packed.truncate(length);
    packed
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut packed = vec![0; zstd_safe::compress_bound(bytes.len())];
    let length = zstd_safe::compress(&mut packed[..], bytes, 1).unwrap();
    packed.truncate(length);
    packed
}

#[test]
fn compressed_chunks_are_decompressed_again() {
    if !inside_with("compressed_chunks_are_decompressed_again", &["nvcomp.6"], &[]) {
        return;
    }
    let mut bench = Bench::new("libnvcomp.so.6");
    let chunks = [plain(10_000), plain(1), plain(70_000), vec![0; 5000]];
    for codec in ["Deflate", "Zstd", "LZ4"] {
        let most = bench.max_output(codec, 70_000);
        let temp = bench.temp(&format!("nvcompBatched{codec}CompressGetTempSize"), 4, 70_000).unwrap();
        let laid = bench.lay(&chunks, &[most; 4], temp, |_| {});
        forget();
        assert_eq!(bench.compress(codec, 0, 70_000, &laid), 0);
        assert_eq!(events(), [format!("nvcompBatched{codec}CompressAsync 4")]);
        assert_eq!(bench.synchronize(), 0);
        let packed: Vec<Vec<u8>> = bench
            .results(&laid)
            .into_iter()
            .map(|(status, size, room)| {
                assert_eq!(status, 0);
                room[..size as usize].to_vec()
            })
            .collect();
        assert!(packed[0].len() < 9000 && packed[3].len() < 100, "{codec} does not compress");

        // In a buffer that is larger than necessary, the bytes after the chunk do not change.
        let rooms = [10_000, 1, 70_100, 5000];
        let temp = bench.temp(&format!("nvcompBatched{codec}DecompressGetTempSize"), 4, 70_100).unwrap();
        let laid = bench.lay(&packed, &rooms, temp, |_| {});
        assert_eq!(bench.decompress(codec, &laid), 0);
        assert_eq!(bench.synchronize(), 0);
        for ((status, size, room), chunk) in bench.results(&laid).into_iter().zip(&chunks) {
            assert_eq!((status, size), (0, chunk.len() as u64), "{codec}");
            assert!(room[..chunk.len()] == chunk[..] && room[chunk.len()..].iter().all(|&byte| byte == POISON));
        }
        assert!(
            bench.contents(&laid.temp).iter().all(|&byte| byte == POISON),
            "{codec} leaves temporary memory as it was"
        );
    }
}

#[test]
fn deflate_is_raw_and_algorithms_differ() {
    if !inside_with("deflate_is_raw_and_algorithms_differ", &["nvcomp.6"], &[]) {
        return;
    }
    let mut bench = Bench::new("libnvcomp.so.6");
    let chunk: Vec<u8> = (0..4000_u32).flat_map(|i| (i * i / 37).to_le_bytes()).collect();
    let mut sizes = Vec::new();
    for algorithm in [1, 5] {
        let most = bench.max_output("Deflate", chunk.len());
        let laid = bench.lay(std::slice::from_ref(&chunk), &[most], 4 << 20, |_| {});
        assert_eq!(bench.compress("Deflate", algorithm, chunk.len(), &laid), 0);
        assert_eq!(bench.synchronize(), 0);
        let (_, size, room) = bench.results(&laid).remove(0);
        let mut again = vec![0; chunk.len()];
        let packed = &room[..size as usize];
        libdeflater::Decompressor::new().deflate_decompress(packed, &mut again).expect("a raw stream");
        assert!(again == chunk);
        sizes.push(size);
    }
    assert!(sizes[1] < sizes[0], "{sizes:?}");
}

#[test]
fn nothing_happens_before_the_stream_is_synchronised() {
    if !inside_with("nothing_happens_before_the_stream_is_synchronised", &["nvcomp.6"], &[]) {
        return;
    }
    let mut bench = Bench::new("libnvcomp.so.6");
    let laid = bench.lay(&[deflated(&plain(500))], &[500], 0, |_| {});
    assert_eq!(bench.decompress("Deflate", &laid), 0);
    let (status, size, room) = bench.results(&laid).remove(0);
    assert_eq!((status as u32, size), (0xA5A5_A5A5, 0xA5A5_A5A5_A5A5_A5A5));
    assert!(room.iter().all(|&byte| byte == POISON));
    assert_eq!(bench.synchronize(), 0);
    assert!(bench.results(&laid) == [(0, 500, plain(500))]);
}

/// Returns a valid chunk, a corrupt one, one with trailing bytes or a truncated end, and one that exceeds its
/// buffer.
fn sick(codec: &str) -> Vec<Vec<u8>> {
    let pack = |bytes: &[u8]| match codec {
        "Deflate" => deflated(bytes),
        "Zstd" => zstd(bytes),
        _ => lz4_flex::block::compress(bytes),
    };
    let good = pack(&plain(3000));
    let truncated = good[..good.len() / 2].to_vec();
    vec![good.clone(), vec![0xFF; 50], truncated, Vec::new(), pack(&plain(3001))]
}

#[test]
fn corrupt_and_too_large_chunks_have_a_status_and_no_size() {
    if !inside_with("corrupt_and_too_large_chunks_have_a_status_and_no_size", &["nvcomp.6"], &[]) {
        return;
    }
    let mut bench = Bench::new("libnvcomp.so.6");
    for codec in ["Deflate", "Zstd", "LZ4"] {
        let laid = bench.lay(&sick(codec), &[3000; 5], 1 << 20, |_| {});
        assert_eq!(bench.decompress(codec, &laid), 0);
        assert_eq!(bench.synchronize(), 0);
        let results = bench.results(&laid);
        assert_eq!(results.iter().map(|(status, ..)| *status).collect::<Vec<_>>(), [0, 12, 12, 12, 12], "{codec}");
        assert_eq!(results.iter().map(|(_, size, _)| *size).collect::<Vec<_>>(), [3000, 0, 0, 0, 0], "{codec}");
        assert!(results[0].2 == plain(3000));
    }
}

#[test]
fn corrupt_chunks_can_be_reported_as_valid() {
    let silent = [("SWATH_SIM_NVCOMP_CORRUPT", "silent")];
    if !inside_with("corrupt_chunks_can_be_reported_as_valid", &["nvcomp.6"], &silent) {
        return;
    }
    let mut bench = Bench::new("libnvcomp.so.6");
    let laid = bench.lay(&sick("Deflate"), &[3000; 5], 0, |_| {});
    assert_eq!(bench.decompress("Deflate", &laid), 0);
    assert_eq!(bench.synchronize(), 0);
    let results = bench.results(&laid);
    assert_eq!(
        results.iter().map(|(status, size, _)| (*status, *size)).collect::<Vec<_>>(),
        [(0, 3000), (0, 3000), (0, 3000), (0, 3000), (12, 0),]
    );
    assert!(results[0].2 == plain(3000) && results[2].2 != plain(3000));
    assert!(results[1].2.iter().any(|&byte| byte != results[1].2[0]), "garbage, not poison");
}

/// Returns the result of the stream with changed arrays, and checks whether anything works afterwards.
fn killed(bench: &mut Bench, codec: &str, temp: usize, change: impl FnOnce(&mut Arrays)) -> c_uint {
    let chunks = [deflated(&plain(3000)), deflated(&plain(3000))];
    let laid = bench.lay(&chunks, &[3000; 2], temp, change);
    assert_eq!(bench.decompress(codec, &laid), 0, "device memory is not checked yet");
    let code = bench.synchronize();
    assert_eq!(bench.synchronize(), code, "the context is dead");
    assert!(bench.gpu.alloc("test", Some(1)).is_err());
    code
}

#[test]
fn misaligned_input_kills_the_context() {
    if inside_with("misaligned_input_kills_the_context", &["nvcomp.6"], &[]) {
        let mut bench = Bench::new("libnvcomp.so.6");
        // A tile with its zlib header has this alignment if it starts at a multiple of 4.
        let code = killed(&mut bench, "Deflate", 0, |arrays| {
            arrays.inputs[1] += 2;
            arrays.input_bytes[1] -= 6;
        });
        assert_eq!(code, 716);
    }
}

#[test]
fn misaligned_output_kills_the_context() {
    if inside_with("misaligned_output_kills_the_context", &["nvcomp.6"], &[]) {
        let mut bench = Bench::new("libnvcomp.so.6");
        let most = bench.max_output("Deflate", 100);
        let laid = bench.lay(&[plain(100)], &[most + 8], 1 << 20, |arrays| arrays.outputs[0] += 4);
        assert_eq!(bench.compress("Deflate", 1, 100, &laid), 0);
        assert_eq!(bench.synchronize(), 716);
    }
}

#[test]
fn host_memory_is_not_device_memory() {
    if inside_with("host_memory_is_not_device_memory", &["nvcomp.6"], &[]) {
        let mut bench = Bench::new("libnvcomp.so.6");
        let host = deflated(&plain(3000));
        assert_eq!(killed(&mut bench, "Deflate", 0, |arrays| arrays.inputs[0] = host.as_ptr() as u64 & !3), 700);
    }
}

#[test]
fn output_size_beyond_its_buffer_is_detected() {
    if inside_with("output_size_beyond_its_buffer_is_detected", &["nvcomp.6"], &[]) {
        let mut bench = Bench::new("libnvcomp.so.6");
        assert_eq!(killed(&mut bench, "Deflate", 0, |arrays| arrays.rooms[1] = 3001), 700);
    }
}

#[test]
fn overlapping_outputs_are_detected() {
    if inside_with("overlapping_outputs_are_detected", &["nvcomp.6"], &[]) {
        let mut bench = Bench::new("libnvcomp.so.6");
        let overlapping = |arrays: &mut Arrays| {
            arrays.outputs[1] = arrays.outputs[0] + 1499;
            arrays.rooms.fill(1500);
        };
        assert_eq!(killed(&mut bench, "Deflate", 0, overlapping), 700);
    }
}

#[test]
fn too_little_temporary_memory_is_detected() {
    if inside_with("too_little_temporary_memory_is_detected", &["nvcomp.6"], &[]) {
        let mut bench = Bench::new("libnvcomp.so.6");
        let needed = bench.temp("nvcompBatchedZstdDecompressGetTempSize", 2, 3000).unwrap();
        assert_eq!(needed, 2 * 6936 + 3 * 6000);
        assert_eq!(killed(&mut bench, "Zstd", needed - 1, |_| {}), 700);
    }
}

#[test]
fn output_too_small_for_the_worst_case_is_detected() {
    if inside_with("output_too_small_for_the_worst_case_is_detected", &["nvcomp.6"], &[]) {
        let mut bench = Bench::new("libnvcomp.so.6");
        let most = bench.max_output("LZ4", 100);
        let laid = bench.lay(&[vec![0; 100]], &[most - 1], 32 << 10, |_| {});
        assert_eq!(bench.compress("LZ4", 0, 100, &laid), 0);
        assert_eq!(bench.synchronize(), 700);
    }
}

#[test]
fn arguments_are_checked_before_the_call_returns() {
    if !inside_with("arguments_are_checked_before_the_call_returns", &["nvcomp.6"], &[]) {
        return;
    }
    let mut bench = Bench::new("libnvcomp.so.6");
    let laid = bench.lay(&[deflated(&plain(100))], &[100], 64, |_| {});
    let call: Decompress = bench.function("nvcompBatchedDeflateDecompressAsync");
    let (array, stream) = (laid.inputs.handle(), bench.stream);
    let at = |inputs, count, temp, backend, statuses, stream| {
        // SAFETY: the simulator checks every address before it uses it, and all of these calls fail before
        // that.
        unsafe { call(inputs, array, array, array, count, temp, 64, array, options(backend), statuses, stream) }
    };
    forget();
    assert_eq!(at(0, 1, array, 0, array, stream), 10);
    assert_eq!(at(0, 0, array, 0, array, stream), 10, "the real library does the same");
    assert_eq!(at(array, 1, array, 0, 0, stream), 10);
    assert_eq!(at(array, 1, 0, 0, array, stream), 10);
    assert_eq!(at(array + 4, 1, array, 0, array, stream), 17);
    assert_eq!(at(array, 1, array, 0, array + 2, stream), 17);
    assert_eq!(at(array, 1, array, 9, array, stream), 11);
    assert_eq!(at(array, 1, array, 1, array, stream), 11, "there is no engine");
    assert_eq!(at(array, 1 << 31, array, 0, array, stream), 21);
    assert!(events().is_empty());
    assert_eq!(at(array, 0, array, 0, array, stream), 0);
    assert_eq!(at(array, 1, array, 0, array, ptr::null_mut()), 1000, "the legacy default stream");
    assert_eq!(bench.compress("LZ4", 0, (1 << 24) + 1, &laid), 18);
    assert_eq!(bench.compress("Deflate", 6, 100, &laid), 11);
    assert_eq!(bench.synchronize(), 0, "no work was added to the stream");
}

#[test]
fn thread_without_a_context_cannot_use_it() {
    if !inside_with("thread_without_a_context_cannot_use_it", &["nvcomp.6"], &[]) {
        return;
    }
    let mut bench = Bench::new("libnvcomp.so.6");
    let laid = bench.lay(&[deflated(&plain(100))], &[100], 0, |_| {});
    let pop: unsafe extern "C" fn(*mut *mut c_void) -> c_uint = bench.function("cuCtxPopCurrent_v2");
    // SAFETY: the type is that of `cuda.h`, where null is allowed.
    assert_eq!(unsafe { pop(ptr::null_mut()) }, 0);
    assert_eq!(bench.decompress("Deflate", &laid), 1000);
    // The library queries the device for the memory that ZSTD needs.
    assert_eq!(bench.temp("nvcompBatchedZstdCompressGetTempSize", 1, 1), Err(1000));
    assert!(bench.temp("nvcompBatchedDeflateCompressGetTempSize", 1, 1).is_ok());
}

/// Returns the reported version, and the results of the temporary memory functions of both versions.
fn versions(library: &str) -> ([u32; 2], c_int, c_int) {
    let bench = Bench::new(library);
    let mut properties = [0_u32; 2];
    let get: unsafe extern "C" fn(*mut [u32; 2]) -> c_int = bench.function("nvcompGetProperties");
    // SAFETY: there is space for two numbers.
    assert_eq!(unsafe { get(&mut properties) }, 0);
    let mut bytes = 0;
    let five: Temp5 = bench.function("nvcompBatchedZstdDecompressGetTempSizeAsync");
    // SAFETY: there is space for the number.
    let five = unsafe { five(1, 100, options(0), &mut bytes, 100) };
    assert_eq!(bytes, if five == 0 { 7236 } else { 0 });
    let six = bench.temp("nvcompBatchedZstdDecompressGetTempSize", 1, 100);
    assert!(six.is_err() || six == Ok(7236));
    (properties, five, six.err().unwrap_or(0))
}

#[test]
fn version_6_has_the_functions_of_version_6() {
    if inside_with("version_6_has_the_functions_of_version_6", &["nvcomp.6"], &[]) {
        assert_eq!(versions("libnvcomp.so.6"), ([6000, 12_090], 10, 0));
    }
}

#[test]
fn version_5_has_the_functions_of_version_5() {
    if inside_with("version_5_has_the_functions_of_version_5", &["nvcomp.5"], &[("SWATH_SIM_NVCOMP", "5300")]) {
        assert_eq!(versions("libnvcomp.so.5"), ([5300, 12_090], 0, 10));
        let mut bench = Bench::new("libnvcomp.so.5");
        let laid = bench.lay(&[deflated(&plain(500))], &[500], 0, |_| {});
        assert_eq!(bench.decompress("Deflate", &laid), 0);
        assert_eq!(bench.synchronize(), 0);
        assert!(bench.results(&laid) == [(0, 500, plain(500))]);
    }
}

#[test]
fn other_versions_have_neither() {
    if inside_with("other_versions_have_neither", &["nvcomp.6"], &[("SWATH_SIM_NVCOMP", "4200")]) {
        assert_eq!(versions("libnvcomp.so.6"), ([4200, 12_090], 10, 10));
        let mut bench = Bench::new("libnvcomp.so.6");
        let laid = bench.lay(&[deflated(&plain(500))], &[500], 0, |_| {});
        assert_eq!(bench.decompress("Deflate", &laid), 10);
    }
}

#[test]
fn chunks_fail_on_request() {
    let fail = [("SWATH_SIM_FAIL", "chunk:2,chunk-size:3,chunk-large:4")];
    if !inside_with("chunks_fail_on_request", &["nvcomp.6"], &fail) {
        return;
    }
    let mut bench = Bench::new("libnvcomp.so.6");
    let packed = deflated(&plain(500));
    let mut all = Vec::new();
    // Chunks are counted over all calls.
    for count in [1, 4] {
        let laid = bench.lay(&vec![packed.clone(); count], &vec![500; count], 0, |_| {});
        assert_eq!(bench.decompress("Deflate", &laid), 0);
        assert_eq!(bench.synchronize(), 0);
        all.extend(bench.results(&laid));
    }
    let statuses: Vec<_> = all.iter().map(|(status, size, _)| (*status, *size)).collect();
    assert_eq!(statuses, [(0, 500), (12, 0), (0, 499), (0, 501), (0, 500)]);
    assert!(all[1].2.iter().all(|&byte| byte == POISON) && all[2].2 == plain(500));
}

#[test]
fn calls_fail_on_request() {
    let fail = [("SWATH_SIM_FAIL", "nvcomp:2,nvcomp-temp:1,compress-chunk:2")];
    if !inside_with("calls_fail_on_request", &["nvcomp.6"], &fail) {
        return;
    }
    let mut bench = Bench::new("libnvcomp.so.6");
    assert_eq!(bench.temp("nvcompBatchedLZ4CompressGetTempSize", 2, 500), Err(1000));
    assert_eq!(bench.temp("nvcompBatchedLZ4CompressGetTempSize", 2, 500), Ok(64 << 10));
    let most = bench.max_output("LZ4", 500);
    let laid = bench.lay(&[plain(500), plain(500)], &[most; 2], 64 << 10, |_| {});
    assert_eq!(bench.compress("LZ4", 0, 500, &laid), 0);
    assert_eq!(bench.synchronize(), 0);
    let results = bench.results(&laid);
    assert_eq!((results[0].0, results[1].0, results[1].1), (0, 19, 0));
    assert!(results[0].1 > 0);

    let laid = bench.lay(&[deflated(&plain(500))], &[500], 0, |_| {});
    assert_eq!(bench.decompress("Deflate", &laid), 10_000);
    assert_eq!(bench.synchronize(), 0);
    assert!(bench.results(&laid)[0].2.iter().all(|&byte| byte == POISON), "no work is left");
    assert_eq!(bench.decompress("Deflate", &laid), 0);
}
