//! Unpacks the bits of a stored row to samples in memory.

use super::DType;
use super::bits::get_bits;
use super::widen::widen;
use crate::{Error, Result, SampleFormat, Shape};

/// Whether samples of this format and width are stored in another form than their [`DType`] in memory, so that
/// [`unpack_row`] must convert them.
pub fn is_packed(format: SampleFormat, bits: usize) -> bool {
    DType::for_stored(format, bits).is_some_and(|dtype| dtype.size() * 8 != bits)
}

/// Unpacks one stored row to samples of [`DType::for_stored`].
///
/// `row` comes from [`crate::predictor::undo`]. `out` receives the samples of the row (all bands of each
/// pixel), starting with the first sample, until it is full. A shorter `out` drops the padding on the right of
/// a row.
///
/// # Errors
/// Returns an error if there is no type for these samples, or if the row ends before `out` is full.
pub fn unpack_row(shape: Shape, row: &[u8], out: &mut [u8]) -> Result<()> {
    const CODEC: &str = "sample";
    let Some(dtype) = DType::for_stored(shape.format, shape.bits) else {
        return Err(Error::Unsuited { codec: CODEC, what: "samples of this format and width" });
    };
    let count = out.len() / dtype.size();
    let want = (count as u128 * shape.bits as u128).div_ceil(8);
    if (row.len() as u128) < want {
        return Err(Error::Truncated { codec: CODEC, got: row.len(), want: want.try_into().unwrap_or(usize::MAX) });
    }
    match (dtype, shape.bits) {
        (DType::F32, 24) => widen::<3, 7, 16>(row, out),
        (DType::CF32, 32) => widen::<2, 5, 10>(row, out),
        (DType::U8, 1) => unpack_by_table(&ONE_BIT, row, out, 1),
        (DType::U8, 2) => unpack_by_table(&TWO_BITS, row, out, 2),
        (DType::U8, 4) => unpack_by_table(&FOUR_BITS, row, out, 4),
        (DType::U16, 12) => unpack_12(row, out),
        (DType::U32, 24) => unpack_24(row, out),
        (_, bits) if bits == dtype.size() * 8 => {
            let bytes = count * dtype.size();
            out[..bytes].copy_from_slice(&row[..bytes]);
        }
        (DType::U8, bits) => unpack_any(bits, row, out, |value| [value as u8]),
        (DType::U16, bits) => unpack_any(bits, row, out, |value| (value as u16).to_ne_bytes()),
        (DType::U32, bits) => unpack_any(bits, row, out, |value| (value as u32).to_ne_bytes()),
        (_, bits) => unpack_any(bits, row, out, u64::to_ne_bytes),
    }
    Ok(())
}

/// Unpacks samples of any width up to 64 bits, `S` bytes each in memory.
fn unpack_any<const S: usize>(bits: usize, row: &[u8], out: &mut [u8], to_bytes: impl Fn(u64) -> [u8; S]) {
    for (at, sample) in out.as_chunks_mut::<S>().0.iter_mut().enumerate() {
        // Eight bytes contain any sample of up to 57 bits at any bit offset. This is twice as fast as the 16
        // bytes of `get_bits`.
        let first = at * bits;
        let value = match row.get(first / 8..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(bytes) if bits <= 57 => u64::from_be_bytes(*bytes) << (first % 8) >> (64 - bits),
            _ => get_bits(row, at, bits),
        };
        *sample = to_bytes(value);
    }
}

/// The samples that each byte of 1-bit samples unpacks to. The next two tables are the same for 2 and 4 bits.
static ONE_BIT: [[u8; 8]; 256] = table(1);
static TWO_BITS: [[u8; 4]; 256] = table(2);
static FOUR_BITS: [[u8; 2]; 256] = table(4);

const fn table<const N: usize>(bits: usize) -> [[u8; N]; 256] {
    let mut table = [[0; N]; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut at = 0;
        while at < N {
            table[byte][at] = ((byte >> (8 - bits * (at + 1))) & ((1 << bits) - 1)) as u8;
            at += 1;
        }
        byte += 1;
    }
    table
}

fn unpack_by_table<const N: usize>(table: &[[u8; N]; 256], row: &[u8], out: &mut [u8], bits: usize) {
    let (whole, rest) = out.as_chunks_mut::<N>();
    for (samples, byte) in whole.iter_mut().zip(row) {
        *samples = table[usize::from(*byte)];
    }
    let done = whole.len() * N;
    for (at, sample) in rest.iter_mut().enumerate() {
        *sample = get_bits(row, done + at, bits) as u8;
    }
}

fn unpack_12(row: &[u8], out: &mut [u8]) {
    let (pairs, rest) = out.as_chunks_mut::<2>().0.as_chunks_mut::<2>();
    for ([a, b], bytes) in pairs.iter_mut().zip(row.as_chunks::<3>().0) {
        let [x, y, z] = bytes.map(u16::from);
        *a = (x << 4 | y >> 4).to_ne_bytes();
        *b = ((y & 15) << 8 | z).to_ne_bytes();
    }
    let done = pairs.len() * 2;
    for (at, sample) in rest.iter_mut().enumerate() {
        *sample = (get_bits(row, done + at, 12) as u16).to_ne_bytes();
    }
}

fn unpack_24(row: &[u8], out: &mut [u8]) {
    for (sample, [x, y, z]) in out.as_chunks_mut::<4>().0.iter_mut().zip(row.as_chunks::<3>().0) {
        *sample = u32::from_be_bytes([0, *x, *y, *z]).to_ne_bytes();
    }
}
