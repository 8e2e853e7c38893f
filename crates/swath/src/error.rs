//! The errors of opening, reading and writing a file.

use std::fmt;

use swath_codec::DType;
use swath_gpu::DeviceRaster;

use crate::write::PlanError;

/// A `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why a file could not be opened, read or written. Each message is one sentence that names the file and the
/// place in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened.
    #[error(transparent)]
    Source(#[from] swath_io::Error),
    /// The container is invalid.
    #[error("{file}: {cause}")]
    Container {
        /// The file.
        file: String,
        /// What is invalid.
        cause: swath_tiff::Error,
    },
    /// The image is stored in a form that cannot be decoded.
    #[error("{file}: {cause}")]
    Codec {
        /// The file.
        file: String,
        /// The reason.
        cause: swath_codec::Error,
    },
    /// The samples have a type that Swath does not support in memory.
    #[error("{file}: samples of {bits} bits with SampleFormat {format} are not supported")]
    SampleType {
        /// The file.
        file: String,
        /// The SampleFormat tag.
        format: u16,
        /// Bits per sample.
        bits: u16,
    },
    /// A block could not be fetched.
    #[error("{file}: {block}: reading {len} bytes at offset {offset} failed: {cause}")]
    Fetch {
        /// The file.
        file: String,
        /// The first block of the batch.
        block: BlockName,
        /// The offset of the block.
        offset: u64,
        /// Its compressed size.
        len: u64,
        /// The error of the source.
        cause: std::io::Error,
    },
    /// A device could not be used, or failed during the operation.
    #[error(transparent)]
    Device(#[from] swath_gpu::Error),
    /// No device has this name.
    #[error("'{name}' is not a device; the devices are {}", crate::Device::NAMES)]
    DeviceName {
        /// The name.
        name: String,
    },
    /// A list of devices has a device twice.
    #[error("{device} is listed twice")]
    DeviceTwice {
        /// The device.
        device: String,
    },
    /// A read that leaves its pixels on a device was given several devices.
    #[error(
        "the pixels of one read stay on one device, and several were given; read to host memory, or name one device"
    )]
    SeveralDevices,
    /// An environment variable has a value that the setting does not have.
    #[error("{name} must be {expected}, not '{value}'")]
    Setting {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// The values that the setting has.
        expected: String,
    },
    /// No kernel converts samples of one type to the other.
    #[error("a device converts samples to float32 or float64, not {} to {}", stored.name(), dtype.name())]
    Unpack {
        /// The type of the samples in the file.
        stored: DType,
        /// The type that the caller asks for.
        dtype: DType,
    },
    /// The number of scales and offsets is neither 1 nor the number of bands.
    #[error("{given} scales and offsets were given for {bands} bands")]
    UnpackFactors {
        /// The pairs of scale and offset.
        given: usize,
        /// The bands of the result.
        bands: usize,
    },
    /// A device cannot do a part of the work, and the request is [`FallbackPolicy::Strict`](crate::FallbackPolicy::Strict).
    #[error("the GPU cannot do {stage}, and fallback is disabled: {reason}")]
    Fallback {
        /// The stage of the work.
        stage: &'static str,
        /// Why the device cannot do it.
        reason: String,
    },
    /// A block lies outside the file.
    #[error("{file}: {block} needs {len} bytes at offset {offset}, but the file has {size} bytes")]
    BlockPastEnd {
        /// The file.
        file: String,
        /// The block.
        block: BlockName,
        /// The offset of the block according to the table.
        offset: u64,
        /// The size of the block.
        len: u64,
        /// The size of the file.
        size: u64,
    },
    /// A block has more compressed bytes than [`Limits::max_block_bytes`](crate::Limits::max_block_bytes).
    #[error(
        "{file}: {block} has {len} compressed bytes, the limit is {limit} (raise SWATH_MAX_TILE_BYTES if you trust the file)"
    )]
    BlockBytes {
        /// The file.
        file: String,
        /// The block.
        block: BlockName,
        /// Its compressed size.
        len: u64,
        /// The limit.
        limit: u64,
    },
    /// A block is corrupt.
    #[error("{file}: {block}: {cause}")]
    Block {
        /// The file.
        file: String,
        /// The block.
        block: BlockName,
        /// What is wrong with it.
        cause: swath_codec::Error,
    },
    /// The window is empty or not inside the level.
    #[error(
        "{file}: the window of rows {}..{} and columns {}..{} is empty or not inside the {width} x {height} image",
        rows.start, rows.end, cols.start, cols.end
    )]
    Window {
        /// The file.
        file: String,
        /// The requested rows.
        rows: std::ops::Range<u64>,
        /// The requested columns.
        cols: std::ops::Range<u64>,
        /// Width of the level.
        width: u64,
        /// Height of the level.
        height: u64,
    },
    /// The requested band does not exist.
    #[error("{file}: band {band} does not exist; the image has {count} bands, counted from 0")]
    Band {
        /// The file.
        file: String,
        /// The requested band, counted from 0.
        band: usize,
        /// The number of bands of the image.
        count: usize,
    },
    /// The requested level does not exist.
    #[error("{file}: overview {level} does not exist; {}", overviews_in_words(*.count))]
    Level {
        /// The file.
        file: String,
        /// The requested level.
        level: usize,
        /// The number of levels of the image, including the full resolution.
        count: usize,
    },
    /// The requested image (page) does not exist.
    #[error("image {image} does not exist; the file has {count} images, counted from 0")]
    Image {
        /// The requested image.
        image: usize,
        /// The number of images in the file.
        count: usize,
    },
    /// The output buffer has another sample type than the image.
    #[error("the buffer holds {buffer} samples, but the image has {image} samples")]
    DType {
        /// Type of the buffer.
        buffer: &'static str,
        /// Type of the image.
        image: DType,
    },
    /// The output buffer has another size than the requested pixels.
    #[error("the buffer has {buffer} bytes, but the requested pixels need {needed}")]
    BufferSize {
        /// The size of the buffer in bytes.
        buffer: usize,
        /// The size of the requested pixels in bytes.
        needed: u64,
    },
    /// The raster on the device has another shape than the requested pixels.
    #[error("the array on the device has the shape {found}, but the requested pixels have {image}")]
    RasterShape {
        /// The shape of the raster.
        found: RasterShape,
        /// The shape of the requested pixels.
        image: RasterShape,
    },
    /// The read would exceed a limit.
    #[error("{file}: {what} would need {value}, the limit is {limit} (raise Limits::{name} if the file is trusted)")]
    Limit {
        /// The file.
        file: String,
        /// The operation that needs more than the limit allows.
        what: &'static str,
        /// The name of the field of `Limits`.
        name: &'static str,
        /// The value that the operation needs.
        value: u64,
        /// The limit.
        limit: u64,
    },
    /// The caller cancelled the operation. After a read, the contents of the output buffer are undefined; a
    /// write leaves no new file.
    #[error("the operation was cancelled")]
    Cancelled,
    /// The file cannot be written with these options.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A block could not be encoded.
    #[error("{block}: {cause}")]
    Encode {
        /// The block.
        block: BlockName,
        /// The reason.
        cause: swath_codec::Error,
    },
    /// The rows passed to the encoder are not whole block rows, or the size of a buffer is wrong.
    #[error(
        "rows {}..{} and their buffers do not match whole block rows ({block_height} rows each, image height {height})",
        rows.start, rows.end
    )]
    Rows {
        /// The rows.
        rows: std::ops::Range<u64>,
        /// The number of rows of a block.
        block_height: u64,
        /// The number of rows of the level.
        height: u64,
    },
    /// The source of rows failed.
    #[error("the source of rows {}..{} failed: {cause}", rows.start, rows.end)]
    Producer {
        /// The requested rows.
        rows: std::ops::Range<u64>,
        /// The error of the source.
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The source and the plan describe different images.
    #[error("the source provides {found}, but the plan expects {planned}")]
    SourceShape {
        /// The image that the source provides.
        found: String,
        /// The image that the plan describes.
        planned: String,
    },
    /// A block was added twice.
    #[error("{block} was added twice")]
    BlockTwice {
        /// The block.
        block: BlockName,
    },
    /// A block was not added.
    #[error("the file is incomplete: {block} and {more} more blocks are missing")]
    BlockMissing {
        /// The first missing block.
        block: BlockName,
        /// The number of other missing blocks.
        more: u64,
    },
    /// The file does not fit in a classic TIFF.
    #[error("the file would have {size} bytes, which exceeds the 4 GiB limit of classic TIFF; use BigTIFF")]
    TooLarge {
        /// The size that the file would have.
        size: u64,
    },
    /// The target exists already.
    #[error("{file} already exists; enable overwriting to replace it")]
    Exists {
        /// The file.
        file: String,
    },
    /// There is not enough memory for the rows that a write must hold.
    #[error("the system does not have the {bytes} bytes of memory that {rows} rows need at once; use smaller blocks")]
    Memory {
        /// The number of rows to hold.
        rows: u64,
        /// Their size in bytes.
        bytes: u64,
    },
    /// The system did not provide the memory that an operation needs.
    #[error("the system does not have the {bytes} bytes of memory that {what} need")]
    OutOfMemory {
        /// The number of bytes.
        bytes: u64,
        /// What would be in the memory, in the plural, for example `the pixels of this read`.
        what: &'static str,
    },
    /// The system did not start a thread.
    #[error("cannot start a thread: {cause}")]
    Thread {
        /// The error of the system.
        cause: std::io::Error,
    },
    /// The file could not be written.
    #[error("cannot write {file}: {cause}")]
    Write {
        /// The file.
        file: String,
        /// The error of the system.
        cause: std::io::Error,
    },
}

