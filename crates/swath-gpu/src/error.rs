//! The errors of this crate.

use crate::backend::Api;
use crate::vendor::{Library, Missing};

/// Why a device or a library of NVIDIA could not be used, or failed.
///
/// [`is_memory`](Error::is_memory), [`is_library`](Error::is_library) and [`is_about_files`](Error::is_about_files) sort the variants by
/// what the caller can do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The interface has no device that can be used.
    #[error("there is no {} device: {reason}", api.title())]
    NoDevice {
        /// The interface that was searched.
        api: Api,
        /// What is missing, and where the search looked.
        reason: String,
    },
    /// Neither CUDA nor OpenCL has a device that can be used.
    #[error("there is no GPU device: {cuda}; {opencl}")]
    NoGpu {
        /// What CUDA lacks.
        cuda: Box<Error>,
        /// What OpenCL lacks.
        opencl: Box<Error>,
    },
    /// A library of NVIDIA was not found or cannot be used.
    #[error(transparent)]
    NoLibrary(#[from] Missing),
    /// The work needs a CUDA device, and this is another device.
    #[error("{device} is not a CUDA device")]
    NotCuda {
        /// The device.
        device: String,
    },
    /// The guard refused an allocation before it was made, because too little device memory is free.
    #[error("{stage} needs {needed} bytes of device memory, but {free} are free")]
    Memory {
        /// What the memory is for.
        stage: &'static str,
        /// Bytes needed; [`u64::MAX`] when the number does not fit in 64 bits.
        needed: u64,
        /// Bytes that may be allocated: nine tenths of what is free.
        free: u64,
    },
    /// The guard refused an allocation that would exceed the caller's budget.
    #[error("{stage} needs {needed} bytes of device memory, but {left} are left of a budget of {budget}")]
    Budget {
        /// What the memory is for.
        stage: &'static str,
        /// Bytes needed.
        needed: u64,
        /// Bytes that the budget still allows.
        left: u64,
        /// The budget.
        budget: u64,
    },
    /// The device ran out of memory although the guard allowed the allocation.
    #[error("{stage}: the device could not allocate {needed} bytes")]
    OutOfMemory {
        /// What the memory is for.
        stage: &'static str,
        /// Bytes needed.
        needed: u64,
    },
    /// The caller's allocator of device memory failed, for another reason than too little memory.
    #[error("{stage}: the allocator of device memory failed: {reason}")]
    Allocator {
        /// What the memory is for.
        stage: &'static str,
        /// What it reported.
        reason: String,
    },
    /// Memory ran out after the device had changed its state, so the work cannot be repeated in smaller pieces.
    ///
    /// [`is_memory`](Error::is_memory) is `false`: a smaller batch does not help.
    #[error("{stage} cannot be repeated with less memory: {reason}")]
    OutOfMemoryMidway {
        /// The work that had begun.
        stage: &'static str,
        /// The allocation that failed.
        reason: Box<Error>,
    },
    /// A call of the driver failed.
    #[error("{}: {call} failed with {code}", api.title())]
    Driver {
        /// The interface of the driver.
        api: Api,
        /// The function.
        call: &'static str,
        /// The driver's code, by name if it has one.
        code: String,
    },
    /// A call of a library of NVIDIA failed.
    #[error("{library}: {call} failed with {code}")]
    Library {
        /// The library.
        library: Library,
        /// The function.
        call: &'static str,
        /// The library's code, by name if it has one.
        code: String,
    },
    /// A library of NVIDIA reported that it cannot decode a block, without a reason.
    #[error("{library} does not decode the block")]
    Rejected {
        /// The library.
        library: Library,
    },
    /// A library of NVIDIA requires a larger alignment than batches have.
    #[error("{library} requires {what} to be aligned to {bytes} bytes")]
    Alignment {
        /// The library.
        library: Library,
        /// What has to be aligned.
        what: &'static str,
        /// The alignment.
        bytes: u64,
    },
    /// The driver's compiler rejected a kernel.
    #[error("kernel {kernel} does not compile on {device}: {log}")]
    Build {
        /// The kernel.
        kernel: &'static str,
        /// The device.
        device: String,
        /// The compiler's log.
        log: String,
    },
    /// The device does not support an operation.
    #[error("{device} cannot {what}")]
    Unable {
        /// The device.
        device: String,
        /// What it cannot do.
        what: &'static str,
    },
    /// cuFile did not finish a transfer in time. It may still access the memory of the transfer, so that memory is never used again.
    #[error("cuFile did not finish a {what}: {reason}")]
    Stalled {
        /// The transfer: "read" or "write".
        what: &'static str,
        /// What cuFile reported, or that it reported nothing.
        reason: String,
    },
    /// cuFile moved fewer bytes than requested.
    #[error("a cuFile {what} moved {got} of {want} bytes at offset {offset}")]
    Transfer {
        /// `read` or `write`.
        what: &'static str,
        /// The offset in the file.
        offset: u64,
        /// Bytes that were moved.
        got: u64,
        /// Bytes requested.
        want: u64,
    },
}

impl Error {
    /// Whether the device failed to read or write a file by itself. The host can still do it.
    pub fn is_about_files(&self) -> bool {
        match self {
            Error::Transfer { .. } | Error::Stalled { .. } => true,
            other => other.library() == Some(Library::CuFile),
        }
    }

    /// Whether a library of NVIDIA failed and not the device itself. Another decoder, or the host, may still do the work.
    pub fn is_library(&self) -> bool {
        self.library().is_some()
    }

    /// The library of NVIDIA that failed, if it was one.
    pub fn library(&self) -> Option<Library> {
        match self {
            Error::Library { library, .. } | Error::Alignment { library, .. } | Error::Rejected { library } => {
                Some(*library)
            }
            Error::NoLibrary(missing) => Some(missing.library()),
            Error::Transfer { .. } | Error::Stalled { .. } => Some(Library::CuFile),
            _ => None,
        }
    }

    /// Whether a smaller batch may succeed.
    pub fn is_memory(&self) -> bool {
        matches!(self, Error::Memory { .. } | Error::Budget { .. } | Error::OutOfMemory { .. })
    }
}

/// A name that stands for no value of a setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{name}' is not one of {names}")]
#[non_exhaustive]
pub struct UnknownName {
    /// The name.
    pub name: String,
    /// All names of the setting, separated by `|`.
    pub names: &'static str,
}

/// A `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_errors_are_told_apart_by_type() {
        let driver = Error::Driver { api: Api::Cuda, call: "cuInit", code: "100".into() };
        assert_eq!(driver.to_string(), "CUDA: cuInit failed with 100");
        assert!(!driver.is_library() && !driver.is_about_files() && !driver.is_memory());

        let library = Error::Library { library: Library::NvComp, call: "decompress", code: "10".into() };
        assert_eq!(library.to_string(), "nvCOMP: decompress failed with 10");
        assert!(library.is_library() && !library.is_about_files());

        let file = Error::Library { library: Library::CuFile, call: "cuFileRead", code: "5011".into() };
        assert!(file.is_library() && file.is_about_files());
        let short = Error::Transfer { what: "read", offset: 8, got: 1, want: 2 };
        assert!(short.is_library() && short.is_about_files());
    }

    #[test]
    fn memory_that_ran_out_midway_does_not_ask_for_a_smaller_batch() {
        let reason = Error::OutOfMemory { stage: "the tiles", needed: 9 };
        assert!(reason.is_memory());
        let midway = Error::OutOfMemoryMidway { stage: "cutting", reason: Box::new(reason) };
        assert!(!midway.is_memory() && !midway.is_library());
    }
}
