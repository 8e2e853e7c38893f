//! Decodes all blocks of a batch at once, with a kernel of Swath or with nvCOMP.
//!
//! A kernel of Swath checks each block before nvCOMP gets it. After nvCOMP, another kernel checks the status of each block, the number of
//! bytes written and their checksum. Nothing passes through the host.

use crate::backend::kernel::{Arg, Kernel, zstd_scratch};
use crate::decode::block::Block;
use crate::decode::job::{DecodeJob, scratch_share, zstd_groups};
use crate::decode::route::Route;
use crate::error::Result;
use crate::memory::buffer::Buffer;
use crate::stream::Stream;
use crate::vendor::nvcomp::{Chunked, Decompress, NvComp};

/// Blocks that one group of `chunk_admit` checks.
const ADMITTED_BY_GROUP: u32 = 32;

/// The arrays of nvCOMP: their offset in the batch, and the number of blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunks {
    pub(super) at: u64,
    pub(super) count: u64,
}

impl Chunks {
    /// Bytes of the arrays for `count` blocks.
    pub(super) fn bytes(count: u64) -> u64 {
        count * (5 * 8 + 4)
    }

    /// The offset of the n-th array of 64-bit numbers: addresses of streams, their sizes, room for the output, addresses of the output, bytes
    /// written.
    fn array(self, n: u64) -> u64 {
        self.at + n * self.count * 8
    }
}

/// A stream of four bytes that nvCOMP decodes in place of blocks that the file does not store or that it must not get. Every block has room
/// for four bytes.
pub(super) fn stand_in(codec: Chunked) -> &'static [u8] {
    match codec {
        // One stored block.
        Chunked::Deflate => &[1, 4, 0, 0xfb, 0xff, 0, 0, 0, 0],
        // A frame of one raw block, with the size of its content.
        Chunked::Zstd => &[0x28, 0xb5, 0x2f, 0xfd, 0x20, 4, 0x21, 0, 0, 0, 0, 0, 0],
        // Four literals.
        Chunked::Lz4 => &[0x40, 0, 0, 0, 0],
    }
}

/// The number of blocks that are decoded at a time, and their working memory: at most a share of the lane's memory, if possible.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wave {
    pub(super) blocks: u64,
    pub(super) scratch: u64,
}

impl Wave {
    pub(super) fn new(job: &DecodeJob, blocks: &[Block], lane_bytes: u64, stream: &mut Stream) -> Result<Wave> {
        let count = blocks.len() as u64;
        match job.route {
            Route::Stored | Route::NvJpeg2000(_) | Route::NvJpeg { .. } => Ok(Wave { blocks: count, scratch: 0 }),
            Route::Kernel(Kernel::Zstd) => {
                let groups = zstd_groups(count, lane_bytes, job.wave).max(1);
                Ok(Wave { blocks: groups, scratch: groups * zstd_scratch() })
            }
            Route::Kernel(_) => Ok(Wave { blocks: count, scratch: 0 }),
            Route::NvComp(codec, _) => {
                let library = NvComp::get()?;
                let largest = blocks.iter().map(|block| u64::from(block.dst_len)).max().unwrap_or(0).max(4);
                let mut wave = Wave { blocks: count.max(1), scratch: 0 };
                loop {
                    let total = wave.blocks.saturating_mul(largest);
                    stream.ask_library(|stream| {
                        // SAFETY: the call only computes sizes, and the stream belongs to the current context.
                        wave.scratch = unsafe { library.decompress_temp(codec, wave.blocks, largest, total, stream)? };
                        Ok(())
                    })?;
                    if wave.blocks == 1 || wave.scratch <= scratch_share(lane_bytes) {
                        return Ok(wave);
                    }
                    wave.blocks = wave.blocks.div_ceil(2);
                }
            }
        }
    }
}

