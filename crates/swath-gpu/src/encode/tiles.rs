//! What comes of cutting.

use std::ops::Range;

use crate::error::Error;
use crate::memory::buffer::Pinned;

/// The tiles of a level that a band completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelTiles {
    /// The level.
    pub level: usize,
    /// The block rows, all tiles of each.
    pub rows: Range<u64>,
    /// Where the first tile begins.
    pub at: usize,
    /// Bytes from a tile to the next.
    pub stride: usize,
    /// Bytes of a tile.
    pub bytes: usize,
    pub(super) across: u64,
    pub(super) planes: u64,
    /// The number of the first tile among all of the band.
    pub(super) first: u64,
}

/// Tiles that are ready for the compressor, in host memory.
#[derive(Debug)]
pub struct Tiles {
    pub(super) memory: Pinned,
    /// What there is of each level.
    pub levels: Vec<LevelTiles>,
    pub(super) made: Made,
    /// Why they were not compressed or written, though they should have been.
    pub(super) failure: Option<Error>,
}

/// What was made of tiles.
#[derive(Debug)]
pub(super) enum Made {
    /// They lie in the memory as they were cut.
    Tiles,
    /// They lie in the memory compressed: where each is.
    Compressed(Vec<Range<usize>>),
    /// They stand in the file, compressed: where each is, and what wrote them.
    Written(Vec<Range<u64>>, &'static str),
}

impl Tiles {
    /// Whether the tiles are compressed: what is stored, and not what is to be compressed.
    pub fn are_compressed(&self) -> bool {
        matches!(self.made, Made::Compressed(_))
    }

    /// Where in the file each tile stands, if the device has written them: level by level, in the order of the blocks of a file.
    /// And by what.
    pub fn written(&self) -> Option<(&[Range<u64>], &'static str)> {
        match &self.made {
            Made::Written(places, by) => Some((places, by)),
            Made::Tiles | Made::Compressed(_) => None,
        }
    }

    /// Why they are not compressed or not written, though they should be: a library of NVIDIA's failed.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.levels.iter().map(|of| (of.rows.end - of.rows.start) * of.planes * of.across).sum()
    }

    /// A tile that there is.
    ///
    /// # Panics
    /// When it is not of this band.
    pub fn get(&self, level: usize, plane: u64, row: u64, col: u64) -> &[u8] {
        let of = self.levels.iter().find(|tiles| tiles.level == level && tiles.rows.contains(&row));
        let of = of.expect("the tile is of this band");
        let number = ((row - of.rows.start) * of.planes + plane) * of.across + col;
        if let Made::Compressed(places) = &self.made {
            return &self.memory[places[(of.first + number) as usize].clone()];
        }
        &self.memory[of.at + number as usize * of.stride..][..of.bytes]
    }

    /// Bytes of host memory that they take.
    pub fn host_bytes(&self) -> usize {
        self.memory.len()
    }

    /// The memory, for another band.
    pub fn into_memory(self) -> Pinned {
        self.memory
    }
}
