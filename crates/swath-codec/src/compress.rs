//! The codec for writing and its settings.

use std::str::FromStr;

use crate::codecs::{self, CODECS, CodecInfo};
use crate::error::{Error, Result};
use crate::lerc::LercCompression;
use crate::{jpeg, jpeg2000};

/// The codec that compresses blocks, with its settings.
///
/// Parsing a name returns the codec with its default settings. [`Compress::with_options`] sets others.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Compress {
    /// No compression.
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
        /// The codec that wraps the blobs.
        wrapped: LercCompression,
        /// The largest change of a sample; 0 is lossless.
        max_z_error: f64,
        /// The compression level of the wrapping codec.
        level: i32,
    },
    /// JPEG.
    Jpeg {
        /// The quality, 1 to 100 on libjpeg's scale.
        quality: u8,
        /// How three bands are stored.
        colour: jpeg::EncodeColour,
    },
    /// JPEG 2000.
    Jpeg2000(jpeg2000::Quality),
    /// WebP.
    WebP {
        /// The quality, 0 to 100; `None` is lossless.
        quality: Option<f32>,
    },
}

/// The settings of a codec that a user can choose. A setting that the codec does not have is an error and is
/// not ignored. [`CODECS`] lists the ranges and the defaults.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CodecOptions {
    /// The compression level; higher values compress more and take longer. For LERC it is the level of the
    /// codec that wraps the blobs.
    pub compression_level: Option<i32>,
    /// The quality of a lossy codec. WebP and JPEG 2000 are lossless if this is `None`.
    pub quality: Option<f32>,
    /// LERC: the largest change of a sample.
    pub max_z_error: Option<f64>,
    /// JPEG: the colour space in which three bands are stored.
    pub colour: Option<jpeg::EncodeColour>,
}

impl FromStr for Compress {
    type Err = Error;

    fn from_str(name: &str) -> Result<Compress> {
        Compress::with_options(name, CodecOptions::default())
    }
}

