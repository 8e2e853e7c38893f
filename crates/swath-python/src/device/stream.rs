//! CUDA streams of other libraries, as `stream=` takes them.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBool;
use swath::device::CallerStream;

/// The stream that an object is: the number of a handle, or a stream of CuPy, PyTorch or any other library that has `__cuda_stream__`.
///
/// # Errors
/// A TypeError or ValueError for any other object.
pub(crate) fn stream_of(object: &Bound<'_, PyAny>) -> PyResult<CallerStream> {
    let handle = match handle_of(object)? {
        // The null stream is the legacy default stream.
        0 => CallerStream::LEGACY,
        handle => u64::try_from(handle)
            .map_err(|_| PyValueError::new_err(format!("stream must be the handle of a CUDA stream, not {handle}")))?,
    };
    // SAFETY: the caller says that it is a stream of the device; the object is kept, and with it the stream, unless it is a mere number:
    // then the documentation demands that the stream outlives the array.
    Ok(unsafe { CallerStream::new(handle, Box::new(object.clone().unbind())) })
}

fn handle_of(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    let wrong = || {
        PyTypeError::new_err(
            "stream must be the handle of a CUDA stream, or a stream of CuPy, PyTorch or a library with __cuda_stream__",
        )
    };
    if object.is_instance_of::<PyBool>() {
        return Err(wrong());
    }
    if let Ok(handle) = object.extract::<i64>() {
        return Ok(handle);
    }
    if let Some(protocol) = object.getattr_opt("__cuda_stream__")? {
        // A method by the protocol; some libraries had an attribute.
        let pair = if protocol.is_callable() { protocol.call0()? } else { protocol };
        let (version, handle): (i64, i64) = pair.extract().map_err(|_| wrong())?;
        if version != 0 {
            return Err(PyTypeError::new_err(format!("version {version} of __cuda_stream__ is not supported")));
        }
        return Ok(handle);
    }
    for name in ["ptr", "cuda_stream"] {
        if let Some(handle) = object.getattr_opt(name)? {
            return handle.extract().map_err(|_| wrong());
        }
    }
    Err(wrong())
}
