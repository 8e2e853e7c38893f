//! The state of one zlib stream (RFC 1950) in the decoder. This is safe code: it reads headers, builds tables,
//! and decodes one symbol at a time with all bounds checked. The interleaved loop does the rest.

use libdeflater::adler32;

use super::Stream;
use super::table::{MAX_SHORT, Symbol, Tables, low};

/// The error for a stream that this decoder does not decode to its end.
#[derive(Debug)]
pub(super) struct Refused;

/// Whether a stream continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    Done,
}

type Result<T> = std::result::Result<T, Refused>;

/// The number of bytes of the checksum after the compressed data.
const CHECKSUM: usize = 4;

/// The largest distance of the format.
const MAX_DISTANCE: usize = 1 << 15;

/// An upper bound of the bits that a step of the interleaved loop reads.
pub(super) const STEP_BITS: usize = 64;

/// An upper bound of the bytes that a step of the interleaved loop writes.
pub(super) const STEP_BYTES: usize = 40;

/// The largest number of steps at once in the first 32 KiB of a stream. Without it, all matches there would be
/// decoded by the slow path: a scene of 4 bands took 1.1 times as long.
const START_STEPS: usize = 64;

/// The order in which the lengths of the code length code are stored (RFC 1951, 3.2.7).
const LENGTH_ORDER: [u8; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// A stream, its read position, and its decoded bytes.
#[derive(Debug)]
pub(super) struct Lane<'a> {
    src: &'a [u8],
    dst: &'a mut [u8],
    /// The number of bits of `src` that were read.
    at: usize,
    /// The number of bits of `src` before the checksum. `at` is never larger.
    end: usize,
    /// The number of decoded bytes in `dst`.
    len: usize,
    /// Whether the block is the last one.
    last: bool,
    /// Whether the stream is complete as soon as `dst` is full.
    top: bool,
    /// Receives the number of decoded bytes when the stream is complete.
    result: &'a mut Option<usize>,
}

impl<'a> Lane<'a> {
    /// Returns the stream after reading its headers and decoding enough bytes that [`reach`](Self::reach) is
    /// defined.
    pub(super) fn start(stream: &'a mut Stream<'_>, tables: &mut Tables) -> Result<(Self, Progress)> {
        let Stream { src, dst, top, len: result } = stream;
        *result = None;
        let &[method, flags, ..] = *src else { return Err(Refused) };
        let is_zlib = method & 15 == 8 && method >> 4 <= 7;
        let has_dictionary = flags & 0x20 != 0;
        if !is_zlib || has_dictionary || u16::from_be_bytes([method, flags]) % 31 != 0 {
            return Err(Refused);
        }
        let end = src.len().checked_sub(CHECKSUM).ok_or(Refused)? * 8;
        // The interleaved loop counts the bits of addresses in 64 bits.
        if src.as_ptr().addr() as u64 >> 60 != 0 {
            return Err(Refused);
        }
        let mut lane = Self { src, dst, at: 16, end, len: 0, last: false, top: *top, result };
        if end < lane.at {
            return Err(Refused);
        }
        let mut progress = lane.next_block(tables)?;
        while progress == Progress::More && lane.len < MAX_SHORT as usize {
            progress = lane.step(tables)?;
        }
        Ok((lane, progress))
    }

    /// Returns the number of steps of the interleaved loop that need no bounds checks. Each step reads 8 bytes,
    /// advances by less than [`STEP_BITS`], and writes at most [`STEP_BYTES`].
    ///
    /// Near the start of the stream the number is small, so that [`reach`](Self::reach) is soon computed again.
    #[inline]
    pub(super) fn steps(&self) -> usize {
        let most = if self.len < MAX_DISTANCE + MAX_SHORT as usize { START_STEPS } else { usize::MAX };
        let readable = ((self.end - self.at) / STEP_BITS).saturating_sub(1);
        readable.min((self.dst.len() - self.len) / STEP_BYTES).min(most)
    }

    /// Returns the largest difference between distance and length of a short match that is always inside the
    /// decoded bytes.
    #[inline]
    pub(super) fn reach(&self) -> u32 {
        (self.len - MAX_SHORT as usize).min(MAX_DISTANCE) as u32
    }

