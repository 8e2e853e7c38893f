//! The arguments of the kernel that reduces levels on a device: `reduce.c` of `swath-gpu`.

use bytemuck::bytes_of;
use swath_codec::DType;

use super::{Reduction, Resampling, Rules};
use crate::nodata::is_nodata::{Number, with_number};

/// The arguments of the kernel that follow from a [`Reduction`]. Samples are given as their bits, zero-extended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceRules {
    /// The kernel's number for the sample type; for nearest, that of any type of the same size.
    pub(crate) dtype: u32,
    pub(crate) method: u32,
    /// The least and the greatest sample that count as nodata.
    pub(crate) low: u64,
    pub(crate) high: u64,
    /// The value of output pixels without any contribution.
    pub(crate) fill: u64,
    /// The replacement for a mean that happens to equal nodata.
    pub(crate) beside: u64,
    /// 1 if a number is nodata.
    pub(crate) any: u32,
}

/// Samples of 16 bytes, which the kernel can copy but not compute with.
const PAIR: u32 = 11;

impl DeviceRules {
    const NEAREST: u32 = 0;
    const MEAN: u32 = 1;

    /// Whether the kernel computes in doubles, which not every device supports.
    pub(crate) fn needs_doubles(&self) -> bool {
        let wide = [DType::F32, DType::F64].map(number_of);
        self.method == Self::MEAN && wide.contains(&Some(self.dtype))
    }
}

/// Returns the number of a type that the kernel computes with.
fn number_of(dtype: DType) -> Option<u32> {
    Some(match dtype {
        DType::U8 => 0,
        DType::I8 => 1,
        DType::U16 => 2,
        DType::I16 => 3,
        DType::U32 => 4,
        DType::I32 => 5,
        DType::U64 => 6,
        DType::I64 => 7,
        DType::F16 => 8,
        DType::F32 => 9,
        DType::F64 => 10,
        DType::CI16 | DType::CI32 | DType::CF32 | DType::CF64 => return None,
    })
}

/// Returns the number of a type of this size, for copying.
fn number_of_size(size: usize) -> Option<u32> {
    match size {
        1 => number_of(DType::U8),
        2 => number_of(DType::U16),
        4 => number_of(DType::U32),
        8 => number_of(DType::U64),
        16 => Some(PAIR),
        _ => None,
    }
}

fn number_of_method(method: Resampling) -> Option<u32> {
    Some(match method {
        Resampling::Nearest => DeviceRules::NEAREST,
        Resampling::Mean => DeviceRules::MEAN,
        Resampling::Min => 2,
        Resampling::Max => 3,
        Resampling::Mode => 4,
        Resampling::Median | Resampling::Bilinear | Resampling::Cubic | Resampling::Gauss => return None,
    })
}

