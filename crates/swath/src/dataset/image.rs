//! One image of a file: its levels, bands, georeferencing and metadata.

use std::sync::Arc;

use swath_codec::DType;
use swath_gpu::{DeviceRaster, Gpu};
use swath_io::Source;
use swath_tiff::{Ifd, ImageLayout, ImageRoles, Limits};

use crate::dataset::level::{Level, LevelRole};
use crate::dataset::metadata::{ImageMetadata, fill_bytes};
use crate::dataset::sidecar::Sidecars;
use crate::error::{Error, Result};
use crate::read::color::announced_subsampling;
use crate::read::pixels::{Pixels, Sample};
use crate::read::plan::ReadPlan;
use crate::read::request::{Layout, ReadRequest};
use crate::read::{self, Unpack};
use crate::report::ReadReport;

/// One image of a file, at all its resolutions. Reading needs no lock, so threads can share an `Image`.
#[derive(Debug)]
pub struct Image {
    pub(crate) levels: Vec<Level>,
    pub(crate) masks: Vec<Level>,
    pub(crate) limits: Limits,
    metadata: ImageMetadata,
    /// Warnings about the whole file, which each report of a read repeats.
    warnings: Vec<String>,
}

/// The result of a read: pixels, their shape and a report.
#[derive(Debug, Clone)]
pub struct Raster {
    /// The samples.
    pub pixels: Pixels,
    /// The length of each axis: (bands, rows, columns) or (rows, columns, bands), as the request's layout
    /// says.
    pub shape: [usize; 3],
    /// What the read did, with counts and times.
    pub report: ReadReport,
}

impl Image {
    pub(crate) fn new(
        source: &Arc<dyn Source>,
        roles: &ImageRoles<'_>,
        sidecars: &Sidecars,
        limits: &Limits,
    ) -> Result<Image> {
        let role = LevelRole::Image { number: 0 };
        let full = Level::new(Arc::clone(source), roles.full.clone(), role, limits)?;
        let metadata = ImageMetadata::gather(&full, sidecars, limits)?;
        let fill = fill_bytes(metadata.nodata, full.dtype);
        let mut levels = vec![full.filled_with(fill.clone())];
        // An overview that cannot be used is skipped, because the full resolution does not depend on it.
        let internal = roles.overviews.iter().map(|&ifd| (source, ifd));
        // GDAL uses an .ovr file only if the file has no overviews inside. Swath uses both, and numbers the
        // levels that GDAL shows first.
        let external = sidecars.overviews.iter().map(|(source, ifd)| (source, ifd));
        for (source, ifd) in internal.chain(external) {
            let role = LevelRole::Image { number: levels.len() };
            if let Ok(level) = Level::new(Arc::clone(source), ifd.clone(), role, limits)
                && (level.bands(), level.dtype) == (levels[0].bands(), levels[0].dtype)
            {
                levels.push(level.filled_with(fill.clone()));
            }
        }

        let mut masks = Vec::new();
        let internal = roles.mask.iter().chain(&roles.mask_overviews).map(|&ifd| (source, ifd));
        let external = sidecars.masks.iter().map(|(source, ifd)| (source, ifd)).filter(|_| roles.mask.is_none());
        for (source, ifd) in internal.chain(external) {
            masks.extend(Level::new(Arc::clone(source), ifd.clone(), LevelRole::Mask, limits));
        }
        Ok(Image { levels, masks, limits: limits.clone(), metadata, warnings: Vec::new() })
    }

    /// Adds a warning about the whole file.
    pub(crate) fn warn(&mut self, warning: Option<String>) {
        self.metadata.warnings.extend(warning.clone());
        self.warnings.extend(warning);
    }

    /// Returns the report of a read with the warnings about the file.
    fn warned(&self, mut report: ReadReport) -> ReadReport {
        report.warnings.extend(self.warnings.iter().cloned());
        report
    }

    /// Width of the full resolution in pixels.
    pub fn width(&self) -> u64 {
        self.levels[0].layout.grid.width
    }

    /// Height of the full resolution in pixels.
    pub fn height(&self) -> u64 {
        self.levels[0].layout.grid.height
    }

    /// The number of bands.
    pub fn bands(&self) -> usize {
        self.levels[0].bands()
    }

    /// The type of the samples.
    pub fn dtype(&self) -> DType {
        self.levels[0].dtype
    }

    /// The layouts of all levels: the full resolution first, then the overviews in file order.
    pub fn levels(&self) -> impl ExactSizeIterator<Item = &ImageLayout> {
        self.levels.iter().map(|level| &level.layout)
    }

    /// The layouts of the masks: the mask of the full resolution first, then the masks of the overviews.
    pub fn masks(&self) -> impl ExactSizeIterator<Item = &ImageLayout> {
        self.masks.iter().map(|level| &level.layout)
    }

    /// The directory of the full resolution.
    pub fn ifd(&self) -> &Ifd {
        &self.levels[0].ifd
    }

    /// The layout of the full resolution.
    pub fn layout(&self) -> &ImageLayout {
        &self.levels[0].layout
    }

    /// The number of pixels that share one chroma sample, across and down, if the image is stored as YCbCr.
    pub fn chroma_subsampling(&self) -> (usize, usize) {
        let level = &self.levels[0];
        announced_subsampling(&level.ifd.fields(level.source.as_ref(), &self.limits))
    }

