//! The table of codecs: names, supported operations and settings.
//!
//! Every other list of codecs in Swath (the help of the command, error messages, checks in Python,
//! [`can_decode`]) is derived from [`CODECS`]. To add a codec, start with a row here.

use swath_tiff::Compression;

use crate::compress::{CodecOptions, Compress};
use crate::error::{Error, Result};
use crate::lerc::LercCompression;
use crate::predictor::Predictor;
use crate::{jpeg, jpeg2000};

/// A codec that Swath can read.
#[derive(Debug)]
#[non_exhaustive]
pub struct CodecInfo {
    /// The name in commands, in Python and in error messages.
    pub name: &'static str,
    /// Other names that are accepted.
    pub aliases: &'static [&'static str],
    /// The values of the Compression tag that mean this codec. Swath writes the first one.
    pub tags: &'static [Compression],
    /// The range of the compression level, for codecs that have one.
    pub level: Option<LevelRange>,
    /// The range of the quality, for codecs that have one.
    pub quality: Option<QualityRange>,
    /// Whether the codec has a maximum error per sample.
    pub max_z_error: bool,
    /// Whether the codec can store the colours of three bands in different ways.
    pub chroma_subsampling: bool,
    /// The predictors that the codec supports: libtiff reads the Predictor tag for some codecs only.
    pub predictors: &'static [Predictor],
    /// The Cargo feature that includes the codec in a build; `None` if every build includes it.
    pub feature: Option<&'static str>,
    /// Whether this build includes the codec.
    pub included: bool,
    /// Builds the encoder's settings from checked options; `None` if Swath cannot write the codec.
    compress: Option<fn(&CodecOptions) -> Compress>,
}

/// The compression levels of a codec, from the fastest to the smallest output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelRange {
    /// The lowest level.
    pub min: i32,
    /// The highest level.
    pub max: i32,
    /// The level that is used if the caller gives none.
    pub default: i32,
}

/// The qualities of a lossy codec.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct QualityRange {
    /// The lowest quality.
    pub min: f32,
    /// Whether `min` itself is not allowed.
    pub min_excluded: bool,
    /// The highest quality.
    pub max: f32,
    /// The quality that is used if the caller gives none; `None` means lossless.
    pub default: Option<f32>,
}

impl QualityRange {
    fn contains(&self, quality: f32) -> bool {
        (self.min..=self.max).contains(&quality) && !(self.min_excluded && quality == self.min)
    }
}

impl std::fmt::Display for LevelRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to {}", self.min, self.max)
    }
}

impl std::fmt::Display for QualityRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let above = if self.min_excluded { "above " } else { "" };
        write!(f, "{above}{} to {}", self.min, self.max)
    }
}

const NO_PREDICTOR: &[Predictor] = &[Predictor::None];
const ALL_PREDICTORS: &[Predictor] = &[Predictor::None, Predictor::Horizontal, Predictor::FloatingPoint];

/// The defaults of most rows: a codec that every build includes and that Swath reads but does not write.
const READ_ONLY: CodecInfo = CodecInfo {
    name: "",
    aliases: &[],
    tags: &[],
    level: None,
    quality: None,
    max_z_error: false,
    chroma_subsampling: false,
    predictors: NO_PREDICTOR,
    feature: None,
    included: true,
    compress: None,
};

const DEFLATE_LEVELS: LevelRange = LevelRange { min: 1, max: 12, default: 6 };
const ZSTD_LEVELS: LevelRange = LevelRange { min: 1, max: 22, default: 6 };
const LZMA_LEVELS: LevelRange = LevelRange { min: 0, max: 9, default: 6 };

pub(crate) static NONE: CodecInfo =
    CodecInfo { name: "none", tags: &[Compression::NONE], compress: Some(|_| Compress::None), ..READ_ONLY };

pub(crate) static LZW: CodecInfo = CodecInfo {
    name: "lzw",
    tags: &[Compression::LZW],
    predictors: ALL_PREDICTORS,
    compress: Some(|_| Compress::Lzw),
    ..READ_ONLY
};

