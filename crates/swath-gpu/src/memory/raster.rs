//! Pixels that stay on the device.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use swath_codec::DType;

use crate::backend::Api;
use crate::backend::kernel::{Arg, Kernel};
use crate::decode::job::DecodeJob;
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::memory::buffer::{Buffer, Origin, Owner};
use crate::memory::caller_stream::CallerStream;

/// The strides of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes from a row to the next.
    pub row_stride: u64,
    /// Bytes from a pixel to the next.
    pub pixel_stride: u64,
    /// Bytes from a band to the next.
    pub band_stride: u64,
    /// Total bytes; `None` when the number does not fit in 64 bits.
    pub bytes: Option<u64>,
}

impl Geometry {
    /// A dense array: `(band, row, column)`, or `(row, column, band)` when the bands come last.
    pub fn dense(bands: usize, rows: u64, cols: u64, size: usize, bands_last: bool) -> Geometry {
        let (bands, size) = (bands as u64, size as u64);
        let plane = rows.checked_mul(cols).and_then(|pixels| pixels.checked_mul(size));
        let bytes = plane.and_then(|plane| plane.checked_mul(bands));
        // If the size fits in 64 bits, the strides do too.
        let known = bytes.is_some() as u64;
        if bands_last {
            let pixel_stride = bands * size * known;
            Geometry { row_stride: cols * known * pixel_stride, pixel_stride, band_stride: size, bytes }
        } else {
            Geometry { row_stride: cols * known * size, pixel_stride: size, band_stride: plane.unwrap_or(0), bytes }
        }
    }

    /// The offset of a sample.
    pub fn offset(&self, band: usize, row: u64, col: u64) -> u64 {
        band as u64 * self.band_stride + row * self.row_stride + col * self.pixel_stride
    }
}

/// An image in device memory: the result of a read that keeps its pixels on the device.
#[derive(Debug, Clone)]
pub struct DeviceRaster {
    pub(crate) gpu: Gpu,
    pub(crate) buffer: Arc<Buffer>,
    pub(crate) geometry: Geometry,
    dtype: DType,
    bands: usize,
    rows: u64,
    cols: u64,
    bands_last: bool,
}

impl DeviceRaster {
    /// Allocates an image with undefined pixels.
    ///
    /// # Errors
    /// The guard's error.
    pub fn new(gpu: &Gpu, dtype: DType, bands: usize, rows: u64, cols: u64, bands_last: bool) -> Result<DeviceRaster> {
        let geometry = Geometry::dense(bands, rows, cols, dtype.size(), bands_last);
        let buffer = Arc::new(gpu.alloc("the raster", geometry.bytes)?);
        Ok(DeviceRaster { gpu: gpu.clone(), buffer, geometry, dtype, bands, rows, cols, bands_last })
    }

