//! Pixels in memory, typed.

use swath_codec::DType;
use swath_tiff::SampleFormat;
use swath_tiff::nodata::NoData;

use crate::error::Result;
use crate::memory;
use crate::nodata::is_nodata::{NodataTest, with_number};

/// A Rust type that samples can be read into.
pub trait Sample: bytemuck::Pod + Send + Sync {
    /// The sample type in the file that this corresponds to.
    const DTYPE: DType;

    /// The value as a float; the magnitude of a complex sample.
    fn to_f64(self) -> f64;
}

/// The one place where sample types and Rust types meet.
macro_rules! sample_types {
    ($($variant:ident $type:ty, $value:ident => $float:expr;)*) => {
        $(impl Sample for $type {
            const DTYPE: DType = DType::$variant;

            fn to_f64(self) -> f64 {
                let $value = self;
                $float
            }
        })*

        /// Samples of one type, in the order that was asked for.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum Pixels {
            $(#[doc = concat!("Samples of type `", stringify!($type), "`.")] $variant(Vec<$type>),)*
        }

        impl Pixels {
            /// `count` samples of value 0.
            ///
            /// # Errors
            /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if the system does not have the memory.
            pub fn zeroed(dtype: DType, count: usize) -> Result<Pixels> {
                const WHAT: &str = "the pixels of this read";
                Ok(match dtype {
                    $(DType::$variant => Pixels::$variant(memory::zeros(count, WHAT)?),)*
                })
            }

            /// The type of the samples.
            pub fn dtype(&self) -> DType {
                match self {
                    $(Pixels::$variant(_) => DType::$variant,)*
                }
            }

            /// The samples as bytes in native order.
            pub fn as_bytes(&self) -> &[u8] {
                match self {
                    $(Pixels::$variant(samples) => bytemuck::cast_slice(samples),)*
                }
            }

            /// The samples as bytes in native order, to be written.
            pub fn as_bytes_mut(&mut self) -> &mut [u8] {
                match self {
                    $(Pixels::$variant(samples) => bytemuck::cast_slice_mut(samples),)*
                }
            }

            /// The samples as a vector of `T`, without a copy; the pixels themselves when they are of another type.
            ///
            /// # Errors
            /// The pixels, when `T` is another type than theirs.
            pub fn into_vec<T: Sample>(self) -> std::result::Result<Vec<T>, Pixels> {
                if self.dtype() != T::DTYPE {
                    return Err(self);
                }
                match self {
                    // The types are equal, so that the cast neither copies nor fails.
                    $(Pixels::$variant(samples) => Ok(bytemuck::cast_vec(samples)),)*
                }
            }

            /// The samples of a range as floats, the magnitude of complex samples.
            ///
            /// # Panics
            /// If the range is not inside the pixels.
            pub fn to_f64(&self, range: std::ops::Range<usize>) -> Vec<f64> {
                match self {
                    $(Pixels::$variant(samples) => samples[range].iter().map(|&sample| sample.to_f64()).collect(),)*
                }
            }
        }
    };
}

sample_types! {
    U8 u8, x => f64::from(x);
    I8 i8, x => f64::from(x);
    U16 u16, x => f64::from(x);
    I16 i16, x => f64::from(x);
    U32 u32, x => f64::from(x);
    I32 i32, x => f64::from(x);
    U64 u64, x => x as f64;
    I64 i64, x => x as f64;
    F16 half::f16, x => f64::from(x);
    F32 f32, x => f64::from(x);
    F64 f64, x => x;
    CI16 [i16; 2], x => f64::from(x[0]).hypot(f64::from(x[1]));
    CI32 [i32; 2], x => f64::from(x[0]).hypot(f64::from(x[1]));
    CF32 [f32; 2], x => f64::from(x[0]).hypot(f64::from(x[1]));
    CF64 [f64; 2], x => x[0].hypot(x[1]);
}

impl Pixels {
    /// 255 where any of `bands` band-sequential planes is not nodata.
    ///
    /// [`NodataTest`] says what is nodata. Of complex samples the real part counts, and NaN is nodata only if nodata is.
    pub(crate) fn valid_mask(&self, bands: usize, nodata: NoData) -> Result<Vec<u8>> {
        fn fill<T: Copy>(samples: &[T], bands: usize, valid: impl Fn(T) -> bool) -> Result<Vec<u8>> {
            let plane = samples.len() / bands.max(1);
            let mut mask: Vec<u8> = memory::zeros(plane, "the pixels of this mask")?;
            for band in samples.chunks_exact(plane.max(1)) {
                mask.iter_mut().zip(band).for_each(|(out, &sample)| *out |= if valid(sample) { 255 } else { 0 });
            }
            Ok(mask)
        }
        let bytes = self.as_bytes();
        with_number!(self.dtype(), T => {
            let missing = NodataTest::<T>::new(Some(nodata));
            fill(bytemuck::cast_slice::<u8, T>(bytes), bands, |sample| !missing.is_nodata(sample))
        }, complex => {
            let missing = NodataTest::<T>::new(Some(nodata));
            fill(bytemuck::cast_slice::<u8, [T; 2]>(bytes), bands, |sample| !missing.is_nodata(sample[0]))
        })
    }

    /// The samples as a slice of `T`, `None` when they are of another type.
    pub fn as_slice<T: Sample>(&self) -> Option<&[T]> {
        (self.dtype() == T::DTYPE).then(|| bytemuck::cast_slice(self.as_bytes()))
    }
}

/// The format and the bits of a sample type, which [`NoData`] takes.
pub(crate) fn kind_of(dtype: DType) -> (SampleFormat, u32) {
    (dtype.format(), dtype.size() as u32 * 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vector_of_another_type_gives_the_pixels_back() {
        let pixels = Pixels::F32(vec![1.0, 2.0]);
        let at = pixels.as_bytes().as_ptr();
        let pixels = pixels.into_vec::<i32>().unwrap_err();
        let samples = pixels.into_vec::<f32>().unwrap();
        assert_eq!((samples.as_ptr().cast::<u8>(), samples.as_slice()), (at, [1.0, 2.0].as_slice()));
    }

    #[test]
    fn nan_is_nodata_only_where_nodata_is_nan() {
        let pixels = Pixels::F32(vec![f32::NAN, -9999.0, 1.0]);
        assert_eq!(pixels.valid_mask(1, NoData::Float(-9999.0)).unwrap(), [255, 0, 255]);
        assert_eq!(pixels.valid_mask(1, NoData::Float(f64::NAN)).unwrap(), [0, 255, 255]);
    }

    #[test]
    fn nodata_that_went_through_single_precision_is_still_found_in_doubles() {
        let pixels = Pixels::F64(vec![f64::from(0.1_f32), 0.1001, f64::NEG_INFINITY]);
        assert_eq!(pixels.valid_mask(1, NoData::Float(0.1)).unwrap(), [0, 255, 255]);
        assert_eq!(pixels.valid_mask(1, NoData::Float(f64::NEG_INFINITY)).unwrap(), [255, 255, 0]);
    }

    #[test]
    fn wide_integers_differ_in_the_last_bit() {
        let pixels = Pixels::I64(vec![(1 << 53) + 1, 1 << 53]);
        assert_eq!(pixels.valid_mask(1, NoData::Int((1 << 53) + 1)).unwrap(), [0, 255]);
        assert_eq!(pixels.valid_mask(2, NoData::Int((1 << 53) + 1)).unwrap(), [255]);
        assert_eq!(pixels.valid_mask(1, NoData::Float(0.5)).unwrap(), [255, 255]);
    }
}
