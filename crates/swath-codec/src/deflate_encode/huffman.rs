//! Huffman codes of Deflate blocks, and the description of the codes at the start of a block (RFC 1951, 3.2.7).

use super::LITERALS;
use super::bits::{BitWriter, Packed};

/// The longest code of the format.
const MAX_BITS: usize = 15;
/// The longest code of the code lengths in a header.
const MAX_HEADER_BITS: usize = 7;
/// The order in which a header stores the lengths of the codes for code lengths.
const HEADER_ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
/// Symbols of a header: repeats of the last length, and runs of zeros.
const REPEAT: u8 = 16;
const ZEROS: u8 = 17;
const MANY_ZEROS: u8 = 18;

/// A complete Huffman code for `N` symbols, of which some are not used.
pub(super) struct Code<const N: usize> {
    /// The number of bits of each code; 0 if the symbol is not used.
    pub(super) lens: [u8; N],
    codes: [u16; N],
}

impl<const N: usize> Code<N> {
    /// Creates a code with at most `max_bits` bits for symbols of these counts. It is optimal unless the limit is
    /// reached. At least two symbols get a code, because some decoders refuse codes that are not complete.
    pub(super) fn new(counts: &[u32; N], max_bits: usize) -> Self {
        let lens = code_lens(counts, max_bits);
        let mut next = [0; MAX_BITS + 1];
        for &len in lens.iter().filter(|&&len| len > 0) {
            next[usize::from(len)] += 1;
        }
        let mut code = 0_u16;
        for first in &mut next {
            let count = std::mem::replace(first, code);
            code = (code + count) << 1;
        }
        let codes = lens.map(|len| {
            let next = &mut next[usize::from(len)];
            if len == 0 {
                return 0;
            }
            *next += 1;
            (*next - 1).reverse_bits() >> (16 - u32::from(len))
        });
        Self { lens, codes }
    }

    /// The code of a symbol and its number of bits.
    #[inline(always)]
    pub(super) fn get(&self, symbol: usize) -> (u64, u32) {
        (u64::from(self.codes[symbol]), u32::from(self.lens[symbol]))
    }

    /// The number of bits of all symbols together.
    pub(super) fn bits(&self, counts: &[u32; N]) -> usize {
        counts.iter().zip(&self.lens).map(|(&count, &len)| count as usize * usize::from(len)).sum()
    }
}

impl Code<LITERALS> {
    /// The codes of the literals in the form for the bit writer.
    pub(super) fn packed(&self) -> [Packed; 256] {
        std::array::from_fn(|byte| Packed::new(self.codes[byte], self.lens[byte]))
    }
}

/// Returns the code length of each symbol.
fn code_lens<const N: usize>(counts: &[u32; N], max_bits: usize) -> [u8; N] {
    // The used symbols, rarest first: the count in the high half, the symbol in the low half.
    let mut leaves = [0_u64; LITERALS];
    let mut used = 0;
    for (symbol, &count) in counts.iter().enumerate().filter(|&(_, &count)| count > 0) {
        leaves[used] = u64::from(count) << 32 | symbol as u64;
        used += 1;
    }
    for (symbol, _) in counts.iter().enumerate().take(2).filter(|&(_, &count)| count == 0) {
        if used < 2 {
            leaves[used] = symbol as u64;
            used += 1;
        }
    }
    let leaves = &mut leaves[..used];
    leaves.sort_unstable();
    let mut lens = [0; N];
    let mut next = leaves.iter().map(|leaf| *leaf as u32 as usize);
    let with_bits = limited_depths(leaves, max_bits);
    for (bits, &count) in with_bits.iter().enumerate().rev() {
        for symbol in next.by_ref().take(count) {
            lens[symbol] = bits as u8;
        }
    }
    lens
}

/// Returns the number of codes with 0, 1, 2, ... bits for these sorted leaves, of which there are at least two.
fn limited_depths(leaves: &[u64], max_bits: usize) -> [usize; MAX_BITS + 1] {
    let mut with_bits = [0_usize; MAX_BITS + 1];
    let mut excess = 0;
    for depth in tree_depths(leaves) {
        with_bits[depth.min(max_bits)] += 1;
        excess += usize::from(depth > max_bits);
    }
    if excess > 0 {
        // The codes take more than the space of all words of `max_bits` bits. Pairing one of the longest codes with
        // a shorter one, a bit below it, saves one such word.
        let space: usize = (1..=max_bits).map(|bits| with_bits[bits] << (max_bits - bits)).sum();
        for _ in 0..space - (1 << max_bits) {
            let shorter = (1..max_bits).rev().find(|&bits| with_bits[bits] > 0).unwrap_or(1);
            with_bits[shorter] -= 1;
            with_bits[shorter + 1] += 2;
            with_bits[max_bits] -= 1;
        }
    }
    with_bits
}

