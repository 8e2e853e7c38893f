//! A lane: the stream and the memory of one batch in flight.

use super::pictures::Pictures;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::memory::raster::DeviceRaster;
use crate::memory::slot::{Budget, PinnedSlot, Slot};
use crate::stream::Stream;

/// Bytes of device memory that a batch needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Needs {
    pub(super) batch: u64,
    /// `None` where blocks are placed from the batch itself.
    pub(super) decoded: Option<u64>,
    pub(super) scratch: u64,
    /// `None` when the number does not fit in 64 bits.
    pub(super) out: Option<u64>,
}

impl Needs {
    /// Bytes of all buffers together.
    pub(super) fn total(&self) -> u64 {
        let (decoded, out) = (self.decoded.unwrap_or(0), self.out.unwrap_or(u64::MAX));
        self.batch.saturating_add(decoded).saturating_add(self.scratch).saturating_add(out)
    }

    /// At least as much as the largest batch of a read is expected to need, so that later batches allocate nothing.
    pub(super) fn at_least(self, largest: LargestBatch) -> Needs {
        let LargestBatch { compressed, decoded, pixels } = largest;
        Needs {
            batch: self.batch.max(compressed),
            decoded: self.decoded.map(|bytes| bytes.max(decoded)),
            scratch: self.scratch,
            out: self.out.map(|bytes| bytes.max(pixels)),
        }
    }
}

/// The device memory that the largest batch of a read is expected to need, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct LargestBatch {
    /// The table of the blocks, and their compressed bytes.
    pub compressed: u64,
    /// The decoded blocks.
    pub decoded: u64,
    /// The pixels, if they go to the host, and the status of each block.
    pub pixels: u64,
}

/// The stream and the memory of one batch in flight.
#[derive(Debug)]
pub(crate) struct Lane {
    // First, so that it is dropped first: its drop waits for the work that uses the buffers.
    pub(super) stream: Stream,
    /// The state of the libraries for pictures.
    pub(super) pictures: Pictures,
    /// Table, band list and compressed bytes.
    pub(super) batch: Slot,
    pub(super) decoded: Slot,
    pub(super) scratch: Slot,
    /// Statuses and pixels.
    pub(super) out: Slot,
    pub(super) staging: PinnedSlot,
    pub(super) result: PinnedSlot,
    /// Bytes of the statuses in the result, and of the whole result.
    pub(super) status_bytes: usize,
    pub(super) result_bytes: usize,
    /// Bytes at the end of the result that state where nodata was found.
    pub(super) found_bytes: usize,
    pub(super) blocks: usize,
    /// The offset of the compressed bytes in the batch.
    pub(super) payload_at: usize,
    /// Whether the device read the compressed bytes from the file itself, so that the host does not have them.
    pub(super) from_file: bool,
    /// Bytes that were staged.
    pub(super) staged: usize,
    /// The raster that the batch writes to. It is kept alive until the batch is done.
    pub(super) target: Option<DeviceRaster>,
}

impl Lane {
    pub(crate) fn new(gpu: &Gpu) -> Result<Lane> {
        Ok(Lane {
            stream: gpu.stream()?,
            pictures: Pictures::new(gpu),
            batch: Slot::default(),
            decoded: Slot::default(),
            scratch: Slot::default(),
            out: Slot::default(),
            staging: PinnedSlot::default(),
            result: PinnedSlot::default(),
            status_bytes: 0,
            result_bytes: 0,
            found_bytes: 0,
            blocks: 0,
            payload_at: 0,
            from_file: false,
            staged: 0,
            target: None,
        })
    }

    pub(super) fn make_room(&mut self, gpu: &Gpu, needs: &Needs, budget: &mut Budget) -> Result<()> {
        self.batch.room(gpu, "the compressed batch", Some(needs.batch), budget)?;
        if let Some(bytes) = needs.decoded {
            self.decoded.room(gpu, "the decoded batch", Some(bytes), budget)?;
        }
        self.out.room(gpu, "the pixels of a batch", needs.out, budget)?;
        if needs.scratch > 0 {
            self.scratch.room(gpu, "working memory of the decoder", Some(needs.scratch), budget)?;
        }
        Ok(())
    }

    /// As [`make_room`](Lane::make_room), without a reserve for larger batches.
    pub(super) fn make_exact_room(&mut self, gpu: &Gpu, needs: &Needs, budget: &mut Budget) -> Result<()> {
        budget.exact = true;
        let made = self.make_room(gpu, needs, budget);
        budget.exact = false;
        made
    }

    /// Whether a group of the finished batch found nodata.
    pub(super) fn found_nodata(&self) -> bool {
        let (end, bytes) = (self.result_bytes, self.found_bytes);
        self.result.get(end)[end - bytes..].iter().any(|&byte| byte != 0)
    }

    pub(crate) fn bytes(&self) -> u64 {
        [&self.batch, &self.decoded, &self.scratch, &self.out].iter().map(|slot| slot.bytes()).sum()
    }

    pub(super) fn clear(&mut self, budget: &mut Budget) {
        let slots = [&mut self.batch, &mut self.decoded, &mut self.scratch, &mut self.out];
        slots.into_iter().for_each(|slot| slot.clear(budget));
        self.pictures.clear();
    }
}
