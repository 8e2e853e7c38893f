//! The CPU executor of a [`ReadPlan`]: worker threads fetch blocks in batches, decode each block, and place
//! it directly in the caller's buffer.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use swath_codec::place::{Every, copy};
use swath_codec::{RowAccess, Scratch};
use swath_io::{Batch, Span};

use crate::error::{BlockName, Error, Result};
use crate::read::cache::BlockCache;
use crate::read::color::Conversion;
use crate::read::output_splitter::{Job, OutputSplitter};
use crate::read::placement::Placement;
use crate::read::plan::{BlockRect, BlockRequest, PlannedBlock, ReadPlan};
use crate::read::prefetch;
use crate::read::request::{Cancel, Layout, OnCorrupt, Progress, default_threads};
use crate::report::ReadReport;

/// Target size of a batch in decoded bytes: large enough to justify the cost of a request, small enough to
/// stay in the processor's cache and to share the work evenly.
const BATCH_BYTES: u64 = 1 << 20;

/// Decoded bytes that justify a thread. To start and end one takes as long as decoding some ten thousand
/// bytes, or as copying some hundred thousand.
const THREAD_BYTES: u64 = 128 << 10;
const THREAD_BYTES_UNCOMPRESSED: u64 = 1 << 20;

/// The most blocks in one batch. With very small blocks, a longer table would need more memory than the
/// pixels.
const BATCH_BLOCKS: u64 = 4096;

/// The most compressed bytes that are fetched at once, if there is more than one block. Batches of ordinary
/// files are far smaller, but the blocks of a hostile file may overlap.
const FETCH_BYTES: u64 = 8 << 20;

/// Executes a plan. `out` has exactly the size of the result.
pub(crate) fn execute(plan: &ReadPlan<'_>, out: &mut [u8]) -> Result<ReadReport> {
    match &plan.level.conversion {
        None => execute_stored(plan, out),
        Some(conversion) => execute_converted(plan, conversion, out),
    }
}

/// Reads an image whose colours are converted: first all stored samples, pixel by pixel, then the requested
/// bands.
fn execute_converted(plan: &ReadPlan<'_>, conversion: &Conversion, out: &mut [u8]) -> Result<ReadReport> {
    let stored = plan.of_stored_samples()?;
    let samples = stored.bands().len();
    let mut raw = vec![0; stored.selection.samples];
    let report = execute_stored(&stored, &mut raw)?;
    let bands = conversion.bands();
    let mut converted = vec![0; raw.len() / samples * bands];
    conversion.convert(samples, &raw, &mut converted);
    let wanted = plan.bands();
    let plane = out.len() / wanted.len().max(1);
    for (i, &band) in wanted.iter().enumerate() {
        let from = Every::nth(band, bands);
        match plan.layout {
            Layout::BandsFirst => copy(1, &converted, from, &mut out[i * plane..(i + 1) * plane], Every::SAMPLE),
            Layout::BandsLast => copy(1, &converted, from, out, Every::nth(i, wanted.len())),
        }
    }
    Ok(report)
}

/// Reads samples in the form in which they are stored.
fn execute_stored(plan: &ReadPlan<'_>, out: &mut [u8]) -> Result<ReadReport> {
    let start = Instant::now();
    let mut report = ReadReport { device: "cpu", codec: plan.decoder.name, threads: 1, ..ReadReport::default() };
    if out.is_empty() {
        return Ok(report);
    }
    // Uncompressed rows of a local file cost no more than rows of a cached block, because the operating
    // system caches the file.
    let cached_by_system = plan.decoder.row_access() == RowAccess::Any && !plan.source.is_high_latency();
    let cache = plan.request.cache.as_ref().filter(|_| !cached_by_system);
    let ahead = prefetch::fetch(plan, cache);
    let plan = ahead.as_ref().unwrap_or(plan);

    let splitter = OutputSplitter::new(out, plan);
    let share = WorkShare::new(plan, cache, splitter.group_count() as u64);
    let reading = Reading {
        plan,
        placement: Placement::new(plan),
        splitter: Mutex::new(splitter),
        batch_jobs: share.batch_jobs,
        cache,
        stop: AtomicBool::new(false),
        done: AtomicU64::new(0),
        total: share.blocks,
    };
    for outcome in reading.run(share.workers) {
        report.merge(outcome?);
    }
    report.threads = share.workers;
    report.wall_time = start.elapsed();
    Ok(report)
}

