//! The live ranges of device memory and pinned memory.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::code::{Code, Done};
use crate::cufile;
use crate::event::report;
use crate::executor::Executor;

/// The content of memory that was never written.
pub(crate) const POISON: u8 = 0xA5;
/// The value of the guard bytes before and after each allocation, which show writes outside it.
const GUARD: u8 = 0x5A;
/// The number of guard bytes on each side. CUDA aligns memory to 256 bytes, so the guards keep the alignment.
const GUARD_BYTES: usize = 256;

/// An allocation of device memory.
#[derive(Debug)]
struct Piece {
    device: i32,
    bytes: usize,
    /// The allocation of the executor that holds the piece and its guards.
    whole: usize,
    serial: u64,
}

/// A live allocation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allocation {
    /// The address after its last byte.
    pub(crate) end: usize,
    /// A number that distinguishes it from earlier and later allocations at the same address.
    pub(crate) serial: u64,
}

/// All device memory, by address. Addresses are those of the host.
#[derive(Debug, Default)]
pub(crate) struct DeviceMemory(BTreeMap<usize, Piece>);

impl DeviceMemory {
    /// The number of allocated bytes of a device.
    pub(crate) fn used(&self, device: i32) -> u64 {
        self.0.values().filter(|piece| piece.device == device).map(|piece| piece.bytes as u64).sum()
    }

    /// The number of allocated bytes of all devices.
    pub(crate) fn all(&self) -> u64 {
        self.0.values().map(|piece| piece.bytes as u64).sum()
    }

    pub(crate) fn allocate(&mut self, executor: &Executor, device: i32, bytes: usize) -> Done<usize> {
        let size = bytes.checked_add(3 * GUARD_BYTES).ok_or(Code::OUT_OF_MEMORY)?;
        let whole = executor.allocate(size).ok_or(Code::OUT_OF_MEMORY)?;
        let start = (whole + GUARD_BYTES).next_multiple_of(GUARD_BYTES);
        // SAFETY: `start` is at most two guards after the beginning, so the allocation and the guard after it
        // end inside.
        unsafe {
            let memory = start as *mut u8;
            memory.sub(GUARD_BYTES).write_bytes(GUARD, GUARD_BYTES);
            memory.write_bytes(POISON, bytes);
            memory.add(bytes).write_bytes(GUARD, GUARD_BYTES);
        }
        static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
        let serial = ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        self.0.insert(start, Piece { device, bytes, whole, serial });
        Ok(start)
    }

    pub(crate) fn free(&mut self, executor: &Executor, device: i32, start: usize) -> Done {
        match self.0.get(&start) {
            Some(piece) if piece.device == device => {
                if cufile::is_registered(start..start + piece.bytes) {
                    report("the caller frees memory that is registered with cuFile");
                    return Err(Code::INVALID_VALUE);
                }
                executor.free(piece.whole);
                self.0.remove(&start);
                Ok(())
            }
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// Frees all memory of a device.
    pub(crate) fn clear(&mut self, executor: &Executor, device: i32) {
        for (start, piece) in self.0.extract_if(.., |_, piece| piece.device == device) {
            if cufile::is_registered(start..start + piece.bytes) {
                report("a context is destroyed with memory that is registered with cuFile");
            }
            executor.free(piece.whole);
        }
    }

    /// Returns the host addresses of a range, if it lies in one live allocation of the device.
    pub(crate) fn range(&self, device: i32, at: u64, bytes: usize) -> Option<Range<usize>> {
        let at = usize::try_from(at).ok()?;
        let end = at.checked_add(bytes)?;
        self.allocation(device, at).filter(|allocation| end <= allocation.end).map(|_| at..end)
    }

    /// Returns the live allocation of the device that contains an address.
    pub(crate) fn allocation(&self, device: i32, at: usize) -> Option<Allocation> {
        let (start, piece) = self.0.range(..=at).next_back()?;
        let end = start + piece.bytes;
        (piece.device == device && at < end).then_some(Allocation { end, serial: piece.serial })
    }

    /// Returns the live allocations of a device in ascending order: first address and address after the last.
    pub(crate) fn live(&self, device: i32) -> Vec<(u64, u64)> {
        let pieces = self.0.iter().filter(|(_, piece)| piece.device == device);
        pieces.map(|(start, piece)| (*start as u64, (*start + piece.bytes) as u64)).collect()
    }

    /// Returns the device whose live memory contains an address.
    pub(crate) fn device_of(&self, at: u64) -> Option<i32> {
        let at = usize::try_from(at).ok()?;
        let (start, piece) = self.0.range(..=at).next_back()?;
        (at < start + piece.bytes).then_some(piece.device)
    }

    /// Returns the address and size of the first allocation whose guards were overwritten.
    pub(crate) fn trampled(&self) -> Option<(usize, usize)> {
        let whole = |at: usize| {
            // SAFETY: both guards were allocated together with the memory, and only a bug writes to them.
            unsafe { std::slice::from_raw_parts(at as *const u8, GUARD_BYTES) }.iter().all(|&byte| byte == GUARD)
        };
        let found = self.0.iter().find(|(start, piece)| !whole(**start - GUARD_BYTES) || !whole(**start + piece.bytes));
        found.map(|(start, piece)| (*start, piece.bytes))
    }
}

/// Pinned host memory: addresses and layouts.
#[derive(Debug, Default)]
pub(crate) struct PinnedMemory(BTreeMap<usize, Layout>);

impl PinnedMemory {
    /// The number of allocated bytes.
    pub(crate) fn all(&self) -> u64 {
        self.0.values().map(|layout| layout.size() as u64).sum()
    }

    /// Frees all of it, together with the context in which it was allocated.
    pub(crate) fn clear(&mut self) {
        for (start, layout) in std::mem::take(&mut self.0) {
            // SAFETY: it was allocated with this layout and was just removed from the list.
            unsafe { dealloc(start as *mut u8, layout) };
        }
    }

    pub(crate) fn allocate(&mut self, bytes: usize) -> Done<usize> {
        let layout = Layout::from_size_align(bytes, 4096).map_err(|_| Code::OUT_OF_MEMORY)?;
        // SAFETY: the caller requested at least one byte.
        let memory = unsafe { alloc(layout) };
        if memory.is_null() {
            return Err(Code::OUT_OF_MEMORY);
        }
        // SAFETY: that many bytes were just allocated.
        unsafe { memory.write_bytes(POISON, bytes) };
        self.0.insert(memory as usize, layout);
        Ok(memory as usize)
    }

    pub(crate) fn free(&mut self, start: usize) -> Done {
        let layout = self.0.remove(&start).ok_or(Code::INVALID_VALUE)?;
        // SAFETY: it was allocated with this layout and was just removed from the list.
        unsafe { dealloc(start as *mut u8, layout) };
        Ok(())
    }

    /// Whether a range of host memory is pinned.
    pub(crate) fn contains(&self, at: usize, bytes: usize) -> bool {
        let found = self.0.range(..=at).next_back();
        found.is_some_and(|(start, layout)| at.checked_add(bytes).is_some_and(|end| end <= start + layout.size()))
    }
}
