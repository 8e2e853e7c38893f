//! Which codec a device compresses tiles with.

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

/// How a device compresses tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TileCodec {
    /// Not at all: the CPU compresses them.
    #[default]
    None,
    /// PackBits, by Swath's kernel.
    PackBits,
    /// By nvCOMP.
    NvComp(NvCompCodec),
    /// By nvJPEG2000 or nvJPEG.
    Picture(PictureCodec),
}

/// The settings of nvCOMP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NvCompCodec {
    pub(super) codec: Chunked,
    /// nvCOMP's search algorithm of Deflate, from fast to small.
    pub(super) algorithm: i32,
    /// The two bytes before a stream of Deflate.
    pub(super) header: u16,
}

impl TileCodec {
    /// The codec that a device can compress tiles of this shape with. Where `choice` leaves it open, [`TileCodec::None`] if there is none.
    ///
    /// # Errors
    /// If `choice` demands NVIDIA's library: [`Error::NotCuda`], [`Error::NoLibrary`], or what the library reports.
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

    /// The fewest rows and columns that a tile may have.
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

    /// Bytes of the frame before a stream.
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

    /// Bytes of the largest tile that nvCOMP gets. An LZ4 frame has blocks of 4 MiB at most. For ZSTD, one sentence of nvCOMP's header
    /// allows 2 GiB, and another says that the result is undefined above 16 MB.
    pub(super) fn largest(&self) -> u64 {
        match self.codec {
            Chunked::Deflate => i32::MAX as u64,
            Chunked::Zstd => 16 << 20,
            Chunked::Lz4 => (4 << 20) - (64 << 10),
        }
    }
}

/// nvCOMP's search algorithm for a level of Deflate, and zlib's header for it (RFC 1950, FLEVEL).
fn deflate_algorithm(level: i32) -> (i32, u16) {
    match level {
        ..=2 => (1, 0x0178),
        3..=5 => (2, 0x5e78),
        6..=8 => (4, 0x9c78),
        _ => (5, 0xda78),
    }
}
