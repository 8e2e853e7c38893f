//! A device that only copies bytes: host memory with the delays of a device. The unit tests of `swath-gpu` run
//! on it, and the bench `seeds` measures with it how much time batching saves.
//!
//! It runs no kernels: every launch is [`Error::Unable`]. It has checks that no driver has: it checks each
//! access against its allocation, and each handle against the released ones, because handles are never reused.
//! Memory that was never written contains [`POISON`], and a queue does nothing before it is synchronised, so
//! that tests detect a missing wait.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use swath_gpu::{Api, Arg, Device, DeviceInfo, Error, Handle, Kernel, MemoryInfo, Queue, Result};

const API: Api = Api::Custom("sim");

/// The content of device memory that was never written.
const POISON: u8 = 0xA5;

/// A simulated device that copies bytes, with a delay for every transfer, and runs no kernels. Clones are the same device.
#[derive(Debug, Clone)]
pub struct CopyDevice {
    info: DeviceInfo,
    latency: Duration,
    failing: Option<u64>,
    memory: Arc<Mutex<Memory>>,
}

/// The memory, which the queues and their device share.
#[derive(Debug, Default)]
struct Memory {
    buffers: HashMap<Handle, Vec<u8>>,
    held: u64,
    /// The number of allocations requested so far. It is also the last handle, so that no handle is used twice.
    allocations: u64,
}

impl Default for CopyDevice {
    fn default() -> CopyDevice {
        CopyDevice::new()
    }
}

impl CopyDevice {
    /// Creates a device of 1 GiB whose transfers take 1 ms each.
    pub fn new() -> CopyDevice {
        let memory = 1 << 30;
        let info = DeviceInfo {
            api: API,
            index: 0,
            name: "simulated device".into(),
            driver: "host memory with delays; no kernels".into(),
            is_gpu: false,
            memory,
            largest_buffer: memory,
            doubles: true,
            multiprocessors: 1,
        };
        CopyDevice { info, latency: Duration::from_millis(1), failing: None, memory: Arc::default() }
    }

    /// Sets the size of the memory in bytes.
    #[must_use]
    pub fn total(mut self, bytes: u64) -> CopyDevice {
        (self.info.memory, self.info.largest_buffer) = (bytes, bytes);
        self
    }

    /// Sets the duration of each upload and download, whatever its size. Copies on the device take no time.
    #[must_use]
    pub fn latency(mut self, latency: Duration) -> CopyDevice {
        self.latency = latency;
        self
    }

    /// Makes the `n`-th allocation of device memory, counted from 1, fail although there is enough memory.
    #[must_use]
    pub fn fail_allocation(mut self, n: u64) -> CopyDevice {
        self.failing = Some(n);
        self
    }

    /// The number of bytes of device memory that are allocated, as counted by the device.
    /// [`DeviceStats`](swath_gpu::DeviceStats) counts them too.
    pub fn held(&self) -> u64 {
        lock(&self.memory).held
    }
}

fn lock(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a vector of that many bytes, or `None` if there is not enough memory.
fn filled(bytes: u64, value: u8) -> Option<Vec<u8>> {
    let len = usize::try_from(bytes).ok()?;
    let mut memory = Vec::new();
    memory.try_reserve_exact(len).ok()?;
    memory.resize(len, value);
    Some(memory)
}

// SAFETY: every access looks up its handle, and `pin` returns a vector that nothing else refers to and that
// lives until `unpin`.
unsafe impl Device for CopyDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory(&self, _held: u64) -> Result<MemoryInfo> {
        Ok(MemoryInfo { total: self.info.memory, free: self.info.memory.saturating_sub(self.held()) })
    }

    fn allocate(&self, stage: &'static str, bytes: u64) -> Result<Handle> {
        let mut memory = lock(&self.memory);
        memory.allocations += 1;
        let held = memory.held.checked_add(bytes).filter(|&held| held <= self.info.memory);
        let held = held.filter(|_| self.failing != Some(memory.allocations));
        let made = held.and_then(|held| Some((held, filled(bytes, POISON)?)));
        let (held, buffer) = made.ok_or(Error::OutOfMemory { stage, needed: bytes })?;
        memory.held = held;
        let handle = memory.allocations;
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
        // The handle is the size, because `unpin` needs nothing else.
        let memory = Box::into_raw(pinned.into_boxed_slice());
        Ok((bytes as Handle, memory.cast()))
    }

    unsafe fn unpin(&self, handle: Handle, memory: *mut u8) {
        // SAFETY: the caller guarantees that both came from one call of `pin`, which returned a box of that
        // many bytes.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(memory, handle as usize)) });
    }

    fn queue(&self) -> Result<Box<dyn Queue>> {
        let (memory, device) = (Arc::clone(&self.memory), self.info.name.clone());
        Ok(Box::new(CopyQueue { memory, device, latency: self.latency, waiting: Vec::new(), done: Instant::now() }))
    }
}

