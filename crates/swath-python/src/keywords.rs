//! Keyword arguments of Python functions that have more of them than a Rust function should have parameters.
//!
//! Such a function takes `**keywords` and sets the fields of a struct from them. A keyword that the struct does not have is a TypeError,
//! as for any other function of Python.

use std::str::FromStr;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use swath_gpu::UnknownName;

/// One keyword argument of a call.
pub(crate) struct Keyword<'a, 'py> {
    function: &'static str,
    /// The name of the argument.
    pub(crate) name: &'a str,
    value: Bound<'py, PyAny>,
}

impl<'py> Keyword<'_, 'py> {
    /// Converts the value.
    ///
    /// # Errors
    /// The exception of the conversion. A TypeError names the keyword.
    pub(crate) fn value<T: for<'a> FromPyObject<'a, 'py>>(&self) -> PyResult<T> {
        let extracted: Result<T, PyErr> = self.value.extract().map_err(Into::into);
        let py = self.value.py();
        extracted.map_err(|error| {
            if !error.get_type(py).is(py.get_type::<PyTypeError>()) {
                return error;
            }
            PyTypeError::new_err(format!("argument '{}': {}", self.name, error.value(py)))
        })
    }

    /// Converts the name of a value of a setting; `None` leaves it to the environment.
    ///
    /// # Errors
    /// As [`value`](Keyword::value). The ValueError for an unknown name lists the names.
    pub(crate) fn choice<T: FromStr<Err = UnknownName>>(&self) -> PyResult<Option<T>> {
        let name: Option<String> = self.value()?;
        let parsed = name.map(|name| name.parse()).transpose();
        parsed.map_err(|UnknownName { name, names, .. }| {
            PyValueError::new_err(format!("{} must be one of {names}, not '{name}'", self.name))
        })
    }

    /// The error for a keyword that the function does not have.
    pub(crate) fn unknown(&self) -> PyErr {
        PyTypeError::new_err(format!("{}() got an unexpected keyword argument '{}'", self.function, self.name))
    }
}

/// Calls `set` for each keyword argument of a call of `function`.
pub(crate) fn for_each<'py>(
    function: &'static str,
    keywords: Option<&Bound<'py, PyDict>>,
    mut set: impl FnMut(&Keyword<'_, 'py>) -> PyResult<()>,
) -> PyResult<()> {
    for (name, value) in keywords.into_iter().flatten() {
        let name = name.cast::<PyString>()?;
        set(&Keyword { function, name: &name.to_cow()?, value })?;
    }
    Ok(())
}

/// The error for a call without a keyword argument that the function requires.
pub(crate) fn missing(function: &str, name: &str) -> PyErr {
    PyTypeError::new_err(format!("{function}() missing required keyword argument: '{name}'"))
}
