//! Encodes a file with a device: the device receives strips of rows, and returns tiles of all levels,
//! extracted and predicted, ready for compression.
//!
//! Three threads work at the same time: the source fills a strip in pinned memory, the device works on the
//! previous strip, and the CPU compresses the tiles of the strip before that, unless the device has
//! compressed them too. The blocks equal those of the CPU. If the CPU compresses them, the bytes are equal
//! too.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Instant;

use swath_codec::Predictor;
use swath_gpu::{
    DeviceRaster, Downsample, EncodeJob, EncodeLevel, EncoderBackend, Gpu, InputRows, LevelStep, Pinned, Storage,
    TileCodec, TileEncoder, Tiles,
};
use swath_io::{Span, Spool};
use swath_tiff::BlockGrid;

use super::workers::{Job, job_ranges};
use super::{Streamed, WriteState, strips};
use crate::error::{Error, Result};
use crate::fallback::write::{NextPush, Unsupported, after_push_error};
use crate::nodata::to_nan::nan_to_nodata;
use crate::read;
use crate::write::config::WriteConfig;
use crate::write::plan::{PlannedLevel, WritePlan};
use crate::write::rows::RowsView;
use crate::write::schedule::{self, Schedule};
use crate::write::source::RowSource;

/// Strips that are in use at the same time: one is filled, one is on the device, and the statistics of one
/// are computed.
const STRIPS_IN_USE: usize = 3;

/// The row buffers of a write with a device, unless the caller sets their size: a strip is a quarter, which is hundreds of tiles.
pub(super) const DEFAULT_BUFFER_BYTES: u64 = 512 << 20;

/// The device memory of a write, in strips: rows of all levels, tiles, and the memory of an encoder, which is up to 2.3 times the tiles.
const STRIPS_ON_DEVICE: u64 = 10;

/// The strips that each of several devices gets, at least, so that their work overlaps.
const STRIPS_PER_DEVICE: u64 = 2;

/// A strip is at most this part of the row buffers, see `strips.rs`.
const BUFFER_STRIPS: u64 = 4;

/// The largest strip whose encoding fits in the caller's budget, or in the share of the free memory that a write takes without one.
///
/// Several devices take turns, so each gets several strips, of whole blocks if possible.
pub(super) fn strip_bytes(plan: &WritePlan, config: &WriteConfig<'_>, gpus: &[Gpu]) -> Result<u64> {
    let mut largest = u64::MAX;
    for gpu in gpus {
        largest = largest.min(read::gpu::budget(config.gpu_memory_budget, gpu)? / STRIPS_ON_DEVICE);
    }
    if gpus.len() == 1 || plan.levels.len() > 1 {
        return Ok(largest);
    }
    let grid = &plan.levels[0].grid;
    let block_row = (plan.row_bytes(0) as u64).saturating_mul(grid.block_height).max(1);
    let buffer = config.buffer_bytes.unwrap_or(DEFAULT_BUFFER_BYTES) / BUFFER_STRIPS;
    let turns = (grid.down() / (STRIPS_PER_DEVICE * gpus.len() as u64)).max(1);
    Ok((largest.min(buffer) / block_row).clamp(1, turns) * block_row)
}

/// The rows of each strip: as they were planned, or lower.
type StripRows<'a> = Cow<'a, [Range<u64>]>;

/// A strip of rows of the full resolution.
struct Strip {
    rows: Range<u64>,
    memory: StripMemory,
}

/// Where the rows of a strip are.
enum StripMemory {
    /// In pinned memory of the host.
    Host(Pinned),
    /// On the device, in a raster that holds only the strip.
    Device(DeviceRaster),
    /// On the device, in the raster that is written.
    Image(DeviceRaster),
    /// On the device, in the raster that is written, and in pinned host memory for the statistics.
    ImageAndHost(DeviceRaster, Pinned),
}

impl StripMemory {
    /// The rows in host memory.
    fn on_host(&self) -> Option<&Pinned> {
        match self {
            StripMemory::Host(memory) | StripMemory::ImageAndHost(_, memory) => Some(memory),
            StripMemory::Device(_) | StripMemory::Image(_) => None,
        }
    }

    /// Returns the rows in the form that the encoder accepts.
    fn input(&self) -> InputRows<'_> {
        match self {
            StripMemory::Host(memory) => InputRows::Host(memory),
            StripMemory::Device(raster) => InputRows::Strip { raster, first: 0 },
            StripMemory::Image(raster) | StripMemory::ImageAndHost(raster, _) => InputRows::Image(raster),
        }
    }
}

