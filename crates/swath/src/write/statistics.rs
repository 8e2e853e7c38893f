//! Computes exact statistics of the values of a band while it is written, from every valid pixel.
//!
//! Each row is measured separately and always in the same way, and the rows are merged in order. So the
//! result does not depend on threads or on how rows arrive. Integers of up to 32 bits are summed without
//! rounding.

use swath_codec::DType;
use swath_tiff::gdal_metadata::Statistics;
use swath_tiff::nodata::NoData;

use crate::nodata::is_nodata::{NodataTest, Number, with_number};

/// Number of samples that are measured together: few enough that they stay in the first-level cache and that
/// their sums need few bits.
const CHUNK: usize = 4096;

/// Number of samples that are checked together for missing ones.
const RUN: usize = 32;

/// The exact statistics of one band.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BandStatistics {
    count: u64,
    total: u64,
    values: Option<Values>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Values {
    minimum: f64,
    maximum: f64,
    mean: f64,
    std_dev: f64,
}

impl BandStatistics {
    /// The number of valid pixels: not masked, not nodata, not NaN.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The number of all pixels.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The least valid value; `None` when no pixel is valid. For complex samples, all statistics are those of
    /// the real part.
    pub fn minimum(&self) -> Option<f64> {
        self.values.map(|values| values.minimum)
    }

    /// The greatest valid value.
    pub fn maximum(&self) -> Option<f64> {
        self.values.map(|values| values.maximum)
    }

    /// The mean of the valid values; NaN when both infinities occur.
    pub fn mean(&self) -> Option<f64> {
        self.values.map(|values| values.mean)
    }

    /// The standard deviation of the valid values (of the whole population); NaN when an infinity occurs.
    pub fn std_dev(&self) -> Option<f64> {
        self.values.map(|values| values.std_dev)
    }

    /// The percentage of valid pixels.
    pub fn valid_percent(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.count as f64 * 100.0 / self.total as f64 }
    }
}

impl From<BandStatistics> for Statistics {
    fn from(band: BandStatistics) -> Self {
        Self {
            minimum: band.minimum(),
            maximum: band.maximum(),
            // If infinities occur, the mean may be NaN.
            mean: band.mean().filter(|mean| !mean.is_nan()),
            std_dev: band.std_dev().filter(|std_dev| !std_dev.is_nan()),
            valid_percent: Some(band.valid_percent()),
            approximate: false,
        }
    }
}

/// Sums of values.
#[derive(Debug, Clone, Copy)]
enum Moments {
    /// Exact sums of integers of up to 32 bits.
    Whole { sum: i128, squares: u128 },
    /// The mean, and the sum of the squared distances from it.
    Mean { mean: f64, squares: f64 },
}

/// The statistics of one row, or of several consecutive rows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Partial {
    total: u64,
    measured: Option<Measured>,
}

#[derive(Debug, Clone, Copy)]
struct Measured {
    count: u64,
    minimum: f64,
    maximum: f64,
    moments: Moments,
}

impl Partial {
    /// Measures one whole row. `valid` is its mask, 0 for a missing pixel.
    ///
    /// # Panics
    /// If the mask is shorter than the row.
    pub(crate) fn of_row(samples: &[u8], dtype: DType, nodata: Option<NoData>, valid: Option<&[u8]>) -> Self {
        with_number!(dtype, T => {
            of_samples::<T>(samples, size_of::<T>(), nodata, valid)
        }, complex => {
            of_samples::<T>(samples, 2 * size_of::<T>(), nodata, valid)
        })
    }

    /// Adds the rows that follow. For results that are the same to the last bit, the caller must add rows one
    /// by one and in order.
    pub(crate) fn merge(&mut self, next: &Self) {
        self.total += next.total;
        self.measured = match (self.measured, next.measured) {
            (Some(a), Some(b)) => Some(a.joined(&b)),
            (a, b) => a.or(b),
        };
    }

