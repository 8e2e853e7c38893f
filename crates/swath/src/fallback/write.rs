//! The fallback decisions of a write: what happens when a device cannot do a part of the work.
//!
//! The executor reports a typed outcome: [`Unsupported`] before the first row, [`PushError`] and
//! [`EncodeFailure`] later. The functions here choose the next step and record it for the report. In strict
//! mode, a step that leaves work to the CPU is an error.

use std::fmt;

use swath_codec::DType;
use swath_gpu::{EncodeFailure, EncoderBackend, PushError, TileCodec, Tiles};

use super::{FallbackPolicy, stage};
use crate::error::{Error, Result};
use crate::report::DeviceReport;

/// Why the device cannot do a part of a write. All these reasons are known before the first row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Unsupported {
    /// The file has a mask.
    Mask,
    /// Samples are stored in fewer bits than their type has.
    PackedSamples,
    /// No kernel computes such overviews.
    Resampling { dtype: DType, method: &'static str, factor: usize },
    /// The mean of floats needs doubles, which the device does not support.
    NoDoubles,
    /// No kernel applies the predictor to samples of this size.
    Predictor,
    /// The driver cannot compile a kernel.
    Kernel(swath_gpu::Error),
    /// The blocks of the full resolution are copied, so their pixels are never on the device.
    CopiedBlocks,
    /// The NVIDIA library or the kernel cannot compress the tiles.
    Codec(swath_gpu::Error),
    /// The write skips empty blocks, and only the CPU's encoder recognises them, by their encoded bytes.
    EmptyBlocks,
    /// The library does not encode pictures of one row or column.
    ThinPictures(TileCodec),
    /// No kernel computes statistics.
    Statistics,
    /// The raster is on another device than the one that encodes.
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
            Unsupported::Mask => f.write_str("no kernel supports masks"),
            Unsupported::PackedSamples => f.write_str("no kernel supports samples that are not whole bytes"),
            Unsupported::Resampling { dtype, method, factor } => {
                write!(f, "no kernel computes {dtype} overviews with method {method} and factor {factor}")
            }
            Unsupported::NoDoubles => f.write_str("the device has no double precision, which the mean of floats needs"),
            Unsupported::Predictor => f.write_str("no kernel applies the predictor to samples of this size"),
            Unsupported::Kernel(error) => error.fmt(f),
            Unsupported::CopiedBlocks => f.write_str("the blocks of the full resolution are copied without decoding"),
            Unsupported::Codec(error) => error.fmt(f),
            Unsupported::EmptyBlocks => f.write_str("the device cannot recognise empty blocks"),
            Unsupported::ThinPictures(codec) => write!(f, "{codec} does not encode pictures of one row or column"),
            Unsupported::Statistics => f.write_str("no kernel computes statistics"),
            Unsupported::OtherDevice => f.write_str("the raster is on another device"),
            Unsupported::NotCompressed => {
                f.write_str("nvCOMP does not compress these blocks, so they are in host memory")
            }
            Unsupported::NotLocal => f.write_str("cuFile writes only local files"),
            Unsupported::CuFile(error) => error.fmt(f),
        }
    }
}

/// The fallbacks of a write, collected for the report.
#[derive(Debug, Default)]
pub(crate) struct Fallbacks {
    policy: FallbackPolicy,
    /// Stage, reason, and the blocks concerned.
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

    /// Records that a part of the work is not done as requested.
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

    /// Handles a missing device: the CPU does everything.
    pub(crate) fn no_device(&self, reason: impl ToString) -> Result<()> {
        match self.policy {
            // The report of a write without a device states why there is none.
            FallbackPolicy::Auto => Ok(()),
            FallbackPolicy::Strict => Err(Error::Fallback { stage: stage::EVERYTHING, reason: reason.to_string() }),
        }
    }

    /// Records that the device cannot encode the file: the CPU extracts blocks and computes overviews.
    pub(crate) fn cpu_encodes(&mut self, reason: Unsupported) -> Result<()> {
        self.allow(stage::CUTTING, reason, Blocks::All)
    }

    /// Records that the requested encoder cannot compress the tiles of the file: the CPU compresses them.
    pub(crate) fn cpu_compresses(&mut self, encoder: EncoderBackend, reason: Unsupported) -> Result<()> {
        let stage = if encoder == EncoderBackend::NvComp { stage::LIBRARY_ENCODE } else { stage::COMPRESSING };
        self.allow(stage, reason, Blocks::These(0))
    }

    /// Records that the pixels of a raster are copied to the host, which computes their statistics.
    pub(crate) fn host_measures(&mut self) -> Result<()> {
        self.allow(stage::MEASURING, Unsupported::Statistics, Blocks::FullResolution)
    }

    /// Records that the raster is copied to the host, because another device encodes.
    pub(crate) fn host_moves_raster(&mut self) -> Result<()> {
        self.allow(stage::MOVING_RASTER, Unsupported::OtherDevice, Blocks::FullResolution)
    }

    /// Records that the host writes the blocks instead of cuFile.
    pub(crate) fn host_writes(&mut self, reason: Unsupported) -> Result<()> {
        self.allow(stage::CUFILE_WRITE, reason, Blocks::These(0))
    }

    /// Records that the device failed for some tiles: the CPU compresses them, or the host writes them.
    pub(crate) fn after_failure(&mut self, codec: TileCodec, failure: &EncodeFailure, tiles: &Tiles) -> Result<()> {
        let stage = match failure {
            EncodeFailure::DirectWrite(_) => stage::CUFILE_WRITE,
            EncodeFailure::Compression(_) if codec.is_by_library() => stage::LIBRARY_ENCODE,
            EncodeFailure::Compression(_) => stage::COMPRESSING,
        };
        self.allow(stage, failure, Blocks::These(tiles.count()))
    }

    /// Adds the recorded fallbacks to the report. The file has `all` blocks, of which `full_resolution`
    /// belong to the full resolution.
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

/// The next step for rows that the device did not accept.
#[derive(Debug, PartialEq)]
pub(crate) enum NextPush {
    /// Push them in two parts.
    Halves,
    /// Disable compression for this reason and push the rows again: encoding without compression needs less
    /// memory and no library.
    WithoutCompression(swath_gpu::Error),
    /// Fail the write.
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
    fn out_of_memory_tries_fewer_rows_then_no_compression_then_fails() {
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
    fn strict_mode_refuses_and_auto_records() {
        let mut strict = Fallbacks::new(FallbackPolicy::Strict);
        let refused = strict.host_writes(Unsupported::NotLocal);
        assert!(matches!(refused, Err(Error::Fallback { stage: stage::CUFILE_WRITE, .. })));
        let mut auto = Fallbacks::new(FallbackPolicy::Auto);
        auto.host_writes(Unsupported::NotLocal).unwrap();
        assert_eq!(auto.noted.len(), 1);
    }
}
