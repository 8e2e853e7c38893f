//! Encoding on a device: rows of pixels become tiles of all levels.
//!
//! The caller pushes the rows of the full resolution in strips, together with the step of its pyramid schedule: which rows and block
//! rows of each level become complete. One push uploads the rows (or copies them, if they are on the device already), replaces NaN by
//! nodata, computes the new rows of every overview from its parent, cuts the complete block rows into tiles with the predictor applied,
//! compresses them if the device can, and brings the tiles of all levels to the host in one download with one synchronisation. The
//! device holds one strip of rows of each level and their tiles: the memory does not grow with the height of the image.

mod ahead;
mod choice;
mod compress;
mod deflate;
mod device_write;
mod input;
mod job;
mod kept;
mod launch;
mod nvcomp_check;
mod outcome;
mod pictures;
mod pool;
mod step;
mod tile_codec;
mod tiles;

use crate::backend::kernel::Kernel;
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::memory::buffer::Pinned;
use crate::memory::slot::{Budget, Slot};
use crate::storage::DeviceFile;
use crate::stream::Stream;

use self::ahead::RowsAhead;
pub use self::choice::EncoderBackend;
use self::device_write::DirectWriter;
pub use self::input::InputRows;
pub use self::job::{Downsample, EncodeJob, EncodeLevel};
pub(crate) use self::kept::EncoderMemory;
pub use self::outcome::{EncodeFailure, PushError};
use self::pictures::Encoders;
use self::pool::{Pool, RoomFor};
pub use self::step::LevelStep;
use self::step::{PlacedSteps, Progress};
pub use self::tile_codec::TileCodec;
use self::tiles::TileData;
pub use self::tiles::{LevelTiles, Tiles};

/// The rows of a level on the device.
#[derive(Debug, Default)]
struct LevelRows {
    /// Two buffers that take turns: rows that are still needed move from one to the other.
    slots: [Slot; 2],
    current: usize,
    progress: Progress,
}

/// The tiles of a push, and what a library failed at.
type Fetched = (TileData, Option<EncodeFailure>);

/// Encodes rows on a device.
#[derive(Debug)]
pub struct TileEncoder {
    // First, so that it is dropped first: dropping it waits for the work that uses the buffers.
    stream: Stream,
    gpu: Gpu,
    job: EncodeJob,
    levels: Vec<LevelRows>,
    tiles: Slot,
    pool: Pool,
    encoders: Encoders,
    /// Writes compressed tiles from the device to the file.
    direct: Option<DirectWriter>,
    /// Why compression was disabled, until it is reported.
    disabled: Option<EncodeFailure>,
    budget: Budget,
    /// Whether memory of an earlier write may be held that this one does not need.
    has_kept_memory: bool,
    /// Rows that were uploaded before their push: those that are pushed now, and those of the push after that.
    ahead: [RowsAhead; 2],
}

impl Gpu {
    /// Checks that the device has the kernels that this job needs. This must be known before the source makes its first row, because
    /// no other encoder can take rows that the device already has.
    ///
    /// # Errors
    /// [`Error::Build`] if a kernel does not compile on the device.
    pub fn can_encode(&self, job: &EncodeJob) -> Result<()> {
        let reduce = job.levels.iter().any(|level| level.downsample.is_some()).then_some(Kernel::Reduce);
        let replace = job.nan_to_nodata.map(|_| Kernel::NanToNodata);
        let mut needed = [Some(Kernel::Cut), reduce, replace].into_iter().flatten();
        needed.try_for_each(|kernel| self.shared.device.prepare(kernel))
    }

