//! The validity mask: which pixels of a window are valid.

use swath_codec::DType;
use swath_tiff::{Compression, Window};

use crate::dataset::image::Image;
use crate::dataset::level::Level;
use crate::error::Result;
use crate::memory;
use crate::read;
use crate::read::pixels::Pixels;
use crate::read::plan::{ReadPlan, Selection};
use crate::read::request::{Layout, ReadRequest};
use crate::report::ReadReport;

/// The validity of the pixels of a window.
#[derive(Debug, Clone)]
pub struct Mask {
    /// 255 for a valid pixel, 0 for an invalid one; row by row.
    pub values: Vec<u8>,
    /// Number of columns.
    pub width: usize,
    /// Number of rows.
    pub height: usize,
    /// The origin of the mask.
    pub origin: MaskOrigin,
    /// What the read did, with counts and times.
    pub report: ReadReport,
}

/// Where a mask comes from. Reads try the origins in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaskOrigin {
    /// A mask in the file or in its `.msk` sidecar.
    MaskImage,
    /// The NODATA_VALUES metadata item: a pixel is invalid when every band has its value.
    NoDataValues,
    /// The nodata value, if the sample type can hold it: a pixel is valid when any of its bands is.
    NoData,
    /// The alpha band, which is the last of two or four bands.
    Alpha,
    /// The validity masks inside the LERC blobs.
    Lerc,
    /// There is no mask: all pixels are valid.
    AllValid,
}

impl MaskOrigin {
    /// The name that `swath info` and Python show.
    pub fn name(self) -> &'static str {
        match self {
            MaskOrigin::MaskImage => "mask",
            MaskOrigin::NoDataValues => "nodata-values",
            MaskOrigin::NoData => "nodata",
            MaskOrigin::Alpha => "alpha",
            MaskOrigin::Lerc => "lerc",
            MaskOrigin::AllValid => "all-valid",
        }
    }
}

impl Image {
    /// Returns the origin that [`read_mask`](Image::read_mask) uses.
    pub fn mask_origin(&self) -> MaskOrigin {
        if !self.masks.is_empty() {
            MaskOrigin::MaskImage
        } else if self.metadata().nodata_values().is_some_and(|values| values.len() == self.bands()) {
            MaskOrigin::NoDataValues
        } else if self
            .metadata()
            .nodata
            .is_some_and(|nodata| nodata.in_range(self.layout().format(), self.layout().bits.into()))
        {
            MaskOrigin::NoData
        } else if self.has_alpha_mask() {
            MaskOrigin::Alpha
        } else if self.layout().compression == Compression::LERC {
            MaskOrigin::Lerc
        } else {
            MaskOrigin::AllValid
        }
    }

    /// Whether the alpha band is a mask. As in GDAL, it must be the last of two or four bands and have 8 or
    /// 16 bits.
    fn has_alpha_mask(&self) -> bool {
        let bands = self.bands();
        let last = self.metadata().bands.last();
        matches!(bands, 2 | 4)
            && last.is_some_and(|band| band.color == "alpha")
            && matches!(self.dtype(), DType::U8 | DType::U16)
    }

    /// Whether the bands are red, green, blue and alpha, in this order.
    fn is_rgba(&self) -> bool {
        self.metadata().bands.iter().map(|band| band.color).eq(["red", "green", "blue", "alpha"])
    }

    /// Reads which pixels of the request's window are valid. The request's layout is ignored. Its bands
    /// matter only for the nodata value, which is compared with the requested bands.
    ///
    /// # Errors
    /// As [`Image::read`].
    pub fn read_mask(&self, request: &ReadRequest<'_>) -> Result<Mask> {
        let level = self.level(request.level)?;
        let limits = request.limits.as_ref().unwrap_or(&self.limits);
        let selection = Selection::new(level, &request.clone().bands([0]), limits)?;
        let (width, height) = (selection.window.width() as usize, selection.window.height() as usize);
        let origin = self.mask_origin();
        let (values, report) = match origin {
            MaskOrigin::AllValid => (all_valid(width * height)?, ReadReport::default()),
            MaskOrigin::MaskImage => self.read_mask_image(level, request, &selection.window)?,
            MaskOrigin::Alpha => {
                let raster = self.read(&request.clone().bands([self.bands() - 1]))?;
                (valid_where(&raster.pixels, 1, |_, value| value != 0.0)?, raster.report)
            }
            MaskOrigin::NoDataValues => {
                let values = self.metadata().nodata_values().unwrap_or_default();
                let all: Vec<usize> = (0..self.bands()).collect();
                let raster = self.read(&request.clone().bands(all).layout(Layout::BandsFirst))?;
                (valid_where(&raster.pixels, values.len(), |band, value| value != values[band])?, raster.report)
            }
            MaskOrigin::NoData => {
                let mut request = request.clone().layout(Layout::BandsFirst);
                // As in rasterio, the nodata value of an RGBA image is compared with the alpha band only:
                // nodata 0 means transparent, not black.
                if request.bands.is_none() && self.is_rgba() {
                    request = request.bands([3]);
                }
                let raster = self.read(&request)?;
                let valid = match self.metadata().nodata {
                    Some(nodata) => raster.pixels.valid_mask(raster.shape[0], nodata)?,
                    None => all_valid(width * height)?,
                };
                (valid, raster.report)
            }
            // An overview in an .ovr file may have another codec, which has no mask.
            MaskOrigin::Lerc if level.layout.compression != Compression::LERC => {
                (all_valid(width * height)?, ReadReport::default())
            }
            MaskOrigin::Lerc => {
                let mask = level.lerc_mask();
                self.read_plane(&mask, &request.clone().bands([0]))?
            }
        };
        Ok(Mask { values, width, height, origin, report })
    }

