//! Writes LERC blobs.
//!
//! LERC does arithmetic on values and does not support NaN; only lossless floats are stored as bits. In all
//! other cases a NaN pixel is masked out, and readers of the TIFF return NaN again (GDAL and Swath; tifffile
//! returns 0). The bands of a pixel share one mask, so if only some bands of a pixel are NaN, the block needs
//! one blob per band, as libtiff writes them.

use lerc::Precision;
use lerc::bitmask::BitMask;

use super::decode::{Value, translate};
use super::{CODEC, LercCompression, Params};
use crate::{Error, Result, SampleFormat, Shape, deflate, zstd};

/// The largest block: LERC counts bytes and pixels in 31 bits, and a blob is always smaller than twice its
/// block.
const MAX_BYTES: usize = 1 << 30;

/// A reusable LERC encoder with one maximum error.
#[derive(Debug)]
pub struct Encoder {
    max_z_error: f64,
    wrapper: Wrapper,
    /// Samples that are aligned or separated by band. The type is `u64` so that the buffer is aligned for
    /// samples of any type.
    samples: Vec<u64>,
}

#[derive(Debug)]
enum Wrapper {
    None,
    Deflate(deflate::Encoder),
    Zstd(zstd::Encoder),
}

impl Encoder {
    /// Creates an encoder that changes no sample by more than `max_z_error`. 0 is lossless, and for integers
    /// every error below 1 too.
    ///
    /// `level` is the compression level of the codec that wraps the blobs: 1 to 12 for Deflate, 1 to 22 for
    /// ZSTD. It has no meaning without a wrapper. The version in the parameters is ignored: `lerc-rs` writes
    /// the lowest version that can store a block. That is 3 or, for several bands, 5, and 6 (LERC 4.0 of 2022)
    /// for lossless floats and for bands with separate masks.
    ///
    /// # Errors
    /// Returns an error if the maximum error is negative or not finite, or if the compression level does not
    /// exist.
    pub fn new(params: &Params, max_z_error: f64, level: i32) -> Result<Encoder> {
        if !(0.0..f64::INFINITY).contains(&max_z_error) {
            return Err(Error::Unsuited { codec: CODEC, what: "a maximum error that is negative or not finite" });
        }
        let wrapper = match params.compression {
            LercCompression::None => Wrapper::None,
            LercCompression::Deflate => Wrapper::Deflate(deflate::Encoder::new(level)?),
            LercCompression::Zstd => Wrapper::Zstd(zstd::Encoder::new(level)?),
        };
        Ok(Encoder { max_z_error, wrapper, samples: Vec::new() })
    }

    /// Appends one block of native samples, all bands of each pixel, to `out`.
    ///
    /// NaN stays NaN, but its payload is lost; a zero may lose its sign. Infinite values are kept, but then the
    /// block is stored without loss.
    ///
    /// # Errors
    /// Returns an error if LERC does not support these samples, or if `src` does not have the length of the
    /// block.
    pub fn encode(&mut self, src: &[u8], shape: Shape, out: &mut Vec<u8>) -> Result<()> {
        if src.len() != shape.len() {
            return Err(Error::Unsuited { codec: CODEC, what: "a buffer of another size than the block" });
        }
        if !(1..=MAX_BYTES).contains(&src.len()) {
            return Err(Error::Unsuited { codec: CODEC, what: "an empty block or a block of more than 1 GiB" });
        }
        let (samples, error) = (&mut self.samples, self.max_z_error);
        let blob = match (shape.format, shape.bits) {
            (SampleFormat::Uint, 8) => encode_as::<u8>(src, shape, error, samples)?,
            (SampleFormat::Uint, 16) => encode_as::<u16>(src, shape, error, samples)?,
            (SampleFormat::Uint, 32) => encode_as::<u32>(src, shape, error, samples)?,
            (SampleFormat::Int, 8) => encode_as::<i8>(src, shape, error, samples)?,
            (SampleFormat::Int, 16) => encode_as::<i16>(src, shape, error, samples)?,
            (SampleFormat::Int, 32) => encode_as::<i32>(src, shape, error, samples)?,
            (SampleFormat::Float, 32) => encode_as::<f32>(src, shape, error, samples)?,
            (SampleFormat::Float, 64) => encode_as::<f64>(src, shape, error, samples)?,
            _ => return Err(Error::Unsuited { codec: CODEC, what: "samples of this width and format" }),
        };
        match &mut self.wrapper {
            Wrapper::None => out.extend_from_slice(&blob),
            Wrapper::Deflate(encoder) => encoder.encode(&blob, out),
            Wrapper::Zstd(encoder) => encoder.encode(&blob, out)?,
        }
        Ok(())
    }
}

/// A type of sample with the operations that the encoder needs.
trait Encodable: Value {
    fn is_nan(self) -> bool;

