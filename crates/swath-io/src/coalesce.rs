//! Merges neighbouring byte ranges into one read ([`MergeRule`]), and holds batches of compressed blocks: one
//! contiguous buffer with spans.

use std::io;
use std::ops::Range;

use crate::Span;

/// Which neighbouring ranges become one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergeRule {
    /// The most bytes between two ranges that are merged. `None` merges no ranges.
    pub gap: Option<u64>,
    /// The most bytes of a merged range.
    pub max_bytes: u64,
}

impl MergeRule {
    /// The rule for the blocks of a batch: reading one extra page is cheaper than a second request. This also
    /// covers the leaders and trailers between the tiles of a COG.
    pub const BATCH: MergeRule = MergeRule { gap: Some(4096), max_bytes: u64::MAX };

    /// Returns the range that contains `run` and `next`, which does not start before `run`; `None` if they
    /// stay separate.
    fn join(&self, run: Span, next: Span) -> Option<Span> {
        let run_end = run.offset.saturating_add(run.len);
        let between = next.offset.saturating_sub(run_end);
        let len = run_end.max(next.offset.saturating_add(next.len)) - run.offset;
        (between <= self.gap? && len <= self.max_bytes).then_some(Span { offset: run.offset, len })
    }
}

/// A range to read, and the requested spans that lie in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedRange {
    /// The range of the file.
    pub span: Span,
    /// The indices of the spans in the request, by their offset.
    pub members: Vec<usize>,
}

/// Returns the ranges that contain all `spans`, by their offset. The spans may overlap and come in any order.
pub fn coalesce(spans: &[Span], rule: MergeRule) -> Vec<MergedRange> {
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order.sort_by_key(|&i| (spans[i].offset, spans[i].len));
    let mut ranges: Vec<MergedRange> = Vec::new();
    for i in order {
        let last = ranges.last_mut();
        match last.and_then(|last| rule.join(last.span, spans[i]).map(|span| (last, span))) {
            Some((last, span)) => {
                last.span = span;
                last.members.push(i);
            }
            None => ranges.push(MergedRange { span: spans[i], members: vec![i] }),
        }
    }
    ranges
}

/// The bytes of several blocks in one buffer, which is reused for every batch.
#[derive(Debug, Default)]
pub struct Batch {
    buffer: Vec<u8>,
    ranges: Vec<Range<usize>>,
}

impl Batch {
    /// Creates an empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// The bytes of block `i` of the batch.
    pub fn get(&self, i: usize) -> &[u8] {
        &self.buffer[self.ranges[i].clone()]
    }

    /// The compressed bytes of block `i`, mutable because some codecs decode in place.
    pub fn get_mut(&mut self, i: usize) -> &mut [u8] {
        &mut self.buffer[self.ranges[i].clone()]
    }

    /// The size of the buffer in bytes.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Returns how many of the first `spans` fit in `budget` bytes: at least one, and all of them for most
    /// files. Blocks may overlap, so the size of the file does not bound their sum.
    pub fn affordable(spans: &[Span], budget: u64) -> usize {
        let (mut used, mut last) = (0_u64, None);
        for (i, span) in spans.iter().enumerate().filter(|(_, span)| !span.is_sparse()) {
            // Merging also reads the gap between two blocks, which takes space too.
            let merged = last.and_then(|last: Span| Some(next_in_batch(last, *span)?.len - last.len));
            used = used.saturating_add(merged.unwrap_or(span.len));
            last = Some(*span);
            if used > budget {
                return i.max(1);
            }
        }
        spans.len()
    }

    /// Replaces the contents by `spans`.
    pub(crate) fn fill(
        &mut self,
        spans: &[Span],
        read: impl FnOnce(&Fetch, &mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let fetch = Fetch::plan(spans)?;
        if self.buffer.len() < fetch.bytes {
            // The old bytes are not needed. The failed allocation is an error: the caller may fetch fewer blocks.
            self.buffer.clear();
            self.buffer.try_reserve_exact(fetch.bytes)?;
            self.buffer.resize(fetch.bytes, 0);
        }
        let read = read(&fetch, &mut self.buffer[..fetch.bytes]);
        self.ranges = fetch.ranges;
        read
    }
}

/// Returns the range of `run` and the span after it if one read brings both into a batch. A span that begins
/// before the end of `run` needs bytes of its own, because some codecs decode in place.
fn next_in_batch(run: Span, next: Span) -> Option<Span> {
    if next.offset < run.offset.saturating_add(run.len) { None } else { MergeRule::BATCH.join(run, next) }
}

/// The reads that bring some spans into one buffer. Neighbours in ascending file order are merged into one
/// read.
#[derive(Debug, Default)]
pub struct Fetch {
    ranges: Vec<Range<usize>>,
    reads: Vec<(Span, usize)>,
    bytes: usize,
}

impl Fetch {
    /// Plans to fetch `spans`. Empty spans cost nothing and keep their position.
    ///
    /// # Errors
    /// If the buffer does not fit in memory.
    pub fn plan(spans: &[Span]) -> io::Result<Fetch> {
        Fetch::with_starts(spans, |bytes, _| bytes)
    }

