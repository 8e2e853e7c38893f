//! Devices: where blocks are decoded and encoded, and what a device reports.

mod settings;

use std::sync::Arc;

use swath_gpu::OpenCl;
pub use swath_gpu::{
    AllocatorError, CallerStream, CodecBackend, DeviceAllocator, DeviceRaster, EncoderBackend, Gpu, Storage,
};

use crate::error::{Error, Result};
pub use crate::read::gpu::MAX_DEFAULT_GPU_MEMORY;
pub use crate::report::{DeviceReport, Fallback};

pub use self::settings::DeviceSettings;

/// Where blocks are decoded and encoded.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Device {
    /// The CPU.
    #[default]
    Cpu,
    /// A GPU.
    Gpu(Gpu),
    /// The first GPU of the machine, or the CPU if there is none. The report says which; with
    /// [`FallbackPolicy::Strict`](crate::FallbackPolicy::Strict) a machine without a GPU is an error.
    Auto(AutoDevice),
}

/// The outcome of the search for a GPU by [`Device::auto`].
#[derive(Debug, Clone)]
pub struct AutoDevice(std::result::Result<Gpu, Arc<swath_gpu::Error>>);

impl Device {
    /// The names that [`open`](Device::open) accepts.
    pub const NAMES: &'static str = "cpu|opencl|opencl:N|cuda|cuda:N|auto";

    /// Searches for a GPU: CUDA before OpenCL.
    pub fn auto() -> Device {
        Device::from(Gpu::auto())
    }

    /// Opens a device by name: `cpu`, `opencl` (the device that `SWATH_OPENCL_DEVICE` names, or the first GPU), `opencl:1`, `cuda` (the
    /// first), `cuda:1`, or `auto`.
    ///
    /// # Errors
    /// [`Error::Device`] when the device does not exist, [`Error::DeviceName`] for any other name.
    pub fn open(name: &str) -> Result<Device> {
        let (api, index) = match name.trim().split_once(':') {
            None => (name.trim(), None),
            Some((api, index)) => {
                let number = index.parse::<usize>().map_err(|_| Error::DeviceName { name: name.to_owned() })?;
                (api, Some(number))
            }
        };
        match (api, index) {
            ("cpu", None) => Ok(Device::Cpu),
            ("auto", None) => Ok(Device::auto()),
            ("opencl", None) => Ok(Device::Gpu(Gpu::opencl()?)),
            ("opencl", Some(index)) => Ok(Device::Gpu(Gpu::new(OpenCl::choose(Some(&index.to_string()))?))),
            ("cuda", index) => Ok(Device::Gpu(Gpu::cuda(index.unwrap_or(0))?)),
            _ => Err(Error::DeviceName { name: name.to_owned() }),
        }
    }

    /// The GPU, if the work is done on one.
    pub fn gpu(&self) -> Option<&Gpu> {
        match self {
            Device::Cpu => None,
            Device::Gpu(gpu) => Some(gpu),
            Device::Auto(AutoDevice(found)) => found.as_ref().ok(),
        }
    }

    /// Why [`Device::auto`] found no GPU.
    pub fn missing_gpu(&self) -> Option<&swath_gpu::Error> {
        match self {
            Device::Cpu | Device::Gpu(_) => None,
            Device::Auto(AutoDevice(found)) => found.as_ref().err().map(Arc::as_ref),
        }
    }
}

impl From<std::result::Result<Gpu, swath_gpu::Error>> for Device {
    /// The outcome of a search for a GPU, as [`Device::Auto`].
    fn from(found: std::result::Result<Gpu, swath_gpu::Error>) -> Device {
        Device::Auto(AutoDevice(found.map_err(Arc::new)))
    }
}

impl From<&Gpu> for Device {
    fn from(gpu: &Gpu) -> Device {
        Device::Gpu(gpu.clone())
    }
}

impl From<&Device> for Device {
    fn from(device: &Device) -> Device {
        device.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mean_nothing_are_refused() {
        assert!(matches!(Device::open("cpu"), Ok(Device::Cpu)));
        for name in ["gpu", "cpu:1", "cuda:", "cuda:x", "opencl:", "auto:0", ""] {
            assert!(matches!(Device::open(name), Err(Error::DeviceName { .. })), "{name}");
        }
    }
}
