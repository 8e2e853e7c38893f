//! The device memory of a finished write, kept for the next one.

use super::TileEncoder;
use crate::gpu::Gpu;
use crate::memory::slot::Slot;

/// The device memory of an encoder.
#[derive(Debug, Default)]
pub(crate) struct EncoderMemory {
    /// Two for each level.
    pub(super) levels: Vec<[Slot; 2]>,
    pub(super) tiles: Slot,
    pub(super) pool: [Slot; 3],
    pub(super) ahead: [Slot; 2],
}

impl EncoderMemory {
    /// Memory of an earlier write with at most `limit` bytes, or none.
    pub(super) fn take(gpu: &Gpu, levels: usize, limit: u64) -> EncoderMemory {
        let kept = gpu.take_encoder_memory().filter(|kept| kept.bytes() <= limit);
        let mut kept = kept.unwrap_or_default();
        kept.levels.resize_with(levels, Default::default);
        kept
    }

    pub(crate) fn bytes(&self) -> u64 {
        let others = [&self.tiles].into_iter().chain(&self.pool).chain(&self.ahead);
        self.levels.iter().flatten().chain(others).map(Slot::bytes).sum()
    }
}

impl Drop for TileEncoder {
    fn drop(&mut self) {
        let ahead = self.ahead.each_mut().map(|ahead| ahead.slot());
        // If the device failed, its memory is not used again.
        if self.stream.synchronize().is_err() || self.stream.has_failed() || ahead.iter().any(Option::is_none) {
            return;
        }
        let pool = [&mut self.pool.slots, &mut self.pool.spans, &mut self.pool.scratch].map(std::mem::take);
        let levels = self.levels.iter_mut().map(|level| std::mem::take(&mut level.slots)).collect();
        let tiles = std::mem::take(&mut self.tiles);
        self.gpu.keep_encoder_memory(EncoderMemory {
            levels,
            tiles,
            pool,
            ahead: ahead.map(Option::unwrap_or_default),
        });
    }
}
