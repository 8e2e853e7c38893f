//! Why a file cannot be written as the options say.

use swath_codec::DType;

/// Why a file cannot be planned or written as the options say.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The image is empty, or larger than TIFF allows.
    #[error("an image of {width} x {height} pixels and {bands} bands cannot be written")]
    Size {
        /// Pixels across.
        width: u64,
        /// Pixels down.
        height: u64,
        /// Bands.
        bands: usize,
    },
    /// The sides of tiles are multiples of 16.
    #[error("tiles of {width} x {height} pixels are not allowed: both sides must be multiples of 16")]
    TileSize {
        /// Pixels across.
        width: u32,
        /// Pixels down.
        height: u32,
    },
    /// A strip without rows.
    #[error("a strip needs at least one row")]
    StripRows,
    /// A COG is tiled.
    #[error("a Cloud Optimized GeoTIFF has tiles, not strips")]
    StripsInCog,
    /// A block would be too large to be encoded at once.
    #[error("blocks of {width} x {height} pixels would have more than {limit} bytes")]
    BlockBytes {
        /// Pixels across.
        width: u64,
        /// Pixels down.
        height: u64,
        /// The most bytes.
        limit: u64,
    },
    /// The table of blocks would not fit in memory.
    #[error("the file would have {blocks} blocks, the limit is {limit}; use larger blocks")]
    Blocks {
        /// Blocks of all levels.
        blocks: u64,
        /// The most there may be.
        limit: u64,
    },
    /// The type has no such width.
    #[error("{dtype} samples cannot be stored in {bits} bits")]
    Bits {
        /// Bits asked for.
        bits: u16,
        /// The type.
        dtype: DType,
    },
    /// The codec does not support a predictor.
    #[error("predictor {predictor} is not supported with {codec}")]
    Predictor {
        /// The Predictor tag.
        predictor: u16,
        /// The codec's name.
        codec: &'static str,
    },
    /// The codec does not support such samples or settings.
    #[error(transparent)]
    Codec(swath_codec::Error),
    /// The nodata value is not one that a sample can have.
    #[error("nodata {nodata} is not a value that {dtype} samples can have")]
    NoData {
        /// The value.
        nodata: String,
        /// The type.
        dtype: DType,
    },
    /// There are fewer bands than colours.
    #[error("{photometric} needs more than {bands} bands")]
    Photometric {
        /// The photometric interpretation.
        photometric: &'static str,
        /// Bands there are.
        bands: usize,
    },
    /// An overview that would not be smaller than the one before.
    #[error(
        "overview factor {factor} is not larger than the one before it, leaves no smaller image, or is more than 32768 times it"
    )]
    Overview {
        /// The factor.
        factor: u64,
    },
    /// The resampling means nothing for such samples.
    #[error("resampling {method} is not defined for {dtype} samples")]
    Resampling {
        /// Its name.
        method: &'static str,
        /// The type.
        dtype: DType,
    },
    /// The palette does not fit the samples.
    #[error(transparent)]
    Palette(#[from] swath_tiff::palette::PaletteError),
    /// The GeoKeys do not fit their tags.
    #[error(transparent)]
    GeoKeys(#[from] swath_tiff::geo::KeyEncodeError),
    /// A stored plan has a version that this build does not read.
    #[error("the plan has version {version}; this build reads version {supported}")]
    Version {
        /// The version of the stored plan.
        version: u32,
        /// The version that this build reads.
        supported: u32,
    },
    /// A field of a stored plan has no valid value.
    #[error("the stored plan has an invalid field: {field}")]
    Document {
        /// The field.
        field: &'static str,
    },
}