/// Returns the depth of each leaf in the Huffman tree.
fn tree_depths(leaves: &[u64]) -> impl Iterator<Item = usize> {
    let count = leaves.len();
    let nodes = 2 * count - 1;
    // Inner nodes are made in the order of their weight, so two queues replace a heap: the leaves and the nodes.
    let mut weights = [0_u64; 2 * LITERALS];
    let mut parents = [0_u16; 2 * LITERALS];
    for (weight, leaf) in weights.iter_mut().zip(leaves) {
        *weight = leaf >> 32;
    }
    let (mut leaf, mut inner) = (0, count);
    for node in count..nodes {
        for _ in 0..2 {
            let next =
                if leaf < count && (inner >= node || weights[leaf] <= weights[inner]) { &mut leaf } else { &mut inner };
            parents[*next] = node as u16;
            weights[node] += weights[*next];
            *next += 1;
        }
    }
    let mut depths = [0_u16; 2 * LITERALS];
    for node in (0..nodes - 1).rev() {
        depths[node] = depths[usize::from(parents[node])] + 1;
    }
    depths.into_iter().take(count).map(usize::from)
}

/// The description of the codes of a block.
pub(super) struct Header {
    /// The number of literal, distance and header codes.
    sizes: [usize; 3],
    symbols: Vec<HeaderSymbol>,
    code: Code<19>,
    /// The number of bits of the description.
    pub(super) bits: usize,
}

/// A symbol of the description: a code length, a repeat or a run of zeros.
#[derive(Clone, Copy)]
struct HeaderSymbol {
    symbol: u8,
    extra: u8,
    extra_bits: u8,
}

impl HeaderSymbol {
    fn new(symbol: u8, extra: usize, extra_bits: u8) -> Self {
        Self { symbol, extra: extra as u8, extra_bits }
    }
}

impl Header {
    pub(super) fn new(literals: &Code<LITERALS>, distances: &Code<30>) -> Self {
        let used = |lens: &[u8], least: usize| lens.iter().rposition(|&len| len > 0).map_or(0, |at| at + 1).max(least);
        let (literal_count, distance_count) = (used(&literals.lens, 257), used(&distances.lens, 1));
        let lens = [&literals.lens[..literal_count], &distances.lens[..distance_count]].concat();
        let mut symbols = Vec::with_capacity(lens.len());
        for run in lens.chunk_by(|a, b| a == b) {
            push_run(run[0], run.len(), &mut symbols);
        }
        let mut counts = [0; 19];
        for symbol in &symbols {
            counts[usize::from(symbol.symbol)] += 1;
        }
        let code = Code::new(&counts, MAX_HEADER_BITS);
        let ordered = HEADER_ORDER.map(|symbol| code.lens[symbol]);
        let header_count = used(&ordered, 4);
        let extra: usize = symbols.iter().map(|symbol| usize::from(symbol.extra_bits)).sum();
        let bits = 14 + 3 * header_count + code.bits(&counts) + extra;
        Self { sizes: [literal_count, distance_count, header_count], symbols, code, bits }
    }

    pub(super) fn write(&self, writer: &mut BitWriter<'_>) {
        let [literals, distances, header] = self.sizes;
        writer.put((literals - 257) as u64 | ((distances - 1) as u64) << 5 | ((header - 4) as u64) << 10, 14);
        for &symbol in &HEADER_ORDER[..header] {
            writer.put(u64::from(self.code.lens[symbol]), 3);
        }
        for symbol in &self.symbols {
            let (code, bits) = self.code.get(usize::from(symbol.symbol));
            writer.put(code | u64::from(symbol.extra) << bits, bits + u32::from(symbol.extra_bits));
        }
    }
}

/// Appends the symbols for `count` equal code lengths.
fn push_run(len: u8, mut count: usize, symbols: &mut Vec<HeaderSymbol>) {
    if len == 0 {
        while count >= 11 {
            let run = count.min(138);
            symbols.push(HeaderSymbol::new(MANY_ZEROS, run - 11, 7));
            count -= run;
        }
        if count >= 3 {
            symbols.push(HeaderSymbol::new(ZEROS, count - 3, 3));
            count = 0;
        }
    } else if count >= 4 {
        symbols.push(HeaderSymbol::new(len, 0, 0));
        count -= 1;
        while count >= 3 {
            let run = count.min(6);
            symbols.push(HeaderSymbol::new(REPEAT, run - 3, 2));
            count -= run;
        }
    }
    symbols.extend(std::iter::repeat_n(HeaderSymbol::new(len, 0, 0), count));
}
