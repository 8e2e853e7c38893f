//! Reads and writes that share the device with other libraries: their memory, their streams, their buffers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use swath::device::{AllocatorError, CallerStream, DeviceAllocator, DeviceRaster};
use swath::tiff::Compression;
use swath::{DType, Error, Layout, ReadRequest, WriteConfig, WriteOptions, WritePlan};
use swath_gpu::{Cuda, Device as _, Queue};

use crate::files::{Cut, File};
use crate::subject::{Subject, same_pixels};

fn file() -> File {
    File {
        compression: Compression::DEFLATE,
        bands: 3,
        width: 50,
        height: 40,
        cut: Cut::Tiles(16, 16),
        ..File::default()
    }
}

/// The raster that the caller has receives the pixels, in both layouts. Any other raster is an error before it changes.
pub(crate) fn caller_raster_gets_the_pixels_and_others_are_refused(subject: &Subject) {
    let image = file().open();
    let dtype = image.dtype();
    for layout in [Layout::BandsFirst, Layout::BandsLast] {
        let last = layout == Layout::BandsLast;
        let request = subject.strict(&ReadRequest::new()).layout(layout).window(3..30, 5..45).bands([2, 0]);
        let expected =
            image.read(&ReadRequest::new().layout(layout).window(3..30, 5..45).bands([2, 0])).expect("the CPU reads");
        let raster = |dtype: DType, bands, rows, cols, last| {
            let bytes = vec![7; dtype.size() * bands * rows * cols];
            DeviceRaster::upload(&subject.gpu, dtype, (bands, rows as u64, cols as u64), last, &bytes)
                .expect("there is memory")
        };
        let out = raster(dtype, 2, 27, 40, last);
        let report = image.read_into_device(&request, &out).expect("it reads");
        assert!(report.gpu.is_some());
        let mut found = vec![0; out.bytes() as usize];
        out.download(&mut found).expect("a download");
        same_pixels(&format!("{layout:?}"), expected.pixels.as_bytes(), &found);

        for (bands, rows, cols, last) in
            [(2, 27, 41, last), (2, 28, 40, last), (1, 27, 40, last), (3, 27, 40, last), (2, 27, 40, !last)]
        {
            let other = raster(dtype, bands, rows, cols, last);
            let error = image.read_into_device(&request, &other).expect_err("another shape");
            assert!(matches!(error, Error::RasterShape { .. }), "{error}");
            let mut found = vec![0; other.bytes() as usize];
            other.download(&mut found).expect("a download");
            assert!(found.iter().all(|&byte| byte == 7), "the raster was changed");
        }
        let of_type = if dtype == DType::F64 { DType::F32 } else { DType::F64 };
        let error = image.read_into_device(&request, &raster(of_type, 2, 27, 40, last)).expect_err("another type");
        assert!(matches!(error, Error::DType { .. }), "{error}");
    }
}

/// Memory of the driver, counted.
#[derive(Debug)]
struct Counted {
    device: Cuda,
    calls: AtomicU64,
    bytes: AtomicU64,
}

// SAFETY: the memory comes from the driver.
unsafe impl DeviceAllocator for Counted {
    fn allocate(&self, bytes: u64, _stream: u64) -> Result<u64, AllocatorError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.device.allocate("the allocator", bytes).map_err(|_| AllocatorError::OutOfMemory)
    }

    unsafe fn free(&self, address: u64, bytes: u64, _stream: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        // SAFETY: Swath's work is done, as the simulator checks.
        unsafe { self.device.release(address) };
    }

    fn free_bytes(&self) -> Option<u64> {
        Some(0)
    }
}

/// A read and a write take all device memory from the caller's allocator, and give all of it back.
pub(crate) fn all_memory_of_reads_and_writes_comes_from_the_allocator(subject: &Subject) {
    let device = Cuda::open(0).expect("the simulator opens");
    let counted = Arc::new(Counted { device, calls: AtomicU64::new(0), bytes: AtomicU64::new(0) });
    subject.gpu.trim();
    subject.gpu.set_allocator(Some(counted.clone())).expect("a CUDA device");
    swath_sim::forget();
    let before = subject.gpu.stats();
    let image = file().open();
    let (mut raster, _) = image.read_to_device(&subject.strict(&ReadRequest::new()), &subject.gpu).expect("it reads");
    let plan = WritePlan::new(raster_shape(&raster), WriteOptions::new()).expect("a plan");
    plan.to_bytes(&mut raster, &WriteConfig::new().device(&subject.gpu)).expect("it writes");
    let done = subject.gpu.stats().since(&before);
    assert!(done.allocations > 4, "{done}");
    assert_eq!(counted.calls.load(Ordering::Relaxed), done.allocations);
    let events = swath_sim::events();
    let allocated = events.iter().filter(|event| event.starts_with("alloc ")).count() as u64;
    assert_eq!(allocated, done.allocations, "the driver gave memory to others: {events:?}");
    assert!(!events.iter().any(|event| event.starts_with("reported:")), "{events:?}");
    drop(raster);
    subject.gpu.set_allocator(None).expect("a CUDA device");
    assert_eq!(counted.bytes.load(Ordering::Relaxed), 0, "memory was not given back");
}

