//! What a write does when a device cannot do a part of the work. Every such decision of a write is made here.
//!
//! The executor reports a typed outcome: [`Unsupported`] before the first row, [`PushError`] and [`EncodeFailure`] later. The functions
//! here choose the next step. In strict mode a step that leaves work to the CPU is an error.

use std::fmt;

use swath_codec::DType;
use swath_gpu::{EncodeFailure, EncodeJob, Gpu, PushError, TileCodec, Tiles};

use super::gpu;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::fallback::FallbackPolicy;
use crate::report::DeviceReport;
use crate::write::config::WriteConfig;
use crate::write::plan::WritePlan;
use crate::write::source::RowSource;

/// Names of the parts of the work, as reports and errors show them.
pub(super) mod stage {
    pub(crate) const EVERYTHING: &str = "everything";
    pub(crate) const CUTTING: &str = "cutting";
    pub(crate) const COMPRESSING: &str = "compressing by NVIDIA's library";
    pub(crate) const WRITING: &str = "writing by cuFile";
    pub(crate) const MEASURING: &str = "measuring";
    pub(crate) const MOVING: &str = "moving the raster";
}

/// Why the device cannot do a part of a write. All of this is known before the first row.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Unsupported {
    /// The file has a mask.
    Mask,
    /// Samples are stored in fewer bits than their type has.
    PackedSamples,
    /// No kernel makes such overviews.
    Resampling { dtype: DType, method: &'static str, factor: usize },
    /// Means of floats need doubles, which the device does not have.
    NoDoubles,
    /// No kernel applies the predictor to samples of this size.
    Predictor,
    /// The driver cannot compile a kernel.
    Kernel(swath_gpu::Error),
    /// The blocks of the full resolution are copied, so their pixels are never on the device.
    CopiedBlocks,
    /// NVIDIA's library cannot compress the tiles.
    Codec(swath_gpu::Error),
    /// Empty blocks are recognised by the bytes that the CPU's encoder makes of them.
    EmptyBlocks,
    /// The library does not encode pictures of one row or column.
    ThinPictures(TileCodec),
    /// No kernel computes statistics.
    Statistics,
    /// The raster lies on another device than the one that encodes.
    OtherDevice,
    /// cuFile writes only blocks that nvCOMP compressed.
    NotCompressed,
    /// cuFile writes only local files.
    NotLocal,
    /// cuFile cannot open the file.
    CuFile(swath_gpu::Error),
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsupported::Mask => f.write_str("no kernel packs masks"),
            Unsupported::PackedSamples => f.write_str("no kernel packs samples that are not whole bytes"),
            Unsupported::Resampling { dtype, method, factor } => {
                write!(f, "no kernel makes overviews of {dtype} by {method} of {factor} pixels a side")
            }
            Unsupported::NoDoubles => f.write_str("the device has no double precision for the means of floats"),
            Unsupported::Predictor => f.write_str("no kernel applies the predictor to such samples"),
            Unsupported::Kernel(error) => error.fmt(f),
            Unsupported::CopiedBlocks => f.write_str("the blocks of the full resolution are copied as they are"),
            Unsupported::Codec(error) => error.fmt(f),
            Unsupported::EmptyBlocks => f.write_str("it does not find empty blocks"),
            Unsupported::ThinPictures(codec) => write!(f, "{codec} does not encode pictures of one row or column"),
            Unsupported::Statistics => f.write_str("no kernel computes statistics"),
            Unsupported::OtherDevice => f.write_str("it lies on another device"),
            Unsupported::NotCompressed => f.write_str("the host makes blocks that nvCOMP does not compress"),
            Unsupported::NotLocal => f.write_str("cuFile writes only files of this machine"),
            Unsupported::CuFile(error) => error.fmt(f),
        }
    }
}

/// Where the pixels of a source lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PixelsOn {
    /// In host memory, or nowhere until they are read.
    Host,
    /// In a raster on the device that encodes.
    ThisDevice,
    /// In a raster on another device.
    OtherDevice,
}

impl PixelsOn {
    pub(super) fn of(source: &dyn RowSource, device: &Device) -> PixelsOn {
        match (source.on_device(), device.gpu()) {
            (Some(raster), Some(gpu)) if raster.gpu().is(gpu) => PixelsOn::ThisDevice,
            (Some(_), Some(_)) => PixelsOn::OtherDevice,
            _ => PixelsOn::Host,
        }
    }
}

/// What cuts blocks and makes overviews.
pub(super) enum Executor<'a> {
    Cpu,
    Gpu(&'a Gpu, EncodeJob),
}

/// Parts of the work that were not done as the caller asked, for the report.
#[derive(Debug, Default)]
pub(super) struct Fallbacks {
    policy: FallbackPolicy,
    /// Stage, reason, and blocks that it concerns.
    noted: Vec<(&'static str, String, Blocks)>,
}

/// The blocks that a fallback concerns.
#[derive(Debug, Clone, Copy)]
enum Blocks {
    These(u64),
    /// All blocks of the file.
    All,
    /// All blocks of the full resolution.
    FullResolution,
}

impl Fallbacks {
    pub(super) fn new(policy: FallbackPolicy) -> Fallbacks {
        Fallbacks { policy, noted: Vec::new() }
    }

    /// Notes that a part of the work is not done as asked.
    ///
    /// # Errors
    /// [`Error::Fallback`] in strict mode.
    fn allow(&mut self, stage: &'static str, reason: impl ToString, blocks: Blocks) -> Result<()> {
        let reason = reason.to_string();
        if self.policy == FallbackPolicy::Strict {
            return Err(Error::Fallback { stage, reason });
        }
        self.noted.push((stage, reason, blocks));
        Ok(())
    }

