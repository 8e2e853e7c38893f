//! From a batch of compressed blocks to pixels: one upload, a kernel per stage over the whole batch, one download at most, one
//! synchronisation.
//!
//! Two batches are under way at a time, each in a lane of its own: while the device decodes one, the next is fetched and
//! uploaded. Lanes keep their memory, so that a steady sequence of batches allocates nothing.

use std::collections::VecDeque;
use std::ops::Range;

use crate::block::{Block, Status};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::job::{DecodeJob, zstd_groups};
use crate::kernel::{Arg, Kernel};
use crate::raster::{DeviceRaster, Geometry};
use crate::slot::{Budget, PinnedSlot, Slot};
use crate::stream::Stream;

/// Batches under way at a time.
pub const LANES: usize = 2;

/// Samples that one group places: enough to be worth a group, few enough to keep all of a device busy.
const PLACE_SAMPLES: u64 = 4096;

/// Groups of one launch: what CUDA can count.
pub(crate) const MAX_GROUPS: u64 = i32::MAX as u64;

/// Groups that share a pass over a buffer.
const PASS_GROUPS: u64 = 1024;

/// Where the pixels of a batch go.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// To the host: an array without gaps of these bands, rows and columns.
    Host {
        /// Bands.
        bands: usize,
        /// Rows.
        rows: u64,
        /// Columns.
        cols: u64,
        /// Whether the bands of a pixel lie side by side.
        bands_last: bool,
    },
    /// Into a raster that stays on the device, from this place on.
    Raster {
        /// The raster.
        raster: &'a DeviceRaster,
        /// Its band that the first band goes to.
        band: usize,
        /// Its row that row 0 of the batch goes to.
        row: u64,
        /// Its column that column 0 of the batch goes to.
        col: u64,
    },
}

/// Bytes of device memory that a batch needs.
struct Needs {
    batch: u64,
    /// `None` where blocks are placed from the batch itself.
    decoded: Option<u64>,
    scratch: u64,
    /// `None` when there is no such number.
    out: Option<u64>,
}

/// A batch under way, and the memory for it.
#[derive(Debug)]
pub(crate) struct Lane {
    // First, so that it is dropped first: it waits for what uses the buffers.
    stream: Stream,
    /// Table, band list and compressed bytes.
    batch: Slot,
    decoded: Slot,
    scratch: Slot,
    /// Statuses and pixels.
    out: Slot,
    staging: PinnedSlot,
    result: PinnedSlot,
    /// Bytes of the statuses in the result, and of all of it.
    status_bytes: usize,
    result_bytes: usize,
    blocks: usize,
    /// Bytes that were staged.
    staged: usize,
    /// The raster that is written to, kept until that is done.
    target: Option<DeviceRaster>,
}

impl Lane {
    pub(crate) fn new(gpu: &Gpu) -> Result<Lane> {
        Ok(Lane {
            stream: gpu.stream()?,
            batch: Slot::default(),
            decoded: Slot::default(),
            scratch: Slot::default(),
            out: Slot::default(),
            staging: PinnedSlot::default(),
            result: PinnedSlot::default(),
            status_bytes: 0,
            result_bytes: 0,
            blocks: 0,
            staged: 0,
            target: None,
        })
    }

    fn make_room(&mut self, gpu: &Gpu, needs: &Needs, budget: &mut Budget) -> Result<()> {
        self.batch.room(gpu, "the compressed batch", Some(needs.batch), budget)?;
        if let Some(bytes) = needs.decoded {
            self.decoded.room(gpu, "the decoded batch", Some(bytes), budget)?;
        }
        self.out.room(gpu, "the pixels of a batch", needs.out, budget)?;
        if needs.scratch > 0 {
            self.scratch.room(gpu, "working memory of the ZSTD kernel", Some(needs.scratch), budget)?;
        }
        Ok(())
    }

    pub(crate) fn bytes(&self) -> u64 {
        [&self.batch, &self.decoded, &self.scratch, &self.out].iter().map(|slot| slot.bytes()).sum()
    }

    fn clear(&mut self, budget: &mut Budget) {
        let slots = [&mut self.batch, &mut self.decoded, &mut self.scratch, &mut self.out];
        slots.into_iter().for_each(|slot| slot.clear(budget));
    }
}

/// The decoding of an image in batches.
#[derive(Debug)]
pub struct Decoding {
    gpu: Gpu,
    job: DecodeJob,
    bands: Vec<u32>,
    /// Lanes that wait for work; the last is the next.
    idle: Vec<Lane>,
    /// Lanes under way, the oldest first.
    busy: VecDeque<Lane>,
    budget: Budget,
}

