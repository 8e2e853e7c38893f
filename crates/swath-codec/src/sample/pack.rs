//! Packs samples in memory to the bits of a stored row.

use std::ops::BitOrAssign;

use super::DType;
use crate::{Error, Result, SampleFormat, Shape};

/// Packs samples of [`DType::for_stored`] to one stored row: the inverse of [`unpack_row`](super::unpack_row).
///
/// All of `samples` are packed at the start of `row`, from the most significant bit of each byte (FillOrder 1).
/// The bits after them become zero. The previous content of `row` does not matter, and its content after an
/// error is unspecified. Signed integers of odd widths are packed as the unsigned integers that they are read
/// as.
///
/// # Errors
/// Returns an error if a value does not fit in the bits of a stored sample, if the row is too short for the
/// samples, or if samples of this format and width cannot be packed: only floats of whole widths can be stored.
pub fn pack_row(shape: Shape, samples: &[u8], row: &mut [u8]) -> Result<()> {
    const CODEC: &str = "sample";
    let bits = shape.bits;
    let dtype = match DType::for_stored(shape.format, bits) {
        Some(dtype) if matches!(shape.format, SampleFormat::Uint | SampleFormat::Int) || dtype.size() * 8 == bits => {
            dtype
        }
        _ => return Err(Error::Unsuited { codec: CODEC, what: "samples of this format and width" }),
    };
    let count = samples.len() / dtype.size();
    let want = (count as u128 * bits as u128).div_ceil(8);
    if (row.len() as u128) < want {
        return Err(Error::Unsuited { codec: CODEC, what: "more samples than the row has room for" });
    }
    let (row, padding) = row.split_at_mut(want as usize);
    padding.fill(0);
    let all = match (dtype, bits) {
        _ if bits == dtype.size() * 8 => {
            row.copy_from_slice(&samples[..row.len()]);
            return Ok(());
        }
        (DType::U8, 1) => pack_together::<8, u64>(samples, row, |group| {
            // The multiplication puts each bit at its own position in the product; the eight bits that form the
            // packed byte meet in the top byte.
            let word = u64::from_le_bytes(group);
            (word, (word.wrapping_mul(0x8040_2010_0804_0201) >> 56) as u8)
        }),
        (DType::U8, 2) => pack_together::<4, u32>(samples, row, |group| {
            let word = u32::from_le_bytes(group);
            (word, (word.wrapping_mul(0x4010_0401) >> 24) as u8)
        }),
        (DType::U8, 4) => pack_together::<2, u8>(samples, row, |[a, b]| (a | b, a << 4 | b & 15)),
        (DType::U16, 12) => pack_12(samples, row),
        (DType::U8, _) => pack_any(bits, samples, row, |[value]| value.into()),
        (DType::U16, _) => pack_any(bits, samples, row, |value| u16::from_ne_bytes(value).into()),
        (DType::U32, _) => pack_any(bits, samples, row, |value| u32::from_ne_bytes(value).into()),
        (_, _) => pack_any(bits, samples, row, u64::from_ne_bytes),
    };
    if all >> bits == 0 { Ok(()) } else { Err(too_wide(bits, dtype.size(), samples)) }
}

/// Packs groups of `N` one-byte samples into one byte each. The function `pack` also returns all bits that the
/// samples of the group use. Returns the bits that any sample uses: they are checked once, after the loop,
/// which makes this function fast.
fn pack_together<const N: usize, U: Default + BitOrAssign + Into<u64>>(
    samples: &[u8],
    row: &mut [u8],
    pack: impl Fn([u8; N]) -> (U, u8),
) -> u64 {
    let (groups, rest) = samples.as_chunks::<N>();
    let mut all = U::default();
    for (byte, group) in row.iter_mut().zip(groups) {
        let (used, packed) = pack(*group);
        all |= used;
        *byte = packed;
    }
    if let Some(byte) = row.get_mut(groups.len()) {
        let mut last = [0; N];
        last[..rest.len()].copy_from_slice(rest);
        let (used, packed) = pack(last);
        all |= used;
        *byte = packed;
    }
    // The bitwise OR of all samples.
    all.into().to_ne_bytes().into_iter().fold(0, |bits, byte| bits | u64::from(byte))
}

fn pack_12(samples: &[u8], row: &mut [u8]) -> u64 {
    let (pairs, rest) = samples.as_chunks::<2>().0.as_chunks::<2>();
    let mut all = 0;
    for (bytes, pair) in row.as_chunks_mut::<3>().0.iter_mut().zip(pairs) {
        let [a, b] = pair.map(u16::from_ne_bytes);
        all |= a | b;
        *bytes = [(a >> 4) as u8, (a << 4) as u8 | (b >> 8) as u8 & 15, b as u8];
    }
    let done = pairs.len() * 3;
    u64::from(all) | pack_any(12, rest.as_flattened(), &mut row[done..], |value| u16::from_ne_bytes(value).into())
}

/// Packs samples of any width up to 63 bits, `S` bytes each in memory. Returns the bits that any sample uses.
fn pack_any<const S: usize>(bits: usize, samples: &[u8], row: &mut [u8], value: impl Fn([u8; S]) -> u64) -> u64 {
    let (mut all, mut window, mut filled, mut done) = (0, 0u128, 0, 0);
    for sample in samples.as_chunks::<S>().0 {
        let value = value(*sample);
        all |= value;
        // A value that is too wide overwrites bits of its neighbours, but the caller then discards the row.
        window = window << bits | u128::from(value);
        filled += bits;
        if filled >= 64
            && let Some(word) = row.get_mut(done..).and_then(|rest| rest.first_chunk_mut::<8>())
        {
            filled -= 64;
            done += 8;
            *word = ((window >> filled) as u64).to_be_bytes();
        }
    }
    let tail = window.checked_shl(128 - filled as u32).unwrap_or(0).to_be_bytes();
    let rest = &mut row[done..];
    rest.copy_from_slice(&tail[..rest.len()]);
    all
}

/// Returns the error for the first sample that needs more than `bits` bits.
fn too_wide(bits: usize, size: usize, samples: &[u8]) -> Error {
    let mut values = samples.chunks_exact(size).map(|sample| {
        let mut word = [0; 8];
        if cfg!(target_endian = "big") {
            word[8 - size..].copy_from_slice(sample);
        } else {
            word[..size].copy_from_slice(sample);
        }
        u64::from_ne_bytes(word)
    });
    Error::TooWide { value: values.find(|value| value >> bits != 0).unwrap_or_default(), bits }
}
