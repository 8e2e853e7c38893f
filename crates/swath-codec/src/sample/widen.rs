//! Converts floats of fewer than 32 bits and complex integers to types that numpy supports.

use super::DType;
use crate::{Error, Result};

/// Converts floats of `N` bytes in native order, with `EXPONENT` and `MANTISSA` bits, to single precision.
pub(super) fn widen<const N: usize, const EXPONENT: u32, const MANTISSA: u32>(row: &[u8], out: &mut [u8]) {
    for (sample, bytes) in out.as_chunks_mut::<4>().0.iter_mut().zip(row.as_chunks::<N>().0) {
        let mut word = [0; 4];
        if cfg!(target_endian = "big") {
            word[4 - N..].copy_from_slice(bytes);
        } else {
            word[..N].copy_from_slice(bytes);
        }
        *sample = widen_float::<EXPONENT, MANTISSA>(u32::from_ne_bytes(word)).to_ne_bytes();
    }
}

/// Returns the bits of the single precision float that has the value of a narrower float. The result is exact:
/// every narrower value, including denormals, is a normal number in single precision. The payload of a NaN is
/// kept.
fn widen_float<const EXPONENT: u32, const MANTISSA: u32>(narrow: u32) -> u32 {
    let shift = 23 - MANTISSA;
    let sign = narrow >> (EXPONENT + MANTISSA) << 31;
    let magnitude = narrow & ((1 << (EXPONENT + MANTISSA)) - 1);
    let exponent = magnitude >> MANTISSA;
    // The difference of the biases: 127 - (2^(EXPONENT - 1) - 1).
    let rebias = 128 - (1 << (EXPONENT - 1));
    sign | if exponent == (1 << EXPONENT) - 1 {
        0xff << 23 | (magnitude << shift) & 0x007f_ffff
    } else if exponent == 0 {
        // Each unit of the mantissa is 2^(1 - bias - MANTISSA); the product is exact.
        let unit = f32::from_bits((rebias + 1 - MANTISSA) << 23);
        (magnitude as f32 * unit).to_bits()
    } else {
        (magnitude << shift) + (rebias << 23)
    }
}

/// Converts complex integers to complex floats, which numpy supports.
///
/// `to` is normally [`DType::widened`] of `from`. [`DType::CF64`] is also possible and always exact. All
/// samples that fit in both slices are converted.
///
/// # Errors
/// Returns an error if `from` is not a complex integer or `to` is not a complex float.
pub fn widen_complex_int(from: DType, src: &[u8], to: DType, out: &mut [u8]) -> Result<()> {
    match (from, to) {
        (DType::CI16, DType::CF32) => convert(src, out, |part| f32::from(i16::from_ne_bytes(part)).to_ne_bytes()),
        (DType::CI16, DType::CF64) => convert(src, out, |part| f64::from(i16::from_ne_bytes(part)).to_ne_bytes()),
        (DType::CI32, DType::CF32) => convert(src, out, |part| (i32::from_ne_bytes(part) as f32).to_ne_bytes()),
        (DType::CI32, DType::CF64) => convert(src, out, |part| f64::from(i32::from_ne_bytes(part)).to_ne_bytes()),
        _ => {
            return Err(Error::Unsuited {
                codec: "the conversion to complex floats",
                what: "samples other than complex integers",
            });
        }
    }
    Ok(())
}

fn convert<const A: usize, const B: usize>(src: &[u8], out: &mut [u8], value: impl Fn([u8; A]) -> [u8; B]) {
    for (out, part) in out.as_chunks_mut::<B>().0.iter_mut().zip(src.as_chunks::<A>().0) {
        *out = value(*part);
    }
}
