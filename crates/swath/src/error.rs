//! What can go wrong when a file is opened, read or written.

use std::fmt;

use swath_codec::DType;

use crate::write::PlanError;

/// A `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why a file could not be opened, read or written. Each message is one sentence that names the file and the place in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened.
    #[error(transparent)]
    Source(#[from] swath_io::Error),
    /// The container is broken.
    #[error("{file}: {cause}")]
    Container {
        /// The file.
        file: String,
        /// What is broken.
        cause: swath_tiff::Error,
    },
    /// The image is stored in a way that cannot be decoded.
    #[error("{file}: {cause}")]
    Codec {
        /// The file.
        file: String,
        /// Why.
        cause: swath_codec::Error,
    },
    /// The samples have a type that nothing in memory corresponds to.
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
        /// Where the block lies.
        offset: u64,
        /// Its compressed size.
        len: u64,
        /// What the source said.
        cause: std::io::Error,
    },
    /// A device could not be used, or stopped.
    #[error(transparent)]
    Device(#[from] swath_gpu::Error),
    /// There is no device of that name.
    #[error("'{name}' is no device; devices are {}", crate::Device::NAMES)]
    DeviceName {
        /// The name.
        name: String,
    },
    /// A device cannot do a part of the work, and the request is [`FallbackPolicy::Strict`](crate::FallbackPolicy::Strict).
    #[error("the GPU cannot do {stage}, and fallback is disabled: {reason}")]
    Fallback {
        /// What was to be done.
        stage: &'static str,
        /// Why the device cannot.
        reason: String,
    },
    /// A block lies outside the file.
    #[error("{file}: {block} needs {len} bytes at offset {offset}, but the file has {size} bytes")]
    BlockPastEnd {
        /// The file.
        file: String,
        /// The block.
        block: BlockName,
        /// Where it should lie.
        offset: u64,
        /// Its size.
        len: u64,
        /// The size of the file.
        size: u64,
    },
    /// A block has more compressed bytes than [`Limits::max_block_bytes`](crate::Limits::max_block_bytes).
    #[error(
        "{file}: {block} has {len} compressed bytes, the limit is {limit} (set SWATH_MAX_TILE_BYTES if the file is trusted)"
    )]
    BlockBytes {
        /// The file.
        file: String,
        /// The block.
        block: BlockName,
        /// Its compressed size.
        len: u64,
        /// The limit in force.
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
        /// Rows asked for.
        rows: std::ops::Range<u64>,
        /// Columns asked for.
        cols: std::ops::Range<u64>,
        /// Width of the level.
        width: u64,
        /// Height of the level.
        height: u64,
    },
    /// There is no such band.
    #[error("{file}: band {band} does not exist; the image has {count} bands, counted from 0")]
    Band {
        /// The file.
        file: String,
        /// The band asked for, from 0.
        band: usize,
        /// Bands of the image.
        count: usize,
    },
    /// There is no such level.
    #[error("{file}: overview {level} does not exist; {}", overviews_in_words(*.count))]
    Level {
        /// The file.
        file: String,
        /// The level asked for.
        level: usize,
        /// Levels of the image, the full resolution included.
        count: usize,
    },
    /// There is no such image (page).
    #[error("image {image} was asked for, but the file has {count} (images count from 0)")]
    Image {
        /// The image asked for.
        image: usize,
        /// Images of the file.
        count: usize,
    },
    /// The output buffer is of another type than the image.
    #[error("the buffer holds {buffer} but the image has {image} samples")]
    DType {
        /// Type of the buffer.
        buffer: &'static str,
        /// Type of the image.
        image: DType,
    },
    /// The output buffer has another size than the pixels asked for.
    #[error("the buffer has {buffer} bytes but the pixels asked for need {needed}")]
    BufferSize {
        /// Bytes of the buffer.
        buffer: usize,
        /// Bytes needed.
        needed: u64,
    },
    /// The read would exceed a limit.
    #[error("{file}: {what} would need {value}, the limit is {limit} (raise Limits::{name} if the file is trusted)")]
    Limit {
        /// The file.
        file: String,
        /// What was to be done.
        what: &'static str,
        /// The field of `Limits`.
        name: &'static str,
        /// What is needed.
        value: u64,
        /// The limit in force.
        limit: u64,
    },
    /// The caller cancelled; the contents of the buffer of a read are undefined, a file that was to be written is not there.
    #[error("it was cancelled")]
    Cancelled,
    /// The file cannot be written as asked.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A block could not be encoded.
    #[error("{block}: {cause}")]
    Encode {
        /// The block.
        block: BlockName,
        /// Why.
        cause: swath_codec::Error,
    },
    /// The rows handed to the encoder are not whole block rows, or the buffers have another size than they need.
    #[error(
        "rows {}..{} with their pixels are not whole block rows of {block_height} rows of an image of {height}",
        rows.start, rows.end
    )]
    Rows {
        /// The rows.
        rows: std::ops::Range<u64>,
        /// Rows of a block.
        block_height: u64,
        /// Rows of the level.
        height: u64,
    },
    /// The source of pixels failed.
    #[error("the source of rows {}..{} failed: {cause}", rows.start, rows.end)]
    Producer {
        /// The rows asked for.
        rows: std::ops::Range<u64>,
        /// What it said.
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The source and the plan speak of different images.
    #[error("the source gives {found} where the plan has {planned}")]
    SourceShape {
        /// What the source gives.
        found: String,
        /// What is planned.
        planned: String,
    },
    /// A block came twice.
    #[error("{block} was handed in twice")]
    BlockTwice {
        /// The block.
        block: BlockName,
    },
    /// A block did not come.
    #[error("the file is not complete: {block} is missing, and {more} more")]
    BlockMissing {
        /// The first that is missing.
        block: BlockName,
        /// How many more.
        more: u64,
    },
    /// The file does not fit in a classic TIFF.
    #[error("the file would have {size} bytes, and a classic TIFF ends at 4294967295: let it be a BigTIFF")]
    TooLarge {
        /// Its size.
        size: u64,
    },
    /// The target exists.
    #[error("{file} exists; it is overwritten only if asked")]
    Exists {
        /// The file.
        file: String,
    },
    /// There is not enough memory for the rows that have to be kept.
    #[error("{rows} rows need {bytes} bytes of memory at once, which the system does not have: take smaller blocks")]
    Memory {
        /// Rows to be kept.
        rows: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// The system refused to start a thread.
    #[error("cannot start a thread: {cause}")]
    Thread {
        /// What the system said.
        cause: std::io::Error,
    },
    /// The system refused to write.
    #[error("cannot write {file}: {cause}")]
    Write {
        /// The file.
        file: String,
        /// What the system said.
        cause: std::io::Error,
    },
}

/// Which overviews an image with `levels` levels has, for messages.
fn overviews_in_words(levels: usize) -> String {
    match levels.saturating_sub(1) {
        0 => "the image has no overviews".to_owned(),
        last => format!("the last overview is {last}"),
    }
}

/// The name of a block in messages: `tile (3, 7) of level 2`, `strip 12 of band 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockName {
    /// Tile or strip.
    pub tiled: bool,
    /// Block row.
    pub row: u64,
    /// Block column.
    pub col: u64,
    /// The band, in a planar file.
    pub band: Option<u64>,
    /// The level, 0 for the full resolution.
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