/// An in-order queue that keeps its work until it is synchronised.
#[derive(Debug)]
struct CopyQueue {
    memory: Arc<Mutex<Memory>>,
    device: String,
    latency: Duration,
    waiting: Vec<Work>,
    /// The time at which all pending work is done.
    done: Instant,
}

#[derive(Debug)]
enum Work {
    Upload { from: *const [u8], to: Handle, at: u64 },
    Download { from: Handle, at: u64, to: *mut [u8] },
    Copy { from: Handle, from_at: u64, to: Handle, to_at: u64, bytes: u64 },
}

// SAFETY: the callers that passed the slices guarantee not to access them until the queue is synchronised, on
// any thread.
unsafe impl Send for CopyQueue {}

impl CopyQueue {
    /// Adds a transfer. It starts when it was requested and the previous transfer is done.
    fn transfer(&mut self, work: Work) {
        self.done = self.done.max(Instant::now()) + self.latency;
        self.waiting.push(work);
    }
}

impl Queue for CopyQueue {
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
        // Work after a failure is not done, as on a real device.
        self.waiting.drain(..).try_for_each(|work| memory.perform(&work))
    }
}

impl Memory {
    /// Returns a range of a buffer, if the buffer exists and contains the range.
    fn range(&self, call: &'static str, handle: Handle, at: u64, bytes: u64) -> Result<Range<usize>> {
        let buffer = self.buffers.get(&handle);
        let size = buffer.ok_or_else(|| failed(call, format!("no buffer {handle}")))?.len();
        let end = at.checked_add(bytes).filter(|&end| end <= size as u64);
        let end = end.ok_or_else(|| failed(call, format!("{bytes} bytes at {at} of a buffer of {size}")))?;
        Ok(at as usize..end as usize)
    }

