//! The inverse DCT: Loeffler, Ligtenberg and Moschytz' eleven multiplications (ICASSP 1989) in 13-bit fixed point.
//!
//! Rounding follows the "slow integer" transform that every libjpeg shares, so that pixels agree bit for bit with
//! what GDAL gives. All eight columns, then all eight rows, are worked on at once: the compiler turns a [`Lanes`] into
//! vector registers.

use std::array::from_fn;

/// Fraction bits of the constants below.
const FRACTION: u32 = 13;
const F_0_298: i32 = 2446;
const F_0_390: i32 = 3196;
const F_0_541: i32 = 4433;
const F_0_765: i32 = 6270;
const F_0_899: i32 = 7373;
const F_1_175: i32 = 9633;
const F_1_501: i32 = 12299;
const F_1_847: i32 = 15137;
const F_1_961: i32 = 16069;
const F_2_053: i32 = 16819;
const F_2_562: i32 = 20995;
const F_3_072: i32 = 25172;

/// Eight values that go through the same steps. Arithmetic wraps: only coefficients that no encoder makes overflow.
#[derive(Clone, Copy)]
struct Lanes([i32; 8]);

impl Lanes {
    #[inline(always)]
    fn add(self, other: Lanes) -> Lanes {
        Lanes(from_fn(|n| self.0[n].wrapping_add(other.0[n])))
    }

    #[inline(always)]
    fn sub(self, other: Lanes) -> Lanes {
        Lanes(from_fn(|n| self.0[n].wrapping_sub(other.0[n])))
    }

    #[inline(always)]
    fn times(self, factor: i32) -> Lanes {
        Lanes(from_fn(|n| self.0[n].wrapping_mul(factor)))
    }

    #[inline(always)]
    fn scaled_up(self) -> Lanes {
        Lanes(from_fn(|n| self.0[n] << FRACTION))
    }

    #[inline(always)]
    fn rounded_down(self, shift: u32) -> Lanes {
        Lanes(from_fn(|n| self.0[n].wrapping_add(1 << (shift - 1)) >> shift))
    }
}

/// The one-dimensional transform of eight columns, each value `2^shift` too large before the last rounding.
#[inline(always)]
fn pass(x: &[Lanes; 8], shift: u32) -> [Lanes; 8] {
    let rotated = x[2].add(x[6]).times(F_0_541);
    let even2 = rotated.sub(x[6].times(F_1_847));
    let even3 = rotated.add(x[2].times(F_0_765));
    let even0 = x[0].add(x[4]).scaled_up();
    let even1 = x[0].sub(x[4]).scaled_up();
    let even = [even0.add(even3), even1.add(even2), even1.sub(even2), even0.sub(even3)];

    let (sum17, sum35) = (x[7].add(x[1]), x[5].add(x[3]));
    let (sum37, sum15) = (x[7].add(x[3]), x[5].add(x[1]));
    let common = sum37.add(sum15).times(F_1_175);
    let (sum17, sum35) = (sum17.times(-F_0_899), sum35.times(-F_2_562));
    let sum37 = common.sub(sum37.times(F_1_961));
    let sum15 = common.sub(sum15.times(F_0_390));
    let odd = [
        x[1].times(F_1_501).add(sum17).add(sum15),
        x[3].times(F_3_072).add(sum35).add(sum37),
        x[5].times(F_2_053).add(sum35).add(sum15),
        x[7].times(F_0_298).add(sum17).add(sum37),
    ];
    [
        even[0].add(odd[0]).rounded_down(shift),
        even[1].add(odd[1]).rounded_down(shift),
        even[2].add(odd[2]).rounded_down(shift),
        even[3].add(odd[3]).rounded_down(shift),
        even[3].sub(odd[3]).rounded_down(shift),
        even[2].sub(odd[2]).rounded_down(shift),
        even[1].sub(odd[1]).rounded_down(shift),
        even[0].sub(odd[0]).rounded_down(shift),
    ]
}

#[inline(always)]
fn transposed(x: &[Lanes; 8]) -> [Lanes; 8] {
    from_fn(|row| Lanes(from_fn(|column| x[column].0[row])))
}

/// The samples (0 to `2^precision - 1`) of a block of dequantised coefficients in natural order.
#[inline(always)]
pub(super) fn inverse(block: &[i32; 64], precision: u32) -> [[u16; 8]; 8] {
    // Two bits are kept between the passes; twelve-bit samples leave room for one only.
    let kept = if precision > 8 { 1 } else { 2 };
    let rows: [Lanes; 8] = from_fn(|row| Lanes(from_fn(|column| block[row * 8 + column])));
    let columns = transposed(&pass(&rows, FRACTION - kept));
    let rows = transposed(&pass(&columns, FRACTION + kept + 3));
    rows.map(|row| row.0.map(|value| level(value, precision)))
}

/// The sample that every pixel of a block has whose only coefficient is `dc`.
#[inline(always)]
pub(super) fn flat(dc: i32, precision: u32) -> u16 {
    level(dc.wrapping_add(4) >> 3, precision)
}

#[inline(always)]
fn level(value: i32, precision: u32) -> u16 {
    value.wrapping_add(1 << (precision - 1)).clamp(0, (1 << precision) - 1) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_block_is_the_full_transform_of_its_dc() {
        for precision in [8, 12] {
            for dc in (-20000..20000).step_by(7) {
                let mut block = [0; 64];
                block[0] = dc;
                assert_eq!(inverse(&block, precision), [[flat(dc, precision); 8]; 8], "{dc}");
            }
        }
    }

    #[test]
    fn close_to_the_real_transform() {
        let mut seed = 1u32;
        for _ in 0..200 {
            let block: [i32; 64] = from_fn(|n| {
                seed = seed.wrapping_mul(1664525).wrapping_add(1013904223);
                ((seed >> 20) as i32 - 2048) / (1 + n as i32)
            });
            let got = inverse(&block, 8);
            for (y, row) in got.iter().enumerate() {
                for (x, &sample) in row.iter().enumerate() {
                    let mut sum = 0.0;
                    for (n, &value) in block.iter().enumerate() {
                        let (u, v) = (n % 8, n / 8);
                        let scale = |k: usize| if k == 0 { 0.5f64.sqrt() } else { 1.0 };
                        let wave = |p: usize, k: usize| ((2 * p + 1) as f64 * k as f64 * std::f64::consts::PI / 16.0).cos();
                        sum += f64::from(value) * scale(u) * scale(v) * wave(x, u) * wave(y, v) / 4.0;
                    }
                    let want = (sum + 128.0).clamp(0.0, 255.0);
                    assert!((f64::from(sample) - want).abs() < 0.6, "{sample} {want}");
                }
            }
        }
    }

    #[test]
    fn absurd_coefficients_do_not_panic() {
        inverse(&[i32::MAX; 64], 8);
        inverse(&[i32::MIN; 64], 12);
        flat(i32::MAX, 8);
        flat(i32::MIN, 8);
    }
}
