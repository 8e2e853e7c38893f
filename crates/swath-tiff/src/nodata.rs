//! The nodata value: the sample value that marks missing pixels.
//!
//! GDAL stores it as text in tag 42113. The sample type is needed to parse the text, because the same text
//! means different values: `9007199254740993` is exact for 64-bit integers and rounded for doubles, and
//! `-3.40282347e+38` is the lowest `f32` although no `f32` has that decimal value.

use std::fmt;

use crate::number::{self, Leading};
use crate::sample_format::SampleFormat;

/// A nodata value, exact for every sample type.
#[derive(Debug, Clone, Copy)]
pub enum NoData {
    /// A non-negative whole number: of unsigned samples, or too large for `i64`.
    Uint(u64),
    /// A whole number: of signed samples, or negative.
    Int(i64),
    /// Any other value: a fraction, a number outside the range of 64-bit integers, an infinity or NaN; and all
    /// values of float samples.
    Float(f64),
}

/// How a nodata value relates to the samples of a type.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum SampleMatch {
    /// A sample can have the value: this one, rounded to the type.
    Value(NoData),
    /// The value lies outside the range of the type.
    OutOfRange,
    /// The samples are integers and the value has a fraction.
    Fractional,
    /// The samples are integers and the value is an infinity or NaN.
    NonFinite,
}

/// One part of a sample: the type of its number and the number of bits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Uint(u32),
    Int(u32),
    Half,
    Single,
    Double,
}

impl Part {
    fn new(kind: SampleFormat, bits: u32) -> Self {
        let float = |bits| match bits {
            0..=16 => Self::Half,
            17..=32 => Self::Single,
            _ => Self::Double,
        };
        match kind {
            SampleFormat::Uint => Self::Uint(bits),
            SampleFormat::Int => Self::Int(bits),
            SampleFormat::Float => float(bits),
            SampleFormat::ComplexInt => Self::Int(bits / 2),
            SampleFormat::ComplexFloat => float(bits / 2),
        }
    }
}

impl NoData {
    /// Parses the text of the GDAL_NODATA tag for samples of `bits` bits (both parts of a complex sample
    /// together).
    ///
    /// As in GDAL, any text may follow a number, a comma is a decimal mark, and values that the samples cannot
    /// hold are returned too; [`fits`](Self::fits) tests for them. Text without a number means no nodata value;
    /// GDAL would read it as 0 and hide every zero of the image.
    ///
    /// ```
    /// use swath_tiff::SampleFormat;
    /// use swath_tiff::nodata::NoData;
    /// assert_eq!(NoData::parse("-9999", SampleFormat::Int, 16), Some(NoData::Int(-9999)));
    /// assert_eq!(NoData::parse("9007199254740993", SampleFormat::Uint, 64), Some(NoData::Uint(9007199254740993)));
    /// assert_eq!(NoData::parse("n/a", SampleFormat::Float, 32), None);
    /// ```
    pub fn parse(text: &str, kind: SampleFormat, bits: u32) -> Option<Self> {
        let text = text.split('\0').next().unwrap_or_default();
        let number = number::leading(text, true)?;
        // GDAL reads these with strtoull and strtoll, which do not support fractions, exponents or names, and
        // which read -1 as the largest unsigned number.
        Some(match Part::new(kind, bits) {
            Part::Uint(64) => {
                let whole = number::leading_whole(text);
                Self::Uint(if whole.unsigned_abs() > u64::MAX.into() { u64::MAX } else { whole as u64 })
            }
            Part::Int(64) => Self::Int(number::leading_whole(text).clamp(i64::MIN.into(), i64::MAX.into()) as i64),
            _ => Self::new(number, kind, bits),
        })
    }

    /// Parses a value that a user gives, not a tag: `1e3` is a thousand, also for 64-bit integers. If the
    /// samples cannot hold the value, the result is the value that readers would parse from its text.
    pub fn stated(text: &str, kind: SampleFormat, bits: u32) -> Option<Self> {
        let meant = Self::new(number::leading(text, true)?, kind, bits);
        if meant.fits(kind, bits) { Some(meant) } else { Self::parse(text, kind, bits) }
    }

