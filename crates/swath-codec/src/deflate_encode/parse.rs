//! Finds the matches of a block.
//!
//! Two hash tables hold the last position of each string of 8 and of 14 bytes. The second finds the longer matches
//! that the first forgets: in the high bytes of a float raster, where almost all strings of 8 bytes occur often, the
//! most recent one is rarely the longest. With the second table the stream of a DEM is 0.9 % smaller.

use std::ops::Range;

use super::LITERALS;
use super::huffman::Code;
use crate::inflate::table::{DISTANCES, LENGTHS};

/// The number of bytes that each table compares.
const SHORT_KEY: usize = 8;
const LONG_KEY: usize = 14;
/// The number of bits of a hash. Fewer make more false candidates, which take time: 14 bits make it 15 % slower.
const HASH_BITS: u32 = 15;
const TABLE: usize = 1 << HASH_BITS;
/// The largest distance and the largest length of the format.
pub(super) const WINDOW: usize = 32 << 10;
const MAX_LEN: usize = 258;
/// Without a match, the step to the next tested position grows by one after this number of tests, up to a limit. A
/// match after a long time is found if both copies have a tested position, so if it has some 256 bytes. Without
/// growing steps, a DEM takes 1.5 times as long and its stream is 0.3 % smaller.
const TESTS_PER_STEP: usize = 32;
const MAX_STEP: usize = 16;
/// A match that is shorter is compared with the match at the next position.
const LAZY_BELOW: usize = 32;
/// Only the last positions of longer matches are entered in the tables.
const INDEXED_BELOW: usize = 64;
const INDEXED_END: usize = 8;

/// Bits are counted in sixteenths.
const BIT: i32 = 16;
/// The estimated size of a literal that a match replaces, from its ninth byte on.
const LATER_LITERAL: i32 = 2 * BIT;
/// The size of symbols that the last block did not use.
const UNUSED_LITERAL: i32 = 13 * BIT;
const UNUSED_LENGTH: i32 = 11 * BIT;
const UNUSED_DISTANCE: i32 = 9 * BIT;
/// The number of bytes from which the first sizes of literals are estimated.
const FIRST_BYTES: usize = 32 << 10;
/// The size of other symbols in the first block.
const FIRST_LENGTH: i32 = 6 * BIT;
const FIRST_DISTANCE: i32 = 5 * BIT;

/// A run of literals and the match after it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sequence {
    pub(super) literals: u32,
    pub(super) len: u16,
    pub(super) distance: u16,
}

impl Sequence {
    /// The symbol of the length, counted from the first length symbol.
    #[inline(always)]
    pub(super) fn length_symbol(self) -> usize {
        usize::from(LENGTH_SYMBOLS[usize::from(self.len)])
    }

    #[inline(always)]
    pub(super) fn distance_symbol(self) -> usize {
        distance_symbol(usize::from(self.distance))
    }
}

/// The symbol of each length.
static LENGTH_SYMBOLS: [u8; MAX_LEN + 1] = {
    let mut symbols = [0; MAX_LEN + 1];
    let (mut len, mut symbol) = (3, 0);
    while len <= MAX_LEN {
        if symbol < 28 && LENGTHS[symbol + 1].0 as usize == len {
            symbol += 1;
        }
        symbols[len] = symbol as u8;
        len += 1;
    }
    symbols
};

/// The symbol of a distance, from its two highest bits.
#[inline(always)]
fn distance_symbol(distance: usize) -> usize {
    let before = (distance as u32).wrapping_sub(1);
    if before < 2 {
        return before as usize;
    }
    let high = before.ilog2();
    (2 * high + (before >> (high - 1) & 1)) as usize
}

/// A match, with the number of bits that it saves.
#[derive(Clone, Copy)]
struct Match {
    len: usize,
    distance: usize,
    saved: i32,
}

const NO_MATCH: Match = Match { len: 0, distance: 0, saved: 0 };

/// Estimates of the size of each symbol, with its extra bits.
pub(super) struct Sizes {
    literals: [i32; 256],
    lengths: [i32; MAX_LEN + 1],
    distances: [i32; 30],
}

/// The low 32 bits of the last position of each hash. An entry may be of another string, or 4 GiB older: the caller
/// compares the bytes. With 16 bits, more entries seem to be in the window, which makes the search for a DEM 1.25
/// times as slow.
struct Table(Box<[u32; TABLE]>);

