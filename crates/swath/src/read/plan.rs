//! The plan of a read: everything that is decided before the first byte of pixel data moves.
//!
//! A [`ReadPlan`] holds the level, window, bands, output layout, decoder and limits of one read. It finds the
//! blocks that the read needs ([`ReadPlan::blocks`]) and their byte ranges in the file
//! ([`ReadPlan::locate`]). The executors (`cpu.rs`, `gpu.rs`), the read-ahead (`prefetch.rs`) and the block
//! cache take a plan and repeat none of its decisions.

use std::ops::Range;
use std::sync::Arc;

use swath_codec::{Decoder, Extent, RowAccess, Shape};
use swath_io::{Source, Span};
use swath_tiff::{Limits, Window};

use crate::dataset::level::Level;
use crate::error::{BlockName, Error, Result};
use crate::read::request::{Layout, ProgressFn, ReadRequest};

/// The window and the bands of a read, checked against the level: both exist, and the sizes are within the limits.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    pub(crate) window: Window,
    pub(crate) bands: Vec<usize>,
    /// The number of pixels times the number of bands.
    pub(crate) samples: usize,
}

impl Selection {
    /// Checks a request against its level.
    pub(crate) fn new(level: &Level, request: &ReadRequest<'_>, limits: &Limits) -> Result<Selection> {
        let (window, bands) = Selection::window_and_bands(level, request)?;
        Selection::within_limits(level, window, bands, limits)
    }

    /// Returns the window and the bands of a request, without a check of the limits.
    pub(crate) fn window_and_bands(level: &Level, request: &ReadRequest<'_>) -> Result<(Window, Vec<usize>)> {
        let (grid, count) = (&level.layout.grid, level.bands());
        let window = Selection::window(level, request.window.clone().unwrap_or((0..grid.height, 0..grid.width)))?;
        let bands = request.bands.clone().unwrap_or_else(|| (0..count).collect());
        match bands.iter().find(|&&band| band >= count) {
            Some(&band) => Err(Error::Band { file: level.file.clone(), band, count }),
            None => Ok((window, bands)),
        }
    }

    /// Checks that rows and columns are inside the level.
    fn window(level: &Level, (rows, cols): (Range<u64>, Range<u64>)) -> Result<Window> {
        let (width, height) = (level.layout.grid.width, level.layout.grid.height);
        let window = Window::new(rows.clone(), cols.clone(), width, height);
        window.ok_or_else(|| Error::Window { file: level.file.clone(), rows, cols, width, height })
    }

    fn within_limits(level: &Level, window: Window, bands: Vec<usize>, limits: &Limits) -> Result<Selection> {
        let exceeded = |what, name, value, limit| Error::Limit { file: level.file.clone(), what, name, value, limit };
        let samples = limits
            .samples_of_read(window.height(), window.width(), bands.len() as u64)
            .map_err(|samples| exceeded("pixels times bands of this read", "max_pixels", samples, limits.max_pixels))?;
        let block = level.blocks.grid.block_width.checked_mul(level.blocks.grid.block_height);
        let block = block.and_then(|pixels| pixels.checked_mul(u64::from(level.layout.block_samples())));
        let block = block.unwrap_or(u64::MAX);
        if block > limits.max_block_pixels {
            let what = "pixels times samples of one block";
            return Err(exceeded(what, "max_block_pixels", block, limits.max_block_pixels));
        }
        Ok(Selection { window, bands, samples: samples as usize })
    }

    /// Checks the size of the rows of one block that are decoded at once.
    fn check_block_memory(&self, level: &Level, access: RowAccess, limits: &Limits) -> Result<()> {
        let grid = &level.blocks.grid;
        let block_rows = grid.block_rows(&self.window);
        let rows = match access {
            RowAccess::Any => return Ok(()),
            // Only the rows above the end of the window are decoded.
            RowAccess::Prefix if block_rows.end - block_rows.start == 1 => {
                self.window.rows().end - block_rows.start * grid.block_height
            }
            RowAccess::Prefix | RowAccess::All => grid.block_height,
        };
        let value = rows.saturating_mul(level.shape(1).row_bytes() as u64);
        if value > limits.max_block_memory {
            let (what, name) = ("the decoded bytes of one block", "max_block_memory");
            return Err(Error::Limit { file: level.file.clone(), what, name, value, limit: limits.max_block_memory });
        }
        Ok(())
    }
}

