//! Encodes Deflate in zlib framing (RFC 1950, 1951) with a search for long matches only.
//!
//! Most bytes of a raster after its predictor are noise that no match covers, or repeat for long. libdeflate
//! spends most of its time on a search for short matches between them, which save little or nothing. This encoder
//! finds matches of eight bytes or more (`parse.rs`), steps faster through bytes without matches, and compares
//! the bits of a match with the bits of its literals. The other bytes only get a good Huffman code (`huffman.rs`).
//!
//! On other data, such as text or class maps, libdeflate makes smaller streams:
//! [`deflate::Encoder`](crate::deflate::Encoder) chooses.

mod bits;
mod huffman;
mod parse;
mod probe;
#[cfg(test)]
mod tests;

use libdeflater::adler32;

use crate::inflate::table::{DISTANCES, LENGTHS};
use bits::BitWriter;
use huffman::{Code, Header};
use parse::{Parser, Sequence};

/// The number of bytes that share one Huffman code. A code takes about 100 bytes. With 64 KiB, the stream of a DEM
/// is 0.1 % larger; with 256 KiB, it is as large.
const BLOCK: usize = 128 << 10;
/// The longest code of a literal or length, so that four literals fit in one store of the bit writer.
const MAX_LITERAL_BITS: usize = 14;
const MAX_DISTANCE_BITS: usize = 15;
/// The number of literal and length symbols, and of distance symbols.
const LITERALS: usize = 286;
const END_OF_BLOCK: usize = 256;
/// The largest stored block of the format.
const MAX_STORED: usize = 65_535;
/// The zlib header of a stream with the default compression level.
const ZLIB_HEADER: [u8; 2] = [0x78, 0x9C];

/// Data whose sample becomes smaller than this with short matches does not suit the encoder. Of the tiles that pass, the
/// largest streams were 0.6 % larger than those of libdeflate at level 6.
const LEAST_SHORT: Share = Share { part: 995, of: 1000 };
/// If the first sample is between this and [`LEAST_SHORT`], a second one is added to it.
const LEAST_SHORT_OF_FIRST: Share = Share { part: 990, of: 1000 };

/// A fraction of a size.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// The numerator.
    pub part: usize,
    /// The denominator.
    pub of: usize,
}

/// A reusable encoder that uses only long matches.
#[derive(Default)]
pub struct LongMatchEncoder {
    parser: Parser,
    sequences: Vec<Sequence>,
    probe: probe::Probe,
}

impl std::fmt::Debug for LongMatchEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LongMatchEncoder").finish_non_exhaustive()
    }
}

impl LongMatchEncoder {
    /// Creates an encoder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the stream of `src` is likely to be as small as that of an encoder which also searches for short
    /// matches. The estimate is made from one or two samples, which must take at least `smallest` of their size when encoded: in
    /// data that compresses better, a more thorough search finds much longer matches.
    pub fn suits(&mut self, src: &[u8], smallest: Share) -> bool {
        let mut samples = probe::samples(src);
        let Some(first) = samples.next() else { return false };
        let mut estimate = self.probe.estimate(src, first);
        if !estimate.is_short_at_least(LEAST_SHORT)
            && estimate.is_short_at_least(LEAST_SHORT_OF_FIRST)
            && let Some(second) = samples.next()
        {
            estimate += self.probe.estimate(src, second);
        }
        estimate.long * smallest.of >= estimate.bits * smallest.part && estimate.is_short_at_least(LEAST_SHORT)
    }

    /// Appends the zlib stream of `src` to `out`. The stream depends only on `src`.
    pub fn encode(&mut self, src: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&ZLIB_HEADER);
        let start = out.len();
        out.resize(start + bound(src.len()), 0);
        let len = self.encode_raw(src, &mut out[start..]);
        out.truncate(start + len);
        out.extend_from_slice(&adler32(src).to_be_bytes());
    }

    /// Writes the Deflate blocks of `src` to the start of `out` and returns their length.
    fn encode_raw(&mut self, src: &[u8], out: &mut [u8]) -> usize {
        let mut writer = BitWriter::new(out);
        self.parser.start(src);
        let mut start = 0;
        loop {
            // A short rest joins the last block.
            let end = if src.len() - start < BLOCK + BLOCK / 2 { src.len() } else { start + BLOCK };
            self.sequences.clear();
            self.parser.parse(src, start..end, &mut self.sequences);
            let last = end == src.len();
            let block = Block { src: &src[..end], start, sequences: &self.sequences };
            let codes = block.codes();
            block.write(&codes, last, &mut writer);
            if last {
                return writer.finish();
            }
            self.parser.learn(&codes.literals, &codes.distances);
            start = end;
        }
    }
}

