//! Many small windows of many files, at once.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use swath::read::Cancel;
use swath::{DType, Error, ReadRequest};

use crate::array::Bytes;
use crate::file::{CACHE, File, Window, window_of};

/// One window: the file, the part of it, the band.
type Job = (Py<File>, Window, usize);

/// Consecutive jobs that read bands of the same window of the same file.
struct Part<'a> {
    /// The index of the first job.
    first: usize,
    file: &'a File,
    window: (Range<u64>, Range<u64>),
    bands: Vec<usize>,
}

/// Decode one band of one window for each job into `out`, `(job, y, x)`.
#[pyfunction]
#[pyo3(signature = (jobs, out, *, level = 0, threads = None))]
pub(crate) fn read_windows<'py>(
    py: Python<'py>,
    jobs: Vec<Job>,
    out: &Bound<'_, PyUntypedArray>,
    level: usize,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyDict>> {
    let bytes = Bytes::writable(out)?;
    let &[count, height, width] = out.shape() else {
        return Err(PyValueError::new_err("out must have the axes (job, y, x)"));
    };
    if count != jobs.len() {
        return Err(PyValueError::new_err(format!("there are {} windows and room for {count}", jobs.len())));
    }
    let each = height * width * bytes.dtype.size();
    let parts = parts_of(&jobs, (height as u64, width as u64), bytes.dtype)?;
    let threads = threads.unwrap_or_else(swath::read::default_threads).clamp(1, parts.len().max(1));
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None::<(usize, Error)>));
    let cancel = Cancel::new();
    let work = || loop {
        let i = next.fetch_add(1, Ordering::Relaxed);
        let Some(Part { first, file, window: (rows, cols), bands }) = parts.get(i) else { return };
        // SAFETY: the array is alive until the call ends, and the jobs of the parts do not overlap.
        let out = unsafe { std::slice::from_raw_parts_mut(bytes.at::<u8>(first * each), bands.len() * each) };
        let request = ReadRequest::new()
            .window(rows.clone(), cols.clone())
            .bands(bands.as_slice())
            .level(level)
            .threads(1)
            .cache(&CACHE)
            .cancel(&cancel);
        if let Err(error) = file.read(&request, out) {
            cancel.cancel();
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            // What was cancelled because of another window is not the reason.
            if failed.is_none() || !matches!(error, Error::Cancelled) && matches!(&*failed, Some((_, Error::Cancelled)))
            {
                *failed = Some((*first, error));
            }
            return;
        }
    };
    crate::waiting::run(py, each * count, &cancel, || {
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // If the system starts no more threads, those that run do all the work.
                if std::thread::Builder::new().name("swath-windows".into()).spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
        Ok(())
    })?;
    if let Some((i, error)) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(named(py, i, error));
    }
    let report = PyDict::new(py);
    report.set_item("device", "cpu")?;
    report.set_item("threads", threads)?;
    report.set_item("windows", count)?;
    report.set_item("bytes_decoded", each * count)?;
    Ok(report)
}

/// Checks the windows and joins the jobs that are one read.
fn parts_of(jobs: &[Job], shape: (u64, u64), dtype: DType) -> PyResult<Vec<Part<'_>>> {
    let mut parts: Vec<Part<'_>> = Vec::with_capacity(jobs.len());
    for (i, (file, window, band)) in jobs.iter().enumerate() {
        let file = file.get();
        let (rows, cols) = window_of(*window)?;
        if (rows.end - rows.start, cols.end - cols.start) != shape {
            let (height, width) = shape;
            return Err(PyValueError::new_err(format!("window {i} is not {height} x {width} pixels")));
        }
        if file.dtype() != dtype {
            let (found, wanted) = (file.dtype().name(), dtype.name());
            return Err(PyValueError::new_err(format!(
                "the file of window {i} has {found} samples, the array {wanted}"
            )));
        }
        // Jobs that follow each other with other bands of the same window are one read: a block that holds all bands
        // is decoded once.
        match parts.last_mut() {
            Some(Part { file: other, window: same, bands, .. })
                if std::ptr::eq(*other, file) && *same == (rows.clone(), cols.clone()) =>
            {
                bands.push(*band);
            }
            _ => parts.push(Part { first: i, file, window: (rows, cols), bands: vec![*band] }),
        }
    }
    Ok(parts)
}

/// Returns the exception for an error, with the index of the window. An exception of the system has its own number and
/// names the file, so it does not change.
fn named(py: Python<'_>, window: usize, error: Error) -> PyErr {
    let raised = crate::errors::to_python(error);
    if raised.is_instance_of::<PyOSError>(py) {
        return raised;
    }
    let message = format!("window {window}: {}", raised.value(py));
    raised.get_type(py).call1((message,)).map_or_else(|error| error, PyErr::from_value)
}
