//! Decodes the Huffman codes of 8-bit Lerc2 blobs.

use lerc::{DataType, LercInfo};

use super::blocks;
use super::lerc2::u32_at;

/// The number of bits that one table look-up decodes, as in liblerc and `lerc-rs`.
const TABLE_BITS: u32 = 12;

/// The number of symbols that one table look-up can return.
const PER_LOOKUP: usize = 3;

/// Decodes differences to the pixel on the left or, in the first column, to the pixel above.
pub(super) fn decode_deltas(src: &[u8], info: &LercInfo, out: &mut [u8]) -> Option<()> {
    let (width, depth) = (info.width as usize, info.depth as usize);
    let bias = bias(info);
    let mut symbols = Symbols::new(src, width)?;
    for sample in 0..depth {
        let mut first_of_row = 0;
        for row in out.chunks_exact_mut(width * depth) {
            let deltas = symbols.next_row()?;
            let mut value: u8 = first_of_row;
            for (pixel, delta) in row.chunks_exact_mut(depth).zip(deltas) {
                value = value.wrapping_add(*delta).wrapping_sub(bias);
                pixel[sample] = value;
            }
            first_of_row = row[sample];
        }
    }
    symbols.finish()
}

/// Decodes values, all samples of a pixel together.
pub(super) fn decode_values(src: &[u8], info: &LercInfo, out: &mut [u8]) -> Option<()> {
    let row_len = info.width as usize * info.depth as usize;
    let bias = bias(info);
    let mut symbols = Symbols::new(src, row_len)?;
    for row in out.chunks_exact_mut(row_len) {
        for (value, symbol) in row.iter_mut().zip(symbols.next_row()?) {
            *value = symbol.wrapping_sub(bias);
        }
    }
    symbols.finish()
}

/// Signed values and their differences are stored plus 128.
fn bias(info: &LercInfo) -> u8 {
    if info.data_type == DataType::Char { 128 } else { 0 }
}

/// A code of a symbol, as the interval of the 32-bit numbers that begin with the code.
#[derive(Debug, Clone, Copy)]
struct Code {
    first: u32,
    len: u32,
    symbol: u8,
}

impl Code {
    /// Returns the last number that begins with the code.
    fn last(&self) -> u32 {
        self.first | u32::MAX.checked_shr(self.len).unwrap_or(0)
    }
}

/// The result of one table look-up: up to three symbols in the low bytes, then the number of bits of their codes
/// and the number of symbols. 0 means that the code is longer than the look-up, or does not exist.
#[derive(Debug, Clone, Copy, Default)]
struct Entry(u32);

impl Entry {
    fn new(symbols: [u8; PER_LOOKUP], bits: u32, count: usize) -> Entry {
        let [a, b, c] = symbols;
        Entry(u32::from_le_bytes([a, b, c, 0]) | bits << 24 | (count as u32) << 28)
    }

    fn bits(self) -> u32 {
        (self.0 >> 24) & 15
    }

    fn count(self) -> usize {
        (self.0 >> 28) as usize
    }
}

/// Reads symbols from a bit stream: 32-bit little-endian words, most significant bit first.
struct Symbols<'a> {
    stream: &'a [u8],
    /// The position in the stream in bits.
    bit: usize,
    table: Box<[Entry; 1 << TABLE_BITS]>,
    /// All codes in the order of their intervals, which do not overlap.
    codes: Vec<Code>,
    /// The symbols of a row, and symbols of the next row that the last look-up returned.
    row: Vec<u8>,
    row_len: usize,
    /// The number of symbols in `row`.
    filled: usize,
}

