//! The life of a window: blocks are chosen, fetched in batches, decoded, and placed straight into the caller's buffer.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use swath_codec::place::{Every, copy};
use swath_codec::{Decoder, RowAccess, Scratch};
use swath_io::{Batch, Span};
use swath_tiff::{Limits, Window};

use crate::dataset::level::Level;
use crate::device::Device;
use crate::error::{BlockName, Error, Result};
use crate::read::cache::BlockCache;
use crate::read::color::Conversion;
use crate::read::gpu;
use crate::read::output_splitter::{Job, OutputSplitter};
use crate::read::placement::Placement;
use crate::read::plan::{BlockRequest, Place, locate};
use crate::read::prefetch;
use crate::read::request::{Cancel, FallbackPolicy, Layout, OnCorrupt, Progress, ReadRequest, default_threads};
use crate::report::{DeviceReport, ReadReport};

/// Decoded bytes that one batch aims at: enough to make a request worth its cost, small enough to stay in cache and to
/// share the work evenly.
const BATCH_BYTES: u64 = 1 << 20;

/// Decoded bytes that are worth a thread: to start and to end one takes as long as decoding some ten thousand, or as copying
/// some hundred thousand.
const THREAD_BYTES: u64 = 128 << 10;
const THREAD_BYTES_UNCOMPRESSED: u64 = 1 << 20;

/// Blocks that one batch may have: what is known about each takes more memory than the pixels of a very small one.
const BATCH_BLOCKS: u64 = 4096;

/// Compressed bytes that are fetched at once, if there is more than one block. Far more than a batch has in an honest file;
/// but blocks may lie on top of each other.
const FETCH_BYTES: u64 = 8 << 20;

/// A read that was checked against its level: window and bands exist, the sizes fit.
pub(crate) struct ReadPlan {
    pub(crate) window: Window,
    pub(crate) bands: Vec<usize>,
    pub(crate) samples: usize,
}

impl ReadPlan {
    /// Check a request against the level that it is for.
    pub(crate) fn new(level: &Level, request: &ReadRequest<'_>, limits: &Limits) -> Result<ReadPlan> {
        ReadPlan::with_bands(level, level.bands(), request, limits)
    }

    /// The window and the bands that a request asks of a level.
    pub(crate) fn window_and_bands(level: &Level, request: &ReadRequest<'_>) -> Result<(Window, Vec<usize>)> {
        ReadPlan::choose(level, level.bands(), request)
    }

    fn choose(level: &Level, count: usize, request: &ReadRequest<'_>) -> Result<(Window, Vec<usize>)> {
        let (width, height) = (level.layout.grid.width, level.layout.grid.height);
        let (rows, cols) = request.window.clone().unwrap_or((0..height, 0..width));
        let window = Window::new(rows.clone(), cols.clone(), width, height).ok_or(Error::Window {
            rows,
            cols,
            width,
            height,
        })?;
        let bands = request.bands.clone().unwrap_or_else(|| (0..count).collect());
        match bands.iter().find(|&&band| band >= count) {
            Some(&band) => Err(Error::Band { band, count }),
            None => Ok((window, bands)),
        }
    }

    /// The same for the samples as stored, of which there may be another number than there are bands.
    fn with_bands(level: &Level, count: usize, request: &ReadRequest<'_>, limits: &Limits) -> Result<ReadPlan> {
        let (window, bands) = ReadPlan::choose(level, count, request)?;
        let limit = |what, name, value: Option<u64>, limit| match value {
            Some(value) if value <= limit => Ok(value),
            value => Err(Error::Limit { what, name, value: value.unwrap_or(u64::MAX), limit }),
        };
        let pixels = window.width().checked_mul(window.height());
        let samples = pixels.and_then(|pixels| pixels.checked_mul(bands.len() as u64));
        let samples = limit("pixels times bands of this read", "max_pixels", samples, limits.max_pixels)?;
        let block = level.blocks.grid.block_width.checked_mul(level.blocks.grid.block_height);
        let block = block.and_then(|pixels| pixels.checked_mul(u64::from(level.layout.block_samples())));
        limit("pixels times samples of one block", "max_block_pixels", block, limits.max_block_pixels)?;
        Ok(ReadPlan { window, bands, samples: samples as usize })
    }
}

