//! The size of batches: how many blocks the device decodes at once.
//!
//! A batch holds as many blocks as the device decodes at the same time, several times over, as far as its memory allows. The kernels decode a
//! block with a few threads, so a GPU needs thousands of blocks to be busy.

use std::collections::VecDeque;

use swath_gpu::{DecodeJob, Gpu, LANES, LargestBatch};

use crate::error::Result;
use crate::read::plan::{BlockRect, ReadPlan};

/// The most device memory that the batches of a read hold together, unless the request sets another budget. The default is a quarter of
/// the free memory, up to this.
pub const MAX_DEFAULT_GPU_MEMORY: u64 = 4 << 30;

/// The same for an OpenCL device that is not a GPU: its few cores are busy with few blocks, and its memory is that of the host.
const MAX_DEFAULT_HOST_MEMORY: u64 = 384 << 20;

/// The most blocks in one batch. More blocks do not keep a device busier, and their table needs memory.
const BATCH_BLOCKS: u64 = 1 << 16;

/// The most blocks in a batch, in multiples of those that the device decodes at the same time: enough that the blocks that end last cost
/// little, and few enough that the next batch is uploaded meanwhile.
const WAVES: u64 = 4;

/// Bytes of decoded blocks that a batch may have on any device: a smaller transfer costs more than it takes.
const LEAST_BYTES: u64 = 128 << 20;

/// The most parts that a row of blocks is divided into, so that batches fill their memory.
const MAX_PARTS: u64 = 16;

/// Bytes that the tables of a batch need for each block.
const TABLE_BYTES: u64 = 128;

/// The device memory of a read without a budget: a quarter of the free memory, including what earlier reads left for later ones.
fn default_budget(free: u64, kept: u64, is_gpu: bool) -> u64 {
    let most = if is_gpu { MAX_DEFAULT_GPU_MEMORY } else { MAX_DEFAULT_HOST_MEMORY };
    (free.saturating_add(kept) / 4).min(most)
}

/// The device memory that a read or write may hold: the caller's budget, or the default.
pub(crate) fn budget(requested: Option<u64>, gpu: &Gpu) -> Result<u64> {
    let memory = gpu.memory()?;
    let budget = requested.unwrap_or_else(|| default_budget(memory.free, gpu.kept_bytes(), gpu.info().is_gpu));
    // A budget above what the guard allows would only make batches that have to be split.
    Ok(budget.min(memory.total / 10 * 9))
}

/// What the size of a batch depends on. A *position* is a row and a column of the grid: in a planar file, it has a block of each band.
#[derive(Debug, Clone, Copy)]
struct Sizing {
    /// Device memory for the blocks of a batch, in bytes.
    room: u64,
    /// Device memory that a position needs, in bytes.
    position_bytes: u64,
    /// Bytes of the decoded blocks of a position.
    decoded_bytes: u64,
    /// Blocks of a position.
    planes: u64,
    /// Blocks that the device decodes at the same time.
    wave: u64,
    /// The most blocks that the decoder takes at once.
    most_blocks: u64,
    /// Positions of the read.
    rows: u64,
    cols: u64,
}

/// The size of a batch: rows and columns of positions, and the blocks of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BatchSize {
    rows: u64,
    cols: u64,
    planes: u64,
}

impl Sizing {
    /// The size of the batches of a read.
    fn batch(&self) -> BatchSize {
        let planes = self.planes.max(1);
        let positions = self.rows.saturating_mul(self.cols).max(1);
        let fit = self.room / self.position_bytes.max(1);
        if fit == 0 {
            // A single position is divided: as many of its blocks as fit, at least one.
            let fit = self.room / (self.position_bytes / planes).max(1);
            return BatchSize { rows: 1, cols: 1, planes: fit.clamp(1, planes.min(self.most_blocks.max(1))) };
        }
        let useful = (WAVES * self.wave / planes).max(LEAST_BYTES / self.decoded_bytes.max(1));
        let most = fit.min(useful).min(self.most_blocks / planes).clamp(1, positions);
        // If all batches are in flight at the same time, equal ones overlap best.
        let count = positions.div_ceil(most);
        let most = if count <= LANES as u64 { positions.div_ceil(count) } else { most };
        let (rows, cols) = rectangle(most, self.rows, self.cols);
        // A batch may hold fewer blocks than a planar file has bands.
        BatchSize { rows, cols, planes: planes.min(self.most_blocks.max(1)) }
    }
}

