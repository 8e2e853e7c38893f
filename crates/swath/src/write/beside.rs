//! What an image is about that has no place in its tags: it goes beside the file, into `.aux.xml`, where GDAL looks for it.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use swath_io::NewFile;
use swath_tiff::pam::{self, Pam, PamBand, Srs};

use crate::dataset::metadata::ImageMetadata;

/// What the tags cannot hold; `None` when they hold all.
fn leftovers(about: &ImageMetadata) -> Option<Pam> {
    let bands = about.bands.iter().enumerate().filter(|(_, band)| !band.categories.is_empty());
    let bands = bands.map(|(band, about)| PamBand {
        band: band + 1,
        categories: about.categories.clone(),
        ..PamBand::default()
    });
    let mut pam = Pam { bands: bands.collect(), ..Pam::default() };
    // A system that GeoKeys have no words for.
    let srs = about.crs_text.as_ref().filter(|_| about.geo_keys.is_none());
    let srs = srs.map(|text| Srs { text: text.clone(), ..Srs::default() });
    // Tiepoints are either the transform or control points.
    if about.transform.is_some() {
        pam.srs = srs;
        pam.gcps.clone_from(&about.gcps);
    } else {
        pam.gcp_srs = srs;
    }
    (pam != Pam::default()).then_some(pam)
}

/// The files beside an image that readers take for a part of it.
const SIDECARS: [&str; 3] = [".aux.xml", ".ovr", ".msk"];

/// A sidecar that is there already: it would be taken for that of a new file, and belongs to somebody.
pub(super) fn existing(path: &Path) -> Option<PathBuf> {
    SIDECARS.iter().map(|suffix| beside(path, suffix)).find(|sidecar| sidecar.exists())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Replace what lay beside a file that was replaced: its overviews, mask and metadata would be taken for those of the new one.
pub(super) fn replace(path: &Path, about: &ImageMetadata, overwrite: bool) -> std::io::Result<()> {
    if overwrite {
        for suffix in SIDECARS {
            match std::fs::remove_file(beside(path, suffix)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                // Most files have none.
                _ => {}
            }
        }
    }
    let Some(pam) = leftovers(about) else { return Ok(()) };
    let new = NewFile::create(&beside(path, ".aux.xml"))?;
    new.file().write_all(pam::encode(&pam).as_bytes())?;
    new.publish(true)
}