    /// Starts to encode. `budget` is the most device memory that the encoder may hold.
    ///
    /// # Errors
    /// [`Error::Unable`] if the sizes are beyond what the kernels can count; what the driver reports.
    pub fn encoder(&self, job: EncodeJob, budget: u64) -> Result<TileEncoder> {
        if !job.is_sound() {
            return Err(Error::Unable { device: self.info().name.clone(), what: "count blocks of this size" });
        }
        let stream = self.stream()?;
        let kept = EncoderMemory::take(self, job.levels.len(), budget);
        let budget = Budget { held: kept.bytes(), ..Budget::new(budget) };
        let EncoderMemory { levels, tiles, pool: [slots, spans, scratch], ahead } = kept;
        let levels = levels.into_iter().map(|slots| LevelRows { slots, ..LevelRows::default() }).collect();
        Ok(TileEncoder {
            stream,
            gpu: self.clone(),
            job,
            levels,
            tiles,
            pool: Pool { slots, spans, scratch, ..Pool::default() },
            encoders: Encoders::new(self),
            direct: None,
            disabled: None,
            has_kept_memory: budget.held > 0,
            budget,
            ahead: ahead.map(RowsAhead::with),
        })
    }
}

impl TileEncoder {
    /// Takes the next rows of the full resolution and returns the tiles that they complete, of all levels. `steps` says for each level
    /// which rows and block rows become complete. `memory` is host memory of earlier tiles, for reuse. The caller must not change the
    /// rows before this returns.
    ///
    /// # Errors
    /// [`PushError`] says whether the same rows may be pushed again, and how.
    ///
    /// # Panics
    /// If the steps do not continue those of the push before, or the rows are not those of the image.
    pub fn push(
        &mut self,
        rows: InputRows<'_>,
        steps: &[LevelStep],
        memory: Option<Pinned>,
    ) -> std::result::Result<Tiles, PushError> {
        let progress: Vec<Progress> = self.levels.iter().map(|level| level.progress.clone()).collect();
        let steps = PlacedSteps::new(&self.job, &progress, steps);
        let full = &steps.levels[0].new;
        rows.check(&self.job, &self.gpu, self.ahead[0].on_host(), full.end - full.start);
        self.make_all_room(&steps).map_err(PushError::before_start)?;
        let mut memory = room_on_host(&self.gpu, memory, steps.tiles_bytes).map_err(PushError::before_start)?;
        // From here on nothing allocates device memory that could be missing, so `OutOfMemory` always means that nothing was started.
        let made = self.enqueue(&steps.levels, rows).and_then(|()| self.fetch(&steps, &mut memory));
        let started = self.start_ahead();
        // Also after an error: the enqueued work uses the rows and the memory.
        let waited = self.stream.synchronize();
        let (data, failure) = made.map_err(PushError::after_start)?;
        waited.and(started).map_err(PushError::Failed)?;
        if matches!(rows, InputRows::Ahead { .. }) {
            self.ahead[0].was_waited_for();
        }
        let failure = self.disabled.take().or(failure);
        let levels = self.finish(steps);
        Ok(Tiles { memory, levels, data, failure })
    }

    /// Leaves out rows that another device encodes. `steps` says for each level which rows and block rows these are.
    ///
    /// # Panics
    /// If the steps do not continue those of the push before, or rows of an unfinished block would be left out.
    pub fn skip(&mut self, steps: &[LevelStep]) {
        for ((level, state), step) in self.job.levels.iter().zip(&mut self.levels).zip(steps) {
            let (held, block_row) = (&state.progress.held, state.progress.block_row);
            assert!(
                step.rows.start == held.end && step.block_rows.start == block_row,
                "the step follows the one before"
            );
            let whole = |row: u64, block: u64| row == (block * level.block_height).min(level.height);
            let blocks = &step.block_rows;
            assert!(whole(step.rows.start, blocks.start) && whole(step.rows.end, blocks.end), "whole blocks");
            state.progress = Progress { held: step.rows.end..step.rows.end, block_row: blocks.end };
        }
    }

