//! Device memory from Python: an object with `allocate`, `free` and `free_bytes`, such as an adapter to the pool of CuPy.
//!
//! Threads of the engine call it, and take the GIL for that. So no thread may hold the GIL while it waits for a thread of the engine, or
//! for a lock that one holds.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use swath::device::{AllocatorError, DeviceAllocator, Gpu};
use swath_gpu::Api;

use super::opened;
use crate::errors::to_python;

/// The allocator of all CUDA devices of this process.
static ALLOCATOR: Mutex<Option<Arc<Py<PyAny>>>> = Mutex::new(None);

/// An allocator in Python, for one device.
#[derive(Debug)]
struct PythonAllocator {
    object: Arc<Py<PyAny>>,
    device: usize,
}

/// Calls Python, also while an exception is on its way, as it may be where Python frees an object. `None` if Python is shutting down.
fn with_python<T>(call: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    Python::try_attach(|py| {
        let pending = PyErr::take(py);
        let done = call(py);
        if let Some(pending) = pending {
            pending.restore(py);
        }
        done
    })
}

// SAFETY: the documentation of `set_allocator` demands of the object what the trait demands.
unsafe impl DeviceAllocator for PythonAllocator {
    fn allocate(&self, bytes: u64, stream: u64) -> Result<u64, AllocatorError> {
        let allocated = with_python(|py| {
            let address = self.object.bind(py).call_method1("allocate", (bytes, stream, self.device));
            address.and_then(|address| address.extract::<u64>()).map_err(|error| {
                // CuPy and RMM raise subclasses of MemoryError.
                if error.is_instance_of::<PyMemoryError>(py) {
                    AllocatorError::OutOfMemory
                } else {
                    AllocatorError::Failed { reason: error.to_string() }
                }
            })
        });
        allocated.unwrap_or_else(|| Err(AllocatorError::Failed { reason: "Python is shutting down".into() }))
    }

    unsafe fn free(&self, address: u64, bytes: u64, stream: u64) {
        with_python(|py| {
            let object = self.object.bind(py);
            if let Err(error) = object.call_method1("free", (address, bytes, stream, self.device)) {
                error.write_unraisable(py, Some(object));
            }
        });
    }

    fn free_bytes(&self) -> Option<u64> {
        with_python(|py| {
            let object = self.object.bind(py);
            let free = object.call_method1("free_bytes", (self.device,)).and_then(|free| free.extract());
            free.unwrap_or_else(|error| {
                error.write_unraisable(py, Some(object));
                Some(0)
            })
        })
        .flatten()
    }
}

/// Gives the allocator of this process to a device that was opened, or takes it away.
pub(super) fn install(gpu: &Gpu) -> swath::Result<()> {
    if gpu.info().api != Api::Cuda {
        return Ok(());
    }
    let object = ALLOCATOR.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let device = gpu.info().index;
    let allocator = object.map(|object| Arc::new(PythonAllocator { object, device }) as Arc<dyn DeviceAllocator>);
    Ok(gpu.set_allocator(allocator)?)
}

/// Take the device memory of all CUDA devices from an object with `allocate`, `free` and `free_bytes`, or from the driver again.
#[pyfunction]
#[pyo3(signature = (allocator))]
pub(crate) fn set_allocator(py: Python<'_>, allocator: Option<Py<PyAny>>) -> PyResult<()> {
    let before = {
        let mut current = ALLOCATOR.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *current, allocator.map(Arc::new))
    };
    // Without the GIL: memory goes back to the allocator before.
    let installed = py.detach(|| opened::all().iter().try_for_each(install));
    drop(before);
    installed.map_err(to_python)
}