/// A strip on its way to the device.
enum InputStrip {
    /// With its memory.
    Here(Strip),
    /// These rows, whose memory the encoder has while it uploads them.
    Ahead(Range<u64>),
}

/// The tiles that the device made from a strip, and the strip.
struct EncodedStrip {
    tiles: Vec<Tiles>,
    strip: Strip,
}

/// Returns the job of the device for a plan.
///
/// # Errors
/// The reason why the device does not support it.
pub(super) fn job(plan: &WritePlan, gpu: &Gpu) -> std::result::Result<EncodeJob, Unsupported> {
    if plan.has_mask() {
        return Err(Unsupported::Mask);
    }
    let size = plan.dtype.size();
    if usize::from(plan.bits) != size * 8 {
        return Err(Unsupported::PackedSamples);
    }
    let levels = plan.levels.iter().map(|planned| level(plan, planned, gpu));
    let levels = levels.collect::<std::result::Result<_, Unsupported>>()?;
    let predictor = plan.encoder.predictor;
    if predictor == Predictor::Horizontal && size > 8 {
        return Err(Unsupported::Predictor);
    }
    let nan_to_nodata = plan.nodata.filter(|_| plan.changes_pixels()).map(|nodata| {
        let mut sample = [0xff; 8];
        nan_to_nodata(plan.dtype, nodata, &mut sample[..size]);
        sample[size..].fill(0);
        u64::from_ne_bytes(sample)
    });
    let (predictor, compress) = (predictor.tag().into(), TileCodec::None);
    let job = EncodeJob { levels, bands: plan.bands, size, predictor, nan_to_nodata, compress };
    // The driver compiles the kernels, which can fail.
    gpu.can_encode(&job).map_err(Unsupported::Kernel)?;
    Ok(job)
}

/// Returns the job of the device for a level.
fn level(plan: &WritePlan, planned: &PlannedLevel, gpu: &Gpu) -> std::result::Result<EncodeLevel, Unsupported> {
    let downsample = match &planned.reduction {
        None => None,
        Some(reduction) => {
            let (dtype, method, factor) = (plan.dtype, reduction.method.name(), reduction.factor);
            let rules = reduction.for_device().ok_or(Unsupported::Resampling { dtype, method, factor })?;
            if rules.needs_doubles() && !gpu.info().doubles {
                return Err(Unsupported::NoDoubles);
            }
            Some(Downsample {
                parent: planned.parent,
                dtype: rules.dtype,
                method: rules.method,
                alpha: plan.alpha.map_or(u32::MAX, |band| band as u32),
                low: rules.low,
                high: rules.high,
                fill: rules.fill,
                beside: rules.beside,
                any: rules.any,
            })
        }
    };
    let BlockGrid { width, height, block_width, block_height, planes, tiled } = planned.grid;
    Ok(EncodeLevel { width, height, block_width, block_height, tiled, planes, downsample })
}

/// Returns the codec that compresses the tiles on the device.
///
/// # Errors
/// The reason why the device cannot compress them, if `encoder` requires that.
pub(super) fn tile_codec(
    plan: &WritePlan,
    gpu: &Gpu,
    encoder: EncoderBackend,
) -> std::result::Result<TileCodec, Unsupported> {
    let shape = plan.block_shape(0, plan.levels[0].grid.block_height);
    let codec = TileCodec::new(gpu, &plan.encoder.compress, shape, encoder).map_err(Unsupported::Codec)?;
    let thin = |grid: &BlockGrid| grid.block_width.min(grid.decoded_height(grid.down() - 1)) < codec.least_side();
    let unsupported = if !codec.has_bytes_of_cpu() && plan.options.skip_empty {
        Unsupported::EmptyBlocks
    } else if plan.levels.iter().any(|level| thin(&level.grid)) {
        Unsupported::ThinPictures(codec)
    } else {
        return Ok(codec);
    };
    if encoder == EncoderBackend::Auto { Ok(TileCodec::None) } else { Err(unsupported) }
}

