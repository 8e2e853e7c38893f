//! Copies blocks of a source that are stored exactly as the plan stores them, without decoding and encoding them.

use std::sync::Arc;

use swath_codec::Compress;
use swath_io::{Batch, Source, Span};
use swath_tiff::cog::framed;
use swath_tiff::{BlockGrid, BlockTable, ByteOrder, Compression, Limits, Tag, Value};

use crate::dataset::level::Level;
use crate::error::{Error, Result};
use crate::read::color::announced_subsampling;
use crate::write::copied_metadata::lerc_wrapper;
use crate::write::encode::{EncodedBatch, EncodedBlock, Run, Scratch, What};
use crate::write::plan::WritePlan;
use crate::write::rows::RowsView;

/// The blocks of a source's full resolution in their stored form.
#[derive(Debug)]
pub struct PassthroughBlocks {
    source: Arc<dyn Source>,
    file: String,
    table: BlockTable,
    grid: BlockGrid,
    /// Block row and column of the source that correspond to the plan's first block.
    first: (u64, u64),
    max_block_bytes: u64,
    /// The tags that the blocks need, copied from the source.
    pub(crate) tags: Vec<(Tag, Value)>,
}

/// The tags that a codec's blocks may need: tables, subsampling, parameters.
const CODEC_TAGS: [Tag; 6] = [
    Tag::JPEG_TABLES,
    Tag::YCBCR_COEFFICIENTS,
    Tag::YCBCR_SUBSAMPLING,
    Tag::YCBCR_POSITIONING,
    Tag::REFERENCE_BLACK_WHITE,
    Tag::LERC_PARAMETERS,
];

impl PassthroughBlocks {
    /// Returns the blocks of the part of a level whose first pixel is (`row`, `col`), if the plan would store
    /// the same blocks in the same form. The caller has checked that all bands are read, in order.
    pub(crate) fn of(
        level: &Level,
        row: u64,
        col: u64,
        plan: &WritePlan,
        limits: &Limits,
    ) -> Option<PassthroughBlocks> {
        let layout = &level.layout;
        let (grid, planned) = (layout.grid, &plan.levels[0].grid);
        let compression = match layout.compression {
            Compression::OLD_DEFLATE => Compression::DEFLATE,
            other => other,
        };
        let encoder = &plan.encoder;
        let same_samples = layout.bits == plan.bits
            && crate::read::decoder::dtype(layout) == Some(plan.dtype)
            && layout.format() == plan.dtype.format()
            && usize::from(layout.samples) == plan.bands
            && level.conversion.is_none()
            && level.subsampling == (1, 1)
            && layout.order == ByteOrder::Little
            && !layout.lsb_first
            && level.fill == plan.fill;
        let fields = level.ifd.fields(level.source.as_ref(), limits);
        let chroma = encoder.compress.chroma(plan.block_shape(0, 1).samples);
        let same_parameters = match encoder.compress {
            Compress::Lerc { wrapped, .. } => lerc_wrapper(level, limits) == Some(wrapped),
            Compress::Jpeg { .. } => chroma.is_none_or(|(across, down)| {
                announced_subsampling(&fields) == (usize::from(across), usize::from(down))
            }),
            _ => true,
        };
        let same_codec = compression.0 == encoder.compress.tag()
            && same_parameters
            && (encoder.compress.is_lossless_of_bytes() || layout.photometric == plan.photometric)
            && (!encoder.compress.takes_predictor() || layout.predictor == encoder.predictor.tag());
        let same_blocks = (grid.block_width, grid.block_height, grid.planes, grid.tiled)
            == (planned.block_width, planned.block_height, planned.planes, planned.tiled)
            && level.blocks.grid == grid
            && row.is_multiple_of(grid.block_height)
            && col.is_multiple_of(grid.block_width)
            // The last strip is shorter than the others, so it must be the last of both images.
            && (grid.tiled || (row + planned.height == grid.height));
        // Whether a block is empty cannot be determined without decoding it.
        let whole = layout.table.counts().is_some() && !plan.changes_pixels() && !plan.options.skip_empty;
        if !(same_samples && same_codec && same_blocks && whole) {
            return None;
        }
        Some(PassthroughBlocks {
            source: Arc::clone(&level.source),
            file: level.file.clone(),
            table: layout.table.clone(),
            grid,
            first: (row / grid.block_height, col / grid.block_width),
            max_block_bytes: limits.max_block_bytes,
            tags: codec_tags(level, limits)?,
        })
    }

