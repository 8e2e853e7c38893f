//! Tables of finite state entropy, which code the lengths and offsets of sequences.

use super::Refused;
use super::bits::Forward;

/// The largest binary logarithm of a table's size that the format allows for sequences.
pub(super) const MAX_LOG: u32 = 9;

/// What a state of a decoder means, in one word: a symbol's base value (32 bits), the base of the next state (16
/// bits), the number of extra bits of the value (8 bits), and the number of bits of the next state (8 bits).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Entry(u64);

impl Entry {
    fn new(base: u32, next: u16, extra_bits: u8, state_bits: u8) -> Self {
        Self(u64::from(base) << 32 | u64::from(next) << 16 | u64::from(extra_bits) << 8 | u64::from(state_bits))
    }

    #[inline(always)]
    pub(super) fn base(self) -> usize {
        (self.0 >> 32) as usize
    }

    #[inline(always)]
    pub(super) fn next(self) -> usize {
        usize::from((self.0 >> 16) as u16)
    }

    #[inline(always)]
    pub(super) fn extra_bits(self) -> u32 {
        u32::from((self.0 >> 8) as u8)
    }

    #[inline(always)]
    pub(super) fn state_bits(self) -> u32 {
        u32::from(self.0 as u8)
    }

    /// A number whose lowest byte is [`extra_bits`](Self::extra_bits).
    #[inline(always)]
    pub(super) fn extra_bits_and_more(self) -> u32 {
        self.0 as u32 >> 8
    }

    /// A number whose lowest byte is [`state_bits`](Self::state_bits).
    #[inline(always)]
    pub(super) fn state_bits_and_more(self) -> u32 {
        self.0 as u32
    }

    /// Whether one of two entries has extra bits.
    #[inline(always)]
    pub(super) fn has_extra_bits(self, other: Entry) -> bool {
        (self.0 | other.0) & 0xFF00 != 0
    }

    /// The number of bits of three entries.
    #[inline(always)]
    pub(super) fn total_bits(entries: [Entry; 3]) -> u32 {
        // Neither of the two low bytes overflows: an entry has at most 31 extra bits and 9 bits of a state.
        let sum = entries[0].0.wrapping_add(entries[1].0).wrapping_add(entries[2].0);
        u32::from(sum as u8) + u32::from((sum >> 8) as u8)
    }
}

/// The value that a symbol stands for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value {
    pub(super) base: u32,
    pub(super) extra_bits: u8,
}

/// A table, and whether a block has set it.
pub(super) struct Table {
    entries: [Entry; 1 << MAX_LOG],
    /// The binary logarithm of the number of states.
    log: u32,
    is_set: bool,
}

impl Default for Table {
    fn default() -> Self {
        Self { entries: [Entry::default(); 1 << MAX_LOG], log: 0, is_set: false }
    }
}

impl Table {
    /// Forgets what the last frame has set.
    pub(super) fn clear(&mut self) {
        self.is_set = false;
    }

    pub(super) fn is_set(&self) -> bool {
        self.is_set
    }

    /// The binary logarithm of the number of states.
    pub(super) fn log(&self) -> u32 {
        self.log
    }

    /// Looks up a state.
    ///
    /// # Safety
    /// The state must be below 2^[`MAX_LOG`]. States of [`log`](Self::log) bits are, and so are the states that follow from
    /// an entry: their base is at most 2^`log` minus 2^bits, where bits is the number of bits that are added to it.
    #[inline(always)]
    pub(super) unsafe fn entry(&self, state: usize) -> Entry {
        debug_assert!(state < 1 << MAX_LOG);
        // SAFETY: the caller guarantees that the state has an entry.
        unsafe { *self.entries.get_unchecked(state) }
    }

    /// Makes the table of one state, which always gives one value.
    pub(super) fn set_constant(&mut self, value: Value) {
        self.entries[0] = Entry::new(value.base, 0, value.extra_bits, 0);
        (self.log, self.is_set) = (0, true);
    }

