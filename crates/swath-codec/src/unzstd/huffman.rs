//! Literals that are coded with a Huffman code.

use super::Refused;
use super::bits::{Backward, WORD_BITS};
use super::fse;
use crate::memory;

/// The longest code that this decoder accepts, as in RFC 8878.
const MAX_BITS: u32 = 11;
/// The number of symbols that are decoded with one word.
const AT_ONCE: usize = 5;
const _: () = assert!(AT_ONCE as u32 * MAX_BITS < WORD_BITS);

/// The limits of the code that compresses the weights.
const WEIGHTS_LOG: u32 = 6;
const MAX_WEIGHTS: usize = 255;

/// A Huffman code.
pub(super) struct Huffman {
    /// For each value of the next [`MAX_BITS`] bits: a symbol in the high byte, the length of its code in the low byte.
    table: Box<[u16; 1 << MAX_BITS]>,
    is_set: bool,
}

impl Huffman {
    /// Creates a code that is not set, or returns `None` if the system does not have the memory.
    pub(super) fn try_new() -> Option<Self> {
        Some(Self { table: memory::boxed(|| 0)?, is_set: false })
    }

    /// Forgets what the last frame has set.
    pub(super) fn clear(&mut self) {
        self.is_set = false;
    }

    pub(super) fn is_set(&self) -> bool {
        self.is_set
    }

    /// Reads a code that is described at `src[at..]`, and returns the end of the description.
    pub(super) fn read(&mut self, src: &[u8], at: usize) -> Result<usize, Refused> {
        self.is_set = false;
        let header = usize::from(*src.get(at).ok_or(Refused)?);
        let mut weights = [0_u8; MAX_WEIGHTS + 1];
        let (count, after) = if header < 128 {
            let after = at + 1 + header;
            let described = src.get(..after).ok_or(Refused)?;
            (compressed_weights(described, at + 1, &mut weights)?, after)
        } else {
            let count = header - 127;
            let after = at + 1 + count.div_ceil(2);
            let packed = src.get(at + 1..after).ok_or(Refused)?;
            for (i, weight) in weights[..count].iter_mut().enumerate() {
                *weight = if i % 2 == 0 { packed[i / 2] >> 4 } else { packed[i / 2] & 15 };
            }
            (count, after)
        };
        self.set(&mut weights, count)?;
        Ok(after)
    }

    /// Makes the table for the weights of the first `count` symbols. The weight of the symbol after them follows from
    /// theirs.
    fn set(&mut self, weights: &mut [u8; MAX_WEIGHTS + 1], count: usize) -> Result<(), Refused> {
        let mut sum = 0_u32;
        for weight in &weights[..count] {
            if u32::from(*weight) > MAX_BITS {
                return Err(Refused);
            }
            sum += (1 << *weight) >> 1;
        }
        if sum == 0 {
            return Err(Refused);
        }
        let bits = sum.ilog2() + 1;
        let rest = (1 << bits) - sum;
        if bits > MAX_BITS || !rest.is_power_of_two() {
            return Err(Refused);
        }
        weights[count] = (rest.ilog2() + 1) as u8;
        let weights = &weights[..=count];
        let longest = weights.iter().filter(|weight| **weight == 1).count();
        if longest < 2 || longest % 2 != 0 {
            return Err(Refused);
        }
        // Lower weights, that is longer codes, come first, and equal weights in the order of the symbols.
        let mut at = 0;
        for weight in 1..=bits as u8 {
            let length = bits as u8 + 1 - weight;
            let cells = 1_usize << (MAX_BITS - u32::from(length));
            for (symbol, _) in weights.iter().enumerate().filter(|(_, own)| **own == weight) {
                // The cells of all symbols are 2^MAX_BITS together, because the weights sum up to a power of two.
                self.table[at..at + cells].fill((symbol as u16) << 8 | u16::from(length));
                at += cells;
            }
        }
        self.is_set = true;
        Ok(())
    }

    /// Decodes one stream, `src[start..]`, until `dst` is full.
    pub(super) fn decode(&self, src: &[u8], start: usize, dst: &mut [u8]) -> Result<(), Refused> {
        self.finish(Backward::open(src, start..src.len())?, dst)
    }

    /// Decodes the rest of a stream, which must end with `dst`.
    fn finish(&self, mut bits: Backward<'_>, dst: &mut [u8]) -> Result<(), Refused> {
        for symbol in dst {
            let entry = self.table[bits.peek(MAX_BITS) as usize];
            bits.read(u32::from(entry as u8))?;
            *symbol = (entry >> 8) as u8;
        }
        if bits.is_empty() { Ok(()) } else { Err(Refused) }
    }

    /// Decodes four streams in `src[start..]`, each to a quarter of `dst`. The sizes of the first three come before them.
    pub(super) fn decode_four(&self, src: &[u8], start: usize, dst: &mut [u8]) -> Result<(), Refused> {
        let sizes = src.get(start..start + 6).ok_or(Refused)?;
        let size = |i: usize| usize::from(u16::from_le_bytes([sizes[2 * i], sizes[2 * i + 1]]));
        let quarter = dst.len().div_ceil(4);
        if dst.len() < 6 || 3 * quarter > dst.len() {
            return Err(Refused);
        }
        let first = start + 6;
        let (second, third) = (first + size(0), first + size(0) + size(1));
        let fourth = third + size(2);
        if fourth > src.len() {
            return Err(Refused);
        }
        let mut streams = [
            Backward::open(src, first..second)?,
            Backward::open(src, second..third)?,
            Backward::open(src, third..fourth)?,
            Backward::open(src, fourth..src.len())?,
        ];
        let (a, rest) = dst.split_at_mut(quarter);
        let (b, rest) = rest.split_at_mut(quarter);
        let (c, d) = rest.split_at_mut(quarter);
        let mut outputs = [a, b, c, d];
        self.decode_together(&mut streams, &mut outputs)?;
        streams.into_iter().zip(outputs).try_for_each(|(bits, dst)| self.finish(bits, dst))
    }