impl Default for Table {
    fn default() -> Self {
        Self(Box::new([0; TABLE]))
    }
}

impl Table {
    fn clear(&mut self) {
        self.0.fill(0);
    }

    /// Enters the position of a key and returns the one before.
    #[inline(always)]
    fn replace(&mut self, key: u64, at: usize) -> u32 {
        std::mem::replace(&mut self.0[hash::<HASH_BITS>(key)], at as u32)
    }
}

/// The distance from `at` to an earlier position, of which the low 32 bits are given; 0 if it is not in the window.
#[inline(always)]
fn distance(at: usize, position: u32) -> usize {
    let distance = (at as u32).wrapping_sub(position) as usize;
    if distance <= at.min(WINDOW) { distance } else { 0 }
}

/// The state of the search: the tables, and the sizes of symbols in the block before.
#[derive(Default)]
pub(super) struct Parser {
    short: Table,
    long: Table,
    sizes: Sizes,
}

impl Parser {
    /// Forgets everything and estimates sizes from the first bytes.
    pub(super) fn start(&mut self, first: &[u8]) {
        self.short.clear();
        self.long.clear();
        self.sizes = Sizes::first(first);
    }

    /// Uses the sizes of the codes of a block for the next one.
    pub(super) fn learn(&mut self, literals: &Code<LITERALS>, distances: &Code<30>) {
        let size = |len: u8, unused: i32| if len == 0 { unused } else { i32::from(len) * BIT };
        for (literal, &len) in self.sizes.literals.iter_mut().zip(&literals.lens) {
            *literal = size(len, UNUSED_LITERAL);
        }
        self.sizes.set_lengths(|symbol| size(literals.lens[257 + symbol], UNUSED_LENGTH));
        self.sizes.set_distances(|symbol| size(distances.lens[symbol], UNUSED_DISTANCE));
    }

    /// Appends the sequences of `src[range]`. Matches may refer to bytes before the range.
    pub(super) fn parse(&mut self, src: &[u8], range: Range<usize>, sequences: &mut Vec<Sequence>) {
        // Positions after this have too few bytes for a key, or for a match that ends in the range.
        let limit = (range.end.saturating_sub(SHORT_KEY)).min(src.len().saturating_sub(LONG_KEY));
        let (mut at, mut literals_from, mut misses) = (range.start, range.start, 0);
        while at < limit {
            let mut found = self.find(src, at, range.end);
            if found.saved <= 0 {
                misses += 1;
                at += (1 + misses / TESTS_PER_STEP).min(MAX_STEP);
                continue;
            }
            misses = 0;
            while found.len < LAZY_BELOW && at + 1 < limit {
                let next = self.find(src, at + 1, range.end);
                if next.saved <= found.saved {
                    break;
                }
                (found, at) = (next, at + 1);
            }
            let Match { mut len, distance, .. } = found;
            let indexed_from = at + 2;
            let end = at + len;
            while at > literals_from && at > distance && len < MAX_LEN && src[at - 1] == src[at - 1 - distance] {
                at -= 1;
                len += 1;
            }
            let literals = (at - literals_from) as u32;
            sequences.push(Sequence { literals, len: len as u16, distance: distance as u16 });
            let indexed_from = if len <= INDEXED_BELOW { indexed_from } else { end - INDEXED_END };
            for position in indexed_from..end.min(limit) {
                self.enter(src, position, load(src, position));
            }
            (at, literals_from) = (end, end);
        }
    }

    /// Enters a position, whose first eight bytes are `key`, in both tables. Returns the positions that it replaces,
    /// of the long and the short key.
    #[inline(always)]
    fn enter(&mut self, src: &[u8], at: usize, key: u64) -> (u32, u32) {
        let end = load(src, at + LONG_KEY - 8);
        let long_key = key.wrapping_mul(HASH_FACTOR).rotate_left(23) ^ end;
        (self.long.replace(long_key, at), self.short.replace(key, at))
    }

    /// Enters a position and returns the better of the two matches there. The match ends before `end`.
    #[inline(always)]
    fn find(&mut self, src: &[u8], at: usize, end: usize) -> Match {
        let key = load(src, at);
        let (long, short) = self.enter(src, at, key);
        let most = (end - at).min(MAX_LEN);
        let best = self.candidate(src, at, key, long, most);
        if short == long {
            return best;
        }
        let other = self.candidate(src, at, key, short, most);
        if other.saved > best.saved { other } else { best }
    }

