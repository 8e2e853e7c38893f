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
}

impl Error {
    /// Whether a smaller batch may succeed.
    pub fn is_memory(&self) -> bool {
        matches!(self, Error::Memory { .. } | Error::Budget { .. } | Error::OutOfMemory { .. })
    }
}

/// The result of a call of this crate.
pub type Result<T> = std::result::Result<T, Error>;
