//! One contiguous buffer with spans: how compressed blocks travel.

use std::io;
use std::ops::Range;

use crate::Span;

/// Ranges this close are read as one: reading a page too much is cheaper than asking twice. It also bridges the leaders
/// and trailers between the tiles of a COG.
const MERGE_GAP: u64 = 4096;

/// The bytes of several blocks in one buffer that is kept and reused from batch to batch.
#[derive(Debug, Default)]
pub struct Batch {
    buffer: Vec<u8>,
    ranges: Vec<Range<usize>>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// The bytes of block `i` of the batch.
    pub fn get(&self, i: usize) -> &[u8] {
        &self.buffer[self.ranges[i].clone()]
    }

    /// The bytes of block `i`, for codecs that work in place.
    pub fn get_mut(&mut self, i: usize) -> &mut [u8] {
        &mut self.buffer[self.ranges[i].clone()]
    }

    /// Bytes that the buffer occupies.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// How many of the first `spans` can be fetched into `budget` bytes: all in most files, and at least one. Blocks may lie
    /// on top of each other, so that the size of the file says nothing about their sum.
    pub fn affordable(spans: &[Span], budget: u64) -> usize {
        let (mut used, mut end) = (0_u64, 0_u64);
        for (i, span) in spans.iter().enumerate().filter(|(_, span)| !span.is_sparse()) {
            // What merging reads between two blocks takes room too.
            let gap = span.offset.checked_sub(end).filter(|&gap| used > 0 && gap <= MERGE_GAP).unwrap_or(0);
            used = used.saturating_add(gap).saturating_add(span.len);
            end = span.offset.saturating_add(span.len);
            if used > budget {
                return i.max(1);
            }
        }
        spans.len()
    }

    /// Replace the contents by `spans`.
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

/// What has to be read to have some spans in one buffer: neighbours that ascend in the file are read at once.
#[derive(Debug, Default)]
pub struct Fetch {
    ranges: Vec<Range<usize>>,
    reads: Vec<(Span, usize)>,
    bytes: usize,
}

impl Fetch {
    /// Plan to fetch `spans`. Empty ones cost nothing and keep their place.
    ///
    /// # Errors
    /// When no memory can hold them.
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

    /// Plan to fetch `spans` so that each begins `phase` bytes behind a multiple of `align`, for decoders that want it so. Neighbours
    /// are read one by one then: in the file they lie as they lie.
    ///
    /// # Errors
    /// When no memory can hold them.
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

    /// Where each span lies in the buffer.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// The reads: a range of the file, and where it goes in the buffer.
    pub fn reads(&self) -> impl ExactSizeIterator<Item = (Span, Range<usize>)> + '_ {
        self.reads.iter().map(|&(span, start)| (span, start..start + span.len as usize))
    }

    /// Bytes of the buffer.
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
    fn neighbours_are_read_at_once_and_far_or_descending_ones_are_not() {
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
    fn aligned_spans_begin_where_they_must_and_hold_their_bytes() {
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
        assert_eq!(Fetch::aligned(&spans, 1, 0).unwrap().reads().len(), 2, "what may lie anywhere is merged");
    }

    #[test]
    fn overlapping_blocks_each_get_their_own_bytes() {
        fill(&[(100, 50), (120, 50), (100, 50)]);
    }
}
