//! From a batch of compressed blocks to pixels: one upload, a kernel per stage over the whole batch, one download at most, one
//! synchronisation.
//!
//! Two batches are under way at a time, each in a lane of its own: while the device decodes one, the next is fetched and
//! uploaded. Lanes keep their memory, so that a steady sequence of batches allocates nothing.

pub(crate) mod block;
mod blocks;
mod interchange;
pub(crate) mod job;
mod lane;
mod layout;
mod pictures;
pub(crate) mod route;

use std::collections::VecDeque;
use std::ops::Range;

use crate::backend::kernel::{Arg, Kernel};
use crate::decode::block::{Block, Status};
use crate::decode::job::DecodeJob;
use crate::decode::route::Route;
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::memory::raster::{DeviceRaster, Geometry};
use crate::memory::slot::Budget;
use crate::storage::{DeviceFile, Transfer};

use self::blocks::{Batch, Chunks, Wave};
pub(crate) use self::lane::Lane;
use self::lane::Needs;
pub(crate) use self::layout::PAYLOAD_ALIGN;
use self::layout::{Layout, status_bytes};

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

/// Where the compressed bytes of a batch come from.
#[derive(Debug, Clone, Copy)]
enum Payload<'a> {
    /// They lie in the lane's pinned memory.
    Staged,
    /// The device reads these pieces of a file.
    File(&'a DeviceFile, &'a [Transfer]),
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
    failure: Option<&'a Error>,
    /// The pixels, if they were asked for on the host. Those of blocks whose status is not good are not defined.
    pub pixels: &'a [u8],
}

