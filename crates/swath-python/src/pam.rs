//! The `.aux.xml` file (PAM) beside an image that is not an opened file: a mosaic, or a file that was just written.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use swath::io::{NewFile, resolve_links};
use swath::tiff::pam::{Classes, Pam, with_classes, with_statistics};
use swath::tiff::xml::XmlLimits;

use crate::errors::of_io;
use crate::limits;

/// Names of classes by value, and their colours.
pub(crate) type NamesAndColors = (Vec<String>, Option<Vec<(u8, u8, u8, u8)>>);

/// Classes as Python has them.
pub(crate) fn names_and_colors(classes: Classes) -> NamesAndColors {
    let colors = classes.colors.map(|colors| colors.into_iter().map(|[r, g, b, a]| (r, g, b, a)).collect());
    (classes.names, colors)
}

/// The same classes as Python passes them.
pub(crate) fn classes_of((names, colors): NamesAndColors) -> Classes {
    let colors = colors.map(|colors| colors.into_iter().map(|(r, g, b, a)| [r, g, b, a]).collect());
    Classes { names, colors }
}

/// The classes in the `.aux.xml` file of an image. A file that is missing, too large or not PAM has none.
#[pyfunction]
pub(crate) fn read_classes(py: Python<'_>, path: PathBuf) -> Option<NamesAndColors> {
    let limits = limits::current().ok()?;
    py.detach(|| {
        let xml = limits.xml();
        let pam = Pam::parse(&read(&beside(&path), limits.max_xml_bytes)?, &xml).ok()?;
        pam.classes().map(names_and_colors)
    })
}

/// Write classes into the `.aux.xml` file of an image. What else the file has stays.
#[pyfunction]
#[pyo3(signature = (path, names, colors = None))]
pub(crate) fn write_classes(
    py: Python<'_>,
    path: PathBuf,
    names: Vec<String>,
    colors: Option<Vec<(u8, u8, u8, u8)>>,
) -> PyResult<()> {
    let classes = classes_of((names, colors));
    edit(py, &path, |document| with_classes(document, &classes))
}

/// Write statistics into the `.aux.xml` file of an image: the name and the text of each. What else the file has stays.
#[pyfunction]
pub(crate) fn write_statistics(py: Python<'_>, path: PathBuf, items: Vec<(String, String)>) -> PyResult<()> {
    edit(py, &path, |document| with_statistics(document, &items))
}

fn edit(py: Python<'_>, path: &Path, change: impl Fn(Option<&[u8]>) -> String + Sync) -> PyResult<()> {
    let write = |target: &Path| {
        let text = change(read(target, XmlLimits::default().bytes).as_deref());
        let new = NewFile::create(target)?;
        new.file().write_all(text.as_bytes())?;
        new.publish(true)
    };
    // Readers look beside the path that they open, which may be the link or its target.
    let real = resolve_links(path).map_err(|error| of_io(&error, format!("{}: {error}", path.display())))?;
    for target in if real == path { vec![beside(path)] } else { vec![beside(&real), beside(path)] } {
        py.detach(|| write(&target)).map_err(|error| of_io(&error, format!("{}: {error}", target.display())))?;
    }
    Ok(())
}

fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".aux.xml");
    name.into()
}

fn read(path: &Path, max_bytes: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(max_bytes as u64 + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() <= max_bytes).then_some(bytes)
}
