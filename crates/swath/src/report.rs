//! What a read did.

use std::time::Duration;

use crate::error::BlockName;

/// What a read did: how much of what, how long each stage took, what went wrong and was filled.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Report {
    /// Where the pixels were decoded.
    pub device: &'static str,
    /// The codec's name.
    pub codec: &'static str,
    /// Threads that worked.
    pub threads: usize,
    /// Blocks that were decoded.
    pub blocks: u64,
    /// Blocks that are not stored and were filled.
    pub sparse_blocks: u64,
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
    /// Bytes of working memory of all threads together, the output not included.
    pub working_bytes: u64,
    /// Corrupt blocks that were filled because the caller asked for it.
    pub filled_blocks: u64,
    /// Those blocks, each with what was wrong: the first [`MAX_LISTED`](Report::MAX_LISTED) of them, as a list of millions would
    /// take more memory than the pixels.
    pub filled: Vec<(BlockName, String)>,
}

impl Report {
    /// The most blocks that [`filled`](Report::filled) lists.
    pub const MAX_LISTED: usize = 1000;

    /// Note a block that was filled.
    pub(crate) fn note_filled(&mut self, block: BlockName, reason: impl ToString) {
        self.filled_blocks += 1;
        if self.filled.len() < Report::MAX_LISTED {
            self.filled.push((block, reason.to_string()));
        }
    }

    /// Add what another thread did.
    pub(crate) fn merge(&mut self, other: Report) {
        self.blocks += other.blocks;
        self.sparse_blocks += other.sparse_blocks;
        self.batches += other.batches;
        self.bytes_fetched += other.bytes_fetched;
        self.bytes_decoded += other.bytes_decoded;
        self.fetch_time += other.fetch_time;
        self.decode_time += other.decode_time;
        self.working_bytes += other.working_bytes;
        self.filled_blocks += other.filled_blocks;
        let room = Report::MAX_LISTED.saturating_sub(self.filled.len());
        self.filled.extend(other.filled.into_iter().take(room));
    }
}
