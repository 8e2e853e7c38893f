//! Decides once per image how every block is decoded: which kernels run, and with which parameters.

use swath_codec::byteorder::{is_foreign, swap_width};
use swath_codec::sample::is_packed;
use swath_codec::{Codec, DType, Decoder, Predictor, SampleFormat, Shape, jpeg2000};

use crate::Gpu;
use crate::backend::kernel::{Kernel, zstd_scratch};
use crate::decode::outcome::Unsupported;
use crate::decode::route::{CodecBackend, Route};
use crate::decode::unpack::Unpack;
use crate::vendor::nvcomp::Chunked;
use crate::vendor::nvjpeg2k::PixelType;

/// Groups that decode ZSTD at a time. Each needs its own working memory; together they take at most a quarter of a lane's memory. More than
/// the device runs at once would only need more memory, but a device with few multiprocessors would have to be launched often.
pub(crate) fn zstd_groups(blocks: u64, lane_bytes: u64, wave: u64) -> u64 {
    (scratch_share(lane_bytes) / zstd_scratch().max(1)).clamp(1, wave.max(LEAST_ZSTD_GROUPS)).min(blocks)
}

/// Groups of one launch that decode ZSTD, at least, if there is memory for them.
const LEAST_ZSTD_GROUPS: u64 = 256;

/// Blocks that a multiprocessor decodes at the same time where no kernel of Swath decodes them.
const LIBRARY_RESIDENCY: u32 = 16;

/// The part of a lane's memory that may be working memory.
pub(crate) fn scratch_share(lane_bytes: u64) -> u64 {
    lane_bytes / 4
}

/// A codec that a device decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
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
    /// LZ4.
    Lz4,
    /// JPEG 2000.
    Jpeg2000,
    /// JPEG.
    Jpeg,
}

/// The value of PhotometricInterpretation for YCbCr.
const YCBCR: u16 = 6;

impl DeviceCodec {
    /// Every codec that Swath's kernels decode.
    pub const ALL: [DeviceCodec; 5] =
        [DeviceCodec::None, DeviceCodec::Lzw, DeviceCodec::Deflate, DeviceCodec::PackBits, DeviceCodec::Zstd];

    /// Every codec that NVIDIA's libraries decode and encode.
    pub const BY_LIBRARY: [DeviceCodec; 5] =
        [DeviceCodec::Deflate, DeviceCodec::Zstd, DeviceCodec::Lz4, DeviceCodec::Jpeg2000, DeviceCodec::Jpeg];

    /// The codec, if a device may decode it.
    pub fn of(codec: &Codec) -> Option<DeviceCodec> {
        match codec {
            Codec::None => Some(DeviceCodec::None),
            Codec::Lzw => Some(DeviceCodec::Lzw),
            Codec::Deflate => Some(DeviceCodec::Deflate),
            Codec::PackBits => Some(DeviceCodec::PackBits),
            Codec::Zstd => Some(DeviceCodec::Zstd),
            Codec::Lz4 => Some(DeviceCodec::Lz4),
            Codec::Jpeg2000(jpeg2000::Colour::Stored) => Some(DeviceCodec::Jpeg2000),
            Codec::Jpeg { .. } => Some(DeviceCodec::Jpeg),
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
            DeviceCodec::Lz4 => "lz4",
            DeviceCodec::Jpeg2000 => "jpeg2000",
            DeviceCodec::Jpeg => "jpeg",
        }
    }

    /// The kernel that decodes it.
    pub(crate) fn kernel(self) -> Option<Kernel> {
        match self {
            DeviceCodec::None | DeviceCodec::Lz4 | DeviceCodec::Jpeg2000 | DeviceCodec::Jpeg => None,
            DeviceCodec::Lzw => Some(Kernel::Lzw),
            DeviceCodec::Deflate => Some(Kernel::Inflate),
            DeviceCodec::PackBits => Some(Kernel::PackBits),
            DeviceCodec::Zstd => Some(Kernel::Zstd),
        }
    }
}

/// How samples are stored in a decoded row: the modes of `kernels/place.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Plain,
    Planes,
    Bits,
    /// One plane for each sample of a pixel. Rows are rows of a plane.
    Components,
}

/// Undoing differences: the arguments of `kernels/sum.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) width: u32,
    pub(crate) stride: u32,
    pub(crate) swap: bool,
}

/// How every block of an image is decoded.
#[derive(Debug, Clone)]
pub struct DecodeJob {
    pub(crate) codec: DeviceCodec,
    pub(crate) route: Route,
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
    /// The fill value for blocks that the file does not store.
    pub(crate) fill: [u8; 16],
    /// The tables that all blocks of JPEG share.
    pub(crate) tables: Vec<u8>,
    /// Blocks that the device decodes at the same time.
    pub(crate) wave: u64,
    /// The conversion of samples, if they do not stay as they are.
    pub(crate) unpack: Option<Unpack>,
}