    /// Returns the precision to request from `lerc-rs` so that none of `values` changes by more than `error`.
    fn precision(values: &[Self], error: f64) -> Precision<Self>;
}

macro_rules! integers {
    ($($t:ty),*) => { $(impl Encodable for $t {
        fn is_nan(self) -> bool {
            false
        }

        fn precision(_: &[$t], error: f64) -> Precision<$t> {
            // The value 777 makes `lerc-rs`, like Esri's library, find and drop noisy bits.
            let error = if (777.0..778.0).contains(&error) { 776.0 } else { error };
            if error < 1.0 { Precision::Lossless } else { Precision::Tolerance(error as $t) }
        }
    })* };
}
integers!(u8, u16, u32, i8, i16, i32);

macro_rules! floats {
    ($($t:ty),*) => { $(impl Encodable for $t {
        fn is_nan(self) -> bool {
            <$t>::is_nan(self)
        }

        /// LERC limits the error of the value in double precision. Rounding that value to the type of the
        /// samples adds at most half the distance between adjacent numbers at the largest value; this function
        /// subtracts it. In double precision the computation itself adds about as much. If that distance is as
        /// large as the error, a lossy block would not be smaller. Infinite values, whose distance is NaN, must
        /// not be used in arithmetic.
        fn precision(values: &[$t], error: f64) -> Precision<$t> {
            let largest = values.iter().fold(0.0, |largest: $t, value| largest.max(value.abs()));
            let left = error - f64::from(largest.next_up() - largest);
            let nearest = left as $t;
            if left > error / 2.0 {
                Precision::Tolerance(if f64::from(nearest) > left { nearest.next_down() } else { nearest })
            } else {
                Precision::Lossless
            }
        }
    })* };
}
floats!(f32, f64);

fn encode_as<T: Encodable>(src: &[u8], shape: Shape, error: f64, samples: &mut Vec<u64>) -> Result<Vec<u8>> {
    if let Ok(values) = bytemuck::try_cast_slice::<u8, T>(src) {
        return encode_values(values, shape, error, samples);
    }
    // Samples that are not aligned. Swath's own buffers are always aligned.
    let values: Vec<T> = bytemuck::pod_collect_to_vec(src);
    encode_values(&values, shape, error, samples)
}

fn encode_values<T: Encodable>(values: &[T], shape: Shape, error: f64, scratch: &mut Vec<u64>) -> Result<Vec<u8>> {
    let pixels = shape.width * shape.height;
    let precision = T::precision(values, error);
    let write = |depth: usize, bands: usize, values: &[T], masks: &[BitMask]| {
        // No cast truncates: the size of the block was checked.
        let [width, height, depth, bands] = [shape.width, shape.height, depth, bands].map(|n| n as u32);
        lerc::encode_borrowed(width, height, depth, bands, values, masks, None, precision).map_err(|e| translate(&e))
    };
    let bits =
        matches!(precision, Precision::Lossless) && (0..shape.samples).all(|n| varies(&values[n..], shape.samples));
    if bits || !values.iter().any(|value| value.is_nan()) {
        return write(shape.samples, 1, values, &[BitMask::all_valid(pixels)]);
    }
    if scratch.len() < size_of_val(values).div_ceil(8) {
        scratch.resize(size_of_val(values).div_ceil(8), 0);
    }
    let copy = &mut bytemuck::cast_slice_mut::<u64, T>(scratch)[..values.len()];
    let mixed = |pixel: &[T]| pixel.iter().any(|v| v.is_nan()) && !pixel.iter().all(|v| v.is_nan());
    if values.chunks_exact(shape.samples).any(mixed) {
        for (k, pixel) in values.chunks_exact(shape.samples).enumerate() {
            for (sample, value) in pixel.iter().enumerate() {
                copy[sample * pixels + k] = *value;
            }
        }
        let masks: Vec<BitMask> = copy.chunks_exact_mut(pixels).map(|band| take_nan(band, 1)).collect();
        write(1, shape.samples, copy, &masks)
    } else {
        copy.copy_from_slice(values);
        let mask = take_nan(copy, shape.samples);
        write(shape.samples, 1, copy, &[mask])
    }
}

/// Whether a band has different values. A band with equal values is stored as a single value, even if it
/// contains NaN.
fn varies<T: Encodable>(values: &[T], stride: usize) -> bool {
    let mut numbers = values.iter().step_by(stride).filter(|value| !value.is_nan());
    numbers.next().is_some_and(|first| numbers.any(|value| value != first))
}

