//! The encoder for the blocks of one image: it applies the predictor, swaps bytes to file order and compresses.

use crate::compress::Compress;
use crate::error::{Error, Result};
use crate::predictor::{self, Predictor};
use crate::shape::Shape;
use crate::{SampleFormat, contain, deflate, jpeg, jpeg2000, lerc, lz4, lzma, lzw, memory, packbits, webp, zstd};

/// Encodes the blocks of one image. Threads share it; each has its own [`EncodeScratch`].
#[derive(Debug, Clone)]
pub struct Encoder {
    /// The compressor.
    pub compress: Compress,
    /// The predictor that runs before the compressor.
    pub predictor: Predictor,
}

/// The working memory of one thread, reused for every block. A compression context is created when the first
/// block needs it, and again when the codec or its compression level changes.
#[derive(Default)]
pub struct EncodeScratch {
    made_for: Option<Compress>,
    deflate: Option<deflate::Encoder>,
    zstd: Option<zstd::Encoder>,
    lerc: Option<lerc::Encoder>,
    jpeg: jpeg::EncodeScratch,
    rows: Vec<u8>,
}

/// The memory that libdeflate needs for the tables of most levels, for messages.
const DEFLATE_BYTES: usize = 1 << 20;

impl EncodeScratch {
    /// Creates the contexts that a codec needs.
    fn make(&mut self, compress: Compress) -> Result<()> {
        if self.made_for == Some(compress) {
            return Ok(());
        }
        self.made_for = None;
        match compress {
            Compress::Deflate { level } => {
                let new = || deflate::Encoder::new(level);
                self.deflate = Some(contain::allocating(compress.name(), DEFLATE_BYTES, new)??);
            }
            Compress::Zstd { level } => self.zstd = Some(zstd::Encoder::new(level)?),
            Compress::Lerc { wrapped, max_z_error, level } => {
                let params = lerc::Params { version: lerc::VERSION, compression: wrapped };
                let new = || lerc::Encoder::new(&params, max_z_error, level);
                self.lerc = Some(contain::allocating(compress.name(), DEFLATE_BYTES, new)??);
            }
            _ => {}
        }
        self.made_for = Some(compress);
        Ok(())
    }
}

impl std::fmt::Debug for EncodeScratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EncodeScratch").field("made_for", &self.made_for).finish_non_exhaustive()
    }
}

impl Encoder {
    /// Checks that blocks of this shape can be encoded. Callers run this check before they compute any pixel.
    ///
    /// # Errors
    /// [`Error::Unsuited`] names the feature that the codec or the predictor does not support.
    pub fn check(&self, shape: Shape) -> Result<()> {
        let most = match self.compress {
            // Both libjpeg and the JPEG format have this limit.
            Compress::Jpeg { .. } => 65_500,
            Compress::WebP { .. } => 16_383,
            _ => usize::MAX,
        };
        if shape.width.max(shape.height) > most {
            return Err(Error::Unsuited { codec: self.compress.name(), what: "blocks of this size" });
        }
        let probe = Shape { width: shape.width.min(16), height: shape.height.min(16), ..shape };
        self.encode(&mut vec![0; probe.len()], probe, &mut Vec::new(), &mut EncodeScratch::default())
    }

    /// Whether an encoded block is the samples in native byte order, so that [`encode`](Encoder::encode) only
    /// copies them.
    pub fn stores_samples(&self) -> bool {
        self.compress == Compress::None && self.predictor == Predictor::None && cfg!(target_endian = "little")
    }

    /// Appends the encoded form of one block to `out`. `block` holds `shape.len()` bytes: native samples, or
    /// packed rows if samples are not whole bytes. Its content is undefined afterwards. Files are written in
    /// little-endian order.
    ///
    /// # Errors
    /// [`Error::Unsuited`] if the codec does not support these samples, [`Error::EncoderPanicked`] if it panics.
    /// After an error, `out` is as it was.
    pub fn encode(&self, block: &mut [u8], shape: Shape, out: &mut Vec<u8>, scratch: &mut EncodeScratch) -> Result<()> {
        let start = out.len();
        let work = || self.encode_uncontained(block, shape, out, scratch);
        contain::encoding(self.compress.name(), work).inspect_err(|_| {
            out.truncate(start);
            // A panic can leave a context of a codec in any state.
            *scratch = EncodeScratch::default();
        })
    }

    fn encode_uncontained(
        &self,
        block: &mut [u8],
        shape: Shape,
        out: &mut Vec<u8>,
        scratch: &mut EncodeScratch,
    ) -> Result<()> {
        scratch.make(self.compress)?;
        memory::check(self.compress.name(), shape.len().saturating_mul(2))?;
        match (self.compress, scratch) {
            (Compress::Lerc { .. }, EncodeScratch { lerc: Some(lerc), .. }) => lerc.encode(block, shape, out),
            (Compress::Jpeg { .. }, scratch) => match self.compress.jpeg(shape.samples) {
                Some(params) => jpeg::encode(&params, block, shape, out, &mut scratch.jpeg),
                None => Err(Error::Unsuited { codec: "JPEG", what: "these samples" }),
            },
            (Compress::Jpeg2000(quality), _) => {
                let params = jpeg2000::EncodeParams { quality, rgb: shape.samples == 3 };
                jpeg2000::encode(&params, block, shape, out)
            }
            (Compress::WebP { quality }, _) => webp::encode(quality, block, shape, out),
            (_, scratch) => self.encode_bytes(block, shape, out, scratch),
        }
    }

    /// Encodes a block with a codec that compresses bytes.
    fn encode_bytes(
        &self,
        block: &mut [u8],
        shape: Shape,
        out: &mut Vec<u8>,
        scratch: &mut EncodeScratch,
    ) -> Result<()> {
        // More than the bounds of the codecs, which would otherwise end the process if there is no memory.
        memory::reserve(self.compress.name(), out, block.len() + block.len() / 32 + 1024)?;
        predictor::apply(self.predictor, shape, false, block, &mut scratch.rows)?;
        match (self.compress, scratch) {
            (Compress::Lzw, _) => lzw::encode(block, out),
            (Compress::Deflate { .. }, EncodeScratch { deflate: Some(deflate), .. }) => deflate.encode(block, out),
            (Compress::Zstd { .. }, EncodeScratch { zstd: Some(zstd), .. }) => zstd.encode(block, out)?,
            (Compress::PackBits, _) => packbits::encode(block, shape.row_bytes(), out),
            (Compress::Lz4, _) => lz4::encode(block, out),
            (Compress::Lzma { preset }, _) => lzma::encode(block, preset, out)?,
            _ => out.extend_from_slice(block),
        }
        Ok(())
    }

    /// Returns the predictor that compresses these samples best: 3 for floats, 2 for integers, and none for
    /// codecs that do not support predictors.
    pub fn best_predictor(compress: &Compress, format: SampleFormat, bits: usize) -> Predictor {
        match (format, bits) {
            _ if !compress.takes_predictor() => Predictor::None,
            // libtiff supports predictor 3 for half floats only since GDAL 3.13. Older readers would refuse the
            // file.
            (SampleFormat::Float, 32 | 64) => Predictor::FloatingPoint,
            (SampleFormat::Uint | SampleFormat::Int, 8 | 16 | 32 | 64) => Predictor::Horizontal,
            (SampleFormat::Float, 16) => Predictor::Horizontal,
            _ => Predictor::None,
        }
    }
}
