//! Nodata values, for Python.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use swath::tiff::nodata::{NoData, SampleMatch};

use crate::array::named;

/// The number as Python has it: an int, or a float.
pub(crate) fn to_python<'py>(py: Python<'py>, nodata: NoData) -> PyResult<Bound<'py, PyAny>> {
    match nodata {
        NoData::Uint(value) => value.into_bound_py_any(py),
        NoData::Int(value) => value.into_bound_py_any(py),
        NoData::Float(value) => value.into_bound_py_any(py),
    }
}

/// A number of Python's. An int beyond the range of floats is infinite.
pub(crate) fn from_python(value: &Bound<'_, PyAny>) -> PyResult<NoData> {
    if let Ok(value) = value.extract::<i64>() {
        return Ok(NoData::Int(value));
    }
    if let Ok(value) = value.extract::<u64>() {
        return Ok(NoData::Uint(value));
    }
    match value.extract::<f64>() {
        Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => Ok(NoData::Float(f64::MAX)),
        number => number.map(NoData::Float),
    }
}

/// The number that a nodata text is, as it is written: an int where it has digits only.
#[pyfunction]
pub(crate) fn nodata_number<'py>(py: Python<'py>, text: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    NoData::number(text).map(|nodata| to_python(py, nodata)).transpose()
}

/// Whether samples of a type can have a nodata value, and the sample that is nodata.
#[pyfunction]
pub(crate) fn match_nodata<'py>(
    py: Python<'py>,
    nodata: &Bound<'py, PyAny>,
    dtype: &str,
) -> PyResult<(&'static str, Option<Bound<'py, PyAny>>)> {
    let dtype = named(dtype)?;
    Ok(match from_python(nodata)?.sample_match(dtype.format(), dtype.size() as u32 * 8) {
        SampleMatch::Value(value) => ("value", Some(to_python(py, value)?)),
        SampleMatch::OutOfRange => ("out of range", None),
        SampleMatch::Fractional => ("fractional", None),
        SampleMatch::NonFinite => ("non-finite", None),
        _ => ("unknown", None),
    })
}

/// Whether a nodata value lies between the least and the greatest number of a type.
#[pyfunction]
pub(crate) fn nodata_in_range(nodata: &Bound<'_, PyAny>, dtype: &str) -> PyResult<bool> {
    let dtype = named(dtype)?;
    Ok(from_python(nodata)?.in_range(dtype.format(), dtype.size() as u32 * 8))
}