/// Read a checked window of a level into `out`, which must have the exact size.
pub(crate) fn read_into(
    level: &Level,
    request: &ReadRequest<'_>,
    checked: &ReadPlan,
    limits: &Limits,
    out: &mut [u8],
) -> Result<ReadReport> {
    let needed = checked.samples as u64 * level.dtype.size() as u64;
    if out.len() as u64 != needed {
        return Err(Error::BufferSize { buffer: out.len(), needed });
    }
    match &request.device {
        Device::Gpu(gpu) => gpu::read_into(level, gpu, request, checked, limits, out),
        Device::Cpu => read_on_cpu(level, request, checked, limits, out),
        Device::NoGpu(reason) if request.fallback == FallbackPolicy::Strict => {
            Err(Error::Fallback { stage: "everything", reason: reason.clone() })
        }
        Device::NoGpu(reason) => {
            let mut report = read_on_cpu(level, request, checked, limits, out)?;
            report.gpu = Some(DeviceReport::none(reason, report.blocks));
            Ok(report)
        }
    }
}

/// Read a checked window of a level into `out` by the CPU.
pub(crate) fn read_on_cpu(
    level: &Level,
    request: &ReadRequest<'_>,
    checked: &ReadPlan,
    limits: &Limits,
    out: &mut [u8],
) -> Result<ReadReport> {
    match &level.conversion {
        None => read_stored(level, request, checked, limits, out),
        Some(conversion) => read_converted(level, conversion, request, checked, limits, out),
    }
}

/// Read colours that have to be converted: all stored samples first, pixel by pixel, then the bands asked for.
fn read_converted(
    level: &Level,
    conversion: &Conversion,
    request: &ReadRequest<'_>,
    checked: &ReadPlan,
    limits: &Limits,
    out: &mut [u8],
) -> Result<ReadReport> {
    let samples = usize::from(level.layout.samples);
    let all = request.clone().bands((0..samples).collect::<Vec<_>>()).layout(Layout::BandsLast);
    let stored = ReadPlan::with_bands(level, samples, &all, limits)?;
    let mut raw = vec![0; stored.samples];
    let report = read_stored(level, &all, &stored, limits, &mut raw)?;
    let bands = conversion.bands();
    let mut converted = vec![0; raw.len() / samples * bands];
    conversion.convert(samples, &raw, &mut converted);
    let plane = out.len() / checked.bands.len().max(1);
    for (i, &band) in checked.bands.iter().enumerate() {
        let from = Every::nth(band, bands);
        match request.layout {
            Layout::BandsFirst => copy(1, &converted, from, &mut out[i * plane..(i + 1) * plane], Every::SAMPLE),
            Layout::BandsLast => copy(1, &converted, from, out, Every::nth(i, checked.bands.len())),
        }
    }
    Ok(report)
}

