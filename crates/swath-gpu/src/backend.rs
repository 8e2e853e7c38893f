//! What a device must be able to do.
//!
//! An implementation moves bytes and starts kernels; it neither guards nor counts. That is done once, for all of them, by
//! [`Gpu`](crate::Gpu), [`Buffer`](crate::Buffer) and [`Stream`](crate::Stream).

pub(crate) mod cuda;
pub(crate) mod kernel;
pub(crate) mod opencl;

use std::ffi::c_void;
use std::fmt::Debug;

use crate::backend::kernel::{Arg, Kernel};
use crate::error::{Error, Result};

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

/// What is known of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The interface.
    pub api: Api,
    /// The number of the device among those of its interface.
    pub index: usize,
    /// The name that its maker gave it.
    pub name: String,
    /// The driver and its version.
    pub driver: String,
    /// Whether it is a GPU; OpenCL has other devices too.
    pub is_gpu: bool,
    /// Bytes of memory.
    pub memory: u64,
    /// The most bytes that one buffer may have.
    pub largest_buffer: u64,
    /// Whether it counts in double precision.
    pub doubles: bool,
}

/// The memory of a device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryInfo {
    /// All of it.
    pub total: u64,
    /// What nobody uses. Where the driver does not say, what is not held by this process.
    pub free: u64,
}

/// A piece of device memory as its device knows it: a `cl_mem`, a `CUdeviceptr`.
pub type Handle = u64;

/// A device.
///
/// # Safety
/// `allocate` returns memory of at least that size that stays until `release`, and `pin` host memory that may be read and
/// written until `unpin`: buffers are built on that.
pub unsafe trait Device: Debug + Send + Sync {
    /// What is known of it.
    fn info(&self) -> &DeviceInfo;

    /// Its memory. `held` is what this process holds of it, for devices that cannot tell themselves.
    ///
    /// # Errors
    /// When the driver does not answer.
    fn memory(&self, held: u64) -> Result<MemoryInfo>;

    /// Allocate device memory, `bytes` being at least 1.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when there is none, and what the driver says.
    fn allocate(&self, stage: &'static str, bytes: u64) -> Result<Handle>;

    /// Give device memory back.
    ///
    /// # Safety
    /// The handle came from `allocate` of this device, was not released, and no work that uses it is under way.
    unsafe fn release(&self, handle: Handle);

    /// Allocate host memory that the device can copy from and to without the host's help, `bytes` being at least 1.
    ///
    /// # Errors
    /// As [`allocate`](Device::allocate).
    fn pin(&self, bytes: usize) -> Result<(Handle, *mut u8)>;

    /// Give host memory back.
    ///
    /// # Safety
    /// As [`release`](Device::release), for what came from `pin`.
    unsafe fn unpin(&self, handle: Handle, memory: *mut u8);

    /// Let something be done while the device's CUDA context is current on this thread, as NVIDIA's libraries want it; `false` when it
    /// was not done, because this is no CUDA device or its context cannot be used.
    fn in_cuda_context(&self, _work: &mut dyn FnMut()) -> bool {
        false
    }

    /// Wait for a CUDA stream that is not ours.
    ///
    /// # Errors
    /// What the driver says; [`Error::Unable`] when it is no CUDA device.
    ///
    /// # Safety
    /// It is a default stream (1 or 2), or one of the device's primary context that is alive.
    unsafe fn wait_for_stream(&self, _stream: u64) -> Result<()> {
        Err(Error::Unable { device: self.info().name.clone(), what: "wait for streams of CUDA" })
    }

    /// Compile a kernel, where that is not done before it is first launched.
    ///
    /// # Errors
    /// [`Error::Build`] when the device cannot run it.
    fn prepare(&self, _kernel: Kernel) -> Result<()> {
        Ok(())
    }

    /// A queue of its own: what is put into it happens in order, and beside what happens in other queues.
    ///
    /// # Errors
    /// What the driver says.
    fn queue(&self) -> Result<Box<dyn Queue>>;
}

/// Work for a device, in order. Every call returns before the work is done.
pub trait Queue: Debug + Send {
    /// Copy to the device.
    ///
    /// # Safety
    /// The range lies in the buffer, and `from` stays as it is until the queue is synchronised.
    ///
    /// # Errors
    /// What the driver says, here and below.
    unsafe fn upload(&mut self, from: &[u8], to: Handle, at: u64) -> Result<()>;

    /// Copy from the device.
    ///
    /// # Safety
    /// The range lies in the buffer, and nobody looks at `to` until the queue is synchronised.
    unsafe fn download(&mut self, from: Handle, at: u64, to: &mut [u8]) -> Result<()>;

    /// Copy from the device to itself.
    ///
    /// # Safety
    /// Both ranges lie in their buffers and do not overlap.
    unsafe fn copy(&mut self, from: Handle, from_at: u64, to: Handle, to_at: u64, bytes: u64) -> Result<()>;

    /// Start `groups` groups of a kernel.
    ///
    /// # Safety
    /// The arguments are those of the kernel, and its reads and writes lie in the buffers that they name.
    unsafe fn launch(&mut self, kernel: Kernel, groups: u32, args: &[Arg<'_>]) -> Result<()>;

    /// Let a library of NVIDIA's put work into the CUDA stream that this is, its context being current; `None` when it is none.
    fn in_cuda_stream(&mut self, _call: &mut dyn FnMut(*mut c_void) -> Result<()>) -> Option<Result<()>> {
        None
    }

    /// Let the device begin with what was put into the queue, without waiting for it.
    ///
    /// # Errors
    /// What the driver says.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// Wait until all is done.
    ///
    /// # Errors
    /// What went wrong in anything since the last time.
    fn synchronize(&mut self) -> Result<()>;
}
