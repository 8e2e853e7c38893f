//! Sequences: a number of literals, and a match, which copies bytes that are already decoded.
//!
//! One sequence takes three look-ups. Each gives one of the values and the base of the next state; the bits of both
//! are read from one word. The position in the stream and the limits of the copies are checked once per sequence.

use super::bits::{Backward, WORD_BITS};
use super::fse::{Entry, MAX_LOG};
use super::{Refused, SLACK, Tables};

/// The largest number of bits of an offset. The window that this decoder accepts needs no more.
pub(super) const MAX_OFFSET_BITS: u32 = 28;

const _: () = assert!(MAX_OFFSET_BITS <= WORD_BITS && MAX_LOG <= WORD_BITS);

/// The number of bytes that a short copy writes, whatever its length.
const COPY: usize = 16;
const _: () = assert!(2 * COPY <= SLACK);

/// The last three offsets, none of which is 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offsets([usize; 3]);

impl Default for Offsets {
    fn default() -> Self {
        Self([1, 4, 8])
    }
}

impl Offsets {
    /// Notes an offset that is none of the last.
    #[inline(always)]
    fn push(self, offset: usize) -> Self {
        let [first, second, _] = self.0;
        Self([offset, first, second])
    }

    /// Takes one of the last offsets: `value` is 0 for the first, 1 or 2. After no literals, it is one more, and 3 means the
    /// first minus 1.
    #[inline(always)]
    fn repeat(self, value: usize, literals: usize) -> Self {
        let [first, second, third] = self.0;
        match value + usize::from(literals == 0) {
            0 => self,
            1 => Self([second, first, third]),
            2 => self.push(third),
            // There is no offset of 0. The largest number is refused when it is used.
            _ => self.push(first.checked_sub(2).map_or(usize::MAX, |offset| offset + 1)),
        }
    }

    /// The offset of a sequence with an offset of this entry and these extra bits becomes the first.
    #[inline(always)]
    fn next(self, entry: Entry, extra: usize, literals: usize) -> Self {
        if entry.extra_bits() > 1 {
            self.push(entry.base() + extra)
        } else {
            self.repeat(entry.extra_bits() as usize + extra, literals)
        }
    }
}

/// How far the output of a block is.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The number of decoded bytes of the frame.
    len: usize,
    /// The number of literals of the block that are used.
    used: usize,
}

/// The decoded bytes of a frame, and the literals of a block that are not yet among them.
#[derive(Debug)]
pub(super) struct Output<'a> {
    dst: &'a mut [u8],
    /// The literals and, after them, [`SLACK`] bytes.
    literals: &'a [u8],
    place: Place,
}

impl<'a> Output<'a> {
    /// Continues after `len` decoded bytes. `literals` ends with [`SLACK`] bytes that are none.
    pub(super) fn new(dst: &'a mut [u8], len: usize, literals: &'a [u8]) -> Self {
        Self { dst, literals, place: Place { len, used: 0 } }
    }

    /// Appends the other literals, and returns the number of decoded bytes.
    pub(super) fn finish(mut self) -> Result<usize, Refused> {
        self.append_literals(self.literals.len() - SLACK - self.place.used)?;
        Ok(self.place.len)
    }

    fn append_literals(&mut self, count: usize) -> Result<(), Refused> {
        let Place { len, used } = self.place;
        if count > self.literals.len() - SLACK - used {
            return Err(Refused);
        }
        let dst = self.dst.get_mut(len..len + count).ok_or(Refused)?;
        dst.copy_from_slice(&self.literals[used..used + count]);
        self.place = Place { len: len + count, used: used + count };
        Ok(())
    }

    /// Executes a sequence, and writes no byte after it.
    #[cold]
    #[inline(never)]
    fn append_exactly(&mut self, literals: usize, matched: usize, offset: usize) -> Result<(), Refused> {
        self.append_literals(literals)?;
        let (len, end) = (self.place.len, self.place.len + matched);
        if offset > len || end > self.dst.len() {
            return Err(Refused);
        }
        for to in len..end {
            self.dst[to] = self.dst[to - offset];
        }
        self.place.len = end;
        Ok(())
    }

