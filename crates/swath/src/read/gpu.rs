//! The GPU executor of a [`ReadPlan`]: blocks are taken in rectangles that fit the device's memory, fetched into pinned memory or read by
//! the device itself, decoded and placed there as one batch, and copied back as one.
//!
//! Three batches are in flight at a time: one is fetched while the device decodes another and the pixels of the third come back. The steps of a batch are in
//! `batches.rs` (its size), `submit.rs` (on its way in) and `finish.rs` (on its way out). `cpu_part.rs` reads what the device cannot, and
//! `crate::fallback` decides when.

mod batches;
mod copy_out;
mod cost;
mod cpu_part;
mod direct_file;
mod finish;
mod first_error;
pub(crate) mod several;
mod submit;

use std::collections::VecDeque;
use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use swath_gpu::{
    BatchFailure, CodecBackend, DecodeJob, Decoding, DeviceFile, DeviceRaster, Geometry, Gpu, LANES, Storage, Unpack,
    Unsupported,
};
use swath_io::Span;

use crate::error::{Error, RasterShape, Result};
use crate::fallback::FallbackPolicy;
use crate::fallback::read::{Alternatives, Decision, Setback, Step};
use crate::fallback::stage;
use crate::read::plan::{BlockCoord, BlockRect, BlockRequest, ReadPlan};
use crate::read::request::{Cancel, Layout, Placement, Progress};
use crate::report::{DeviceReport, ReadReport};

use self::batches::Batches;
pub use self::batches::MAX_DEFAULT_GPU_MEMORY;
pub(crate) use self::batches::budget;
use self::cost::Estimate;
use self::cpu_part::Refusal;
pub(crate) use self::direct_file::DirectFile;
use self::direct_file::DirectReadError;

/// Executes a plan into host memory of the exact size.
pub(crate) fn execute(plan: &ReadPlan<'_>, gpu: &Gpu, out: &mut [u8]) -> Result<ReadReport> {
    let (rows, cols) = (plan.window().height(), plan.window().width());
    let geometry = Geometry::dense(plan.bands().len(), rows, cols, plan.level.dtype.size(), bands_last(plan));
    Reading::new(plan, gpu).run(Sink::Host { out, geometry })
}

/// Executes a plan into new device memory. The device converts samples if `unpack` says how.
pub(crate) fn execute_to_device(
    plan: &ReadPlan<'_>,
    gpu: &Gpu,
    unpack: Option<Unpack>,
) -> Result<(DeviceRaster, ReadReport)> {
    let (rows, cols) = (plan.window().height(), plan.window().width());
    if unpack.is_some() && !gpu.info().doubles {
        let device = gpu.info().name.clone();
        return Err(swath_gpu::Error::Unable { device, what: "compute in double precision" }.into());
    }
    let dtype = unpack.as_ref().map_or(plan.level.dtype, Unpack::target);
    let reading = Reading { unpack, ..Reading::new(plan, gpu) };
    let raster = DeviceRaster::new(gpu, dtype, plan.bands().len(), rows, cols, bands_last(plan))?;
    if let Some(stream) = &plan.request.stream {
        raster.use_in_stream(stream);
    }
    let report = reading.run(Sink::Device(&raster))?;
    Ok((raster, report))
}

/// Executes a plan into a raster of exactly the size, the type and the layout of the result.
pub(crate) fn execute_into_device(plan: &ReadPlan<'_>, raster: &DeviceRaster) -> Result<ReadReport> {
    let (rows, cols, bands) = (plan.window().height(), plan.window().width(), plan.bands().len());
    if raster.dtype() != plan.level.dtype {
        return Err(Error::DType { buffer: raster.dtype().name(), image: plan.level.dtype });
    }
    let image = RasterShape::new(bands, (rows, cols), bands_last(plan));
    let found = RasterShape::of(raster);
    if found != image {
        return Err(Error::RasterShape { found, image });
    }
    execute_into_raster(plan, raster)
}

/// Executes a plan into the first rows and columns of a raster that is at least as large.
pub(crate) fn execute_into_raster(plan: &ReadPlan<'_>, raster: &DeviceRaster) -> Result<ReadReport> {
    Reading::new(plan, raster.gpu()).run(Sink::Device(raster))
}

fn bands_last(plan: &ReadPlan<'_>) -> bool {
    plan.layout == Layout::BandsLast
}

