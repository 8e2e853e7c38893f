//! ThunderScan 4-bit run lengths and differences (compression 32809).
//!
//! The upper two bits of a byte select the meaning of the lower six: 00 is a number of repetitions of the last
//! pixel, 01 three differences of two bits, 10 two differences of three bits, 11 a pixel. One value of each
//! kind of difference means "no pixel". The last pixel is 0 at the start of each row.

use crate::{Error, Result, Shape};

const NAME: &str = "ThunderScan";

/// The differences of two bits; the third value means no pixel.
const TWO_BITS: [Option<u8>; 4] = [Some(0), Some(1), None, Some(1u8.wrapping_neg())];

/// The differences of three bits; the fifth value means no pixel.
const THREE_BITS: [Option<u8>; 8] = [
    Some(0),
    Some(1),
    Some(2),
    Some(3),
    None,
    Some(3u8.wrapping_neg()),
    Some(2u8.wrapping_neg()),
    Some(1u8.wrapping_neg()),
];

/// Decodes a block of 4-bit pixels into `dst` and returns the number of bytes written, which is the whole
/// block.
///
/// # Errors
/// [`Error::Truncated`] if the stream ends before the last row is full, [`Error::Corrupt`] if a run extends
/// past the end of its row (differences past the end are dropped, as in libtiff), [`Error::Unsuited`] if the
/// samples do not have four bits.
pub fn decode(src: &[u8], shape: Shape, dst: &mut [u8]) -> Result<usize> {
    if shape.bits != 4 || shape.samples != 1 {
        return Err(Error::Unsuited { codec: NAME, what: "samples of other than four bits" });
    }
    let want = shape.len();
    let got = dst.len();
    let dst = dst.get_mut(..want).ok_or(Error::Truncated { codec: NAME, got, want })?;
    if want == 0 {
        return Ok(0);
    }
    dst.fill(0);
    let mut codes = src.iter();
    for (y, bytes) in dst.chunks_exact_mut(shape.row_bytes()).enumerate() {
        let mut row = Row { bytes, width: shape.width, x: 0, last: 0 };
        while row.x < row.width {
            let Some(&code) = codes.next() else {
                return Err(Error::Truncated { codec: NAME, got: y * shape.row_bytes(), want });
            };
            let value = code & 0x3f;
            match code >> 6 {
                0 => row.repeat(value.into())?,
                1 => [value >> 4, value >> 2 & 3, value & 3].iter().for_each(|&i| row.differ(TWO_BITS[usize::from(i)])),
                2 => [value >> 3, value & 7].iter().for_each(|&i| row.differ(THREE_BITS[usize::from(i)])),
                _ => row.push(value),
            }
        }
    }
    Ok(want)
}

/// A row while it is filled. Its remaining pixels are zeros.
struct Row<'a> {
    bytes: &'a mut [u8],
    width: usize,
    x: usize,
    last: u8,
}

impl Row<'_> {
    fn push(&mut self, value: u8) {
        self.last = value & 15;
        if self.x < self.width {
            self.bytes[self.x / 2] |= self.last << (4 - self.x % 2 * 4);
            self.x += 1;
        }
    }

    fn differ(&mut self, difference: Option<u8>) {
        if let Some(difference) = difference {
            self.push(self.last.wrapping_add(difference));
        }
    }

    fn repeat(&mut self, count: usize) -> Result<()> {
        if count > self.width - self.x {
            return Err(Error::Corrupt { codec: NAME, what: "a run goes past the end of its row" });
        }
        (0..count).for_each(|_| self.push(self.last));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SampleFormat;

    fn shape(width: usize, height: usize) -> Shape {
        Shape { width, height, samples: 1, bits: 4, format: SampleFormat::Uint }
    }

    fn decoded(src: &[u8], width: usize, height: usize) -> Result<Vec<u8>> {
        let mut dst = vec![0x5a; shape(width, height).len()];
        let n = decode(src, shape(width, height), &mut dst)?;
        assert_eq!(n, dst.len());
        Ok(dst)
    }

    #[test]
    fn each_of_the_four_codes_is_read_and_rows_start_from_zero() {
        let src = [0xc8, 0x02, 0b01_01_11_10, 0b10_011_101, 0xcf, 0x40, 0b01_01_01_01, 0x02];
        assert_eq!(decoded(&src, 8, 2).unwrap(), [0x88, 0x89, 0x8b, 0x8f, 0x00, 0x01, 0x23, 0x33]);
    }

    #[test]
    fn values_wrap_around_and_differences_past_the_row_are_dropped() {
        assert_eq!(decoded(&[0xcf, 0b10_001_001, 0xc5], 3, 1).unwrap(), [0xf0, 0x10]);
        assert_eq!(decoded(&[0xc0, 0b10_111_111, 0xc5, 0xc6, 0xc7], 2, 2).unwrap(), [0x0f, 0x56]);
    }

    #[test]
    fn run_past_its_row_is_an_error_and_does_not_overwrite_the_next_row() {
        assert!(matches!(decoded(&[0xc5, 0x06, 0xc1], 6, 2), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn truncated_stream_is_an_error_not_zeros() {
        for n in 0..4 {
            let full = [0xc1, 0x03, 0xc2, 0x03];
            assert!(matches!(decoded(&full[..n], 4, 2), Err(Error::Truncated { want: 4, .. })));
        }
    }

    #[test]
    fn random_streams_neither_panic_nor_write_past_the_block() {
        let mut state = 0x2545_f491_4f6c_dd1du64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as usize
        };
        for _ in 0..5000 {
            let shape = shape(random() % 300, random() % 9);
            let src: Vec<u8> = (0..random() % 200).map(|_| random() as u8).collect();
            let mut dst = vec![0x5a; shape.len() + 3];
            let _ = decode(&src, shape, &mut dst);
            assert!(dst[shape.len()..].iter().all(|&byte| byte == 0x5a));
        }
    }
}
