//! Read-ahead for sources with high latency: all blocks of a window are requested at once, before the first is decoded.

use std::sync::Arc;

use swath_codec::RowAccess;
use swath_io::Fetch;

use crate::memory;
use crate::read::cache::BlockCache;
use crate::read::plan::ReadPlan;
use crate::read::prefetched_source::PrefetchedSource;

/// The most compressed bytes to hold in memory. A window with more is read batch by batch.
const AHEAD_BYTES: u64 = 256 << 20;

/// The most blocks to request at once.
const AHEAD_BLOCKS: u64 = 1 << 20;

/// Returns the same plan with its compressed blocks in memory. Returns `None` if the source has no high latency, if
/// fewer than two blocks must be fetched, if the blocks exceed a limit above, or if the fetch fails. Then each batch
/// fetches its own blocks and reports the block that it cannot read.
pub(crate) fn fetch<'a>(plan: &ReadPlan<'a>, cache: Option<&BlockCache>) -> Option<ReadPlan<'a>> {
    if !plan.source.is_high_latency() {
        return None;
    }
    let all = plan.all_blocks();
    let count = plan.count(&all);
    if count > AHEAD_BLOCKS {
        return None;
    }
    let mut requests = Vec::with_capacity(count as usize);
    for block in plan.blocks(&all) {
        let cache = cache.filter(|cache| cache.wants(plan.level, &block));
        // A block that the cache will keep is decoded whole.
        let access = if cache.is_some() { RowAccess::All } else { plan.decoder.row_access() };
        if cache.is_none_or(|cache| cache.get(plan.level, block.coord).is_none()) {
            requests.push(plan.request(&block, access));
        }
    }
    let mut spans = Vec::new();
    plan.locate(&mut requests, &mut spans).ok()?;
    spans.retain(|span| !span.is_sparse());
    let bytes = spans.iter().try_fold(0_u64, |sum, span| sum.checked_add(span.len))?;
    if bytes > AHEAD_BYTES || spans.len() < 2 {
        return None;
    }
    let fetch = Fetch::plan(&spans).ok()?;
    let mut bytes = memory::zeros(fetch.bytes(), "the compressed blocks of this read").ok()?;
    plan.source.fetch_into(&fetch, &mut bytes).ok()?;
    // The reads include small gaps between blocks, which the batches read too.
    let reads: Vec<_> = fetch.reads().map(|(span, _)| span).collect();
    Some(plan.with_source(Arc::new(PrefetchedSource::new(Arc::clone(&plan.source), reads, bytes))))
}
