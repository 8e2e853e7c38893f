//! The errors of reading a TIFF container.

use crate::field::FieldType;
use crate::tag::Tag;

/// A `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why a file is not a TIFF that can be understood.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is shorter than a TIFF header.
    #[error("not a TIFF file: {size} bytes are too few for a header")]
    TooShort {
        /// Size of the file.
        size: u64,
    },
    /// The first bytes are neither `II*\0`, `MM\0*` nor a BigTIFF signature.
    #[error("not a TIFF file: it starts with {magic:02x?}")]
    NotTiff {
        /// The first four bytes.
        magic: [u8; 4],
    },
    /// A BigTIFF header announces offsets of another width than 8 bytes.
    #[error("BigTIFF header announces {size}-byte offsets, only 8 is defined")]
    OffsetSize {
        /// The announced size.
        size: u16,
    },
    /// The source could not deliver bytes that are inside the file.
    #[error("reading {len} bytes at offset {offset} failed: {cause}")]
    Read {
        /// Where the read began.
        offset: u64,
        /// How many bytes were requested.
        len: usize,
        /// The error of the source.
        cause: std::io::Error,
    },
    /// A structure points outside the file.
    #[error("{what} needs {len} bytes at offset {offset}, but the file has {size} bytes")]
    PastEnd {
        /// The structure.
        what: Location,
        /// Its offset.
        offset: u64,
        /// Its length.
        len: u64,
        /// Size of the file.
        size: u64,
    },
    /// The chain of IFDs returns to one that was already read.
    #[error("the IFD chain has a cycle: the IFD at offset {offset} was already read")]
    Cycle {
        /// Offset of the repeated IFD.
        offset: u64,
    },
    /// The file has no image directory at all.
    #[error("the file has no IFD")]
    NoIfd,
    /// A limit of [`Limits`](crate::Limits) was exceeded.
    #[error("{what} is {value}; the limit is {limit} (raise Limits::{name} if the file is trusted)")]
    Limit {
        /// The quantity.
        what: &'static str,
        /// The field of `Limits` that holds the limit.
        name: &'static str,
        /// What the file has.
        value: u64,
        /// The limit in force.
        limit: u64,
    },
    /// A tag that decides the layout appears twice with different values.
    #[error("{ifd}: tag {tag} appears twice with different values")]
    DuplicateTag {
        /// The IFD.
        ifd: Location,
        /// The tag.
        tag: Tag,
    },
    /// A tag that the image cannot do without is missing.
    #[error("{ifd}: tag {tag} is missing")]
    MissingTag {
        /// The IFD.
        ifd: Location,
        /// The tag.
        tag: Tag,
    },
    /// A tag has a field type that cannot hold its meaning.
    #[error("{ifd}: tag {tag} has field type {found}, which cannot store {wanted}")]
    TagType {
        /// The IFD.
        ifd: Location,
        /// The tag.
        tag: Tag,
        /// The type in the file.
        found: FieldType,
        /// What was to be read.
        wanted: &'static str,
    },
    /// A tag has a value that the format does not allow.
    #[error("{ifd}: tag {tag} has the value {value}, {rule}")]
    TagValue {
        /// The IFD.
        ifd: Location,
        /// The tag.
        tag: Tag,
        /// The value in the file.
        value: u64,
        /// The rule that it breaks.
        rule: &'static str,
    },
    /// A planar image has fewer entries in its block table than blocks: whole bands would read as zeros.
    #[error("{ifd}: the planar image has {wanted} blocks, but tag {tag} has only {found} entries")]
    ShortTable {
        /// The IFD.
        ifd: Location,
        /// The table.
        tag: Tag,
        /// Its entries.
        found: u64,
        /// Blocks of all bands.
        wanted: u64,
    },
    /// The image has more blocks, bytes or samples than 64 bits can count.
    #[error("{ifd}: the image size overflows: {width} x {height} pixels of {samples} samples of {bits} bits")]
    Overflow {
        /// The IFD.
        ifd: Location,
        /// Image width.
        width: u64,
        /// Image height.
        height: u64,
        /// Samples per pixel.
        samples: u64,
        /// Bits per sample.
        bits: u64,
    },
}

/// A part of the file that an error points at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Location {
    /// The first 8 or 16 bytes.
    Header,
    /// The IFD at this offset.
    Ifd(u64),
    /// The value of a tag of the IFD at this offset.
    Value(u64, Tag),
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Location::Header => f.write_str("the header"),
            Location::Ifd(offset) => write!(f, "IFD at offset {offset}"),
            Location::Value(offset, tag) => write!(f, "tag {tag} of the IFD at offset {offset}"),
        }
    }
}
