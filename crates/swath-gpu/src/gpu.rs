//! The device that the engine uses: it guards allocations and counts what the device does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::{Api, Cuda, Device, DeviceInfo, Handle, MemoryInfo, OpenCl, Queue};
use crate::decode::Lane;
use crate::encode::EncoderMemory;
use crate::error::{Error, Result};
use crate::memory::allocator::{ALIGNMENT, AllocatorError, DeviceAllocator};
use crate::memory::buffer::{Buffer, Origin, Pinned, Shared};
use crate::memory::caller_stream::CallerStream;
use crate::memory::pinned_pool::Piece;
use crate::stats::DeviceStats;
use crate::stream::Stream;
use crate::transfer_pool::RangeReader;

/// The most finished writes whose device memory is kept. More write at the same time only by request of the caller.
const KEPT_ENCODERS: usize = 2;

/// A device to decode and encode on. Clones are the same device and share its memory.
#[derive(Debug, Clone)]
pub struct Gpu {
    pub(crate) shared: Arc<Shared>,
    /// Lanes of finished reads, kept with their memory for later reads.
    spare: Arc<Mutex<Vec<Lane>>>,
    /// Device memory of finished writes, kept for later writes.
    spare_encoders: Arc<Mutex<Vec<EncoderMemory>>>,
    /// Why [`Gpu::auto`] did not use a CUDA device that exists.
    passed_over: Option<Arc<str>>,
}

impl Gpu {
    /// Wraps a device.
    pub fn new(device: impl Device + 'static) -> Gpu {
        let shared = Arc::new(Shared::new(Box::new(device)));
        Gpu { shared, spare: Arc::default(), spare_encoders: Arc::default(), passed_over: None }
    }

    /// The OpenCL device that `SWATH_OPENCL_DEVICE` names, or else the first GPU.
    ///
    /// # Errors
    /// [`Error::NoDevice`] states what is missing and where the search looked.
    pub fn opencl() -> Result<Gpu> {
        OpenCl::open().map(Gpu::new)
    }

    /// The CUDA device with this number.
    ///
    /// # Errors
    /// [`Error::NoDevice`] states what is missing and where the search looked.
    pub fn cuda(index: usize) -> Result<Gpu> {
        Cuda::open(index).map(Gpu::new)
    }

    /// The first GPU that can be used: CUDA before OpenCL.
    ///
    /// # Errors
    /// [`Error::NoGpu`] states what each interface lacks.
    pub fn auto() -> Result<Gpu> {
        Gpu::cuda(0).or_else(|cuda| match Gpu::opencl() {
            Err(opencl) => Err(Error::NoGpu { cuda: Box::new(cuda), opencl: Box::new(opencl) }),
            // A machine without CUDA is normal; a CUDA device that cannot be used is reported.
            Ok(gpu) if matches!(cuda, Error::NoDevice { .. }) => Ok(gpu),
            Ok(gpu) => Ok(Gpu { passed_over: Some(cuda.to_string().into()), ..gpu }),
        })
    }

    /// Why [`auto`](Gpu::auto) did not use a CUDA device that exists.
    pub fn passed_over(&self) -> Option<&str> {
        self.passed_over.as_deref()
    }

    /// Whether both are the same opened device. Memory of one opened device cannot be used by another.
    pub fn is(&self, other: &Gpu) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Properties of the device.
    pub fn info(&self) -> &DeviceInfo {
        self.shared.device.info()
    }

    /// Counts of what the device did so far.
    pub fn stats(&self) -> DeviceStats {
        self.shared.counters.snapshot()
    }

    /// Resets the peak of the memory in use, to measure the next operation alone.
    pub fn reset_peak(&self) {
        self.shared.counters.reset_peak();
    }

    /// The memory of the device. Memory that an allocator or a pool of the driver holds without a user, and gives to Swath, counts as free.
    ///
    /// # Errors
    /// The driver's error.
    pub fn memory(&self) -> Result<MemoryInfo> {
        let reserve = self.reserve(self.shared.allocator().as_deref(), MemoryUse::Queues)?;
        let MemoryInfo { total, free } = self.driver_memory()?;
        Ok(MemoryInfo { total, free: free.saturating_add(reserve).min(total) })
    }

