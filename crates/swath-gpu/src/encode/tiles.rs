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
    /// The block rows. All their tiles are present.
    pub rows: Range<u64>,
    /// The offset of the first tile in the memory.
    pub(super) at: usize,
    /// The distance in bytes from the start of a tile to the start of the next.
    pub(super) stride: usize,
    /// The number of bytes of a tile.
    pub(super) bytes: usize,
    pub(super) across: u64,
    pub(super) planes: u64,
    /// The index of the first tile among all tiles of the push.
    pub(super) first: u64,
}

/// The tiles of all levels that a push completed.
#[derive(Debug)]
pub struct Tiles {
    pub(super) memory: Pinned,
    /// The levels that have tiles.
    pub levels: Vec<LevelTiles>,
    pub(super) data: TileData,
    /// The operation that a library failed to do.
    pub(super) failure: Option<EncodeFailure>,
}

/// The location of the data of tiles.
#[derive(Debug)]
pub(super) enum TileData {
    /// In host memory, cut and with the predictor applied, but not compressed.
    Uncompressed,
    /// In host memory, compressed: the range of each tile.
    Compressed(Vec<Range<usize>>),
    /// In the file, compressed: the range of each tile, and a description of the path to the file.
    Written(Vec<Range<u64>>, &'static str),
}

impl Tiles {
    /// Whether the host memory contains compressed tiles.
    pub fn are_compressed(&self) -> bool {
        matches!(self.data, TileData::Compressed(_))
    }

    /// Returns the range of each tile in the file and a description of the path to the file, if the device has
    /// written them. The ranges are in the order of the levels, and within a level in the order of the block
    /// table.
    pub fn written(&self) -> Option<(&[Range<u64>], &'static str)> {
        match &self.data {
            TileData::Written(places, by) => Some((places, by)),
            TileData::Uncompressed | TileData::Compressed(_) => None,
        }
    }

    /// Returns the operation that a library of NVIDIA failed to do, if any.
    pub fn failure(&self) -> Option<&EncodeFailure> {
        self.failure.as_ref()
    }

    /// The number of tiles.
    pub fn count(&self) -> u64 {
        self.levels.iter().map(|of| (of.rows.end - of.rows.start) * of.planes * of.across).sum()
    }

    /// Returns the data of a tile in host memory.
    ///
    /// # Panics
    /// Panics if the push did not complete this tile.
    pub fn get(&self, level: usize, plane: u64, row: u64, col: u64) -> &[u8] {
        let of = self.levels.iter().find(|tiles| tiles.level == level && tiles.rows.contains(&row));
        let of = of.expect("the push completed the tile");
        let number = ((row - of.rows.start) * of.planes + plane) * of.across + col;
        if let TileData::Compressed(places) = &self.data {
            return &self.memory[places[(of.first + number) as usize].clone()];
        }
        &self.memory[of.at + number as usize * of.stride..][..of.bytes]
    }

    /// The number of bytes of host memory of the tiles.
    pub fn host_bytes(&self) -> usize {
        self.memory.len()
    }

    /// Returns the host memory, for another push.
    pub fn into_memory(self) -> Pinned {
        self.memory
    }
}
