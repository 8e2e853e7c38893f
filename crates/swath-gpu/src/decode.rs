//! Decodes batches of compressed blocks to pixels: one upload, one kernel per stage over the whole batch, at most one download, one
//! synchronisation.
//!
//! Three batches are in flight at a time, each in its own lane: while the device decodes one, the host fetches and uploads the next, and the
//! pixels of the one before come back. Lanes keep their memory, so a steady sequence of batches allocates nothing.
//!
//! [`DecodeJob`] decides once how every block of an image is decoded. [`Decoding`] takes batches of blocks; `stages.rs` enqueues the
//! stages of one batch; [`FinishedBatch`] and [`BatchFailure`](outcome::BatchFailure) report the outcome.

pub(crate) mod block;
mod blocks;
mod bring_back;
mod check;
mod interchange;
pub(crate) mod job;
mod lane;
mod layout;
pub(crate) mod outcome;
mod pictures;
pub(crate) mod route;
mod stages;
pub(crate) mod unpack;

use std::collections::VecDeque;
use std::ops::Range;

use crate::decode::block::Block;
use crate::decode::job::DecodeJob;
use crate::decode::outcome::FinishedBatch;
use crate::decode::route::Route;
use crate::decode::unpack::Unpack;
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::memory::raster::{DeviceRaster, Geometry};
use crate::memory::slot::Budget;
use crate::storage::{DeviceFile, Transfer};

pub(crate) use self::lane::Lane;
pub use self::lane::LargestBatch;
use self::layout::BatchLayout;
pub(crate) use self::layout::PAYLOAD_ALIGN;
use self::stages::{BatchRequest, Payload, PlannedBatch};

/// Batches in flight at a time: one is uploaded, one decoded and one downloaded.
pub const LANES: usize = 3;

/// The most groups of one launch: the limit of CUDA.
pub(crate) const MAX_GROUPS: u64 = i32::MAX as u64;

/// Where the pixels of a batch go.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Target<'a> {
    /// To the host: a dense array of these bands, rows and columns.
    Host {
        /// Bands.
        bands: usize,
        /// Rows.
        rows: u64,
        /// Columns.
        cols: u64,
        /// Whether the bands of a pixel are adjacent.
        bands_last: bool,
    },
    /// Into a raster that stays on the device, starting at this position.
    Raster {
        /// The raster.
        raster: &'a DeviceRaster,
        /// The raster's band that receives the first band.
        band: usize,
        /// The raster's row that receives row 0 of the batch.
        row: u64,
        /// The raster's column that receives column 0 of the batch.
        col: u64,
    },
}

/// Decodes an image in batches.
#[derive(Debug)]
pub struct Decoding {
    gpu: Gpu,
    job: DecodeJob,
    bands: Vec<u32>,
    /// Lanes without work; the last one takes the next batch.
    idle: Vec<Lane>,
    /// Lanes with a batch in flight, the oldest first.
    busy: VecDeque<Lane>,
    budget: Budget,
    /// What the largest batch is expected to need.
    largest: LargestBatch,
    /// Whether a finished batch had nodata.
    nodata_found: bool,
}

impl Gpu {
    /// Prepares to decode batches of an image. `bands` lists the requested samples of a pixel, in the order of the output; a planar job
    /// ignores it, because each block has its own band. `budget` limits the device memory of all batches together, without rasters.
    ///
    /// # Errors
    /// The driver's error.
    pub fn decode(&self, job: DecodeJob, bands: &[usize], budget: u64) -> Result<Decoding> {
        let bands = bands.iter().map(|&band| band as u32).collect();
        let mut idle = (0..LANES).map(|_| self.take_lane(budget)).collect::<Result<Vec<_>>>()?;
        let mut budget = Budget { held: idle.iter().map(Lane::bytes).sum(), ..Budget::new(budget) };
        // An earlier read may have left more memory than this one may hold.
        if budget.held > budget.limit {
            idle.iter_mut().for_each(|lane| lane.clear(&mut budget));
        }
        Ok(Decoding {
            gpu: self.clone(),
            job,
            bands,
            idle,
            busy: VecDeque::new(),
            budget,
            largest: LargestBatch::default(),
            nodata_found: false,
        })
    }
}

impl Drop for Decoding {
    fn drop(&mut self) {
        for mut lane in self.idle.drain(..).chain(self.busy.drain(..)) {
            // A batch that is still in flight is waited for. If the device failed, its lane is not used again.
            if lane.stream.synchronize().is_ok() && !lane.stream.has_failed() {
                lane.target = None;
                self.gpu.give_back(lane);
            }
        }
    }
}

