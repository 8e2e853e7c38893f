//! Frames and blocks.

use super::fse::{self, Table, Value};
use super::sequences::{self, Offsets};
use super::{MAX_BLOCK, Refused, SLACK, Tables, Unzstd};

const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
const MAX_WINDOW_LOG: u32 = 27;
/// The mean number of bytes of a sequence from which libzstd is faster.
const LONG_SEQUENCE: usize = 24;

/// What the header of a frame says.
struct Header {
    /// Where the first block begins.
    len: usize,
    /// The number of decoded bytes, if the frame tells it.
    content: Option<u64>,
    /// The largest number of bytes of a block, compressed and decoded.
    max_block: usize,
}

/// Returns the bytes `at..at + N`.
fn array<const N: usize>(src: &[u8], at: usize) -> Result<[u8; N], Refused> {
    src.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or(Refused)
}

fn header(src: &[u8]) -> Result<Header, Refused> {
    let [a, b, c, d, descriptor] = array(src, 0)?;
    let is_single_segment = descriptor & 0x20 != 0;
    // A reserved bit, a checksum, or a dictionary.
    if [a, b, c, d] != MAGIC || descriptor & 0x0F != 0 {
        return Err(Refused);
    }
    let mut at = 5;
    let mut window = None;
    if !is_single_segment {
        let [byte] = array(src, at)?;
        at += 1;
        let log = 10 + u32::from(byte >> 3);
        if log >= MAX_WINDOW_LOG {
            return Err(Refused);
        }
        window = Some((1_u64 << log) + (1_u64 << log) / 8 * u64::from(byte & 7));
    }
    let (content, size) = match descriptor >> 6 {
        0 if is_single_segment => (Some(u64::from(array::<1>(src, at)?[0])), 1),
        0 => (None, 0),
        1 => (Some(u64::from(u16::from_le_bytes(array(src, at)?)) + 256), 2),
        2 => (Some(u64::from(u32::from_le_bytes(array(src, at)?))), 4),
        _ => (Some(u64::from_le_bytes(array(src, at)?)), 8),
    };
    let window = window.or(content).ok_or(Refused)?;
    Ok(Header { len: at + size, content, max_block: window.min(MAX_BLOCK as u64) as usize })
}

/// How the literals of a block are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Storage {
    Plain,
    /// All are the same byte.
    Constant,
    /// With a Huffman code that is described before them.
    Coded,
    /// With the Huffman code of an earlier block.
    CodedAsBefore,
}

/// The literals of a block.
#[derive(Debug, Clone, Copy)]
struct Literals {
    storage: Storage,
    is_one_stream: bool,
    /// Their number.
    count: usize,
    /// Where they are stored.
    start: usize,
    end: usize,
}

impl Literals {
    /// Reads the header of the literals at `src[at..]`.
    fn read(src: &[u8], at: usize) -> Result<Self, Refused> {
        let [first] = array(src, at)?;
        let format = first >> 2 & 3;
        let storage =
            [Storage::Plain, Storage::Constant, Storage::Coded, Storage::CodedAsBefore][usize::from(first & 3)];
        let is_coded = matches!(storage, Storage::Coded | Storage::CodedAsBefore);
        let header = |len: usize| {
            let bytes = src.get(at..at + len).ok_or(Refused)?;
            Ok(bytes.iter().rev().fold(0_usize, |header, byte| header << 8 | usize::from(*byte)))
        };
        let (start, count, size) = match (is_coded, format) {
            (false, 1) => (at + 2, header(2)? >> 4, None),
            (false, 3) => (at + 3, header(3)? >> 4, None),
            (false, _) => (at + 1, header(1)? >> 3, None),
            (true, 0 | 1) => (at + 3, header(3)? >> 4 & 0x3FF, Some(header(3)? >> 14)),
            (true, 2) => (at + 4, header(4)? >> 4 & 0x3FFF, Some(header(4)? >> 18)),
            (true, _) => (at + 5, header(5)? >> 4 & 0x3_FFFF, Some(header(5)? >> 22)),
        };
        let size = size.unwrap_or(if storage == Storage::Plain { count } else { 1 });
        let end = start + size;
        if end > src.len() { Err(Refused) } else { Ok(Self { storage, is_one_stream: format == 0, count, start, end }) }
    }
}