impl<'a> Symbols<'a> {
    /// Reads the code table. `None` includes tables that are not prefix codes of bytes.
    fn new(src: &'a [u8], row_len: usize) -> Option<Symbols<'a>> {
        let mut pos = 0;
        let codes = read_codes(src, &mut pos)?;
        let table = lookup_table(&codes);
        // A look-up stores 4 bytes, and there are two look-ups after the test for the end of the row.
        let row = vec![0; row_len + 2 * PER_LOOKUP + 4];
        Some(Symbols { stream: src.get(pos..)?, bit: 0, table, codes, row, row_len, filled: row_len })
    }

    /// Returns the symbols of the next row.
    fn next_row(&mut self) -> Option<&[u8]> {
        self.row.copy_within(self.row_len..self.filled, 0);
        let (mut bit, mut filled) = (self.bit, self.filled - self.row_len);
        // Locals instead of fields: the compiler then keeps them in registers.
        let (row, table) = (&mut self.row[..], &self.table);
        let mut store = |filled: usize, entry: Entry| {
            if let Some(to) = row.get_mut(filled..).and_then(|row| row.first_chunk_mut()) {
                *to = entry.0.to_le_bytes();
            }
            filled + entry.count()
        };
        while filled < self.row_len {
            // At least 33 bits, which are enough for two look-ups.
            let window = window(self.stream, bit);
            let mut entry = table[(window >> (64 - TABLE_BITS)) as usize];
            if entry.count() == 0 {
                let code = find(&self.codes, (window >> 32) as u32)?;
                filled = store(filled, Entry::new([code.symbol, 0, 0], 0, 1));
                bit += code.len as usize;
                continue;
            }
            filled = store(filled, entry);
            bit += entry.bits() as usize;
            if filled < self.row_len {
                entry = table[((window << entry.bits()) >> (64 - TABLE_BITS)) as usize];
                filled = store(filled, entry);
                bit += entry.bits() as usize;
            }
        }
        (self.bit, self.filled) = (bit, filled);
        Some(&self.row[..self.row_len])
    }

    /// Returns `None` if the last symbols may have come from after the end of the stream. `lerc-rs` then decides;
    /// it requires that the stream contains all words that a look-up touches, and encoders append a word for that.
    fn finish(&self) -> Option<()> {
        let words = (self.bit + TABLE_BITS as usize).div_ceil(32);
        (words * 4 <= self.stream.len()).then_some(())
    }
}

/// Returns at least 33 bits of the stream from `bit` on, the first one as the most significant. After the end of
/// the stream, the bits are 0.
fn window(stream: &[u8], bit: usize) -> u64 {
    let at = bit / 32 * 4;
    let words = match stream.get(at..).and_then(|bytes| bytes.first_chunk()) {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => u64::from(u32_at(stream, at).unwrap_or(0)),
    };
    words.rotate_left(32) << (bit % 32)
}

/// Returns the code with which `bits` begins.
fn find(codes: &[Code], bits: u32) -> Option<Code> {
    let after = codes.partition_point(|code| code.first <= bits);
    let code = codes.get(after.checked_sub(1)?)?;
    (bits <= code.last()).then_some(*code)
}

/// Reads the code table and moves `pos` after it.
fn read_codes(src: &[u8], pos: &mut usize) -> Option<Vec<Code>> {
    let [version, size, start, end] = [0, 4, 8, 12].map(|at| u32_at(src, at));
    let (size, start, end) = (size? as usize, start? as usize, end? as usize);
    // The range of symbols with codes may continue at 0 after the last symbol.
    let in_range = start < end && end - start <= size && end <= 2 * size;
    if !(2..=i32::MAX as u32).contains(&version?) || !(1..=256).contains(&size) || !in_range {
        return None;
    }
    *pos = 16;
    let mut lengths = [0; 256];
    blocks::read_quanta(src, pos, end - start, &mut lengths)?;

    let stream = src.get(*pos..)?;
    let mut codes = Vec::with_capacity(end - start);
    let mut bit = 0;
    for (symbol, &len) in (start..end).zip(&lengths).filter(|(_, len)| **len > 0) {
        if len > 32 {
            return None;
        }
        let bits = (window(stream, bit) >> 32) as u32;
        let first = bits & !u32::MAX.checked_shr(len).unwrap_or(0);
        codes.push(Code { first, len, symbol: if symbol < size { symbol as u8 } else { (symbol - size) as u8 } });
        bit += len as usize;
    }
    *pos += bit.div_ceil(32) * 4;
    codes.sort_unstable_by_key(|code| code.first);
    let disjoint = codes.windows(2).all(|pair| pair[0].last() < pair[1].first);
    (*pos <= src.len() && !codes.is_empty() && disjoint).then_some(codes)
}

/// Returns the symbols for each possible value of the next bits.
fn lookup_table(codes: &[Code]) -> Box<[Entry; 1 << TABLE_BITS]> {
    const SIZE: usize = 1 << TABLE_BITS;
    // The symbol and the length of its code; the length is 0 if the code is longer than the look-up.
    let mut single = [(0, 0); SIZE];
    for code in codes.iter().filter(|code| code.len <= TABLE_BITS) {
        let range = (code.first >> (32 - TABLE_BITS)) as usize..=(code.last() >> (32 - TABLE_BITS)) as usize;
        single[range].fill((code.symbol, code.len as u8));
    }
    let mut table = Box::new([Entry::default(); SIZE]);
    for (bits, entry) in table.iter_mut().enumerate() {
        let (mut symbols, mut used, mut count) = ([0; PER_LOOKUP], 0, 0);
        while count < PER_LOOKUP {
            let (symbol, len) = single[(bits << used) % SIZE];
            if len == 0 || used + u32::from(len) > TABLE_BITS {
                break;
            }
            symbols[count] = symbol;
            used += u32::from(len);
            count += 1;
        }
        *entry = Entry::new(symbols, used, count);
    }
    table
}
