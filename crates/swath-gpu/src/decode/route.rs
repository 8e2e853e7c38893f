//! By what the blocks of an image are decoded on a device: a kernel of our own, or a library of NVIDIA's.

use std::fmt;

use crate::backend::Api;
use crate::backend::kernel::Kernel;
use crate::decode::PAYLOAD_ALIGN;
use crate::decode::job::{DeviceCodec, Unfit};
use crate::error::Error;
use crate::gpu::Gpu;
use crate::vendor::nvcomp::{Chunked, NvComp};
use crate::vendor::nvjpeg::NvJpeg;
use crate::vendor::nvjpeg2k::{NvJpeg2000, PixelType};
use crate::vendor::{Library, Missing, version_of};

/// Who decodes and encodes on a device where there is a choice. What nvCOMP does with corrupt bytes is undefined, on the device and so in
/// any memory of it, while our kernels check every access: to read files from strangers it is [`Builtin`](CodecBackend::Builtin).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CodecBackend {
    /// NVIDIA's libraries where they are installed and know the codec, else what is our own.
    #[default]
    Auto,
    /// Our kernels, and the CPU for codecs that have none: no library of NVIDIA's gets to see a byte.
    Builtin,
    /// NVIDIA's libraries for all codecs that they know; where they are missing that is a fallback.
    NvComp,
}

impl CodecBackend {
    /// The names that [`named`](CodecBackend::named) knows.
    pub const NAMES: &'static str = "auto|own|nvcomp";

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            CodecBackend::Auto => "auto",
            CodecBackend::Builtin => "builtin",
            CodecBackend::NvComp => "nvcomp",
        }
    }

    /// The choice of this name.
    pub fn named(name: &str) -> Option<CodecBackend> {
        match name {
            "auto" => Some(CodecBackend::Auto),
            "builtin" => Some(CodecBackend::Builtin),
            "nvcomp" => Some(CodecBackend::NvComp),
            _ => None,
        }
    }
}

/// What decodes the blocks of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// Nothing: they are stored as they are.
    Stored,
    /// A kernel of our own.
    Kernel(Kernel),
    /// nvCOMP, which wants the streams of this codec at multiples of so many bytes.
    NvComp(Chunked, usize),
    /// nvJPEG2000, to samples of this type.
    NvJpeg2000(PixelType),
    /// nvJPEG.
    NvJpeg {
        /// Whether YCbCr is to become RGB.
        ycbcr: bool,
    },
}

/// Blocks of nvJPEG2000 that are under way in a batch: each has working memory of its own until the batch was waited for.
const JPEG2000_BLOCKS: usize = 32;
/// Blocks of nvJPEG: above 50 the device decodes Huffman codes too.
const JPEG_BLOCKS: usize = 128;

impl Route {
    /// The way through a library for pictures, if it is there and wanted.
    pub(crate) fn picture(self, gpu: &Gpu, name: &'static str, choice: CodecBackend) -> Result<Route, Unfit> {
        if choice == CodecBackend::Builtin || gpu.info().api != Api::Cuda {
            return Err(Unfit::Codec(name));
        }
        let found: Result<(), &Missing> = match self {
            Route::NvJpeg2000(_) => NvJpeg2000::get().map(|_| ()),
            _ => NvJpeg::get().map(|_| ()),
        };
        match found {
            Ok(()) => Ok(self),
            Err(_) if choice == CodecBackend::Auto => Err(Unfit::Codec(name)),
            Err(missing) => Err(Unfit::Library(missing.into())),
        }
    }

    /// Whether it is the host that hands compressed bytes to the decoder.
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

    /// What decodes a codec on this device. `name` is the codec's, for messages.
    pub(crate) fn new(gpu: &Gpu, codec: DeviceCodec, name: &'static str, choice: CodecBackend) -> Result<Route, Unfit> {
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
            return own.ok_or(Unfit::Codec(name));
        };
        if gpu.info().api != Api::Cuda {
            return match choice {
                CodecBackend::NvComp => Err(Unfit::Library(Error::NotCuda { device: gpu.info().name.clone() })),
                _ => own.ok_or(Unfit::Codec(name)),
            };
        }
        match (nvcomp(chunked), own) {
            (Ok(route), _) => Ok(route),
            (Err(_), Some(own)) if choice == CodecBackend::Auto => Ok(own),
            (Err(missing), _) => Err(Unfit::Library(missing)),
        }
    }

    /// See [`DecodeJob::alignment`](crate::DecodeJob::alignment).
    pub(crate) fn alignment(self) -> (usize, usize) {
        match self {
            // In a block Deflate begins behind the two bytes of zlib's header.
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
