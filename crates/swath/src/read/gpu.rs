//! The life of a window on a device: blocks are chosen in rectangles that fit the memory, fetched into pinned memory or read by the
//! device itself, decoded and placed there as one batch, and come back as one.
//!
//! Two batches are under way at a time, so that one is fetched while the device decodes the other. `fallback.rs` is about what the device
//! cannot do.

mod fallback;
mod part;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use swath_codec::{Decoder, Extent, RowAccess};
use swath_gpu::{
    Block, CodecBackend, DecodeJob, Decoding, DeviceFile, DeviceRaster, Finished, Geometry, Gpu, LANES, Storage,
    Target, Transfer, Unfit,
};
use swath_io::{Fetch, Span};
use swath_tiff::Limits;

use crate::dataset::level::Level;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::read::cpu::ReadPlan;
use crate::read::plan::{BlockRequest, Place, locate};
use crate::read::request::{Cancel, FallbackPolicy, Layout, Progress, ReadRequest};
use crate::report::{DeviceReport, ReadReport};

use self::fallback::Why;
use self::part::Part;

/// Device memory that the batches of a read hold at most, unless told otherwise.
pub const DEFAULT_GPU_MEMORY_BUDGET: u64 = 256 << 20;

/// Blocks of one batch: more keep no device busier, and their table costs memory.
const BATCH_BLOCKS: u64 = 1 << 16;

/// Blocks of a batch that the CPU reads one by one when the device refuses them.
const MOST_REFUSED: usize = 4;

/// Stages that a library of NVIDIA's may fail at.
const BY_CUFILE: &str = "reading by cuFile";
const BY_LIBRARY: &str = "decoding by NVIDIA's library";

/// Read a checked window into host memory of the exact size.
pub(crate) fn read_into(
    level: &Level,
    gpu: &Gpu,
    request: &ReadRequest<'_>,
    checked: &ReadPlan,
    limits: &Limits,
    out: &mut [u8],
) -> Result<ReadReport> {
    let geometry = geometry(level, request, checked);
    Reading::new(level, gpu, request, checked, limits)?.run(Sink::Host { out, geometry })
}

/// Read a checked window into device memory.
pub(crate) fn read(
    level: &Level,
    gpu: &Gpu,
    request: &ReadRequest<'_>,
    checked: &ReadPlan,
    limits: &Limits,
) -> Result<(DeviceRaster, ReadReport)> {
    let (rows, cols) = (checked.window.height(), checked.window.width());
    let reading = Reading::new(level, gpu, request, checked, limits)?;
    let raster = DeviceRaster::new(gpu, level.dtype, checked.bands.len(), rows, cols, bands_last(request))?;
    let report = reading.run(Sink::Device(&raster))?;
    Ok((raster, report))
}

/// Read a checked window into the first rows and columns of a raster that is at least as large.
pub(crate) fn read_into_raster(
    level: &Level,
    request: &ReadRequest<'_>,
    checked: &ReadPlan,
    limits: &Limits,
    raster: &DeviceRaster,
) -> Result<ReadReport> {
    Reading::new(level, raster.gpu(), request, checked, limits)?.run(Sink::Device(raster))
}

fn bands_last(request: &ReadRequest<'_>) -> bool {
    request.layout == Layout::BandsLast
}

fn geometry(level: &Level, request: &ReadRequest<'_>, checked: &ReadPlan) -> Geometry {
    let (rows, cols) = (checked.window.height(), checked.window.width());
    Geometry::dense(checked.bands.len(), rows, cols, level.dtype.size(), bands_last(request))
}

/// Where the pixels go.
enum Sink<'a> {
    Host { out: &'a mut [u8], geometry: Geometry },
    Device(&'a DeviceRaster),
}

/// A piece of the file, and where it goes.
fn transfer((span, range): (Span, Range<usize>)) -> Transfer {
    Transfer { file_offset: span.offset, buffer_offset: range.start as u64, len: span.len }
}

/// A batch that is under way.
struct Pending {
    part: Part,
    by_nvcomp: bool,
    wanted: Vec<BlockRequest>,
    /// Which of them are not stored.
    sparse: Vec<bool>,
    /// Where each lies in the file, and in the payload of the batch.
    spans: Vec<Span>,
    ranges: Vec<Range<usize>>,
}

/// A read under way.
struct Reading<'a> {
    level: &'a Level,
    gpu: &'a Gpu,
    request: &'a ReadRequest<'a>,
    checked: &'a ReadPlan,
    limits: &'a Limits,
    decoder: Decoder,
    /// The file, if the device reads it by itself.
    file: Option<Arc<DeviceFile>>,
    report: ReadReport,
    device: DeviceReport,
    done: u64,
    total: u64,
}

