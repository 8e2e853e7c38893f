//! Chooses what decodes the blocks of an image on a device: a kernel of Swath, or a library of NVIDIA.

use std::fmt;
use std::str::FromStr;

use crate::backend::Api;
use crate::backend::kernel::Kernel;
use crate::decode::PAYLOAD_ALIGN;
use crate::decode::job::DeviceCodec;
use crate::decode::outcome::Unsupported;
use crate::error::{Error, UnknownName};
use crate::gpu::Gpu;
use crate::vendor::nvcomp::{Chunked, NvComp};
use crate::vendor::nvjpeg::NvJpeg;
use crate::vendor::nvjpeg2k::{NvJpeg2000, PixelType};
use crate::vendor::{Library, Missing, version_of};

/// What decodes and encodes on a device.
///
/// The behaviour of nvCOMP on corrupt data is undefined: it may access any memory of the device. Swath's kernels check every access. To
/// read files from untrusted sources, use [`Builtin`](CodecBackend::Builtin).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CodecBackend {
    /// NVIDIA's libraries where they are installed and support the codec; Swath's kernels and the CPU otherwise.
    #[default]
    Auto,
    /// Swath's kernels, and the CPU for codecs without a kernel. NVIDIA's libraries get no data.
    Builtin,
    /// NVIDIA's libraries for all codecs that they support. It counts as a fallback where they cannot be used.
    NvComp,
}

impl CodecBackend {
    /// All names, separated by `|`.
    pub const NAMES: &'static str = "auto|builtin|nvcomp";

    /// The name, as [`FromStr`] reads it.
    pub fn name(self) -> &'static str {
        match self {
            CodecBackend::Auto => "auto",
            CodecBackend::Builtin => "builtin",
            CodecBackend::NvComp => "nvcomp",
        }
    }
}

impl FromStr for CodecBackend {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<CodecBackend, UnknownName> {
        match name {
            "auto" => Ok(CodecBackend::Auto),
            "builtin" => Ok(CodecBackend::Builtin),
            "nvcomp" => Ok(CodecBackend::NvComp),
            _ => Err(UnknownName { name: name.to_owned(), names: CodecBackend::NAMES }),
        }
    }
}

/// What decodes the blocks of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// Nothing: the blocks are not compressed.
    Stored,
    /// A kernel of Swath.
    Kernel(Kernel),
    /// nvCOMP, with the codec and the alignment in bytes that it requires of the compressed streams.
    NvComp(Chunked, usize),
    /// nvJPEG2000, with the type of the samples.
    NvJpeg2000(PixelType),
    /// nvJPEG.
    NvJpeg {
        /// Whether it converts YCbCr to RGB.
        ycbcr: bool,
    },
}

/// Blocks of a batch of nvJPEG2000: each needs its own working memory until the batch is synchronised.
const JPEG2000_BLOCKS: usize = 32;
/// Blocks of a batch of nvJPEG: with more than 50, the device also decodes the Huffman codes.
const JPEG_BLOCKS: usize = 128;

impl Route {
    /// The route through a library for pictures, if the library can be used and the caller allows it.
    pub(crate) fn picture(self, gpu: &Gpu, name: &'static str, choice: CodecBackend) -> Result<Route, Unsupported> {
        if choice == CodecBackend::Builtin || gpu.info().api != Api::Cuda {
            return Err(Unsupported::Codec(name));
        }
        let found: Result<(), &Missing> = match self {
            Route::NvJpeg2000(_) => NvJpeg2000::get().map(|_| ()),
            _ => NvJpeg::get().map(|_| ()),
        };
        match found {
            Ok(()) => Ok(self),
            Err(_) if choice == CodecBackend::Auto => Err(Unsupported::Codec(name)),
            Err(missing) => Err(Unsupported::Library(missing.into())),
        }
    }

    /// Whether the host passes the compressed bytes to the decoder.
    pub(crate) fn is_of_pictures(self) -> bool {
        matches!(self, Route::NvJpeg2000(_) | Route::NvJpeg { .. })
    }

    /// See [`DecodeJob::most_blocks`](crate::DecodeJob::most_blocks).
    pub(crate) fn most_blocks(self) -> usize {
        match self {
            Route::NvJpeg2000(_) => JPEG2000_BLOCKS,
            Route::NvJpeg { .. } => JPEG_BLOCKS,
            Route::Stored | Route::Kernel(_) | Route::NvComp(..) => usize::MAX,
        }
    }

    /// Chooses what decodes a codec on this device. `name` is the codec's name in messages.
    pub(crate) fn new(
        gpu: &Gpu,
        codec: DeviceCodec,
        name: &'static str,
        choice: CodecBackend,
    ) -> Result<Route, Unsupported> {
        if codec == DeviceCodec::None {
            return Ok(Route::Stored);
        }
        let own = codec.kernel().map(Route::Kernel);
        let chunked = match codec {
            DeviceCodec::Deflate => Some(Chunked::Deflate),
            DeviceCodec::Zstd => Some(Chunked::Zstd),
            DeviceCodec::Lz4 => Some(Chunked::Lz4),
            _ => None,
        };
        let Some(chunked) = chunked.filter(|_| choice != CodecBackend::Builtin) else {
            return own.ok_or(Unsupported::Codec(name));
        };
        if gpu.info().api != Api::Cuda {
            return match choice {
                CodecBackend::NvComp => Err(Unsupported::Library(Error::NotCuda { device: gpu.info().name.clone() })),
                _ => own.ok_or(Unsupported::Codec(name)),
            };
        }
        match (nvcomp(chunked), own) {
            (Ok(route), _) => Ok(route),
            (Err(_), Some(own)) if choice == CodecBackend::Auto => Ok(own),
            (Err(missing), _) => Err(Unsupported::Library(missing)),
        }
    }

    /// See [`DecodeJob::alignment`](crate::DecodeJob::alignment).
    pub(crate) fn alignment(self) -> (usize, usize) {
        match self {
            // The Deflate stream of a block begins after the two bytes of the zlib header.
            Route::NvComp(Chunked::Deflate, align) => (align, align.wrapping_sub(2) % align),
            Route::NvComp(_, align) => (align, 0),
            Route::Stored | Route::Kernel(_) | Route::NvJpeg2000(_) | Route::NvJpeg { .. } => (1, 0),
        }
    }
}

/// The route through nvCOMP, or why it cannot be used.
fn nvcomp(codec: Chunked) -> crate::Result<Route> {
    let align = NvComp::get()?.decompress_alignment(codec)?.input;
    // The stream inside a frame of LZ4 begins at any byte.
    let most = if codec == Chunked::Lz4 { 1 } else { PAYLOAD_ALIGN as u64 };
    if !align.is_power_of_two() || align > most {
        return Err(Error::Alignment { library: Library::NvComp, what: "compressed streams", bytes: align });
    }
    Ok(Route::NvComp(codec, align as usize))
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Route::Stored => write!(f, "nothing: blocks are stored as they are"),
            Route::Kernel(kernel) => write!(f, "kernel {}", kernel.name()),
            Route::NvComp(..) => write!(f, "{}", version_of(Library::NvComp)),
            Route::NvJpeg2000(_) => write!(f, "{}", version_of(Library::NvJpeg2000)),
            Route::NvJpeg { .. } => write!(f, "{}", version_of(Library::NvJpeg)),
        }
    }
}
