//! The rows of the full resolution that the caller pushes.

use super::EncodeJob;
use crate::gpu::Gpu;
use crate::memory::raster::DeviceRaster;

/// The memory of the pushed rows of the full resolution.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum InputRows<'a> {
    /// In host memory, with the bands of each pixel interleaved.
    Host(&'a [u8]),
    /// On the device: the rows of a raster that contains the whole image.
    Image(&'a DeviceRaster),
    /// On the device: the rows from `first` on of a raster that contains a strip of rows of the image, with the
    /// bands of each pixel interleaved.
    Strip {
        /// The raster.
        raster: &'a DeviceRaster,
        /// The row of the raster that is the first pushed row.
        first: u64,
    },
    /// The rows that [`upload_ahead`](super::TileEncoder::upload_ahead) got.
    Ahead {
        /// The first pushed row among them.
        first: u64,
    },
}

impl<'a> InputRows<'a> {
    /// Returns the same rows without the first `count`.
    #[must_use]
    pub fn skip(self, count: u64, row_bytes: usize) -> InputRows<'a> {
        match self {
            InputRows::Host(pixels) => InputRows::Host(&pixels[count as usize * row_bytes..]),
            InputRows::Image(raster) => InputRows::Image(raster),
            InputRows::Strip { raster, first } => InputRows::Strip { raster, first: first + count },
            InputRows::Ahead { first } => InputRows::Ahead { first: first + count },
        }
    }

    /// Checks that `count` rows are available. The kernels do not check these numbers.
    ///
    /// # Panics
    /// Panics if the raster is on another device or has another shape than the job.
    pub(super) fn check(&self, job: &EncodeJob, gpu: &Gpu, ahead: &[u8], count: u64) {
        let full = &job.levels[0];
        match *self {
            InputRows::Host(pixels) => {
                let needed = count * job.row_bytes(0);
                assert!(pixels.len() as u64 >= needed, "the buffer contains the rows");
            }
            InputRows::Ahead { first } => {
                let needed = (first + count) * job.row_bytes(0);
                assert!(ahead.len() as u64 >= needed, "the rows were uploaded");
            }
            InputRows::Image(raster) => {
                let found = (raster.cols(), raster.rows(), raster.bands(), raster.dtype().size());
                assert!(raster.gpu.is(gpu), "the raster is on another device");
                assert_eq!(found, (full.width, full.height, job.bands, job.size), "the raster contains the image");
            }
            InputRows::Strip { raster, first } => {
                let found = (raster.cols(), raster.bands(), raster.dtype().size());
                let interleaved = raster.bands_last() || raster.bands() == 1;
                assert!(raster.gpu.is(gpu) && interleaved, "the raster contains interleaved rows on this device");
                assert_eq!(found, (full.width, job.bands, job.size), "the raster contains rows of the image");
                assert!(
                    first.checked_add(count).is_some_and(|end| end <= raster.rows()),
                    "the raster contains the rows"
                );
            }
        }
    }
}
