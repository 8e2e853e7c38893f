//! Huffman codes for writing and the bits of an entropy-coded segment (ITU-T T.81, annexes C, F.1 and K.3).

use crate::jpeg::header::ZIGZAG;

/// A Huffman table in the form of the DHT segment: the number of codes of each length, and the symbols in order
/// of code.
pub(super) struct Spelling {
    pub(super) counts: [u8; 16],
    pub(super) symbols: &'static [u8],
}

/// The sizes of DC differences, in both tables.
const DC_SYMBOLS: &[u8] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

/// The standard DC tables of luma and chroma (T.81 tables K.3 and K.4).
pub(super) const DC: [Spelling; 2] = [
    Spelling { counts: [0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0], symbols: DC_SYMBOLS },
    Spelling { counts: [0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0], symbols: DC_SYMBOLS },
];

/// The standard AC tables of luma and chroma (T.81 tables K.5 and K.6).
#[rustfmt::skip]
pub(super) const AC: [Spelling; 2] = [
    Spelling { counts: [0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 125], symbols: &[
        0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07, 0x22, 0x71,
        0x14, 0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52, 0xd1, 0xf0, 0x24, 0x33, 0x62, 0x72,
        0x82, 0x09, 0x0a, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x34, 0x35, 0x36, 0x37,
        0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59,
        0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x83,
        0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3,
        0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3,
        0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2,
        0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa,
    ] },
    Spelling { counts: [0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 119], symbols: &[
        0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61, 0x71, 0x13, 0x22,
        0x32, 0x81, 0x08, 0x14, 0x42, 0x91, 0xa1, 0xb1, 0xc1, 0x09, 0x23, 0x33, 0x52, 0xf0, 0x15, 0x62, 0x72, 0xd1,
        0x0a, 0x16, 0x24, 0x34, 0xe1, 0x25, 0xf1, 0x17, 0x18, 0x19, 0x1a, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x35, 0x36,
        0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58,
        0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a,
        0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a,
        0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba,
        0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda,
        0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa,
    ] },
];

/// For each symbol: `code << 8 | length`.
struct Codes([u32; 256]);

impl Codes {
    const fn new(spelling: &Spelling) -> Codes {
        let mut codes = [0; 256];
        let (mut code, mut index, mut length) = (0u32, 0, 1);
        while length <= 16 {
            let end = index + spelling.counts[length - 1] as usize;
            while index < end {
                codes[spelling.symbols[index] as usize] = code << 8 | length as u32;
                code += 1;
                index += 1;
            }
            code <<= 1;
            length += 1;
        }
        Codes(codes)
    }
}

static DC_CODES: [Codes; 2] = [Codes::new(&DC[0]), Codes::new(&DC[1])];
static AC_CODES: [Codes; 2] = [Codes::new(&AC[0]), Codes::new(&AC[1])];

/// The position in the stream of each coefficient of the block in natural order: the inverse of the decoder's
/// table.
const STREAM_ORDER: [u8; 64] = {
    let mut order = [0; 64];
    let mut n = 0;
    while n < 64 {
        order[ZIGZAG[n] as usize] = n as u8;
        n += 1;
    }
    order
};

/// A bound on the size of one block: 64 codes of 16 bits with at most 11 bits of magnitude, and as many stuffed
/// zeros, are 432 bytes.
const BLOCK_ROOM: usize = 512;

/// The number of bytes by which the output grows at a time.
const STEP: usize = 16 << 10;

/// Appends the bits of one entropy-coded segment to `out`.
pub(super) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// The position of the next byte. The bytes of `out` after it are free space.
    at: usize,
    /// The bits that are not written yet, in the lowest bits.
    bits: u64,
    /// The number of bits that `bits` has free.
    free: u32,
}

impl<'a> Writer<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Writer<'a> {
        Writer { at: out.len(), out, bits: 0, free: 64 }
    }

    /// Writes a block in natural order. `difference` is the difference of its first coefficient from that of
    /// the previous block. `mask` has a bit for each coefficient that is not zero. `table` is 0 for the luma
    /// tables and 1 for the chroma tables.
    #[inline(always)]
    pub(super) fn block(&mut self, difference: i32, block: &[i16; 64], mask: u64, table: usize) {
        if self.out.len() - self.at < BLOCK_ROOM {
            self.out.resize(self.at + BLOCK_ROOM + STEP, 0);
        }
        let Some(room) = self.out[self.at..].first_chunk_mut::<BLOCK_ROOM>() else { return };
        let mut bits = Bits { room, at: 0, bits: self.bits, free: self.free };
        bits.value(&DC_CODES[table & 1], 0, difference);

        // Only the few coefficients that are not zero are moved to stream order.
        let mut ordered = [0i16; 64];
        let mut present = 0u64;
        let mut mask = mask & !1;
        while mask != 0 {
            let n = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            let place = STREAM_ORDER[n];
            ordered[usize::from(place & 63)] = block[n];
            present |= 1 << place;
        }

        let codes = &AC_CODES[table & 1];
        let mut behind = 1;
        while present != 0 {
            let place = present.trailing_zeros();
            present &= present - 1;
            let mut run = place - behind;
            behind = place + 1;
            while run > 15 {
                bits.code(codes, 0xf0);
                run -= 16;
            }
            bits.value(codes, run << 4, i32::from(ordered[place as usize]));
        }
        if behind < 64 {
            bits.code(codes, 0);
        }
        (self.bits, self.free) = (bits.bits, bits.free);
        self.at += bits.at;
    }

    /// Fills the last byte with ones and truncates the output after the last written byte.
    pub(super) fn finish(mut self) {
        self.out.truncate(self.at);
        let mut count = 64 - self.free;
        let fill = (8 - count % 8) % 8;
        // All 64 bits are present here, and none is shifted out.
        self.bits = self.bits << fill | ((1 << fill) - 1);
        count += fill;
        while count > 0 {
            count -= 8;
            let byte = (self.bits >> count) as u8;
            self.out.push(byte);
            if byte == 0xff {
                self.out.push(0);
            }
        }
    }
}

