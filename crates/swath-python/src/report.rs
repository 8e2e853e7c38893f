//! Reports as dictionaries.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use swath::device::DeviceReport;
use swath::write::BandStatistics;
use swath::{ReadReport, WriteReport};

/// What a read did.
pub(crate) fn of_read<'py>(py: Python<'py>, report: &ReadReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item(intern!(py, "device"), report.device)?;
    dict.set_item(intern!(py, "codec"), report.codec)?;
    dict.set_item(intern!(py, "threads"), report.threads)?;
    dict.set_item(intern!(py, "blocks"), report.blocks)?;
    dict.set_item(intern!(py, "sparse_blocks"), report.sparse_blocks)?;
    dict.set_item(intern!(py, "kept_blocks"), report.kept_blocks)?;
    dict.set_item(intern!(py, "batches"), report.batches)?;
    dict.set_item(intern!(py, "bytes_fetched"), report.bytes_fetched)?;
    dict.set_item(intern!(py, "bytes_decoded"), report.bytes_decoded)?;
    dict.set_item(intern!(py, "fetch_seconds"), report.fetch_time.as_secs_f64())?;
    dict.set_item(intern!(py, "decode_seconds"), report.decode_time.as_secs_f64())?;
    dict.set_item(intern!(py, "seconds"), report.wall_time.as_secs_f64())?;
    dict.set_item(intern!(py, "working_bytes"), report.working_bytes)?;
    if let Some(found) = report.nodata_found {
        dict.set_item(intern!(py, "nodata_found"), found)?;
    }
    on_device(&dict, report.gpu.as_ref())?;
    Ok(dict)
}

/// What a write did.
pub(crate) fn of_write<'py>(py: Python<'py>, report: &WriteReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("device", report.device)?;
    dict.set_item("threads", report.threads)?;
    dict.set_item("blocks", report.blocks)?;
    dict.set_item("sparse_blocks", report.sparse_blocks)?;
    dict.set_item("bytes_encoded", report.bytes_encoded)?;
    dict.set_item("file_bytes", report.file_bytes)?;
    dict.set_item("big_tiff", report.big_tiff)?;
    dict.set_item("peak_buffer_bytes", report.peak_buffer_bytes)?;
    dict.set_item("source_wait_seconds", report.source_wait.as_secs_f64())?;
    dict.set_item("append_seconds", report.append_time.as_secs_f64())?;
    dict.set_item("commit_seconds", report.commit_time.as_secs_f64())?;
    dict.set_item("seconds", report.wall_time.as_secs_f64())?;
    let bands = report.statistics.iter().map(|band| statistics(py, band)).collect::<PyResult<Vec<_>>>()?;
    dict.set_item("statistics", PyList::new(py, bands)?)?;
    on_device(&dict, report.gpu.as_ref())?;
    Ok(dict)
}

fn statistics<'py>(py: Python<'py>, band: &BandStatistics) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("count", band.count())?;
    dict.set_item("total", band.total())?;
    dict.set_item("min", band.minimum())?;
    dict.set_item("max", band.maximum())?;
    dict.set_item("mean", band.mean())?;
    dict.set_item("std", band.std_dev())?;
    dict.set_item("valid_percent", band.valid_percent())?;
    Ok(dict)
}

/// What a device did, and what the CPU did in its place.
fn on_device(dict: &Bound<'_, PyDict>, report: Option<&DeviceReport>) -> PyResult<()> {
    let py = dict.py();
    let fallbacks = PyList::empty(py);
    if let Some(report) = report {
        dict.set_item("device_name", &report.name)?;
        dict.set_item("placement", &report.placement)?;
        dict.set_item("read_by", &report.read_by)?;
        dict.set_item("decoded_by", &report.decoded_by)?;
        dict.set_item("compressed_by", &report.compressed_by)?;
        dict.set_item("written_by", &report.written_by)?;
        let stats = PyDict::new(py);
        stats.set_item("allocations", report.stats.allocations)?;
        stats.set_item("current_bytes", report.stats.current_bytes)?;
        stats.set_item("peak_bytes", report.stats.peak_bytes)?;
        stats.set_item("uploads", report.stats.uploads)?;
        stats.set_item("uploaded_bytes", report.stats.uploaded_bytes)?;
        stats.set_item("downloads", report.stats.downloads)?;
        stats.set_item("downloaded_bytes", report.stats.downloaded_bytes)?;
        stats.set_item("copies", report.stats.copies)?;
        stats.set_item("launches", report.stats.launches)?;
        stats.set_item("synchronisations", report.stats.synchronisations)?;
        stats.set_item("library_calls", report.stats.library_calls)?;
        stats.set_item("file_reads", report.stats.file_reads)?;
        stats.set_item("file_writes", report.stats.file_writes)?;
        dict.set_item("stats", stats)?;
        for fallback in &report.fallbacks {
            let entry = PyDict::new(py);
            entry.set_item("stage", fallback.stage)?;
            entry.set_item("reason", &fallback.reason)?;
            entry.set_item("blocks", fallback.blocks)?;
            fallbacks.append(entry)?;
        }
    }
    dict.set_item(intern!(py, "fallbacks"), fallbacks)
}