    /// Returns the address of the next bit of the stream, in bits, and the address of the next decoded byte.
    #[inline]
    pub(super) fn cursor(&mut self) -> (u64, *mut u8) {
        let address = self.src.as_ptr().expose_provenance() as u64;
        (address * 8 + self.at as u64, self.dst.as_mut_ptr().wrapping_add(self.len))
    }

    /// Returns the number of decoded bytes before `out`, a position of [`cursor`](Self::cursor) in the
    /// interleaved loop.
    #[inline]
    pub(super) fn decoded(&self, out: *mut u8) -> usize {
        out.addr() - self.dst.as_ptr().addr()
    }

    /// Stores the position that the interleaved loop has reached since [`cursor`](Self::cursor).
    #[inline]
    pub(super) fn advance(&mut self, (bit, out): (u64, *mut u8)) {
        self.at = (bit - self.src.as_ptr().addr() as u64 * 8) as usize;
        self.len = self.decoded(out);
        debug_assert!(self.at <= self.end && self.len <= self.dst.len());
    }

    /// Reports the number of decoded bytes if the checksum after the stream matches them, or if no more bytes are
    /// needed.
    pub(super) fn finish(self) {
        if self.is_full_top() {
            *self.result = Some(self.len);
            return;
        }
        let checksum = self.src.get(self.at.div_ceil(8)..).and_then(|rest| rest.first_chunk());
        if checksum.is_some_and(|&checksum| adler32(&self.dst[..self.len]) == u32::from_be_bytes(checksum)) {
            *self.result = Some(self.len);
        }
    }

    /// Whether the lane has decoded all bytes that are needed of a longer stream.
    #[inline]
    fn is_full_top(&self) -> bool {
        self.top && self.len == self.dst.len()
    }

    /// Decodes to the end of the stream.
    #[cold]
    pub(super) fn run(&mut self, tables: &mut Tables) -> Result<Progress> {
        while self.step(tables)? == Progress::More {}
        Ok(Progress::Done)
    }

    /// Decodes one symbol and, at the end of a block, the header of the next block.
    #[inline]
    pub(super) fn step(&mut self, tables: &mut Tables) -> Result<Progress> {
        if self.is_full_top() {
            return Ok(Progress::Done);
        }
        // At most 20 bits for a length and 28 bits for a distance.
        let word = self.word();
        let (symbol, bits) = tables.symbol(word);
        match symbol {
            Symbol::Literal(byte) => {
                self.skip(bits)?;
                *self.dst.get_mut(self.len).ok_or(Refused)? = byte;
                self.len += 1;
            }
            Symbol::Length(length) => {
                let (distance, more) = tables.full_distance(word >> bits).ok_or(Refused)?;
                self.skip(bits + more)?;
                self.copy(distance, length)?;
            }
            Symbol::EndOfBlock => {
                self.skip(bits)?;
                return if self.last { Ok(Progress::Done) } else { self.next_block(tables) };
            }
            Symbol::Invalid => return Err(Refused),
        }
        Ok(Progress::More)
    }

    /// Returns at least the next 57 bits, with zeros after the end of `src`.
    #[inline]
    fn word(&self) -> u64 {
        let from = self.at / 8;
        let bytes = match self.src.get(from..from + 8) {
            Some(bytes) => bytes.try_into().unwrap_or_default(),
            None => {
                let mut bytes = [0; 8];
                let rest = &self.src[from..];
                bytes[..rest.len()].copy_from_slice(rest);
                bytes
            }
        };
        u64::from_le_bytes(bytes) >> (self.at % 8)
    }

    #[inline]
    fn skip(&mut self, bits: u32) -> Result<()> {
        let at = self.at + bits as usize;
        if at > self.end {
            return Err(Refused);
        }
        self.at = at;
        Ok(())
    }

    fn take(&mut self, bits: u32) -> Result<usize> {
        let value = low(self.word(), bits) as usize;
        self.skip(bits)?;
        Ok(value)
    }

    #[inline]
    fn copy(&mut self, distance: usize, length: usize) -> Result<()> {
        let from = self.len.checked_sub(distance).ok_or(Refused)?;
        let to = match self.len + length {
            to if to <= self.dst.len() => to,
            _ if self.top => self.dst.len(),
            _ => return Err(Refused),
        };
        if distance == 1 {
            let byte = self.dst[from];
            self.dst[self.len..to].fill(byte);
        } else {
            // Each copy of a repeated pattern doubles the length of the pattern.
            let mut at = self.len;
            while at < to {
                let part = (at - from).min(to - at);
                self.dst.copy_within(from..from + part, at);
                at += part;
            }
        }
        self.len = to;
        Ok(())
    }

