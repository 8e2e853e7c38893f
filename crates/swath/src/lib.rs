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

mod about;
mod ahead;
mod band_color;
mod cache;
mod color;
mod dataset;
mod decoder;
mod device;
mod error;
mod held;
mod image;
mod level;
mod locate;
mod mask;
mod missing;
mod nan;
mod pixels;
mod place;
mod read;
mod read_on_device;
mod report;
mod request;
mod scatter;
mod sidecar;
mod validate;
mod write;

pub use about::{About, BandAbout};
pub use band_color::from_name as band_color_named;
pub use cache::BlockCache;
pub use dataset::Dataset;
pub use decoder::can_decode;
pub use device::Device;
pub use error::{BlockName, Error, Result};
pub use image::{Image, Raster};
pub use mask::{Mask, MaskOrigin};
pub use nan::nodata_to_nan;
pub use pixels::{Pixels, Sample};
pub use read_on_device::DEFAULT_GPU_MEMORY_BUDGET;
pub use report::{DeviceReport, Fallback, Report};
pub use request::{Cancel, FallbackPolicy, Layout, OnCorrupt, Progress, ReadRequest, default_threads};
pub use sidecar::UnreadableSidecar;
pub use swath_codec::{Compress, DType, Predictor};
pub use swath_gpu::{CodecChoice, DeviceRaster, Gpu, Storage};
pub use swath_tiff::Limits;
pub use validate::{Authority, Finding, LevelSummary, Rule, Severity, Subject, Validation, validate};
pub use write::{
    Arrangement, ArraySource, Assembly, BandSource, BandStatistics, BigTiff, BlockSize, ClosureSource,
    DEFAULT_BUFFER_BYTES, Encoded, EncodedBlock, ImageSource, Measure, Overviews, Plan, PlanError, PredictorChoice,
    Resampling, Running, StoredBlocks, WriteOptions, WriteReport,
};

/// The crates below this one, for those who need more than reading.
pub use {swath_codec as codec, swath_gpu as gpu, swath_io as io, swath_tiff as tiff};
