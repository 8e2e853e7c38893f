//! Shapes of blocks from the first bytes of an input.

use swath_codec::{Predictor, SampleFormat, Shape};

/// The number of bytes that describe a block.
pub(crate) const PREFIX: usize = 6;

/// A block as the first bytes of an input describe it.
pub(crate) struct Block {
    /// Selects the codec.
    pub(crate) codec: usize,
    /// A setting of the codec.
    pub(crate) option: u8,
    pub(crate) shape: Shape,
    pub(crate) predictor: Predictor,
    pub(crate) big_endian: bool,
    pub(crate) lsb_first: bool,
    /// Whether a pair of chroma samples belongs to 2 x 2 pixels.
    pub(crate) subsampled: bool,
}

impl Block {
    /// Only shapes that `ImageLayout` accepts occur, because codecs do not check them again.
    pub(crate) fn new(prefix: &[u8; PREFIX]) -> Block {
        let &[codec, option, width, height, sample, flags] = prefix;
        let choice = usize::from(sample >> 2);
        let (format, bits) = match flags & 7 {
            0..=2 => (SampleFormat::Uint, [1, 2, 4, 8, 12, 16, 32, 64][choice % 8]),
            3 => (SampleFormat::Int, [8, 16, 32, 64][choice % 4]),
            4 | 5 => (SampleFormat::Float, [16, 24, 32, 64][choice % 4]),
            6 => (SampleFormat::ComplexInt, [32, 64][choice % 2]),
            _ => (SampleFormat::ComplexFloat, [64, 128][choice % 2]),
        };
        let samples = 1 + usize::from(sample & 3);
        let predictor = [Predictor::None, Predictor::Horizontal, Predictor::FloatingPoint];
        let rgb = samples == 3 && bits == 8 && format == SampleFormat::Uint;
        Block {
            codec: usize::from(codec),
            option,
            shape: Shape { width: 1 + usize::from(width), height: 1 + usize::from(height), samples, bits, format },
            predictor: predictor[usize::from(flags >> 3 & 3) % 3],
            big_endian: flags & 32 != 0,
            lsb_first: flags & 64 != 0,
            subsampled: flags & 128 != 0 && rgb,
        }
    }
}
