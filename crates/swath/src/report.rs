//! Reports: what a read or a device did.

use std::time::Duration;

use swath_gpu::{DeviceStats, Gpu};

use crate::error::BlockName;

/// A part of the work that a device could not do and the CPU did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// The stage of the work.
    pub stage: &'static str,
    /// Why the device could not do it.
    pub reason: String,
    /// The number of blocks concerned, if any.
    pub blocks: u64,
}

impl std::fmt::Display for Fallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.blocks {
            0 => write!(f, "{}: {}", self.stage, self.reason),
            blocks => write!(f, "{} on the CPU: {} ({blocks} blocks)", self.stage, self.reason),
        }
    }
}

/// What a device did in an operation.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DeviceReport {
    /// The name of the device.
    pub name: String,
    /// Why the CPU or the device did a read, if the cost model chose: the estimated times.
    pub placement: String,
    /// How compressed bytes reached the device, if it read any.
    pub read_by: String,
    /// The decoder that ran on the device.
    pub decoded_by: String,
    /// The encoder that compressed the written blocks.
    pub compressed_by: String,
    /// How the blocks reached the file, if not through the host.
    pub written_by: String,
    /// Counters of the device. They include other operations that use the device at the same time. The peak
    /// covers all operations since the device was opened or [`Gpu::reset_peak`] was called.
    pub stats: DeviceStats,
    /// The work that the CPU did instead of the device.
    pub fallbacks: Vec<Fallback>,
}

impl DeviceReport {
    /// The report of an operation without a device, where the CPU did everything.
    pub(crate) fn none(reason: impl ToString, blocks: u64) -> DeviceReport {
        let mut report = DeviceReport { name: "none".into(), ..DeviceReport::default() };
        report.note_fallback("everything", reason, blocks);
        report
    }

    /// Starts the counters.
    pub(crate) fn begin(gpu: &Gpu) -> DeviceReport {
        let mut report = DeviceReport { name: gpu.info().name.clone(), stats: gpu.stats(), ..DeviceReport::default() };
        if let Some(reason) = gpu.passed_over() {
            report.note_fallback("CUDA was passed over", reason, 0);
        }
        report
    }

    /// Stores the differences of the counters since [`begin`](DeviceReport::begin).
    pub(crate) fn end(&mut self, gpu: &Gpu) {
        self.stats = gpu.stats().since(&self.stats);
    }

    /// Adds the report of another device that did a part of the same operation.
    pub(crate) fn join(&mut self, other: DeviceReport) {
        self.take_fallbacks(Some(&other));
        self.stats = self.stats.plus(&other.stats);
        let DeviceReport { name, placement, read_by, decoded_by, compressed_by, written_by, .. } = other;
        self.name = format!("{}, {name}", self.name);
        let fields = [
            (&mut self.placement, placement),
            (&mut self.read_by, read_by),
            (&mut self.decoded_by, decoded_by),
            (&mut self.compressed_by, compressed_by),
            (&mut self.written_by, written_by),
        ];
        for (mine, other) in fields {
            if mine.is_empty() {
                *mine = other;
            } else if !other.is_empty() && *mine != other {
                *mine = format!("{mine}, {other}");
            }
        }
    }

    /// Adds the fallbacks of another operation that was a part of this one.
    pub(crate) fn take_fallbacks(&mut self, other: Option<&DeviceReport>) {
        for it in other.iter().flat_map(|other| &other.fallbacks) {
            self.note_fallback(it.stage, &it.reason, it.blocks);
        }
    }

    /// Adds a fallback. Fallbacks with the same stage and reason share one entry.
    pub(crate) fn note_fallback(&mut self, stage: &'static str, reason: impl ToString, blocks: u64) {
        let reason = reason.to_string();
        match self.fallbacks.iter_mut().find(|known| known.stage == stage && known.reason == reason) {
            Some(known) => known.blocks += blocks,
            None => self.fallbacks.push(Fallback { stage, reason, blocks }),
        }
    }
}

/// What a read did: counts, time per stage, and corrupt blocks that were filled.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ReadReport {
    /// Where the pixels were decoded: `cpu`, `opencl`, `cuda`.
    pub device: &'static str,
    /// What the device did, if the request named one.
    pub gpu: Option<DeviceReport>,
    /// The name of the codec.
    pub codec: &'static str,
    /// The number of threads that worked.
    pub threads: usize,
    /// The number of decoded blocks.
    pub blocks: u64,
    /// The number of blocks that are not stored and were filled.
    pub sparse_blocks: u64,
    /// The number of blocks whose pixels came from the cache.
    pub kept_blocks: u64,
    /// The number of batches in which the blocks were fetched.
    pub batches: u64,
    /// Compressed bytes fetched.
    pub bytes_fetched: u64,
    /// Bytes decoded, before windowing and band selection.
    pub bytes_decoded: u64,
    /// Time spent fetching, summed over threads.
    pub fetch_time: Duration,
    /// Time spent decoding and placing, summed over threads.
    pub decode_time: Duration,
    /// Time from start to end of the read.
    pub wall_time: Duration,
    /// Working memory of all threads together in bytes, without the output. For a read on a device, this is
    /// the pinned memory on the host.
    pub working_bytes: u64,
    /// The number of corrupt blocks that were filled, as the request allows.
    pub filled_blocks: u64,
    /// The filled blocks, each with its error. The list stops at [`MAX_LISTED`](ReadReport::MAX_LISTED)
    /// entries, because millions of entries would need more memory than the pixels.
    pub filled: Vec<(BlockName, String)>,
    /// Whether the nodata value occurs in the pixels, if a device looked for it ([`Unpack`](crate::read::Unpack)).
    pub nodata_found: Option<bool>,
    /// Warnings about the file that do not concern the pixels that were read, for example a broken chain of IFDs.
    pub warnings: Vec<String>,
}

impl ReadReport {
    /// The most blocks that [`filled`](ReadReport::filled) lists.
    pub const MAX_LISTED: usize = 1000;

    /// Adds a block that was filled.
    pub(crate) fn note_filled(&mut self, block: BlockName, reason: impl ToString) {
        self.filled_blocks += 1;
        if self.filled.len() < ReadReport::MAX_LISTED {
            self.filled.push((block, reason.to_string()));
        }
    }

    /// Adds the counts of another thread.
    pub(crate) fn merge(&mut self, other: ReadReport) {
        self.blocks += other.blocks;
        self.sparse_blocks += other.sparse_blocks;
        self.kept_blocks += other.kept_blocks;
        self.batches += other.batches;
        self.bytes_fetched += other.bytes_fetched;
        self.bytes_decoded += other.bytes_decoded;
        self.fetch_time += other.fetch_time;
        self.decode_time += other.decode_time;
        self.working_bytes += other.working_bytes;
        self.filled_blocks += other.filled_blocks;
        let room = ReadReport::MAX_LISTED.saturating_sub(self.filled.len());
        self.filled.extend(other.filled.into_iter().take(room));
    }
}