impl Decoding {
    /// How the blocks are decoded.
    pub fn job(&self) -> &DecodeJob {
        &self.job
    }

    /// Announces the memory of the largest batch, so that the first batch of a lane allocates it and later ones allocate nothing. A batch
    /// that needs more still gets it, and one that finds less memory takes what it needs itself.
    pub fn expect(&mut self, largest: LargestBatch) {
        self.largest = largest;
    }

    /// Bytes of host memory that the lanes hold.
    pub fn host_bytes(&self) -> usize {
        self.idle.iter().chain(&self.busy).map(|lane| lane.staging.bytes() + lane.result.bytes()).sum()
    }

    /// Number of batches in flight.
    pub fn in_flight(&self) -> usize {
        self.busy.len()
    }

    /// Whether another batch can be staged before one is finished.
    pub fn has_room(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Frees the memory of idle lanes, so that a smaller batch finds room.
    pub fn shrink(&mut self) {
        self.idle.iter_mut().for_each(|lane| lane.clear(&mut self.budget));
    }

    /// Returns pinned memory for the compressed bytes of a batch of `blocks` blocks.
    ///
    /// # Errors
    /// [`Error::Budget`] when the batch exceeds the budget, and the driver's error.
    ///
    /// # Panics
    /// When no lane is idle: see [`has_room`](Decoding::has_room).
    pub fn stage(&mut self, blocks: usize, payload: usize) -> Result<&mut [u8]> {
        let layout = self.layout(blocks, payload)?;
        let lane = self.idle.last_mut().expect("a lane has room");
        lane.staged = layout.payload_end;
        Ok(&mut lane.staging.room(&self.gpu, layout.payload_end)?[layout.payload_at..])
    }

    /// The offset of the compressed bytes in the memory of a batch of `blocks` blocks, which begins at a page.
    pub fn payload_offset(&self, blocks: usize) -> usize {
        BatchLayout::new(&self.job, self.bands.len(), blocks, 0).map_or(0, |layout| layout.payload_at)
    }

    /// The layout of a batch, if the budget allows it.
    fn layout(&self, blocks: usize, payload: usize) -> Result<BatchLayout> {
        let layout = BatchLayout::new(&self.job, self.bands.len(), blocks, payload);
        // A batch that cannot be uploaded is not fetched either: blocks may overlap in the file, so their sum can exceed its size.
        let needed = layout.map_or(u64::MAX, |layout| layout.total.max(layout.payload_end) as u64);
        let limit = self.budget.limit;
        layout.filter(|_| needed <= limit).ok_or(Error::Budget {
            stage: "the compressed batch",
            needed,
            left: limit,
            budget: limit,
        })
    }

    /// Submits a staged batch. `blocks` state where their bytes are in the payload, and where their pixels go in the target; this
    /// function decides where they are decoded.
    ///
    /// # Errors
    /// The guard's or the driver's error; then nothing of the batch is in flight, and
    /// [`BatchFailure::try_from`](outcome::BatchFailure) sorts the errors that another way of decoding may avoid.
    ///
    /// # Panics
    /// When nothing was staged, or the raster is on another device.
    pub fn submit(&mut self, blocks: Vec<Block>, payload: usize, target: Target<'_>) -> Result<()> {
        self.start(BatchRequest { blocks, payload, from: Payload::Staged, target })
    }

    /// Submits a batch that the device reads from a file by itself: `transfers` state which part of the file goes where in the payload.
    /// The call waits for the file, but not for the decoding.
    ///
    /// # Errors
    /// As [`submit`](Decoding::submit); [`Error::Transfer`] or cuFile's error when a part cannot be read or is too short.
    ///
    /// # Panics
    /// When no lane is idle, or the raster or the file belong to another device.
    pub fn submit_from_file(
        &mut self,
        blocks: Vec<Block>,
        payload: usize,
        (file, transfers): (&DeviceFile, &[Transfer]),
        target: Target<'_>,
    ) -> Result<()> {
        self.start(BatchRequest { blocks, payload, from: Payload::File(file, transfers), target })
    }

    fn start(&mut self, mut request: BatchRequest<'_>) -> Result<()> {
        let mut lane = self.idle.pop().expect("a lane has room");
        match self.enqueue(&mut lane, &mut request) {
            Ok(()) => {
                self.busy.push_back(lane);
                Ok(())
            }
            Err(error @ Error::Stalled { .. }) => {
                // cuFile may still write to this memory, so it is never used again. No kernel writes to the target yet.
                lane.target = None;
                std::mem::forget(lane);
                self.idle.push(Lane::new(&self.gpu)?);
                Err(error)
            }
            Err(error) => {
                // Waits for the stages that were enqueued before the error, so that the lane's memory can be used again.
                let waited = lane.stream.synchronize();
                self.idle.push(lane);
                waited.and(Err(error))
            }
        }
    }

    fn enqueue(&mut self, lane: &mut Lane, request: &mut BatchRequest<'_>) -> Result<()> {
        if let Target::Raster { raster, .. } = request.target {
            assert!(raster.gpu.is(&self.gpu), "the raster lies on another device");
        }
        let layout = self.layout(request.blocks.len(), request.payload)?;
        PlannedBatch::new(&self.job, &self.bands, request, layout).enqueue(
            &self.gpu,
            lane,
            self.largest,
            &mut self.budget,
        )
    }

    /// Copies decoded pixels into a rectangle of a raster, and waits for it. `pixels` has the order `(row, column, band)`. Samples are
    /// converted as those of the job.
    ///
    /// # Errors
    /// The guard's or the driver's error.
    ///
    /// # Panics
    /// When the rectangle lies outside the image, when the array has another size, and when no lane is idle.
    pub fn put(
        &mut self,
        raster: &DeviceRaster,
        bands: Range<usize>,
        rows: Range<u64>,
        cols: Range<u64>,
        pixels: &[u8],
    ) -> Result<()> {
        let (height, width) = (rows.end - rows.start, cols.end - cols.start);
        let unpack = self.job.unpack.clone();
        let dtype = unpack.as_ref().map_or(raster.dtype(), Unpack::source);
        let bytes = Geometry::dense(bands.len(), height, width, dtype.size(), true).bytes;
        let inside = bands.end <= raster.bands() && rows.end <= raster.rows() && cols.end <= raster.cols();
        assert!(inside, "the rectangle lies in the raster");
        assert_eq!(Some(pixels.len() as u64), bytes, "the array has the size of the rectangle");
        let too_large = || Error::OutOfMemory { stage: "placing", needed: pixels.len() as u64 };
        let job = DecodeJob::placing(dtype, bands.len(), width).ok_or_else(too_large)?.with_unpack(unpack);
        let narrow = |value: u64| u32::try_from(value).map_err(|_| too_large());
        let len = narrow(pixels.len() as u64)?;
        let block =
            Block { src_len: len, dst_len: len, rows: narrow(height)?, cols: narrow(width)?, ..Block::default() };
        let target = Target::Raster { raster, band: bands.start, row: rows.start, col: cols.start };
        let mut request = BatchRequest { blocks: vec![block], payload: pixels.len(), from: Payload::Staged, target };
        // This one batch has another job.
        let all = (0..bands.len() as u32).collect();
        let (job, bands) = (std::mem::replace(&mut self.job, job), std::mem::replace(&mut self.bands, all));
        let largest = std::mem::take(&mut self.largest);
        let placed = self.stage(1, pixels.len()).map(|room| room.copy_from_slice(pixels)).and_then(|()| {
            let mut lane = self.idle.pop().expect("a batch was staged");
            let placed = self.enqueue(&mut lane, &mut request);
            let waited = lane.stream.synchronize();
            let done = placed.and(waited);
            self.nodata_found |= done.is_ok() && lane.found_nodata();
            self.idle.push(lane);
            done
        });
        (self.job, self.bands, self.largest) = (job, bands, largest);
        placed
    }

    /// Waits for the oldest batch in flight. Returns `None` when there is none.
    ///
    /// # Errors
    /// The driver's error.
    pub fn finish(&mut self) -> Result<Option<FinishedBatch<'_>>> {
        let Some(mut lane) = self.busy.pop_front() else { return Ok(None) };
        let waited = lane.stream.synchronize();
        lane.target = None;
        // The lane goes to the front, so that the batch that is staged next does not overwrite its result.
        self.idle.insert(0, lane);
        waited?;
        let lane = &self.idle[0];
        self.nodata_found |= lane.found_nodata();
        let result = lane.result.get(lane.result_bytes);
        let failure = lane.pictures.failure().filter(|_| self.job.route.is_of_pictures());
        Ok(Some(FinishedBatch { statuses: &result[..lane.blocks * 4], failure, pixels: &result[lane.status_bytes..] }))
    }

    /// Whether a batch that was finished or put had nodata, if the job looks for it.
    pub fn nodata_found(&self) -> bool {
        self.nodata_found
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
