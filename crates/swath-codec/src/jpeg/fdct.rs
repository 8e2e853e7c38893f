//! The forward DCT and quantisation: the inverse of the transform of [`idct`](super::idct).
//!
//! The rounding is that of the "slow integer" transform that every libjpeg has, so the coefficients are those
//! that GDAL writes. With the standard Huffman tables the bytes are the same too.

use crate::jpeg::idct::{
    F_0_298, F_0_390, F_0_541, F_0_765, F_0_899, F_1_175, F_1_501, F_1_847, F_1_961, F_2_053, F_2_562, F_3_072,
    FRACTION,
};
use std::array::from_fn;

/// The number of fractional bits that are kept between the passes.
const KEPT: u32 = 2;

/// Division by the values of one quantisation table, in natural order, as a multiplication of 16-bit numbers.
///
/// `n / q` for `n < 2^13` is `n * reciprocal >> (15 + log)`, where `log` is the position of the highest bit of
/// `q`. The reciprocal is rounded up, which makes the quotient too large by less than `1 / 2q`. This never
/// reaches the next integer, because the distance of a fraction to it is at least `1 / q`.
pub(super) struct Divisors {
    /// Half of the divisor, in the scale of the transform's output (8 times the coefficient).
    half: [u16; 64],
    reciprocal: [u16; 64],
    /// `2^(15 - log)`: a shift count that differs between lanes is implemented as a multiplication too.
    scale: [u16; 64],
}

impl Divisors {
    /// Builds the divisors for a table in natural order with values from 1 to 8191.
    pub(super) fn new(table: &[u16; 64]) -> Divisors {
        let log = |n: usize| table[n].max(1).ilog2();
        Divisors {
            half: table.map(|q| 4 * q),
            reciprocal: from_fn(|n| (1u32 << (15 + log(n))).div_ceil(u32::from(table[n].max(1))) as u16),
            scale: from_fn(|n| 1 << (15 - log(n))),
        }
    }
}

/// Returns row `y` of the block that starts at the first byte of `samples`.
#[inline(always)]
fn row(samples: &[u8], stride: usize, y: usize) -> [u8; 8] {
    *samples[y * stride..].first_chunk().unwrap_or(&[0; 8])
}

/// Transforms and quantises the block that starts at the first byte of `samples`, with rows that are `stride`
/// bytes apart. Returns a mask of the coefficients in `out` (natural order) that are not zero.
#[inline(always)]
pub(super) fn forward(samples: &[u8], stride: usize, divisors: &Divisors, out: &mut [i16; 64]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has SSE2.
    return unsafe { vector::forward(samples, stride, divisors, out) };
    #[cfg(not(target_arch = "x86_64"))]
    portable::forward(samples, stride, divisors, out)
}

/// Eight lanes of 32 bits for the compiler to vectorise.
#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable {
    use super::*;
    use crate::jpeg::idct::{Lanes, transposed};

    #[inline(always)]
    pub(super) fn forward(samples: &[u8], stride: usize, divisors: &Divisors, out: &mut [i16; 64]) -> u64 {
        let rows = from_fn(|y| Lanes(row(samples, stride, y).map(|sample| i32::from(sample) - 128)));
        let shift = FRACTION - KEPT;
        let columns =
            pass(&transposed(&rows), |sum| Lanes(sum.0.map(|value| value << KEPT)), |x| x.rounded_down(shift));
        let shift = FRACTION + KEPT;
        let rows = pass(&transposed(&columns), |sum| sum.rounded_down(KEPT), |x| x.rounded_down(shift));
        let mut mask = 0;
        for (n, value) in rows.iter().flat_map(|row| row.0).enumerate() {
            let steps = (value.unsigned_abs() + u32::from(divisors.half[n])) >> 3;
            let steps = (2 * steps * u32::from(divisors.reciprocal[n])) >> 16;
            let steps = ((2 * steps * u32::from(divisors.scale[n])) >> 16) as i16;
            out[n] = if value < 0 { -steps } else { steps };
            mask |= u64::from(steps != 0) << n;
        }
        mask
    }

    /// The one-dimensional transform of eight columns. `whole` scales values that were only added, `part`
    /// values that were multiplied.
    #[inline(always)]
    fn pass(x: &[Lanes; 8], whole: impl Fn(Lanes) -> Lanes, part: impl Fn(Lanes) -> Lanes) -> [Lanes; 8] {
        let sum: [Lanes; 4] = from_fn(|n| x[n].add(x[7 - n]));
        let [d7, d6, d5, d4]: [Lanes; 4] = from_fn(|n| x[n].sub(x[7 - n]));

        let (outer, inner) = (sum[0].add(sum[3]), sum[1].add(sum[2]));
        let (outer_difference, inner_difference) = (sum[0].sub(sum[3]), sum[1].sub(sum[2]));
        let rotated = outer_difference.add(inner_difference).times(F_0_541);

        let (sum46, sum57) = (d4.add(d6), d5.add(d7));
        let common = sum46.add(sum57).times(F_1_175);
        let (sum47, sum56) = (d4.add(d7).times(-F_0_899), d5.add(d6).times(-F_2_562));
        let sum46 = common.sub(sum46.times(F_1_961));
        let sum57 = common.sub(sum57.times(F_0_390));
        [
            whole(outer.add(inner)),
            part(d7.times(F_1_501).add(sum47).add(sum57)),
            part(rotated.add(outer_difference.times(F_0_765))),
            part(d6.times(F_3_072).add(sum56).add(sum46)),
            whole(outer.sub(inner)),
            part(d5.times(F_2_053).add(sum56).add(sum57)),
            part(rotated.sub(inner_difference.times(F_1_847))),
            part(d4.times(F_0_298).add(sum47).add(sum46)),
        ]
    }
}

