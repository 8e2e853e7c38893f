//! What is to be done with every block of an image, decided once: which kernels run, and with which numbers.

use swath_codec::byteorder::{is_foreign, swap_width};
use swath_codec::sample::is_packed;
use swath_codec::{Codec, DType, Decoder, Predictor, SampleFormat, Shape};

use crate::kernel::{Kernel, zstd_scratch};

/// Groups that decode ZSTD at a time: each has working memory of its own, together no more than a quarter of a lane's, and no device
/// runs more of them at once.
pub(crate) fn zstd_groups(blocks: u64, lane_bytes: u64) -> u64 {
    (lane_bytes / 4 / zstd_scratch().max(1)).clamp(1, 256).min(blocks)
}

/// A codec that a device decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceCodec {
    /// Stored as is.
    None,
    /// LZW.
    Lzw,
    /// Deflate in zlib framing.
    Deflate,
    /// PackBits.
    PackBits,
    /// ZSTD.
    Zstd,
}

impl DeviceCodec {
    /// Every codec that a device decodes by a kernel of its own.
    pub const ALL: [DeviceCodec; 5] =
        [DeviceCodec::None, DeviceCodec::Lzw, DeviceCodec::Deflate, DeviceCodec::PackBits, DeviceCodec::Zstd];

    /// The codec, if a kernel decodes it.
    pub fn of(codec: &Codec) -> Option<DeviceCodec> {
        match codec {
            Codec::None => Some(DeviceCodec::None),
            Codec::Lzw => Some(DeviceCodec::Lzw),
            Codec::Deflate => Some(DeviceCodec::Deflate),
            Codec::PackBits => Some(DeviceCodec::PackBits),
            Codec::Zstd => Some(DeviceCodec::Zstd),
            _ => None,
        }
    }

    /// The name that commands use.
    pub fn name(self) -> &'static str {
        match self {
            DeviceCodec::None => "none",
            DeviceCodec::Lzw => "lzw",
            DeviceCodec::Deflate => "deflate",
            DeviceCodec::PackBits => "packbits",
            DeviceCodec::Zstd => "zstd",
        }
    }

    /// The kernel that decodes it.
    pub(crate) fn kernel(self) -> Option<Kernel> {
        match self {
            DeviceCodec::None => None,
            DeviceCodec::Lzw => Some(Kernel::Lzw),
            DeviceCodec::Deflate => Some(Kernel::Inflate),
            DeviceCodec::PackBits => Some(Kernel::PackBits),
            DeviceCodec::Zstd => Some(Kernel::Zstd),
        }
    }
}

/// Why the blocks of an image cannot be decoded on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// No kernel decodes the codec.
    #[error("no kernel decodes {0}")]
    Codec(&'static str),
    /// Chroma that is shared between pixels.
    #[error("no kernel expands subsampled chroma")]
    Chroma,
    /// Samples of another width than the kernels know.
    #[error("no kernel unpacks such samples")]
    Samples,
    /// Differences of samples that are not whole bytes.
    #[error("no kernel undoes this predictor on such samples")]
    Predictor,
    /// The sizes do not fit the numbers that kernels count with.
    #[error("its blocks are larger than the kernels can count")]
    Size,
}

/// How stored samples lie in a decoded row: the modes of `kernels/place.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Plain,
    Planes,
    Bits,
}

/// Undoing differences: the arguments of `kernels/sum.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) width: u32,
    pub(crate) stride: u32,
    pub(crate) swap: bool,
}

/// What is done with every block of an image.
#[derive(Debug, Clone)]
pub struct DecodeJob {
    pub(crate) codec: DeviceCodec,
    pub(crate) lsb_first: bool,
    pub(crate) sums: Option<Sums>,
    pub(crate) mode: Mode,
    /// Bytes of the units whose order is reversed, or 0.
    pub(crate) swap: u32,
    pub(crate) width: u32,
    pub(crate) samples: u32,
    pub(crate) bits: u32,
    pub(crate) row_bytes: u32,
    /// Bytes of a sample in the output.
    pub(crate) size: u32,
    pub(crate) planar: bool,
    /// The sample that pixels of blocks that are not stored have.
    pub(crate) fill: [u8; 16],
}