/// The devices that encode the strips of a write in turns: all of them, or the first alone.
///
/// Overviews need rows of several strips, a raster on a device is read there, and cuFile appends from one device. A device that would
/// compress in another way would make other bytes.
fn sharing<'g>(
    state: &WriteState<'_>,
    gpus: &'g [Gpu],
    codec: TileCodec,
    source: &dyn RowSource,
    strips: &[Range<u64>],
) -> &'g [Gpu] {
    let plan = state.plan;
    let independent = plan.levels.len() == 1 && has_whole_blocks(plan, strips);
    let from_host = source.on_device().is_none() && state.config.storage != Storage::CuFile;
    let same = |gpu: &Gpu| job(plan, gpu).is_ok() && tile_codec(plan, gpu, state.config.encoder).ok() == Some(codec);
    if strips.len() > 1 && independent && from_host && gpus.iter().skip(1).all(same) { gpus } else { &gpus[..1] }
}

/// Whether strips end where rows of blocks end, so that no device needs rows of two strips.
fn has_whole_blocks(plan: &WritePlan, strips: &[Range<u64>]) -> bool {
    strips.iter().all(|strip| strip.start % plan.levels[0].grid.block_height == 0)
}

/// Passes all strips of the source through the devices, in turns if there are several. `job` is that of the first device.
pub(super) fn run(
    state: &mut WriteState<'_>,
    gpus: &[Gpu],
    job: &EncodeJob,
    source: &mut dyn RowSource,
    strips: &[Range<u64>],
) -> Result<()> {
    let codec = job.compress;
    if let Some(stream) = &state.config.stream {
        // The pixels of a write with a stream are on a device, and that device alone encodes them.
        gpus[0].follow_stream(stream)?;
    }
    let sharing = sharing(state, gpus, codec, source, strips);
    let row_bytes = state.plan.row_bytes(0);
    let (strips, memory) = state.strips_in_memory(sharing, source, strips)?;
    let strips = &*strips;
    // With little memory the strips are lower than planned.
    let gpus = if has_whole_blocks(state.plan, strips) { sharing } else { &sharing[..1] };
    state.devices = gpus.len();
    let budget = state.config.gpu_memory_budget.unwrap_or(u64::MAX);
    let mut encoders =
        gpus.iter().map(|gpu| gpu.encoder(job.clone(), budget)).collect::<swath_gpu::Result<Vec<_>>>()?;
    if let ([gpu], [encoder]) = (gpus, encoders.as_mut_slice()) {
        state.set_up_direct_write(gpu, codec, encoder)?;
    }
    std::thread::scope(|scope| {
        let (empty_to, empty) = channel::<StripMemory>();
        // The receiver exists, so this cannot fail.
        memory.into_iter().for_each(|memory| drop(empty_to.send(memory)));
        let (mut full_to, mut lines) = (Vec::new(), Vec::new());
        for encoder in encoders {
            // A strip that is ready is uploaded while the device works on the one before it. The memory limits their number.
            let (to, full) = sync_channel::<Result<Strip>>(STRIPS_IN_USE);
            let (encoded_to, encoded) = sync_channel::<Result<EncodedStrip>>(1);
            let (spent_to, spent) = channel::<Pinned>();
            let mut pusher = Pusher { encoder, plan: state.plan, spent, next_row: 0 };
            spawn(scope, "swath-device", move || pusher.run(&full, &encoded_to))?;
            full_to.push(to);
            lines.push(DeviceLine { encoded, spent: spent_to });
        }
        spawn(scope, "swath-source", move || produce(source, strips, row_bytes, &empty, &full_to))?;
        state.compress_strips(codec, &lines, &empty_to)
    })
}

/// The ends of a device's channels that the thread of the write has.
struct DeviceLine {
    encoded: Receiver<Result<EncodedStrip>>,
    /// Host memory of tiles that were appended.
    spent: Sender<Pinned>,
}

