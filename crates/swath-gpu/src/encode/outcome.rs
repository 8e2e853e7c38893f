//! How encoding on a device can end other than with compressed tiles.

use crate::error::Error;
use crate::vendor::Missing;

/// Why [`TileEncoder::push`](super::TileEncoder::push) returned no tiles. The enum is exhaustive: the caller has to decide about every
/// outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// The device has too little memory. Nothing was started: the caller can push fewer rows, or the same rows with compression disabled.
    #[error(transparent)]
    OutOfMemory(Error),
    /// A library of NVIDIA's could not say how much memory it needs. Nothing was started: the caller can push the same rows with
    /// compression disabled.
    #[error(transparent)]
    LibraryFailed(Error),
    /// The device failed. Work may have started, and the encoder cannot be used again. This can also be a lack of memory that the
    /// driver reported too late for a second try.
    #[error(transparent)]
    Failed(Error),
}

impl PushError {
    /// The outcome of an error that occurred before any work started.
    pub(super) fn before_start(error: Error) -> PushError {
        if error.is_memory() {
            PushError::OutOfMemory(error)
        } else if error.is_library() {
            PushError::LibraryFailed(error)
        } else {
            PushError::Failed(error)
        }
    }
}

/// What a library failed at. The tiles are there nevertheless: uncompressed, or compressed in host memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeFailure {
    /// The tiles were not compressed on the device.
    #[error(transparent)]
    Compression(Error),
    /// The device did not write the compressed tiles to the file.
    #[error(transparent)]
    DirectWrite(Error),
}

/// Why no library of NVIDIA's can compress the tiles of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecUnavailable {
    /// The libraries only work with CUDA.
    #[error("{device} is not a CUDA device")]
    NotCuda {
        /// The name of the device.
        device: String,
    },
    /// The library cannot be loaded.
    #[error("{0}")]
    Missing(Missing),
    /// The library failed when it was asked what it needs.
    #[error(transparent)]
    LibraryFailed(Error),
    /// The library needs tiles at addresses that the pool does not have.
    #[error("nvCOMP needs tiles at multiples of {alignment} bytes")]
    Alignment {
        /// The alignment in bytes.
        alignment: u64,
    },
}