pub(crate) static DEFLATE: CodecInfo = CodecInfo {
    name: "deflate",
    tags: &[Compression::DEFLATE, Compression::OLD_DEFLATE],
    level: Some(DEFLATE_LEVELS),
    predictors: ALL_PREDICTORS,
    compress: Some(|options| Compress::Deflate { level: DEFLATE_LEVELS.of(options) }),
    ..READ_ONLY
};

pub(crate) static ZSTD: CodecInfo = CodecInfo {
    name: "zstd",
    tags: &[Compression::ZSTD],
    level: Some(ZSTD_LEVELS),
    predictors: ALL_PREDICTORS,
    compress: Some(|options| Compress::Zstd { level: ZSTD_LEVELS.of(options) }),
    ..READ_ONLY
};

pub(crate) static PACKBITS: CodecInfo =
    CodecInfo { name: "packbits", tags: &[Compression::PACKBITS], compress: Some(|_| Compress::PackBits), ..READ_ONLY };

pub(crate) static LZ4: CodecInfo = CodecInfo {
    name: "lz4",
    tags: &[Compression::LZ4],
    predictors: ALL_PREDICTORS,
    compress: Some(|_| Compress::Lz4),
    ..READ_ONLY
};

pub(crate) static LZMA: CodecInfo = CodecInfo {
    name: "lzma",
    tags: &[Compression::LZMA],
    level: Some(LZMA_LEVELS),
    predictors: ALL_PREDICTORS,
    feature: Some("lzma"),
    included: cfg!(feature = "lzma"),
    compress: Some(|options| Compress::Lzma { preset: LZMA_LEVELS.of(options).unsigned_abs() }),
    ..READ_ONLY
};

/// The fields that the three rows of LERC share.
const ANY_LERC: CodecInfo = CodecInfo {
    tags: &[Compression::LERC],
    max_z_error: true,
    feature: Some("lerc"),
    included: cfg!(feature = "lerc"),
    ..READ_ONLY
};

fn lerc(options: &CodecOptions, wrapped: LercCompression, level: i32) -> Compress {
    Compress::Lerc { wrapped, max_z_error: options.max_z_error.unwrap_or(0.0), level }
}

pub(crate) static LERC: CodecInfo =
    CodecInfo { name: "lerc", compress: Some(|options| lerc(options, LercCompression::None, 0)), ..ANY_LERC };

pub(crate) static LERC_DEFLATE: CodecInfo = CodecInfo {
    name: "lerc_deflate",
    level: Some(DEFLATE_LEVELS),
    compress: Some(|options| lerc(options, LercCompression::Deflate, DEFLATE_LEVELS.of(options))),
    ..ANY_LERC
};

pub(crate) static LERC_ZSTD: CodecInfo = CodecInfo {
    name: "lerc_zstd",
    level: Some(ZSTD_LEVELS),
    compress: Some(|options| lerc(options, LercCompression::Zstd, ZSTD_LEVELS.of(options))),
    ..ANY_LERC
};

/// The default quality of JPEG, the same as in GDAL.
const JPEG_QUALITY: f32 = 75.0;

pub(crate) static JPEG: CodecInfo = CodecInfo {
    name: "jpeg",
    tags: &[Compression::JPEG],
    quality: Some(QualityRange { min: 1.0, min_excluded: false, max: 100.0, default: Some(JPEG_QUALITY) }),
    chroma_subsampling: true,
    compress: Some(|options| Compress::Jpeg {
        quality: options.quality.unwrap_or(JPEG_QUALITY).round() as u8,
        colour: options.colour.unwrap_or(jpeg::EncodeColour::YCbCr { subsampling: (2, 2) }),
    }),
    ..READ_ONLY
};

pub(crate) static JPEG_2000: CodecInfo = CodecInfo {
    name: "jpeg2000",
    aliases: &["j2k"],
    tags: &[Compression::JPEG_2000, Compression::APERIO_J2K_RGB, Compression::APERIO_J2K_YCBCR],
    quality: Some(QualityRange { min: 0.0, min_excluded: true, max: 100.0, default: None }),
    feature: Some("jpeg2000"),
    included: cfg!(feature = "jpeg2000"),
    compress: Some(|options| {
        Compress::Jpeg2000(options.quality.map_or(jpeg2000::Quality::Lossless, jpeg2000::Quality::Percent))
    }),
    ..READ_ONLY
};

