//! Memory that frees itself.

use std::any::Any;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

use crate::backend::{Device, Handle};
use crate::profile::Profile;
use crate::stats::Counters;
use crate::vendor::cufile::Registration;

/// What buffers of a device share with it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) device: Box<dyn Device>,
    pub(crate) counters: Counters,
    pub(crate) profile: Profile,
}

/// Whoever memory of somebody else's belongs to: it stays as long as this does.
pub(crate) struct Owner {
    pub(crate) _kept: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner")
    }
}

/// Device memory. It is given back when it is dropped: to the device, or to whom it belongs.
#[derive(Debug)]
pub struct Buffer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) handle: Handle,
    pub(crate) bytes: u64,
    /// What cuFile knows of it, once it was asked to read into it or write from it: nothing, if it could not be told.
    pub(crate) registration: OnceLock<Option<Registration>>,
    /// Whose memory it is, if it is not ours.
    pub(crate) owner: Option<Owner>,
}

impl Buffer {
    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The device's own name for it: a `CUdeviceptr` of CUDA, a `cl_mem` of OpenCL.
    pub fn handle(&self) -> Handle {
        self.handle
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // Memory that cuFile knows is not given back before it has forgotten it.
        if let Some(Some(registration)) = self.registration.take() {
            let mut registration = Some(registration);
            self.shared.device.in_cuda_context(&mut || registration = None);
        }
        // What belongs to others was neither allocated nor counted here: they are let go of, and no more.
        if self.owner.is_some() {
            return;
        }
        // SAFETY: the handle came from this device and is released once; streams synchronise before the buffers that they use
        // are dropped (`Stream` says how).
        unsafe { self.shared.device.release(self.handle) };
        self.shared.counters.freed(self.bytes);
    }
}

/// Host memory that the device copies from and to by itself.
#[derive(Debug)]
pub struct Pinned {
    pub(crate) shared: Arc<Shared>,
    pub(crate) handle: Handle,
    pub(crate) memory: *mut u8,
    pub(crate) bytes: usize,
}

// SAFETY: the memory belongs to this value alone, and drivers allow it to be freed from any thread.
unsafe impl Send for Pinned {}
// SAFETY: shared access only reads.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// The first `bytes` of it, and no reference to the others: a library may still be reading those.
    ///
    /// # Panics
    /// When there are not so many.
    pub(crate) fn head_mut(&mut self, bytes: usize) -> &mut [u8] {
        assert!(bytes <= self.bytes, "{bytes} of {} bytes", self.bytes);
        // SAFETY: `pin` gave at least so many bytes, zeroed by `Gpu::pin`, and `self` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.memory, bytes) }
    }
}

impl Deref for Pinned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `pin` gave so many bytes, zeroed by `Gpu::pin`, and they stay until the drop.
        unsafe { std::slice::from_raw_parts(self.memory, self.bytes) }
    }
}

impl DerefMut for Pinned {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.memory, self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: the handle and the memory came from `pin` of this device and are given back once.
        unsafe { self.shared.device.unpin(self.handle, self.memory) };
    }
}