/// The buffers of a batch, and the offsets of the parts in them.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchBuffers<'a> {
    pub(super) batch: &'a Buffer,
    pub(super) decoded: &'a Buffer,
    pub(super) out: &'a Buffer,
    pub(super) scratch: Option<&'a Buffer>,
    pub(super) zeros_at: u64,
    pub(super) stand_in_at: u64,
    pub(super) chunks: Chunks,
    pub(super) status_bytes: u64,
}

impl BatchBuffers<'_> {
    /// Decodes all blocks, and writes the status of each to the beginning of `out`.
    pub(super) fn decode(&self, job: &DecodeJob, wave: Wave, stream: &mut Stream) -> Result<()> {
        let count = self.chunks.count as u32;
        match job.route {
            // No kernel writes the statuses of uncompressed blocks or of blocks that the host passed to a library: they were uploaded.
            Route::Stored | Route::NvJpeg2000(_) | Route::NvJpeg { .. } => {
                stream.copy(self.batch, self.zeros_at, self.out, 0, self.status_bytes)
            }
            Route::Kernel(kernel) => {
                let args = [Arg::Buffer(self.batch), Arg::Buffer(self.decoded), Arg::Buffer(self.out)];
                let Some(scratch) = self.scratch else {
                    // SAFETY: here and below: the arguments are those of the kernel, and decoding kernels check every access
                    // against the table.
                    return unsafe { stream.launch(kernel, count, &args) };
                };
                // In waves, so that only one wave needs working memory.
                for first in (0..count).step_by(wave.blocks as usize) {
                    let [a, b, c] = args;
                    let args = [a, b, c, Arg::Buffer(scratch), Arg::U32(first)];
                    // SAFETY: as above.
                    unsafe { stream.launch(kernel, (count - first).min(wave.blocks as u32), &args)? };
                }
                Ok(())
            }
            Route::NvComp(codec, _) => self.decode_by_nvcomp(codec, wave, stream),
        }
    }

    fn decode_by_nvcomp(&self, codec: Chunked, wave: Wave, stream: &mut Stream) -> Result<()> {
        let library = NvComp::get()?;
        let (Chunks { at, count }, address) = (self.chunks, self.batch.handle);
        let args = [
            Arg::Buffer(self.batch),
            Arg::Buffer(self.out),
            Arg::U64(address),
            Arg::U64(self.decoded.handle),
            Arg::U64(at),
            Arg::U32(count as u32),
            Arg::U32(codec as u32),
            Arg::U64(self.stand_in_at),
            Arg::U32(stand_in(codec).len() as u32),
        ];
        // SAFETY: as above; the arrays lie in the batch after its compressed bytes.
        unsafe { stream.launch(Kernel::ChunkAdmit, (count as u32).div_ceil(ADMITTED_BY_GROUP), &args)? };
        for first in (0..count).step_by(wave.blocks as usize) {
            let array = |n: u64| address + self.chunks.array(n) + first * 8;
            let work = Decompress {
                from: array(0),
                from_bytes: array(1),
                room: array(2),
                to: array(3),
                written: array(4),
                statuses: address + self.chunks.array(5) + first * 4,
                count: (count - first).min(wave.blocks),
                temp: self.scratch.map_or(0, |scratch| scratch.handle),
                temp_bytes: wave.scratch,
            };
            // SAFETY: the arrays lie in the batch, and their addresses in the batch and in the decoded blocks: `chunk_admit` computed
            // them from a table that was checked. The behaviour of nvCOMP on corrupt streams is undefined; the caller chose nvCOMP.
            unsafe { stream.library("nvCOMP decompress", |stream| library.decompress(codec, &work, stream))? };
        }
        let args = [
            Arg::Buffer(self.batch),
            Arg::Buffer(self.decoded),
            Arg::Buffer(self.out),
            Arg::U64(at),
            Arg::U32(count as u32),
            Arg::U32(codec.frame()),
        ];
        // SAFETY: as above.
        unsafe { stream.launch(Kernel::ChunkCheck, count as u32, &args) }
    }
}
