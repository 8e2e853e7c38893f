//! Runs the unmodified CUDA device of `swath-gpu` on the simulator.

use std::ffi::{CString, c_char, c_uint, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use swath_codec::DType;
use swath_gpu::{Arg, Block, Buffer, Cuda, Device, DeviceRaster, Error, Gpu, Kernel, PTX, Queue};
use swath_sim::{CopyDevice, inside, rerun};

/// A device, and the same device for buffers and queues: both use its primary context.
fn open() -> (Cuda, Gpu) {
    let device = Cuda::open(0).unwrap_or_else(|error| panic!("the simulator does not open: {error}"));
    (device, Gpu::new(Cuda::open(0).expect("it opened before")))
}

fn buffer(gpu: &Gpu, bytes: usize) -> Buffer {
    gpu.alloc("test", Some(bytes as u64)).expect("there is memory")
}

/// Returns the bytes of a buffer after all work is done.
fn contents(queue: &mut dyn Queue, from: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0; from.bytes() as usize];
    // SAFETY: the whole buffer, and nothing reads it before the next line.
    unsafe { queue.download(from.handle(), 0, &mut bytes) }.expect("a download");
    queue.synchronize().expect("nothing went wrong");
    bytes
}

/// Returns bytes with a long period.
fn noise(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// Returns blocks in LZW, one after another, as the kernel expects them.
fn lzw_batch(blocks: &[Vec<u8>]) -> Vec<u8> {
    let (mut table, mut streams) = (Vec::new(), Vec::new());
    let (mut src, mut dst) = ((size_of::<Block>() * blocks.len()) as u64, 0);
    for bytes in blocks {
        let mut encoder = weezl::encode::Encoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8);
        let stream = encoder.encode(bytes).expect("LZW");
        let (src_len, dst_len) = (stream.len() as u32, bytes.len() as u32);
        table.push(Block { src, dst, src_len, dst_len, ..Block::default() });
        src += u64::from(src_len);
        dst += u64::from(dst_len);
        streams.extend(stream);
    }
    [bytemuck::cast_slice(&table), &streams].concat()
}