    /// Plans to fetch `spans` so that each read lies in its page as it lies in a page of the file: a disk can
    /// then copy whole pages. The buffer begins `phase` bytes after a multiple of `page`.
    ///
    /// # Errors
    /// If the buffer does not fit in memory.
    pub fn congruent(spans: &[Span], page: usize, phase: usize) -> io::Result<Fetch> {
        Fetch::with_starts(spans, |bytes, offset| {
            let (at, wanted) = ((bytes + phase) % page, (offset % page as u64) as usize);
            bytes + (wanted + page - at) % page
        })
    }

    /// Plans the reads. `start` returns the position of a read in the buffer: the bytes so far, or a few more.
    fn with_starts(spans: &[Span], start: impl Fn(usize, u64) -> usize) -> io::Result<Fetch> {
        let mut fetch = Fetch { ranges: Vec::with_capacity(spans.len()), ..Fetch::default() };
        for span in spans {
            let merged = match fetch.reads.last_mut() {
                Some((run, start)) if !span.is_sparse() => next_in_batch(*run, *span).map(|both| {
                    *run = both;
                    *start + (span.offset - run.offset) as usize
                }),
                _ => None,
            };
            let len = usize::try_from(span.len).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
            let start = match merged {
                Some(start) => start,
                None if span.is_sparse() => fetch.bytes,
                None => {
                    let start = start(fetch.bytes, span.offset);
                    fetch.reads.push((*span, start));
                    start
                }
            };
            fetch.bytes = start + len;
            fetch.ranges.push(start..fetch.bytes);
        }
        Ok(fetch)
    }

    /// Plans to fetch `spans` so that each starts `phase` bytes after a multiple of `align`, for decoders
    /// that require it. Neighbours are then read one by one, because their alignment in the file differs.
    ///
    /// # Errors
    /// If the buffer does not fit in memory.
    pub fn aligned(spans: &[Span], align: usize, phase: usize) -> io::Result<Fetch> {
        if align <= 1 {
            return Fetch::plan(spans);
        }
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let mut fetch = Fetch { ranges: Vec::with_capacity(spans.len()), ..Fetch::default() };
        for span in spans {
            let len = usize::try_from(span.len).map_err(|_| too_large())?;
            if span.is_sparse() {
                fetch.ranges.push(fetch.bytes..fetch.bytes);
                continue;
            }
            let start = fetch.bytes.checked_add(align - 1 - phase).map(|at| at / align * align + phase);
            let start = start.ok_or_else(too_large)?;
            fetch.reads.push((*span, start));
            fetch.bytes = start.checked_add(len).ok_or_else(too_large)?;
            fetch.ranges.push(start..fetch.bytes);
        }
        Ok(fetch)
    }

    /// The position of each span in the buffer.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// The reads: a range of the file, and its position in the buffer.
    pub fn reads(&self) -> impl ExactSizeIterator<Item = (Span, Range<usize>)> + '_ {
        self.reads.iter().map(|&(span, start)| (span, start..start + span.len as usize))
    }

