//! Predictors 2 and 3 (tag 317), which replace samples by differences before LZW, Deflate, ZSTD or LZMA
//! compresses a block.
//!
//! Predictor 2 (TIFF 6.0, section 14) stores each sample as its difference from the same sample of the previous
//! pixel. It treats every sample as an integer; libtiff and GDAL do so for floats and for complex numbers too.
//! Predictor 3 (TIFF technical note 3) splits the floats of a row into byte planes, most significant first, and
//! stores each byte as its difference from the byte `samples` positions before it, across the borders of the
//! planes.
//!
//! Other codecs do not support a predictor: libtiff ignores the tag for them, and the caller of this module
//! must ignore it too.

mod planes;
mod sum;

use crate::sample::{get_bits, put_bits};
use crate::{Error, Result, SampleFormat, Shape, byteorder};

/// The transformation that was applied to the samples of a block before compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Predictor {
    /// No transformation.
    #[default]
    None,
    /// Differences of integers.
    Horizontal,
    /// Differences of the byte planes of floats.
    FloatingPoint,
}

impl Predictor {
    /// Returns the predictor for a value of the Predictor tag.
    pub fn from_tag(value: u16) -> Option<Self> {
        match value {
            1 => Some(Self::None),
            2 => Some(Self::Horizontal),
            3 => Some(Self::FloatingPoint),
            _ => None,
        }
    }

    /// The value of the Predictor tag.
    pub fn tag(self) -> u16 {
        match self {
            Self::None => 1,
            Self::Horizontal => 2,
            Self::FloatingPoint => 3,
        }
    }

    /// Returns the operations for the rows of blocks of this shape.
    fn steps(self, shape: Shape) -> Result<Steps> {
        let unsuited = |codec, what| Err(Error::Unsuited { codec, what });
        match (self, shape.bits) {
            (Self::None, _) => Ok(Steps::Swap),
            (Self::Horizontal, 8 | 16 | 32 | 64) => Ok(Steps::Integers { width: shape.bits / 8 }),
            // The specification defines predictor 2 for samples of any width, after they are unpacked. libtiff
            // supports only the four widths above.
            (Self::Horizontal, 1..64) => Ok(Steps::BitString),
            (Self::Horizontal, _) => unsuited("predictor 2", "samples of this width"),
            (Self::FloatingPoint, _) if shape.format != SampleFormat::Float => {
                unsuited("predictor 3", "samples that are not floating point")
            }
            (Self::FloatingPoint, 16 | 24 | 32 | 64) => Ok(Steps::Planes { width: shape.bits / 8 }),
            (Self::FloatingPoint, _) => unsuited("predictor 3", "floats of another width than 16, 24, 32 or 64 bits"),
        }
    }
}

/// The operations on each row, after all checks of the shape.
#[derive(Debug, Clone, Copy)]
enum Steps {
    Swap,
    Integers { width: usize },
    BitString,
    Planes { width: usize },
}

/// Converts the rows of a decompressed block to native samples: undoes the predictor and swaps bytes. Each row is
/// converted once, in any order.
#[derive(Debug, Clone, Copy)]
pub struct RowUndo {
    /// `None` if the rows are native samples already.
    steps: Option<Steps>,
    shape: Shape,
    big_endian: bool,
}

impl RowUndo {
    /// Returns the conversion of rows with a predictor, in the byte order of the file.
    ///
    /// # Errors
    /// If the predictor is not defined for these samples.
    pub fn new(predictor: Predictor, shape: Shape, big_endian: bool) -> Result<Self> {
        let swaps = byteorder::is_foreign(big_endian) && byteorder::swap_width(shape.format, shape.bits) > 1;
        let steps = match predictor.steps(shape)? {
            Steps::Swap if !swaps => None,
            steps => Some(steps),
        };
        Ok(Self { steps, shape, big_endian })
    }

    /// Whether the rows are native samples already.
    pub fn is_nothing(&self) -> bool {
        self.steps.is_none()
    }

    /// Returns the conversion of rows that are native samples already, which does nothing.
    pub fn nothing(shape: Shape) -> Self {
        Self { steps: None, shape, big_endian: false }
    }