    pub(crate) fn finish(&self) -> BandStatistics {
        let values = self.measured.map(|measured| {
            let (mean, variance) = measured.mean_and_variance();
            let Measured { minimum, maximum, .. } = measured;
            Values { minimum, maximum, mean, std_dev: variance.sqrt() }
        });
        BandStatistics { count: self.measured.map_or(0, |measured| measured.count), total: self.total, values }
    }
}

impl Measured {
    fn joined(&self, next: &Self) -> Self {
        let moments = match (self.moments, next.moments) {
            (Moments::Whole { sum, squares }, Moments::Whole { sum: more, squares: more_squares }) => {
                Moments::Whole { sum: sum + more, squares: squares + more_squares }
            }
            _ => {
                // The method of Chan, Golub and LeVeque: it does not subtract large sums from each other.
                let ((mean, squares), (next_mean, next_squares)) = (self.mean_and_squares(), next.mean_and_squares());
                let (count, more) = (self.count as f64, next.count as f64);
                let distance = next_mean - mean;
                let part = more / (count + more);
                Moments::Mean {
                    mean: mean + distance * part,
                    squares: squares + next_squares + distance * distance * count * part,
                }
            }
        };
        Self {
            count: self.count + next.count,
            minimum: self.minimum.min(next.minimum),
            maximum: self.maximum.max(next.maximum),
            moments,
        }
    }

    /// Returns the mean, and the sum of the squared distances from it.
    fn mean_and_squares(&self) -> (f64, f64) {
        match self.moments {
            Moments::Mean { mean, squares } => (mean, squares),
            Moments::Whole { sum, squares } => {
                let count = i128::from(self.count);
                // Relative to the integer below the mean, all sums are exact and as small as possible.
                let near = sum.div_euclid(count);
                let around = squares as i128 - 2 * near * sum + count * near * near;
                let rest = sum - count * near;
                let exact = around as f64 - rest as f64 * (rest as f64 / count as f64);
                (sum as f64 / count as f64, exact.max(0.0))
            }
        }
    }

    fn mean_and_variance(&self) -> (f64, f64) {
        let (mean, squares) = self.mean_and_squares();
        (mean, squares / self.count as f64)
    }
}

/// Measures the numbers that are `stride` bytes apart.
fn of_samples<T: Measurable>(bytes: &[u8], stride: usize, nodata: Option<NoData>, valid: Option<&[u8]>) -> Partial {
    let missing = NodataTest::<T>::new(nodata);
    let mut copied = [T::ZERO; CHUNK];
    let mut row = Partial { total: (bytes.len() / stride) as u64, measured: None };
    for (at, bytes) in bytes.chunks(CHUNK * stride).enumerate() {
        let count = bytes.len() / stride;
        let mask = valid.map(|valid| &valid[at * CHUNK..][..count]);
        let samples: &[T] = match bytemuck::try_cast_slice(bytes) {
            Ok(samples) if stride == size_of::<T>() => samples,
            // Samples that are not aligned, and the real parts of complex samples.
            _ => {
                for (copy, sample) in copied.iter_mut().zip(bytes.chunks_exact(stride)) {
                    *copy = bytemuck::pod_read_unaligned(&sample[..size_of::<T>()]);
                }
                &copied[..count]
            }
        };
        let next = if missing.all_valid(samples, mask) {
            T::measure(samples)
        } else {
            let mut kept = [T::ZERO; CHUNK];
            let count = keep_valid(samples, &missing, mask, &mut kept);
            T::measure(&kept[..count])
        };
        row.merge(&Partial { total: 0, measured: next });
    }
    row
}

/// Copies the valid samples to `kept` and returns their number.
fn keep_valid<T: Number>(samples: &[T], missing: &NodataTest<T>, mask: Option<&[u8]>, kept: &mut [T; CHUNK]) -> usize {
    let mut count = 0;
    for (at, samples) in samples.chunks(RUN).enumerate() {
        let mask = mask.map(|mask| &mask[at * RUN..][..samples.len()]);
        // Gaps, and the data between them, are usually longer than a run.
        if missing.all_valid(samples, mask) {
            kept[count..][..samples.len()].copy_from_slice(samples);
            count += samples.len();
            continue;
        }
        for (at, &sample) in samples.iter().enumerate() {
            // The sample is always written: a branch for every pixel would cost more.
            kept[count] = sample;
            count += usize::from(missing.is_number(sample) & mask.is_none_or(|mask| mask[at] != 0));
        }
    }
    count
}

