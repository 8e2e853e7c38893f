//! What comes of cutting.

use std::ops::Range;

use crate::buffer::Pinned;

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
    /// Where each tile lies, if they were compressed.
    pub(super) compressed: Option<Vec<Range<usize>>>,
}

impl Tiles {
    /// Whether the tiles are compressed: what is stored, and not what is to be compressed.
    pub fn are_compressed(&self) -> bool {
        self.compressed.is_some()
    }

    /// A tile that there is.
    ///
    /// # Panics
    /// When it is not of this band.
    pub fn get(&self, level: usize, plane: u64, row: u64, col: u64) -> &[u8] {
        let of = self.levels.iter().find(|tiles| tiles.level == level && tiles.rows.contains(&row));
        let of = of.expect("the tile is of this band");
        let number = ((row - of.rows.start) * of.planes + plane) * of.across + col;
        if let Some(places) = &self.compressed {
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
