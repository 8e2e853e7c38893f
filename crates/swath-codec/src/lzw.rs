//! LZW (TIFF 6.0 section 13), and the older bit-reversed form.
//!
//! The decoder stores no strings. The entry that a code adds to the table is the string of that code plus the
//! first byte of the next string, and the two are adjacent in the output. So the table is the list of positions
//! where the output of each code starts, and the decoder decodes a code by copying earlier output.

use std::hint::select_unpredictable;

use crate::{Error, Result};

const NAME: &str = "LZW";
const CLEAR: usize = 256;
const END: usize = 257;
const FIRST: usize = 258;
/// The number of codes: a code has at most 12 bits.
const CODES: usize = 4096;
/// The last entry before the encoder clears the table. It is one less than the specification's 4094, as in
/// libtiff.
const LAST: usize = 4093;
/// The number of bytes copied at once for a short string. 98 % of the strings in terrain and all in optical
/// imagery fit.
const WORD: usize = 8;
/// The number of bytes copied at once for a long string.
const CHUNK: usize = 32;
/// The number of codes decoded from one 64-bit load: 4 x 12 bits and 7 bits of misalignment fit. More codes per
/// load are not faster, even for narrow codes.
const GROUP: usize = 4;

/// Positions in the output, indexed by code: see [`Decoder`].
type Starts = [u32; CODES + 1];

/// A table without strings.
static EMPTY: Starts = {
    let mut starts = [0; CODES + 1];
    starts[END] = 0x8000_0000;
    let mut code = FIRST;
    while code <= CODES {
        starts[code] = if code.is_multiple_of(2) { 0x4000_0000 } else { 0xC000_0000 };
        code += 1;
    }
    starts
};

/// A reusable LZW decoder.
// `starts[c]` is the position in the output where the string of code `c` starts, counted from the last Clear,
// and `starts[c + 1]` is the position of its last byte: it has `starts[c + 1] - starts[c] + 1` bytes. The
// values of EMPTY let one comparison of this length distinguish a short string from everything else. Literals
// are all 0 and so have length 1. Clear, End and entries that are not complete have a neighbour that is at
// least 2^29 away modulo 2^32, because positions are below 2^23: there are at most 3839 strings of at most 3839
// bytes before the table is full.
#[derive(Debug)]
pub struct Decoder {
    starts: Box<Starts>,
}

/// The state of decoding.
struct Cursor {
    /// The position of the next unread bit of the source.
    bit: usize,
    /// The position of the next unwritten byte of the destination.
    out: usize,
    /// The value of `out` at the last Clear.
    base: usize,
    /// One more than the largest code that may follow: the entry whose string starts with the string of the
    /// next code.
    next: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// Creates a decoder with an empty table.
    pub fn new() -> Self {
        Self { starts: Box::new(EMPTY) }
    }