/// Numbers that have statistics.
trait Measurable: Number {
    /// Measures up to [`CHUNK`] valid values; `None` when there are none.
    fn measure(values: &[Self]) -> Option<Measured>;
}

/// The number of sums that are computed side by side. It is fixed, so that the order of additions is too, and
/// large enough for any vector unit.
const LANES: usize = 8;

/// Folds the values in each lane, then folds the lanes.
#[inline]
fn fold<T: Copy, A: Copy>(values: &[T], start: A, add: impl Fn(A, T) -> A, join: impl Fn(A, A) -> A) -> A {
    let mut lanes = [start; LANES];
    let (whole, rest) = values.as_chunks::<LANES>();
    for values in whole {
        for (lane, &value) in lanes.iter_mut().zip(values) {
            *lane = add(*lane, value);
        }
    }
    for (lane, &value) in lanes.iter_mut().zip(rest) {
        *lane = add(*lane, value);
    }
    lanes.into_iter().fold(start, join)
}

fn extremes<T: Number>(values: &[T]) -> (f64, f64) {
    let least = |a: T, b: T| if b < a { b } else { a };
    let greatest = |a: T, b: T| if b > a { b } else { a };
    let minimum = fold(values, T::GREATEST, least, least);
    let maximum = fold(values, T::LEAST, greatest, greatest);
    (minimum.to_f64(), maximum.to_f64())
}

macro_rules! exact {
    ($($type:ty, $sum:ty, $square:ty;)*) => {
        $(impl Measurable for $type {
            fn measure(values: &[Self]) -> Option<Measured> {
                let (minimum, maximum) = extremes(values);
                let count = values.len() as u64;
                let sum = fold(values, 0, |sum: $sum, value| sum + <$sum>::from(value), |a, b| a + b);
                // The squares of 32-bit values have 64 bits; their upper and lower halves are summed
                // separately.
                let (low, high) = fold(
                    values,
                    (0_u64, 0_u64),
                    |(low, high), value| {
                        let magnitude = <$square>::from(value.abs_diff(0));
                        let square = u64::from(magnitude * magnitude);
                        (low + (square & 0xffff_ffff), high + (square >> 32))
                    },
                    |a, b| (a.0 + b.0, a.1 + b.1),
                );
                let squares = u128::from(low) + (u128::from(high) << 32);
                let moments = Moments::Whole { sum: sum.into(), squares };
                (count > 0).then_some(Measured { count, minimum, maximum, moments })
            }
        })*
    };
}

exact! {
    u8, i32, u32;
    i8, i32, u32;
    u16, i32, u32;
    i16, i32, u32;
    u32, i64, u64;
    i32, i64, u64;
}

macro_rules! wide {
    ($($type:ty)*) => {
        $(impl Measurable for $type {
            fn measure(values: &[Self]) -> Option<Measured> {
                let (minimum, maximum) = extremes(values);
                let count = values.len() as i128;
                let sum: i128 = values.iter().map(|&value| i128::from(value)).sum();
                let near = sum.checked_div_euclid(count)?;
                let distance = |value: $type| (i128::from(value) - near) as f64;
                let around = fold(values, 0.0, |sum, value| sum + distance(value) * distance(value), |a, b| a + b);
                let rest = (sum - count * near) as f64;
                let moments = Moments::Mean {
                    mean: sum as f64 / count as f64,
                    squares: (around - rest * (rest / count as f64)).max(0.0),
                };
                Some(Measured { count: values.len() as u64, minimum, maximum, moments })
            }
        })*
    };
}

wide!(u64 i64);

