//! The way back: rows of pixels become tiles for the compressor, and the rows of the overviews, band by band.
//!
//! A band is uploaded once (or copied, if the pixels are on the device already), NaN becomes nodata, every level is halved from
//! the one before it, all block rows that are complete are cut with the predictor applied, and the tiles of all levels come back
//! in one download with one synchronisation. What is held is a band of each level, and of their tiles: nothing grows with the
//! height of the image.

mod check;
mod compress;
mod direct;
mod job;
mod pictures;
mod tiles;

use std::ops::Range;

use crate::backend::kernel::{Arg, Kernel};
use crate::decode::MAX_GROUPS;
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::memory::buffer::Pinned;
use crate::memory::raster::DeviceRaster;
use crate::memory::slot::{Budget, Slot};
use crate::storage::DeviceFile;
use crate::stream::Stream;

pub use self::compress::TileCodec;
use self::compress::{Piece, Pool};
use self::direct::Direct;
pub use self::job::{CutJob, CutLevel, Downsample};
use self::pictures::Encoders;
use self::tiles::Made;
pub use self::tiles::{LevelTiles, Tiles};

/// Samples that one group cuts.
const CUT_SAMPLES: u64 = 4096;

/// Groups that share a pass over rows.
const PASS_GROUPS: u64 = 1024;