    /// The memory of the device as the driver counts it: the free memory does not include what pools hold. No allocator is called.
    ///
    /// # Errors
    /// The driver's error.
    pub fn driver_memory(&self) -> Result<MemoryInfo> {
        self.shared.device.memory(self.shared.counters.current_bytes())
    }

    /// Takes all device memory from an allocator from now on, or from the driver again. Memory that is kept for later operations is
    /// freed; memory in use goes back to where it came from. The libraries for pictures, nvJPEG and nvJPEG2000, still allocate the
    /// memory of their own states, and cuFile its own.
    ///
    /// # Errors
    /// [`Error::NotCuda`] when this is not a CUDA device.
    pub fn set_allocator(&self, allocator: Option<Arc<dyn DeviceAllocator>>) -> Result<()> {
        if self.info().api != Api::Cuda {
            return Err(Error::NotCuda { device: self.info().name.clone() });
        }
        let before = {
            let mut current = self.shared.allocator.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, allocator)
        };
        // Both may call the allocator, so the lock is not held.
        self.trim();
        drop(before);
        Ok(())
    }

    /// Bytes of device memory that finished reads and writes left for later ones.
    pub fn kept_bytes(&self) -> u64 {
        let reads: u64 = lock(&self.spare).iter().map(Lane::bytes).sum();
        reads + lock(&self.spare_encoders).iter().map(EncoderMemory::bytes).sum::<u64>()
    }

    /// Bytes of pinned host memory that finished operations left for later ones. The lanes of finished reads have more.
    pub fn kept_pinned_bytes(&self) -> usize {
        self.shared.pinned.bytes()
    }

    /// Frees all memory that is kept for later operations. Returns whether there was any.
    pub fn trim(&self) -> bool {
        let (lanes, encoders) =
            (std::mem::take(&mut *lock(&self.spare)), std::mem::take(&mut *lock(&self.spare_encoders)));
        let on_device = lanes.iter().any(|lane| lane.bytes() > 0) || encoders.iter().any(|kept| kept.bytes() > 0);
        // First, because lanes give their pinned memory back.
        drop((lanes, encoders));
        if on_device {
            // The pool of the driver gives memory back to the device when the host waits. If the driver fails, the next call reports it.
            let _ = self.shared.device.wait_for_memory_stream();
        }
        self.shared.pinned.clear(&*self.shared.device) || on_device
    }

    /// Frees device memory that is kept for later writes.
    pub fn trim_writes(&self) {
        drop(std::mem::take(&mut *lock(&self.spare_encoders)));
    }

    /// Allocates device memory, if nine tenths of the free memory are enough. `needed` is `None` when the size does not fit in 64 bits: callers
    /// add sizes with checked arithmetic and pass the result.
    ///
    /// # Errors
    /// [`Error::Memory`] with the stage, the bytes needed and the bytes free, before anything is allocated.
    pub fn alloc(&self, stage: &'static str, needed: Option<u64>) -> Result<Buffer> {
        self.alloc_for(MemoryUse::Queues, stage, needed)
    }

    /// As [`alloc`](Gpu::alloc), for a use that may exclude some memory.
    pub(crate) fn alloc_for(&self, usage: MemoryUse, stage: &'static str, needed: Option<u64>) -> Result<Buffer> {
        self.try_alloc(usage, stage, needed).or_else(|error| {
            // Memory that is kept for later reads is freed before the allocation is refused.
            if !error.is_memory() || !self.trim() {
                return Err(error);
            }
            self.try_alloc(usage, stage, needed)
        })
    }

    fn try_alloc(&self, usage: MemoryUse, stage: &'static str, needed: Option<u64>) -> Result<Buffer> {
        let allocator = self.shared.allocator();
        let reserve = self.reserve(allocator.as_deref(), usage)?;
        let free = self.driver_memory()?.free.saturating_add(reserve) / 10 * 9;
        let free = free.min(self.info().largest_buffer);
        let bytes = match needed {
            Some(bytes) if bytes <= free => bytes.max(1),
            _ => return Err(Error::Memory { stage, needed: needed.unwrap_or(u64::MAX), free }),
        };
        let (handle, origin) = match allocator {
            Some(allocator) => (self.ask_allocator(allocator.as_ref(), stage, bytes)?, Origin::Allocator(allocator)),
            None => self.ask_driver(usage, stage, bytes)?,
        };
        self.shared.counters.allocated(bytes);
        Ok(Buffer::new(&self.shared, handle, bytes, origin))
    }

    /// Bytes that can be allocated in addition to what the driver counts as free.
    fn reserve(&self, allocator: Option<&dyn DeviceAllocator>, usage: MemoryUse) -> Result<u64> {
        match (allocator, usage) {
            (Some(allocator), _) => {
                let mut held = Some(0);
                self.shared.device.in_cuda_context(&mut || held = allocator.free_bytes());
                Ok(held.unwrap_or(u64::MAX))
            }
            (None, MemoryUse::Queues) => self.shared.device.free_in_pool(),
            (None, MemoryUse::Files) => Ok(0),
        }
    }

    fn ask_driver(&self, usage: MemoryUse, stage: &'static str, bytes: u64) -> Result<(Handle, Origin)> {
        let device = &self.shared.device;
        let in_order = (usage == MemoryUse::Queues).then(|| device.allocate_in_order(stage, bytes)).flatten();
        match in_order {
            Some(allocated) => Ok((allocated?, Origin::InOrder)),
            None => Ok((device.allocate(stage, bytes)?, Origin::Driver)),
        }
    }

    fn ask_allocator(&self, allocator: &dyn DeviceAllocator, stage: &'static str, bytes: u64) -> Result<Handle> {
        let device = &self.shared.device;
        let stream = device.memory_stream()?;
        let mut allocated = Err(AllocatorError::OutOfMemory);
        device.in_cuda_context(&mut || allocated = allocator.allocate(bytes, stream));
        let address = allocated.map_err(|error| match error {
            AllocatorError::OutOfMemory => Error::OutOfMemory { stage, needed: bytes },
            AllocatorError::Failed { reason } => Error::Allocator { stage, reason },
        })?;
        if address == 0 || address % ALIGNMENT != 0 {
            // SAFETY: the memory was just allocated, and nothing uses it.
            device.in_cuda_context(&mut || unsafe { allocator.free(address, bytes, stream) });
            let reason = format!("address {address:#x} is not a multiple of {ALIGNMENT}");
            return Err(Error::Allocator { stage, reason });
        }
        device.follow_memory_stream();
        Ok(address)
    }

    /// Lets later work of Swath on this device wait for what a CUDA stream of another library has now. The host waits for nothing.
    ///
    /// # Errors
    /// The driver's error; [`Error::Unable`] when this is not a CUDA device.
    pub fn follow_stream(&self, stream: &CallerStream) -> Result<()> {
        // SAFETY: `CallerStream::new` has the promise that the stream is alive.
        unsafe { self.shared.device.order_after_stream(stream.handle())? };
        self.shared.device.follow_memory_stream();
        Ok(())
    }

    /// Waits for all work in a CUDA stream of another library, so that its results can be read. 1 and 2 are the default streams: the legacy
    /// stream and the per-thread stream.
    ///
    /// # Errors
    /// The driver's error; [`Error::Unable`] when this is not a CUDA device.
    ///
    /// # Safety
    /// `stream` is 1, 2, or a live stream of the device's primary context.
    pub unsafe fn wait_for_stream(&self, stream: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.shared.device.wait_for_stream(stream) }
    }

    /// Waits for all work of this process on the CUDA device, so that the results of a library that does not name its stream can be read.
    ///
    /// # Errors
    /// The driver's error; [`Error::Unable`] when this is not a CUDA device.
    pub fn wait_for_context(&self) -> Result<()> {
        self.shared.device.wait_for_context()
    }

    /// Pinned host memory of at least this size, which the device copies from and to by itself: memory of an earlier operation, or new
    /// memory. Its content is arbitrary.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when the system has too little.
    pub fn pin(&self, bytes: usize) -> Result<Pinned> {
        let (device, bytes) = (&self.shared.device, bytes.max(1));
        let new = || device.pin(bytes).map(|(handle, memory)| Piece { handle, memory, bytes });
        let piece = self.shared.pinned.take(bytes).map_or_else(new, Ok).or_else(|error| {
            // Memory that is kept for later operations is freed before the allocation is refused.
            if error.is_memory() && self.trim() { new() } else { Err(error) }
        })?;
        Ok(Pinned { shared: Arc::clone(&self.shared), piece })
    }

    /// Reads ranges of a file into memory on several threads, which wait between calls: all reads are submitted before the first is
    /// waited for. A range is an offset and the memory for its bytes.
    ///
    /// # Errors
    /// The error of a read that failed.
    pub fn read_ranges(&self, read: RangeReader, ranges: Vec<(u64, &mut [u8])>) -> std::io::Result<()> {
        self.shared.transfers.read(read, ranges)
    }

    /// A queue of the device itself. Work in it is not counted.
    ///
    /// # Errors
    /// The driver's error.
    pub fn queue(&self) -> Result<Box<dyn Queue>> {
        self.shared.device.queue()
    }

    /// A queue whose work is counted.
    pub(crate) fn stream(&self) -> Result<Stream> {
        Ok(Stream::new(Arc::clone(&self.shared), self.queue()?))
    }

    /// A lane to decode in: one of an earlier read, or a new one. If the kept lanes together hold more than the budget, the others are freed.
    pub(crate) fn take_lane(&self, budget: u64) -> Result<Lane> {
        let mut spare = lock(&self.spare);
        let lane = spare.pop();
        let too_much = spare.iter().chain(&lane).map(Lane::bytes).sum::<u64>() > budget;
        let freed = if too_much { std::mem::take(&mut *spare) } else { Vec::new() };
        drop(spare);
        // Without the lock: an allocator may be called.
        drop(freed);
        lane.map_or_else(|| Lane::new(self), Ok)
    }

    pub(crate) fn give_back(&self, lane: Lane) {
        lock(&self.spare).push(lane);
    }

    /// Takes the device memory of a finished write.
    pub(crate) fn take_encoder_memory(&self) -> Option<EncoderMemory> {
        lock(&self.spare_encoders).pop()
    }

    /// Keeps the device memory of a finished write.
    pub(crate) fn keep_encoder_memory(&self, memory: EncoderMemory) {
        let mut spare = lock(&self.spare_encoders);
        if spare.len() < KEPT_ENCODERS {
            spare.push(memory);
        }
    }
}

