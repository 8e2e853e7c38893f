//! Swath's Deflate kernel: the parts of a tile, their slots and the working memory.

use super::TileEncoder;
use super::pool::{POOL_ALIGN, TileRun};
use crate::backend::kernel::{Arg, Kernel};
use crate::error::Result;

/// The largest part in bytes. A group encodes a part; the kernel stores positions in 16 bits.
const LARGEST_PART: u64 = 1 << 16;

/// The alignment of parts: the kernel reads words.
const PART_ALIGN: u64 = 16;

/// The number of bytes that a part may grow, and the sums for its checksum: the headers of the stream and of two stored blocks, the
/// checksum, and the two sums.
const PART_EXTRA: u64 = 2 + 2 * 5 + 4 + 16;

/// The number of tiles for which a group of the kernel that completes them computes checksums.
const FINISHED_BY_GROUP: u64 = 32;

/// The parts of a tile. All but the last have the same size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parts {
    /// The number of bytes of a part.
    pub(super) bytes: u64,
    pub(super) count: u64,
}

impl Parts {
    /// Divides a tile of `bytes` bytes.
    pub(super) fn new(bytes: u64) -> Parts {
        let most = bytes.div_ceil(LARGEST_PART).max(1);
        let part = bytes.div_ceil(most).next_multiple_of(PART_ALIGN).max(PART_ALIGN);
        Parts { bytes: part, count: bytes.div_ceil(part).max(1) }
    }

    /// The number of bytes of the slot of a part.
    pub(super) fn slot(&self) -> u64 {
        (self.bytes + PART_EXTRA).next_multiple_of(POOL_ALIGN)
    }

    /// The number of bytes of working memory for a part: a word and a half for every four bytes.
    pub(super) fn scratch(&self) -> u64 {
        ((self.bytes / 4 + 2) * 6).next_multiple_of(16)
    }
}

impl TileEncoder {
    /// Enqueues the compression of a run of tiles, as many parts at a time as there is working memory for. The slots of the run begin
    /// at `slots_at` in the pool, and `first` is the index of the first of them.
    pub(super) fn deflate(&mut self, run: &TileRun, slots_at: u64, first: u64) -> Result<()> {
        let parts = Parts::new(run.bytes);
        // Samples repeat at whole samples. Predictor 3 separates their bytes.
        let unit = if self.job.size > 1 && self.job.predictor != 3 { 2 } else { 1 };
        let (pool, total) = (self.pool.slots.get(), run.tiles * parts.count);
        for from in (0..total).step_by(self.pool.wave.max(1) as usize) {
            let args = [
                Arg::Buffer(self.tiles.get()),
                Arg::U64(run.at),
                Arg::U64(run.stride),
                Arg::U64(run.bytes),
                Arg::U32(parts.bytes as u32),
                Arg::U32(unit),
                Arg::Buffer(pool),
                Arg::U64(slots_at),
                Arg::U64(parts.slot()),
                Arg::Buffer(pool),
                Arg::U32(first as u32),
                Arg::U32(from as u32),
                Arg::Buffer(self.pool.scratch.get()),
            ];
            let groups = (total - from).min(self.pool.wave) as u32;
            // SAFETY: the arguments are those of the kernel; the pool has a slot for every part, and the working memory is enough for
            // as many groups as there are at a time.
            unsafe { self.stream.launch(Kernel::DeflateEncode, groups, &args)? };
        }
        let args = [
            Arg::U64(run.bytes),
            Arg::U32(parts.bytes as u32),
            Arg::U32(run.tiles as u32),
            Arg::Buffer(pool),
            Arg::U64(slots_at),
            Arg::U64(parts.slot()),
            Arg::Buffer(pool),
            Arg::U32(first as u32),
        ];
        // SAFETY: as above.
        unsafe { self.stream.launch(Kernel::DeflateFinish, run.tiles.div_ceil(FINISHED_BY_GROUP) as u32, &args) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_tile_are_aligned_and_fit_in_16_bits() {
        for bytes in [1, 15, 16, 17, 65_535, 65_536, 65_537, 131_072, 131_073, 1 << 20, 3_000_001, i32::MAX as u64] {
            let parts = Parts::new(bytes);
            assert!(parts.bytes <= LARGEST_PART && parts.bytes.is_multiple_of(PART_ALIGN), "{bytes}: {parts:?}");
            assert!(
                parts.bytes * (parts.count - 1) < bytes && bytes <= parts.bytes * parts.count,
                "{bytes}: {parts:?}"
            );
            // Matches of a part may use the last 1024 bytes of the part before.
            assert!(parts.count == 1 || parts.bytes >= 1024, "{bytes}: {parts:?}");
        }
        assert_eq!(Parts::new(1 << 20), Parts { bytes: 1 << 16, count: 16 });
    }
}