/// Read samples as they are stored.
fn read_stored(
    level: &Level,
    request: &ReadRequest<'_>,
    checked: &ReadPlan,
    limits: &Limits,
    out: &mut [u8],
) -> Result<ReadReport> {
    let start = Instant::now();
    let decoder = level.decoder(limits)?;
    let mut report = ReadReport { device: "cpu", codec: decoder.name, threads: 1, ..ReadReport::default() };
    if out.is_empty() {
        return Ok(report);
    }
    // Rows that lie in a file of this machine as they are cost no more than those of a kept block: the system keeps them already.
    let rows_alone = decoder.row_access() == RowAccess::Any;
    let kept_by_system = rows_alone && !level.source.is_high_latency();
    let cache = request.cache.as_ref().filter(|_| !kept_by_system);
    let ahead = prefetch::fetch(level, &decoder, checked, limits, cache);
    let level = ahead.as_ref().unwrap_or(level);

    let grid = level.blocks.grid;
    let scatter = OutputSplitter::new(out, grid, checked.window, &checked.bands, level.dtype.size(), request.layout);
    let (rows, cols) = (grid.block_rows(&checked.window), grid.block_cols(&checked.window));
    let positions = (rows.end - rows.start) * (cols.end - cols.start);
    let groups = scatter.group_count() as u64;
    let blocks_per_job = if grid.planes > 1 && groups == 1 { checked.bands.len() as u64 } else { 1 };
    let jobs = positions * groups;
    let kept = cache.map_or(0, |cache| cache.count(level, checked));
    let blocks = jobs.saturating_mul(blocks_per_job);
    let work = match rows_alone {
        true => checked.samples as u64 * level.dtype.size() as u64,
        false => blocks.saturating_sub(kept).saturating_mul(level.block_bytes()),
    };
    let worth = if decoder.is_copy() { THREAD_BYTES_UNCOMPRESSED } else { THREAD_BYTES };
    let threads = request.threads.unwrap_or_else(default_threads).clamp(1, (work / worth).max(1) as usize);
    let batch_jobs = (BATCH_BYTES / level.block_bytes().max(1)).min(BATCH_BLOCKS / blocks_per_job.max(1));
    let batch_jobs = batch_jobs.clamp(1, (jobs / (4 * threads as u64)).max(1)) as usize;

    let reading = Reading {
        level,
        decoder: &decoder,
        placement: Placement::new(level, checked, request.layout),
        bands: &checked.bands,
        limits,
        on_corrupt: request.on_corrupt,
        scatter: Mutex::new(scatter),
        batch_jobs,
        cache,
        stop: AtomicBool::new(false),
        cancel: request.cancel.as_ref(),
        done: AtomicU64::new(0),
        total: jobs * blocks_per_job,
        progress: request.progress,
    };
    let workers = threads.min(jobs.div_ceil(batch_jobs as u64) as usize);
    let mut outcomes = Vec::with_capacity(workers);
    if workers > 1 {
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..workers)
                .map(|_| std::thread::Builder::new().name("swath-read".into()).spawn_scoped(scope, || reading.work()))
                .collect();
            outcomes.push(reading.work());
            for other in others {
                outcomes.push(match other.map(std::thread::ScopedJoinHandle::join) {
                    Ok(Ok(outcome)) => outcome,
                    Ok(Err(panic)) => std::panic::resume_unwind(panic),
                    // Fewer threads than asked for still read everything.
                    Err(_) => Ok(ReadReport::default()),
                });
            }
        });
    } else {
        outcomes.push(reading.work());
    }
    report.threads = workers;
    for outcome in outcomes {
        report.merge(outcome?);
    }
    report.wall_time = start.elapsed();
    Ok(report)
}

/// What the worker threads share.
struct Reading<'a, 'out> {
    level: &'a Level,
    decoder: &'a Decoder,
    placement: Placement,
    bands: &'a [usize],
    limits: &'a Limits,
    on_corrupt: OnCorrupt,
    scatter: Mutex<OutputSplitter<'out>>,
    batch_jobs: usize,
    cache: Option<&'a BlockCache>,
    stop: AtomicBool,
    cancel: Option<&'a Cancel>,
    done: AtomicU64,
    total: u64,
    progress: Option<&'a (dyn Fn(Progress) + Send + Sync + 'a)>,
}

/// What a worker keeps from batch to batch, so that nothing is allocated per block.
#[derive(Default)]
struct Workspace<'out> {
    jobs: Vec<Job<'out>>,
    wanted: Vec<BlockRequest>,
    spans: Vec<Span>,
    /// The blocks that `batch` holds: from `first` up to, not including, `fetched`.
    first: usize,
    fetched: usize,
    batch: Batch,
    scratch: Scratch,
    block: Vec<u8>,
    row: Vec<u8>,
}

