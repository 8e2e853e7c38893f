//! The shape of one block.

use swath_tiff::SampleFormat;

/// The pixels that a block holds once decoded.
///
/// A block is a tile or a strip: `height` rows of `width` pixels of `samples` interleaved samples (1 when the
/// file is planar), each row padded to a whole byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Interleaved samples of a pixel in this block.
    pub samples: usize,
    /// Bits of one sample as stored (both parts of a complex sample together).
    pub bits: usize,
    /// The interpretation of the bits of a sample.
    pub format: SampleFormat,
}

impl Shape {
    /// Bytes of one row as stored: TIFF pads each row to a whole byte.
    pub fn row_bytes(&self) -> usize {
        (self.width * self.samples * self.bits).div_ceil(8)
    }

    /// Bytes of the whole decoded block.
    pub fn len(&self) -> usize {
        self.row_bytes() * self.height
    }

    /// True when the block holds no pixel.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
