//! What the engine can do.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use swath::codec::Tuning;
use swath::gpu::{Cuda, DeviceInfo, OpenCl, vendor};
use swath::tiff::Compression;
use swath::{Compress, can_decode};

/// The devices there are, and why there are none.
#[pyfunction]
pub(crate) fn devices(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for (api, found) in [("cuda", Cuda::list()), ("opencl", OpenCl::list())] {
        match found {
            Ok(found) => {
                for device in &found {
                    list.append(describe(py, api, device)?)?;
                }
            }
            Err(error) => {
                let dict = PyDict::new(py);
                dict.set_item("api", api)?;
                dict.set_item("missing", error.to_string())?;
                list.append(dict)?;
            }
        }
    }
    Ok(list)
}

fn describe<'py>(py: Python<'py>, api: &str, device: &DeviceInfo) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("api", api)?;
    dict.set_item("index", device.index)?;
    dict.set_item("name", &device.name)?;
    dict.set_item("driver", &device.driver)?;
    dict.set_item("gpu", device.is_gpu)?;
    dict.set_item("memory", device.memory)?;
    Ok(dict)
}

/// The codecs: which can be read, which can be written.
#[pyfunction]
pub(crate) fn features(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    let entry = |name: &str, read: bool, write: bool| {
        let can = PyDict::new(py);
        can.set_item("read", read)?;
        can.set_item("write", write)?;
        dict.set_item(name, can)
    };
    for name in Compress::NAMES {
        entry(name, true, true)?;
    }
    let written: Vec<u16> = Compress::NAMES
        .iter()
        .filter_map(|name| Compress::named(name, Tuning::default()).ok())
        .map(|compress| compress.tag())
        .collect();
    for compression in Compression::NAMED {
        if !written.contains(&compression.0) {
            entry(compression.name(), can_decode(*compression), false)?;
        }
    }
    Ok(dict)
}

/// Where NVIDIA's wheels may lie.
#[pyfunction]
pub(crate) fn search_libraries_in(folder: std::path::PathBuf) {
    vendor::search_also(folder);
}

/// Threads that a read takes unless told otherwise.
#[pyfunction]
pub(crate) fn default_threads() -> usize {
    swath::default_threads()
}
