//! Pinned host memory of finished operations, kept for later ones: a driver needs milliseconds to pin memory.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::backend::{Device, Handle};

/// The most bytes that are kept. A write needs three strips of rows, which have 128 MiB each by default, and their tiles.
const KEPT_BYTES: usize = if cfg!(test) { 16 << 20 } else { 1 << 30 };

/// The most pieces that are kept.
const KEPT_PIECES: usize = 64;

/// Kept memory of this size or less serves any smaller request.
const SMALL_BYTES: usize = 64 << 10;

/// A piece of pinned memory, as the device returned it.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) handle: Handle,
    pub(crate) memory: *mut u8,
    pub(crate) bytes: usize,
}

// SAFETY: the memory belongs to this value alone, and drivers allow it to be freed from any thread.
unsafe impl Send for Piece {}

/// The kept memory of a device. The oldest comes first.
#[derive(Debug, Default)]
pub(crate) struct PinnedPool {
    pieces: Mutex<VecDeque<Piece>>,
    /// Whether memory that is given back is freed, because the device may still access it.
    closed: AtomicBool,
}

impl PinnedPool {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Piece>> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the smallest piece with at least `bytes` bytes, unless it is much larger.
    pub(crate) fn take(&self, bytes: usize) -> Option<Piece> {
        let most = bytes.saturating_add((bytes / 4).max(SMALL_BYTES));
        let mut pieces = self.lock();
        let fits = |(_, piece): &(usize, &Piece)| (bytes..=most).contains(&piece.bytes);
        let (at, _) = pieces.iter().enumerate().filter(fits).min_by_key(|(_, piece)| piece.bytes)?;
        pieces.remove(at)
    }

    /// Keeps a piece. Frees the oldest pieces, if that is too much.
    pub(crate) fn give(&self, piece: Piece, device: &dyn Device) {
        if self.closed.load(Ordering::Acquire) {
            return free(piece, device);
        }
        let mut pieces = self.lock();
        pieces.push_back(piece);
        let mut surplus = Vec::new();
        while pieces.len() > KEPT_PIECES || pieces.iter().map(|piece| piece.bytes).sum::<usize>() > KEPT_BYTES {
            surplus.extend(pieces.pop_front());
        }
        drop(pieces);
        surplus.into_iter().for_each(|piece| free(piece, device));
    }

    /// Frees all pieces. Returns whether there were any.
    pub(crate) fn clear(&self, device: &dyn Device) -> bool {
        let pieces = std::mem::take(&mut *self.lock());
        let any = !pieces.is_empty();
        pieces.into_iter().for_each(|piece| free(piece, device));
        any
    }

    /// Keeps no more memory: a wait for the device failed, so the device may still access memory that is given back later.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Bytes of all pieces.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().iter().map(|piece| piece.bytes).sum()
    }
}

fn free(piece: Piece, device: &dyn Device) {
    // SAFETY: the piece came from `pin` of this device, and its owner gave it up.
    unsafe { device.unpin(piece.handle, piece.memory) };
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{KEPT_BYTES, KEPT_PIECES, SMALL_BYTES};
    use crate::copy_device::CopyDevice;
    use crate::gpu::Gpu;

    fn gpu() -> Gpu {
        Gpu::new(CopyDevice::new().latency(Duration::ZERO))
    }

    #[test]
    fn memory_that_was_given_back_serves_the_next_request() {
        let gpu = gpu();
        let first = gpu.pin(1 << 20).unwrap().as_ptr();
        let again = gpu.pin((1 << 20) - 100).unwrap();
        assert_eq!((again.as_ptr(), again.len()), (first, 1 << 20));
        assert_eq!(gpu.kept_pinned_bytes(), 0);
        drop(again);
        assert_eq!(gpu.kept_pinned_bytes(), 1 << 20);
    }

    #[test]
    fn much_larger_memory_is_left_to_requests_that_need_it() {
        let gpu = gpu();
        drop((gpu.pin(1 << 20).unwrap(), gpu.pin(SMALL_BYTES).unwrap()));
        assert_eq!(gpu.pin(500_000).unwrap().len(), 500_000);
        assert_eq!(gpu.pin(1).unwrap().len(), SMALL_BYTES);
        assert_eq!(gpu.kept_pinned_bytes(), (1 << 20) + SMALL_BYTES + 500_000);
    }

    #[test]
    fn number_and_bytes_of_kept_memory_are_limited() {
        let gpu = gpu();
        drop((0..KEPT_PIECES + 3).map(|_| gpu.pin(10).unwrap()).collect::<Vec<_>>());
        assert_eq!(gpu.kept_pinned_bytes(), KEPT_PIECES * 10);
        assert!(gpu.trim(), "there was kept memory");
        assert!(gpu.kept_pinned_bytes() == 0 && !gpu.trim());
        drop((0..3).map(|_| gpu.pin(KEPT_BYTES / 2).unwrap()).collect::<Vec<_>>());
        assert_eq!(gpu.kept_pinned_bytes(), KEPT_BYTES);
    }

    #[test]
    fn memory_that_a_failed_device_may_access_is_not_used_again() {
        let gpu = gpu();
        let memory = gpu.pin(100).unwrap();
        gpu.shared.pinned.close();
        drop(memory);
        assert_eq!(gpu.kept_pinned_bytes(), 0);
    }
}