impl WriteState<'_> {
    /// The thread of the write: compresses and appends the tiles of each strip, and returns memory for later
    /// strips.
    fn compress_strips(&mut self, codec: TileCodec, lines: &[DeviceLine], empty: &Sender<StripMemory>) -> Result<()> {
        let mut done = 0;
        // The devices take turns.
        for DeviceLine { encoded, spent } in lines.iter().cycle() {
            if done >= self.plan.height() {
                break;
            }
            let waiting = Instant::now();
            // If the other end is closed, its thread panicked, and joining it propagates the panic.
            let EncodedStrip { tiles, strip } = encoded.recv().map_err(|_| Error::Cancelled)??;
            self.streamed.report.source_wait += waiting.elapsed();
            self.take_tiles(codec, &tiles, &strip)?;
            done = strip.rows.end;
            self.note_progress(done);
            // At the end the other threads have stopped, and the memory is freed.
            for tiles in tiles {
                let _ = spent.send(tiles.into_memory());
            }
            let _ = empty.send(strip.memory);
        }
        Ok(())
    }

    /// Allocates memory for the strips that are in use at the same time. If there is too little, the strips get lower, down to a row of
    /// blocks.
    fn strips_in_memory<'a>(
        &self,
        gpus: &[Gpu],
        source: &dyn RowSource,
        planned: &'a [Range<u64>],
    ) -> Result<(StripRows<'a>, Vec<StripMemory>)> {
        let mut strips = Cow::Borrowed(planned);
        loop {
            let tallest = |strips: &[Range<u64>]| strips.iter().map(|strip| strip.end - strip.start).max().unwrap_or(0);
            let rows = tallest(&strips);
            match self.strip_memory(gpus, source, rows, strips.len()) {
                Err(Error::Device(cause)) if cause.is_memory() => {
                    let half = rows / 2 * self.plan.row_bytes(0) as u64;
                    let lower = strips::of(self.plan, source, u64::MAX, half);
                    if tallest(&lower) >= rows {
                        return Err(cause.into());
                    }
                    strips = Cow::Owned(lower);
                }
                memory => return Ok((strips, memory?)),
            }
        }
    }

    /// Allocates memory for the strips that are in use at the same time: the raster that is written, if it is
    /// on this device; rasters on the device, if the source provides its rows there; else host memory, also
    /// for a raster on another device. With too little memory, fewer strips are in use.
    fn strip_memory(
        &self,
        gpus: &[Gpu],
        source: &dyn RowSource,
        tallest: u64,
        strips: usize,
    ) -> Result<Vec<StripMemory>> {
        let (gpu, count) = (&gpus[0], (STRIPS_IN_USE * gpus.len()).min(strips));
        let measured = self.plan.has_statistics();
        let pin = || gpu.pin(tallest as usize * self.plan.row_bytes(0));
        if let Some(raster) = source.on_device().filter(|raster| raster.gpu().is(gpu)) {
            let memory = || match measured {
                true => Ok(StripMemory::ImageAndHost(raster.clone(), pin()?)),
                false => Ok(StripMemory::Image(raster.clone())),
            };
            return as_many_as_fit(count, memory);
        }
        // These rasters do not count against the caller's budget, so with a budget the rows go through the
        // host.
        if gpus.len() == 1 && !measured && self.config.gpu_memory_budget.is_none() && source.reads_on(gpu) {
            let (width, bands, dtype) = (self.plan.width(), self.plan.bands, self.plan.dtype);
            let raster = || DeviceRaster::new(gpu, dtype, bands, tallest, width, true).map(StripMemory::Device);
            // One raster for reading and one for encoding.
            match (0..count.min(2)).map(|_| raster()).collect::<swath_gpu::Result<Vec<_>>>() {
                Err(error) if error.is_memory() => {}
                memory => return Ok(memory?),
            }
        }
        as_many_as_fit(count, || Ok(StripMemory::Host(pin()?)))
    }

    /// Lets the device write its compressed blocks to the file, if the caller requests that and cuFile
    /// supports it.
    fn set_up_direct_write(&mut self, gpu: &Gpu, codec: TileCodec, encoder: &mut TileEncoder) -> Result<()> {
        let storage = self.config.storage;
        if !matches!(codec, TileCodec::NvComp(_)) {
            return if storage == Storage::CuFile {
                self.fallbacks.host_writes(Unsupported::NotCompressed)
            } else {
                Ok(())
            };
        }
        let open = |spool: &Spool| match spool.file() {
            Some((file, end)) => {
                let opened = gpu.open_file(file, true, storage).map_err(Unsupported::CuFile)?;
                Ok(opened.map(|file| (file, end)))
            }
            None if storage == Storage::CuFile => Err(Unsupported::NotLocal),
            None => Ok(None),
        };
        let levels = self.plan.levels.len();
        let files = open(&self.spools.full).and_then(|full| match levels {
            1 => Ok((full, None)),
            _ => Ok((full, open(&self.spools.overviews)?)),
        });
        match files {
            Ok((Some(full), overviews)) if overviews.is_some() || levels == 1 => {
                encoder.write_to(full, overviews, self.plan.is_cog());
            }
            Ok(_) => {}
            Err(reason) => self.fallbacks.host_writes(reason)?,
        }
        Ok(())
    }

    /// Compresses the tiles of a strip, unless the device has compressed them, and computes the statistics of its rows.
    fn take_tiles(&mut self, codec: TileCodec, tiles: &[Tiles], strip: &Strip) -> Result<()> {
        let mut jobs = Vec::new();
        for tiles in tiles {
            if let Some(failure) = tiles.failure() {
                self.fallbacks.after_failure(codec, failure, tiles)?;
            }
            if tiles.are_compressed() || tiles.written().is_some() {
                self.device_work.compressed_by.get_or_insert_with(|| codec.to_string());
            }
            if let Some((places, by)) = tiles.written() {
                self.device_work.written_by = by;
                self.take_written(tiles, places)?;
                continue;
            }
            for of in &tiles.levels {
                let runs = of.rows.clone().flat_map(|row| self.plan.runs(of.level, row));
                jobs.extend(runs.map(|run| Job::Compress { run, tiles }));
            }
        }
        let row_bytes = self.plan.row_bytes(0);
        let mut views = Vec::new();
        if let (true, Some(memory)) = (self.plan.has_statistics(), strip.memory.on_host()) {
            let count = (strip.rows.end - strip.rows.start) as usize;
            let samples = &memory[..count * row_bytes];
            views.push(RowsView { samples, mask: None, first: strip.rows.start, row_bytes, mask_bytes: 0 });
            jobs.extend(job_ranges(strip.rows.clone(), row_bytes as u64).map(Job::Statistics));
        }
        let done = self.workers.work(jobs, &views, self.spools, self.streamed);
        // Tiles of two strips: these, and those that the device is working on.
        let tiles = 2 * tiles.iter().map(Tiles::host_bytes).sum::<usize>();
        let held = self.devices * STRIPS_IN_USE * strip.memory.on_host().map_or(0, |memory| memory.len()) + tiles;
        let report = &mut self.streamed.report;
        report.peak_buffer_bytes = report.peak_buffer_bytes.max(held as u64);
        done
    }

    /// Records the positions of blocks that the device has written to the file.
    fn take_written(&mut self, tiles: &Tiles, places: &[Range<u64>]) -> Result<()> {
        let mut places = places.iter();
        // The trailer of a block in a COG repeats its last bytes.
        let behind = if self.plan.is_cog() { 4 } else { 0 };
        let Streamed { index, report, .. } = &mut *self.streamed;
        for of in &tiles.levels {
            let runs = of.rows.clone().flat_map(|row| self.plan.runs(of.level, row));
            let grid = &self.plan.levels[of.level].grid;
            for (run, col) in runs.flat_map(|run| run.cols.clone().map(move |col| (run.clone(), col))) {
                let place = places.next().expect("the device reports the place of every tile");
                let span = Span { offset: place.start, len: place.end - place.start };
                index.place(of.level, false, grid.index(run.plane, run.row, col), span)?;
                let spool = if of.level == 0 { &mut self.spools.full } else { &mut self.spools.overviews };
                spool.written_to(place.end + behind);
                report.blocks += 1;
                report.bytes_encoded += span.len;
            }
        }
        Ok(())
    }
}

