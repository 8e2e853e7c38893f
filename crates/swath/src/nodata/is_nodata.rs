//! Tests whether samples are nodata. Masks, overviews and statistics use this one rule, so that they agree.

use swath_tiff::nodata::NoData;

use crate::read::pixels::{Sample, kind_of};

/// A sample type that holds one real number, with the operations that arithmetic on samples needs.
pub(crate) trait Number: Sample + PartialOrd {
    /// Zero.
    const ZERO: Self;
    /// The least value of the type; for floats, negative infinity.
    const LEAST: Self;
    /// The greatest value of the type; for floats, infinity.
    const GREATEST: Self;
    /// Whether the type has NaN.
    const FLOAT: bool;

    /// Converts to the nearest value of the type. Integers are rounded half away from zero and clamped to the
    /// range.
    fn from_f64(value: f64) -> Self;

    /// Creates a sample from the first bytes of a nodata value.
    fn from_start(bytes: [u8; 8]) -> Self;

    /// Returns the value that is `by` representable values away from this one, clamped to the range of the
    /// type.
    fn step(self, by: i64) -> Self;

    /// Whether this sample equals the nodata value, or is so close that GDAL treats it as equal.
    fn is_near(self, nodata: NoData) -> bool;

    /// The greatest distance from nodata, in representable values, at which a sample can still be near it.
    const REACH: i64;
}

macro_rules! integers {
    ($($type:ty)*) => {
        $(impl Number for $type {
            const ZERO: Self = 0;
            const LEAST: Self = Self::MIN;
            const GREATEST: Self = Self::MAX;
            const FLOAT: bool = false;
            const REACH: i64 = 0;

            #[inline]
            fn from_f64(value: f64) -> Self {
                // Doubles from 2^51 up need no rounding: adding a half to them could change the value.
                // `f64::round` would be a function call.
                let half: f64 = if value.abs() < (1_u64 << 51) as f64 { 0.5 } else { 0.0 };
                (value + half.copysign(value)) as Self
            }

            fn from_start(bytes: [u8; 8]) -> Self {
                bytes.first_chunk().map_or(0, |bytes| Self::from_ne_bytes(*bytes))
            }

            fn step(self, by: i64) -> Self {
                let wide = i128::from(self) + i128::from(by);
                wide.clamp(Self::MIN.into(), Self::MAX.into()) as Self
            }

            fn is_near(self, nodata: NoData) -> bool {
                sample_of(nodata) == Some(self)
            }
        })*
    };
}

integers!(u8 i8 u16 i16 u32 i32 u64 i64);

macro_rules! floats {
    ($($type:ty, $bits:ty, $from:expr, $near:expr, $reach:expr;)*) => {
        $(impl Number for $type {
            const ZERO: Self = <$type>::from_bits(0);
            const LEAST: Self = <$type>::NEG_INFINITY;
            const GREATEST: Self = <$type>::INFINITY;
            const FLOAT: bool = true;
            const REACH: i64 = $reach;

            #[inline]
            fn from_f64(value: f64) -> Self {
                $from(value)
            }

            fn from_start(bytes: [u8; 8]) -> Self {
                bytes.first_chunk().map_or(Self::ZERO, |bytes| Self::from_ne_bytes(*bytes))
            }

            fn step(self, by: i64) -> Self {
                if self.is_nan() {
                    return self;
                }
                // The bits of positive floats, read as integers, are in the order of the floats. Those of
                // negative floats are in reverse order.
                let mirrored = |place: i128| if place < 0 { i128::from(<$bits>::MIN) - place } else { place };
                let ordered = |bits: $bits| mirrored(bits.into());
                let end = ordered(Self::INFINITY.to_bits() as $bits);
                let place = (ordered(self.to_bits() as $bits) + i128::from(by)).clamp(-end, end);
                Self::from_bits(mirrored(place) as $bits as _)
            }

            fn is_near(self, nodata: NoData) -> bool {
                $near(self.to_f64(), nodata.value_f64())
            }
        })*
    };
}

floats! {
    // `half::f16::from_f64` rounds once or twice, depending on the processor. Rounding twice, as here, is
    // what it does on most processors.
    half::f16, i16, |value| half::f16::from_f32(value as f32), same, 0;
    f32, i32, |value| value as f32, near, 1 << 6;
    f64, i64, |value| value, near, 1 << 34;
}

fn same(sample: f64, value: f64) -> bool {
    sample == value || (sample.is_nan() && value.is_nan())
}

/// Whether two values are equal within single precision, also for doubles. This is GDAL's rule; it recognises
/// values that were converted through other types or through text.
fn near(sample: f64, value: f64) -> bool {
    same(sample, value) || (sample - value).abs() < 2.0 * f64::from(f32::EPSILON) * (sample + value).abs()
}