    /// Reads block headers, and whole stored blocks, until the tables are those of the next compressed block.
    #[cold]
    fn next_block(&mut self, tables: &mut Tables) -> Result<Progress> {
        loop {
            self.last = self.take(1)? == 1;
            match self.take(2)? {
                0 => {
                    self.stored_block()?;
                    if self.is_full_top() {
                        return Ok(Progress::Done);
                    }
                }
                1 => {
                    let mut lengths = [8; 288];
                    lengths[144..256].fill(9);
                    lengths[256..280].fill(7);
                    tables.build(&lengths, &[5; 32]).ok_or(Refused)?;
                    return Ok(Progress::More);
                }
                2 => {
                    self.read_codes(tables)?;
                    return Ok(Progress::More);
                }
                _ => return Err(Refused),
            }
            if self.last {
                return Ok(Progress::Done);
            }
        }
    }

    fn stored_block(&mut self) -> Result<()> {
        self.at = self.at.next_multiple_of(8);
        if self.at > self.end {
            return Err(Refused);
        }
        let length = self.take(16)?;
        if self.take(16)? != length ^ 0xFFFF {
            return Err(Refused);
        }
        let from = self.at / 8;
        self.skip(length as u32 * 8)?;
        let room = self.dst.len() - self.len;
        let length = if self.top { length.min(room) } else { length };
        let to = self.dst.get_mut(self.len..self.len + length).ok_or(Refused)?;
        to.copy_from_slice(&self.src[from..from + length]);
        self.len += length;
        Ok(())
    }

    /// Reads the code lengths of a block with dynamic codes and builds its tables.
    fn read_codes(&mut self, tables: &mut Tables) -> Result<()> {
        let literals = self.take(5)? + 257;
        let distances = self.take(5)? + 1;
        let stored = self.take(4)? + 4;
        let mut lengths = [0_u8; 19];
        for &symbol in &LENGTH_ORDER[..stored] {
            lengths[usize::from(symbol)] = self.take(3)? as u8;
        }
        let code = length_code(&lengths).ok_or(Refused)?;
        // Repeats may write 137 entries too far before the check detects it.
        let mut lengths = [0_u8; 320 + 138];
        let mut count = 0;
        while count < literals + distances {
            // At most 14 bits each.
            let mut word = self.word();
            let mut used = 0;
            for _ in 0..4 {
                let entry = code[(word % 128) as usize];
                let bits = u32::from(entry & 7);
                word >>= bits;
                let (value, base, extra) = match entry >> 3 {
                    symbol @ 0..16 => {
                        lengths[count] = symbol;
                        count += 1;
                        used += bits;
                        if count == literals + distances {
                            break;
                        }
                        continue;
                    }
                    16 => (*lengths[..count].last().ok_or(Refused)?, 3, 2),
                    17 => (0, 3, 3),
                    _ => (0, 11, 7),
                };
                let repeat = base + low(word, extra) as usize;
                word >>= extra;
                used += bits + extra;
                lengths[count..count + repeat].fill(value);
                count += repeat;
                if count >= literals + distances {
                    break;
                }
            }
            self.skip(used)?;
        }
        if count != literals + distances {
            return Err(Refused);
        }
        tables.build(&lengths[..literals], &lengths[literals..count]).ok_or(Refused)
    }
}

/// Returns the table of the code of the code lengths: `symbol << 3 | bits` for each 7 bits, or `None` if the
/// code is not complete.
fn length_code(lengths: &[u8; 19]) -> Option<[u8; 128]> {
    let mut table = [0; 128];
    let mut code = 0_usize;
    for bits in 1..8 {
        for (symbol, _) in lengths.iter().enumerate().filter(|&(_, &length)| length == bits) {
            let index = (code as u8).reverse_bits() >> (8 - bits);
            for entry in table.iter_mut().skip(index.into()).step_by(1 << bits) {
                *entry = (symbol as u8) << 3 | bits;
            }
            code += 1;
            if code > 1 << bits {
                return None;
            }
        }
        code <<= 1;
    }
    (code == 1 << 8).then_some(table)
}
