//! What the writer may be told.

use swath_codec::{Compress, Predictor};
use swath_tiff::{Photometric, Planar, Tag, Value};

use crate::dataset::metadata::ImageMetadata;
use crate::write::reduce::Resampling;

/// How a file is laid out and encoded. The default is a tiled GeoTIFF, 512 x 512 tiles, ZSTD.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Cloud optimized or plain.
    pub arrangement: FileLayout,
    /// Tiles or strips.
    pub blocks: BlockSize,
    /// Samples of a pixel side by side, or each band in blocks of its own.
    pub planar: Planar,
    /// The codec and its level.
    pub compress: Compress,
    /// The predictor.
    pub predictor: PredictorChoice,
    /// Bits that a sample has in the file, where its type has more: 1 for black and white, 12 for a camera's.
    pub bits: Option<u16>,
    /// Which overviews to make.
    pub overviews: Overviews,
    /// How they are made; by default the mean, and the nearest pixel where pixels are classes.
    pub resampling: Option<Resampling>,
    /// Write a mask: the source gives one.
    pub mask: bool,
    /// What the samples mean; by default what the bands and the palette say.
    pub photometric: Option<Photometric>,
    /// The meaning of the extra samples (ExtraSamples tag); by default what the bands say.
    pub extra_samples: Option<Vec<u16>>,
    /// Classic TIFF or BigTIFF.
    pub big_tiff: BigTiff,
    /// Leave blocks out that hold nothing but nodata (or 0, where there is none).
    pub skip_empty: bool,
    /// Exact statistics of each band.
    pub statistics: Statistics,
    /// Turn NaN into the nodata value.
    pub nan_to_nodata: bool,
    /// Place on Earth, nodata, colours, names, metadata.
    pub about: ImageMetadata,
    /// Other tags, written to the full resolution as they are.
    pub extra_tags: Vec<(Tag, Value)>,
}

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        WriteOptions {
            arrangement: FileLayout::Plain,
            blocks: BlockSize::Tiles { width: 512, height: 512 },
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
            about: ImageMetadata::default(),
            extra_tags: Vec::new(),
        }
    }
}

impl WriteOptions {
    /// A Cloud Optimized GeoTIFF with its overviews.
    pub fn cog() -> WriteOptions {
        WriteOptions { arrangement: FileLayout::Cog, overviews: Overviews::Auto, ..WriteOptions::default() }
    }
}

/// The order of things in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileLayout {
    /// Cloud Optimized GeoTIFF: directories first, then the smallest overview, the full resolution last, as GDAL's COG driver
    /// writes it.
    Cog,
    /// Data first, directories behind it.
    Plain,
}

/// The blocks of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockSize {
    /// Tiles; both sides are multiples of 16.
    Tiles {
        /// Pixels across.
        width: u32,
        /// Pixels down.
        height: u32,
    },
    /// Strips as wide as the image.
    Strips {
        /// Rows of a strip.
        rows: u32,
    },
}

/// Which predictor to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PredictorChoice {
    /// 3 for floats, 2 for integers, none where it cannot apply.
    Auto,
    /// This one.
    Always(Predictor),
}

/// Which overviews to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Overviews {
    /// None.
    None,
    /// By factors of two, until one fits in a single block.
    Auto,
    /// By these factors of the full resolution, in increasing order.
    Factors(Vec<u32>),
}

/// Whether to compute statistics and where to store them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
pub enum BigTiff {
    /// BigTIFF when the file, as it really is, is too large for a classic one.
    Auto,
    /// BigTIFF.
    Yes,
    /// Classic TIFF; a file that becomes too large is an error.
    No,
}