    /// The number that a text is, as it is written: no sample type rounds it, and digits alone are a whole number. `None` for a text
    /// that is not a number from its first to its last character; [`parse`](Self::parse) reads those as GDAL does.
    ///
    /// ```
    /// use swath_tiff::nodata::NoData;
    /// assert_eq!(NoData::number("-9999"), Some(NoData::Int(-9999)));
    /// assert_eq!(NoData::number("0.1"), Some(NoData::Float(0.1)));
    /// assert_eq!(NoData::number("0x10"), None);
    /// ```
    pub fn number(text: &str) -> Option<Self> {
        let text = text.trim_matches([' ', '\t', '\r', '\n', '\0']);
        let whole = text.parse().ok().map(Self::from_whole);
        let float = || text.parse().ok().or_else(|| number::microsoft_special(text)).map(Self::Float);
        whole.or_else(float)
    }

    /// Converts a double to a nodata value for samples of that type.
    pub fn from_f64(value: f64, kind: SampleFormat, bits: u32) -> Self {
        Self::new(Leading::Float(value), kind, bits)
    }

    fn new(number: Leading, kind: SampleFormat, bits: u32) -> Self {
        let part = Part::new(kind, bits);
        match part {
            // GDAL rounds for plain floats only. For complex samples it reports the value as written.
            Part::Single if kind == SampleFormat::Float => return Self::Float(f64::from(number.value() as f32)),
            Part::Half | Part::Single | Part::Double => return Self::Float(number.value()),
            Part::Uint(_) | Part::Int(_) => {}
        }
        let whole = match number {
            Leading::Integer(value) => value,
            Leading::Float(value) if value.fract() == 0.0 && value.abs() < 1e30 => value as i128,
            Leading::Float(value) => return Self::Float(value),
        };
        // A writer that converts through doubles changes the largest 64-bit integers to the next power of two.
        let whole = match part {
            Part::Uint(64) if whole == 1 << 64 => whole - 1,
            Part::Int(64) if whole == 1 << 63 => whole - 1,
            _ => whole,
        };
        match u64::try_from(whole) {
            Ok(unsigned) if matches!(part, Part::Uint(_)) => Self::Uint(unsigned),
            _ => Self::from_whole(whole),
        }
    }

    /// A whole number; beyond 64 bits it is rounded.
    fn from_whole(whole: i128) -> Self {
        let signed = i64::try_from(whole).map(Self::Int);
        signed.or(u64::try_from(whole).map(Self::Uint)).unwrap_or(Self::Float(whole as f64))
    }