impl<'out> Reading<'_, 'out> {
    /// Work until nothing is left, or until this or another worker fails.
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
        // A poisoned lock means that another worker panicked; its panic is passed on when it is joined.
        let Ok(mut scatter) = self.scatter.lock() else { return false };
        jobs.extend(std::iter::from_fn(|| scatter.next()).take(self.batch_jobs));
        !jobs.is_empty()
    }

    /// Fetch the blocks of some jobs, decode each and place it.
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
        if let Some(progress) = self.progress {
            progress(Progress { done, total: self.total });
        }
        Ok(())
    }

    /// Decode and place the blocks that lie in the batch.
    fn decode_fetched(&self, space: &mut Workspace<'out>, report: &mut ReadReport) -> Result<()> {
        for i in space.first..space.fetched {
            if self.cancel.is_some_and(Cancel::is_cancelled) {
                return Err(Error::Cancelled);
            }
            let result = match space.wanted[i].problem.take() {
                Some(problem) => Err(problem),
                None => self.decode_and_place(space, i, report),
            };
            match result {
                Ok(()) => {}
                Err(error) if self.on_corrupt == OnCorrupt::Fill => {
                    let name = self.name(space, i);
                    self.fill(space, i);
                    report.note_filled(name, error);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Find the blocks of the jobs and the part of each that is needed.
    fn locate(&self, space: &mut Workspace<'out>) -> Result<()> {
        space.wanted.clear();
        (space.first, space.fetched) = (0, 0);
        let planar = self.level.blocks.grid.planes > 1;
        for (at, job) in space.jobs.iter().enumerate() {
            // In a planar file a job has a block per band, in a chunky file one for all.
            let bands = match (planar, self.placement.layout) {
                (false, _) => 0..1,
                (true, Layout::BandsFirst) => job.group..job.group + 1,
                (true, Layout::BandsLast) => 0..self.bands.len(),
            };
            let cache = self.cache_for(job);
            let access = if cache.is_some() { RowAccess::All } else { self.decoder.row_access() };
            for band in bands {
                let plane = if planar { self.bands[band] as u64 } else { 0 };
                let place = Place { plane, row: job.row, col: job.col };
                let mut wanted = BlockRequest::new(self.level, access, place, job.rows.clone(), at, band);
                wanted.kept = cache.and_then(|cache| cache.get(self.level, place));
                space.wanted.push(wanted);
            }
        }
        locate(self.level, self.decoder, self.limits, &mut space.wanted, &mut space.spans)
    }

    /// Fetch all blocks at once, or as many as fit. If that fails and corrupt blocks are to be filled, find out which it is.
    fn fetch(&self, space: &mut Workspace<'out>) -> Result<()> {
        space.first = space.fetched;
        space.fetched += Batch::affordable(&space.spans[space.first..], FETCH_BYTES);
        let range = space.first..space.fetched;
        let fetch = |space: &mut Workspace<'out>, range| self.level.source.fetch(&space.spans[range], &mut space.batch);
        let Err(source) = fetch(space, range.clone()) else { return Ok(()) };
        let error = |space: &Workspace<'out>, i: usize, source| Error::Fetch {
            file: self.level.file.clone(),
            block: self.name(space, i),
            offset: space.spans[i].offset,
            len: space.spans[i].len,
            source,
        };
        if self.on_corrupt == OnCorrupt::Fail {
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

    /// The cache, for a job that uses a part of its blocks.
    fn cache_for(&self, job: &Job<'out>) -> Option<&BlockCache> {
        self.cache.filter(|cache| cache.wants(self.level, (job.row, job.col), &job.rows, &job.cols))
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
        let BlockRequest { place, job, band, shape, extent, first_row, .. } = &wanted[i];
        let pixels = self
            .decoder
            .decode(batch.get_mut(i - *first), *shape, *extent, block, scratch)
            .map_err(|source| Error::Block { file: self.level.file.clone(), block: name, source })?;
        report.blocks += 1;
        report.bytes_decoded += shape.len() as u64;
        let placed = self.placement.place(&mut jobs[*job], *band, *shape, *first_row, pixels, row);
        placed.map_err(|source| Error::Block { file: self.level.file.clone(), block: name, source })?;
        if let Some(cache) = self.cache_for(&jobs[*job]) {
            // What was decoded into the worker's own memory is handed over as it is; else it lies where it was fetched to.
            let (at, len) = (pixels.as_ptr(), shape.len());
            let own = at == block.as_ptr();
            let pixels = if own {
                block.truncate(len);
                std::mem::take(block)
            } else {
                batch.get(i - *first)[..len].to_vec()
            };
            cache.keep(self.level, *place, pixels);
        }
        Ok(())
    }

    /// Place the pixels of a block that were kept.
    fn place(&self, space: &mut Workspace<'out>, i: usize, pixels: &[u8]) -> Result<()> {
        let block = self.name(space, i);
        let Workspace { jobs, wanted, row, .. } = space;
        let BlockRequest { job, band, shape, first_row, .. } = &wanted[i];
        let placed = self.placement.place(&mut jobs[*job], *band, *shape, *first_row, pixels, row);
        placed.map_err(|source| Error::Block { file: self.level.file.clone(), block, source })
    }

    /// Fill the pixels of a block with nodata, or with 0 when there is none.
    fn fill(&self, space: &mut Workspace<'out>, i: usize) {
        let BlockRequest { job, band, .. } = space.wanted[i];
        self.placement.fill(&mut space.jobs[job], band, &self.level.fill);
    }

    fn name(&self, space: &Workspace<'out>, i: usize) -> BlockName {
        space.wanted[i].place.name(self.level)
    }
}
