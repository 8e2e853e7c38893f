//! Read and write GeoTIFF and Cloud Optimized GeoTIFF (COG), on the CPU or on a GPU.
//!
//! # Read
//!
//! A [`Dataset`] is an open file, an [`Image`] one of its images with all its overviews, and a [`ReadRequest`] says which pixels to read.
//!
//! ```
//! use swath::{Dataset, ReadRequest};
//! # use swath::{ArraySource, Layout, RowSource, WriteConfig, WriteOptions, WritePlan};
//! # let path = std::env::temp_dir().join(format!("swath-lib-{}.tif", std::process::id()));
//! # let samples = vec![7.5_f32; 512 * 512];
//! # let mut source = ArraySource::new(&samples, 1, 512, 512, Layout::BandsFirst)?;
//! # WritePlan::new(source.shape(), WriteOptions::new())?.write_file(&path, &mut source, &WriteConfig::new().overwrite(true))?;
//!
//! let image = Dataset::open(&path)?.image(0)?;
//! println!("{} x {} pixels of {}, EPSG {:?}", image.width(), image.height(), image.dtype(), image.metadata().epsg());
//!
//! let raster = image.read(&ReadRequest::new().window(0..256, 0..256))?;
//! let heights: Vec<f32> = raster.pixels.into_vec().expect("the image holds float32");
//! assert_eq!(heights.len(), 256 * 256);
//! # std::fs::remove_file(path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Write
//!
//! A [`WritePlan`] fixes everything about the new file before its first row, a [`RowSource`] delivers the rows, and the file appears complete
//! or not at all. [`WritePlan`] has an example that writes a COG with a coordinate reference system and a transform.
//!
//! # Use a GPU
//!
//! With the feature `gpu`, a request can name a [`Device`]. Work that the device cannot do is done by the CPU and listed in the report, unless the
//! request is [`FallbackPolicy::Strict`].
//!
//! ```no_run
//! use swath::device::Device;
//! use swath::{Dataset, ReadRequest};
//!
//! let image = Dataset::open("dem.tif")?.image(0)?;
//! let request = ReadRequest::new().device(Device::auto());
//! let raster = image.read(&request)?;
//! if let Some(gpu) = &raster.report.gpu {
//!     println!("decoded by {} on {}, {} fallbacks", gpu.decoded_by, gpu.name, gpu.fallbacks.len());
//! }
//!
//! // Pixels that stay on the device:
//! if let Some(gpu) = Device::open("cuda:0")?.gpu() {
//!     let (on_device, _report) = image.read_to_device(&ReadRequest::new(), gpu)?;
//!     println!("{} x {} pixels at {:?}", on_device.cols(), on_device.rows(), on_device.cuda_address());
//! }
//! # Ok::<(), swath::Error>(())
//! ```
//!
//! # Cargo features
//!
//! * `jpeg2000`, `jxl`, `lerc`, `lzma`, `webp` (all on by default, together `all-codecs`): codecs with large dependencies. The other codecs are
//!   always included.
//! * `gpu`: OpenCL and CUDA devices. Drivers and NVIDIA's libraries are loaded at run time.
//! * `ndarray`: conversions between [`Raster`] and `ndarray::Array3`.
//!
//! The crate has no global state: threads live as long as the read or write that uses them.
#![forbid(unsafe_code)]

pub mod dataset;
pub mod device;
mod error;
mod fallback;
mod memory;
#[cfg(feature = "ndarray")]
mod ndarray;
mod nodata;
pub mod read;
mod report;
pub mod validate;
pub mod write;

pub use dataset::{Dataset, Image, Raster};
pub use device::Device;
pub use error::{Error, RasterShape, Result};
pub use fallback::FallbackPolicy;
pub use read::{Layout, Pixels, ReadReport, ReadRequest, Sample};
pub use swath_codec::{Compress, DType, Predictor};
pub use swath_tiff::{LimitInfo, Limits, UnknownLimit};
pub use validate::validate;
pub use write::{ArraySource, ImageSource, RowFn, RowSource, WriteConfig, WriteOptions, WritePlan, WriteReport};

/// The codecs, the container and its metadata, whose types appear in this crate's interface; and the sources that bytes
/// come from.
pub use {swath_codec as codec, swath_io as io, swath_tiff as tiff};

/// Compiles the Rust examples of the documentation outside of this crate.
#[cfg(doctest)]
mod documentation {
    #[doc = include_str!("../../../README.md")]
    struct Readme;

    #[doc = include_str!("../../../docs/gpu.md")]
    struct Gpu;
}
