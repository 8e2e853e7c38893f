//! The stages of a batch, in the order in which they are enqueued: layout, memory, upload, decode, undo the predictor, place, download.
//!
//! Every stage only enqueues work on the lane's stream. Nothing waits for the device, except for a file that the device reads itself.

use super::blocks::{BatchBuffers, Chunks, Wave};
use super::check::check;
use super::lane::{Lane, LargestBatch, Needs};
use super::layout::{BatchLayout, status_bytes};
use super::{LANES, MAX_GROUPS, Target};
use crate::backend::kernel::{Arg, Kernel};
use crate::decode::block::Block;
use crate::decode::job::DecodeJob;
use crate::decode::unpack::Unpack;
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::memory::raster::Geometry;
use crate::memory::slot::Budget;
use crate::storage::{DeviceFile, Transfer};

/// Samples that one group places: enough to be worth a group, few enough to keep the whole device busy.
const PLACE_SAMPLES: u64 = 4096;

/// The most groups that share a pass over a buffer.
const PASS_GROUPS: u64 = 1024;

/// Where the compressed bytes of a batch come from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Payload<'a> {
    /// The host staged them in the lane's pinned memory.
    Staged,
    /// The device reads these parts of a file.
    File(&'a DeviceFile, &'a [Transfer]),
}

/// A batch as the caller submits it.
#[derive(Debug)]
pub(super) struct BatchRequest<'a> {
    pub(super) blocks: Vec<Block>,
    /// Compressed bytes of all blocks.
    pub(super) payload: usize,
    pub(super) from: Payload<'a>,
    pub(super) target: Target<'a>,
}

/// A batch with the positions of all its parts. The methods are the stages.
#[derive(Debug)]
pub(super) struct PlannedBatch<'a> {
    job: &'a DecodeJob,
    bands: &'a [u32],
    blocks: &'a [Block],
    payload: usize,
    from: Payload<'a>,
    target: Target<'a>,
    layout: BatchLayout,
    /// Bytes of all decoded blocks.
    decoded_bytes: u64,
    status_bytes: usize,
    /// Groups of `place` for each block.
    parts: u64,
    /// Bytes of the words in which each group states whether it found nodata; they follow the statuses.
    found_bytes: usize,
    /// How the pixels of the target are arranged.
    geometry: Geometry,
    /// Statuses, and the pixels if the host gets them. `None` when the number does not fit in 64 bits.
    out_bytes: Option<u64>,
}

