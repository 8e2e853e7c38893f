//! The codec with which a device compresses tiles.

use std::fmt;

use swath_codec::{Compress, Shape};

use super::pictures::PictureCodec;
use super::pool::POOL_ALIGN;
use crate::backend::Api;
use crate::backend::kernel::Kernel;
use crate::decode::route::CodecBackend;
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::vendor::nvcomp::{Chunked, NvComp};
use crate::vendor::{Library, version_of};

/// The compression of tiles on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TileCodec {
    /// None: the CPU compresses the tiles.
    #[default]
    None,
    /// PackBits, with Swath's kernel.
    PackBits,
    /// nvCOMP.
    NvComp(NvCompCodec),
    /// nvJPEG2000 or nvJPEG.
    Picture(PictureCodec),
}

/// The settings of nvCOMP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NvCompCodec {
    pub(super) codec: Chunked,
    /// nvCOMP's search algorithm for Deflate; higher numbers are slower and compress more.
    pub(super) algorithm: i32,
    /// The two bytes before a Deflate stream.
    pub(super) header: u16,
}

impl TileCodec {
    /// Returns the codec with which a device can compress tiles of this shape. If there is none and `choice`
    /// does not require one, returns [`TileCodec::None`].
    ///
    /// # Errors
    /// If `choice` requires NVIDIA's library: [`Error::NotCuda`], [`Error::NoLibrary`], or the error of the
    /// library.
    pub fn new(gpu: &Gpu, compress: &Compress, shape: Shape, choice: CodecBackend) -> Result<TileCodec> {
        let nvcomp = |codec, algorithm, header| TileCodec::NvComp(NvCompCodec { codec, algorithm, header });
        let codec = match *compress {
            Compress::PackBits => return Ok(TileCodec::PackBits),
            Compress::Deflate { level } => {
                let (algorithm, header) = deflate_algorithm(level);
                nvcomp(Chunked::Deflate, algorithm, header)
            }
            Compress::Zstd { .. } => nvcomp(Chunked::Zstd, 0, 0),
            Compress::Lz4 => nvcomp(Chunked::Lz4, 0, 0),
            _ => PictureCodec::new(compress, shape).map_or(TileCodec::None, TileCodec::Picture),
        };
        let available = match choice {
            CodecBackend::Builtin => return Ok(TileCodec::None),
            _ if codec == TileCodec::None => return Ok(codec),
            _ => codec.available(gpu),
        };
        match available {
            Ok(()) => Ok(codec),
            Err(_) if choice == CodecBackend::Auto => Ok(TileCodec::None),
            Err(reason) => Err(reason),
        }
    }

    /// Whether this device and the libraries on this machine can compress with the codec.
    fn available(&self, gpu: &Gpu) -> Result<()> {
        if gpu.info().api != Api::Cuda {
            return Err(Error::NotCuda { device: gpu.info().name.clone() });
        }
        match self {
            TileCodec::NvComp(codec) => codec.available(),
            TileCodec::Picture(codec) => codec.available(),
            TileCodec::None | TileCodec::PackBits => Ok(()),
        }
    }

    /// The smallest number of rows and columns of a tile.
    pub fn least_side(&self) -> u64 {
        match self {
            TileCodec::Picture(codec) => codec.least_side(),
            TileCodec::None | TileCodec::PackBits | TileCodec::NvComp(_) => 1,
        }
    }
}

impl fmt::Display for TileCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TileCodec::None => write!(f, "the CPU"),
            TileCodec::PackBits => write!(f, "kernel {}", Kernel::PackBitsEncode.name()),
            TileCodec::NvComp(_) => write!(f, "{}", version_of(Library::NvComp)),
            TileCodec::Picture(codec) => write!(f, "{}", codec.name()),
        }
    }
}

impl NvCompCodec {
    fn available(&self) -> Result<()> {
        let align = NvComp::get()?.compress_alignment(self.codec, self.algorithm)?;
        match align.input.max(align.output) {
            bytes if bytes > POOL_ALIGN => Err(Error::Alignment { library: Library::NvComp, what: "tiles", bytes }),
            _ => Ok(()),
        }
    }

    /// The number of bytes of the frame before a stream.
    pub(super) fn before(&self) -> u64 {
        match self.codec {
            Chunked::Zstd => 0,
            Chunked::Deflate => 2,
            Chunked::Lz4 => 11,
        }
    }

    pub(super) fn is_deflate(&self) -> bool {
        self.codec == Chunked::Deflate
    }

    /// The number of bytes of the largest tile that nvCOMP receives. An LZ4 frame has blocks of at most 4 MiB.
    /// For ZSTD, one sentence of nvCOMP's header allows 2 GiB, and another says that the result is undefined
    /// above 16 MB.
    pub(super) fn largest(&self) -> u64 {
        match self.codec {
            Chunked::Deflate => i32::MAX as u64,
            Chunked::Zstd => 16 << 20,
            Chunked::Lz4 => (4 << 20) - (64 << 10),
        }
    }
}

/// Returns nvCOMP's search algorithm for a compression level of Deflate, and zlib's header for it (RFC 1950,
/// FLEVEL).
fn deflate_algorithm(level: i32) -> (i32, u16) {
    match level {
        ..=2 => (1, 0x0178),
        3..=5 => (2, 0x5e78),
        6..=8 => (4, 0x9c78),
        _ => (5, 0xda78),
    }
}
