//! Device memory and pinned host memory that free themselves.

use std::any::Any;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

use crate::backend::{Device, Handle};
use crate::memory::pinned_pool::{Piece, PinnedPool};
use crate::profile::Profile;
use crate::stats::Counters;
use crate::transfer_pool::TransferPool;
use crate::vendor::cufile::Registration;

/// The state that a device shares with its buffers.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) device: Box<dyn Device>,
    pub(crate) counters: Counters,
    pub(crate) profile: Profile,
    /// Threads for transfers between files and memory.
    pub(crate) transfers: TransferPool,
    /// Pinned memory that is kept for later operations.
    pub(crate) pinned: PinnedPool,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.pinned.clear(&*self.device);
    }
}

/// The owner of memory that another library allocated. The memory stays valid while this value lives.
pub(crate) struct Owner {
    pub(crate) _kept: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner")
    }
}

/// Device memory. Dropping it frees it, or releases its owner.
#[derive(Debug)]
pub struct Buffer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) handle: Handle,
    pub(crate) bytes: u64,
    /// The registration with cuFile, after the first transfer of cuFile: `None` if the buffer could not be registered.
    pub(crate) registration: OnceLock<Option<Registration>>,
    /// The owner, if another library allocated the memory.
    pub(crate) owner: Option<Owner>,
}

impl Buffer {
    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The driver's handle: a `CUdeviceptr` of CUDA, a `cl_mem` of OpenCL.
    pub fn handle(&self) -> Handle {
        self.handle
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // The memory is deregistered from cuFile before it is freed.
        if let Some(Some(registration)) = self.registration.take() {
            let mut registration = Some(registration);
            self.shared.device.in_cuda_context(&mut || registration = None);
        }
        // Memory of another library was neither allocated nor counted here: only its owner is released.
        if self.owner.is_some() {
            return;
        }
        // SAFETY: the handle came from this device and is released once; streams synchronise before the buffers that they use
        // are dropped (`Stream` says how).
        unsafe { self.shared.device.release(self.handle) };
        self.shared.counters.freed(self.bytes);
    }
}

/// Pinned host memory, which the device copies from and to by itself. Dropping it keeps it for later operations.
#[derive(Debug)]
pub struct Pinned {
    pub(crate) shared: Arc<Shared>,
    pub(crate) piece: Piece,
}

// SAFETY: shared access only reads.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// The first `bytes` bytes, without a reference to the rest: a library may still be reading the rest.
    ///
    /// # Panics
    /// When the memory is smaller.
    pub(crate) fn head_mut(&mut self, bytes: usize) -> &mut [u8] {
        assert!(bytes <= self.piece.bytes, "{bytes} of {} bytes", self.piece.bytes);
        // SAFETY: `pin` returned at least this many bytes, which have a value, and `self` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.piece.memory, bytes) }
    }
}

impl Deref for Pinned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `pin` returned this many bytes, which have a value and stay valid until the drop.
        unsafe { std::slice::from_raw_parts(self.piece.memory, self.piece.bytes) }
    }
}

impl DerefMut for Pinned {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.piece.memory, self.piece.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let Piece { handle, memory, bytes } = self.piece;
        self.shared.pinned.give(Piece { handle, memory, bytes }, &*self.shared.device);
    }
}
