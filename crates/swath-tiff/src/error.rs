//! The errors of reading a TIFF container.

use crate::field::FieldType;
use crate::tag::Tag;

/// A `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a file cannot be read as a TIFF.
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
    /// The header of a BigTIFF has an offset size other than 8 bytes.
    #[error("the BigTIFF header has {size}-byte offsets; only 8-byte offsets are supported")]
    OffsetSize {
        /// The offset size in the header.
        size: u16,
    },
    /// The source failed to return bytes that are inside the file.
    #[error("reading {len} bytes at offset {offset} failed: {cause}")]
    Read {
        /// The offset of the read.
        offset: u64,
        /// The number of requested bytes.
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
    /// The chain of IFDs links to an IFD that was already read.
    #[error("the IFD chain has a cycle: the IFD at offset {offset} was already read")]
    Cycle {
        /// Offset of the repeated IFD.
        offset: u64,
    },
    /// The chain of IFDs links to bytes that are not an IFD.
    #[error("the IFD chain links to offset {offset}, where there is no IFD")]
    NotAnIfd {
        /// The offset.
        offset: u64,
    },
    /// The file has no IFD.
    #[error("the file has no IFD")]
    NoIfd,
    /// The file exceeds one of the [`Limits`](crate::Limits).
    #[error("{what} is {value}; the limit is {limit} (raise Limits::{name} if the file is trusted)")]
    Limit {
        /// The quantity.
        what: &'static str,
        /// The field of `Limits` that holds the limit.
        name: &'static str,
        /// The value in the file.
        value: u64,
        /// The limit that applies.
        limit: u64,
    },
    /// A tag that determines the layout appears twice with different values.
    #[error("{ifd}: tag {tag} appears twice with different values")]
    DuplicateTag {
        /// The IFD.
        ifd: Location,
        /// The tag.
        tag: Tag,
    },
    /// A required tag is missing.
    #[error("{ifd}: tag {tag} is missing")]
    MissingTag {
        /// The IFD.
        ifd: Location,
        /// The tag.
        tag: Tag,
    },
    /// The field type of a tag cannot hold the values of the tag.
    #[error("{ifd}: tag {tag} has field type {found}, which cannot store {wanted}")]
    TagType {
        /// The IFD.
        ifd: Location,
        /// The tag.
        tag: Tag,
        /// The type in the file.
        found: FieldType,
        /// The kind of value that the tag must have.
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
    /// A planar image has more blocks than entries in its block table: whole bands would read as zeros.
    #[error("{ifd}: the planar image has {wanted} blocks, but tag {tag} has only {found} entries")]
    ShortTable {
        /// The IFD.
        ifd: Location,
        /// The tag of the block table.
        tag: Tag,
        /// The number of entries in the table.
        found: u64,
        /// The number of blocks of all bands.
        wanted: u64,
    },
    /// The number of blocks, bytes or samples of the image does not fit in 64 bits.
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

/// The part of the file to which an error refers.
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