/// Whether decoding the frame whose first block is at `src[at..]` to about `decoded` bytes is likely to be faster than
/// libzstd: its sequences are short.
fn gains(src: &[u8], at: usize, decoded: usize) -> bool {
    let sequences = || {
        let [a, _, _] = array(src, at)?;
        let literals = Literals::read(src, at + 3)?;
        if a >> 1 & 3 == 2 { number_of_sequences(src, literals.end) } else { Err(Refused) }
    };
    sequences().is_ok_and(|(count, _)| decoded.min(MAX_BLOCK) / LONG_SEQUENCE < count)
}

impl Unzstd {
    /// Decodes the only frame of `src`, and returns the number of decoded bytes.
    pub(super) fn frame(&mut self, src: &[u8], dst: &mut [u8], even_if_slow: bool) -> Result<usize, Refused> {
        let header = header(src)?;
        if !even_if_slow && !gains(src, header.len, dst.len()) {
            return Err(Refused);
        }
        self.huffman.clear();
        self.tables[0].clear();
        let mut offsets = Offsets::default();
        let (mut at, mut written) = (header.len, 0);
        loop {
            let [a, b, c] = array(src, at)?;
            at += 3;
            let block = u32::from_le_bytes([a, b, c, 0]);
            let size = (block >> 3) as usize;
            if size > header.max_block {
                return Err(Refused);
            }
            match block >> 1 & 3 {
                0 => {
                    let stored = src.get(at..at + size).ok_or(Refused)?;
                    dst.get_mut(written..written + size).ok_or(Refused)?.copy_from_slice(stored);
                    at += size;
                    written += size;
                }
                1 => {
                    let [byte] = array(src, at)?;
                    dst.get_mut(written..written + size).ok_or(Refused)?.fill(byte);
                    at += 1;
                    written += size;
                }
                2 => {
                    let end = at + size;
                    let input = src.get(..end).ok_or(Refused)?;
                    written = self.block(input, at, dst, written, header.max_block, &mut offsets)?;
                    at = end;
                }
                _ => return Err(Refused),
            }
            if block & 1 != 0 {
                break;
            }
        }
        let is_complete = header.content.is_none_or(|content| content == written as u64);
        if is_complete && at == src.len() { Ok(written) } else { Err(Refused) }
    }

    /// Decodes the compressed block `src[at..]`, whose output begins at `dst[written]`. Returns where it ends.
    fn block(
        &mut self,
        src: &[u8],
        at: usize,
        dst: &mut [u8],
        written: usize,
        max_block: usize,
        offsets: &mut Offsets,
    ) -> Result<usize, Refused> {
        let literals = Literals::read(src, at)?;
        self.read_literals(src, literals, max_block)?;
        let (count, at) = number_of_sequences(src, literals.end)?;
        let start = match count {
            0 if at == src.len() => None,
            0 => return Err(Refused),
            _ => Some(self.tables[0].read(src, at)?),
        };
        let mut output = sequences::Output::new(dst, written, &self.literals[..literals.count + SLACK]);
        if let Some(start) = start {
            sequences::decode(src, start, count, &self.tables[0], offsets, &mut output)?;
        }
        let end = output.finish()?;
        if end - written > max_block { Err(Refused) } else { Ok(end) }
    }

    /// Decodes the literals of a block.
    fn read_literals(&mut self, src: &[u8], literals: Literals, max_block: usize) -> Result<(), Refused> {
        let Literals { storage, is_one_stream, count, mut start, end } = literals;
        let src = &src[..end];
        if count > max_block {
            return Err(Refused);
        }
        match storage {
            Storage::Plain => self.literals[..count].copy_from_slice(&src[start..]),
            Storage::Constant => self.literals[..count].fill(src[start]),
            Storage::Coded | Storage::CodedAsBefore if count == 0 => return Err(Refused),
            Storage::Coded => start = self.huffman.read(src, start)?,
            Storage::CodedAsBefore if !self.huffman.is_set() => return Err(Refused),
            Storage::CodedAsBefore => {}
        }
        let dst = &mut self.literals[..count];
        match storage {
            Storage::Plain | Storage::Constant => Ok(()),
            _ if is_one_stream => self.huffman.decode(src, start, dst),
            _ => self.huffman.decode_four(src, start, dst),
        }
    }
}

impl Tables {
    /// Forgets what the last frame has set.
    fn clear(&mut self) {
        for table in [&mut self.literals, &mut self.offsets, &mut self.matches] {
            table.clear();
        }
    }

