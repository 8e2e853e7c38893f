//! The rules for blocks, checked in one pass over each block table.

use swath_io::{Batch, Span};

use super::findings::Findings;
use super::ghost::Ghost;
use super::{Part, Rule};
use crate::dataset::Dataset;
use crate::error::{Error, Result};

/// Number of table entries that are checked together. Their leaders and trailers are fetched in one batch,
/// which reads at most 17 MB, gaps included.
const CHUNK: u64 = 2048;
/// Size of a leader, and of a trailer, in bytes.
const MARK: u64 = 4;

/// The position of a level's data in the file.
#[derive(Debug, Default)]
pub(super) struct Extent {
    /// The offset of the first stored block in table order.
    pub(super) first: Option<u64>,
    pub(super) lowest: u64,
    /// The greatest end offset of all blocks.
    pub(super) end: u64,
    /// Whether the blocks of each band lie in the file in table order.
    pub(super) ascending: bool,
    pub(super) stored: u64,
    pub(super) bytes: u64,
}

pub(super) fn check(
    dataset: &Dataset,
    parts: &[Part<'_>],
    ghost: &Ghost,
    findings: &mut Findings,
) -> Result<Vec<Extent>> {
    let blocks = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.blocks()));
    let limit = dataset.limits().max_blocks;
    if blocks > limit {
        return Err(Error::Limit {
            file: dataset.name(),
            what: "checking the blocks of all levels",
            name: "max_blocks",
            value: blocks,
            limit,
        });
    }
    let mut walk = Walk { dataset, ghost, findings, batch: Batch::new(), marks: Vec::new(), spans: Vec::new() };
    parts.iter().map(|part| walk.part(part, image_of(part, parts, ghost))).collect()
}

/// Returns the image whose blocks the blocks of `mask` should follow. Planar images are excluded, because
/// they have several blocks for one block of the mask.
fn image_of<'a>(mask: &Part<'_>, parts: &'a [Part<'a>], ghost: &Ghost) -> Option<&'a Part<'a>> {
    let fits = |part: &&Part<'_>| !part.mask && part.level == mask.level && part.layout.grid == mask.layout.grid;
    parts.iter().find(fits).filter(|_| mask.mask && ghost.masks_interleaved)
}

struct Walk<'a> {
    dataset: &'a Dataset,
    ghost: &'a Ghost,
    findings: &'a mut Findings,
    batch: Batch,
    /// The leaders and trailers of a chunk, with their positions.
    marks: Vec<Mark>,
    spans: Vec<Span>,
}

/// A leader, or a trailer with the last bytes of the block, which it repeats.
#[derive(Clone, Copy)]
struct Mark {
    span: Span,
    is_leader: bool,
    /// The index of its block.
    index: u64,
    block_len: u64,
}

