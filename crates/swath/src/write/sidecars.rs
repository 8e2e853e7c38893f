//! The sidecar files of a written file: metadata without a tag goes to `.aux.xml`, where GDAL looks for it.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use swath_io::NewFile;
use swath_tiff::pam::{self, Pam, PamBand, Srs};

use crate::dataset::metadata::ImageMetadata;

/// Returns the metadata that tags cannot hold; `None` if there is none.
fn leftovers(about: &ImageMetadata) -> Option<Pam> {
    let bands = about.bands.iter().enumerate().filter(|(_, band)| !band.categories.is_empty());
    let bands = bands.map(|(band, about)| PamBand {
        band: band + 1,
        categories: about.categories.clone(),
        ..PamBand::default()
    });
    let mut pam = Pam { bands: bands.collect(), ..Pam::default() };
    // A coordinate reference system that GeoKeys cannot express.
    let srs = about.crs_text.as_ref().filter(|_| about.geo_keys.is_none());
    let srs = srs.map(|text| Srs { text: text.clone(), ..Srs::default() });
    // The tiepoint tag holds either the transform or control points.
    if about.transform.is_some() {
        pam.srs = srs;
        pam.gcps.clone_from(&about.gcps);
    } else {
        pam.gcp_srs = srs;
    }
    (pam != Pam::default()).then_some(pam)
}

/// The suffixes of the sidecar files that readers look for.
const SIDECARS: [&str; 3] = [".aux.xml", ".ovr", ".msk"];

/// Returns a sidecar file that exists. Readers would treat it as a part of the new file.
pub(super) fn existing(path: &Path) -> Option<PathBuf> {
    SIDECARS.iter().map(|suffix| beside(path, suffix)).find(|sidecar| sidecar.exists())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Removes the sidecar files of a replaced file, which readers would treat as a part of the new one, and
/// writes the new `.aux.xml`.
pub(super) fn replace(path: &Path, about: &ImageMetadata, overwrite: bool) -> std::io::Result<()> {
    if overwrite {
        for suffix in SIDECARS {
            match std::fs::remove_file(beside(path, suffix)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                // Most files have no sidecars.
                _ => {}
            }
        }
    }
    let Some(pam) = leftovers(about) else { return Ok(()) };
    let new = NewFile::create(&beside(path, ".aux.xml"))?;
    new.file().write_all(pam::encode(&pam).as_bytes())?;
    new.publish(true)
}
