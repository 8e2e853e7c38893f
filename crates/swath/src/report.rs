//! What a read did.

use std::time::Duration;

use swath_gpu::{DeviceStats, Gpu};

use crate::error::BlockName;

/// A part of the work that a device could not do and the CPU did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// What was to be done.
    pub stage: &'static str,
    /// Why the device could not.
    pub reason: String,
    /// Blocks that it concerned, if any.
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
    /// Its name.
    pub name: String,
    /// By what compressed bytes reached it, if it read any.
    pub read_by: String,
    /// What decoded them there.
    pub decoded_by: String,
    /// What compressed the blocks that were written.
    pub compressed_by: String,
    /// By what they reached the file, if not through the host.
    pub written_by: String,
    /// What it did, counted. Operations that use the device at the same time are counted too, and the peak is that of all since the
    /// device was opened or [`Gpu::reset_peak`] was called.
    pub stats: DeviceStats,
    /// What the CPU did in its place.
    pub fallbacks: Vec<Fallback>,
}

impl DeviceReport {
    /// There was no device, and the CPU did everything.
    pub(crate) fn none(reason: impl ToString, blocks: u64) -> DeviceReport {
        let mut report = DeviceReport { name: "none".into(), ..DeviceReport::default() };
        report.note_fallback("everything", reason, blocks);
        report
    }

    /// Begin to count.
    pub(crate) fn begin(gpu: &Gpu) -> DeviceReport {
        let mut report = DeviceReport { name: gpu.info().name.clone(), stats: gpu.stats(), ..DeviceReport::default() };
        if let Some(reason) = gpu.passed_over() {
            report.note_fallback("CUDA was passed over", reason, 0);
        }
        report
    }

    /// Count what was done since the beginning.
    pub(crate) fn end(&mut self, gpu: &Gpu) {
        self.stats = gpu.stats().since(&self.stats);
    }

    /// Note what the CPU did in another operation that was a part of this one.
    pub(crate) fn take_fallbacks(&mut self, other: Option<&DeviceReport>) {
        for it in other.iter().flat_map(|other| &other.fallbacks) {
            self.note_fallback(it.stage, &it.reason, it.blocks);
        }
    }

    /// Note what the CPU did; the same reason is noted once.
    pub(crate) fn note_fallback(&mut self, stage: &'static str, reason: impl ToString, blocks: u64) {
        let reason = reason.to_string();
        match self.fallbacks.iter_mut().find(|known| known.stage == stage && known.reason == reason) {
            Some(known) => known.blocks += blocks,
            None => self.fallbacks.push(Fallback { stage, reason, blocks }),
        }
    }
}

/// What a read did: how much of what, how long each stage took, what went wrong and was filled.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ReadReport {
    /// Where the pixels were decoded: `cpu`, `opencl`, `cuda`.
    pub device: &'static str,
    /// What a device did, if one was asked to.
    pub gpu: Option<DeviceReport>,
    /// The codec's name.
    pub codec: &'static str,
    /// Threads that worked.
    pub threads: usize,
    /// Blocks that were decoded.
    pub blocks: u64,
    /// Blocks that are not stored and were filled.
    pub sparse_blocks: u64,
    /// Blocks whose pixels were kept from an earlier read.
    pub kept_blocks: u64,
    /// Batches in which the blocks were fetched.
    pub batches: u64,
    /// Compressed bytes fetched.
    pub bytes_fetched: u64,
    /// Bytes decoded, before windowing and band selection.
    pub bytes_decoded: u64,
    /// Time spent fetching, summed over threads.
    pub fetch_time: Duration,
    /// Time spent decoding and placing, summed over threads.
    pub decode_time: Duration,
    /// Time from start to end.
    pub wall_time: Duration,
    /// Bytes of working memory of all threads together, the output not included; of a device, pinned memory on the host.
    pub working_bytes: u64,
    /// Corrupt blocks that were filled because the caller asked for it.
    pub filled_blocks: u64,
    /// Those blocks, each with what was wrong: the first [`MAX_LISTED`](ReadReport::MAX_LISTED) of them, as a list of millions would
    /// take more memory than the pixels.
    pub filled: Vec<(BlockName, String)>,
}

impl ReadReport {
    /// The most blocks that [`filled`](ReadReport::filled) lists.
    pub const MAX_LISTED: usize = 1000;

    /// Note a block that was filled.
    pub(crate) fn note_filled(&mut self, block: BlockName, reason: impl ToString) {
        self.filled_blocks += 1;
        if self.filled.len() < ReadReport::MAX_LISTED {
            self.filled.push((block, reason.to_string()));
        }
    }

    /// Add what another thread did.
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
