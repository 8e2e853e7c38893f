//! Device memory that is shared with other libraries of the process: freed in the order of streams, or taken from their pools.

use std::ffi::{c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use libloading::Library;
use swath_codec::DType;
use swath_gpu::{AllocatorError, Api, Buffer, CallerStream, Cuda, Device, DeviceAllocator, DeviceRaster, Error, Gpu};
use swath_sim::{CopyDevice, inside};

fn open() -> Gpu {
    Gpu::cuda(0).unwrap_or_else(|error| panic!("the simulator does not open: {error}"))
}

fn buffer(gpu: &Gpu, bytes: u64) -> Buffer {
    gpu.alloc("test", Some(bytes)).expect("there is memory")
}

fn count(events: &[String], wanted: &str) -> usize {
    events.iter().filter(|event| *event == wanted).count()
}

fn reported(events: &[String]) -> Vec<&str> {
    events.iter().filter_map(|event| event.strip_prefix("reported: ")).collect()
}

/// Another library in the process, with a stream of its own.
struct Other {
    device: Cuda,
    driver: Library,
    stream: *mut c_void,
}

impl Other {
    fn new() -> Other {
        let device = Cuda::open(0).expect("it opened before");
        // SAFETY: the simulator has no initialisers.
        let driver = unsafe { Library::new("libcuda.so.1") }.expect("the simulator");
        let mut stream = ptr::null_mut();
        assert!(device.in_cuda_context(&mut || {
            // SAFETY: the type is that of `cuda.h`, and the result has space.
            unsafe {
                let create =
                    driver.get::<unsafe extern "C" fn(*mut *mut c_void, c_uint) -> c_uint>(b"cuStreamCreate\0");
                assert_eq!(create.expect("a function")(&mut stream, 1), 0);
            }
        }));
        Other { device, driver, stream }
    }

    /// The stream, which is never destroyed.
    fn stream(&self) -> CallerStream {
        // SAFETY: the stream lives until the end of the process.
        unsafe { CallerStream::new(self.stream.addr() as u64, Box::new(())) }
    }

    /// Enqueues a copy from one address to another.
    fn copy(&self, to: u64, from: u64, bytes: usize) {
        assert!(self.device.in_cuda_context(&mut || {
            // SAFETY: the type is that of `cuda.h`, and both ranges are device memory.
            unsafe {
                let copy = self
                    .driver
                    .get::<unsafe extern "C" fn(u64, u64, usize, *mut c_void) -> c_uint>(b"cuMemcpyDtoDAsync_v2\0");
                assert_eq!(copy.expect("a function")(to, from, bytes, self.stream), 0);
            }
        }));
    }

    /// Waits for the stream, and returns the code.
    fn synchronize(&self) -> c_uint {
        let mut code = 0;
        assert!(self.device.in_cuda_context(&mut || {
            // SAFETY: the type is that of `cuda.h`.
            unsafe {
                let wait = self.driver.get::<unsafe extern "C" fn(*mut c_void) -> c_uint>(b"cuStreamSynchronize\0");
                code = wait.expect("a function")(self.stream);
            }
        }));
        code
    }
}

/// A pool of device memory, as CuPy has one: it keeps what is freed.
#[derive(Debug)]
struct TestPool {
    device: Cuda,
    free: Mutex<Vec<(u64, u64)>>,
    used: AtomicU64,
    calls: AtomicU64,
    /// Added to every address.
    shift: u64,
}

impl TestPool {
    fn new(shift: u64) -> Arc<TestPool> {
        let (free, used, calls) = (Mutex::default(), AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(TestPool { device: Cuda::open(0).expect("it opened before"), free, used, calls, shift })
    }

    /// Holds so many bytes without a user.
    fn reserve(&self, bytes: u64) {
        let address = self.device.allocate("the pool", bytes).expect("there is memory");
        self.free.lock().unwrap().push((address, bytes));
    }

    fn held(&self) -> u64 {
        self.free.lock().unwrap().iter().map(|(_, bytes)| bytes).sum()
    }
}

// SAFETY: the memory comes from the driver, and the pool gives each piece to one user at a time.
unsafe impl DeviceAllocator for TestPool {
    fn allocate(&self, bytes: u64, stream: u64) -> Result<u64, AllocatorError> {
        assert!(stream > 2, "a stream of Swath");
        self.calls.fetch_add(1, Ordering::Relaxed);
        let mut free = self.free.lock().unwrap();
        let found = free.iter().position(|&(_, size)| size >= bytes);
        let (address, size) = match found {
            Some(at) => free.swap_remove(at),
            None => {
                let address = self.device.allocate("the pool", bytes).map_err(|error| match error {
                    Error::OutOfMemory { .. } => AllocatorError::OutOfMemory,
                    other => AllocatorError::Failed { reason: other.to_string() },
                })?;
                (address, bytes)
            }
        };
        // The rest of a larger piece stays unused, as in pools that do not split.
        let _ = size;
        self.used.fetch_add(bytes, Ordering::Relaxed);
        Ok(address + self.shift)
    }

    unsafe fn free(&self, address: u64, bytes: u64, _stream: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.free.lock().unwrap().push((address - self.shift, bytes));
    }

    fn free_bytes(&self) -> Option<u64> {
        Some(self.held())
    }
}

#[test]
fn memory_is_freed_without_a_wait_for_the_device() {
    for pools in ["1", "0"] {
        if !inside("memory_is_freed_without_a_wait_for_the_device", &[("SWATH_SIM_POOLS", pools)]) {
            continue;
        }
        let gpu = open();
        let (kept, dropped) = (buffer(&gpu, 1000), buffer(&gpu, 1000));
        let mut queue = gpu.queue().expect("a queue");
        // Pinned, so that the copy waits for the stream.
        let mut bytes = gpu.pin(1000).expect("there is memory");
        bytes.fill(1);
        // SAFETY: the buffer has that many bytes, and the pinned memory lives until the end.
        unsafe { queue.upload(&bytes, kept.handle(), 0) }.expect("an upload");
        swath_sim::forget();
        drop(dropped);
        // The copy has not run if nothing waited for the device.
        bytes.fill(2);
        let events = swath_sim::events();
        let in_order = std::env::var("SWATH_SIM_POOLS").unwrap() == "1";
        assert_eq!((count(&events, "free async"), count(&events, "free")), (in_order.into(), (!in_order).into()));
        assert_eq!(events.iter().filter(|event| event.starts_with("synchronize")).count(), 0, "{events:?}");
        let mut found = vec![0; 1000];
        // SAFETY: the whole buffer, and nothing reads the bytes before the wait.
        unsafe { queue.download(kept.handle(), 0, &mut found) }.expect("a download");
        queue.synchronize().expect("nothing went wrong");
        assert_eq!(found, [if in_order { 2 } else { 1 }; 1000]);
        return;
    }
}

#[test]
fn queues_wait_for_the_allocation_and_others_are_caught() {
    if !inside("queues_wait_for_the_allocation_and_others_are_caught", &[]) {
        return;
    }
    let gpu = open();
    let (new, other) = (buffer(&gpu, 1000), Cuda::open(0).expect("it opened before"));
    let mut queue = gpu.queue().expect("a queue");
    // SAFETY: the buffer has that many bytes, and the bytes live for ever.
    unsafe { queue.upload(&[7; 1000], new.handle(), 0) }.expect("an upload");
    queue.synchronize().expect("the queue waited for the allocation");
    // A queue of another opened device does not follow the allocations of this one.
    let newer = buffer(&gpu, 1000);
    let mut stranger = other.queue().expect("a queue");
    // SAFETY: the simulator refuses the work.
    unsafe { stranger.upload(&[7; 1000], newer.handle(), 0) }.expect("it is refused later");
    assert!(stranger.synchronize().is_err(), "nothing orders the work after the allocation");
    let events = swath_sim::events();
    assert_eq!(reported(&events), ["a stream uses device memory without waiting for the stream that allocates it"]);
}

#[test]
fn use_after_free_in_the_order_of_streams_is_caught() {
    if !inside("use_after_free_in_the_order_of_streams_is_caught", &[]) {
        return;
    }
    let (gpu, other) = (open(), Other::new());
    let raster = || DeviceRaster::upload(&gpu, DType::U8, (1, 10, 100), false, &[5; 1000]).expect("there is memory");
    let to = raster();
    let target = to.cuda_address().unwrap();
    let device = Cuda::open(0).expect("it opened before");
    let mine = device.allocate_in_order("test", 1000).expect("the device has pools").expect("there is memory");
    device.wait_for_memory_stream().expect("nothing went wrong");
    other.copy(target, mine, 1000);
    // SAFETY: wrong on purpose: a copy from the memory is in another stream.
    unsafe { device.release_in_order(mine) };
    assert_eq!(other.synchronize(), 700, "an illegal address");
    let events = swath_sim::events();
    assert_eq!(reported(&events), ["a stream uses device memory that was freed before in the order of streams"]);
}

#[test]
fn memory_freed_twice_is_caught() {
    if !inside("memory_freed_twice_is_caught", &[]) {
        return;
    }
    let device = Cuda::open(0).expect("the simulator opens");
    let memory = device.allocate_in_order("test", 1000).expect("the device has pools").expect("there is memory");
    // SAFETY: nothing uses the memory; the second call is wrong on purpose.
    unsafe {
        device.release_in_order(memory);
        device.release_in_order(memory);
    }
    assert_eq!(reported(&swath_sim::events()), ["cuMemFreeAsync frees memory that is not allocated"]);
    assert_eq!(swath_sim::device_bytes(), 0);
}

#[test]
fn raster_in_use_by_another_library_is_freed_after_its_work() {
    if !inside("raster_in_use_by_another_library_is_freed_after_its_work", &[]) {
        return;
    }
    let (gpu, other) = (open(), Other::new());
    let raster =
        |value| DeviceRaster::upload(&gpu, DType::U8, (1, 10, 100), false, &[value; 1000]).expect("there is memory");
    let result = raster(0);
    for known in [false, true] {
        let used = raster(if known { 2 } else { 1 });
        if known {
            used.use_in_stream(&other.stream());
        }
        // The other library reads the pixels in its own stream, and releases the raster before the work is done.
        other.copy(result.cuda_address().unwrap(), used.cuda_address().unwrap(), 1000);
        swath_sim::forget();
        drop(used);
        let events = swath_sim::events();
        assert_eq!(count(&events, "synchronize context"), usize::from(!known), "{events:?}");
        assert_eq!((count(&events, "free async"), count(&events, "synchronize")), (1, 0), "{events:?}");
        // New memory, which may be the same.
        let next = raster(9);
        assert_eq!(other.synchronize(), 0);
        let mut found = vec![0; 1000];
        result.download(&mut found).expect("a download");
        assert_eq!(found, [if known { 2 } else { 1 }; 1000]);
        assert!(reported(&swath_sim::events()).is_empty());
        drop(next);
    }
}

#[test]
fn work_follows_the_stream_of_the_caller_without_a_wait() {
    if !inside("work_follows_the_stream_of_the_caller_without_a_wait", &[]) {
        return;
    }
    let (gpu, other) = (open(), Other::new());
    let raster =
        |value| DeviceRaster::upload(&gpu, DType::U8, (1, 10, 100), false, &[value; 1000]).expect("there is memory");
    let (from, to) = (raster(3), raster(4));
    other.copy(to.cuda_address().unwrap(), from.cuda_address().unwrap(), 1000);
    swath_sim::forget();
    gpu.follow_stream(&other.stream()).expect("nothing went wrong");
    let events = swath_sim::events();
    assert!(!events.iter().any(|event| event.starts_with("synchronize")), "{events:?}");
    let mut found = vec![0; 1000];
    to.download(&mut found).expect("a download");
    assert_eq!(found, [3; 1000], "the download came before the work of the caller");
    // SAFETY: the stream does not exist, and the simulator detects that.
    assert!(gpu.follow_stream(&unsafe { CallerStream::new(0x77, Box::new(())) }).is_err());
    let sim = Gpu::new(CopyDevice::new());
    assert!(matches!(sim.follow_stream(&CallerStream::legacy()), Err(Error::Unable { .. })));
}

#[test]
fn memory_in_the_pool_of_the_driver_counts_as_free() {
    let variables = [("SWATH_SIM_MEMORY", "1000000"), ("SWATH_SIM_POOL_KEEPS", "1")];
    if !inside("memory_in_the_pool_of_the_driver_counts_as_free", &variables) {
        return;
    }
    let gpu = open();
    drop(buffer(&gpu, 800_000));
    assert_eq!(gpu.driver_memory().unwrap().free, 200_000, "the pool keeps the memory");
    assert_eq!(gpu.memory().unwrap().free, 1_000_000);
    drop(buffer(&gpu, 900_000));
    let refused = gpu.alloc("test", Some(900_001)).expect_err("more than nine tenths");
    assert!(matches!(refused, Error::Memory { free: 900_000, .. }), "{refused}");
}

#[test]
fn guard_does_not_refuse_what_the_callers_pool_has() {
    if !inside("guard_does_not_refuse_what_the_callers_pool_has", &[("SWATH_SIM_MEMORY", "1000000")]) {
        return;
    }
    let (gpu, pool) = (open(), TestPool::new(0));
    pool.reserve(900_000);
    let refused = gpu.alloc("test", Some(500_000)).expect_err("the driver has 100,000 bytes");
    assert!(matches!(refused, Error::Memory { free: 90_000, .. }), "{refused}");
    gpu.set_allocator(Some(pool.clone())).expect("a CUDA device");
    assert_eq!(gpu.memory().unwrap().free, 1_000_000);
    swath_sim::forget();
    let given = buffer(&gpu, 500_000);
    assert_eq!((pool.used.load(Ordering::Relaxed), pool.calls.load(Ordering::Relaxed)), (500_000, 1));
    assert!(!swath_sim::events().iter().any(|event| event.starts_with("alloc")), "the memory is that of the pool");
    // Memory goes back to where it came from, whatever the allocator is by then.
    gpu.set_allocator(None).expect("a CUDA device");
    drop(given);
    assert_eq!((pool.used.load(Ordering::Relaxed), pool.held()), (0, 500_000));
}

#[test]
fn allocator_that_fails_is_a_typed_error() {
    if !inside("allocator_that_fails_is_a_typed_error", &[("SWATH_SIM_MEMORY", "1000000")]) {
        return;
    }
    let gpu = open();
    let misaligned = TestPool::new(8);
    gpu.set_allocator(Some(misaligned.clone())).expect("a CUDA device");
    let error = gpu.alloc("the raster", Some(1000)).expect_err("kernels need aligned memory");
    assert!(matches!(&error, Error::Allocator { stage: "the raster", .. }) && !error.is_memory(), "{error}");
    assert_eq!(misaligned.used.load(Ordering::Relaxed), 0, "the memory was given back");
    // The pool claims memory that it cannot give.
    #[derive(Debug)]
    struct Empty;
    // SAFETY: it gives nothing.
    unsafe impl DeviceAllocator for Empty {
        fn allocate(&self, _: u64, _: u64) -> Result<u64, AllocatorError> {
            Err(AllocatorError::OutOfMemory)
        }
        unsafe fn free(&self, _: u64, _: u64, _: u64) {}
    }
    gpu.set_allocator(Some(Arc::new(Empty))).expect("a CUDA device");
    let error = gpu.alloc("the raster", Some(1000)).expect_err("there is no memory");
    assert_eq!(error, Error::OutOfMemory { stage: "the raster", needed: 1000 });
    assert!(error.is_memory(), "a smaller batch is tried");
    let sim = Gpu::new(CopyDevice::new());
    assert!(matches!(sim.set_allocator(Some(Arc::new(Empty))), Err(Error::NotCuda { .. })));
    assert_eq!(gpu.info().api, Api::Cuda);
}
