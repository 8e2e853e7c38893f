//! The layout of a batch in device memory.

use super::blocks::{Chunks, stand_in};
use crate::decode::block::Block;
use crate::decode::job::DecodeJob;
use crate::decode::route::Route;
use crate::decode::unpack::Unpack;

/// Alignment of the compressed bytes in a batch. No decoder requires a larger one.
pub(crate) const PAYLOAD_ALIGN: usize = 16;

/// The offsets of the parts of a batch: the table of blocks, the list of bands, the factors of each band, the statuses of blocks that no kernel decodes, the stream that
/// nvCOMP decodes in place of blocks that it must not get, and the compressed bytes. After the uploaded part come the arrays of nvCOMP.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchLayout {
    pub(super) bands_at: usize,
    pub(super) factors_at: usize,
    pub(super) zeros_at: usize,
    pub(super) stand_in_at: usize,
    pub(super) payload_at: usize,
    pub(super) payload_end: usize,
    pub(super) chunks_at: usize,
    pub(super) total: usize,
}

impl BatchLayout {
    /// `None` when an offset does not fit in `usize`.
    pub(super) fn new(job: &DecodeJob, bands: usize, blocks: usize, payload: usize) -> Option<BatchLayout> {
        let bands_at = blocks * size_of::<Block>();
        let factors = job.unpack.as_ref().map_or(0, Unpack::table_bytes);
        // The factors are numbers of 8 bytes, and the blocks before them a multiple of that.
        let factors_at = bands_at + if factors == 0 { bands * 4 } else { (bands * 4).next_multiple_of(8) };
        let zeros_at = factors_at + factors;
        let from_host = job.is_stored() || job.is_fed_by_host();
        let stand_in_at = zeros_at + if from_host { status_bytes(blocks) } else { 0 };
        let (stand_in, chunks) = match job.route {
            Route::NvComp(codec, _) => (stand_in(codec).len(), Chunks::bytes(blocks as u64) as usize),
            Route::Stored | Route::Kernel(_) | Route::NvJpeg2000(_) | Route::NvJpeg { .. } => (0, 0),
        };
        // nvCOMP requires aligned streams.
        let stand_in_at = stand_in_at.next_multiple_of(PAYLOAD_ALIGN);
        let payload_at = (stand_in_at + stand_in).next_multiple_of(PAYLOAD_ALIGN);
        let payload_end = payload_at.checked_add(payload)?;
        let chunks_at = payload_end.checked_next_multiple_of(PAYLOAD_ALIGN)?;
        let total = match chunks {
            // The compressed bytes stay on the host.
            0 if job.is_fed_by_host() => payload_at,
            0 => payload_end,
            chunks => chunks_at.checked_add(chunks)?,
        };
        Some(BatchLayout { bands_at, factors_at, zeros_at, stand_in_at, payload_at, payload_end, chunks_at, total })
    }

    /// Writes all parts before the compressed bytes. `statuses` are those of blocks that the host passed to a library.
    pub(super) fn write_head(
        &self,
        job: &DecodeJob,
        blocks: &[Block],
        bands: &[u32],
        statuses: &[u32],
        head: &mut [u8],
    ) {
        head[..self.bands_at].copy_from_slice(bytemuck::cast_slice(blocks));
        head[self.bands_at..][..bands.len() * 4].copy_from_slice(bytemuck::cast_slice(bands));
        let factors = job.unpack.as_ref().map(Unpack::table).unwrap_or_default();
        head[self.factors_at..self.zeros_at].copy_from_slice(bytemuck::cast_slice(&factors));
        head[self.zeros_at..self.payload_at].fill(0);
        head[self.zeros_at..][..statuses.len() * 4].copy_from_slice(bytemuck::cast_slice(statuses));
        if let Route::NvComp(codec, _) = job.route {
            let stream = stand_in(codec);
            head[self.stand_in_at..][..stream.len()].copy_from_slice(stream);
        }
    }
}

/// Bytes of the statuses of a batch, rounded up so that the pixels after them are aligned.
pub(super) fn status_bytes(blocks: usize) -> usize {
    (blocks * 4).next_multiple_of(256)
}
