//! Where the blocks of a read lie in the file, and which part of each has to be decoded.

use std::ops::Range;
use std::sync::Arc;

use swath_codec::{Decoder, Extent, RowAccess, Shape};
use swath_io::Span;
use swath_tiff::Limits;

use crate::dataset::level::Level;
use crate::error::{BlockName, Error, Result};

/// The place of a block in its level's grid.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// The band, in a planar file.
    pub(crate) plane: u64,
    pub(crate) row: u64,
    pub(crate) col: u64,
}

impl Place {
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

/// One block of a batch.
#[derive(Debug)]
pub(crate) struct BlockRequest {
    pub(crate) place: Place,
    /// The job that it belongs to.
    pub(crate) job: usize,
    /// Which of the requested bands it holds, in a planar file.
    pub(crate) band: usize,
    /// The part of the block that is decoded: rows that nobody wants are left out where the codec allows it.
    pub(crate) shape: Shape,
    /// Whether that leaves out rows at the end of the block.
    pub(crate) extent: Extent,
    /// The image row of the first row of `shape`.
    pub(crate) first_row: u64,
    /// Why it cannot be decoded, when that is known before it is.
    pub(crate) problem: Option<Error>,
    /// Its pixels, where they are kept.
    pub(crate) kept: Option<Arc<Vec<u8>>>,
}

impl BlockRequest {
    /// The block at `place`, of which image rows `rows` are wanted; `access` says which rows its decoder can give.
    pub(crate) fn new(
        level: &Level,
        access: RowAccess,
        place: Place,
        rows: Range<u64>,
        job: usize,
        band: usize,
    ) -> BlockRequest {
        let grid = &level.blocks.grid;
        let top = place.row * grid.block_height;
        let bottom = top + grid.decoded_height(place.row);
        let (first_row, end_row) = match access {
            RowAccess::Any => (rows.start, rows.end),
            RowAccess::Prefix => (top, rows.end),
            RowAccess::All => (top, bottom),
        };
        let shape = level.shape((end_row - first_row) as usize);
        let extent = if end_row == bottom { Extent::Whole } else { Extent::Top };
        BlockRequest { place, job, band, shape, extent, first_row, problem: None, kept: None }
    }
}

/// Find the spans of the blocks. A block that lies outside the file gets a problem and an empty span.
pub(crate) fn locate(
    level: &Level,
    decoder: &Decoder,
    limits: &Limits,
    wanted: &mut [BlockRequest],
    spans: &mut Vec<Span>,
) -> Result<()> {
    let blocks = &level.blocks;
    let places: Vec<_> = wanted.iter().map(|wanted| wanted.place).collect();
    spans.clear();
    blocks.spans(level, &places, spans).map_err(|e| level.container_error(e))?;

    let size = level.source.size();
    let longest = level.stored_bytes().saturating_mul(10).saturating_add(1 << 20);
    for (span, wanted) in spans.iter_mut().zip(wanted) {
        if wanted.kept.is_some() {
            *span = Span::default();
        }
        if span.is_sparse() {
            continue;
        }
        let stored = wanted.shape.len() as u64;
        if decoder.row_access() == RowAccess::Any {
            // Rows lie at known places, and libtiff does not look at the byte count either.
            let top = wanted.place.row * blocks.grid.block_height;
            let skipped = (wanted.first_row - top) * wanted.shape.row_bytes() as u64;
            *span = Span { offset: span.offset.saturating_add(skipped), len: stored };
        } else if span.len == u64::MAX {
            // No byte counts: the stream ends somewhere between here and the end of the file.
            span.len = size.saturating_sub(span.offset).clamp(1, stored.saturating_mul(2).saturating_add(1 << 16));
        }
        let Span { offset, len } = *span;
        if len > limits.max_block_bytes && decoder.row_access() != RowAccess::Any {
            let (file, block) = (level.file.clone(), wanted.place.name(level));
            return Err(Error::BlockBytes { file, block, len, limit: limits.max_block_bytes });
        }
        if offset.checked_add(len).is_none_or(|end| end > size) {
            let (file, block) = (level.file.clone(), wanted.place.name(level));
            wanted.problem = Some(Error::BlockPastEnd { file, block, offset, len, size });
            *span = Span::default();
        }
        // No stream of a codec is this much longer than what it holds; libtiff stops reading there too.
        span.len = span.len.min(longest);
    }
    Ok(())
}
