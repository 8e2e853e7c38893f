//! LERC (compression 34887): Esri's limited-error raster compression, alone or inside Deflate or ZSTD.
//!
//! The `lerc-rs` crate decodes and encodes the blobs (it reads Lerc1 and Lerc2 versions 2 to 6). `lerc2.rs`
//! decodes the most common blobs itself, because it is faster. The other modules here implement the meaning of a
//! blob inside a TIFF. Without the feature `lerc`, only the types for the
//! LercParameters tag remain.

#[cfg(feature = "lerc")]
mod blocks;
#[cfg(feature = "lerc")]
mod decode;
#[cfg(feature = "lerc")]
mod encode;
#[cfg(feature = "lerc")]
mod huffman;
#[cfg(feature = "lerc")]
mod lerc2;

#[cfg(not(feature = "lerc"))]
pub use crate::excluded::lerc::{Encoder, Scratch, decode};
use crate::{Error, Result};
#[cfg(feature = "lerc")]
pub use decode::{Scratch, decode};
#[cfg(feature = "lerc")]
pub use encode::Encoder;

const CODEC: &str = "LERC";

/// The codec that wraps each LERC blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LercCompression {
    /// No wrapper: the block is the blob.
    None,
    /// A zlib stream.
    Deflate,
    /// A ZSTD frame.
    Zstd,
}

/// The LERC version in the parameters of new files: 2.4, which libtiff writes.
pub const VERSION: u32 = 4;

/// The LercParameters tag (50674).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Params {
    /// The LERC version that the writer stated. Each blob has its own version, and the decoder uses that one.
    pub version: u32,
    /// The codec that wraps each blob.
    pub compression: LercCompression,
}

impl Params {
    /// Parses the values of tag 50674. Writers other than libtiff omit it or write only the version; both mean
    /// a blob without a wrapper.
    pub fn from_tag(values: &[u32]) -> Result<Params> {
        let compression = match values.get(1) {
            None | Some(0) => LercCompression::None,
            Some(1) => LercCompression::Deflate,
            Some(2) => LercCompression::Zstd,
            Some(_) => return Err(Error::Corrupt { codec: CODEC, what: "its parameters have an unknown compression" }),
        };
        Ok(Params { version: values.first().copied().unwrap_or(4), compression })
    }

    /// Returns the values of tag 50674.
    pub fn to_tag(&self) -> [u32; 2] {
        let compression = match self.compression {
            LercCompression::None => 0,
            LercCompression::Deflate => 1,
            LercCompression::Zstd => 2,
        };
        [self.version, compression]
    }
}
