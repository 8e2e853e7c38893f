//! Encodes rows of pixels as a batch of compressed blocks.

use std::io::IoSlice;
use std::ops::Range;

use swath_codec::place::{Every, copy};
use swath_codec::sample::pack_row;
use swath_codec::{EncodeScratch, Encoder, Predictor, Shape, jpeg, predictor};
use swath_gpu::Tiles;
use swath_tiff::cog::framed;

use crate::error::{BlockName, Error, Result};
use crate::write::error::PlanError;
use crate::write::plan::WritePlan;
use crate::write::rows::RowsView;

/// Compressed blocks: one buffer, and the position of each block in it. In a COG each block has its leader
/// and trailer.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct EncodedBatch {
    /// The level of the blocks.
    pub level: usize,
    /// The bytes of all blocks, one after another.
    pub bytes: Vec<u8>,
    /// The blocks.
    pub blocks: Vec<EncodedBlock>,
}

/// One compressed block of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EncodedBlock {
    /// Its index in the block table of the level.
    pub index: u64,
    /// Whether it is a block of the mask.
    pub mask: bool,
    /// Its start in the batch, after its leader.
    pub offset: usize,
    /// Its size; 0 for a block that is not stored.
    pub len: usize,
}

/// A run of blocks of one block row that are encoded together.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) level: usize,
    /// The band, if the file is planar.
    pub(crate) plane: u64,
    pub(crate) row: u64,
    pub(crate) cols: Range<u64>,
    pub(crate) what: What,
}

/// Which blocks a run encodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Image,
    ImageAndMask,
    Mask,
}

/// Working memory of one thread.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    encode: EncodeScratch,
    block: Vec<u8>,
    line: Vec<u8>,
}

impl WritePlan {
    /// Encodes whole block rows of a level. `pixels` holds the rows `rows`: interleaved by pixel, in native
    /// byte order. `mask` has one byte per pixel, 0 for a pixel without data. The rows start at a block row,
    /// and end at one or at the end of the image.
    ///
    /// # Errors
    /// [`Error::Rows`] if the rows are not whole block rows or the buffers have another size, [`Error::Encode`] if the codec refuses a
    /// value.
    pub fn encode(&self, level: usize, rows: Range<u64>, pixels: &[u8], mask: Option<&[u8]>) -> Result<EncodedBatch> {
        let planned = self.levels.get(level).ok_or_else(|| Error::Level {
            file: "the plan".to_owned(),
            level,
            count: self.levels.len(),
        })?;
        let grid = &planned.grid;
        let (row_bytes, mask_bytes) = (self.row_bytes(level), if self.has_mask() { grid.width as usize } else { 0 });
        let count = rows.end.saturating_sub(rows.start) as usize;
        let whole = rows.start.is_multiple_of(grid.block_height)
            && (rows.end.is_multiple_of(grid.block_height) || rows.end == grid.height)
            && rows.start < rows.end
            && rows.end <= grid.height;
        if !whole || pixels.len() != count * row_bytes || mask.map_or(0, <[u8]>::len) != count * mask_bytes {
            return Err(Error::Rows { rows, block_height: grid.block_height, height: grid.height });
        }
        let view = RowsView { samples: pixels, mask, first: rows.start, row_bytes, mask_bytes };
        let mut encoded = EncodedBatch { level, ..EncodedBatch::default() };
        let mut scratch = Scratch::default();
        for row in rows.start / grid.block_height..rows.end.div_ceil(grid.block_height) {
            for run in self.runs(level, row) {
                self.encode_run(&run, &view, &mut scratch, &mut encoded)?;
            }
        }
        Ok(encoded)
    }

    /// The runs of a block row, in the order of the file.
    pub(crate) fn runs(&self, level: usize, row: u64) -> impl Iterator<Item = Run> + use<> {
        /// Decoded bytes that justify one job of a thread.
        const RUN_BYTES: u64 = 256 << 10;
        let grid = self.levels[level].grid;
        let block = self.block_shape(level, grid.block_height).len() as u64;
        let step = (RUN_BYTES / block.max(1)).clamp(1, grid.across());
        let (has_mask, interleaved) = (self.has_mask(), self.mask_is_interleaved());
        let image = if interleaved { What::ImageAndMask } else { What::Image };
        let planes = (0..grid.planes).map(move |plane| (plane, image));
        let mask = (has_mask && !interleaved).then_some((0, What::Mask));
        planes.chain(mask).flat_map(move |(plane, what)| {
            (0..grid.across()).step_by(step as usize).map(move |col| Run {
                level,
                plane,
                row,
                cols: col..(col + step).min(grid.across()),
                what,
            })
        })
    }