    /// Takes the rows of a later push and uploads them during the next one. That push then names them as [`InputRows::Ahead`]: the copy runs while the device
    /// works on the pushes before it. `rows` has `bytes` bytes of rows.
    ///
    /// # Panics
    /// If the rows of two calls were not taken back, or the memory is smaller.
    pub fn upload_ahead(&mut self, rows: Pinned, bytes: usize) {
        let free = self.ahead.iter_mut().find(|ahead| ahead.on_host().is_empty());
        free.expect("rows were taken back").give(rows, bytes);
    }

    /// Begins the upload of later rows. A device copies in the order of the calls, so this comes after all copies that the present push
    /// needs before it computes, and before the host waits for it.
    fn start_ahead(&mut self) -> Result<()> {
        self.ahead.iter_mut().try_for_each(|ahead| ahead.start(&self.gpu, &mut self.budget))
    }

    /// Returns the memory of the oldest rows that [`upload_ahead`](TileEncoder::upload_ahead) got, after their push.
    pub fn take_ahead(&mut self) -> Option<Pinned> {
        let rows = self.ahead[0].take();
        self.ahead.swap(0, 1);
        rows
    }

    /// Records that the steps are done, and describes their tiles.
    fn finish(&mut self, steps: PlacedSteps) -> Vec<LevelTiles> {
        let mut levels = Vec::new();
        for (level, (step, state)) in steps.levels.into_iter().zip(&mut self.levels).enumerate() {
            state.progress.block_row = step.blocks.end;
            if !step.blocks.is_empty() {
                let of = &self.job.levels[level];
                levels.push(LevelTiles {
                    level,
                    rows: step.blocks,
                    at: step.tiles_at as usize,
                    stride: self.job.tile_stride(level) as usize,
                    bytes: self.job.tile_bytes(level) as usize,
                    across: of.across(),
                    planes: of.planes,
                    first: step.first,
                });
            }
        }
        levels
    }

    /// Brings all tiles to the host, or to the file: compressed, if the job says so and the library succeeds.
    fn fetch(&mut self, steps: &PlacedSteps, memory: &mut Pinned) -> Result<Fetched> {
        if steps.tiles_bytes == 0 {
            return Ok((TileData::Uncompressed, None));
        }
        let (mut failure, writes_directly) = (None, self.direct.is_some());
        if self.compresses() {
            match self.compress(&steps.tile_runs(&self.job), memory) {
                Ok(made) => return Ok(made),
                Err(error @ Error::Stalled { .. }) => return Err(error),
                // The uncompressed tiles are still on the device.
                Err(error) if error.is_library() => failure = Some(EncodeFailure::Compression(error)),
                // Too little host memory for the compressed tiles. A direct write may have used the memory of the uncompressed ones.
                Err(error) if error.is_memory() && !writes_directly => {
                    failure = Some(EncodeFailure::Compression(error));
                }
                Err(error) => return Err(error),
            }
        }
        // The host appends these tiles to the file, behind those that the device wrote. The device does not know where they end, so it
        // does not write any more.
        self.direct = None;
        // SAFETY: nothing reads the memory before `push` has synchronised.
        unsafe { self.stream.download(self.tiles.get(), 0, &mut memory[..steps.tiles_bytes as usize])? };
        Ok((TileData::Uncompressed, failure))
    }

    /// Whether the device compresses tiles.
    pub fn compresses(&self) -> bool {
        self.job.compress != TileCodec::None
    }

    /// Leaves compression to the caller from now on, and reports the reason with the next tiles.
    pub fn disable_compression(&mut self, reason: Error) {
        if self.compresses() {
            self.stop_compressing();
            self.disabled = Some(EncodeFailure::Compression(reason));
        }
    }

    fn stop_compressing(&mut self) {
        self.job.compress = TileCodec::None;
        self.pool.clear(&mut self.budget);
    }

