//! The cases that are compared and timed: a codec, its decoder and encoder, and a predictor.

use std::fmt;

use swath::device::{CodecBackend, Storage};
use swath::write::{BlockSize, ImageShape};
use swath::{ArraySource, Compress, DType, Layout, Predictor, WriteOptions, WritePlan};
use swath_gpu::DeviceCodec;
use swath_gpu::vendor::Library;

use crate::demo::terrain;
use crate::devices::Libraries;
use crate::failure::Failure;

/// The codecs that a library of NVIDIA decodes and encodes.
fn codecs(library: Library) -> &'static [&'static str] {
    match library {
        Library::NvComp => &["deflate", "zstd", "lz4"],
        Library::NvJpeg2000 => &["jpeg2000"],
        Library::NvJpeg => &["jpeg"],
        _ => &[],
    }
}

/// One case.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) codec: &'static str,
    /// What decodes and encodes.
    pub(super) by: CodecBackend,
    pub(super) predictor: Predictor,
    pub(super) storage: Storage,
    /// Whether the case is timed too.
    pub(super) timed: bool,
}

impl Case {
    /// Whether compression changes the pixels.
    pub(super) fn is_lossy(&self) -> bool {
        self.codec == "jpeg"
    }

    /// Whether a file has the same bytes as one that the CPU wrote. Swath's Deflate kernel makes other bytes.
    pub(super) fn has_bytes_of_cpu(&self) -> bool {
        self.by == CodecBackend::Builtin && self.codec != "deflate"
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}, predictor {}", self.codec, self.by.name(), self.predictor.tag())?;
        match self.storage {
            Storage::CuFile => write!(f, ", files by cuFile"),
            Storage::Posix => write!(f, ", files by the host"),
            _ => Ok(()),
        }
    }
}

/// All cases of a device: every codec with each available and requested decoder, and with each predictor that it takes.
pub(super) fn cases(libraries: Option<&Libraries>, decoder: CodecBackend, storage: Storage) -> Vec<Case> {
    let builtin = DeviceCodec::ALL.map(|codec| (codec.name(), CodecBackend::Builtin));
    let usable = libraries.into_iter().flatten().filter(|(_, found)| found.is_ok());
    let nvidia = usable.flat_map(|(library, _)| codecs(*library).iter().map(|codec| (*codec, CodecBackend::NvComp)));
    let mut ways: Vec<_> = builtin.into_iter().chain(nvidia).collect();
    ways.retain(|(_, by)| decoder == CodecBackend::Auto || decoder == *by);
    // The decoders of one codec follow each other.
    let order: Vec<&str> = DeviceCodec::ALL.iter().map(|codec| codec.name()).collect();
    ways.sort_by_key(|(codec, _)| order.iter().position(|known| known == codec).unwrap_or(order.len()));
    let mut cases = Vec::new();
    for (codec, by) in ways {
        let predicted = codec.parse::<Compress>().is_ok_and(|compress| compress.takes_predictor());
        let predictors = match predicted {
            true => &[Predictor::None, Predictor::Horizontal, Predictor::FloatingPoint][..],
            false => &[Predictor::None],
        };
        // The default predictor of floats, which is the last one, is timed.
        let last = predictors.len() - 1;
        let predictors = predictors.iter().enumerate();
        cases.extend(predictors.map(|(i, &predictor)| Case { codec, by, predictor, storage, timed: i == last }));
    }
    cases
}

/// An image to write, interleaved by pixel.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) dtype: DType,
    pub(super) bands: usize,
    pub(super) side: u64,
    pub(super) samples: Vec<u8>,
}

impl Picture {
    /// Terrain in the sample type of a case: floats, or integers if the predictor or the codec needs them.
    pub(super) fn of(case: &Case, side: usize) -> Picture {
        let heights = terrain(side);
        // Heights are below 3,000 m, and the nodata corner is far below 0.
        let decimetres = |height: f32| (height * 10.0).max(0.0) as u16;
        let (dtype, bands, samples): (_, _, Vec<u8>) = match (case.codec, case.predictor) {
            ("jpeg", _) => {
                let colours = |height: f32| {
                    let grey = (height / 12.0).clamp(0.0, 255.0) as u8;
                    [grey, 255 - grey / 2, grey / 3]
                };
                (DType::U8, 3, heights.into_iter().flat_map(colours).collect())
            }
            ("jpeg2000", _) | (_, Predictor::Horizontal) => {
                (DType::U16, 1, heights.into_iter().flat_map(|height| decimetres(height).to_ne_bytes()).collect())
            }
            _ => (DType::F32, 1, heights.into_iter().flat_map(f32::to_ne_bytes).collect()),
        };
        Picture { dtype, bands, side: side as u64, samples }
    }

    /// The plan of the file: a COG with overviews.
    pub(super) fn plan(&self, case: &Case) -> Result<WritePlan, Failure> {
        let compress = case.codec.parse::<Compress>();
        let options = WriteOptions::new()
            .cog()
            .blocks(BlockSize::Tiles { height: 256, width: 256 })
            .compression(compress.map_err(|error| Failure::Failed(error.to_string()))?)
            .predictor(case.predictor);
        let plan = WritePlan::new(ImageShape::new(self.side, self.side, self.bands, self.dtype), options);
        Ok(plan.map_err(swath::Error::from)?)
    }

    pub(super) fn source(&self) -> swath::Result<ArraySource<'_>> {
        ArraySource::from_bytes(&self.samples, self.dtype, self.bands, self.side, self.side, Layout::BandsLast)
    }
}
