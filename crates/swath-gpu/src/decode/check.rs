//! Checks a batch before the device gets it.

use super::Target;
use crate::decode::block::Block;
use crate::decode::job::DecodeJob;

/// Checks what the kernels do not check: that the blocks of a batch lie in its payload, and their pixels in the block and in the target.
/// The kernels check compressed streams byte by byte, because a file may be hostile; these numbers come from the engine.
pub(super) fn check(job: &DecodeJob, bands: &[u32], blocks: &[Block], payload: usize, target: Target<'_>) {
    let (out_bands, rows, cols) = match target {
        Target::Host { bands, rows, cols, .. } => (bands as u64, rows, cols),
        Target::Raster { raster, band, row, col } => {
            let left = |all: u64, used: u64| all.checked_sub(used).expect("the batch begins in the raster");
            (left(raster.bands() as u64, band as u64), left(raster.rows(), row), left(raster.cols(), col))
        }
    };
    assert!(bands.iter().all(|&band| band < job.samples), "bands are samples of a pixel");
    match target {
        Target::Host { bands: asked, .. } => {
            assert!(job.planar || asked == bands.len(), "every band has its place");
            assert!(job.unpack.is_none(), "samples are converted only for a raster");
        }
        Target::Raster { raster, .. } => {
            assert!(job.planar || bands.len() as u64 <= out_bands, "every band has its place");
            let size = job.unpack.as_ref().map_or(job.size as usize, |unpack| unpack.target().size());
            assert_eq!(size, raster.dtype().size(), "samples have the size of those of the raster");
            if let Some(unpack) = &job.unpack {
                assert_eq!((unpack.source().size(), unpack.target()), (job.size as usize, raster.dtype()));
                let factors = unpack.table_bytes() / 16;
                assert!(factors == 0 || factors >= raster.bands(), "every band has its factors");
            }
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
