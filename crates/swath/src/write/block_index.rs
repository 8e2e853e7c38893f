//! The position of each block in the spools.

use swath_io::Span;
use swath_tiff::BlockGrid;

use crate::error::{BlockName, Error, Result};
use crate::write::plan::WritePlan;

/// The positions of the blocks of all levels and masks. Each takes 12 bytes, and about four times that while
/// the file is laid out. Nothing else in memory grows with the height of the image.
#[derive(Debug)]
pub(crate) struct BlockIndex {
    images: Vec<LevelBlocks>,
    masks: Vec<LevelBlocks>,
}

/// The blocks of one level, or of its mask.
#[derive(Debug)]
pub(crate) struct LevelBlocks {
    grid: BlockGrid,
    offsets: Vec<u64>,
    lens: Vec<u32>,
    missing: u64,
}

/// The length that marks a block which was not added yet.
const MISSING: u32 = u32::MAX;

impl BlockIndex {
    pub(crate) fn new(plan: &WritePlan) -> BlockIndex {
        let masks = if plan.has_mask() { &plan.levels[..] } else { &[] };
        BlockIndex {
            images: plan.levels.iter().map(|level| LevelBlocks::new(level.grid)).collect(),
            masks: masks.iter().map(|level| LevelBlocks::new(level.mask_grid())).collect(),
        }
    }

    /// Returns the blocks of a level, or of its mask. A plan without mask has no blocks of a mask.
    pub(crate) fn blocks(&self, level: usize, mask: bool) -> Option<&LevelBlocks> {
        if mask { self.masks.get(level) } else { self.images.get(level) }
    }

    /// Records the position of a block.
    pub(crate) fn place(&mut self, level: usize, mask: bool, index: u64, span: Span) -> Result<()> {
        let blocks = if mask { &mut self.masks[level] } else { &mut self.images[level] };
        let at = index as usize;
        if blocks.lens[at] != MISSING {
            return Err(Error::BlockTwice { block: blocks.name(level, mask, index) });
        }
        (blocks.offsets[at], blocks.lens[at]) = (span.offset, span.len as u32);
        blocks.missing -= 1;
        Ok(())
    }

    /// Checks that every block of every level was added.
    pub(crate) fn check_complete(&self) -> Result<()> {
        for (mask, levels) in [(false, &self.images), (true, &self.masks)] {
            if let Some((level, blocks)) = levels.iter().enumerate().find(|(_, blocks)| blocks.missing > 0) {
                let first = blocks.lens.iter().position(|&len| len == MISSING).unwrap_or(0) as u64;
                return Err(Error::BlockMissing { block: blocks.name(level, mask, first), more: blocks.missing - 1 });
            }
        }
        Ok(())
    }
}

impl LevelBlocks {
    fn new(grid: BlockGrid) -> LevelBlocks {
        // The plan has checked that the number of blocks does not overflow.
        let count = grid.count().unwrap_or(0);
        LevelBlocks { grid, offsets: vec![0; count as usize], lens: vec![MISSING; count as usize], missing: count }
    }

    /// The positions of the blocks in the spool, in the order of the block table. A block that is not stored
    /// has an empty span.
    pub(crate) fn spans(&self) -> impl ExactSizeIterator<Item = Span> {
        self.offsets.iter().zip(&self.lens).map(|(&offset, &len)| Span { offset, len: u64::from(len) })
    }

    fn name(&self, level: usize, mask: bool, index: u64) -> BlockName {
        let (plane, row, col) = self.grid.position(index);
        let band = (self.grid.planes > 1).then_some(plane);
        BlockName { tiled: self.grid.tiled, row, col, band, level, mask }
    }
}
