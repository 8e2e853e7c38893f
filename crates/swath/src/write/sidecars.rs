//! The sidecar files of a written file: metadata without a tag goes to `.aux.xml`, where GDAL looks for it.

use std::io::Write;
use std::path::PathBuf;

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
const AUX_XML: &str = ".aux.xml";

/// Returns a sidecar file that exists. Readers would treat it as a part of the new file.
pub(super) fn existing(new: &NewFile) -> Option<PathBuf> {
    new.sidecar_paths(&SIDECARS).into_iter().find(|sidecar| sidecar.exists())
}

/// Publishes a file with its new `.aux.xml`, if it has one, and removes the sidecar files of the file that it
/// replaces, which readers would treat as a part of the new one.
pub(super) fn publish(new: NewFile, about: &ImageMetadata, overwrite: bool) -> std::io::Result<()> {
    let mut fresh = Vec::new();
    if let Some(pam) = leftovers(about) {
        fresh.push(new.sidecar(AUX_XML)?);
        fresh.extend(new.sidecar_of_link(AUX_XML));
        let text = pam::encode(&pam);
        for sidecar in &fresh {
            sidecar.file().write_all(text.as_bytes())?;
        }
    }
    new.publish_with_sidecars(overwrite, &SIDECARS, fresh)
}