impl<'a> Reading<'a> {
    fn new(
        level: &'a Level,
        gpu: &'a Gpu,
        request: &'a ReadRequest<'a>,
        checked: &'a ReadPlan,
        limits: &'a Limits,
    ) -> Result<Reading<'a>> {
        let decoder = level.decoder(limits)?;
        let report =
            ReadReport { device: gpu.info().api.name(), codec: decoder.name, threads: 1, ..ReadReport::default() };
        let device = DeviceReport::begin(gpu);
        Ok(Reading { level, gpu, request, checked, limits, decoder, file: None, report, device, done: 0, total: 0 })
    }

    fn run(mut self, mut sink: Sink<'_>) -> Result<ReadReport> {
        let start = Instant::now();
        if self.checked.samples > 0 {
            match self.job_or_own()? {
                Ok(job) => match self.read_batches(job, &mut sink) {
                    // Compilers are part of drivers, and not all drivers are good.
                    Err(Error::Device(error @ swath_gpu::Error::Build { .. })) => {
                        self.read_on_cpu(&error.to_string(), &mut sink)?;
                    }
                    other => other?,
                },
                Err(unfit) => self.read_on_cpu(&unfit.to_string(), &mut sink)?,
            }
        }
        self.device.end(self.gpu);
        self.report.gpu = Some(self.device);
        self.report.wall_time = start.elapsed();
        Ok(self.report)
    }

    fn planar(&self) -> bool {
        self.level.blocks.grid.planes > 1
    }

    /// What the device has to do, or why it cannot.
    fn job(&self, decoder: CodecBackend) -> std::result::Result<DecodeJob, Unfit> {
        if self.level.conversion.is_some() {
            return Err(Unfit::Colours);
        }
        let shape = self.level.shape(self.level.blocks.grid.block_height as usize);
        let (dtype, planar, fill) = (self.level.dtype, self.planar(), &self.level.fill);
        DecodeJob::new(self.gpu, decoder, &self.decoder, shape, dtype, planar, fill)
    }

    /// The same, by a kernel of our own where a library that was asked for is missing.
    fn job_or_own(&mut self) -> Result<std::result::Result<DecodeJob, Unfit>> {
        let job = self.job(self.request.decoder);
        let Err(Unfit::Library(missing)) = &job else { return Ok(job) };
        let Ok(own) = self.job(CodecBackend::Builtin) else { return Ok(job) };
        self.note_other_way(BY_LIBRARY, missing)?;
        Ok(Ok(own))
    }

    /// The file, if the device can read it by itself and is to.
    fn open_file(&mut self, job: &DecodeJob) -> Result<()> {
        let opened = match (job.is_fed_by_host(), self.request.storage) {
            (false, storage) => self.level.device_file(self.gpu, storage),
            (true, Storage::CuFile) => Err(format!("{} takes compressed bytes from the host", job.decoded_by())),
            (true, _) => Ok(None),
        };
        match opened {
            Ok(file) => self.file = file,
            Err(reason) => self.note_other_way(BY_CUFILE, reason)?,
        }
        Ok(())
    }

    /// Another way was taken than was asked for, though not by the CPU.
    fn note_other_way(&mut self, stage: &'static str, reason: impl ToString) -> Result<()> {
        if self.strict() {
            return Err(Error::Fallback { stage, reason: reason.to_string() });
        }
        self.device.note_fallback(stage, reason, 0);
        Ok(())
    }

    /// The same request for the CPU.
    fn cpu_request(&self) -> ReadRequest<'a> {
        ReadRequest { device: Device::Cpu, ..self.request.clone() }
    }

    fn strict(&self) -> bool {
        self.request.fallback == FallbackPolicy::Strict
    }

    fn read_batches(&mut self, job: DecodeJob, sink: &mut Sink<'_>) -> Result<()> {
        // No more than the guard would let pass, or the first batches would be made only to be halved.
        let budget = self.request.gpu_memory_budget.unwrap_or(DEFAULT_GPU_MEMORY_BUDGET);
        let budget = budget.min(self.gpu.memory()?.total / 10 * 9);
        let mut parts = self.parts(&job, budget / LANES as u64);
        let bands = if self.planar() { &[][..] } else { &self.checked.bands };
        self.open_file(&job)?;
        self.device.decoded_by = job.decoded_by();
        let mut decoding = self.gpu.decode(job, bands, budget)?;
        let mut pending = VecDeque::with_capacity(LANES);
        let mut tried_alone = None;
        loop {
            let Some(part) = parts.pop_front() else {
                if decoding.in_flight() == 0 {
                    break;
                }
                self.finish_oldest(&mut decoding, &mut pending, &mut parts, sink)?;
                continue;
            };
            if self.request.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
                return Err(Error::Cancelled);
            }
            if !decoding.has_room() {
                self.finish_oldest(&mut decoding, &mut pending, &mut parts, sink)?;
            }
            match self.start(&part, &mut decoding, sink) {
                Ok(started) => pending.extend(started),
                // Nothing of the part is under way: it is tried again without the library.
                Err(Error::Device(error)) if error.is_library() => {
                    if self.try_without_library(&part, &error, &mut decoding, sink)? {
                        parts.push_front(part);
                    }
                }
                Err(Error::Device(error)) if error.is_memory() => {
                    // Room is made by those that are under way, and by asking for less.
                    while decoding.in_flight() > 0 {
                        self.finish_oldest(&mut decoding, &mut pending, &mut parts, sink)?;
                    }
                    decoding.shrink();
                    match part.split(self.planar()) {
                        Some(halves) => halves.into_iter().rev().for_each(|half| parts.push_front(half)),
                        // Once more, now that all of the budget is there for it.
                        None if tried_alone.as_ref() != Some(&part) => {
                            tried_alone = Some(part.clone());
                            parts.push_front(part);
                        }
                        // Our kernels need less working memory than nvCOMP.
                        None if self.take_own_kernel(&error.to_string(), self.wants_nvcomp(), &mut decoding)? => {
                            parts.push_front(part)
                        }
                        None => return Err(error.into()),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        self.report.working_bytes += decoding.host_bytes() as u64;
        Ok(())
    }

    /// The batches: as many whole block rows as a lane's share of the budget holds, or parts of one.
    fn parts(&mut self, job: &DecodeJob, lane_bytes: u64) -> VecDeque<Part> {
        let grid = &self.level.blocks.grid;
        let window = &self.checked.window;
        let (rows, cols) = (grid.block_rows(window), grid.block_cols(window));
        let bands = self.checked.bands.len();
        let blocks = if self.planar() { bands as u64 } else { 1 };
        // A block costs its decoded bytes, its compressed bytes, which are seldom more, and its pixels.
        let pixels = grid.block_width.saturating_mul(grid.block_height).saturating_mul(bands as u64);
        let cost = self.level.block_bytes().saturating_mul(2 * blocks);
        let cost = cost.saturating_add(pixels.saturating_mul(self.level.dtype.size() as u64)).max(1);
        let across = cols.end - cols.start;
        self.total = (rows.end - rows.start) * across * blocks;
        let room = lane_bytes.saturating_sub(job.scratch_bytes(BATCH_BLOCKS, lane_bytes));
        let most_blocks = BATCH_BLOCKS.min(job.most_blocks() as u64);
        let most = (room / cost).min(most_blocks / blocks.max(1)).max(1);
        let (down, wide) = if most >= across { (most / across, across) } else { (1, most) };
        // A batch may hold fewer blocks than a planar file has bands.
        let deep = if self.planar() { bands.min(most_blocks as usize) } else { bands };
        let mut parts = VecDeque::new();
        for row in rows.clone().step_by(down as usize) {
            for col in cols.clone().step_by(wide as usize) {
                for band in (0..bands).step_by(deep.max(1)) {
                    parts.push_back(Part {
                        rows: row..(row + down).min(rows.end),
                        cols: col..(col + wide).min(cols.end),
                        bands: band..(band + deep).min(bands),
                    });
                }
            }
        }
        parts
    }

    /// The rows and columns of the image that a part covers.
    fn area(&self, part: &Part) -> (Range<u64>, Range<u64>) {
        let (grid, window) = (&self.level.blocks.grid, &self.checked.window);
        let rows = grid.rows_in(part.rows.start, window).start..grid.rows_in(part.rows.end - 1, window).end;
        let cols = grid.cols_in(part.cols.start, window).start..grid.cols_in(part.cols.end - 1, window).end;
        (rows, cols)
    }

    /// Fetch a part and send it on its way; `None` when the CPU had to read it.
    fn start(&mut self, part: &Part, decoding: &mut Decoding, sink: &mut Sink<'_>) -> Result<Option<Pending>> {
        let begun = Instant::now();
        let grid = self.level.blocks.grid;
        let window = &self.checked.window;
        let access = match self.decoder.row_access() {
            RowAccess::Prefix if decoding.job().takes_whole_blocks() => RowAccess::All,
            access => access,
        };
        let mut wanted = Vec::new();
        for row in part.rows.clone() {
            let rows = grid.rows_in(row, window);
            for col in part.cols.clone() {
                let bands = if self.planar() { part.bands.clone() } else { 0..1 };
                for band in bands {
                    let plane = if self.planar() { self.checked.bands[band] as u64 } else { 0 };
                    let place = Place { plane, row, col };
                    wanted.push(BlockRequest::new(self.level, access, place, rows.clone(), 0, band));
                }
            }
        }
        let mut spans = Vec::with_capacity(wanted.len());
        locate(self.level, &self.decoder, self.limits, &mut wanted, &mut spans)?;
        // `Block` counts a block's bytes in 32 bits; the CPU counts further.
        if spans.iter().any(|span| u32::try_from(span.len).is_err()) {
            let why = Why::new("fetching", "a compressed block has more than 4 GB");
            self.read_part_on_cpu(part, why, 0, None, decoding, sink)?;
            self.note_progress(wanted.len());
            return Ok(None);
        }
        let (align, phase) = decoding.job().alignment();
        let fetch = Fetch::aligned(&spans, align, phase).map_err(|source| self.fetch_error(&wanted, &spans, source))?;
        if self.file.is_none() {
            let payload = decoding.stage(wanted.len(), fetch.bytes())?;
            if let Err(source) = self.level.source.fetch_into(&fetch, payload) {
                // The CPU finds out which block it is, and fills it if that is what is wanted.
                let reason = source.to_string();
                self.read_part_on_cpu(part, Why::new("fetching", &reason), 0, None, decoding, sink)?;
                self.note_progress(wanted.len());
                return Ok(None);
            }
        }
        let mut fetched = Instant::now();

        let (area_rows, area_cols) = self.area(part);
        let in_place = decoding.job().is_stored();
        let mut sparse = Vec::with_capacity(wanted.len());
        let mut blocks = Vec::with_capacity(wanted.len());
        for ((wanted, span), range) in wanted.iter_mut().zip(&spans).zip(fetch.ranges()) {
            let (rows, cols) = (grid.rows_in(wanted.place.row, window), grid.cols_in(wanted.place.col, window));
            let short = in_place && span.len < wanted.shape.len() as u64;
            if !span.is_sparse() && short && wanted.problem.is_none() {
                let (got, want) = (span.len as usize, wanted.shape.len());
                let source = swath_codec::Error::Truncated { codec: self.decoder.name, got, want };
                let (file, block) = (self.level.file.clone(), wanted.place.name(self.level));
                wanted.problem = Some(Error::Block { file, block, source });
            }
            let mut flags = 0;
            flags |= if span.is_sparse() || wanted.problem.is_some() { Block::SPARSE } else { 0 };
            flags |= if wanted.extent == Extent::Top { Block::TOP } else { 0 };
            sparse.push(span.is_sparse() && wanted.problem.is_none());
            blocks.push(Block {
                src: range.start as u64,
                src_len: span.len as u32,
                dst_len: wanted.shape.len() as u32,
                flags,
                from_row: (rows.start - wanted.first_row) as u32,
                from_col: (cols.start - wanted.place.col * grid.block_width) as u32,
                rows: (rows.end - rows.start) as u32,
                cols: (cols.end - cols.start) as u32,
                to_row: (rows.start - area_rows.start) as u32,
                to_col: (cols.start - area_cols.start) as u32,
                band: (wanted.band - part.bands.start.min(wanted.band)) as u32,
                ..Block::default()
            });
        }
        let target = match sink {
            Sink::Host { .. } => Target::Host {
                bands: part.bands.len(),
                rows: area_rows.end - area_rows.start,
                cols: area_cols.end - area_cols.start,
                bands_last: bands_last(self.request),
            },
            Sink::Device(raster) => Target::Raster {
                raster,
                band: part.bands.start,
                row: area_rows.start - window.row(),
                col: area_cols.start - window.col(),
            },
        };
        match &self.file {
            None => {
                decoding.submit(blocks, fetch.bytes(), target)?;
                self.device.read_by = "the host, into pinned memory".into();
            }
            Some(file) => {
                let transfers: Vec<Transfer> = fetch.reads().map(transfer).collect();
                decoding.submit_from_file(blocks, fetch.bytes(), (file, &transfers), target)?;
                self.device.read_by = file.description().into();
                // That was waiting for the file, above all.
                fetched = Instant::now();
            }
        }
        self.report.fetch_time += fetched - begun;
        self.report.bytes_fetched += spans.iter().map(|span| span.len).sum::<u64>();
        self.report.decode_time += fetched.elapsed();
        self.report.batches += 1;
        let by_nvcomp = decoding.job().is_by_nvcomp();
        Ok(Some(Pending { part: part.clone(), by_nvcomp, wanted, sparse, spans, ranges: fetch.ranges().to_vec() }))
    }

    fn fetch_error(&self, wanted: &[BlockRequest], spans: &[Span], source: std::io::Error) -> Error {
        let first = spans.iter().position(|span| !span.is_sparse()).unwrap_or(0);
        Error::Fetch {
            file: self.level.file.clone(),
            block: wanted[first].place.name(self.level),
            offset: spans[first].offset,
            len: spans[first].len,
            source,
        }
    }

    /// Wait for the oldest batch, look at what the device says of each block, and hand out its pixels; or put it back to the parts that are
    /// to be read.
    fn finish_oldest(
        &mut self,
        decoding: &mut Decoding,
        pending: &mut VecDeque<Pending>,
        parts: &mut VecDeque<Part>,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        let begun = Instant::now();
        let (Some(pending), Some(finished)) = (pending.pop_front(), decoding.finish()?) else { return Ok(()) };
        let Pending { part, by_nvcomp, mut wanted, sparse, spans, ranges } = pending;
        if let Sink::Host { out, geometry } = sink {
            self.hand_out(&part, &finished, out, *geometry);
        }
        let mut refused = Vec::new();
        let before = (self.report.blocks, self.report.bytes_decoded, self.report.sparse_blocks);
        for (i, ((wanted, sparse), status)) in wanted.iter_mut().zip(sparse).zip(finished.statuses()).enumerate() {
            match wanted.problem.take() {
                None if sparse => self.report.sparse_blocks += 1,
                Some(_) => refused.push((i, wanted.place, wanted.band, None)),
                None if !status.is_ok() => {
                    refused.push((i, wanted.place, wanted.band, Some((status, finished.reason(status)))));
                }
                None => {
                    self.report.blocks += 1;
                    self.report.bytes_decoded += wanted.shape.len() as u64;
                }
            }
        }
        self.report.decode_time += begun.elapsed();
        let good = self.report.blocks - before.0;
        let told = refused.iter().filter_map(|(.., told)| told.as_ref());
        let mut left = told.filter(|(status, _)| status.is_of_decoder());
        if let Some((_, reason)) = left.next() {
            // A few are read by the CPU, unless that was ruled out; but few files have blocks of several forms.
            let count = 1 + left.count();
            let few = count <= MOST_REFUSED && (count as u64) < good && !self.strict();
            // It may have been taken for the batch before.
            let own = |decoding: &Decoding| by_nvcomp && !decoding.job().is_by_nvcomp();
            if !few && (own(decoding) || self.take_own_kernel(reason, self.wants_nvcomp(), decoding)?) {
                (self.report.blocks, self.report.bytes_decoded, self.report.sparse_blocks) = before;
                parts.push_front(part);
                return Ok(());
            }
        }
        // What the host does not have comes back from the device at once, not block by block and not from the file again.
        let many = refused.len() > MOST_REFUSED;
        let held = match refused.is_empty() || !decoding.keeps_compressed() {
            true => None,
            false if many => self.hold(decoding, &spans, &ranges, 0..spans.len())?,
            false => self.hold(decoding, &spans, &ranges, refused.iter().map(|&(i, ..)| i))?,
        };
        let held = held.as_ref();
        if many {
            // Many are read at once, as one batch, and by all threads.
            (self.report.blocks, self.report.bytes_decoded, self.report.sparse_blocks) = before;
            let told = refused.iter().find_map(|(_, place, _, told)| Some((*place, &told.as_ref()?.1)));
            let why = match told {
                Some((place, reason)) => Why { place: Some(place), ..Why::new("decoding", reason) },
                None => Why::new("decoding", "its blocks lie outside the file"),
            };
            self.read_part_on_cpu(&part, why, good, held, decoding, sink)?;
            refused.clear();
        }
        for (_, place, band, told) in refused {
            let bands = if self.planar() { band..band + 1 } else { part.bands.clone() };
            let block = Part { rows: place.row..place.row + 1, cols: place.col..place.col + 1, bands };
            match told {
                None => self.read_part(&block, held, decoding, sink)?,
                Some((_, reason)) => {
                    let why = Why { place: Some(place), ..Why::new("decoding", &reason) };
                    self.read_part_on_cpu(&block, why, 0, held, decoding, sink)?;
                }
            }
        }
        self.note_progress(wanted.len());
        Ok(())
    }

    fn note_progress(&mut self, blocks: usize) {
        self.done += blocks as u64;
        if let Some(progress) = self.request.progress {
            progress(Progress { done: self.done, total: self.total });
        }
    }

    /// Copy the pixels of a batch to their place in the output.
    fn hand_out(&self, part: &Part, finished: &Finished<'_>, out: &mut [u8], to: Geometry) {
        let (rows, cols) = self.area(part);
        self.copy(&rows, &cols, &part.bands, finished.pixels, bands_last(self.request), out, to);
    }

    /// Copy a rectangle without gaps to its place in the output.
    #[expect(clippy::too_many_arguments, reason = "a rectangle, its pixels and where they go")]
    fn copy(
        &self,
        rows: &Range<u64>,
        cols: &Range<u64>,
        bands: &Range<usize>,
        pixels: &[u8],
        from_last: bool,
        out: &mut [u8],
        to: Geometry,
    ) {
        let size = self.level.dtype.size();
        let window = &self.checked.window;
        let (height, width) = (rows.end - rows.start, cols.end - cols.start);
        let from = Geometry::dense(bands.len(), height, width, size, from_last);
        let at = |band: usize, row: u64| {
            to.offset(band, rows.start + row - window.row(), cols.start - window.col()) as usize
        };
        if bands_last(self.request) && bands.len() == self.checked.bands.len() {
            let bytes = from.row_stride as usize;
            for row in 0..height {
                let start = from.offset(0, row, 0) as usize;
                out[at(0, row)..][..bytes].copy_from_slice(&pixels[start..start + bytes]);
            }
        } else if !bands_last(self.request) {
            // Rows that follow each other on both sides are copied at once.
            let together = if width == window.width() { height } else { 1 };
            let bytes = (from.row_stride * together) as usize;
            for (i, band) in bands.clone().enumerate() {
                for row in (0..height).step_by(together.max(1) as usize) {
                    let start = from.offset(i, row, 0) as usize;
                    out[at(band, row)..][..bytes].copy_from_slice(&pixels[start..start + bytes]);
                }
            }
        } else {
            // Some of the bands of each pixel.
            let bytes = bands.len() * size;
            for row in 0..height {
                for col in 0..width {
                    let start = from.offset(0, row, col) as usize;
                    let place = at(bands.start, row) + (col * to.pixel_stride) as usize;
                    out[place..place + bytes].copy_from_slice(&pixels[start..start + bytes]);
                }
            }
        }
    }
}
