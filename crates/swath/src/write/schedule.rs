//! The pyramid schedule: which rows of which level become complete when rows of the full resolution arrive.
//!
//! The schedule is a pure function of the plan. It has no state, so it does not matter in which strips the
//! rows arrive, nor in which process. The CPU and the GPU both follow it: the GPU takes a step through all
//! levels at once, the CPU one level after another.

use std::ops::Range;

use crate::write::plan::PlannedLevel;
use crate::write::reduce::Reduction;

/// What becomes complete at one level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LevelStep {
    /// The rows of the level.
    pub(crate) rows: Range<u64>,
    /// The first row of the level that this step or a later one still needs, for an unfinished block row or
    /// for rows of a coarser level. It is never after the first of `rows`.
    pub(crate) keep_from: u64,
    /// The block rows that become complete.
    pub(crate) block_rows: Range<u64>,
}

/// The levels of a plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule<'a> {
    levels: &'a [PlannedLevel],
}

impl<'a> Schedule<'a> {
    /// Creates the schedule of these levels. Each level comes after the level from which it is computed.
    pub(crate) fn new(levels: &'a [PlannedLevel]) -> Schedule<'a> {
        Schedule { levels }
    }

    /// Returns what becomes complete at each level when rows `arrived` of the full resolution arrive and all
    /// rows before them are there.
    pub(crate) fn step(&self, arrived: Range<u64>) -> Vec<LevelStep> {
        let (before, after) = (self.complete_rows(arrived.start), self.complete_rows(arrived.end));
        let steps = before.iter().zip(&after).enumerate().map(|(level, (&start, &end))| LevelStep {
            rows: start..end,
            keep_from: self.needed_from(level, &before),
            block_rows: self.complete_block_rows(level, start)..self.complete_block_rows(level, end),
        });
        steps.collect()
    }

    /// Returns the number of complete rows of each level when the full resolution is complete up to row
    /// `available`.
    fn complete_rows(&self, available: u64) -> Vec<u64> {
        let mut complete: Vec<u64> = Vec::with_capacity(self.levels.len());
        for level in self.levels {
            complete.push(match &level.reduction {
                None => available.min(level.grid.height),
                Some(reduction) => {
                    let parent = &self.levels[level.parent].grid;
                    makeable(reduction, complete[level.parent], parent.height, level.grid.height)
                }
            });
        }
        complete
    }

    /// Returns the number of complete block rows of a level when its rows before `end` are complete.
    fn complete_block_rows(&self, level: usize, end: u64) -> u64 {
        let grid = &self.levels[level].grid;
        if end == grid.height { grid.down() } else { end / grid.block_height }
    }

    /// Returns the first row of a level that is still needed, given the number of complete rows of each
    /// level.
    fn needed_from(&self, level: usize, complete: &[u64]) -> u64 {
        let grid = &self.levels[level].grid;
        let block = (self.complete_block_rows(level, complete[level]) * grid.block_height).min(grid.height);
        let children = self.children(level).filter(|(child, _)| complete[*child] < self.levels[*child].grid.height);
        let first = children.map(|(child, reduction)| {
            let next = complete[child];
            reduction.source_rows(next..next + 1, grid.height).start
        });
        first.fold(block, u64::min)
    }

    /// Returns the most rows of a level that must be kept from one step to the next.
    pub(crate) fn most_kept(&self, level: usize) -> u64 {
        let grid = &self.levels[level].grid;
        // Far from the edges, where the reach of a method is not clipped.
        let middle = 1 << 32;
        let reaches = self.children(level).map(|(_, reduction)| {
            let rows = reduction.source_rows(middle..middle + 2, 1 << 60);
            rows.end - rows.start
        });
        reaches.fold(grid.block_height, u64::max).min(grid.height)
    }

    /// Returns the number of reductions between the full resolution and each level.
    pub(crate) fn depths(&self) -> Vec<usize> {
        let mut depths: Vec<usize> = Vec::with_capacity(self.levels.len());
        for level in self.levels {
            depths.push(level.reduction.map_or(0, |_| depths[level.parent] + 1));
        }
        depths
    }

    /// Returns the levels that are computed from a level.
    fn children(&self, level: usize) -> impl Iterator<Item = (usize, &'a Reduction)> {
        self.levels.iter().enumerate().filter_map(move |(child, planned)| {
            planned.reduction.as_ref().filter(|_| planned.parent == level).map(|reduction| (child, reduction))
        })
    }
}

/// Returns how many of the `rows` rows of a level can be computed from the rows before `available` of its
/// parent, which has `height` rows.
fn makeable(reduction: &Reduction, available: u64, height: u64, rows: u64) -> u64 {
    if available == height {
        return rows;
    }
    // Each row needs source rows at least as far down as the row before it, so counting down finds the last
    // row that can be computed.
    let can = |row: u64| reduction.source_rows(row..row + 1, height).end <= available;
    let mut end = (available / reduction.factor as u64 + 1).min(rows);
    while end > 0 && !can(end - 1) {
        end -= 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use swath_codec::DType;
    use swath_tiff::BlockGrid;

    use super::*;
    use crate::write::reduce::Resampling;
    use crate::write::reduce::tests::METHODS;

    /// Levels of an image of `height` rows, by factors of the full resolution, each made from the smallest level that allows it.
    fn levels(height: u64, block_height: u64, tiled: bool, factors: &[u64], method: Resampling) -> Vec<PlannedLevel> {
        let grid = |height: u64| {
            let block_height = if tiled { block_height } else { block_height.min(height) };
            BlockGrid { width: 64, height, block_width: 64, block_height, planes: 1, tiled }
        };
        let mut levels = vec![PlannedLevel { grid: grid(height), parent: 0, reduction: None }];
        let mut made = vec![1];
        for &factor in factors {
            let parent = (0..made.len()).rev().find(|&level| factor % made[level] == 0).unwrap();
            let reduction =
                Reduction { method, factor: (factor / made[parent]) as usize, dtype: DType::F32, nodata: None };
            levels.push(PlannedLevel { grid: grid(height.div_ceil(factor)), parent, reduction: Some(reduction) });
            made.push(factor);
        }
        levels
    }

    /// Follows the schedule for strips of these heights, and checks every guarantee.
    fn follow(levels: &[PlannedLevel], strips: impl Iterator<Item = u64>, name: &str) {
        let schedule = Schedule::new(levels);
        let height = levels[0].grid.height;
        let mut done: Vec<(u64, u64)> = vec![(0, 0); levels.len()];
        let mut kept: Vec<u64> = vec![0; levels.len()];
        let mut arrived = 0;
        for strip in strips {
            let end = (arrived + strip).min(height);
            let steps = schedule.step(arrived..end);
            arrived = end;
            for (level, step) in steps.iter().enumerate() {
                let (planned, (rows, blocks)) = (&levels[level], done[level]);
                assert_eq!((step.rows.start, step.block_rows.start), (rows, blocks), "{name}: level {level} in order");
                assert!(step.rows.end >= rows && step.block_rows.end >= blocks, "{name}: level {level} goes on");
                assert!(kept[level] <= step.keep_from, "{name}: level {level} needs a row that it dropped");
                assert!(rows - step.keep_from.min(rows) <= schedule.most_kept(level), "{name}: level {level} keeps");
                assert!(step.keep_from <= step.rows.start, "{name}: level {level} keeps what is there");
                let first = blocks * planned.grid.block_height;
                assert!(step.keep_from <= first.min(planned.grid.height), "{name}: level {level} keeps its blocks");
                let last = (step.block_rows.end * planned.grid.block_height).min(planned.grid.height);
                assert!(step.block_rows.is_empty() || last <= step.rows.end, "{name}: level {level} has its blocks");
                if let Some(reduction) = planned.reduction.filter(|_| !step.rows.is_empty()) {
                    let source = reduction.source_rows(step.rows.clone(), levels[planned.parent].grid.height);
                    let parent = &steps[planned.parent];
                    assert!(parent.keep_from <= source.start, "{name}: level {level} has its first source row");
                    assert!(source.end <= parent.rows.end, "{name}: level {level} has its last source row");
                }
                kept[level] = step.keep_from;
                done[level] = (step.rows.end, step.block_rows.end);
            }
            if arrived == height {
                break;
            }
        }
        for (level, (planned, done)) in levels.iter().zip(done).enumerate() {
            let all = (planned.grid.height, planned.grid.down());
            assert_eq!(done, all, "{name}: every row and block row of level {level} came once");
        }
    }

    #[test]
    fn every_row_of_every_level_comes_exactly_once() {
        for method in METHODS {
            for height in [1, 2, 3, 16, 17, 31, 33, 64, 97, 255, 257, 1021] {
                for factors in [&[2, 4, 8, 16][..], &[2, 3, 4, 12], &[5], &[3, 9, 27], &[]] {
                    for tiled in [true, false] {
                        for strip in [1, 2, 3, 7, 16, 40, 2000] {
                            let levels = levels(height, 16, tiled, factors, method);
                            let name = format!("{method:?} {height} {factors:?} {tiled} {strip}");
                            follow(&levels, std::iter::repeat(strip), &name);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn irregular_strips_complete_the_same_rows() {
        let mut state = 7_u64;
        let mut random = move |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most + 1
        };
        for case in 0..400 {
            let method = METHODS[random(9) as usize - 1];
            let (height, block) = (random(700), random(80));
            let steps = (0..random(4)).map(|_| random(4) + 1);
            let factors: Vec<u64> = steps.scan(1, |factor, step| Some((*factor * step, *factor *= step).0)).collect();
            let levels = levels(height, block, case % 2 == 0, &factors, method);
            let strips: Vec<u64> = (0..height).map(|_| random(90)).collect();
            follow(&levels, strips.into_iter(), &format!("case {case}: {method:?} {height} {block} {factors:?}"));
        }
    }

    #[test]
    fn steps_do_not_depend_on_how_rows_arrived_before() {
        let levels = levels(301, 32, true, &[2, 4, 8], Resampling::Cubic);
        let schedule = Schedule::new(&levels);
        for (split, level) in (1..301).flat_map(|split| (0..levels.len()).map(move |level| (split, level))) {
            let (first, second) = (&schedule.step(0..split)[level], &schedule.step(split..301)[level]);
            let whole = &schedule.step(0..301)[level];
            assert_eq!((first.rows.start, second.rows.end), (whole.rows.start, whole.rows.end));
            assert_eq!((first.rows.end, first.block_rows.end), (second.rows.start, second.block_rows.start));
        }
    }

    #[test]
    fn nearest_needs_only_the_first_row_of_a_block_and_cubic_the_rows_around_it() {
        let rows = |method| {
            let levels = levels(100, 16, true, &[2], method);
            (0..8).map(|end| Schedule::new(&levels).step(0..end)[1].rows.end).collect::<Vec<_>>()
        };
        assert_eq!(rows(Resampling::Nearest), [0, 1, 1, 2, 2, 3, 3, 4]);
        assert_eq!(rows(Resampling::Mean), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert!(rows(Resampling::Cubic).iter().zip(rows(Resampling::Mean)).all(|(cubic, mean)| *cubic <= mean));
    }
}