    /// Decodes `src` until it ends or `dst` is full, and returns the number of decoded bytes in `dst`.
    ///
    /// The bytes of `dst` after the decoded ones are unspecified. A stream without Clear at its start, without
    /// End at its end or with codes after a full table is decoded as far as possible, because some writers
    /// produce such streams.
    pub fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        // Both forms start with Clear, which is 256 in 9 bits. With the least significant bit first, that is
        // 0x00 and then a 1 bit.
        let lsb = matches!(src, [0, second, ..] if second & 1 == 1);
        self.starts.copy_from_slice(&EMPTY);
        let mut at = Cursor { bit: 0, out: 0, base: 0, next: FIRST };
        while at.out < dst.len() {
            // The new form widens its codes one code earlier than necessary, the old form when it is necessary.
            let (code, width) = if lsb {
                let width = width(at.next - 1);
                (code_lsb(src, at.bit, width), width)
            } else {
                match at.next {
                    ..512 => self.run::<9, 512>(src, dst, &mut at),
                    512..1024 => self.run::<10, 1024>(src, dst, &mut at),
                    1024..2048 => self.run::<11, 2048>(src, dst, &mut at),
                    2048.. => self.run::<12, { CODES + 1 }>(src, dst, &mut at),
                }
                let width = width(at.next);
                (code_msb(src, at.bit, width), width)
            };
            at.bit += width;
            match code {
                None | Some(END) => break,
                Some(CLEAR) => {
                    let made = FIRST..at.next.min(CODES + 1);
                    self.starts[made.clone()].copy_from_slice(&EMPTY[made]);
                    at = Cursor { base: at.out, next: FIRST, ..at };
                }
                Some(code) => self.put(code, dst, &mut at)?,
            }
        }
        Ok(at.out)
    }

    /// Decodes codes of `W` bits while the table has fewer than `LIMIT` entries and whole words can be read and
    /// written. Stops before a code that is not a string; the caller handles it.
    ///
    /// Most of the decoding time is spent in this loop. It runs at 1.8 times the speed of imagecodecs on
    /// terrain and 1.9 times on noise. Raw pointers would make it 1.2 times faster, which does not justify
    /// them.
    fn run<const W: usize, const LIMIT: usize>(&mut self, src: &[u8], dst: &mut [u8], at: &mut Cursor) {
        let starts = &mut *self.starts;
        let Cursor { mut bit, out, base, mut next } = *at;
        let text = &mut dst[base..];
        if src.len() < 8 || text.len() < GROUP * WORD || next > LIMIT - GROUP {
            return;
        }
        // The value fits, because the table is not full. With 32 bits the loop needs no overflow check.
        let mut here = (out - base) as u32;
        'groups: while next <= LIMIT - GROUP && bit / 8 <= src.len() - 8 && here as usize <= text.len() - GROUP * WORD {
            let Some(word) = src[bit / 8..].first_chunk() else { break };
            let mut word = u64::from_be_bytes(*word) << (bit % 8);
            for _ in 0..GROUP {
                let code = (word >> (64 - W)) as usize;
                word <<= W;
                let start = starts[code];
                let len = starts[code + 1].wrapping_sub(start).wrapping_add(1);
                if len > WORD as u32 {
                    let Some(len) = put_long(starts, text, code, next, here as usize) else { break 'groups };
                    here += len;
                    next += 1;
                    bit += W;
                    continue 'groups;
                }
                let Some(string) = read_word(text, start) else { break 'groups };
                // A branch would be mispredicted: in noise, literals and strings alternate at random.
                let string = select_unpredictable(code < CLEAR, (code as u64).to_le_bytes(), string);
                let Some(to) = text.get_mut(here as usize..here as usize + WORD) else { break 'groups };
                to.copy_from_slice(&string);
                // The entry is stored only now: a code that refers to the entry that it completes must not find
                // it here, and is handled by `put_long`.
                starts[next] = here;
                here += len;
                next += 1;
                bit += W;
            }
        }
        *at = Cursor { bit, out: base + here as usize, base, next };
    }

    /// Writes the string or literal `code` with every check, and truncates it at the end of `dst`.
    fn put(&mut self, code: usize, dst: &mut [u8], at: &mut Cursor) -> Result<()> {
        if code >= at.next {
            return Err(Error::Corrupt { codec: NAME, what: "a code is used before it is defined" });
        }
        // A full table does not change: codes continue at 12 bits until Clear.
        if at.next <= CODES {
            self.starts[at.next] = (at.out - at.base) as u32;
            at.next += 1;
        }
        if code < CLEAR {
            dst[at.out] = code as u8;
            at.out += 1;
            return Ok(());
        }
        let from = at.base + self.starts[code] as usize;
        let last = at.base + self.starts[code + 1] as usize;
        let len = (last - from + 1).min(dst.len() - at.out);
        // If the code refers to the entry that it completes, the last byte of the string equals its first byte.
        let own = len.min(at.out - from);
        dst.copy_within(from..from + own, at.out);
        if own < len {
            dst[at.out + own] = dst[from];
        }
        at.out += len;
        Ok(())
    }
}

fn read_word(text: &[u8], start: u32) -> Option<[u8; WORD]> {
    text.get(start as usize..start as usize + WORD)?.try_into().ok()
}

/// Copies the string of `code` to `here` and adds its entry, if it is a string and there is space for whole
/// chunks.
#[inline(never)] // Inlining uses up registers of the surrounding loop: 0.9 times the speed.
fn put_long(starts: &mut Starts, text: &mut [u8], code: usize, next: usize, here: usize) -> Option<u32> {
    if code < FIRST || code >= next {
        return None;
    }
    let from = starts[code] as usize;
    // If the code refers to the entry that it completes, the last byte of the string equals its first byte.
    let own = code + 1 == next;
    let last = if own { here } else { starts[code + 1] as usize };
    let len = last - from + 1;
    if text.len() - here < len + CHUNK {
        return None;
    }
    for done in (0..len).step_by(CHUNK) {
        text.copy_within(from + done..from + done + CHUNK, here + done);
    }
    if own {
        text[here + len - 1] = text[from];
    }
    starts[next] = here as u32;
    Some(len as u32)
}

/// Returns the number of bits of a code that may be `last`.
fn width(last: usize) -> usize {
    (usize::BITS - last.leading_zeros()).clamp(9, 12) as usize
}

/// Returns the code of `width` bits at `bit`, most significant bit first.
fn code_msb(src: &[u8], bit: usize, width: usize) -> Option<usize> {
    let end = bit + width;
    let bytes = src.get(bit / 8..end.div_ceil(8))?;
    let word = bytes.iter().fold(0, |word, &byte| word << 8 | byte as usize);
    Some(word >> (end.next_multiple_of(8) - end) & ((1 << width) - 1))
}

/// Returns the code of `width` bits at `bit`, least significant bit first.
fn code_lsb(src: &[u8], bit: usize, width: usize) -> Option<usize> {
    let bytes = src.get(bit / 8..(bit + width).div_ceil(8))?;
    let word = bytes.iter().rfold(0, |word, &byte| word << 8 | byte as usize);
    Some(word >> (bit % 8) & ((1 << width) - 1))
}

/// The number of slots of the encoder's hash table: 4 for each string that it can store, so that probing is
/// rare.
const SLOTS: usize = 16384;
/// The distance from an occupied slot to the next one to probe. It is large because the neighbouring slots
/// belong to neighbouring prefixes.
const STRIDE: usize = 5003;
/// The value of a free slot. No string has this value: it would extend code 4095, which never exists.
const FREE: u32 = u32::MAX;

/// Appends the LZW form of `src` to `out`: most significant bit first, Clear at the start, End at the end.
pub fn encode(src: &[u8], out: &mut Vec<u8>) {
    let mut bits = BitWriter { out, word: 0, count: 0 };
    bits.put(CLEAR, 9);
    let Some((&first, rest)) = src.split_first() else { return bits.finish(9) };
    // A slot contains the prefix (12 bits), the last byte (8 bits) and the code (12 bits) of a string.
    let mut strings = [FREE; SLOTS];
    let mut next = FIRST;
    let mut prefix = first as usize;
    'bytes: for &byte in rest {
        let key = (prefix << 8 | byte as usize) as u32;
        // The prefix enters late and by one cheap operation, because the next step depends on it: on class maps
        // this is 1.5 times as fast as a multiplicative hash of both.
        let mut slot = ((byte as usize * 0x9E5) ^ prefix) % SLOTS;
        while strings[slot] != FREE {
            if strings[slot] >> 12 == key {
                prefix = (strings[slot] & 0xFFF) as usize;
                continue 'bytes;
            }
            slot = (slot + STRIDE) % SLOTS;
        }
        bits.put(prefix, width(next));
        strings[slot] = key << 12 | next as u32;
        prefix = byte as usize;
        next += 1;
        if next > LAST {
            bits.put(CLEAR, 12);
            strings.fill(FREE);
            next = FIRST;
        }
    }
    bits.put(prefix, width(next));
    // Readers add an entry for the last code too.
    bits.finish(width(next + 1));
}

struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    /// The last bits, of which `count` are not written to `out` yet.
    word: u64,
    /// The value is less than 32.
    count: usize,
}

impl BitWriter<'_> {
    fn put(&mut self, code: usize, width: usize) {
        self.word = self.word << width | code as u64;
        self.count += width;
        if self.count >= 32 {
            self.count -= 32;
            self.out.extend_from_slice(&((self.word >> self.count) as u32).to_be_bytes());
        }
    }

    fn finish(mut self, width: usize) {
        self.put(END, width);
        let last = ((self.word << (32 - self.count)) as u32).to_be_bytes();
        self.out.extend_from_slice(&last[..self.count.div_ceil(8)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::{classes, noise, ramp, torture};

    fn decode(src: &[u8], dst: &mut [u8]) -> Result<usize> {
        Decoder::new().decode(src, dst)
    }

    fn encoded(src: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(src, &mut out);
        out
    }

    /// The textbook decoder: it keeps the strings in a list and decodes one code at a time.
    fn textbook(src: &[u8], limit: usize, lsb: bool) -> Result<Vec<u8>> {
        let (mut out, mut bit) = (Vec::new(), 0);
        let mut strings: Vec<Vec<u8>> = Vec::new();
        let mut previous: Option<Vec<u8>> = None;
        while out.len() < limit {
            let next = FIRST + strings.len() + usize::from(previous.is_some());
            let width = width(if lsb { next - 1 } else { next });
            if bit + width > src.len() * 8 {
                break;
            }
            let bit_at = |i: usize| src[i / 8] >> (if lsb { i % 8 } else { 7 - i % 8 }) & 1;
            let code = (0..width).fold(0, |code, i| {
                let value = bit_at(bit + i) as usize;
                if lsb { code | value << i } else { code << 1 | value }
            });
            bit += width;
            if code == CLEAR {
                strings.clear();
                previous = None;
                continue;
            }
            if code == END {
                break;
            }
            let string = match (code, &previous) {
                (..CLEAR, _) => vec![code as u8],
                (_, None) => return Err(Error::Corrupt { codec: NAME, what: "a code is used before it is defined" }),
                (_, Some(previous)) => match strings.get(code - FIRST) {
                    Some(string) => string.clone(),
                    None if code == FIRST + strings.len() => [previous.as_slice(), &previous[..1]].concat(),
                    None => return Err(Error::Corrupt { codec: NAME, what: "a code is used before it is defined" }),
                },
            };
            if let Some(mut entry) = previous.take()
                && FIRST + strings.len() < CODES
            {
                entry.push(string[0]);
                strings.push(entry);
            }
            out.extend_from_slice(&string);
            previous = Some(string);
        }
        out.truncate(limit);
        Ok(out)
    }

    fn assert_like_textbook(src: &[u8], limit: usize) {
        let lsb = src.len() >= 2 && src[0] == 0 && src[1] & 1 == 1;
        let mut dst = vec![0xAA; limit];
        let got = decode(src, &mut dst).map(|n| dst[..n].to_vec());
        assert!(got == textbook(src, limit, lsb), "differs from the textbook decoder for {} bytes", src.len());
    }

    #[test]
    fn libtiff_stream_decodes() {
        // libtiff wrote this stream: 24 bytes of 7 and the alphabet.
        let stream = &[
            128, 1, 224, 80, 56, 36, 22, 13, 3, 48, 152, 140, 102, 67, 41, 152, 206, 104, 52, 154, 141, 102, 195, 105,
            184, 222, 112, 56, 156, 142, 103, 67, 169, 216, 238, 120, 60, 158, 160, 32,
        ];
        let plain: Vec<u8> = [[7; 24].as_slice(), b"abcdefghijklmnopqrstuvwxyz"].concat();
        let mut dst = vec![0; plain.len()];
        assert_eq!(decode(stream, &mut dst), Ok(plain.len()));
        assert_eq!(dst, plain);
    }

    #[test]
    fn every_width_change_and_clear_survives_a_round_trip() {
        for plain in [noise(60_000, 256), noise(60_000, 3), classes(60_000), ramp(60_000)] {
            let stream = encoded(&plain);
            let mut dst = vec![0; plain.len()];
            assert_eq!(decode(&stream, &mut dst), Ok(plain.len()));
            assert!(dst == plain);
            let other = weezl::decode::Decoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8).decode(&stream).unwrap();
            assert!(other == plain, "weezl decodes other bytes");
        }
    }

    #[test]
    fn end_code_has_the_right_width_after_any_length() {
        let plain = noise(9000, 256);
        // Lengths for which the code before End is the one that increases the width or that fills the table.
        for len in (0..600).chain(760..775).chain(1785..1800).chain(3825..3845) {
            let stream = encoded(&plain[..len]);
            let other = weezl::decode::Decoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8).decode(&stream).unwrap();
            assert!(other == plain[..len], "{len}");
            let mut dst = vec![0; len + 100];
            assert_eq!(decode(&stream, &mut dst), Ok(len));
        }
    }

    #[test]
    fn other_writers_streams_decode() {
        for plain in [noise(60_000, 256), noise(60_000, 2), classes(60_000), vec![5; 60_000]] {
            let stream = weezl::encode::Encoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8).encode(&plain).unwrap();
            let mut dst = vec![0; plain.len()];
            assert_eq!(decode(&stream, &mut dst), Ok(plain.len()));
            assert!(dst == plain);
        }
    }

    #[test]
    fn old_bit_reversed_streams_decode() {
        // GIF streams have the bit order and the late width change of the old form.
        for plain in [noise(60_000, 256), noise(60_000, 2), classes(60_000), vec![5; 60_000]] {
            let stream = weezl::encode::Encoder::new(weezl::BitOrder::Lsb, 8).encode(&plain).unwrap();
            assert!(stream[0] == 0 && stream[1] & 1 == 1);
            let mut dst = vec![0; plain.len()];
            assert_eq!(decode(&stream, &mut dst), Ok(plain.len()));
            assert!(dst == plain);
        }
    }

    #[test]
    fn missing_clear_and_missing_end_are_accepted() {
        // The 9-bit codes 'a', 'b' and 258, and nothing else.
        let stream = [0b0011_0000, 0b1001_1000, 0b1010_0000, 0b0100_0000];
        let mut dst = [0; 10];
        assert_eq!(decode(&stream, &mut dst), Ok(4));
        assert_eq!(&dst[..4], b"abab");
    }

    #[test]
    fn full_table_without_clear_continues_at_12_bits() {
        let mut stream = Vec::new();
        let mut bits = BitWriter { out: &mut stream, word: 0, count: 0 };
        let mut want = Vec::new();
        for i in 0..20_000 {
            // After the table is full, the first and the last entry are used too.
            let code = match i {
                ..3900 => i % 251,
                _ => [FIRST, CODES - 1, i % 256][i % 3],
            };
            bits.put(code, width(FIRST + i));
            match code {
                ..CLEAR => want.push(code as u8),
                _ => want.extend([((code - FIRST) % 251) as u8, ((code - FIRST + 1) % 251) as u8]),
            }
        }
        bits.finish(12);
        let mut dst = vec![0; want.len()];
        assert_eq!(decode(&stream, &mut dst), Ok(want.len()));
        assert!(dst == want);
    }

    #[test]
    fn undefined_code_is_corrupt() {
        let stream = [0b1000_0000, 0b0100_0001, 0b0000_0000];
        assert!(matches!(decode(&stream, &mut [0; 64]), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn damaged_streams_decode_as_in_the_textbook_decoder() {
        let mut random = noise(40_000, 256).into_iter().cycle();
        let mut number = move || random.next().unwrap() as usize | (random.next().unwrap() as usize) << 8;
        for plain in [noise(20_000, 256), noise(20_000, 3), classes(20_000), vec![9; 20_000]] {
            let lsb = weezl::encode::Encoder::new(weezl::BitOrder::Lsb, 8).encode(&plain).unwrap();
            for stream in [encoded(&plain), lsb] {
                for round in 0..150 {
                    let mut damaged = stream.clone();
                    for _ in 0..round % 4 {
                        let at = number() % damaged.len();
                        damaged[at] ^= 1 << (number() % 8);
                    }
                    damaged.truncate(damaged.len().saturating_sub(if round % 3 == 0 { number() % 500 } else { 0 }));
                    assert_like_textbook(&damaged, number() % 30_000);
                }
            }
        }
        for len in 0..400 {
            assert_like_textbook(&noise(len * 7, 256), 10_000);
        }
    }

    #[test]
    fn damage_neither_panics_nor_overruns() {
        for plain in [noise(3000, 256), classes(3000)] {
            torture(decode, &encoded(&plain), &plain);
        }
    }
}
