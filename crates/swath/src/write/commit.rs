//! Makes a file from the blocks in the spools: checks that none is missing, and lays out the file.

use std::io::{Seek, SeekFrom, Write};

use swath_io::{Output, Span, insert_front};
use swath_tiff::cog::{FRAME_BYTES, ghost_area};
use swath_tiff::{BlockGrid, ByteOrder, Planar, Tag, Value, encode_directories, encode_header};

use crate::error::{Error, Result};
use crate::write::block_index::{BlockIndex, LevelBlocks};
use crate::write::options::BigTiff;
use crate::write::options::Statistics;
use crate::write::plan::WritePlan;
use crate::write::stream::{Spools, Streamed};
use crate::write::tags;

/// Space for the header of a plain file. It has the size of a BigTIFF header, because the size of the file is
/// not known when the first block is written.
pub(crate) const PLAIN_START: u64 = 16;

/// The full resolution of a COG starts at a multiple of this, if it is large enough. This is the block size
/// of file systems, which can then insert the overviews before it without moving it.
const ALIGNMENT: u64 = 4096;
const WORTH_ALIGNING: u64 = 1 << 20;

/// The layout of a file: its parts and their order.
pub(crate) struct Layout {
    pub(crate) big: bool,
    pub(crate) size: u64,
    /// The bytes before the blocks.
    head: Vec<u8>,
    /// The bytes after the blocks.
    tail: Vec<u8>,
    pieces: Vec<Piece>,
}

/// A run of blocks that are adjacent in the spool and in the file.
struct Piece {
    overview: bool,
    span: Span,
    /// The number of zeros before it.
    gap: u64,
}

/// Lays out the file.
pub(crate) fn lay_out(plan: &WritePlan, streamed: &Streamed) -> Result<Layout> {
    streamed.index.check_complete()?;
    let directories = Directories::new(plan, streamed)?;
    let classic = || if plan.is_cog() { directories.cog(false) } else { directories.plain(false) };
    let big = || if plan.is_cog() { directories.cog(true) } else { directories.plain(true) };
    let layout = match plan.options.big_tiff {
        BigTiff::Yes => big(),
        BigTiff::No => classic(),
        BigTiff::Auto => match classic() {
            layout if layout.size > plan.classic_limit => big(),
            layout => layout,
        },
    };
    if !layout.big && layout.size > plan.classic_limit {
        return Err(Error::TooLarge { size: layout.size });
    }
    Ok(layout)
}

impl Layout {
    /// Writes the whole file from its beginning to its end.
    pub(crate) fn write<W: Write>(&self, spools: &mut Spools, output: &mut Output<'_, W>) -> std::io::Result<()> {
        output.write_all(&self.head)?;
        self.copy_pieces(spools, output, |_| true)?;
        output.write_all(&self.tail)
    }

    /// Completes a file that already holds its full resolution: at its final position in a plain file, at the
    /// start in a COG, where space is inserted before it. Returns `false` if the file system cannot insert
    /// space; the file is unchanged then.
    pub(crate) fn complete(&self, spools: &mut Spools, mut file: &std::fs::File) -> std::io::Result<bool> {
        let is_full = |piece: &&Piece| !piece.overview;
        let full: u64 = self.pieces.iter().filter(is_full).map(|piece| piece.span.len).sum();
        let mut output: Output<'_, std::io::Sink> = Output::File(file);
        if !self.tail.is_empty() {
            // If no block is stored, the file is shorter than the space for its header.
            file.seek(SeekFrom::Start(PLAIN_START + full))?;
            self.copy_pieces(spools, &mut output, |piece| piece.overview)?;
            output.write_all(&self.tail)?;
            // A device that wrote to the file, or failed to, may have left bytes after the end.
            file.set_len(self.size)?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&self.head)?;
            return Ok(true);
        }
        let in_order =
            self.pieces.last().is_some_and(|last| !last.overview && last.span == Span { offset: 0, len: full });
        let front = self.size - full;
        file.set_len(full)?;
        if !in_order || !front.is_multiple_of(ALIGNMENT) || !insert_front(file, front) {
            return Ok(false);
        }
        file.seek(SeekFrom::Start(0))?;
        output.write_all(&self.head)?;
        self.copy_pieces(spools, &mut output, |piece| piece.overview)?;
        Ok(true)
    }

    fn copy_pieces<W: Write>(
        &self,
        spools: &mut Spools,
        output: &mut Output<'_, W>,
        wanted: impl Fn(&Piece) -> bool,
    ) -> std::io::Result<()> {
        for piece in self.pieces.iter().filter(|piece| wanted(piece)) {
            output.write_all(&vec![0; piece.gap as usize])?;
            let spool = if piece.overview { &mut spools.overviews } else { &mut spools.full };
            spool.copy_to(piece.span, output)?;
        }
        Ok(())
    }
}

