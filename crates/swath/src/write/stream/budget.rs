//! Adapts a write to the memory that the system has: lower strips first, then fewer threads. The file has the same bytes.

use std::ops::Range;

use super::strips;
use crate::write::plan::WritePlan;
use crate::write::schedule::Schedule;
use crate::write::source::RowSource;

/// Smaller row buffers save little, because a write holds at least a row of blocks.
const LEAST_BUFFER_BYTES: u64 = 4 << 20;

/// The stack of a thread, the context of its codec, and its blocks that wait to be appended.
const THREAD_BYTES: u64 = 8 << 20;

/// The threads and the strips of a write.
pub(super) struct Budget {
    pub(super) threads: usize,
    pub(super) strips: Vec<Range<u64>>,
}

impl Budget {
    /// Returns the largest budget within `threads`, `buffer_bytes` and strips of `limit` bytes whose estimated memory the system has, or the
    /// smallest one: if that is still too large, the write fails with an error when an allocation fails.
    pub(super) fn fit(
        plan: &WritePlan,
        source: &dyn RowSource,
        mut threads: usize,
        (mut buffer_bytes, limit): (u64, u64),
        is_available: impl Fn(u64) -> bool,
    ) -> Budget {
        loop {
            let budget = Budget { threads, strips: strips::of(plan, source, buffer_bytes, limit) };
            let is_least = buffer_bytes <= LEAST_BUFFER_BYTES && threads == 1;
            if is_least || is_available(budget.estimate(plan)) {
                return budget;
            }
            if buffer_bytes > LEAST_BUFFER_BYTES {
                buffer_bytes /= 2;
            } else {
                threads = threads.div_ceil(2);
            }
        }
    }

    /// Estimates the memory of the write in bytes. The source needs about as much for a thread as the encoder.
    fn estimate(&self, plan: &WritePlan) -> u64 {
        let tallest = self.strips.iter().map(|strip| strip.end - strip.start).max().unwrap_or(0);
        let rows = tallest + Schedule::new(&plan.levels).most_kept(0);
        let mask = if plan.has_mask() { plan.levels[0].grid.width } else { 0 };
        let strip = rows.saturating_mul(plan.row_bytes(0) as u64 + mask);
        // Two strips of the full resolution, and overviews that are together as large as one.
        let pixels = strip.saturating_mul(if plan.levels.len() > 1 { 3 } else { 2 });
        let block = plan.block_shape(0, plan.levels[0].grid.block_height).len() as u64;
        let thread = THREAD_BYTES.saturating_add(block.saturating_mul(3));
        pixels.saturating_add(thread.saturating_mul(2 * self.threads as u64))
    }
}

#[cfg(test)]
mod tests {
    use swath_codec::DType;

    use super::*;
    use crate::write::options::WriteOptions;
    use crate::write::plan::ImageShape;
    use crate::write::source::RowFn;

    #[test]
    fn little_memory_makes_strips_lower_and_then_threads_fewer() {
        let shape = ImageShape::new(20_000, 4096, 1, DType::U16);
        let plan = WritePlan::new(shape, WriteOptions::new().cog()).unwrap();
        let source = RowFn::new(shape, 16, |_, _, _| Ok(()));
        let fit = |memory: u64| {
            let budget = Budget::fit(&plan, &source, 8, (256 << 20, 16 << 20), |bytes| bytes <= memory);
            assert_eq!((budget.strips[0].start, budget.strips.last().unwrap().end), (0, 20_000));
            (budget.threads, budget.strips[0].end, budget.estimate(&plan))
        };
        let (ample, some, little) = (fit(u64::MAX), fit(200 << 20), fit(60 << 20));
        assert_eq!(ample.0, 8);
        assert!(some.1 < ample.1 && some.0 == 8 && some.2 <= 200 << 20, "{some:?} {ample:?}");
        assert!(little.0 < 8 && little.1 <= some.1, "{little:?} {some:?}");
        assert_eq!(fit(0).0, 1, "the least budget is tried even if it seems too large");
    }
}
