//! Device memory for tiles that are compressed on the device.

use super::nvcomp_check::Check;
use super::tile_codec::{NvCompCodec, TileCodec};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::memory::slot::{Budget, Slot};
use crate::stream::Stream;
use crate::vendor::Library;
use crate::vendor::nvcomp::NvComp;

/// Compressed tiles and the arrays of nvCOMP begin at multiples of this in the pool.
pub(super) const POOL_ALIGN: u64 = 16;

/// Working memory that nvCOMP gets, so that one call compresses many tiles: Deflate needs 5 to 34 times a tile for each.
const SCRATCH_BYTES: u64 = 256 << 20;

/// The most spans that a tile is gathered from: the size before it in a COG, the tile itself, its last bytes repeated behind it.
const SPANS: u64 = 3;

/// The arrays of nvCOMP, each of 64-bit numbers. It reads where tiles lie, their sizes and where they go, and it writes sizes and
/// statuses, which are only half as wide.
pub(super) const ARRAYS: u64 = 5;

/// Room before and behind what nvCOMP makes of a tile, for its frame.
pub(super) const FRAME_ROOM: u64 = 16;

/// Tiles of the same size that lie one after another.
#[derive(Debug, Clone, Copy)]
pub(super) struct TileRun {
    pub(super) level: usize,
    /// The number of the first, among all tiles.
    pub(super) first: u64,
    pub(super) tiles: u64,
    /// Where the first begins, and from each to the next.
    pub(super) at: u64,
    pub(super) stride: u64,
    pub(super) row_bytes: u64,
    pub(super) bytes: u64,
}

impl TileRun {
    /// The number of the tile in the middle.
    pub(super) fn middle(&self) -> u64 {
        self.first + self.tiles / 2
    }
}

/// Memory for tiles that are compressed on the device.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// The sizes, the arrays of nvCOMP, and a slot for each tile that holds the largest that it may become.
    pub(super) slots: Slot,
    /// The table of spans for the kernel that gathers tiles.
    pub(super) spans: Slot,
    /// Working memory of nvCOMP.
    pub(super) scratch: Slot,
    pub(super) check: Check,
    /// Bytes of each slot, by run.
    pub(super) slot_bytes: Vec<u64>,
    /// Bytes that nvCOMP may make of a tile.
    pub(super) bound: u64,
    /// Tiles that are compressed at a time.
    pub(super) wave: u64,
    pub(super) scratch_bytes: u64,
}

/// Where the arrays of nvCOMP and the slots begin in the pool, for so many tiles. The sizes of the compressed tiles come first.
pub(super) struct PoolLayout {
    pub(super) arrays_at: u64,
    pub(super) slots_at: u64,
}

impl PoolLayout {
    pub(super) fn new(codec: &TileCodec, count: u64) -> PoolLayout {
        let arrays_at = (count * 4).next_multiple_of(POOL_ALIGN);
        let arrays = if matches!(codec, TileCodec::NvComp(_)) { count * ARRAYS * 8 } else { 0 };
        PoolLayout { arrays_at, slots_at: (arrays_at + arrays).next_multiple_of(POOL_ALIGN) }
    }
}

pub(super) fn tiles_of(runs: &[TileRun]) -> u64 {
    runs.iter().map(|run| run.tiles).sum()
}

/// The tiles that room is made for.
#[derive(Clone, Copy)]
pub(super) struct RoomFor<'a> {
    pub(super) codec: &'a TileCodec,
    pub(super) runs: &'a [TileRun],
    /// Bytes of the largest tile of the file.
    pub(super) largest: u64,
}

impl Pool {
    pub(super) fn clear(&mut self, budget: &mut Budget) {
        [&mut self.slots, &mut self.spans, &mut self.scratch].into_iter().for_each(|slot| slot.clear(budget));
        self.check.clear(budget);
    }