    /// Decodes the most of four streams: their look-ups overlap. Leaves the rest of `outputs`.
    fn decode_together(&self, streams: &mut [Backward<'_>; 4], outputs: &mut [&mut [u8]; 4]) -> Result<(), Refused> {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2") {
            // SAFETY: the CPU has these instructions.
            return unsafe { self.decode_together_bmi2(streams, outputs) };
        }
        self.decode_together_any(streams, outputs)
    }

    /// [`decode_together_any`](Self::decode_together_any), compiled with shift instructions that take their count from
    /// any register.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "bmi1,bmi2")]
    fn decode_together_bmi2(
        &self,
        streams: &mut [Backward<'_>; 4],
        outputs: &mut [&mut [u8]; 4],
    ) -> Result<(), Refused> {
        self.decode_together_any(streams, outputs)
    }

    #[inline(always)]
    fn decode_together_any(
        &self,
        streams: &mut [Backward<'_>; 4],
        outputs: &mut [&mut [u8]; 4],
    ) -> Result<(), Refused> {
        let mut written = 0;
        loop {
            // As many rounds as the shortest output and the shortest stream allow, whatever the lengths of the codes.
            let space = outputs.iter().map(|dst| dst.len()).min().unwrap_or(0) - written;
            let bits = streams.iter().map(Backward::left).min().unwrap_or(0);
            let rounds = (space / AT_ONCE).min(bits / (AT_ONCE * MAX_BITS as usize));
            if rounds == 0 {
                break;
            }
            let [a, b, c, d] = outputs.each_mut().map(|dst| dst[written..written + rounds * AT_ONCE].as_chunks_mut().0);
            let mut at = streams.each_ref().map(|bits| bits.position().2);
            let input = streams[0].position().0;
            for (((a, b), c), d) in a.iter_mut().zip(b).zip(c).zip(d) {
                // SAFETY: the rounds are so many that each begins in its stream.
                unsafe {
                    at[0] = self.symbols(input, at[0], a);
                    at[1] = self.symbols(input, at[1], b);
                    at[2] = self.symbols(input, at[2], c);
                    at[3] = self.symbols(input, at[3], d);
                }
            }
            for (bits, at) in streams.iter_mut().zip(at) {
                bits.set_position(at)?;
            }
            written += rounds * AT_ONCE;
        }
        for dst in outputs {
            *dst = &mut std::mem::take(dst)[written..];
        }
        Ok(())
    }

    /// Decodes [`AT_ONCE`] symbols that lie before bit `at` of `input`, and returns the bit before which the rest lies.
    ///
    /// # Safety
    /// `at` must lie in a stream of `input`, before which [`Backward::open`] requires 8 bytes.
    #[inline(always)]
    unsafe fn symbols(&self, input: &[u8], at: usize, dst: &mut [u8; AT_ONCE]) -> usize {
        // SAFETY: the caller guarantees that the byte of `at` and the seven before it are in the slice.
        let bytes = unsafe { input.as_ptr().add(at / 8 - 7).cast::<[u8; 8]>().read() };
        // The lowest bit is free, because at most 63 bits are unread. Its place tells how many bits were read.
        let mut word = u64::from_le_bytes(bytes) << (8 - at % 8) | 1;
        for symbol in dst {
            let entry = self.table[(word >> (64 - MAX_BITS)) as usize];
            *symbol = (entry >> 8) as u8;
            word <<= entry & 63;
        }
        at - word.trailing_zeros() as usize
    }
}

/// Decodes the weights in `src[start..]`, which are compressed with two alternating states, and returns their number.
fn compressed_weights(src: &[u8], start: usize, weights: &mut [u8; MAX_WEIGHTS + 1]) -> Result<usize, Refused> {
    let mut counts = [0_i16; 256];
    let (symbols, log, read) = fse::read_counts(&src[start..], &mut counts, 255, WEIGHTS_LOG)?;
    let mut spread = [0_u8; 1 << WEIGHTS_LOG];
    fse::spread(&counts[..symbols], log, &mut spread);
    let mut next = counts.map(i16::unsigned_abs);
    let states: [(u8, u16, u8); 1 << WEIGHTS_LOG] = std::array::from_fn(|i| {
        if i >> log != 0 {
            return (0, 0, 0);
        }
        let (base, bits) = fse::next_state(&mut next[usize::from(spread[i])], log);
        (spread[i], base, bits)
    });
    let mut bits = Backward::open(src, start + read..src.len())?;
    let mut now = [bits.read(log)? as usize, bits.read(log)? as usize];
    for count in 0..MAX_WEIGHTS {
        let (weight, base, width) = states[now[count % 2]];
        weights[count] = weight;
        match bits.read(u32::from(width)) {
            Ok(low) => now[count % 2] = usize::from(base) + low as usize,
            // The stream ends with a state that needs more bits than are left. The other state gives the last weight.
            Err(Refused) if count + 1 < MAX_WEIGHTS => {
                weights[count + 1] = states[now[(count + 1) % 2]].0;
                return Ok(count + 2);
            }
            Err(Refused) => return Err(Refused),
        }
    }
    Err(Refused)
}