    /// Chooses what encodes a file, before its first row. The device encodes only if it can do all levels; whether it also compresses
    /// is a separate choice.
    pub(super) fn choose_executor<'a>(
        &mut self,
        plan: &WritePlan,
        config: &'a WriteConfig<'_>,
        copies_blocks: bool,
        pixels: PixelsOn,
    ) -> Result<Executor<'a>> {
        let gpu = match &config.device {
            Device::Gpu(gpu) => gpu,
            Device::Cpu => return Ok(Executor::Cpu),
            Device::NoGpu(reason) if self.policy == FallbackPolicy::Strict => {
                return Err(Error::Fallback { stage: stage::EVERYTHING, reason: reason.clone() });
            }
            Device::NoGpu(_) => return Ok(Executor::Cpu),
        };
        // Copied blocks need no device, but overviews beside them would.
        if copies_blocks && plan.levels.len() == 1 {
            return Ok(Executor::Cpu);
        }
        let job = if copies_blocks { Err(Unsupported::CopiedBlocks) } else { gpu::job(plan, gpu) };
        let mut job = match job {
            Ok(job) => job,
            Err(reason) => {
                self.allow(stage::CUTTING, reason, Blocks::All)?;
                self.note_pixels(plan, pixels)?;
                return Ok(Executor::Cpu);
            }
        };
        self.note_pixels(plan, pixels)?;
        match gpu::tile_codec(plan, gpu, config.encoder) {
            Ok(codec) => job.compress = codec,
            Err(reason) => self.allow(stage::COMPRESSING, reason, Blocks::These(0))?,
        }
        Ok(Executor::Gpu(gpu, job))
    }

    /// A raster on a device comes to the host to be measured, or if the device that encodes is another one.
    fn note_pixels(&mut self, plan: &WritePlan, pixels: PixelsOn) -> Result<()> {
        if plan.has_statistics() && pixels == PixelsOn::ThisDevice {
            self.allow(stage::MEASURING, Unsupported::Statistics, Blocks::FullResolution)?;
        }
        if pixels == PixelsOn::OtherDevice {
            self.allow(stage::MOVING, Unsupported::OtherDevice, Blocks::FullResolution)?;
        }
        Ok(())
    }

    /// cuFile does not write the blocks: the host does.
    pub(super) fn host_writes(&mut self, reason: Unsupported) -> Result<()> {
        self.allow(stage::WRITING, reason, Blocks::These(0))
    }

    /// A library failed at tiles: the CPU compresses them, or the host writes them.
    pub(super) fn after_failure(&mut self, failure: &EncodeFailure, tiles: &Tiles) -> Result<()> {
        let stage = match failure {
            EncodeFailure::DirectWrite(_) => stage::WRITING,
            EncodeFailure::Compression(_) => stage::COMPRESSING,
        };
        self.allow(stage, failure, Blocks::These(tiles.count()))
    }

    /// Adds what was noted to the report, now that the blocks are counted.
    pub(super) fn report(self, plan: &WritePlan, blocks: u64, report: &mut DeviceReport) {
        for (stage, reason, concerned) in self.noted {
            let count = match concerned {
                Blocks::These(count) => count,
                Blocks::All => blocks,
                Blocks::FullResolution => plan.levels[0].grid.count().unwrap_or(0),
            };
            report.note_fallback(stage, reason, count);
        }
    }
}

/// What to do with rows that the device did not take.
#[derive(Debug, PartialEq)]
pub(super) enum NextPush {
    /// Push them in two parts.
    Halves,
    /// Disable compression for this reason and push them again: encoding alone needs less memory, and no library.
    WithoutCompression(swath_gpu::Error),
    /// Nothing: the write fails.
    Fail(swath_gpu::Error),
}

/// Chooses the next step after a push of `rows` rows failed. A part has at least `min_rows` rows.
pub(super) fn after_push_error(error: PushError, rows: u64, min_rows: u64, compresses: bool) -> NextPush {
    match error {
        PushError::OutOfMemory(_) if rows > min_rows => NextPush::Halves,
        PushError::OutOfMemory(error) | PushError::LibraryFailed(error) if compresses => {
            NextPush::WithoutCompression(error)
        }
        PushError::OutOfMemory(error) | PushError::LibraryFailed(error) | PushError::Failed(error) => {
            NextPush::Fail(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_memory() -> swath_gpu::Error {
        swath_gpu::Error::Memory { stage: "tiles", needed: 2, free: 1 }
    }

    #[test]
    fn too_little_memory_means_fewer_rows_then_no_compression_then_an_error() {
        let next = |rows, compresses| after_push_error(PushError::OutOfMemory(no_memory()), rows, 16, compresses);
        assert_eq!(next(17, true), NextPush::Halves);
        assert_eq!(next(16, true), NextPush::WithoutCompression(no_memory()));
        assert_eq!(next(16, false), NextPush::Fail(no_memory()));
    }

    #[test]
    fn rows_are_not_pushed_again_after_work_has_started() {
        let next = |error| after_push_error(error, 100, 16, true);
        assert_eq!(next(PushError::LibraryFailed(no_memory())), NextPush::WithoutCompression(no_memory()));
        assert_eq!(next(PushError::Failed(no_memory())), NextPush::Fail(no_memory()));
    }

    #[test]
    fn strict_mode_refuses_and_auto_notes() {
        let mut strict = Fallbacks::new(FallbackPolicy::Strict);
        let refused = strict.host_writes(Unsupported::NotLocal);
        assert!(matches!(refused, Err(Error::Fallback { stage: stage::WRITING, .. })));
        let mut auto = Fallbacks::new(FallbackPolicy::Auto);
        auto.host_writes(Unsupported::NotLocal).unwrap();
        assert_eq!(auto.noted.len(), 1);
    }
}
