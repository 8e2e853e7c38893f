//! Pixels in memory, typed.

use swath_codec::DType;

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
            pub fn zeroed(dtype: DType, count: usize) -> Pixels {
                match dtype {
                    $(DType::$variant => Pixels::$variant(bytemuck::zeroed_vec(count)),)*
                }
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
    /// 255 where any of `bands` band-sequential planes is valid: not `sentinel` and, in floats, not NaN.
    ///
    /// Integers are compared bit by bit and so exactly; of complex samples the real part counts.
    pub(crate) fn valid_mask(&self, bands: usize, sentinel: Option<[u8; 8]>) -> Vec<u8> {
        fn fill<T: Copy>(samples: &[T], bands: usize, valid: impl Fn(T) -> bool) -> Vec<u8> {
            let plane = samples.len() / bands.max(1);
            let mut mask = vec![0; plane];
            for band in samples.chunks_exact(plane.max(1)) {
                mask.iter_mut().zip(band).for_each(|(out, &sample)| *out |= if valid(sample) { 255 } else { 0 });
            }
            mask
        }
        fn part<const N: usize>(sentinel: Option<[u8; 8]>) -> Option<[u8; N]> {
            sentinel.and_then(|bytes| bytes.first_chunk().copied())
        }
        macro_rules! integers {
            ($samples:expr, $type:ty) => {{
                let sentinel = part(sentinel).map(<$type>::from_ne_bytes);
                fill($samples, bands, |sample| Some(sample) != sentinel)
            }};
        }
        macro_rules! floats {
            ($samples:expr, $type:ty) => {{
                let sentinel = part(sentinel).map(<$type>::from_ne_bytes);
                fill($samples, bands, |sample: $type| !sample.is_nan() && Some(sample) != sentinel)
            }};
        }
        macro_rules! complex {
            ($samples:expr, $type:ty) => {{
                let sentinel = part(sentinel).map(<$type>::from_ne_bytes);
                fill($samples, bands, |sample: [$type; 2]| Some(sample[0]) != sentinel)
            }};
        }
        match self {
            Pixels::U8(samples) => integers!(samples, u8),
            Pixels::I8(samples) => integers!(samples, i8),
            Pixels::U16(samples) => integers!(samples, u16),
            Pixels::I16(samples) => integers!(samples, i16),
            Pixels::U32(samples) => integers!(samples, u32),
            Pixels::I32(samples) => integers!(samples, i32),
            Pixels::U64(samples) => integers!(samples, u64),
            Pixels::I64(samples) => integers!(samples, i64),
            Pixels::F16(samples) => floats!(samples, half::f16),
            Pixels::F32(samples) => floats!(samples, f32),
            Pixels::F64(samples) => floats!(samples, f64),
            Pixels::CI16(samples) => complex!(samples, i16),
            Pixels::CI32(samples) => complex!(samples, i32),
            Pixels::CF32(samples) => complex!(samples, f32),
            Pixels::CF64(samples) => complex!(samples, f64),
        }
    }

    /// The samples as a slice of `T`, `None` when they are of another type.
    pub fn as_slice<T: Sample>(&self) -> Option<&[T]> {
        (self.dtype() == T::DTYPE).then(|| bytemuck::cast_slice(self.as_bytes()))
    }
}