fn raster_shape(raster: &DeviceRaster) -> swath::write::ImageShape {
    swath::write::ImageShape::new(raster.rows(), raster.cols(), raster.bands(), raster.dtype())
}

/// The stream of a queue, which stands for another library.
fn stream_of(queue: &mut dyn Queue) -> CallerStream {
    let mut handle = 0;
    let found = queue.in_cuda_stream(&mut |stream| {
        handle = stream.addr() as u64;
        Ok(())
    });
    found.expect("a stream of CUDA").expect("nothing went wrong");
    // SAFETY: the queue outlives the test's use of the stream.
    unsafe { CallerStream::new(handle, Box::new(())) }
}

/// Work that the caller's stream has before the read does not overwrite what the read writes, and the host waits only for its own batches.
pub(crate) fn read_follows_the_callers_stream_and_frees_in_its_order(subject: &Subject) {
    let image = file().open();
    let mut theirs = subject.gpu.queue().expect("a queue");
    let stream = stream_of(&mut *theirs);
    let request = subject.strict(&ReadRequest::new()).layout(Layout::BandsLast);
    let expected = image.read(&ReadRequest::new().layout(Layout::BandsLast)).expect("the CPU reads");
    let size = expected.pixels.as_bytes().len();
    let upload = |byte| {
        DeviceRaster::upload(&subject.gpu, image.dtype(), (3, 40, 50), true, &vec![byte; size])
            .expect("there is memory")
    };
    let (old, out) = (upload(9), upload(8));
    let overwrite = |theirs: &mut dyn Queue| {
        let (from, to) = (old.cuda_address().expect("CUDA"), out.cuda_address().expect("CUDA"));
        // SAFETY: both rasters have this size.
        unsafe { theirs.copy(from, 0, to, 0, size as u64) }.expect("a copy");
    };
    let mut found = vec![0; size];
    for ordered in [false, true] {
        overwrite(&mut *theirs);
        let request = if ordered { request.clone().stream(&stream) } else { request.clone() };
        swath_sim::forget();
        let report = image.read_into_device(&request, &out).expect("it reads");
        let waits = swath_sim::events().iter().filter(|event| event.starts_with("synchronize")).count() as u64;
        assert_eq!(waits, report.gpu.expect("a device did it").stats.synchronisations);
        theirs.synchronize().expect("nothing went wrong");
        out.download(&mut found).expect("a download");
        // Without the stream, the caller's work comes later: the test can see the difference.
        assert_eq!(found == expected.pixels.as_bytes(), ordered);
    }

    // The caller reads the pixels in its stream and drops the raster at once.
    let (raster, _) = image.read_to_device(&request.clone().stream(&stream), &subject.gpu).expect("it reads");
    let (from, to) = (raster.cuda_address().expect("CUDA"), out.cuda_address().expect("CUDA"));
    // SAFETY: both rasters have this size.
    unsafe { theirs.copy(from, 0, to, 0, size as u64) }.expect("a copy");
    swath_sim::forget();
    drop(raster);
    let events = swath_sim::events();
    assert!(!events.iter().any(|event| event.starts_with("synchronize")), "{events:?}");
    theirs.synchronize().expect("the memory was there until the copy was done");
    out.download(&mut found).expect("a download");
    same_pixels("after the free", expected.pixels.as_bytes(), &found);
}

/// A write reads the pixels after what the caller's stream has when it begins.
pub(crate) fn write_follows_the_callers_stream(subject: &Subject) {
    let mut theirs = subject.gpu.queue().expect("a queue");
    let stream = stream_of(&mut *theirs);
    let upload = |byte| {
        DeviceRaster::upload(&subject.gpu, DType::U8, (1, 64, 64), true, &[byte; 4096]).expect("there is memory")
    };
    let plan = |raster: &DeviceRaster| WritePlan::new(raster_shape(raster), WriteOptions::new()).expect("a plan");
    let config = WriteConfig::new().device(&subject.gpu);
    let mut expected = upload(5);
    let (expected, _) = plan(&expected).to_bytes(&mut expected, &config).expect("it writes");
    for ordered in [false, true] {
        let (new, mut written) = (upload(5), upload(6));
        let (from, to) = (new.cuda_address().expect("CUDA"), written.cuda_address().expect("CUDA"));
        // SAFETY: both rasters have this size.
        unsafe { theirs.copy(from, 0, to, 0, 4096) }.expect("a copy");
        let config = if ordered { config.clone().stream(&stream) } else { config.clone() };
        let (bytes, _) = plan(&written).to_bytes(&mut written, &config).expect("it writes");
        assert_eq!(bytes == expected, ordered, "the pixels were read before the caller's work");
        theirs.synchronize().expect("nothing went wrong");
    }
}