/// What came of a batch.
#[derive(Debug)]
pub struct Finished<'a> {
    statuses: &'a [u8],
    /// The pixels, if they were asked for on the host. Those of blocks whose status is not good are not defined.
    pub pixels: &'a [u8],
}

impl Finished<'_> {
    /// The status of each block, in their order.
    pub fn statuses(&self) -> impl Iterator<Item = Status> + '_ {
        self.statuses.as_chunks::<4>().0.iter().map(|bytes| Status(u32::from_ne_bytes(*bytes)))
    }
}

impl Gpu {
    /// Begin to decode: `bands` are the samples of a pixel that are wanted, in the order of the output; in a planar job, where
    /// each block says which band it is, they are not looked at. `budget` is the most device memory that the batches may hold
    /// together, rasters not included.
    ///
    /// # Errors
    /// What the driver says.
    pub fn decode(&self, job: DecodeJob, bands: &[usize], budget: u64) -> Result<Decoding> {
        let bands = bands.iter().map(|&band| band as u32).collect();
        let idle = (0..LANES).map(|_| self.take_lane(budget)).collect::<Result<Vec<_>>>()?;
        let mut budget = Budget { held: idle.iter().map(Lane::bytes).sum(), ..Budget::new(budget) };
        let mut idle = idle;
        // What an earlier read left may be more than this one may hold.
        if budget.held > budget.limit {
            idle.iter_mut().for_each(|lane| lane.clear(&mut budget));
        }
        Ok(Decoding { gpu: self.clone(), job, bands, idle, busy: VecDeque::new(), budget })
    }
}

impl Drop for Decoding {
    fn drop(&mut self) {
        for mut lane in self.idle.drain(..).chain(self.busy.drain(..)) {
            // One that was left in the middle is waited for; if the device failed, nothing of it is used again.
            if lane.stream.synchronize().is_ok() && !lane.stream.has_failed() {
                lane.target = None;
                self.gpu.give_back(lane);
            }
        }
    }
}

impl Decoding {
    /// What is done with every block.
    pub fn job(&self) -> &DecodeJob {
        &self.job
    }

    /// Bytes of host memory that the lanes hold.
    pub fn host_bytes(&self) -> usize {
        self.idle.iter().chain(&self.busy).map(|lane| lane.staging.bytes() + lane.result.bytes()).sum()
    }

    /// How many batches are under way.
    pub fn in_flight(&self) -> usize {
        self.busy.len()
    }