/// How the work is divided into threads and batches.
struct WorkShare {
    /// The total number of blocks.
    blocks: u64,
    /// The number of jobs in one batch.
    batch_jobs: usize,
    /// The number of threads, including the calling thread.
    workers: usize,
}

impl WorkShare {
    /// `groups` is the number of output planes that are filled one after another.
    fn new(plan: &ReadPlan<'_>, cache: Option<&BlockCache>, groups: u64) -> WorkShare {
        let level = plan.level;
        let blocks_per_job = if plan.is_planar() && groups == 1 { plan.bands().len() as u64 } else { 1 };
        let blocks = plan.count(&plan.all_blocks());
        let jobs = blocks / blocks_per_job.max(1);
        let cached = cache.map_or(0, |cache| cache.count(plan));
        let work = match plan.decoder.row_access() {
            RowAccess::Any => plan.output_bytes() as u64,
            _ => blocks.saturating_sub(cached).saturating_mul(level.block_bytes()),
        };
        let worth = if plan.decoder.is_copy() { THREAD_BYTES_UNCOMPRESSED } else { THREAD_BYTES };
        let threads = plan.request.threads.unwrap_or_else(default_threads).clamp(1, (work / worth).max(1) as usize);
        let batch_jobs = (BATCH_BYTES / level.block_bytes().max(1)).min(BATCH_BLOCKS / blocks_per_job.max(1));
        let batch_jobs = batch_jobs.clamp(1, (jobs / (4 * threads as u64)).max(1)) as usize;
        WorkShare { blocks, batch_jobs, workers: threads.min(jobs.div_ceil(batch_jobs as u64) as usize) }
    }
}

/// The state that the worker threads share.
struct Reading<'a, 'out> {
    plan: &'a ReadPlan<'a>,
    placement: Placement,
    splitter: Mutex<OutputSplitter<'out>>,
    batch_jobs: usize,
    cache: Option<&'a BlockCache>,
    stop: AtomicBool,
    /// The number of blocks that are done.
    done: AtomicU64,
    total: u64,
}

/// Buffers that a worker reuses for every batch, so that nothing is allocated per block.
#[derive(Default)]
struct Workspace<'out> {
    jobs: Vec<Job<'out>>,
    wanted: Vec<BlockRequest>,
    spans: Vec<Span>,
    /// The index of the first block in `batch`. `fetched` is the end of the range.
    first: usize,
    fetched: usize,
    batch: Batch,
    scratch: Scratch,
    block: Vec<u8>,
    row: Vec<u8>,
}

