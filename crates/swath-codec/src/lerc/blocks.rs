//! Decodes the micro blocks of a Lerc2 blob: squares of usually 8x8 pixels, in which each value is an offset
//! plus a multiple of the step, stored with as few bits as the block needs.

use lerc::DataType;

use super::decode::Value;
use super::lerc2::{copy_values, take, u32_at};

/// The largest width and height of a micro block that is decoded here. liblerc writes 8 and 16.
const MAX_SIDE: usize = 16;

/// The largest number of values in a micro block.
const MAX_VALUES: usize = MAX_SIDE * MAX_SIDE;

/// The number of bytes that [`unpack`] reads after the last byte that it needs.
const SLACK: usize = 8;

/// The blob's properties that the blocks depend on.
pub(super) struct Layout<'a> {
    pub(super) version: i32,
    pub(super) width: usize,
    pub(super) height: usize,
    /// The number of samples of a pixel.
    pub(super) depth: usize,
    /// The width and height of a micro block.
    pub(super) micro_block: usize,
    /// The distance of two neighbouring values: twice the maximum error.
    pub(super) step: f64,
    /// The largest value of each sample of a pixel.
    pub(super) max_values: &'a [f64],
}

/// One micro block of one sample: where its values are in the image.
struct Block<'a, T> {
    out: &'a mut [T],
    rows: usize,
    columns: usize,
    /// The distance of two rows in `out`.
    pitch: usize,
    depth: usize,
    /// The position of the first value in `out`.
    first: usize,
}

impl<T: Value> Block<'_, T> {
    /// Writes `value(q, previous)` for each quantum `q` of the block; `previous` is the sample before this one.
    fn fill(&mut self, quanta: &[u32; MAX_VALUES], value: impl Fn(u32, T) -> T, diff: bool) {
        for (y, quanta) in quanta.chunks_exact(self.columns).take(self.rows).enumerate() {
            let start = self.first + y * self.pitch;
            if self.depth == 1 {
                for (out, &q) in self.out[start..start + self.columns].iter_mut().zip(quanta) {
                    *out = value(q, T::default());
                }
            } else if diff {
                for (pixel, &q) in self.out[start - 1..].chunks_mut(self.depth).zip(quanta) {
                    pixel[1] = value(q, pixel[0]);
                }
            } else {
                for (pixel, &q) in self.out[start..].chunks_mut(self.depth).zip(quanta) {
                    pixel[0] = value(q, T::default());
                }
            }
        }
    }
}

/// Decodes all blocks, which start at `pos`. Returns `None` if `lerc-rs` must decode the blob.
pub(super) fn decode<T: Value>(src: &[u8], mut pos: usize, layout: &Layout<'_>, out: &mut [T]) -> Option<()> {
    let Layout { width, height, depth, micro_block, .. } = *layout;
    if !(1..=MAX_SIDE).contains(&micro_block) {
        return None;
    }
    let mut quanta = [0; MAX_VALUES];
    for top in (0..height).step_by(micro_block) {
        for left in (0..width).step_by(micro_block) {
            for sample in 0..depth {
                let mut block = Block {
                    out: &mut *out,
                    rows: micro_block.min(height - top),
                    columns: micro_block.min(width - left),
                    pitch: width * depth,
                    depth,
                    first: (top * width + left) * depth + sample,
                };
                decode_block(src, &mut pos, layout, (left, sample), &mut block, &mut quanta)?;
            }
        }
    }
    Some(())
}