/// Records when it is dropped.
struct Owner(Arc<AtomicBool>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn external_memory_is_used_in_place_and_never_freed() {
    if !inside("external_memory_is_used_in_place_and_never_freed", &[("SWATH_SIM_DEVICES", "2")]) {
        return;
    }
    let pixels: Vec<u8> = noise(40 * 30 * 3 * 2);
    let gpu = Gpu::cuda(1).expect("the second device");
    // Simulates another library in the process, which has opened the device itself.
    let other = Gpu::new(Cuda::open(1).expect("the second device"));
    let theirs = buffer(&other, pixels.len() + 6);
    let mut queue = other.queue().expect("a queue");
    // SAFETY: the buffer has that many bytes, and the pixels live until the end.
    unsafe { queue.upload(&pixels, theirs.handle(), 6) }.expect("an upload");
    queue.synchronize().expect("nothing went wrong");

    let address = theirs.handle() + 6;
    assert_eq!(Cuda::device_of(address), Ok(1));
    assert_eq!(Cuda::device_of(address + pixels.len() as u64 - 1), Ok(1));
    assert!(Cuda::device_of(0x1234).is_err(), "an address without an allocation has a device");
    let gone = Arc::new(AtomicBool::new(false));
    let raster = |dtype, address, bands| {
        let owner = Box::new(Owner(Arc::clone(&gone)));
        // SAFETY: an array of this size is at the address until the end of the test.
        unsafe { DeviceRaster::from_foreign(&gpu, address, dtype, (bands, 40, 30), true, owner) }
    };
    let before = (gpu.stats(), swath_sim::device_bytes());
    let foreign = raster(DType::U16, address, 3).expect("an array of others");
    assert_eq!(foreign.cuda_address(), Some(address));
    assert_eq!((gpu.stats(), swath_sim::device_bytes()), before, "nothing is allocated or copied");
    let mut found = vec![0; pixels.len()];
    foreign.download(&mut found).expect("a download");
    assert_eq!(found, pixels);
    let copy = foreign.duplicate().expect("there is memory");
    let rows = DeviceRaster::new(&gpu, DType::U16, 3, 50, 30, true).expect("there is memory");
    rows.copy_rows_from(&foreign).expect("it has the same rows");
    let clone = foreign.clone();
    drop(foreign);
    assert!(!gone.load(Ordering::Relaxed), "the buffer is still in use");
    drop(clone);
    assert!(gone.load(Ordering::Relaxed), "the owner is not dropped");
    for raster in [copy, rows] {
        let mut found = vec![0; raster.bytes() as usize];
        raster.download(&mut found).expect("a download");
        assert_eq!(found[..pixels.len()], pixels);
    }
    drop(gpu);
    assert_eq!(contents(&mut *queue, &theirs)[6..], pixels, "it was freed or written to");
}

#[test]
fn external_memory_that_kernels_cannot_read_is_refused() {
    if !inside("external_memory_that_kernels_cannot_read_is_refused", &[]) {
        return;
    }
    let (_, gpu) = open();
    let memory = buffer(&gpu, 4096);
    let wrap = |gpu: &Gpu, address, dtype, rows| {
        // SAFETY: the memory is refused, or never used.
        unsafe { DeviceRaster::from_foreign(gpu, address, dtype, (1, rows, 8), true, Box::new(())) }
    };
    for (address, dtype) in [(1, DType::U16), (4, DType::F64), (2, DType::CF64), (3, DType::CI16)] {
        assert!(wrap(&gpu, memory.handle() + address, dtype, 8).is_err(), "{dtype} at {address}");
    }
    assert!(wrap(&gpu, memory.handle() + 1, DType::U8, 8).is_ok());
    assert!(wrap(&gpu, memory.handle() + 8, DType::CF64, 8).is_ok());
    assert!(wrap(&gpu, 0, DType::U8, 8).is_err(), "no allocation is at 0");
    assert!(wrap(&gpu, memory.handle(), DType::U8, u64::MAX).is_err(), "an invalid size");
    let sim = Gpu::new(CopyDevice::new());
    assert!(matches!(wrap(&sim, memory.handle(), DType::U8, 8), Err(Error::Unable { .. })), "a device without CUDA");
}

#[test]
fn external_streams_are_synchronised() {
    if !inside("external_streams_are_synchronised", &[]) {
        return;
    }
    let (_device, gpu) = open();
    let bytes = noise(1000);
    let to = buffer(&gpu, bytes.len());
    let mut theirs = gpu.queue().expect("a queue");
    // SAFETY: the buffer has that many bytes, and the bytes live until the end.
    unsafe { theirs.upload(&bytes, to.handle(), 0) }.expect("an upload");
    let mut handle = 0;
    theirs
        .in_cuda_stream(&mut |stream| {
            handle = stream.addr() as u64;
            Ok(())
        })
        .expect("a stream of CUDA")
        .expect("nothing went wrong");
    let mut ours = gpu.queue().expect("a queue");
    assert_ne!(contents(&mut *ours, &to), bytes, "the stream is not synchronised yet");
    // SAFETY: the stream is alive.
    unsafe { gpu.wait_for_stream(handle) }.expect("nothing went wrong");
    assert_eq!(contents(&mut *ours, &to), bytes);
    for default in [1, 2] {
        // SAFETY: these are the default streams.
        unsafe { gpu.wait_for_stream(default) }.expect("there are always default streams");
    }
    // SAFETY: the stream does not exist, and the simulator detects that.
    assert!(unsafe { gpu.wait_for_stream(0x77) }.is_err());
}

#[test]
fn device_reports_its_properties() {
    if !inside("device_reports_its_properties", &[("SWATH_SIM_DEVICES", "2"), ("SWATH_SIM_MEMORY", "1000000000")]) {
        return;
    }
    let list = Cuda::list().expect("two devices");
    assert_eq!(list.iter().map(|info| info.index).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(list[1].name, "Swath's simulated GPU 1");
    assert_eq!(list[1].driver, "CUDA 12.8, compute capability 8.6");
    let device = Cuda::open(1).expect("the second device");
    assert_eq!(device.info(), &list[1]);
    assert!(device.info().is_gpu && device.info().doubles);
    assert_eq!((device.info().memory, device.info().largest_buffer), (1_000_000_000, 1_000_000_000));
    let error = Cuda::open(2).unwrap_err().to_string();
    assert_eq!(error, "there is no CUDA device: device 2 was asked for, but there are 2, from 0 on");
}

#[test]
fn memory_is_freed_when_buffers_are_dropped() {
    if !inside("memory_is_freed_when_buffers_are_dropped", &[("SWATH_SIM_MEMORY", "1000000")]) {
        return;
    }
    let (device, gpu) = open();
    assert_eq!(device.memory(0).unwrap().free, 1_000_000);
    let (first, second) = (buffer(&gpu, 300_000), buffer(&gpu, 1));
    assert_eq!(first.handle() % 256, 0);
    assert_eq!(device.memory(0).unwrap().free, 699_999);
    drop((first, second));
    assert_eq!(gpu.memory().unwrap().free, 1_000_000);
    // The limit of the device itself, without the check in `Gpu`.
    let error = device.allocate("a test", 1_000_001).unwrap_err();
    assert_eq!(error, Error::OutOfMemory { stage: "a test", needed: 1_000_001 });
}

#[test]
fn copies_happen_in_order_and_at_synchronisation() {
    if !inside("copies_happen_in_order_and_at_synchronisation", &[]) {
        return;
    }
    let (_device, gpu) = open();
    let mut queue = gpu.queue().unwrap();
    let (mut from, mut to) = (gpu.pin(1000).unwrap(), gpu.pin(1000).unwrap());
    let (first, second) = (buffer(&gpu, 1010), buffer(&gpu, 1200));
    from.copy_from_slice(&noise(1000));
    // New pinned memory has any contents.
    to.fill(0);
    // SAFETY: all ranges lie in their buffers, and nothing accesses the pinned memory until the queue is
    // synchronised.
    unsafe {
        queue.upload(&from, first.handle(), 10).unwrap();
        queue.copy(first.handle(), 10, second.handle(), 200, 1000).unwrap();
        queue.download(second.handle(), 200, &mut to).unwrap();
    }
    // The simulator has done nothing so far, and a GPU might not have either.
    assert!(to.iter().all(|&byte| byte == 0));
    queue.synchronize().unwrap();
    assert!(to[..] == from[..]);
    // Memory that was never written is poison; it is copied to ordinary memory too.
    let all = contents(&mut *queue, &second);
    assert!(all[..200].iter().all(|&byte| byte == 0xA5) && all[200..] == from[..]);
}

#[test]
fn two_queues_do_not_wait_for_each_other() {
    if !inside("two_queues_do_not_wait_for_each_other", &[]) {
        return;
    }
    let (device, gpu) = open();
    let (mut one, mut two) = (gpu.queue().unwrap(), gpu.queue().unwrap());
    let (mut from, mut to) = (gpu.pin(64).unwrap(), gpu.pin(64).unwrap());
    from.fill(7);
    let (a, b) = (buffer(&gpu, 64), buffer(&gpu, 64));
    // SAFETY: all ranges lie in their buffers, and nothing accesses the pinned memory until both queues are
    // synchronised.
    unsafe {
        one.upload(&from, a.handle(), 0).unwrap();
        two.upload(&from, b.handle(), 0).unwrap();
        two.download(b.handle(), 0, &mut to).unwrap();
    }
    two.synchronize().unwrap();
    assert!(to.iter().all(|&byte| byte == 7));
    let untouched = contents(&mut *two, &a);
    assert!(untouched.iter().all(|&byte| byte == 0xA5), "the first queue ran before it was synchronised");
    // A queue works on another thread than the one that created it, and outlives its device.
    drop(device);
    std::thread::spawn(move || assert!(contents(&mut *one, &a).iter().all(|&byte| byte == 7))).join().unwrap();
}

#[test]
fn kernels_compute_the_same_as_the_cpu() {
    if !inside("kernels_compute_the_same_as_the_cpu", &[]) {
        return;
    }
    let (_device, gpu) = open();
    let mut queue = gpu.queue().unwrap();

    // Two blocks of 3 rows of 100 u16, as differences.
    let (rows, row_bytes) = (3, 200);
    let bytes = (rows * row_bytes) as usize;
    let stored = [noise(bytes), vec![1; bytes]];
    let batch_bytes = lzw_batch(&stored);
    let (batch, decoded, status) = (buffer(&gpu, batch_bytes.len()), buffer(&gpu, 2 * bytes), buffer(&gpu, 8));
    let buffers = [Arg::Buffer(&batch), Arg::Buffer(&decoded), Arg::Buffer(&status)];
    // Rows of `row_bytes`, integers of 2 bytes, 1 per pixel, without swapping.
    let numbers = [rows, row_bytes, 2, 1, 0].map(Arg::U32);
    // SAFETY: the arguments are those of the kernels, and the table keeps all accesses in the buffers.
    unsafe {
        queue.upload(&batch_bytes, batch.handle(), 0).unwrap();
        queue.launch(Kernel::Lzw, 2, &buffers).unwrap();
        queue.launch(Kernel::Sum, 2 * rows, &[&buffers[..], &numbers].concat()).unwrap();
    }
    queue.synchronize().unwrap();
    assert_eq!(contents(&mut *queue, &status), [0; 8]);
    let mut expected = Vec::new();
    for row in stored.concat().chunks(row_bytes as usize) {
        let differences = row.chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        let sums = differences.scan(0_u16, |sum, difference| {
            *sum = sum.wrapping_add(difference);
            Some(*sum)
        });
        expected.extend(sums.flat_map(u16::to_le_bytes));
    }
    assert!(contents(&mut *queue, &decoded) == expected);
}

#[test]
fn launch_with_freed_memory_is_an_error_and_ends_the_context() {
    if !inside("launch_with_freed_memory_is_an_error_and_ends_the_context", &[]) {
        return;
    }
    let (device, gpu) = open();
    let mut queue = gpu.queue().unwrap();
    let (kept, lost) = (buffer(&gpu, 64), buffer(&gpu, 64));
    let args = [Arg::Buffer(&kept), Arg::Buffer(&lost), Arg::Buffer(&kept)];
    // SAFETY: the simulator tracks the memory that is freed here. Only the launch uses `lost` afterwards, which
    // the simulator must detect, and the simulator refuses its second release.
    unsafe {
        device.release(lost.handle());
        queue.launch(Kernel::Lzw, 1, &args).unwrap();
    }
    let message = queue.synchronize().unwrap_err().to_string();
    assert!(message.contains("cuStreamSynchronize failed with CUDA_ERROR_ILLEGAL_ADDRESS"), "{message}");
    assert!(device.memory(0).is_err() && gpu.queue().is_err());
}

#[test]
fn kernel_that_writes_outside_its_buffer_is_detected() {
    if !inside("kernel_that_writes_outside_its_buffer_is_detected", &[]) {
        return;
    }
    let (_device, gpu) = open();
    let mut queue = gpu.queue().unwrap();
    let bytes = lzw_batch(&[noise(600)]);
    let (batch, too_small, status) = (buffer(&gpu, bytes.len()), buffer(&gpu, 599), buffer(&gpu, 4));
    // SAFETY: one byte too many is written, into the simulator's guard.
    unsafe {
        queue.upload(&bytes, batch.handle(), 0).unwrap();
        queue.launch(Kernel::Lzw, 1, &[Arg::Buffer(&batch), Arg::Buffer(&too_small), Arg::Buffer(&status)]).unwrap();
    }
    let message = queue.synchronize().unwrap_err().to_string();
    assert!(message.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{message}");
}

/// Returns a function of the driver, without `swath-gpu`.
fn driver<T: Copy>(name: &str) -> T {
    use libloading::os::unix::{Library, RTLD_LAZY};
    // SAFETY: the library has no initialisers and stays loaded, and every caller states the type of the
    // function.
    unsafe {
        let library = Library::open(Some("libcuda.so.1"), RTLD_LAZY).expect("the simulator");
        *library.get::<T>(name.as_bytes()).expect("a function of the driver")
    }
}

#[test]
fn threads_and_shared_memory_beyond_the_limits_of_gpus_are_refused() {
    if !inside("threads_and_shared_memory_beyond_the_limits_of_gpus_are_refused", &[]) {
        return;
    }
    type Load =
        unsafe extern "C" fn(*mut *mut c_void, *const c_char, c_uint, *const c_uint, *const *mut c_void) -> c_uint;
    type Find = unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *const c_char) -> c_uint;
    #[rustfmt::skip]
    type Launch = unsafe extern "C" fn(
        *mut c_void, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, *mut c_void, *const *const c_void, *const *const c_void,
    ) -> c_uint;
    let (_device, gpu) = open();
    let mut queue = gpu.queue().unwrap();
    let bytes = lzw_batch(&[noise(600)]);
    let (batch, decoded, status) = (buffer(&gpu, bytes.len()), buffer(&gpu, 600), buffer(&gpu, 4));
    // SAFETY: the buffer has that many bytes, and they live until the queue is synchronised.
    unsafe { queue.upload(&bytes, batch.handle(), 0).unwrap() };
    let handles = [&batch, &decoded, &status].map(Buffer::handle);
    let parameters = [0, 1, 2].map(|i| ptr::from_ref(&handles[i]).cast::<c_void>());
    let (text, group) = (CString::new(PTX).unwrap(), Kernel::Lzw.group());
    let mut codes = Vec::new();
    let mut launches = |stream: *mut c_void| {
        let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the types are those of `cuda.h`, the results have space, and the parameters are those of the
        // kernel.
        unsafe {
            assert_eq!(
                driver::<Load>("cuModuleLoadDataEx")(&mut module, text.as_ptr(), 0, ptr::null(), ptr::null()),
                0
            );
            assert_eq!(driver::<Find>("cuModuleGetFunction")(&mut function, module, c"lzw".as_ptr()), 0);
            let launch = driver::<Launch>("cuLaunchKernel");
            for (threads, shared) in [(group, 0), (1025, 0), (2 * group, 0), (group, 48 << 10), (group, u32::MAX)] {
                let parameters = parameters.as_ptr();
                codes.push(launch(function, 1, 1, 1, threads, 1, 1, shared, stream, parameters, ptr::null()));
            }
        }
        Ok(())
    };
    queue.in_cuda_stream(&mut launches).expect("a stream of CUDA").expect("nothing went wrong");
    let (invalid, out_of_resources) = (1, 701);
    assert_eq!(codes, [0, invalid, invalid, out_of_resources, out_of_resources]);
    assert!(contents(&mut *queue, &decoded) == noise(600), "the allowed launch ran");
}

#[test]
fn failures_have_their_own_error_types() {
    let fail = "alloc:3,pin:2,stream:4,upload:1,download:1,copy:1,launch:1";
    if !inside("failures_have_their_own_error_types", &[("SWATH_SIM_FAIL", fail)]) {
        return;
    }
    let (_device, gpu) = open();
    let (a, b) = (buffer(&gpu, 8), buffer(&gpu, 8));
    let error = gpu.alloc("the third", Some(8)).unwrap_err();
    assert_eq!(error, Error::OutOfMemory { stage: "the third", needed: 8 });
    assert!(error.is_memory() && gpu.alloc("the fourth", Some(8)).is_ok());
    // Kept, because pinned memory that is freed serves the next request.
    let _pinned = gpu.pin(1).expect("the first");
    assert!(gpu.pin(1).unwrap_err().is_memory());

    let mut queue = gpu.queue().unwrap();
    let code = |error: Error, call: &str, code: &str| {
        assert!(error.to_string().starts_with(&format!("CUDA: {call} failed with {code} (")), "{error}");
    };
    code(gpu.queue().unwrap_err(), "cuStreamCreate", "CUDA_ERROR_UNKNOWN");
    // SAFETY: all of these are refused before anything is read or written.
    unsafe {
        code(queue.upload(&[1; 8], a.handle(), 0).unwrap_err(), "cuMemcpyHtoDAsync", "CUDA_ERROR_UNKNOWN");
        code(queue.download(a.handle(), 0, &mut [0; 8]).unwrap_err(), "cuMemcpyDtoHAsync", "CUDA_ERROR_UNKNOWN");
        code(queue.copy(a.handle(), 0, b.handle(), 0, 8).unwrap_err(), "cuMemcpyDtoDAsync", "CUDA_ERROR_UNKNOWN");
        let launch = queue.launch(Kernel::Lzw, 1, &[Arg::Buffer(&a), Arg::Buffer(&a), Arg::Buffer(&b)]);
        code(launch.unwrap_err(), "cuLaunchKernel", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES");
        // Ranges outside a buffer are refused without a request to fail.
        code(queue.upload(&[1; 8], a.handle(), 1).unwrap_err(), "cuMemcpyHtoDAsync", "CUDA_ERROR_INVALID_VALUE");
        code(queue.copy(a.handle(), 0, b.handle(), 4, 5).unwrap_err(), "cuMemcpyDtoDAsync", "CUDA_ERROR_INVALID_VALUE");
    }
    queue.synchronize().expect("what was refused leaves nothing behind");
}

#[test]
fn lost_device_stays_lost_and_keeps_no_memory() {
    // Opening the device takes several dozen calls.
    for last in [1, 2, 1000] {
        let lost = format!("lost:{last}");
        if !inside("lost_device_stays_lost_and_keeps_no_memory", &[("SWATH_SIM_FAIL", &lost)]) {
            continue;
        }
        let lost = |error: Error| {
            let message = error.to_string();
            assert!(message.contains("CUDA_ERROR_DEVICE_UNAVAILABLE"), "{message}");
        };
        if let Ok(device) = Cuda::open(0) {
            let gpu = Gpu::new(Cuda::open(0).unwrap());
            let kept = buffer(&gpu, 100);
            let mut queue = gpu.queue().unwrap();
            drop(device);
            // SAFETY: the ranges lie in the buffer.
            let mut use_it = || unsafe {
                queue.upload(&[1; 100], kept.handle(), 0)?;
                queue.synchronize()
            };
            lost((0..1000).find_map(|_| use_it().err()).expect("it is lost before long"));
            for _ in 0..3 {
                lost(use_it().unwrap_err());
            }
            lost(gpu.queue().unwrap_err());
            assert_eq!(swath_sim::device_bytes(), 100);
        }
        assert_eq!(swath_sim::device_bytes(), 0);
        lost(Cuda::open(0).unwrap_err());
        return;
    }
}

#[test]
fn kernels_that_the_driver_refuses_are_a_build_error_with_the_log() {
    if !inside("kernels_that_the_driver_refuses_are_a_build_error_with_the_log", &[("SWATH_SIM_FAIL", "module:1")]) {
        return;
    }
    let error = Cuda::open(0).unwrap_err();
    assert!(matches!(error, Error::Build { .. }), "{error:?}");
    let message = error.to_string();
    assert!(
        message.contains("CUDA_ERROR_INVALID_PTX") && message.ends_with("ptxas fatal : an injected failure"),
        "{message}"
    );
    assert!(Cuda::open(0).is_ok(), "a failed operation is released and tried again");
}

#[test]
fn driver_without_devices_is_an_error() {
    let variables = [("SWATH_SIM_DEVICES", "0"), ("CUDA_VISIBLE_DEVICES", "")];
    if inside("driver_without_devices_is_an_error", &variables) {
        let message = Cuda::list().unwrap_err().to_string();
        let reason = "there is no CUDA device: NVIDIA's driver is installed, but cuInit failed with CUDA_ERROR_NO_DEVICE \
                      (no CUDA-capable device is detected); CUDA_VISIBLE_DEVICES is ''";
        assert_eq!(message, reason);
    }
}

/// Returns a folder with libraries under the names of the driver's library.
fn library_folder(name: &str, make: impl Fn(&Path)) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder");
    for name in ["libcuda.so", "libcuda.so.1"] {
        let _ = fs::remove_file(folder.join(name));
        make(&folder.join(name));
    }
    folder
}

#[test]
fn library_that_cannot_be_loaded_is_an_error_and_does_not_panic() {
    // An empty file, so that a real driver of the machine is not found either.
    let empty = |path: &Path| fs::write(path, "").expect("an empty file");
    let test = "library_that_cannot_be_loaded_is_an_error_and_does_not_panic";
    if std::env::var_os("SWATH_SIM_CHILD").is_none() {
        rerun(test, &library_folder("empty", empty), &[]);
        return;
    }
    for error in [Cuda::open(0).unwrap_err(), Cuda::list().unwrap_err(), Gpu::cuda(1).unwrap_err()] {
        let message = error.to_string();
        let (looked_for, place) = ("there is no CUDA device: no libcuda.so or libcuda.so.1 ", "/empty");
        assert!(
            message.starts_with(looked_for) && message.contains("LD_LIBRARY_PATH (") && message.contains(place),
            "{message}"
        );
    }
}

#[test]
fn library_that_is_not_a_driver_is_an_error_and_does_not_panic() {
    let test = "library_that_is_not_a_driver_is_an_error_and_does_not_panic";
    if std::env::var_os("SWATH_SIM_CHILD").is_none() {
        // The C library, under another name.
        let maps = fs::read_to_string("/proc/self/maps").expect("Linux");
        let libc = maps.split_whitespace().find(|word| word.contains("/libc.so") || word.contains("/libc-"));
        let libc = PathBuf::from(libc.expect("a C library"));
        let link = |path: &Path| std::os::unix::fs::symlink(&libc, path).expect("a link");
        rerun(test, &library_folder("stranger", link), &[]);
        return;
    }
    let message = Cuda::open(0).unwrap_err().to_string();
    assert!(message.contains("the driver's library has no cuInit"), "{message}");
}
