//! Read GeoTIFF and Cloud Optimized GeoTIFF, correctly and fast.
//!
//! ```no_run
//! use swath::{Dataset, ReadRequest};
//!
//! let dataset = Dataset::open("dem.tif")?;
//! let image = dataset.image(0)?;
//! println!("{} x {} {}, EPSG {:?}", image.width(), image.height(), image.dtype(), image.about().epsg());
//! let raster = image.read(&ReadRequest::new().window(0..256, 0..256))?;
//! let heights: &[f32] = raster.pixels.as_slice().expect("a float32 image");
//! # Ok::<(), swath::Error>(())
//! ```
//!
//! The life of a window is told in `read.rs`: blocks are chosen, fetched in batches, decoded, and placed straight into the
//! caller's buffer. There is no global state: threads live as long as the read that uses them.
#![forbid(unsafe_code)]

mod dataset;
mod device;
mod error;
mod fallback;
mod nodata;
mod read;
mod report;
mod validate;
mod write;

pub use dataset::Dataset;
pub use dataset::band_color::from_name as band_color_named;
pub use dataset::image::{Image, Raster};
pub use dataset::mask::{Mask, MaskOrigin};
pub use dataset::metadata::{BandMetadata, ImageMetadata};
pub use dataset::sidecar::UnreadableSidecar;
pub use device::Device;
pub use error::{BlockName, Error, Result};
pub use fallback::FallbackPolicy;
pub use nodata::to_nan::nodata_to_nan;
pub use read::cache::BlockCache;
pub use read::gpu::DEFAULT_GPU_MEMORY_BUDGET;
pub use read::pixels::{Pixels, Sample};
pub use read::request::{Cancel, Layout, OnCorrupt, Progress, ReadRequest, default_threads};
pub use report::{DeviceReport, Fallback, ReadReport};
pub use swath_codec::{Compress, DType, Predictor, can_decode};
pub use swath_gpu::{CodecBackend, DeviceRaster, Gpu, Storage};
pub use swath_tiff::Limits;
pub use validate::{Authority, Finding, LevelSummary, Rule, Severity, Subject, Validation, validate};
pub use write::{
    ArraySource, BandStatistics, BigTiff, BlockSize, DEFAULT_BUFFER_BYTES, EncodedBatch, EncodedBlock, FileLayout,
    ImageShape, ImageSource, Overviews, PartialFile, PassthroughBlocks, PlanDocument, PlanError, PredictorChoice,
    Resampling, RowFn, RowSource, Statistics, WriteConfig, WriteOptions, WritePlan, WriteReport,
};

/// The crates below this one, for those who need more than reading.
pub use {swath_codec as codec, swath_gpu as gpu, swath_io as io, swath_tiff as tiff};