    fn perform(&mut self, work: &Work) -> Result<()> {
        // The handles are looked up again, because a buffer may have been released in the meantime.
        match *work {
            Work::Upload { from, to, at } => {
                let range = self.range("upload", to, at, from.len() as u64)?;
                // SAFETY: the caller guarantees that the slice lives until the queue is synchronised.
                let from = unsafe { &*from };
                self.buffer(to)[range].copy_from_slice(from);
            }
            Work::Download { from, at, to } => {
                let range = self.range("download", from, at, to.len() as u64)?;
                // SAFETY: as above, and nothing else accesses it until then.
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

    /// Returns a buffer that [`range`](Memory::range) found.
    fn buffer(&mut self, handle: Handle) -> &mut [u8] {
        self.buffers.get_mut(&handle).map_or(&mut [], Vec::as_mut_slice)
    }
}

fn failed(call: &'static str, code: String) -> Error {
    Error::Driver { api: API, call, code }
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

    fn quick() -> CopyDevice {
        CopyDevice::new().latency(Duration::ZERO).total(1000)
    }

    fn upload(sim: &CopyDevice, to: Handle, at: u64, bytes: &[u8]) -> Result<()> {
        let mut queue = sim.queue()?;
        // SAFETY: the bytes live until the queue is synchronised.
        unsafe { queue.upload(bytes, to, at)? };
        queue.synchronize()
    }

    fn contents(sim: &CopyDevice, handle: Handle, bytes: usize) -> Vec<u8> {
        let mut out = vec![0; bytes];
        let mut queue = sim.queue().unwrap();
        // SAFETY: nothing accesses the output until the queue is synchronised.
        unsafe { queue.download(handle, 0, &mut out).unwrap() };
        queue.synchronize().unwrap();
        out
    }

    #[test]
    fn nothing_is_done_before_the_queue_is_synchronised() {
        let sim = quick();
        let handle = sim.allocate("test", 4).unwrap();
        assert_eq!(contents(&sim, handle, 4), [POISON; 4], "memory that was never written is not zeros");
        upload(&sim, handle, 0, &[1, 2, 3, 4]).unwrap();

        let mut out = *b"late";
        let mut queue = sim.queue().unwrap();
        // SAFETY: the array outlives the queue, and nothing accesses it before the queue is dropped or synchronised.
        unsafe { queue.download(handle, 0, &mut out).unwrap() };
        drop(queue);
        assert_eq!(out, *b"late", "nothing arrives without a wait");

        let mut first = sim.queue().unwrap();
        // SAFETY: the bytes are static.
        unsafe { first.upload(b"5678", handle, 0).unwrap() };
        assert_eq!(contents(&sim, handle, 4), [1, 2, 3, 4], "queues do not wait for each other");
        first.synchronize().unwrap();
        assert_eq!(contents(&sim, handle, 4), *b"5678");
    }

    #[test]
    fn access_outside_an_allocation_is_an_error() {
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
        // SAFETY: the queue checks the ranges, and this test tests that check.
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
        // SAFETY: the simulated device looks up handles at every access, so this misuse does no harm.
        unsafe {
            queue.upload(&bytes, handle, 0).unwrap();
            sim.release(handle);
        }
        assert!(matches!(queue.synchronize(), Err(Error::Driver { call: "upload", .. })));
        assert_eq!(queue.synchronize(), Ok(()), "an error is reported once");
        assert_ne!(sim.allocate("test", 4).unwrap(), handle, "handles are not reused");
    }

    #[test]
    fn copies_stay_in_order_with_transfers() {
        let sim = quick();
        let (a, b) = (sim.allocate("test", 6).unwrap(), sim.allocate("test", 6).unwrap());
        let bytes = [1, 2, 3, 4, 5, 6];
        let mut out = [0; 6];
        let mut queue = sim.queue().unwrap();
        // SAFETY: the bytes and the output live until after the wait.
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
    fn allocations_beyond_the_memory_are_refused() {
        let sim = quick().fail_allocation(3);
        let first = sim.allocate("first", 600).unwrap();
        let refused = |stage, needed| Err(Error::OutOfMemory { stage, needed });
        assert_eq!(sim.allocate("second", 401), refused("second", 401));
        assert_eq!(sim.allocate("third", 400), refused("third", 400), "the third fails although there is room");
        assert_eq!(sim.allocate("fourth", u64::MAX), refused("fourth", u64::MAX));
        assert_eq!(sim.held(), 600);
        assert_eq!(sim.memory(0), Ok(MemoryInfo { total: 1000, free: 400 }));
        // SAFETY: nothing uses the buffer.
        unsafe { sim.release(first) };
        assert!(sim.allocate("fifth", 1000).is_ok());
    }

    #[test]
    fn kernels_are_refused() {
        let mut queue = quick().queue().unwrap();
        // SAFETY: nothing runs.
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
        // SAFETY: the bytes are static.
        unsafe {
            for _ in 0..5 {
                queue.upload(b"1234", a, 0).unwrap();
            }
        }
        queue.synchronize().unwrap();
        assert!(start.elapsed() >= 5 * latency);

        // The test reads the time that the queue expects and not the clock, because a busy machine may wake up
        // at any time.
        let device = String::new();
        let mut queue =
            CopyQueue { memory: Arc::clone(&sim.memory), device, latency, waiting: Vec::new(), done: start };
        // SAFETY: both buffers exist.
        unsafe { queue.copy(a, 0, b, 0, 4).unwrap() };
        assert_eq!(queue.done, start);
    }
}
