//! NeXT 2-bit run lengths (compression 32766).
//!
//! The first byte of a row selects its form. 0x00 is followed by the uncompressed row. 0x40 is followed by the
//! offset and the length (two big-endian bytes each) of the part that is not white, and then by that part. Any
//! other byte is the first of a sequence of runs that fills the row: a grey value in the upper two bits and a
//! length in the lower six.

use crate::{Error, Result, Shape};

const NAME: &str = "NeXT";

/// The grey value 3, four times.
const WHITE: u8 = 0xff;

/// Decodes a block of 2-bit pixels into `dst` and returns the number of bytes written, which is the whole
/// block.
///
/// Rows after the end of the stream are white, and the part of a run that exceeds its row is dropped, as in
/// libtiff.
///
/// # Errors
/// [`Error::Truncated`] if the stream ends inside a row, [`Error::Corrupt`] if a part does not fit in its row,
/// [`Error::Unsuited`] if the samples do not have two bits.
pub fn decode(src: &[u8], shape: Shape, dst: &mut [u8]) -> Result<usize> {
    if shape.bits != 2 || shape.samples != 1 {
        return Err(Error::Unsuited { codec: NAME, what: "samples of other than two bits" });
    }
    let want = shape.len();
    let got = dst.len();
    let dst = dst.get_mut(..want).ok_or(Error::Truncated { codec: NAME, got, want })?;
    dst.fill(WHITE);
    if want == 0 {
        return Ok(0);
    }
    let mut src = src;
    for (y, row) in dst.chunks_exact_mut(shape.row_bytes()).enumerate() {
        if src.is_empty() {
            break;
        }
        let truncated = Error::Truncated { codec: NAME, got: y * shape.row_bytes(), want };
        src = match *src {
            [0x00, ref rest @ ..] => literal(rest, row).ok_or(truncated)?,
            [0x40, o1, o0, n1, n0, ref rest @ ..] => {
                let from = usize::from(u16::from_be_bytes([o1, o0]));
                let count = usize::from(u16::from_be_bytes([n1, n0]));
                let span = row.get_mut(from..from + count).ok_or(Error::Corrupt {
                    codec: NAME,
                    what: "the part of a row that is not white is larger than the row",
                })?;
                literal(rest, span).ok_or(truncated)?
            }
            [0x40, ..] => return Err(truncated),
            _ => runs(src, row, shape.width).ok_or(truncated)?,
        };
    }
    Ok(want)
}

/// Copies uncompressed pixels and returns the rest of the stream.
fn literal<'a>(src: &'a [u8], pixels: &mut [u8]) -> Option<&'a [u8]> {
    let (bytes, rest) = src.split_at_checked(pixels.len())?;
    pixels.copy_from_slice(bytes);
    Some(rest)
}

/// Decodes the runs of one white row and returns the rest of the stream.
fn runs<'a>(src: &'a [u8], row: &mut [u8], width: usize) -> Option<&'a [u8]> {
    let mut rest = src;
    let mut x = 0;
    while x < width {
        let (&code, tail) = rest.split_first()?;
        rest = tail;
        let grey = code >> 6;
        let end = (x + usize::from(code & 0x3f)).min(width);
        for x in x..end {
            // The row is all ones, so clearing the bits that are not in the value sets the value.
            row[x / 4] &= !((!grey & 3) << (6 - x % 4 * 2));
        }
        x = end;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SampleFormat;

    fn shape(width: usize, height: usize) -> Shape {
        Shape { width, height, samples: 1, bits: 2, format: SampleFormat::Uint }
    }

    fn decoded(src: &[u8], width: usize, height: usize) -> Result<Vec<u8>> {
        let mut dst = vec![0x5a; shape(width, height).len()];
        let n = decode(src, shape(width, height), &mut dst)?;
        assert_eq!(n, dst.len());
        Ok(dst)
    }

    #[test]
    fn each_of_the_three_row_forms_is_read_and_the_next_row_found() {
        let src = [0x82, 0xc1, 0x00, 0x05, 0x00, 0x1b, 0xe4, 0x40, 0, 1, 0, 1, 0x55, 0x43, 0x83];
        assert_eq!(
            decoded(&src, 6, 4).unwrap(),
            [0b10_10_11_00, 0b00_00_11_11, 0x1b, 0xe4, 0xff, 0x55, 0b01_01_01_10, 0b10_10_11_11]
        );
    }

    #[test]
    fn runs_past_the_row_are_truncated_and_rows_past_the_stream_are_white() {
        assert_eq!(decoded(&[0x8f], 5, 3).unwrap(), [0xaa, 0xbf, 0xff, 0xff, 0xff, 0xff]);
    }

    #[test]
    fn truncated_row_of_any_form_is_an_error() {
        for src in [&[0x84][..], &[0x00, 0xaa], &[0x40, 0, 0, 0], &[0x40, 0, 0, 0, 2, 0xaa]] {
            assert_eq!(decoded(src, 8, 2), Err(Error::Truncated { codec: NAME, got: 0, want: 4 }), "{src:x?}");
        }
        assert!(matches!(decoded(&[0x88, 0x84], 8, 2), Err(Error::Truncated { got: 2, .. })));
    }

    #[test]
    fn span_outside_of_its_row_is_an_error_not_a_write() {
        assert!(matches!(decoded(&[0x40, 0, 1, 0, 2, 1, 1, 1], 8, 2), Err(Error::Corrupt { .. })));
        assert!(matches!(decoded(&[0x40, 0xff, 0xff, 0xff, 0xff, 1], 8, 2), Err(Error::Corrupt { .. })));
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
            let src: Vec<u8> = (0..random() % 200).map(|_| [0x00, 0x40, 0x01, random() as u8][random() % 4]).collect();
            let mut dst = vec![0x5a; shape.len() + 3];
            let _ = decode(&src, shape, &mut dst);
            assert!(dst[shape.len()..].iter().all(|&byte| byte == 0x5a));
        }
    }
}