/// Replaces the NaN pixels by the last valid pixel before them, which costs the fewest bytes, and returns the
/// mask that excludes them.
fn take_nan<T: Encodable>(values: &mut [T], samples: usize) -> BitMask {
    let mut mask = BitMask::all_valid(values.len() / samples);
    let mut last: Option<usize> = None;
    for k in 0..values.len() / samples {
        if !values[k * samples].is_nan() {
            last = Some(k);
            continue;
        }
        mask.set_invalid(k);
        match last {
            Some(last) => values.copy_within(last * samples..(last + 1) * samples, k * samples),
            None => values[k * samples..(k + 1) * samples].fill(T::zeroed()),
        }
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lerc::{Scratch, decode};
    use crate::noise::noise;

    const PLAIN: Params = Params { version: 4, compression: LercCompression::None };

    fn shape(width: usize, height: usize, samples: usize, bits: usize, format: SampleFormat) -> Shape {
        Shape { width, height, samples, bits, format }
    }

    fn round_trip(params: Params, error: f64, shape: Shape, src: &[u8]) -> Vec<u8> {
        let mut blob = vec![7];
        let mut encoder = Encoder::new(&params, error, 5).expect("valid");
        encoder.encode(src, shape, &mut blob).expect("suited");
        let mut dst = vec![0xaa; src.len()];
        decode(&params, &blob[1..], shape, &mut dst, None, &mut Scratch::new()).expect("the blob decodes");
        dst
    }

    /// Returns waves of some amplitude, for samples of any float type.
    fn waves(count: usize, amplitude: f64) -> Vec<f64> {
        (0..count).map(|i| amplitude * ((i as f64 / 17.0).sin() + (i as f64 / 5.0).cos() / 9.0)).collect()
    }

    fn f32_bytes(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|v| (*v as f32).to_ne_bytes()).collect()
    }

    fn f32_values(bytes: &[u8]) -> Vec<f32> {
        bytes.as_chunks::<4>().0.iter().map(|b| f32::from_ne_bytes(*b)).collect()
    }

    #[test]
    fn tags_are_read_back() {
        for compression in [LercCompression::None, LercCompression::Deflate, LercCompression::Zstd] {
            let params = Params { version: 4, compression };
            assert_eq!(Params::from_tag(&params.to_tag()), Ok(params));
        }
    }

    #[test]
    fn integers_of_every_type_and_wrapper_are_lossless_to_their_extremes() {
        for (width, height, samples) in [(1, 1, 1), (3, 5, 2), (37, 29, 1), (37, 29, 3), (64, 1, 4)] {
            for (bits, format) in
                [8, 16, 32].into_iter().flat_map(|b| [(b, SampleFormat::Uint), (b, SampleFormat::Int)])
            {
                let shape = shape(width, height, samples, bits, format);
                let ramp: Vec<u8> = (0..shape.len() / (bits / 8))
                    .flat_map(|i| (i as u32 / 3).to_le_bytes()[..bits / 8].to_vec())
                    .collect();
                for src in [noise(shape.len()), ramp, vec![0x80; shape.len()]] {
                    for compression in [LercCompression::None, LercCompression::Deflate, LercCompression::Zstd] {
                        let params = Params { compression, ..PLAIN };
                        assert!(round_trip(params, 0.0, shape, &src) == src, "{shape:?} {compression:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn floats_are_lossless_with_infinities_and_the_smallest_and_largest_numbers() {
        for samples in [1, 3] {
            let mut values = waves(40 * 30 * samples, 500.0);
            values[1..7].copy_from_slice(&[
                f64::INFINITY,
                f64::NEG_INFINITY,
                f32::MAX.into(),
                f32::MIN.into(),
                f32::from_bits(1).into(),
                -0.0,
            ]);
            let src = f32_bytes(&values);
            for error in [0.0, 0.1] {
                assert!(round_trip(PLAIN, error, shape(40, 30, samples, 32, SampleFormat::Float), &src) == src);
            }
            values[3..6].copy_from_slice(&[f64::MAX, f64::MIN, f64::from_bits(1)]);
            let src: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
            for error in [0.0, 0.1] {
                assert!(round_trip(PLAIN, error, shape(40, 30, samples, 64, SampleFormat::Float), &src) == src);
            }
            for all in [f64::INFINITY, f64::NEG_INFINITY, 3.0] {
                let src = f32_bytes(&vec![all; 40 * 30 * samples]);
                for error in [0.0, 0.1] {
                    assert!(round_trip(PLAIN, error, shape(40, 30, samples, 32, SampleFormat::Float), &src) == src);
                }
            }
        }
    }

    /// The amplitudes make the distance between single precision numbers much smaller than, about as large as,
    /// and much larger than the error.
    #[test]
    fn no_sample_changes_by_more_than_the_error() {
        for amplitude in [1.0, 1000.0, 5000.0, 8000.0, 12000.0, 17000.0, 1e6, 1e12] {
            for error in [0.3, 0.001] {
                let values = waves(64 * 64, amplitude);
                let src = f32_bytes(&values);
                let dst = round_trip(PLAIN, error, shape(64, 64, 1, 32, SampleFormat::Float), &src);
                for (a, b) in f32_values(&src).into_iter().zip(f32_values(&dst)) {
                    assert!((f64::from(a) - f64::from(b)).abs() <= error, "{a} became {b}, not within {error}");
                }
            }
        }
        let (src, shape) = (noise(64 * 64 * 2), shape(64, 64, 1, 16, SampleFormat::Uint));
        // 777 has another meaning in the library.
        for error in [1.0, 2.9, 300.0, 777.0, 777.5, 1e9] {
            let dst = round_trip(PLAIN, error, shape, &src);
            let mut changed = false;
            for (a, b) in src.as_chunks::<2>().0.iter().zip(dst.as_chunks::<2>().0) {
                let difference = u16::from_ne_bytes(*a).abs_diff(u16::from_ne_bytes(*b));
                assert!(f64::from(difference) <= error, "{difference} for {error}");
                changed |= difference > 0;
            }
            assert!(changed, "{error}");
        }
    }

    #[test]
    fn nan_stays_nan_wherever_it_is_and_nothing_else_becomes_nan() {
        let (width, height, samples) = (37, 29, 3);
        let count = width * height * samples;
        let set = |at: &dyn Fn(usize, usize) -> bool, values: Vec<f64>| -> Vec<f64> {
            values
                .into_iter()
                .enumerate()
                .map(|(i, v)| if at(i / samples, i % samples) { f64::NAN } else { v })
                .collect()
        };
        let cases = [
            set(&|k, _| k % 7 < 3, waves(count, 100.0)),
            set(&|k, c| c == 1 && k % 5 == 0 || k < 40, waves(count, 100.0)),
            set(&|_, c| c == 2, waves(count, 100.0)),
            set(&|_, _| true, waves(count, 100.0)),
            set(&|k, _| k % 2 == 0, vec![5.0; count]),
            set(&|k, c| k % 2 == c % 2, vec![5.0; count]),
        ];
        for (n, values) in cases.iter().enumerate() {
            for (samples, width) in [(samples, width), (1, width * samples)] {
                for error in [0.0, 0.01] {
                    let float = shape(width, height, samples, 32, SampleFormat::Float);
                    let src = f32_bytes(values);
                    let dst = round_trip(PLAIN, error, float, &src);
                    for (a, b) in f32_values(&src).into_iter().zip(f32_values(&dst)) {
                        let same = a.is_nan() && b.is_nan() || f64::from((a - b).abs()) <= error;
                        assert!(same, "{a} became {b} in case {n}, error {error}, {samples} samples");
                    }
                }
            }
        }
    }

    #[test]
    fn a_misaligned_buffer_encodes_the_same() {
        let float = shape(20, 20, 1, 32, SampleFormat::Float);
        let src = f32_bytes(&waves(400, 10.0));
        let mut encoder = Encoder::new(&PLAIN, 0.0, 0).expect("valid");
        let mut padded = vec![0; src.len() + 4];
        let mut blobs = Vec::new();
        for offset in 0..4 {
            padded[offset..offset + src.len()].copy_from_slice(&src);
            let mut blob = Vec::new();
            encoder.encode(&padded[offset..offset + src.len()], float, &mut blob).expect("suited");
            blobs.push(blob);
        }
        assert!(blobs.iter().all(|blob| *blob == blobs[0]));
    }

    #[test]
    fn unsupported_blocks_are_refused() {
        for error in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(Encoder::new(&PLAIN, error, 6), Err(Error::Unsuited { .. })));
        }
        let zstd = Params { compression: LercCompression::Zstd, ..PLAIN };
        assert!(matches!(Encoder::new(&zstd, 0.0, 23), Err(Error::Unsuited { .. })));
        let mut encoder = Encoder::new(&PLAIN, 0.0, 6).expect("valid");
        for (bits, format) in [
            (64, SampleFormat::Uint),
            (64, SampleFormat::Int),
            (16, SampleFormat::Float),
            (64, SampleFormat::ComplexFloat),
            (32, SampleFormat::ComplexInt),
            (4, SampleFormat::Uint),
        ] {
            let shape = shape(8, 8, 1, bits, format);
            let mut out = Vec::new();
            assert!(matches!(encoder.encode(&vec![0; shape.len()], shape, &mut out), Err(Error::Unsuited { .. })));
            assert!(out.is_empty());
        }
        let bytes = shape(8, 8, 1, 8, SampleFormat::Uint);
        assert!(encoder.encode(&[0; 63], bytes, &mut Vec::new()).is_err());
        assert!(encoder.encode(&[], Shape { height: 0, ..bytes }, &mut Vec::new()).is_err());
    }
}
