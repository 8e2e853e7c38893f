//! The life of a file that is written: rows come in bands, become blocks and smaller rows, and go to the spool.
//!
//! Every level is the same thing: rows arrive in a buffer while those of the buffer before are encoded and reduced. The rows of the
//! full resolution come from the source, those of an overview from the level it is made from. So a step is one set of jobs that do
//! not depend on each other: encode all block rows that are complete, at every level; make all rows of every overview that can be
//! made. Meanwhile the source makes the next band, and what was encoded is appended in order.
//!
//! Nothing here depends on the size of a band: the same blocks and the same overview rows come out, and that is why a streamed file
//! has the bytes of one that was written at once.

mod on_device;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use swath_gpu::{CodecBackend, CutJob, Gpu, Storage, TileCodec, Tiles};
use swath_io::Spool;
use swath_tiff::{Tag, Value};

use crate::device::Device;
use crate::error::{Error, Result};
use crate::fallback::FallbackPolicy;
use crate::nodata::to_nan::nan_to_nodata;
use crate::read::request::{Cancel, Progress, default_threads};
use crate::report::DeviceReport;
use crate::write::copy::PassthroughBlocks;
use crate::write::encode::{EncodedBatch, Run, Scratch};
use crate::write::index::BlockIndex;
use crate::write::plan::Plan;
use crate::write::pyramid::{self, PyramidScratch};
use crate::write::report::WriteReport;
use crate::write::rows::{Rows, RowsView};
use crate::write::source::RowSource;
use crate::write::statistics::{BandStatistics, Partial};

/// Bytes of rows that a write keeps in memory unless told otherwise.
pub const DEFAULT_BUFFER_BYTES: u64 = 256 << 20;

/// A band need not be larger than this to keep all threads busy.
const BAND_BYTES: u64 = 16 << 20;

/// Source bytes of a reduction that are worth being handed to a thread.
const REDUCE_BYTES: u64 = 1 << 20;

/// More threads than this only cost memory.
const MAX_THREADS: usize = 512;

/// How a write is run. It does not change a byte of the file, but for one thing: what [`encoder`](WriteConfig::encoder) a device compresses
/// with. The pixels are the same whoever compresses.
#[derive(Clone, Default)]
pub struct WriteConfig<'a> {
    /// Threads that encode; the default is [`default_threads`].
    pub threads: Option<usize>,
    /// Bytes of rows to keep in memory, [`DEFAULT_BUFFER_BYTES`] unless told otherwise. One row of blocks and one chunk of the source are
    /// kept whatever this says.
    pub buffer_bytes: Option<u64>,
    /// Where blocks are cut and predicted and overviews made.
    pub device: Device,
    /// What to do when the device cannot.
    pub fallback: FallbackPolicy,
    /// Who compresses where a device could: nvCOMP makes other bytes than the CPU's encoders, in the same formats.
    pub encoder: CodecBackend,
    /// By what blocks that a device compressed reach the file.
    pub storage: Storage,
    /// The most device memory to use; what is free, unless told otherwise. A band of rows and its tiles are needed in any case.
    pub gpu_memory_budget: Option<u64>,
    /// Called after each band.
    pub progress: Option<&'a (dyn Fn(Progress) + Send + Sync + 'a)>,
    /// To cancel the write.
    pub cancel: Option<Cancel>,
}

impl std::fmt::Debug for WriteConfig<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let WriteConfig { threads, buffer_bytes, .. } = self;
        f.debug_struct("WriteConfig")
            .field("threads", threads)
            .field("buffer_bytes", buffer_bytes)
            .finish_non_exhaustive()
    }
}

/// Where the blocks of a write wait for their place: those of the full resolution and those of the overviews.
#[derive(Debug)]
pub(crate) struct Spools {
    pub(crate) full: Spool,
    pub(crate) overviews: Spool,
}

