//! The options of a write: how the file is laid out and encoded.

use swath_codec::{Compress, Predictor};
use swath_tiff::geo::{GeoKeys, GeoTransform};
use swath_tiff::nodata::NoData;
use swath_tiff::{Photometric, Planar, Tag, Value};

use crate::dataset::metadata::ImageMetadata;
use crate::write::reduce::Resampling;

/// How a file is laid out and encoded. The default is a plain tiled GeoTIFF with 512 x 512 tiles, ZSTD, no overviews.
///
/// ```
/// use swath::write::{Resampling};
/// use swath::{Compress, WriteOptions};
/// let options = WriteOptions::new().cog().compression(Compress::Deflate { level: 9 }).resampling(Resampling::Nearest);
/// ```
#[derive(Debug, Clone)]
pub struct WriteOptions {
    pub(crate) layout: FileLayout,
    pub(crate) blocks: BlockSize,
    pub(crate) planar: Planar,
    pub(crate) compress: Compress,
    pub(crate) predictor: PredictorChoice,
    pub(crate) bits: Option<u16>,
    pub(crate) overviews: Overviews,
    pub(crate) resampling: Option<Resampling>,
    pub(crate) mask: bool,
    pub(crate) photometric: Option<Photometric>,
    pub(crate) extra_samples: Option<Vec<u16>>,
    pub(crate) big_tiff: BigTiff,
    pub(crate) skip_empty: bool,
    pub(crate) statistics: Statistics,
    pub(crate) nan_to_nodata: bool,
    pub(crate) metadata: ImageMetadata,
    pub(crate) extra_tags: Vec<(Tag, Value)>,
}

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        WriteOptions {
            layout: FileLayout::Plain,
            blocks: BlockSize::Tiles { height: 512, width: 512 },
            planar: Planar::Chunky,
            compress: Compress::Zstd { level: 6 },
            predictor: PredictorChoice::Auto,
            bits: None,
            overviews: Overviews::None,
            resampling: None,
            mask: false,
            photometric: None,
            extra_samples: None,
            big_tiff: BigTiff::Auto,
            skip_empty: false,
            statistics: Statistics::Off,
            nan_to_nodata: false,
            metadata: ImageMetadata::default(),
            extra_tags: Vec::new(),
        }
    }
}

impl WriteOptions {
    /// Creates the options of a plain tiled GeoTIFF.
    pub fn new() -> WriteOptions {
        WriteOptions::default()
    }

    /// Selects a Cloud Optimized GeoTIFF with overviews.
    #[must_use]
    pub fn cog(self) -> WriteOptions {
        self.layout(FileLayout::Cog).overviews(Overviews::Auto)
    }

    /// Sets the order of directories and blocks in the file.
    #[must_use]
    pub fn layout(mut self, layout: FileLayout) -> WriteOptions {
        self.layout = layout;
        self
    }

    /// Sets the blocks: tiles or strips.
    #[must_use]
    pub fn blocks(mut self, blocks: BlockSize) -> WriteOptions {
        self.blocks = blocks;
        self
    }

    /// Sets whether a block holds all bands of its pixels, or each band has its own blocks.
    #[must_use]
    pub fn planar(mut self, planar: Planar) -> WriteOptions {
        self.planar = planar;
        self
    }

    /// Sets the codec and its settings.
    #[must_use]
    pub fn compression(mut self, compress: Compress) -> WriteOptions {
        self.compress = compress;
        self
    }

    /// Sets the predictor.
    #[must_use]
    pub fn predictor(mut self, predictor: impl Into<PredictorChoice>) -> WriteOptions {
        self.predictor = predictor.into();
        self
    }

    /// Sets the number of bits per sample in the file, if the sample type has more: 1 for black and white, 12
    /// for a camera.
    #[must_use]
    pub fn bits(mut self, bits: u16) -> WriteOptions {
        self.bits = Some(bits);
        self
    }

    /// Sets which overviews to compute.
    #[must_use]
    pub fn overviews(mut self, overviews: Overviews) -> WriteOptions {
        self.overviews = overviews;
        self
    }

    /// Sets how overviews are computed. The default is the mean, and the nearest pixel for images of classes.
    #[must_use]
    pub fn resampling(mut self, resampling: Resampling) -> WriteOptions {
        self.resampling = Some(resampling);
        self
    }

    /// Sets whether to write a mask. The source provides it with the pixels.
    #[must_use]
    pub fn mask(mut self, mask: bool) -> WriteOptions {
        self.mask = mask;
        self
    }