/// Where the pixels go.
enum Sink<'a> {
    Host { out: &'a mut [u8], geometry: Geometry },
    Device(&'a DeviceRaster),
}

/// A batch in flight.
struct Pending {
    rect: BlockRect,
    by_nvcomp: bool,
    requests: Vec<BlockRequest>,
    /// Which of the blocks are not stored.
    sparse: Vec<bool>,
    /// Where each block lies in the file, and in the payload of the batch.
    spans: Vec<Span>,
    ranges: Vec<Range<usize>>,
}

/// The batches of a read: those that wait and those that are in flight.
struct Queue {
    waiting: VecDeque<BlockRect>,
    in_flight: VecDeque<Pending>,
    /// The block that was already tried with all of the budget.
    tried_alone: Option<BlockRect>,
}

/// A read in progress.
struct Reading<'a> {
    plan: &'a ReadPlan<'a>,
    gpu: &'a Gpu,
    /// The file, if the device reads it directly.
    file: Option<Arc<DeviceFile>>,
    report: ReadReport,
    device: DeviceReport,
    /// The error of a corrupt block and its position. Of several errors, the first in file order is kept.
    first_error: Option<(BlockCoord, Error)>,
    /// The conversion of samples on the device.
    unpack: Option<Unpack>,
    nodata_found: bool,
    /// Blocks done, and blocks in all.
    done: u64,
    total: u64,
}

