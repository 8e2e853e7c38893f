//! Bit streams, which are read from their end to their start.

use super::Refused;

/// The bytes that must precede a stream in its slice, so that a word can be loaded at each of its bits.
pub(super) const LEAD: usize = 8;
/// The number of bits below a position that a word holds at least.
pub(super) const WORD_BITS: u32 = 56;

/// A bit stream that is read backwards.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backward<'a> {
    /// The input, in which at least [`LEAD`] bytes precede the stream.
    bytes: &'a [u8],
    /// The bit of `bytes` at which the stream begins.
    start: usize,
    /// The bit of `bytes` before which the unread bits lie. It may be lower than `start` after reading too much.
    at: usize,
}

impl<'a> Backward<'a> {
    /// Opens the stream in `bytes[range]`. Its last byte contains a bit that marks its end.
    pub(super) fn open(bytes: &'a [u8], range: std::ops::Range<usize>) -> Result<Self, Refused> {
        let stream = bytes.get(range.clone()).ok_or(Refused)?;
        let last = *stream.last().ok_or(Refused)?;
        if last == 0 || range.start < LEAD {
            return Err(Refused);
        }
        let at = (range.end - 1) * 8 + last.ilog2() as usize;
        Ok(Self { bytes, start: range.start * 8, at })
    }

    /// Reads up to [`WORD_BITS`] bits. Bits before the start of the stream are refused.
    #[inline(always)]
    pub(super) fn read(&mut self, count: u32) -> Result<u64, Refused> {
        let value = self.peek(count);
        self.at = self.at.checked_sub(count as usize).filter(|at| *at >= self.start).ok_or(Refused)?;
        Ok(value)
    }

    /// Returns the next bits without reading them. Bits before the start of the stream are unspecified.
    #[inline(always)]
    pub(super) fn peek(&self, count: u32) -> u64 {
        let (word, available) = self.word();
        (word >> (available - count)) & ((1 << count) - 1)
    }

    /// Returns the eight bytes up to the position, and how many of their low bits are unread: 56 to 63.
    #[inline(always)]
    pub(super) fn word(&self) -> (u64, u32) {
        let last = self.at / 8;
        // `open` has checked that `at` lies in the slice, with LEAD bytes before the start; `read` and `set_position`
        // keep it at or after the start.
        let bytes = self.bytes[last - 7..=last].try_into().unwrap_or([0; 8]);
        (u64::from_le_bytes(bytes), WORD_BITS + (self.at % 8) as u32)
    }

    /// The number of unread bits.
    pub(super) fn left(&self) -> usize {
        self.at - self.start
    }

    /// Whether all bits are read.
    pub(super) fn is_empty(&self) -> bool {
        self.at == self.start
    }

    /// The input, the first bit of the stream, and the position.
    pub(super) fn position(&self) -> (&'a [u8], usize, usize) {
        (self.bytes, self.start, self.at)
    }

    /// Continues at a bit of the stream.
    pub(super) fn set_position(&mut self, at: usize) -> Result<(), Refused> {
        if at < self.start || at > self.at {
            return Err(Refused);
        }
        self.at = at;
        Ok(())
    }
}

/// A bit stream that is read forwards, for the descriptions of tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Forward<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Forward<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns the next bits, at most 16. Bits after the end are 0.
    pub(super) fn peek(&self, count: u32) -> u32 {
        let byte = |i: usize| self.bytes.get(self.at / 8 + i).copied().unwrap_or(0);
        let word = u32::from_le_bytes([byte(0), byte(1), byte(2), 0]);
        (word >> (self.at % 8)) & ((1 << count) - 1)
    }

    pub(super) fn skip(&mut self, count: u32) {
        self.at += count as usize;
    }

    /// The number of bytes that contain what was read.
    pub(super) fn bytes_read(&self) -> Result<usize, Refused> {
        let read = self.at.div_ceil(8);
        if read > self.bytes.len() { Err(Refused) } else { Ok(read) }
    }
}
