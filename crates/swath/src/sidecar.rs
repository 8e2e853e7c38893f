//! Files that lie beside an image and add to it: `.ovr`, `.msk`, `.aux.xml`, world files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use swath_io::Source;
use swath_tiff::pam::Pam;
use swath_tiff::world_file::{GeorefSource, TabFile};
use swath_tiff::xml::XmlLimits;
use swath_tiff::{Header, Ifd, Limits, read_chain, world_file};

/// Larger world files and tables than this are something else.
const MAX_TEXT: u64 = 64 << 10;

/// What lies beside an image. A sidecar that cannot be understood is left out: it is not the image.
#[derive(Debug, Default)]
pub(crate) struct Sidecars {
    /// The directories of the `.ovr` file.
    pub(crate) overviews: Vec<(Arc<dyn Source>, Ifd)>,
    /// The directories of the `.msk` file.
    pub(crate) masks: Vec<(Arc<dyn Source>, Ifd)>,
    /// The `.aux.xml` file.
    pub(crate) pam: Option<Pam>,
}

impl Sidecars {
    /// Look beside `source`.
    pub(crate) fn find(source: &dyn Source, limits: &Limits) -> Sidecars {
        let xml = XmlLimits { bytes: limits.max_xml_bytes, ..XmlLimits::default() };
        Sidecars {
            overviews: directories(source, ".ovr", limits),
            masks: directories(source, ".msk", limits),
            pam: bytes(source, &|path| with_suffix(path, ".aux.xml"), limits.max_xml_bytes as u64)
                .and_then(|bytes| Pam::parse(&bytes, &xml).ok()),
        }
    }
}

/// The transform that a MapInfo table or a world file beside `source` gives. Looked for only when nothing else places the
/// image; the table counts more, as in GDAL.
pub(crate) fn placed_beside(source: &dyn Source) -> Option<([f64; 6], GeorefSource)> {
    let name = PathBuf::from(source.name()).file_name()?.to_string_lossy().into_owned();
    let text = |change: &dyn Fn(&Path) -> PathBuf| bytes(source, change, MAX_TEXT);
    let table = ["tab", "TAB"].iter().find_map(|extension| text(&|path| path.with_extension(extension)));
    if let Some(transform) = table.and_then(|bytes| TabFile::parse(&bytes)?.geo_transform()) {
        return Some((transform, GeorefSource::TabFile));
    }
    world_file::candidates(&name).into_iter().find_map(|candidate| {
        let transform = world_file::parse(&text(&|path| path.with_file_name(&candidate))?).ok()?;
        Some((transform, GeorefSource::WorldFile))
    })
}

/// `path` with something behind its name.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// The contents of a file beside `source`, if it is there and not larger than it may be.
fn bytes(source: &dyn Source, change: &dyn Fn(&Path) -> PathBuf, max: u64) -> Option<Vec<u8>> {
    let sibling = source.sibling(change).ok().flatten()?;
    if sibling.size() > max {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(sibling.size()).ok()?];
    sibling.read_at(0, &mut bytes).ok()?;
    Some(bytes)
}

/// The directories of a TIFF beside `source`.
fn directories(source: &dyn Source, suffix: &str, limits: &Limits) -> Vec<(Arc<dyn Source>, Ifd)> {
    let Some(sibling) = source.sibling(&|path| with_suffix(path, suffix)).ok().flatten() else { return Vec::new() };
    let sibling: Arc<dyn Source> = sibling.into();
    let chain = Header::read(sibling.as_ref()).and_then(|header| read_chain(sibling.as_ref(), header, limits));
    let links = chain.map(|chain| chain.links).unwrap_or_default();
    links.into_iter().map(|link| (Arc::clone(&sibling), link.ifd)).collect()
}