/// What a write has made: everything that a commit needs.
#[derive(Debug)]
pub(crate) struct Streamed {
    pub(crate) index: BlockIndex,
    pub(crate) report: WriteReport,
    /// The tags of the codec, where the blocks of the full resolution were taken over.
    pub(crate) stored_tags: Option<Vec<(Tag, Value)>>,
}

impl Streamed {
    /// Nothing yet.
    pub(crate) fn new(plan: &Plan) -> Streamed {
        Streamed { index: BlockIndex::new(plan), report: WriteReport::default(), stored_tags: None }
    }
}

/// Take all rows of a source through the plan into the spools.
pub(crate) fn stream(
    plan: &Plan,
    source: &mut dyn RowSource,
    running: &WriteConfig<'_>,
    spools: &mut Spools,
    streamed: &mut Streamed,
) -> Result<()> {
    let start = Instant::now();
    let (found, planned) = (source.shape(), (plan.width(), plan.height(), plan.bands, plan.dtype));
    if found != planned {
        let text = |(width, height, bands, dtype)| format!("{width} x {height} pixels of {bands} bands of {dtype}");
        return Err(Error::SourceShape { found: text(found), planned: text(planned) });
    }
    let stored = source.stored(plan);
    // Blocks that are taken over as they are need no pixels, unless something is made from them.
    let needs_pixels = stored.is_none() || plan.levels.len() > 1 || plan.measures() || plan.has_mask();
    let threads = running.threads.unwrap_or_else(default_threads).clamp(1, MAX_THREADS);
    let place = match (source.on_device(), running.device.gpu()) {
        (Some(raster), Some(gpu)) if raster.gpu().is(gpu) => PixelsOn::ThisDevice,
        (Some(_), Some(_)) => PixelsOn::Another,
        _ => PixelsOn::Host,
    };
    let worker = worker_for(plan, running, stored.is_some(), place)?;
    let mut used = running.device.gpu().map(DeviceReport::begin);
    let mut state = State::new(plan, stored.as_ref(), running, threads, streamed);
    let bands = bands(plan, source, running.buffer_bytes.unwrap_or(DEFAULT_BUFFER_BYTES));
    let mut reason = None;
    match worker {
        By::Device(gpu, job, not_compressed) => {
            if let Some(reason) = not_compressed {
                state.note_other_way(COMPRESSING, reason, 0)?;
            }
            state.streamed.report.device = gpu.info().api.name();
            let by = job.compress.to_string();
            state.run_on_device(gpu, job, source, &bands, spools)?;
            if let Some(used) = &mut used {
                used.compressed_by = if state.compressed { by } else { TileCodec::None.to_string() };
            }
        }
        By::Cpu(because) => {
            reason = because;
            state.streamed.report.device = "cpu";
            state.run_on_cpu(source, &bands, needs_pixels, spools)?;
        }
    }
    let statistics = state.statistics();
    let (other_ways, written_by) = (std::mem::take(&mut state.other_ways), state.written_by);
    let report = &mut streamed.report;
    if let (Some(gpu), Some(used)) = (running.device.gpu(), &mut used) {
        used.end(gpu);
        used.take_fallbacks(source.device_report());
        if let Some(source) = source.device_report() {
            (used.read_by, used.decoded_by) = (source.read_by.clone(), source.decoded_by.clone());
        }
        if let Some(reason) = reason {
            used.note_fallback("cutting", reason, report.blocks);
        }
        used.written_by = written_by.into();
        for (stage, reason, blocks) in other_ways {
            used.note_fallback(stage, reason, blocks);
        }
        let blocks = plan.levels[0].grid.count().unwrap_or(0);
        if plan.measures() && place == PixelsOn::ThisDevice {
            used.note_fallback("measuring", NO_STATISTICS, blocks);
        }
        if place == PixelsOn::Another {
            used.note_fallback("moving the raster", ANOTHER_DEVICE, blocks);
        }
    }
    report.gpu = match &running.device {
        Device::NoGpu(reason) => Some(DeviceReport::none(reason, report.blocks)),
        Device::Gpu(_) => used,
        // The source may have used one.
        Device::Cpu => source.device_report().cloned(),
    };
    (report.wall_time, report.threads, report.statistics) = (start.elapsed(), threads, statistics);
    streamed.stored_tags = stored.map(|stored| stored.tags);
    // Whoever cancels after the last block does not want the file either.
    if running.cancel.as_ref().is_some_and(Cancel::is_cancelled) { Err(Error::Cancelled) } else { Ok(()) }
}

