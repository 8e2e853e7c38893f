//! One row of a fax page, as the positions where its colour changes.

use super::bits::Bits;
use super::codes::{BLACK, BLACK_BITS, MODE_BITS, MODES, Mode, RunCode, WHITE, WHITE_BITS};
use super::{NAME, Scratch};
use crate::{Error, Result};

/// The number of zeros that start an end-of-line code. Fill bits can add more.
pub(super) const EOL_ZEROS: u32 = 11;

/// The number of entries of a list that are not changes: the one before the first pixel, and those after the
/// last change, which a vertical or pass code may use or which closing a row may add.
const MARGIN: usize = 8;

/// The limit in bytes of the two lists, enough for rows of 16 million pixels in any coding.
const MEMORY: u64 = 256 << 20;

/// The reason why a row ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// Its last pixel.
    Full,
    /// The zeros of an end-of-line code, which are consumed, or the end of the stream.
    Eol,
    /// Bits that are not a code, or a code that is not allowed at this position.
    Bad,
    /// An extension code.
    Extension,
}

/// The length of the list of a row of `width` pixels in a stream of `bytes` bytes.
///
/// A change takes at least one bit, so the length of the stream limits the memory of a wide row. There are at most two
/// useful changes between two pixels; a row of empty runs that needs more is broken.
fn entries(width: usize, bytes: usize) -> usize {
    width.saturating_mul(2).min(bytes.saturating_mul(8)).saturating_add(MARGIN)
}

/// The memory of the lists of two rows.
pub(super) fn working_bytes(width: usize, bytes: usize) -> u64 {
    (entries(width, bytes) as u64).saturating_mul(2 * size_of::<u32>() as u64)
}

/// The current row and the row above it.
///
/// A list contains 0 for the position before the row, then the positions where the colour changes, then the
/// width, repeated. The first change is from white to black, so the index of a change gives its colour. Runs
/// may be empty.
pub(super) struct Lines<'s> {
    above: &'s mut [u32],
    current: &'s mut [u32],
    width: usize,
}

/// The state of a row while it is read.
struct Cursor {
    /// The number of entries in the list so far.
    len: usize,
    /// The number of pixels so far, T.4's a0. It is larger than the last entry of the list while a run is not
    /// finished.
    a0: usize,
}

impl<'s> Lines<'s> {
    /// Creates an all-white row above rows of `width` pixels that are coded in `bytes` bytes.
    pub(super) fn new(scratch: &'s mut Scratch, width: usize, bytes: usize) -> Result<Self> {
        let entries = entries(width, bytes);
        let needed = working_bytes(width, bytes);
        if needed > MEMORY {
            return Err(Error::Memory { codec: NAME, needed, limit: MEMORY });
        }
        for list in [&mut scratch.above, &mut scratch.current] {
            if list.len() < entries {
                list.resize(entries, 0);
            }
        }
        let mut lines = Lines { above: &mut scratch.above[..entries], current: &mut scratch.current[..entries], width };
        lines.close(Cursor { len: 1, a0: width });
        Ok(lines)
    }

    /// Reads a row of alternating white and black runs.
    pub(super) fn read_1d<const LSB_FIRST: bool>(&mut self, bits: &mut Bits<'_, LSB_FIRST>) -> End {
        let mut at = Cursor { len: 1, a0: 0 };
        let end = self.runs(bits, &mut at);
        self.close(at);
        end
    }

    fn runs<const LSB_FIRST: bool>(&mut self, bits: &mut Bits<'_, LSB_FIRST>, at: &mut Cursor) -> End {
        loop {
            if at.len + MARGIN > self.current.len() {
                return End::Bad;
            }
            if let Err(end) = self.white(bits, at) {
                return end;
            }
            if at.a0 >= self.width {
                return End::Full;
            }
            if let Err(end) = self.black(bits, at) {
                return end;
            }
            if at.a0 >= self.width {
                return End::Full;
            }
            // Two empty runs have no effect. Without them a row cannot have more changes than the list can
            // store.
            if self.current[at.len - 1] == self.current[at.len - 3] {
                at.len -= 2;
            }
        }
    }

    /// Reads a row that is coded as differences from the row above.
    pub(super) fn read_2d<const LSB_FIRST: bool>(&mut self, bits: &mut Bits<'_, LSB_FIRST>) -> End {
        let mut at = Cursor { len: 1, a0: 0 };
        let end = self.modes(bits, &mut at);
        if matches!(end, End::Eol | End::Extension) {
            // The colour of the unfinished run continues to the end of the row.
            at.a0 = self.width;
        }
        self.close(at);
        end
    }