    /// Converts one row. The result is `row` or `scratch`.
    pub fn row<'a>(&self, row: &'a mut [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
        match self.steps {
            Some(Steps::Planes { width }) => {
                sum::accumulate(1, self.shape.samples, row);
                scratch.resize(row.len(), 0);
                planes::join(width, row, scratch);
                scratch
            }
            _ => {
                self.row_in_place(row, scratch);
                row
            }
        }
    }

    /// Converts all rows of a block in place.
    ///
    /// # Errors
    /// If the block does not have the length that its shape requires.
    pub fn block(&self, block: &mut [u8], scratch: &mut Vec<u8>) -> Result<()> {
        for_each_row(self.shape, block, |row| self.row_in_place(row, scratch))
    }

    fn row_in_place(&self, row: &mut [u8], scratch: &mut Vec<u8>) {
        let (stride, bits) = (self.shape.samples, self.shape.bits);
        match self.steps {
            None => {}
            Some(Steps::Swap) => byteorder::swap_block(self.shape, self.big_endian, row),
            Some(Steps::Integers { width }) => {
                if byteorder::is_foreign(self.big_endian) {
                    byteorder::swap_in_place(width, row);
                }
                sum::accumulate(width, stride, row);
            }
            Some(Steps::BitString) => {
                for at in stride..self.shape.width * stride {
                    let sum = get_bits(row, at - stride, bits).wrapping_add(get_bits(row, at, bits));
                    put_bits(row, at, bits, sum);
                }
            }
            Some(Steps::Planes { width }) => {
                sum::accumulate(1, stride, row);
                scratch.clear();
                scratch.extend_from_slice(row);
                planes::join(width, scratch, row);
            }
        }
    }
}

/// Undoes the predictor on a decoded block. The samples are in the byte order of the file before the call and
/// in the byte order of this machine after it, also with [`Predictor::None`].
///
/// `scratch` grows to at most one row. Reuse it from block to block.
///
/// # Errors
/// Returns an error if the block does not have the length that its shape requires, or if the predictor is not
/// defined for these samples.
pub fn undo(
    predictor: Predictor,
    shape: Shape,
    big_endian: bool,
    block: &mut [u8],
    scratch: &mut Vec<u8>,
) -> Result<()> {
    RowUndo::new(predictor, shape, big_endian)?.block(block, scratch)
}

/// Applies the predictor to a block. The samples are in the byte order of this machine before the call and in
/// the byte order of the file after it: the inverse of [`undo`].
///
/// # Errors
/// The same errors as [`undo`].
pub fn apply(
    predictor: Predictor,
    shape: Shape,
    big_endian: bool,
    block: &mut [u8],
    scratch: &mut Vec<u8>,
) -> Result<()> {
    let steps = predictor.steps(shape)?;
    let (stride, bits) = (shape.samples, shape.bits);
    for_each_row(shape, block, |row| match steps {
        Steps::Swap => byteorder::swap_block(shape, big_endian, row),
        Steps::Integers { width } => {
            sum::difference(width, stride, row);
            if byteorder::is_foreign(big_endian) {
                byteorder::swap_in_place(width, row);
            }
        }
        Steps::BitString => {
            for at in (stride..shape.width * stride).rev() {
                let difference = get_bits(row, at, bits).wrapping_sub(get_bits(row, at - stride, bits));
                put_bits(row, at, bits, difference);
            }
        }
        Steps::Planes { width } => {
            scratch.clear();
            scratch.extend_from_slice(row);
            planes::split(width, scratch, row);
            sum::difference(1, stride, row);
        }
    })
}

