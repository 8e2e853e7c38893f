//! The limits of the process and of one file.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use swath::Limits;

/// Limits by name.
type Values = BTreeMap<String, u64>;

/// What `set_limits` has set for this process.
static OF_PROCESS: RwLock<Values> = RwLock::new(BTreeMap::new());

/// The limits of this process: those of the environment, changed by `set_limits`.
pub(crate) fn current() -> PyResult<Limits> {
    let limits = Limits::try_from_env().map_err(|error| PyValueError::new_err(error.to_string()))?;
    changed(limits, &OF_PROCESS.read().unwrap_or_else(PoisonError::into_inner))
}

/// The limits of one file: those of this process, changed by the argument `limits`.
pub(crate) fn of_file(limits: Option<&Bound<'_, PyDict>>) -> PyResult<Limits> {
    let current = current()?;
    limits.map_or(Ok(current.clone()), |limits| changed(current, &values(limits)?))
}

fn changed(mut limits: Limits, values: &Values) -> PyResult<Limits> {
    for (name, value) in values {
        limits.set(name, *value).map_err(|unknown| PyValueError::new_err(unknown.to_string()))?;
    }
    Ok(limits)
}

/// The names and numbers of a dict.
fn values(limits: &Bound<'_, PyDict>) -> PyResult<Values> {
    let mut values = Values::new();
    for (name, value) in limits {
        let name: String = name.extract().map_err(|_| PyTypeError::new_err("the names of limits are str"))?;
        let wrong = || format!("limits[{name:?}] must be a whole number of at least 1, got {value}");
        let number = match value.extract::<i128>() {
            Ok(number) => number,
            Err(_) => return Err(PyTypeError::new_err(wrong())),
        };
        if number < 1 {
            return Err(PyValueError::new_err(wrong()));
        }
        values.insert(name.clone(), u64::try_from(number).unwrap_or(u64::MAX));
    }
    changed(Limits::default(), &values)?;
    Ok(values)
}

/// Replace the limits that this process has set, and return those that it had set before. None removes them.
#[pyfunction]
#[pyo3(signature = (limits))]
pub(crate) fn set_limits(limits: Option<&Bound<'_, PyDict>>) -> PyResult<Values> {
    let new = limits.map(values).transpose()?.unwrap_or_default();
    Ok(std::mem::replace(&mut *OF_PROCESS.write().unwrap_or_else(PoisonError::into_inner), new))
}

/// The limits that this process has set.
#[pyfunction]
pub(crate) fn process_limits() -> Values {
    OF_PROCESS.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The limits that the environment, `set_limits` or the argument has changed.
#[pyfunction]
#[pyo3(signature = (limits = None))]
pub(crate) fn changed_limits(limits: Option<&Bound<'_, PyDict>>) -> PyResult<Values> {
    let from_env = Limits::try_from_env().map_err(|error| PyValueError::new_err(error.to_string()))?;
    let of_env = from_env.values().zip(Limits::TABLE).filter(|((_, value), limit)| *value != limit.default);
    let mut changed: Values = of_env.map(|((name, value), _)| (name.to_owned(), value)).collect();
    changed.extend(process_limits());
    changed.extend(limits.map(values).transpose()?.unwrap_or_default());
    Ok(changed)
}

/// All limits that are in force for files that are opened now.
#[pyfunction]
#[pyo3(signature = (limits = None))]
pub(crate) fn get_limits(limits: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(&'static str, u64)>> {
    Ok(of_file(limits)?.values().collect())
}