    /// Reads the mask image of a level. A level that has no mask of its size uses the mask of the full
    /// resolution, resampled by nearest neighbour.
    fn read_mask_image(
        &self,
        level: &Level,
        request: &ReadRequest<'_>,
        window: &Window,
    ) -> Result<(Vec<u8>, ReadReport)> {
        let size = |level: &Level| (level.layout.grid.width, level.layout.grid.height);
        let (width, height) = size(level);
        if let Some(mask) = self.masks.iter().find(|mask| size(mask) == (width, height)) {
            return self.read_plane(mask, &request.clone().bands([0]));
        }
        let full = &self.masks[0];
        let (full_width, full_height) = size(full);
        // The product of two 32-bit sizes and the factor 2 needs 65 bits.
        let scale = |at: u64, full: u64, size: u64| {
            let middle = u128::from(at * 2 + 1) * u128::from(full) / u128::from(2 * size);
            (middle as u64).min(full - 1)
        };
        let rows: Vec<u64> = window.rows().map(|row| scale(row, full_height, height)).collect();
        let cols: Vec<u64> = window.cols().map(|col| scale(col, full_width, width)).collect();
        let (top, left) = (rows[0], cols[0]);
        let (bottom, right) = (rows[rows.len() - 1] + 1, cols[cols.len() - 1] + 1);
        let part = request.clone().bands([0]).window(top..bottom, left..right);
        let (values, report) = self.read_plane(full, &part)?;
        let stride = right - left;
        let at = |row: u64, col: u64| values[((row - top) * stride + col - left) as usize];
        let values = rows.iter().flat_map(|&row| cols.iter().map(move |&col| at(row, col))).collect();
        Ok((values, report))
    }

    /// Reads one band of a mask level. Every value except 0 means valid.
    fn read_plane(&self, mask: &Level, request: &ReadRequest<'_>) -> Result<(Vec<u8>, ReadReport)> {
        let request = request.clone().layout(Layout::BandsFirst);
        let plan = ReadPlan::new(mask, &request, &self.limits)?;
        let mut pixels = Pixels::zeroed(mask.dtype, plan.selection.samples)?;
        let report = read::execute(&plan, pixels.as_bytes_mut())?;
        Ok((valid_where(&pixels, 1, |_, value| value != 0.0)?, report))
    }
}

/// Returns the mask of an image without invalid pixels.
fn all_valid(pixels: usize) -> Result<Vec<u8>> {
    let mut mask = memory::zeros(pixels, MASK)?;
    mask.fill(255);
    Ok(mask)
}

/// The contents of a mask, for errors.
const MASK: &str = "the pixels of this mask";

/// Returns 255 for each pixel where any of the `bands` band-sequential planes has a valid sample, else 0.
pub(crate) fn valid_where(pixels: &Pixels, bands: usize, valid: impl Fn(usize, f64) -> bool) -> Result<Vec<u8>> {
    /// Samples that are converted to floats at once.
    const CHUNK: usize = 1 << 16;
    let count = pixels.as_bytes().len() / pixels.dtype().size();
    let plane = count / bands.max(1);
    let mut mask: Vec<u8> = memory::zeros(plane, MASK)?;
    for band in 0..bands {
        for (i, out) in mask.chunks_mut(CHUNK).enumerate() {
            let first = band * plane + i * CHUNK;
            let samples = pixels.to_f64(first..first + out.len());
            for (out, value) in out.iter_mut().zip(samples) {
                if valid(band, value) {
                    *out = 255;
                }
            }
        }
    }
    Ok(mask)
}
