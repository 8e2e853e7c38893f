//! The interface to a device.
//!
//! An implementation moves bytes and starts kernels; it neither guards nor counts. [`Gpu`](crate::Gpu), [`Buffer`](crate::Buffer) and
//! `Stream` do that for all implementations.

#[cfg(not(all(feature = "cuda", feature = "opencl")))]
mod absent;
#[cfg(feature = "cuda")]
mod cuda;
pub(crate) mod kernel;
#[cfg(feature = "opencl")]
mod opencl;

use std::ffi::c_void;
use std::fmt::Debug;

use crate::backend::kernel::{Arg, Kernel};
use crate::error::{Error, Result};

#[cfg(not(feature = "cuda"))]
pub use self::absent::Cuda;
#[cfg(not(feature = "opencl"))]
pub use self::absent::OpenCl;
#[cfg(feature = "cuda")]
pub use self::cuda::Cuda;
#[cfg(feature = "opencl")]
pub use self::opencl::OpenCl;

/// The interface that drives a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Api {
    /// OpenCL, of any vendor.
    OpenCl,
    /// CUDA.
    Cuda,
    /// Another implementation of [`Device`], with its name.
    Custom(&'static str),
}

impl Api {
    /// The name that commands and reports use.
    pub fn name(self) -> &'static str {
        match self {
            Api::OpenCl => "opencl",
            Api::Cuda => "cuda",
            Api::Custom(name) => name,
        }
    }

    /// The name as its makers write it, for messages.
    pub fn title(self) -> &'static str {
        match self {
            Api::OpenCl => "OpenCL",
            Api::Cuda => "CUDA",
            Api::Custom(name) => name,
        }
    }
}

/// Properties of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The interface.
    pub api: Api,
    /// The number of the device within its interface.
    pub index: usize,
    /// The name that the driver reports.
    pub name: String,
    /// The driver and its version.
    pub driver: String,
    /// Whether it is a GPU. OpenCL has other devices too.
    pub is_gpu: bool,
    /// Bytes of memory.
    pub memory: u64,
    /// The largest size of one buffer, in bytes.
    pub largest_buffer: u64,
    /// Whether the device computes in double precision.
    pub doubles: bool,
    /// Multiprocessors (CUDA) or compute units (OpenCL).
    pub multiprocessors: u32,
}

/// The memory of a device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryInfo {
    /// The total.
    pub total: u64,
    /// The free part. If the driver does not report it, all that this process does not hold.
    pub free: u64,
}

/// The driver's handle of device memory: a `cl_mem` or a `CUdeviceptr`.
pub type Handle = u64;

/// A device.
///
/// # Safety
/// `allocate` returns memory of at least the requested size that stays valid until `release`, and `pin` returns host memory that may be read
/// and written until `unpin`, and whose bytes have a value. Buffers rely on that.
pub unsafe trait Device: Debug + Send + Sync {
    /// Properties of the device.
    fn info(&self) -> &DeviceInfo;

    /// The memory of the device. `held` is what this process holds, for drivers that do not report free memory.
    ///
    /// # Errors
    /// The driver's error.
    fn memory(&self, held: u64) -> Result<MemoryInfo>;