/// The largest length of the blocks of `len` bytes, with the space for the last store of the bit writer. A block is
/// never larger than its stored form, which adds 5 bytes for each 65535.
fn bound(len: usize) -> usize {
    len + len / 1024 + 256
}

/// The bytes of one Deflate block: `src[start..]`, of which the sequences cover a part. The rest are literals.
struct Block<'a> {
    src: &'a [u8],
    start: usize,
    sequences: &'a [Sequence],
}

/// The Huffman codes of a block and its size with them.
struct Codes {
    literals: Code<LITERALS>,
    distances: Code<30>,
    header: Header,
    /// The size of the block with these codes, without its first three bits.
    bits: usize,
}

impl<'a> Block<'a> {
    /// Calls `visit` with each run of literals and the match after it, then returns the last run.
    #[inline(always)]
    fn for_each(&self, mut visit: impl FnMut(&'a [u8], &Sequence)) -> &'a [u8] {
        let mut rest = &self.src[self.start..];
        for sequence in self.sequences {
            let (literals, after) = rest.split_at(sequence.literals as usize);
            visit(literals, sequence);
            rest = &after[usize::from(sequence.len)..];
        }
        rest
    }

    fn codes(&self) -> Codes {
        let mut counts = [0; LITERALS];
        let mut distance_counts = [0; 30];
        let mut histogram = [[0; 256]; 4];
        let last = self.for_each(|literals, sequence| {
            count_bytes(literals, &mut histogram);
            counts[257 + sequence.length_symbol()] += 1;
            distance_counts[sequence.distance_symbol()] += 1;
        });
        count_bytes(last, &mut histogram);
        for (byte, count) in counts[..256].iter_mut().enumerate() {
            *count = histogram.iter().map(|part| part[byte]).sum();
        }
        counts[END_OF_BLOCK] = 1;
        let literals = Code::new(&counts, MAX_LITERAL_BITS);
        let distances = Code::new(&distance_counts, MAX_DISTANCE_BITS);
        let header = Header::new(&literals, &distances);
        let extra: usize = (LENGTHS.iter().zip(&counts[257..]))
            .chain(DISTANCES.iter().zip(&distance_counts))
            .map(|((_, extra), &count)| usize::from(*extra) * count as usize)
            .sum();
        let bits = header.bits + literals.bits(&counts) + distances.bits(&distance_counts) + extra;
        Codes { literals, distances, header, bits }
    }

    fn write(&self, codes: &Codes, last: bool, writer: &mut BitWriter<'_>) {
        let stored = self.src.len() - self.start;
        if codes.bits / 8 >= stored {
            return write_stored(&self.src[self.start..], last, writer);
        }
        writer.put(u64::from(last) | 2 << 1, 3);
        codes.header.write(writer);
        let literal_codes = codes.literals.packed();
        let last_literals = self.for_each(|literals, sequence| {
            writer.put_literals(literals, &literal_codes);
            let symbol = sequence.length_symbol();
            let (base, extra) = LENGTHS[symbol];
            let (code, bits) = codes.literals.get(257 + symbol);
            let length = code | u64::from(sequence.len - base) << bits;
            let length_bits = bits + u32::from(extra);
            let symbol = sequence.distance_symbol();
            let (base, extra) = DISTANCES[symbol];
            let (code, bits) = codes.distances.get(symbol);
            let distance = code | u64::from(sequence.distance - base) << bits;
            writer.put(length | distance << length_bits, length_bits + bits + u32::from(extra));
        });
        writer.put_literals(last_literals, &literal_codes);
        let (code, bits) = codes.literals.get(END_OF_BLOCK);
        writer.put(code, bits);
    }
}

fn write_stored(src: &[u8], last: bool, writer: &mut BitWriter<'_>) {
    let mut rest = src;
    loop {
        let (piece, after) = rest.split_at(rest.len().min(MAX_STORED));
        writer.put(u64::from(last && after.is_empty()), 3);
        writer.put_stored(piece);
        rest = after;
        if rest.is_empty() {
            return;
        }
    }
}

/// Adds the counts of `bytes` to four histograms, so that equal bytes in a row do not wait for each other.
fn count_bytes(bytes: &[u8], histogram: &mut [[u32; 256]; 4]) {
    let [a, b, c, d] = histogram;
    let (groups, rest) = bytes.as_chunks::<4>();
    for group in groups {
        a[usize::from(group[0])] += 1;
        b[usize::from(group[1])] += 1;
        c[usize::from(group[2])] += 1;
        d[usize::from(group[3])] += 1;
    }
    for &byte in rest {
        a[usize::from(byte)] += 1;
    }
}
