//! The loop that decodes several streams at once.
//!
//! Each table look-up needs the bits that the previous look-up left, so the speed of a single stream is limited
//! by the latency of these loads. Streams are independent: the CPU executes a step of one lane while the loads
//! of the other lanes are pending.

use super::LANES;
use super::lane::{Lane, STEP_BITS, STEP_BYTES};
use super::table::{LITERAL, LITERAL_BITS, MAX_SHORT, Symbol, Tables};

/// Lanes with fewer remaining steps than this are decoded to their end one symbol at a time.
const FEW_STEPS: usize = 4;

/// The number of steps, after the current one, whose space a match of any length takes at most: 258 bytes, 1
/// byte before it and 15 bytes after it.
const LONG_STEPS: usize = 9;
const _: () = assert!(1 + 258 + 15 <= (LONG_STEPS + 1) * STEP_BYTES);

/// The number of bytes that a short match copies, whatever its length: one register of AVX2, or two of SSE2.
const COPY: usize = 32;

// What `step` relies on: a literal and a copy fit into the space of a step, and the 57 bits of a word hold 5
// literals, or a literal, a length and a distance of at most 8 bits with 13 extra bits.
const _: () = assert!(MAX_SHORT as usize <= COPY && 1 + COPY <= STEP_BYTES);
const _: () = assert!(5 * LITERAL_BITS <= 57 && 2 * LITERAL_BITS + 8 + 13 < 58);
// A literal, and a length of 20 bits and a distance of 28 bits that `long` decodes, advance by less than a step.
const _: () = assert!(LITERAL_BITS as usize + 20 + 28 < STEP_BITS);

/// The reason why the loop stopped.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    /// The loop does not handle the next symbol of a lane.
    Symbol(usize),
    /// A lane is near its end.
    NearEnd(usize),
    /// The lanes have advanced.
    Moved,
}

/// Decodes `lanes` by equal numbers of steps, until one of them needs other code.
pub(super) fn run(lanes: &mut [Lane<'_>], tables: &[Tables; LANES]) -> Event {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2") && is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has these instructions.
        return unsafe { run_avx2(lanes, tables) };
    }
    run_any(lanes, tables)
}

