//! Converts CMYK, CIELab and uncompressed YCbCr samples to RGB, as GDAL does.

use swath_codec::color::{Lab, Tables, YCbCr, cmyk_to_rgba};
use swath_tiff::{Fields, ImageLayout, Photometric, ReadAt, Tag};

/// How the stored bytes of a pixel are converted to red, green, blue (and alpha).
#[derive(Debug, Clone)]
pub(crate) enum Conversion {
    /// Four or more inks to RGBA.
    Cmyk,
    /// L*a*b* to RGBA.
    Lab(Box<Lab>),
    /// Luma and chroma to RGB.
    YCbCr(Box<Tables>),
}

impl Conversion {
    /// Returns the conversion that GDAL applies to such an image, if any. JPEG decoders convert YCbCr
    /// themselves.
    pub(crate) fn of<R: ReadAt + ?Sized>(layout: &ImageLayout, fields: &Fields<'_, R>) -> Option<Conversion> {
        if layout.bits != 8 || layout.sample_format != 1 {
            return None;
        }
        let floats = |tag| fields.floats(tag).ok().flatten().unwrap_or_default();
        match (layout.photometric, layout.samples) {
            // InkSet 2: the inks are not cyan, magenta, yellow and black.
            (Photometric::SEPARATED, 4..) if fields.uint(Tag::INK_SET).ok().flatten() != Some(2) => {
                Some(Conversion::Cmyk)
            }
            (Photometric::CIELAB, 3) => {
                let lab = match floats(Tag::WHITE_POINT).as_slice() {
                    &[x, y] => Lab::new([x as f32, y as f32]).ok()?,
                    _ => Lab::default(),
                };
                Some(Conversion::Lab(Box::new(lab)))
            }
            (Photometric::YCBCR, 3) if !layout.compression.is_picture() => {
                Some(Conversion::YCbCr(Box::new(ycbcr(fields).tables().ok()?)))
            }
            _ => None,
        }
    }

    /// The number of bands of the result.
    pub(crate) fn bands(&self) -> usize {
        match self {
            Conversion::Cmyk | Conversion::Lab(_) => 4,
            Conversion::YCbCr(_) => 3,
        }
    }

    /// Converts interleaved pixels of `samples` bytes to interleaved pixels of [`bands`](Conversion::bands)
    /// bytes.
    pub(crate) fn convert(&self, samples: usize, src: &[u8], dst: &mut [u8]) {
        match self {
            Conversion::Cmyk => cmyk_to_rgba(src, samples, dst),
            Conversion::Lab(lab) => lab.to_rgba(src, dst),
            Conversion::YCbCr(tables) => tables.to_rgb(src, dst),
        }
    }
}

/// Returns the parameters of YCbCr values that the tags give.
pub(crate) fn ycbcr<R: ReadAt + ?Sized>(fields: &Fields<'_, R>) -> YCbCr {
    let floats = |tag| fields.floats(tag).ok().flatten().unwrap_or_default();
    let mut ycbcr = YCbCr::default();
    if let Ok(coefficients) = <[f64; 3]>::try_from(floats(Tag::YCBCR_COEFFICIENTS)) {
        ycbcr.coefficients = coefficients.map(|value| value as f32);
    }
    if let Ok(reference) = <[f64; 6]>::try_from(floats(Tag::REFERENCE_BLACK_WHITE)) {
        ycbcr.reference_black_white = reference.map(|value| value as f32);
    }
    ycbcr
}

/// Returns the number of pixels that share one chroma sample, across and down, in the packed YCbCr of byte
/// codecs: (2, 2) unless the tag gives other values.
pub(crate) fn subsampling<R: ReadAt + ?Sized>(layout: &ImageLayout, fields: &Fields<'_, R>) -> (usize, usize) {
    let packed = layout.photometric == Photometric::YCBCR
        && layout.bits == 8
        && layout.block_samples() == 3
        && !layout.compression.is_picture();
    if packed { announced_subsampling(fields) } else { (1, 1) }
}

/// Returns the value of the YCbCrSubSampling tag.
pub(crate) fn announced_subsampling<R: ReadAt + ?Sized>(fields: &Fields<'_, R>) -> (usize, usize) {
    match fields.uints(Tag::YCBCR_SUBSAMPLING).ok().flatten().as_deref() {
        Some(&[h @ (1 | 2 | 4), v @ (1 | 2 | 4), ..]) => (h as usize, v as usize),
        _ => (2, 2),
    }
}
