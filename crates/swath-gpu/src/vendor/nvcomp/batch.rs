//! Compressing and decompressing a batch of chunks with nvCOMP.

use super::{Chunked, CudaStream, NvComp, Options, Temp, check, symbol};
use crate::error::Result;

/// A batch to decompress: device addresses of arrays of `count`, and of working memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decompress {
    /// Addresses of the compressed chunks.
    pub(crate) from: u64,
    /// Their sizes.
    pub(crate) from_bytes: u64,
    /// Bytes that there is room for at each of `to`.
    pub(crate) room: u64,
    /// Where the sizes of what was decompressed are written.
    pub(crate) written: u64,
    /// Addresses to decompress to.
    pub(crate) to: u64,
    /// Where a status for each chunk is written, 32 bits each.
    pub(crate) statuses: u64,
    /// Chunks.
    pub(crate) count: u64,
    /// Working memory, as much as [`NvComp::decompress_temp`] says.
    pub(crate) temp: u64,
    /// Its size.
    pub(crate) temp_bytes: u64,
}

/// A batch to compress: device addresses of arrays of `count`, and of working memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Compress {
    /// Addresses of the chunks.
    pub(crate) from: u64,
    /// Their sizes.
    pub(crate) from_bytes: u64,
    /// The largest of the sizes.
    pub(crate) largest: u64,
    /// Addresses to compress to, each with the room that [`NvComp::compress_bound`] says.
    pub(crate) to: u64,
    /// Where the sizes of what was compressed are written.
    pub(crate) written: u64,
    /// Where a status for each chunk is written, 32 bits each.
    pub(crate) statuses: u64,
    /// Chunks.
    pub(crate) count: u64,
    /// Working memory, as much as [`NvComp::compress_temp`] says.
    pub(crate) temp: u64,
    /// Its size.
    pub(crate) temp_bytes: u64,
}

impl NvComp {
    /// Bytes of working memory to decompress a batch of `count` chunks that are `total` bytes then, the largest of `largest`.
    ///
    /// # Safety
    /// The stream is one of the current context, or null.
    pub(crate) unsafe fn decompress_temp(
        &self,
        codec: Chunked,
        count: u64,
        largest: u64,
        total: u64,
        stream: CudaStream,
    ) -> Result<u64> {
        let (mut bytes, options) = (0, Options::decompress(codec));
        // SAFETY: there is room for the answer, and the stream is as the caller says.
        let (call, code) = unsafe {
            match &self.functions(codec).temp {
                Temp::Five(temp) => (
                    symbol!(codec, "DecompressGetTempSizeAsync"),
                    (temp.decompress)(count, largest, options, &mut bytes, total),
                ),
                Temp::Six(temp) => (
                    symbol!(codec, "DecompressGetTempSize"),
                    (temp.decompress)(count, largest, options, &mut bytes, total, stream),
                ),
            }
        };
        check(call, code)?;
        Ok(bytes)
    }

    /// Bytes of working memory to compress a batch of `count` chunks of together `total` bytes, the largest of `largest`.
    ///
    /// # Safety
    /// The stream is one of the current context, or null.
    pub(crate) unsafe fn compress_temp(
        &self,
        codec: Chunked,
        algorithm: i32,
        count: u64,
        largest: u64,
        total: u64,
        stream: CudaStream,
    ) -> Result<u64> {
        let (mut bytes, options) = (0, Options::compress(codec, algorithm));
        // SAFETY: there is room for the answer, and the stream is as the caller says.
        let (call, code) = unsafe {
            match &self.functions(codec).temp {
                Temp::Five(temp) => (
                    symbol!(codec, "CompressGetTempSizeAsync"),
                    (temp.compress)(count, largest, options, &mut bytes, total),
                ),
                Temp::Six(temp) => (
                    symbol!(codec, "CompressGetTempSize"),
                    (temp.compress)(count, largest, options, &mut bytes, total, stream),
                ),
            }
        };
        check(call, code)?;
        Ok(bytes)
    }

    /// Let the stream decompress a batch. The result says only whether it was begun: what became of each chunk is in its status
    /// and in its size, once the stream has come so far.
    ///
    /// # Safety
    /// Until the stream has come so far, the arrays are device memory of `count` entries each, which name ranges of device
    /// memory that are aligned as [`decompress_alignment`](NvComp::decompress_alignment) says, and the working memory is as
    /// large as it says. The stream is one of the current context, or null.
    pub(crate) unsafe fn decompress(&self, codec: Chunked, work: &Decompress, stream: CudaStream) -> Result<()> {
        // SAFETY: as the caller says; the order of the arguments is that of the header.
        let code = unsafe {
            (self.functions(codec).codec.decompress)(
                work.from,
                work.from_bytes,
                work.room,
                work.written,
                work.count,
                work.temp,
                work.temp_bytes,
                work.to,
                Options::decompress(codec),
                work.statuses,
                stream,
            )
        };
        check(symbol!(codec, "DecompressAsync"), code)
    }

    /// Let the stream compress a batch. The result says only whether it was begun, as for
    /// [`decompress`](NvComp::decompress).
    ///
    /// # Safety
    /// As for [`decompress`](NvComp::decompress), with the alignment that
    /// [`compress_alignment`](NvComp::compress_alignment) says, and the room that
    /// [`compress_bound`](NvComp::compress_bound) says at each address to compress to.
    pub(crate) unsafe fn compress(
        &self,
        codec: Chunked,
        algorithm: i32,
        work: &Compress,
        stream: CudaStream,
    ) -> Result<()> {
        // SAFETY: as the caller says; the order of the arguments is that of the header.
        let code = unsafe {
            (self.functions(codec).codec.compress)(
                work.from,
                work.from_bytes,
                work.largest,
                work.count,
                work.temp,
                work.temp_bytes,
                work.to,
                work.written,
                Options::compress(codec, algorithm),
                work.statuses,
                stream,
            )
        };
        check(symbol!(codec, "CompressAsync"), code)
    }
}
