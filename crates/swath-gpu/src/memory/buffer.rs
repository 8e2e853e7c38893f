//! Device memory and pinned host memory that free themselves.

use std::any::Any;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use crate::backend::{Device, Handle};
use crate::memory::allocator::DeviceAllocator;
use crate::memory::caller_stream::CallerStream;
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
    /// What gives device memory in the place of the driver.
    pub(crate) allocator: RwLock<Option<Arc<dyn DeviceAllocator>>>,
}

impl Shared {
    pub(crate) fn new(device: Box<dyn Device>) -> Shared {
        Shared {
            device,
            counters: Default::default(),
            profile: Default::default(),
            transfers: Default::default(),
            pinned: Default::default(),
            allocator: Default::default(),
        }
    }

    /// What gives device memory in the place of the driver. The lock is not held afterwards.
    pub(crate) fn allocator(&self) -> Option<Arc<dyn DeviceAllocator>> {
        self.allocator.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
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

/// Where device memory came from, and so how it is given back.
#[derive(Debug)]
pub(crate) enum Origin {
    /// The driver. It waits for the whole device to free such memory.
    Driver,
    /// The driver, in the order of the memory stream.
    InOrder,
    /// The caller's allocator, in the order of the memory stream.
    Allocator(Arc<dyn DeviceAllocator>),
    /// Another library, which keeps it.
    Foreign {
        /// What keeps it.
        _owner: Owner,
    },
}

/// The work of other libraries that may use a buffer when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct OtherUse {
    streams: AtomicU64,
    /// The streams, which are alive as long as they are here.
    kept: Mutex<Vec<CallerStream>>,
}

impl OtherUse {
    const NONE: u64 = 0;
    /// Any stream of the context. The default stream of a thread counts as this, because it cannot be named in another thread.
    const ANY: u64 = u64::MAX;

    /// Notes that work in a stream may use the buffer.
    pub(crate) fn add_stream(&self, stream: &CallerStream) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(stream.clone());
        let stream = match stream.handle() {
            CallerStream::PER_THREAD => OtherUse::ANY,
            handle => handle,
        };
        let merged = |known: u64| Some(if known == OtherUse::NONE || known == stream { stream } else { OtherUse::ANY });
        let _ = self.streams.fetch_update(Ordering::AcqRel, Ordering::Acquire, merged);
    }

    /// Notes that work in an unknown stream may use the buffer, unless the stream is known already.
    pub(crate) fn add_unknown(&self) {
        let _ = self.streams.compare_exchange(OtherUse::NONE, OtherUse::ANY, Ordering::AcqRel, Ordering::Acquire);
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
    pub(crate) origin: Origin,
    pub(crate) others: OtherUse,
}

impl Buffer {
    pub(crate) fn new(shared: &Arc<Shared>, handle: Handle, bytes: u64, origin: Origin) -> Buffer {
        let (registration, others) = (OnceLock::new(), OtherUse::default());
        Buffer { shared: Arc::clone(shared), handle, bytes, registration, origin, others }
    }

    /// Whether cuFile can map the memory: that of a pool of the driver cannot be mapped.
    pub(crate) fn suits_files(&self) -> bool {
        !matches!(self.origin, Origin::InOrder)
    }

    /// Whether the memory is there only in the order of the memory stream.
    pub(crate) fn is_in_order(&self) -> bool {
        matches!(self.origin, Origin::InOrder | Origin::Allocator(_))
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The driver's handle: a `CUdeviceptr` of CUDA, a `cl_mem` of OpenCL. Once the handle was requested, the memory is freed only after all
    /// work of this process on the device, because another library may use it. A raster that is used in a known stream need not wait:
    /// [`DeviceRaster::use_in_stream`](crate::DeviceRaster::use_in_stream).
    pub fn handle(&self) -> Handle {
        self.others.add_unknown();
        self.handle
    }

    /// Orders the memory stream after the work of other libraries that may use the memory.
    fn wait_for_others(&self) {
        let device = &self.shared.device;
        let wait = || {
            self.shared.counters.synchronised();
            // If the driver fails here, the next call reports it.
            let _ = device.wait_for_context();
        };
        match self.others.streams.load(Ordering::Acquire) {
            OtherUse::NONE => {}
            OtherUse::ANY => wait(),
            stream => {
                // SAFETY: the stream is kept alive beside its handle.
                let ordered = unsafe { device.order_after_stream(stream) };
                ordered.unwrap_or_else(|_| wait());
            }
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // The memory is deregistered from cuFile before it is freed.
        if let Some(Some(registration)) = self.registration.take() {
            let mut registration = Some(registration);
            self.shared.device.in_cuda_context(&mut || registration = None);
        }
        let device = &self.shared.device;
        match &self.origin {
            // Memory of another library was neither allocated nor counted here: only its owner is released.
            Origin::Foreign { .. } => return,
            Origin::Driver => {
                // SAFETY: the handle came from this device and is released once; streams synchronise before the buffers that they use
                // are dropped (`Stream` says how), and the driver itself waits for other work of the device.
                unsafe { device.release(self.handle) };
            }
            Origin::InOrder => {
                self.wait_for_others();
                // SAFETY: as above; the work of other libraries was waited for.
                unsafe { device.release_in_order(self.handle) };
            }
            Origin::Allocator(allocator) => {
                self.wait_for_others();
                let stream = device.memory_stream().unwrap_or_default();
                device.in_cuda_context(&mut || {
                    // SAFETY: as above.
                    unsafe { allocator.free(self.handle, self.bytes, stream) };
                });
            }
        }
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
