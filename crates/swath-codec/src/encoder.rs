//! One encoder for the blocks of one image: predict, put the bytes into file order, compress.

use crate::error::{Error, Result};
use crate::lerc::LercCompression;
use crate::predictor::{self, Predictor};
use crate::shape::{SampleFormat, Shape};
use crate::{deflate, jpeg, jpeg2000, lerc, lz4, lzma, lzw, packbits, webp, zstd};

/// How blocks are compressed, with what the encoder may be told.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Compress {
    /// Stored as is.
    None,
    /// LZW.
    Lzw,
    /// Deflate in zlib framing.
    Deflate {
        /// 1 (fast) to 12 (small).
        level: i32,
    },
    /// Zstandard.
    Zstd {
        /// 1 (fast) to 22 (small).
        level: i32,
    },
    /// PackBits run lengths.
    PackBits,
    /// LZ4 frames.
    Lz4,
    /// LZMA2 in an xz container.
    Lzma {
        /// 0 (fast) to 9 (small).
        preset: u32,
    },
    /// LERC, alone or in Deflate or ZSTD.
    Lerc {
        /// What is wrapped around the blobs.
        wrapped: LercCompression,
        /// No sample changes by more than this; 0 is lossless.
        max_z_error: f64,
        /// The level of what is wrapped around.
        level: i32,
    },
    /// JPEG.
    Jpeg {
        /// 1 to 100 on libjpeg's scale.
        quality: u8,
        /// How three bands are stored.
        colour: jpeg::EncodeColour,
    },
    /// JPEG 2000.
    Jpeg2000(jpeg2000::Quality),
    /// WebP.
    WebP {
        /// 0 to 100; `None` is lossless.
        quality: Option<f32>,
    },
}

/// What the user of a codec may turn. What the codec does not have is an error, not ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tuning {
    /// Fast to small: Deflate 1 to 12, ZSTD 1 to 22, LZMA 0 to 9; also of what is wrapped around LERC.
    pub level: Option<i32>,
    /// JPEG 1 to 100, WebP and JPEG 2000 0 to 100; WebP and JPEG 2000 without one are lossless.
    pub quality: Option<f32>,
    /// LERC: no sample changes by more than this.
    pub max_z_error: Option<f64>,
    /// JPEG: how three bands are stored.
    pub colour: Option<jpeg::EncodeColour>,
}

/// The level of Deflate and ZSTD where none is given.
const DEFAULT_LEVEL: i32 = 6;

impl Compress {
    /// The names that [`named`](Compress::named) knows.
    pub const NAMES: &[&str] = &[
        "none",
        "lzw",
        "deflate",
        "zstd",
        "packbits",
        "lz4",
        "lzma",
        "lerc",
        "lerc_deflate",
        "lerc_zstd",
        "jpeg",
        "jpeg2000",
        "webp",
    ];

