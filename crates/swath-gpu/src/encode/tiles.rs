//! The tiles that a push returns.

use std::ops::Range;

use super::outcome::EncodeFailure;
use crate::memory::buffer::Pinned;

/// The tiles of a level that a push completed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelTiles {
    /// The level.
    pub level: usize,
    /// The block rows. All their tiles are there.
    pub rows: Range<u64>,
    /// Where the first tile begins in the memory.
    pub(super) at: usize,
    /// Bytes from the beginning of a tile to that of the next.
    pub(super) stride: usize,
    /// Bytes of a tile.
    pub(super) bytes: usize,
    pub(super) across: u64,
    pub(super) planes: u64,
    /// The number of the first tile among all tiles of the push.
    pub(super) first: u64,
}

/// The tiles of all levels that a push completed.
#[derive(Debug)]
pub struct Tiles {
    pub(super) memory: Pinned,
    /// The levels that have tiles.
    pub levels: Vec<LevelTiles>,
    pub(super) data: TileData,
    /// What a library failed at.
    pub(super) failure: Option<EncodeFailure>,
}

/// Where the data of tiles are.
#[derive(Debug)]
pub(super) enum TileData {
    /// In host memory, cut and predicted, but not compressed.
    Uncompressed,
    /// In host memory, compressed: the place of each.
    Compressed(Vec<Range<usize>>),
    /// In the file, compressed: the place of each, and a description of what wrote them.
    Written(Vec<Range<u64>>, &'static str),
}

impl Tiles {
    /// Whether the host memory holds compressed tiles.
    pub fn are_compressed(&self) -> bool {
        matches!(self.data, TileData::Compressed(_))
    }

    /// The place of each tile in the file, if the device has written them, and what wrote them. The places are in the order of the
    /// levels, and within a level in that of the block table.
    pub fn written(&self) -> Option<(&[Range<u64>], &'static str)> {
        match &self.data {
            TileData::Written(places, by) => Some((places, by)),
            TileData::Uncompressed | TileData::Compressed(_) => None,
        }
    }

    /// What a library of NVIDIA's failed at, if it did.
    pub fn failure(&self) -> Option<&EncodeFailure> {
        self.failure.as_ref()
    }

    /// The number of tiles.
    pub fn count(&self) -> u64 {
        self.levels.iter().map(|of| (of.rows.end - of.rows.start) * of.planes * of.across).sum()
    }

    /// The data of a tile in host memory.
    ///
    /// # Panics
    /// If the push did not complete this tile.
    pub fn get(&self, level: usize, plane: u64, row: u64, col: u64) -> &[u8] {
        let of = self.levels.iter().find(|tiles| tiles.level == level && tiles.rows.contains(&row));
        let of = of.expect("the push completed the tile");
        let number = ((row - of.rows.start) * of.planes + plane) * of.across + col;
        if let TileData::Compressed(places) = &self.data {
            return &self.memory[places[(of.first + number) as usize].clone()];
        }
        &self.memory[of.at + number as usize * of.stride..][..of.bytes]
    }

    /// Bytes of host memory that they take.
    pub fn host_bytes(&self) -> usize {
        self.memory.len()
    }

    /// The host memory, for another push.
    pub fn into_memory(self) -> Pinned {
        self.memory
    }
}