pub(crate) static WEBP: CodecInfo = CodecInfo {
    name: "webp",
    tags: &[Compression::WEBP],
    quality: Some(QualityRange { min: 0.0, min_excluded: false, max: 100.0, default: None }),
    feature: Some("webp"),
    included: cfg!(feature = "webp"),
    compress: Some(|options| Compress::WebP { quality: options.quality }),
    ..READ_ONLY
};

static JXL: CodecInfo = CodecInfo {
    name: "jxl",
    tags: &[Compression::JPEG_XL, Compression::JPEG_XL_DNG],
    feature: Some("jxl"),
    included: cfg!(feature = "jxl"),
    ..READ_ONLY
};

static OLD_JPEG: CodecInfo = CodecInfo { name: "old_jpeg", tags: &[Compression::OLD_JPEG], ..READ_ONLY };
static CCITT_RLE: CodecInfo = CodecInfo { name: "ccitt_rle", tags: &[Compression::CCITT_RLE], ..READ_ONLY };
static CCITT_RLE_WORD: CodecInfo =
    CodecInfo { name: "ccitt_rle_word", tags: &[Compression::CCITT_RLE_WORD], ..READ_ONLY };
static CCITT_G3: CodecInfo = CodecInfo { name: "ccitt_g3", tags: &[Compression::CCITT_G3], ..READ_ONLY };
static CCITT_G4: CodecInfo = CodecInfo { name: "ccitt_g4", tags: &[Compression::CCITT_G4], ..READ_ONLY };
static NEXT: CodecInfo = CodecInfo { name: "next", tags: &[Compression::NEXT], ..READ_ONLY };
static THUNDERSCAN: CodecInfo = CodecInfo { name: "thunderscan", tags: &[Compression::THUNDERSCAN], ..READ_ONLY };
static SGI_LOG: CodecInfo =
    CodecInfo { name: "sgi_log", tags: &[Compression::SGI_LOG, Compression::SGI_LOG_24], ..READ_ONLY };

/// All codecs. Those that Swath can write come first.
pub static CODECS: &[&CodecInfo] = &[
    &NONE,
    &LZW,
    &DEFLATE,
    &ZSTD,
    &PACKBITS,
    &LZ4,
    &LZMA,
    &LERC,
    &LERC_DEFLATE,
    &LERC_ZSTD,
    &JPEG,
    &JPEG_2000,
    &WEBP,
    &JXL,
    &OLD_JPEG,
    &CCITT_RLE,
    &CCITT_RLE_WORD,
    &CCITT_G3,
    &CCITT_G4,
    &NEXT,
    &THUNDERSCAN,
    &SGI_LOG,
];

/// Whether this build can decode blocks of this compression.
pub fn can_decode(compression: Compression) -> bool {
    check_decodable(compression).is_ok()
}

/// Checks that this build can decode blocks of this compression.
///
/// # Errors
/// [`Error::Unsupported`] if Swath has no decoder, [`Error::NotIncluded`] if this build of Swath does not
/// include it.
pub fn check_decodable(compression: Compression) -> Result<&'static CodecInfo> {
    let (name, code) = (compression.name(), compression.0);
    let info = CodecInfo::from_tag(compression).ok_or(Error::Unsupported { name, code })?;
    info.check_included()?;
    Ok(info)
}