    /// Returns the value as a double, rounded if it has more than 53 significant bits.
    pub fn value_f64(self) -> f64 {
        match self {
            Self::Uint(value) => value as f64,
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    /// Whether a sample of that type can hold the value (floats after rounding). If not, no pixel is nodata.
    pub fn fits(self, kind: SampleFormat, bits: u32) -> bool {
        match Part::new(kind, bits) {
            Part::Uint(bits) => self.whole().is_some_and(|whole| whole >= 0 && whole >> bits.min(64) == 0),
            Part::Int(bits) => {
                self.whole().is_some_and(|whole| bits > 0 && matches!(whole >> (bits.min(64) - 1), 0 | -1))
            }
            Part::Half => !self.value_f64().is_finite() || half::f16::from_f64(self.value_f64()).is_finite(),
            Part::Single => !self.value_f64().is_finite() || (self.value_f64() as f32).is_finite(),
            Part::Double => true,
        }
    }

    /// Which sample of that type means nodata, or why none can.
    pub fn sample_match(self, kind: SampleFormat, bits: u32) -> SampleMatch {
        let fits = self.fits(kind, bits);
        match (Part::new(kind, bits), self) {
            (Part::Uint(_) | Part::Int(_), Self::Float(value)) if !value.is_finite() => SampleMatch::NonFinite,
            (Part::Uint(_) | Part::Int(_), Self::Float(value)) if value.fract() != 0.0 => SampleMatch::Fractional,
            _ if !fits => SampleMatch::OutOfRange,
            (Part::Uint(_) | Part::Int(_), _) => SampleMatch::Value(self.whole().map_or(self, Self::from_whole)),
            (Part::Half, _) => SampleMatch::Value(Self::Float(half::f16::from_f64(self.value_f64()).to_f64())),
            (Part::Single, _) => SampleMatch::Value(Self::Float(f64::from(self.value_f64() as f32))),
            (Part::Double, _) => SampleMatch::Value(Self::Float(self.value_f64())),
        }
    }

    /// Whether the value is between the smallest and the largest number of the type in which pixels are read.
    /// rasterio requires this before it reports a nodata value. A fraction can be in the range of integers.
    pub fn in_range(self, kind: SampleFormat, bits: u32) -> bool {
        match Part::new(kind, bits) {
            Part::Uint(bits) => self.lies_in(false, bits),
            Part::Int(bits) => self.lies_in(true, bits),
            Part::Half | Part::Single | Part::Double => self.fits(kind, bits),
        }
    }

    fn lies_in(self, signed: bool, bits: u32) -> bool {
        let container = bits.clamp(8, 64).next_power_of_two();
        let kind = if signed { SampleFormat::Int } else { SampleFormat::Uint };
        match self {
            Self::Float(value) => {
                let fits = |whole| Self::from_f64(whole, kind, container).fits(kind, container);
                value.is_finite() && fits(value.floor()) && fits(value.ceil())
            }
            whole => whole.fits(kind, container),
        }
    }

    /// Returns the bytes of a nodata sample at the start of the array, in the byte order of this machine.
    ///
    /// For complex samples these are the bytes of the real part. Samples of less than a byte, or of an odd
    /// number of bits, are widened to the next size of 8, 16, 32 or 64 bits. NaN has many bit patterns, so
    /// compare pixels by `is_nan` if the nodata value is NaN.
    pub fn as_bytes(self, kind: SampleFormat, bits: u32) -> Option<[u8; 8]> {
        if !self.fits(kind, bits) {
            return None;
        }
        let part = Part::new(kind, bits);
        let mut out = [0; 8];
        match part {
            Part::Half => out[..2].copy_from_slice(&half::f16::from_f64(self.value_f64()).to_ne_bytes()),
            Part::Single => out[..4].copy_from_slice(&(self.value_f64() as f32).to_ne_bytes()),
            Part::Double => out.copy_from_slice(&self.value_f64().to_ne_bytes()),
            Part::Uint(bits) | Part::Int(bits) => {
                // The low bits of the two's complement represent the value in every narrower type.
                let low = self.whole()? as u64;
                match bits {
                    0..=8 => out[..1].copy_from_slice(&(low as u8).to_ne_bytes()),
                    9..=16 => out[..2].copy_from_slice(&(low as u16).to_ne_bytes()),
                    17..=32 => out[..4].copy_from_slice(&(low as u32).to_ne_bytes()),
                    33..=64 => out.copy_from_slice(&low.to_ne_bytes()),
                    _ => return None,
                }
            }
        }
        Some(out)
    }

    /// Returns the value as a whole number, if it is one.
    fn whole(self) -> Option<i128> {
        match self {
            Self::Uint(value) => Some(value.into()),
            Self::Int(value) => Some(value.into()),
            Self::Float(value) if value.fract() == 0.0 && value.abs() < 1e30 => Some(value as i128),
            Self::Float(_) => None,
        }
    }
}

/// Two values are equal if the same pixels are nodata under both, so NaN equals NaN.
impl PartialEq for NoData {
    fn eq(&self, other: &Self) -> bool {
        match (self.whole(), other.whole()) {
            (Some(a), Some(b)) => a == b,
            (None, None) => {
                let (a, b) = (self.value_f64(), other.value_f64());
                a == b || (a.is_nan() && b.is_nan())
            }
            _ => false,
        }
    }
}

/// The text of the GDAL_NODATA tag, as GDAL writes it.
impl fmt::Display for NoData {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uint(value) => value.fmt(out),
            Self::Int(value) => value.fmt(out),
            Self::Float(value) => number::format_g17(*value).fmt(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const U8: (SampleFormat, u32) = (SampleFormat::Uint, 8);
    const U64: (SampleFormat, u32) = (SampleFormat::Uint, 64);
    const I64: (SampleFormat, u32) = (SampleFormat::Int, 64);
    const F16: (SampleFormat, u32) = (SampleFormat::Float, 16);
    const F32: (SampleFormat, u32) = (SampleFormat::Float, 32);
    const F64: (SampleFormat, u32) = (SampleFormat::Float, 64);

    fn read(text: &str, (kind, bits): (SampleFormat, u32)) -> Option<NoData> {
        NoData::parse(text, kind, bits)
    }

    #[test]
    fn integers_of_64_bits_are_exact() {
        for text in ["9007199254740993", "9007199254740993.5", " 9007199254740993 \0junk"] {
            assert_eq!(read(text, U64).map(|v| v.to_string()), Some("9007199254740993".into()));
            assert_eq!(read(text, I64).map(|v| v.to_string()), Some("9007199254740993".into()));
        }
        assert_eq!(read("18446744073709551615", U64), Some(NoData::Uint(u64::MAX)));
        assert_eq!(read("-9223372036854775808", I64), Some(NoData::Int(i64::MIN)));
    }

    #[test]
    fn parsing_of_64_bit_integers_stops_after_the_digits() {
        for (text, value) in [
            ("-1", u64::MAX),
            ("-9999", 1_u64.wrapping_sub(10_000)),
            ("5.5", 5),
            ("-5.5", 5_u64.wrapping_neg()),
            ("1e39", 1),
            ("inf", 0),
            ("-nan", 0),
            (".5", 0),
            ("99999999999999999999", u64::MAX),
            ("-99999999999999999999", u64::MAX),
            ("9999999999999999999999999999999999999999999999", u64::MAX),
            ("-18446744073709551615", 1),
        ] {
            assert_eq!(read(text, U64), Some(NoData::Uint(value)), "{text}");
        }
        for (text, value) in [
            ("-5.5", -5),
            ("9.2233720368547758e+18", 9),
            ("18446744073709551615", i64::MAX),
            ("-99999999999999999999", i64::MIN),
            ("inf", 0),
        ] {
            assert_eq!(read(text, I64), Some(NoData::Int(value)), "{text}");
        }
    }

    #[test]
    fn value_from_a_user_may_have_an_exponent() {
        let stated = |text: &str, (kind, bits): (SampleFormat, u32)| NoData::stated(text, kind, bits);
        assert_eq!(stated("1e3", I64), Some(NoData::Int(1000)));
        assert_eq!(stated("18446744073709551616", U64), Some(NoData::Uint(u64::MAX)));
        assert_eq!(stated("1.8446744073709552e+19", U64), Some(NoData::Uint(u64::MAX)));
        assert_eq!(stated("9.2233720368547758e+18", I64), Some(NoData::Int(i64::MAX)));
        assert_eq!(stated("-1", U64), Some(NoData::Uint(u64::MAX)));
        assert_eq!(stated("-1", U8), Some(NoData::Int(-1)));
        assert_eq!(stated("none", U64), None);
    }

    #[test]
    fn value_that_no_sample_can_have_says_why() {
        let against = |value: NoData, (kind, bits): (SampleFormat, u32)| value.sample_match(kind, bits);
        assert_eq!(against(NoData::Float(255.0), U8), SampleMatch::Value(NoData::Uint(255)));
        assert_eq!(against(NoData::Int(-9999), U8), SampleMatch::OutOfRange);
        assert_eq!(against(NoData::Float(1e300), I64), SampleMatch::OutOfRange);
        assert_eq!(against(NoData::Float(0.5), I64), SampleMatch::Fractional);
        assert_eq!(against(NoData::Float(f64::NAN), U8), SampleMatch::NonFinite);
        assert_eq!(against(NoData::Uint(u64::MAX), U64), SampleMatch::Value(NoData::Uint(u64::MAX)));
        assert_eq!(against(NoData::Float(0.1), F32), SampleMatch::Value(NoData::Float(f64::from(0.1_f32))));
        assert_eq!(against(NoData::Float(1e300), F32), SampleMatch::OutOfRange);
        assert_eq!(against(NoData::Float(f64::INFINITY), F32), SampleMatch::Value(NoData::Float(f64::INFINITY)));
    }

    #[test]
    fn number_is_the_whole_text_and_not_rounded_to_a_type() {
        let number = |text: &str| NoData::number(text).map(|value| format!("{value:?}"));
        for (text, expected) in [
            ("-9999", "Int(-9999)"),
            (" 0.1 \0", "Float(0.1)"),
            ("5.0", "Float(5.0)"),
            ("-1.#INF", "Float(-inf)"),
            ("1.#QNAN", "Float(NaN)"),
            ("nan", "Float(NaN)"),
            ("18446744073709551615", "Uint(18446744073709551615)"),
            ("1000000000000000000000", "Float(1e21)"),
        ] {
            assert_eq!(number(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["", "none", "0x10", "1,5", "5 m", "1.#INFx"] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn value_for_single_floats_is_rounded_to_single_precision() {
        for text in ["-3.40282347e+38", "-3.4028235e38", "-3.402823466385289e+38", "-3.4028234663852886e+38"] {
            assert_eq!(read(text, F32), Some(NoData::Float(f64::from(f32::MIN))), "{text}");
        }
        assert_eq!(read("-3.39999999999999996e+38", F32).map(NoData::value_f64), Some(-3.3999999521443642e38));
        assert_eq!(read("3.4028236e+38", F32), Some(NoData::Float(f64::INFINITY)));
        assert_eq!(read("0.1", F64), Some(NoData::Float(0.1)));
    }

    #[test]
    fn specials_of_every_compiler_are_read() {
        for text in ["nan", "NaN", "-nan", "-1.#IND", "1.#QNAN"] {
            assert_eq!(read(text, F32), Some(NoData::Float(f64::NAN)), "{text}");
        }
        assert_eq!(read("-1.#INF", F32), Some(NoData::Float(f64::NEG_INFINITY)));
        assert_eq!(read("1e400", F64), Some(NoData::Float(f64::INFINITY)));
    }

    #[test]
    fn text_without_a_number_hides_no_zeros() {
        for text in ["", "  ", "abc", "None", "\0", "--5"] {
            assert_eq!(read(text, U8), None, "{text:?}");
        }
        assert_eq!(read("12abc", U8), Some(NoData::Uint(12)));
        assert_eq!(read("1,5", F64), Some(NoData::Float(1.5)));
        assert_eq!(read("0x10", U8), Some(NoData::Uint(0)));
    }

    #[test]
    fn values_out_of_range_are_reported_and_match_no_pixel() {
        for (text, (kind, bits)) in
            [("-9999", U8), ("9999", U8), ("nan", U8), ("1e400", (SampleFormat::Int, 32)), ("65520", F16), ("3.7", U8)]
        {
            let value = read(text, (kind, bits)).expect(text);
            assert!(!value.fits(kind, bits), "{text}");
            assert_eq!(value.as_bytes(kind, bits), None, "{text}");
        }
        assert_eq!(read("-9999", U8), Some(NoData::Int(-9999)));
        assert!(
            NoData::Float(3.7).in_range(SampleFormat::Uint, 8) && !NoData::Float(-0.5).in_range(SampleFormat::Uint, 8)
        );
        assert!(NoData::Uint(255).in_range(SampleFormat::Uint, 1) && !NoData::Uint(255).fits(SampleFormat::Uint, 1));
        assert!(!NoData::Uint(40_000).in_range(SampleFormat::ComplexInt, 32));
    }

    #[test]
    fn bytes_are_those_of_a_sample() {
        let bytes = |value: NoData, (kind, bits): (SampleFormat, u32)| value.as_bytes(kind, bits).expect("fits");
        assert_eq!(bytes(NoData::Uint(255), U8)[0], 255);
        assert_eq!(bytes(NoData::Int(-9999), (SampleFormat::Int, 16))[..2], (-9999_i16).to_ne_bytes());
        assert_eq!(bytes(NoData::Int(-9999), (SampleFormat::ComplexInt, 32))[..2], (-9999_i16).to_ne_bytes());
        assert_eq!(bytes(NoData::Uint(u64::MAX), U64), u64::MAX.to_ne_bytes());
        assert_eq!(bytes(NoData::Float(0.1), F32)[..4], 0.1_f32.to_ne_bytes());
        assert_eq!(bytes(NoData::Float(-9999.0), (SampleFormat::ComplexFloat, 64))[..4], (-9999_f32).to_ne_bytes());
        assert_eq!(bytes(NoData::Float(0.5), F16)[..2], half::f16::from_f64(0.5).to_ne_bytes());
        assert_eq!(bytes(NoData::Int(i64::MIN), I64), i64::MIN.to_ne_bytes());
    }

    #[test]
    fn absurd_sample_sizes_do_not_panic() {
        for bits in [0, 1, 7, 33, 63, 65, 83, 128, u32::MAX] {
            for kind in [
                SampleFormat::Uint,
                SampleFormat::Int,
                SampleFormat::Float,
                SampleFormat::ComplexInt,
                SampleFormat::ComplexFloat,
            ] {
                for value in [NoData::Uint(u64::MAX), NoData::Int(-1), NoData::Float(f64::NAN), NoData::Float(1e300)] {
                    let _ = (value.fits(kind, bits), value.in_range(kind, bits), value.as_bytes(kind, bits));
                }
            }
        }
    }

    #[test]
    fn written_text_reads_back_to_the_same_value() {
        for (text, sample) in
            [("-3.4028234663852886e+38", F32), ("0.10000000000000001", F64), ("nan", F32), ("255", U8), ("-inf", F64)]
        {
            assert_eq!(read(text, sample).map(|value| value.to_string()).as_deref(), Some(text));
        }
        crate::mutate::each(b"-3.40282347e+38, 18446744073709551615", 20_000, |bytes| {
            let text = String::from_utf8_lossy(bytes);
            for sample in [U8, U64, I64, F32, F64] {
                if let Some(value) = read(&text, sample) {
                    assert_eq!(read(&value.to_string(), sample), Some(value), "{text:?}");
                }
            }
        });
    }
}