    /// The size of the buffer in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(spans: &[(u64, u64)]) -> (Batch, Vec<(u64, usize)>) {
        let spans: Vec<Span> = spans.iter().map(|&(offset, len)| Span { offset, len }).collect();
        let mut batch = Batch::new();
        let mut reads = Vec::new();
        batch
            .fill(&spans, |fetch, out| {
                for (span, range) in fetch.reads() {
                    reads.push((span.offset, range.len()));
                    out[range].iter_mut().zip(span.offset..).for_each(|(byte, at)| *byte = at as u8);
                }
                Ok(())
            })
            .unwrap();
        for (i, span) in spans.iter().enumerate() {
            let expected: Vec<u8> = (span.offset..span.offset + span.len).map(|at| at as u8).collect();
            assert_eq!(batch.get(i), expected, "span {i}");
        }
        (batch, reads)
    }

    #[test]
    fn neighbours_are_merged_and_distant_or_descending_spans_are_not() {
        let (_, reads) = fill(&[(100, 50), (158, 20), (10_000, 5), (90, 10)]);
        assert_eq!(reads, [(100, 78), (10_000, 5), (90, 10)]);
    }

    #[test]
    fn ranges_are_merged_in_any_order_up_to_the_gap_and_the_cap() {
        let merge = |spans: &[(u64, u64)], gap, max_bytes| -> Vec<(u64, u64, Vec<usize>)> {
            let spans: Vec<Span> = spans.iter().map(|&(offset, len)| Span { offset, len }).collect();
            let ranges = coalesce(&spans, MergeRule { gap, max_bytes });
            ranges.into_iter().map(|range| (range.span.offset, range.span.len, range.members)).collect()
        };
        let spans = [(30, 5), (0, 10), (12, 8), (14, 2)];
        assert_eq!(merge(&spans, Some(2), 100), [(0, 20, vec![1, 2, 3]), (30, 5, vec![0])]);
        assert_eq!(merge(&spans, Some(10), 100), [(0, 35, vec![1, 2, 3, 0])]);
        assert_eq!(merge(&spans, Some(10), 34), [(0, 20, vec![1, 2, 3]), (30, 5, vec![0])]);
        assert_eq!(merge(&spans, Some(1), 100), [(0, 10, vec![1]), (12, 8, vec![2, 3]), (30, 5, vec![0])]);
        assert_eq!(merge(&spans, None, 100).len(), 4);
        assert_eq!(merge(&[], Some(1), 1), []);
        assert_eq!(merge(&[(u64::MAX, 9), (0, 1)], Some(u64::MAX), 4).len(), 2);
    }

    #[test]
    fn sparse_blocks_keep_their_place_and_cost_no_read() {
        let (batch, reads) = fill(&[(0, 0), (8, 4), (0, 0), (12, 4), (0, 0)]);
        assert_eq!(reads, [(8, 8)]);
        assert!(batch.get(0).is_empty() && batch.get(2).is_empty() && batch.get(4).is_empty());
    }

    #[test]
    fn spans_that_do_not_fit_the_budget_are_left_for_the_next_batch() {
        let spans: Vec<Span> =
            [(100, 50), (0, 0), (100, 50), (158, 20), (9_000, 30)].map(|(offset, len)| Span { offset, len }).to_vec();
        let affordable = |budget| Batch::affordable(&spans, budget);
        assert_eq!([1, 50, 99, 100, 127, 128, 157, 158].map(affordable), [1, 2, 2, 3, 3, 4, 4, 5]);
        assert_eq!(Batch::affordable(&[], 0), 0);
        for budget in [50, 100, 128, 158] {
            let mut batch = Batch::new();
            batch.fill(&spans[..affordable(budget)], |_, _| Ok(())).unwrap();
            assert!(batch.buffer.len() as u64 <= budget);
        }
    }

    #[test]
    fn aligned_spans_start_at_their_alignment_and_hold_their_bytes() {
        let spans: Vec<Span> = [(100, 5), (0, 0), (105, 7), (300, 1), (301, 8), (100, 5)]
            .map(|(offset, len)| Span { offset, len })
            .to_vec();
        for (align, phase) in [(4, 2), (8, 6), (2, 0), (16, 15)] {
            let fetch = Fetch::aligned(&spans, align, phase).unwrap();
            let mut buffer = vec![0; fetch.bytes()];
            for (span, range) in fetch.reads() {
                assert_eq!(range.start % align, phase, "{align} {phase}");
                buffer[range].iter_mut().zip(span.offset..).for_each(|(byte, at)| *byte = at as u8);
            }
            for (span, range) in spans.iter().zip(fetch.ranges()) {
                let expected: Vec<u8> = (span.offset..span.offset + span.len).map(|at| at as u8).collect();
                assert_eq!(buffer[range.clone()], expected);
            }
            assert_eq!(fetch.reads().len(), 5);
        }
        assert_eq!(Fetch::aligned(&spans, 1, 0).unwrap().reads().len(), 2, "spans without alignment are merged");
    }

    #[test]
    fn batch_too_large_for_memory_is_an_error_not_an_abort() {
        let mut batch = Batch::new();
        let filled = batch.fill(&[Span { offset: 0, len: 1 << 62 }], |_, _| Ok(()));
        assert_eq!(filled.unwrap_err().kind(), io::ErrorKind::OutOfMemory);
    }

    #[test]
    fn overlapping_blocks_each_get_their_own_bytes() {
        fill(&[(100, 50), (120, 50), (100, 50)]);
    }

    #[test]
    fn congruent_reads_lie_in_their_page_as_in_the_file() {
        let spans: Vec<Span> = [(100, 50), (150, 5000), (1 << 20, 10), (0, 0), (9_000_001, 4096)]
            .map(|(offset, len)| Span { offset, len })
            .to_vec();
        for phase in [0, 16, 4095] {
            let fetch = Fetch::congruent(&spans, 4096, phase).unwrap();
            assert_eq!(fetch.reads().len(), 3, "neighbours are one read");
            let mut end = 0;
            for (span, range) in fetch.reads() {
                assert_eq!((range.start + phase) % 4096, span.offset as usize % 4096, "phase {phase}");
                assert!(range.start >= end && range.start < end + 4096);
                end = range.end;
            }
            assert_eq!(fetch.bytes(), end);
            assert!(fetch.ranges().iter().zip(&spans).all(|(range, span)| range.len() as u64 == span.len));
        }
    }
}
