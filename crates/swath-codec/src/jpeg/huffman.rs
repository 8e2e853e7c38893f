//! Huffman tables and the bits of an entropy-coded segment (ITU-T T.81, annexes C and F).

use crate::Result;
use crate::jpeg::corrupt;

/// Codes up to this length are decoded by one table look-up. Longer codes are rare, because Huffman codes give
/// rare symbols long codes.
const LOOKUP_BITS: u32 = 10;

/// One Huffman table of a DHT segment, in the form that is fastest to decode.
#[derive(Clone)]
pub(super) struct Huffman {
    /// For the next bits: `length << 8 | symbol`, or 0 for codes longer than the look-up.
    lookup: [u16; 1 << LOOKUP_BITS],
    /// For the next bits, if they contain an AC code and its magnitude: `value << 16 | run << 8 | bits`,
    /// otherwise 0.
    whole: [i32; 1 << LOOKUP_BITS],
    /// For each length, the first 16-bit prefix that requires a longer code.
    limit: [u32; 17],
    /// For each length, the number that converts a code to an index of `symbols`.
    offset: [i32; 17],
    symbols: [u8; 256],
}

impl Huffman {
    /// Builds the table from the number of codes of each length and the symbols in order of code.
    pub(super) fn new(counts: &[u8; 16], values: &[u8]) -> Result<Huffman> {
        let mut table = Huffman {
            lookup: [0; 1 << LOOKUP_BITS],
            whole: [0; 1 << LOOKUP_BITS],
            limit: [0; 17],
            offset: [0; 17],
            symbols: [0; 256],
        };
        let total: usize = counts.iter().map(|&n| usize::from(n)).sum();
        if total > 256 || values.len() != total {
            return Err(corrupt("a Huffman table has more than 256 codes"));
        }
        table.symbols[..total].copy_from_slice(values);

        let (mut code, mut index) = (0u32, 0usize);
        for length in 1..=16u32 {
            table.offset[length as usize] = index as i32 - code as i32;
            for _ in 0..counts[length as usize - 1] {
                if code >> length != 0 {
                    return Err(corrupt("a Huffman table has more codes than bits"));
                }
                if length <= LOOKUP_BITS {
                    let first = (code << (LOOKUP_BITS - length)) as usize;
                    let entry = (length as u16) << 8 | u16::from(table.symbols[index]);
                    table.lookup[first..first + (1 << (LOOKUP_BITS - length))].fill(entry);
                }
                code += 1;
                index += 1;
            }
            table.limit[length as usize] = code << (16 - length);
            code <<= 1;
        }
        for (bits, whole) in table.whole.iter_mut().enumerate() {
            let (length, symbol) = (u32::from(table.lookup[bits] >> 8), u32::from(table.lookup[bits] & 0xff));
            let (run, size) = (symbol >> 4, symbol & 15);
            if length != 0 && size != 0 && length + size <= LOOKUP_BITS {
                let raw = bits as u32 >> (LOOKUP_BITS - length - size) & ((1 << size) - 1);
                *whole = extend(raw, size) << 16 | (run << 8) as i32 | (length + size) as i32;
            }
        }
        Ok(table)
    }
}

/// Returns the signed value of `size` magnitude bits (T.81 F.2.2.1, EXTEND). `size` is 1 to 16.
#[inline(always)]
fn extend(raw: u32, size: u32) -> i32 {
    if raw >> (size - 1) == 0 { raw as i32 - (1 << size) + 1 } else { raw as i32 }
}

/// Reads the bits of one entropy-coded segment: removes the stuffed zeros and stops before a marker.
pub(super) struct Bits<'a> {
    data: &'a [u8],
    at: usize,
    /// The buffered bits. The next bit is the highest.
    buffer: u64,
    left: u32,
    /// The number of zero bits that were added after the end of the segment. If fewer bits are left, the
    /// decoder has read past the end of the stream.
    padding: u64,
}

