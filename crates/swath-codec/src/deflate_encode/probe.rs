//! Estimates from a sample how well data compresses, and what a search for short matches would save.

use super::Block;
use super::parse::{self, Sequence, Sizes, WINDOW};

/// The number of bytes that are encoded for the estimate, in the middle of the data.
pub(super) const SAMPLE: usize = 4 << 10;
/// The number of bytes of the strings in each table. Short matches of three and of four bytes are tried separately:
/// the last string of three bytes is rarely the one that continues.
const KEYS: [usize; 3] = [8, 4, 3];
const HASH_BITS: u32 = 15;
const TABLE: usize = 1 << HASH_BITS;

/// The last position of each string of three lengths, as in the search for matches.
pub(super) struct Probe {
    tables: Box<[[u16; TABLE]; 3]>,
    sequences: [Vec<Sequence>; 3],
}

impl Default for Probe {
    fn default() -> Self {
        Self { tables: Box::new([[0; TABLE]; 3]), sequences: Default::default() }
    }
}

/// The sizes of a sample in bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Estimate {
    /// With long matches only.
    pub(super) long: usize,
    /// With short matches too.
    pub(super) short: usize,
}

impl Probe {
    /// Encodes a sample of `src`. Its matches may refer to all of the window before it: a small sample for itself
    /// would have too few of them.
    pub(super) fn estimate(&mut self, src: &[u8]) -> Estimate {
        let sample = SAMPLE.min(src.len());
        let start = (src.len() - sample) / 2;
        let src = &src[start.saturating_sub(WINDOW)..start + sample];
        let start = src.len() - sample;
        self.tables.iter_mut().for_each(|table| table.fill(0));
        for at in 0..start.min(src.len().saturating_sub(8)) {
            self.enter(parse::load(src, at), at);
        }
        self.parse(src, start);
        let [long, four, three] = self.sequences.each_ref().map(|sequences| {
            let codes = Block { src, start, sequences }.codes();
            codes.bits - codes.header.bits
        });
        Estimate { long, short: four.min(three) }
    }

    /// Enters a position in the tables and returns the distances to the positions that it replaces.
    #[inline(always)]
    fn enter(&mut self, key: u64, at: usize) -> [usize; 3] {
        let mut distances = [0; 3];
        for ((table, bytes), distance) in self.tables.iter_mut().zip(KEYS).zip(&mut distances) {
            let entry = &mut table[parse::hash::<HASH_BITS>(key << (64 - 8 * bytes))];
            // The sample and its window are shorter than 64 KiB.
            *distance = at - usize::from(std::mem::replace(entry, at as u16));
        }
        distances
    }

    /// Finds the sequences of `src[start..]` with long matches only, and with those of each short length too.
    fn parse(&mut self, src: &[u8], start: usize) {
        let sizes = Sizes::first(&src[start..]);
        self.sequences.iter_mut().for_each(Vec::clear);
        // The end of the last match of each.
        let mut ends = [start; 3];
        for at in start..src.len().saturating_sub(8) {
            let key = parse::load(src, at);
            let distances = self.enter(key, at);
            let found = std::array::from_fn(|which| match distances[which] {
                0 => (0, 0, 0),
                distance if distance > WINDOW => (0, 0, 0),
                distance => {
                    let len = parse::common_len(src, at, distance);
                    let saved = if len < KEYS[which] { 0 } else { sizes.saved(key, len, distance) };
                    (saved, len, distance)
                }
            });
            let [long, four, three] = found;
            let best = [long, long.max(four), long.max(three)];
            for ((sequences, end), (saved, len, distance)) in self.sequences.iter_mut().zip(&mut ends).zip(best) {
                if at >= *end && saved > 0 {
                    let literals = (at - *end) as u32;
                    sequences.push(Sequence { literals, len: len as u16, distance: distance as u16 });
                    *end = at + len;
                }
            }
        }
    }
}