/// Who cuts the blocks and makes the overviews of a write.
enum By<'a> {
    /// With the reason why it does not compress, where it was asked to.
    Device(&'a Gpu, CutJob, Option<String>),
    /// With the reason, where a device was asked for.
    Cpu(Option<String>),
}

fn worker_for<'a>(plan: &Plan, running: &'a WriteConfig<'_>, taken_over: bool, place: PixelsOn) -> Result<By<'a>> {
    let strict = running.fallback == FallbackPolicy::Strict;
    let gpu = match &running.device {
        Device::Cpu => return Ok(By::Cpu(None)),
        Device::NoGpu(reason) if strict => {
            return Err(Error::Fallback { stage: "everything", reason: reason.clone() });
        }
        Device::NoGpu(_) => return Ok(By::Cpu(None)),
        Device::Gpu(gpu) => gpu,
    };
    let job = if taken_over {
        // Blocks that are taken over as they are need no device, but the overviews beside them would.
        if plan.levels.len() == 1 {
            return Ok(By::Cpu(None));
        }
        Err("the blocks of the full resolution are taken over as they are".into())
    } else {
        on_device::job(plan, gpu)
    };

    match job {
        Ok(_) if strict && plan.measures() && place == PixelsOn::ThisDevice => {
            Err(Error::Fallback { stage: "measuring", reason: NO_STATISTICS.into() })
        }
        Ok(_) if strict && place == PixelsOn::Another => {
            Err(Error::Fallback { stage: "moving the raster", reason: ANOTHER_DEVICE.into() })
        }
        Ok(job) => match on_device::compress(plan, gpu, running.encoder) {
            Ok(compress) => Ok(By::Device(gpu, CutJob { compress, ..job }, None)),
            Err(reason) if strict => Err(Error::Fallback { stage: COMPRESSING, reason }),
            Err(reason) => Ok(By::Device(gpu, job, Some(reason))),
        },
        Err(reason) if strict => Err(Error::Fallback { stage: "cutting", reason }),
        Err(reason) => Ok(By::Cpu(Some(reason))),
    }
}

/// What libraries of NVIDIA's may fail at.
const COMPRESSING: &str = "compressing by NVIDIA's library";
const WRITING: &str = "writing by cuFile";

/// Why the rows of a raster on a device come to the host to be measured.
const NO_STATISTICS: &str = "no kernel makes statistics";

/// Why a raster comes by way of the host.
const ANOTHER_DEVICE: &str = "it lies on another device";

/// Where the pixels of a source lie.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PixelsOn {
    Host,
    ThisDevice,
    Another,
}

/// The bands in which the rows are asked for: whole chunks of the source, at least a row of blocks where the source allows it, and no
/// larger than is useful.
fn bands(plan: &Plan, source: &dyn RowSource, buffer_bytes: u64) -> Vec<Range<u64>> {
    let (height, row_bytes) = (plan.height(), plan.row_bytes(0) as u64);
    // Two bands and the overviews' rows lie in memory at once: together about four bands.
    let most = (buffer_bytes / 4).min(BAND_BYTES) / row_bytes.max(1);
    let most = most.max(plan.levels[0].grid.block_height);
    let chunk_end = |row: u64| source.chunk_end(row).clamp(row + 1, height);
    let mut bands = Vec::new();
    let mut first = 0;
    while first < height {
        let mut end = chunk_end(first);
        while end < height && chunk_end(end) - first <= most {
            end = chunk_end(end);
        }
        bands.push(first..end);
        first = end;
    }
    bands
}

