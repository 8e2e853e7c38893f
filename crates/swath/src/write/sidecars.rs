//! The sidecar files of a written file: metadata without a tag goes to `.aux.xml`, where GDAL looks for it.

use std::io::Write;
use std::path::PathBuf;

use swath_io::{NewFile, SidecarName};
use swath_tiff::pam::{self, Classes, Pam, PamBand, Srs, with_classes, with_statistics};

use crate::dataset::metadata::ImageMetadata;
use crate::error::Result;
use crate::write::report::WriteReport;

/// What a caller stores in the sidecar files of a written file, in addition to what Swath stores there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtraSidecars {
    /// Names and colours of the values of the first band, for `.aux.xml`.
    pub classes: Option<Classes>,
    /// Names and texts of statistics of the first band, for `.aux.xml`.
    pub statistics: Vec<(String, String)>,
    /// The contents of the style file for QGIS, `.qml`.
    pub style: Option<Vec<u8>>,
}

/// Makes the additional sidecars when the pixels are written. The report has the statistics of the pixels.
pub type SidecarsFn<'a> = dyn Fn(&WriteReport) -> Result<ExtraSidecars> + Sync + 'a;

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
const AUX_XML: SidecarName = SidecarName::Suffix(".aux.xml");
const STYLE: SidecarName = SidecarName::Extension("qml");

/// Returns a sidecar file that exists. Readers would treat it as a part of the new file.
pub(super) fn existing(new: &NewFile) -> Option<PathBuf> {
    new.sidecar_paths(&SIDECARS).into_iter().find(|sidecar| sidecar.exists())
}

/// Publishes a file with its new sidecars, if it has any, and removes the sidecar files of the file that it
/// replaces, which readers would treat as a part of the new one.
pub(super) fn publish(
    new: NewFile,
    about: &ImageMetadata,
    extra: &ExtraSidecars,
    overwrite: bool,
) -> std::io::Result<()> {
    let mut text = leftovers(about).map(|pam| pam::encode(&pam));
    if let Some(classes) = &extra.classes {
        text = Some(with_classes(text.as_deref().map(str::as_bytes), classes));
    }
    if !extra.statistics.is_empty() {
        text = Some(with_statistics(text.as_deref().map(str::as_bytes), &extra.statistics));
    }
    let mut fresh = Vec::new();
    let contents = [(AUX_XML, text.as_deref().map(str::as_bytes)), (STYLE, extra.style.as_deref())];
    for (name, bytes) in contents.into_iter().filter_map(|(name, bytes)| Some((name, bytes?))) {
        for sidecar in std::iter::once(new.sidecar(name)?).chain(new.sidecar_of_link(name)) {
            sidecar.file().write_all(bytes)?;
            fresh.push(sidecar);
        }
    }
    new.publish_with_sidecars(overwrite, &SIDECARS, fresh)
}
