//! The block table: the offset and size of each block. It is read by index and never as a whole.

use std::borrow::Cow;

use crate::bytes::ReadAt;
use crate::error::{Location, Result};
use crate::field::Entry;

/// The offset and size of a block in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// The offset of the first byte.
    pub offset: u64,
    /// The number of bytes; 0 for a block that is not stored (sparse).
    pub len: u64,
}

impl Span {
    /// Whether the block is not stored.
    pub fn is_sparse(&self) -> bool {
        self.len == 0
    }
}

/// The offsets and byte counts of the blocks of an image. They stay in the file: a table of ten million tiles
/// costs nothing until a tile is read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockTable {
    pub(crate) ifd: Location,
    pub(crate) offsets: Entry,
    pub(crate) counts: Option<Entry>,
}

impl BlockTable {
    /// The entry of the offsets (StripOffsets or TileOffsets).
    pub fn offsets(&self) -> &Entry {
        &self.offsets
    }

    /// The entry of the byte counts, if the file has one.
    pub fn counts(&self) -> Option<&Entry> {
        self.counts.as_ref()
    }

    /// Appends the spans of blocks `first .. first + count` to `spans`, with one read of the file for the
    /// offsets and one for the counts. Blocks beyond the end of a table that is too short are sparse, as in
    /// libtiff. If the file has no byte counts, the length is `u64::MAX`, and the caller decides how many bytes
    /// to read.
    ///
    /// # Errors
    /// The same errors as [`Fields::uints`](crate::Fields::uints).
    pub fn spans<R: ReadAt + ?Sized>(&self, source: &R, first: u64, count: u64, spans: &mut Vec<Span>) -> Result<()> {
        let start = spans.len();
        self.raw_spans(source, first, count, spans)?;
        spans[start..].iter_mut().filter(|span| span.offset == 0).for_each(|span| *span = Span::default());
        Ok(())
    }

    /// Does the same as [`spans`](BlockTable::spans), but keeps the sizes of blocks without an offset, for
    /// callers that search for mistakes in a file.
    ///
    /// # Errors
    /// The same errors as [`Fields::uints`](crate::Fields::uints).
    pub fn raw_spans<R: ReadAt + ?Sized>(
        &self,
        source: &R,
        first: u64,
        count: u64,
        spans: &mut Vec<Span>,
    ) -> Result<()> {
        let offsets = column(&self.offsets, source, self.ifd, first, count)?;
        let counts = match &self.counts {
            Some(entry) => Some((entry, column(entry, source, self.ifd, first, count)?)),
            None => None,
        };
        for i in 0..count as usize {
            let offset = self.offsets.uint_at(&offsets, i).unwrap_or(0);
            let len = match &counts {
                Some((entry, bytes)) => entry.uint_at(bytes, i).unwrap_or(0),
                None => u64::MAX,
            };
            spans.push(Span { offset, len });
        }
        Ok(())
    }
}

/// Reads the raw values `first .. first + count` of a table column. The result ends where the column ends.
fn column<'a, R: ReadAt + ?Sized>(
    entry: &'a Entry,
    source: &R,
    ifd: Location,
    first: u64,
    count: u64,
) -> Result<Cow<'a, [u8]>> {
    let first = first.min(entry.count);
    entry.slice(source, ifd, first, count.min(entry.count - first))
}