    /// Makes the table of 2^`log` states for symbols with these counts, whose sum is the number of states. A count of
    /// -1 is a symbol that is less likely than a single state.
    pub(super) fn set(&mut self, counts: &[i16], log: u32, value: impl Fn(usize) -> Value) {
        let mut symbols = [0_u8; 1 << MAX_LOG];
        spread(counts, log, &mut symbols);
        let mut states = [0_u16; 256];
        for (symbol, count) in counts.iter().enumerate() {
            states[symbol] = count.unsigned_abs();
        }
        let size = 1_usize << log;
        for (entry, symbol) in self.entries[..size].iter_mut().zip(symbols) {
            let (next, state_bits) = next_state(&mut states[usize::from(symbol)], log);
            let Value { base, extra_bits } = value(usize::from(symbol));
            *entry = Entry::new(base, next, extra_bits, state_bits);
        }
        (self.log, self.is_set) = (log, true);
    }
}

/// Takes the next of a symbol's states: the base of the states after it, and the number of bits that select one.
pub(super) fn next_state(state: &mut u16, log: u32) -> (u16, u8) {
    let bits = log - state.ilog2();
    let base = (u32::from(*state) << bits) - (1 << log);
    *state += 1;
    // At most 2^9 states.
    (base as u16, bits as u8)
}

/// Distributes symbols over the states of a table.
pub(super) fn spread(counts: &[i16], log: u32, symbols: &mut [u8]) {
    let size = 1_usize << log;
    let mut end = size;
    for (symbol, _) in counts.iter().enumerate().filter(|(_, count)| **count == -1) {
        end -= 1;
        symbols[end] = symbol as u8;
    }
    let (step, mask) = ((size >> 1) + (size >> 3) + 3, size - 1);
    let mut at = 0;
    for (symbol, count) in counts.iter().enumerate() {
        for _ in 0..(*count).max(0) {
            symbols[at] = symbol as u8;
            at = (at + step) & mask;
            while at >= end {
                at = (at + step) & mask;
            }
        }
    }
}

/// Reads the counts of a table of at most 2^`max_log` states for symbols up to `max_symbol`. Returns the number of
/// symbols, the binary logarithm of the number of states, and the number of bytes of `src` that were read.
pub(super) fn read_counts(
    src: &[u8],
    counts: &mut [i16; 256],
    max_symbol: usize,
    max_log: u32,
) -> Result<(usize, u32, usize), Refused> {
    let mut bits = Forward::new(src);
    let log = bits.peek(4) + 5;
    bits.skip(4);
    if log > max_log {
        return Err(Refused);
    }
    // One more than the states that are left, and the smallest power of two that is not above it.
    let (mut left, mut threshold, mut width) = ((1_i32 << log) + 1, 1_i32 << log, log + 1);
    let mut symbol = 0;
    while left > 1 {
        if symbol > max_symbol {
            return Err(Refused);
        }
        let short = 2 * threshold - 1 - left;
        let low = bits.peek(width - 1) as i32;
        let count = if low < short {
            bits.skip(width - 1);
            low
        } else {
            let value = bits.peek(width) as i32;
            bits.skip(width);
            if value >= threshold { value - short } else { value }
        } - 1;
        left -= count.abs();
        // At most 2^9.
        counts[symbol] = count as i16;
        symbol += 1;
        while left < threshold && threshold > 1 {
            threshold >>= 1;
            width -= 1;
        }
        if count == 0 {
            loop {
                let zeros = bits.peek(2) as usize;
                bits.skip(2);
                let end = symbol + zeros;
                if end > max_symbol + 1 {
                    return Err(Refused);
                }
                counts[symbol..end].fill(0);
                symbol = end;
                if zeros < 3 {
                    break;
                }
            }
        }
    }
    if left != 1 {
        return Err(Refused);
    }
    Ok((symbol, log, bits.bytes_read()?))
}
