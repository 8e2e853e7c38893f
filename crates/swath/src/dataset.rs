//! An opened file: its header, images and sidecar files.

pub(crate) mod band_color;
pub(crate) mod image;
pub(crate) mod level;
pub(crate) mod mask;
pub(crate) mod metadata;
pub(crate) mod sidecar;

pub use self::band_color::from_name as band_color_named;
pub use self::image::{Image, Raster};
pub use self::mask::{Mask, MaskOrigin};
pub use self::metadata::{BandMetadata, ImageMetadata};
pub use self::sidecar::UnreadableSidecar;

use std::path::Path;
use std::sync::Arc;

use swath_io::{LocalFile, Memory, ReadAhead, Source};
use swath_tiff::pam::Pam;
use swath_tiff::{Chain, Header, Limits, Roles, read_chain};

use crate::dataset::sidecar::{Sidecars, failure_of};
use crate::error::{Error, Result};

/// An opened file. Opening reads headers only. A `Dataset` can be shared between threads, and all of them can
/// read at the same time.
///
/// ```
/// use swath::tiff::{Builder, ByteOrder, Tag, Value};
/// use swath::{Dataset, ReadRequest};
///
/// let mut file = Builder::new(ByteOrder::Little, false);
/// let data = file.append(&[1, 2, 3, 4, 5, 6]);
/// file.ifd(&[
///     (Tag::IMAGE_WIDTH, Value::Short(vec![3])),
///     (Tag::IMAGE_LENGTH, Value::Short(vec![2])),
///     (Tag::BITS_PER_SAMPLE, Value::Short(vec![8])),
///     (Tag::STRIP_OFFSETS, Value::offsets(&[data.offset])),
///     (Tag::STRIP_BYTE_COUNTS, Value::offsets(&[data.len])),
/// ]);
///
/// let dataset = Dataset::from_bytes(file.finish())?;
/// let raster = dataset.image(0)?.read(&ReadRequest::new().window(1..2, 0..3))?;
/// assert_eq!(raster.shape, [1, 1, 3]);
/// assert_eq!(raster.pixels.as_slice::<u8>(), Some(&[4, 5, 6][..]));
/// # Ok::<(), swath::Error>(())
/// ```
#[derive(Debug)]
pub struct Dataset {
    source: Arc<dyn Source>,
    limits: Limits,
    header: Header,
    chain: Chain,
    sidecars: Sidecars,
}

impl Dataset {
    /// Opens a local file with the limits of [`Limits::from_env`].
    ///
    /// # Errors
    /// [`Error::Source`] when the file cannot be opened, [`Error::Container`] when it is not a valid TIFF.
    pub fn open(path: impl AsRef<Path>) -> Result<Dataset> {
        Dataset::from_source(Arc::new(LocalFile::open(path)?), Limits::from_env())
    }

    /// Opens a file that is held in memory, with the limits of [`Limits::from_env`].
    ///
    /// # Errors
    /// [`Error::Container`] when the bytes are not a valid TIFF.
    pub fn from_bytes(bytes: impl Into<Arc<[u8]>>) -> Result<Dataset> {
        Dataset::from_source(Arc::new(Memory::new(bytes)), Limits::from_env())
    }

    /// Opens any source with the given limits.
    ///
    /// # Errors
    /// [`Error::Container`] when the source does not hold a valid TIFF.
    pub fn from_source(source: Arc<dyn Source>, limits: Limits) -> Result<Dataset> {
        let container_error = |error| Error::Container { file: source.name(), cause: error };
        let (header, chain) = read_directories(source.as_ref(), &limits.metered()).map_err(container_error)?;
        // The chain may have ended where a read failed.
        if let Some(error) = failure_of(source.as_ref()) {
            return Err(error);
        }
        let sidecars = Sidecars::find(source.as_ref(), &limits)?;
        Ok(Dataset { source, limits, header, chain, sidecars })
    }

