//! The engine's checks of a request, for Python modules that word the error themselves: they name the parameter of the caller, and
//! mosaics have no file of the engine to check against.

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::PyInt;
use swath::Limits;
use swath::tiff::Window;

/// A number of rows, columns or samples. A number that 64 bits do not hold is the nearest one that they do.
pub(crate) struct Count(u64);

impl<'py> FromPyObject<'_, 'py> for Count {
    type Error = PyErr;

    fn extract(number: Borrowed<'_, 'py, PyAny>) -> PyResult<Count> {
        let py = number.py();
        number.extract().map(Count).or_else(|error: PyErr| {
            if !error.is_instance_of::<PyOverflowError>(py) {
                return Err(error);
            }
            Ok(Count(if number.lt(PyInt::new(py, 0))? { 0 } else { u64::MAX }))
        })
    }
}

/// Whether a window (row start, column start, row stop, column stop) is inside an image and not empty.
#[pyfunction]
pub(crate) fn has_window(window: &Bound<'_, PyAny>, height: Count, width: Count) -> bool {
    // Negative numbers and numbers of more than 64 bits are outside of every image.
    let window = window.extract::<(u64, u64, u64, u64)>();
    window.is_ok_and(|(top, left, bottom, right)| Window::new(top..bottom, left..right, width.0, height.0).is_some())
}

/// Whether a read of so many samples of each pixel is within a limit.
#[pyfunction]
pub(crate) fn within_max_pixels(height: Count, width: Count, samples: Count, max_pixels: Count) -> bool {
    let mut limits = Limits::default();
    limits.max_pixels = max_pixels.0;
    limits.samples_of_read(height.0, width.0, samples.0).is_ok()
}
