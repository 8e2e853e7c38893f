//! The sources of rows for a write.

use std::ops::Range;

use swath_codec::DType;
use swath_codec::place::{Every, copy};
use swath_gpu::{DeviceRaster, Gpu};

use crate::dataset::image::Image;
use crate::dataset::level::Level;
use crate::error::{Error, Result};
use crate::memory;
use crate::read::pixels::Sample;
use crate::read::plan::Selection;
use crate::read::request::{Layout, ReadRequest};
use crate::report::{DeviceReport, ReadReport};
use crate::write::passthrough::PassthroughBlocks;
use crate::write::plan::{ImageShape, WritePlan};

/// Provides the rows of an image from top to bottom: an array, a file, a function.
pub trait RowSource: Send {
    /// The size of the image and the type of its samples.
    fn shape(&self) -> ImageShape;

    /// Returns the end of the chunk of rows that contains `row`. A chunk is what the source computes at once:
    /// a write requests whole chunks, so that the source computes none twice.
    fn chunk_end(&self, row: u64) -> u64 {
        row + 1
    }

    /// Fills `pixels` with rows `rows`: interleaved by pixel, in native byte order. If the plan has a mask,
    /// fills `mask` too: one byte per pixel, 0 for a pixel without data. A write requests the rows in order,
    /// each once.
    ///
    /// # Errors
    /// The reason why the source cannot provide the rows. [`Error::Producer`] can hold any error.
    fn read(&mut self, rows: Range<u64>, pixels: &mut [u8], mask: Option<&mut [u8]>) -> Result<()>;

    /// The whole image, if it is in memory in the form of [`read`](RowSource::read). The CPU then encodes the
    /// rows in place and does not call `read`.
    fn in_memory(&self) -> Option<InMemory<'_>> {
        None
    }

    /// The raster of the source, if its pixels are on a device.
    fn on_device(&self) -> Option<&DeviceRaster> {
        None
    }

    /// Whether [`read_on`](RowSource::read_on) can fill rasters on that device.
    fn reads_on(&self, _gpu: &Gpu) -> bool {
        false
    }

    /// Fills the first rows of a raster, which is interleaved by pixel, with rows `rows`: as
    /// [`read`](RowSource::read), but without a copy through the host.
    ///
    /// # Errors
    /// As [`read`](RowSource::read).
    fn read_on(&mut self, _rows: Range<u64>, _raster: &DeviceRaster) -> Result<()> {
        Err(Error::Fallback { stage: "reading", reason: "the source provides its rows on the host".into() })
    }

    /// What a device did for the source, and what the CPU did instead.
    fn device_report(&self) -> Option<&DeviceReport> {
        None
    }

    /// The blocks of the source in their stored form, if the plan would store exactly the same.
    fn stored(&self, _plan: &WritePlan) -> Option<PassthroughBlocks> {
        None
    }
}

/// A whole image in memory: pixels interleaved by pixel in native byte order, and a byte per pixel for the
/// mask, if there is one.
#[derive(Debug, Clone, Copy)]
pub struct InMemory<'a> {
    /// The pixels of all rows.
    pub pixels: &'a [u8],
    /// The mask of all rows.
    pub mask: Option<&'a [u8]>,
}

/// An array in memory.
#[derive(Debug, Clone, Copy)]
pub struct ArraySource<'a> {
    samples: &'a [u8],
    mask: Option<&'a [u8]>,
    dtype: DType,
    width: u64,
    height: u64,
    bands: usize,
    layout: Layout,
}

impl<'a> ArraySource<'a> {
    /// Creates a source from the array `samples` of `bands` bands of `height` x `width` pixels, in this
    /// layout.
    ///
    /// # Errors
    /// [`Error::BufferSize`] when the size of the array is wrong.
    pub fn new<T: Sample>(samples: &'a [T], bands: usize, height: u64, width: u64, layout: Layout) -> Result<Self> {
        ArraySource::from_bytes(bytemuck::cast_slice(samples), T::DTYPE, bands, height, width, layout)
    }

    /// Creates a source from bytes in native order.
    ///
    /// # Errors
    /// [`Error::BufferSize`] when the size of the array is wrong.
    pub fn from_bytes(
        samples: &'a [u8],
        dtype: DType,
        bands: usize,
        height: u64,
        width: u64,
        layout: Layout,
    ) -> Result<Self> {
        let needed = [width, height, bands as u64].iter().try_fold(dtype.size() as u64, |n, &side| n.checked_mul(side));
        if needed != Some(samples.len() as u64) {
            return Err(Error::BufferSize { buffer: samples.len(), needed: needed.unwrap_or(u64::MAX) });
        }
        Ok(ArraySource { samples, mask: None, dtype, width, height, bands, layout })
    }

    /// Adds a mask: one byte per pixel, 0 for a pixel without data.
    ///
    /// # Errors
    /// [`Error::BufferSize`] when the size of the mask is not that of the image.
    pub fn with_mask(self, mask: &'a [u8]) -> Result<Self> {
        let needed = self.width * self.height;
        if mask.len() as u64 != needed {
            return Err(Error::BufferSize { buffer: mask.len(), needed });
        }
        Ok(ArraySource { mask: Some(mask), ..self })
    }
}

