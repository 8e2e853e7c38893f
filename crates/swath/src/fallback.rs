//! The fallback policy: what happens when a device cannot do a part of the work.
//!
//! `fallback/read.rs` makes these decisions for reads, `fallback/write.rs` for writes. The executors and the command do not decide
//! again. The Python package adds one decision, which needs CuPy or PyTorch arrays: if a device fails as a whole and the caller did not
//! ask for strict mode, it repeats the operation on the CPU and warns (`python/swath/gpu/read.py` and `write.py`).

pub(crate) mod read;
pub(crate) mod write;

/// Names of the parts of the work, as reports and errors show them.
pub(crate) mod stage {
    pub(crate) const EVERYTHING: &str = "everything";
    pub(crate) const FETCHING: &str = "fetching";
    pub(crate) const DECODING: &str = "decoding";
    pub(crate) const CUFILE_READ: &str = "reading by cuFile";
    pub(crate) const LIBRARY_DECODE: &str = "decoding by NVIDIA's library";
    pub(crate) const COPYING_BACK: &str = "copying blocks back from the device";
    pub(crate) const CUTTING: &str = "cutting";
    pub(crate) const LIBRARY_ENCODE: &str = "compressing by NVIDIA's library";
    pub(crate) const CUFILE_WRITE: &str = "writing by cuFile";
    pub(crate) const MEASURING: &str = "measuring";
    pub(crate) const MOVING_RASTER: &str = "moving the raster";
}

/// What Swath does when a device cannot do a part of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FallbackPolicy {
    /// Another decoder of the device or the CPU does that part, and the report lists it.
    #[default]
    Auto,
    /// The operation fails with [`Error::Fallback`](crate::Error::Fallback).
    Strict,
}