/// The rows and columns of a rectangle of at most `most` positions: whole rows, or an equal part of each row where that makes fewer batches.
fn rectangle(most: u64, rows: u64, cols: u64) -> (u64, u64) {
    let fewest = cols.div_ceil(most).max(1);
    let candidates = (fewest..=fewest.max(MAX_PARTS).min(cols.max(1))).map(|parts| {
        let wide = cols.div_ceil(parts).max(1);
        ((most / wide).clamp(1, rows.max(1)), wide)
    });
    // Last: as many positions of one row as fit.
    let mut candidates = candidates.chain([(1, most.min(cols.max(1)))]);
    let batches = |(down, wide): (u64, u64)| rows.div_ceil(down).saturating_mul(cols.div_ceil(wide));
    let fewest = candidates.clone().map(batches).min().unwrap_or(1);
    // Whole rows are adjacent in the file, so parts of rows must save a batch.
    candidates.find(|&it| batches(it) == fewest).unwrap_or((1, 1))
}

/// The batches of a read, and the memory that the largest of them is expected to need, if there are several.
#[derive(Debug)]
pub(super) struct Batches {
    pub(super) waiting: VecDeque<BlockRect>,
    pub(super) largest: LargestBatch,
}

/// Divides a read into batches that fit in `lane_bytes` of device memory. `stays` says whether the pixels stay on the device, in a raster
/// that is no part of this memory.
pub(super) fn batches(plan: &ReadPlan<'_>, job: &DecodeJob, lane_bytes: u64, stays: bool) -> Batches {
    let grid = &plan.level.blocks.grid;
    let BlockRect { rows, cols, bands } = plan.all_blocks();
    let bands = bands.len();
    let planes = if plan.is_planar() { bands as u64 } else { 1 };
    let pixels = grid.block_width.saturating_mul(grid.block_height).saturating_mul(bands as u64);
    let pixels = if stays { 0 } else { pixels.saturating_mul(plan.level.dtype.size() as u64) };
    let decoded = plan.level.block_bytes().saturating_mul(planes);
    let compressed = compressed_bytes(plan).saturating_add(TABLE_BYTES).saturating_mul(planes);
    // Uncompressed blocks are placed from the bytes of the file.
    let held = if job.is_stored() { 0 } else { decoded };
    let sizing = Sizing {
        room: lane_bytes.saturating_sub(job.scratch_bytes(BATCH_BLOCKS, lane_bytes)),
        position_bytes: compressed.saturating_add(held).saturating_add(pixels),
        decoded_bytes: decoded,
        planes,
        wave: job.wave(),
        most_blocks: BATCH_BLOCKS.min(job.most_blocks() as u64),
        rows: rows.end - rows.start,
        cols: cols.end - cols.start,
    };
    let size = sizing.batch();
    let deep = if plan.is_planar() { size.planes as usize } else { bands };
    let mut waiting = VecDeque::new();
    for row in rows.clone().step_by(size.rows as usize) {
        for col in cols.clone().step_by(size.cols as usize) {
            for band in (0..bands).step_by(deep.max(1)) {
                waiting.push_back(BlockRect {
                    rows: row..(row + size.rows).min(rows.end),
                    cols: col..(col + size.cols).min(cols.end),
                    bands: band..(band + deep).min(bands),
                });
            }
        }
    }
    let mut largest = LargestBatch::default();
    if waiting.len() > LANES {
        let positions = size.rows.saturating_mul(size.cols);
        let of = |bytes: u64| bytes.saturating_mul(positions) / planes.max(1) * size.planes;
        largest = LargestBatch { compressed: of(compressed), decoded: of(held), pixels: of(pixels) };
    }
    Batches { waiting, largest }
}