fn decode_block<T: Value>(
    src: &[u8],
    pos: &mut usize,
    layout: &Layout<'_>,
    (left, sample): (usize, usize),
    block: &mut Block<'_, T>,
    quanta: &mut [u32; MAX_VALUES],
) -> Option<()> {
    let flags = take(src, pos, 1)?[0];
    // Since version 5, the lowest bit of the position means that the values are differences to the sample before.
    let (position_bits, diff) = if layout.version >= 5 { (14, flags & 4 != 0) } else { (15, false) };
    if (flags >> 2) & position_bits != (left as u8 >> 3) & position_bits || (diff && sample == 0) {
        return None;
    }
    let max = layout.max_values[sample];
    match flags & 3 {
        0 if diff => None,
        0 => {
            let row_bytes = block.columns * T::BYTES;
            if block.depth == 1 {
                for y in 0..block.rows {
                    let start = block.first + y * block.pitch;
                    copy_values(take(src, pos, row_bytes)?, &mut block.out[start..start + block.columns]);
                }
                return Some(());
            }
            for y in 0..block.rows {
                let values = take(src, pos, row_bytes)?.chunks_exact(T::BYTES);
                let start = block.first + y * block.pitch;
                for (pixel, value) in block.out[start..].chunks_mut(block.depth).zip(values) {
                    pixel[0] = T::from_le_slice(value);
                }
            }
            Some(())
        }
        2 => {
            block.fill(quanta, |_, previous| if diff { previous } else { T::default() }, diff);
            Some(())
        }
        mode => {
            let offset = read_offset::<T>(src, pos, flags >> 6, diff)?;
            if mode == 3 {
                let constant = T::from_f64(offset);
                let value =
                    |_, before: T| if diff { T::from_f64((offset + before.to_f64()).min(max)) } else { constant };
                block.fill(quanta, value, diff);
                return Some(());
            }
            let limit = read_quanta(src, pos, block.rows * block.columns, quanta)?;
            dequantize(block, quanta, &Scale { offset, step: layout.step, max, limit }, diff);
            Some(())
        }
    }
}

/// How quanta become values.
struct Scale {
    offset: f64,
    step: f64,
    /// The largest value of the image; greater results are clamped to it.
    max: f64,
    /// The largest number with as many bits as the quanta of the block.
    limit: u32,
}

/// Writes the values of a block, with the same arithmetic as `lerc-rs`.
fn dequantize<T: Value>(block: &mut Block<'_, T>, quanta: &[u32; MAX_VALUES], scale: &Scale, diff: bool) {
    let Scale { offset, step, max, limit } = *scale;
    if diff {
        let value = |q, before: T| T::from_f64((offset + f64::from(q) * step + before.to_f64()).min(max));
        return block.fill(quanta, value, true);
    }
    let exceeds = |q: u32| offset + f64::from(q) * step > max;
    // `lerc-rs` clamps if the largest quantum needs it. To find that quantum takes time, and is seldom necessary.
    if exceeds(limit) && exceeds(quanta[..block.rows * block.columns].iter().copied().max().unwrap_or(0)) {
        let value = |q, _| T::from_f64((offset + f64::from(q) * step).min(max));
        return block.fill(quanta, value, false);
    }
    let base = T::from_f64(offset);
    // No sum exceeds `max`, and if `max` is a value of the type, no sum exceeds the type: the sum of integers is
    // then exact. Integers instead of floats make 16-bit images 1.6 times as fast.
    if step == 1.0 && T::DATA_TYPE.is_integer() && T::from_f64(max).to_f64() == max && base.to_f64() == offset {
        return block.fill(quanta, |q, _| base.add_quantum(q), false);
    }
    block.fill(quanta, |q, _| T::from_f64(offset + f64::from(q) * step), false);
}

/// Reads the offset of a block, which may have a smaller type than the image.
fn read_offset<T: Value>(src: &[u8], pos: &mut usize, code: u8, diff: bool) -> Option<f64> {
    let of = if diff && T::DATA_TYPE.is_integer() { DataType::Int } else { T::DATA_TYPE };
    let code = i32::from(code);
    let stored = match of {
        DataType::Char | DataType::Byte => of,
        DataType::Short | DataType::Int => DataType::from_i32(of as i32 - code)?,
        DataType::UShort | DataType::UInt => DataType::from_i32(of as i32 - 2 * code)?,
        DataType::Float => *[DataType::Float, DataType::Short, DataType::Byte].get(code as usize)?,
        DataType::Double if code == 0 => DataType::Double,
        DataType::Double => DataType::from_i32(DataType::Double as i32 - 2 * code + 1)?,
    };
    let bytes = take(src, pos, stored.size())?;
    Some(match stored {
        DataType::Char => f64::from(bytes[0] as i8),
        DataType::Byte => f64::from(bytes[0]),
        DataType::Short => f64::from(i16::from_le_bytes(*bytes.first_chunk()?)),
        DataType::UShort => f64::from(u16::from_le_bytes(*bytes.first_chunk()?)),
        DataType::Int => f64::from(i32::from_le_bytes(*bytes.first_chunk()?)),
        DataType::UInt => f64::from(u32::from_le_bytes(*bytes.first_chunk()?)),
        DataType::Float => f64::from(f32::from_le_bytes(*bytes.first_chunk()?)),
        DataType::Double => f64::from_le_bytes(*bytes.first_chunk()?),
    })
}

