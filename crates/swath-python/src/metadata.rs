//! The items of GDAL_METADATA, for Python.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use swath::tiff::gdal_metadata::{GdalMetadata, Item};
use swath::tiff::xml::XmlLimits;

/// Name, value, band from 0, domain, role: an item as Python has it.
pub(crate) type Entry = (String, String, Option<usize>, Option<String>, Option<String>);

/// The engine's item.
pub(crate) fn item_of((name, value, sample, domain, role): Entry) -> Item {
    Item { name, value, domain, role, sample }
}

/// Python's item.
pub(crate) fn entry_of(item: Item) -> Entry {
    let Item { name, value, domain, role, sample } = item;
    (name, value, sample, domain, role)
}

/// The items of a GDAL_METADATA text.
#[pyfunction]
pub(crate) fn metadata_items(xml: &str) -> PyResult<Vec<Entry>> {
    let parsed = GdalMetadata::parse(xml.as_bytes(), &XmlLimits::default())
        .map_err(|error| PyValueError::new_err(format!("the text is not GDAL_METADATA: {error}")))?;
    Ok(parsed.items.into_iter().map(|item| entry_of(item.with_sound_role())).collect())
}

/// Items of the default domain, with the roles that their names say.
#[pyfunction]
pub(crate) fn items_by_name(entries: Vec<(String, String, Option<usize>)>) -> Vec<Entry> {
    entries.into_iter().map(|(name, value, band)| entry_of(Item::named(name, value, band))).collect()
}

/// What items say of bands by their roles: a dict for each band, without the keys that no item has.
#[pyfunction]
pub(crate) fn bands_of_items<'py>(py: Python<'py>, items: Vec<Entry>, bands: usize) -> PyResult<Bound<'py, PyList>> {
    let mut metadata = GdalMetadata::default();
    metadata.items.extend(items.into_iter().map(item_of));
    let list = PyList::empty(py);
    for band in metadata.bands(bands) {
        let dict = PyDict::new(py);
        for (key, number) in [("scale", band.scale), ("offset", band.offset)] {
            if let Some(number) = number {
                dict.set_item(key, number)?;
            }
        }
        let texts = [("units", band.units), ("description", band.description), ("color", band.color_interpretation)];
        for (key, text) in texts {
            if let Some(text) = text {
                dict.set_item(key, text)?;
            }
        }
        list.append(dict)?;
    }
    Ok(list)
}
