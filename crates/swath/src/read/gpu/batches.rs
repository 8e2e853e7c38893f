//! The size of batches: how many blocks the device decodes at once.

use std::collections::VecDeque;

use swath_gpu::DecodeJob;

use crate::read::plan::{BlockRect, ReadPlan};

/// The most blocks in one batch. More blocks do not keep a device busier, and their table needs memory.
const BATCH_BLOCKS: u64 = 1 << 16;

/// Divides a read into batches: as many whole block rows as fit in `lane_bytes` of device memory, or parts of
/// one block row.
pub(super) fn batches(plan: &ReadPlan<'_>, job: &DecodeJob, lane_bytes: u64) -> VecDeque<BlockRect> {
    let grid = &plan.level.blocks.grid;
    let BlockRect { rows, cols, bands } = plan.all_blocks();
    let bands = bands.len();
    let planes = if plan.is_planar() { bands as u64 } else { 1 };
    // A position needs memory for its decoded bytes, for its compressed bytes (seldom more than the decoded
    // ones), and for its pixels.
    let pixels = grid.block_width.saturating_mul(grid.block_height).saturating_mul(bands as u64);
    let cost = plan.level.block_bytes().saturating_mul(2 * planes);
    let cost = cost.saturating_add(pixels.saturating_mul(plan.level.dtype.size() as u64)).max(1);
    let across = cols.end - cols.start;
    let room = lane_bytes.saturating_sub(job.scratch_bytes(BATCH_BLOCKS, lane_bytes));
    let most_blocks = BATCH_BLOCKS.min(job.most_blocks() as u64);
    let most = (room / cost).min(most_blocks / planes.max(1)).max(1);
    let (down, wide) = if most >= across { (most / across, across) } else { (1, most) };
    // A batch may hold fewer blocks than a planar file has bands.
    let deep = if plan.is_planar() { bands.min(most_blocks as usize) } else { bands };
    let mut batches = VecDeque::new();
    for row in rows.clone().step_by(down as usize) {
        for col in cols.clone().step_by(wide as usize) {
            for band in (0..bands).step_by(deep.max(1)) {
                batches.push_back(BlockRect {
                    rows: row..(row + down).min(rows.end),
                    cols: col..(col + wide).min(cols.end),
                    bands: band..(band + deep).min(bands),
                });
            }
        }
    }
    batches
}
