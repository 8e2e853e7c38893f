//! Copies decoded blocks to the caller's rows.

use std::ops::Range;

use swath_codec::place::{Every, copy, split};
use swath_codec::sample::{is_packed, unpack_row};
use swath_codec::{Result, RowUndo, Shape};

use crate::read::output_splitter::Job;
use crate::read::plan::ReadPlan;
use crate::read::request::Layout;

/// The rows of a block.
pub(crate) enum BlockRows<'a> {
    /// Rows of native samples.
    Native(&'a [u8]),
    /// Decompressed rows. Each is converted to native samples just before it is copied, while it is in the
    /// processor's cache.
    Decompressed(&'a mut [u8], RowUndo),
}

impl<'a> BlockRows<'a> {
    /// Returns the rows of a decompressed block.
    pub(crate) fn new(bytes: &'a mut [u8], undo: RowUndo) -> BlockRows<'a> {
        if undo.is_nothing() { BlockRows::Native(bytes) } else { BlockRows::Decompressed(bytes, undo) }
    }
}

/// Memory for one row, reused for every row of a thread.
#[derive(Default)]
pub(crate) struct RowScratch {
    /// The row as native samples.
    native: Vec<u8>,
    /// The samples of the row in their form in memory, if that differs from their stored form.
    unpacked: Vec<u8>,
}

impl RowScratch {
    pub(crate) fn capacity(&self) -> usize {
        self.native.capacity() + self.unpacked.capacity()
    }
}

/// How the samples of a block are copied to the output.
pub(crate) struct Placement {
    pub(crate) layout: Layout,
    bands: Vec<usize>,
    /// Whether the requested bands are all bands of a pixel in their order.
    in_order: bool,
    planar: bool,
    sample_bytes: usize,
    block_width: u64,
    packed: bool,
}

impl Placement {
    pub(crate) fn new(plan: &ReadPlan<'_>) -> Placement {
        let level = plan.level;
        let shape = level.shape(1);
        Placement {
            layout: plan.layout,
            bands: plan.bands().to_vec(),
            in_order: plan.bands().iter().copied().eq(0..shape.samples),
            planar: plan.is_planar(),
            sample_bytes: level.dtype.size(),
            block_width: level.blocks.grid.block_width,
            packed: is_packed(shape.format, shape.bits),
        }
    }

    /// Returns the bytes of each row of a block that the job needs, with samples in their form in memory.
    pub(crate) fn part_of_rows(&self, job: &Job<'_>, shape: Shape) -> Range<usize> {
        let left = job.col * self.block_width;
        let pixel_bytes = shape.samples * self.sample_bytes;
        (job.cols.start - left) as usize * pixel_bytes..(job.cols.end - left) as usize * pixel_bytes
    }

    /// Places the rows of a block. `rows` holds the rows of `shape`; the first of them is image row `first_row`.
    pub(crate) fn place(
        &self,
        job: &mut Job<'_>,
        band: usize,
        (shape, first_row): (Shape, u64),
        mut rows: BlockRows<'_>,
        scratch: &mut RowScratch,
    ) -> Result<()> {
        let part = self.part_of_rows(job, shape);
        let row_bytes = shape.row_bytes();
        let RowScratch { native, unpacked } = scratch;
        for (at, image_row) in job.rows.clone().enumerate() {
            let start = (image_row - first_row) as usize * row_bytes;
            let stored = match &mut rows {
                BlockRows::Native(bytes) => &bytes[start..start + row_bytes],
                BlockRows::Decompressed(bytes, undo) => undo.row(&mut bytes[start..start + row_bytes], native),
            };
            let samples = if self.packed {
                unpacked.resize(part.end, 0);
                unpack_row(shape, stored, unpacked)?;
                &unpacked[part.start..]
            } else {
                &stored[part.clone()]
            };
            self.place_row(job, at, band, shape.samples, samples);
        }
        Ok(())
    }

    /// Places the samples of one row, from the first requested column on.
    fn place_row(&self, job: &mut Job<'_>, at: usize, band: usize, samples: usize, row: &[u8]) {
        let size = self.sample_bytes;
        match (self.planar, self.layout) {
            // The block holds one band, and so does the output plane.
            (true, Layout::BandsFirst) => copy(size, row, Every::SAMPLE, job.row(0, at), Every::SAMPLE),
            (true, Layout::BandsLast) => {
                copy(size, row, Every::SAMPLE, job.row(0, at), Every::nth(band, self.bands.len()))
            }
            (false, Layout::BandsFirst) if self.in_order && samples == 4 => {
                split(size, row, &mut job.rows_of_four(at));
            }
            (false, Layout::BandsFirst) => {
                for (i, &from) in self.bands.iter().enumerate() {
                    copy(size, row, Every::nth(from, samples), job.row(i, at), Every::SAMPLE);
                }
            }
            (false, Layout::BandsLast) if self.in_order => {
                job.row(0, at).copy_from_slice(row);
            }
            (false, Layout::BandsLast) => {
                for (i, &from) in self.bands.iter().enumerate() {
                    copy(size, row, Every::nth(from, samples), job.row(0, at), Every::nth(i, self.bands.len()));
                }
            }
        }
    }

    /// Fills the pixels of a block with copies of one sample.
    pub(crate) fn fill(&self, job: &mut Job<'_>, band: usize, sample: &[u8]) {
        let interleaved = self.planar && self.layout == Layout::BandsLast;
        for piece in &mut job.pieces {
            if interleaved {
                for pixel in piece.chunks_exact_mut(sample.len() * self.bands.len()) {
                    pixel[band * sample.len()..][..sample.len()].copy_from_slice(sample);
                }
            } else if sample.iter().all(|&byte| byte == sample[0]) {
                piece.fill(sample[0]);
            } else {
                piece.chunks_exact_mut(sample.len()).for_each(|out| out.copy_from_slice(sample));
            }
        }
    }
}
