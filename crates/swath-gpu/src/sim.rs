//! A device that is host memory with the delays of a device: for tests of what moves bytes, and to show what batching buys.
//!
//! It only moves bytes: it has no kernels, and every launch is [`Error::Unable`]. What it moves it checks as no driver does:
//! each access against its allocation, each handle against what was released, as handles are never used again. Memory that was
//! never written holds [`POISON`], and a queue does nothing before it is synchronised, so that a missing wait shows.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::backend::kernel::{Arg, Kernel};
use crate::backend::{Api, Device, DeviceInfo, Handle, MemoryInfo, Queue};
use crate::error::{Error, Result};

/// What lies in device memory that nobody has written to.
const POISON: u8 = 0xA5;

/// A simulated device. It moves bytes, with a delay for every transfer, and runs no kernels. Clones are the same device.
#[derive(Debug, Clone)]
pub struct Sim {
    info: DeviceInfo,
    latency: Duration,
    failing: Option<u64>,
    memory: Arc<Mutex<Memory>>,
}

/// The memory, which queues share with their device.
#[derive(Debug, Default)]
struct Memory {
    buffers: HashMap<Handle, Vec<u8>>,
    held: u64,
    /// Allocations that were asked for; also the last handle given, so that none is given twice.
    asked: u64,
}

impl Default for Sim {
    fn default() -> Sim {
        Sim::new()
    }
}

impl Sim {
    /// A device of 1 GiB whose transfers take 1 ms each.
    pub fn new() -> Sim {
        let memory = 1 << 30;
        let info = DeviceInfo {
            api: Api::Sim,
            index: 0,
            name: "simulated device".into(),
            driver: "host memory with delays; no kernels".into(),
            is_gpu: false,
            memory,
            largest_buffer: memory,
            doubles: true,
        };
        Sim { info, latency: Duration::from_millis(1), failing: None, memory: Arc::default() }
    }

    /// The same device with `bytes` of memory.
    #[must_use]
    pub fn total(mut self, bytes: u64) -> Sim {
        (self.info.memory, self.info.largest_buffer) = (bytes, bytes);
        self
    }

    /// The same device whose uploads and downloads take so long each, whatever their size. Copies on the device take no time.
    #[must_use]
    pub fn latency(mut self, latency: Duration) -> Sim {
        self.latency = latency;
        self
    }

    /// The same device, whose `n`-th allocation of device memory, counted from 1, fails although there is room.
    #[must_use]
    pub fn fail_allocation(mut self, n: u64) -> Sim {
        self.failing = Some(n);
        self
    }

    /// Bytes of device memory that were allocated and not released: the device's own account, beside the one of
    /// [`DeviceStats`](crate::DeviceStats).
    pub fn held(&self) -> u64 {
        lock(&self.memory).held
    }
}