    /// Encodes the blocks of a run and appends them to `encoded`.
    pub(crate) fn encode_run(
        &self,
        run: &Run,
        rows: &RowsView<'_>,
        scratch: &mut Scratch,
        encoded: &mut EncodedBatch,
    ) -> Result<()> {
        for col in run.cols.clone() {
            if run.what != What::Mask {
                self.encode_block(run, col, rows, scratch, encoded)?;
            }
            if run.what != What::Image {
                self.encode_mask(run, col, rows, scratch, encoded)?;
            }
        }
        Ok(())
    }

    /// Whether every block of a run is a part of its rows without any change, so that
    /// [`parts`](WritePlan::parts) returns its stored form.
    pub(crate) fn is_in_rows(&self, run: &Run) -> bool {
        /// Shorter rows of a block are gathered faster by a copy than by the system.
        const SHORTEST_PART: usize = 1024;
        let grid = &self.levels[run.level].grid;
        let shape = self.block_shape(run.level, grid.decoded_height(run.row));
        let is_whole = |col: u64| {
            let area = BlockArea::new(self, run, col);
            area.cols.len() == shape.width
                && area.rows.end - area.rows.start == shape.height as u64
                && area.pick.is_none()
                && shape.bits == area.sample * 8
        };
        self.encoder.stores_samples()
            && !self.is_cog()
            && run.what == What::Image
            && shape.row_bytes() >= SHORTEST_PART
            && run.cols.clone().all(is_whole)
    }