impl<'a> Bits<'a> {
    pub(super) fn new(data: &'a [u8], at: usize) -> Bits<'a> {
        Bits { data, at, buffer: 0, left: 0, padding: 0 }
    }

    /// The position of the reader: at or before the marker that ends the segment.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Whether the decoder used bits after the end of the segment.
    pub(super) fn overrun(&self) -> bool {
        u64::from(self.left) < self.padding
    }

    /// Whether the reader stopped at the end of the data and not at a marker.
    pub(super) fn at_end(&self) -> bool {
        self.at + 1 >= self.data.len()
    }

    /// Makes at least 32 bits available, enough for the longest code and its magnitude.
    #[inline(always)]
    pub(super) fn refill(&mut self) {
        if self.left >= 32 {
            return;
        }
        if let Some(word) = self.data.get(self.at..).and_then(|rest| rest.first_chunk::<4>()) {
            let word = u32::from_be_bytes(*word);
            // A byte of 0xff is a zero byte of the complement, which borrows in this subtraction.
            if (!word).wrapping_sub(0x0101_0101) & word & 0x8080_8080 == 0 {
                self.buffer |= u64::from(word) << (32 - self.left);
                self.left += 32;
                self.at += 4;
                return;
            }
        }
        self.refill_bytewise();
    }

    #[cold]
    #[inline(never)]
    fn refill_bytewise(&mut self) {
        while self.left <= 56 {
            let byte = match (self.data.get(self.at), self.data.get(self.at + 1)) {
                (Some(0xff), Some(0)) => {
                    self.at += 2;
                    0xff
                }
                (Some(0xff), _) | (None, _) => {
                    self.padding += 8;
                    0
                }
                (Some(&byte), _) => {
                    self.at += 1;
                    byte
                }
            };
            self.buffer |= u64::from(byte) << (56 - self.left);
            self.left += 8;
        }
    }

    #[inline(always)]
    fn peek(&self, count: u32) -> u32 {
        (self.buffer >> 1 >> (63 - count)) as u32
    }

    #[inline(always)]
    fn consume(&mut self, count: u32) {
        self.buffer <<= count;
        self.left -= count;
    }

    /// Returns the next `count` bits (at most 16) as a number. The caller must refill first.
    #[inline(always)]
    pub(super) fn take(&mut self, count: u32) -> u32 {
        let value = self.peek(count);
        self.consume(count);
        value
    }

    /// Returns the next symbol. The caller must refill first.
    #[inline(always)]
    pub(super) fn symbol(&mut self, table: &Huffman) -> Result<u8> {
        let entry = table.lookup[self.peek(LOOKUP_BITS) as usize];
        if entry != 0 {
            self.consume(u32::from(entry >> 8));
            return Ok(entry as u8);
        }
        self.long_symbol(table)
    }

    #[cold]
    fn long_symbol(&mut self, table: &Huffman) -> Result<u8> {
        let prefix = self.peek(16);
        for length in LOOKUP_BITS + 1..=16 {
            if prefix < table.limit[length as usize] {
                let index = (prefix >> (16 - length)) as i32 + table.offset[length as usize];
                self.consume(length);
                return Ok(table.symbols[index as usize & 255]);
            }
        }
        Err(corrupt("a bit pattern is not in the Huffman table"))
    }

    /// Returns the signed value of `size` (0 to 15) magnitude bits. The caller must refill first.
    #[inline(always)]
    pub(super) fn magnitude(&mut self, size: u32) -> i32 {
        if size == 0 {
            return 0;
        }
        let raw = self.take(size);
        extend(raw, size)
    }

    /// Returns the next AC coefficient as (zeros before it, value), or `None` at the end of the block. A run of
    /// 16 zeros is (16, 0).
    #[inline(always)]
    pub(super) fn coefficient(&mut self, table: &Huffman) -> Result<Option<(usize, i32)>> {
        self.refill();
        let whole = table.whole[self.peek(LOOKUP_BITS) as usize];
        if whole != 0 {
            self.consume((whole & 0xff) as u32);
            return Ok(Some(((whole >> 8 & 0xff) as usize, whole >> 16)));
        }
        let symbol = self.symbol(table)?;
        let (run, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
        if size != 0 {
            return Ok(Some((run, self.magnitude(size))));
        }
        Ok(if run == 15 { Some((16, 0)) } else { None })
    }

    /// Drops the remaining bits of this interval and continues after the restart marker `RST(number)`.
    pub(super) fn restart(&mut self, number: u8) -> Result<()> {
        let marker = find_marker(self.data, self.at);
        self.buffer = 0;
        self.left = 0;
        self.padding = 0;
        match marker {
            Some((marker, behind)) if marker == 0xd0 | (number & 7) => {
                self.at = behind;
                Ok(())
            }
            Some(_) => Err(corrupt("a restart marker is missing")),
            None => {
                // Further bits read as zeros, so that the caller detects an overrun at the end of the data.
                self.at = self.data.len();
                self.padding = 1;
                Ok(())
            }
        }
    }
}

/// Returns the next marker at or after `at`, with the position after it. Fill bytes, stuffed zeros and stray
/// bytes are skipped.
pub(super) fn find_marker(data: &[u8], mut at: usize) -> Option<(u8, usize)> {
    loop {
        at += data.get(at..)?.iter().position(|&byte| byte == 0xff)? + 1;
        match *data.get(at)? {
            0 | 0xff => {}
            marker => return Some((marker, at + 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_full_table_is_corrupt() {
        let mut counts = [0; 16];
        counts[0] = 3;
        assert!(Huffman::new(&counts, &[1, 2, 3]).is_err());
    }

    #[test]
    fn codes_of_every_length_decode() {
        // One code of each length: 0, 10, 110, ...
        let counts = [1; 16];
        let symbols: Vec<u8> = (0..16).map(|n| n << 4).collect();
        let table = Huffman::new(&counts, &symbols).unwrap();
        for length in 1..=16u32 {
            let code = u64::MAX.checked_shl(65 - length).unwrap_or(0);
            let mut bytes = Vec::new();
            for byte in code.to_be_bytes() {
                bytes.push(byte);
                if byte == 0xff {
                    bytes.push(0);
                }
            }
            let mut bits = Bits::new(&bytes, 0);
            bits.refill();
            assert_eq!(bits.symbol(&table).unwrap(), (length as u8 - 1) << 4, "length {length}");
        }
    }

    #[test]
    fn reading_past_a_marker_is_detected() {
        let mut bits = Bits::new(&[0xab, 0xff, 0xd9, 1, 2, 3, 4, 5], 0);
        bits.refill();
        assert_eq!(bits.take(8), 0xab);
        assert!(!bits.overrun());
        assert_eq!(bits.take(1), 0);
        assert!(bits.overrun() && !bits.at_end());
    }

    #[test]
    fn stuffed_zero_is_not_data() {
        let mut bits = Bits::new(&[0xff, 0x00, 0x12, 0xff, 0x00, 0x34], 0);
        bits.refill();
        assert_eq!(bits.take(16), 0xff12);
        assert_eq!(bits.take(16), 0xff34);
        assert!(!bits.overrun());
    }
}
