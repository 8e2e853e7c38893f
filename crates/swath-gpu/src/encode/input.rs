//! The rows of the full resolution that the caller pushes.

use super::EncodeJob;
use crate::gpu::Gpu;
use crate::memory::raster::DeviceRaster;

/// Where the pushed rows of the full resolution lie.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum InputRows<'a> {
    /// In host memory: all bands of each pixel side by side.
    Host(&'a [u8]),
    /// On the device: the rows of a raster that holds the whole image.
    Image(&'a DeviceRaster),
    /// On the device: the rows from `first` on of a raster that holds a strip of rows of the image, with all bands of each pixel
    /// side by side.
    Strip {
        /// The raster.
        raster: &'a DeviceRaster,
        /// The row of the raster that holds the first pushed row.
        first: u64,
    },
}

impl<'a> InputRows<'a> {
    /// The same rows without the first `count` of them.
    #[must_use]
    pub fn skip(self, count: u64, row_bytes: usize) -> InputRows<'a> {
        match self {
            InputRows::Host(pixels) => InputRows::Host(&pixels[count as usize * row_bytes..]),
            InputRows::Image(raster) => InputRows::Image(raster),
            InputRows::Strip { raster, first } => InputRows::Strip { raster, first: first + count },
        }
    }

    /// Checks that `count` rows can be taken from here. The kernels trust these numbers.
    ///
    /// # Panics
    /// If the raster lies on another device or has another shape than the job.
    pub(super) fn check(&self, job: &EncodeJob, gpu: &Gpu, count: u64) {
        let full = &job.levels[0];
        match *self {
            InputRows::Host(pixels) => {
                let needed = count * job.row_bytes(0);
                assert!(pixels.len() as u64 >= needed, "the buffer holds the rows");
            }
            InputRows::Image(raster) => {
                let found = (raster.cols(), raster.rows(), raster.bands(), raster.dtype().size());
                assert!(raster.gpu.is(gpu), "the raster lies on another device");
                assert_eq!(found, (full.width, full.height, job.bands, job.size), "the raster holds the image");
            }
            InputRows::Strip { raster, first } => {
                let found = (raster.cols(), raster.bands(), raster.dtype().size());
                let interleaved = raster.bands_last() || raster.bands() == 1;
                assert!(raster.gpu.is(gpu) && interleaved, "the raster holds interleaved rows on this device");
                assert_eq!(found, (full.width, job.bands, job.size), "the raster holds rows of the image");
                assert!(first.checked_add(count).is_some_and(|end| end <= raster.rows()), "the raster holds the rows");
            }
        }
    }
}
