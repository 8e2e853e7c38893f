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

pub mod dataset;
pub mod device;
mod error;
mod fallback;
mod nodata;
pub mod read;
mod report;
pub mod validate;
pub mod write;

pub use dataset::{Dataset, Image, Raster};
pub use device::Device;
pub use error::{Error, Result};
pub use fallback::FallbackPolicy;
pub use read::{Layout, Pixels, ReadReport, ReadRequest, Sample};
pub use swath_codec::{Compress, DType, Predictor};
pub use swath_tiff::Limits;
pub use validate::validate;
pub use write::{ArraySource, ImageSource, RowFn, RowSource, WriteConfig, WriteOptions, WritePlan, WriteReport};

/// The container and its metadata, whose types appear in this crate's interface; and the sources that bytes come from.
pub use {swath_io as io, swath_tiff as tiff};