fn lock<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What device memory is used by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryUse {
    /// Work in queues.
    Queues,
    /// Also transfers of cuFile, which cannot map memory of a pool of the driver.
    Files,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::copy_device::CopyDevice;

    /// A device of 10,000 bytes: 9,000 may be used.
    fn sim() -> CopyDevice {
        CopyDevice::new().latency(Duration::ZERO).total(10_000)
    }

    #[test]
    fn guard_refuses_before_anything_is_allocated_and_names_the_numbers() {
        let sim = sim();
        let gpu = Gpu::new(sim.clone());
        let held = gpu.alloc("the first", Some(2_000)).unwrap();
        let before = gpu.stats();
        let error = gpu.alloc("the raster", Some(7_201)).unwrap_err();
        assert_eq!(error, Error::Memory { stage: "the raster", needed: 7_201, free: 7_200 });
        assert_eq!(error.to_string(), "the raster needs 7201 bytes of device memory, but 7200 are free");
        assert!(error.is_memory());
        assert_eq!(gpu.stats(), before);
        assert_eq!(sim.held(), held.bytes());
    }

    #[test]
    fn nine_tenths_of_what_is_free_may_be_used_and_not_a_byte_more() {
        let gpu = Gpu::new(sim());
        assert!(gpu.alloc("test", Some(9_001)).is_err());
        let first = gpu.alloc("test", Some(9_000)).unwrap();
        // 1,000 are left, of which 900 may be used.
        assert!(gpu.alloc("test", Some(901)).is_err());
        assert_eq!(gpu.alloc("test", Some(900)).unwrap().bytes(), 900);
        drop(first);
        assert!(gpu.alloc("test", Some(9_000)).is_ok(), "what was given back is free again");
    }

    #[test]
    fn size_that_is_no_number_is_refused_as_the_largest_one() {
        let gpu = Gpu::new(sim().total(u64::MAX));
        let needed = u64::MAX.checked_mul(2);
        let free = u64::MAX / 10 * 9;
        assert_eq!(gpu.alloc("test", needed).unwrap_err(), Error::Memory { stage: "test", needed: u64::MAX, free });
        assert_eq!(
            gpu.alloc("test", Some(u64::MAX)).unwrap_err(),
            Error::Memory { stage: "test", needed: u64::MAX, free }
        );
        assert_eq!(gpu.stats().allocations, 0);
    }

    #[test]
    fn buffers_free_themselves_and_the_peak_remembers_them() {
        let sim = sim();
        let gpu = Gpu::new(sim.clone());
        let (first, second) = (gpu.alloc("test", Some(3_000)).unwrap(), gpu.alloc("test", Some(2_000)).unwrap());
        drop(first);
        let third = gpu.alloc("test", Some(500)).unwrap();
        let stats = gpu.stats();
        assert_eq!((stats.allocations, stats.current_bytes, stats.peak_bytes), (3, 2_500, 5_000));
        assert_eq!(sim.held(), 2_500, "the device holds what is counted");

        gpu.reset_peak();
        assert_eq!(gpu.stats().peak_bytes, 2_500);
        drop((second, third));
        let stats = gpu.stats();
        assert_eq!((stats.current_bytes, stats.peak_bytes, sim.held()), (0, 2_500, 0));
    }

    #[test]
    fn buffer_outlives_the_value_that_it_was_made_by() {
        let sim = sim();
        let buffer = Gpu::new(sim.clone()).alloc("test", Some(100)).unwrap();
        assert_eq!(sim.held(), 100);
        drop(buffer);
        assert_eq!(sim.held(), 0);
    }

    #[test]
    fn allocation_that_the_driver_refuses_is_out_of_memory_and_leaks_nothing() {
        let sim = sim().fail_allocation(2);
        let gpu = Gpu::new(sim.clone());
        let first = gpu.alloc("the first", Some(100)).unwrap();
        let error = gpu.alloc("the second", Some(200)).unwrap_err();
        assert_eq!(error, Error::OutOfMemory { stage: "the second", needed: 200 });
        assert!(error.is_memory());
        let stats = gpu.stats();
        assert_eq!((stats.allocations, stats.current_bytes, stats.peak_bytes, sim.held()), (1, 100, 100, 100));
        assert!(gpu.alloc("the third", Some(200)).is_ok(), "the device is as it was");
        drop(first);
        assert_eq!((gpu.stats().current_bytes, sim.held()), (0, 0));
    }

    #[test]
    fn empty_buffers_are_buffers() {
        let gpu = Gpu::new(sim());
        assert_eq!(gpu.alloc("test", Some(0)).unwrap().bytes(), 1);
        assert_eq!(gpu.pin(0).unwrap().len(), 1);
    }

    #[test]
    fn pinned_memory_is_no_device_memory_and_not_written_before_its_use() {
        let sim = sim();
        let gpu = Gpu::new(sim.clone());
        let mut pinned = gpu.pin(20_000).unwrap();
        assert!(pinned.len() == 20_000 && pinned.iter().all(|&byte| byte == 0xA5), "the poison of the device");
        pinned.fill(7);
        assert_eq!((gpu.stats().current_bytes, sim.held()), (0, 0));
    }
}
