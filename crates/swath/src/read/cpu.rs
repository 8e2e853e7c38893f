//! The CPU executor of a [`ReadPlan`]: worker threads fetch blocks in batches, decode each block, and place
//! it directly in the caller's buffer.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use swath_codec::place::{Every, copy};
use swath_codec::{Decompressed, GroupBlock, RowAccess, Scratch};
use swath_io::{Batch, Span};

use crate::error::{BlockName, Error, Result};
use crate::memory;
use crate::read::cache::BlockCache;
use crate::read::color::Conversion;
use crate::read::output_splitter::{Job, OutputSplitter};
use crate::read::placement::{BlockRows, Placement, RowScratch};
use crate::read::plan::{BlockCoord, BlockRect, BlockRequest, PlannedBlock, ReadPlan};
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

/// The most decoded bytes of the blocks that a thread decompresses at once.
const GROUP_BYTES: u64 = 16 << 20;

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
    let mut raw = memory::zeros(stored.selection.samples, "the stored samples of this read")?;
    let report = execute_stored(&stored, &mut raw)?;
    let bands = conversion.bands();
    let mut converted = memory::zeros(raw.len() / samples * bands, "the converted colours of this read")?;
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

/// Reads samples in the form in which they are stored. If the system does not have the memory for all threads, one thread
/// reads everything.
fn execute_stored(plan: &ReadPlan<'_>, out: &mut [u8]) -> Result<ReadReport> {
    let threads = plan.request.threads.unwrap_or_else(default_threads);
    match execute_with(plan, threads, out) {
        Err(error) if error.is_out_of_memory() && threads > 1 => execute_with(plan, 1, out),
        outcome => outcome,
    }
}

fn execute_with(plan: &ReadPlan<'_>, threads: usize, out: &mut [u8]) -> Result<ReadReport> {
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
    let share = WorkShare::new(plan, cache, splitter.group_count() as u64, threads);
    let reading = Reading {
        plan,
        placement: Placement::new(plan),
        splitter: Mutex::new(splitter),
        batch_jobs: share.batch_jobs,
        group_blocks: share.group_blocks,
        direct: plan.is_stored_as_output() && cache.is_none() && !plan.source.is_high_latency(),
        cache,
        stop: AtomicBool::new(false),
        failed: AtomicBool::new(false),
        first_error: Mutex::new(None),
        done: AtomicU64::new(0),
        total: share.blocks,
    };
    for outcome in reading.run(share.workers) {
        report.merge(outcome?);
    }
    if let Some((_, error)) = reading.first_error.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
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
    /// The number of blocks that a thread decompresses at once.
    group_blocks: usize,
    /// The number of threads, including the calling thread.
    workers: usize,
}

impl WorkShare {
    /// `groups` is the number of output planes that are filled one after another, `threads` the most threads.
    fn new(plan: &ReadPlan<'_>, cache: Option<&BlockCache>, groups: u64, threads: usize) -> WorkShare {
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
        let threads = threads.clamp(1, (work / worth).max(1) as usize);
        let group_blocks = (GROUP_BYTES / level.block_bytes().max(1)).clamp(1, plan.decoder.group_size() as u64);
        let batch_blocks = (BATCH_BYTES / level.block_bytes().max(1)).max(group_blocks);
        let batch_jobs = batch_blocks.min(BATCH_BLOCKS) / blocks_per_job.max(1);
        // Several batches per thread share the work evenly. A full group is worth more than that.
        let even = (jobs / (4 * threads as u64)).max(group_blocks.min(jobs.div_ceil(threads as u64)));
        let batch_jobs = batch_jobs.clamp(1, even.max(1)) as usize;
        let workers = threads.min(jobs.div_ceil(batch_jobs as u64) as usize);
        WorkShare { blocks, batch_jobs, group_blocks: group_blocks as usize, workers }
    }
}

