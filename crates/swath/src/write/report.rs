//! What a write did.

use std::time::Duration;

use crate::report::DeviceReport;
use crate::write::statistics::BandStatistics;

/// What a write did: how much of what, and how long each stage took.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct WriteReport {
    /// What cut blocks and made overviews: `cpu`, `opencl` or `cuda`.
    pub device: &'static str,
    /// What a device did, if the caller chose one.
    pub gpu: Option<DeviceReport>,
    /// Threads that encoded.
    pub threads: usize,
    /// Blocks of all levels and masks.
    pub blocks: u64,
    /// Those that are not stored because they are empty.
    pub sparse_blocks: u64,
    /// Those that were copied from the source.
    pub copied_blocks: u64,
    /// Compressed bytes of all blocks.
    pub bytes_encoded: u64,
    /// Exact statistics of each band, if the plan has them.
    pub statistics: Vec<BandStatistics>,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Whether it is a BigTIFF.
    pub big_tiff: bool,
    /// The most memory that rows of all levels took at once.
    pub peak_buffer_bytes: u64,
    /// Time that encoding waited for the source.
    pub source_wait: Duration,
    /// Time spent appending to the spool, while others encoded.
    pub append_time: Duration,
    /// Time spent laying out and publishing the file.
    pub commit_time: Duration,
    /// Time from start to end.
    pub wall_time: Duration,
}
