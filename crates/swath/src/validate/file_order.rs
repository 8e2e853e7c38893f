//! Lists all stored blocks in file order, in bounded memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use swath_io::Span;

use super::Part;
use crate::dataset::Dataset;

/// Number of table entries that are read together.
const CHUNK: u64 = 64 << 10;
/// The most bands of all levels together that can be merged. With more bands, too few entries of each would
/// fit in memory.
const MAX_CURSORS: usize = 4096;
/// Number of blocks that a pass keeps. A pass holds at most twice as many, in 32 bytes each.
pub(super) const KEPT: usize = 1 << 20;

/// A stored block: its byte range, its part, and its index in that part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Piece {
    pub(super) offset: u64,
    pub(super) end: u64,
    pub(super) part: usize,
    pub(super) index: u64,
}

impl Piece {
    /// Returns `None` for a block that is not stored inside the file.
    fn new(span: Span, part: usize, index: u64, size: u64) -> Option<Piece> {
        let end = span.offset.checked_add(span.len).filter(|&end| end <= size)?;
        (span.offset > 0 && span.len > 0).then_some(Piece { offset: span.offset, end, part, index })
    }
}

/// Merges blocks that are in ascending order within each band of each part, in one pass.
pub(super) struct Merge<'a> {
    dataset: &'a Dataset,
    parts: &'a [Part<'a>],
    chunk: u64,
    cursors: Vec<Cursor>,
    /// The next block of each cursor.
    heads: BinaryHeap<Reverse<(Piece, usize)>>,
}

/// A position in the table of a part, with the entries that were read and not yet returned.
struct Cursor {
    part: usize,
    first: u64,
    at: usize,
    spans: Vec<Span>,
    end: u64,
}

impl<'a> Merge<'a> {
    /// Returns `None` when there are more bands than `MAX_CURSORS`.
    pub(super) fn new(dataset: &'a Dataset, parts: &'a [Part<'a>]) -> Option<Merge<'a>> {
        let mut cursors = Vec::new();
        for (number, part) in with_tables(parts) {
            let (blocks, grid) = (part.blocks(), part.layout.grid);
            let band = grid.across() * grid.down();
            for first in (0..blocks).step_by(usize::try_from(band).ok()?) {
                if cursors.len() == MAX_CURSORS {
                    return None;
                }
                let end = blocks.min(first + band);
                cursors.push(Cursor { part: number, first, at: 0, spans: Vec::new(), end });
            }
        }
        let chunk = (1 << 20) / cursors.len().max(1) as u64;
        let chunk = chunk.clamp(1, CHUNK);
        let mut merge = Merge { dataset, parts, chunk, cursors, heads: BinaryHeap::new() };
        (0..merge.cursors.len()).for_each(|number| merge.advance(number));
        Some(merge)
    }

    /// Moves the next block of a cursor into `heads`.
    fn advance(&mut self, number: usize) {
        let (source, size) = (self.dataset.source().as_ref(), self.dataset.source().size());
        let cursor = &mut self.cursors[number];
        loop {
            while let Some(&span) = cursor.spans.get(cursor.at) {
                let index = cursor.first + cursor.at as u64;
                cursor.at += 1;
                if let Some(piece) = Piece::new(span, cursor.part, index, size) {
                    self.heads.push(Reverse((piece, number)));
                    return;
                }
            }
            cursor.first += cursor.spans.len() as u64;
            cursor.at = 0;
            cursor.spans.clear();
            let count = self.chunk.min(cursor.end - cursor.first);
            let table = &self.parts[cursor.part].layout.table;
            // The check of the blocks has already reported a table that cannot be read.
            if count == 0 || table.raw_spans(source, cursor.first, count, &mut cursor.spans).is_err() {
                return;
            }
        }
    }
}

impl Iterator for Merge<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let Reverse((piece, number)) = self.heads.pop()?;
        self.advance(number);
        Some(piece)
    }
}

/// Lists blocks that are in any order. It makes as many passes over all tables as necessary; each pass keeps
/// the next blocks in file order.
pub(super) struct Passes<'a> {
    kept: usize,
    dataset: &'a Dataset,
    parts: &'a [Part<'a>],
    pieces: std::vec::IntoIter<Piece>,
    /// The offset at which the next pass starts, if there is one.
    from: Option<u64>,
}

impl<'a> Passes<'a> {
    pub(super) fn new(kept: usize, dataset: &'a Dataset, parts: &'a [Part<'a>]) -> Passes<'a> {
        Passes { kept, dataset, parts, pieces: Vec::new().into_iter(), from: Some(0) }
    }

    /// Returns the `kept` blocks with the lowest offsets from `from` on, and the offset at which the next
    /// pass starts.
    fn pass(&self, from: u64) -> (Vec<Piece>, Option<u64>) {
        let (source, size) = (self.dataset.source().as_ref(), self.dataset.source().size());
        let mut pieces: Vec<Piece> = Vec::new();
        let mut below = u64::MAX;
        let mut more = false;
        let mut spans = Vec::new();
        for (number, part) in with_tables(self.parts) {
            for first in (0..part.blocks()).step_by(CHUNK as usize) {
                spans.clear();
                let count = CHUNK.min(part.blocks() - first);
                if part.layout.table.raw_spans(source, first, count, &mut spans).is_err() {
                    break;
                }
                for (index, &span) in (first..).zip(&spans) {
                    let Some(piece) = Piece::new(span, number, index, size).filter(|piece| piece.offset >= from) else {
                        continue;
                    };
                    if piece.offset >= below {
                        more = true;
                        continue;
                    }
                    pieces.push(piece);
                    if pieces.len() >= 2 * self.kept {
                        let (_, limit, _) = pieces.select_nth_unstable(self.kept);
                        below = limit.offset;
                        more = true;
                        pieces.truncate(self.kept);
                        // Blocks at the same offset stay together, in this pass or the next. If all kept
                        // blocks have the same offset, the others at that offset are dropped: the first ones
                        // are enough to report.
                        if pieces.iter().any(|piece| piece.offset < below) {
                            pieces.retain(|piece| piece.offset < below);
                        }
                    }
                }
            }
        }
        pieces.sort_unstable();
        let next = pieces.last().filter(|_| more).map(|piece| piece.offset + 1);
        (pieces, next)
    }
}

impl Iterator for Passes<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        loop {
            if let Some(piece) = self.pieces.next() {
                return Some(piece);
            }
            // Drop the previous pass before the next one starts, because both together would need too much
            // memory.
            self.pieces = Vec::new().into_iter();
            let (pieces, from) = self.pass(self.from?);
            (self.pieces, self.from) = (pieces.into_iter(), from);
        }
    }
}

/// The parts that have a table of sizes, with their numbers.
fn with_tables<'a>(parts: &'a [Part<'a>]) -> impl Iterator<Item = (usize, &'a Part<'a>)> {
    parts.iter().enumerate().filter(|(_, part)| part.layout.table.counts().is_some())
}