    /// Returns the match with the bytes at an earlier position, of which the low 32 bits are given.
    #[inline(always)]
    fn candidate(&self, src: &[u8], at: usize, key: u64, position: u32, most: usize) -> Match {
        let distance = distance(at, position);
        if distance == 0 || load(src, at - distance) != key {
            return NO_MATCH;
        }
        let len = match_len(src, at, distance, 8, most);
        Match { len, distance, saved: self.sizes.saved(key, len, distance) }
    }
}

impl Default for Sizes {
    fn default() -> Self {
        Self { literals: [0; 256], lengths: [0; MAX_LEN + 1], distances: [0; 30] }
    }
}

impl Sizes {
    /// Estimates sizes from the first bytes. Four equal bytes do not count, since they will be in matches.
    pub(super) fn first(first: &[u8]) -> Self {
        let mut histogram = [[0; 256]; 4];
        let first = &first[..first.len().min(FIRST_BYTES)];
        for four in first.as_chunks::<4>().0.iter().filter(|four| **four != [four[0]; 4]) {
            super::count_bytes(four, &mut histogram);
        }
        let counts: [u32; 256] = std::array::from_fn(|byte| 1 + histogram.iter().map(|part| part[byte]).sum::<u32>());
        let total = log2(counts.iter().sum());
        let mut sizes = Self { literals: counts.map(|count| total - log2(count)), ..Self::default() };
        sizes.set_lengths(|_| FIRST_LENGTH);
        sizes.set_distances(|_| FIRST_DISTANCE);
        sizes
    }

    fn set_lengths(&mut self, size: impl Fn(usize) -> i32) {
        for (len, total) in self.lengths.iter_mut().enumerate().skip(3) {
            let symbol = usize::from(LENGTH_SYMBOLS[len]);
            *total = size(symbol) + i32::from(LENGTHS[symbol].1) * BIT;
        }
    }

    fn set_distances(&mut self, size: impl Fn(usize) -> i32) {
        for (symbol, total) in self.distances.iter_mut().enumerate() {
            *total = size(symbol) + i32::from(DISTANCES[symbol].1) * BIT;
        }
    }

    /// The size that a match saves, whose first bytes are `key`.
    #[inline(always)]
    pub(super) fn saved(&self, key: u64, len: usize, distance: usize) -> i32 {
        let bytes = key.to_le_bytes();
        let literals: i32 = bytes[..len.min(8)].iter().map(|&byte| self.literals[usize::from(byte)]).sum();
        let later = (len.max(8) as i32 - 8) * LATER_LITERAL;
        literals + later - self.lengths[len] - self.distances[distance_symbol(distance)]
    }
}

const HASH_FACTOR: u64 = 0x9E37_79B1_85EB_CA87;

#[inline(always)]
pub(super) fn hash<const BITS: u32>(key: u64) -> usize {
    (key.wrapping_mul(HASH_FACTOR) >> (64 - BITS)) as usize
}

/// The eight bytes at a position, on every machine as the same number.
#[inline(always)]
pub(super) fn load(src: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&src[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// The number of equal bytes at `at` and `distance` before it, up to the end or the largest length.
pub(super) fn common_len(src: &[u8], at: usize, distance: usize) -> usize {
    match_len(src, at, distance, 0, (src.len() - at).min(MAX_LEN))
}

/// The number of equal bytes at `at` and `distance` before it, of which `known` are known, up to `most`.
#[inline(always)]
fn match_len(src: &[u8], at: usize, distance: usize, known: usize, most: usize) -> usize {
    let here = &src[at..at + most];
    let there = &src[at - distance..at - distance + most];
    let mut len = known;
    while len + 8 <= most {
        let different = load(here, len) ^ load(there, len);
        if different != 0 {
            return len + (different.trailing_zeros() / 8) as usize;
        }
        len += 8;
    }
    while len < most && here[len] == there[len] {
        len += 1;
    }
    len
}

/// The logarithm to base 2 in sixteenths, with an error below two. Floating point could differ between machines.
fn log2(value: u32) -> i32 {
    let whole = value.ilog2();
    let fraction = (u64::from(value) << 4 >> whole) as i32 & 15;
    whole as i32 * BIT + fraction
}
