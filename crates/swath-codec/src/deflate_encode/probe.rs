//! Estimates from a sample how well data compresses, and what a search for short matches would save.

use std::ops::{AddAssign, Range};

use super::parse::{self, Sequence, Sizes, WINDOW};
use super::{Block, Share};

/// The number of bytes that are encoded for the estimate.
const SAMPLE: usize = 8 << 10;
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

/// The sizes of samples in bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Estimate {
    /// Before encoding.
    pub(super) bits: usize,
    /// With long matches only.
    pub(super) long: usize,
    /// With short matches too.
    pub(super) short: usize,
}

impl Estimate {
    /// Whether the size with short matches is at least this part of the size without.
    pub(super) fn is_short_at_least(&self, least: Share) -> bool {
        self.short * least.of >= self.long * least.part
    }
}

impl AddAssign for Estimate {
    fn add_assign(&mut self, other: Self) {
        self.bits += other.bits;
        self.long += other.long;
        self.short += other.short;
    }
}

/// Returns the ranges of samples that are not flat, in the middle of `src` and in the middle of its halves. Class maps and
/// areas without data are flat.
pub(super) fn samples(src: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let len = SAMPLE.min(src.len());
    let rest = src.len() - len;
    let ranges = [rest / 2, rest / 4, rest - rest / 4].map(|start| start..start + len);
    ranges.into_iter().filter(|range| !is_flat(&src[range.clone()]))
}

/// Whether seven of eight bytes are equal to the one before.
fn is_flat(sample: &[u8]) -> bool {
    let equal = sample.iter().zip(sample.iter().skip(1)).filter(|(a, b)| a == b).count();
    equal * 8 >= sample.len() * 7
}

impl Probe {
    /// Encodes the sample of `src` in this range. Its matches may refer to all of the window before it: a small sample
    /// for itself would have too few of them.
    pub(super) fn estimate(&mut self, src: &[u8], sample: Range<usize>) -> Estimate {
        let src = &src[sample.start.saturating_sub(WINDOW)..sample.end];
        let start = src.len() - sample.len();
        self.tables.iter_mut().for_each(|table| table.fill(0));
        for at in 0..start.min(src.len().saturating_sub(8)) {
            self.enter(parse::load(src, at), at);
        }
        self.parse(src, start);
        let [long, four, three] = self.sequences.each_ref().map(|sequences| {
            let codes = Block { src, start, sequences }.codes();
            codes.bits - codes.header.bits
        });
        Estimate { bits: 8 * sample.len(), long, short: four.min(three) }
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
            if ends.iter().all(|&end| at < end) {
                continue;
            }
            let [long, four, three] = std::array::from_fn(|which| {
                let distance = distances[which];
                let different = if distance > WINDOW { !0 } else { parse::load(src, at - distance) ^ key };
                if distance == 0 || different << (64 - 8 * KEYS[which]) != 0 {
                    return (0, 0, 0);
                }
                let len = match different {
                    0 => parse::common_len(src, at, distance),
                    _ => (different.trailing_zeros() / 8) as usize,
                };
                (sizes.saved(key, len, distance), len, distance)
            });
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
