//! What the tables know of coordinate reference systems.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use swath::tiff::geo::{Crs, CrsKeysError, CrsKind, GeoKeys, RasterType};

/// The WKT of an EPSG code.
#[pyfunction]
pub(crate) fn wkt_of_epsg(code: u32) -> Option<String> {
    Crs::from_keys(&GeoKeys::from_epsg(code, RasterType::Area).ok()?)?.to_wkt()
}

/// The EPSG code of a coordinate reference system that is given as WKT or by name.
#[pyfunction]
pub(crate) fn epsg_of_wkt(text: &str) -> Option<u32> {
    Crs::from_keys(&GeoKeys::from_text(text, RasterType::Area).ok()?)?.epsg()
}

/// What kind of system a code stands for.
#[pyfunction]
pub(crate) fn crs_kind(code: u32) -> Option<&'static str> {
    match GeoKeys::from_epsg(code, RasterType::Area) {
        Err(CrsKeysError::HeightsAlone { .. }) => Some("vertical"),
        Err(_) => None,
        Ok(keys) => {
            let crs = Crs::from_keys(&keys)?;
            Some(match crs.kind {
                _ if crs.vertical.is_some() => "compound",
                CrsKind::Projected => "projected",
                CrsKind::Geographic | CrsKind::Geographic3D => "geographic",
                CrsKind::Geocentric => "geocentric",
                CrsKind::Engineering => "engineering",
            })
        }
    }
}

/// The GeoKeys of a text.
#[pyfunction]
pub(crate) fn geo_keys_of_crs<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyDict>> {
    let keys = GeoKeys::from_text(text, RasterType::Area).map_err(|error| crate::errors::crs_to_python(py, &error))?;
    crate::describe::geo_keys(py, Some(&keys))
}
