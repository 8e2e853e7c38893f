//! The effect of one push on each level.

use std::ops::Range;

use super::EncodeJob;
use super::pool::TileRun;

/// The effect of one push on one level. The caller computes it from the schedule of the pyramid that the CPU
/// follows too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelStep {
    /// The rows of the level that become complete. They follow those of the previous push.
    pub rows: Range<u64>,
    /// The first row that this push or a later one still needs. Earlier rows are dropped.
    pub keep_from: u64,
    /// The block rows that become complete. They follow those of the previous push.
    pub block_rows: Range<u64>,
}

/// The rows of a level that the device keeps between two pushes.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    /// The image rows that are kept.
    pub(super) held: Range<u64>,
    /// The first block row that has not been encoded.
    pub(super) block_row: u64,
}

/// A [`LevelStep`] with the positions of its rows and tiles.
pub(super) struct PlacedStep {
    /// The rows that the device already has and keeps.
    pub(super) kept: Range<u64>,
    /// The rows that become complete.
    pub(super) new: Range<u64>,
    /// The block rows that become complete.
    pub(super) blocks: Range<u64>,
    /// The offset of their tiles in the buffer of tiles.
    pub(super) tiles_at: u64,
    /// The number of tiles of other levels before them.
    pub(super) first: u64,
    /// The number of tiles.
    pub(super) count: u64,
}

/// The steps of all levels, and the number of bytes of all their tiles.
pub(super) struct PlacedSteps {
    pub(super) levels: Vec<PlacedStep>,
    pub(super) tiles_bytes: u64,
}

impl PlacedSteps {
    /// Assigns consecutive positions to the tiles of all levels.
    ///
    /// # Panics
    /// Panics if the steps do not continue the previous push, or use rows that the device does not have: the
    /// kernels do not check these numbers.
    pub(super) fn new(job: &EncodeJob, progress: &[Progress], steps: &[LevelStep]) -> PlacedSteps {
        assert_eq!(steps.len(), job.levels.len(), "there is a step for each level");
        let (mut tiles_bytes, mut tiles) = (0, 0);
        let mut levels: Vec<PlacedStep> = Vec::with_capacity(steps.len());
        for (level, (step, done)) in steps.iter().zip(progress).enumerate() {
            check(job, level, steps, done);
            let of = &job.levels[level];
            let count = (step.block_rows.end - step.block_rows.start) * of.planes * of.across();
            levels.push(PlacedStep {
                kept: step.keep_from.clamp(done.held.start, done.held.end)..done.held.end,
                new: step.rows.clone(),
                blocks: step.block_rows.clone(),
                tiles_at: tiles_bytes,
                first: tiles,
                count,
            });
            tiles_bytes += count * job.tile_stride(level);
            tiles += count;
        }
        PlacedSteps { levels, tiles_bytes }
    }

    /// Returns runs of tiles of the same size, in the order of all tiles. The last strip of a level may be
    /// shorter than the others.
    pub(super) fn tile_runs(&self, job: &EncodeJob) -> Vec<TileRun> {
        let mut runs = Vec::new();
        for (level, step) in self.levels.iter().enumerate().filter(|(_, step)| step.count > 0) {
            let of = job.levels[level];
            let per_row = of.planes * of.across();
            let last = step.blocks.end - 1;
            let whole = if of.stored_rows(last) == of.block_height { step.blocks.end } else { last };
            for rows in [step.blocks.start..whole, whole..step.blocks.end] {
                let (tiles, before) = ((rows.end - rows.start) * per_row, (rows.start - step.blocks.start) * per_row);
                if tiles > 0 {
                    runs.push(TileRun {
                        level,
                        first: step.first + before,
                        tiles,
                        at: step.tiles_at + before * job.tile_stride(level),
                        stride: job.tile_stride(level),
                        row_bytes: job.tile_row_bytes(level),
                        bytes: of.stored_rows(rows.start) * job.tile_row_bytes(level),
                    });
                }
            }
        }
        runs
    }
}

/// Checks the step of a level against the previous pushes.
fn check(job: &EncodeJob, level: usize, steps: &[LevelStep], done: &Progress) {
    let (of, step) = (&job.levels[level], &steps[level]);
    let in_order = step.rows.start == done.held.end && step.block_rows.start == done.block_row;
    let forward = step.rows.start <= step.rows.end && step.block_rows.start <= step.block_rows.end;
    assert!(in_order && forward, "level {level}: the step follows the one before it");
    let last_row = (step.block_rows.end * of.block_height).min(of.height);
    let complete = step.rows.end <= of.height && (step.block_rows.is_empty() || last_row <= step.rows.end);
    assert!(complete, "level {level}: the block rows are complete");
    let needed = step.keep_from >= done.held.start && step.keep_from <= done.block_row * of.block_height;
    assert!(needed, "level {level}: rows of unfinished blocks are kept");
    if let Some(downsample) = of.downsample.filter(|_| !step.rows.is_empty()) {
        let (parent, source) = (&job.levels[downsample.parent], &steps[downsample.parent]);
        let end = downsample.source_end(step.rows.end).min(parent.height);
        let held = source.keep_from <= step.rows.start * 2 && end <= source.rows.end;
        assert!(held, "level {level}: the rows that it is made from are held");
    }
}