    /// Makes the device write compressed tiles to files by itself: those of the full resolution to one file from an offset on, those of
    /// the overviews to another. `framed` adds the size before each block and repeats its last bytes behind it, as in a COG.
    pub fn write_to(&mut self, full: (DeviceFile, u64), overviews: Option<(DeviceFile, u64)>, framed: bool) {
        self.direct = Some(DirectWriter::new(full, overviews, framed));
    }

    /// Allocates all memory of a push: first as much as later pushes will need, and if the device does not have that much, what this one
    /// needs.
    fn make_all_room(&mut self, steps: &PlacedSteps) -> Result<()> {
        if std::mem::take(&mut self.has_kept_memory) {
            match self.make_room(steps, true) {
                Err(error) if error.is_memory() => self.shrink(steps),
                made => return made,
            }
        }
        match self.make_room(steps, true) {
            Ok(()) => return Ok(()),
            Err(error) if error.is_library() => return Err(error),
            Err(_) => {}
        }
        self.shrink(steps);
        self.budget.exact = true;
        let made = self.make_room(steps, false).inspect_err(|_| self.shrink(steps));
        self.budget.exact = false;
        made
    }

    /// Allocates the memory of a push. Rows that are held are not touched, so that fewer rows can be pushed if this fails.
    fn make_room(&mut self, steps: &PlacedSteps, ahead: bool) -> Result<()> {
        for (level, (state, step)) in self.levels.iter_mut().zip(&steps.levels).enumerate() {
            if step.new.is_empty() {
                continue;
            }
            let new = step.new.end - step.new.start;
            let mut rows = (step.kept.end - step.kept.start) + new;
            if ahead && (level > 0 || !step.kept.is_empty()) {
                // Up to a block row less one row may have to be kept.
                let of = &self.job.levels[level];
                rows = rows.max((of.block_height + new).min(of.height));
            }
            let bytes = rows.checked_mul(self.job.row_bytes(level));
            // If no row is kept, the new rows can take the place of the old ones.
            let to = if step.kept.is_empty() { state.current } else { 1 - state.current };
            state.slots[to].room(&self.gpu, "rows of a level", bytes, &mut self.budget)?;
        }
        if steps.tiles_bytes > 0 {
            // Compressed tiles are gathered where the uncompressed ones were, and one of them may have grown.
            let largest = match self.job.compress {
                // Pictures are encoded in the libraries' own memory.
                TileCodec::None | TileCodec::Picture(_) => 0,
                codec => {
                    let runs = &steps.tile_runs(&self.job);
                    let room = RoomFor { codec: &codec, runs, largest: self.job.largest_tile() };
                    self.pool.make_room(room, &self.gpu, &mut self.stream, &mut self.budget)?
                }
            };
            let bytes = Some(steps.tiles_bytes.max(largest));
            self.tiles.use_for_files(self.direct.is_some());
            self.tiles.room(&self.gpu, "tiles", bytes, &mut self.budget)?;
        }
        Ok(())
    }

    /// Frees all memory but that of rows that are still needed, so that fewer rows find room.
    fn shrink(&mut self, steps: &PlacedSteps) {
        self.ahead.iter_mut().for_each(|ahead| ahead.cancel(&mut self.budget));
        self.tiles.clear(&mut self.budget);
        self.pool.clear(&mut self.budget);
        self.encoders.clear();
        for (state, step) in self.levels.iter_mut().zip(&steps.levels) {
            state.slots[1 - state.current].clear(&mut self.budget);
            if step.kept.is_empty() {
                state.slots[state.current].clear(&mut self.budget);
            }
        }
    }
}

/// Host memory for so many bytes: `memory`, if it is large enough.
fn room_on_host(gpu: &Gpu, memory: Option<Pinned>, bytes: u64) -> Result<Pinned> {
    let needed = usize::try_from(bytes).map_err(|_| Error::OutOfMemory { stage: "staging", needed: bytes })?;
    match memory.filter(|memory| memory.len() >= needed) {
        Some(memory) => Ok(memory),
        None => gpu.pin(needed),
    }
}