    /// The pointers for fast copies.
    fn cursor(&mut self) -> Cursor {
        let Place { len, used } = self.place;
        let start = self.dst.as_mut_ptr();
        let literals = self.literals.as_ptr();
        // If the slice is shorter than SLACK, no sequence is copied fast.
        let end = start.wrapping_add(self.dst.len().saturating_sub(SLACK));
        Cursor {
            start,
            to: start.wrapping_add(len),
            end,
            literal: literals.wrapping_add(used),
            literals_end: literals.wrapping_add(self.literals.len() - SLACK),
        }
    }

    /// Continues where the fast copies have ended.
    fn set_cursor(&mut self, cursor: &Cursor) {
        let len = cursor.to.addr() - self.dst.as_ptr().addr();
        self.place = Place { len, used: cursor.literal.addr() - self.literals.as_ptr().addr() };
    }

    /// Executes a sequence that is not copied fast.
    #[cold]
    #[inline(never)]
    fn append_at(&mut self, cursor: Cursor, literals: usize, matched: usize, offset: usize) -> Result<Cursor, Refused> {
        self.set_cursor(&cursor);
        self.append_exactly(literals, matched, offset)?;
        Ok(self.cursor())
    }
}

/// The place of an [`Output`], as pointers.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    /// The first decoded byte.
    start: *mut u8,
    /// The place of the next byte.
    to: *mut u8,
    /// The end of the output without its last [`SLACK`] bytes.
    end: *mut u8,
    /// The next literal.
    literal: *const u8,
    /// The end of the literals, after which [`SLACK`] bytes follow.
    literals_end: *const u8,
}

impl Cursor {
    /// Executes a sequence with copies that may write too much. Returns whether it could.
    ///
    /// # Safety
    /// The pointers must be those of a live [`Output`].
    #[inline(always)]
    unsafe fn append(&mut self, literals: usize, matched: usize, offset: usize) -> bool {
        let literal_end = self.literal.wrapping_add(literals);
        let from = self.to.wrapping_add(literals);
        let end = from.wrapping_add(matched);
        let decoded = from.addr() - self.start.addr();
        // The lengths are below 2^18, so that no pointer wraps.
        if literal_end > self.literals_end || end > self.end || offset > decoded {
            return false;
        }
        // SAFETY: the literals and SLACK bytes after them are readable. `end` and SLACK bytes after it are in the output,
        // and `offset` is 1 to `decoded`. The copies write and read up to 15 bytes more than they are asked for.
        unsafe {
            copy_16(self.literal, self.to);
            if literals > COPY {
                copy_far(self.literal.add(COPY), self.to.add(COPY), literals - COPY);
            }
            if matched <= COPY && offset >= COPY {
                copy_16(from.sub(offset), from);
            } else {
                copy_match(from, offset, matched);
            }
        }
        self.literal = literal_end;
        self.to = end;
        true
    }
}

/// # Safety
/// 8 bytes must be readable at `from` and writable at `to`.
#[inline(always)]
unsafe fn copy_8(from: *const u8, to: *mut u8) {
    // SAFETY: the caller guarantees it. The bytes are read before they are written, so that the places may overlap.
    unsafe { to.cast::<[u8; 8]>().write(from.cast::<[u8; 8]>().read()) }
}

/// # Safety
/// 16 bytes must be readable at `from` and writable at `to`.
#[inline(always)]
unsafe fn copy_16(from: *const u8, to: *mut u8) {
    // SAFETY: as in `copy_8`.
    unsafe { to.cast::<[u8; 16]>().write(from.cast::<[u8; 16]>().read()) }
}

/// Copies `count` bytes in steps of 16.
///
/// # Safety
/// `count` + 15 bytes must be readable at `from` and writable at `to`, and `to` must not lie 1 to 15 bytes after `from`.
#[inline(never)]
unsafe fn copy_far(from: *const u8, to: *mut u8, count: usize) {
    let mut at = 0;
    while at < count {
        // SAFETY: `at` is less than `count`.
        unsafe { copy_16(from.add(at), to.add(at)) };
        at += 16;
    }
}