impl Error {
    /// Whether the system could not open or read a file that exists and that the user may read, for example because of a
    /// broken disk or too many open files.
    pub(crate) fn is_refused_by_system(&self) -> bool {
        let (Error::Source(swath_io::Error::Open { cause, .. })
        | Error::Container { cause: swath_tiff::Error::Read { cause, .. }, .. }) = self
        else {
            return false;
        };
        cause.raw_os_error().is_some()
            && !matches!(cause.kind(), std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::NotADirectory)
    }

    /// Whether the system did not provide enough memory. The file is not the reason.
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            Error::OutOfMemory { .. } | Error::Memory { .. } => true,
            Error::Block { cause, .. } | Error::Encode { cause, .. } => {
                matches!(cause, swath_codec::Error::OutOfMemory { .. })
            }
            Error::Fetch { cause, .. } | Error::Container { cause: swath_tiff::Error::Read { cause, .. }, .. } => {
                cause.kind() == std::io::ErrorKind::OutOfMemory
            }
            _ => false,
        }
    }
}

/// States for a message which overviews an image with `levels` levels has.
fn overviews_in_words(levels: usize) -> String {
    match levels.saturating_sub(1) {
        0 => "the image has no overviews".to_owned(),
        last => format!("the last overview is {last}"),
    }
}

