//! Encodes a file on the CPU.
//!
//! Every level has two buffers: one is filled while the rows of the other are encoded and reduced. The source
//! fills the buffer of the full resolution, and the parent level of an overview fills the buffer of the
//! overview. So each level is one tick behind its parent, and the jobs of a tick do not depend on each other:
//! encode all block rows that are complete, at every level, and compute the rows of every overview that can
//! be computed.
//!
//! An array in memory needs no buffers for the full resolution: its rows are encoded where they are.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use super::WriteState;
use super::workers::{Job, job_ranges, rows_of_a_job};
use crate::error::{Error, Result};
use crate::nodata::to_nan::nan_to_nodata;
use crate::write::plan::WritePlan;
use crate::write::rows::{Rows, RowsView};
use crate::write::schedule::{LevelStep, Schedule};
use crate::write::source::RowSource;

/// Passes all strips of the source through the CPU.
pub(super) fn run(
    state: &mut WriteState<'_>,
    source: &mut dyn RowSource,
    strips: &[Range<u64>],
    needs_pixels: bool,
) -> Result<()> {
    let plan = state.plan;
    if needs_pixels && let Some(image) = in_place(plan, source) {
        return run_strips(state, strips, FullResolution::InPlace(image));
    }
    std::thread::scope(|scope| {
        let (empty_to, empty) = channel::<(Rows, Range<u64>)>();
        let (full_to, full) = channel::<Result<Rows>>();
        std::thread::Builder::new()
            .name("swath-source".into())
            .spawn_scoped(scope, move || produce(plan, source, needs_pixels, &empty, &full_to))
            .map_err(|cause| Error::Thread { cause })?;
        let room = Schedule::new(&plan.levels).most_kept(0);
        let mut supply = Supply { strips: strips.iter(), room, empty: empty_to, full };
        supply.ask(new_rows(plan, 0))?;
        run_strips(state, strips, FullResolution::Copied(supply))
    })
}

/// Returns the rows of a source that is in memory in the form in which the file stores them.
fn in_place<'a>(plan: &WritePlan, source: &'a dyn RowSource) -> Option<RowsView<'a>> {
    let image = source.in_memory().filter(|_| !plan.changes_pixels())?;
    let (mask, mask_bytes) =
        if plan.has_mask() { (Some(image.mask?), plan.levels[0].grid.width as usize) } else { (None, 0) };
    Some(RowsView { samples: image.pixels, mask, first: 0, row_bytes: plan.row_bytes(0), mask_bytes })
}

/// Encodes all strips, one tick for each, and then the rows that the overviews are behind.
fn run_strips(state: &mut WriteState<'_>, strips: &[Range<u64>], mut full: FullResolution<'_>) -> Result<()> {
    let plan = state.plan;
    let mut pyramid = Pyramid::new(plan);
    let last = strips.len() + pyramid.depths.iter().max().copied().unwrap_or(0);
    for tick in 0..last {
        let waiting = Instant::now();
        pyramid.start_tick(strips.get(tick).cloned(), &mut full)?;
        state.streamed.report.source_wait += waiting.elapsed();
        pyramid.do_tick(state, &full)?;
        state.note_progress(strips.get(tick).map_or(plan.height(), |strip| strip.end));
    }
    Ok(())
}

/// Returns an empty buffer for rows of a level.
fn new_rows(plan: &WritePlan, level: usize) -> Rows {
    let mask = if plan.has_mask() { plan.levels[level].grid.width as usize } else { 0 };
    Rows::new(plan.row_bytes(level), mask)
}

/// The thread of the source: fills each buffer that it receives.
fn produce(
    plan: &WritePlan,
    source: &mut dyn RowSource,
    needs_pixels: bool,
    empty: &Receiver<(Rows, Range<u64>)>,
    full: &Sender<Result<Rows>>,
) {
    for (mut rows, range) in empty {
        let (samples, mask) = rows.fill();
        let made = if needs_pixels { source.read(range, samples, mask) } else { Ok(()) };
        if plan.changes_pixels()
            && let Some(nodata) = plan.nodata
        {
            nan_to_nodata(plan.dtype, nodata, samples);
        }
        if full.send(made.map(|()| rows)).is_err() {
            return;
        }
    }
}

/// The rows of the full resolution.
enum FullResolution<'a> {
    /// All rows, in the memory of the caller.
    InPlace(RowsView<'a>),
    /// Strips that the thread of the source fills.
    Copied(Supply<'a>),
}

/// Strips of rows from the thread of the source.
struct Supply<'a> {
    /// Strips that were not requested yet.
    strips: std::slice::Iter<'a, Range<u64>>,
    /// The number of rows of space before a strip.
    room: u64,
    empty: Sender<(Rows, Range<u64>)>,
    full: Receiver<Result<Rows>>,
}

impl Supply<'_> {
    /// Requests the next strip from the source into a buffer, if there is one.
    fn ask(&mut self, mut rows: Rows) -> Result<()> {
        let Some(strip) = self.strips.next() else { return Ok(()) };
        rows.prepare(strip.clone(), self.room)?;
        // If the source's end of the channel is closed, its thread panicked, and joining the thread
        // propagates the panic.
        self.empty.send((rows, strip.clone())).map_err(|_| Error::Cancelled)
    }

    fn next(&self) -> Result<Rows> {
        self.full.recv().map_err(|_| Error::Cancelled)?
    }
}

