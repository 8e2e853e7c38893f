//! Device memory that another library gives: the pool of CuPy, RMM, or any other.

use std::fmt::Debug;

/// The alignment that memory of an allocator must have, in bytes: that of memory of the CUDA driver.
pub(crate) const ALIGNMENT: u64 = 256;

/// Gives device memory in the place of the CUDA driver. [`Gpu::set_allocator`](crate::Gpu::set_allocator) installs it.
///
/// All methods are called while the primary context of the device is current on the calling thread, which may be any thread, and from several
/// threads at a time. Swath holds no lock meanwhile.
///
/// # Safety
/// `allocate` returns an address of device memory in the primary context, a multiple of 256, with at least the requested bytes. Work that is
/// ordered after `stream` may use the memory until `free`, and nothing else uses it.
pub unsafe trait DeviceAllocator: Debug + Send + Sync {
    /// Allocates `bytes` of device memory, at least 1, in the order of a CUDA stream.
    ///
    /// # Errors
    /// [`AllocatorError::OutOfMemory`] when there is too little memory: Swath then tries smaller batches. Other errors end the work.
    fn allocate(&self, bytes: u64, stream: u64) -> Result<u64, AllocatorError>;

    /// Takes memory back.
    ///
    /// # Safety
    /// The address came from `allocate` with these bytes, and is freed once. All work of Swath that uses it is ordered before what `stream`
    /// has.
    unsafe fn free(&self, address: u64, bytes: u64, stream: u64);

    /// Bytes that the allocator can give in addition to the free memory of the device, because it holds them and nothing uses them. `None`
    /// if it does not know: then Swath's guard refuses nothing that fits in the device, and `allocate` decides.
    fn free_bytes(&self) -> Option<u64> {
        None
    }
}

/// Why an allocator gave no memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllocatorError {
    /// It has too little memory.
    #[error("the allocator has too little memory")]
    OutOfMemory,
    /// It failed for another reason.
    #[error("the allocator failed: {reason}")]
    Failed {
        /// What it reported.
        reason: String,
    },
}
