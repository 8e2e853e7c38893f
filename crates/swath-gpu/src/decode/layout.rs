//! What lies where in a batch.

use super::blocks::{Chunks, stand_in};
use crate::decode::block::Block;
use crate::decode::job::DecodeJob;
use crate::decode::route::Route;

/// Compressed bytes begin at a multiple of this in a batch: no stream is wanted at a larger one.
pub(crate) const PAYLOAD_ALIGN: usize = 16;

/// What lies where in a batch: the table of blocks, the list of bands, statuses of blocks that nobody decodes, what nvCOMP decodes in
/// place of blocks that it must not see, the compressed bytes; and behind what is uploaded the arrays of nvCOMP.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchLayout {
    pub(super) bands_at: usize,
    pub(super) zeros_at: usize,
    pub(super) stand_in_at: usize,
    pub(super) payload_at: usize,
    pub(super) payload_end: usize,
    pub(super) chunks_at: usize,
    pub(super) total: usize,
}

impl BatchLayout {
    /// `None` when no number is large enough.
    pub(super) fn new(job: &DecodeJob, bands: usize, blocks: usize, payload: usize) -> Option<BatchLayout> {
        let bands_at = blocks * size_of::<Block>();
        let zeros_at = bands_at + bands * 4;
        let from_host = job.is_stored() || job.is_fed_by_host();
        let stand_in_at = zeros_at + if from_host { status_bytes(blocks) } else { 0 };
        let (stand_in, chunks) = match job.route {
            Route::NvComp(codec, _) => (stand_in(codec).len(), Chunks::bytes(blocks as u64) as usize),
            Route::Stored | Route::Kernel(_) | Route::NvJpeg2000(_) | Route::NvJpeg { .. } => (0, 0),
        };
        // Streams stand where nvCOMP wants them.
        let stand_in_at = stand_in_at.next_multiple_of(PAYLOAD_ALIGN);
        let payload_at = (stand_in_at + stand_in).next_multiple_of(PAYLOAD_ALIGN);
        let payload_end = payload_at.checked_add(payload)?;
        let chunks_at = payload_end.checked_next_multiple_of(PAYLOAD_ALIGN)?;
        let total = match chunks {
            // The host keeps the bytes.
            0 if job.is_fed_by_host() => payload_at,
            0 => payload_end,
            chunks => chunks_at.checked_add(chunks)?,
        };
        Some(BatchLayout { bands_at, zeros_at, stand_in_at, payload_at, payload_end, chunks_at, total })
    }

    /// Write all that stands before the compressed bytes. `statuses` are those of blocks that the host handed to a decoder.
    pub(super) fn write_head(
        &self,
        job: &DecodeJob,
        blocks: &[Block],
        bands: &[u32],
        statuses: &[u32],
        head: &mut [u8],
    ) {
        head[..self.bands_at].copy_from_slice(bytemuck::cast_slice(blocks));
        head[self.bands_at..self.zeros_at].copy_from_slice(bytemuck::cast_slice(bands));
        head[self.zeros_at..self.payload_at].fill(0);
        head[self.zeros_at..][..statuses.len() * 4].copy_from_slice(bytemuck::cast_slice(statuses));
        if let Route::NvComp(codec, _) = job.route {
            let stream = stand_in(codec);
            head[self.stand_in_at..][..stream.len()].copy_from_slice(stream);
        }
    }
}

/// Bytes of the statuses of a batch, so that pixels behind them begin where a device likes them to.
pub(super) fn status_bytes(blocks: usize) -> usize {
    (blocks * 4).next_multiple_of(256)
}
