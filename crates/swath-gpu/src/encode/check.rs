//! Whether nvCOMP is to be believed where its header contradicts itself.
//!
//! One sentence of it allows Deflate chunks of 2 GiB, another none above 64 KiB and nothing defined beyond that. The checksum that stands
//! behind a stream is that of the tile, so a wrong stream would be a wrong file, and nobody would notice before somebody reads it. So one
//! such tile of the first band is decoded again, by our own kernel, which compares the checksum, before anything of its batch is used;
//! and one of the next, as long as they are as good as empty and so show nothing. What the kernel said comes with the sizes of the tiles:
//! nobody waits for it alone.

use super::compress::{Piece, TileCodec};
use crate::backend::kernel::{Arg, Kernel};
use crate::decode::block::{Block, Status};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::memory::slot::{Budget, Slot};
use crate::stream::Stream;

/// The largest chunk of Deflate that all of nvCOMP's header allows.
const UNDISPUTED: u64 = 64 << 10;

/// Whether a tile of which a library made so much shows anything of others: one that shrinks to less than a part of 32 is one value again
/// and again, of which anybody makes the right thing.
pub(super) fn is_telling(tile_bytes: u64, made: u64) -> bool {
    made > tile_bytes / 32
}

/// The memory of a check: what the kernel says of the tile, what stood at the beginning of the pool, and the tile.
const HEAD_AT: u64 = size_of::<Block>() as u64;
const TILE_AT: u64 = 2 * HEAD_AT;

/// The check of a write: of one tile that shows something, and then it is done.
#[derive(Debug, Default)]
pub(super) struct Check {
    memory: Slot,
    /// The table of one block, which must stay until the stream is synchronised.
    table: Block,
    passed: bool,
}

impl Check {
    /// The run of tiles of which the middle one is to be checked, if one is.
    pub(super) fn piece(&self, codec: &TileCodec, pieces: &[Piece]) -> Option<Piece> {
        let due = !self.passed && matches!(codec, TileCodec::NvComp(nvcomp) if nvcomp.is_deflate());
        pieces.iter().find(|piece| due && piece.bytes > UNDISPUTED).copied()
    }

    /// Memory for the tile that is checked, if one is.
    pub(super) fn make_room(
        &mut self,
        codec: &TileCodec,
        pieces: &[Piece],
        gpu: &Gpu,
        budget: &mut Budget,
    ) -> Result<()> {
        let Some(piece) = self.piece(codec, pieces) else { return Ok(()) };
        let bytes = piece.bytes.checked_add(TILE_AT);
        self.memory.room(gpu, "the tile that nvCOMP is checked by", bytes, budget).map(|_| ())
    }

    pub(super) fn clear(&mut self, budget: &mut Budget) {
        self.memory.clear(budget);
    }

    /// It is as it should be: nothing more is checked, if that says something.
    pub(super) fn pass(&mut self, piece: &Piece, size: u32, budget: &mut Budget) {
        if is_telling(piece.bytes, size.into()) {
            self.passed = true;
            self.clear(budget);
        }
    }

    /// Decode what lies at `from` in the pool, up to `room` bytes of it, and put what came of it at `status_at` of the pool. The arrays of
    /// nvCOMP are not needed any more, or they would be in the way.
    pub(super) fn enqueue(
        &mut self,
        pool: &Slot,
        piece: &Piece,
        (from, room): (u64, u64),
        status_at: u64,
        stream: &mut Stream,
    ) -> Result<()> {
        let (pool, memory) = (pool.get(), self.memory.get());
        // How long the stream is only the device knows. The kernel looks for the checksum where the last block ends: if that is not where
        // nvCOMP said that its stream ends, it is not there.
        let clamped = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        self.table = Block {
            src: from,
            dst: TILE_AT,
            src_len: clamped(room),
            dst_len: clamped(piece.bytes),
            ..Block::default()
        };
        // A table stands at the beginning of what is decoded, where the pool has sizes: they step aside for it.
        stream.copy(pool, 0, memory, HEAD_AT, HEAD_AT)?;
        let args = [Arg::Buffer(pool), Arg::Buffer(memory), Arg::Buffer(memory)];
        // SAFETY: the table is kept until the stream is synchronised. The slot and the tile lie in the buffers, and the kernel checks
        // every access against the table.
        unsafe {
            stream.upload(bytemuck::bytes_of(&self.table), pool, 0)?;
            stream.launch(Kernel::Inflate, 1, &args)?;
        }
        stream.copy(memory, HEAD_AT, pool, 0, HEAD_AT)?;
        stream.copy(memory, 0, pool, status_at, size_of::<Status>() as u64)
    }
}