fn lock(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A vector of so many bytes, or `None` where there is no room for it.
fn filled(bytes: u64, value: u8) -> Option<Vec<u8>> {
    let len = usize::try_from(bytes).ok()?;
    let mut memory = Vec::new();
    memory.try_reserve_exact(len).ok()?;
    memory.resize(len, value);
    Some(memory)
}

// SAFETY: device memory is named by numbers that are looked up at every access, and `pin` gives a vector that nobody else
// knows and that lives until `unpin`.
unsafe impl Device for Sim {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory(&self, _held: u64) -> Result<MemoryInfo> {
        Ok(MemoryInfo { total: self.info.memory, free: self.info.memory.saturating_sub(self.held()) })
    }

    fn allocate(&self, stage: &'static str, bytes: u64) -> Result<Handle> {
        let mut memory = lock(&self.memory);
        memory.asked += 1;
        let held = memory.held.checked_add(bytes).filter(|&held| held <= self.info.memory);
        let held = held.filter(|_| self.failing != Some(memory.asked));
        let made = held.and_then(|held| Some((held, filled(bytes, POISON)?)));
        let (held, buffer) = made.ok_or(Error::OutOfMemory { stage, needed: bytes })?;
        memory.held = held;
        let handle = memory.asked;
        memory.buffers.insert(handle, buffer);
        Ok(handle)
    }

    unsafe fn release(&self, handle: Handle) {
        let mut memory = lock(&self.memory);
        if let Some(buffer) = memory.buffers.remove(&handle) {
            memory.held -= buffer.len() as u64;
        }
    }

    fn pin(&self, bytes: usize) -> Result<(Handle, *mut u8)> {
        let pinned = filled(bytes as u64, POISON);
        let pinned = pinned.ok_or(Error::OutOfMemory { stage: "staging", needed: bytes as u64 })?;
        // The handle is the size, which is all that `unpin` must know.
        let memory = Box::into_raw(pinned.into_boxed_slice());
        Ok((bytes as Handle, memory.cast()))
    }

    unsafe fn unpin(&self, handle: Handle, memory: *mut u8) {
        // SAFETY: the caller promises that both came from `pin`, once: a box of so many bytes.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(memory, handle as usize)) });
    }

    fn queue(&self) -> Result<Box<dyn Queue>> {
        let (memory, device) = (Arc::clone(&self.memory), self.info.name.clone());
        Ok(Box::new(SimQueue { memory, device, latency: self.latency, waiting: Vec::new(), done: Instant::now() }))
    }
}

/// An in-order queue, which keeps its work until it is synchronised.
#[derive(Debug)]
struct SimQueue {
    memory: Arc<Mutex<Memory>>,
    device: String,
    latency: Duration,
    waiting: Vec<Work>,
    /// When all that is waiting will be done.
    done: Instant,
}

#[derive(Debug)]
enum Work {
    Upload { from: *const [u8], to: Handle, at: u64 },
    Download { from: Handle, at: u64, to: *mut [u8] },
    Copy { from: Handle, from_at: u64, to: Handle, to_at: u64, bytes: u64 },
}

// SAFETY: the pointers are those of slices whose lenders promised to leave them alone until the queue is synchronised, on
// whatever thread.
unsafe impl Send for SimQueue {}

impl SimQueue {
    /// A transfer begins when it was asked for and the one before it is done.
    fn transfer(&mut self, work: Work) {
        self.done = self.done.max(Instant::now()) + self.latency;
        self.waiting.push(work);
    }
}

impl Queue for SimQueue {
    unsafe fn upload(&mut self, from: &[u8], to: Handle, at: u64) -> Result<()> {
        lock(&self.memory).range("upload", to, at, from.len() as u64)?;
        self.transfer(Work::Upload { from, to, at });
        Ok(())
    }

    unsafe fn download(&mut self, from: Handle, at: u64, to: &mut [u8]) -> Result<()> {
        lock(&self.memory).range("download", from, at, to.len() as u64)?;
        self.transfer(Work::Download { from, at, to });
        Ok(())
    }

    unsafe fn copy(&mut self, from: Handle, from_at: u64, to: Handle, to_at: u64, bytes: u64) -> Result<()> {
        let memory = lock(&self.memory);
        let from_range = memory.range("copy", from, from_at, bytes)?;
        let to_range = memory.range("copy", to, to_at, bytes)?;
        drop(memory);
        if from == to && from_range.start < to_range.end && to_range.start < from_range.end {
            return Err(failed("copy", format!("overlap of {from_range:?} and {to_range:?} in buffer {from}")));
        }
        self.waiting.push(Work::Copy { from, from_at, to, to_at, bytes });
        Ok(())
    }

    unsafe fn launch(&mut self, _kernel: Kernel, _groups: u32, _args: &[Arg<'_>]) -> Result<()> {
        Err(Error::Unable { device: self.device.clone(), what: "run kernels" })
    }

    fn synchronize(&mut self) -> Result<()> {
        sleep_until(self.done);
        let mut memory = lock(&self.memory);
        // What comes after something that failed is not done, as on a device.
        self.waiting.drain(..).try_for_each(|work| memory.perform(&work))
    }
}

impl Memory {
    /// A part of a buffer, if the buffer is there and the part lies in it.
    fn range(&self, call: &'static str, handle: Handle, at: u64, bytes: u64) -> Result<Range<usize>> {
        let buffer = self.buffers.get(&handle);
        let size = buffer.ok_or_else(|| failed(call, format!("no buffer {handle}")))?.len();
        let end = at.checked_add(bytes).filter(|&end| end <= size as u64);
        let end = end.ok_or_else(|| failed(call, format!("{bytes} bytes at {at} of a buffer of {size}")))?;
        Ok(at as usize..end as usize)
    }

    fn perform(&mut self, work: &Work) -> Result<()> {
        // Looked up again: a buffer may have been released since.
        match *work {
            Work::Upload { from, to, at } => {
                let range = self.range("upload", to, at, from.len() as u64)?;
                // SAFETY: whoever lent it promised that it stays until the queue is synchronised.
                let from = unsafe { &*from };
                self.buffer(to)[range].copy_from_slice(from);
            }
            Work::Download { from, at, to } => {
                let range = self.range("download", from, at, to.len() as u64)?;
                // SAFETY: as above, and that nobody looks at it until then.
                let to = unsafe { &mut *to };
                to.copy_from_slice(&self.buffer(from)[range]);
            }
            Work::Copy { from, from_at, to, to_at, bytes } => {
                let from_range = self.range("copy", from, from_at, bytes)?;
                let to_range = self.range("copy", to, to_at, bytes)?;
                if from == to {
                    self.buffer(to).copy_within(from_range, to_range.start);
                } else if let [Some(from), Some(to)] = self.buffers.get_disjoint_mut([&from, &to]) {
                    to[to_range].copy_from_slice(&from[from_range]);
                }
            }
        }
        Ok(())
    }

    /// A buffer that [`range`](Memory::range) found.
    fn buffer(&mut self, handle: Handle) -> &mut [u8] {
        self.buffers.get_mut(&handle).map_or(&mut [], Vec::as_mut_slice)
    }
}

fn failed(call: &'static str, code: String) -> Error {
    Error::Driver { api: Api::Sim, call, code }
}

fn sleep_until(done: Instant) {
    let left = done.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        thread::sleep(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quick() -> Sim {
        Sim::new().latency(Duration::ZERO).total(1000)
    }

    fn upload(sim: &Sim, to: Handle, at: u64, bytes: &[u8]) -> Result<()> {
        let mut queue = sim.queue()?;
        // SAFETY: the bytes stay until the queue is synchronised.
        unsafe { queue.upload(bytes, to, at)? };
        queue.synchronize()
    }

    fn contents(sim: &Sim, handle: Handle, bytes: usize) -> Vec<u8> {
        let mut out = vec![0; bytes];
        let mut queue = sim.queue().unwrap();
        // SAFETY: nobody looks at the output until the queue is synchronised.
        unsafe { queue.download(handle, 0, &mut out).unwrap() };
        queue.synchronize().unwrap();
        out
    }

    #[test]
    fn nothing_is_done_before_the_queue_is_synchronised() {
        let sim = quick();
        let handle = sim.allocate("test", 4).unwrap();
        assert_eq!(contents(&sim, handle, 4), [POISON; 4], "memory that nobody wrote is not zeros");
        upload(&sim, handle, 0, &[1, 2, 3, 4]).unwrap();

        let mut out = *b"late";
        let mut queue = sim.queue().unwrap();
        // SAFETY: the array outlives the queue, and nobody looks at it before the queue is gone or synchronised.
        unsafe { queue.download(handle, 0, &mut out).unwrap() };
        drop(queue);
        assert_eq!(out, *b"late", "nobody waited, so nothing arrived");

        let mut first = sim.queue().unwrap();
        // SAFETY: the bytes live for ever.
        unsafe { first.upload(b"5678", handle, 0).unwrap() };
        assert_eq!(contents(&sim, handle, 4), [1, 2, 3, 4], "queues do not wait for each other");
        first.synchronize().unwrap();
        assert_eq!(contents(&sim, handle, 4), *b"5678");
    }

    #[test]
    fn access_outside_an_allocation_is_an_error_not_a_neighbours_byte() {
        let sim = quick();
        let (handle, other) = (sim.allocate("test", 10).unwrap(), sim.allocate("test", 10).unwrap());
        for (at, len) in [(0, 11), (10, 1), (u64::MAX, 1), (5, 6)] {
            let bytes = vec![0; len];
            assert!(
                matches!(upload(&sim, handle, at, &bytes), Err(Error::Driver { call: "upload", .. })),
                "{at} {len}"
            );
        }
        let mut queue = sim.queue().unwrap();
        // SAFETY: the ranges are checked by the queue, which is what is tested.
        unsafe {
            assert!(queue.download(handle, 8, &mut [0; 3]).is_err());
            assert!(queue.copy(handle, 0, other, 5, 6).is_err());
            assert!(queue.copy(handle, 5, other, 0, 6).is_err());
            assert!(queue.copy(handle, 0, handle, 4, 5).is_err(), "the ranges overlap");
            assert!(queue.download(99, 0, &mut [0; 1]).is_err(), "there is no such buffer");
        }
        assert_eq!(contents(&sim, other, 10), [POISON; 10]);
    }

    #[test]
    fn buffer_released_before_the_wait_is_an_error() {
        let sim = quick();
        let handle = sim.allocate("test", 4).unwrap();
        let bytes = [0; 4];
        let mut queue = sim.queue().unwrap();
        // SAFETY: the simulated device looks handles up at every access, so that this misuse is harmless.
        unsafe {
            queue.upload(&bytes, handle, 0).unwrap();
            sim.release(handle);
        }
        assert!(matches!(queue.synchronize(), Err(Error::Driver { call: "upload", .. })));
        assert_eq!(queue.synchronize(), Ok(()), "an error is told once");
        assert_ne!(sim.allocate("test", 4).unwrap(), handle, "handles are not used again");
    }

    #[test]
    fn copies_stay_in_order_with_transfers() {
        let sim = quick();
        let (a, b) = (sim.allocate("test", 6).unwrap(), sim.allocate("test", 6).unwrap());
        let bytes = [1, 2, 3, 4, 5, 6];
        let mut out = [0; 6];
        let mut queue = sim.queue().unwrap();
        // SAFETY: bytes and output outlive the wait.
        unsafe {
            queue.upload(&bytes, a, 0).unwrap();
            queue.copy(a, 0, b, 3, 3).unwrap();
            queue.copy(a, 3, a, 0, 3).unwrap();
            queue.copy(a, 0, b, 0, 3).unwrap();
            queue.download(b, 0, &mut out).unwrap();
        }
        queue.synchronize().unwrap();
        assert_eq!(out, [4, 5, 6, 1, 2, 3]);
    }

    #[test]
    fn memory_ends_where_it_was_said_to_end() {
        let sim = quick().fail_allocation(3);
        let first = sim.allocate("first", 600).unwrap();
        let refused = |stage, needed| Err(Error::OutOfMemory { stage, needed });
        assert_eq!(sim.allocate("second", 401), refused("second", 401));
        assert_eq!(sim.allocate("third", 400), refused("third", 400), "the third fails although there is room");
        assert_eq!(sim.allocate("fourth", u64::MAX), refused("fourth", u64::MAX));
        assert_eq!(sim.held(), 600);
        assert_eq!(sim.memory(0), Ok(MemoryInfo { total: 1000, free: 400 }));
        // SAFETY: nothing uses it.
        unsafe { sim.release(first) };
        assert!(sim.allocate("fifth", 1000).is_ok());
    }

    #[test]
    fn kernels_are_refused() {
        let mut queue = quick().queue().unwrap();
        // SAFETY: nothing is run.
        let error = unsafe { queue.launch(Kernel::Lzw, 1, &[]) }.unwrap_err();
        assert_eq!(error.to_string(), "simulated device cannot run kernels");
    }

    #[test]
    fn every_transfer_costs_its_latency_and_a_copy_none() {
        let latency = Duration::from_millis(2);
        let sim = quick().latency(latency);
        let (a, b) = (sim.allocate("test", 4).unwrap(), sim.allocate("test", 4).unwrap());
        let mut queue = sim.queue().unwrap();
        let start = Instant::now();
        // SAFETY: the bytes live for ever.
        unsafe {
            for _ in 0..5 {
                queue.upload(b"1234", a, 0).unwrap();
            }
        }
        queue.synchronize().unwrap();
        assert!(start.elapsed() >= 5 * latency);

        // What the queue expects, not what the clock says: a busy machine may take any time to wake up.
        let device = String::new();
        let mut queue = SimQueue { memory: Arc::clone(&sim.memory), device, latency, waiting: Vec::new(), done: start };
        // SAFETY: both buffers are there.
        unsafe { queue.copy(a, 0, b, 0, 4).unwrap() };
        assert_eq!(queue.done, start);
    }
}