/// A read with all decisions made.
#[derive(Clone)]
pub(crate) struct ReadPlan<'a> {
    pub(crate) level: &'a Level,
    /// Delivers the compressed bytes: the source of the level, or one that holds some of them in memory.
    pub(crate) source: Arc<dyn Source>,
    pub(crate) selection: Selection,
    /// The order of the samples in the output.
    pub(crate) layout: Layout,
    pub(crate) decoder: Arc<Decoder>,
    pub(crate) limits: &'a Limits,
    pub(crate) progress: Option<&'a ProgressFn<'a>>,
    /// How the read is executed: device, threads, cache, cancellation and what to do with corrupt blocks.
    pub(crate) request: &'a ReadRequest<'a>,
}

impl<'a> ReadPlan<'a> {
    /// Plans the read of a level. `limits` are those of the file, which the request may replace.
    pub(crate) fn new(level: &'a Level, request: &'a ReadRequest<'a>, limits: &'a Limits) -> Result<ReadPlan<'a>> {
        let limits = request.limits.as_ref().unwrap_or(limits);
        let selection = Selection::new(level, request, limits)?;
        let decoder = level.decoder(limits)?;
        selection.check_block_memory(level, decoder.row_access(), limits)?;
        Ok(ReadPlan {
            level,
            source: Arc::clone(&level.source),
            selection,
            layout: request.layout,
            decoder: Arc::new(decoder),
            limits,
            progress: request.progress,
            request,
        })
    }

    /// Returns a plan for the same window that reads all samples of each pixel as they are stored,
    /// interleaved by pixel. If colours are converted, the number of stored samples differs from the number
    /// of bands.
    pub(crate) fn of_stored_samples(&self) -> Result<ReadPlan<'a>> {
        let samples = (0..usize::from(self.level.layout.samples)).collect();
        let selection = Selection::within_limits(self.level, self.selection.window, samples, self.limits)?;
        Ok(ReadPlan { selection, layout: Layout::BandsLast, ..self.clone() })
    }

    /// Returns a plan for a part of this read: rows and columns of the image and some of its bands, in
    /// another layout. The part reports no progress.
    pub(crate) fn part(
        &self,
        area: (Range<u64>, Range<u64>),
        bands: Range<usize>,
        layout: Layout,
    ) -> Result<ReadPlan<'a>> {
        let window = Selection::window(self.level, area)?;
        let bands = self.selection.bands[bands].to_vec();
        let selection = Selection::within_limits(self.level, window, bands, self.limits)?;
        Ok(ReadPlan { selection, layout, progress: None, ..self.clone() })
    }

    /// Returns the same plan with another source of the same bytes.
    pub(crate) fn with_source(&self, source: Arc<dyn Source>) -> ReadPlan<'a> {
        ReadPlan { source, ..self.clone() }
    }

    pub(crate) fn window(&self) -> &Window {
        &self.selection.window
    }

    pub(crate) fn bands(&self) -> &[usize] {
        &self.selection.bands
    }

    /// The size of the output in bytes.
    pub(crate) fn output_bytes(&self) -> usize {
        self.selection.samples * self.level.dtype.size()
    }

    /// Whether each block holds only one band.
    pub(crate) fn is_planar(&self) -> bool {
        self.level.blocks.grid.planes > 1
    }

    /// Whether a row of a block is stored exactly as it is in the output: uncompressed, in the byte order of this
    /// machine, with the same samples in the same order.
    pub(crate) fn is_stored_as_output(&self) -> bool {
        let samples = self.level.shape(1).samples;
        let same_samples = match self.layout {
            _ if self.bands().len() == 1 => samples == 1,
            Layout::BandsFirst if self.is_planar() => true,
            Layout::BandsFirst => false,
            Layout::BandsLast => self.bands().iter().copied().eq(0..samples),
        };
        same_samples && self.decoder.stores_native_samples(self.level.shape(1))
    }

    /// Whether the CPU executor visits the blocks in file order. It visits the blocks at one position of a planar
    /// file together if the output is interleaved, and bands in the order of the request otherwise.
    pub(crate) fn is_in_file_order(&self) -> bool {
        !self.is_planar() || (self.layout == Layout::BandsFirst && self.bands().is_sorted())
    }

    /// All blocks that the read needs.
    pub(crate) fn all_blocks(&self) -> BlockRect {
        let (grid, window) = (&self.level.blocks.grid, self.window());
        BlockRect { rows: grid.block_rows(window), cols: grid.block_cols(window), bands: 0..self.bands().len() }
    }

    /// The number of blocks in a rectangle.
    pub(crate) fn count(&self, rect: &BlockRect) -> u64 {
        let planes = if self.is_planar() { rect.bands.len() as u64 } else { 1 };
        let positions = (rect.rows.end - rect.rows.start).saturating_mul(rect.cols.end - rect.cols.start);
        positions.saturating_mul(planes)
    }

    /// The blocks of a rectangle in file order: band by band in a planar file, then row by row.
    pub(crate) fn blocks(&self, rect: &BlockRect) -> impl Iterator<Item = PlannedBlock> + use<'_> {
        let BlockRect { rows, cols, bands } = rect.clone();
        let bands = if self.is_planar() { bands } else { 0..1 };
        let (grid, window) = (self.level.blocks.grid, self.selection.window);
        bands.flat_map(move |band| {
            let plane = if self.is_planar() { self.bands()[band] as u64 } else { 0 };
            let cols = cols.clone();
            rows.clone().flat_map(move |row| {
                cols.clone().map(move |col| PlannedBlock {
                    coord: BlockCoord { plane, row, col },
                    band,
                    rows: grid.rows_in(row, &window),
                    cols: grid.cols_in(col, &window),
                })
            })
        })
    }

    /// The rows and columns of the image that a rectangle of blocks contributes to the read.
    pub(crate) fn area(&self, rect: &BlockRect) -> (Range<u64>, Range<u64>) {
        let (grid, window) = (&self.level.blocks.grid, self.window());
        let rows = grid.rows_in(rect.rows.start, window).start..grid.rows_in(rect.rows.end - 1, window).end;
        let cols = grid.cols_in(rect.cols.start, window).start..grid.cols_in(rect.cols.end - 1, window).end;
        (rows, cols)
    }

    /// Decides which rows of a block to decode. `access` says which rows the decoder can return.
    pub(crate) fn request(&self, block: &PlannedBlock, access: RowAccess) -> BlockRequest {
        let grid = &self.level.blocks.grid;
        let top = block.coord.row * grid.block_height;
        let bottom = top + grid.decoded_height(block.coord.row);
        let (first_row, end_row) = match access {
            RowAccess::Any => (block.rows.start, block.rows.end),
            RowAccess::Prefix => (top, block.rows.end),
            RowAccess::All => (top, bottom),
        };
        let shape = self.level.shape((end_row - first_row) as usize);
        let extent = if end_row == bottom { Extent::Whole } else { Extent::Top };
        let (coord, band) = (block.coord, block.band);
        BlockRequest { coord, job: 0, band, shape, extent, first_row, problem: None, kept: None }
    }

    /// Finds the byte ranges of the blocks. A block that lies outside the file gets an error in `problem` and
    /// an empty span.
    pub(crate) fn locate(&self, requests: &mut [BlockRequest], spans: &mut Vec<Span>) -> Result<()> {
        let (level, limits) = (self.level, self.limits);
        let blocks = &level.blocks;
        let coords: Vec<_> = requests.iter().map(|request| request.coord).collect();
        spans.clear();
        blocks.spans(level, &coords, spans).map_err(|e| level.container_error(e))?;

        let size = level.source.size();
        let longest = level.stored_bytes().saturating_mul(10).saturating_add(1 << 20);
        let access = self.decoder.row_access();
        for (span, request) in spans.iter_mut().zip(requests) {
            if request.kept.is_some() {
                *span = Span::default();
            }
            if span.is_sparse() {
                continue;
            }
            let stored = request.shape.len() as u64;
            if access == RowAccess::Any {
                // The offsets of uncompressed rows are known. libtiff ignores the byte count here too.
                let top = request.coord.row * blocks.grid.block_height;
                let skipped = (request.first_row - top) * request.shape.row_bytes() as u64;
                *span = Span { offset: span.offset.saturating_add(skipped), len: stored };
            } else if span.len == u64::MAX {
                // The file has no byte counts: the stream ends somewhere between here and the end of the file.
                span.len = size.saturating_sub(span.offset).clamp(1, stored.saturating_mul(2).saturating_add(1 << 16));
            }
            let Span { offset, len } = *span;
            if len > limits.max_block_bytes && access != RowAccess::Any {
                let (file, block) = (level.file.clone(), request.coord.name(level));
                return Err(Error::BlockBytes { file, block, len, limit: limits.max_block_bytes });
            }
            if offset.checked_add(len).is_none_or(|end| end > size) {
                let (file, block) = (level.file.clone(), request.coord.name(level));
                request.problem = Some(Error::BlockPastEnd { file, block, offset, len, size });
                *span = Span::default();
            }
            // No codec makes a stream that is so much longer than its contents. libtiff stops reading at this
            // length too.
            span.len = span.len.min(longest);
        }
        Ok(())
    }
}