    /// Whether another batch can be staged before one is finished.
    pub fn has_room(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Give back the memory of lanes that are not under way, for a smaller batch to find room.
    pub fn shrink(&mut self) {
        self.idle.iter_mut().for_each(|lane| lane.clear(&mut self.budget));
    }

    /// Room in pinned memory for the compressed bytes of a batch of `blocks` blocks.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Panics
    /// When there is no lane for it: see [`has_room`](Decoding::has_room).
    pub fn stage(&mut self, blocks: usize, payload: usize) -> Result<&mut [u8]> {
        let (.., at) = self.layout(blocks);
        let total = at.checked_add(payload).ok_or(Error::OutOfMemory { stage: "staging", needed: u64::MAX })?;
        // What cannot be uploaded is not fetched either: blocks may lie on top of each other, so that their sum says nothing of the file.
        let (needed, limit) = (total as u64, self.budget.limit);
        if needed > limit {
            return Err(Error::Budget { stage: "the compressed batch", needed, left: limit, budget: limit });
        }
        let lane = self.idle.last_mut().expect("a lane has room");
        lane.staged = total;
        Ok(&mut lane.staging.room(&self.gpu, total)?[at..])
    }

    /// Where in a batch the list of bands, the zeros and the compressed bytes begin: behind the table, one after another.
    fn layout(&self, blocks: usize) -> (usize, usize, usize) {
        let bands_at = blocks * size_of::<Block>();
        let zeros_at = bands_at + self.bands.len() * 4;
        // No kernel tells that a block without compression is good, so its status travels with it.
        let zeros = if self.job.is_stored() { status_bytes(blocks) } else { 0 };
        (bands_at, zeros_at, (zeros_at + zeros).next_multiple_of(16))
    }

    /// Send a staged batch on its way. `blocks` say where their bytes lie in the payload, and where their pixels go in the
    /// target; where they are decoded is decided here.
    ///
    /// # Errors
    /// What the guard and the driver say; then nothing of the batch is under way.
    ///
    /// # Panics
    /// When nothing was staged, or the raster lies on another device.
    pub fn submit(&mut self, mut blocks: Vec<Block>, payload: usize, target: Target<'_>) -> Result<()> {
        let mut lane = self.idle.pop().expect("a batch was staged");
        match self.enqueue(&mut lane, &mut blocks, payload, target) {
            Ok(()) => {
                self.busy.push_back(lane);
                Ok(())
            }
            Err(error) => {
                // What was enqueued before the error is waited for, so that its memory may be used again.
                let waited = lane.stream.synchronize();
                self.idle.push(lane);
                waited.and(Err(error))
            }
        }
    }

    fn enqueue(&mut self, lane: &mut Lane, blocks: &mut [Block], payload: usize, target: Target<'_>) -> Result<()> {
        if let Target::Raster { raster, .. } = target {
            assert!(raster.gpu.is(&self.gpu), "the raster lies on another device");
        }
        let count = blocks.len();
        let (bands_at, zeros_at, payload_at) = self.layout(count);
        let (gpu, job, budget) = (&self.gpu, &self.job, &mut self.budget);
        let batch_bytes = payload_at + payload;
        assert_eq!(batch_bytes, lane.staged, "what was staged is submitted");
        check(job, &self.bands, blocks, payload, target);
        lane.target = match target {
            Target::Host { .. } => None,
            Target::Raster { raster, .. } => Some(raster.clone()),
        };
        // Blocks that are stored as they are need no second copy: they are placed from the batch itself.
        let in_place = job.is_stored();
        let mut decoded_bytes = 0_u64;
        for block in &mut *blocks {
            block.src += payload_at as u64;
            block.dst = if in_place { block.src } else { decoded_bytes };
            // Blocks begin where any sample may begin.
            decoded_bytes = decoded_bytes.saturating_add(u64::from(block.dst_len).next_multiple_of(16));
        }

        let status_bytes = status_bytes(count);
        let geometry = match target {
            Target::Host { bands, rows, cols, bands_last } => {
                Geometry::dense(bands, rows, cols, job.size as usize, bands_last)
            }
            Target::Raster { raster, .. } => raster.geometry,
        };
        let pixels = match target {
            Target::Host { .. } => geometry.bytes,
            Target::Raster { .. } => Some(0),
        };
        let out_bytes = pixels.and_then(|bytes| bytes.checked_add(status_bytes as u64));

        let needs = Needs {
            batch: batch_bytes as u64,
            decoded: (!in_place).then_some(decoded_bytes),
            scratch: job.scratch_bytes(count as u64, budget.limit / LANES as u64),
            out: out_bytes,
        };
        lane.make_room(gpu, &needs, budget).or_else(|_| {
            // A lane may hold memory for other batches than this, and more than this one needs.
            lane.clear(budget);
            budget.exact = true;
            let made = lane.make_room(gpu, &needs, budget);
            budget.exact = false;
            made
        })?;
        let (batch, out) = (lane.batch.get(), lane.out.get());
        let decoded = if in_place { batch } else { lane.decoded.get() };
        let result_bytes = match target {
            Target::Host { .. } => out_bytes.unwrap_or(0) as usize,
            Target::Raster { .. } => status_bytes,
        };
        lane.result.room(gpu, result_bytes)?;

        let staging = lane.staging.get_mut(batch_bytes);
        staging[..bands_at].copy_from_slice(bytemuck::cast_slice(blocks));
        staging[bands_at..zeros_at].copy_from_slice(bytemuck::cast_slice(&self.bands));
        staging[zeros_at..payload_at].fill(0);
        // SAFETY: the staging memory belongs to the lane, which is not touched again before it is synchronised.
        unsafe { lane.stream.upload(lane.staging.get(batch_bytes), batch, 0)? };

        let stream = &mut lane.stream;
        if job.lsb_first {
            let groups = (payload as u64 / 4096).clamp(1, PASS_GROUPS) as u32;
            let args = [Arg::Buffer(batch), Arg::U64(payload_at as u64), Arg::U64(payload as u64), Arg::U32(groups)];
            // SAFETY: here and below: the arguments are those of the kernel, in the order of `kernels/README.md`, and the sizes of
            // all buffers were computed above from the numbers that the kernel gets.
            unsafe { stream.launch(Kernel::ReverseBits, groups, &args)? };
        }
        match job.codec.kernel() {
            None => stream.copy(batch, zeros_at as u64, out, 0, status_bytes as u64)?,
            Some(kernel) => {
                let args = [Arg::Buffer(batch), Arg::Buffer(decoded), Arg::Buffer(out)];
                if kernel == Kernel::Zstd {
                    // In waves, so that working memory is needed for one wave only.
                    let wave = zstd_groups(count as u64, self.budget.limit / LANES as u64).max(1) as u32;
                    for first in (0..count as u32).step_by(wave as usize) {
                        let groups = (count as u32 - first).min(wave);
                        let [a, b, c] = args;
                        let args = [a, b, c, Arg::Buffer(lane.scratch.get()), Arg::U32(first)];
                        // SAFETY: as above; decoding kernels check every access against the table.
                        unsafe { stream.launch(kernel, groups, &args)? };
                    }
                } else {
                    // SAFETY: as above; decoding kernels check every access against the table.
                    unsafe { stream.launch(kernel, count as u32, &args)? };
                }
            }
        }
        if let Some(sums) = job.sums {
            let rows = blocks.iter().map(|block| block.dst_len / job.row_bytes.max(1)).max().unwrap_or(0);
            let groups = rows.checked_mul(count as u32).filter(|&groups| u64::from(groups) <= MAX_GROUPS);
            let groups = groups.ok_or(Error::OutOfMemory { stage: "undoing the predictor", needed: u64::MAX })?;
            let args = [
                Arg::Buffer(batch),
                Arg::Buffer(decoded),
                Arg::Buffer(out),
                Arg::U32(rows),
                Arg::U32(job.row_bytes),
                Arg::U32(sums.width),
                Arg::U32(sums.stride),
                Arg::U32(sums.swap.into()),
            ];
            // SAFETY: as above; rows beyond a block's decoded bytes are left alone by the kernel.
            unsafe { stream.launch(Kernel::Sum, groups, &args)? };
        }

        let (pixels, pixels_at, bands) = match target {
            Target::Host { bands, .. } => (out, status_bytes as u64, bands),
            Target::Raster { raster, band, row, col } => {
                (&*raster.buffer, geometry.offset(band, row, col), self.bands.len())
            }
        };
        let placed = if job.planar { 1 } else { bands as u64 };
        let largest = blocks.iter().map(|block| u64::from(block.rows) * u64::from(block.cols)).max().unwrap_or(0);
        let parts = (largest * placed).div_ceil(PLACE_SAMPLES).clamp(1, (MAX_GROUPS / (count as u64).max(1)).max(1));
        let (low, high) = job.fill.split_at(8);
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        let args = [
            Arg::Buffer(batch),
            Arg::Buffer(decoded),
            Arg::Buffer(out),
            Arg::Buffer(pixels),
            Arg::U64(pixels_at),
            Arg::U64(geometry.row_stride),
            Arg::U64(geometry.pixel_stride),
            Arg::U64(geometry.band_stride),
            Arg::U64(bands_at as u64),
            Arg::U32(placed as u32),
            Arg::U32(job.planar.into()),
            Arg::U32(job.row_bytes),
            Arg::U32(job.width),
            Arg::U32(job.samples),
            Arg::U32(job.bits),
            Arg::U32(job.size),
            Arg::U32(job.mode as u32),
            Arg::U32(job.swap),
            Arg::U64(word(low)),
            Arg::U64(word(high)),
            Arg::U32(parts as u32),
        ];
        // SAFETY: as above; that the blocks lie in the batch and their pixels in the target was checked.
        unsafe { stream.launch(Kernel::Place, count as u32 * parts as u32, &args)? };

        // SAFETY: the result memory belongs to the lane, which is not touched again before it is synchronised.
        unsafe { stream.download(lane.out.get(), 0, lane.result.get_mut(result_bytes))? };
        (lane.status_bytes, lane.result_bytes, lane.blocks) = (status_bytes, result_bytes, count);
        lane.stream.flush()
    }

    /// Put pixels that are decoded already into a raster, at once: those of a rectangle, `(row, column, band)`.
    ///
    /// # Errors
    /// What the guard and the driver say.
    ///
    /// # Panics
    /// When the rectangle lies outside the image or the array has another size, and when there is no lane for it.
    pub fn put(
        &mut self,
        raster: &DeviceRaster,
        bands: Range<usize>,
        rows: Range<u64>,
        cols: Range<u64>,
        pixels: &[u8],
    ) -> Result<()> {
        let (height, width) = (rows.end - rows.start, cols.end - cols.start);
        let bytes = Geometry::dense(bands.len(), height, width, raster.dtype().size(), true).bytes;
        let inside = bands.end <= raster.bands() && rows.end <= raster.rows() && cols.end <= raster.cols();
        assert!(inside, "the rectangle lies in the raster");
        assert_eq!(Some(pixels.len() as u64), bytes, "the array has the size of the rectangle");
        let too_large = || Error::OutOfMemory { stage: "placing", needed: pixels.len() as u64 };
        let job = DecodeJob::placing(raster.dtype(), bands.len(), width).ok_or_else(too_large)?;
        let narrow = |value: u64| u32::try_from(value).map_err(|_| too_large());
        let len = narrow(pixels.len() as u64)?;
        let block =
            Block { src_len: len, dst_len: len, rows: narrow(height)?, cols: narrow(width)?, ..Block::default() };
        let target = Target::Raster { raster, band: bands.start, row: rows.start, col: cols.start };
        // Another job for one batch.
        let all = (0..bands.len() as u32).collect();
        let (job, bands) = (std::mem::replace(&mut self.job, job), std::mem::replace(&mut self.bands, all));
        let placed = self.stage(1, pixels.len()).map(|room| room.copy_from_slice(pixels)).and_then(|()| {
            let mut lane = self.idle.pop().expect("a batch was staged");
            let placed = self.enqueue(&mut lane, &mut [block], pixels.len(), target);
            let waited = lane.stream.synchronize();
            self.idle.push(lane);
            placed.and(waited)
        });
        (self.job, self.bands) = (job, bands);
        placed
    }

    /// Wait for the oldest batch under way; `None` when there is none.
    ///
    /// # Errors
    /// What the driver says.
    pub fn finish(&mut self) -> Result<Option<Finished<'_>>> {
        let Some(mut lane) = self.busy.pop_front() else { return Ok(None) };
        let waited = lane.stream.synchronize();
        lane.target = None;
        // The lane waits at the far end, so that its result is not overwritten by the batch that is staged next.
        self.idle.insert(0, lane);
        waited?;
        let lane = &self.idle[0];
        let result = lane.result.get(lane.result_bytes);
        Ok(Some(Finished { statuses: &result[..lane.blocks * 4], pixels: &result[lane.status_bytes..] }))
    }
}

