//! The devices that this process has opened.

use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use swath::device::Gpu;
use swath::{Device, Error};
use swath_gpu::Api;

use super::allocator;

/// The devices that one process has opened.
struct Opened {
    process: u32,
    /// The devices by name.
    devices: Mutex<Vec<(String, Gpu)>>,
}

/// The devices of the process that stored them last; null before the first.
static OPENED: AtomicPtr<Opened> = AtomicPtr::new(std::ptr::null_mut());

/// Locks the devices of this process.
///
/// Another thread can hold the lock of the parent at the time of a fork, and that thread does not exist in the child, so nothing would
/// ever unlock it. A child therefore starts with a list of its own. It leaves the list of its parent alone: drivers do not survive a
/// fork, and closing the devices would call them.
fn lock() -> MutexGuard<'static, Vec<(String, Gpu)>> {
    let process = std::process::id();
    let mut current = OPENED.load(Ordering::Acquire);
    loop {
        // SAFETY: the pointer is null or comes from `Box::into_raw` below, and nothing frees it.
        if let Some(opened) = unsafe { current.as_ref() }
            && opened.process == process
        {
            return opened.devices.lock().unwrap_or_else(PoisonError::into_inner);
        }
        // One list per process is never freed. If two threads get here, the list of the slower one is freed.
        let fresh = Box::into_raw(Box::new(Opened { process, devices: Mutex::new(Vec::new()) }));
        match OPENED.compare_exchange(current, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => current = fresh,
            Err(other) => {
                // SAFETY: `fresh` comes from `Box::into_raw`, and no other thread has seen it.
                drop(unsafe { Box::from_raw(fresh) });
                current = other;
            }
        }
    }
}

/// The device of a name. A device is opened once and stays open: what lies on one cannot be used by another, though it be the same.
pub(crate) fn named(name: &str) -> swath::Result<Device> {
    let name = name.trim();
    if name.contains(',') {
        return Device::several(name.split(',').map(gpu_named).collect::<swath::Result<_>>()?);
    }
    if name == "cpu" {
        return Ok(Device::Cpu);
    }
    loop {
        match find(name)? {
            // Without the lock, because Python may be called to free memory, and before the device is opened again, because the context
            // that it was lost with ends with its last user.
            Found::Lost(gpu) => drop(gpu),
            Found::Open(device) => return Ok(device),
            Found::New(device) => {
                device.gpu().map_or(Ok(()), allocator::install)?;
                return Ok(device);
            }
        }
    }
}

/// What the list of open devices has under a name.
enum Found {
    Open(Device),
    /// It was not open, and is now.
    New(Device),
    /// It was lost. It is no longer in the list.
    Lost(Gpu),
}

fn find(name: &str) -> swath::Result<Found> {
    let mut open = lock();
    let key = |name: &str| match name {
        "cuda" => "cuda:0".to_owned(),
        // The variable chooses another device under the same name.
        "opencl" => format!("opencl {}", std::env::var("SWATH_OPENCL_DEVICE").unwrap_or_default()),
        other => other.to_owned(),
    };
    let wanted: &[&str] = if name == "auto" { &["cuda:0", "auto"] } else { &[name] };
    for wanted in wanted {
        if let Some(at) = open.iter().position(|(of, _)| *of == key(wanted)) {
            // One that was lost is looked for again.
            match open[at].1.driver_memory() {
                Ok(_) => return Ok(Found::Open(Device::Gpu(open[at].1.clone()))),
                Err(_) => return Ok(Found::Lost(open.swap_remove(at).1)),
            }
        }
    }
    let device = Device::open(name)?;
    if let Some(gpu) = device.gpu() {
        let known = match (name, gpu.info().api) {
            ("auto", Api::Cuda) => "cuda:0",
            _ => name,
        };
        open.push((key(known), gpu.clone()));
    }
    Ok(Found::New(device))
}

/// The GPU of a name, or an error if that is none.
pub(super) fn gpu_named(name: &str) -> swath::Result<Gpu> {
    let device = named(name)?;
    if device.gpus().len() > 1 {
        return Err(Error::SeveralDevices);
    }
    match (device.gpu(), device.missing_gpu()) {
        (Some(gpu), _) => Ok(gpu.clone()),
        (None, Some(missing)) => Err(missing.clone().into()),
        (None, None) => Err(Error::DeviceName { name: name.to_owned() }),
    }
}

/// Give back the device memory that is kept for operations to come; whether there was any.
#[pyfunction]
pub(crate) fn trim_devices(py: Python<'_>) -> bool {
    // The lock is not held meanwhile: memory of an allocator in Python needs the GIL to be freed.
    py.detach(|| all().iter().filter(|gpu| gpu.trim()).count() > 0)
}

/// All devices of this process that are open.
pub(super) fn all() -> Vec<Gpu> {
    lock().iter().map(|(_, gpu)| gpu.clone()).collect()
}
