//! Conversion between NaN and the nodata value.

use half::f16;
use swath_codec::DType;
use swath_gpu::DeviceRaster;
use swath_tiff::nodata::NoData;

use crate::error::Result;
use crate::nodata::is_nodata::NodataTest;

/// Replaces NaN by the nodata value. Types without NaN stay unchanged. Complex samples stay unchanged too:
/// GDAL compares only their real part, so a NaN in one part would be lost.
pub(crate) fn nan_to_nodata(dtype: DType, nodata: NoData, samples: &mut [u8]) {
    let value = nodata.value_f64();
    if value.is_nan() {
        return;
    }
    match dtype {
        DType::F16 => {
            let nodata = f16::from_f64(value);
            replace(samples, |sample| if f16::from_ne_bytes(sample).is_nan() { nodata.to_ne_bytes() } else { sample });
        }
        DType::F32 => {
            let nodata = value as f32;
            replace(samples, |sample| if f32::from_ne_bytes(sample).is_nan() { nodata.to_ne_bytes() } else { sample });
        }
        DType::F64 => {
            replace(samples, |sample| if f64::from_ne_bytes(sample).is_nan() { value.to_ne_bytes() } else { sample });
        }
        _ => {}
    }
}

/// Replaces the nodata value of a raster on a device by NaN, on the device. Values so close to nodata that a
/// reader of the file would treat them as equal are replaced too. Types without NaN stay unchanged.
///
/// # Errors
/// The error of the device, when a kernel fails.
pub fn nodata_to_nan(raster: &DeviceRaster, nodata: NoData) -> Result<()> {
    let nodata = Some(nodata);
    let (low, high): (u64, u64) = match raster.dtype() {
        DType::F16 => {
            let (low, high) = NodataTest::<f16>::new(nodata).range();
            (low.to_bits().into(), high.to_bits().into())
        }
        DType::F32 => {
            let (low, high) = NodataTest::<f32>::new(nodata).range();
            (low.to_bits().into(), high.to_bits().into())
        }
        DType::F64 => {
            let (low, high) = NodataTest::<f64>::new(nodata).range();
            (low.to_bits(), high.to_bits())
        }
        _ => return Ok(()),
    };
    Ok(raster.range_to_nan(low, high)?)
}

fn replace<const N: usize>(samples: &mut [u8], new: impl Fn([u8; N]) -> [u8; N]) {
    samples.as_chunks_mut::<N>().0.iter_mut().for_each(|sample| *sample = new(*sample));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nan_is_rewritten_and_only_to_a_number() {
        let bytes = |values: [f32; 3]| values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
        let mut samples = bytes([1.0, f32::NAN, f32::INFINITY]);
        nan_to_nodata(DType::F32, NoData::Float(-9999.0), &mut samples);
        assert_eq!(samples, bytes([1.0, -9999.0, f32::INFINITY]));
        let mut samples = bytes([1.0, f32::NAN, 2.0]);
        nan_to_nodata(DType::F32, NoData::Float(f64::NAN), &mut samples);
        assert_eq!(samples, bytes([1.0, f32::NAN, 2.0]));
    }
}