/// The rows of a band.
#[derive(Debug, Clone, Copy)]
pub enum RowsIn<'a> {
    /// On the host: all bands of each pixel side by side. They are not touched before the next [`TileEncoder::push`] returns.
    Host(&'a [u8]),
    /// On the device: these rows of a raster that is the image.
    Raster(&'a DeviceRaster),
    /// On the device: these rows are those from `first` on of a raster that holds a band, all bands of each pixel side by side.
    Band {
        /// The raster.
        raster: &'a DeviceRaster,
        /// Its row that the first of these is.
        first: u64,
    },
}

/// The rows of a level on the device.
#[derive(Debug, Default)]
struct Rows {
    /// Two buffers that take turns: rows that are still needed move from one to the other.
    slots: [Slot; 2],
    current: usize,
    /// Image rows that are held.
    held: Range<u64>,
    /// The first block row that is not cut yet.
    block_row: u64,
}

/// What a push will do with one level, decided before anything is done.
struct Step {
    /// Rows that are taken along.
    kept: Range<u64>,
    /// Rows that come.
    new: Range<u64>,
    /// Block rows that are complete then.
    blocks: Range<u64>,
    /// Where their tiles go.
    tiles_at: u64,
    /// How many tiles of other levels come before them.
    first: u64,
    /// How many there are.
    count: u64,
}

/// What became of tiles, and what went wrong on the way there.
type Fetched = (Made, Option<Error>);

/// Runs of tiles of the same size, in the order of all tiles: those of each level, of which the last strips may be shorter.
fn pieces(job: &CutJob, steps: &[Step]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (level, step) in steps.iter().enumerate().filter(|(_, step)| step.count > 0) {
        let of = job.levels[level];
        let per_row = of.planes * of.across();
        let last = step.blocks.end - 1;
        let whole = if of.stored_rows(last) == of.block_height { step.blocks.end } else { last };
        for rows in [step.blocks.start..whole, whole..step.blocks.end] {
            let (tiles, before) = ((rows.end - rows.start) * per_row, (rows.start - step.blocks.start) * per_row);
            if tiles > 0 {
                pieces.push(Piece {
                    level,
                    first: step.first + before,
                    tiles,
                    at: step.tiles_at + before * job.tile_stride(level),
                    stride: job.tile_stride(level),
                    row_bytes: job.tile_row_bytes(level),
                    bytes: of.stored_rows(rows.start) * job.tile_row_bytes(level),
                });
            }
        }
    }
    pieces
}

/// Rows on their way to become tiles.
#[derive(Debug)]
pub struct TileEncoder {
    // First, so that it is dropped first: it waits for what uses the buffers.
    stream: Stream,
    gpu: Gpu,
    job: CutJob,
    levels: Vec<Rows>,
    tiles: Slot,
    pool: Pool,
    encoders: Encoders,
    /// Where the device writes tiles to by itself.
    direct: Option<Direct>,
    /// Why tiles are not compressed any more, until that was told.
    given_up: Option<Error>,
    budget: Budget,
}

impl Gpu {
    /// Whether the device has the kernels that this job needs: rows that it took already are not there for anybody else.
    ///
    /// # Errors
    /// [`Error::Build`] says what is wrong with one of them.
    pub fn can_cut(&self, job: &CutJob) -> Result<()> {
        let halves = job.levels.iter().any(|level| level.halving.is_some()).then_some(Kernel::Reduce);
        let replaces = job.nan_to_nodata.map(|_| Kernel::NanToNodata);
        let mut needed = [Some(Kernel::Cut), halves, replaces].into_iter().flatten();
        needed.try_for_each(|kernel| self.shared.device.prepare(kernel))
    }

    /// Begin to cut. `budget` is the most device memory that may be held.
    ///
    /// # Errors
    /// What the driver says; [`Error::Unable`] when the sizes are beyond what the kernels count with.
    pub fn cut(&self, job: CutJob, budget: u64) -> Result<TileEncoder> {
        if !job.is_sound() {
            return Err(Error::Unable { device: self.info().name.clone(), what: "count blocks of this size" });
        }
        let levels = job.levels.iter().map(|_| Rows::default()).collect();
        Ok(TileEncoder {
            stream: self.stream()?,
            gpu: self.clone(),
            job,
            levels,
            tiles: Slot::default(),
            pool: Pool::default(),
            encoders: Encoders::new(self),
            direct: None,
            given_up: None,
            budget: Budget::new(budget),
        })
    }
}

impl TileEncoder {
    /// Take the next `count` rows of the full resolution, and give the tiles that they complete, of all levels. `memory` is that of
    /// tiles that are no longer needed.
    ///
    /// # Errors
    /// What the guard says, and then the same rows may be pushed in smaller numbers; what the driver says, and then nothing more.
    pub fn push(&mut self, rows: RowsIn<'_>, count: u64, memory: Option<Pinned>) -> Result<Tiles> {
        let full = &self.job.levels[0];
        if let RowsIn::Raster(raster) = rows {
            let found = (raster.cols(), raster.rows(), raster.bands(), raster.dtype().size());
            assert!(raster.gpu.is(&self.gpu), "the raster lies on another device");
            assert_eq!(found, (full.width, full.height, self.job.bands, self.job.size), "the raster is the image");
        }
        if let RowsIn::Band { raster, first } = rows {
            let found = (raster.cols(), raster.bands(), raster.dtype().size());
            assert!(raster.gpu.is(&self.gpu) && (raster.bands_last() || raster.bands() == 1), "the raster is a band");
            assert_eq!(found, (full.width, self.job.bands, self.job.size), "the raster is a band of the image");
            assert!(first.checked_add(count).is_some_and(|end| end <= raster.rows()), "the raster holds the rows");
        }
        let (steps, tiles_bytes) = self.plan(count);
        // First as much as bands to come will need, and if there is not that much, what this one needs.
        self.make_room_or_give_up(&steps, tiles_bytes, true).or_else(|_| {
            self.shrink(&steps);
            self.budget.exact = true;
            let made = self.make_room_or_give_up(&steps, tiles_bytes, false).inspect_err(|_| self.shrink(&steps));
            self.budget.exact = false;
            made
        })?;
        let mut memory = room_on_host(&self.gpu, memory, tiles_bytes)?;
        // From here on no memory of the device is allocated, so that what is refused for want of it was never begun.
        let made = self.enqueue(&steps, rows).and_then(|()| self.fetch(&steps, tiles_bytes, &mut memory));
        // Also after an error: what was enqueued uses the rows and the memory.
        let waited = self.stream.synchronize();
        let (made, refused) = made.map_err(|error| self.late(error))?;
        waited?;
        let failure = self.given_up.take().or(refused);
        let mut levels = Vec::new();
        for (level, (step, state)) in steps.into_iter().zip(&mut self.levels).enumerate() {
            state.block_row = step.blocks.end.max(state.block_row);
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
        Ok(Tiles { memory, levels, made, failure })
    }

    /// What was begun cannot be asked for again in smaller numbers: rows were moved on. So memory that is missing now is no reason to.
    fn late(&self, error: Error) -> Error {
        match error.is_memory() {
            true => Error::OutOfMemoryMidway { stage: "cutting", reason: Box::new(error) },
            false => error,
        }
    }

    /// Bring all tiles to the host, or to the file: compressed, if that is what is wanted and it succeeds.
    fn fetch(&mut self, steps: &[Step], bytes: u64, memory: &mut Pinned) -> Result<Fetched> {
        if bytes == 0 {
            return Ok((Made::Tiles, None));
        }
        let mut failure = None;
        if self.job.compress != TileCodec::None {
            match self.compress(&pieces(&self.job, steps), memory) {
                Ok(made) => return Ok(made),
                Err(error @ Error::Stalled { .. }) => return Err(error),
                // The tiles are still there as they were cut.
                Err(error) if error.is_library() => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        // What comes by way of the host stands behind what does not, so that from now on all of it does.
        self.direct = None;
        // SAFETY: nobody looks at the memory before `push` has synchronised.
        unsafe { self.stream.download(self.tiles.get(), 0, &mut memory[..bytes as usize])? };
        Ok((Made::Tiles, failure))
    }

    /// Leave compressing to the CPU from now on, for this reason; `false` if it was left to it before.
    pub fn compress_no_more(&mut self, reason: Error) -> bool {
        if self.job.compress == TileCodec::None {
            return false;
        }
        self.stop_compressing();
        self.given_up = Some(reason);
        true
    }

    fn stop_compressing(&mut self) {
        self.job.compress = TileCodec::None;
        self.pool.clear(&mut self.budget);
    }

    /// Let the device write compressed tiles to files by itself, if it can compress them: those of the full resolution to one from an
    /// offset on, those of the overviews to another. `framed` as the blocks of a COG are.
    pub fn write_to(&mut self, full: (DeviceFile, u64), overviews: Option<(DeviceFile, u64)>, framed: bool) {
        self.direct = Some(Direct::new(full, overviews, framed));
    }

    /// What a band of `count` rows makes of every level, and the bytes of all its tiles.
    fn plan(&self, count: u64) -> (Vec<Step>, u64) {
        let mut ends: Vec<u64> = Vec::with_capacity(self.levels.len());
        let mut steps = Vec::with_capacity(self.levels.len());
        let (mut tiles_bytes, mut tiles) = (0, 0);
        for (level, (state, of)) in self.levels.iter().zip(&self.job.levels).enumerate() {
            let made = state.held.end;
            let end = match of.halving {
                None => (made + count).min(of.height),
                Some(Downsample { parent, .. }) => {
                    let (available, height) = (ends[parent], self.job.levels[parent].height);
                    if available == height { of.height } else { available / 2 }
                }
            };
            ends.push(end);
            // What is needed of the rows there are: the block row that is not complete, and what the next rows are made from.
            let children = self.job.levels.iter().zip(&self.levels).filter_map(|(child, state)| {
                child.halving.filter(|halving| halving.parent == level).map(|_| state.held.end * 2)
            });
            let needed = children.fold(state.block_row * of.block_height, u64::min);
            let complete = if end == of.height { of.down() } else { end / of.block_height };
            let blocks = state.block_row..complete.max(state.block_row);
            let count = (blocks.end - blocks.start) * of.planes * of.across();
            steps.push(Step {
                kept: needed.clamp(state.held.start, made)..made,
                new: made..end,
                tiles_at: tiles_bytes,
                first: tiles,
                count,
                blocks,
            });
            tiles_bytes += count * self.job.tile_stride(level);
            tiles += count;
        }
        (steps, tiles_bytes)
    }

    /// All memory that a push needs. What is there is not touched, so that less may be asked for when it is refused.
    fn make_room(&mut self, steps: &[Step], tiles_bytes: u64, ahead: bool) -> Result<()> {
        for (level, (state, step)) in self.levels.iter_mut().zip(steps).enumerate() {
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
            // Rows that nobody needs any more make room for those that come.
            let to = if step.kept.is_empty() { state.current } else { 1 - state.current };
            state.slots[to].room(&self.gpu, "the rows of a band", bytes, &mut self.budget)?;
        }
        if tiles_bytes > 0 {
            // Compressed tiles are gathered where the tiles were, and one of them may have grown.
            let largest = match self.job.compress {
                // Pictures are made in memory of the libraries' own.
                TileCodec::None | TileCodec::Picture(_) => 0,
                codec => {
                    let pieces = pieces(&self.job, steps);
                    let largest = self.job.largest_tile();
                    self.pool.make_room(&codec, &pieces, largest, &self.gpu, &mut self.stream, &mut self.budget)?
                }
            };
            let bytes = Some(tiles_bytes.max(largest));
            self.tiles.room(&self.gpu, "the tiles of a band", bytes, &mut self.budget)?;
        }
        Ok(())
    }

    /// The same; a library that cannot be asked for its needs compresses nothing from now on.
    fn make_room_or_give_up(&mut self, steps: &[Step], tiles_bytes: u64, ahead: bool) -> Result<()> {
        match self.make_room(steps, tiles_bytes, ahead) {
            // It is told with the rows that are taken, which may be fewer than these.
            Err(error) if error.is_library() && self.compress_no_more(error.clone()) => {
                self.make_room(steps, tiles_bytes, ahead)
            }
            made => made,
        }
    }

    /// Give back all memory but that of rows that are still needed, for fewer rows to find room.
    fn shrink(&mut self, steps: &[Step]) {
        self.tiles.clear(&mut self.budget);
        self.pool.clear(&mut self.budget);
        self.encoders.clear();
        for (state, step) in self.levels.iter_mut().zip(steps) {
            state.slots[1 - state.current].clear(&mut self.budget);
            if step.kept.is_empty() {
                state.slots[state.current].clear(&mut self.budget);
            }
        }
    }

    fn enqueue(&mut self, steps: &[Step], rows: RowsIn<'_>) -> Result<()> {
        for (level, step) in steps.iter().enumerate() {
            if !step.new.is_empty() {
                self.carry(level, step)?;
                match self.job.levels[level].halving {
                    None => self.bring(step, rows)?,
                    Some(halving) => self.halve(level, step, halving)?,
                }
            }
            self.cut_level(level, step)?;
        }
        Ok(())
    }

    /// Take along the rows that are still needed.
    fn carry(&mut self, level: usize, step: &Step) -> Result<()> {
        let row_bytes = self.job.row_bytes(level);
        let state = &mut self.levels[level];
        if !step.kept.is_empty() {
            let (from, to) = (state.current, 1 - state.current);
            let at = (step.kept.start - state.held.start) * row_bytes;
            let bytes = (step.kept.end - step.kept.start) * row_bytes;
            self.stream.copy(state.slots[from].get(), at, state.slots[to].get(), 0, bytes)?;
            state.current = to;
        }
        state.held = step.kept.start..step.new.end;
        Ok(())
    }

    /// Bring the new rows of the full resolution.
    fn bring(&mut self, step: &Step, rows: RowsIn<'_>) -> Result<()> {
        let row_bytes = self.job.row_bytes(0);
        let state = &self.levels[0];
        let to = state.slots[state.current].get();
        let (at, count) = ((step.new.start - state.held.start) * row_bytes, step.new.end - step.new.start);
        let bytes = count * row_bytes;
        match rows {
            RowsIn::Host(pixels) => {
                // SAFETY: the rows are borrowed until `push` has synchronised.
                unsafe { self.stream.upload(&pixels[..bytes as usize], to, at)? };
            }
            RowsIn::Band { raster, first } => {
                self.stream.copy(&raster.buffer, first * row_bytes, to, at, bytes)?;
            }
            RowsIn::Raster(raster) if raster.bands_last() || raster.bands() == 1 => {
                self.stream.copy(&raster.buffer, step.new.start * row_bytes, to, at, bytes)?;
            }
            RowsIn::Raster(raster) => self.interleave(raster, step.new.clone(), at)?,
        }
        if let Some(nodata) = self.job.nan_to_nodata {
            let state = &self.levels[0];
            let samples = bytes / self.job.size as u64;
            let groups = samples.div_ceil(CUT_SAMPLES).clamp(1, PASS_GROUPS) as u32;
            let args = [
                Arg::Buffer(state.slots[state.current].get()),
                Arg::U64(at),
                Arg::U64(samples),
                Arg::U32(self.job.size as u32),
                Arg::U64(nodata),
                Arg::U32(groups),
            ];
            // SAFETY: here and below: the arguments are those of the kernel, and all that it touches lies in the rows that room was
            // made for.
            unsafe { self.stream.launch(Kernel::NanToNodata, groups, &args)? };
        }
        Ok(())
    }

    /// Put the bands of a raster side by side.
    fn interleave(&mut self, raster: &DeviceRaster, rows: Range<u64>, at: u64) -> Result<()> {
        let state = &self.levels[0];
        let pixels = (rows.end - rows.start) * raster.cols();
        let groups = (pixels * self.job.bands as u64).div_ceil(CUT_SAMPLES).clamp(1, PASS_GROUPS) as u32;
        let args = [
            Arg::Buffer(&raster.buffer),
            Arg::U64(raster.geometry.offset(0, rows.start, 0)),
            Arg::U64(raster.geometry.band_stride),
            Arg::Buffer(state.slots[state.current].get()),
            Arg::U64(at),
            Arg::U64(pixels),
            Arg::U32(self.job.bands as u32),
            Arg::U32(self.job.size as u32),
            Arg::U32(groups),
        ];
        // SAFETY: as above; `push` checked that the raster has the size of the image.
        unsafe { self.stream.launch(Kernel::Interleave, groups, &args) }
    }

    /// Make the new rows of a level from the one that it halves.
    fn halve(&mut self, level: usize, step: &Step, halving: Downsample) -> Result<()> {
        let (parent, of) = (&self.job.levels[halving.parent], &self.job.levels[level]);
        let (from, to) = (&self.levels[halving.parent], &self.levels[level]);
        let rows = step.new.end - step.new.start;
        let samples = rows * of.width * self.job.bands as u64;
        let groups = samples.div_ceil(CUT_SAMPLES).clamp(1, PASS_GROUPS) as u32;
        let row_bytes = self.job.row_bytes(level);
        let args = [
            Arg::Buffer(from.slots[from.current].get()),
            Arg::U64(0),
            Arg::U64(self.job.row_bytes(halving.parent)),
            Arg::U32(from.held.start as u32),
            Arg::U32(parent.width as u32),
            Arg::U32(parent.height as u32),
            Arg::U32(self.job.bands as u32),
            Arg::U32(halving.dtype),
            Arg::U32(halving.method),
            Arg::U32(halving.alpha),
            Arg::Buffer(to.slots[to.current].get()),
            Arg::U64((step.new.start - to.held.start) * row_bytes),
            Arg::U64(row_bytes),
            Arg::U32(step.new.start as u32),
            Arg::U32(rows as u32),
            Arg::U64(halving.low),
            Arg::U64(halving.high),
            Arg::U64(halving.fill),
            Arg::U64(halving.beside),
            Arg::U32(halving.any),
            Arg::U32(groups),
        ];
        // SAFETY: as above; the parent holds the rows that these are made from, or they would not have been planned.
        unsafe { self.stream.launch(Kernel::Reduce, groups, &args) }
    }

    /// Cut the block rows of a level that are complete.
    fn cut_level(&mut self, level: usize, step: &Step) -> Result<()> {
        if step.blocks.is_empty() {
            return Ok(());
        }
        let (of, state) = (&self.job.levels[level], &self.levels[level]);
        let end_row = (step.blocks.end * of.block_height).min(of.height);
        let tiles = (step.blocks.end - step.blocks.start) * of.planes * of.across();
        let samples = self.job.tile_bytes(level) / self.job.size as u64;
        let most = MAX_GROUPS / tiles;
        if most == 0 {
            return Err(Error::Unable { device: self.gpu.info().name.clone(), what: "cut so many tiles at once" });
        }
        let parts = samples.div_ceil(CUT_SAMPLES).clamp(1, most);
        let args = [
            Arg::Buffer(state.slots[state.current].get()),
            Arg::U64(0),
            Arg::U64(self.job.row_bytes(level)),
            Arg::U32(state.held.start as u32),
            Arg::U32(end_row as u32),
            Arg::U32(of.width as u32),
            Arg::U32(self.job.bands as u32),
            Arg::U32(self.job.size as u32),
            Arg::Buffer(self.tiles.get()),
            Arg::U64(step.tiles_at),
            Arg::U64(self.job.tile_stride(level)),
            Arg::U32(of.block_width as u32),
            Arg::U32(of.block_height as u32),
            Arg::U32(of.across() as u32),
            Arg::U32(of.planes as u32),
            Arg::U32(step.blocks.start as u32),
            Arg::U32(self.job.predictor),
            Arg::U32(self.job.size as u32),
            Arg::U32(parts as u32),
        ];
        // SAFETY: as above; the level holds all rows of these blocks, or they would not have been planned.
        unsafe { self.stream.launch(Kernel::Cut, (tiles * parts) as u32, &args) }
    }
}

/// Host memory for so many bytes: that which is there, if it is enough.
fn room_on_host(gpu: &Gpu, memory: Option<Pinned>, bytes: u64) -> Result<Pinned> {
    let needed = usize::try_from(bytes).map_err(|_| Error::OutOfMemory { stage: "staging", needed: bytes })?;
    match memory.filter(|memory| memory.len() >= needed) {
        Some(memory) => Ok(memory),
        None => gpu.pin(needed),
    }
}