    /// Reads the tables of the sequences at `src[at..]`, and returns where their bits begin.
    fn read(&mut self, src: &[u8], at: usize) -> Result<usize, Refused> {
        let [modes] = array(src, at)?;
        if modes & 3 != 0 {
            return Err(Refused);
        }
        let at = read_table(&mut self.literals, &LITERAL_LENGTHS, modes >> 6, src, at + 1)?;
        let at = read_table(&mut self.offsets, &OFFSETS, modes >> 4 & 3, src, at)?;
        read_table(&mut self.matches, &MATCH_LENGTHS, modes >> 2 & 3, src, at)
    }
}

/// Reads the number of sequences at `src[at..]`, and returns where the section continues.
fn number_of_sequences(src: &[u8], at: usize) -> Result<(usize, usize), Refused> {
    let [first] = array(src, at)?;
    let (count, after) = match first {
        0 => return Ok((0, at + 1)),
        1..=127 => (usize::from(first), at + 1),
        128..=254 => (usize::from(first - 128) << 8 | usize::from(array::<2>(src, at)?[1]), at + 2),
        255 => {
            let [_, low, high] = array(src, at)?;
            (usize::from(u16::from_le_bytes([low, high])) + 0x7F00, at + 3)
        }
    };
    if count == 0 { Err(Refused) } else { Ok((count, after)) }
}

/// A kind of symbols.
struct Kind {
    /// The symbols that this decoder accepts.
    symbols: usize,
    max_log: u32,
    /// The counts of the table that is used without a description, and the binary logarithm of their sum.
    usual: &'static [i16],
    usual_log: u32,
    value: fn(usize) -> Value,
}

const LITERAL_LENGTHS: Kind = Kind {
    symbols: 36,
    max_log: 9,
    usual: &[
        4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1,
    ],
    usual_log: 6,
    value: |symbol| match symbol {
        0..16 => Value { base: symbol as u32, extra_bits: 0 },
        16..20 => Value { base: 16 + 2 * (symbol as u32 - 16), extra_bits: 1 },
        20..22 => Value { base: 24 + 4 * (symbol as u32 - 20), extra_bits: 2 },
        22..24 => Value { base: 32 + 8 * (symbol as u32 - 22), extra_bits: 3 },
        24 => Value { base: 48, extra_bits: 4 },
        _ => Value { base: 1 << (symbol - 19), extra_bits: symbol as u8 - 19 },
    },
};

const MATCH_LENGTHS: Kind = Kind {
    symbols: 53,
    max_log: 9,
    usual: &[
        1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
        1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1,
    ],
    usual_log: 6,
    value: |symbol| match symbol {
        0..32 => Value { base: symbol as u32 + 3, extra_bits: 0 },
        32..36 => Value { base: 35 + 2 * (symbol as u32 - 32), extra_bits: 1 },
        36..38 => Value { base: 43 + 4 * (symbol as u32 - 36), extra_bits: 2 },
        38..40 => Value { base: 51 + 8 * (symbol as u32 - 38), extra_bits: 3 },
        40..42 => Value { base: 67 + 16 * (symbol as u32 - 40), extra_bits: 4 },
        42 => Value { base: 99, extra_bits: 5 },
        _ => Value { base: 3 + (1 << (symbol - 36)), extra_bits: symbol as u8 - 36 },
    },
};

/// The values of offsets. Those of symbols 0 and 1 select an earlier offset; from the others, 3 is already subtracted.
const OFFSETS: Kind = Kind {
    symbols: sequences::MAX_OFFSET_BITS as usize + 1,
    max_log: 8,
    usual: &[1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1],
    usual_log: 5,
    value: |symbol| Value { base: (1_u32 << symbol).saturating_sub(3), extra_bits: symbol as u8 },
};

/// Sets a table as its mode says, with a description at `src[at..]` if it has one. Returns where the next begins.
fn read_table(table: &mut Table, kind: &Kind, mode: u8, src: &[u8], at: usize) -> Result<usize, Refused> {
    match mode {
        0 => {
            table.set(kind.usual, kind.usual_log, kind.value);
            Ok(at)
        }
        1 => {
            let [symbol] = array(src, at)?;
            if usize::from(symbol) >= kind.symbols {
                return Err(Refused);
            }
            table.set_constant((kind.value)(usize::from(symbol)));
            Ok(at + 1)
        }
        2 => {
            let mut counts = [0; 256];
            let description = src.get(at..).ok_or(Refused)?;
            let (symbols, log, read) = fse::read_counts(description, &mut counts, kind.symbols - 1, kind.max_log)?;
            table.set(&counts[..symbols], log, kind.value);
            Ok(at + read)
        }
        _ if table.is_set() => Ok(at),
        _ => Err(Refused),
    }
}