macro_rules! floats {
    ($($type:ty)*) => {
        $(impl Measurable for $type {
            fn measure(values: &[Self]) -> Option<Measured> {
                let (minimum, maximum) = extremes(values);
                let count = values.len() as f64;
                let mean = fold(values, 0.0, |sum, value| sum + f64::from(value), |a, b| a + b) / count;
                let square = |sum: f64, value: $type| {
                    let distance = f64::from(value) - mean;
                    sum + distance * distance
                };
                let squares = fold(values, 0.0, square, |a, b| a + b);
                let moments = Moments::Mean { mean, squares };
                (count > 0.0).then_some(Measured { count: values.len() as u64, minimum, maximum, moments })
            }
        })*
    };
}

floats!(half::f16 f32 f64);

#[cfg(test)]
mod tests {
    use super::*;

    fn of<T: crate::Sample>(
        samples: &[T],
        width: usize,
        nodata: Option<NoData>,
        mask: Option<&[u8]>,
    ) -> BandStatistics {
        let mut all = Partial::default();
        for (row, samples) in samples.chunks(width).enumerate() {
            let mask = mask.map(|mask| &mask[row * width..][..width]);
            all.merge(&Partial::of_row(bytemuck::cast_slice(samples), T::DTYPE, nodata, mask));
        }
        all.finish()
    }

    fn values(band: &BandStatistics) -> [f64; 4] {
        [band.minimum(), band.maximum(), band.mean(), band.std_dev()].map(|value| value.expect("valid pixels"))
    }

    #[test]
    fn sentinel_nan_and_masked_pixels_are_not_counted() {
        let band = of(&[1.0_f32, 2.0, f32::NAN, 4.0], 2, Some(NoData::Float(2.0)), None);
        assert_eq!(values(&band), [1.0, 4.0, 2.5, 1.5]);
        assert_eq!((band.count(), band.total(), band.valid_percent()), (2, 4, 50.0));
        let band = of(&[1_u8, 2, 255, 4], 4, Some(NoData::Uint(255)), Some(&[0, 1, 1, 255]));
        assert_eq!(values(&band), [2.0, 4.0, 3.0, 1.0]);
        let band = of(&[[3.0_f32, 99.0], [1.0, -5.0], [-7.0, 1.0]], 3, Some(NoData::Float(-7.0)), None);
        assert_eq!(values(&band), [1.0, 3.0, 2.0, 1.0]);
    }

    #[test]
    fn band_without_data_has_no_values() {
        let band = of(&[5_u8; 9], 3, Some(NoData::Uint(5)), None);
        assert_eq!((band.count(), band.total(), band.valid_percent()), (0, 9, 0.0));
        let written = Statistics::from(band);
        assert_eq!((written.minimum, written.mean, written.valid_percent), (None, None, Some(0.0)));
        assert_eq!(Partial::default().finish().valid_percent(), 0.0);
    }

    #[test]
    fn small_deviation_of_large_values_is_not_lost() {
        let samples: Vec<u32> = (0..90_000).map(|at| u32::MAX - at % 2).collect();
        let band = of(&samples, 300, None, None);
        assert_eq!(values(&band), [4294967294.0, 4294967295.0, 4294967294.5, 0.5]);
        let samples: Vec<i32> = (0..90_000).map(|at| i32::MIN + at % 3).collect();
        assert_eq!(values(&of(&samples, 300, None, None))[3], (2.0_f64 / 3.0).sqrt());
        let samples: Vec<f64> = (0..90_000).map(|at| 1e9 + f64::from(at % 2)).collect();
        assert!((values(&of(&samples, 300, None, None))[3] - 0.5).abs() < 1e-9);
    }

    #[test]
    fn wide_integers_keep_their_standard_deviation() {
        let samples: Vec<u64> = (0..9_000).map(|at| u64::MAX - 1024 * (at % 2)).collect();
        let band = of(&samples, 90, None, None);
        assert_eq!((band.maximum(), band.std_dev()), (Some(u64::MAX as f64), Some(512.0)));
        let samples = [(1_i64 << 53) + 1, (1 << 53) + 3];
        assert_eq!(values(&of(&samples, 2, None, None))[2..], [9007199254740994.0, 1.0]);
        assert_eq!(values(&of(&[i64::MIN, i64::MAX], 1, None, None))[..2], [i64::MIN as f64, i64::MAX as f64]);
        let band = of(&samples, 2, Some(NoData::Int((1 << 53) + 1)), None);
        assert_eq!((band.count(), band.minimum()), (1, Some(((1_i64 << 53) + 3) as f64)));
    }