impl Compress {
    /// The names of the codecs that this build can write.
    pub fn names() -> impl Iterator<Item = &'static str> {
        CODECS.iter().filter(|info| info.can_write()).map(|info| info.name)
    }

    /// Returns the codec of this name with these settings.
    ///
    /// # Errors
    /// [`Error::NoEncoder`] if Swath cannot write a codec of that name, and the errors of
    /// [`CodecInfo::compress`].
    pub fn with_options(name: &str, options: CodecOptions) -> Result<Compress> {
        let info = CodecInfo::from_name(name).ok_or_else(|| Error::NoEncoder { name: name.to_owned() })?;
        info.compress(&options)
    }

    /// The row of this codec in [`CODECS`].
    pub fn info(&self) -> &'static CodecInfo {
        match self {
            Compress::None => &codecs::NONE,
            Compress::Lzw => &codecs::LZW,
            Compress::Deflate { .. } => &codecs::DEFLATE,
            Compress::Zstd { .. } => &codecs::ZSTD,
            Compress::PackBits => &codecs::PACKBITS,
            Compress::Lz4 => &codecs::LZ4,
            Compress::Lzma { .. } => &codecs::LZMA,
            Compress::Lerc { wrapped: LercCompression::None, .. } => &codecs::LERC,
            Compress::Lerc { wrapped: LercCompression::Deflate, .. } => &codecs::LERC_DEFLATE,
            Compress::Lerc { wrapped: LercCompression::Zstd, .. } => &codecs::LERC_ZSTD,
            Compress::Jpeg { .. } => &codecs::JPEG,
            Compress::Jpeg2000(_) => &codecs::JPEG_2000,
            Compress::WebP { .. } => &codecs::WEBP,
        }
    }

    /// The name of the codec in commands, errors and Python.
    pub fn name(&self) -> &'static str {
        self.info().name
    }

    /// The value of the Compression tag.
    pub fn tag(&self) -> u16 {
        self.info().tags[0].0
    }

    /// Whether the codec supports a predictor.
    pub fn takes_predictor(&self) -> bool {
        self.info().takes_predictor()
    }

    /// The JPEG parameters for blocks with this number of samples per pixel; `None` for other codecs.
    pub fn jpeg(&self, samples: usize) -> Option<jpeg::EncodeParams> {
        let Compress::Jpeg { quality, colour } = *self else { return None };
        let colour = if samples == 3 { colour } else { jpeg::EncodeColour::Stored };
        Some(jpeg::EncodeParams { quality, colour })
    }

    /// The number of pixels across and down that share one chroma pair; `None` if blocks with this number of
    /// samples per pixel are not stored as YCbCr.
    pub fn chroma(&self, samples: usize) -> Option<(u8, u8)> {
        match self.jpeg(samples)?.colour {
            jpeg::EncodeColour::YCbCr { subsampling } => Some(subsampling),
            jpeg::EncodeColour::Stored => None,
        }
    }

    /// Whether the codec stores samples of any meaning without change: it compresses bytes or numbers, not
    /// colours.
    pub fn is_lossless_of_bytes(&self) -> bool {
        self.takes_predictor() || matches!(self, Compress::None | Compress::PackBits | Compress::Lerc { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_parsed_to_its_codec() {
        for name in Compress::names() {
            assert_eq!(name.parse::<Compress>().unwrap().name(), name);
        }
        assert_eq!("gzip".parse::<Compress>(), Err(Error::NoEncoder { name: "gzip".into() }));
        assert_eq!("jxl".parse::<Compress>(), Err(Error::NoEncoder { name: "jxl".into() }));
        assert_eq!(Compress::Lerc { wrapped: LercCompression::Zstd, max_z_error: 0.0, level: 1 }.tag(), 34887);
    }

    #[test]
    fn an_option_that_the_codec_does_not_have_is_an_error() {
        let level = |level| CodecOptions { compression_level: Some(level), ..CodecOptions::default() };
        let quality = |quality| CodecOptions { quality: Some(quality), ..CodecOptions::default() };
        assert_eq!(Compress::with_options("ZSTD", level(22)), Ok(Compress::Zstd { level: 22 }));
        for (name, options) in [("lzw", level(1)), ("zstd", quality(75.0))] {
            let result = Compress::with_options(name, options);
            assert!(matches!(result, Err(Error::OptionUnused { .. })), "{name} {result:?}");
        }
        for (name, options) in [("zstd", level(23)), ("deflate", level(0)), ("jpeg", quality(0.0))] {
            let result = Compress::with_options(name, options);
            assert!(matches!(result, Err(Error::OptionRange { .. })), "{name} {result:?}");
        }
        let error = Compress::with_options("deflate", level(13)).unwrap_err();
        assert_eq!(error.to_string(), "compression level 13 is not supported by deflate; use 1 to 12");
        let error = Compress::with_options("zstd", quality(75.0)).unwrap_err();
        assert_eq!(error.to_string(), "a quality does not apply to zstd");
    }

    #[cfg(all(feature = "lerc", feature = "jpeg2000", feature = "webp"))]
    #[test]
    fn options_of_the_optional_codecs_are_checked_too() {
        let max_z_error = |error| CodecOptions { max_z_error: Some(error), ..CodecOptions::default() };
        let quality = CodecOptions { quality: Some(0.0), ..CodecOptions::default() };
        let level = CodecOptions { compression_level: Some(3), ..CodecOptions::default() };
        assert!(matches!(Compress::with_options("webp", max_z_error(1.0)), Err(Error::OptionUnused { .. })));
        assert!(matches!(Compress::with_options("lerc", level), Err(Error::OptionUnused { .. })));
        assert!(matches!(Compress::with_options("lerc", max_z_error(-1.0)), Err(Error::OptionRange { .. })));
        let error = Compress::with_options("j2k", quality).unwrap_err();
        assert_eq!(error.to_string(), "quality 0 is not supported by jpeg2000; use above 0 to 100");
        assert_eq!(Compress::with_options("webp", quality), Ok(Compress::WebP { quality: Some(0.0) }));
    }
}
