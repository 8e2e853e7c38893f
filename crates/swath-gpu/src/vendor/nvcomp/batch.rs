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
    /// Bytes of room at each address of `to`.
    pub(crate) room: u64,
    /// The array that receives the decompressed sizes.
    pub(crate) written: u64,
    /// Addresses to decompress to.
    pub(crate) to: u64,
    /// The array that receives a status of 32 bits for each chunk.
    pub(crate) statuses: u64,
    /// Number of chunks.
    pub(crate) count: u64,
    /// Working memory of the size that [`NvComp::decompress_temp`] returns.
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
    /// Addresses to compress to, each with the room that [`NvComp::compress_bound`] returns.
    pub(crate) to: u64,
    /// The array that receives the compressed sizes.
    pub(crate) written: u64,
    /// The array that receives a status of 32 bits for each chunk.
    pub(crate) statuses: u64,
    /// Number of chunks.
    pub(crate) count: u64,
    /// Working memory of the size that [`NvComp::compress_temp`] returns.
    pub(crate) temp: u64,
    /// Its size.
    pub(crate) temp_bytes: u64,
}

impl NvComp {
    /// Bytes of working memory to decompress `count` chunks to `total` bytes, at most `largest` bytes each.
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

    /// Bytes of working memory to compress `count` chunks of `total` bytes together, at most `largest` bytes each.
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

    /// Enqueues the decompression of a batch. The result only states whether it was enqueued: when the stream gets there, the outcome of each
    /// chunk is in its status and its size.
    ///
    /// # Safety
    /// Until the stream gets there, the arrays are device memory of `count` entries each, which point to ranges of device memory with the
    /// alignment that [`decompress_alignment`](NvComp::decompress_alignment) returns, and the working memory has its stated size. The
    /// stream is one of the current context, or null.
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

    /// Enqueues the compression of a batch. The result only states whether it was enqueued, as for [`decompress`](NvComp::decompress).
    ///
    /// # Safety
    /// As for [`decompress`](NvComp::decompress), with the alignment that [`compress_alignment`](NvComp::compress_alignment) returns, and
    /// at each address to compress to the room that [`compress_bound`](NvComp::compress_bound) returns.
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