/// Copies the `count` bytes that begin `offset` bytes before `to`.
///
/// # Safety
/// `offset` is at least 1, and so many bytes before `to` are readable. `count` + 15 bytes must be writable at `to`.
#[inline(never)]
unsafe fn copy_match(to: *mut u8, offset: usize, count: usize) {
    // SAFETY: the caller guarantees the bytes before `to`, and each step reads only those and bytes that are written
    // before. The last step writes at most 15 bytes after `count`, and the first 8 bytes fit because 15 may follow.
    unsafe {
        if offset >= 16 {
            return copy_far(to.sub(offset), to, count);
        }
        // After 8 bytes, the pattern also repeats after a multiple of the offset that is at least 8.
        let (mut at, distance) = if offset < 8 {
            for i in 0..8 {
                *to.add(i) = *to.add(i).sub(offset);
            }
            (8, offset * 8_usize.div_ceil(offset))
        } else {
            (0, offset)
        };
        while at < count {
            copy_8(to.add(at).sub(distance), to.add(at));
            at += 8;
        }
    }
}

/// The states of the three decoders.
#[derive(Debug, Clone, Copy)]
struct States {
    literals: usize,
    offsets: usize,
    matches: usize,
}

/// Decodes and executes the `count` sequences whose bits are `src[start..]`.
pub(super) fn decode(
    src: &[u8],
    start: usize,
    count: usize,
    tables: &Tables,
    offsets: &mut Offsets,
    output: &mut Output<'_>,
) -> Result<(), Refused> {
    let mut bits = Backward::open(src, start..src.len())?;
    let mut states = States {
        literals: bits.read(tables.literals.log())? as usize,
        offsets: bits.read(tables.offsets.log())? as usize,
        matches: bits.read(tables.matches.log())? as usize,
    };
    run(&mut bits, count - 1, tables, &mut states, offsets, output)?;
    // No states come after the last sequence.
    // SAFETY: the states were read with the bits of the tables, or follow from entries.
    let (literals, offset, matched) = unsafe { states.look_up(tables) };
    let extra = extra(&mut bits, literals, offset, matched)?;
    let literals = literals.base() + extra.literals;
    *offsets = offsets.next(offset, extra.offset, literals);
    output.append_exactly(literals, matched.base() + extra.matched, offsets.0[0])?;
    if bits.is_empty() { Ok(()) } else { Err(Refused) }
}

fn run(
    bits: &mut Backward<'_>,
    count: usize,
    tables: &Tables,
    states: &mut States,
    offsets: &mut Offsets,
    output: &mut Output<'_>,
) -> Result<(), Refused> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2") {
        // SAFETY: the CPU has these instructions.
        return unsafe { run_bmi2(bits, count, tables, states, offsets, output) };
    }
    run_any(bits, count, tables, states, offsets, output, |value, count| value & ((1 << (count as u8)) - 1))
}

/// [`run_any`], compiled with instructions that shift by, and keep, a number of bits that is the lowest byte of any
/// register.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2")]
fn run_bmi2(
    bits: &mut Backward<'_>,
    count: usize,
    tables: &Tables,
    states: &mut States,
    offsets: &mut Offsets,
    output: &mut Output<'_>,
) -> Result<(), Refused> {
    run_any(bits, count, tables, states, offsets, output, |value, count| std::arch::x86_64::_bzhi_u64(value, count))
}