    /// The codec of this name.
    ///
    /// # Errors
    /// [`Error::Unsuited`] when the tuning is not for this codec or out of its range, [`Error::NoEncoder`] when there is no such codec.
    pub fn named(name: &str, tuning: Tuning) -> Result<Compress> {
        fn unsuited<T>(codec: &'static str, what: &'static str) -> Result<T> {
            Err(Error::Unsuited { codec, what })
        }
        let level = |codec, range: std::ops::RangeInclusive<i32>, default| match tuning.level {
            None => Ok(default),
            Some(level) if range.contains(&level) => Ok(level),
            Some(_) => unsuited(
                codec,
                match range.into_inner() {
                    (1, 12) => "a level outside 1 to 12",
                    (1, 22) => "a level outside 1 to 22",
                    _ => "a level outside 0 to 9",
                },
            ),
        };
        let lerc = |wrapped, level| {
            let max_z_error = tuning.max_z_error.unwrap_or(0.0);
            if !(0.0..f64::INFINITY).contains(&max_z_error) {
                return unsuited("LERC", "an error that is negative or not finite");
            }
            Ok(Compress::Lerc { wrapped, max_z_error, level })
        };
        let compress = match name.to_ascii_lowercase().as_str() {
            "none" => Compress::None,
            "lzw" => Compress::Lzw,
            "deflate" => Compress::Deflate { level: level("Deflate", 1..=12, DEFAULT_LEVEL)? },
            "zstd" => Compress::Zstd { level: level("ZSTD", 1..=22, DEFAULT_LEVEL)? },
            "packbits" => Compress::PackBits,
            "lz4" => Compress::Lz4,
            "lzma" => Compress::Lzma { preset: level("LZMA", 0..=9, DEFAULT_LEVEL)? as u32 },
            "lerc" => lerc(LercCompression::None, 0)?,
            "lerc_deflate" => lerc(LercCompression::Deflate, level("Deflate", 1..=12, DEFAULT_LEVEL)?)?,
            "lerc_zstd" => lerc(LercCompression::Zstd, level("ZSTD", 1..=22, DEFAULT_LEVEL)?)?,
            "jpeg" => {
                let quality = tuning.quality.unwrap_or(75.0);
                if !(1.0..=100.0).contains(&quality) {
                    return unsuited("JPEG", "a quality outside 1 to 100");
                }
                let colour = tuning.colour.unwrap_or(jpeg::EncodeColour::YCbCr { subsampling: (2, 2) });
                Compress::Jpeg { quality: quality.round() as u8, colour }
            }
            "jpeg2000" | "j2k" => Compress::Jpeg2000(match tuning.quality {
                None => jpeg2000::Quality::Lossless,
                Some(percent) if percent > 0.0 && percent <= 100.0 => jpeg2000::Quality::Percent(percent),
                Some(_) => return unsuited("JPEG 2000", "a quality that is not above 0 and at most 100"),
            }),
            "webp" => match tuning.quality {
                Some(quality) if !(0.0..=100.0).contains(&quality) => {
                    return unsuited("WebP", "a quality outside 0 to 100");
                }
                quality => Compress::WebP { quality },
            },
            _ => return Err(Error::NoEncoder { name: name.to_owned() }),
        };
        let has_level = matches!(
            compress,
            Compress::Deflate { .. }
                | Compress::Zstd { .. }
                | Compress::Lzma { .. }
                | Compress::Lerc { level: 1.., .. }
        );
        let has_quality = matches!(compress, Compress::Jpeg { .. } | Compress::Jpeg2000(_) | Compress::WebP { .. });
        if tuning.level.is_some() && !has_level {
            return unsuited(compress.name(), "a level");
        }
        if tuning.quality.is_some() && !has_quality {
            return unsuited(compress.name(), "a quality");
        }
        if tuning.max_z_error.is_some() && !matches!(compress, Compress::Lerc { .. }) {
            return unsuited(compress.name(), "a largest error");
        }
        if tuning.colour.is_some() && !matches!(compress, Compress::Jpeg { .. }) {
            return unsuited(compress.name(), "a colour subsampling");
        }
        Ok(compress)
    }