    fn modes<const LSB_FIRST: bool>(&mut self, bits: &mut Bits<'_, LSB_FIRST>, at: &mut Cursor) -> End {
        let width = self.width as u32;
        // The index of T.4's b1. It is odd for a change to black.
        let mut b = 1;
        while at.a0 < self.width {
            if at.len + MARGIN > self.current.len() {
                return End::Bad;
            }
            // Before the first change, b1 may be the first pixel itself.
            if at.len > 1 {
                while self.above[b] < width && self.above[b] as usize <= at.a0 {
                    b += 2;
                }
            }
            let (mode, len) = MODES[bits.peek(MODE_BITS)];
            match mode {
                Mode::Vertical(right) => {
                    bits.skip(len.into());
                    match (self.above[b] as usize).checked_add_signed(right.into()) {
                        Some(a1) if a1 >= at.a0 => at.a0 = a1,
                        _ => return End::Bad,
                    }
                    self.change(at);
                    b = if right < 0 { b - 1 } else { b + 1 };
                }
                Mode::Horizontal => {
                    bits.skip(len.into());
                    let result = if at.len % 2 == 1 {
                        self.white(bits, at).and_then(|()| self.black(bits, at))
                    } else {
                        self.black(bits, at).and_then(|()| self.white(bits, at))
                    };
                    if result.is_err() {
                        return End::Bad;
                    }
                }
                Mode::Pass => {
                    bits.skip(len.into());
                    at.a0 = self.above[b + 1] as usize;
                    b += 2;
                }
                Mode::Extension => {
                    bits.skip(len.into());
                    return End::Extension;
                }
                Mode::Eol => {
                    bits.peek(EOL_ZEROS);
                    bits.skip(EOL_ZEROS);
                    return End::Eol;
                }
            }
        }
        End::Full
    }

    #[inline(always)]
    fn white<const LSB_FIRST: bool>(
        &mut self,
        bits: &mut Bits<'_, LSB_FIRST>,
        at: &mut Cursor,
    ) -> std::result::Result<(), End> {
        run::<WHITE_BITS, _, LSB_FIRST>(&WHITE, bits, &mut at.a0)?;
        self.change(at);
        Ok(())
    }

    #[inline(always)]
    fn black<const LSB_FIRST: bool>(
        &mut self,
        bits: &mut Bits<'_, LSB_FIRST>,
        at: &mut Cursor,
    ) -> std::result::Result<(), End> {
        run::<BLACK_BITS, _, LSB_FIRST>(&BLACK, bits, &mut at.a0)?;
        self.change(at);
        Ok(())
    }

    /// Ends a run at `a0`. A run that exceeds the maximum is longer than any row, whatever its exact length.
    #[inline(always)]
    fn change(&mut self, at: &mut Cursor) {
        self.current[at.len] = at.a0.min(u32::MAX as usize) as u32;
        at.len += 1;
    }

    /// Closes the row at exactly the right width and makes it the row above.
    fn close(&mut self, mut at: Cursor) {
        let width = self.width as u32;
        if self.current[at.len - 1] as usize != at.a0 {
            self.change(&mut at);
        }
        // A run past the end is dropped and not shortened: a run that is too long is an error, and then white
        // is the better guess.
        while at.len > 1 && self.current[at.len - 1] > width {
            at.len -= 1;
        }
        if at.len.is_multiple_of(2) && self.current[at.len - 1] < width {
            self.current[at.len] = self.current[at.len - 1];
            at.len += 1;
        }
        self.current[at.len..at.len + 4].fill(width);
        std::mem::swap(&mut self.above, &mut self.current);
    }

    /// Paints the last row that was read.
    pub(super) fn paint(&self, row: &mut [u8]) {
        row.fill(0);
        for black in self.above[1..].chunks_exact(2) {
            let (from, to) = (black[0] as usize, black[1] as usize);
            if from >= self.width {
                break;
            }
            if from < to {
                blacken(row, from, to);
            }
        }
    }
}

/// Adds a run, which may have several codes, to `a0`. If an invalid code follows, the part before it is added
/// too.
#[inline(always)]
fn run<const BITS: u32, const N: usize, const LSB_FIRST: bool>(
    table: &'static [RunCode; N],
    bits: &mut Bits<'_, LSB_FIRST>,
    a0: &mut usize,
) -> std::result::Result<(), End> {
    loop {
        let code = table[bits.peek(BITS)];
        if code.len() == 0 {
            if !code.is_eol() {
                return Err(End::Bad);
            }
            bits.skip(EOL_ZEROS);
            return Err(End::Eol);
        }
        bits.skip(code.len());
        *a0 = a0.saturating_add(code.run());
        if code.run() < 64 {
            return Ok(());
        }
    }
}

/// Sets the bits `from..to` of `row`.
#[inline(always)]
fn blacken(row: &mut [u8], from: usize, to: usize) {
    let (first, last) = (from / 8, (to - 1) / 8);
    let head = 0xff >> (from % 8);
    let tail = 0xff << (7 - (to - 1) % 8);
    if first == last {
        row[first] |= head & tail;
    } else {
        row[first] |= head;
        row[first + 1..last].fill(0xff);
        row[last] |= tail;
    }
}
