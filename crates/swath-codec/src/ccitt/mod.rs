//! CCITT fax: modified Huffman (compression 2 and 32771), Group 3 (3) and Group 4 (4), as in ITU-T T.4 and T.6.
//!
//! White is 0 and black is 1, whatever the photometric interpretation is.
//!
//! Scanners and fax machines write broken lines, and such files are still in use. So the decoder repairs a line
//! that breaks a rule as libtiff does: it keeps the runs that fit, and the rest of the line is white. Decoding
//! continues at the next end-of-line code in Group 3, and at the next row in the others. Rows after the end of
//! a Group 3 or Group 4 stream are white.

mod bits;
mod codes;
mod line;
#[cfg(test)]
mod tests;

use crate::{Error, Result, Shape};
use bits::Bits;
use line::{EOL_ZEROS, End, Lines};
use std::slice::ChunksExactMut;

const NAME: &str = "CCITT";
const WHITE: u8 = 0;
const UNCOMPRESSED: Error = Error::Unsuited { codec: NAME, what: "the uncompressed mode" };

/// The fax scheme of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Modified Huffman; rows start on a byte (compression 2).
    Rle,
    /// Modified Huffman; rows start on a 16-bit word (compression 32771).
    RleWord,
    /// T.4; rows follow end-of-line codes (compression 3).
    ///
    /// Bit 2 of T4Options (end-of-line codes end on a byte) needs no flag: such codes are only longer.
    Group3 {
        /// Bit 0 of T4Options: rows may refer to the row above.
        two_dimensional: bool,
    },
    /// T.6 (compression 4).
    Group4,
}

/// The parameters for reading the stream of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Params {
    /// The scheme.
    pub scheme: Scheme,
    /// FillOrder 2: the first bit of the stream is the least significant one of the first byte.
    pub lsb_first: bool,
    /// Bit 1 of T4Options or T6Options: the stream may use the uncompressed mode, which is not supported. The
    /// bit alone does no harm, because many writers set it without using the mode. Without the bit, an
    /// extension code is treated as a broken line.
    pub uncompressed: bool,
}

/// Working memory that is reused from block to block: the colour changes of two rows.
#[derive(Debug, Default)]
pub struct Scratch {
    above: Vec<u32>,
    current: Vec<u32>,
}

/// The memory that [`decode`] needs for the colour changes of two rows.
pub(crate) fn working_bytes(src: &[u8], shape: Shape) -> u64 {
    line::working_bytes(shape.width, src.len())
}

/// Decodes a block of bilevel pixels into `dst`, eight to a byte, and returns the number of bytes written,
/// which is the whole block.
///
/// # Errors
/// [`Error::Truncated`] if a modified Huffman stream ends early or if no row at all can be decoded,
/// [`Error::Unsuited`] if the samples do not have one bit or the block uses the uncompressed mode,
/// [`Error::Memory`] if a row is so wide that its colour changes could take more than 256 MiB.
pub fn decode(params: &Params, src: &[u8], shape: Shape, dst: &mut [u8], scratch: &mut Scratch) -> Result<usize> {
    if shape.bits != 1 || shape.samples != 1 {
        return Err(Error::Unsuited { codec: NAME, what: "samples of more than one bit" });
    }
    // Positions are u32. A width of at most 31 bits leaves room for a code that extends past the end of the row.
    if shape.width > i32::MAX as usize {
        return Err(Error::Unsuited { codec: NAME, what: "rows of more than 2147483647 pixels" });
    }
    let want = shape.len();
    let Some(dst) = dst.get_mut(..want) else {
        return Err(Error::Truncated { codec: NAME, got: dst.len(), want });
    };
    if want == 0 {
        return Ok(0);
    }
    let lines = Lines::new(scratch, shape.width, src.len())?;
    let mut rows = dst.chunks_exact_mut(shape.row_bytes());
    let done = if params.lsb_first {
        decode_rows(params, Bits::<true>::new(src), lines, &mut rows)?
    } else {
        decode_rows(params, Bits::<false>::new(src), lines, &mut rows)?
    };
    let must_be_full = matches!(params.scheme, Scheme::Rle | Scheme::RleWord);
    if done < shape.height && (must_be_full || done == 0) {
        return Err(Error::Truncated { codec: NAME, got: done * shape.row_bytes(), want });
    }
    rows.for_each(|row| row.fill(WHITE));
    Ok(want)
}

/// Reads the rows that the stream has and returns the number of complete rows.
fn decode_rows<const LSB_FIRST: bool>(
    params: &Params,
    bits: Bits<'_, LSB_FIRST>,
    lines: Lines<'_>,
    rows: &mut ChunksExactMut<'_, u8>,
) -> Result<usize> {
    match params.scheme {
        Scheme::Rle => Ok(huffman(bits, 1, lines, rows)),
        Scheme::RleWord => Ok(huffman(bits, 2, lines, rows)),
        Scheme::Group3 { two_dimensional } => group3(params, two_dimensional, bits, lines, rows),
        Scheme::Group4 => group4(params, bits, lines, rows),
    }
}

fn huffman<const LSB_FIRST: bool>(
    mut bits: Bits<'_, LSB_FIRST>,
    align: usize,
    mut lines: Lines<'_>,
    rows: &mut ChunksExactMut<'_, u8>,
) -> usize {
    let mut done = 0;
    while !bits.at_end()
        && let Some(row) = rows.next()
    {
        lines.read_1d(&mut bits);
        lines.paint(row);
        bits.align(align);
        done += 1;
    }
    done
}

fn group3<const LSB_FIRST: bool>(
    params: &Params,
    two_dimensional: bool,
    mut bits: Bits<'_, LSB_FIRST>,
    mut lines: Lines<'_>,
    rows: &mut ChunksExactMut<'_, u8>,
) -> Result<usize> {
    // Some writers omit the end-of-line codes completely.
    let has_eol = bits.clone().seek_zeros(EOL_ZEROS);
    let mut in_eol = false;
    let mut done = 0;
    loop {
        if has_eol && !((in_eol || bits.seek_zeros(EOL_ZEROS)) && bits.skip_past_one()) || bits.at_end() {
            return Ok(done);
        }
        let Some(row) = rows.next() else { return Ok(done) };
        let one_dimensional = !two_dimensional || bits.bit();
        let end = if one_dimensional { lines.read_1d(&mut bits) } else { lines.read_2d(&mut bits) };
        if end == End::Extension && params.uncompressed {
            return Err(UNCOMPRESSED);
        }
        lines.paint(row);
        in_eol = end == End::Eol;
        if in_eol && !has_eol {
            // These zeros are the ones that the reader adds after the end.
            return Ok(done);
        }
        done += 1;
    }
}

fn group4<const LSB_FIRST: bool>(
    params: &Params,
    mut bits: Bits<'_, LSB_FIRST>,
    mut lines: Lines<'_>,
    rows: &mut ChunksExactMut<'_, u8>,
) -> Result<usize> {
    let mut done = 0;
    while !bits.at_end()
        && let Some(row) = rows.next()
    {
        let end = lines.read_2d(&mut bits);
        if end == End::Extension && params.uncompressed {
            return Err(UNCOMPRESSED);
        }
        lines.paint(row);
        // Only the end-of-block code starts with these zeros.
        if end == End::Eol {
            break;
        }
        done += 1;
    }
    Ok(done)
}
