//! What can go wrong with a device.

/// Why a device could not be used, or stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such device; the reason says what was looked for and where.
    #[error("there is no {api} device: {reason}")]
    NoDevice {
        /// The interface that was asked.
        api: &'static str,
        /// What is missing, and where it was looked for.
        reason: String,
    },
    /// The guard refused an allocation before it was made.
    #[error("{stage} needs {needed} bytes of device memory, but {free} are free")]
    Memory {
        /// What the memory is for.
        stage: &'static str,
        /// Bytes asked for; [`u64::MAX`] when there is no such number.
        needed: u64,
        /// Bytes that may be used: nine tenths of what is free.
        free: u64,
    },
    /// The guard refused an allocation that the caller's budget does not allow.
    #[error("{stage} needs {needed} bytes of device memory, but {left} are left of a budget of {budget}")]
    Budget {
        /// What the memory is for.
        stage: &'static str,
        /// Bytes asked for.
        needed: u64,
        /// Bytes that the budget still allows.
        left: u64,
        /// The budget.
        budget: u64,
    },
    /// The device ran out of memory although the guard let the allocation pass.
    #[error("{stage}: the device has no {needed} bytes left")]
    OutOfMemory {
        /// What the memory is for.
        stage: &'static str,
        /// Bytes asked for.
        needed: u64,
    },
    /// A call of the driver failed.
    #[error("{api}: {call} failed with {code}")]
    Call {
        /// The interface.
        api: &'static str,
        /// The function.
        call: &'static str,
        /// The driver's code, by name where it has one.
        code: String,
    },
    /// A kernel could not be compiled.
    #[error("kernel {kernel} does not compile on {device}: {log}")]
    Build {
        /// The kernel.
        kernel: &'static str,
        /// The device.
        device: String,
        /// What the compiler said.
        log: String,
    },
    /// The device cannot do this.
    #[error("{device} cannot {what}")]
    Unable {
        /// The device.
        device: String,
        /// What it cannot do.
        what: &'static str,
    },
    /// cuFile was given up in the middle: it may still read or write the memory that it was given, which is never used again.
    #[error("cuFile does not come to the end of a {what}: {reason}")]
    Stalled {
        /// What it was asked to do: "read" or "write".
        what: &'static str,
        /// What it said, or that it said nothing.
        reason: String,
    },
    /// cuFile moved fewer bytes than it was asked for.
    #[error("cuFile {what} {got} of {want} bytes at offset {offset}")]
    Transfer {
        /// `read` or `write`.
        what: &'static str,
        /// Where in the file.
        offset: u64,
        /// Bytes that were moved.
        got: u64,
        /// Bytes that were asked for.
        want: u64,
    },
}

impl Error {
    /// Whether it was reading or writing a file by the device itself that failed.
    pub fn is_about_files(&self) -> bool {
        matches!(self, Error::Transfer { .. } | Error::Stalled { .. } | Error::Call { api: "cuFile", .. })
    }

    /// Whether a library of NVIDIA's failed and not the device itself: the work may be done in another way.
    pub fn is_library(&self) -> bool {
        match self {
            Error::Call { api, .. } => !matches!(*api, "CUDA" | "OpenCL"),
            Error::NoDevice { api, .. } => matches!(*api, "nvCOMP" | "nvJPEG2000" | "nvJPEG"),
            Error::Transfer { .. } | Error::Stalled { .. } => true,
            _ => false,
        }
    }

    /// Whether a smaller batch may succeed.
    pub fn is_memory(&self) -> bool {
        matches!(self, Error::Memory { .. } | Error::Budget { .. } | Error::OutOfMemory { .. })
    }
}

/// The result of a call of this crate.
pub type Result<T> = std::result::Result<T, Error>;
