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
    order: Order,
}

/// How an allocation is ordered with the work of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// `cuMemAlloc`: usable at once.
    Host,
    /// `cuMemAllocAsync`: its stream has not reached the allocation.
    Pending,
    /// `cuMemAllocAsync`: its stream has reached the allocation.
    Done,
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
pub(crate) struct DeviceMemory {
    pieces: BTreeMap<usize, Piece>,
    /// The bytes that the memory pool of each device holds without an allocation in them.
    pooled: BTreeMap<i32, u64>,
}

impl DeviceMemory {
    /// The number of allocated bytes of a device.
    pub(crate) fn used(&self, device: i32) -> u64 {
        self.pieces.values().filter(|piece| piece.device == device).map(|piece| piece.bytes as u64).sum()
    }

    /// The bytes that the memory pool of a device holds without an allocation in them.
    pub(crate) fn pooled(&self, device: i32) -> u64 {
        self.pooled.get(&device).copied().unwrap_or(0)
    }

    /// The allocated bytes of the memory pool of a device.
    pub(crate) fn used_of_pool(&self, device: i32) -> u64 {
        let pieces = self.pieces.values().filter(|piece| piece.device == device && piece.order != Order::Host);
        pieces.map(|piece| piece.bytes as u64).sum()
    }

    /// Gives what the pool of a device holds without an allocation back to the device.
    pub(crate) fn empty_pool(&mut self, device: i32) {
        self.pooled.remove(&device);
    }

    /// The number of allocated bytes of all devices.
    pub(crate) fn all(&self) -> u64 {
        self.pieces.values().map(|piece| piece.bytes as u64).sum()
    }

    /// Allocates memory that no work may use before [`arrive`](Self::arrive).
    pub(crate) fn allocate_in_order(&mut self, executor: &Executor, device: i32, bytes: usize) -> Done<usize> {
        let start = self.allocate(executor, device, bytes)?;
        if let Some(piece) = self.pieces.get_mut(&start) {
            piece.order = Order::Pending;
        }
        let pooled = self.pooled.entry(device).or_default();
        *pooled = pooled.saturating_sub(bytes as u64);
        Ok(start)
    }

    /// The stream of an allocation has reached it.
    pub(crate) fn arrive(&mut self, start: usize) {
        if let Some(piece) = self.pieces.get_mut(&start) {
            piece.order = Order::Done;
        }
    }

    /// Frees memory of [`allocate_in_order`](Self::allocate_in_order). The pool keeps it.
    pub(crate) fn free_in_order(&mut self, executor: &Executor, device: i32, start: usize) -> Done {
        let Some(piece) = self.pieces.get(&start).filter(|piece| piece.device == device) else {
            report("cuMemFreeAsync frees memory that is not allocated");
            return Err(Code::INVALID_VALUE);
        };
        if piece.order == Order::Host {
            report("cuMemFreeAsync frees memory of cuMemAlloc");
            return Err(Code::INVALID_VALUE);
        }
        let bytes = piece.bytes as u64;
        self.free(executor, device, start)?;
        *self.pooled.entry(device).or_default() += bytes;
        Ok(())
    }

    /// Whether an address lies in memory of [`allocate_in_order`](Self::allocate_in_order).
    pub(crate) fn is_of_pool(&self, at: usize) -> bool {
        let found = self.pieces.range(..=at).next_back();
        found.is_some_and(|(start, piece)| at < start + piece.bytes && piece.order != Order::Host)
    }

    /// Returns a range that work uses when its stream reaches it. It must lie in one allocation that is neither freed nor still to come
    /// at this point of the order of streams.
    pub(crate) fn at_work(&self, device: i32, at: u64, bytes: usize) -> Done<Range<usize>> {
        let Some(range) = self.range(device, at, bytes) else {
            report("a stream uses device memory that was freed before in the order of streams");
            return Err(Code::ILLEGAL_ADDRESS);
        };
        let (_, piece) = self.pieces.range(..=range.start).next_back().ok_or(Code::ILLEGAL_ADDRESS)?;
        if piece.order == Order::Pending {
            report("a stream uses device memory without waiting for the stream that allocates it");
            return Err(Code::ILLEGAL_ADDRESS);
        }
        Ok(range)
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
        self.pieces.insert(start, Piece { device, bytes, whole, serial, order: Order::Host });
        Ok(start)
    }

    pub(crate) fn free(&mut self, executor: &Executor, device: i32, start: usize) -> Done {
        match self.pieces.get(&start) {
            Some(piece) if piece.device == device => {
                if cufile::is_registered(start..start + piece.bytes) {
                    report("the caller frees memory that is registered with cuFile");
                    return Err(Code::INVALID_VALUE);
                }
                executor.free(piece.whole);
                self.pieces.remove(&start);
                Ok(())
            }
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// Frees all memory of a device.
    pub(crate) fn clear(&mut self, executor: &Executor, device: i32) {
        self.empty_pool(device);
        for (start, piece) in self.pieces.extract_if(.., |_, piece| piece.device == device) {
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
        let (start, piece) = self.pieces.range(..=at).next_back()?;
        let end = start + piece.bytes;
        (piece.device == device && at < end).then_some(Allocation { end, serial: piece.serial })
    }

    /// Returns the allocations of a device that work may use, in ascending order: first address and address after the last.
    pub(crate) fn live(&self, device: i32) -> Vec<(u64, u64)> {
        let usable = |piece: &Piece| piece.device == device && piece.order != Order::Pending;
        let pieces = self.pieces.iter().filter(|(_, piece)| usable(piece));
        pieces.map(|(start, piece)| (*start as u64, (*start + piece.bytes) as u64)).collect()
    }

    /// Returns the device whose live memory contains an address.
    pub(crate) fn device_of(&self, at: u64) -> Option<i32> {
        let at = usize::try_from(at).ok()?;
        let (start, piece) = self.pieces.range(..=at).next_back()?;
        (at < start + piece.bytes).then_some(piece.device)
    }

    /// Returns the address and size of the first allocation whose guards were overwritten.
    pub(crate) fn trampled(&self) -> Option<(usize, usize)> {
        let whole = |at: usize| {
            // SAFETY: both guards were allocated together with the memory, and only a bug writes to them.
            unsafe { std::slice::from_raw_parts(at as *const u8, GUARD_BYTES) }.iter().all(|&byte| byte == GUARD)
        };
        let found =
            self.pieces.iter().find(|(start, piece)| !whole(**start - GUARD_BYTES) || !whole(**start + piece.bytes));
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