    /// The metadata of the image: georeferencing, nodata, colours, names and metadata items.
    pub fn metadata(&self) -> &ImageMetadata {
        &self.metadata
    }

    /// Returns a level by number.
    pub(crate) fn level(&self, number: usize) -> Result<&Level> {
        self.levels.get(number).ok_or_else(|| Error::Level {
            file: self.levels[0].file.clone(),
            level: number,
            count: self.levels.len(),
        })
    }

    /// Plans a read.
    fn plan<'a>(&'a self, request: &'a ReadRequest<'a>) -> Result<ReadPlan<'a>> {
        ReadPlan::new(self.level(request.level)?, request, &self.limits)
    }

    /// Reads pixels into a new buffer.
    ///
    /// # Errors
    /// When the request does not fit the image ([`Error::Window`], [`Error::Band`], [`Error::Level`],
    /// [`Error::Limit`]), a block is missing or corrupt ([`Error::BlockPastEnd`], [`Error::Fetch`],
    /// [`Error::Block`]), the compression is not supported ([`Error::Codec`]), or the caller cancelled the
    /// read ([`Error::Cancelled`]).
    pub fn read(&self, request: &ReadRequest<'_>) -> Result<Raster> {
        let plan = self.plan(request)?;
        let mut pixels = Pixels::zeroed(plan.level.dtype, plan.selection.samples)?;
        swath_io::advise_huge_pages(pixels.as_bytes_mut());
        let report = self.warned(read::execute(&plan, pixels.as_bytes_mut())?);
        let (bands, rows, cols) = (plan.bands().len(), plan.window().height() as usize, plan.window().width() as usize);
        let shape = match plan.layout {
            Layout::BandsFirst => [bands, rows, cols],
            Layout::BandsLast => [rows, cols, bands],
        };
        Ok(Raster { pixels, shape, report })
    }

    /// Reads pixels into the memory of a device and leaves them there. The request's layout applies; its
    /// device is ignored in favour of `gpu`.
    ///
    /// # Errors
    /// As [`Image::read`], and [`Error::Device`] when the device has too little memory or fails.
    pub fn read_to_device(&self, request: &ReadRequest<'_>, gpu: &Gpu) -> Result<(DeviceRaster, ReadReport)> {
        let plan = self.plan(request)?;
        read::gpu::execute_to_device(&plan, gpu, None).map(|(raster, report)| (raster, self.warned(report)))
    }

    /// As [`Image::read_to_device`], and the device converts the samples as `unpack` states while it places them. The report says whether
    /// nodata occurs.
    ///
    /// # Errors
    /// As [`Image::read_to_device`], and [`Error::Unpack`] or [`Error::UnpackFactors`] when the conversion does not fit the image.
    pub fn read_to_device_unpacked(
        &self,
        request: &ReadRequest<'_>,
        unpack: &Unpack,
        gpu: &Gpu,
    ) -> Result<(DeviceRaster, ReadReport)> {
        let plan = self.plan(request)?;
        let unpack = unpack.resolve(plan.level.dtype, plan.bands().len())?;
        read::gpu::execute_to_device(&plan, gpu, unpack).map(|(raster, report)| (raster, self.warned(report)))
    }

    /// Reads pixels into a raster that the caller has on a device, for example one that another library allocated
    /// ([`DeviceRaster::from_foreign`]). The raster has exactly the size, the type and the layout of the result. The
    /// request's device is ignored in favour of that of the raster. If the read fails, the pixels of the raster are
    /// undefined.
    ///
    /// # Errors
    /// As [`Image::read_to_device`], and [`Error::DType`] or [`Error::RasterShape`] when the raster does not fit.
    pub fn read_into_device(&self, request: &ReadRequest<'_>, raster: &DeviceRaster) -> Result<ReadReport> {
        let plan = self.plan(request)?;
        read::gpu::execute_into_device(&plan, raster).map(|report| self.warned(report))
    }

    /// Reads pixels into the first rows of a raster on a device. The bands of each pixel are interleaved.
    pub(crate) fn read_into_raster(&self, request: &ReadRequest<'_>, raster: &DeviceRaster) -> Result<ReadReport> {
        let plan = self.plan(request)?;
        read::gpu::execute_into_raster(&plan, raster)
    }

    /// Reads pixels into a buffer that has the image's sample type and exactly the size of the result.
    ///
    /// # Errors
    /// As [`Image::read`], and [`Error::DType`] or [`Error::BufferSize`] when the type or the size of the
    /// buffer is wrong.
    pub fn read_into<T: Sample>(&self, request: &ReadRequest<'_>, out: &mut [T]) -> Result<ReadReport> {
        let level = self.level(request.level)?;
        if level.dtype != T::DTYPE {
            return Err(Error::DType { buffer: T::DTYPE.name(), image: level.dtype });
        }
        self.read_bytes_into(request, bytemuck::cast_slice_mut(out))
    }

    /// Reads pixels as bytes in native byte order into a buffer of exactly the size of the result.
    ///
    /// # Errors
    /// As [`Image::read`], and [`Error::BufferSize`] when the size of the buffer is wrong.
    pub fn read_bytes_into(&self, request: &ReadRequest<'_>, out: &mut [u8]) -> Result<ReadReport> {
        let plan = self.plan(request)?;
        read::execute(&plan, out).map(|report| self.warned(report))
    }
}
