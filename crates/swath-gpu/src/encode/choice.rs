//! The choice of what compresses tiles.

use std::str::FromStr;

use crate::decode::route::CodecBackend;
use crate::error::UnknownName;

/// What compresses tiles, if a device cuts them.
///
/// Only [`Cpu`](EncoderBackend::Cpu) always writes the bytes of a write without a device. The others write the same pixels, in the same
/// format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum EncoderBackend {
    /// NVIDIA's libraries where they are installed and support the codec. Otherwise the CPU, or Swath's kernel for PackBits, which makes
    /// the same bytes.
    #[default]
    Auto,
    /// Swath's kernels for Deflate, LZW and PackBits, on any device, and the CPU for other codecs. LZW and PackBits have the bytes of
    /// the CPU. Deflate has the same bytes on every device, and about the size of compression level 1 at every level.
    Builtin,
    /// NVIDIA's libraries for all codecs that they support. It counts as a fallback where they cannot be used.
    NvComp,
    /// The CPU.
    Cpu,
}

impl EncoderBackend {
    /// All names, separated by `|`.
    pub const NAMES: &'static str = "auto|builtin|nvcomp|cpu";

    /// The name, as [`FromStr`] reads it.
    pub fn name(self) -> &'static str {
        match self {
            EncoderBackend::Auto => "auto",
            EncoderBackend::Builtin => "builtin",
            EncoderBackend::NvComp => "nvcomp",
            EncoderBackend::Cpu => "cpu",
        }
    }
}

impl FromStr for EncoderBackend {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<EncoderBackend, UnknownName> {
        match name {
            "auto" => Ok(EncoderBackend::Auto),
            "builtin" => Ok(EncoderBackend::Builtin),
            "nvcomp" => Ok(EncoderBackend::NvComp),
            "cpu" => Ok(EncoderBackend::Cpu),
            _ => Err(UnknownName { name: name.to_owned(), names: EncoderBackend::NAMES }),
        }
    }
}

impl From<CodecBackend> for EncoderBackend {
    /// The choice of the same name.
    fn from(backend: CodecBackend) -> EncoderBackend {
        match backend {
            CodecBackend::Auto => EncoderBackend::Auto,
            CodecBackend::Builtin => EncoderBackend::Builtin,
            CodecBackend::NvComp => EncoderBackend::NvComp,
        }
    }
}