    /// The name that commands, errors and Python use.
    pub fn name(&self) -> &'static str {
        match self {
            Compress::None => "none",
            Compress::Lzw => "lzw",
            Compress::Deflate { .. } => "deflate",
            Compress::Zstd { .. } => "zstd",
            Compress::PackBits => "packbits",
            Compress::Lz4 => "lz4",
            Compress::Lzma { .. } => "lzma",
            Compress::Lerc { wrapped: LercCompression::None, .. } => "lerc",
            Compress::Lerc { wrapped: LercCompression::Deflate, .. } => "lerc_deflate",
            Compress::Lerc { wrapped: LercCompression::Zstd, .. } => "lerc_zstd",
            Compress::Jpeg { .. } => "jpeg",
            Compress::Jpeg2000(_) => "jpeg2000",
            Compress::WebP { .. } => "webp",
        }
    }

    /// The value of the Compression tag.
    pub fn tag(&self) -> u16 {
        match self {
            Compress::None => 1,
            Compress::Lzw => 5,
            Compress::Deflate { .. } => 8,
            Compress::Zstd { .. } => 50000,
            Compress::PackBits => 32773,
            Compress::Lz4 => 50004,
            Compress::Lzma { .. } => 34925,
            Compress::Lerc { .. } => 34887,
            Compress::Jpeg { .. } => 7,
            Compress::Jpeg2000(_) => 34712,
            Compress::WebP { .. } => 50001,
        }
    }

    /// Whether a predictor can stand before the compressor: libtiff reads the tag for these codecs only.
    pub fn takes_predictor(&self) -> bool {
        matches!(
            self,
            Compress::Lzw | Compress::Deflate { .. } | Compress::Zstd { .. } | Compress::Lz4 | Compress::Lzma { .. }
        )
    }

    /// How blocks of so many samples are stored as JPEG.
    pub fn jpeg(&self, samples: usize) -> Option<jpeg::EncodeParams> {
        let Compress::Jpeg { quality, colour } = *self else { return None };
        let colour = if samples == 3 { colour } else { jpeg::EncodeColour::Stored };
        Some(jpeg::EncodeParams { quality, colour })
    }

    /// How many pixels share their chroma, across and down, if blocks of so many samples are stored as YCbCr.
    pub fn chroma(&self, samples: usize) -> Option<(u8, u8)> {
        match self.jpeg(samples)?.colour {
            jpeg::EncodeColour::YCbCr { subsampling } => Some(subsampling),
            jpeg::EncodeColour::Stored => None,
        }
    }

    /// Whether the codec moves bytes and knows nothing of colours.
    pub fn is_lossless_of_bytes(&self) -> bool {
        self.takes_predictor() || matches!(self, Compress::None | Compress::PackBits | Compress::Lerc { .. })
    }
}

/// Encodes the blocks of one image. Shared between threads; what changes lies in [`EncodeScratch`].
#[derive(Debug, Clone)]
pub struct Encoder {
    /// The compressor.
    pub compress: Compress,
    /// The predictor before it.
    pub predictor: Predictor,
}

/// Working memory of one thread, kept from block to block. Contexts are made when the first block needs them, and again when
/// another codec or level does.
#[derive(Default)]
pub struct EncodeScratch {
    made_for: Option<Compress>,
    deflate: Option<deflate::Encoder>,
    zstd: Option<zstd::Encoder>,
    lerc: Option<lerc::Encoder>,
    jpeg: jpeg::EncodeScratch,
    rows: Vec<u8>,
}

