//! What a write does when a device cannot do a part of the work. Every such decision of a write is made here.
//!
//! The executor reports a typed outcome: [`Unsupported`] before the first row, [`PushError`] and [`EncodeFailure`] later. The functions
//! here choose the next step, and note it for the report. In strict mode a step that leaves work to the CPU is an error.

use std::fmt;

use swath_codec::DType;
use swath_gpu::{EncodeFailure, PushError, TileCodec, Tiles};

use super::{FallbackPolicy, stage};
use crate::error::{Error, Result};
use crate::report::DeviceReport;

/// Why the device cannot do a part of a write. All of this is known before the first row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Unsupported {
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

/// Parts of the work that were not done as the caller asked, for the report.
#[derive(Debug, Default)]
pub(crate) struct Fallbacks {
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
    pub(crate) fn new(policy: FallbackPolicy) -> Fallbacks {
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

    /// There is no device: the CPU does everything.
    pub(crate) fn no_device(&self, reason: impl ToString) -> Result<()> {
        match self.policy {
            // The report of a write without a device says why there is none.
            FallbackPolicy::Auto => Ok(()),
            FallbackPolicy::Strict => Err(Error::Fallback { stage: stage::EVERYTHING, reason: reason.to_string() }),
        }
    }

    /// The device cannot encode the file: the CPU cuts blocks and makes overviews.
    pub(crate) fn cpu_encodes(&mut self, reason: Unsupported) -> Result<()> {
        self.allow(stage::CUTTING, reason, Blocks::All)
    }

    /// NVIDIA's library cannot compress the tiles of the file: the CPU does.
    pub(crate) fn cpu_compresses(&mut self, reason: Unsupported) -> Result<()> {
        self.allow(stage::LIBRARY_ENCODE, reason, Blocks::These(0))
    }

    /// The pixels of a raster come to the host to be measured.
    pub(crate) fn host_measures(&mut self) -> Result<()> {
        self.allow(stage::MEASURING, Unsupported::Statistics, Blocks::FullResolution)
    }

    /// The raster comes to the host, because another device encodes.
    pub(crate) fn host_moves_raster(&mut self) -> Result<()> {
        self.allow(stage::MOVING_RASTER, Unsupported::OtherDevice, Blocks::FullResolution)
    }

    /// cuFile does not write the blocks: the host does.
    pub(crate) fn host_writes(&mut self, reason: Unsupported) -> Result<()> {
        self.allow(stage::CUFILE_WRITE, reason, Blocks::These(0))
    }

    /// A library failed at tiles: the CPU compresses them, or the host writes them.
    pub(crate) fn after_failure(&mut self, failure: &EncodeFailure, tiles: &Tiles) -> Result<()> {
        let stage = match failure {
            EncodeFailure::DirectWrite(_) => stage::CUFILE_WRITE,
            EncodeFailure::Compression(_) => stage::LIBRARY_ENCODE,
        };
        self.allow(stage, failure, Blocks::These(tiles.count()))
    }

    /// Adds what was noted to the report. The file has `all` blocks, and `full_resolution` of them at the full resolution.
    pub(crate) fn report(self, all: u64, full_resolution: u64, report: &mut DeviceReport) {
        for (stage, reason, concerned) in self.noted {
            let count = match concerned {
                Blocks::These(count) => count,
                Blocks::All => all,
                Blocks::FullResolution => full_resolution,
            };
            report.note_fallback(stage, reason, count);
        }
    }
}

/// What to do with rows that the device did not take.
#[derive(Debug, PartialEq)]
pub(crate) enum NextPush {
    /// Push them in two parts.
    Halves,
    /// Disable compression for this reason and push them again: encoding alone needs less memory, and no library.
    WithoutCompression(swath_gpu::Error),
    /// Nothing: the write fails.
    Fail(swath_gpu::Error),
}

/// Chooses the next step after a push of `rows` rows failed. A part has at least `min_rows` rows.
pub(crate) fn after_push_error(error: PushError, rows: u64, min_rows: u64, compresses: bool) -> NextPush {
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
        assert!(matches!(refused, Err(Error::Fallback { stage: stage::CUFILE_WRITE, .. })));
        let mut auto = Fallbacks::new(FallbackPolicy::Auto);
        auto.host_writes(Unsupported::NotLocal).unwrap();
        assert_eq!(auto.noted.len(), 1);
    }
}