    /// Copies the blocks of a run, and encodes the blocks of the mask.
    pub(crate) fn copy_run(
        &self,
        plan: &WritePlan,
        run: &Run,
        rows: &RowsView<'_>,
        scratch: &mut Scratch,
        encoded: &mut EncodedBatch,
    ) -> Result<()> {
        if run.what == What::Mask {
            return plan.encode_run(run, rows, scratch, encoded);
        }
        let (row, col) = (self.first.0 + run.row, self.first.1 + run.cols.start);
        let count = run.cols.end - run.cols.start;
        let mut spans = Vec::new();
        self.table
            .spans(self.source.as_ref(), self.grid.index(run.plane, row, col), count, &mut spans)
            .map_err(|cause| Error::Container { file: self.file.clone(), cause })?;
        if plan.encoder.compress.tag() == Compression::NONE.0 {
            // Bytes after the pixels have no meaning, and some files declare more of them than they have.
            let pixels = plan.block_shape(0, plan.levels[0].grid.decoded_height(run.row)).len() as u64;
            for span in &mut spans {
                span.len = span.len.min(pixels);
            }
        }
        let size = self.source.size();
        for (&Span { offset, len }, col) in spans.iter().zip(run.cols.clone()) {
            let block = plan.name(run, col, false);
            if len > self.max_block_bytes {
                return Err(Error::BlockBytes { file: self.file.clone(), block, len, limit: self.max_block_bytes });
            }
            if offset.checked_add(len).is_none_or(|end| end > size) {
                return Err(Error::BlockPastEnd { file: self.file.clone(), block, offset, len, size });
            }
        }
        let mut batch = Batch::new();
        self.source.fetch(&spans, &mut batch).map_err(|cause| Error::Fetch {
            file: self.file.clone(),
            block: plan.name(run, run.cols.start, false),
            offset: spans[0].offset,
            len: spans[0].len,
            cause,
        })?;
        let grid = &plan.levels[0].grid;
        for (i, col) in run.cols.clone().enumerate() {
            let start = encoded.bytes.len();
            let len = spans[i].len as usize;
            let index = grid.index(run.plane, run.row, col);
            let frame = if plan.is_cog() && len > 0 { 4 } else { 0 };
            encoded.blocks.push(EncodedBlock { index, mask: false, offset: start + frame, len });
            if frame > 0 {
                let payload = |out: &mut Vec<u8>| {
                    out.extend_from_slice(batch.get(i));
                    Ok::<(), std::convert::Infallible>(())
                };
                let Ok(_) = framed(&mut encoded.bytes, payload);
            } else {
                encoded.bytes.extend_from_slice(batch.get(i));
            }
            if run.what == What::ImageAndMask {
                let mask = Run { cols: col..col + 1, what: What::Mask, ..run.clone() };
                plan.encode_run(&mask, rows, scratch, encoded)?;
            }
        }
        Ok(())
    }
}

/// Returns `None` if a tag cannot be read: then the blocks cannot be decoded either.
fn codec_tags(level: &Level, limits: &Limits) -> Option<Vec<(Tag, Value)>> {
    let fields = level.ifd.fields(level.source.as_ref(), limits);
    let mut tags = Vec::new();
    for tag in CODEC_TAGS {
        tags.extend(fields.value(tag).ok()?.map(|value| (tag, value)));
    }
    Some(tags)
}
