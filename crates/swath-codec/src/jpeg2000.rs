//! JPEG 2000 (compression 34712, and Aperio's 33003 and 33005): a codestream or a JP2 file in each block.
//!
//! The `hayro-jpeg2000` crate decodes. It is pure Rust without `unsafe`, but it allocates as much as the stream
//! requests, so `codestream.rs` first checks each stream against the block. `hayro-jpeg2000` does not encode;
//! the `openjp2` crate does. Without the feature `jpeg2000` the check remains, because the GPU crate needs it.

#[cfg_attr(not(feature = "jpeg2000"), expect(dead_code, reason = "the decoder uses what the check finds"))]
mod codestream;
#[cfg(feature = "jpeg2000")]
mod decode;
#[cfg(feature = "jpeg2000")]
mod encode;

#[cfg(not(feature = "jpeg2000"))]
pub(crate) use crate::excluded::jpeg2000::decode_within;
#[cfg(not(feature = "jpeg2000"))]
pub use crate::excluded::jpeg2000::{decode, encode};
use crate::{Error, Result, Shape};
#[cfg(feature = "jpeg2000")]
pub use decode::decode;
#[cfg(feature = "jpeg2000")]
pub(crate) use decode::decode_within;
#[cfg(feature = "jpeg2000")]
pub use encode::encode;

const CODEC: &str = "JPEG 2000";

/// The colour space of the first three components.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Colour {
    /// The samples of the TIFF, unchanged.
    Stored,
    /// YCbCr that the file does not declare (Aperio's 33003). It is converted to RGB.
    Ycc,
}

/// The quality of the encoded image.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Quality {
    /// Lossless: the reversible 5/3 wavelet.
    Lossless,
    /// A fixed size: a percentage of the uncompressed size, above 0 to 100. GDAL's JP2 drivers call it QUALITY.
    /// Every block gets the same number of bytes, whatever its content. The markers take about 150 of them,
    /// which is too many for tiny blocks.
    Percent(f32),
    /// A peak signal-to-noise ratio in decibels. The peak is the largest value of a sample with this number of
    /// bits. Every block has the same quality, and blocks with little detail are small.
    Psnr(f32),
}

/// The settings of the encoder.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EncodeParams {
    /// The quality of the encoded image.
    pub quality: Quality,
    /// Whether the first three samples are red, green and blue, or similarly correlated. The encoder then
    /// stores their differences, which are smaller.
    pub rgb: bool,
}

/// Checks that the headers of a stream describe this block, and that decoding it needs no more memory than the
/// limit for a block of that size.
///
/// [`decode`] does this itself. The function is public for other decoders that may not.
pub fn check(src: &[u8], shape: Shape) -> Result<()> {
    codestream::check(src, shape).map(|_| ())
}

/// Returns the error for a stream that the standard allows but the decoder does not support.
fn unsupported(name: &'static str) -> Error {
    Error::Unsupported { name, code: 34712 }
}