/// [`run_any`], compiled with shift instructions that take their count from any register, and with registers of
/// 32 bytes for copies.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2,avx2")]
fn run_avx2(lanes: &mut [Lane<'_>], tables: &[Tables; LANES]) -> Event {
    run_any(lanes, tables)
}

#[inline(always)]
fn run_any(lanes: &mut [Lane<'_>], tables: &[Tables; LANES]) -> Event {
    let mut steps = usize::MAX;
    for (number, lane) in lanes.iter().enumerate() {
        let own = lane.steps();
        if own < FEW_STEPS {
            return Event::NearEnd(number);
        }
        steps = steps.min(own);
    }
    match lanes {
        [a] => run_1([a], tables, steps),
        [a, b] => run_2([a, b], tables, steps),
        [a, b, c] => run_3([a, b, c], tables, steps),
        [a, b, c, d] => run_4([a, b, c, d], tables, steps),
        _ => Event::Moved,
    }
}

/// Returns eight bytes of a stream from the byte of `bit` on, without the bits before `bit`.
///
/// # Safety
/// The eight bytes must belong to a live slice whose address is exposed.
#[inline(always)]
unsafe fn word(bit: u64) -> u64 {
    let from = std::ptr::with_exposed_provenance::<[u8; 8]>((bit >> 3) as usize);
    // SAFETY: the caller guarantees the bytes, which need no alignment.
    let bytes = unsafe { *from };
    u64::from_le_bytes(bytes) >> (bit & 7)
}

/// Defines a loop over the named lanes. It stops with the index of a lane whose next symbol is neither a
/// literal nor a match.
macro_rules! interleaved {
    ($name:ident, $count:literal, $($lane:literal $bit:ident $out:ident $reach:ident),*) => {
        #[inline(always)]
        fn $name(lanes: [&mut Lane<'_>; $count], tables: &[Tables; LANES], mut steps: usize) -> Event {
            $(
                let ($bit, $out) = lanes[$lane].cursor();
                let (mut $bit, mut $out, $reach) = ($bit, $out, lanes[$lane].reach());
            )*
            let event = 'event: loop {
                if steps == 0 {
                    break Event::Moved;
                }
                steps -= 1;
                $(
                    // SAFETY: `Lane::steps` has computed for each lane how many steps are allowed.
                    match unsafe { step(&tables[$lane], $bit, $out, $reach) } {
                        (bit, out, true) => ($bit, $out) = (bit, out),
                        (bit, out, false) => {
                            ($bit, $out) = (bit, out);
                            if steps < LONG_STEPS {
                                break 'event Event::Symbol($lane);
                            }
                            // SAFETY: `LONG_STEPS` more steps are allowed.
                            match unsafe { long(&tables[$lane], bit, out, lanes[$lane].decoded(out)) } {
                                Some((bit, out, cost)) => {
                                    ($bit, $out) = (bit, out);
                                    steps -= cost;
                                }
                                None => break 'event Event::Symbol($lane),
                            }
                        }
                    }
                )*
            };
            $( lanes[$lane].advance(($bit, $out)); )*
            event
        }
    };
}

interleaved!(run_1, 1, 0 bit0 out0 reach0);
interleaved!(run_2, 2, 0 bit0 out0 reach0, 1 bit1 out1 reach1);
interleaved!(run_3, 3, 0 bit0 out0 reach0, 1 bit1 out1 reach1, 2 bit2 out2 reach2);
interleaved!(run_4, 4, 0 bit0 out0 reach0, 1 bit1 out1 reach1, 2 bit2 out2 reach2, 3 bit3 out3 reach3);

/// Decodes up to one literal and a short match, or up to five literals. Returns the new position of the lane,
/// and whether its next symbol requires other code.
///
/// # Safety
/// The 8 bytes from that of `bit` on must be readable, [`STEP_BYTES`] bytes from `out` on writable, and `reach` +
/// [`MAX_SHORT`] bytes before `out` must be decoded.
#[inline(always)]
unsafe fn step(tables: &Tables, bit: u64, out: *mut u8, reach: u32) -> (u64, *mut u8, bool) {
    // SAFETY: the caller guarantees it.
    let word = unsafe { word(bit) };
    // An entry that is not a literal consumes no bits here, so the next look-up finds the same entry.
    let first = tables.literal(word);
    // SAFETY: 1 of `STEP_BYTES`.
    unsafe { out.write((first >> 16) as u8) };
    let word = word >> (first & 63);
    let second = tables.literal(word);
    if second & LITERAL == 0 {
        let bit = bit + u64::from(first & 63);
        // SAFETY: advances by at most 1 of `STEP_BYTES`.
        let out = unsafe { out.add((first >> 6 & 1) as usize) };
        let used = second >> 9 & 63;
        let word = word >> used;
        let entry = tables.distance(word);
        let distance = (entry >> 16) + ((word & !(u64::MAX << (entry & 63))) >> (entry >> 8 & 63)) as u32;
        let length = second >> 16;
        if distance.wrapping_sub(length) > reach {
            return (bit, out, false);
        }
        // SAFETY: the test excludes every symbol except a match of at most `MAX_SHORT` bytes, at a distance of at
        // least its length and at most `reach` + `MAX_SHORT` bytes. So all bytes of the match are decoded. The copy
        // has a fixed length: it reads initialised bytes of the slice, and writes 33 of `STEP_BYTES`.
        let out = unsafe {
            let bytes = out.sub(distance as usize).cast::<[u8; COPY]>().read();
            out.cast::<[u8; COPY]>().write(bytes);
            out.add(length as usize)
        };
        (bit + u64::from(used + (entry & 63)), out, true)
    } else {
        // The first entry is a literal too, because otherwise the second would not be one. After the first
        // entry that is not a literal, every look-up returns that entry again, consumes no bits and adds
        // nothing to the count. 5 literals of 11 bits are fewer than the 57 bits of a word.
        let mut sum = first + second;
        let mut word = word >> (second & 63);
        // SAFETY: 5 of `STEP_BYTES`.
        unsafe {
            out.add(1).write((second >> 16) as u8);
            for place in 2..5 {
                let entry = tables.literal(word);
                out.add(place).write((entry >> 16) as u8);
                sum = sum.wrapping_add(entry);
                word >>= entry & 63;
            }
            (bit + u64::from(sum & 63), out.add((sum >> 6 & 7) as usize), true)
        }
    }
}

/// Decodes a symbol that [`step`] does not handle: a literal with a long code, or any match. Returns the new
/// position of the lane and the number of steps whose space it took, or `None` if the symbol is neither.
///
/// # Safety
/// The 8 bytes from that of `bit` on must be readable, the 273 bytes from `out` on writable, and `decoded` bytes
/// before `out` must be decoded.
#[cold]
#[inline(never)]
unsafe fn long(tables: &Tables, bit: u64, out: *mut u8, decoded: usize) -> Option<(u64, *mut u8, usize)> {
    // SAFETY: the caller guarantees it.
    let word = unsafe { word(bit) };
    let (symbol, bits) = tables.symbol(word);
    match symbol {
        Symbol::Literal(byte) => {
            // SAFETY: 1 of 273 bytes.
            unsafe { out.write(byte) };
            Some((bit + u64::from(bits), out.wrapping_add(1), 0))
        }
        Symbol::Length(length) => {
            let (distance, more) = tables.full_distance(word >> bits)?;
            if distance > decoded {
                return None;
            }
            // SAFETY: the distance is at least 1, the length at most 258, and `decoded` bytes precede `out`.
            unsafe { repeat(out, distance, length) };
            Some((bit + u64::from(bits + more), out.wrapping_add(length), length / STEP_BYTES))
        }
        Symbol::EndOfBlock | Symbol::Invalid => None,
    }
}

/// Copies `length` bytes from `distance` bytes before `out` to `out`. If the distance is shorter than the
/// length, the copy repeats the bytes in between.
///
/// # Safety
/// `distance` is at least 1, that many bytes before `out` are decoded, and `length` + 15 bytes from `out` on are
/// writable.
#[inline(always)]
unsafe fn repeat(out: *mut u8, distance: usize, length: usize) {
    let from = out.wrapping_sub(distance);
    if distance >= 16 {
        let mut at = 0;
        while at < length {
            // SAFETY: reads 16 bytes that end at most at `out` + `at`, which are decoded or were written by an
            // earlier turn, and writes at most 15 bytes past the length.
            unsafe {
                let bytes = from.add(at).cast::<[u8; 16]>().read();
                out.add(at).cast::<[u8; 16]>().write(bytes);
            }
            at += 16;
        }
        return;
    }
    // SAFETY: the 16 bytes begin in decoded bytes and end at most 15 bytes after `out`, in writable memory,
    // which is initialised because it belongs to a slice.
    let bytes = u128::from_le_bytes(unsafe { from.cast::<[u8; 16]>().read() });
    let mut pattern = bytes & !(u128::MAX << (distance * 8));
    let mut width = distance;
    while width < 16 {
        pattern |= pattern << (width * 8);
        width *= 2;
    }
    let pattern = pattern.to_le_bytes();
    // The largest multiple of the distance, so that each write continues the pattern.
    let stride = 16 - 16 % distance;
    let mut at = 0;
    while at < length {
        // SAFETY: writes at most 15 bytes past the length.
        unsafe { out.add(at).cast::<[u8; 16]>().write(pattern) };
        at += stride;
    }
}
