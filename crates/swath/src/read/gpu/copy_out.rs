//! Copies the pixels of a batch from host memory to the caller's buffer.

use swath_gpu::Geometry;

use super::{Reading, bands_last};
use crate::read::plan::BlockRect;

impl Reading<'_> {
    /// Copies the pixels of a batch to their place in the output. The pixels are contiguous and in the layout
    /// of the plan.
    pub(super) fn hand_over(&self, rect: &BlockRect, pixels: &[u8], out: &mut [u8], to: Geometry) {
        let (rows, cols) = self.plan.area(rect);
        let (size, window, bands) = (self.plan.level.dtype.size(), self.plan.window(), &rect.bands);
        let (height, width) = (rows.end - rows.start, cols.end - cols.start);
        let from = Geometry::dense(bands.len(), height, width, size, bands_last(self.plan));
        let at = |band: usize, row: u64| {
            to.offset(band, rows.start + row - window.row(), cols.start - window.col()) as usize
        };
        if bands_last(self.plan) && bands.len() == self.plan.bands().len() {
            let bytes = from.row_stride as usize;
            for row in 0..height {
                let start = from.offset(0, row, 0) as usize;
                out[at(0, row)..][..bytes].copy_from_slice(&pixels[start..start + bytes]);
            }
        } else if !bands_last(self.plan) {
            // Rows that are contiguous on both sides are copied together.
            let together = if width == window.width() { height } else { 1 };
            let bytes = (from.row_stride * together) as usize;
            for (i, band) in bands.clone().enumerate() {
                for row in (0..height).step_by(together.max(1) as usize) {
                    let start = from.offset(i, row, 0) as usize;
                    out[at(band, row)..][..bytes].copy_from_slice(&pixels[start..start + bytes]);
                }
            }
        } else {
            // Some of the bands of each pixel.
            let bytes = bands.len() * size;
            for row in 0..height {
                for col in 0..width {
                    let start = from.offset(0, row, col) as usize;
                    let place = at(bands.start, row) + (col * to.pixel_stride) as usize;
                    out[place..place + bytes].copy_from_slice(&pixels[start..start + bytes]);
                }
            }
        }
    }
}