impl<'a> PlannedBatch<'a> {
    /// Layout: decides where each block is decoded, and computes all sizes.
    pub(super) fn new(
        job: &'a DecodeJob,
        bands: &'a [u32],
        request: &'a mut BatchRequest<'_>,
        layout: BatchLayout,
    ) -> PlannedBatch<'a> {
        let BatchRequest { blocks, payload, from, target } = request;
        let (payload, from, target) = (*payload, *from, *target);
        check(job, bands, blocks, payload, target);
        let mut decoded_bytes = 0_u64;
        for block in &mut *blocks {
            block.src += layout.payload_at as u64;
            block.dst = if job.is_stored() { block.src } else { decoded_bytes };
            // Blocks are aligned for every sample type, and have room for a stand-in.
            decoded_bytes = decoded_bytes.saturating_add(u64::from(block.dst_len).max(1).next_multiple_of(16));
        }
        let status_bytes = status_bytes(blocks.len());
        let (geometry, pixels) = match target {
            Target::Host { bands, rows, cols, bands_last } => {
                let geometry = Geometry::dense(bands, rows, cols, job.size as usize, bands_last);
                (geometry, geometry.bytes)
            }
            Target::Raster { raster, .. } => (raster.geometry, Some(0)),
        };
        let parts = parts(job, bands, blocks, target);
        let looks = job.unpack.as_ref().is_some_and(Unpack::looks);
        let found_bytes = if looks { blocks.len() * parts as usize * 4 } else { 0 };
        let out_bytes = pixels.and_then(|bytes| bytes.checked_add((status_bytes + found_bytes) as u64));
        PlannedBatch {
            job,
            bands,
            blocks,
            payload,
            from,
            target,
            layout,
            decoded_bytes,
            status_bytes,
            parts,
            found_bytes,
            geometry,
            out_bytes,
        }
    }

    /// Runs all stages that follow the layout.
    pub(super) fn enqueue(&self, gpu: &Gpu, lane: &mut Lane, largest: LargestBatch, budget: &mut Budget) -> Result<()> {
        lane.target = match self.target {
            Target::Host { .. } => None,
            Target::Raster { raster, .. } => Some(raster.clone()),
        };
        let wave = self.make_room(gpu, lane, largest, budget)?;
        self.upload(gpu, lane)?;
        self.decode(lane, wave)?;
        self.undo_predictor(lane)?;
        self.place(lane)?;
        self.download(lane)
    }

    /// Blocks that are stored uncompressed are placed from the batch itself, without a second copy.
    fn in_place(&self) -> bool {
        self.job.is_stored()
    }

    fn count(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Bytes that the download copies.
    fn result_bytes(&self) -> usize {
        match self.target {
            Target::Host { .. } => self.out_bytes.unwrap_or(0) as usize,
            Target::Raster { .. } => self.status_bytes + self.found_bytes,
        }
    }

    /// Memory: makes sure that the lane has room for every stage, before anything is enqueued.
    fn make_room(&self, gpu: &Gpu, lane: &mut Lane, largest: LargestBatch, budget: &mut Budget) -> Result<Wave> {
        let wave = Wave::new(self.job, self.blocks, budget.limit / LANES as u64, &mut lane.stream)?;
        let needs = Needs {
            batch: self.layout.total as u64,
            decoded: (!self.in_place()).then_some(self.decoded_bytes),
            scratch: wave.scratch,
            out: self.out_bytes,
        };
        lane.batch.use_for_files(matches!(self.from, Payload::File(..)));
        // Memory for later batches too, if the other lanes still get their share.
        let for_later = needs.at_least(largest);
        if for_later.total() > needs.total() && for_later.total() <= budget.limit / LANES as u64 {
            // The size has a reserve already. If this fails, less is enough below.
            let _ = lane.make_exact_room(gpu, &for_later, budget);
        }
        lane.make_room(gpu, &needs, budget).or_else(|_| {
            // The lane may hold memory for other batches, and more than this batch needs.
            lane.clear(budget);
            lane.make_exact_room(gpu, &needs, budget)
        })?;
        lane.result.room(gpu, self.result_bytes())?;
        Ok(wave)
    }

    /// Upload: the table of blocks and the compressed bytes, in one transfer. Libraries that take pictures from the host get them here,
    /// because the statuses that they return are part of the upload.
    fn upload(&self, gpu: &Gpu, lane: &mut Lane) -> Result<()> {
        let (job, layout) = (self.job, &self.layout);
        let uploaded = match self.from {
            Payload::Staged if !job.is_fed_by_host() => layout.payload_end,
            _ => layout.payload_at,
        };
        match self.from {
            Payload::Staged => assert_eq!(layout.payload_end, lane.staged, "what was staged is submitted"),
            Payload::File(..) => {
                lane.staging.room(gpu, uploaded)?;
            }
        }
        let mut statuses = Vec::new();
        if job.is_fed_by_host() {
            assert!(matches!(self.from, Payload::Staged), "the host passes the compressed bytes to the library");
            let bytes = lane.staging.get(layout.payload_end);
            statuses = lane.pictures.decode(job, self.blocks, bytes, lane.decoded.get(), &mut lane.stream)?;
        }
        layout.write_head(job, self.blocks, self.bands, &statuses, lane.staging.get_mut(uploaded));
        let batch = lane.batch.get();
        // SAFETY: the staging memory belongs to the lane, which is not touched again before it is synchronised.
        unsafe { lane.stream.upload(lane.staging.get(uploaded), batch, 0)? };
        lane.from_file = matches!(self.from, Payload::File(..));
        lane.payload_at = layout.payload_at;
        if let Payload::File(file, transfers) = self.from {
            // The upload of the table runs meanwhile.
            file.read(batch, layout.payload_at as u64, transfers)?;
        }
        Ok(())
    }

    /// Decode: from compressed bytes to decoded blocks, with a status for each.
    fn decode(&self, lane: &mut Lane, wave: Wave) -> Result<()> {
        let (batch, layout) = (lane.batch.get(), &self.layout);
        if self.job.lsb_first {
            let groups = (self.payload as u64 / 4096).clamp(1, PASS_GROUPS) as u32;
            let (at, bytes) = (layout.payload_at as u64, self.payload as u64);
            let args = [Arg::Buffer(batch), Arg::U64(at), Arg::U64(bytes), Arg::U32(groups)];
            // SAFETY: here and below: the arguments are those of the kernel, in the order of `kernels/README.md`, and the sizes of
            // all buffers were computed from the numbers that the kernel gets.
            unsafe { lane.stream.launch(Kernel::ReverseBits, groups, &args)? };
        }
        let buffers = BatchBuffers {
            batch,
            decoded: if self.in_place() { batch } else { lane.decoded.get() },
            out: lane.out.get(),
            scratch: (wave.scratch > 0).then(|| lane.scratch.get()),
            zeros_at: layout.zeros_at as u64,
            stand_in_at: layout.stand_in_at as u64,
            chunks: Chunks { at: layout.chunks_at as u64, count: self.blocks.len() as u64 },
            status_bytes: self.status_bytes as u64,
        };
        buffers.decode(self.job, wave, &mut lane.stream)
    }

    /// Undo the predictor: turns differences into samples, if the image has a predictor.
    fn undo_predictor(&self, lane: &mut Lane) -> Result<()> {
        let job = self.job;
        let Some(sums) = job.sums else { return Ok(()) };
        let rows = self.blocks.iter().map(|block| block.dst_len / job.row_bytes.max(1)).max().unwrap_or(0);
        let groups = rows.checked_mul(self.count()).filter(|&groups| u64::from(groups) <= MAX_GROUPS);
        let groups = groups.ok_or(Error::OutOfMemory { stage: "undoing the predictor", needed: u64::MAX })?;
        let batch = lane.batch.get();
        let args = [
            Arg::Buffer(batch),
            Arg::Buffer(if self.in_place() { batch } else { lane.decoded.get() }),
            Arg::Buffer(lane.out.get()),
            Arg::U32(rows),
            Arg::U32(job.row_bytes),
            Arg::U32(sums.width),
            Arg::U32(sums.stride),
            Arg::U32(sums.swap.into()),
        ];
        // SAFETY: as above; the kernel leaves rows beyond a block's decoded bytes alone.
        unsafe { lane.stream.launch(Kernel::Sum, groups, &args) }
    }

    /// Place: copies the requested part of each block to its position in the target, and fills blocks that the file does not store.
    fn place(&self, lane: &mut Lane) -> Result<()> {
        let (job, geometry) = (self.job, &self.geometry);
        let (batch, out) = (lane.batch.get(), lane.out.get());
        let (pixels, pixels_at, first_band) = match self.target {
            Target::Host { .. } => (out, self.status_bytes as u64, 0),
            Target::Raster { raster, band, row, col } => (&*raster.buffer, geometry.offset(band, row, col), band),
        };
        let placed = placed_bands(job, self.bands, self.target);
        let (low, high) = job.fill.split_at(8);
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        let mut args = vec![
            Arg::Buffer(batch),
            Arg::Buffer(if self.in_place() { batch } else { lane.decoded.get() }),
            Arg::Buffer(out),
            Arg::Buffer(pixels),
            Arg::U64(pixels_at),
            Arg::U64(geometry.row_stride),
            Arg::U64(geometry.pixel_stride),
            Arg::U64(geometry.band_stride),
            Arg::U64(self.layout.bands_at as u64),
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
        ];
        let (kernel, parts) = (job.unpack.as_ref().map_or(Kernel::Place, |_| Kernel::PlaceUnpack), self.parts as u32);
        match &job.unpack {
            None => args.extend([Arg::U64(word(high)), Arg::U32(parts)]),
            Some(unpack) => args.extend([
                Arg::U32(parts),
                Arg::U64(self.layout.factors_at as u64),
                Arg::U32(first_band as u32),
                Arg::U32(unpack.kind()),
                Arg::U32(unpack.flags()),
                Arg::U32(unpack.work()),
                Arg::U32(unpack.target().size() as u32),
                Arg::U64(unpack.nodata_bits()),
                Arg::U64(self.status_bytes as u64),
            ]),
        }
        // SAFETY: as above; `check` made sure that the blocks lie in the batch and their pixels in the target, and that every band has
        // its factors.
        unsafe { lane.stream.launch(kernel, self.count() * parts, &args) }
    }

    /// Download: the statuses, and the pixels if the host gets them, in one transfer.
    fn download(&self, lane: &mut Lane) -> Result<()> {
        let result_bytes = self.result_bytes();
        // SAFETY: the result memory belongs to the lane, which is not touched again before it is synchronised.
        unsafe { lane.stream.download(lane.out.get(), 0, lane.result.get_mut(result_bytes))? };
        (lane.status_bytes, lane.result_bytes, lane.blocks) = (self.status_bytes, result_bytes, self.blocks.len());
        lane.found_bytes = self.found_bytes;
        lane.stream.flush()
    }
}

/// The bands of a block that are placed.
fn placed_bands(job: &DecodeJob, bands: &[u32], target: Target<'_>) -> u64 {
    match target {
        _ if job.planar => 1,
        Target::Host { bands, .. } => bands as u64,
        Target::Raster { .. } => bands.len() as u64,
    }
}

/// The groups that share the samples of a block while they are placed.
fn parts(job: &DecodeJob, bands: &[u32], blocks: &[Block], target: Target<'_>) -> u64 {
    let largest = blocks.iter().map(|block| u64::from(block.rows) * u64::from(block.cols)).max().unwrap_or(0);
    let most = (MAX_GROUPS / (blocks.len() as u64).max(1)).max(1);
    (largest * placed_bands(job, bands, target)).div_ceil(PLACE_SAMPLES).clamp(1, most)
}
