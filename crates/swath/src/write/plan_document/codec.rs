//! A codec with its settings, as data.

use serde::{Deserialize, Serialize};
use swath_codec::jpeg::EncodeColour;
use swath_codec::jpeg2000::Quality;
use swath_codec::lerc::LercCompression;
use swath_codec::{CodecOptions, Compress};

use super::exact::Exact;
use super::field;
use crate::write::error::PlanError;

/// The name of a codec and those settings that it has.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CodecDocument {
    name: String,
    level: Option<i32>,
    quality: Option<Exact>,
    /// JPEG 2000: the peak signal-to-noise ratio in decibels.
    psnr: Option<Exact>,
    max_z_error: Option<Exact>,
    jpeg_colour: Option<JpegColourDocument>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum JpegColourDocument {
    Stored,
    /// The YCbCrSubSampling tag.
    Ycbcr(u8, u8),
}

impl CodecDocument {
    pub(super) fn new(compress: &Compress) -> CodecDocument {
        let mut document = CodecDocument {
            name: compress.name().to_owned(),
            level: None,
            quality: None,
            psnr: None,
            max_z_error: None,
            jpeg_colour: None,
        };
        let exact = |value: f32| Some(Exact(value.into()));
        match *compress {
            Compress::Deflate { level } | Compress::Zstd { level } => document.level = Some(level),
            Compress::Lzma { preset } => document.level = i32::try_from(preset).ok(),
            Compress::Lerc { wrapped, max_z_error, level } => {
                document.max_z_error = Some(Exact(max_z_error));
                document.level = Some(level).filter(|_| wrapped != LercCompression::None);
            }
            Compress::Jpeg { quality, colour } => {
                document.quality = exact(quality.into());
                document.jpeg_colour = Some(match colour {
                    EncodeColour::Stored => JpegColourDocument::Stored,
                    EncodeColour::YCbCr { subsampling: (across, down) } => JpegColourDocument::Ycbcr(across, down),
                });
            }
            Compress::Jpeg2000(Quality::Percent(percent)) => document.quality = exact(percent),
            Compress::Jpeg2000(Quality::Psnr(decibels)) => document.psnr = exact(decibels),
            Compress::WebP { quality } => document.quality = quality.and_then(exact),
            // The other codecs have no settings.
            _ => {}
        }
        document
    }

    /// The codec, with the range of every setting checked.
    pub(super) fn into_compress(self) -> Result<Compress, PlanError> {
        let colour = match self.jpeg_colour {
            None => None,
            Some(JpegColourDocument::Stored) => Some(EncodeColour::Stored),
            Some(JpegColourDocument::Ycbcr(across @ (1 | 2), 1)) => {
                Some(EncodeColour::YCbCr { subsampling: (across, 1) })
            }
            Some(JpegColourDocument::Ycbcr(2, 2)) => Some(EncodeColour::YCbCr { subsampling: (2, 2) }),
            Some(JpegColourDocument::Ycbcr(..)) => return Err(field("jpeg_colour")),
        };
        let options = CodecOptions {
            compression_level: self.level,
            quality: self.quality.map(|quality| quality.0 as f32),
            max_z_error: self.max_z_error.map(|error| error.0),
            colour,
        };
        let compress = Compress::with_options(&self.name, options).map_err(PlanError::Codec)?;
        match (self.psnr.map(|psnr| psnr.0 as f32), compress) {
            (None, compress) => Ok(compress),
            (Some(psnr), Compress::Jpeg2000(Quality::Lossless)) if psnr.is_finite() && psnr > 0.0 => {
                Ok(Compress::Jpeg2000(Quality::Psnr(psnr)))
            }
            (Some(_), _) => Err(field("psnr")),
        }
    }
}
