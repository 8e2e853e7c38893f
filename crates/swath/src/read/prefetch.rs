//! A window of a source where every request waits for somebody else: all its blocks are asked for at once.

use std::sync::Arc;

use swath_codec::{Decoder, RowAccess};
use swath_io::Fetch;
use swath_tiff::Limits;

use crate::dataset::level::Level;
use crate::read::cache::BlockCache;
use crate::read::cpu::ReadPlan;
use crate::read::plan::{BlockRequest, Place, locate};
use crate::read::prefetched_source::PrefetchedSource;

/// The most compressed bytes to keep. A window with more is read batch by batch.
const AHEAD_BYTES: u64 = 256 << 20;

/// The most blocks to ask for at once.
const AHEAD_BLOCKS: u64 = 1 << 20;

/// The level with the blocks of a window at hand. `None` where that is no use, or not possible: then each batch finds out by itself,
/// and says which block it is that cannot be had.
pub(crate) fn fetch(
    level: &Level,
    decoder: &Decoder,
    checked: &ReadPlan,
    limits: &Limits,
    cache: Option<&BlockCache>,
) -> Option<Level> {
    if !level.source.is_high_latency() {
        return None;
    }
    let (grid, window) = (level.blocks.grid, &checked.window);
    let (rows, cols) = (grid.block_rows(window), grid.block_cols(window));
    let planes: Vec<u64> =
        if grid.planes > 1 { checked.bands.iter().map(|band| *band as u64).collect() } else { vec![0] };
    let count = (rows.end - rows.start).checked_mul(cols.end - cols.start)?.checked_mul(planes.len() as u64)?;
    if count > AHEAD_BLOCKS {
        return None;
    }
    let mut wanted = Vec::with_capacity(count as usize);
    for &plane in &planes {
        for row in rows.clone() {
            for col in cols.clone() {
                let place = Place { plane, row, col };
                let (rows, cols) = (grid.rows_in(row, window), grid.cols_in(col, window));
                let cache = cache.filter(|cache| cache.wants(level, (row, col), &rows, &cols));
                // A block that is to be kept is needed whole.
                let access = if cache.is_some() { RowAccess::All } else { decoder.row_access() };
                if cache.is_none_or(|cache| cache.get(level, place).is_none()) {
                    wanted.push(BlockRequest::new(level, access, place, rows, 0, 0));
                }
            }
        }
    }
    let mut spans = Vec::new();
    locate(level, decoder, limits, &mut wanted, &mut spans).ok()?;
    spans.retain(|span| !span.is_sparse());
    let bytes = spans.iter().try_fold(0_u64, |sum, span| sum.checked_add(span.len))?;
    if bytes > AHEAD_BYTES || spans.len() < 2 {
        return None;
    }
    let plan = Fetch::plan(&spans).ok()?;
    let mut bytes = vec![0; plan.bytes()];
    level.source.fetch_into(&plan, &mut bytes).ok()?;
    // With the gaps between blocks that are not worth a request of their own: the batches will ask for those too.
    let reads: Vec<_> = plan.reads().map(|(span, _)| span).collect();
    Some(level.with_source(Arc::new(PrefetchedSource::new(Arc::clone(&level.source), reads, bytes))))
}
