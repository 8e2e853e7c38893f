//! Memory whose size an image or a request decides: a failed allocation is an error and does not end the process.

use crate::error::{Error, Result};

/// Returns `count` zeros. The system provides the pages when they are first written.
///
/// # Errors
/// [`Error::OutOfMemory`] if the system does not have the memory. `what` names the contents, in the plural.
pub(crate) fn zeros<T: bytemuck::Zeroable>(count: usize, what: &'static str) -> Result<Vec<T>> {
    let bytes = count.saturating_mul(size_of::<T>()) as u64;
    bytemuck::allocation::try_zeroed_vec(count).map_err(|()| Error::OutOfMemory { bytes, what })
}

/// Whether the system has `bytes` bytes of memory now. They are not kept.
pub(crate) fn is_available(bytes: u64) -> bool {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}
