//! The conversion of samples that a device makes during a read.

use swath_codec::DType;
use swath_gpu::NodataSample;
use swath_tiff::nodata::{NoData, SampleMatch};

use crate::error::{Error, Result};

/// How a device converts the samples of a read: nodata to NaN, scale and offset, and the type of the result.
///
/// A sample becomes `sample * scale + offset`, in `f64` for integers and `f64`, in `f32` for other floats, and is then rounded to the type
/// of the result. The default leaves samples as they are, except `f16`, which becomes `f32`.
///
/// ```
/// use swath::DType;
/// use swath::read::Unpack;
/// use swath::tiff::nodata::NoData;
/// let unpack = Unpack::new().nodata(NoData::Int(-9999)).mask(true).factors([(0.1, 0.0)]).dtype(DType::F32);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Unpack {
    nodata: Option<NoData>,
    mask: bool,
    factors: Vec<(f64, f64)>,
    dtype: Option<DType>,
}

impl Unpack {
    /// Creates a conversion that changes nothing.
    pub fn new() -> Unpack {
        Unpack::default()
    }

    /// Looks for this value. The report says whether it occurs.
    #[must_use]
    pub fn nodata(mut self, nodata: NoData) -> Unpack {
        self.nodata = Some(nodata);
        self
    }

    /// Sets whether samples with the nodata value become NaN. Has no effect if no sample can have the value.
    #[must_use]
    pub fn mask(mut self, mask: bool) -> Unpack {
        self.mask = mask;
        self
    }

    /// Sets scale and offset: one pair for all bands, or a pair for each band of the result.
    #[must_use]
    pub fn factors(mut self, factors: impl Into<Vec<(f64, f64)>>) -> Unpack {
        self.factors = factors.into();
        self
    }

    /// Sets the type of the result, `f32` or `f64`. The default is `f64` for integers that are masked or scaled, `f32` for `f16`, and the
    /// type of the file otherwise.
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Unpack {
        self.dtype = Some(dtype);
        self
    }

    /// The conversion of samples of a type to `bands` bands; `None` if they stay as they are.
    pub(crate) fn resolve(&self, stored: DType, bands: usize) -> Result<Option<swath_gpu::Unpack>> {
        let factors = match self.factors.as_slice() {
            [pair] => vec![*pair; bands],
            pairs if pairs.is_empty() || pairs.len() == bands => pairs.to_vec(),
            pairs => return Err(Error::UnpackFactors { given: pairs.len(), bands }),
        };
        // Half floats are compared as singles, which they become.
        let compared = if stored == DType::F16 { DType::F32 } else { stored };
        let nodata = self.nodata.and_then(|nodata| nodata_sample(nodata, compared));
        let changes = !factors.is_empty() || (self.mask && nodata.is_some());
        let usual = match stored {
            DType::F16 => DType::F32,
            DType::F32 | DType::F64 => stored,
            _ if changes => DType::F64,
            _ => stored,
        };
        let dtype = self.dtype.unwrap_or(usual);
        if dtype == stored && nodata.is_none() && factors.is_empty() {
            return Ok(None);
        }
        let unpack = swath_gpu::Unpack::new(stored, dtype, nodata, self.mask, factors);
        Ok(Some(unpack.ok_or(Error::Unpack { stored, dtype })?).filter(swath_gpu::Unpack::is_needed))
    }
}

/// The sample of a type that has a nodata value; `None` if no sample can have it.
fn nodata_sample(nodata: NoData, dtype: DType) -> Option<NodataSample> {
    let SampleMatch::Value(value) = nodata.sample_match(dtype.format(), dtype.size() as u32 * 8) else { return None };
    let whole = match value {
        NoData::Uint(value) => i128::from(value),
        NoData::Int(value) => i128::from(value),
        NoData::Float(value) => value as i128,
    };
    let float = value.value_f64();
    let bits = match dtype {
        DType::F32 | DType::F64 if float.is_nan() => return Some(NodataSample::Nan),
        DType::F32 => u64::from((float as f32).to_bits()),
        DType::F64 => float.to_bits(),
        // The lowest bytes of the two's complement.
        _ => (whole as u64) & (u64::MAX >> (64 - 8 * dtype.size().min(8))),
    };
    Some(NodataSample::Bits(bits))
}
