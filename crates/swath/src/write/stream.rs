//! Passes the rows of a source to the spools: compressed blocks of all levels, and statistics.
//!
//! Rows arrive in strips. [`Schedule`](super::schedule::Schedule) says which rows and block rows of every
//! level a strip completes, and `cpu.rs` or `gpu.rs` computes and encodes them. `workers.rs` runs the threads
//! and appends blocks in order. `fallback/write.rs` of the crate decides what happens when the device cannot
//! do a part of the work.
//!
//! The blocks do not depend on the height of the strips, so a streamed file has the same bytes as one that is
//! written at once.

mod budget;
mod cpu;
mod gpu;
mod strips;
mod workers;

use std::ops::Range;
use std::time::Instant;

use swath_gpu::{EncodeJob, Gpu, TileCodec};
use swath_io::Spool;
use swath_tiff::{Tag, Value};

use self::budget::Budget;
use self::workers::Workers;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::fallback::write::{Fallbacks, Unsupported};
use crate::memory;
use crate::read::request::{Cancel, Progress, default_threads};
use crate::report::DeviceReport;
use crate::write::block_index::BlockIndex;
use crate::write::config::{DEFAULT_BUFFER_BYTES, WriteConfig};
use crate::write::passthrough::PassthroughBlocks;
use crate::write::plan::WritePlan;
use crate::write::report::WriteReport;
use crate::write::source::RowSource;

/// The most threads. More threads only cost memory.
const MAX_THREADS: usize = 512;

/// The storage of blocks until the file is laid out: one spool for the full resolution and one for the
/// overviews.
#[derive(Debug)]
pub(crate) struct Spools {
    pub(crate) full: Spool,
    pub(crate) overviews: Spool,
}

/// The result of encoding: everything that a commit needs.
#[derive(Debug)]
pub(crate) struct Streamed {
    pub(crate) index: BlockIndex,
    pub(crate) report: WriteReport,
    /// The tags of the codec, if the blocks of the full resolution were copied.
    pub(crate) copied_tags: Option<Vec<(Tag, Value)>>,
}

impl Streamed {
    /// Creates an empty result.
    pub(crate) fn new(plan: &WritePlan) -> Streamed {
        Streamed { index: BlockIndex::new(plan), report: WriteReport::default(), copied_tags: None }
    }
}

/// The state of a write that both executors use.
struct WriteState<'a> {
    plan: &'a WritePlan,
    config: &'a WriteConfig<'a>,
    workers: Workers<'a>,
    spools: &'a mut Spools,
    streamed: &'a mut Streamed,
    fallbacks: Fallbacks,
    /// The work that the device did with the tiles.
    device_work: DeviceWork,
    /// The number of devices that encode, from the first on.
    devices: usize,
}

/// The work that a device did with tiles, for the report.
#[derive(Debug, Default)]
struct DeviceWork {
    /// The encoder on the device that compressed tiles, if any.
    compressed_by: Option<String>,
    /// The library that wrote tiles to the file from the device, if any.
    written_by: &'static str,
}

/// Passes all rows of a source through the plan into the spools.
pub(crate) fn stream(
    plan: &WritePlan,
    source: &mut dyn RowSource,
    config: &WriteConfig<'_>,
    spools: &mut Spools,
    streamed: &mut Streamed,
) -> Result<()> {
    let start = Instant::now();
    let (found, planned) = (source.shape(), plan.shape());
    if found != planned {
        return Err(Error::SourceShape { found: found.to_string(), planned: planned.to_string() });
    }
    let copied = source.stored(plan);
    let threads = config.threads.unwrap_or_else(default_threads).clamp(1, MAX_THREADS);
    let pixels = PixelsOn::of(source, &config.device);
    let mut fallbacks = Fallbacks::new(config.fallback);
    let executor = choose_executor(plan, config, copied.is_some(), pixels, &mut fallbacks)?;
    let (buffer_bytes, on_device) = match &executor {
        Executor::Cpu => (DEFAULT_BUFFER_BYTES, None),
        Executor::Gpu(..) => (gpu::DEFAULT_BUFFER_BYTES, Some(gpu::strip_bytes(plan, config, config.device.gpus())?)),
    };
    let rooms = (config.buffer_bytes.unwrap_or(buffer_bytes), strips::largest(source, on_device));
    let Budget { threads, strips } = Budget::fit(plan, source, threads, rooms, memory::is_available);
    let device_reports: Vec<_> = config.device.gpus().iter().map(DeviceReport::begin).collect();
    let mut state = WriteState {
        plan,
        config,
        workers: Workers::new(plan, copied.as_ref(), config.cancel.as_ref(), threads),
        spools,
        streamed,
        fallbacks,
        device_work: DeviceWork::default(),
        devices: 1,
    };
    state.run(executor, source, copied.as_ref(), &strips)?;
    let report = state.finish(source, device_reports);
    (report.wall_time, report.threads) = (start.elapsed(), threads);
    streamed.copied_tags = copied.map(|copied| copied.tags);
    // If the caller cancels after the last block, the file is not written either.
    if config.cancel.as_ref().is_some_and(Cancel::is_cancelled) { Err(Error::Cancelled) } else { Ok(()) }
}