    #[test]
    fn greatest_sums_do_not_overflow() {
        assert_eq!(values(&of(&[u8::MAX; 20_000], 20_000, None, None)), [255.0, 255.0, 255.0, 0.0]);
        assert_eq!(values(&of(&[u16::MAX; 20_000], 20_000, None, None)), [65535.0, 65535.0, 65535.0, 0.0]);
        assert_eq!(values(&of(&[i16::MIN; 20_000], 20_000, None, None)), [-32768.0, -32768.0, -32768.0, 0.0]);
        assert_eq!(values(&of(&[i8::MIN; 20_000], 20_000, None, None))[3], 0.0);
        assert_eq!(values(&of(&[u32::MAX; 20_000], 20_000, None, None))[2..], [4294967295.0, 0.0]);
        assert_eq!(values(&of(&[i32::MIN; 20_000], 20_000, None, None))[2..], [-2147483648.0, 0.0]);
        let greatest = f64::from(f32::MAX);
        assert_eq!(values(&of(&[f32::MAX; 20_000], 20_000, None, None)), [greatest, greatest, greatest, 0.0]);
    }

    #[test]
    fn statistics_of_every_type_follow_the_definition() {
        fn check<T: Number>(modulus: u64, less: i64) {
            let (width, height) = (9_001, 5);
            let mut seed = 3_u64;
            let mut next = || {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                ((seed >> 33) % modulus) as i64 - less
            };
            let samples: Vec<i64> = (0..width * height).map(|_| next()).collect();
            let typed: Vec<T> = samples.iter().map(|&sample| T::from_f64(sample as f64)).collect();
            let nodata = samples[7];
            // Missing pixels in the second half of each row only, so that some chunks have none.
            let valid: Vec<u8> = (0..samples.len()).map(|at| u8::from(at % width < 4096 || at % 3 > 0)).collect();
            let band = of(&typed, width, Some(NoData::Int(nodata)), Some(&valid));
            let kept = samples.iter().zip(&valid).filter(|&(&sample, &valid)| valid != 0 && sample != nodata);
            let kept: Vec<f64> = kept.map(|(&sample, _)| sample as f64).collect();
            let mean = kept.iter().sum::<f64>() / kept.len() as f64;
            let variance = kept.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / kept.len() as f64;
            let [minimum, maximum, found_mean, found_std] = values(&band);
            assert_eq!((band.count(), band.total()), (kept.len() as u64, samples.len() as u64));
            assert_eq!(minimum, kept.iter().copied().fold(f64::INFINITY, f64::min));
            assert_eq!(maximum, kept.iter().copied().fold(f64::NEG_INFINITY, f64::max));
            assert!((found_mean - mean).abs() < 1e-9 * modulus as f64, "{found_mean} {mean} {}", T::DTYPE);
            assert!((found_std / variance.sqrt() - 1.0).abs() < 1e-9, "{found_std} {variance} {}", T::DTYPE);
        }
        check::<u8>(256, 0);
        check::<i8>(256, 128);
        check::<u16>(65536, 0);
        check::<i16>(65536, 32768);
        check::<u32>(1 << 31, 0);
        check::<i32>(1 << 31, 1 << 30);
        check::<u64>(1 << 31, 0);
        check::<i64>(1 << 31, 1 << 30);
        check::<half::f16>(2048, 1000);
        check::<f32>(1 << 20, 1 << 19);
        check::<f64>(1 << 31, 1 << 30);
    }

    #[test]
    fn unaligned_rows_are_read() {
        let mut bytes = [0; 13];
        bytes[1..].copy_from_slice(bytemuck::cast_slice(&[1.0_f32, 2.0, 3.0]));
        let mut band = Partial::of_row(&bytes[1..], DType::F32, None, Some(&[0, 1, 9]));
        band.merge(&Partial::of_row(&[], DType::F32, None, None));
        assert_eq!(values(&band.finish()), [2.0, 3.0, 2.5, 0.5]);
    }
}