/// Returns the nodata value as a sample, if the type can hold it. As GDAL does, it drops the fraction before
/// a comparison with integers.
fn sample_of<T: Number>(nodata: NoData) -> Option<T> {
    let (kind, bits) = kind_of(T::DTYPE);
    match nodata {
        NoData::Float(value) if !T::FLOAT && nodata.in_range(kind, bits) => {
            exact_sample(NoData::from_f64(value.trunc(), kind, bits))
        }
        _ => exact_sample(nodata),
    }
}

fn exact_sample<T: Number>(nodata: NoData) -> Option<T> {
    let (kind, bits) = kind_of(T::DTYPE);
    nodata.as_bytes(kind, bits).map(T::from_start)
}

/// Returns the sample nearest to a nodata value that the type may be unable to hold. GDAL fills blocks that
/// are not stored with it.
pub(crate) fn nearest_sample<T: Number>(nodata: NoData) -> T {
    exact_sample(nodata).unwrap_or_else(|| T::from_f64(nodata.value_f64()))
}

/// The samples that count as nodata, as a range. Integers and half floats are compared exactly; wider floats
/// count as nodata when they are near it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodataTest<T> {
    low: T,
    high: T,
    /// The nodata value itself.
    middle: T,
    /// False when no number is nodata. `low` is greater than `high` in that case.
    any: bool,
    /// Whether nodata is NaN.
    nan: bool,
}

impl<T: Number> NodataTest<T> {
    /// Creates the test for a nodata value and this sample type.
    pub(crate) fn new(nodata: Option<NoData>) -> Self {
        let nan = T::FLOAT && nodata.is_some_and(|nodata| nodata.value_f64().is_nan());
        let found = nodata.and_then(|nodata| Some((nodata, sample_of::<T>(nodata)?)));
        match found {
            Some((nodata, middle)) if !nan && middle.is_near(nodata) => {
                let (low, high) = (last_near(middle, -1, nodata), last_near(middle, 1, nodata));
                Self { low, high, middle, any: true, nan }
            }
            _ => Self { low: T::GREATEST, high: T::LEAST, middle: T::ZERO, any: false, nan },
        }
    }

    /// Returns a sample that is nodata: NaN if nodata is NaN, and `None` if the type cannot hold the nodata
    /// value.
    pub(crate) fn sample(&self) -> Option<T> {
        if self.nan { Some(T::from_f64(f64::NAN)) } else { self.any.then_some(self.middle) }
    }

    /// The least and the greatest number that count as nodata. If no number does, the first is greater than
    /// the second.
    pub(crate) fn range(&self) -> (T, T) {
        (self.low, self.high)
    }

    /// Whether any number is nodata.
    pub(crate) fn has_number(&self) -> bool {
        self.any
    }

    /// Whether a sample is nodata. NaN is nodata only if the nodata value is NaN.
    #[inline]
    pub(crate) fn is_nodata(&self, sample: T) -> bool {
        if T::FLOAT {
            (sample >= self.low && sample <= self.high) | (self.nan && sample.partial_cmp(&sample).is_none())
        } else {
            self.any & (sample == self.low)
        }
    }

    /// Whether a sample is a number and not nodata, so that it can take part in arithmetic.
    #[inline]
    pub(crate) fn is_number(&self, sample: T) -> bool {
        if T::FLOAT {
            // Both comparisons are false for NaN. With the empty range, one of them is true for every number.
            (sample < self.low) | (sample > self.high)
        } else {
            !(self.any & (sample == self.low))
        }
    }

    /// Whether all samples of a row are valid numbers. The mask is 0 for a missing pixel.
    pub(crate) fn all_valid(&self, samples: &[T], mask: Option<&[u8]>) -> bool {
        // No early exit: it would prevent the compiler from vectorising the loops.
        let numbers = samples.iter().fold(true, |all, &sample| all & self.is_number(sample));
        numbers && mask.is_none_or(|mask| mask.iter().fold(true, |all, &mask| all & (mask != 0)))
    }

    /// Returns the replacement for a computed value that happens to be nodata: the next greater value that is
    /// not nodata, as in GDAL, or the next smaller one at the end of the range.
    pub(crate) fn beside(&self) -> T {
        let above = self.high.step(1);
        if above < T::GREATEST || (!T::FLOAT && above > self.high) { above } else { self.low.step(-1) }
    }
}

/// Returns the last number in one direction from nodata that still counts as nodata.
fn last_near<T: Number>(middle: T, direction: i64, nodata: NoData) -> T {
    // The difference grows with the distance, so bisection finds the boundary.
    let (mut inside, mut outside) = (0, T::REACH + 1);
    while outside - inside > 1 {
        let between = inside + (outside - inside) / 2;
        if middle.step(direction * between).is_near(nodata) { inside = between } else { outside = between }
    }
    middle.step(direction * inside)
}

