//! The types of samples in memory, and the conversion of stored samples to them and back.

mod bits;
mod pack;
mod unpack;
mod widen;

pub use bits::reverse_bits;
pub(crate) use bits::{get_bits, put_bits};
pub use pack::pack_row;
pub use unpack::{is_packed, unpack_row};
pub use widen::widen_complex_int;

use crate::SampleFormat;

/// The type of a sample in memory, in native byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DType {
    /// 8-bit unsigned integer.
    U8,
    /// 8-bit signed integer.
    I8,
    /// 16-bit unsigned integer.
    U16,
    /// 16-bit signed integer.
    I16,
    /// 32-bit unsigned integer.
    U32,
    /// 32-bit signed integer.
    I32,
    /// 64-bit unsigned integer.
    U64,
    /// 64-bit signed integer.
    I64,
    /// Half precision float.
    F16,
    /// Single precision float.
    F32,
    /// Double precision float.
    F64,
    /// Two 16-bit signed integers, real part first.
    CI16,
    /// Two 32-bit signed integers, real part first.
    CI32,
    /// Two single precision floats, real part first.
    CF32,
    /// Two double precision floats, real part first.
    CF64,
}

impl DType {
    /// Every type, in the order of the enum.
    pub const ALL: [Self; 15] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::U64,
        Self::I64,
        Self::F16,
        Self::F32,
        Self::F64,
        Self::CI16,
        Self::CI32,
        Self::CF32,
        Self::CF64,
    ];

    /// Returns the type in which samples of this format and width are read, or `None` if there is none.
    ///
    /// The mapping is GDAL's. A signed integer whose width is not 8, 16, 32 or 64 bits is read as unsigned,
    /// without sign extension: GDAL reads it so, and tifffile does not read such files. Unsigned integers of 33
    /// to 63 bits are an extension of Swath.
    pub fn for_stored(format: SampleFormat, bits: usize) -> Option<Self> {
        Some(match (format, bits) {
            (SampleFormat::Int, 8) => Self::I8,
            (SampleFormat::Int, 16) => Self::I16,
            (SampleFormat::Int, 32) => Self::I32,
            (SampleFormat::Int, 64) => Self::I64,
            (SampleFormat::Uint | SampleFormat::Int, 1..=8) => Self::U8,
            (SampleFormat::Uint | SampleFormat::Int, 9..=16) => Self::U16,
            (SampleFormat::Uint | SampleFormat::Int, 17..=32) => Self::U32,
            (SampleFormat::Uint | SampleFormat::Int, 33..=64) => Self::U64,
            (SampleFormat::Float, 16) => Self::F16,
            (SampleFormat::Float, 24 | 32) => Self::F32,
            (SampleFormat::Float, 64) => Self::F64,
            (SampleFormat::ComplexInt, 32) => Self::CI16,
            (SampleFormat::ComplexInt, 64) => Self::CI32,
            (SampleFormat::ComplexFloat, 32 | 64) => Self::CF32,
            (SampleFormat::ComplexFloat, 128) => Self::CF64,
            _ => return None,
        })
    }

    /// The interpretation of the bits of a sample.
    pub fn format(self) -> SampleFormat {
        match self {
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => SampleFormat::Uint,
            Self::I8 | Self::I16 | Self::I32 | Self::I64 => SampleFormat::Int,
            Self::F16 | Self::F32 | Self::F64 => SampleFormat::Float,
            Self::CI16 | Self::CI32 => SampleFormat::ComplexInt,
            Self::CF32 | Self::CF64 => SampleFormat::ComplexFloat,
        }
    }

    /// The number of bytes of one sample.
    pub fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 => 2,
            Self::U32 | Self::I32 | Self::F32 | Self::CI16 => 4,
            Self::U64 | Self::I64 | Self::F64 | Self::CI32 | Self::CF32 => 8,
            Self::CF64 => 16,
        }
    }

    /// The name of the type in numpy. numpy has no complex integers: they are `complex_int16` and
    /// `complex_int32`, as in GDAL's Python tools.
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 => "uint8",
            Self::I8 => "int8",
            Self::U16 => "uint16",
            Self::I16 => "int16",
            Self::U32 => "uint32",
            Self::I32 => "int32",
            Self::U64 => "uint64",
            Self::I64 => "int64",
            Self::F16 => "float16",
            Self::F32 => "float32",
            Self::F64 => "float64",
            Self::CI16 => "complex_int16",
            Self::CI32 => "complex_int32",
            Self::CF32 => "complex64",
            Self::CF64 => "complex128",
        }
    }

    /// The code of the type in numpy's array interface, without byte order; `None` for complex integers.
    pub fn numpy_code(self) -> Option<&'static str> {
        Some(match self {
            Self::U8 => "u1",
            Self::I8 => "i1",
            Self::U16 => "u2",
            Self::I16 => "i2",
            Self::U32 => "u4",
            Self::I32 => "i4",
            Self::U64 => "u8",
            Self::I64 => "i8",
            Self::F16 => "f2",
            Self::F32 => "f4",
            Self::F64 => "f8",
            Self::CI16 | Self::CI32 => return None,
            Self::CF32 => "c8",
            Self::CF64 => "c16",
        })
    }

    /// The type in which Swath returns this one to numpy users: single precision for complex integers, as in
    /// GDAL's Python tools, and the type itself for all others. Single precision rounds 32-bit parts beyond
    /// 2^24.
    pub fn widened(self) -> Self {
        match self {
            Self::CI16 | Self::CI32 => Self::CF32,
            other => other,
        }
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::noise;
    use crate::{Error, Shape};

    fn unpacked(format: SampleFormat, bits: usize, row: &[u8], count: usize) -> Vec<u8> {
        let shape = Shape { width: count, height: 1, samples: 1, bits, format };
        let mut out = vec![0xaa; count * DType::for_stored(format, bits).expect("mapped").size()];
        unpack_row(shape, row, &mut out).expect("the row is long enough");
        out
    }

    fn f32s(bytes: &[u8]) -> Vec<u32> {
        bytes.as_chunks::<4>().0.iter().map(|b| u32::from_ne_bytes(*b)).collect()
    }

    /// Compares every width, and lengths with every padding, with the bits of a row, most significant first.
    #[test]
    fn samples_of_every_width_are_a_bit_string_from_the_most_significant_bit() {
        for bits in (1..=64_usize).filter(|bits| ![8, 16, 32, 64].contains(bits)) {
            for count in [0, 1, 2, 3, 7, 8, 9, 17, 100] {
                let row = noise((count * bits).div_ceil(8));
                let size = DType::for_stored(SampleFormat::Uint, bits).expect("mapped").size();
                let out = unpacked(SampleFormat::Uint, bits, &row, count);
                for (at, sample) in out.chunks_exact(size).enumerate() {
                    let mut want = 0u64;
                    for bit in at * bits..(at + 1) * bits {
                        want = want << 1 | u64::from(row[bit / 8] >> (7 - bit % 8) & 1);
                    }
                    let mut word = [0; 8];
                    if cfg!(target_endian = "big") {
                        word[8 - size..].copy_from_slice(sample);
                    } else {
                        word[..size].copy_from_slice(sample);
                    }
                    assert_eq!(u64::from_ne_bytes(word), want, "{bits} bits, sample {at} of {count}");
                }
            }
        }
    }

    #[test]
    fn written_bits_are_read_back_and_their_neighbours_stay() {
        for bits in 1..=64_usize {
            let before = noise((5 * bits).div_ceil(8));
            let mut row = before.clone();
            let value = 0x0123_4567_89ab_cdef_u64;
            put_bits(&mut row, 2, bits, value);
            for at in 0..5 {
                let want = if at == 2 { value << (64 - bits) >> (64 - bits) } else { get_bits(&before, at, bits) };
                assert_eq!(get_bits(&row, at, bits), want, "{bits} bits, sample {at}");
            }
        }
    }

    fn integer(bits: usize, count: usize) -> Shape {
        Shape { width: count, height: 1, samples: 1, bits, format: SampleFormat::Uint }
    }

    #[test]
    fn packed_samples_of_every_width_unpack_and_the_padding_is_zero() {
        for bits in 1..=64_usize {
            for count in [0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 100] {
                let mut stored = noise((count * bits).div_ceil(8));
                if let Some(last) = stored.last_mut() {
                    *last &= 0xff << ((8 - count * bits % 8) % 8);
                }
                let samples = unpacked(SampleFormat::Uint, bits, &stored, count);
                let mut row = vec![0xaa; stored.len() + 2];
                pack_row(integer(bits, count), &samples, &mut row).expect("it fits");
                stored.extend([0, 0]);
                assert_eq!(row, stored, "{count} samples of {bits} bits");
            }
        }
    }

    #[test]
    fn value_too_wide_for_its_bits_is_an_error_not_truncated() {
        for bits in (1..=63_usize).filter(|bits| ![8, 16, 32].contains(bits)) {
            let dtype = DType::for_stored(SampleFormat::Uint, bits).expect("mapped");
            for at in [0, 3, 7, 8, 12] {
                for place in bits..dtype.size() * 8 {
                    let mut samples = vec![0; 13 * dtype.size()];
                    let wide = 1u64 << place | 1;
                    let bytes = if cfg!(target_endian = "big") { wide << (64 - dtype.size() * 8) } else { wide };
                    samples[at * dtype.size()..][..dtype.size()].copy_from_slice(&bytes.to_ne_bytes()[..dtype.size()]);
                    let result = pack_row(integer(bits, 13), &samples, &mut [0; 13 * 8]);
                    assert_eq!(result, Err(Error::TooWide { value: wide, bits }), "sample {at}");
                }
            }
        }
    }

    #[test]
    fn rows_too_short_and_narrow_floats_are_not_packed() {
        let result = pack_row(integer(12, 3), &[0; 6], &mut [0; 4]);
        assert!(matches!(result, Err(Error::Unsuited { .. })), "{result:?}");
        for (format, bits) in [(SampleFormat::Float, 24), (SampleFormat::ComplexFloat, 32), (SampleFormat::Uint, 65)] {
            let result = pack_row(Shape { bits, format, ..integer(1, 1) }, &[0; 8], &mut [0; 64]);
            assert!(matches!(result, Err(Error::Unsuited { .. })), "{result:?}");
        }
        let mut row = [9; 9];
        pack_row(Shape { bits: 32, format: SampleFormat::Float, ..integer(1, 2) }, &[1, 2, 3, 4, 5, 6, 7, 8], &mut row)
            .expect("whole floats are copied");
        assert_eq!(row, [1, 2, 3, 4, 5, 6, 7, 8, 0]);
    }

    #[test]
    fn signed_integers_of_odd_widths_are_read_as_unsigned_like_gdal() {
        assert_eq!(DType::for_stored(SampleFormat::Int, 12), Some(DType::U16));
        let out = unpacked(SampleFormat::Int, 12, &[0xff, 0xf8, 0x00], 2);
        assert_eq!(out, [0x0fff_u16.to_ne_bytes(), 0x0800_u16.to_ne_bytes()].concat());
    }

    /// The values come from the definition of the format: 1 sign, 7 exponent (bias 63) and 16 mantissa bits.
    /// GDAL 3.12 returns the same bits.
    #[test]
    fn float24_keeps_zero_sign_denormals_infinity_and_nan() {
        let cases = [
            (0x00_0000, 0.0_f32.to_bits()),
            (0x80_0000, (-0.0_f32).to_bits()),
            (0x3f_0000, 1.0_f32.to_bits()),
            (0xc0_8000, (-3.0_f32).to_bits()),
            (0x00_0001, 2.0_f32.powi(-78).to_bits()),
            (0x80_8000, (-(2.0_f32.powi(-63))).to_bits()),
            (0x01_0000, 2.0_f32.powi(-62).to_bits()),
            (0x7e_ffff, 0x5f7f_ff80),
            (0x7f_0000, f32::INFINITY.to_bits()),
            (0xff_0000, f32::NEG_INFINITY.to_bits()),
            (0x7f_0001, 0x7f80_0080),
        ];
        for (stored, want) in cases {
            let bytes = u32::to_ne_bytes(stored);
            let bytes = if cfg!(target_endian = "big") { &bytes[1..] } else { &bytes[..3] };
            assert_eq!(f32s(&unpacked(SampleFormat::Float, 24, bytes, 1)), [want], "{stored:#08x}");
        }
    }

    #[test]
    fn complex_halves_become_complex_singles() {
        let row = [0x3c00_u16, 0xc000, 0x0001, 0x7bff, 0x7c00, 0xfc00].map(u16::to_ne_bytes).concat();
        let want = [1.0, -2.0, 2.0_f32.powi(-24), 65504.0, f32::INFINITY, f32::NEG_INFINITY].map(f32::to_bits);
        assert_eq!(f32s(&unpacked(SampleFormat::ComplexFloat, 32, &row, 3)), want);
    }

    #[test]
    fn short_rows_and_unknown_samples_are_errors() {
        let mut shape = Shape { width: 3, height: 1, samples: 1, bits: 12, format: SampleFormat::Uint };
        let result = unpack_row(shape, &[0; 4], &mut [0; 6]);
        assert!(matches!(result, Err(Error::Truncated { got: 4, want: 5, .. })), "{result:?}");
        shape.bits = 65;
        let result = unpack_row(shape, &[0; 64], &mut [0; 6]);
        assert!(matches!(result, Err(Error::Unsuited { .. })), "{result:?}");
    }

    #[test]
    fn whole_samples_are_copied_and_a_short_output_cuts_the_row() {
        assert_eq!(unpacked(SampleFormat::Int, 16, &[1, 2, 3, 4, 5, 6], 2), [1, 2, 3, 4]);
        assert!(!is_packed(SampleFormat::Int, 16));
        assert!(is_packed(SampleFormat::Float, 24) && is_packed(SampleFormat::Uint, 1));
        assert!(is_packed(SampleFormat::ComplexFloat, 32) && !is_packed(SampleFormat::ComplexInt, 32));
    }

    #[test]
    fn complex_integers_widen_as_in_gdal_and_exactly_to_double_precision() {
        let src = [i32::MAX, i32::MIN].map(i32::to_ne_bytes).concat();
        let mut out = [0; 8];
        widen_complex_int(DType::CI32, &src, DType::CI32.widened(), &mut out).expect("complex");
        assert_eq!(out.as_slice(), [i32::MAX as f32, i32::MIN as f32].map(f32::to_ne_bytes).concat());
        let mut out = [0; 16];
        widen_complex_int(DType::CI32, &src, DType::CF64, &mut out).expect("complex");
        assert_eq!(out.as_slice(), [f64::from(i32::MAX), f64::from(i32::MIN)].map(f64::to_ne_bytes).concat());
        let src = [-5_i16, 7].map(i16::to_ne_bytes).concat();
        let mut out = [0; 8];
        widen_complex_int(DType::CI16, &src, DType::CI16.widened(), &mut out).expect("complex");
        assert_eq!(out.as_slice(), [-5.0_f32, 7.0].map(f32::to_ne_bytes).concat());
        assert!(widen_complex_int(DType::U8, &src, DType::CF32, &mut out).is_err());
    }

    #[test]
    fn names_and_codes_are_unique_and_agree_with_the_size() {
        let mut names = std::collections::HashSet::new();
        for dtype in DType::ALL {
            assert!(names.insert(dtype.name()));
            if let Some(code) = dtype.numpy_code() {
                assert_eq!(code[1..].parse(), Ok(dtype.size()), "{code}");
            } else {
                assert_eq!(dtype.widened(), DType::CF32);
            }
        }
    }

    #[test]
    fn bits_are_reversed_in_each_byte() {
        let mut data = [0b1000_0000, 0b0001_0011, 0xff];
        reverse_bits(&mut data);
        assert_eq!(data, [0b0000_0001, 0b1100_1000, 0xff]);
    }
}
