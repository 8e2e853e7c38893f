//! The devices that this process has opened.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use swath::device::Gpu;
use swath::{Device, Error};
use swath_gpu::Api;

/// Devices that are open: by what process, by what name.
static OPEN: Mutex<Vec<(u32, String, Gpu)>> = Mutex::new(Vec::new());

/// The device of a name. A device is opened once and stays open: what lies on one cannot be used by another, though it be the same.
pub(crate) fn named(name: &str) -> swath::Result<Device> {
    let name = name.trim();
    if name == "cpu" {
        return Ok(Device::Cpu);
    }
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    // Drivers do not survive a fork, and letting go of what the parent opened would call them.
    while let Some(at) = open.iter().position(|(of, ..)| *of != process) {
        std::mem::forget(open.swap_remove(at));
    }
    let key = |name: &str| match name {
        "cuda" => "cuda:0".to_owned(),
        // The variable chooses another device under the same name.
        "opencl" => format!("opencl {}", std::env::var("SWATH_OPENCL_DEVICE").unwrap_or_default()),
        other => other.to_owned(),
    };
    let wanted: &[&str] = if name == "auto" { &["cuda:0", "auto"] } else { &[name] };
    for wanted in wanted {
        if let Some(at) = open.iter().position(|(_, of, _)| *of == key(wanted)) {
            // One that was lost is looked for again.
            match open[at].2.memory() {
                Ok(_) => return Ok(Device::Gpu(open[at].2.clone())),
                Err(_) => drop(open.swap_remove(at)),
            }
        }
    }
    let device = Device::open(name)?;
    if let Some(gpu) = device.gpu() {
        let known = match (name, gpu.info().api) {
            ("auto", Api::Cuda) => "cuda:0",
            _ => name,
        };
        open.push((process, key(known), gpu.clone()));
    }
    Ok(device)
}

/// The GPU of a name, or an error if that is none.
pub(super) fn gpu_named(name: &str) -> swath::Result<Gpu> {
    let device = named(name)?;
    match (device.gpu(), device.missing_gpu()) {
        (Some(gpu), _) => Ok(gpu.clone()),
        (None, Some(missing)) => Err(missing.clone().into()),
        (None, None) => Err(Error::DeviceName { name: name.to_owned() }),
    }
}

/// Give back the device memory that is kept for operations to come; whether there was any.
#[pyfunction]
pub(crate) fn trim_devices(py: Python<'_>) -> bool {
    py.detach(|| {
        let process = std::process::id();
        let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.iter().filter(|(of, ..)| *of == process).fold(false, |any, (.., gpu)| gpu.trim() || any)
    })
}
