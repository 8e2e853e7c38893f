//! The threads of a write: they encode blocks, reduce rows and compute statistics, and the blocks are appended in order.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, PoisonError};

use swath_gpu::Tiles;

use super::{Spools, Streamed};
use crate::error::{Error, Result};
use crate::read::request::Cancel;
use crate::write::encode::{EncodedBatch, Run, Scratch};
use crate::write::passthrough::PassthroughBlocks;
use crate::write::plan::WritePlan;
use crate::write::pyramid::{self, PyramidScratch};
use crate::write::rows::RowsView;
use crate::write::statistics::{BandStatistics, Partial};

/// Source bytes of a reduction or of statistics that are worth one job.
const JOB_BYTES: u64 = 1 << 20;

/// Jobs per thread that may be complete or in progress before an earlier one is appended. It bounds the
/// memory of blocks that wait to be appended.
const JOBS_AHEAD: usize = 8;

/// One piece of work for one thread.
pub(super) enum Job<'a> {
    /// Encodes or copies blocks of the rows in memory.
    Encode(Run),
    /// Compresses blocks that a device has cut.
    Compress { run: Run, tiles: &'a Tiles },
    /// Makes rows of an overview.
    Reduce { level: usize, rows: Range<u64>, out: &'a mut [u8], mask: Option<&'a mut [u8]> },
    /// Computes statistics of rows of the full resolution.
    Statistics(Range<u64>),
}

/// The result of a job.
enum Done {
    Encoded(EncodedBatch),
    /// The blocks are parts of the rows and are appended from there.
    InRows(Run),
    Reduced,
    Measured(Vec<Vec<Partial>>),
}

/// The working memory of the threads, and what a job needs beside its rows.
pub(super) struct Workers<'a> {
    context: Context<'a>,
    scratch: Vec<WorkerScratch>,
    /// Statistics of each band so far.
    partials: Vec<Partial>,
}

/// The data that the threads of a write share.
struct Context<'a> {
    plan: &'a WritePlan,
    copied: Option<&'a PassthroughBlocks>,
    cancel: Option<&'a Cancel>,
    spare: SpareBatches,
}

/// The buffers that one thread reuses for every job.
#[derive(Default)]
struct WorkerScratch {
    encode: Scratch,
    pyramid: PyramidScratch,
}

/// Batches that were appended, for reuse: a write allocates only as many as are in use at one time.
#[derive(Default)]
struct SpareBatches(Mutex<Vec<EncodedBatch>>);

impl SpareBatches {
    fn take(&self, level: usize) -> EncodedBatch {
        let spare = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        EncodedBatch { level, ..spare.unwrap_or_default() }
    }

    fn give_back(&self, mut batch: EncodedBatch) {
        batch.bytes.clear();
        batch.blocks.clear();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(batch);
    }
}

/// Divides `rows` into ranges of about [`JOB_BYTES`]; each row has `row_bytes`.
pub(super) fn job_ranges(rows: Range<u64>, row_bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let step = rows_of_a_job(row_bytes);
    rows.clone().step_by(step as usize).map(move |start| start..(start + step).min(rows.end))
}

/// Returns the number of rows of a job, if each needs `row_bytes` of source.
pub(super) fn rows_of_a_job(row_bytes: u64) -> u64 {
    (JOB_BYTES / row_bytes.max(1)).max(1)
}

impl<'a> Workers<'a> {
    pub(super) fn new(
        plan: &'a WritePlan,
        copied: Option<&'a PassthroughBlocks>,
        cancel: Option<&'a Cancel>,
        threads: usize,
    ) -> Workers<'a> {
        Workers {
            context: Context { plan, copied, cancel, spare: SpareBatches::default() },
            scratch: (0..threads).map(|_| WorkerScratch::default()).collect(),
            partials: vec![Partial::default(); plan.bands],
        }
    }

    /// The statistics of all bands, if the plan has them.
    pub(super) fn statistics(&self) -> Vec<BandStatistics> {
        if self.context.plan.has_statistics() {
            self.partials.iter().map(Partial::finish).collect()
        } else {
            Vec::new()
        }
    }

    /// Runs the jobs on all threads, and appends the blocks in the order of the jobs. `views` holds the rows
    /// of each level.
    pub(super) fn work(
        &mut self,
        jobs: Vec<Job<'_>>,
        views: &[RowsView<'_>],
        spools: &mut Spools,
        streamed: &mut Streamed,
    ) -> Result<()> {
        let Workers { context, scratch, partials } = self;
        let count = jobs.len();
        let queue = JobQueue::new(jobs, scratch.len() * JOBS_AHEAD);
        let (done_to, done) = channel::<(usize, Result<Done>)>();
        std::thread::scope(|scope| {
            let mut started = 0;
            for scratch in scratch.iter_mut().take(count) {
                let (queue, context, done_to) = (&queue, &*context, done_to.clone());
                let work = move || queue.work(context, views, scratch, &done_to);
                match std::thread::Builder::new().name("swath-encode".into()).spawn_scoped(scope, work) {
                    Ok(_) => started += 1,
                    // If the system starts fewer threads, they still do all jobs.
                    Err(_) if started > 0 => {}
                    Err(source) => return Err(Error::Thread { cause: source }),
                }
            }
            drop(done_to);
            let mut appender = Appender { context, views, partials, spools, streamed };
            appender.append_in_order(&queue, &done).inspect_err(|_| queue.stop())
        })
    }
}

