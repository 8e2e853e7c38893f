//! Conversions between rasters and arrays of the `ndarray` crate.

use ndarray::{Array3, ArrayView3, Axis};

use crate::dataset::Raster;
use crate::error::{Error, Result};
use crate::read::{Layout, Sample};
use crate::write::ArraySource;

impl Raster {
    /// The pixels as an array, without a copy: `(band, row, column)`, or `(row, column, band)` after [`Layout::BandsLast`].
    ///
    /// ```
    /// use swath::{ArraySource, Dataset, Layout, ReadRequest, RowSource, WriteConfig, WriteOptions, WritePlan};
    ///
    /// let heights = ndarray::Array3::from_shape_fn((1, 20, 30), |(_, row, col)| (row * col) as f32);
    /// let mut source = ArraySource::from_array(heights.view())?;
    /// let plan = WritePlan::new(source.shape(), WriteOptions::new())?;
    /// let (bytes, _) = plan.to_bytes(&mut source, &WriteConfig::new())?;
    ///
    /// let raster = Dataset::from_bytes(bytes)?.image(0)?.read(&ReadRequest::new())?;
    /// assert_eq!(raster.into_array::<f32>()?, heights);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::DType`] when the samples are of another type.
    pub fn into_array<T: Sample>(self) -> Result<Array3<T>> {
        let samples =
            self.pixels.into_vec().map_err(|pixels| Error::DType { buffer: T::DTYPE.name(), image: pixels.dtype() })?;
        Ok(Array3::from_shape_vec(self.shape, samples).expect("a raster has as many samples as its shape"))
    }
}

impl<'a> ArraySource<'a> {
    /// The rows of an array of `(band, row, column)` or, if the bands of a pixel lie side by side, of `(row, column, band)` seen in that
    /// order.
    ///
    /// # Errors
    /// [`Error::BufferSize`] when the array has gaps or another order in memory; make it contiguous first.
    pub fn from_array<T: Sample>(array: ArrayView3<'a, T>) -> Result<Self> {
        let (bands, height, width) = array.dim();
        if let Some(samples) = array.to_slice() {
            return ArraySource::new(samples, bands, height as u64, width as u64, Layout::BandsFirst);
        }
        let mut bands_last = array;
        bands_last.swap_axes(0, 1);
        bands_last.swap_axes(1, 2);
        debug_assert_eq!(bands_last.len_of(Axis(2)), bands, "the bands are the last axis");
        let needed = (bands_last.len() * size_of::<T>()) as u64;
        let samples = bands_last.to_slice().ok_or(Error::BufferSize { buffer: 0, needed })?;
        ArraySource::new(samples, bands, height as u64, width as u64, Layout::BandsLast)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::{WriteConfig, WriteOptions, WritePlan};
    use crate::{Dataset, ReadRequest, RowSource};

    #[test]
    fn both_orders_of_memory_write_the_same_pixels_and_gaps_are_refused() {
        let last = Array3::from_shape_fn((4, 5, 3), |(row, col, band)| (row * 100 + col * 10 + band) as u16);
        let first = last.view().permuted_axes([2, 0, 1]);
        let contiguous = first.as_standard_layout().into_owned();
        for view in [first.view(), contiguous.view()] {
            let mut source = ArraySource::from_array(view).unwrap();
            let plan = WritePlan::new(source.shape(), WriteOptions::new()).unwrap();
            let (bytes, _) = plan.to_bytes(&mut source, &WriteConfig::new()).unwrap();
            let raster = Dataset::from_bytes(bytes).unwrap().image(0).unwrap().read(&ReadRequest::new()).unwrap();
            assert_eq!(raster.into_array::<u16>().unwrap(), contiguous);
        }
        let mut gaps = contiguous.view();
        gaps.slice_axis_inplace(Axis(2), ndarray::Slice::new(0, None, 2));
        assert!(matches!(ArraySource::from_array(gaps), Err(Error::BufferSize { .. })));
    }
}