impl EncodeScratch {
    /// Make the contexts that a codec needs.
    fn make(&mut self, compress: Compress) -> Result<()> {
        if self.made_for == Some(compress) {
            return Ok(());
        }
        self.made_for = None;
        match compress {
            Compress::Deflate { level } => self.deflate = Some(deflate::Encoder::new(level)?),
            Compress::Zstd { level } => self.zstd = Some(zstd::Encoder::new(level)?),
            Compress::Lerc { wrapped, max_z_error, level } => {
                let params = lerc::Params { version: lerc::VERSION, compression: wrapped };
                self.lerc = Some(lerc::Encoder::new(&params, max_z_error, level)?);
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
    /// Check, before any pixel is made, that blocks of this shape can be encoded.
    ///
    /// # Errors
    /// [`Error::Unsuited`] names what the codec or the predictor cannot hold.
    pub fn check(&self, shape: Shape) -> Result<()> {
        let most = match self.compress {
            // libjpeg's limit, and that of the format.
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

    /// Append the encoded form of one block to `out`. `block` holds `shape.len()` bytes: native samples, or packed rows where
    /// the samples are not whole bytes. It is scratch memory afterwards. Files are written in little-endian order.
    ///
    /// # Errors
    /// [`Error::Unsuited`] when the codec cannot hold such samples.
    pub fn encode(&self, block: &mut [u8], shape: Shape, out: &mut Vec<u8>, scratch: &mut EncodeScratch) -> Result<()> {
        scratch.make(self.compress)?;
        match (self.compress, scratch) {
            (Compress::Lerc { .. }, EncodeScratch { lerc: Some(lerc), .. }) => lerc.encode(block, shape, out),
            (Compress::Jpeg { .. }, scratch) => match self.compress.jpeg(shape.samples) {
                Some(params) => jpeg::encode(&params, block, shape, out, &mut scratch.jpeg),
                None => Err(Error::Unsuited { codec: "JPEG", what: "such samples" }),
            },
            (Compress::Jpeg2000(quality), _) => {
                let params = jpeg2000::EncodeParams { quality, rgb: shape.samples == 3 };
                jpeg2000::encode(&params, block, shape, out)
            }
            (Compress::WebP { quality }, _) => webp::encode(quality, block, shape, out),
            (_, scratch) => self.encode_bytes(block, shape, out, scratch),
        }
    }

    /// The codecs that know nothing of pixels.
    fn encode_bytes(
        &self,
        block: &mut [u8],
        shape: Shape,
        out: &mut Vec<u8>,
        scratch: &mut EncodeScratch,
    ) -> Result<()> {
        predictor::apply(self.predictor, shape, false, block, &mut scratch.rows)?;
        match (self.compress, scratch) {
            (Compress::Lzw, _) => lzw::encode(block, out),
            (Compress::Deflate { .. }, EncodeScratch { deflate: Some(deflate), .. }) => deflate.encode(block, out),
            (Compress::Zstd { .. }, EncodeScratch { zstd: Some(zstd), .. }) => zstd.encode(block, out),
            (Compress::PackBits, _) => packbits::encode(block, shape.row_bytes(), out),
            (Compress::Lz4, _) => lz4::encode(block, out),
            (Compress::Lzma { preset }, _) => lzma::encode(block, preset, out)?,
            _ => out.extend_from_slice(block),
        }
        Ok(())
    }

    /// The predictor that serves such samples best: 3 for floats, 2 for integers, none where none can stand.
    pub fn best_predictor(compress: &Compress, format: SampleFormat, bits: usize) -> Predictor {
        match (format, bits) {
            _ if !compress.takes_predictor() => Predictor::None,
            // libtiff's predictor 3 for half floats came late (GDAL 3.13): an older reader would refuse the file.
            (SampleFormat::Float, 32 | 64) => Predictor::FloatingPoint,
            (SampleFormat::Uint | SampleFormat::Int, 8 | 16 | 32 | 64) => Predictor::Horizontal,
            (SampleFormat::Float, 16) => Predictor::Horizontal,
            _ => Predictor::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_codec_and_says_so() {
        for name in Compress::NAMES {
            assert_eq!(Compress::named(name, Tuning::default()).unwrap().name(), *name);
        }
        assert_eq!(Compress::named("gzip", Tuning::default()), Err(Error::NoEncoder { name: "gzip".into() }),);
    }

    #[test]
    fn tuning_that_a_codec_does_not_have_is_refused() {
        let level = |level| Tuning { level: Some(level), ..Tuning::default() };
        assert_eq!(Compress::named("ZSTD", level(22)), Ok(Compress::Zstd { level: 22 }));
        for (name, tuning) in [
            ("zstd", level(23)),
            ("deflate", level(0)),
            ("lzw", level(1)),
            ("lerc", level(3)),
            ("jpeg", Tuning { quality: Some(0.0), ..Tuning::default() }),
            ("zstd", Tuning { quality: Some(75.0), ..Tuning::default() }),
            ("webp", Tuning { max_z_error: Some(1.0), ..Tuning::default() }),
            ("lerc", Tuning { max_z_error: Some(-1.0), ..Tuning::default() }),
        ] {
            assert!(matches!(Compress::named(name, tuning), Err(Error::Unsuited { .. })), "{name} {tuning:?}");
        }
    }
}
