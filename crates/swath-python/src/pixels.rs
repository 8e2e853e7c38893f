//! From stored numbers to measured ones, in one pass.

use half::f16;
use numpy::PyUntypedArray;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use swath::DType;

use crate::array::Bytes;

/// Samples that one thread handles at a time; below two of these a thread costs more than it saves.
const PART: usize = 1 << 20;

/// A sentinel as each type sees it: exact for 64-bit integers.
#[derive(Clone, Copy)]
enum Sentinel {
    Nothing,
    Int(i128),
    Float(f64),
}

impl Sentinel {
    fn of(value: Option<&Bound<'_, PyAny>>) -> PyResult<Sentinel> {
        let Some(value) = value.filter(|value| !value.is_none()) else { return Ok(Sentinel::Nothing) };
        if let Ok(whole) = value.extract::<i128>() {
            return Ok(Sentinel::Int(whole));
        }
        Ok(Sentinel::Float(value.extract()?))
    }
}

/// A type of sample: what a number is as one of it.
trait Number: Copy + PartialEq + Send + Sync {
    fn from_sentinel(sentinel: Sentinel) -> Option<Self>;
    fn is_nan(self) -> bool {
        false
    }
    fn to_f64(self) -> f64;
}

macro_rules! whole_numbers {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn from_sentinel(sentinel: Sentinel) -> Option<Self> {
                match sentinel {
                    Sentinel::Nothing => None,
                    Sentinel::Int(value) => value.try_into().ok(),
                    // A fraction, an infinity and NaN are no value that an integer can have.
                    Sentinel::Float(value) if value.fract() == 0.0 && value.abs() < 1e20 => (value as i128).try_into().ok(),
                    Sentinel::Float(_) => None,
                }
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    )*};
}
whole_numbers!(u8 i8 u16 i16 u32 i32 u64 i64);

macro_rules! floats {
    ($($type:ty, $from:expr, $to:expr;)*) => {$(
        impl Number for $type {
            fn from_sentinel(sentinel: Sentinel) -> Option<Self> {
                let from: fn(f64) -> $type = $from;
                match sentinel {
                    Sentinel::Nothing => None,
                    Sentinel::Int(value) => Some(from(value as f64)),
                    Sentinel::Float(value) => Some(from(value)),
                }
            }
            fn is_nan(self) -> bool {
                <$type>::is_nan(self)
            }
            fn to_f64(self) -> f64 {
                let to: fn($type) -> f64 = $to;
                to(self)
            }
        }
    )*};
}
floats! {
    f16, f16::from_f64, f16::to_f64;
    f32, |value| value as f32, f64::from;
    f64, |value| value, |value| value;
}

macro_rules! by_type {
    ($dtype:expr, $function:ident($($argument:expr),*)) => {
        match $dtype {
            DType::U8 => Ok($function::<u8>($($argument),*)),
            DType::I8 => Ok($function::<i8>($($argument),*)),
            DType::U16 => Ok($function::<u16>($($argument),*)),
            DType::I16 => Ok($function::<i16>($($argument),*)),
            DType::U32 => Ok($function::<u32>($($argument),*)),
            DType::I32 => Ok($function::<i32>($($argument),*)),
            DType::U64 => Ok($function::<u64>($($argument),*)),
            DType::I64 => Ok($function::<i64>($($argument),*)),
            DType::F16 => Ok($function::<f16>($($argument),*)),
            DType::F32 => Ok($function::<f32>($($argument),*)),
            DType::F64 => Ok($function::<f64>($($argument),*)),
            other => Err(PyTypeError::new_err(format!("{} samples are neither masked nor scaled", other.name()))),
        }
    };
}

/// `out = source * scale + offset`, NaN where the source has the sentinel; tells whether it was seen.
#[pyfunction]
#[pyo3(signature = (source, out, *, sentinel = None, scale = 1.0, offset = 0.0))]
pub(crate) fn unpack(
    py: Python<'_>,
    source: &Bound<'_, PyUntypedArray>,
    out: &Bound<'_, PyUntypedArray>,
    sentinel: Option<&Bound<'_, PyAny>>,
    scale: f64,
    offset: f64,
) -> PyResult<bool> {
    let (from, to) = (Bytes::of(source)?, Bytes::writable(out)?);
    if from.len / from.dtype.size() != to.len / to.dtype.size() {
        return Err(PyValueError::new_err("source and out have different sizes"));
    }
    if from.pointer == to.pointer && from.dtype != to.dtype {
        return Err(PyValueError::new_err("in place, source and out must be of one type"));
    }
    let change = Change { from, to, sentinel: Sentinel::of(sentinel)?, scale, offset };
    py.detach(|| match to.dtype {
        DType::F32 => by_type!(from.dtype, unpack_to_f32(&change)),
        DType::F64 => by_type!(from.dtype, unpack_to_f64(&change)),
        other => Err(PyTypeError::new_err(format!("out must be float32 or float64, not {}", other.name()))),
    })
}

