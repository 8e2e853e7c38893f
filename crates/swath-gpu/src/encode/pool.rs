//! Device memory for tiles that are compressed on the device.

use super::deflate::Parts;
use super::nvcomp_check::Check;
use super::tile_codec::{NvCompCodec, TileCodec};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::memory::slot::{Budget, Slot};
use crate::stream::Stream;
use crate::vendor::Library;
use crate::vendor::nvcomp::NvComp;

/// The alignment of compressed tiles and of the arrays of nvCOMP in the pool.
pub(super) const POOL_ALIGN: u64 = 16;

/// The working memory, so that one call compresses many tiles: Deflate by nvCOMP needs 5 to 34 times the size of
/// a tile for each tile, Swath's kernel one and a half times.
const SCRATCH_BYTES: u64 = 256 << 20;

/// The largest number of spans from which a tile is gathered: the size before it in a COG, the tile itself, and
/// its last bytes repeated after it.
const SPANS: u64 = 3;

/// The number of arrays of nvCOMP, each of 64-bit numbers. It reads the addresses of tiles, their sizes and the
/// addresses of the results. It writes sizes and statuses; the statuses are only half as wide.
pub(super) const ARRAYS: u64 = 5;

/// The space before and after the output of nvCOMP for a tile, for its frame.
pub(super) const FRAME_ROOM: u64 = 16;

/// Tiles of the same size that are stored one after another.
#[derive(Debug, Clone, Copy)]
pub(super) struct TileRun {
    pub(super) level: usize,
    /// The index of the first one, among all tiles.
    pub(super) first: u64,
    pub(super) tiles: u64,
    /// The offset of the first one, and the distance between two.
    pub(super) at: u64,
    pub(super) stride: u64,
    pub(super) row_bytes: u64,
    pub(super) bytes: u64,
}

impl TileRun {
    /// The index of the tile in the middle.
    pub(super) fn middle(&self) -> u64 {
        self.first + self.tiles / 2
    }
}

/// Memory for tiles that are compressed on the device.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// The sizes, the arrays of nvCOMP, and a slot for each tile, or for each part of a tile, with space for the
    /// largest possible result.
    pub(super) slots: Slot,
    /// The table of spans for the kernel that gathers tiles.
    pub(super) spans: Slot,
    /// Working memory of nvCOMP or of the Deflate kernel.
    pub(super) scratch: Slot,
    pub(super) check: Check,
    /// The number of bytes of each slot, by run.
    pub(super) slot_bytes: Vec<u64>,
    /// The largest number of bytes that nvCOMP may produce for a tile.
    pub(super) bound: u64,
    /// The number of tiles that nvCOMP compresses at a time, or of parts for the Deflate kernel.
    pub(super) wave: u64,
    pub(super) scratch_bytes: u64,
}

/// The offsets of the arrays of nvCOMP and of the slots in the pool, for a number of slots. The sizes of their
/// contents come first.
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

fn tiles_of(runs: &[TileRun]) -> u64 {
    runs.iter().map(|run| run.tiles).sum()
}

/// The number of slots of all tiles.
pub(super) fn slots_of(codec: &TileCodec, runs: &[TileRun]) -> u64 {
    runs.iter().map(|run| run.tiles * codec.slots(run.bytes)).sum()
}

/// The tiles for which memory is reserved.
#[derive(Clone, Copy)]
pub(super) struct RoomFor<'a> {
    pub(super) codec: &'a TileCodec,
    pub(super) runs: &'a [TileRun],
    /// The number of bytes of the largest tile of the file.
    pub(super) largest: u64,
}

impl Pool {
    pub(super) fn clear(&mut self, budget: &mut Budget) {
        [&mut self.slots, &mut self.spans, &mut self.scratch].into_iter().for_each(|slot| slot.clear(budget));
        self.check.clear(budget);
    }

    /// Allocates all memory that compressing these tiles needs. Returns the largest possible size of any of
    /// them after compression.
    pub(super) fn make_room(
        &mut self,
        room: RoomFor<'_>,
        gpu: &Gpu,
        stream: &mut Stream,
        budget: &mut Budget,
    ) -> Result<u64> {
        let RoomFor { codec, runs, .. } = room;
        let count = slots_of(codec, runs);
        self.plan(room)?;
        let slots = |run: &TileRun| run.tiles * codec.slots(run.bytes);
        let mut slots = runs.iter().zip(&self.slot_bytes).map(|(run, slot)| slots(run).checked_mul(*slot));
        let bytes = slots.try_fold(PoolLayout::new(codec, count).slots_at, |sum, bytes| sum.checked_add(bytes?));
        self.slots.room(gpu, "the pool of compressed tiles", bytes, budget)?;
        self.spans.room(gpu, "the table of compressed tiles", Some(count * SPANS * 24), budget)?;
        self.check.make_room(codec, runs, gpu, budget)?;
        match codec {
            TileCodec::NvComp(nvcomp) => self.make_scratch(*nvcomp, room, gpu, stream, budget)?,
            TileCodec::Deflate => self.make_deflate_scratch(runs, gpu, budget)?,
            _ => {}
        }
        Ok(self.slot_bytes.iter().copied().max().unwrap_or(0))
    }

    /// Allocates the working memory of the Deflate kernel. If the device has too little, fewer parts are
    /// compressed at a time.
    fn make_deflate_scratch(&mut self, runs: &[TileRun], gpu: &Gpu, budget: &mut Budget) -> Result<()> {
        let part = runs.iter().map(|run| Parts::new(run.bytes).scratch()).max().unwrap_or(0).max(1);
        let most = SCRATCH_BYTES.min(budget.limit / 4);
        self.wave = slots_of(&TileCodec::Deflate, runs).min(most / part).max(1);
        loop {
            match self.scratch.room(gpu, "working memory of Deflate", Some(self.wave * part), budget) {
                Err(error) if error.is_memory() && self.wave > 1 => self.wave /= 2,
                made => return made.map(|_| ()),
            }
        }
    }

    /// Allocates the working memory of nvCOMP. If the device has too little, fewer tiles are compressed at a
    /// time.
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

    /// Computes the size of the slots. nvCOMP is given the size of the largest tile of the file and not of
    /// these tiles, because its output may depend on it, and the output of a tile must not depend on the tiles
    /// that are compressed with it.
    fn plan(&mut self, RoomFor { codec, runs, largest }: RoomFor<'_>) -> Result<()> {
        (self.wave, self.scratch_bytes) = (tiles_of(runs), 0);
        self.slot_bytes.clear();
        let TileCodec::NvComp(nvcomp) = codec else {
            let bound = |run: &TileRun| match codec {
                TileCodec::Deflate => Parts::new(run.bytes).slot(),
                // At most 12 bits for each byte, a Clear after 3836 codes, and the last codes.
                TileCodec::Lzw => run.bytes + run.bytes.div_ceil(2) + run.bytes / 2048 + 16,
                // One more byte for every 128 bytes of a row.
                _ => run.bytes + run.bytes / run.row_bytes * run.row_bytes.div_ceil(128),
            };
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

    /// Chooses the number of tiles that are compressed at a time, so that nvCOMP needs at most `most` bytes of
    /// working memory, if possible. Returns the number of bytes that it needs.
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

/// Returns the error for a tile that nvCOMP did not compress.
pub(super) fn failed(what: String) -> Error {
    Error::Library { library: Library::NvComp, call: "compress", code: what }
}