impl RowSource for ArraySource<'_> {
    fn shape(&self) -> ImageShape {
        ImageShape::new(self.height, self.width, self.bands, self.dtype)
    }

    fn read(&mut self, rows: Range<u64>, pixels: &mut [u8], mask: Option<&mut [u8]>) -> Result<()> {
        let (start, end, width) = (rows.start as usize, rows.end as usize, self.width as usize);
        let line = width * self.dtype.size();
        match self.layout {
            Layout::BandsLast => {
                pixels.copy_from_slice(&self.samples[start * line * self.bands..end * line * self.bands])
            }
            Layout::BandsFirst => {
                let plane = self.height as usize * line;
                for (band, plane) in self.samples.chunks_exact(plane).enumerate() {
                    let to = Every::nth(band, self.bands);
                    copy(self.dtype.size(), &plane[start * line..end * line], Every::SAMPLE, pixels, to);
                }
            }
        }
        if let Some(out) = mask {
            match self.mask {
                Some(mask) => out.copy_from_slice(&mask[start * width..end * width]),
                None => out.fill(255),
            }
        }
        Ok(())
    }

    fn in_memory(&self) -> Option<InMemory<'_>> {
        let interleaved = self.layout == Layout::BandsLast || self.bands == 1;
        interleaved.then_some(InMemory { pixels: self.samples, mask: self.mask })
    }
}

/// A raster on a device. If the same device writes it, it is not copied through the host.
impl RowSource for DeviceRaster {
    fn shape(&self) -> ImageShape {
        ImageShape::new(self.rows(), self.cols(), self.bands(), self.dtype())
    }

    fn read(&mut self, rows: Range<u64>, pixels: &mut [u8], mask: Option<&mut [u8]>) -> Result<()> {
        if let Some(mask) = mask {
            mask.fill(255);
        }
        if self.bands_last() || self.bands() == 1 {
            return Ok(self.download_rows(0, rows, pixels)?);
        }
        let size = self.dtype().size();
        let mut plane = memory::zeros(pixels.len() / self.bands(), "the rows of one band")?;
        for band in 0..self.bands() {
            self.download_rows(band, rows.clone(), &mut plane)?;
            copy(size, &plane, Every::SAMPLE, pixels, Every::nth(band, self.bands()));
        }
        Ok(())
    }

    fn on_device(&self) -> Option<&DeviceRaster> {
        Some(self)
    }
}

/// Returns the number of bytes that a file uses for the pixels of a level: its blocks and the entries of its block table.
/// Counting ends when they are more than `enough`, because the table can be large.
fn used_bytes(level: &Level, enough: u64) -> Result<u64> {
    /// An offset and a byte count of a BigTIFF. With the default limits, tiles of up to 512 x 512 pixels may all be sparse:
    /// converting a sparse tile takes 0.1 ms.
    const ENTRY_BYTES: u64 = 16;
    const ENTRIES_AT_ONCE: u64 = 1 << 16;
    let count = level.layout.grid.count().unwrap_or(u64::MAX);
    let table = count.saturating_mul(ENTRY_BYTES);
    let (mut stored, mut start, mut spans) = (0_u64, 0, Vec::new());
    while start < count && table.saturating_add(stored) <= enough {
        let entries = ENTRIES_AT_ONCE.min(count - start);
        spans.clear();
        let read = level.layout.table.spans(level.source.as_ref(), start, entries, &mut spans);
        read.map_err(|cause| level.container_error(cause))?;
        stored = spans.iter().fold(stored, |stored, span| stored.saturating_add(span.len));
        start += entries;
    }
    // Blocks may overlap.
    Ok(table.saturating_add(stored.min(level.source.size())))
}

/// An image of a file, or a window and some bands of it.
#[derive(Debug)]
pub struct ImageSource<'a> {
    image: &'a Image,
    rows: Range<u64>,
    cols: Range<u64>,
    bands: Vec<usize>,
    request: ReadRequest<'a>,
    take_stored: bool,
    /// What a device did, and what the CPU did instead.
    device: Option<DeviceReport>,
}

impl<'a> ImageSource<'a> {
    /// Creates a source for the part of the image that the request selects. The layout of the request is
    /// ignored.
    ///
    /// # Errors
    /// When the request does not fit the image, and [`Error::Limit`] if it has too many pixels for the size of the file.
    pub fn new(image: &'a Image, request: ReadRequest<'a>) -> Result<Self> {
        let level = image.level(request.level)?;
        let (window, bands) = Selection::window_and_bands(level, &request)?;
        let limits = request.limits.as_ref().unwrap_or(&image.limits);
        let (height, width, samples) = (window.height(), window.width(), bands.len() as u64);
        if let Err(count) = limits.samples_of_read(height, width, samples) {
            let used = used_bytes(level, count / limits.max_pixels_per_byte.max(1))?;
            limits.samples_of_conversion(height, width, samples, used).map_err(|value| Error::Limit {
                file: level.file.clone(),
                what: "pixels times bands of this conversion of a small file",
                name: "max_pixels",
                value,
                limit: limits.max_pixels,
            })?;
        }
        let request = request.layout(Layout::BandsLast);
        Ok(ImageSource {
            image,
            rows: window.rows(),
            cols: window.cols(),
            bands,
            request,
            take_stored: true,
            device: None,
        })
    }