/// The jobs that no thread has taken yet.
struct JobQueue<'a> {
    jobs: Vec<Mutex<Option<Job<'a>>>>,
    taken: AtomicUsize,
    stop: AtomicBool,
    /// The number of jobs whose results are appended.
    appended: Mutex<usize>,
    /// Signals a change of `appended` or `stop`.
    changed: Condvar,
    /// The number of jobs that may be taken before the first of them is appended.
    ahead: usize,
}

impl<'a> JobQueue<'a> {
    fn new(jobs: Vec<Job<'a>>, ahead: usize) -> JobQueue<'a> {
        JobQueue {
            jobs: jobs.into_iter().map(|job| Mutex::new(Some(job))).collect(),
            taken: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            appended: Mutex::new(0),
            changed: Condvar::new(),
            ahead,
        }
    }

    /// The loop of one thread: runs jobs until none is left or another thread failed.
    fn work(
        &self,
        context: &Context<'_>,
        views: &[RowsView<'_>],
        scratch: &mut WorkerScratch,
        done_to: &Sender<(usize, Result<Done>)>,
    ) {
        let _on_panic = StopOnPanic(self);
        while let Some((at, job)) = self.next() {
            let done = if context.cancel.is_some_and(Cancel::is_cancelled) {
                Err(Error::Cancelled)
            } else {
                context.do_job(job, views, scratch)
            };
            if done_to.send((at, done)).is_err() {
                return;
            }
        }
    }

    /// Takes the next job. Waits until enough earlier jobs are appended.
    fn next(&self) -> Option<(usize, Job<'a>)> {
        let at = self.taken.fetch_add(1, Ordering::Relaxed);
        let job = self.jobs.get(at)?.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let appended = self.appended.lock().unwrap_or_else(PoisonError::into_inner);
        let must_wait = |appended: &mut usize| at >= *appended + self.ahead && !self.stop.load(Ordering::Relaxed);
        drop(self.changed.wait_while(appended, must_wait));
        (!self.stop.load(Ordering::Relaxed)).then_some((at, job))
    }

    /// Records that the results of `count` jobs are appended.
    fn note_appended(&self, count: usize) {
        *self.appended.lock().unwrap_or_else(PoisonError::into_inner) = count;
        self.changed.notify_all();
    }

    /// Makes all threads end after their current job.
    fn stop(&self) {
        let _appended = self.appended.lock().unwrap_or_else(PoisonError::into_inner);
        self.stop.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }
}

/// Ends the other threads if a thread panics. Otherwise they would wait for its result.
struct StopOnPanic<'a, 'b>(&'a JobQueue<'b>);

impl Drop for StopOnPanic<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

impl Context<'_> {
    fn do_job(&self, job: Job<'_>, views: &[RowsView<'_>], scratch: &mut WorkerScratch) -> Result<Done> {
        let plan = self.plan;
        match job {
            Job::Encode(run) if self.copied.is_none() && plan.is_in_rows(&run) => Ok(Done::InRows(run)),
            Job::Encode(run) => {
                let (view, mut encoded) = (&views[run.level], self.spare.take(run.level));
                match self.copied.filter(|_| run.level == 0) {
                    Some(copied) => copied.copy_run(plan, &run, view, &mut scratch.encode, &mut encoded)?,
                    None => plan.encode_run(&run, view, &mut scratch.encode, &mut encoded)?,
                }
                Ok(Done::Encoded(encoded))
            }
            Job::Compress { run, tiles } => {
                let mut encoded = self.spare.take(run.level);
                plan.compress_run(&run, tiles, &mut scratch.encode, &mut encoded)?;
                Ok(Done::Encoded(encoded))
            }
            Job::Reduce { level, rows, out, mask } => {
                let view = &views[plan.levels[level].parent];
                pyramid::reduce(plan, level, view, rows, out, mask, &mut scratch.pyramid);
                Ok(Done::Reduced)
            }
            Job::Statistics(rows) => Ok(Done::Measured(pyramid::measure(plan, &views[0], rows, &mut scratch.pyramid))),
        }
    }
}

/// Stores the results of jobs.
struct Appender<'a, 'b> {
    context: &'a Context<'b>,
    views: &'a [RowsView<'a>],
    partials: &'a mut [Partial],
    spools: &'a mut Spools,
    streamed: &'a mut Streamed,
}

impl Appender<'_, '_> {
    /// Stores the results of the jobs in the order of the jobs, each as soon as possible.
    fn append_in_order(&mut self, queue: &JobQueue<'_>, done: &Receiver<(usize, Result<Done>)>) -> Result<()> {
        let mut early: Vec<Option<Done>> = Vec::new();
        early.resize_with(queue.jobs.len(), || None);
        let mut appended = 0;
        for (at, result) in done {
            early[at] = Some(result?);
            while let Some(result) = early.get_mut(appended).and_then(Option::take) {
                appended += 1;
                self.store(result)?;
                queue.note_appended(appended);
            }
        }
        Ok(())
    }

    fn store(&mut self, result: Done) -> Result<()> {
        match result {
            Done::Reduced => {}
            Done::Measured(rows) => {
                for row in rows {
                    self.partials.iter_mut().zip(row).for_each(|(partial, row)| partial.merge(&row));
                }
            }
            Done::InRows(run) => {
                let Streamed { index, report, .. } = &mut *self.streamed;
                self.spools.append_rows(self.context.plan, &run, &self.views[run.level], index, report)?;
            }
            Done::Encoded(encoded) => {
                let Streamed { index, report, .. } = &mut *self.streamed;
                self.spools.append(&encoded, index, report)?;
                if self.context.copied.is_some() && encoded.level == 0 {
                    report.copied_blocks += encoded.blocks.iter().filter(|block| !block.mask).count() as u64;
                }
                self.context.spare.give_back(encoded);
            }
        }
        Ok(())
    }
}
