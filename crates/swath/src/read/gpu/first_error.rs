//! Several corrupt blocks: the read reports the first in file order, as the CPU executor does.
//!
//! Batches end in another order than the blocks have in the file: a planar file is read in rectangles of all
//! bands, and a batch may be decoded again after the next one. So the read goes on after an error, with the
//! blocks that come before the corrupt one.

use super::Reading;
use crate::error::{BlockName, Error, Result};
use crate::read::plan::{BlockCoord, BlockRect};

impl Reading<'_> {
    /// Keeps the error of a block of `rect` if it is the first in file order.
    ///
    /// # Errors
    /// Any error that is not about a block of `rect`.
    pub(super) fn note_error(&mut self, rect: &BlockRect, error: Error) -> Result<()> {
        let Some(name) = corrupt_block(&error) else { return Err(error) };
        let is_named = |coord: &BlockCoord| coord.name(self.plan.level) == name;
        let Some(coord) = self.plan.blocks(rect).map(|block| block.coord).find(is_named) else { return Err(error) };
        if !self.is_after_error(coord) {
            self.first_error = Some((coord, error));
        }
        Ok(())
    }

    /// Whether this block or one before it has failed, so that this one is not needed.
    pub(super) fn is_after_error(&self, coord: BlockCoord) -> bool {
        self.first_error.as_ref().is_some_and(|(first, _)| *first <= coord)
    }

    /// Returns the part of a rectangle that is still needed: without the bands at its end whose blocks all come
    /// after the first error.
    pub(super) fn before_error(&self, rect: BlockRect) -> Option<BlockRect> {
        if self.first_error.is_none() {
            return Some(rect);
        }
        let (row, col) = (rect.rows.start, rect.cols.start);
        if !self.plan.is_planar() {
            return Some(rect).filter(|_| !self.is_after_error(BlockCoord { plane: 0, row, col }));
        }
        let is_needed = |band: &usize| {
            let plane = self.plan.bands()[*band] as u64;
            !self.is_after_error(BlockCoord { plane, row, col })
        };
        let last = rect.bands.clone().rfind(is_needed)?;
        Some(BlockRect { bands: rect.bands.start..last + 1, ..rect })
    }
}

/// The block that an error is about, if other blocks can be read in spite of it.
pub(super) fn corrupt_block(error: &Error) -> Option<BlockName> {
    match error {
        Error::Block { block, .. } | Error::Fetch { block, .. } | Error::BlockPastEnd { block, .. } => Some(*block),
        _ => None,
    }
}
