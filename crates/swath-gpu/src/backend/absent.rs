//! Backends that this build leaves out. Opening one is an [`Error::NoDevice`] that names the Cargo feature, so the crates above need no
//! conditional compilation.

use super::{Api, Device, DeviceInfo, Handle, MemoryInfo, Queue};
use crate::error::{Error, Result};

fn left_out<T>(api: Api) -> Result<T> {
    let reason = "this build of Swath has no GPU support; enable the Cargo feature `gpu`".to_owned();
    Err(Error::NoDevice { api, reason })
}

/// Defines a device type without values, whose constructors fail.
macro_rules! absent_device {
    ($name:ident, $api:expr) => {
        #[doc = concat!("The ", stringify!($name), " backend, which this build leaves out.")]
        #[derive(Debug)]
        pub enum $name {}

        impl $name {
            /// No device.
            ///
            /// # Errors
            /// Always: [`Error::NoDevice`].
            pub fn list() -> Result<Vec<DeviceInfo>> {
                left_out($api)
            }
        }

        // SAFETY: the type has no values, so that no method is ever called.
        unsafe impl Device for $name {
            fn info(&self) -> &DeviceInfo {
                match *self {}
            }

            fn memory(&self, _held: u64) -> Result<MemoryInfo> {
                match *self {}
            }

            fn allocate(&self, _stage: &'static str, _bytes: u64) -> Result<Handle> {
                match *self {}
            }

            unsafe fn release(&self, _handle: Handle) {
                match *self {}
            }

            fn pin(&self, _bytes: usize) -> Result<(Handle, *mut u8)> {
                match *self {}
            }

            unsafe fn unpin(&self, _handle: Handle, _memory: *mut u8) {
                match *self {}
            }

            fn queue(&self) -> Result<Box<dyn Queue>> {
                match *self {}
            }
        }
    };
}

#[cfg(not(feature = "cuda"))]
absent_device!(Cuda, Api::Cuda);

#[cfg(not(feature = "cuda"))]
impl Cuda {
    /// A driver that this build cannot use counts as absent.
    pub(crate) fn is_installed() -> bool {
        false
    }

    /// A driver that this build cannot use counts as absent.
    pub(crate) fn driver_version() -> Option<u32> {
        None
    }

    /// No device.
    ///
    /// # Errors
    /// Always: [`Error::NoDevice`].
    pub fn open(_index: usize) -> Result<Cuda> {
        left_out(Api::Cuda)
    }

    /// No device.
    ///
    /// # Errors
    /// Always: [`Error::NoDevice`].
    pub fn device_of(_address: u64) -> Result<usize> {
        left_out(Api::Cuda)
    }
}

#[cfg(not(feature = "opencl"))]
absent_device!(OpenCl, Api::OpenCl);

#[cfg(not(feature = "opencl"))]
impl OpenCl {
    /// No device.
    ///
    /// # Errors
    /// Always: [`Error::NoDevice`].
    pub fn open() -> Result<OpenCl> {
        left_out(Api::OpenCl)
    }

    /// No device.
    ///
    /// # Errors
    /// Always: [`Error::NoDevice`].
    pub fn choose(_choice: Option<&str>) -> Result<OpenCl> {
        left_out(Api::OpenCl)
    }
}