/// Check what kernels do not: that the blocks of a batch lie in its payload, and their pixels in the block and in the target. Streams
/// are hostile and are checked byte by byte; these numbers are the engine's own.
fn check(job: &DecodeJob, bands: &[u32], blocks: &[Block], payload: usize, target: Target<'_>) {
    let (out_bands, rows, cols) = match target {
        Target::Host { bands, rows, cols, .. } => (bands as u64, rows, cols),
        Target::Raster { raster, band, row, col } => {
            let left = |all: u64, used: u64| all.checked_sub(used).expect("the batch begins in the raster");
            (left(raster.bands() as u64, band as u64), left(raster.rows(), row), left(raster.cols(), col))
        }
    };
    assert!(bands.iter().all(|&band| band < job.samples), "bands are samples of a pixel");
    match target {
        Target::Host { bands: asked, .. } => assert!(job.planar || asked == bands.len(), "every band has its place"),
        Target::Raster { raster, .. } => {
            assert!(job.planar || bands.len() as u64 <= out_bands, "every band has its place");
            assert_eq!(job.size as usize, raster.dtype().size(), "samples have the size of those of the raster");
        }
    }
    for block in blocks {
        let wide = |value: u32| u64::from(value);
        assert!(block.src.checked_add(wide(block.src_len)).is_some_and(|end| end <= payload as u64), "{block:?}");
        assert!(!job.is_stored() || block.flags & Block::SPARSE != 0 || block.src_len >= block.dst_len);
        let end_row = wide(block.from_row) + wide(block.rows);
        let in_block = end_row.saturating_mul(wide(job.row_bytes)) <= wide(block.dst_len)
            && wide(block.from_col) + wide(block.cols) <= wide(job.width);
        assert!(in_block || block.flags & Block::SPARSE != 0, "{block:?} lies in what is decoded");
        let in_target = wide(block.to_row) + wide(block.rows) <= rows && wide(block.to_col) + wide(block.cols) <= cols;
        assert!(in_target && (!job.planar || wide(block.band) < out_bands), "{block:?} lies in the target");
    }
}

/// Bytes of the statuses of a batch, so that pixels behind them begin where a device likes them to.
fn status_bytes(blocks: usize) -> usize {
    (blocks * 4).next_multiple_of(256)
}