    /// Returns the stored form of a block of a run that [`is_in_rows`](WritePlan::is_in_rows), and its index
    /// in the block table. A block that is not stored has no parts.
    pub(crate) fn parts<'a>(&self, run: &Run, col: u64, rows: &RowsView<'a>) -> (u64, Vec<IoSlice<'a>>) {
        let area = BlockArea::new(self, run, col);
        let is_empty = self.options.skip_empty && area.is_all(rows, &self.fill);
        let index = self.levels[run.level].grid.index(run.plane, run.row, col);
        (index, if is_empty { Vec::new() } else { area.parts(rows) })
    }

    /// Compresses the blocks of a run that a device has extracted and predicted, and appends them to
    /// `encoded`.
    pub(crate) fn compress_run(
        &self,
        run: &Run,
        tiles: &Tiles,
        scratch: &mut Scratch,
        encoded: &mut EncodedBatch,
    ) -> Result<()> {
        let grid = &self.levels[run.level].grid;
        let shape = self.block_shape(run.level, grid.decoded_height(run.row));
        let encoder = Encoder { predictor: Predictor::None, ..self.encoder.clone() };
        let mut empty = if self.options.skip_empty { Some(self.empty_block(shape)?) } else { None };
        if let Some(block) = empty.as_mut().filter(|_| tiles.are_compressed()) {
            // Equal blocks give equal compressed bytes, and different blocks give different bytes.
            let mut compressed = Vec::new();
            let failed = |source| Error::Plan(PlanError::Codec(source));
            encoder.encode(block, shape, &mut compressed, &mut scratch.encode).map_err(failed)?;
            *block = compressed;
        }
        let tables = if tiles.are_compressed() { self.jpeg_tables().map_err(Error::Plan)? } else { None };
        for col in run.cols.clone() {
            let index = grid.index(run.plane, run.row, col);
            let tile = tiles.get(run.level, run.plane, run.row, col);
            let tile = if tiles.are_compressed() { tile } else { &tile[..shape.len()] };
            if empty.as_deref() == Some(tile) {
                encoded.blocks.push(EncodedBlock { index, mask: false, offset: encoded.bytes.len(), len: 0 });
                continue;
            }
            if tiles.are_compressed() {
                let take_over = |out: &mut Vec<u8>| {
                    match &tables {
                        // nvJPEG makes complete streams, but the file stores the tables in a tag.
                        Some(tables) => jpeg::abbreviate(tile, tables, out),
                        None => out.extend_from_slice(tile),
                    }
                    Ok(())
                };
                self.append_with(index, false, encoded, take_over)
            } else {
                grow(&mut scratch.block, shape.len()).and_then(|()| {
                    scratch.block[..shape.len()].copy_from_slice(tile);
                    self.append(&encoder, shape, index, false, scratch, encoded)
                })
            }
            .map_err(|cause| Error::Encode { block: self.name(run, col, false), cause })?;
        }
        Ok(())
    }

    /// Returns an empty block in the form that the device makes. Outside the image it repeats the pixels
    /// inside, which are empty too.
    fn empty_block(&self, shape: Shape) -> Result<Vec<u8>> {
        let mut block = self.fill.repeat(shape.len() / self.fill.len());
        predictor::apply(self.encoder.predictor, shape, false, &mut block, &mut Vec::new())
            .map_err(|source| Error::Plan(PlanError::Codec(source)))?;
        Ok(block)
    }

    fn encode_block(
        &self,
        run: &Run,
        col: u64,
        rows: &RowsView<'_>,
        scratch: &mut Scratch,
        encoded: &mut EncodedBatch,
    ) -> Result<()> {
        let grid = &self.levels[run.level].grid;
        let shape = self.block_shape(run.level, grid.decoded_height(run.row));
        let area = BlockArea::new(self, run, col);
        let index = grid.index(run.plane, run.row, col);
        if self.options.skip_empty && area.is_all(rows, &self.fill) {
            encoded.blocks.push(EncodedBlock { index, mask: false, offset: encoded.bytes.len(), len: 0 });
            return Ok(());
        }
        let failed = |cause| Error::Encode { block: self.name(run, col, false), cause };
        area.block(rows, shape, scratch).map_err(failed)?;
        self.append(&self.encoder, shape, index, false, scratch, encoded).map_err(failed)
    }

    fn encode_mask(
        &self,
        run: &Run,
        col: u64,
        rows: &RowsView<'_>,
        scratch: &mut Scratch,
        encoded: &mut EncodedBatch,
    ) -> Result<()> {
        let grid = self.levels[run.level].mask_grid();
        let shape = self.mask_shape(run.level, grid.decoded_height(run.row));
        let failed = |cause| Error::Encode { block: self.name(run, col, true), cause };
        let area = BlockArea { pixel: 1, sample: 1, pick: None, mask: true, ..BlockArea::new(self, run, col) };
        // The mask is handled like a band of bytes.
        let mask = rows.mask.unwrap_or_default();
        let as_rows = RowsView { samples: mask, row_bytes: rows.mask_bytes, mask: None, ..*rows };
        area.block_of_bits(&as_rows, shape, scratch).map_err(failed)?;
        self.append(&self.mask_encoder, shape, grid.index(0, run.row, col), true, scratch, encoded).map_err(failed)
    }

    /// Encodes the block in the scratch memory.
    fn append(
        &self,
        encoder: &Encoder,
        shape: Shape,
        index: u64,
        mask: bool,
        scratch: &mut Scratch,
        encoded: &mut EncodedBatch,
    ) -> swath_codec::Result<()> {
        let block = &mut scratch.block[..shape.len()];
        self.append_with(index, mask, encoded, |out| encoder.encode(block, shape, out, &mut scratch.encode))
    }

    /// Appends a block that `encode` makes, with its leader and trailer in a COG.
    fn append_with(
        &self,
        index: u64,
        mask: bool,
        encoded: &mut EncodedBatch,
        mut encode: impl FnMut(&mut Vec<u8>) -> swath_codec::Result<()>,
    ) -> swath_codec::Result<()> {
        let start = encoded.bytes.len();
        let (offset, len) = if self.is_cog() {
            (start + 4, framed(&mut encoded.bytes, encode)?)
        } else {
            encode(&mut encoded.bytes)?;
            (start, encoded.bytes.len() - start)
        };
        encoded.blocks.push(EncodedBlock { index, mask, offset, len });
        Ok(())
    }

    /// The name of a block in messages.
    pub(crate) fn name(&self, run: &Run, col: u64, mask: bool) -> BlockName {
        let grid = &self.levels[run.level].grid;
        let band = (grid.planes > 1 && !mask).then_some(run.plane);
        BlockName { tiled: grid.tiled, row: run.row, col, band, level: run.level, mask }
    }
}

/// Makes the buffer of a block at least `len` bytes long.
fn grow(block: &mut Vec<u8>, len: usize) -> swath_codec::Result<()> {
    let more = len.saturating_sub(block.len());
    let failed = |_| swath_codec::Error::OutOfMemory { codec: "the encoder", bytes: len as u64 };
    block.try_reserve_exact(more).map_err(failed)?;
    block.resize(block.len() + more, 0);
    Ok(())
}