/// Returns the bits of a sample, zero-extended.
fn bits_of<T: Number>(sample: T) -> u64 {
    match *bytes_of(&sample) {
        [a] => a.into(),
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

impl Reduction {
    /// Returns the arguments with which the kernel makes the same bytes; `None` if it cannot.
    ///
    /// The kernel supports an alpha band, but no separate mask, and it does not clamp results to fewer bits
    /// than the type has.
    pub(crate) fn for_device(&self) -> Option<DeviceRules> {
        if self.factor != 2 {
            return None;
        }
        let method = number_of_method(self.method)?;
        if self.method == Resampling::Nearest {
            let dtype = number_of_size(self.dtype.size())?;
            return Some(DeviceRules { dtype, method, low: 0, high: 0, fill: 0, beside: 0, any: 0 });
        }
        with_number!(self.dtype, T => self.of_numbers::<T>(method), complex => self.of_numbers::<T>(method))
    }

    /// As [`for_device`](Self::for_device). `T` is the type of the arithmetic; for complex samples, the type
    /// of a part.
    fn of_numbers<T: Number>(&self, method: u32) -> Option<DeviceRules> {
        let dtype = number_of(self.dtype)?;
        let Rules { missing, fill, .. } = Rules::<T>::new(self);
        let (low, high) = missing.range();
        Some(DeviceRules {
            dtype,
            method,
            low: bits_of(low),
            high: bits_of(high),
            fill: bits_of(fill),
            beside: bits_of(missing.beside()),
            any: missing.has_number().into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use swath_tiff::nodata::NoData;

    use super::*;

    fn rules(method: Resampling, dtype: DType, nodata: Option<NoData>) -> Option<DeviceRules> {
        Reduction { method, factor: 2, dtype, nodata }.for_device()
    }

    /// Returns the number that the kernel's source defines for a name.
    fn defined(name: &str) -> Option<u32> {
        let text = include_str!("../../../../swath-gpu/kernels/reduce.c");
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("#define REDUCE_")?.split_once(' '));
        let (_, rest) = lines.find(|(known, _)| *known == name)?;
        rest.split_whitespace().next()?.strip_suffix('u')?.parse().ok()
    }

    #[test]
    fn numbers_are_those_of_the_kernel() {
        for (dtype, name) in
            DType::ALL.into_iter().zip(["U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64", "F16", "F32", "F64"])
        {
            assert!(number_of(dtype).is_some() && number_of(dtype) == defined(name), "{name}");
        }
        assert_eq!(defined("PAIR"), Some(PAIR));
        for method in ["nearest", "mean", "min", "max", "mode"] {
            let known = Resampling::from_name(method).and_then(number_of_method);
            assert!(known.is_some() && known == defined(&method.to_uppercase()), "{method}");
        }
    }

    #[test]
    fn samples_are_zero_extended_bits() {
        let found = rules(Resampling::Mean, DType::I16, Some(NoData::Int(-9999)));
        let nodata = u64::from(-9999_i16 as u16);
        let beside = u64::from(-9998_i16 as u16);
        let expected = DeviceRules { dtype: 3, method: 1, low: nodata, high: nodata, fill: nodata, beside, any: 1 };
        assert_eq!(found, Some(expected));
        let found = rules(Resampling::Max, DType::F32, Some(NoData::Float(-9999.0))).unwrap();
        let (low, high) = (f32::from_bits(found.low as u32), f32::from_bits(found.high as u32));
        assert!(low < -9999.0 && high > -9999.0 && high < -9998.9 && found.low >> 32 == 0);
        assert_eq!(found.fill, u64::from((-9999_f32).to_bits()));
        assert!(f32::from_bits(found.beside as u32) > high);
    }

    #[test]
    fn without_nodata_nothing_is_missing_and_holes_are_nan_or_zero() {
        let found = rules(Resampling::Min, DType::U64, None).unwrap();
        assert_eq!((found.any, found.fill, found.low, found.high), (0, 0, u64::MAX, 0));
        for nodata in [None, Some(NoData::Float(f64::NAN)), Some(NoData::Float(1e300))] {
            let found = rules(Resampling::Mode, DType::F16, nodata).unwrap();
            assert_eq!((found.any, found.fill), (0, 0x7e00), "{nodata:?}");
            assert_eq!((found.low, found.high), (0x7c00, 0xfc00));
        }
    }

    #[test]
    fn nearest_copies_any_type_by_its_size() {
        for dtype in DType::ALL {
            let name = ["U8", "U16", "U32", "U64", "PAIR"][dtype.size().ilog2() as usize];
            let found = rules(Resampling::Nearest, dtype, None).map(|rules| rules.dtype);
            assert!(found.is_some() && found == defined(name), "{dtype}");
        }
    }

    #[test]
    fn unsupported_reductions_are_refused() {
        let reduction = Reduction { method: Resampling::Mean, factor: 3, dtype: DType::U8, nodata: None };
        assert_eq!(reduction.for_device(), None);
        for method in [Resampling::Median, Resampling::Bilinear, Resampling::Cubic, Resampling::Gauss] {
            assert_eq!(rules(method, DType::U8, None), None);
        }
        for dtype in [DType::CI16, DType::CI32, DType::CF32, DType::CF64] {
            assert_eq!(rules(Resampling::Mean, dtype, None), None);
        }
    }

    #[test]
    fn only_means_of_wide_floats_need_doubles() {
        for dtype in DType::ALL {
            for method in ["nearest", "mean", "min", "max", "mode"].map(|name| Resampling::from_name(name).unwrap()) {
                let needs = method == Resampling::Mean && [DType::F32, DType::F64].contains(&dtype);
                assert_eq!(rules(method, dtype, None).is_some_and(|rules| rules.needs_doubles()), needs);
            }
        }
    }
}