/// Runs `$body` with `$type` bound to the Rust type of a sample type. For a complex type, runs `$pair` with
/// `$type` bound to the type of its parts.
macro_rules! with_number {
    (@arms $dtype:expr, $type:ident, $body:expr, $pair:expr;
     $($real:ident $number:ty,)*; $($complex:ident $part:ty,)*) => {
        match $dtype {
            $(DType::$real => {
                type $type = $number;
                $body
            })*
            $(DType::$complex => {
                type $type = $part;
                $pair
            })*
        }
    };
    ($dtype:expr, $type:ident => $body:expr, complex => $pair:expr) => {
        $crate::nodata::is_nodata::with_number!(@arms $dtype, $type, $body, $pair;
            U8 u8, I8 i8, U16 u16, I16 i16, U32 u32, I32 i32, U64 u64, I64 i64, F16 half::f16, F32 f32, F64 f64,;
            CI16 i16, CI32 i32, CF32 f32, CF64 f64,)
    };
}
pub(crate) use with_number;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_holds_exactly_the_samples_that_are_near() {
        for value in [-9999.0, 0.1, 1e-30, -3.4028234663852886e38, 0.0, f64::INFINITY, f64::NEG_INFINITY] {
            let nodata = NoData::Float(f64::from(value as f32));
            let missing = NodataTest::<f32>::new(Some(nodata));
            let middle = value as f32;
            for by in -70..70 {
                let sample = middle.step(by);
                assert_eq!(missing.is_nodata(sample), sample.is_near(nodata), "{sample:e} {value:e}");
            }
            assert!(!missing.is_number(middle) && !missing.is_number(f32::NAN) && !missing.is_nodata(f32::NAN));
            let missing = NodataTest::<f64>::new(Some(nodata));
            for part in [-5.1e-7, -4.7e-7, -1e-9, 0.0, 1e-9, 4.7e-7, 5.1e-7] {
                let sample = f64::from(middle) * (1.0 + part);
                assert_eq!(missing.is_nodata(sample), sample.is_near(nodata), "{sample:e} {value:e}");
            }
        }
    }

    #[test]
    fn value_beside_nodata_is_not_nodata_again() {
        fn check<T: Number>(nodata: NoData) {
            let missing = NodataTest::<T>::new(Some(nodata));
            let (value, beside) = (nodata.value_f64(), missing.beside().to_f64());
            assert!(
                missing.has_number() && missing.is_number(missing.beside()) && beside.is_finite(),
                "{value} {beside}"
            );
        }
        check::<u8>(NoData::Uint(255));
        check::<u64>(NoData::Uint(u64::MAX));
        check::<i16>(NoData::Int(i64::from(i16::MIN)));
        for value in [0.0, -9999.0, 2.0, f64::from(f32::MAX), f64::from(f32::MIN), f64::INFINITY, f64::NEG_INFINITY] {
            check::<f32>(NoData::Float(value));
            check::<f64>(NoData::Float(value));
        }
        check::<f64>(NoData::Float(f64::MAX));
        check::<half::f16>(NoData::Float(-10000.0));
        assert_eq!(NodataTest::<u8>::new(Some(NoData::Uint(2))).beside(), 3);
        assert_eq!(NodataTest::<u8>::new(Some(NoData::Uint(255))).beside(), 254);
    }

    #[test]
    fn half_floats_are_rounded_alike_on_every_processor() {
        // In single precision this value is halfway between two half floats; 2048 is the even one.
        assert_eq!(half::f16::from_f64(2049.0).to_f64(), 2048.0);
        assert_eq!(<half::f16 as Number>::from_f64(2049.0 + 1e-6).to_f64(), 2048.0);
        assert_eq!(<half::f16 as Number>::from_f64(2049.001).to_f64(), 2050.0);
    }

    #[test]
    fn fractional_nodata_matches_the_truncated_integer_but_fills_with_the_nearest() {
        let hidden = |value| {
            let missing = NodataTest::<i16>::new(Some(NoData::Float(value)));
            (-10..10).filter(|&sample| missing.is_nodata(sample)).collect::<Vec<_>>()
        };
        assert_eq!((hidden(5.5), hidden(-5.5), hidden(-0.5)), (vec![5], vec![-5], vec![0]));
        assert_eq!(nearest_sample::<i16>(NoData::Float(5.5)), 6);
        assert!(!NodataTest::<u8>::new(Some(NoData::Float(-0.5))).has_number());
        assert!(!NodataTest::<u8>::new(Some(NoData::Float(255.5))).has_number());
    }

    #[test]
    fn nodata_out_of_range_of_the_type_matches_no_sample() {
        let missing = NodataTest::<u8>::new(Some(NoData::Int(-9999)));
        assert!(!missing.has_number() && (0..=255).all(|sample| missing.is_number(sample)));
        let missing = NodataTest::<f32>::new(Some(NoData::Float(1e300)));
        assert!([f32::MIN, 0.0, f32::INFINITY, f32::NEG_INFINITY].iter().all(|&sample| missing.is_number(sample)));
        assert!(!missing.is_number(f32::NAN));
    }
}