/// Decodes and executes `count` sequences, each of which is followed by the next states. `keep` returns the low bits of a
/// value, so many as the lowest byte of its second argument says.
#[inline(always)]
fn run_any(
    stream: &mut Backward<'_>,
    count: usize,
    tables: &Tables,
    states: &mut States,
    offsets: &mut Offsets,
    output: &mut Output<'_>,
    keep: impl Fn(u64, u32) -> u64,
) -> Result<(), Refused> {
    let (src, start, mut at) = stream.position();
    let (mut now, mut last, mut cursor) = (*states, *offsets, output.cursor());
    let mut left = count;
    while left > 0 {
        // So many sequences begin at or after `start`, whatever they are, because none takes more than a word.
        let safe = at.checked_sub(start).ok_or(Refused)? / WORD_BITS as usize + 1;
        for _ in 0..safe.min(left) {
            left -= 1;
            // SAFETY: the first states were read with the bits of the tables, and the others follow from entries.
            let (literals, offset, matched) = unsafe { now.look_up(tables) };
            let total = Entry::total_bits([literals, offset, matched]);
            let is_long = total > WORD_BITS;
            let mut extra = Extra { literals: 0, offset: 0, matched: 0 };
            if is_long {
                (at, now, extra) = long(*stream, at, literals, offset, matched)?;
            } else {
                // SAFETY: `at` is at least `start`, before which `Backward::open` requires 8 bytes, and lies before the end
                // of the slice, because it only decreases.
                let word = u64::from_le_bytes(unsafe { src.as_ptr().add(at / 8 - 7).cast::<[u8; 8]>().read() });
                // Only the lowest byte counts.
                let mut unread = WORD_BITS + at as u32 % 8;
                let mut take = |bits: u32| {
                    unread = unread.wrapping_sub(bits);
                    keep(word >> (unread & 63), bits) as usize
                };
                extra.offset = take(offset.extra_bits_and_more());
                if literals.has_extra_bits(matched) {
                    extra.matched = take(matched.extra_bits_and_more());
                    extra.literals = take(literals.extra_bits_and_more());
                }
                now.literals = literals.next() + take(literals.state_bits_and_more());
                now.matches = matched.next() + take(matched.state_bits_and_more());
                now.offsets = offset.next() + take(offset.state_bits_and_more());
                at -= total as usize;
            }
            let literals = literals.base() + extra.literals;
            let matched = matched.base() + extra.matched;
            last = last.next(offset, extra.offset, literals);
            // SAFETY: the cursor is that of `output`, which is borrowed exclusively here.
            if !unsafe { cursor.append(literals, matched, last.0[0]) } {
                cursor = output.append_at(cursor, literals, matched, last.0[0])?;
            }
            if is_long {
                break;
            }
        }
    }
    stream.set_position(at)?;
    output.set_cursor(&cursor);
    (*states, *offsets) = (now, last);
    Ok(())
}

impl States {
    /// Looks up the states: lengths of literals, offsets and lengths of matches.
    ///
    /// # Safety
    /// As for [`Table::entry`](super::fse::Table::entry).
    #[inline(always)]
    unsafe fn look_up(&self, tables: &Tables) -> (Entry, Entry, Entry) {
        // SAFETY: the caller guarantees it.
        unsafe {
            (
                tables.literals.entry(self.literals),
                tables.offsets.entry(self.offsets),
                tables.matches.entry(self.matches),
            )
        }
    }
}

/// The extra bits of a sequence.
#[derive(Debug, Clone, Copy)]
struct Extra {
    literals: usize,
    offset: usize,
    matched: usize,
}

/// Reads the extra bits of a sequence of any size.
fn extra(bits: &mut Backward<'_>, literals: Entry, offset: Entry, matched: Entry) -> Result<Extra, Refused> {
    Ok(Extra {
        offset: bits.read(offset.extra_bits())? as usize,
        matched: bits.read(matched.extra_bits())? as usize,
        literals: bits.read(literals.extra_bits())? as usize,
    })
}

/// Reads a sequence of any size that lies before bit `at`, and the states after it. Returns where the next lies.
#[cold]
#[inline(never)]
fn long(
    mut stream: Backward<'_>,
    at: usize,
    literals: Entry,
    offset: Entry,
    matched: Entry,
) -> Result<(usize, States, Extra), Refused> {
    stream.set_position(at)?;
    let extra = extra(&mut stream, literals, offset, matched)?;
    let mut state = |entry: Entry| Ok(entry.next() + stream.read(entry.state_bits())? as usize);
    let (literals, matches, offsets) = (state(literals)?, state(matched)?, state(offset)?);
    Ok((stream.position().2, States { literals, offsets, matches }, extra))
}