struct Change {
    from: Bytes,
    to: Bytes,
    sentinel: Sentinel,
    scale: f64,
    offset: f64,
}

fn unpack_to_f32<T: Number>(change: &Change) -> bool {
    // In the arithmetic of the result, as numpy does it.
    let (scale, offset) = (change.scale as f32, change.offset as f32);
    convert::<T, f32>(change, f32::NAN, |value| value as f32, move |value| value as f32 * scale + offset)
}

fn unpack_to_f64<T: Number>(change: &Change) -> bool {
    let (scale, offset) = (change.scale, change.offset);
    convert::<T, f64>(change, f64::NAN, |value| value, move |value| value * scale + offset)
}

fn convert<T: Number, O: Copy + Send + Sync>(
    change: &Change,
    nan: O,
    as_it_is: impl Fn(f64) -> O + Sync,
    scaled: impl Fn(f64) -> O + Sync,
) -> bool {
    let missing = T::from_sentinel(change.sentinel);
    let plain = change.scale == 1.0 && change.offset == 0.0;
    in_parts(change.from.len / size_of::<T>(), |start, count| {
        // SAFETY: parts do not overlap, both arrays are alive and as large as the count says, and each sample is read before the one
        // at its place is written, so that the arrays may be one. numpy aligns what it allocates; a view may not be aligned.
        unsafe {
            let from = change.from.at::<T>(start);
            let to = change.to.at::<O>(start);
            let mut seen = false;
            for i in 0..count {
                let value = from.add(i).read_unaligned();
                let hit = missing.is_some_and(|missing| value == missing || (missing.is_nan() && value.is_nan()));
                seen |= hit;
                let number = value.to_f64();
                let made = if plain { as_it_is(number) } else { scaled(number) };
                to.add(i).write_unaligned(if hit { nan } else { made });
            }
            seen
        }
    })
}

/// Whether a value is in an array.
#[pyfunction]
pub(crate) fn contains(py: Python<'_>, source: &Bound<'_, PyUntypedArray>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let from = Bytes::of(source)?;
    let sentinel = Sentinel::of(Some(value))?;
    py.detach(|| by_type!(from.dtype, found(from, sentinel)))
}

fn found<T: Number>(from: Bytes, sentinel: Sentinel) -> bool {
    let Some(missing) = T::from_sentinel(sentinel) else { return false };
    in_parts(from.len / size_of::<T>(), |start, count| {
        // SAFETY: the array is alive and as large as the count says.
        let at = |i| unsafe { from.at::<T>(start + i).read_unaligned() };
        if missing.is_nan() { (0..count).any(|i| at(i).is_nan()) } else { (0..count).any(|i| at(i) == missing) }
    })
}

/// Run over `count` samples in parts, on as many threads as there is work for; tells whether any part said yes.
fn in_parts(count: usize, part: impl Fn(usize, usize) -> bool + Sync) -> bool {
    let threads = swath::read::default_threads().min(count / PART).max(1);
    if threads == 1 {
        return part(0, count);
    }
    let each = count.div_ceil(threads);
    std::thread::scope(|scope| {
        let part = &part;
        let range = |i: usize| (i * each).min(count)..((i + 1) * each).min(count);
        let in_thread = |i| {
            let range = range(i);
            std::thread::Builder::new().spawn_scoped(scope, move || part(range.start, range.len()))
        };
        let others: Vec<_> = (1..threads).map(in_thread).collect();
        let first = part(0, each.min(count));
        others.into_iter().enumerate().fold(first, |any, (i, other)| {
            let found = match other {
                // A part that panicked is an error of this program, and passed on.
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                // The system started no thread.
                Err(_) => part(range(i + 1).start, range(i + 1).len()),
            };
            found || any
        })
    })
}
