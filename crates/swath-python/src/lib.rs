//! The extension module `swath._swath`: the engine as Python sees it. `python/swath/_swath.pyi` is its contract; what users see is made
//! of it by the Python modules beside that file.
//!
//! Arrays are numpy's and are read and written in place, with the GIL released. All calls of Python (producers of rows, file objects,
//! progress) happen in the thread that called, so that interrupts and schedulers behave as they do everywhere else in Python.

mod array;
mod bounds;
mod crs;
mod describe;
mod device;
mod errors;
mod features;
mod file;
mod keywords;
mod limits;
mod metadata;
mod nodata;
mod options;
mod pam;
mod pixels;
mod ranges;
mod report;
mod waiting;
mod windows;
mod write;

use pyo3::prelude::*;

#[pymodule]
fn _swath(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("MAX_CLASSES", swath::tiff::pam::MAX_CLASSES)?;
    module.add("MAX_PIXELS", swath::Limits::from_env().max_pixels)?;
    module.add_class::<file::File>()?;
    module.add_class::<device::DeviceArray>()?;
    module.add_function(wrap_pyfunction!(write::write, module)?)?;
    module.add_function(wrap_pyfunction!(bounds::has_window, module)?)?;
    module.add_function(wrap_pyfunction!(bounds::within_max_pixels, module)?)?;
    module.add_function(wrap_pyfunction!(limits::set_limits, module)?)?;
    module.add_function(wrap_pyfunction!(limits::get_limits, module)?)?;
    module.add_function(wrap_pyfunction!(limits::process_limits, module)?)?;
    module.add_function(wrap_pyfunction!(limits::changed_limits, module)?)?;
    module.add_function(wrap_pyfunction!(ranges::coalesce, module)?)?;
    module.add_function(wrap_pyfunction!(windows::read_windows, module)?)?;
    module.add_function(wrap_pyfunction!(pixels::unpack, module)?)?;
    module.add_function(wrap_pyfunction!(pixels::contains, module)?)?;
    module.add_function(wrap_pyfunction!(metadata::metadata_items, module)?)?;
    module.add_function(wrap_pyfunction!(metadata::items_by_name, module)?)?;
    module.add_function(wrap_pyfunction!(metadata::bands_of_items, module)?)?;
    module.add_function(wrap_pyfunction!(nodata::nodata_number, module)?)?;
    module.add_function(wrap_pyfunction!(nodata::match_nodata, module)?)?;
    module.add_function(wrap_pyfunction!(nodata::nodata_in_range, module)?)?;
    module.add_function(wrap_pyfunction!(pam::read_classes, module)?)?;
    module.add_function(wrap_pyfunction!(pam::write_classes, module)?)?;
    module.add_function(wrap_pyfunction!(pam::write_statistics, module)?)?;
    module.add_function(wrap_pyfunction!(crs::wkt_of_epsg, module)?)?;
    module.add_function(wrap_pyfunction!(crs::epsg_of_wkt, module)?)?;
    module.add_function(wrap_pyfunction!(crs::crs_kind, module)?)?;
    module.add_function(wrap_pyfunction!(crs::geo_keys_of_crs, module)?)?;
    module.add_function(wrap_pyfunction!(features::devices, module)?)?;
    module.add_function(wrap_pyfunction!(device::opened::trim_devices, module)?)?;
    module.add_function(wrap_pyfunction!(device::allocator::set_allocator, module)?)?;
    module.add_function(wrap_pyfunction!(device::read_again_on_cpu, module)?)?;
    module.add_function(wrap_pyfunction!(device::write_again_on_cpu, module)?)?;
    module.add_function(wrap_pyfunction!(features::codecs, module)?)?;
    module.add_function(wrap_pyfunction!(features::features, module)?)?;
    module.add_function(wrap_pyfunction!(features::resampling_methods, module)?)?;
    module.add_function(wrap_pyfunction!(features::search_libraries_in, module)?)?;
    module.add_function(wrap_pyfunction!(features::default_threads, module)?)?;
    Ok(())
}