impl<'out> Reading<'_, 'out> {
    /// Runs this many threads, including the calling thread, and returns the outcome of each.
    fn run(&self, workers: usize) -> Vec<Result<ReadReport>> {
        if workers <= 1 {
            return vec![self.work()];
        }
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..workers)
                .map(|_| std::thread::Builder::new().name("swath-read".into()).spawn_scoped(scope, || self.work()))
                .collect();
            let mut outcomes = vec![self.work()];
            for other in others {
                outcomes.push(match other.map(std::thread::ScopedJoinHandle::join) {
                    Ok(Ok(outcome)) => outcome,
                    Ok(Err(panic)) => std::panic::resume_unwind(panic),
                    // The system did not start this thread. The other threads do all the work.
                    Err(_) => Ok(ReadReport::default()),
                });
            }
            outcomes
        })
    }

    /// Works until no job is left, or until this or another worker fails.
    fn work(&self) -> Result<ReadReport> {
        let mut space = Workspace::default();
        let mut report = ReadReport::default();
        while self.take_jobs(&mut space.jobs) {
            if let Err(error) = self.do_batch(&mut space, &mut report) {
                self.stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        report.working_bytes =
            (space.batch.capacity() + space.block.capacity() + space.row.capacity() + space.scratch.capacity()) as u64;
        Ok(report)
    }

    fn take_jobs(&self, jobs: &mut Vec<Job<'out>>) -> bool {
        jobs.clear();
        if self.stop.load(Ordering::Relaxed) {
            return false;
        }
        // A poisoned lock means that another worker panicked. Joining that worker propagates the panic.
        let Ok(mut splitter) = self.splitter.lock() else { return false };
        jobs.extend(std::iter::from_fn(|| splitter.next()).take(self.batch_jobs));
        !jobs.is_empty()
    }

    /// Fetches the blocks of some jobs, decodes each block and places it.
    fn do_batch(&self, space: &mut Workspace<'out>, report: &mut ReadReport) -> Result<()> {
        let mut start = Instant::now();
        self.locate(space)?;
        while space.fetched < space.wanted.len() {
            self.fetch(space)?;
            let fetched = Instant::now();
            self.decode_fetched(space, report)?;
            report.fetch_time += fetched - start;
            start = Instant::now();
            report.decode_time += start - fetched;
        }
        report.batches += 1;
        report.bytes_fetched += space.spans.iter().map(|span| span.len).sum::<u64>();
        let blocks = space.wanted.len() as u64;
        let done = self.done.fetch_add(blocks, Ordering::Relaxed) + blocks;
        if let Some(progress) = self.plan.progress {
            progress(Progress { done, total: self.total });
        }
        Ok(())
    }

    /// Decodes and places the blocks that the batch holds.
    fn decode_fetched(&self, space: &mut Workspace<'out>, report: &mut ReadReport) -> Result<()> {
        for i in space.first..space.fetched {
            if self.plan.request.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
                return Err(Error::Cancelled);
            }
            let result = match space.wanted[i].problem.take() {
                Some(problem) => Err(problem),
                None => self.decode_and_place(space, i, report),
            };
            match result {
                Ok(()) => {}
                Err(error) if self.plan.request.on_corrupt == OnCorrupt::Fill => {
                    let name = self.name(space, i);
                    self.fill(space, i);
                    report.note_filled(name, error);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Finds the blocks of the jobs and the part of each that is needed.
    fn locate(&self, space: &mut Workspace<'out>) -> Result<()> {
        space.wanted.clear();
        (space.first, space.fetched) = (0, 0);
        for (at, job) in space.jobs.iter().enumerate() {
            // In a planar file a job has one block for each of its bands, otherwise one block for all bands.
            let bands = match self.plan.layout {
                Layout::BandsFirst => job.group..job.group + 1,
                Layout::BandsLast => 0..self.plan.bands().len(),
            };
            for block in self.plan.blocks(&BlockRect::single(job.row, job.col, bands)) {
                let cache = self.cache_for(&block);
                let access = if cache.is_some() { RowAccess::All } else { self.plan.decoder.row_access() };
                let mut wanted = self.plan.request(&block, access);
                wanted.job = at;
                wanted.kept = cache.and_then(|cache| cache.get(self.plan.level, block.coord));
                space.wanted.push(wanted);
            }
        }
        self.plan.locate(&mut space.wanted, &mut space.spans)
    }

    /// Fetches all blocks at once, or as many as fit. If that fails and the request fills corrupt blocks,
    /// finds the blocks that fail.
    fn fetch(&self, space: &mut Workspace<'out>) -> Result<()> {
        space.first = space.fetched;
        space.fetched += Batch::affordable(&space.spans[space.first..], FETCH_BYTES);
        let range = space.first..space.fetched;
        let fetch = |space: &mut Workspace<'out>, range| self.plan.source.fetch(&space.spans[range], &mut space.batch);
        let Err(source) = fetch(space, range.clone()) else { return Ok(()) };
        let error = |space: &Workspace<'out>, i: usize, source| Error::Fetch {
            file: self.plan.level.file.clone(),
            block: self.name(space, i),
            offset: space.spans[i].offset,
            len: space.spans[i].len,
            cause: source,
        };
        if self.plan.request.on_corrupt == OnCorrupt::Fail {
            let first = range.clone().find(|&i| !space.spans[i].is_sparse()).unwrap_or(range.start);
            return Err(error(space, first, source));
        }
        for i in range.clone() {
            if let Err(source) = fetch(space, i..i + 1) {
                space.wanted[i].problem = Some(error(space, i, source));
                space.spans[i] = Span::default();
            }
        }
        fetch(space, range).map_err(|source| error(space, space.first, source))
    }

    /// Returns the cache for a block of which the read uses only a part.
    fn cache_for(&self, block: &PlannedBlock) -> Option<&BlockCache> {
        self.cache.filter(|cache| cache.wants(self.plan.level, block))
    }

    fn decode_and_place(&self, space: &mut Workspace<'out>, i: usize, report: &mut ReadReport) -> Result<()> {
        if let Some(pixels) = space.wanted[i].kept.take() {
            report.kept_blocks += 1;
            return self.place(space, i, &pixels);
        }
        if space.spans[i].is_sparse() {
            report.sparse_blocks += 1;
            self.fill(space, i);
            return Ok(());
        }
        let name = self.name(space, i);
        let Workspace { jobs, wanted, first, batch, scratch, block, row, .. } = space;
        let BlockRequest { coord, job, band, shape, extent, first_row, .. } = &wanted[i];
        let pixels = self
            .plan
            .decoder
            .decode(batch.get_mut(i - *first), *shape, *extent, block, scratch)
            .map_err(|cause| Error::Block { file: self.plan.level.file.clone(), block: name, cause })?;
        report.blocks += 1;
        report.bytes_decoded += shape.len() as u64;
        let placed = self.placement.place(&mut jobs[*job], *band, *shape, *first_row, pixels, row);
        placed.map_err(|cause| Error::Block { file: self.plan.level.file.clone(), block: name, cause })?;
        let Job { rows, cols, .. } = &jobs[*job];
        let whole = PlannedBlock { coord: *coord, band: *band, rows: rows.clone(), cols: cols.clone() };
        if let Some(cache) = self.cache_for(&whole) {
            // If the pixels were decoded into the worker's buffer, that buffer goes to the cache. Otherwise
            // they are where they were fetched to, and are copied.
            let (at, len) = (pixels.as_ptr(), shape.len());
            let own = at == block.as_ptr();
            let pixels = if own {
                block.truncate(len);
                std::mem::take(block)
            } else {
                batch.get(i - *first)[..len].to_vec()
            };
            cache.keep(self.plan.level, *coord, pixels);
        }
        Ok(())
    }

    /// Places the pixels of a cached block.
    fn place(&self, space: &mut Workspace<'out>, i: usize, pixels: &[u8]) -> Result<()> {
        let block = self.name(space, i);
        let Workspace { jobs, wanted, row, .. } = space;
        let BlockRequest { job, band, shape, first_row, .. } = &wanted[i];
        let placed = self.placement.place(&mut jobs[*job], *band, *shape, *first_row, pixels, row);
        placed.map_err(|cause| Error::Block { file: self.plan.level.file.clone(), block, cause })
    }

    /// Fills the pixels of a block with nodata, or with 0 if there is no nodata value.
    fn fill(&self, space: &mut Workspace<'out>, i: usize) {
        let BlockRequest { job, band, .. } = space.wanted[i];
        self.placement.fill(&mut space.jobs[job], band, &self.plan.level.fill);
    }

    fn name(&self, space: &Workspace<'out>, i: usize) -> BlockName {
        space.wanted[i].coord.name(self.plan.level)
    }
}