/// Where the pixels of a source are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PixelsOn {
    /// In host memory, or not in memory until they are read.
    Host,
    /// In a raster on the device that encodes.
    ThisDevice,
    /// In a raster on another device.
    OtherDevice,
}

impl PixelsOn {
    fn of(source: &dyn RowSource, device: &Device) -> PixelsOn {
        match (source.on_device(), device.gpu()) {
            (Some(raster), Some(gpu)) if raster.gpu().is(gpu) => PixelsOn::ThisDevice,
            (Some(_), Some(_)) => PixelsOn::OtherDevice,
            _ => PixelsOn::Host,
        }
    }
}

/// The executor that extracts blocks and computes overviews.
enum Executor<'a> {
    Cpu,
    Gpu(&'a Gpu, EncodeJob),
}

/// Chooses the executor of a file before its first row. The device encodes only if it can compute all levels;
/// whether it also compresses is a separate choice.
fn choose_executor<'a>(
    plan: &WritePlan,
    config: &'a WriteConfig<'_>,
    copies_blocks: bool,
    pixels: PixelsOn,
    fallbacks: &mut Fallbacks,
) -> Result<Executor<'a>> {
    let Some(gpu) = config.device.gpu() else {
        if let Some(missing) = config.device.missing_gpu() {
            fallbacks.no_device(missing)?;
        }
        return Ok(Executor::Cpu);
    };
    // Copied blocks need no device, but overviews computed from them would.
    if copies_blocks && plan.levels.len() == 1 {
        return Ok(Executor::Cpu);
    }
    let mut job = if copies_blocks { Err(Unsupported::CopiedBlocks) } else { gpu::job(plan, gpu) };
    if let Err(reason) = &job {
        fallbacks.cpu_encodes(reason.clone())?;
    }
    if plan.has_statistics() && pixels == PixelsOn::ThisDevice {
        fallbacks.host_measures()?;
    }
    if pixels == PixelsOn::OtherDevice {
        fallbacks.host_moves_raster()?;
    }
    if let Ok(job) = &mut job {
        match gpu::tile_codec(plan, gpu, config.encoder) {
            Ok(codec) => job.compress = codec,
            Err(reason) => fallbacks.cpu_compresses(config.encoder, reason)?,
        }
    }
    Ok(job.map_or(Executor::Cpu, |job| Executor::Gpu(gpu, job)))
}

impl<'a> WriteState<'a> {
    /// Passes all rows through the executor.
    fn run(
        &mut self,
        executor: Executor<'_>,
        source: &mut dyn RowSource,
        copied: Option<&PassthroughBlocks>,
        strips: &[Range<u64>],
    ) -> Result<()> {
        let plan = self.plan;
        match executor {
            Executor::Cpu => {
                self.streamed.report.device = "cpu";
                // Copied blocks need no pixels, unless overviews or statistics are computed from them.
                let needs_pixels =
                    copied.is_none() || plan.levels.len() > 1 || plan.has_statistics() || plan.has_mask();
                cpu::run(self, source, strips, needs_pixels)
            }
            Executor::Gpu(gpu, job) => {
                self.streamed.report.device = gpu.info().api.name();
                gpu::run(self, self.config.device.gpus(), &job, source, strips)
            }
        }
    }

    /// Completes the report.
    fn finish(self, source: &dyn RowSource, mut device_reports: Vec<DeviceReport>) -> &'a mut WriteReport {
        let WriteState { plan, config, workers, streamed, fallbacks, device_work, devices, .. } = self;
        device_reports.truncate(devices);
        config.device.gpus().iter().zip(&mut device_reports).for_each(|(gpu, report)| report.end(gpu));
        let joined = device_reports.into_iter().reduce(|mut first, other| {
            first.join(other);
            first
        });
        let report = &mut streamed.report;
        report.statistics = workers.statistics();
        report.gpu = match joined {
            Some(mut used) => {
                used.take_fallbacks(source.device_report());
                if let Some(source) = source.device_report() {
                    (used.read_by, used.decoded_by) = (source.read_by.clone(), source.decoded_by.clone());
                }
                if report.device != "cpu" {
                    used.compressed_by = device_work.compressed_by.unwrap_or_else(|| TileCodec::None.to_string());
                }
                used.written_by = device_work.written_by.into();
                let full_resolution = plan.levels[0].grid.count().unwrap_or(0);
                fallbacks.report(report.blocks, full_resolution, &mut used);
                Some(used)
            }
            // The source may have used a device.
            None => match config.device.missing_gpu() {
                Some(missing) => Some(DeviceReport::none(missing, report.blocks)),
                None => source.device_report().cloned(),
            },
        };
        report
    }

    fn note_progress(&self, rows: u64) {
        if let Some(progress) = self.config.progress {
            progress(Progress { done: rows, total: self.plan.height() });
        }
    }
}