/// The state that the worker threads share.
struct Reading<'a, 'out> {
    plan: &'a ReadPlan<'a>,
    placement: Placement,
    splitter: Mutex<OutputSplitter<'out>>,
    batch_jobs: usize,
    group_blocks: usize,
    /// Whether the rows of blocks are read straight into the output.
    direct: bool,
    cache: Option<&'a BlockCache>,
    /// Whether a worker has failed for another reason than a block.
    stop: AtomicBool,
    /// Whether a block has failed.
    failed: AtomicBool,
    /// The error of a block and its position. Of several errors, the first in file order is kept, so that the
    /// number of threads does not decide which block is reported.
    first_error: Mutex<Option<(BlockCoord, Error)>>,
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
    row: RowScratch,
    /// The blocks that are decompressed together, and their indices in `wanted`.
    group: Vec<(usize, GroupBlock)>,
}

thread_local! {
    /// Buffers of the last read of this thread.
    static BUFFERS: Cell<Buffers> = Cell::default();
}

/// The most bytes of buffers that a thread keeps for its next read.
const KEPT_BYTES: usize = 8 << 20;

/// The buffers that a thread keeps for its next read. Otherwise the allocator would return them to the system after each
/// window, and the system would clear their pages for the next one: that takes 15 % of the time of windows of
/// 512 x 512 x 4 uint16 samples in zstd.
#[derive(Default)]
struct Buffers {
    batch: Batch,
    block: Vec<u8>,
    row: RowScratch,
}

impl Buffers {
    /// Takes the buffers of this thread. A read inside a read gets empty ones.
    fn take() -> Buffers {
        BUFFERS.try_with(Cell::take).unwrap_or_default()
    }

    fn keep(self) {
        if self.batch.capacity() + self.block.capacity() + self.row.capacity() <= KEPT_BYTES {
            // Only a thread that is about to end has no place for them.
            let _ = BUFFERS.try_with(|kept| kept.set(self));
        }
    }
}