/// Reads `count` quanta, as plain numbers or as indexes into a table, and returns the largest
/// number of that many bits.
pub(super) fn read_quanta(src: &[u8], pos: &mut usize, count: usize, quanta: &mut [u32; MAX_VALUES]) -> Option<u32> {
    let flags = take(src, pos, 1)?[0];
    let stored_count = match flags >> 6 {
        0 => {
            *pos += 4;
            u32_at(src, *pos - 4)? as usize
        }
        1 => usize::from(u16::from_le_bytes(*take(src, pos, 2)?.first_chunk()?)),
        2 => usize::from(take(src, pos, 1)?[0]),
        _ => return None,
    };
    // A block has one quantum for each valid pixel, and all pixels are valid.
    if stored_count != count || count == 0 || count > MAX_VALUES {
        return None;
    }
    let bits = u32::from(flags & 31);
    let limit = (1 << bits) - 1;
    if flags & 32 == 0 {
        unpack(src, pos, bits, &mut quanta[..count])?;
        return Some(limit);
    }
    let table_len = usize::from(take(src, pos, 1)?[0]);
    if table_len < 2 || bits == 0 {
        return None;
    }
    // The first entry is 0 and is not stored.
    let mut table = [0; 256];
    unpack(src, pos, bits, &mut table[1..table_len])?;
    unpack(src, pos, (table_len - 1).ilog2() + 1, &mut quanta[..count])?;
    for q in &mut quanta[..count] {
        if *q as usize >= table_len {
            return None;
        }
        *q = table[*q as usize & 255];
    }
    Some(limit)
}

/// Reads numbers of `bits` bits, least significant bit first, and moves `pos` after their last byte.
fn unpack(src: &[u8], pos: &mut usize, bits: u32, out: &mut [u32]) -> Option<()> {
    let len = (out.len() * bits as usize).div_ceil(8);
    let start = *pos;
    let needed = take(src, pos, len)?;
    let Some(bytes) = src.get(start..start + len + SLACK) else {
        let mut copy = [0; MAX_VALUES * 4 + SLACK];
        copy[..len].copy_from_slice(needed);
        return unpack(&copy, &mut 0, bits, out);
    };
    macro_rules! by_width {
        ($($width:literal)*) => {
            match bits {
                0 => out.fill(0),
                $($width => unpack_width::<$width>(bytes, out),)*
                _ => unpack_wide(bytes, bits as usize, out),
            }
        };
    }
    by_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
    Some(())
}

/// Reads numbers of `BITS` bits, at most 16. The width is known to the compiler, so that all shifts are
/// constants. `bytes` has [`SLACK`] bytes after the last number.
fn unpack_width<const BITS: usize>(bytes: &[u8], out: &mut [u32]) {
    let mask = (1u64 << BITS) - 1;
    // Eight numbers are a whole number of bytes; each half of them is at most 64 bits, or 60 after a shift by 4.
    let (groups, rest) = out.as_chunks_mut::<8>();
    let used = groups.len() * BITS;
    for (k, group) in groups.iter_mut().enumerate() {
        let Some(bytes) = bytes[k * BITS..].first_chunk::<8>() else { return };
        let low = u64::from_le_bytes(*bytes);
        let high = if BITS <= 8 { low >> (4 * BITS % 64) } else { 0 };
        for n in 0..4 {
            group[n] = ((low >> (n * BITS)) & mask) as u32;
            group[n + 4] = ((high >> (n * BITS)) & mask) as u32;
        }
    }
    if BITS > 8 {
        for (k, group) in groups.iter_mut().enumerate() {
            let Some(bytes) = bytes[k * BITS + BITS / 2..].first_chunk::<8>() else { return };
            let high = u64::from_le_bytes(*bytes) >> (4 * BITS % 8);
            for n in 0..4 {
                group[n + 4] = ((high >> (n * BITS)) & mask) as u32;
            }
        }
    }
    unpack_wide(&bytes[used..], BITS, rest);
}

/// Reads numbers of any width below 32 bits.
fn unpack_wide(bytes: &[u8], bits: usize, out: &mut [u32]) {
    for (k, q) in out.iter_mut().enumerate() {
        let at = k * bits;
        let Some(bytes) = bytes[at / 8..].first_chunk::<8>() else { return };
        *q = ((u64::from_le_bytes(*bytes) >> (at % 8)) & ((1 << bits) - 1)) as u32;
    }
}
