//! Checks the Deflate streams of nvCOMP for chunk sizes about which its header contradicts itself.
//!
//! One sentence of the header allows Deflate chunks of 2 GiB, another says that the result is undefined above
//! 64 KiB. The checksum after a stream is computed from the tile, so a wrong stream would make a corrupt file,
//! and the error would appear only when the file is read. Therefore Swath's own kernel decodes one such tile of
//! the first batch and compares the checksum before anything of the batch is used. While the checked tiles are
//! too uniform to prove anything, the kernel also checks one tile of the next batch. The status of the kernel
//! is downloaded together with the sizes of the tiles, so the check needs no extra synchronisation.

use super::pool::TileRun;
use super::tile_codec::TileCodec;
use crate::backend::kernel::{Arg, Kernel};
use crate::decode::block::{Block, Status};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::memory::slot::{Budget, Slot};
use crate::stream::Stream;

/// The largest chunk of Deflate that every sentence of nvCOMP's header allows.
const UNDISPUTED: u64 = 64 << 10;

/// Whether a tile that was compressed to `made` bytes proves anything about other tiles. A tile that shrinks to
/// less than 1/32 repeats one value, which every encoder handles correctly.
pub(super) fn is_telling(tile_bytes: u64, made: u64) -> bool {
    made > tile_bytes / 32
}

/// The memory of a check: the status of the kernel, the saved start of the pool, and the decoded tile.
const HEAD_AT: u64 = size_of::<Block>() as u64;
const TILE_AT: u64 = 2 * HEAD_AT;

/// The check of a write. It is complete after one tile that proves something.
#[derive(Debug, Default)]
pub(super) struct Check {
    memory: Slot,
    /// The table of one block. It must not change until the stream is synchronised.
    table: Block,
    passed: bool,
}

impl Check {
    /// Returns the run of tiles whose middle tile is checked, if a check is due.
    pub(super) fn run(&self, codec: &TileCodec, runs: &[TileRun]) -> Option<TileRun> {
        let due = !self.passed && matches!(codec, TileCodec::NvComp(nvcomp) if nvcomp.is_deflate());
        runs.iter().find(|run| due && run.bytes > UNDISPUTED).copied()
    }

    /// Allocates memory for the checked tile, if a check is due.
    pub(super) fn make_room(
        &mut self,
        codec: &TileCodec,
        runs: &[TileRun],
        gpu: &Gpu,
        budget: &mut Budget,
    ) -> Result<()> {
        let Some(run) = self.run(codec, runs) else { return Ok(()) };
        let bytes = run.bytes.checked_add(TILE_AT);
        self.memory.room(gpu, "the check of nvCOMP", bytes, budget).map(|_| ())
    }

    pub(super) fn clear(&mut self, budget: &mut Budget) {
        self.memory.clear(budget);
    }

    /// Records that a tile passed the check. If the tile proves something, no other tile is checked.
    pub(super) fn pass(&mut self, run: &TileRun, size: u32, budget: &mut Budget) {
        if is_telling(run.bytes, size.into()) {
            self.passed = true;
            self.clear(budget);
        }
    }

    /// Enqueues the decoding of the stream at `from` in the pool, which has at most `room` bytes, and stores
    /// the status at `status_at` of the pool. This overwrites the arrays of nvCOMP, which are no longer needed.
    pub(super) fn enqueue(
        &mut self,
        pool: &Slot,
        run: &TileRun,
        (from, room): (u64, u64),
        status_at: u64,
        stream: &mut Stream,
    ) -> Result<()> {
        let (pool, memory) = (pool.get(), self.memory.get());
        // Only the device has the length of the stream. The kernel expects the checksum after the last block:
        // if nvCOMP's stream ends at another position, the kernel does not find the checksum.
        let clamped = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        self.table =
            Block { src: from, dst: TILE_AT, src_len: clamped(room), dst_len: clamped(run.bytes), ..Block::default() };
        // The kernel expects the table at the start of its input. The pool has sizes there, which are saved
        // during the check.
        stream.copy(pool, 0, memory, HEAD_AT, HEAD_AT)?;
        let args = [Arg::Buffer(pool), Arg::Buffer(memory), Arg::Buffer(memory)];
        // SAFETY: the table lives until the stream is synchronised. The slot and the tile lie in the buffers,
        // and the kernel checks every access against the table.
        unsafe {
            stream.upload(bytemuck::bytes_of(&self.table), pool, 0)?;
            stream.launch(Kernel::Inflate, 1, &args)?;
        }
        stream.copy(memory, HEAD_AT, pool, 0, HEAD_AT)?;
        stream.copy(memory, 0, pool, status_at, size_of::<Status>() as u64)
    }
}