impl DecodeJob {
    /// Plans how a device decodes blocks of this shape to samples of type `dtype`. `planar` means that each block has one band.
    ///
    /// # Errors
    /// [`Unsupported`] states why the device cannot decode the blocks.
    pub fn new(
        gpu: &Gpu,
        choice: CodecBackend,
        decoder: &Decoder,
        shape: Shape,
        dtype: DType,
        planar: bool,
        fill: &[u8],
    ) -> Result<DecodeJob, Unsupported> {
        let codec = DeviceCodec::of(&decoder.codec).ok_or(Unsupported::Codec(decoder.name))?;
        if matches!(codec, DeviceCodec::Jpeg2000 | DeviceCodec::Jpeg) {
            let route = picture(&decoder.codec, shape, dtype).ok_or(Unsupported::Codec(decoder.name))?;
            let route = route.picture(gpu, decoder.name, choice)?;
            let job = DecodeJob::of_pictures(codec, route, decoder, shape, dtype, planar, fill)?;
            return Ok(DecodeJob { wave: wave(gpu, codec), ..job });
        }
        let route = Route::new(gpu, codec, decoder.name, choice)?;
        if decoder.subsampling != (1, 1) {
            return Err(Unsupported::Chroma);
        }
        let packed = is_packed(shape.format, shape.bits);
        // Floats of 24 bits, 64-bit pairs of half floats and integers in the odd order of big-endian files.
        let plain_integers = matches!(shape.format, SampleFormat::Uint | SampleFormat::Int);
        let foreign = is_foreign(decoder.big_endian);
        if packed && (!plain_integers || shape.bits > 64 || (foreign && shape.bits == 24)) {
            return Err(Unsupported::Samples);
        }
        let narrow = |value: usize| u32::try_from(value).map_err(|_| Unsupported::Size);
        let bits = narrow(shape.bits)?;
        let unit = swap_width(shape.format, shape.bits);
        let swap = if foreign && unit > 1 && !packed { narrow(unit)? } else { 0 };
        // As on the CPU: uncompressed blocks have no predictor, whatever the tag states.
        let predictor = if codec == DeviceCodec::None { Predictor::None } else { decoder.predictor };
        let (mode, swap, sums) = match predictor {
            Predictor::None if packed => (Mode::Bits, 0, None),
            Predictor::None => (Mode::Plain, swap, None),
            Predictor::Horizontal => {
                if !matches!(bits, 8 | 16 | 32 | 64) {
                    return Err(Unsupported::Predictor);
                }
                let sums = Sums { width: bits / 8, stride: narrow(shape.samples)?, swap: foreign && bits > 8 };
                (Mode::Plain, 0, Some(sums))
            }
            Predictor::FloatingPoint => {
                if shape.format != SampleFormat::Float || !matches!(bits, 16 | 32 | 64) {
                    return Err(Unsupported::Predictor);
                }
                (Mode::Planes, 0, Some(Sums { width: 1, stride: narrow(shape.samples)?, swap: false }))
            }
        };
        check_size(shape)?;
        Ok(DecodeJob {
            codec,
            route,
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
            fill: sample(fill),
            tables: Vec::new(),
            wave: wave(gpu, codec),
            unpack: None,
        })
    }

    /// The same for blocks that a library decodes to whole native samples.
    fn of_pictures(
        codec: DeviceCodec,
        route: Route,
        decoder: &Decoder,
        shape: Shape,
        dtype: DType,
        planar: bool,
        fill: &[u8],
    ) -> Result<DecodeJob, Unsupported> {
        let narrow = |value: usize| u32::try_from(value).map_err(|_| Unsupported::Size);
        check_size(shape)?;
        // nvJPEG converts to interleaved colours; everything else is decoded to planes.
        let interleaved = matches!(route, Route::NvJpeg { ycbcr: true });
        let mode = if interleaved { Mode::Plain } else { Mode::Components };
        let row_samples = if interleaved { shape.samples } else { 1 };
        let tables = match &decoder.codec {
            Codec::Jpeg { tables: Some(tables), .. } => tables.clone(),
            _ => Vec::new(),
        };
        Ok(DecodeJob {
            codec,
            route,
            // The formats of pictures define the order of bits and bytes.
            lsb_first: false,
            sums: None,
            mode,
            swap: 0,
            width: narrow(shape.width)?,
            samples: narrow(shape.samples)?,
            bits: narrow(shape.bits)?,
            row_bytes: narrow(shape.width * row_samples * dtype.size())?,
            size: dtype.size() as u32,
            planar,
            fill: sample(fill),
            tables,
            wave: 1,
            unpack: None,
        })
    }