    /// Allocates all memory that compressing these tiles needs. Returns the most bytes that any of them may become.
    pub(super) fn make_room(
        &mut self,
        room: RoomFor<'_>,
        gpu: &Gpu,
        stream: &mut Stream,
        budget: &mut Budget,
    ) -> Result<u64> {
        let RoomFor { codec, runs, .. } = room;
        let count = tiles_of(runs);
        self.plan(room)?;
        let mut slots = runs.iter().zip(&self.slot_bytes).map(|(run, slot)| run.tiles.checked_mul(*slot));
        let bytes = slots.try_fold(PoolLayout::new(codec, count).slots_at, |sum, bytes| sum.checked_add(bytes?));
        self.slots.room(gpu, "the pool of compressed tiles", bytes, budget)?;
        self.spans.room(gpu, "the table of compressed tiles", Some(count * SPANS * 24), budget)?;
        self.check.make_room(codec, runs, gpu, budget)?;
        if let TileCodec::NvComp(nvcomp) = codec {
            self.make_scratch(*nvcomp, room, gpu, stream, budget)?;
        }
        Ok(self.slot_bytes.iter().copied().max().unwrap_or(0))
    }

    /// Allocates the working memory of nvCOMP. If the device has too little, fewer tiles are compressed at a time.
    fn make_scratch(
        &mut self,
        nvcomp: NvCompCodec,
        room: RoomFor<'_>,
        gpu: &Gpu,
        stream: &mut Stream,
        budget: &mut Budget,
    ) -> Result<()> {
        let tiles = room.runs.iter().map(|run| run.tiles * run.stride).sum::<u64>();
        let mut most = SCRATCH_BYTES.min(budget.limit / 4).max(tiles);
        while self.plan_wave(nvcomp, room.largest, most, stream)? > 0 {
            match self.scratch.room(gpu, "working memory of nvCOMP", Some(self.scratch_bytes), budget) {
                Err(error) if error.is_memory() && self.wave > 1 => most = self.scratch_bytes / 2,
                made => return made.map(|_| ()),
            }
        }
        Ok(())
    }

    /// Computes the size of the slots. nvCOMP gets the largest tile of the file and not of these tiles, because its output may depend
    /// on it, and the output of a tile must not depend on the tiles that it is compressed with.
    fn plan(&mut self, RoomFor { codec, runs, largest }: RoomFor<'_>) -> Result<()> {
        (self.wave, self.scratch_bytes) = (tiles_of(runs), 0);
        self.slot_bytes.clear();
        let TileCodec::NvComp(nvcomp) = codec else {
            // A byte more for every 128 of a row.
            let bound = |run: &TileRun| run.bytes + run.bytes / run.row_bytes * run.row_bytes.div_ceil(128);
            self.slot_bytes.extend(runs.iter().map(|run| bound(run).next_multiple_of(POOL_ALIGN)));
            return Ok(());
        };
        if largest > nvcomp.largest() {
            let most = nvcomp.largest();
            return Err(failed(format!("tiles of {largest} bytes are larger than the {most} that it is given")));
        }
        self.bound = NvComp::get()?.compress_bound(nvcomp.codec, nvcomp.algorithm, largest)?;
        let slot = (self.bound + 2 * FRAME_ROOM).next_multiple_of(POOL_ALIGN);
        self.slot_bytes.resize(runs.len(), slot);
        Ok(())
    }

    /// Chooses how many tiles are compressed at a time, so that nvCOMP needs at most `most` bytes of working memory, if possible. Returns
    /// the bytes that it needs.
    fn plan_wave(&mut self, nvcomp: NvCompCodec, largest: u64, most: u64, stream: &mut Stream) -> Result<u64> {
        let library = NvComp::get()?;
        loop {
            let total = self.wave.saturating_mul(largest);
            let asked = stream.ask_library(|stream| {
                let (codec, algorithm) = (nvcomp.codec, nvcomp.algorithm);
                // SAFETY: this only queries sizes, and the stream belongs to the current context.
                let asked = unsafe { library.compress_temp(codec, algorithm, self.wave, largest, total, stream) };
                self.scratch_bytes = asked?;
                Ok(())
            });
            // Some search algorithms cannot handle more than 2 GiB at a time.
            match asked {
                Ok(()) if self.wave <= 1 || self.scratch_bytes <= most => return Ok(self.scratch_bytes),
                Err(error) if self.wave <= 1 => return Err(error),
                _ => self.wave = self.wave.div_ceil(2),
            }
        }
    }
}

/// The error of a compression that nvCOMP did not do.
pub(super) fn failed(what: String) -> Error {
    Error::Library { library: Library::NvComp, call: "compress", code: what }
}
