//! Files beside an image that add to it: `.ovr`, `.msk`, `.aux.xml` and world files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use swath_io::Source;
use swath_tiff::pam::Pam;
use swath_tiff::world_file::{GeorefSource, TabFile};
use swath_tiff::{Ifd, Limits, world_file};

use crate::dataset::read_directories;
use crate::error::{Error, Result};
use crate::memory;

/// Maximum size of a world file or MapInfo table, in bytes. A larger file has some other content and is
/// ignored.
const MAX_TEXT: u64 = 64 << 10;

/// A TIFF beside an image (`.ovr` or `.msk`) that exists but cannot be read. Reads of the image ignore it.
#[derive(Debug)]
#[non_exhaustive]
pub struct UnreadableSidecar {
    /// The path or URL of the file.
    pub name: String,
    /// The reason why it cannot be read.
    pub error: Error,
}

/// The contents of the files beside an image. A sidecar file that cannot be understood is left out, because
/// the image does not depend on it.
#[derive(Debug, Default)]
pub(crate) struct Sidecars {
    /// The directories of the `.ovr` file.
    pub(crate) overviews: Vec<(Arc<dyn Source>, Ifd)>,
    /// The directories of the `.msk` file.
    pub(crate) masks: Vec<(Arc<dyn Source>, Ifd)>,
    /// The contents of the `.aux.xml` file.
    pub(crate) pam: Option<Pam>,
    /// Overview and mask files that exist but cannot be read.
    pub(crate) unreadable: Vec<UnreadableSidecar>,
}

impl Sidecars {
    /// Looks for sidecar files of `source`.
    ///
    /// # Errors
    /// The system could not read a sidecar. Without it, pixels could be read as valid that its mask excludes.
    pub(crate) fn find(source: &dyn Source, limits: &Limits) -> Result<Sidecars> {
        let xml = limits.xml();
        let mut unreadable = Vec::new();
        let mut directories = |suffix: &str| match directories(source, suffix, limits) {
            Err(error) if error.is_refused_by_system() => Err(error),
            Err(error) => {
                let name = with_suffix(Path::new(&source.name()), suffix).to_string_lossy().into_owned();
                unreadable.push(UnreadableSidecar { name, error });
                Ok(Vec::new())
            }
            found => found,
        };
        Ok(Sidecars {
            overviews: directories(".ovr")?,
            masks: directories(".msk")?,
            pam: bytes(source, &|path| with_suffix(path, ".aux.xml"), limits.max_xml_bytes as u64)?
                .and_then(|bytes| Pam::parse(&bytes, &xml).ok()),
            unreadable,
        })
    }
}

/// Returns the transform of a MapInfo table or a world file beside `source`. The caller uses it only if
/// nothing else locates the image. The table has priority over the world file, as in GDAL.
///
/// # Errors
/// The system could not read a file that may locate the image.
pub(crate) fn placed_beside(source: &dyn Source) -> Result<Option<([f64; 6], GeorefSource)>> {
    let path = PathBuf::from(source.name());
    let Some(name) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else { return Ok(None) };
    let text = |change: &dyn Fn(&Path) -> PathBuf| bytes(source, change, MAX_TEXT);
    for extension in ["tab", "TAB"] {
        let Some(table) = text(&|path| path.with_extension(extension))? else { continue };
        if let Some(transform) = TabFile::parse(&table).and_then(|table| table.geo_transform()) {
            return Ok(Some((transform, GeorefSource::TabFile)));
        }
        break;
    }
    for candidate in world_file::candidates(&name) {
        let Some(bytes) = text(&|path| path.with_file_name(&candidate))? else { continue };
        if let Ok(transform) = world_file::parse(&bytes) {
            return Ok(Some((transform, GeorefSource::WorldFile)));
        }
    }
    Ok(None)
}

/// Returns `path` with `suffix` appended to the file name.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// Returns the contents of a file beside `source`, if it exists, has at most `max` bytes and may be read.
///
/// # Errors
/// The system could not read the file.
fn bytes(source: &dyn Source, change: &dyn Fn(&Path) -> PathBuf, max: u64) -> Result<Option<Vec<u8>>> {
    let sibling = match source.sibling(change).map_err(Error::from) {
        Ok(Some(sibling)) if sibling.size() <= max => sibling,
        Err(error) if error.is_refused_by_system() => return Err(error),
        _ => return Ok(None),
    };
    let Ok(len) = usize::try_from(sibling.size()) else { return Ok(None) };
    let mut bytes = memory::zeros(len, "the sidecar files")?;
    match sibling.read_at(0, &mut bytes) {
        Ok(()) => Ok(Some(bytes)),
        Err(_) => failure_of(sibling.as_ref()).map_or(Ok(None), Err),
    }
}

/// Returns the error of a read that the system refused, and that the reader of a value ignored.
pub(crate) fn failure_of(source: &dyn Source) -> Option<Error> {
    let cause = source.take_failure()?;
    Some(swath_io::Error::Open { path: source.name().into(), cause }.into())
}

/// Returns the directories of a TIFF beside `source`, or none if there is no such file.
fn directories(source: &dyn Source, suffix: &str, limits: &Limits) -> Result<Vec<(Arc<dyn Source>, Ifd)>> {
    let Some(sibling) = source.sibling(&|path| with_suffix(path, suffix))? else { return Ok(Vec::new()) };
    let sibling: Arc<dyn Source> = sibling.into();
    let (_, chain) =
        read_directories(sibling.as_ref(), limits).map_err(|cause| Error::Container { file: sibling.name(), cause })?;
    // A pyramid or mask that is only a part of what was written is not used.
    if let Some(cause) = chain.broken.and_then(Arc::into_inner) {
        return Err(Error::Container { file: sibling.name(), cause });
    }
    Ok(chain.links.into_iter().map(|link| (Arc::clone(&sibling), link.ifd)).collect())
}

#[cfg(test)]
mod tests {
    use swath_tiff::{Builder, ByteOrder, Tag, Value};

    use crate::Dataset;

    #[test]
    fn unreadable_overviews_are_reported_and_the_image_is_read_without_them() {
        let mut file = Builder::new(ByteOrder::Little, false);
        let data = file.append(&[7]);
        file.ifd(&[
            (Tag::IMAGE_WIDTH, Value::Short(vec![1])),
            (Tag::IMAGE_LENGTH, Value::Short(vec![1])),
            (Tag::BITS_PER_SAMPLE, Value::Short(vec![8])),
            (Tag::STRIP_OFFSETS, Value::offsets(&[data.offset])),
            (Tag::STRIP_BYTE_COUNTS, Value::offsets(&[data.len])),
        ]);
        let dir = std::env::temp_dir().join(format!("swath-unreadable-sidecar-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("temporary directory");
        let path = dir.join("a.tif");
        std::fs::write(&path, file.finish()).expect("image");
        std::fs::write(dir.join("a.tif.ovr"), "not a TIFF").expect("sidecar");
        let dataset = Dataset::open(&path).expect("opens in spite of the sidecar");
        std::fs::remove_dir_all(&dir).expect("temporary directory");
        let [found] = dataset.unreadable_sidecars() else { panic!("{:?}", dataset.unreadable_sidecars()) };
        assert_eq!(found.name, dir.join("a.tif.ovr").to_string_lossy());
        assert!(found.error.to_string().contains("not a TIFF file"), "{}", found.error);
        let image = dataset.image(0).expect("opens in spite of the sidecar");
        assert!(
            image.metadata().warnings[0].starts_with("ignoring unreadable sidecar"),
            "{:?}",
            image.metadata().warnings
        );
    }
}