    /// Wraps an image that another library has in the memory of a CUDA device, without a copy. `owner` is dropped when nothing here uses the
    /// memory any more.
    ///
    /// # Errors
    /// [`Error::Unable`] when this is not a CUDA device, or the address is not aligned for samples of this type.
    ///
    /// # Safety
    /// `address` points to a dense image of this shape and layout, in the device's primary context. While `owner` lives, the memory stays
    /// valid and nothing writes to it; all earlier writes are complete.
    pub unsafe fn from_foreign(
        gpu: &Gpu,
        address: u64,
        dtype: DType,
        (bands, rows, cols): (usize, u64, u64),
        bands_last: bool,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Result<DeviceRaster> {
        let unable = |what| Error::Unable { device: gpu.info().name.clone(), what };
        if gpu.info().api != Api::Cuda {
            return Err(unable("use memory of CUDA"));
        }
        let geometry = Geometry::dense(bands, rows, cols, dtype.size(), bands_last);
        let bytes = geometry.bytes.ok_or_else(|| unable("have an array of that size"))?;
        // Kernels read whole samples, or eight bytes of a sample at a time.
        if address == 0 || !address.is_multiple_of(dtype.size().min(8) as u64) {
            return Err(unable("read samples that are not aligned"));
        }
        let origin = Origin::Foreign { _owner: Owner { _kept: owner } };
        let buffer = Arc::new(Buffer::new(&gpu.shared, address, bytes, origin));
        Ok(DeviceRaster { gpu: gpu.clone(), buffer, geometry, dtype, bands, rows, cols, bands_last })
    }

    /// Copies a host array of the same layout to a new image in device memory.
    ///
    /// # Errors
    /// The guard's or the driver's error.
    ///
    /// # Panics
    /// When the array does not have the size of the image.
    pub fn upload(
        gpu: &Gpu,
        dtype: DType,
        (bands, rows, cols): (usize, u64, u64),
        bands_last: bool,
        pixels: &[u8],
    ) -> Result<DeviceRaster> {
        let raster = DeviceRaster::new(gpu, dtype, bands, rows, cols, bands_last)?;
        raster.fill(pixels)?;
        Ok(raster)
    }

    /// Replaces all pixels by those of a host array of the same layout.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Panics
    /// When the array does not have the size of the image.
    pub fn fill(&self, pixels: &[u8]) -> Result<()> {
        assert_eq!(Some(pixels.len() as u64), self.geometry.bytes, "the array has another size than the image");
        let mut stream = self.gpu.stream()?;
        // SAFETY: the pixels are borrowed until the stream is synchronised, which is the next thing to happen.
        unsafe { stream.upload(pixels, &self.buffer, 0)? };
        stream.synchronize()
    }

    /// Replaces the pixels of a rectangle by those of a host array `(row, column, band)`.
    ///
    /// # Errors
    /// The guard's or the driver's error.
    ///
    /// # Panics
    /// When the rectangle lies outside the image or the array has another size.
    pub fn put(&self, bands: Range<usize>, rows: Range<u64>, cols: Range<u64>, pixels: &[u8]) -> Result<()> {
        let job = DecodeJob::placing(self.dtype, 1, 1).ok_or(Error::OutOfMemory { stage: "placing", needed: 0 })?;
        self.gpu.decode(job, &[], u64::MAX)?.put(self, bands, rows, cols, pixels)
    }

    /// Copies the image to new device memory.
    ///
    /// # Errors
    /// The guard's or the driver's error.
    pub fn duplicate(&self) -> Result<DeviceRaster> {
        let copy = DeviceRaster::new(&self.gpu, self.dtype, self.bands, self.rows, self.cols, self.bands_last)?;
        let mut stream = self.gpu.stream()?;
        stream.copy(&self.buffer, 0, &copy.buffer, 0, self.bytes())?;
        stream.synchronize()?;
        Ok(copy)
    }

    /// Replaces the first rows by all rows of another raster on the same device. In both, the bands of a pixel are adjacent.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Panics
    /// When the other raster has another width, other samples or more rows, or is on another device.
    pub fn copy_rows_from(&self, other: &DeviceRaster) -> Result<()> {
        assert!(self.gpu.is(&other.gpu), "the raster lies on another device");
        let shape = |raster: &DeviceRaster| (raster.dtype, raster.bands, raster.cols, raster.geometry.row_stride);
        assert_eq!(shape(self), shape(other), "the rows are those of another image");
        assert!(other.rows <= self.rows && (self.bands == 1 || (self.bands_last && other.bands_last)), "no such rows");
        let mut stream = self.gpu.stream()?;
        stream.copy(&other.buffer, 0, &self.buffer, 0, other.bytes())?;
        stream.synchronize()
    }

    /// Copies all pixels to the host.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Panics
    /// When the array does not have the size of the image.
    pub fn download(&self, pixels: &mut [u8]) -> Result<()> {
        assert_eq!(Some(pixels.len() as u64), self.geometry.bytes, "the array has another size than the image");
        let mut stream = self.gpu.stream()?;
        // SAFETY: the pixels are borrowed until the stream is synchronised, which is the next thing to happen.
        unsafe { stream.download(&self.buffer, 0, pixels)? };
        stream.synchronize()
    }

    /// Copies rows to the host in the layout of the device: rows of one band, or of all bands where the bands of a pixel are adjacent.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Panics
    /// When the rows lie outside the image or the array has another size.
    pub fn download_rows(&self, band: usize, rows: Range<u64>, pixels: &mut [u8]) -> Result<()> {
        assert!(rows.end <= self.rows && band < self.bands, "outside the raster");
        let bytes = (rows.end - rows.start) * self.geometry.row_stride;
        assert_eq!(pixels.len() as u64, bytes, "the array has another size than the rows");
        let mut stream = self.gpu.stream()?;
        let at = if self.bands_last { 0 } else { self.geometry.offset(band, 0, 0) };
        // SAFETY: the pixels are borrowed until the stream is synchronised, which is the next thing to happen.
        unsafe { stream.download(&self.buffer, at + self.geometry.offset(0, rows.start, 0), pixels)? };
        stream.synchronize()
    }

    /// Replaces all floats from `low` to `high`, given as bits, by NaN.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Panics
    /// When the samples are not floats.
    pub fn range_to_nan(&self, low: u64, high: u64) -> Result<()> {
        assert!(matches!(self.dtype, DType::F16 | DType::F32 | DType::F64), "{} has no NaN", self.dtype);
        let size = self.dtype.size();
        let samples = self.bytes() / size as u64;
        let groups = samples.div_ceil(4096).clamp(1, 1024) as u32;
        let mut stream = self.gpu.stream()?;
        let args = [
            Arg::Buffer(&self.buffer),
            Arg::U64(0),
            Arg::U64(samples),
            Arg::U32(size as u32),
            Arg::U64(low),
            Arg::U64(high),
            Arg::U32(groups),
        ];
        // SAFETY: the arguments are those of the kernel, and the samples are all of the buffer.
        unsafe { stream.launch(Kernel::NodataToNan, groups, &args)? };
        stream.synchronize()
    }

    /// The device that holds the image.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// The memory.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// The address in the memory of a CUDA device; `None` on other devices. [`Buffer::handle`] says what follows from a request for it.
    pub fn cuda_address(&self) -> Option<u64> {
        (self.gpu.info().api == Api::Cuda).then(|| self.buffer.handle())
    }

    /// States that other libraries use the pixels only in work that is ordered in this CUDA stream. The memory is then freed in the order of
    /// the stream, without a wait. With more than one stream, all work of this process on the device is waited for; the default stream of
    /// a thread stands for all streams.
    pub fn use_in_stream(&self, stream: &CallerStream) {
        self.buffer.others.add_stream(stream);
    }

    /// The strides of the image.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The type of the samples.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Bands.
    pub fn bands(&self) -> usize {
        self.bands
    }

    /// Rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Columns.
    pub fn cols(&self) -> u64 {
        self.cols
    }

    /// Whether the bands of a pixel are adjacent.
    pub fn bands_last(&self) -> bool {
        self.bands_last
    }

    /// Bytes of the pixels.
    pub fn bytes(&self) -> u64 {
        self.geometry.bytes.unwrap_or(0)
    }
}
