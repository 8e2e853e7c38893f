//! A read that several GPUs share: each reads a range of rows, as if it were a read of its own.
//!
//! Ranges end at rows of blocks, so no block is decoded twice. Pixels, and the error of a corrupt block, are those of one device.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use swath_gpu::{Geometry, Gpu};

use super::bands_last;
use super::first_error::corrupt_block;
use crate::error::{Error, Result};
use crate::memory;
use crate::read::plan::{BlockRect, ReadPlan};
use crate::read::request::{Progress, ProgressFn};
use crate::report::ReadReport;

/// Executes a plan into host memory of the exact size.
pub(crate) fn execute(plan: &ReadPlan<'_>, gpus: &[Gpu], out: &mut [u8]) -> Result<ReadReport> {
    let start = Instant::now();
    let ranges = row_ranges(plan, gpus.len());
    if ranges.len() <= 1 {
        return super::execute(plan, &gpus[0], out);
    }
    let progress = &SharedProgress::new(plan, ranges.len());
    let report_of = |part: usize| move |now: Progress| progress.note(part, now.done);
    let reports: Vec<_> = (0..ranges.len()).map(report_of).collect();
    let mut parts = Vec::with_capacity(ranges.len());
    for (rows, report) in ranges.iter().zip(&reports) {
        let cols = plan.window().col()..plan.window().col() + plan.window().width();
        let part = plan.part((rows.clone(), cols), 0..plan.bands().len(), plan.layout)?;
        let report: &ProgressFn<'_> = report;
        parts.push(ReadPlan { progress: plan.progress.map(|_| report), ..part });
    }
    let results = if bands_last(plan) || plan.bands().len() == 1 {
        run(&parts, gpus, split(&parts, out))
    } else {
        // The rows of a band are contiguous, and those of a part are not.
        let mut own = Vec::with_capacity(parts.len());
        for part in &parts {
            own.push(memory::zeros(part.output_bytes(), "the pixels of one device")?);
        }
        let results = run(&parts, gpus, own.iter_mut().map(Vec::as_mut_slice).collect());
        for (part, pixels) in parts.iter().zip(&own) {
            copy_bands(plan, part, pixels, out);
        }
        results
    };
    let mut report = joined(results)?;
    report.wall_time = start.elapsed();
    Ok(report)
}

/// The rows of the image that each device reads: as many rows of blocks for each, as far as possible.
fn row_ranges(plan: &ReadPlan<'_>, devices: usize) -> Vec<Range<u64>> {
    let all = plan.all_blocks();
    let (first, count) = (all.rows.start, all.rows.end - all.rows.start);
    let devices = (devices as u64).min(count);
    let bound = |device: u64| first + count * device / devices.max(1);
    let rows_of = |device: u64| {
        let rect = BlockRect { rows: bound(device)..bound(device + 1), ..all.clone() };
        plan.area(&rect).0
    };
    (0..devices).map(rows_of).collect()
}

/// Divides the output of a plan whose rows are contiguous.
fn split<'o>(parts: &[ReadPlan<'_>], mut out: &'o mut [u8]) -> Vec<&'o mut [u8]> {
    let mut outputs = Vec::with_capacity(parts.len());
    for part in parts {
        let (this, rest) = out.split_at_mut(part.output_bytes());
        outputs.push(this);
        out = rest;
    }
    outputs
}

/// Reads each part on its device, all at the same time.
fn run(parts: &[ReadPlan<'_>], gpus: &[Gpu], outputs: Vec<&mut [u8]>) -> Vec<Result<ReadReport>> {
    std::thread::scope(|scope| {
        let mut work = parts.iter().zip(gpus).zip(outputs);
        let here = work.next();
        let others: Vec<_> = work
            .map(|((part, gpu), out)| {
                let thread = std::thread::Builder::new().name("swath-device".into());
                thread.spawn_scoped(scope, || super::execute(part, gpu, out)).map_err(|cause| Error::Thread { cause })
            })
            .collect();
        let first = here.map(|((part, gpu), out)| super::execute(part, gpu, out));
        let joined = others.into_iter().map(|thread| match thread {
            // A panic is passed on.
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(error) => Err(error),
        });
        first.into_iter().chain(joined).collect()
    })
}

/// Copies the pixels of a part `(band, row, column)` to their place in the whole.
fn copy_bands(plan: &ReadPlan<'_>, part: &ReadPlan<'_>, pixels: &[u8], out: &mut [u8]) {
    let (bands, size, cols) = (plan.bands().len(), plan.level.dtype.size(), plan.window().width());
    let from = Geometry::dense(bands, part.window().height(), cols, size, false);
    let to = Geometry::dense(bands, plan.window().height(), cols, size, false);
    let row = part.window().row() - plan.window().row();
    for (band, pixels) in pixels.chunks_exact(from.band_stride.max(1) as usize).enumerate() {
        out[to.offset(band, row, 0) as usize..][..pixels.len()].copy_from_slice(pixels);
    }
}

/// Joins the reports. Of several errors, that of a device comes first, because another device may succeed; then that of the first corrupt
/// block in file order.
fn joined(results: Vec<Result<ReadReport>>) -> Result<ReadReport> {
    let mut reports = Vec::with_capacity(results.len());
    let mut errors = Vec::new();
    for result in results {
        match result {
            Ok(report) => reports.push(report),
            Err(error) => errors.push(error),
        }
    }
    let in_file = |error: &Error| corrupt_block(error).map(|block| (block.band, block.row, block.col));
    if let Some(error) = errors.into_iter().min_by_key(in_file) {
        return Err(error);
    }
    let mut all = reports.into_iter();
    let mut joined = all.next().unwrap_or_default();
    for mut report in all {
        match (&mut joined.gpu, report.gpu.take()) {
            (Some(gpu), Some(other)) => gpu.join(other),
            (none, other) => *none = other,
        }
        joined.merge(report);
    }
    Ok(joined)
}

/// The progress of all devices together.
struct SharedProgress<'a> {
    report: Option<&'a ProgressFn<'a>>,
    total: u64,
    /// Blocks that each device has done.
    done: Mutex<Vec<u64>>,
}

impl<'a> SharedProgress<'a> {
    fn new(plan: &ReadPlan<'a>, devices: usize) -> SharedProgress<'a> {
        let total = plan.count(&plan.all_blocks());
        SharedProgress { report: plan.progress, total, done: Mutex::new(vec![0; devices]) }
    }

    /// Reports the sum. The lock is held meanwhile, so that the sum never decreases.
    fn note(&self, device: usize, blocks: u64) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done[device] = blocks;
        if let Some(report) = self.report {
            report(Progress { done: done.iter().sum(), total: self.total });
        }
    }
}