impl Finished<'_> {
    /// The status of each block, in their order.
    pub fn statuses(&self) -> impl Iterator<Item = Status> + '_ {
        self.statuses.as_chunks::<4>().0.iter().map(|bytes| Status(u32::from_ne_bytes(*bytes)))
    }

    /// Why a block has its status, in words: those of the library, if it was one that failed.
    pub fn reason(&self, status: Status) -> String {
        match self.failure.filter(|_| status == Status::REFUSED) {
            Some(failure) => failure.to_string(),
            None => status.reason().to_owned(),
        }
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
        let layout = self.layout(blocks, payload)?;
        let lane = self.idle.last_mut().expect("a lane has room");
        lane.staged = layout.payload_end;
        Ok(&mut lane.staging.room(&self.gpu, layout.payload_end)?[layout.payload_at..])
    }

    /// What lies where in a batch, if the budget allows it.
    fn layout(&self, blocks: usize, payload: usize) -> Result<Layout> {
        let layout = Layout::new(&self.job, self.bands.len(), blocks, payload);
        // What cannot be uploaded is not fetched either: blocks may lie on top of each other, so that their sum says nothing of the file.
        let needed = layout.map_or(u64::MAX, |layout| layout.total.max(layout.payload_end) as u64);
        let limit = self.budget.limit;
        layout.filter(|_| needed <= limit).ok_or(Error::Budget {
            stage: "the compressed batch",
            needed,
            left: limit,
            budget: limit,
        })
    }

    /// Send a staged batch on its way. `blocks` say where their bytes lie in the payload, and where their pixels go in the
    /// target; where they are decoded is decided here.
    ///
    /// # Errors
    /// What the guard and the driver say; then nothing of the batch is under way.
    ///
    /// # Panics
    /// When nothing was staged, or the raster lies on another device.
    pub fn submit(&mut self, blocks: Vec<Block>, payload: usize, target: Target<'_>) -> Result<()> {
        self.start(blocks, payload, Payload::Staged, target)
    }

    /// Let the device read a batch from a file by itself, and send it on its way: `transfers` say which piece of the file goes where
    /// in the payload. This waits for the file, though not for what the device makes of it.
    ///
    /// # Errors
    /// As [`submit`](Decoding::submit); when a piece cannot be read or is too short, [`Error::Transfer`] or what cuFile says.
    ///
    /// # Panics
    /// When there is no lane for it, or the raster or the file are another device's.
    pub fn submit_from_file(
        &mut self,
        blocks: Vec<Block>,
        payload: usize,
        (file, transfers): (&DeviceFile, &[Transfer]),
        target: Target<'_>,
    ) -> Result<()> {
        self.start(blocks, payload, Payload::File(file, transfers), target)
    }

    fn start(&mut self, mut blocks: Vec<Block>, payload: usize, from: Payload<'_>, target: Target<'_>) -> Result<()> {
        let mut lane = self.idle.pop().expect("a lane has room");
        match self.enqueue(&mut lane, &mut blocks, payload, from, target) {
            Ok(()) => {
                self.busy.push_back(lane);
                Ok(())
            }
            Err(error @ Error::Stalled { .. }) => {
                // Something may still write there: that memory is never used again. Nothing was to be placed yet.
                lane.target = None;
                std::mem::forget(lane);
                self.idle.push(Lane::new(&self.gpu)?);
                Err(error)
            }
            Err(error) => {
                // What was enqueued before the error is waited for, so that its memory may be used again.
                let waited = lane.stream.synchronize();
                self.idle.push(lane);
                waited.and(Err(error))
            }
        }
    }

    fn enqueue(
        &mut self,
        lane: &mut Lane,
        blocks: &mut [Block],
        payload: usize,
        from: Payload<'_>,
        target: Target<'_>,
    ) -> Result<()> {
        if let Target::Raster { raster, .. } = target {
            assert!(raster.gpu.is(&self.gpu), "the raster lies on another device");
        }
        let count = blocks.len();
        let layout = self.layout(count, payload)?;
        let (gpu, job, budget) = (&self.gpu, &self.job, &mut self.budget);
        check(job, &self.bands, blocks, payload, target);
        lane.target = match target {
            Target::Host { .. } => None,
            Target::Raster { raster, .. } => Some(raster.clone()),
        };
        // Blocks that are stored as they are need no second copy: they are placed from the batch itself.
        let in_place = job.is_stored();
        let mut decoded_bytes = 0_u64;
        for block in &mut *blocks {
            block.src += layout.payload_at as u64;
            block.dst = if in_place { block.src } else { decoded_bytes };
            // Blocks begin where any sample may begin, and have room for a stand-in.
            decoded_bytes = decoded_bytes.saturating_add(u64::from(block.dst_len).max(1).next_multiple_of(16));
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

        let wave = Wave::new(job, blocks, budget.limit / LANES as u64, &mut lane.stream)?;
        let needs = Needs {
            batch: layout.total as u64,
            decoded: (!in_place).then_some(decoded_bytes),
            scratch: wave.scratch,
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

        let uploaded = match from {
            Payload::Staged if !job.is_fed_by_host() => layout.payload_end,
            _ => layout.payload_at,
        };
        match from {
            Payload::Staged => assert_eq!(layout.payload_end, lane.staged, "what was staged is submitted"),
            Payload::File(..) => {
                lane.staging.room(gpu, uploaded)?;
            }
        }
        let mut statuses = Vec::new();
        if job.is_fed_by_host() {
            assert!(matches!(from, Payload::Staged), "the host hands the bytes on");
            let bytes = lane.staging.get(layout.payload_end);
            statuses = lane.pictures.decode(job, blocks, bytes, decoded, &mut lane.stream)?;
        }
        layout.write_head(job, blocks, &self.bands, &statuses, lane.staging.get_mut(uploaded));
        // SAFETY: the staging memory belongs to the lane, which is not touched again before it is synchronised.
        unsafe { lane.stream.upload(lane.staging.get(uploaded), batch, 0)? };
        lane.from_file = matches!(from, Payload::File(..));
        lane.payload_at = layout.payload_at;
        if let Payload::File(file, transfers) = from {
            // Meanwhile the head is on its way.
            file.read(batch, layout.payload_at as u64, transfers)?;
        }

        let stream = &mut lane.stream;
        if job.lsb_first {
            let groups = (payload as u64 / 4096).clamp(1, PASS_GROUPS) as u32;
            let args =
                [Arg::Buffer(batch), Arg::U64(layout.payload_at as u64), Arg::U64(payload as u64), Arg::U32(groups)];
            // SAFETY: here and below: the arguments are those of the kernel, in the order of `kernels/README.md`, and the sizes of
            // all buffers were computed above from the numbers that the kernel gets.
            unsafe { stream.launch(Kernel::ReverseBits, groups, &args)? };
        }
        let on_device = Batch {
            batch,
            decoded,
            out,
            scratch: (wave.scratch > 0).then(|| lane.scratch.get()),
            zeros_at: layout.zeros_at as u64,
            stand_in_at: layout.stand_in_at as u64,
            chunks: Chunks { at: layout.chunks_at as u64, count: count as u64 },
            status_bytes: status_bytes as u64,
        };
        on_device.decode(job, wave, stream)?;
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
            Arg::U64(layout.bands_at as u64),
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
            let placed = self.enqueue(&mut lane, &mut [block], pixels.len(), Payload::Staged, target);
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
        let failure = lane.pictures.failure().filter(|_| self.job.route.is_of_pictures());
        Ok(Some(Finished { statuses: &result[..lane.blocks * 4], failure, pixels: &result[lane.status_bytes..] }))
    }

    /// Whether the device alone has the compressed bytes of the batch that was finished last, because it read them itself; and has them as
    /// they are in the file, and not with their bits turned round.
    pub fn keeps_compressed(&self) -> bool {
        self.idle.first().is_some_and(|lane| lane.from_file) && !self.job.lsb_first
    }

    /// Bring compressed blocks of the batch that was finished last to the host, for what the device cannot decode: they are gathered
    /// on the device and come in one copy, one after another. A piece is where a block begins in the payload, and its size.
    ///
    /// # Errors
    /// What the guard says, before anything is allocated, and what the driver says.
    ///
    /// # Panics
    /// When there is no such batch, or a piece lies outside of it.
    pub fn bring_back(&mut self, pieces: &[(u64, u64)]) -> Result<&[u8]> {
        let lane = self.idle.first_mut().expect("a batch was finished");
        let mut spans = Vec::with_capacity(pieces.len() * 3);
        let mut total = Some(0_u64);
        for &(at, len) in pieces.iter().filter(|(_, len)| *len > 0) {
            let from = at + lane.payload_at as u64;
            assert!(from + len <= lane.batch.get().bytes(), "{at} + {len} lies outside the batch");
            spans.extend([from, total.unwrap_or(0), len]);
            total = total.and_then(|total| total.checked_add(len));
        }
        if spans.is_empty() {
            return Ok(&[]);
        }
        let (gpu, budget) = (&self.gpu, &mut self.budget);
        let table: &[u8] = bytemuck::cast_slice(&spans);
        let stage = "compressed blocks on their way back";
        // What is decoded was placed, so that its memory is free. Both are looked at before either is allocated.
        let others = budget.held - lane.decoded.bytes() - lane.scratch.bytes();
        let gathered = total.map(|total| total.max(lane.decoded.bytes()));
        let needed = gathered.and_then(|bytes| bytes.checked_add(lane.scratch.bytes().max(table.len() as u64)));
        let (needed, left) = (needed.unwrap_or(u64::MAX), budget.limit.saturating_sub(others));
        if needed > left {
            return Err(Error::Budget { stage, needed, left, budget: budget.limit });
        }
        budget.exact = true;
        let made = lane.decoded.room(gpu, stage, total, budget).map(|_| ());
        let made = made.and_then(|()| lane.scratch.room(gpu, stage, Some(table.len() as u64), budget).map(|_| ()));
        budget.exact = false;
        made?;
        let bytes = total.unwrap_or(0) as usize;
        lane.result.room(gpu, bytes)?;
        let (batch, gathered, scratch) = (lane.batch.get(), lane.decoded.get(), lane.scratch.get());
        let args = [Arg::Buffer(scratch), Arg::Buffer(batch), Arg::Buffer(gathered)];
        // SAFETY: the table and the result live until the stream is synchronised below; the spans lie in the batch, and side by side in a
        // buffer of their sum.
        let copied = unsafe {
            lane.stream.upload(table, scratch, 0).and_then(|()| {
                lane.stream.launch(Kernel::Gather, (spans.len() / 3) as u32, &args)?;
                lane.stream.download(gathered, 0, lane.result.get_mut(bytes))
            })
        };
        lane.stream.synchronize().and(copied)?;
        Ok(self.idle[0].result.get(bytes))
    }

    /// The kernel of Swath's that could replace the library that decodes now.
    fn builtin_kernel(&self) -> Option<Route> {
        self.job.codec.kernel().map(Route::Kernel).filter(|kernel| *kernel != self.job.route)
    }

    /// Whether a library decodes now and a kernel of Swath's could replace it.
    pub fn has_builtin_kernel(&self) -> bool {
        self.builtin_kernel().is_some()
    }

    /// Decodes with a kernel of Swath's from now on, if there is one.
    pub fn use_builtin_kernel(&mut self) {
        if let Some(kernel) = self.builtin_kernel() {
            self.job.route = kernel;
        }
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
        let in_block = end_row.saturating_mul(job.pixel_row_bytes()) <= wide(block.dst_len)
            && wide(block.from_col) + wide(block.cols) <= wide(job.width);
        assert!(in_block || block.flags & Block::SPARSE != 0, "{block:?} lies in what is decoded");
        let in_target = wide(block.to_row) + wide(block.rows) <= rows && wide(block.to_col) + wide(block.cols) <= cols;
        assert!(in_target && (!job.planar || wide(block.band) < out_bands), "{block:?} lies in the target");
    }
}
