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
    /// Several GPUs that share the work of one read or write. The first does what only one device can do.
    Several(Vec<Gpu>),
    /// The first GPU of the machine, or the CPU if there is none. The report says which; with
    /// [`FallbackPolicy::Strict`](crate::FallbackPolicy::Strict) a machine without a GPU is an error.
    Auto(AutoDevice),
}

/// The outcome of the search for a GPU by [`Device::auto`].
#[derive(Debug, Clone)]
pub struct AutoDevice(std::result::Result<Gpu, Arc<swath_gpu::Error>>);

impl Device {
    /// The names that [`open`](Device::open) accepts.
    pub const NAMES: &'static str = "cpu|opencl|opencl:N|cuda|cuda:N|auto, or several such as cuda:0,cuda:1";

    /// Searches for a GPU: CUDA before OpenCL.
    pub fn auto() -> Device {
        Device::from(Gpu::auto())
    }

    /// Opens a device by name: `cpu`, `opencl` (the device that `SWATH_OPENCL_DEVICE` names, or the first GPU), `opencl:1`, `cuda` (the
    /// first), `cuda:1`, or `auto`. Names of GPUs that are separated by commas open several.
    ///
    /// # Errors
    /// [`Error::Device`] when the device does not exist, [`Error::DeviceTwice`] when a list has a device twice, [`Error::DeviceName`] for any
    /// other name.
    pub fn open(name: &str) -> Result<Device> {
        if name.contains(',') {
            let open = |each: &str| match Device::open(each)? {
                Device::Gpu(gpu) => Ok(gpu),
                _ => Err(Error::DeviceName { name: name.to_owned() }),
            };
            return Device::several(name.split(',').map(open).collect::<Result<Vec<_>>>()?);
        }
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

    /// Several GPUs that share the work of one read or write: [`Device::Several`], or [`Device::Gpu`] for one.
    ///
    /// # Errors
    /// [`Error::DeviceTwice`] when a device is listed twice, [`Error::DeviceName`] when the list is empty.
    pub fn several(gpus: Vec<Gpu>) -> Result<Device> {
        for (i, gpu) in gpus.iter().enumerate() {
            let same = |other: &Gpu| {
                let (this, other) = (gpu.info(), other.info());
                (this.api, this.index) == (other.api, other.index)
            };
            if gpus[..i].iter().any(same) {
                return Err(Error::DeviceTwice { device: format!("{}:{}", gpu.info().api.name(), gpu.info().index) });
            }
        }
        match <[Gpu; 1]>::try_from(gpus) {
            Ok([gpu]) => Ok(Device::Gpu(gpu)),
            Err(gpus) if gpus.is_empty() => Err(Error::DeviceName { name: String::new() }),
            Err(gpus) => Ok(Device::Several(gpus)),
        }
    }

    /// All GPUs that share the work.
    pub fn gpus(&self) -> &[Gpu] {
        match self {
            Device::Several(gpus) => gpus,
            other => other.gpu().map_or(&[], std::slice::from_ref),
        }
    }

    /// The GPU, if the work is done on one; the first of several.
    pub fn gpu(&self) -> Option<&Gpu> {
        match self {
            Device::Cpu => None,
            Device::Gpu(gpu) => Some(gpu),
            Device::Several(gpus) => gpus.first(),
            Device::Auto(AutoDevice(found)) => found.as_ref().ok(),
        }
    }

    /// Why [`Device::auto`] found no GPU.
    pub fn missing_gpu(&self) -> Option<&swath_gpu::Error> {
        match self {
            Device::Cpu | Device::Gpu(_) | Device::Several(_) => None,
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
        for name in ["gpu", "cpu:1", "cuda:", "cuda:x", "opencl:", "auto:0", "", "cpu,cpu", "cpu,cuda"] {
            assert!(matches!(Device::open(name), Err(Error::DeviceName { .. })), "{name}");
        }
    }
}
