//! The strips of rows that a write requests from its source.

use std::ops::Range;

use crate::write::plan::WritePlan;
use crate::write::source::RowSource;

/// The largest strip in bytes that a source fills.
const STRIP_BYTES: u64 = 16 << 20;
/// The same for an array in memory, whose full resolution needs no buffer. Threads are idle at the end of a
/// strip, so larger strips are faster.
const STRIP_BYTES_IN_PLACE: u64 = 64 << 20;

/// The largest strip in bytes that is useful to the executor of a write.
pub(super) fn largest(source: &dyn RowSource, on_device: Option<u64>) -> u64 {
    // A device needs hundreds of tiles to be busy, so its strips are limited by memory alone.
    on_device.unwrap_or(if source.in_memory().is_some() { STRIP_BYTES_IN_PLACE } else { STRIP_BYTES })
}

/// Returns the strips of an image: whole chunks of the source, at least a row of blocks if the source allows
/// it, and no larger than `limit`.
pub(super) fn of(plan: &WritePlan, source: &dyn RowSource, buffer_bytes: u64, limit: u64) -> Vec<Range<u64>> {
    let (height, row_bytes) = (plan.height(), plan.row_bytes(0) as u64);
    // Two strips and the rows of the overviews are in memory at once: together about four strips.
    let most = (buffer_bytes / 4).min(limit) / row_bytes.max(1);
    let most = most.max(plan.levels[0].grid.block_height);
    let chunk_end = |row: u64| source.chunk_end(row).clamp(row + 1, height);
    let mut strips = Vec::new();
    let mut first = 0;
    while first < height {
        let mut end = chunk_end(first);
        while end < height && chunk_end(end) - first <= most {
            end = chunk_end(end);
        }
        strips.push(first..end);
        first = end;
    }
    strips
}