impl CodecInfo {
    /// Returns the codec for a value of the Compression tag. For LERC it is the row without a wrapper.
    pub fn from_tag(compression: Compression) -> Option<&'static CodecInfo> {
        CODECS.iter().copied().find(|info| info.tags.contains(&compression))
    }

    /// Returns the codec with this name or alias, in upper or lower case.
    pub fn from_name(name: &str) -> Option<&'static CodecInfo> {
        let is = |own: &str| own.eq_ignore_ascii_case(name);
        CODECS.iter().copied().find(|info| is(info.name) || info.aliases.iter().any(|alias| is(alias)))
    }

    /// The name of the codec as its specification spells it, for example "JPEG 2000".
    pub fn label(&self) -> &'static str {
        self.tags.first().map_or(self.name, |compression| compression.name())
    }

    /// Whether this build can read the codec.
    pub fn can_read(&self) -> bool {
        self.included
    }

    /// Whether this build can write the codec.
    pub fn can_write(&self) -> bool {
        self.included && self.compress.is_some()
    }

    /// Whether the codec supports a predictor.
    pub fn takes_predictor(&self) -> bool {
        self.predictors.len() > 1
    }

    /// Checks that this build includes the codec.
    pub(crate) fn check_included(&self) -> Result<()> {
        match self.feature {
            Some(feature) if !self.included => Err(Error::NotIncluded { codec: self.label(), feature }),
            _ => Ok(()),
        }
    }

    /// Returns the settings for the encoder of this codec.
    ///
    /// # Errors
    /// [`Error::NoEncoder`] or [`Error::NotIncluded`] if this build cannot write the codec,
    /// [`Error::OptionUnused`] if an option does not apply to the codec, [`Error::OptionRange`] if the value of
    /// an option is outside the codec's range.
    pub fn compress(&self, options: &CodecOptions) -> Result<Compress> {
        let compress = self.compress.ok_or_else(|| Error::NoEncoder { name: self.name.to_owned() })?;
        self.check_included()?;
        self.check_options(options)?;
        Ok(compress(options))
    }

    fn check_options(&self, options: &CodecOptions) -> Result<()> {
        let codec = self.name;
        let unused = |option| Err(Error::OptionUnused { codec, option });
        let range = |option, value: String, allowed: String| Err(Error::OptionRange { codec, option, value, allowed });
        match (options.compression_level, self.level) {
            (Some(_), None) => return unused("a compression level"),
            (Some(level), Some(levels)) if !(levels.min..=levels.max).contains(&level) => {
                return range("compression level", level.to_string(), levels.to_string());
            }
            _ => {}
        }
        match (options.quality, self.quality) {
            (Some(_), None) => return unused("a quality"),
            (Some(quality), Some(qualities)) if !qualities.contains(quality) => {
                return range("quality", quality.to_string(), qualities.to_string());
            }
            _ => {}
        }
        match options.max_z_error {
            Some(_) if !self.max_z_error => return unused("a maximum error"),
            Some(error) if !(0.0..f64::INFINITY).contains(&error) => {
                return range("maximum error", error.to_string(), "0 or a positive number".into());
            }
            _ => {}
        }
        if options.colour.is_some() && !self.chroma_subsampling {
            return unused("chroma subsampling");
        }
        Ok(())
    }
}

impl LevelRange {
    fn of(self, options: &CodecOptions) -> i32 {
        options.compression_level.unwrap_or(self.default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_aliases_and_tags_are_unique_except_for_the_wrappers_of_lerc() {
        let names: Vec<&str> =
            CODECS.iter().flat_map(|info| info.aliases.iter().chain([&info.name])).copied().collect();
        for (n, name) in names.iter().enumerate() {
            assert!(!names[..n].contains(name), "{name} appears twice");
            assert_eq!(*name, name.to_ascii_lowercase());
        }
        let tags = CODECS.iter().filter(|info| !info.name.starts_with("lerc_")).flat_map(|info| info.tags);
        let tags: Vec<Compression> = tags.copied().collect();
        for (n, tag) in tags.iter().enumerate() {
            assert!(!tags[..n].contains(tag), "{} appears twice", tag.name());
            assert!(Compression::NAMED.contains(tag));
        }
    }

    #[test]
    fn defaults_lie_in_their_ranges() {
        for info in CODECS {
            assert!(
                info.level.is_none_or(|levels| (levels.min..=levels.max).contains(&levels.default)),
                "{}",
                info.name
            );
            let quality = info.quality.and_then(|range| range.default.map(|default| range.contains(default)));
            assert!(quality.unwrap_or(true), "{}", info.name);
        }
    }

    #[test]
    fn error_for_an_excluded_codec_names_its_feature() {
        for info in CODECS.iter().filter(|info| !info.included) {
            let feature = info.feature.expect("an excluded codec has a feature");
            let missing = Error::NotIncluded { codec: info.label(), feature };
            assert_eq!(check_decodable(info.tags[0]).unwrap_err(), missing);
            if info.compress.is_some() {
                assert_eq!(info.compress(&CodecOptions::default()), Err(missing));
            }
        }
    }
}
