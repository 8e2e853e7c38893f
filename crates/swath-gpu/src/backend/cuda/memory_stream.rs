//! The stream in whose order device memory is allocated and freed.
//!
//! `cuMemFreeAsync` gives memory back without a wait for the device. The memory pool of the driver may then give the same memory to the
//! next allocation in the stream, and may let that allocation wait for the work of another library that used the memory before. So work in
//! another stream may use new memory only after the allocation in the order of streams. Every queue of the device therefore waits, before
//! its next work, for what the memory stream had at the last allocation: the host waits for nothing.
//!
//! The same stream orders Swath's work after the streams of other libraries.

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::sys::{
    CUdeviceptr, CUevent_flags_enum, CUmemPool_attribute_enum as PoolAttribute, CUstream, CUstream_flags_enum,
};

use super::context::Context;
use crate::backend::Handle;
use crate::error::{Error, Result};

/// The memory stream of a context.
#[derive(Debug)]
pub(super) struct MemoryStream {
    /// Null until the context has created it.
    stream: CUstream,
    /// The number of entries in the stream that queues have to wait for.
    entries: AtomicU64,
}

impl MemoryStream {
    pub(super) fn none() -> MemoryStream {
        MemoryStream { stream: ptr::null_mut(), entries: AtomicU64::new(0) }
    }

    /// The number of entries that queues have to wait for. A queue that has waited at this number need not wait again.
    pub(super) fn entries(&self) -> u64 {
        self.entries.load(Ordering::Acquire)
    }

    /// Lets later work of all queues wait for what the stream has now.
    pub(super) fn add_entry(&self) {
        self.entries.fetch_add(1, Ordering::Release);
    }
}

impl Context {
    pub(super) fn create_memory_stream(&mut self) -> Result<()> {
        let mut stream = ptr::null_mut();
        let current = self.enter()?;
        // SAFETY: the stream is written where there is room for it.
        let code =
            unsafe { (current.driver.stream_create)(&mut stream, CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32) };
        current.driver.check("cuStreamCreate", code)?;
        drop(current);
        self.memory.stream = stream;
        Ok(())
    }

    /// The memory stream, which lives as long as the context.
    pub(super) fn memory_stream(&self) -> CUstream {
        self.memory.stream
    }

    /// Allocates memory of the device's pool in the order of the memory stream.
    pub(super) fn allocate_in_order(&self, stage: &'static str, bytes: u64) -> Result<Handle> {
        let size = usize::try_from(bytes).map_err(|_| Error::OutOfMemory { stage, needed: bytes })?;
        let stream = self.memory_stream();
        let mut address: CUdeviceptr = 0;
        let current = self.enter()?;
        // SAFETY: an address is written where there is room for it, and the stream lives as long as the context.
        let code = unsafe { (current.driver.memory_alloc_async)(&mut address, size, stream) };
        current.driver.check_memory("cuMemAllocAsync", code, stage, bytes)?;
        self.memory.add_entry();
        Ok(address)
    }

    /// Frees memory of [`allocate_in_order`](Context::allocate_in_order) in the order of the memory stream.
    ///
    /// # Safety
    /// The address is freed once, and all work that uses it is done or is ordered before what the memory stream has.
    pub(super) unsafe fn free_in_order(&self, address: Handle) {
        // If the driver fails here, an earlier call reported why, and nothing else can be done.
        if let Ok(current) = self.enter() {
            // SAFETY: the caller's promise.
            unsafe { (current.driver.memory_free_async)(address, self.memory_stream()) };
        }
    }

    /// The bytes that the device's memory pool holds without an allocation in them: `cuMemGetInfo` does not count them as free.
    pub(super) fn free_in_pool(&self) -> Result<u64> {
        let mut pool = ptr::null_mut();
        let current = self.enter()?;
        // SAFETY: the pool is written where there is room for it.
        let code = unsafe { (current.driver.device_pool)(&mut pool, self.device()) };
        current.driver.check("cuDeviceGetMemPool", code)?;
        let attribute = |attribute: PoolAttribute| {
            let mut value = 0_u64;
            // SAFETY: for these attributes the driver writes a number of 64 bits, for which there is room.
            let code = unsafe { (current.driver.pool_attribute)(pool, attribute, ptr::from_mut(&mut value).cast()) };
            current.driver.check("cuMemPoolGetAttribute", code).map(|()| value)
        };
        let reserved = attribute(PoolAttribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
        Ok(reserved.saturating_sub(attribute(PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?))
    }

    /// Waits on the host for the memory stream: then its allocations can be used outside of streams.
    pub(super) fn wait_for_memory(&self) -> Result<()> {
        let current = self.enter()?;
        // SAFETY: the stream lives as long as the context.
        let code = unsafe { (current.driver.stream_synchronize)(self.memory_stream()) };
        current.driver.check("cuStreamSynchronize", code)
    }

    /// Lets later work of one stream wait for what another one has now. The host waits for nothing.
    ///
    /// # Safety
    /// Both are live streams of this context or default streams.
    pub(super) unsafe fn order(&self, later: CUstream, earlier: CUstream) -> Result<()> {
        let mut event = ptr::null_mut();
        let current = self.enter()?;
        // SAFETY: the event is written where there is room for it.
        let code =
            unsafe { (current.driver.event_create)(&mut event, CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32) };
        current.driver.check("cuEventCreate", code)?;
        // SAFETY: the event was just created in this context, and the caller promises the streams. The driver keeps the event until the
        // work behind it is done.
        let (recorded, waits) = unsafe {
            let recorded = (current.driver.event_record)(event, earlier);
            let waits = if recorded == 0 { (current.driver.event_wait)(later, event, 0) } else { 0 };
            (current.driver.event_destroy)(event);
            (recorded, waits)
        };
        current.driver.check("cuEventRecord", recorded)?;
        current.driver.check("cuStreamWaitEvent", waits)
    }

    /// Destroys the stream when the context is released.
    pub(super) fn destroy_memory_stream(&self) {
        if !self.memory.stream.is_null()
            && let Ok(current) = self.enter()
        {
            // SAFETY: `create_memory_stream` created it, and the context, which is released now, is its only user.
            unsafe { (current.driver.stream_destroy)(self.memory.stream) };
        }
    }
}