/// The same transform with instructions that every x86-64 CPU has: encoding a whole 4:2:0 image is 2.8 times as
/// fast. Nothing overflows: the largest sum of 64 samples is 2^13, times 2^KEPT.
#[cfg(target_arch = "x86_64")]
mod vector {
    use super::*;
    use crate::jpeg::idct::sse2::{add, narrow, rotate, transposed};
    use std::arch::x86_64::*;

    #[inline]
    #[target_feature(enable = "sse2")]
    fn pass<const SHIFT: i32>(x: [__m128i; 8], whole: impl Fn(__m128i) -> __m128i) -> [__m128i; 8] {
        let sum: [__m128i; 4] = from_fn(|n| _mm_add_epi16(x[n], x[7 - n]));
        let [d7, d6, d5, d4]: [__m128i; 4] = from_fn(|n| _mm_sub_epi16(x[n], x[7 - n]));
        let (outer, inner) = (_mm_add_epi16(sum[0], sum[3]), _mm_add_epi16(sum[1], sum[2]));
        let (outer_difference, inner_difference) = (_mm_sub_epi16(sum[0], sum[3]), _mm_sub_epi16(sum[1], sum[2]));
        [
            whole(_mm_add_epi16(outer, inner)),
            narrow::<SHIFT>(add(
                rotate(d7, d4, F_1_501 - F_0_899 - F_0_390 + F_1_175, F_1_175 - F_0_899),
                rotate(d5, d6, F_1_175 - F_0_390, F_1_175),
            )),
            narrow::<SHIFT>(rotate(outer_difference, inner_difference, F_0_541 + F_0_765, F_0_541)),
            narrow::<SHIFT>(add(
                rotate(d7, d4, F_1_175, F_1_175 - F_1_961),
                rotate(d5, d6, F_1_175 - F_2_562, F_3_072 - F_2_562 - F_1_961 + F_1_175),
            )),
            whole(_mm_sub_epi16(outer, inner)),
            narrow::<SHIFT>(add(
                rotate(d7, d4, F_1_175 - F_0_390, F_1_175),
                rotate(d5, d6, F_2_053 - F_2_562 - F_0_390 + F_1_175, F_1_175 - F_2_562),
            )),
            narrow::<SHIFT>(rotate(outer_difference, inner_difference, F_0_541, F_0_541 - F_1_847)),
            narrow::<SHIFT>(add(
                rotate(d7, d4, F_1_175 - F_0_899, F_0_298 - F_0_899 - F_1_961 + F_1_175),
                rotate(d5, d6, F_1_175, F_1_175 - F_1_961),
            )),
        ]
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn forward(samples: &[u8], stride: usize, divisors: &Divisors, out: &mut [i16; 64]) -> u64 {
        let (zero, middle) = (_mm_setzero_si128(), _mm_set1_epi16(128));
        let rows = from_fn(|y| {
            let row = _mm_cvtsi64_si128(i64::from_le_bytes(row(samples, stride, y)));
            _mm_sub_epi16(_mm_unpacklo_epi8(row, zero), middle)
        });
        let columns =
            pass::<{ (FRACTION - KEPT) as i32 }>(transposed(rows), |sum| _mm_slli_epi16::<{ KEPT as i32 }>(sum));
        let half = _mm_set1_epi16(1 << (KEPT - 1));
        let rows = pass::<{ (FRACTION + KEPT) as i32 }>(transposed(columns), |sum| {
            _mm_srai_epi16::<{ KEPT as i32 }>(_mm_add_epi16(sum, half))
        });

        let half: [__m128i; 8] = bytemuck::cast(divisors.half);
        let reciprocal: [__m128i; 8] = bytemuck::cast(divisors.reciprocal);
        let scale: [__m128i; 8] = bytemuck::cast(divisors.scale);
        let quantised: [__m128i; 8] = from_fn(|n| {
            let sign = _mm_srai_epi16::<15>(rows[n]);
            let flipped = |x| _mm_sub_epi16(_mm_xor_si128(x, sign), sign);
            let steps = _mm_srli_epi16::<3>(_mm_add_epi16(flipped(rows[n]), half[n]));
            let steps = _mm_mulhi_epu16(_mm_add_epi16(steps, steps), reciprocal[n]);
            flipped(_mm_mulhi_epu16(_mm_add_epi16(steps, steps), scale[n]))
        });
        *out = bytemuck::cast(quantised);
        let zeros = |pair: usize| {
            // Saturation prevents a non-zero value from becoming zero.
            let bytes = _mm_packs_epi16(quantised[2 * pair], quantised[2 * pair + 1]);
            _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, zero)) as u64
        };
        !(zeros(0) | zeros(1) << 16 | zeros(2) << 32 | zeros(3) << 48)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::noise;

