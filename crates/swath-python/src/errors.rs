//! From the engine's errors to Python's exceptions: the classes are those of `swath/errors.py`.

use pyo3::exceptions::{PyIndexError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use swath::Error;
use swath::tiff::geo::CrsKeysError;
use swath::write::PlanError;

/// An exception of `swath.errors`.
pub(crate) fn of_class(py: Python<'_>, class: &str, message: String) -> PyErr {
    let made =
        py.import("swath.errors").and_then(|module| module.getattr(class)).and_then(|class| class.call1((&message,)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// The exception for an error of the engine.
pub(crate) fn to_python(error: Error) -> PyErr {
    exception_of(&error)
}

/// As [`to_python`], by reference.
pub(crate) fn exception_of(error: &Error) -> PyErr {
    Python::attach(|py| {
        let message = error.to_string();
        let class = match error {
            error if error.is_out_of_memory() => "OutOfMemoryError",
            Error::Source(swath::io::Error::Open { cause: source, .. }) => return of_io(source, message),
            Error::Source(_) => return PyOSError::new_err(message),
            Error::Fetch { cause: source, .. } => return of_io(source, message),
            Error::Write { cause: source, .. } => return of_io(source, message),
            Error::Container { cause: source, .. } => match source {
                swath::tiff::Error::Limit { name: "max_pixels", .. } => "PixelSafetyLimitError",
                swath::tiff::Error::DuplicateTag { .. } => "DuplicateIFDTagError",
                swath::tiff::Error::Read { cause: source, .. } => return of_io(source, message),
                _ => "CorruptGeoTIFFError",
            },
            Error::Limit { name: "max_pixels" | "max_block_pixels" | "max_block_memory", .. } => {
                "PixelSafetyLimitError"
            }
            Error::Block { cause: swath_codec::Error::MemoryLimit { .. }, .. } => "PixelSafetyLimitError",
            Error::Codec { .. } | Error::SampleType { .. } => "UnsupportedGeoTIFFFeatureError",
            Error::Block { .. } | Error::BlockPastEnd { .. } => "CorruptGeoTIFFError",
            Error::Band { .. } => return PyIndexError::new_err(message),
            Error::Device(error) if error.is_memory() => "DeviceMemoryError",
            Error::Device(_) | Error::DeviceName { .. } | Error::Fallback { .. } => "DeviceError",
            Error::Thread { .. } => return PyRuntimeError::new_err(message),
            Error::Exists { .. } => return pyo3::exceptions::PyFileExistsError::new_err(message),
            _ => return PyValueError::new_err(message),
        };
        of_class(py, class, message)
    })
}

/// The exception for a write that cannot be planned.
pub(crate) fn plan_to_python(error: PlanError) -> PyErr {
    if matches!(&error, PlanError::Codec(swath_codec::Error::OutOfMemory { .. })) {
        return Python::attach(|py| of_class(py, "OutOfMemoryError", error.to_string()));
    }
    PyValueError::new_err(error.to_string())
}

/// The exception for a coordinate reference system that GeoKeys cannot describe.
pub(crate) fn crs_to_python(py: Python<'_>, error: &CrsKeysError) -> PyErr {
    let class = match error {
        CrsKeysError::UnknownCode { .. } | CrsKeysError::UnknownCompound { .. } => "UnknownCRSModelTypeError",
        CrsKeysError::HeightsAlone { .. } => "NonRepresentableEPSGCRSError",
        _ => "UnparseableCRSError",
    };
    of_class(py, class, error.to_string())
}

/// An OSError of the subclass that fits the error number (FileNotFoundError, ...), with this message.
pub(crate) fn of_io(error: &std::io::Error, message: String) -> PyErr {
    match error.raw_os_error() {
        // With two arguments OSError chooses the subclass by the number.
        Some(number) => PyOSError::new_err((number, message)),
        None => match python_error(error) {
            Some(raised) => raised,
            None if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Python::attach(|py| of_class(py, "CorruptGeoTIFFError", message))
            }
            None => PyOSError::new_err(message),
        },
    }
}

/// The exception that a source in Python raised, where that is why a read failed.
fn python_error(error: &std::io::Error) -> Option<PyErr> {
    let raised = error.get_ref()?.downcast_ref::<PyErr>()?;
    Some(Python::attach(|py| raised.clone_ref(py)))
}
