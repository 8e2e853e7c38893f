//! The errors of planning a write.

use swath_codec::DType;

/// Why a file cannot be planned or written with these options.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The image is empty, or larger than TIFF allows.
    #[error("an image of {width} x {height} pixels and {bands} bands cannot be written")]
    Size {
        /// Width in pixels.
        width: u64,
        /// Height in pixels.
        height: u64,
        /// The number of bands.
        bands: usize,
    },
    /// The width or the height of the tiles is not a multiple of 16.
    #[error("tiles of {width} x {height} pixels are not allowed: both sides must be multiples of 16")]
    TileSize {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
    /// A strip has no rows.
    #[error("a strip needs at least one row")]
    StripRows,
    /// A COG must be tiled.
    #[error("a Cloud Optimized GeoTIFF has tiles, not strips")]
    StripsInCog,
    /// A block is too large to be encoded.
    #[error("blocks of {width} x {height} pixels would exceed the limit of {limit} bytes; use smaller blocks")]
    BlockBytes {
        /// Width in pixels.
        width: u64,
        /// Height in pixels.
        height: u64,
        /// The most bytes of a block.
        limit: u64,
    },
    /// The table of blocks would not fit in memory.
    #[error("the file would have {blocks} blocks, the limit is {limit}; use larger blocks")]
    Blocks {
        /// The number of blocks of all levels.
        blocks: u64,
        /// The most blocks of a file.
        limit: u64,
    },
    /// The sample type cannot be stored in this number of bits.
    #[error("{dtype} samples cannot be stored in {bits} bits")]
    Bits {
        /// The requested number of bits.
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
    /// The sample type cannot hold the nodata value.
    #[error("{dtype} samples cannot hold the nodata value {nodata}")]
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
        /// The number of bands.
        bands: usize,
    },
    /// An overview would not be smaller than the one before it.
    #[error(
        "overview factor {factor} is not larger than the one before it, leaves no smaller image, or is more than 32768 times it"
    )]
    Overview {
        /// The factor.
        factor: u64,
    },
    /// The resampling method is not defined for such samples.
    #[error("resampling {method} is not defined for {dtype} samples")]
    Resampling {
        /// The name of the method.
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
