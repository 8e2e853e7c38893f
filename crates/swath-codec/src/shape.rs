//! The shape of one block.

use swath_tiff::SampleFormat;

/// The shape of a decoded block.
///
/// A block is a tile or a strip: `height` rows of `width` pixels of `samples` interleaved samples (1 if the
/// file is planar). Each row is padded to a whole byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The number of pixels in a row.
    pub width: usize,
    /// The number of rows.
    pub height: usize,
    /// The number of interleaved samples per pixel in this block.
    pub samples: usize,
    /// The number of bits of one sample as stored (both parts of a complex sample together).
    pub bits: usize,
    /// The interpretation of the bits of a sample.
    pub format: SampleFormat,
}

impl Shape {
    /// The number of bytes of one row as stored. TIFF pads each row to a whole byte.
    pub fn row_bytes(&self) -> usize {
        (self.width * self.samples * self.bits).div_ceil(8)
    }

    /// The number of bytes of the whole decoded block.
    pub fn len(&self) -> usize {
        self.row_bytes() * self.height
    }

    /// Whether the block holds no pixel.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
