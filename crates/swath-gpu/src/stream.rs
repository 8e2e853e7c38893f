//! An in-order queue of work whose work is counted.

use std::sync::Arc;
use std::time::Instant;

use crate::backend::Queue;
use crate::backend::kernel::{Arg, Kernel};
use crate::error::{Error, Result};
use crate::memory::buffer::{Buffer, Shared};
use crate::vendor::nvcomp::CudaStream;

/// A queue whose work is counted. Calls return before the work is done; [`synchronize`](Stream::synchronize) waits.
///
/// The owner of a stream also owns the buffers that it works on, and declares the stream before them, so that the stream is dropped first:
/// the drop waits until nothing uses the buffers any more.
#[derive(Debug)]
pub(crate) struct Stream {
    shared: Arc<Shared>,
    queue: Box<dyn Queue>,
    /// Whether the queue has work since the last synchronisation.
    busy: bool,
    failed: bool,
}

impl Stream {
    pub(crate) fn new(shared: Arc<Shared>, queue: Box<dyn Queue>) -> Stream {
        Stream { shared, queue, busy: false, failed: false }
    }

    /// Another stream of the same device.
    pub(crate) fn sibling(&self) -> Result<Stream> {
        Ok(Stream::new(Arc::clone(&self.shared), self.shared.device.queue()?))
    }

    /// Copies to the device.
    ///
    /// # Safety
    /// `from` does not change until the stream is synchronised.
    pub(crate) unsafe fn upload(&mut self, from: &[u8], to: &Buffer, at: u64) -> Result<()> {
        if from.is_empty() {
            return Ok(());
        }
        check(to, at, from.len() as u64);
        self.busy = true;
        self.shared.counters.uploaded(from.len() as u64);
        let begun = self.begin()?;
        // SAFETY: the range was checked, and the rest is the caller's promise.
        unsafe { self.queue.upload(from, to.handle, at)? };
        self.end(begun, "upload", from.len() as u64)
    }

