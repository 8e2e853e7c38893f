//! A stream of CUDA.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{CUdeviceptr, CUevent_flags_enum, CUstream, CUstream_flags_enum};

use super::context::Context;
use crate::backend::kernel::{Arg, Kernel};
use crate::backend::{Handle, Mark, Queue};
use crate::error::Result;

/// A stream that waits for no other stream, not even for the legacy default stream, which other libraries of the process may use.
#[derive(Debug)]
pub(super) struct CudaQueue {
    context: Arc<Context>,
    stream: CUstream,
    /// The entries of the memory stream that this stream has waited for.
    waited: u64,
}

// SAFETY: a stream belongs to its context, not to a thread; each call makes the context current on the calling thread.
unsafe impl Send for CudaQueue {}

impl CudaQueue {
    pub(super) fn new(context: Arc<Context>) -> Result<CudaQueue> {
        let mut stream = ptr::null_mut();
        {
            let current = context.enter()?;
            // SAFETY: the stream is written where there is room for it.
            let code = unsafe {
                (current.driver.stream_create)(&mut stream, CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32)
            };
            current.driver.check("cuStreamCreate", code)?;
        }
        Ok(CudaQueue { context, stream, waited: 0 })
    }

    /// Lets later work wait for the allocations so far, and for the streams of other libraries that Swath's work follows.
    fn follow_memory(&mut self) -> Result<()> {
        let entries = self.context.memory.entries();
        if entries == self.waited {
            return Ok(());
        }
        // SAFETY: both streams are alive: this one until the drop, the other one as long as the context.
        unsafe { self.context.order(self.stream, self.context.memory_stream())? };
        self.waited = entries;
        Ok(())
    }
}

impl Queue for CudaQueue {
    unsafe fn upload(&mut self, from: &[u8], to: Handle, at: u64) -> Result<()> {
        self.follow_memory()?;
        let to = address(to, at);
        let current = self.context.enter()?;
        // SAFETY: the caller promises that the range lies in the buffer and that `from` stays until the queue is synchronised.
        let code = unsafe { (current.driver.upload)(to, from.as_ptr().cast(), from.len(), self.stream) };
        current.driver.check("cuMemcpyHtoDAsync", code)
    }

    unsafe fn download(&mut self, from: Handle, at: u64, to: &mut [u8]) -> Result<()> {
        self.follow_memory()?;
        let from = address(from, at);
        let current = self.context.enter()?;
        // SAFETY: the caller promises that the range lies in the buffer and that `to` is left alone until the queue is
        // synchronised.
        let code = unsafe { (current.driver.download)(to.as_mut_ptr().cast(), from, to.len(), self.stream) };
        current.driver.check("cuMemcpyDtoHAsync", code)
    }

    unsafe fn copy(&mut self, from: Handle, from_at: u64, to: Handle, to_at: u64, bytes: u64) -> Result<()> {
        self.follow_memory()?;
        let (from, to) = (address(from, from_at), address(to, to_at));
        let current = self.context.enter()?;
        // SAFETY: the caller promises that both ranges lie in their buffers and do not overlap; the sizes of buffers are
        // `usize`.
        let code = unsafe { (current.driver.copy)(to, from, bytes as usize, self.stream) };
        current.driver.check("cuMemcpyDtoDAsync", code)
    }

    unsafe fn launch(&mut self, kernel: Kernel, groups: u32, args: &[Arg<'_>]) -> Result<()> {
        self.follow_memory()?;
        let function = self.context.function(kernel);
        // The driver copies the values that these point to before it returns; it only reads them.
        let mut values: Vec<*mut c_void> = args.iter().map(value).collect();
        let current = self.context.enter()?;
        // SAFETY: the function belongs to a module of this context, which lives as long as the context. The caller promises
        // that the arguments are those of the kernel, so that there is a pointer for each, and that all it touches lies in
        // the buffers.
        let code = unsafe {
            (current.driver.launch)(
                function,
                groups,
                1,
                1,
                kernel.group(),
                1,
                1,
                0,
                self.stream,
                values.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        current.driver.check("cuLaunchKernel", code)
    }

    fn in_cuda_stream(&mut self, call: &mut dyn FnMut(*mut c_void) -> Result<()>) -> Option<Result<()>> {
        let ordered = self.follow_memory().and_then(|()| self.context.enter());
        Some(ordered.and_then(|_current| call(self.stream.cast())))
    }

    fn mark(&mut self) -> Result<Mark> {
        let mut event = ptr::null_mut();
        let current = self.context.enter()?;
        // SAFETY: the event is written where there is room for it.
        let code =
            unsafe { (current.driver.event_create)(&mut event, CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32) };
        current.driver.check("cuEventCreate", code)?;
        // SAFETY: the event was just created in the context of the stream.
        let code = unsafe { (current.driver.event_record)(event, self.stream) };
        let recorded = current.driver.check("cuEventRecord", code);
        if recorded.is_err() {
            // SAFETY: nothing waits for the event.
            unsafe { (current.driver.event_destroy)(event) };
        }
        recorded.map(|()| Mark(event.expose_provenance() as u64))
    }

    fn wait_for_mark(&mut self, Mark(event): Mark) -> Result<()> {
        let event = ptr::with_exposed_provenance_mut(event as usize);
        let current = self.context.enter()?;
        // SAFETY: the mark came from a queue of this device and is used once. The driver keeps the event until the work behind it is done.
        let code = unsafe {
            let code = (current.driver.event_wait)(self.stream, event, 0);
            (current.driver.event_destroy)(event);
            code
        };
        current.driver.check("cuStreamWaitEvent", code)
    }

    fn synchronize(&mut self) -> Result<()> {
        let current = self.context.enter()?;
        // SAFETY: the stream is alive until the drop.
        let code = unsafe { (current.driver.stream_synchronize)(self.stream) };
        current.driver.check("cuStreamSynchronize", code)
    }
}

impl Drop for CudaQueue {
    fn drop(&mut self) {
        // The context may unload the module of the kernels right after this, so no kernel may be running.
        let _ = self.synchronize();
        if let Ok(current) = self.context.enter() {
            // SAFETY: `new` created the stream, and it is destroyed once.
            unsafe { (current.driver.stream_destroy)(self.stream) };
        }
    }
}

/// A pointer to an argument's value.
fn value(arg: &Arg<'_>) -> *mut c_void {
    match arg {
        Arg::Buffer(buffer) => ptr::from_ref(&buffer.handle).cast_mut().cast(),
        Arg::U32(number) => ptr::from_ref(number).cast_mut().cast(),
        Arg::U64(number) => ptr::from_ref(number).cast_mut().cast(),
    }
}

/// A byte of a buffer: handles of CUDA are addresses, and those of a buffer do not wrap.
fn address(handle: Handle, at: u64) -> CUdeviceptr {
    handle.wrapping_add(at)
}