    /// Decodes and encodes every block, even those that could be copied.
    #[must_use]
    pub fn recompress(mut self) -> Self {
        self.take_stored = false;
        self
    }

    /// The bands that are read.
    pub fn bands(&self) -> &[usize] {
        &self.bands
    }

    /// The level that is read.
    pub fn level(&self) -> usize {
        self.request.level
    }

    /// The rows and columns that are read.
    pub fn window(&self) -> (Range<u64>, Range<u64>) {
        (self.rows.clone(), self.cols.clone())
    }

    /// Records the device's work, and what the CPU did instead of the device.
    fn note(&mut self, report: ReadReport) {
        if let Some(device) = report.gpu {
            let known = self.device.get_or_insert_default();
            known.take_fallbacks(Some(&device));
            (known.name, known.stats) = (device.name, device.stats);
            (known.read_by, known.decoded_by) = (device.read_by, device.decoded_by);
        }
    }

    fn part(&self, rows: &Range<u64>) -> ReadRequest<'a> {
        let rows = self.rows.start + rows.start..self.rows.start + rows.end;
        self.request.clone().window(rows, self.cols.clone()).bands(self.bands.clone())
    }
}

impl RowSource for ImageSource<'_> {
    fn shape(&self) -> ImageShape {
        let (height, width) = (self.rows.end - self.rows.start, self.cols.end - self.cols.start);
        ImageShape::new(height, width, self.bands.len(), self.image.dtype())
    }

    fn chunk_end(&self, row: u64) -> u64 {
        let Ok(level) = self.image.level(self.request.level) else { return row + 1 };
        let rows = level.blocks.grid.block_height;
        let block = (self.rows.start + row) / rows;
        ((block + 1) * rows).min(self.rows.end) - self.rows.start
    }

    fn read(&mut self, rows: Range<u64>, pixels: &mut [u8], mask: Option<&mut [u8]>) -> Result<()> {
        let request = self.part(&rows);
        let report = self.image.read_bytes_into(&request, pixels)?;
        self.note(report);
        if let Some(out) = mask {
            let mask = self.image.read_mask(&request)?;
            out.copy_from_slice(&mask.values);
            self.note(mask.report);
        }
        Ok(())
    }

    fn reads_on(&self, gpu: &Gpu) -> bool {
        self.request.device.gpu().is_some_and(|own| own.is(gpu))
    }

    fn read_on(&mut self, rows: Range<u64>, raster: &DeviceRaster) -> Result<()> {
        let report = self.image.read_into_raster(&self.part(&rows), raster)?;
        self.note(report);
        Ok(())
    }

    fn device_report(&self) -> Option<&DeviceReport> {
        self.device.as_ref()
    }

    fn stored(&self, plan: &WritePlan) -> Option<PassthroughBlocks> {
        let level = self.image.level(self.request.level).ok()?;
        let all_bands = self.bands.iter().copied().eq(0..level.bands());
        let limits = self.request.limits.as_ref().unwrap_or(&self.image.limits);
        (all_bands && self.take_stored)
            .then(|| PassthroughBlocks::of(level, self.rows.start, self.cols.start, plan, limits))?
    }
}

/// Rows that a function computes.
pub struct RowFn<F> {
    shape: ImageShape,
    chunk_rows: u64,
    make: F,
}

impl<F> RowFn<F>
where
    F: FnMut(Range<u64>, &mut [u8], Option<&mut [u8]>) -> Result<()> + Send,
{
    /// Creates the source. `make` fills rows as [`RowSource::read`] does, a multiple of `chunk_rows` at a
    /// time.
    pub fn new(shape: ImageShape, chunk_rows: u64, make: F) -> Self {
        RowFn { shape, chunk_rows: chunk_rows.max(1), make }
    }
}

impl<F> RowSource for RowFn<F>
where
    F: FnMut(Range<u64>, &mut [u8], Option<&mut [u8]>) -> Result<()> + Send,
{
    fn shape(&self) -> ImageShape {
        self.shape
    }

    fn chunk_end(&self, row: u64) -> u64 {
        ((row / self.chunk_rows + 1) * self.chunk_rows).min(self.shape.height)
    }

    fn read(&mut self, rows: Range<u64>, pixels: &mut [u8], mask: Option<&mut [u8]>) -> Result<()> {
        (self.make)(rows, pixels, mask)
    }
}

impl<F> std::fmt::Debug for RowFn<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowFn").field("shape", &self.shape).finish_non_exhaustive()
    }
}