/// The writer inside a block, for which the output has space.
struct Bits<'a> {
    room: &'a mut [u8; BLOCK_ROOM],
    at: usize,
    bits: u64,
    free: u32,
}

impl Bits<'_> {
    /// Writes the code of (`symbol` | size of `value`) and the magnitude bits (T.81 F.1.2.1). A value of 0 has
    /// size 0.
    #[inline(always)]
    fn value(&mut self, codes: &Codes, symbol: u32, value: i32) {
        let sign = value >> 31;
        let size = 32 - ((value ^ sign) - sign).leading_zeros();
        let magnitude = (value + sign) as u32 & !(u32::MAX << (size & 31));
        let entry = codes.0[((symbol | size) & 255) as usize];
        self.put((entry >> 8 << (size & 31)) | magnitude, (entry & 255) + size);
    }

    #[inline(always)]
    fn code(&mut self, codes: &Codes, symbol: usize) {
        let entry = codes.0[symbol];
        self.put(entry >> 8, entry & 255);
    }

    /// Appends up to 27 bits.
    #[inline(always)]
    fn put(&mut self, bits: u32, count: u32) {
        if count <= self.free {
            self.free -= count;
            self.bits = self.bits << count | u64::from(bits);
        } else {
            let rest = count - self.free;
            self.flush(self.bits << self.free | u64::from(bits >> rest));
            // The shift removes the bits of `bits` that were already written, so that they are not written
            // again.
            self.bits = u64::from(bits);
            self.free = 64 - rest;
        }
    }

    #[inline(always)]
    fn flush(&mut self, word: u64) {
        // A byte of 0xff is a zero byte of the complement, which borrows in this subtraction.
        if (!word).wrapping_sub(0x0101_0101_0101_0101) & word & 0x8080_8080_8080_8080 == 0 {
            self.room[self.at..self.at + 8].copy_from_slice(&word.to_be_bytes());
            self.at += 8;
        } else {
            self.flush_stuffed(word);
        }
    }

    #[cold]
    #[inline(never)]
    fn flush_stuffed(&mut self, word: u64) {
        for byte in word.to_be_bytes() {
            self.room[self.at..self.at + 2].copy_from_slice(&[byte, 0]);
            self.at += if byte == 0xff { 2 } else { 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jpeg::huffman;

    /// Returns the blocks that the decoder reads from the segment, in natural order and with DC differences.
    fn read(segment: &[u8], table: usize, blocks: usize) -> Vec<[i16; 64]> {
        let decoding = |spelling: &Spelling| huffman::Huffman::new(&spelling.counts, spelling.symbols).unwrap();
        let (dc, ac) = (decoding(&DC[table]), decoding(&AC[table]));
        let mut bits = huffman::Bits::new(segment, 0);
        let found = (0..blocks)
            .map(|_| {
                let mut block = [0; 64];
                bits.refill();
                let size = bits.symbol(&dc).unwrap();
                block[0] = bits.magnitude(u32::from(size)) as i16;
                let mut n = 1;
                while n < 64 {
                    let Some((run, value)) = bits.coefficient(&ac).unwrap() else { break };
                    n += run;
                    if run < 16 {
                        block[usize::from(ZIGZAG[n])] = value as i16;
                        n += 1;
                    }
                }
                assert!(n <= 64);
                block
            })
            .collect();
        assert!(!bits.overrun());
        found
    }

    fn written(blocks: &[[i16; 64]], table: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        for block in blocks {
            let mask = (0..64).map(|n| u64::from(block[n] != 0) << n).sum();
            writer.block(i32::from(block[0]), block, mask, table);
        }
        writer.finish();
        out
    }

    #[test]
    fn every_size_and_run_is_read_back() {
        for table in 0..2 {
            let mut blocks = Vec::new();
            for run in 0..63 {
                for size in 1..=10 {
                    let mut block = [0; 64];
                    block[0] = (1 << size) * if run % 2 == 0 { 1 } else { -1 };
                    block[usize::from(ZIGZAG[run + 1])] = (1 << size) - 1;
                    blocks.push(block);
                    block[usize::from(ZIGZAG[run + 1])] *= -1;
                    block[63] = 1;
                    blocks.push(block);
                }
            }
            assert_eq!(read(&written(&blocks, table), table, blocks.len()), blocks);
        }
    }

    #[test]
    fn largest_blocks_fit_the_reserved_space() {
        // Long codes with magnitudes of only ones, so that many bytes require a stuffed zero.
        for table in 0..2 {
            for value in [1023, -1023, 1, -1, 512] {
                let blocks = [[value; 64]; 40];
                let out = written(&blocks, table);
                assert!(out.len() <= 40 * BLOCK_ROOM);
                assert_eq!(read(&out, table, blocks.len()), blocks);
            }
        }
    }

    #[test]
    fn segment_is_appended_and_ends_with_ones() {
        let mut out = b"kept".to_vec();
        let mut writer = Writer::new(&mut out);
        writer.block(0, &[0; 64], 0, 0);
        writer.finish();
        // DC size 0 is 00, the end of block 1010.
        assert_eq!(out, b"kept\x2b");
    }
}
