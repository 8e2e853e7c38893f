//! The results of encoding on a device other than compressed tiles.

use crate::error::Error;

/// The reason why [`TileEncoder::push`](super::TileEncoder::push) returned no tiles. The enum is exhaustive, so
/// that the caller has to handle every case.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// The device has too little memory. Nothing was started: the caller can push fewer rows, or the same rows with compression disabled.
    #[error(transparent)]
    OutOfMemory(Error),
    /// A library of NVIDIA could not report how much memory it needs. Nothing was started: the caller can push
    /// the same rows with compression disabled.
    #[error(transparent)]
    LibraryFailed(Error),
    /// The device failed. Work may have started, and the encoder cannot be used again.
    #[error(transparent)]
    Failed(Error),
}

impl PushError {
    /// Returns the outcome of an error after work has started. After that, a lack of memory is not a reason to
    /// push fewer rows: the device has already dropped rows that they need.
    pub(super) fn after_start(error: Error) -> PushError {
        PushError::Failed(match error.is_memory() {
            true => Error::OutOfMemoryMidway { stage: "cutting", reason: Box::new(error) },
            false => error,
        })
    }

    /// Returns the outcome of an error before any work started.
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

/// The operation that a library failed to do. The tiles exist nevertheless: uncompressed, or compressed in host
/// memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeFailure {
    /// The tiles were not compressed on the device.
    #[error(transparent)]
    Compression(Error),
    /// The device did not write the compressed tiles to the file.
    #[error(transparent)]
    DirectWrite(Error),
}
