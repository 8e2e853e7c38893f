//! The work of a device that encodes: the levels, the samples, the predictor and the codec.

use super::TileCodec;
use crate::decode::MAX_GROUPS;

/// The alignment of tiles: that of the largest sample.
pub(super) const TILE_ALIGN: u64 = 16;

/// The size in bytes of each sample type, in the numbering of `kernels/reduce.c`.
const SAMPLE_SIZES: [usize; 12] = [1, 1, 2, 2, 4, 4, 8, 8, 2, 4, 8, 16];

/// The parameters that compute a level from another one: the numbers of `kernels/reduce.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Downsample {
    /// The level from which it is computed. It comes before this one.
    pub parent: usize,
    /// The type of the samples, in the numbering of the kernel.
    pub dtype: u32,
    /// The method, in the numbering of the kernel.
    pub method: u32,
    /// The band that marks valid pixels; [`u32::MAX`] for none.
    pub alpha: u32,
    /// The bits of the smallest nodata sample.
    pub low: u64,
    /// The bits of the largest nodata sample.
    pub high: u64,
    /// The bits of a sample to which no valid pixel contributes.
    pub fill: u64,
    /// The bits that replace a computed sample that accidentally equals nodata.
    pub beside: u64,
    /// 1 if any number is nodata, otherwise 0.
    pub any: u32,
}

impl Downsample {
    /// The number of the method nearest in `kernels/reduce.c`, which takes the first pixel of each block.
    const NEAREST: u32 = 0;

    /// Returns the end of the parent's rows from which the rows before `end` are computed, if the parent has
    /// that many rows.
    pub(super) fn source_end(&self, end: u64) -> u64 {
        if self.method == Downsample::NEAREST { (end * 2).saturating_sub(1) } else { end * 2 }
    }
}

/// One level of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodeLevel {
    /// Width in pixels.
    pub width: u64,
    /// Height in pixels.
    pub height: u64,
    /// Width of a block.
    pub block_width: u64,
    /// Height of a block.
    pub block_height: u64,
    /// Whether all blocks are stored whole, as tiles are. The last strip has only its remaining rows.
    pub tiled: bool,
    /// The number of bands if each band has its own blocks, otherwise 1.
    pub planes: u64,
    /// The method that computes the level; `None` for the full resolution.
    pub downsample: Option<Downsample>,
}

impl EncodeLevel {
    pub(super) fn across(&self) -> u64 {
        self.width.div_ceil(self.block_width)
    }

    /// Returns the number of rows that the blocks of a block row store.
    pub(super) fn stored_rows(&self, block_row: u64) -> u64 {
        if self.tiled { self.block_height } else { self.block_height.min(self.height - block_row * self.block_height) }
    }
}

/// The work of a device that encodes.
#[derive(Debug, Clone)]
pub struct EncodeJob {
    /// The levels, the full resolution first.
    pub levels: Vec<EncodeLevel>,
    /// The number of bands of a pixel.
    pub bands: usize,
    /// The number of bytes of a sample.
    pub size: usize,
    /// The value of the Predictor tag.
    pub predictor: u32,
    /// The bits that replace NaN, if NaN is replaced.
    pub nan_to_nodata: Option<u64>,
    /// The codec with which the device compresses tiles.
    pub compress: TileCodec,
}

impl EncodeJob {
    pub(super) fn row_bytes(&self, level: usize) -> u64 {
        self.levels[level].width * (self.bands * self.size) as u64
    }

    /// The number of bytes of a tile of a level.
    pub fn tile_bytes(&self, level: usize) -> u64 {
        let level = &self.levels[level];
        let bands = if level.planes > 1 { 1 } else { self.bands as u64 };
        level.block_width * level.block_height * bands * self.size as u64
    }

    /// The number of bytes of the largest tile of all levels.
    pub(super) fn largest_tile(&self) -> u64 {
        (0..self.levels.len()).map(|level| self.tile_bytes(level)).max().unwrap_or(0)
    }

    pub(super) fn tile_stride(&self, level: usize) -> u64 {
        self.tile_bytes(level).next_multiple_of(TILE_ALIGN)
    }

    pub(super) fn tile_row_bytes(&self, level: usize) -> u64 {
        self.tile_bytes(level) / self.levels[level].block_height
    }

    /// Whether the kernels can compute with these numbers, which the kernels do not check.
    pub(super) fn is_sound(&self) -> bool {
        let fits = |(number, level): (usize, &EncodeLevel)| {
            let sizes = [level.width, level.height, level.block_width, level.block_height, level.planes];
            let narrow = sizes.iter().all(|&size| size > 0 && u32::try_from(size).is_ok());
            // All blocks together have at most four times these pixels, and the sums still fit after alignment.
            let (width, height) = (level.width.max(level.block_width), level.height.max(level.block_height));
            let sizes = [width, height, self.bands as u64, self.size as u64];
            let bytes = sizes.iter().try_fold(1_u64, |product, &size| product.checked_mul(size));
            let tile_row = level.block_width.checked_mul((self.bands * self.size) as u64);
            narrow
                && tile_row.is_some_and(|bytes| bytes <= MAX_GROUPS)
                && bytes.is_some_and(|bytes| bytes > 0 && bytes < 1 << 58)
                && (level.planes == 1 || level.planes == self.bands as u64)
                && (number > 0) == level.downsample.is_some()
                && level.downsample.is_none_or(|downsample| {
                    self.levels[..number].get(downsample.parent).is_some_and(|parent| {
                        (level.width, level.height) == (parent.width.div_ceil(2), parent.height.div_ceil(2))
                    }) && SAMPLE_SIZES.get(downsample.dtype as usize) == Some(&self.size)
                })
        };
        let sound = match self.predictor {
            1 => matches!(self.size, 1 | 2 | 4 | 8 | 16),
            2 => matches!(self.size, 1 | 2 | 4 | 8),
            3 => matches!(self.size, 2 | 4 | 8),
            _ => false,
        } && (self.nan_to_nodata.is_none() || matches!(self.size, 2 | 4 | 8));
        sound && !self.levels.is_empty() && self.levels.iter().enumerate().all(fits)
    }
}
