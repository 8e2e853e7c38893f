//! Batches of compressed blocks: one contiguous buffer with spans.

use std::io;
use std::ops::Range;

use crate::Span;

/// Ranges with at most this gap are merged into one read: reading one extra page is cheaper than a second
/// request. This also covers the leaders and trailers between the tiles of a COG.
const MERGE_GAP: u64 = 4096;

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
        let (mut used, mut end) = (0_u64, 0_u64);
        for (i, span) in spans.iter().enumerate().filter(|(_, span)| !span.is_sparse()) {
            // Merging also reads the gap between two blocks, which takes space too.
            let gap = span.offset.checked_sub(end).filter(|&gap| used > 0 && gap <= MERGE_GAP).unwrap_or(0);
            used = used.saturating_add(gap).saturating_add(span.len);
            end = span.offset.saturating_add(span.len);
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
            self.buffer.resize(fetch.bytes, 0);
        }
        let read = read(&fetch, &mut self.buffer[..fetch.bytes]);
        self.ranges = fetch.ranges;
        read
    }
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
        let mut fetch = Fetch { ranges: Vec::with_capacity(spans.len()), ..Fetch::default() };
        for span in spans {
            let merged = match fetch.reads.last_mut() {
                Some((run, start)) if !span.is_sparse() => {
                    let end = run.offset + run.len;
                    (span.offset >= end && span.offset - end <= MERGE_GAP).then(|| {
                        run.len = span.offset + span.len - run.offset;
                        *start + (span.offset - run.offset) as usize
                    })
                }
                _ => None,
            };
            let len = usize::try_from(span.len).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
            let start = match merged {
                Some(start) => start,
                None => {
                    if !span.is_sparse() {
                        fetch.reads.push((*span, fetch.bytes));
                    }
                    fetch.bytes
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
    fn overlapping_blocks_each_get_their_own_bytes() {
        fill(&[(100, 50), (120, 50), (100, 50)]);
    }
}