/// The directories of a file without the offsets of the blocks.
struct Directories<'a> {
    plan: &'a WritePlan,
    index: &'a BlockIndex,
    /// Level, whether it is a mask, and its tags without block tables.
    tags: Vec<(usize, bool, Entries)>,
}

/// The entries of a directory.
type Entries = Vec<(Tag, Value)>;

/// The offsets of the blocks of one directory in the file, as far as they are known.
struct Placed {
    level: usize,
    mask: bool,
    offsets: Vec<u64>,
}

impl<'a> Directories<'a> {
    fn new(plan: &'a WritePlan, streamed: &'a Streamed) -> Result<Directories<'a>> {
        let statistics = match plan.options.statistics {
            Statistics::Embed => streamed.report.statistics.as_slice(),
            Statistics::Off | Statistics::Report => &[],
        };
        let tags_of = |(level, mask)| {
            let stored = streamed.copied_tags.as_deref().filter(|_| level == 0);
            let tags =
                if mask { tags::mask_tags(plan, level) } else { tags::level_tags(plan, level, stored, statistics)? };
            Ok((level, mask, tags))
        };
        let tags = tags::order(plan).into_iter().map(tags_of).collect::<Result<_>>()?;
        Ok(Directories { plan, index: &streamed.index, tags })
    }

    /// Directories first, then the blocks: the smallest overview first, the full resolution last.
    fn cog(&self, big: bool) -> Layout {
        let planar = self.plan.options.planar == Planar::Separate && self.plan.bands > 1;
        let ghost = ghost_area(self.plan.mask_is_interleaved(), planar);
        let mut head = encode_header(ByteOrder::Little, big, 0);
        head.extend(ghost);
        let start = head.len() as u64;
        let len = encode_directories(ByteOrder::Little, big, start, &self.with_tables(big, &[])).len();
        let first_ifd = start.next_multiple_of(2);

        let mut pieces = Pieces::new(start + len as u64);
        let mut placed = Vec::new();
        for level in (0..self.plan.levels.len()).rev() {
            if level == 0 && self.full_bytes() >= WORTH_ALIGNING {
                pieces.align(ALIGNMENT);
            }
            placed.extend(self.place_level(level, FRAME_BYTES / 2, &mut pieces));
        }
        let directories = encode_directories(ByteOrder::Little, big, start, &self.with_tables(big, &placed));
        let header = encode_header(ByteOrder::Little, big, first_ifd);
        head[..header.len()].copy_from_slice(&header);
        head.extend(directories);
        Layout { big, size: pieces.at, head, tail: Vec::new(), pieces: pieces.list }
    }

    /// The full resolution first, as it was spooled; then the overviews, then the directories.
    fn plain(&self, big: bool) -> Layout {
        let mut pieces = Pieces::new(PLAIN_START);
        let placed: Vec<Placed> =
            (0..self.plan.levels.len()).flat_map(|level| self.place_level(level, 0, &mut pieces)).collect();
        let tail = encode_directories(ByteOrder::Little, big, pieces.at, &self.with_tables(big, &placed));
        let mut head = encode_header(ByteOrder::Little, big, pieces.at.next_multiple_of(2));
        head.resize(PLAIN_START as usize, 0);
        Layout { big, size: pieces.at + tail.len() as u64, head, tail, pieces: pieces.list }
    }

    /// Bytes of the blocks of the full resolution.
    fn full_bytes(&self) -> u64 {
        self.index.blocks(0, false).map_or(0, |blocks| blocks.spans().map(|span| span.len).sum())
    }

    /// Assigns offsets in the file to the blocks of a level and of its mask. In a COG they are in the order
    /// of the block table; in a plain file the full resolution stays in the order of the spool.
    fn place_level(&self, level: usize, frame: u64, pieces: &mut Pieces) -> Vec<Placed> {
        let image = self.index.blocks(level, false);
        let mask = self.index.blocks(level, true);
        let new = |mask, blocks: &LevelBlocks| Placed { level, mask, offsets: vec![0; blocks.spans().len()] };
        let mut placed: Vec<Placed> =
            image.map(|blocks| new(false, blocks)).into_iter().chain(mask.map(|blocks| new(true, blocks))).collect();
        let mut spans: Vec<(usize, usize, Span)> = Vec::new();
        let (image, mask) = (image.map(LevelBlocks::spans), mask.map(LevelBlocks::spans));
        if self.plan.mask_is_interleaved() {
            let pairs = image.into_iter().flatten().zip(mask.into_iter().flatten()).enumerate();
            spans.extend(pairs.flat_map(|(i, (image, mask))| [(0, i, image), (1, i, mask)]));
        } else {
            let both = [image, mask].into_iter().flatten().enumerate();
            spans.extend(both.flat_map(|(which, spans)| spans.enumerate().map(move |(i, span)| (which, i, span))));
        }
        spans.retain(|(_, _, span)| span.len > 0);
        if !self.plan.is_cog() && level == 0 {
            spans.sort_by_key(|(_, _, span)| span.offset);
        }
        for (which, i, span) in spans {
            let framed = Span { offset: span.offset - frame, len: span.len + 2 * frame };
            placed[which].offsets[i] = pieces.push(level > 0, framed) + frame;
        }
        placed
    }

    /// The tags of all directories with their block tables; offsets that are not known yet are 0.
    fn with_tables(&self, big: bool, placed: &[Placed]) -> Vec<Entries> {
        let mut directories = Vec::new();
        for (level, mask, tags) in &self.tags {
            let Some(blocks) = self.index.blocks(*level, *mask) else { continue };
            let found = placed.iter().find(|placed| (placed.level, placed.mask) == (*level, *mask));
            let offsets = found.map_or_else(|| vec![0; blocks.spans().len()], |placed| placed.offsets.clone());
            let lens = blocks.spans().map(|span| span.len as u32).collect();
            let grid: &BlockGrid = &self.plan.levels[*level].grid;
            let mut tags = tags.clone();
            tags.extend(tags::tables(grid, big, offsets, lens));
            directories.push(tags);
        }
        directories
    }
}

/// Pieces of the spools in the order of the file.
struct Pieces {
    list: Vec<Piece>,
    /// The offset of the next piece in the file.
    at: u64,
    /// The number of zeros before the next piece.
    gap: u64,
}

impl Pieces {
    fn new(at: u64) -> Pieces {
        Pieces { list: Vec::new(), at, gap: 0 }
    }

    /// Makes the next piece start at a multiple of `alignment`.
    fn align(&mut self, alignment: u64) {
        let aligned = self.at.next_multiple_of(alignment);
        (self.gap, self.at) = (aligned - self.at, aligned);
    }

    /// Adds a piece and returns its offset in the file.
    fn push(&mut self, overview: bool, span: Span) -> u64 {
        match self.list.last_mut() {
            Some(last)
                if last.overview == overview && self.gap == 0 && last.span.offset + last.span.len == span.offset =>
            {
                last.span.len += span.len;
            }
            _ => self.list.push(Piece { overview, span, gap: std::mem::take(&mut self.gap) }),
        }
        let at = self.at;
        self.at += span.len;
        at
    }
}