impl DecodeJob {
    /// What must be done with blocks of this shape to get samples of that type; `planar` when each block has one band.
    ///
    /// # Errors
    /// [`Unfit`] says why it must be the CPU.
    pub fn new(decoder: &Decoder, shape: Shape, dtype: DType, planar: bool, fill: &[u8]) -> Result<DecodeJob, Unfit> {
        let codec = DeviceCodec::of(&decoder.codec).ok_or(Unfit::Codec(decoder.name))?;
        if decoder.subsampling != (1, 1) {
            return Err(Unfit::Chroma);
        }
        let packed = is_packed(shape.format, shape.bits);
        // Floats of 24 bits, 64-bit pairs of half floats and integers in the odd order of big-endian files.
        let plain_integers = matches!(shape.format, SampleFormat::Uint | SampleFormat::Int);
        let foreign = is_foreign(decoder.big_endian);
        if packed && (!plain_integers || shape.bits > 64 || (foreign && shape.bits == 24)) {
            return Err(Unfit::Samples);
        }
        let narrow = |value: usize| u32::try_from(value).map_err(|_| Unfit::Size);
        let bits = narrow(shape.bits)?;
        let unit = swap_width(shape.format, shape.bits);
        let swap = if foreign && unit > 1 && !packed { narrow(unit)? } else { 0 };
        // As the CPU has it: what is not compressed has no predictor, whatever the tag says.
        let predictor = if codec == DeviceCodec::None { Predictor::None } else { decoder.predictor };
        let (mode, swap, sums) = match predictor {
            Predictor::None if packed => (Mode::Bits, 0, None),
            Predictor::None => (Mode::Plain, swap, None),
            Predictor::Horizontal => {
                if !matches!(bits, 8 | 16 | 32 | 64) {
                    return Err(Unfit::Predictor);
                }
                let sums = Sums { width: bits / 8, stride: narrow(shape.samples)?, swap: foreign && bits > 8 };
                (Mode::Plain, 0, Some(sums))
            }
            Predictor::FloatingPoint => {
                if shape.format != SampleFormat::Float || !matches!(bits, 16 | 32 | 64) {
                    return Err(Unfit::Predictor);
                }
                (Mode::Planes, 0, Some(Sums { width: 1, stride: narrow(shape.samples)?, swap: false }))
            }
        };
        let mut sample = [0; 16];
        sample[..fill.len()].copy_from_slice(fill);
        // A block must fit what `Block` counts with.
        let bytes = shape.width.checked_mul(shape.samples).and_then(|samples| samples.checked_mul(shape.bits));
        let bytes = bytes.and_then(|bits| bits.div_ceil(8).checked_mul(shape.height)).ok_or(Unfit::Size)?;
        narrow(bytes)?;
        Ok(DecodeJob {
            codec,
            lsb_first: decoder.lsb_first,
            sums,
            mode,
            swap,
            width: narrow(shape.width)?,
            samples: narrow(shape.samples)?,
            bits,
            row_bytes: narrow(shape.row_bytes())?,
            size: dtype.size() as u32,
            planar,
            fill: sample,
        })
    }

    /// The codec.
    pub fn codec(&self) -> DeviceCodec {
        self.codec
    }

    /// What must be done to place pixels that are decoded already: rows of `cols` pixels, all bands of each side by side.
    pub(crate) fn placing(dtype: DType, bands: usize, cols: u64) -> Option<DecodeJob> {
        let (size, samples, width) = (dtype.size() as u32, u32::try_from(bands).ok()?, u32::try_from(cols).ok()?);
        Some(DecodeJob {
            codec: DeviceCodec::None,
            lsb_first: false,
            sums: None,
            mode: Mode::Plain,
            swap: 0,
            width,
            samples,
            bits: size * 8,
            row_bytes: width.checked_mul(samples)?.checked_mul(size)?,
            size,
            planar: false,
            fill: [0; 16],
        })
    }

    /// Whether blocks are stored as they are: their bytes are their samples.
    pub fn is_stored(&self) -> bool {
        self.codec == DeviceCodec::None
    }

    /// Bytes of device memory that a batch of so many blocks needs beside its blocks, in a lane that may hold so many bytes.
    pub fn scratch_bytes(&self, blocks: u64, lane_bytes: u64) -> u64 {
        if self.codec == DeviceCodec::Zstd { zstd_groups(blocks, lane_bytes) * zstd_scratch() } else { 0 }
    }
}
