//! Where the work is done.

use swath_gpu::{Gpu, OpenCl};

use crate::error::{Error, Result};

/// Where blocks are decoded and encoded.
#[derive(Debug, Clone, Default)]
pub enum Device {
    /// The CPU.
    #[default]
    Cpu,
    /// A device.
    Gpu(Gpu),
    /// The CPU, because a device was looked for and there is none: the reason is told in the report.
    NoGpu(String),
}

impl Device {
    /// The names that [`named`](Device::named) knows.
    pub const NAMES: &'static str = "cpu|opencl|opencl:N|cuda|cuda:N|auto";

    /// The device of a name: `cpu`, `opencl` (the first GPU, or what `SWATH_OPENCL_DEVICE` names), `opencl:1`, `cuda` (the first), `cuda:1`, or
    /// `auto`, the first GPU there is, else the CPU.
    ///
    /// # Errors
    /// [`Error::Device`] when that device is not there, [`Error::DeviceName`] for any other name.
    pub fn named(name: &str) -> Result<Device> {
        let (api, index) = match name.trim().split_once(':') {
            None => (name.trim(), None),
            Some((api, index)) => {
                let number = index.parse::<usize>().map_err(|_| Error::DeviceName { name: name.to_owned() })?;
                (api, Some(number))
            }
        };
        match (api, index) {
            ("cpu", None) => Ok(Device::Cpu),
            ("auto", None) => Ok(Gpu::auto().map_or_else(|none| Device::NoGpu(none.to_string()), Device::Gpu)),
            ("opencl", None) => Ok(Device::Gpu(Gpu::opencl()?)),
            ("opencl", Some(index)) => Ok(Device::Gpu(Gpu::new(OpenCl::choose(Some(&index.to_string()))?))),
            ("cuda", index) => Ok(Device::Gpu(Gpu::cuda(index.unwrap_or(0))?)),
            _ => Err(Error::DeviceName { name: name.to_owned() }),
        }
    }

    /// The GPU, if it is one.
    pub fn gpu(&self) -> Option<&Gpu> {
        match self {
            Device::Gpu(gpu) => Some(gpu),
            Device::Cpu | Device::NoGpu(_) => None,
        }
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
        assert!(matches!(Device::named("cpu"), Ok(Device::Cpu)));
        for name in ["gpu", "cpu:1", "cuda:", "cuda:x", "opencl:", "auto:0", ""] {
            assert!(matches!(Device::named(name), Err(Error::DeviceName { .. })), "{name}");
        }
    }
}
