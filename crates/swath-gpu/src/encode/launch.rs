//! The kernels and copies of one push, from the pushed rows to the cut tiles of every level.

use std::ops::Range;

use super::step::PlacedStep;
use super::{Downsample, InputRows, TileEncoder};
use crate::backend::kernel::{Arg, Kernel};
use crate::decode::MAX_GROUPS;
use crate::error::{Error, Result};
use crate::memory::raster::DeviceRaster;

/// The number of samples that one group of a kernel processes.
const GROUP_SAMPLES: u64 = 4096;

/// The largest number of groups that share a pass over rows.
const PASS_GROUPS: u64 = 1024;

impl TileEncoder {
    /// Enqueues the work of a push for all levels: keeps rows, copies or computes the new ones, and cuts
    /// complete block rows.
    pub(super) fn enqueue(&mut self, steps: &[PlacedStep], rows: InputRows<'_>) -> Result<()> {
        for (level, step) in steps.iter().enumerate() {
            if !step.new.is_empty() {
                self.carry(level, step)?;
                match self.job.levels[level].downsample {
                    None => self.bring(step, rows)?,
                    Some(downsample) => self.downsample(level, step, downsample)?,
                }
            }
            self.cut_level(level, step)?;
        }
        Ok(())
    }

    /// Moves the rows that are still needed to the other buffer of the level.
    fn carry(&mut self, level: usize, step: &PlacedStep) -> Result<()> {
        let row_bytes = self.job.row_bytes(level);
        let state = &mut self.levels[level];
        if !step.kept.is_empty() {
            let (from, to) = (state.current, 1 - state.current);
            let at = (step.kept.start - state.progress.held.start) * row_bytes;
            let bytes = (step.kept.end - step.kept.start) * row_bytes;
            self.stream.copy(state.slots[from].get(), at, state.slots[to].get(), 0, bytes)?;
            state.current = to;
        }
        state.progress.held = step.kept.start..step.new.end;
        Ok(())
    }

    /// Copies the pushed rows of the full resolution after the kept rows.
    fn bring(&mut self, step: &PlacedStep, rows: InputRows<'_>) -> Result<()> {
        let row_bytes = self.job.row_bytes(0);
        let state = &self.levels[0];
        let to = state.slots[state.current].get();
        let (at, count) = ((step.new.start - state.progress.held.start) * row_bytes, step.new.end - step.new.start);
        let bytes = count * row_bytes;
        match rows {
            InputRows::Host(pixels) => {
                // SAFETY: the rows are borrowed until `push` has synchronised the stream.
                unsafe { self.stream.upload(&pixels[..bytes as usize], to, at)? };
            }
            InputRows::Ahead { first } => match self.ahead[0].on_device(&mut self.stream)? {
                Some(from) => self.stream.copy(from, first * row_bytes, to, at, bytes)?,
                None => {
                    let first = (first * row_bytes) as usize;
                    // SAFETY: the encoder owns the rows until the caller takes them back, after `push` has synchronised the stream.
                    unsafe { self.stream.upload(&self.ahead[0].on_host()[first..first + bytes as usize], to, at)? };
                }
            },
            InputRows::Strip { raster, first } => {
                self.stream.copy(&raster.buffer, first * row_bytes, to, at, bytes)?;
            }
            InputRows::Image(raster) if raster.bands_last() || raster.bands() == 1 => {
                self.stream.copy(&raster.buffer, step.new.start * row_bytes, to, at, bytes)?;
            }
            InputRows::Image(raster) => self.interleave(raster, step.new.clone(), at)?,
        }
        self.replace_nan(at, bytes / self.job.size as u64)
    }

    /// Replaces NaN by nodata in `samples` samples of the full resolution from byte `at` on, if the job
    /// requires it.
    fn replace_nan(&mut self, at: u64, samples: u64) -> Result<()> {
        let Some(nodata) = self.job.nan_to_nodata else { return Ok(()) };
        let state = &self.levels[0];
        let groups = samples.div_ceil(GROUP_SAMPLES).clamp(1, PASS_GROUPS) as u32;
        let args = [
            Arg::Buffer(state.slots[state.current].get()),
            Arg::U64(at),
            Arg::U64(samples),
            Arg::U32(self.job.size as u32),
            Arg::U64(nodata),
            Arg::U32(groups),
        ];
        // SAFETY: the arguments are those of the kernel. It accesses only rows that `make_room` allocated.
        unsafe { self.stream.launch(Kernel::NanToNodata, groups, &args) }
    }

    /// Copies rows of a raster that stores its bands one after another, and interleaves the bands of each
    /// pixel.
    fn interleave(&mut self, raster: &DeviceRaster, rows: Range<u64>, at: u64) -> Result<()> {
        let state = &self.levels[0];
        let pixels = (rows.end - rows.start) * raster.cols();
        let groups = (pixels * self.job.bands as u64).div_ceil(GROUP_SAMPLES).clamp(1, PASS_GROUPS) as u32;
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
        // SAFETY: as in `replace_nan`; `push` checked that the raster has the size of the image.
        unsafe { self.stream.launch(Kernel::Interleave, groups, &args) }
    }

    /// Computes the new rows of a level from those of its parent.
    fn downsample(&mut self, level: usize, step: &PlacedStep, by: Downsample) -> Result<()> {
        let (parent, of) = (&self.job.levels[by.parent], &self.job.levels[level]);
        let (from, to) = (&self.levels[by.parent], &self.levels[level]);
        let rows = step.new.end - step.new.start;
        let samples = rows * of.width * self.job.bands as u64;
        let groups = samples.div_ceil(GROUP_SAMPLES).clamp(1, PASS_GROUPS) as u32;
        let row_bytes = self.job.row_bytes(level);
        let args = [
            Arg::Buffer(from.slots[from.current].get()),
            Arg::U64(0),
            Arg::U64(self.job.row_bytes(by.parent)),
            Arg::U32(from.progress.held.start as u32),
            Arg::U32(parent.width as u32),
            Arg::U32(parent.height as u32),
            Arg::U32(self.job.bands as u32),
            Arg::U32(by.dtype),
            Arg::U32(by.method),
            Arg::U32(by.alpha),
            Arg::Buffer(to.slots[to.current].get()),
            Arg::U64((step.new.start - to.progress.held.start) * row_bytes),
            Arg::U64(row_bytes),
            Arg::U32(step.new.start as u32),
            Arg::U32(rows as u32),
            Arg::U64(by.low),
            Arg::U64(by.high),
            Arg::U64(by.fill),
            Arg::U64(by.beside),
            Arg::U32(by.any),
            Arg::U32(groups),
        ];
        // SAFETY: as in `replace_nan`; `PlacedSteps::new` checked that the parent has the rows from which these
        // are computed.
        unsafe { self.stream.launch(Kernel::Reduce, groups, &args) }
    }

    /// Cuts the complete block rows of a level into tiles and applies the predictor.
    fn cut_level(&mut self, level: usize, step: &PlacedStep) -> Result<()> {
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
        let parts = samples.div_ceil(GROUP_SAMPLES).clamp(1, most);
        let args = [
            Arg::Buffer(state.slots[state.current].get()),
            Arg::U64(0),
            Arg::U64(self.job.row_bytes(level)),
            Arg::U32(state.progress.held.start as u32),
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
        // SAFETY: as in `replace_nan`; `PlacedSteps::new` checked that the level has all rows of these blocks.
        unsafe { self.stream.launch(Kernel::Cut, (tiles * parts) as u32, &args) }
    }
}