    /// The name of the file, for messages.
    pub fn name(&self) -> String {
        self.source.name()
    }

    /// The header: byte order and kind of TIFF.
    pub fn header(&self) -> Header {
        self.header
    }

    /// The directories of the file, which give access to all tags.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The source that provides the bytes.
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    /// The limits that the file was opened with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The overview and mask files beside the file that exist but cannot be read. Reads ignore them.
    pub fn unreadable_sidecars(&self) -> &[UnreadableSidecar] {
        &self.sidecars.unreadable
    }

    /// The content of the `.aux.xml` file beside the file.
    pub fn pam(&self) -> Option<&Pam> {
        self.sidecars.pam.as_ref()
    }

    /// The contents of the sidecar files.
    pub(crate) fn sidecars(&self) -> &Sidecars {
        &self.sidecars
    }

    /// The number of images (pages) in the file. Overviews and masks are parts of images and do not count.
    pub fn image_count(&self) -> usize {
        Roles::of(&self.chain, self.source.as_ref(), &self.limits).images.len()
    }

    /// Returns an image by number, counted from 0. Most files have one image. Sidecar files belong to image
    /// 0.
    ///
    /// # Errors
    /// [`Error::Image`] when the image does not exist; [`Error::Container`] or [`Error::SampleType`] when its
    /// directory is invalid.
    pub fn image(&self, number: usize) -> Result<Image> {
        // Values that cannot be understood are ignored; values that cannot be read are an error.
        self.source.take_failure();
        let roles = Roles::of(&self.chain, self.source.as_ref(), &self.limits);
        let count = roles.images.len();
        let roles = roles.images.get(number).ok_or(Error::Image { image: number, count })?;
        let none = Sidecars::default();
        let sidecars = if number == 0 { &self.sidecars } else { &none };
        let mut image = Image::new(&self.source, roles, sidecars, &self.limits.metered())?;
        let beside = sidecars.overviews.iter().chain(&sidecars.masks).map(|(source, _)| source);
        if let Some(error) = std::iter::once(&self.source).chain(beside).find_map(|source| failure_of(source.as_ref()))
        {
            return Err(error);
        }
        image.limits = self.limits.clone();
        image.warn(self.broken_chain());
        Ok(image)
    }

    /// Why the chain of IFDs is incomplete, as a sentence, or `None` if it is complete. The images that were found
    /// before can be read; overviews, masks or further images may be missing.
    pub fn broken_chain(&self) -> Option<String> {
        let broken = self.chain.broken.as_ref()?;
        Some(format!("{broken}; overviews, masks or further images may be missing"))
    }

    /// Returns the text that GDAL's COG driver writes after the header (the "ghost area"), or `None` when the
    /// file has none.
    pub fn structural_metadata(&self) -> Option<String> {
        const MARK: &[u8] = b"GDAL_STRUCTURAL_METADATA_SIZE=";
        let start = if self.header.big { 16 } else { 8 };
        let mut head = [0; 43];
        self.source.read_at(start, &mut head).ok()?;
        let digits = head.strip_prefix(MARK)?.get(..6)?;
        let len: usize = std::str::from_utf8(digits).ok()?.parse().ok()?;
        let mut text = vec![0; len];
        self.source.read_at(start + 43, &mut text).ok()?;
        String::from_utf8(text).ok()
    }
}

/// Reads the header and all IFDs of a source. A local file is read ahead: its IFDs and their values usually follow each
/// other, so one system call reads them all.
fn read_directories(source: &dyn Source, limits: &Limits) -> swath_tiff::Result<(Header, Chain)> {
    if source.file().is_none() {
        let header = Header::read(source)?;
        return Ok((header, read_chain(source, header, limits)?));
    }
    let ahead = ReadAhead::new(source);
    let header = Header::read(&ahead)?;
    Ok((header, read_chain(&ahead, header, limits)?))
}
