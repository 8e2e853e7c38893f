//! The report of a write.

use std::time::Duration;

use crate::report::DeviceReport;
use crate::write::statistics::BandStatistics;

/// What a write did: counts, and the time of each stage.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct WriteReport {
    /// The executor that extracted blocks and computed overviews: `cpu`, `opencl` or `cuda`.
    pub device: &'static str,
    /// What a device did, if the caller chose one.
    pub gpu: Option<DeviceReport>,
    /// The number of threads that encoded.
    pub threads: usize,
    /// The number of blocks of all levels and masks.
    pub blocks: u64,
    /// The number of blocks that are not stored because they are empty.
    pub sparse_blocks: u64,
    /// The number of blocks that were copied from the source.
    pub copied_blocks: u64,
    /// Compressed bytes of all blocks.
    pub bytes_encoded: u64,
    /// Exact statistics of each band, if the plan has them.
    pub statistics: Vec<BandStatistics>,
    /// The size of the file in bytes.
    pub file_bytes: u64,
    /// Whether it is a BigTIFF.
    pub big_tiff: bool,
    /// The greatest amount of memory for rows of all levels at one time, in bytes.
    pub peak_buffer_bytes: u64,
    /// Time that the encoder waited for the source.
    pub source_wait: Duration,
    /// Time spent appending to the spool, while other threads encoded.
    pub append_time: Duration,
    /// Time spent laying out and publishing the file.
    pub commit_time: Duration,
    /// Time from start to end.
    pub wall_time: Duration,
}