    /// Sets the photometric interpretation. By default it follows from the colours of the bands and the
    /// palette.
    #[must_use]
    pub fn photometric(mut self, photometric: Photometric) -> WriteOptions {
        self.photometric = Some(photometric);
        self
    }

    /// Sets the meaning of the extra samples (ExtraSamples tag). By default it follows from the colours of
    /// the bands.
    #[must_use]
    pub fn extra_samples(mut self, extra_samples: impl Into<Vec<u16>>) -> WriteOptions {
        self.extra_samples = Some(extra_samples.into());
        self
    }

    /// Sets the kind of TIFF: classic TIFF or BigTIFF.
    #[must_use]
    pub fn big_tiff(mut self, big_tiff: BigTiff) -> WriteOptions {
        self.big_tiff = big_tiff;
        self
    }

    /// Sets whether to leave out blocks that hold only nodata (or 0, if there is no nodata value).
    #[must_use]
    pub fn skip_empty(mut self, skip_empty: bool) -> WriteOptions {
        self.skip_empty = skip_empty;
        self
    }

    /// Sets whether to compute exact statistics of each band and where to store them.
    #[must_use]
    pub fn statistics(mut self, statistics: Statistics) -> WriteOptions {
        self.statistics = statistics;
        self
    }

    /// Sets whether to replace NaN by the nodata value.
    #[must_use]
    pub fn nan_to_nodata(mut self, nan_to_nodata: bool) -> WriteOptions {
        self.nan_to_nodata = nan_to_nodata;
        self
    }

    /// Sets georeferencing, nodata, colours, names and other metadata. Replaces all metadata that was set
    /// before.
    #[must_use]
    pub fn metadata(mut self, metadata: ImageMetadata) -> WriteOptions {
        self.metadata = metadata;
        self
    }

    /// Sets the nodata value.
    #[must_use]
    pub fn nodata(mut self, nodata: NoData) -> WriteOptions {
        self.metadata.nodata = Some(nodata);
        self
    }

    /// Sets the transform from pixel corners to coordinates.
    #[must_use]
    pub fn transform(mut self, transform: GeoTransform) -> WriteOptions {
        self.metadata.transform = Some(transform);
        self
    }

    /// Sets the coordinate reference system.
    #[must_use]
    pub fn geo_keys(mut self, geo_keys: GeoKeys) -> WriteOptions {
        self.metadata.geo_keys = Some(geo_keys);
        self
    }

    /// Adds a tag that is written to the full resolution unchanged.
    #[must_use]
    pub fn extra_tag(mut self, tag: Tag, value: Value) -> WriteOptions {
        self.extra_tags.push((tag, value));
        self
    }
}

/// The order of directories and blocks in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileLayout {
    /// Cloud Optimized GeoTIFF: directories first, then the smallest overview, the full resolution last, as GDAL's COG driver writes it.
    Cog,
    /// Blocks first, directories after them.
    Plain,
}

/// The blocks of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockSize {
    /// Tiles; both sides are multiples of 16.
    Tiles {
        /// Rows of a tile.
        height: u32,
        /// Columns of a tile.
        width: u32,
    },
    /// Strips as wide as the image.
    Strips {
        /// Rows of a strip.
        rows: u32,
    },
}

/// The choice of the predictor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PredictorChoice {
    /// 3 for floats, 2 for integers, none for codecs and samples that do not support one.
    Auto,
    /// This predictor.
    Always(Predictor),
}

impl From<Predictor> for PredictorChoice {
    fn from(predictor: Predictor) -> PredictorChoice {
        PredictorChoice::Always(predictor)
    }
}

/// The overviews to compute.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overviews {
    /// No overviews.
    None,
    /// Factors of two, until the overview fits in a single block.
    Auto,
    /// These factors of the full resolution, in increasing order.
    Factors(Vec<u32>),
}

/// Whether to compute statistics and where to store them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Statistics {
    /// Computes none.
    Off,
    /// Puts them in the [`WriteReport`](crate::WriteReport) only.
    Report,
    /// Puts them in the report and in the file, in the form that GDAL writes.
    Embed,
}

/// Which kind of TIFF to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BigTiff {
    /// BigTIFF if the finished file is too large for a classic TIFF.
    Auto,
    /// BigTIFF.
    Yes,
    /// Classic TIFF; a file that becomes too large is an error.
    No,
}