    /// Allocates device memory. `bytes` is at least 1.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when the device has too little, or the driver's error.
    fn allocate(&self, stage: &'static str, bytes: u64) -> Result<Handle>;

    /// Frees device memory.
    ///
    /// # Safety
    /// The handle came from `allocate` of this device, was not released, and no work in progress uses it.
    unsafe fn release(&self, handle: Handle);

    /// Allocates device memory in the order of the memory stream: work in all queues of the device may use it. `None` when the device does
    /// not allocate in such an order.
    ///
    /// # Errors
    /// As [`allocate`](Device::allocate).
    fn allocate_in_order(&self, _stage: &'static str, _bytes: u64) -> Option<Result<Handle>> {
        None
    }

    /// Frees memory of [`allocate_in_order`](Device::allocate_in_order) without waiting for other work of the device.
    ///
    /// # Safety
    /// The memory is freed once, and all work that uses it is done, or is ordered before what the memory stream has.
    unsafe fn release_in_order(&self, _handle: Handle) {}

    /// Bytes that [`allocate_in_order`](Device::allocate_in_order) can give in addition to the free memory: the device's memory pool holds
    /// them.
    ///
    /// # Errors
    /// The driver's error.
    fn free_in_pool(&self) -> Result<u64> {
        Ok(0)
    }

    /// The handle of the CUDA stream in whose order memory is allocated and freed.
    ///
    /// # Errors
    /// The driver's error; [`Error::Unable`] when this is not a CUDA device.
    fn memory_stream(&self) -> Result<u64> {
        Err(Error::Unable { device: self.info().name.clone(), what: "allocate in the order of a CUDA stream" })
    }

    /// Lets later work of all queues wait for what the memory stream has now. The host waits for nothing.
    fn follow_memory_stream(&self) {}

    /// Lets later allocations and releases in the memory stream wait for what another CUDA stream has now. The host waits for nothing.
    ///
    /// # Errors
    /// The driver's error; [`Error::Unable`] when this is not a CUDA device.
    ///
    /// # Safety
    /// As [`wait_for_stream`](Device::wait_for_stream).
    unsafe fn order_after_stream(&self, _stream: u64) -> Result<()> {
        Err(Error::Unable { device: self.info().name.clone(), what: "wait for streams of CUDA" })
    }

    /// Waits on the host for the memory stream, so that code outside of queues can use the memory.
    ///
    /// # Errors
    /// The driver's error.
    fn wait_for_memory_stream(&self) -> Result<()> {
        Ok(())
    }

    /// Allocates pinned host memory, which the device copies from and to by itself. `bytes` is at least 1.
    ///
    /// # Errors
    /// As [`allocate`](Device::allocate).
    fn pin(&self, bytes: usize) -> Result<(Handle, *mut u8)>;

    /// Frees pinned host memory.
    ///
    /// # Safety
    /// As [`release`](Device::release), for memory from `pin`.
    unsafe fn unpin(&self, handle: Handle, memory: *mut u8);

    /// Runs `work` while the device's CUDA context is current on this thread, as NVIDIA's libraries require. Returns `false` without running
    /// it when this is not a CUDA device or its context cannot be used.
    fn in_cuda_context(&self, _work: &mut dyn FnMut()) -> bool {
        false
    }

    /// Waits for a CUDA stream of another library.
    ///
    /// # Errors
    /// The driver's error; [`Error::Unable`] when this is not a CUDA device.
    ///
    /// # Safety
    /// `stream` is a default stream (1 or 2), or a live stream of the device's primary context.
    unsafe fn wait_for_stream(&self, _stream: u64) -> Result<()> {
        Err(Error::Unable { device: self.info().name.clone(), what: "wait for streams of CUDA" })
    }

    /// Waits for all streams of the device's primary context, also those of other libraries.
    ///
    /// # Errors
    /// The driver's error; [`Error::Unable`] when this is not a CUDA device.
    fn wait_for_context(&self) -> Result<()> {
        Err(Error::Unable { device: self.info().name.clone(), what: "wait for a context of CUDA" })
    }

    /// Compiles a kernel now, if the device would otherwise compile it at its first launch.
    ///
    /// # Errors
    /// [`Error::Build`] when the device cannot run it.
    fn prepare(&self, _kernel: Kernel) -> Result<()> {
        Ok(())
    }

    /// The number of groups of a kernel that one multiprocessor runs at the same time.
    fn resident_groups(&self, kernel: Kernel) -> u32 {
        kernel.usual_residency()
    }

    /// Creates a queue. Work in a queue runs in order, and in parallel to the work in other queues.
    ///
    /// # Errors
    /// The driver's error.
    fn queue(&self) -> Result<Box<dyn Queue>>;
}

/// The end of some work of a queue: an event of the driver.
#[derive(Debug)]
#[cfg_attr(not(any(feature = "cuda", feature = "opencl")), expect(dead_code, reason = "only drivers read it"))]
pub struct Mark(pub(crate) u64);

/// An in-order queue of work for a device. Every call returns before the work is done.
pub trait Queue: Debug + Send {
    /// Copies to the device.
    ///
    /// # Safety
    /// The range lies in the buffer, and `from` does not change until the queue is synchronised.
    ///
    /// # Errors
    /// The driver's error, here and below.
    unsafe fn upload(&mut self, from: &[u8], to: Handle, at: u64) -> Result<()>;

    /// Copies from the device.
    ///
    /// # Safety
    /// The range lies in the buffer, and nothing accesses `to` until the queue is synchronised.
    unsafe fn download(&mut self, from: Handle, at: u64, to: &mut [u8]) -> Result<()>;

    /// Copies within the device.
    ///
    /// # Safety
    /// Both ranges lie in their buffers and do not overlap.
    unsafe fn copy(&mut self, from: Handle, from_at: u64, to: Handle, to_at: u64, bytes: u64) -> Result<()>;

    /// Starts `groups` groups of a kernel.
    ///
    /// # Safety
    /// The arguments are those of the kernel, and its reads and writes lie in the buffers that they name.
    unsafe fn launch(&mut self, kernel: Kernel, groups: u32, args: &[Arg<'_>]) -> Result<()>;

    /// Calls `call` with the CUDA stream of this queue, while its context is current, so that a library of NVIDIA can enqueue work. Returns
    /// `None` when this is not a CUDA stream.
    fn in_cuda_stream(&mut self, _call: &mut dyn FnMut(*mut c_void) -> Result<()>) -> Option<Result<()>> {
        None
    }

    /// Marks the end of the work so far, for [`wait_for_mark`](Queue::wait_for_mark) of another queue of the device. A queue without marks
    /// waits for its work here.
    ///
    /// # Errors
    /// The driver's error.
    fn mark(&mut self) -> Result<Mark> {
        self.synchronize().map(|()| Mark(0))
    }

    /// Lets later work of this queue wait for the work before a mark of another queue, which is used up.
    ///
    /// # Errors
    /// The driver's error.
    fn wait_for_mark(&mut self, _mark: Mark) -> Result<()> {
        Ok(())
    }

    /// Lets the device begin with the queued work, without waiting for it.
    ///
    /// # Errors
    /// The driver's error.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// Waits until all work is done.
    ///
    /// # Errors
    /// The first failure of any work since the last call.
    fn synchronize(&mut self) -> Result<()>;
}