impl Workspace<'_> {
    /// The size in bytes of the buffers.
    fn capacity(&self) -> usize {
        let group: usize = self.group.iter().map(|(_, block)| block.capacity()).sum();
        self.batch.capacity() + self.block.capacity() + self.row.capacity() + self.scratch.capacity() + group
    }
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
        let Buffers { batch, block, row } = Buffers::take();
        let mut space = Workspace { batch, block, row, ..Workspace::default() };
        let mut report = ReadReport::default();
        while self.take_jobs(&mut space.jobs) {
            if let Err(error) = self.do_batch(&mut space, &mut report) {
                self.stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        report.working_bytes = space.capacity() as u64;
        Buffers { batch: space.batch, block: space.block, row: space.row }.keep();
        Ok(report)
    }

    fn take_jobs(&self, jobs: &mut Vec<Job<'out>>) -> bool {
        jobs.clear();
        if self.stop.load(Ordering::Relaxed) || self.is_over() {
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
        if self.direct && self.read_directly(space) {
            report.blocks += space.wanted.len() as u64;
            report.bytes_decoded += space.spans.iter().map(|span| span.len).sum::<u64>();
            report.fetch_time += start.elapsed();
            space.fetched = space.wanted.len();
        }
        while let Some(next) = space.wanted.get(space.fetched) {
            if self.is_over() && self.is_after_error(next.coord) {
                break;
            }
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

    fn is_cancelled(&self) -> bool {
        self.plan.request.cancel.as_ref().is_some_and(Cancel::is_cancelled)
    }

    /// Reads uncompressed blocks straight into the output rows. Returns `false` if a block needs more than that or
    /// cannot be read; the batch is then read as usual, which names the block that fails.
    fn read_directly(&self, space: &mut Workspace<'out>) -> bool {
        if self.is_cancelled() {
            return false;
        }
        let Workspace { jobs, wanted, spans, .. } = space;
        let is_plain = |(request, span): (&BlockRequest, &Span)| request.problem.is_none() && !span.is_sparse();
        wanted.iter().zip(&*spans).all(is_plain)
            && wanted.iter().zip(&*spans).all(|(BlockRequest { job, shape, .. }, span)| {
                let part = self.placement.part_of_rows(&jobs[*job], *shape);
                let (gap, offset) = ((shape.row_bytes() - part.len()) as u64, span.offset + part.start as u64);
                let pieces = &mut jobs[*job].pieces;
                if gap == 0 {
                    return self.plan.source.read_scattered(offset, 0, pieces).is_ok();
                }
                let mut rows: Vec<&mut [u8]> =
                    pieces.iter_mut().flat_map(|piece| piece.chunks_exact_mut(part.len())).collect();
                self.plan.source.read_scattered(offset, gap, &mut rows).is_ok()
            })
    }

    /// Decodes and places the blocks that the batch holds.
    fn decode_fetched(&self, space: &mut Workspace<'out>, report: &mut ReadReport) -> Result<()> {
        let mut next = space.first;
        while next < space.fetched {
            let end = self.decompress_group(space, next);
            for i in next..end {
                if self.is_cancelled() {
                    return Err(Error::Cancelled);
                }
                if self.is_after_error(space.wanted[i].coord) {
                    continue;
                }
                let result = match space.wanted[i].problem.take() {
                    Some(problem) => Err(problem),
                    None => self.decode_and_place(space, i, report),
                };
                match result {
                    Ok(()) => {}
                    // Too little memory says nothing about the block, so it is never a reason to fill it.
                    Err(error) if error.is_out_of_memory() => return Err(error),
                    Err(error) if self.plan.request.on_corrupt == OnCorrupt::Fill => {
                        let name = self.name(space, i);
                        self.fill(space, i);
                        report.note_filled(name, error);
                    }
                    Err(error) => self.note_error(space.wanted[i].coord, error),
                }
            }
            next = end;
        }
        Ok(())
    }

    /// Whether a block has failed and all blocks that follow come after it in the file.
    fn is_over(&self) -> bool {
        self.failed.load(Ordering::Relaxed) && self.plan.is_in_file_order()
    }

    /// Keeps the error of a block if it is the first in file order.
    fn note_error(&self, coord: BlockCoord, error: Error) {
        let mut first = self.first_error.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|(other, _)| coord < *other) {
            *first = Some((coord, error));
        }
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Whether a block before this one has failed, so that this one is not needed.
    fn is_after_error(&self, coord: BlockCoord) -> bool {
        self.failed.load(Ordering::Relaxed) && {
            let first = self.first_error.lock().unwrap_or_else(PoisonError::into_inner);
            first.as_ref().is_some_and(|(other, _)| *other < coord)
        }
    }

    /// Decompresses some of the fetched blocks at once, if the decoder gains from that, and returns the end of the
    /// range that contains them. Their outcomes are used when it is their turn.
    fn decompress_group(&self, space: &mut Workspace<'out>, from: usize) -> usize {
        if self.group_blocks < 2 {
            return space.fetched;
        }
        let Workspace { wanted, spans, first, fetched, batch, scratch, group, .. } = space;
        let gains = |&i: &usize| {
            let BlockRequest { problem, kept, .. } = &wanted[i];
            let is_stored = problem.is_none() && kept.is_none() && !spans[i].is_sparse();
            is_stored && self.plan.decoder.gains(batch.get(i - *first), self.plan.level.block_bytes() as usize)
        };
        group.resize_with(self.group_blocks, Default::default);
        // Blocks of an earlier group that were skipped after an error must not count as blocks of this one.
        group.iter_mut().for_each(|(index, _)| *index = usize::MAX);
        let end = (from..*fetched).filter(gains).nth(self.group_blocks - 1).map_or(*fetched, |last| last + 1);
        let blocks = group.iter_mut().zip((from..end).filter(gains)).map(|((index, block), i)| {
            *index = i;
            (batch.get(i - *first), wanted[i].shape, wanted[i].extent, block)
        });
        self.plan.decoder.decompress_group(blocks, scratch);
        end
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
                if self.is_after_error(block.coord) {
                    continue;
                }
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

    /// Fetches all blocks at once, or as many as fit. If that fails, fetches fewer, until one block is left that
    /// fails alone: that block gets the error.
    fn fetch(&self, space: &mut Workspace<'out>) -> Result<()> {
        let first = space.fetched;
        space.first = first;
        let mut count = Batch::affordable(&space.spans[first..], FETCH_BYTES);
        loop {
            space.fetched = first + count;
            let Err(cause) = self.plan.source.fetch(&space.spans[first..first + count], &mut space.batch) else {
                return Ok(());
            };
            if count > 1 {
                count /= 2;
                continue;
            }
            let Span { offset, len } = space.spans[first];
            let (file, block) = (self.plan.level.file.clone(), self.name(space, first));
            let error = Error::Fetch { file, block, offset, len, cause };
            if space.spans[first].is_sparse() {
                return Err(error);
            }
            space.wanted[first].problem = Some(error);
            // The next turn fetches nothing for this block.
            space.spans[first] = Span::default();
        }
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
        let failed = |cause| Error::Block { file: self.plan.level.file.clone(), block: name, cause };
        let BlockRequest { coord, job, band, shape, first_row, .. } = space.wanted[i];
        let Job { rows, cols, .. } = &space.jobs[job];
        let planned = PlannedBlock { coord, band, rows: rows.clone(), cols: cols.clone() };
        let undo = self.plan.decoder.row_undo(shape).map_err(failed)?;
        if let Some(cache) = self.cache_for(&planned) {
            let mut pixels = self.decompress_to_keep(space, i).map_err(failed)?;
            undo.block(&mut pixels, &mut Vec::new()).map_err(failed)?;
            self.place(space, i, &pixels)?;
            cache.keep(self.plan.level, coord, pixels);
        } else {
            let Workspace { jobs, wanted, first, batch, scratch, block, row, group, .. } = space;
            let bytes = match take_from(group, i) {
                Some(decompressed) => decompressed.bytes(),
                None => {
                    self.plan.decoder.decompress(batch.get_mut(i - *first), shape, wanted[i].extent, block, scratch)
                }
            };
            let rows = BlockRows::new(bytes.map_err(failed)?, undo);
            self.placement.place(&mut jobs[job], band, (shape, first_row), rows, row).map_err(failed)?;
        }
        report.blocks += 1;
        report.bytes_decoded += shape.len() as u64;
        Ok(())
    }

    /// Decompresses a block into memory of its own.
    fn decompress_to_keep(&self, space: &mut Workspace<'out>, i: usize) -> swath_codec::Result<Vec<u8>> {
        let Workspace { wanted, first, batch, scratch, block, group, .. } = space;
        let BlockRequest { shape, extent, .. } = wanted[i];
        if let Some(decompressed) = take_from(group, i) {
            return decompressed.into_vec();
        }
        let bytes = self.plan.decoder.decompress(batch.get_mut(i - *first), shape, extent, block, scratch)?;
        let at = bytes.as_ptr();
        if at == block.as_ptr() {
            block.truncate(shape.len());
            return Ok(std::mem::take(block));
        }
        // The pixels are where they were fetched to.
        Ok(batch.get(i - *first)[..shape.len()].to_vec())
    }

    /// Places the pixels of a cached block.
    fn place(&self, space: &mut Workspace<'out>, i: usize, pixels: &[u8]) -> Result<()> {
        let block = self.name(space, i);
        let Workspace { jobs, wanted, row, .. } = space;
        let BlockRequest { job, band, shape, first_row, .. } = &wanted[i];
        let rows = BlockRows::Native(pixels);
        let placed = self.placement.place(&mut jobs[*job], *band, (*shape, *first_row), rows, row);
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

/// Returns block `i` if it was decompressed as part of the group.
fn take_from(group: &mut [(usize, GroupBlock)], i: usize) -> Option<Decompressed<'_>> {
    group.iter_mut().find(|(index, _)| *index == i).and_then(|(_, block)| block.take())
}