/// The compressed bytes of a block, as far as they are known before the tables are read: a quarter more than the average if the file held
/// nothing else, and seldom more than the decoded bytes.
pub(super) fn compressed_bytes(plan: &ReadPlan<'_>) -> u64 {
    let stored = plan.level.block_bytes();
    let blocks = plan.level.blocks.grid.count().unwrap_or(1).max(1);
    let average = plan.level.source.size() / blocks;
    stored.min(average.saturating_add(average / 4).saturating_add(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    /// 8192 x 8192 float32 in tiles of 512, on a device of 108 multiprocessors that hold 18 blocks each.
    const TERRAIN: Sizing = Sizing {
        room: 4 * GIB / LANES as u64,
        position_bytes: 3 * MIB,
        decoded_bytes: MIB,
        planes: 1,
        wave: 108 * 18,
        most_blocks: BATCH_BLOCKS,
        rows: 16,
        cols: 16,
    };

    fn blocks(size: BatchSize) -> u64 {
        size.rows * size.cols * size.planes
    }

    #[test]
    fn default_budget_is_a_quarter_of_free_memory_up_to_4_gib() {
        assert_eq!(default_budget(8 * GIB, 0, true), 2 * GIB);
        assert_eq!(default_budget(80 * GIB, 0, true), 4 * GIB);
        assert_eq!(default_budget(GIB, GIB, true), GIB / 2, "memory that an earlier read left is free for this one");
        assert_eq!(default_budget(u64::MAX, u64::MAX, true), 4 * GIB);
        assert_eq!(default_budget(16 * GIB, 0, false), 384 * MIB, "the memory of a CPU is that of the host");
    }

    #[test]
    fn image_of_256_tiles_is_one_batch() {
        assert_eq!(TERRAIN.batch(), BatchSize { rows: 16, cols: 16, planes: 1 });
    }

    #[test]
    fn read_of_4_gb_has_12_blocks_per_multiprocessor_in_flight() {
        for (rows, cols) in [(64, 64), (4096, 1), (63, 67), (32, 128), (128, 32)] {
            // Blocks of 3/4 of their decoded size; pixels that go to the host, and pixels that stay.
            for position_bytes in [11 * MIB / 4, 7 * MIB / 4] {
                let size = Sizing { rows, cols, position_bytes, ..TERRAIN }.batch();
                let in_flight = LANES as u64 * blocks(size);
                assert!(in_flight >= 12 * 108, "{rows} x {cols}: {size:?}");
                assert!(blocks(size) * position_bytes <= TERRAIN.room, "{rows} x {cols}: {size:?}");
            }
        }
    }

    #[test]
    fn batch_is_not_bound_to_whole_rows() {
        // Rows of 1,000 blocks, and memory for 1,944: whole rows would fill half of it.
        let size = Sizing { room: 1944 * 3 * MIB, rows: 1000, cols: 1000, ..TERRAIN }.batch();
        assert!(blocks(size) > 1944 * 8 / 10 && size.cols < 1000, "{size:?}");
        // Fewer blocks than a row has.
        let size = Sizing { room: 600 * 3 * MIB, rows: 10, cols: 1000, ..TERRAIN }.batch();
        assert!(blocks(size) > 500 && size.cols < 1000, "{size:?}");
    }

    #[test]
    fn batch_never_exceeds_memory_or_the_decoder() {
        for room in [1, MIB, 3 * MIB, 10 * MIB, 100 * MIB, GIB] {
            for planes in [1, 3, 200] {
                for most_blocks in [1, 32, BATCH_BLOCKS] {
                    let sizing = Sizing {
                        room,
                        planes,
                        most_blocks,
                        position_bytes: 3 * MIB * planes,
                        decoded_bytes: MIB * planes,
                        rows: 300,
                        cols: 7,
                        ..TERRAIN
                    };
                    let size = sizing.batch();
                    assert!(blocks(size) >= 1 && blocks(size) <= most_blocks, "{sizing:?}: {size:?}");
                    assert!(blocks(size) == 1 || blocks(size) * 3 * MIB <= room, "{sizing:?}: {size:?}");
                }
            }
        }
    }

    #[test]
    fn small_tiles_are_divided_so_that_transfers_overlap() {
        // 65,536 tiles of 64 KiB: memory for 7,000 of them, and the device decodes 1,944 at a time.
        let small = Sizing { position_bytes: 192 << 10, decoded_bytes: 64 << 10, rows: 256, cols: 256, ..TERRAIN };
        let size = small.batch();
        assert!((6000..=4 * 1944).contains(&blocks(size)), "{size:?}");
        // A device with few cores gets batches that are worth a transfer.
        let size = Sizing { wave: 36, ..small }.batch();
        assert_eq!(blocks(size) * (64 << 10), 128 * MIB, "{size:?}");
    }
}
