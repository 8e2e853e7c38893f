//! The fallback policy: what happens when a device cannot do a part of the work.
//!
//! `fallback/read.rs` makes these decisions for reads, `fallback/write.rs` for writes. The executors, the
//! command and the Python package do not decide again. The executors cannot continue after a device failed as a
//! whole, because its memory may hold the pixels. A caller that can get them in another way, as the Python package
//! can through CuPy or PyTorch, asks [`FallbackPolicy::read_again_on_cpu`] or
//! [`FallbackPolicy::write_again_on_cpu`] whether to repeat the operation.

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
    pub(crate) const WRITING: &str = "writing";
    pub(crate) const CUTTING: &str = "cutting";
    pub(crate) const COMPRESSING: &str = "compressing";
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

impl FallbackPolicy {
    /// Whether the CPU repeats a read after the device failed as a whole: the part of the work that the CPU
    /// takes over, as a report names it, or `None` if the error of the device is final.
    pub fn read_again_on_cpu(self) -> Option<&'static str> {
        self.on_cpu(stage::DECODING)
    }

    /// Whether the CPU repeats a write after the device failed as a whole: the part of the work that the CPU
    /// takes over, as a report names it, or `None` if the error of the device is final.
    pub fn write_again_on_cpu(self) -> Option<&'static str> {
        self.on_cpu(stage::WRITING)
    }

    fn on_cpu(self, stage: &'static str) -> Option<&'static str> {
        match self {
            FallbackPolicy::Auto => Some(stage),
            FallbackPolicy::Strict => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_mode_never_repeats_an_operation_on_the_cpu() {
        assert_eq!(FallbackPolicy::Strict.read_again_on_cpu(), None);
        assert_eq!(FallbackPolicy::Strict.write_again_on_cpu(), None);
        assert_eq!(FallbackPolicy::Auto.read_again_on_cpu(), Some("decoding"));
        assert_eq!(FallbackPolicy::Auto.write_again_on_cpu(), Some("writing"));
    }
}
