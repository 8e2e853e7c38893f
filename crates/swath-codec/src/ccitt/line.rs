//! One row of a fax page as the places where its colour changes.

use super::bits::Bits;
use super::codes::{BLACK, BLACK_BITS, MODE_BITS, MODES, Mode, RunCode, WHITE, WHITE_BITS};
use super::{NAME, Scratch};
use crate::{Error, Result};

/// Zeros that begin an end-of-line code; fill bits make it more.
pub(super) const EOL_ZEROS: u32 = 11;

/// Entries of a list that are not changes: the one before the first pixel, and those after the last change that a
/// vertical or pass code may use, or that closing a row may add.
const MARGIN: usize = 8;

/// Bytes that the two lists may take, enough for rows of 16 million pixels however they are coded.
const MEMORY: u64 = 256 << 20;

/// What ended a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// Its last pixel.
    Full,
    /// The zeros of an end-of-line code, which are taken, or the end of the stream.
    Eol,
    /// Bits that are no code, or a code that is not allowed there.
    Bad,
    /// An extension code.
    Extension,
}

/// The row that is read and the row above it.
///
/// A list holds 0 for the place before the row, the positions where the colour changes (white to black first, so the
/// colour of a change follows from its index; runs may be empty), and then the width, again and again.
pub(super) struct Lines<'s> {
    above: &'s mut [u32],
    current: &'s mut [u32],
    width: usize,
}

/// A row while it is read.
struct Cursor {
    /// Entries of the list so far.
    len: usize,
    /// Pixels so far, T.4's a0; past the last entry of the list while a run is not finished.
    a0: usize,
}

impl<'s> Lines<'s> {
    /// An all-white row above rows of `width` pixels that are coded in `bytes` bytes.
    pub(super) fn new(scratch: &'s mut Scratch, width: usize, bytes: usize) -> Result<Self> {
        // A change costs a bit at least, so a wide row of a short stream costs memory by the length of the stream. Between
        // two pixels there are at most two changes of use; a row of empty runs that needs more is broken.
        let entries = width.saturating_mul(2).min(bytes.saturating_mul(8)).saturating_add(MARGIN);
        let needed = (entries as u64).saturating_mul(2 * size_of::<u32>() as u64);
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
            // Two empty runs have no effect, and without them a row cannot have more changes than the list has room for.
            if self.current[at.len - 1] == self.current[at.len - 3] {
                at.len -= 2;
            }
        }
    }

    /// Reads a row that is coded by its differences from the row above.
    pub(super) fn read_2d<const LSB_FIRST: bool>(&mut self, bits: &mut Bits<'_, LSB_FIRST>) -> End {
        let mut at = Cursor { len: 1, a0: 0 };
        let end = self.modes(bits, &mut at);
        if matches!(end, End::Eol | End::Extension) {
            // The colour of the unfinished run goes on to the end of the row.
            at.a0 = self.width;
        }
        self.close(at);
        end
    }

    fn modes<const LSB_FIRST: bool>(&mut self, bits: &mut Bits<'_, LSB_FIRST>, at: &mut Cursor) -> End {
        let width = self.width as u32;
        // The index of T.4's b1, which is odd when it is a change to black.
        let mut b = 1;
        while at.a0 < self.width {
            if at.len + MARGIN > self.current.len() {
                return End::Bad;
            }
            // Before the first change b1 may be the first pixel itself.
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

    /// Ends a run at `a0`. A run that is too long for any row is too long for this one, whatever its length.
    #[inline(always)]
    fn change(&mut self, at: &mut Cursor) {
        self.current[at.len] = at.a0.min(u32::MAX as usize) as u32;
        at.len += 1;
    }

    /// Makes a row of exactly the right width of what was read, and the row above of it.
    fn close(&mut self, mut at: Cursor) {
        let width = self.width as u32;
        if self.current[at.len - 1] as usize != at.a0 {
            self.change(&mut at);
        }
        // A run past the end is dropped, not cut: what overshoots is an error, and then white is the better guess.
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

    /// Paints the row that was read last.
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

/// Adds a run, which may take several codes, to `a0`; the part before a code that is none is added too.
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
