//! Uploads the rows of the next push while the device works on the present one.

use crate::error::Result;
use crate::gpu::Gpu;
use crate::memory::buffer::{Buffer, Pinned};
use crate::memory::slot::{Budget, Slot};
use crate::stream::Stream;

/// Rows that are uploaded before they are pushed, in a stream of their own.
#[derive(Debug, Default)]
pub(super) struct RowsAhead {
    // First, so that it is dropped first: its drop waits for the upload.
    stream: Option<Stream>,
    slot: Slot,
    /// The rows in host memory, and their bytes.
    rows: Option<(Pinned, usize)>,
    /// Whether the upload is still to be enqueued.
    waits: bool,
    /// Whether the upload was enqueued, so that the slot has the rows.
    enqueued: bool,
}

impl RowsAhead {
    /// Takes rows, to upload them soon.
    pub(super) fn give(&mut self, rows: Pinned, bytes: usize) {
        assert!(bytes <= rows.len(), "the memory has the rows");
        self.rows = Some((rows, bytes));
        self.waits = true;
    }

    /// Enqueues the upload of the rows that wait, if there is memory for them. If not, they are uploaded when they are pushed.
    pub(super) fn start(&mut self, gpu: &Gpu, budget: &mut Budget) -> Result<()> {
        if std::mem::take(&mut self.waits) {
            self.enqueued = match self.enqueue(gpu, budget) {
                Err(error) if error.is_memory() => false,
                enqueued => enqueued?,
            };
        }
        Ok(())
    }

    fn enqueue(&mut self, gpu: &Gpu, budget: &mut Budget) -> Result<bool> {
        let Some((rows, bytes)) = &self.rows else { return Ok(false) };
        let rows = &rows[..*bytes];
        let (needed, left) = (rows.len() as u64, budget.limit.saturating_sub(budget.held));
        // Memory that the encoder itself may need is not taken away.
        if needed > self.slot.bytes() && needed.saturating_mul(2) > left {
            return Ok(false);
        }
        if self.stream.is_none() {
            self.stream = Some(gpu.stream()?);
        }
        let Some(stream) = &mut self.stream else { return Ok(false) };
        let slot = self.slot.room(gpu, "the next rows", Some(needed), budget)?;
        // SAFETY: `self` owns the rows until `take`, which waits for the stream or is called after it was waited for.
        unsafe { stream.upload(rows, slot, 0)? };
        stream.flush()?;
        Ok(true)
    }

    /// An upload of rows with this device memory.
    pub(super) fn with(slot: Slot) -> RowsAhead {
        RowsAhead { slot, ..RowsAhead::default() }
    }

    /// Takes the device memory, after the upload. Returns `None` if the upload failed.
    pub(super) fn slot(&mut self) -> Option<Slot> {
        let done = self.stream.as_mut().is_none_or(|stream| stream.synchronize().is_ok() && !stream.has_failed());
        done.then(|| std::mem::take(&mut self.slot))
    }

    /// The rows in host memory.
    pub(super) fn on_host(&self) -> &[u8] {
        self.rows.as_ref().map_or(&[], |(rows, bytes)| &rows[..*bytes])
    }

    /// The rows on the device, if they were uploaded. `stream` waits for them.
    pub(super) fn on_device(&mut self, stream: &mut Stream) -> Result<Option<&Buffer>> {
        self.waits = false;
        match &mut self.stream {
            Some(upload) if self.enqueued => {
                stream.follow(upload)?;
                Ok(Some(self.slot.get()))
            }
            _ => Ok(None),
        }
    }

    /// Notes that the stream that waits for the rows was synchronised.
    pub(super) fn was_waited_for(&mut self) {
        if let Some(stream) = &mut self.stream {
            stream.was_waited_for();
        }
    }

    /// Waits for the upload and frees the device memory, so that the encoder can use it. The rows stay in host memory.
    pub(super) fn cancel(&mut self, budget: &mut Budget) {
        // If the upload failed, the next work on the device fails too.
        let _ = self.stream.as_mut().map(Stream::synchronize);
        self.enqueued = false;
        self.slot.clear(budget);
    }

    /// Returns the memory of the rows.
    pub(super) fn take(&mut self) -> Option<Pinned> {
        if let Some(stream) = &mut self.stream {
            let _ = stream.synchronize();
        }
        (self.waits, self.enqueued) = (false, false);
        self.rows.take().map(|(rows, _)| rows)
    }
}