/// The position of a block in the grid of its level. Positions are ordered as the blocks are in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockCoord {
    /// The band, in a planar file; otherwise 0.
    pub(crate) plane: u64,
    pub(crate) row: u64,
    pub(crate) col: u64,
}

impl BlockCoord {
    /// The name of the block in messages.
    pub(crate) fn name(&self, level: &Level) -> BlockName {
        BlockName {
            tiled: level.layout.grid.tiled,
            row: level.blocks.stored_row(self.row),
            col: self.col,
            band: (level.blocks.grid.planes > 1).then_some(self.plane),
            level: level.number,
            mask: level.is_mask,
        }
    }
}

/// A rectangle of blocks, and the requested bands that are read from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockRect {
    /// Block rows.
    pub(crate) rows: Range<u64>,
    /// Block columns.
    pub(crate) cols: Range<u64>,
    /// Indices into the requested bands: all of them if a block holds all bands.
    pub(crate) bands: Range<usize>,
}

impl BlockRect {
    /// Returns the rectangle of the block at one position.
    pub(crate) fn single(row: u64, col: u64, bands: Range<usize>) -> BlockRect {
        BlockRect { rows: row..row + 1, cols: col..col + 1, bands }
    }

    /// Returns the two halves, if there is more than one block.
    pub(crate) fn split(&self, planar: bool) -> Option<[BlockRect; 2]> {
        let half = |range: &Range<u64>| range.start + (range.end - range.start) / 2;
        let BlockRect { rows, cols, bands } = self.clone();
        if rows.end - rows.start > 1 {
            let middle = half(&rows);
            return Some([
                BlockRect { rows: rows.start..middle, ..self.clone() },
                BlockRect { rows: middle..rows.end, ..self.clone() },
            ]);
        }
        if cols.end - cols.start > 1 {
            let middle = half(&cols);
            return Some([
                BlockRect { cols: cols.start..middle, ..self.clone() },
                BlockRect { cols: middle..cols.end, ..self.clone() },
            ]);
        }
        if planar && bands.len() > 1 {
            let middle = bands.start + bands.len() / 2;
            return Some([
                BlockRect { bands: bands.start..middle, ..self.clone() },
                BlockRect { bands: middle..bands.end, ..self.clone() },
            ]);
        }
        None
    }
}