/// Allocates memory `count` times, or less often if there is too little: at least once.
fn as_many_as_fit(count: usize, make: impl Fn() -> swath_gpu::Result<StripMemory>) -> Result<Vec<StripMemory>> {
    let mut made = Vec::with_capacity(count);
    while made.len() < count {
        match make() {
            Ok(memory) => made.push(memory),
            Err(error) if error.is_memory() && !made.is_empty() => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(made)
}

fn spawn<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() + Send + 'scope,
) -> Result<()> {
    let thread = std::thread::Builder::new().name(name.into()).spawn_scoped(scope, work);
    thread.map(|_| ()).map_err(|cause| Error::Thread { cause })
}

/// The thread of the source: fills the memory of each strip.
fn produce(
    source: &mut dyn RowSource,
    strips: &[Range<u64>],
    row_bytes: usize,
    empty: &Receiver<StripMemory>,
    full: &[SyncSender<Result<Strip>>],
) {
    // The devices take turns.
    for (rows, full) in strips.iter().cloned().zip(full.iter().cycle()) {
        let Ok(mut memory) = empty.recv() else { return };
        let bytes = (rows.end - rows.start) as usize * row_bytes;
        let made = match &mut memory {
            StripMemory::Host(memory) | StripMemory::ImageAndHost(_, memory) => {
                source.read(rows.clone(), &mut memory[..bytes], None)
            }
            StripMemory::Device(raster) => source.read_on(rows.clone(), raster),
            StripMemory::Image(_) => Ok(()),
        };
        let failed = made.is_err();
        if full.send(made.map(|()| Strip { rows, memory })).is_err() || failed {
            return;
        }
    }
}

/// The thread of the device.
struct Pusher<'a> {
    encoder: TileEncoder,
    plan: &'a WritePlan,
    /// Host memory of tiles that were appended, for reuse.
    spent: Receiver<Pinned>,
    /// The row after the last one that this device or another one has encoded.
    next_row: u64,
}

