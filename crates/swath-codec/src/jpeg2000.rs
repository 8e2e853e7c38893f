//! JPEG 2000 (compression 34712, and Aperio's 33003 and 33005): a codestream or a JP2 file in each block.
//!
//! The `hayro-jpeg2000` crate decodes; it is pure Rust without `unsafe`, and it allocates what the stream asks for. So
//! `codestream.rs` checks each stream against the block first. `hayro-jpeg2000` does not encode; the `openjp2` crate does.
//! Without the feature `jpeg2000` the check remains, because the GPU crate needs it.

#[cfg_attr(not(feature = "jpeg2000"), expect(dead_code, reason = "the decoder uses what the check finds"))]
mod codestream;
#[cfg(feature = "jpeg2000")]
mod decode;
#[cfg(feature = "jpeg2000")]
mod encode;

#[cfg(not(feature = "jpeg2000"))]
pub use crate::excluded::jpeg2000::{decode, encode};
use crate::{Error, Result, Shape};
#[cfg(feature = "jpeg2000")]
pub use decode::decode;
#[cfg(feature = "jpeg2000")]
pub use encode::encode;

const CODEC: &str = "JPEG 2000";

/// The colour space of the first three components.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Colour {
    /// The samples of the TIFF, as they are.
    Stored,
    /// YCbCr that the file does not declare (Aperio's 33003): converted to RGB.
    Ycc,
}

/// How much of the image the encoder keeps.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Quality {
    /// Everything: the reversible 5/3 wavelet.
    Lossless,
    /// What fits in this part of the uncompressed size, above 0 to 100 percent: what GDAL's JP2 drivers call QUALITY. Every block
    /// gets the same number of bytes, whatever is in it, and of those the markers take about 150: too many for tiny blocks.
    Percent(f32),
    /// What is needed for this peak signal-to-noise ratio, in decibels, the peak being the largest value that the bits of a sample can
    /// hold. Every block looks equally good, and plain ones are small.
    Psnr(f32),
}

/// The settings of the encoder.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EncodeParams {
    /// How much of the image the encoder keeps.
    pub quality: Quality,
    /// The first three samples are red, green and blue, or as much alike: store their differences, which are smaller.
    pub rgb: bool,
}

/// Checks that a stream announces such a block and that decoding it needs no more memory than a block of that size may take.
///
/// [`decode`] does this itself. The function is public for other decoders, which may not.
pub fn check(src: &[u8], shape: Shape) -> Result<()> {
    codestream::check(src, shape).map(|_| ())
}

/// The error for a stream that the standard allows but the decoder does not support.
fn unsupported(name: &'static str) -> Error {
    Error::Unsupported { name, code: 34712 }
}