    /// Converts the samples while they are placed. The result must go to a raster of the new type.
    #[must_use]
    pub fn with_unpack(self, unpack: Option<Unpack>) -> DecodeJob {
        DecodeJob { unpack, ..self }
    }

    /// Bytes of a row of pixels in a decoded block, over all planes.
    pub(crate) fn pixel_row_bytes(&self) -> u64 {
        let planes = if self.mode == Mode::Components { self.samples } else { 1 };
        u64::from(self.row_bytes) * u64::from(planes)
    }

    /// The largest number of blocks of a batch.
    pub fn most_blocks(&self) -> usize {
        self.route.most_blocks()
    }

    /// The number of blocks that the device decodes at the same time: its multiprocessors times the blocks that each of them holds.
    pub fn wave(&self) -> u64 {
        self.wave
    }

    /// Whether the decoder takes compressed bytes from host memory, so that the device cannot read the file by itself.
    pub fn is_fed_by_host(&self) -> bool {
        self.route.is_of_pictures()
    }

    /// The codec.
    pub fn codec(&self) -> DeviceCodec {
        self.codec
    }

    /// A job that only places decoded pixels: rows of `cols` pixels, with the bands of a pixel adjacent.
    pub fn placing(dtype: DType, bands: usize, cols: u64) -> Option<DecodeJob> {
        let (size, samples, width) = (dtype.size() as u32, u32::try_from(bands).ok()?, u32::try_from(cols).ok()?);
        Some(DecodeJob {
            codec: DeviceCodec::None,
            route: Route::Stored,
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
            tables: Vec::new(),
            wave: 1,
            unpack: None,
        })
    }

    /// Whether blocks are uncompressed: their bytes are their samples.
    pub fn is_stored(&self) -> bool {
        self.route == Route::Stored
    }

    /// Whether nvCOMP decodes the blocks.
    pub fn is_by_nvcomp(&self) -> bool {
        matches!(self.route, Route::NvComp(..))
    }

    /// The name of the decoder, for reports.
    pub fn decoded_by(&self) -> String {
        self.route.to_string()
    }

    /// Whether the decoder only decodes whole blocks, not their first rows alone.
    pub fn takes_whole_blocks(&self) -> bool {
        matches!(self.route, Route::NvComp(..) | Route::NvJpeg2000(_) | Route::NvJpeg { .. })
    }

    /// Where blocks must begin in the payload of a batch: at a multiple of the first number, plus the second.
    pub fn alignment(&self) -> (usize, usize) {
        self.route.alignment()
    }

    /// Bytes of working memory that a batch may need, in a lane of `lane_bytes`.
    pub fn scratch_bytes(&self, blocks: u64, lane_bytes: u64) -> u64 {
        match self.route {
            Route::Kernel(Kernel::Zstd) => zstd_groups(blocks, lane_bytes, self.wave) * zstd_scratch(),
            // Of nvCOMP's codecs only ZSTD needs working memory. If another one did, batches would be halved.
            Route::NvComp(Chunked::Zstd, _) => scratch_share(lane_bytes),
            _ => 0,
        }
    }
}

/// The number of blocks of a codec that a device decodes at the same time.
fn wave(gpu: &Gpu, codec: DeviceCodec) -> u64 {
    let resident = codec.kernel().map_or(LIBRARY_RESIDENCY, |kernel| gpu.shared.device.resident_groups(kernel));
    u64::from(gpu.info().multiprocessors) * u64::from(resident)
}

/// The route of a codec for pictures, if the library supports such samples.
fn picture(codec: &Codec, shape: Shape, dtype: DType) -> Option<Route> {
    let integers = matches!(shape.format, SampleFormat::Uint | SampleFormat::Int);
    if !integers || shape.bits != dtype.size() * 8 || !(1..=4).contains(&shape.samples) {
        return None;
    }
    match codec {
        Codec::Jpeg2000(_) => PixelType::of(dtype).map(Route::NvJpeg2000),
        Codec::Jpeg { photometric, .. } if dtype == DType::U8 && matches!(shape.samples, 1 | 3) => {
            Some(Route::NvJpeg { ycbcr: *photometric == YCBCR && shape.samples == 3 })
        }
        _ => None,
    }
}

/// Checks that the sizes of a block fit in the 32-bit fields of `Block`.
fn check_size(shape: Shape) -> Result<(), Unsupported> {
    let bits = shape.width.checked_mul(shape.samples).and_then(|samples| samples.checked_mul(shape.bits));
    let bytes = bits.and_then(|bits| bits.div_ceil(8).checked_mul(shape.height)).ok_or(Unsupported::Size)?;
    u32::try_from(bytes).map(|_| ()).map_err(|_| Unsupported::Size)
}

/// A sample, padded with zeros.
fn sample(bytes: &[u8]) -> [u8; 16] {
    let mut sample = [0; 16];
    sample[..bytes.len()].copy_from_slice(bytes);
    sample
}