    fn blocks() -> Vec<[[u8; 8]; 8]> {
        let noise = noise(64 * 500);
        let mut blocks: Vec<[[u8; 8]; 8]> = Vec::new();
        for (n, bytes) in noise.as_chunks::<64>().0.iter().enumerate() {
            blocks.push(from_fn(|y| from_fn(|x| bytes[y * 8 + x] >> (n % 8))));
            // Only black and white, which gives the largest possible coefficients.
            blocks.push(from_fn(|y| from_fn(|x| if bytes[y * 8 + x] as usize > n / 2 { 255 } else { 0 })));
        }
        for (u, v) in (0..64).map(|n| (n % 8, n / 8)) {
            let wave = |p: usize, k: usize| ((2 * p + 1) as f64 * k as f64 * std::f64::consts::PI / 16.0).cos();
            blocks.push(from_fn(|y| from_fn(|x| if wave(x, u) * wave(y, v) > 0.0 { 255 } else { 0 })));
            blocks.push(from_fn(|y| from_fn(|x| if wave(x, u) * wave(y, v) > 0.0 { 0 } else { 255 })));
        }
        blocks
    }

    #[test]
    fn division_is_exact() {
        for q in 1..=4950u16 {
            let divisors = Divisors::new(&[q; 64]);
            let (reciprocal, scale) = (u32::from(divisors.reciprocal[0]), u32::from(divisors.scale[0]));
            // All possible values of a coefficient plus half the divisor.
            for n in 0..=1024 + u32::from(q) / 2 {
                let steps = (2 * n * reciprocal) >> 16;
                assert_eq!((2 * steps * scale) >> 16, n / u32::from(q), "{n} / {q}");
            }
        }
    }

    #[test]
    fn vector_and_portable_transforms_agree() {
        for (n, block) in blocks().iter().enumerate() {
            let divisors = Divisors::new(&from_fn(|k| 1 + (k * n % 300) as u16));
            let (mut got, mut want) = ([0; 64], [0; 64]);
            let masks = (
                forward(block.as_flattened(), 8, &divisors, &mut got),
                portable::forward(block.as_flattened(), 8, &divisors, &mut want),
            );
            assert_eq!((got, masks.0), (want, masks.1));
            assert!((0..64).all(|k| (masks.0 >> k & 1 == 1) == (got[k] != 0)));
        }
    }

    #[test]
    fn close_to_the_real_transform() {
        let divisors = Divisors::new(&[1; 64]);
        for block in blocks() {
            let mut got = [0; 64];
            forward(block.as_flattened(), 8, &divisors, &mut got);
            for (n, &value) in got.iter().enumerate() {
                let (u, v) = (n % 8, n / 8);
                let scale = |k: usize| if k == 0 { 0.5f64.sqrt() } else { 1.0 };
                let wave = |p: usize, k: usize| ((2 * p + 1) as f64 * k as f64 * std::f64::consts::PI / 16.0).cos();
                let mut sum = 0.0;
                for (y, row) in block.iter().enumerate() {
                    for (x, &sample) in row.iter().enumerate() {
                        sum += (f64::from(sample) - 128.0) * wave(x, u) * wave(y, v);
                    }
                }
                let want = sum * scale(u) * scale(v) / 4.0;
                assert!((f64::from(value) - want).abs() < 0.75, "{value} {want}");
            }
        }
    }
}