    /// Copies from the device.
    ///
    /// # Safety
    /// Nothing accesses `to` until the stream is synchronised.
    pub(crate) unsafe fn download(&mut self, from: &Buffer, at: u64, to: &mut [u8]) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        check(from, at, to.len() as u64);
        self.busy = true;
        self.shared.counters.downloaded(to.len() as u64);
        let begun = self.begin()?;
        // SAFETY: the range was checked, and the rest is the caller's promise.
        unsafe { self.queue.download(from.handle, at, to)? };
        self.end(begun, "download", to.len() as u64)
    }

    /// Copies from one buffer to another.
    pub(crate) fn copy(&mut self, from: &Buffer, from_at: u64, to: &Buffer, to_at: u64, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        check(from, from_at, bytes);
        check(to, to_at, bytes);
        assert_ne!(from.handle, to.handle, "copies go from one buffer to another");
        self.busy = true;
        self.shared.counters.copied(bytes);
        let begun = self.begin()?;
        // SAFETY: the ranges were checked, and they lie in two buffers.
        unsafe { self.queue.copy(from.handle, from_at, to.handle, to_at, bytes)? };
        self.end(begun, "copy", bytes)
    }

    /// Starts a kernel.
    ///
    /// # Safety
    /// The arguments are those of the kernel, and its reads and writes lie in the buffers that they name.
    pub(crate) unsafe fn launch(&mut self, kernel: Kernel, groups: u32, args: &[Arg<'_>]) -> Result<()> {
        if groups == 0 {
            return Ok(());
        }
        self.busy = true;
        self.shared.counters.launched();
        let begun = self.begin()?;
        // SAFETY: the caller's promise.
        unsafe { self.queue.launch(kernel, groups, args)? };
        self.end(begun, kernel.stage(), 0)
    }

    /// Calls a library of NVIDIA that enqueues work on the stream. `what` is the name in a profile: the library and its work.
    ///
    /// # Safety
    /// The library accesses only device memory that stays valid until the stream is synchronised.
    pub(crate) unsafe fn library(
        &mut self,
        what: &'static str,
        mut call: impl FnMut(CudaStream) -> Result<()>,
    ) -> Result<()> {
        self.busy = true;
        self.shared.counters.called_library();
        let begun = self.begin()?;
        self.ask_library(&mut call)?;
        self.end(begun, what, 0)
    }

    /// Calls a library of NVIDIA that enqueues no work.
    pub(crate) fn ask_library(&mut self, mut call: impl FnMut(CudaStream) -> Result<()>) -> Result<()> {
        self.queue.in_cuda_stream(&mut call).unwrap_or_else(|| {
            let device = self.shared.device.info().name.clone();
            Err(Error::Unable { device, what: "be used by NVIDIA's libraries" })
        })
    }

    /// Lets later work of this stream wait for the work of another one. The host waits for nothing.
    pub(crate) fn follow(&mut self, other: &mut Stream) -> Result<()> {
        if !other.busy {
            return Ok(());
        }
        self.busy = true;
        self.queue.wait_for_mark(other.queue.mark()?)
    }

    /// Notes that all work is done, because a stream that follows this one was synchronised.
    pub(crate) fn was_waited_for(&mut self) {
        self.busy = false;
    }

    /// Lets the device begin, without waiting for it.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.queue.flush()
    }

    /// Waits until all work is done.
    pub(crate) fn synchronize(&mut self) -> Result<()> {
        if !self.busy {
            return Ok(());
        }
        self.busy = false;
        self.shared.counters.synchronised();
        let begun = self.shared.profile.begin();
        self.wait()?;
        self.shared.profile.end(begun, "synchronise", 0);
        Ok(())
    }

    /// If profiling is on: waits for earlier work, which does not belong to the next measurement, and returns the time.
    fn begin(&mut self) -> Result<Option<Instant>> {
        if self.shared.profile.begin().is_none() {
            return Ok(None);
        }
        self.wait()?;
        Ok(self.shared.profile.begin())
    }

    /// If profiling is on: waits for the work that was begun, and records its duration.
    fn end(&mut self, begun: Option<Instant>, what: &'static str, bytes: u64) -> Result<()> {
        if begun.is_some() {
            self.wait()?;
            self.shared.profile.end(begun, what, bytes);
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        self.queue.synchronize().inspect_err(|_| {
            self.failed = true;
            self.shared.pinned.close();
        })
    }

    /// Whether any work failed. Then its memory is not used again.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // An error was reported before, or no caller is left to report it to.
        let _ = self.synchronize();
    }
}