fn for_each_row(shape: Shape, block: &mut [u8], mut each: impl FnMut(&mut [u8])) -> Result<()> {
    if block.len() != shape.len() {
        return Err(Error::Mismatch {
            codec: "predictor",
            what: "block length",
            found: block.len() as u64,
            expected: shape.len() as u64,
        });
    }
    block.chunks_exact_mut(shape.row_bytes().max(1)).for_each(&mut each);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::noise;

    fn shape(width: usize, height: usize, samples: usize, bits: usize, format: SampleFormat) -> Shape {
        Shape { width, height, samples, bits, format }
    }

    fn undone(predictor: Predictor, shape: Shape, big_endian: bool, stored: &[u8]) -> Vec<u8> {
        let mut block = stored.to_vec();
        undo(predictor, shape, big_endian, &mut block, &mut Vec::new()).expect("the predictor is defined here");
        block
    }

    fn u16s(bytes: &[u8]) -> Vec<u16> {
        bytes.as_chunks::<2>().0.iter().map(|b| u16::from_ne_bytes(*b)).collect()
    }

    fn u32s(bytes: &[u8]) -> Vec<u32> {
        bytes.as_chunks::<4>().0.iter().map(|b| u32::from_ne_bytes(*b)).collect()
    }

    #[test]
    fn horizontal_differences_are_per_sample_and_restart_in_each_row() {
        let rgb = shape(3, 2, 3, 8, SampleFormat::Uint);
        let stored = [10, 20, 30, 1, 2, 3, 255, 254, 253, 5, 5, 5, 0, 1, 2, 0, 1, 2];
        let values = [10, 20, 30, 11, 22, 33, 10, 20, 30, 5, 5, 5, 5, 6, 7, 5, 7, 9];
        assert_eq!(undone(Predictor::Horizontal, rgb, false, &stored), values);
    }

    #[test]
    fn big_endian_integers_are_swapped_before_they_are_summed() {
        let gray = shape(3, 1, 1, 16, SampleFormat::Uint);
        // 0x00ff + 0x0001 carries into the high byte only if the bytes are in the right order.
        let stored = [0x00, 0xff, 0x00, 0x01, 0xff, 0xff];
        assert_eq!(u16s(&undone(Predictor::Horizontal, gray, true, &stored)), [0x00ff, 0x0100, 0x00ff]);
        let swapped = [0xff, 0x00, 0x01, 0x00, 0xff, 0xff];
        assert_eq!(u16s(&undone(Predictor::Horizontal, gray, false, &swapped)), [0x00ff, 0x0100, 0x00ff]);
    }

    /// Compares with GDAL 3.12: the carry goes from the real to the imaginary part, and in a big-endian file
    /// the real part comes last.
    #[test]
    fn complex_samples_are_summed_as_one_integer() {
        let complex = shape(2, 1, 1, 32, SampleFormat::ComplexInt);
        let little = [0xff, 0xff, 0x01, 0x00, 0x01, 0x00, 0x00, 0x00];
        let big = [0x00, 0x01, 0xff, 0xff, 0x00, 0x00, 0x00, 0x01];
        for (big_endian, stored) in [(false, little), (true, big)] {
            let block = undone(Predictor::Horizontal, complex, big_endian, &stored);
            assert_eq!(u32s(&block), [0x0001_ffff, 0x0002_0000]);
        }
    }

    /// The stored differences are the bytes 1, 2, 3 and so on. The expected values are what GDAL 3.12 reads.
    #[test]
    fn floats_of_every_width_are_what_gdal_reads() {
        let stored: Vec<u8> = (1..=40).collect();
        let want: [(usize, &[u64]); 4] = [
            (16, &[0x0115, 0x031c, 0x0624, 0x0a2d, 0x0f37]),
            (24, &[0x01_1542, 0x03_1c4e, 0x06_245b, 0x0a_2d69, 0x0f_3778]),
            (32, &[0x0115_4288, 0x031c_4e99, 0x0624_5bab, 0x0a2d_69be, 0x0f37_78d2]),
            (64, &[0x0115_4288_e75f_f09a, 0x031c_4e99_fd7a_10bf, 0x0624_5bab_1496_31e5]),
        ];
        for (bits, want) in want {
            let bytes = bits / 8;
            let block =
                undone(Predictor::FloatingPoint, shape(5, 1, 1, bits, SampleFormat::Float), true, &stored[..5 * bytes]);
            for (value, want) in block.chunks_exact(bytes).zip(want) {
                let mut big = value.to_vec();
                if cfg!(target_endian = "little") {
                    big.reverse();
                }
                assert_eq!(big, want.to_be_bytes()[8 - bytes..], "{bits} bits");
            }
        }
    }

    /// libtiff adds the byte `samples` positions before, across the borders of the planes, not the byte
    /// directly before.
    #[test]
    fn float_differences_step_over_interleaved_samples() {
        let two = shape(2, 1, 2, 16, SampleFormat::Float);
        let stored = [0x10, 0x20, 1, 2, 3, 4, 5, 6];
        // Sums in steps of two: 10 20 11 22 | 14 26 19 2c; the first plane is the high bytes.
        assert_eq!(u16s(&undone(Predictor::FloatingPoint, two, false, &stored)), [0x1014, 0x2026, 0x1119, 0x222c]);
    }

    #[test]
    fn no_predictor_still_converts_to_native_byte_order() {
        let cases = [
            (shape(1, 1, 1, 32, SampleFormat::Float), [1, 2, 3, 4], [4, 3, 2, 1]),
            (shape(1, 1, 1, 32, SampleFormat::ComplexInt), [1, 2, 3, 4], [2, 1, 4, 3]),
            (shape(2, 1, 1, 12, SampleFormat::Uint), [1, 2, 3, 0], [1, 2, 3, 0]),
            (shape(1, 1, 1, 24, SampleFormat::Float), [1, 2, 3, 0], [3, 2, 1, 0]),
        ];
        for (shape, stored, swapped) in cases {
            let length = shape.len();
            assert_eq!(
                undone(Predictor::None, shape, cfg!(target_endian = "big"), &stored[..length]),
                stored[..length]
            );
            assert_eq!(
                undone(Predictor::None, shape, cfg!(target_endian = "little"), &stored[..length]),
                swapped[..length]
            );
        }
    }

    #[test]
    fn odd_widths_are_summed_modulo_their_width() {
        // 0xfff + 0x002 = 0x001 in 12 bits. The padding bits of the row do not change.
        let gray = shape(3, 1, 1, 12, SampleFormat::Uint);
        assert_eq!(
            undone(Predictor::Horizontal, gray, false, &[0xff, 0xf0, 0x02, 0x00, 0x1a]),
            [0xff, 0xf0, 0x01, 0x00, 0x2a]
        );
    }

    #[test]
    fn apply_is_the_inverse_of_undo() {
        let floats = [16, 24, 32, 64].map(|bits| (Predictor::FloatingPoint, bits, SampleFormat::Float));
        let integers = [1, 2, 3, 7, 8, 10, 12, 14, 16, 24, 31, 32, 33, 48, 63, 64]
            .map(|bits| (Predictor::Horizontal, bits, SampleFormat::Uint));
        let complex = [32, 64, 128].map(|bits| (Predictor::None, bits, SampleFormat::ComplexFloat));
        let mut scratch = Vec::new();
        for (predictor, bits, format) in floats.into_iter().chain(integers).chain(complex) {
            for samples in [1, 2, 3, 4, 5, 7, 8, 16, 17] {
                for width in [0, 1, 2, 15, 16, 17, 63, 65] {
                    for big_endian in [false, true] {
                        let shape = shape(width, 3, samples, bits, format);
                        let stored = noise(shape.len());
                        let mut block = stored.clone();
                        undo(predictor, shape, big_endian, &mut block, &mut scratch).expect("defined");
                        let rows = RowUndo::new(predictor, shape, big_endian).expect("defined");
                        let mut by_row = stored.clone();
                        for (row, expected) in by_row
                            .chunks_exact_mut(shape.row_bytes().max(1))
                            .zip(block.chunks_exact(shape.row_bytes().max(1)))
                        {
                            assert!(rows.row(row, &mut scratch) == expected, "{predictor:?} {shape:?} row by row");
                        }
                        apply(predictor, shape, big_endian, &mut block, &mut scratch).expect("defined");
                        assert!(block == stored, "{predictor:?} {shape:?} big endian {big_endian}");
                    }
                }
            }
        }
    }

    #[test]
    fn undefined_combinations_and_wrong_lengths_are_errors() {
        let cases = [
            (Predictor::FloatingPoint, 32, SampleFormat::Uint),
            (Predictor::FloatingPoint, 64, SampleFormat::ComplexFloat),
            (Predictor::FloatingPoint, 8, SampleFormat::Float),
            (Predictor::Horizontal, 128, SampleFormat::ComplexFloat),
            (Predictor::Horizontal, 0, SampleFormat::Uint),
        ];
        for (predictor, bits, format) in cases {
            let shape = shape(2, 2, 1, bits, format);
            let result = undo(predictor, shape, false, &mut vec![0; shape.len()], &mut Vec::new());
            assert!(matches!(result, Err(Error::Unsuited { .. })), "{predictor:?} {bits} {format:?}: {result:?}");
        }
        let gray = shape(2, 2, 1, 8, SampleFormat::Uint);
        let result = undo(Predictor::Horizontal, gray, false, &mut [0; 5], &mut Vec::new());
        assert!(matches!(result, Err(Error::Mismatch { found: 5, expected: 4, .. })), "{result:?}");
    }
}