/// The thread of the source: fill each buffer that comes.
fn produce(
    plan: &Plan,
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

/// A write under way.
struct State<'a> {
    plan: &'a Plan,
    stored: Option<&'a PassthroughBlocks>,
    running: &'a WriteConfig<'a>,
    /// The rows of each level that are being encoded and reduced.
    current: Vec<Rows>,
    /// The rows of each overview that are being made.
    next: Vec<Rows>,
    /// The first block row of each level that is not encoded yet.
    block_row: Vec<u64>,
    /// The first row of each level that is not made yet.
    made: Vec<u64>,
    /// Rows of the full resolution that were measured.
    measured: u64,
    partials: Vec<Partial>,
    workers: Vec<Worker>,
    spare: Arc<Spare>,
    /// What libraries of NVIDIA's should have done and did not: what, why, and for how many blocks.
    other_ways: Vec<(&'static str, String, u64)>,
    /// Whether the device compressed anything.
    compressed: bool,
    /// By what the device wrote by itself.
    written_by: &'static str,
    streamed: &'a mut Streamed,
}

/// Buffers of batches that were appended, for batches to come.
#[derive(Default)]
struct Spare(Mutex<Vec<EncodedBatch>>);

impl Spare {
    /// An empty batch of blocks of a level.
    fn take(&self, level: usize) -> EncodedBatch {
        let spare = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        EncodedBatch { level, ..spare.unwrap_or_default() }
    }

    fn give_back(&self, mut encoded: EncodedBatch) {
        encoded.bytes.clear();
        encoded.blocks.clear();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(encoded);
    }
}

/// What a thread keeps from step to step.
#[derive(Default)]
struct Worker {
    encode: Scratch,
    pyramid: PyramidScratch,
}

/// One thing that a thread does.
enum Job<'a> {
    Encode(Run),
    Compress { run: Run, tiles: &'a Tiles },
    Reduce { level: usize, rows: Range<u64>, out: &'a mut [u8], mask: Option<&'a mut [u8]> },
    Statistics(Range<u64>),
}

/// What came of it.
enum Outcome {
    EncodedBatch(EncodedBatch),
    Reduced,
    Measured(Vec<Vec<Partial>>),
}

impl<'a> State<'a> {
    fn new(
        plan: &'a Plan,
        stored: Option<&'a PassthroughBlocks>,
        running: &'a WriteConfig<'a>,
        threads: usize,
        streamed: &'a mut Streamed,
    ) -> State<'a> {
        let rows = |level: usize| {
            let mask = if plan.has_mask() { plan.levels[level].grid.width as usize } else { 0 };
            Rows::new(plan.row_bytes(level), mask)
        };
        let levels = plan.levels.len();
        State {
            plan,
            stored,
            running,
            current: (0..levels).map(rows).collect(),
            next: (0..levels).map(rows).collect(),
            block_row: vec![0; levels],
            made: vec![0; levels],
            measured: 0,
            partials: vec![Partial::default(); plan.bands],
            workers: (0..threads).map(|_| Worker::default()).collect(),
            spare: Arc::default(),
            other_ways: Vec::new(),
            compressed: false,
            written_by: "",
            streamed,
        }
    }

    /// Take all bands of the source through the CPU.
    fn run_on_cpu(
        &mut self,
        source: &mut dyn RowSource,
        bands: &[Range<u64>],
        needs_pixels: bool,
        spools: &mut Spools,
    ) -> Result<()> {
        let plan = self.plan;
        std::thread::scope(|scope| {
            let (empty_to, empty) = channel::<(Rows, Range<u64>)>();
            let (full_to, full) = channel::<Result<Rows>>();
            std::thread::Builder::new()
                .name("swath-source".into())
                .spawn_scoped(scope, move || produce(plan, source, needs_pixels, &empty, &full_to))
                .map_err(|source| Error::Thread { source })?;
            self.run(bands, &empty_to, &full, spools)
        })
    }

    fn run(
        &mut self,
        bands: &[Range<u64>],
        empty: &Sender<(Rows, Range<u64>)>,
        full: &Receiver<Result<Rows>>,
        spools: &mut Spools,
    ) -> Result<()> {
        let room = self.room(0);
        // If the source is gone it has panicked, and the panic is passed on when its thread is joined.
        let ask = |mut rows: Rows, band: &Range<u64>| {
            rows.prepare(band.clone(), room)?;
            empty.send((rows, band.clone())).map_err(|_| Error::Cancelled)
        };
        if let Some(first) = bands.first() {
            ask(std::mem::take(&mut self.next[0]), first)?;
        }
        for at in 0.. {
            let waiting = Instant::now();
            if at < bands.len() {
                let mut rows = full.recv().map_err(|_| Error::Cancelled)??;
                rows.carry(&self.current[0], self.needed_from(0));
                let spent = std::mem::replace(&mut self.current[0], rows);
                if let Some(band) = bands.get(at + 1) {
                    ask(spent, band)?;
                }
                self.made[0] = bands[at].end;
            }
            self.streamed.report.source_wait += waiting.elapsed();
            for level in 1..self.current.len() {
                if self.next[level].end() > self.current[level].end() {
                    let from = self.needed_from(level);
                    self.next[level].carry(&self.current[level], from);
                    std::mem::swap(&mut self.current[level], &mut self.next[level]);
                }
            }
            self.step(spools)?;
            self.note_progress(bands.get(at).map_or(self.plan.height(), |band| band.end));
            if at + 1 >= bands.len() && self.is_done() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.plan.levels.iter().zip(&self.block_row).all(|(level, &row)| row == level.grid.down())
    }

    /// The first row of a level that is still needed: for its next block row, and for the rows made from it.
    fn needed_from(&self, level: usize) -> u64 {
        let block = self.block_row[level] * self.plan.levels[level].grid.block_height;
        let rows = self.children(level).map(|(child, reduction)| {
            let height = self.plan.levels[level].grid.height;
            reduction.source_rows(self.made[child]..self.made[child] + 1, height).start
        });
        rows.fold(block, u64::min)
    }

    /// The most rows of a level that may have to be kept from one step to the next.
    fn room(&self, level: usize) -> u64 {
        let grid = &self.plan.levels[level].grid;
        let reach = |rows: Range<u64>| rows.end - rows.start;
        // Far from the edges, where nothing is cut off.
        let middle = 1 << 32;
        let reductions =
            self.children(level).map(|(_, reduction)| reach(reduction.source_rows(middle..middle + 2, 1 << 60)));
        reductions.fold(grid.block_height, u64::max).min(grid.height)
    }

    /// The levels that are made from a level.
    fn children(&self, level: usize) -> impl Iterator<Item = (usize, &'a crate::write::reduce::Reduction)> {
        let levels = self.plan.levels.iter().enumerate();
        levels.filter_map(move |(child, planned)| {
            planned.reduction.as_ref().filter(|_| planned.parent == level).map(|reduction| (child, reduction))
        })
    }

    /// Do all that can be done with the rows there are.
    fn step(&mut self, spools: &mut Spools) -> Result<()> {
        let mut next = std::mem::take(&mut self.next);
        let current = std::mem::take(&mut self.current);
        let mut workers = std::mem::take(&mut self.workers);
        let views: Vec<RowsView<'_>> = current.iter().map(Rows::view).collect();
        let jobs = self.jobs(&current, &mut next);
        let outcome = jobs.and_then(|jobs| self.work(jobs, &views, &mut workers, spools));
        drop(views);
        self.workers = workers;
        self.streamed.report.peak_buffer_bytes = self
            .streamed
            .report
            .peak_buffer_bytes
            .max(current.iter().chain(&next).map(Rows::capacity).sum::<u64>() + current[0].capacity());
        (self.current, self.next) = (current, next);
        outcome
    }

    /// The jobs of a step: first the blocks, in the order in which they are appended, then the short ones.
    fn jobs<'b>(&mut self, current: &[Rows], next: &'b mut [Rows]) -> Result<Vec<Job<'b>>> {
        let mut jobs = Vec::new();
        for (level, rows) in current.iter().enumerate() {
            let grid = &self.plan.levels[level].grid;
            let complete = if rows.end() == grid.height { grid.down() } else { rows.end() / grid.block_height };
            for row in self.block_row[level]..complete {
                jobs.extend(self.plan.runs(level, row).map(Job::Encode));
            }
            self.block_row[level] = self.block_row[level].max(complete);
        }
        for (level, out) in next.iter_mut().enumerate().skip(1) {
            let planned = &self.plan.levels[level];
            let Some(reduction) = &planned.reduction else { continue };
            let parent = &self.plan.levels[planned.parent].grid;
            let available = current[planned.parent].end();
            let first = self.made[level];
            let end = pyramid::makeable(reduction, first, available, parent.height, planned.grid.height);
            if end == first {
                continue;
            }
            out.prepare(first..end, self.room(level))?;
            self.made[level] = end;
            let source_row = self.plan.row_bytes(planned.parent) as u64 * reduction.factor as u64;
            let step = (REDUCE_BYTES / source_row.max(1)).max(1) as usize;
            let (row_bytes, width) = (self.plan.row_bytes(level), planned.grid.width as usize);
            let (samples, mask) = out.fill();
            let mut masks = mask.map(|mask| mask.chunks_mut(step * width));
            let starts = (first..end).step_by(step);
            for (start, out) in starts.zip(samples.chunks_mut(step * row_bytes)) {
                let rows = start..(start + step as u64).min(end);
                let mask = masks.as_mut().and_then(Iterator::next);
                jobs.push(Job::Reduce { level, rows, out, mask });
            }
        }
        if self.plan.measures() {
            let end = current[0].end();
            let step = (REDUCE_BYTES / self.plan.row_bytes(0).max(1) as u64).max(1);
            let starts = (self.measured..end).step_by(step as usize);
            jobs.extend(starts.map(|start| Job::Statistics(start..(start + step).min(end))));
            self.measured = end;
        }
        Ok(jobs)
    }

    /// Do the jobs on all threads, and append what they encode in the order of the jobs.
    fn work(
        &mut self,
        jobs: Vec<Job<'_>>,
        views: &[RowsView<'_>],
        workers: &mut [Worker],
        spools: &mut Spools,
    ) -> Result<()> {
        let count = jobs.len();
        let jobs: Vec<Mutex<Option<Job<'_>>>> = jobs.into_iter().map(|job| Mutex::new(Some(job))).collect();
        let (taken, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (plan, stored, cancel) = (self.plan, self.stored, self.running.cancel.as_ref());
        let spare = Arc::clone(&self.spare);
        let (jobs, taken, stop, spare) = (&jobs, &taken, &stop, &*spare);
        let (done_to, done) = channel::<(usize, Result<Outcome>)>();
        std::thread::scope(|scope| {
            let mut started = 0;
            for worker in workers.iter_mut().take(count) {
                let done_to = done_to.clone();
                let work = move || {
                    while !stop.load(Ordering::Relaxed) {
                        let at = taken.fetch_add(1, Ordering::Relaxed);
                        let Some(job) = jobs.get(at) else { return };
                        let job = job.lock().unwrap_or_else(PoisonError::into_inner).take();
                        let Some(job) = job else { return };
                        let outcome = if cancel.is_some_and(Cancel::is_cancelled) {
                            Err(Error::Cancelled)
                        } else {
                            do_job(plan, stored, spare, job, views, worker)
                        };
                        if done_to.send((at, outcome)).is_err() {
                            return;
                        }
                    }
                };
                match std::thread::Builder::new().name("swath-encode".into()).spawn_scoped(scope, work) {
                    Ok(_) => started += 1,
                    // Fewer threads than asked for still write everything.
                    Err(_) if started > 0 => {}
                    Err(source) => return Err(Error::Thread { source }),
                }
            }
            drop(done_to);
            let mut early: Vec<Option<Outcome>> = Vec::new();
            early.resize_with(count, || None);
            let mut appended = 0;
            for (at, outcome) in done {
                let taken = outcome.and_then(|outcome| {
                    early[at] = Some(outcome);
                    while let Some(outcome) = early.get_mut(appended).and_then(Option::take) {
                        appended += 1;
                        self.take(outcome, spools)?;
                    }
                    Ok(())
                });
                if taken.is_err() {
                    stop.store(true, Ordering::Relaxed);
                    return taken;
                }
            }
            Ok(())
        })
    }

    /// Put away what came of a job.
    fn take(&mut self, outcome: Outcome, spools: &mut Spools) -> Result<()> {
        match outcome {
            Outcome::Reduced => {}
            Outcome::Measured(rows) => {
                for row in rows {
                    self.partials.iter_mut().zip(row).for_each(|(partial, row)| partial.merge(&row));
                }
            }
            Outcome::EncodedBatch(encoded) => {
                let Streamed { index, report, .. } = &mut *self.streamed;
                spools.append(&encoded, index, report)?;
                if self.stored.is_some() && encoded.level == 0 {
                    report.copied_blocks += encoded.blocks.iter().filter(|block| !block.mask).count() as u64;
                }
                self.spare.give_back(encoded);
            }
        }
        Ok(())
    }

    /// Something was not done in the way that was asked for.
    fn note_other_way(&mut self, stage: &'static str, reason: String, blocks: u64) -> Result<()> {
        if self.running.fallback == FallbackPolicy::Strict {
            return Err(Error::Fallback { stage, reason });
        }
        self.other_ways.push((stage, reason, blocks));
        Ok(())
    }

    fn note_progress(&self, rows: u64) {
        if let Some(progress) = self.running.progress {
            progress(Progress { done: rows, total: self.plan.height() });
        }
    }

    fn statistics(&self) -> Vec<BandStatistics> {
        if self.plan.measures() { self.partials.iter().map(Partial::finish).collect() } else { Vec::new() }
    }
}

fn do_job(
    plan: &Plan,
    stored: Option<&PassthroughBlocks>,
    spare: &Spare,
    job: Job<'_>,
    views: &[RowsView<'_>],
    worker: &mut Worker,
) -> Result<Outcome> {
    match job {
        Job::Encode(run) => {
            let mut encoded = spare.take(run.level);
            match stored.filter(|_| run.level == 0) {
                Some(stored) => stored.copy_run(plan, &run, &views[run.level], &mut worker.encode, &mut encoded)?,
                None => plan.encode_run(&run, &views[run.level], &mut worker.encode, &mut encoded)?,
            }
            Ok(Outcome::EncodedBatch(encoded))
        }
        Job::Compress { run, tiles } => {
            let mut encoded = spare.take(run.level);
            plan.compress_run(&run, tiles, &mut worker.encode, &mut encoded)?;
            Ok(Outcome::EncodedBatch(encoded))
        }
        Job::Reduce { level, rows, out, mask } => {
            let view = &views[plan.levels[level].parent];
            pyramid::reduce(plan, level, view, rows, out, mask, &mut worker.pyramid);
            Ok(Outcome::Reduced)
        }
        Job::Statistics(rows) => Ok(Outcome::Measured(pyramid::measure(plan, &views[0], rows, &mut worker.pyramid))),
    }
}