/// The name of a block in messages: `tile (3, 7) of level 2`, `strip 12 of band 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockName {
    /// True for a tile, false for a strip.
    pub tiled: bool,
    /// The block row.
    pub row: u64,
    /// The block column.
    pub col: u64,
    /// The band, if the file is planar.
    pub band: Option<u64>,
    /// The level; 0 is the full resolution.
    pub level: usize,
    /// True for a block of the transparency mask.
    pub mask: bool,
}

impl fmt::Display for BlockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tiled {
            write!(f, "tile ({}, {})", self.row, self.col)?
        } else {
            write!(f, "strip {}", self.row)?
        }
        if let Some(band) = self.band {
            write!(f, " of band {band}")?;
        }
        if self.mask {
            f.write_str(" of the mask")?;
        }
        if self.level > 0 {
            write!(f, " of level {}", self.level)?;
        }
        Ok(())
    }
}
/// The shape of pixels on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RasterShape {
    /// Bands.
    pub bands: usize,
    /// Rows.
    pub rows: u64,
    /// Columns.
    pub cols: u64,
    /// Whether the bands of a pixel are adjacent. A single band counts as that.
    pub bands_last: bool,
}

impl RasterShape {
    pub(crate) fn new(bands: usize, (rows, cols): (u64, u64), bands_last: bool) -> RasterShape {
        RasterShape { bands, rows, cols, bands_last: bands_last || bands == 1 }
    }

    pub(crate) fn of(raster: &DeviceRaster) -> RasterShape {
        RasterShape::new(raster.bands(), (raster.rows(), raster.cols()), raster.bands_last())
    }
}

impl fmt::Display for RasterShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RasterShape { bands, rows, cols, bands_last } = self;
        match (bands, bands_last) {
            (1, _) => write!(f, "({rows}, {cols})"),
            (_, true) => write!(f, "({rows}, {cols}, {bands}), bands last"),
            (_, false) => write!(f, "({bands}, {rows}, {cols}), bands first"),
        }
    }
}
