//! What the engine supports: devices, codecs, resampling methods.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use swath::Compress;
use swath::tiff::Compression;
use swath::write::Resampling;
use swath_codec::can_decode;
use swath_codec::{CODECS, CodecInfo};
use swath_gpu::{Cuda, DeviceInfo, OpenCl, vendor};

/// The devices of each interface, or why the interface has none.
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

/// Which codecs the engine can read and which it can write, by name.
#[pyfunction]
pub(crate) fn features(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    let entry = |name: &str, read: bool, write: bool| {
        let can = PyDict::new(py);
        can.set_item("read", read)?;
        can.set_item("write", write)?;
        dict.set_item(name, can)
    };
    for name in Compress::names() {
        entry(name, true, true)?;
    }
    let is_written = |tag: &Compression| CODECS.iter().any(|info| info.can_write() && info.tags.first() == Some(tag));
    for compression in Compression::NAMED {
        if !is_written(compression) {
            entry(compression.name(), can_decode(*compression), false)?;
        }
    }
    Ok(dict)
}

/// The engine's table of codecs, one dict for each.
#[pyfunction]
pub(crate) fn codecs(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    PyList::new(py, CODECS.iter().map(|info| describe_codec(py, info)).collect::<PyResult<Vec<_>>>()?)
}

fn describe_codec<'py>(py: Python<'py>, info: &CodecInfo) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", info.name)?;
    dict.set_item("label", info.label())?;
    dict.set_item("aliases", info.aliases)?;
    dict.set_item("tags", info.tags.iter().map(|compression| compression.0).collect::<Vec<u16>>())?;
    dict.set_item("read", info.can_read())?;
    dict.set_item("write", info.can_write())?;
    dict.set_item("levels", info.level.map(|levels| (levels.min, levels.max)))?;
    dict.set_item("default_level", info.level.map(|levels| levels.default))?;
    dict.set_item("qualities", info.quality.map(|range| (range.min, range.max)))?;
    dict.set_item("lowest_quality_excluded", info.quality.is_some_and(|range| range.min_excluded))?;
    dict.set_item("default_quality", info.quality.and_then(|range| range.default))?;
    dict.set_item("max_z_error", info.max_z_error)?;
    dict.set_item("predictors", info.predictors.iter().map(|predictor| predictor.tag()).collect::<Vec<u16>>())?;
    dict.set_item("feature", info.feature)?;
    Ok(dict)
}

/// The names of the resampling methods for overviews, aliases included.
#[pyfunction]
pub(crate) fn resampling_methods() -> Vec<&'static str> {
    Resampling::names().collect()
}

/// Adds a folder in which NVIDIA's libraries are searched.
#[pyfunction]
pub(crate) fn search_libraries_in(folder: std::path::PathBuf) {
    vendor::search_also(folder);
}

/// The number of threads that a read uses by default.
#[pyfunction]
pub(crate) fn default_threads() -> usize {
    swath::read::default_threads()
}