impl<'a> Reading<'a> {
    fn new(plan: &'a ReadPlan<'a>, gpu: &'a Gpu) -> Reading<'a> {
        let report =
            ReadReport { device: gpu.info().api.name(), codec: plan.decoder.name, threads: 1, ..ReadReport::default() };
        Reading {
            plan,
            gpu,
            file: None,
            report,
            device: DeviceReport::begin(gpu),
            first_error: None,
            unpack: None,
            nodata_found: false,
            done: 0,
            total: 0,
        }
    }

    fn run(mut self, mut sink: Sink<'_>) -> Result<ReadReport> {
        let start = Instant::now();
        if let (Sink::Device(_), Some(stream)) = (&sink, &self.plan.request.stream) {
            self.gpu.follow_stream(stream)?;
        }
        if self.plan.selection.samples > 0 {
            match self.job_or_builtin()? {
                Ok(job) if self.is_faster_on_cpu(&job, &sink)? => self.report = self.execute_on_cpu(&mut sink)?,
                Ok(job) => match self.read_batches(job, &mut sink) {
                    Err(Error::Device(error)) => match BatchFailure::try_from(error)? {
                        // The compiler of kernels is a part of the driver, and some drivers cannot compile ours.
                        BatchFailure::Unsupported(reason) => self.read_all_on_cpu(&reason.to_string(), &mut sink)?,
                        BatchFailure::OutOfMemory(error) => return Err(error.into()),
                        BatchFailure::LibraryFailed { reason, .. } => return Err(reason.into()),
                    },
                    other => other?,
                },
                Err(unsupported) => self.read_all_on_cpu(&unsupported.to_string(), &mut sink)?,
            }
        }
        self.report.nodata_found = self.unpack.as_ref().filter(|unpack| unpack.looks()).map(|_| self.nodata_found);
        self.device.end(self.gpu);
        self.report.gpu = Some(self.device);
        self.report.wall_time = start.elapsed();
        Ok(self.report)
    }

    /// Whether the cost model prefers the CPU, unless the caller wants the device. The report has the estimate.
    fn is_faster_on_cpu(&mut self, job: &DecodeJob, sink: &Sink<'_>) -> Result<bool> {
        let request = self.plan.request;
        let forced =
            request.fallback == FallbackPolicy::Strict || Placement::chosen(request.placement)? == Placement::Device;
        // OpenCL on a CPU is used only if the caller names it. The libraries for pictures have no costs.
        if forced || !self.gpu.info().is_gpu || job.is_fed_by_host() {
            return Ok(false);
        }
        let stays = matches!(sink, Sink::Device(_));
        let estimate = Estimate::of(self.plan, job, batches::compressed_bytes(self.plan), stays)?;
        self.device.placement = estimate.map(|estimate| estimate.to_string()).unwrap_or_default();
        Ok(estimate.is_some_and(|estimate| !estimate.prefers_device()))
    }

    /// Asks the fallback policy for the next step.
    fn next_step(&self, setback: Setback, alternatives: Alternatives) -> Option<Decision> {
        let request = self.plan.request;
        request.fallback.next_step(request.decoder, setback, alternatives)
    }

    /// Checks that the fallback policy permits the next step, whichever it is.
    fn permit(
        &self,
        setback: Setback,
        alternatives: Alternatives,
        stage: &'static str,
        reason: impl Display,
    ) -> Result<()> {
        self.next_step(setback, alternatives).map_or(Ok(()), |decision| decision.permit(stage, reason))
    }

    /// What the device has to do with every block, or why it cannot.
    fn job(&self, decoder: CodecBackend) -> std::result::Result<DecodeJob, Unsupported> {
        let level = self.plan.level;
        if level.conversion.is_some() {
            return Err(Unsupported::Colours);
        }
        let shape = level.shape(level.blocks.grid.block_height as usize);
        let (dtype, planar) = (level.dtype, self.plan.is_planar());
        let job = DecodeJob::new(self.gpu, decoder, &self.plan.decoder, shape, dtype, planar, &level.fill)?;
        Ok(job.with_unpack(self.unpack.clone()))
    }

    /// The job, with our own kernel where the library that the caller asked for is missing.
    fn job_or_builtin(&mut self) -> Result<std::result::Result<DecodeJob, Unsupported>> {
        let job = self.job(self.plan.request.decoder);
        let Err(Unsupported::Library(missing)) = &job else { return Ok(job) };
        let Ok(builtin) = self.job(CodecBackend::Builtin) else { return Ok(job) };
        self.leave_requested_way(Setback::LibraryFailed, stage::LIBRARY_DECODE, missing)?;
        Ok(Ok(builtin))
    }

    /// Opens the file for direct reads, if the device can do them and the request wants them.
    fn open_file(&mut self, job: &DecodeJob) -> Result<()> {
        let opened = match (job.is_fed_by_host(), self.plan.request.storage) {
            (false, storage) => self.plan.level.direct_file.open(self.plan.source.as_ref(), self.gpu, storage),
            (true, Storage::CuFile) => Err(DirectReadError::FedByHost { decoder: job.decoded_by() }),
            (true, _) => Ok(None),
        };
        match opened {
            Ok(file) => self.file = file,
            Err(reason) => self.leave_requested_way(Setback::DirectReadFailed, stage::CUFILE_READ, reason)?,
        }
        Ok(())
    }

    /// Notes that the device works in another way than the caller asked for, if the policy permits that.
    fn leave_requested_way(&mut self, setback: Setback, stage: &'static str, reason: impl ToString) -> Result<()> {
        let reason = reason.to_string();
        let builtin_kernel = setback == Setback::LibraryFailed;
        self.permit(setback, Alternatives { builtin_kernel, ..Alternatives::default() }, stage, &reason)?;
        self.device.note_fallback(stage, reason, 0);
        Ok(())
    }

    fn read_batches(&mut self, job: DecodeJob, sink: &mut Sink<'_>) -> Result<()> {
        if self.plan.request.gpu_memory_budget.is_some() {
            // The caller limits the memory of the device, and memory of earlier writes is no part of the budget.
            self.gpu.trim_writes();
        }
        let budget = budget(self.plan.request.gpu_memory_budget, self.gpu)?;
        self.total = self.plan.count(&self.plan.all_blocks());
        let stays = matches!(sink, Sink::Device(_));
        let Batches { waiting, largest } = batches::batches(self.plan, &job, budget / LANES as u64, stays);
        let mut queue = Queue { waiting, in_flight: VecDeque::with_capacity(LANES), tried_alone: None };
        let bands = if self.plan.is_planar() { &[][..] } else { self.plan.bands() };
        self.open_file(&job)?;
        self.device.decoded_by = job.decoded_by();
        let mut decoding = self.gpu.decode(job, bands, budget)?;
        decoding.expect(largest);
        loop {
            let Some(rect) = queue.waiting.pop_front() else {
                if decoding.in_flight() == 0 {
                    break;
                }
                self.finish_oldest(&mut decoding, &mut queue, sink)?;
                continue;
            };
            let Some(rect) = self.before_error(rect) else { continue };
            if !decoding.has_room() {
                self.finish_oldest(&mut decoding, &mut queue, sink)?;
            }
            self.check_cancelled()?;
            let failure = match self.submit(&rect, &mut decoding, sink) {
                Ok(submitted) => {
                    queue.in_flight.extend(submitted);
                    continue;
                }
                Err(Error::Device(error)) => BatchFailure::try_from(error)?,
                Err(error) => return Err(error),
            };
            // Nothing of the batch is in flight: it is tried again in another way.
            match failure {
                BatchFailure::LibraryFailed { reason, .. } => {
                    if self.go_on_without_library(&rect, &reason, &mut decoding, sink)? {
                        queue.waiting.push_front(rect);
                    }
                }
                BatchFailure::OutOfMemory(error) => {
                    // The batches in flight give their memory back first.
                    while decoding.in_flight() > 0 {
                        self.finish_oldest(&mut decoding, &mut queue, sink)?;
                    }
                    decoding.shrink();
                    self.go_on_with_less_memory(rect, error, &mut decoding, &mut queue)?;
                }
                // The batches in flight end before the CPU reads everything.
                BatchFailure::Unsupported(error) => return Err(error.into()),
            }
        }
        self.nodata_found |= decoding.nodata_found();
        self.report.working_bytes += decoding.host_bytes() as u64;
        self.first_error.take().map_or(Ok(()), |(_, error)| Err(error))
    }

    /// A batch did not fit in the device's memory, and none is in flight: it is put back in halves, or to be decoded with less memory.
    fn go_on_with_less_memory(
        &mut self,
        rect: BlockRect,
        error: swath_gpu::Error,
        decoding: &mut Decoding,
        queue: &mut Queue,
    ) -> Result<()> {
        let halves = rect.split(self.plan.is_planar());
        // A single block is tried once more with all of the budget.
        let untried = halves.is_none() && queue.tried_alone.as_ref() != Some(&rect);
        let alternatives =
            Alternatives { smaller_batch: halves.is_some() || untried, builtin_kernel: decoding.has_builtin_kernel() };
        let Some(decision) = self.next_step(Setback::OutOfMemory, alternatives) else { return Err(error.into()) };
        match (decision.step, halves) {
            (Step::SmallerBatch, Some(halves)) => {
                halves.into_iter().rev().for_each(|half| queue.waiting.push_front(half));
            }
            (Step::SmallerBatch, None) => {
                queue.tried_alone = Some(rect.clone());
                queue.waiting.push_front(rect);
            }
            // Our kernels need less working memory than nvCOMP.
            _ => {
                self.use_builtin_kernel(decision, &error, decoding)?;
                queue.waiting.push_front(rect);
            }
        }
        Ok(())
    }

    /// A library failed before anything of a batch was in flight: another way is taken from now on, or the CPU reads this batch.
    /// Returns whether to try the batch again.
    fn go_on_without_library(
        &mut self,
        rect: &BlockRect,
        error: &swath_gpu::Error,
        decoding: &mut Decoding,
        sink: &mut Sink<'_>,
    ) -> Result<bool> {
        if self.file.take_if(|_| error.is_about_files()).is_some() {
            self.leave_requested_way(Setback::DirectReadFailed, stage::CUFILE_READ, error)?;
            return Ok(true);
        }
        let alternatives = Alternatives { builtin_kernel: decoding.has_builtin_kernel(), smaller_batch: false };
        let decision = self.next_step(Setback::LibraryFailed, alternatives);
        if let Some(decision) = decision.filter(|decision| decision.step == Step::BuiltinKernel) {
            self.use_builtin_kernel(decision, error, decoding)?;
            return Ok(true);
        }
        let reason = error.to_string();
        self.read_refused_on_cpu(
            rect,
            Refusal::new(Setback::LibraryFailed, stage::LIBRARY_DECODE, &reason),
            decoding,
            sink,
        )?;
        self.note_progress(self.plan.count(rect));
        Ok(false)
    }

    /// Decodes with our kernel from now on, if the policy permits that.
    fn use_builtin_kernel(&mut self, decision: Decision, reason: impl ToString, decoding: &mut Decoding) -> Result<()> {
        let reason = reason.to_string();
        decision.permit(stage::LIBRARY_DECODE, &reason)?;
        decoding.use_builtin_kernel();
        self.device.note_fallback(stage::LIBRARY_DECODE, reason, 0);
        self.device.decoded_by = decoding.job().decoded_by();
        Ok(())
    }

    /// Returns an error if the caller has cancelled the read.
    fn check_cancelled(&self) -> Result<()> {
        let cancelled = self.plan.request.cancel.as_ref().is_some_and(Cancel::is_cancelled);
        if cancelled { Err(Error::Cancelled) } else { Ok(()) }
    }

    fn note_progress(&mut self, blocks: u64) {
        self.done += blocks;
        if let Some(progress) = self.plan.progress {
            progress(Progress { done: self.done, total: self.total });
        }
    }
}