impl Pusher<'_> {
    /// Encodes each strip that it receives.
    fn run(&mut self, full: &Receiver<Result<Strip>>, encoded: &SyncSender<Result<EncodedStrip>>) {
        let mut next = full.recv().ok().map(|strip| strip.map(InputStrip::Here));
        let mut pushed = false;
        while let Some(strip) = next.take() {
            // The first push allocates what all of them need; what is left is for rows that are uploaded ahead.
            let ready = if pushed { full.try_recv().ok() } else { None };
            let made = strip.and_then(|strip| self.encode(strip, ready, &mut next));
            pushed = true;
            let failed = made.is_err();
            if encoded.send(made).is_err() || failed {
                return;
            }
            if next.is_none() {
                next = full.recv().ok().map(|strip| strip.map(InputStrip::Here));
            }
        }
    }

    /// Encodes a strip. The upload of the one after it, `ready`, begins before; it becomes `next`.
    fn encode(
        &mut self,
        strip: InputStrip,
        ready: Option<Result<Strip>>,
        next: &mut Option<Result<InputStrip>>,
    ) -> Result<EncodedStrip> {
        let mut tiles = Vec::new();
        *next = ready.map(|ready| ready.map(|ready| self.upload_ahead(ready)));
        match strip {
            InputStrip::Here(strip) => {
                self.push(strip.memory.input(), strip.rows.clone(), &mut tiles)?;
                Ok(EncodedStrip { tiles, strip })
            }
            InputStrip::Ahead(rows) => {
                self.push(InputRows::Ahead { first: 0 }, rows.clone(), &mut tiles)?;
                let memory = self.encoder.take_ahead().expect("the rows were uploaded ahead");
                Ok(EncodedStrip { tiles, strip: Strip { rows, memory: StripMemory::Host(memory) } })
            }
        }
    }

    /// Begins to upload a strip, if it is in host memory.
    fn upload_ahead(&mut self, strip: Strip) -> InputStrip {
        match strip.memory {
            StripMemory::Host(memory) => {
                let bytes = (strip.rows.end - strip.rows.start) as usize * self.plan.row_bytes(0);
                self.encoder.upload_ahead(memory, bytes);
                InputStrip::Ahead(strip.rows)
            }
            memory => InputStrip::Here(Strip { memory, ..strip }),
        }
    }

    /// Pushes rows. If the device has too little memory, pushes them in halves or without compression.
    fn push(&mut self, input: InputRows<'_>, rows: Range<u64>, tiles: &mut Vec<Tiles>) -> Result<()> {
        let steps_of = |rows: Range<u64>| -> Vec<LevelStep> {
            Schedule::new(&self.plan.levels).step(rows).into_iter().map(for_device).collect()
        };
        if rows.start > self.next_row {
            self.encoder.skip(&steps_of(self.next_row..rows.start));
        }
        let steps = steps_of(rows.clone());
        self.next_row = rows.start;
        let (count, min_rows) = (rows.end - rows.start, self.plan.levels[0].grid.block_height);
        let error = match self.encoder.push(input, &steps, self.spent.try_recv().ok()) {
            Ok(made) => {
                self.next_row = rows.end;
                tiles.push(made);
                return Ok(());
            }
            Err(error) => error,
        };
        match after_push_error(error, count, min_rows, self.encoder.compresses()) {
            NextPush::Halves => {
                // Whole block rows, so that no more rows than necessary are kept.
                let half = (count / 2).next_multiple_of(min_rows).min(count - 1);
                let middle = rows.start + half;
                self.push(input, rows.start..middle, tiles)?;
                self.push(input.skip(half, self.plan.row_bytes(0)), middle..rows.end, tiles)
            }
            NextPush::WithoutCompression(reason) => {
                self.encoder.disable_compression(reason);
                self.push(input, rows, tiles)
            }
            NextPush::Fail(error) => Err(error.into()),
        }
    }
}

fn for_device(step: schedule::LevelStep) -> LevelStep {
    let schedule::LevelStep { rows, keep_from, block_rows } = step;
    LevelStep { rows, keep_from, block_rows }
}