impl Walk<'_> {
    fn part(&mut self, part: &Part<'_>, image: Option<&Part<'_>>) -> Result<Extent> {
        let mut extent = Extent { lowest: u64::MAX, ascending: true, ..Extent::default() };
        let (table, source) = (&part.layout.table, self.dataset.source().as_ref());
        let place = Some(part.ifd.offset);
        let expected = part.layout.grid.count().unwrap_or(0);
        let Some(counts) = table.counts() else {
            self.findings.add(Rule::BlockTable, part.subject(), place, || "the table of byte counts is missing".into());
            return Ok(extent);
        };
        for entry in [table.offsets(), counts].into_iter().filter(|entry| entry.count != expected) {
            self.findings.add(Rule::BlockTable, part.subject(), place, || {
                format!("{} has {} entries for {expected} blocks", entry.tag, entry.count)
            });
        }

        let per_plane = part.layout.grid.across() * part.layout.grid.down();
        let (mut spans, mut image_spans) = (Vec::new(), Vec::new());
        let mut previous = 0;
        for first in (0..part.blocks()).step_by(CHUNK as usize) {
            let count = CHUNK.min(part.blocks() - first);
            spans.clear();
            image_spans.clear();
            let read = table.raw_spans(source, first, count, &mut spans).and_then(|()| match image {
                Some(image) => image.layout.table.raw_spans(source, first, count, &mut image_spans),
                None => Ok(()),
            });
            if let Err(error) = read {
                self.findings.add(Rule::BlockTable, part.subject(), place, || error.to_string());
                extent.ascending = false;
                return Ok(extent);
            }
            for (index, &span) in (first..).zip(&spans) {
                // A planar file may store its bands one after another or tile by tile, so the order is
                // checked within each band.
                if index % per_plane == 0 {
                    previous = 0;
                }
                if !self.block(part, index, span, &mut extent) {
                    continue;
                }
                extent.ascending &= span.offset >= previous;
                if self.ghost.row_major && span.offset < previous {
                    self.findings.add(Rule::TileOrder, part.block(index), Some(span.offset), || {
                        format!(
                            "it is stored before the block that precedes it in row-major order, which is at {previous}"
                        )
                    });
                }
                previous = span.offset;
                if let Some(&image) = image_spans.get((index - first) as usize) {
                    self.follows(part, index, span, image);
                }
            }
            self.marks(part)?;
        }
        Ok(extent)
    }

    /// Checks one block. Returns whether it is stored and lies inside the file.
    fn block(&mut self, part: &Part<'_>, index: u64, span: Span, extent: &mut Extent) -> bool {
        let size = self.dataset.source().size();
        if span.offset == 0 && span.len == 0 {
            return false;
        }
        if span.offset == 0 || span.len == 0 {
            self.findings.add(Rule::BlockSparse, part.block(index), None, || {
                format!(
                    "the offset is {} and the size is {} bytes; either both or none must be 0",
                    span.offset, span.len
                )
            });
            return false;
        }
        extent.first = extent.first.or(Some(span.offset));
        extent.lowest = extent.lowest.min(span.offset);
        extent.stored += 1;
        extent.bytes = extent.bytes.saturating_add(span.len);
        // A block that extends past the end of the file still has a leader.
        if self.ghost.leaders && span.offset <= size {
            match span.offset.checked_sub(MARK) {
                Some(offset) => {
                    let leader = Span { offset, len: MARK };
                    self.marks.push(Mark { span: leader, is_leader: true, index, block_len: span.len });
                }
                None => self.findings.add(Rule::TileLeader, part.block(index), Some(span.offset), || {
                    "there is no room for a leader".into()
                }),
            }
        }
        let Some(end) = span.offset.checked_add(span.len).filter(|&end| end <= size) else {
            self.findings.add(Rule::BlockInside, part.block(index), Some(span.offset), || {
                format!("it has {} bytes, but the file ends at {size}", span.len)
            });
            return false;
        };
        extent.end = extent.end.max(end);
        // The layout does not define the trailer of a block of less than 4 bytes.
        if self.ghost.trailers && span.len >= MARK {
            if size - end >= MARK {
                let trailer = Span { offset: end - MARK, len: 2 * MARK };
                self.marks.push(Mark { span: trailer, is_leader: false, index, block_len: span.len });
            } else {
                self.findings.add(Rule::TileTrailer, part.block(index), Some(end), || {
                    format!("the file ends at {size}, within the trailer")
                });
            }
        }
        true
    }

    /// Checks that a block of the mask follows the block of the image.
    fn follows(&mut self, mask: &Part<'_>, index: u64, span: Span, image: Span) {
        if image.offset == 0 || image.len == 0 {
            return;
        }
        let between = MARK * (u64::from(self.ghost.leaders) + u64::from(self.ghost.trailers));
        let expected = image.offset.saturating_add(image.len).saturating_add(between);
        if span.offset != expected {
            self.findings.add(Rule::MaskInterleaved, mask.block(index), Some(span.offset), || {
                format!("it should follow the block of the image directly, at {expected}")
            });
        }
    }

    /// Fetches the collected leaders and trailers and compares them with the table.
    fn marks(&mut self, part: &Part<'_>) -> Result<()> {
        let Some(&first) = self.marks.first() else { return Ok(()) };
        // The batch merges neighbouring ranges only if they come in file order.
        self.marks.sort_by_key(|mark| mark.span.offset);
        self.spans.clear();
        self.spans.extend(self.marks.iter().map(|mark| mark.span));
        self.dataset.source().fetch(&self.spans, &mut self.batch).map_err(|source| {
            let (block, Span { offset, len }) = (part.block_name(first.index), first.span);
            Error::Fetch { file: self.dataset.name(), block, offset, len, cause: source }
        })?;
        for (i, mark) in self.marks.drain(..).enumerate() {
            let bytes = self.batch.get(i);
            if mark.is_leader {
                let size = bytes.iter().rev().fold(0_u64, |sum, &byte| sum << 8 | u64::from(byte));
                if size != mark.block_len {
                    self.findings.add(Rule::TileLeader, part.block(mark.index), Some(mark.span.offset), || {
                        format!("the leader says {size} bytes, the table {}", mark.block_len)
                    });
                }
                continue;
            }
            let (last, trailer) = bytes.split_at(MARK as usize);
            if last != trailer {
                self.findings.add(Rule::TileTrailer, part.block(mark.index), Some(mark.span.offset + MARK), || {
                    format!("the trailer is {trailer:02x?}, the block ends in {last:02x?}")
                });
            }
        }
        Ok(())
    }
}

/// Checks that the IFDs come first, then the data from the smallest level to the largest.
pub(super) fn check_order(dataset: &Dataset, parts: &[Part<'_>], extents: &[Extent], findings: &mut Findings) {
    let stored = || parts.iter().zip(extents).filter_map(|(part, extent)| Some((part, extent, extent.first?)));
    let Some(data) = stored().map(|(_, _, first)| first).min() else { return };
    for part in parts {
        if part.ifd.offset > data {
            let rule = if part.mask { Rule::ValuesBeforeData } else { Rule::IfdsBeforeData };
            findings.add(rule, part.subject(), Some(part.ifd.offset), || {
                format!("its IFD lies after the first data, which is at {data}")
            });
        }
        for entry in part.ifd.entries.iter().filter(|entry| entry.byte_len().is_some() && !entry.is_inline()) {
            if entry.offset() > data && entry.offset() < dataset.source().size() {
                findings.add(Rule::ValuesBeforeData, part.subject(), Some(entry.offset()), || {
                    format!("the values of {} lie after the first data, which is at {data}", entry.tag)
                });
            }
        }
    }

    let levels: Vec<_> = stored().filter(|(part, ..)| !part.mask).collect();
    for pair in levels.windows(2) {
        let ((large, large_extent, large_first), (small, small_extent, small_first)) = (&pair[0], &pair[1]);
        if large_first < small_first {
            findings.add(Rule::DataOrder, large.subject(), Some(*large_first), || {
                format!("its data starts before the data of level {}, which is at {small_first}", small.level)
            });
        } else if large_extent.lowest < small_extent.end {
            findings.add(Rule::DataApart, large.subject(), Some(large_extent.lowest), || {
                format!(
                    "some of its data lies before the end of the data of level {}, which is at {}",
                    small.level, small_extent.end
                )
            });
        }
    }
}