/// A block that the read needs, and the part of the image that it contributes.
#[derive(Debug, Clone)]
pub(crate) struct PlannedBlock {
    pub(crate) coord: BlockCoord,
    /// The index of its band among the requested bands, in a planar file; otherwise 0.
    pub(crate) band: usize,
    /// Rows of the image.
    pub(crate) rows: Range<u64>,
    /// Columns of the image.
    pub(crate) cols: Range<u64>,
}

/// A block of a batch: the part of it to decode, and what is known about it.
#[derive(Debug)]
pub(crate) struct BlockRequest {
    pub(crate) coord: BlockCoord,
    /// The index of its job in the batch (CPU only).
    pub(crate) job: usize,
    /// The index of its band among the requested bands, in a planar file; otherwise 0.
    pub(crate) band: usize,
    /// The part of the block to decode. It excludes rows that the read does not need, if the codec allows
    /// that.
    pub(crate) shape: Shape,
    /// Whether `shape` excludes rows at the end of the block.
    pub(crate) extent: Extent,
    /// The image row of the first row of `shape`.
    pub(crate) first_row: u64,
    /// The reason why the block cannot be decoded, if it is known in advance.
    pub(crate) problem: Option<Error>,
    /// The decoded pixels, if the cache holds them.
    pub(crate) kept: Option<Arc<Vec<u8>>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rectangles_are_halved_until_one_block_is_left() {
        let whole = BlockRect { rows: 2..5, cols: 1..3, bands: 0..2 };
        let mut left = vec![whole];
        let mut single = 0;
        while let Some(rect) = left.pop() {
            match rect.split(true) {
                Some(halves) => left.extend(halves),
                None => {
                    assert_eq!((rect.rows.end - rect.rows.start, rect.cols.end - rect.cols.start), (1, 1));
                    assert_eq!(rect.bands.len(), 1);
                    single += 1;
                }
            }
        }
        assert_eq!(single, 3 * 2 * 2);
        assert_eq!(BlockRect { rows: 0..1, cols: 0..1, bands: 0..9 }.split(false), None);
    }
}