/// The part of the rows that becomes one block.
struct BlockArea {
    rows: Range<u64>,
    /// Columns inside the image.
    cols: Range<usize>,
    /// Bytes of a pixel in the rows.
    pixel: usize,
    /// Bytes of a sample.
    sample: usize,
    /// The band to take and the number of bands; `None` for all bands.
    pick: Option<Every>,
    /// Whether these are the bytes of a mask: every byte that is not 0 becomes 1.
    mask: bool,
}

impl BlockArea {
    fn new(plan: &WritePlan, run: &Run, col: u64) -> BlockArea {
        let grid = &plan.levels[run.level].grid;
        let (top, left) = (run.row * grid.block_height, col * grid.block_width);
        let sample = plan.dtype.size();
        BlockArea {
            rows: top..(top + grid.block_height).min(grid.height),
            cols: left as usize..(left + grid.block_width).min(grid.width) as usize,
            pixel: sample * plan.bands,
            sample,
            pick: (grid.planes > 1).then(|| Every::nth(run.plane as usize, plan.bands)),
            mask: false,
        }
    }

    /// The pixels of a row that lie in the block.
    fn line<'a>(&self, rows: &RowsView<'a>, row: u64) -> &'a [u8] {
        &rows.samples(row..row + 1)[self.cols.start * self.pixel..self.cols.end * self.pixel]
    }

    /// Whether all samples have the value `fill`.
    fn is_all(&self, rows: &RowsView<'_>, fill: &[u8]) -> bool {
        self.rows.clone().all(|row| {
            let mut samples = self.line(rows, row).chunks_exact(self.sample);
            match self.pick {
                None => samples.all(|sample| sample == fill),
                Some(Every { first, stride }) => samples.skip(first).step_by(stride).all(|sample| sample == fill),
            }
        })
    }

    /// Returns the parts of the rows that are the block.
    fn parts<'a>(&self, rows: &RowsView<'a>) -> Vec<IoSlice<'a>> {
        if self.cols.len() * self.pixel == rows.row_bytes {
            return vec![IoSlice::new(rows.samples(self.rows.clone()))];
        }
        self.rows.clone().map(|row| IoSlice::new(self.line(rows, row))).collect()
    }

    /// Copies the block to the scratch memory. Outside the image it repeats the last pixel inside: this
    /// compresses best with every codec, and avoids ringing with lossy ones.
    fn block(&self, rows: &RowsView<'_>, shape: Shape, scratch: &mut Scratch) -> swath_codec::Result<()> {
        if shape.bits != self.sample * 8 {
            return self.block_of_bits(rows, shape, scratch);
        }
        let width = shape.row_bytes();
        grow(&mut scratch.block, shape.len())?;
        for (out, row) in scratch.block.chunks_exact_mut(width).zip(self.rows.clone()) {
            self.place(self.line(rows, row), shape.samples * self.sample, out);
        }
        self.repeat_last_row(shape, &mut scratch.block);
        Ok(())
    }

    /// The same for samples that are not whole bytes.
    fn block_of_bits(&self, rows: &RowsView<'_>, shape: Shape, scratch: &mut Scratch) -> swath_codec::Result<()> {
        let Scratch { block, line, .. } = scratch;
        let width = shape.row_bytes();
        grow(block, shape.len())?;
        line.resize(shape.width * shape.samples * self.sample, 0);
        for (out, row) in block.chunks_exact_mut(width).zip(self.rows.clone()) {
            self.place(self.line(rows, row), shape.samples * self.sample, line);
            if self.mask {
                line.iter_mut().for_each(|value| *value = u8::from(*value != 0));
            }
            pack_row(shape, line, out)?;
        }
        self.repeat_last_row(shape, block);
        Ok(())
    }

    /// Copies the samples of a row to a row of a block, and repeats the last pixel to its end.
    fn place(&self, line: &[u8], pixel: usize, out: &mut [u8]) {
        let inside = self.cols.len() * pixel;
        match self.pick {
            None => out[..inside].copy_from_slice(line),
            Some(band) => copy(self.sample, line, band, &mut out[..inside], Every::SAMPLE),
        }
        let (inside, outside) = out.split_at_mut(inside);
        let last = &inside[inside.len() - pixel..];
        outside.chunks_exact_mut(pixel).for_each(|out| out.copy_from_slice(last));
    }

    fn repeat_last_row(&self, shape: Shape, block: &mut [u8]) {
        let (width, filled) = (shape.row_bytes(), (self.rows.end - self.rows.start) as usize);
        let (inside, outside) = block[..shape.len()].split_at_mut(filled * width);
        let last = &inside[inside.len() - width..];
        outside.chunks_exact_mut(width).for_each(|out| out.copy_from_slice(last));
    }
}
