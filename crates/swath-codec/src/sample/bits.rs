//! Samples as a bit string, most significant bit first.

/// Returns sample `at` of a row that is a bit string, most significant bit first. `bits` is at most 64.
///
/// Bits after the end of the row are zero.
pub(crate) fn get_bits(row: &[u8], at: usize, bits: usize) -> u64 {
    let first = at * bits;
    let window = window_at(row, first / 8) << (first % 8);
    (window >> (128 - bits)) as u64
}

/// Writes the low `bits` of `value` as sample `at`: the inverse of [`get_bits`].
pub(crate) fn put_bits(row: &mut [u8], at: usize, bits: usize, value: u64) {
    let first = at * bits;
    let shift = 128 - bits - first % 8;
    let mask = ((1u128 << bits) - 1) << shift;
    let window = window_at(row, first / 8) & !mask | (u128::from(value) << shift) & mask;
    let rest = &mut row[first / 8..];
    let length = rest.len().min(16);
    rest[..length].copy_from_slice(&window.to_be_bytes()[..length]);
}

/// Returns the 16 bytes from `start`; bytes after the end of the row are zero.
fn window_at(row: &[u8], start: usize) -> u128 {
    let rest = row.get(start..).unwrap_or_default();
    if let Some(bytes) = rest.first_chunk::<16>() {
        return u128::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 16];
    bytes[..rest.len()].copy_from_slice(rest);
    u128::from_be_bytes(bytes)
}

/// Reverses the bits of each byte, which FillOrder 2 requires before decompression.
pub fn reverse_bits(data: &mut [u8]) {
    data.iter_mut().for_each(|byte| *byte = byte.reverse_bits());
}