/// The rows of all levels.
struct Pyramid<'a> {
    plan: &'a WritePlan,
    schedule: Schedule<'a>,
    /// The number of ticks by which each level is behind the full resolution.
    depths: Vec<usize>,
    /// The steps of the schedule that some level has not taken yet, the latest first: level `l` is at
    /// `steps[depths[l]]`.
    steps: VecDeque<Option<Vec<LevelStep>>>,
    /// The rows that are encoded and reduced in this tick.
    current: Vec<Rows>,
    /// The rows that are filled in the same tick.
    next: Vec<Rows>,
}

impl<'a> Pyramid<'a> {
    fn new(plan: &'a WritePlan) -> Pyramid<'a> {
        let rows = |level: usize| new_rows(plan, level);
        let (schedule, levels) = (Schedule::new(&plan.levels), plan.levels.len());
        let depths = schedule.depths();
        let deepest = depths.iter().max().copied().unwrap_or(0);
        Pyramid {
            plan,
            schedule,
            depths,
            steps: std::iter::repeat_with(|| None).take(deepest + 1).collect(),
            current: (0..levels).map(rows).collect(),
            next: (0..levels).map(rows).collect(),
        }
    }

    /// Returns the step of the current rows of a level.
    fn current_step(&self, level: usize) -> Option<&LevelStep> {
        self.steps[self.depths[level]].as_ref().map(|steps| &steps[level])
    }

    /// Returns the step of the next rows of an overview: the step of the current rows of its parent.
    fn next_step(&self, level: usize) -> Option<&LevelStep> {
        self.steps[self.depths[level] - 1].as_ref().map(|steps| &steps[level])
    }

    /// Moves every level to its next rows. `strip` holds the rows of the full resolution, if there are more.
    fn start_tick(&mut self, strip: Option<Range<u64>>, full: &mut FullResolution<'_>) -> Result<()> {
        self.steps.pop_back();
        self.steps.push_front(strip.map(|strip| self.schedule.step(strip)));
        if let FullResolution::Copied(supply) = full
            && let Some(keep_from) = self.current_step(0).map(|step| step.keep_from)
        {
            let mut rows = supply.next()?;
            rows.carry(&self.current[0], keep_from);
            let spent = std::mem::replace(&mut self.current[0], rows);
            supply.ask(spent)?;
        }
        for level in 1..self.current.len() {
            let step = self.current_step(level).filter(|step| !step.rows.is_empty());
            if let Some(keep_from) = step.map(|step| step.keep_from) {
                self.next[level].carry(&self.current[level], keep_from);
                std::mem::swap(&mut self.current[level], &mut self.next[level]);
            }
        }
        Ok(())
    }

    /// Encodes the complete block rows, and computes the next rows of the overviews.
    fn do_tick(&mut self, state: &mut WriteState<'_>, full: &FullResolution<'_>) -> Result<()> {
        let mut next = std::mem::take(&mut self.next);
        let mut views: Vec<RowsView<'_>> = self.current.iter().map(Rows::view).collect();
        if let FullResolution::InPlace(image) = full {
            views[0] = *image;
        }
        let done = self.jobs(&mut next).and_then(|jobs| state.workers.work(jobs, &views, state.spools, state.streamed));
        self.next = next;
        let report = &mut state.streamed.report;
        let held = self.current.iter().chain(&self.next).map(Rows::capacity).sum::<u64>();
        report.peak_buffer_bytes = report.peak_buffer_bytes.max(held + self.current[0].capacity());
        done
    }

    /// Returns the jobs of a tick: first the blocks, in the order in which they are appended, then the short
    /// jobs.
    fn jobs<'b>(&self, next: &'b mut [Rows]) -> Result<Vec<Job<'b>>> {
        let mut jobs = Vec::new();
        for level in 0..self.current.len() {
            for row in self.current_step(level).map_or(0..0, |step| step.block_rows.clone()) {
                jobs.extend(self.plan.runs(level, row).map(Job::Encode));
            }
        }
        for (level, out) in next.iter_mut().enumerate().skip(1) {
            self.reduce_jobs(level, out, &mut jobs)?;
        }
        if let Some(step) = self.current_step(0).filter(|_| self.plan.has_statistics()) {
            jobs.extend(job_ranges(step.rows.clone(), self.plan.row_bytes(0) as u64).map(Job::Statistics));
        }
        Ok(jobs)
    }

    /// Adds the jobs that compute the next rows of an overview.
    fn reduce_jobs<'b>(&self, level: usize, out: &'b mut Rows, jobs: &mut Vec<Job<'b>>) -> Result<()> {
        let planned = &self.plan.levels[level];
        let step = self.next_step(level).filter(|step| !step.rows.is_empty());
        let (Some(reduction), Some(LevelStep { rows, .. })) = (&planned.reduction, step) else { return Ok(()) };
        out.prepare(rows.clone(), self.schedule.most_kept(level))?;
        let source_bytes = self.plan.row_bytes(planned.parent) as u64 * reduction.factor as u64;
        let step = rows_of_a_job(source_bytes) as usize;
        let (row_bytes, width) = (self.plan.row_bytes(level), planned.grid.width as usize);
        let (samples, mask) = out.fill();
        let mut masks = mask.map(|mask| mask.chunks_mut(step * width));
        for (rows, out) in job_ranges(rows.clone(), source_bytes).zip(samples.chunks_mut(step * row_bytes)) {
            let mask = masks.as_mut().and_then(Iterator::next);
            jobs.push(Job::Reduce { level, rows, out, mask });
        }
        Ok(())
    }
}