fn check(buffer: &Buffer, at: u64, bytes: u64) {
    let end = at.checked_add(bytes);
    assert!(end.is_some_and(|end| end <= buffer.bytes), "{at} + {bytes} lies outside a buffer of {}", buffer.bytes);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::copy_device::CopyDevice;
    use crate::gpu::Gpu;

    fn gpu() -> Gpu {
        Gpu::new(CopyDevice::new().latency(Duration::ZERO))
    }

    fn contents(gpu: &Gpu, buffer: &Buffer) -> Vec<u8> {
        let mut out = vec![0; buffer.bytes() as usize];
        let mut stream = gpu.stream().unwrap();
        // SAFETY: nothing accesses the output until the stream is synchronised.
        unsafe { stream.download(buffer, 0, &mut out).unwrap() };
        stream.synchronize().unwrap();
        out
    }

    #[test]
    fn transfers_copies_and_waits_are_counted() {
        let gpu = gpu();
        let (from, to) = (gpu.alloc("test", Some(8)).unwrap(), gpu.alloc("test", Some(8)).unwrap());
        let before = gpu.stats();
        let mut out = [0; 6];
        let mut stream = gpu.stream().unwrap();
        // SAFETY: bytes and output outlive the wait, and nothing accesses them before.
        unsafe {
            stream.upload(b"12345", &from, 0).unwrap();
            stream.upload(b"678", &from, 5).unwrap();
            stream.copy(&from, 0, &to, 0, 8).unwrap();
            stream.download(&to, 2, &mut out).unwrap();
        }
        stream.synchronize().unwrap();
        assert_eq!(out, *b"345678");
        let stats = gpu.stats().since(&before);
        assert_eq!((stats.uploads, stats.uploaded_bytes), (2, 8));
        assert_eq!((stats.copies, stats.copied_bytes), (1, 8));
        assert_eq!((stats.downloads, stats.downloaded_bytes), (1, 6));
        assert_eq!((stats.launches, stats.synchronisations, stats.allocations), (0, 1, 0));
    }

    #[test]
    fn nothing_to_do_costs_and_counts_nothing() {
        let gpu = gpu();
        let (from, to) = (gpu.alloc("test", Some(8)).unwrap(), gpu.alloc("test", Some(8)).unwrap());
        let before = gpu.stats();
        let mut stream = gpu.stream().unwrap();
        // SAFETY: nothing is moved and nothing is run.
        unsafe {
            stream.upload(&[], &to, 8).unwrap();
            stream.download(&from, 8, &mut []).unwrap();
            stream.launch(Kernel::Place, 0, &[]).unwrap();
        }
        stream.copy(&from, 0, &to, 0, 0).unwrap();
        stream.synchronize().unwrap();
        drop(stream);
        assert_eq!(gpu.stats(), before);
    }

    #[test]
    fn work_waits_for_the_synchronisation_and_a_drop_is_one() {
        let gpu = gpu();
        let buffer = gpu.alloc("test", Some(4)).unwrap();
        let poison = contents(&gpu, &buffer);
        let mut stream = gpu.stream().unwrap();
        // SAFETY: the bytes live for ever.
        unsafe { stream.upload(b"1234", &buffer, 0).unwrap() };
        assert_eq!(contents(&gpu, &buffer), poison, "another stream saw what nobody waited for");
        let before = gpu.stats().synchronisations;
        drop(stream);
        assert_eq!(gpu.stats().synchronisations, before + 1);
        assert_eq!(contents(&gpu, &buffer), b"1234");
    }

    #[test]
    fn kernel_that_the_device_refuses_is_an_error() {
        let gpu = gpu();
        let mut stream = gpu.stream().unwrap();
        // SAFETY: the device runs no kernels.
        let refused = unsafe { stream.launch(Kernel::Place, 1, &[]) };
        assert!(matches!(refused, Err(Error::Unable { what: "run kernels", .. })));
        assert_eq!(stream.synchronize(), Ok(()));
    }

    #[test]
    #[should_panic(expected = "4 + 5 lies outside a buffer of 8")]
    fn upload_behind_the_end_is_stopped_before_the_device_sees_it() {
        let gpu = gpu();
        let buffer = gpu.alloc("test", Some(8)).unwrap();
        let mut stream = gpu.stream().unwrap();
        // SAFETY: the bytes live for ever.
        let _ = unsafe { stream.upload(b"12345", &buffer, 4) };
    }

    #[test]
    #[should_panic(expected = "lies outside a buffer of 8")]
    fn offset_that_wraps_around_is_stopped() {
        let gpu = gpu();
        let (from, to) = (gpu.alloc("test", Some(8)).unwrap(), gpu.alloc("test", Some(8)).unwrap());
        let _ = gpu.stream().unwrap().copy(&from, u64::MAX, &to, 0, 2);
    }

    #[test]
    #[should_panic(expected = "copies go from one buffer to another")]
    fn copy_within_a_buffer_is_stopped() {
        let gpu = gpu();
        let buffer = gpu.alloc("test", Some(8)).unwrap();
        let _ = gpu.stream().unwrap().copy(&buffer, 0, &buffer, 4, 4);
    }
}
