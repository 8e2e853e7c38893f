//! The codec with which a device compresses tiles.

use std::fmt;

use swath_codec::{Compress, Shape};

use super::choice::EncoderBackend;
use super::deflate::Parts;
use super::pictures::PictureCodec;
use super::pool::POOL_ALIGN;
use crate::backend::Api;
use crate::backend::kernel::Kernel;
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::vendor::nvcomp::{Chunked, NvComp};
use crate::vendor::{Library, version_of};

/// The number of bytes of the largest tile that Swath's LZW and Deflate kernels receive: sizes have 32 bits, and
/// LZW may make one and a half times the bytes.
const LARGEST_FOR_KERNELS: u64 = 1 << 31;

/// The compression of tiles on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TileCodec {
    /// None: the CPU compresses the tiles.
    #[default]
    None,
    /// PackBits, with Swath's kernel.
    PackBits,
    /// LZW, with Swath's kernel.
    Lzw,
    /// Deflate, with Swath's kernel.
    Deflate,
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
    /// library. [`Error::Build`] if the device cannot compile a kernel that `choice` requires.
    pub fn new(gpu: &Gpu, compress: &Compress, shape: Shape, choice: EncoderBackend) -> Result<TileCodec> {
        match (choice, compress) {
            (EncoderBackend::Cpu, _) => Ok(TileCodec::None),
            (_, Compress::PackBits) => Ok(TileCodec::PackBits),
            (EncoderBackend::Builtin, Compress::Lzw) => TileCodec::Lzw.with_kernel(gpu, shape, Kernel::LzwEncode),
            (EncoderBackend::Builtin, Compress::Deflate { .. }) => {
                TileCodec::Deflate.with_kernel(gpu, shape, Kernel::DeflateEncode)
            }
            (EncoderBackend::Builtin, _) => Ok(TileCodec::None),
            (EncoderBackend::Auto | EncoderBackend::NvComp, _) => TileCodec::with_library(gpu, compress, shape, choice),
        }
    }

    /// Returns the codec if the kernel can compress tiles of this shape, or else [`TileCodec::None`].
    fn with_kernel(self, gpu: &Gpu, shape: Shape, kernel: Kernel) -> Result<TileCodec> {
        if shape.len() as u64 > LARGEST_FOR_KERNELS {
            return Ok(TileCodec::None);
        }
        gpu.shared.device.prepare(kernel).map(|()| self)
    }

    /// Returns the codec of NVIDIA's libraries.
    fn with_library(gpu: &Gpu, compress: &Compress, shape: Shape, choice: EncoderBackend) -> Result<TileCodec> {
        let nvcomp = |codec, algorithm, header| TileCodec::NvComp(NvCompCodec { codec, algorithm, header });
        let codec = match *compress {
            Compress::Deflate { level } => {
                let (algorithm, header) = deflate_algorithm(level);
                nvcomp(Chunked::Deflate, algorithm, header)
            }
            Compress::Zstd { .. } => nvcomp(Chunked::Zstd, 0, 0),
            Compress::Lz4 => nvcomp(Chunked::Lz4, 0, 0),
            _ => PictureCodec::new(compress, shape).map_or(TileCodec::None, TileCodec::Picture),
        };
        if codec == TileCodec::None {
            return Ok(codec);
        }
        match codec.available(gpu) {
            Ok(()) => Ok(codec),
            Err(_) if choice == EncoderBackend::Auto => Ok(TileCodec::None),
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
            TileCodec::None | TileCodec::PackBits | TileCodec::Lzw | TileCodec::Deflate => Ok(()),
        }
    }

    /// Whether a library of NVIDIA compresses.
    pub fn is_by_library(&self) -> bool {
        matches!(self, TileCodec::NvComp(_) | TileCodec::Picture(_))
    }

    /// Whether the compressed tiles have the bytes that the CPU's encoder makes.
    pub fn has_bytes_of_cpu(&self) -> bool {
        matches!(self, TileCodec::None | TileCodec::PackBits | TileCodec::Lzw)
    }

    /// The number of slots of the pool for a tile of `bytes` bytes.
    pub(super) fn slots(&self, bytes: u64) -> u64 {
        if *self == TileCodec::Deflate { Parts::new(bytes).count } else { 1 }
    }

    /// The smallest number of rows and columns of a tile.
    pub fn least_side(&self) -> u64 {
        match self {
            TileCodec::Picture(codec) => codec.least_side(),
            TileCodec::None | TileCodec::PackBits | TileCodec::Lzw | TileCodec::Deflate | TileCodec::NvComp(_) => 1,
        }
    }
}

impl fmt::Display for TileCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TileCodec::None => write!(f, "the CPU"),
            TileCodec::PackBits => write!(f, "kernel {}", Kernel::PackBitsEncode.name()),
            TileCodec::Lzw => write!(f, "kernel {}", Kernel::LzwEncode.name()),
            TileCodec::Deflate => write!(f, "kernel {}", Kernel::DeflateEncode.name()),
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
