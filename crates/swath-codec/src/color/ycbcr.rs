//! YCbCr to RGB (TIFF 6.0 sections 20 and 21).

use crate::{Error, Result};

const NAME: &str = "YCbCr";

/// The number of fractional bits of the product of a chroma value and its weight.
const FRACTION: u32 = 16;

/// The tags that define the YCbCr values of a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct YCbCr {
    /// The weights of red, green and blue in luma (YCbCrCoefficients, tag 529).
    pub coefficients: [f32; 3],
    /// The codes of black and white for Y, then the codes of zero and full chroma for Cb and for Cr
    /// (ReferenceBlackWhite, tag 532).
    pub reference_black_white: [f32; 6],
}

impl Default for YCbCr {
    /// The values for a file without either tag: CCIR 601 luma and codes that use the whole range.
    fn default() -> Self {
        Self { coefficients: [0.299, 0.587, 0.114], reference_black_white: [0.0, 255.0, 128.0, 255.0, 128.0, 255.0] }
    }
}

impl YCbCr {
    /// Builds the conversion tables of an image, which all its blocks share.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the weight of green in luma is 0, which would divide by zero, or if a value is not
    /// finite or outside the range of all codes. libtiff refuses the same values.
    pub fn tables(&self) -> Result<Tables> {
        let [red, green, blue] = self.coefficients;
        if !self.coefficients.iter().all(|c| c.is_finite()) || green == 0.0 {
            return Err(Error::Corrupt { codec: NAME, what: "the weight of green in YCbCrCoefficients is zero" });
        }
        // Beyond this limit, the rounding of a float loses the codes of a byte.
        if !self.reference_black_white.iter().all(|code| code.abs() < i32::MAX as f32) {
            return Err(Error::Corrupt { codec: NAME, what: "ReferenceBlackWhite is out of range" });
        }
        let red_of_cr = weight(2.0 - 2.0 * red);
        let blue_of_cb = weight(2.0 - 2.0 * blue);
        let green_of_cr = weight(red * red_of_cr / green);
        let green_of_cb = weight(blue * blue_of_cb / green);

        let [y_black, y_white, cb_none, cb_most, cr_none, cr_most] = self.reference_black_white;
        let half = 1 << (FRACTION - 1);
        let mut tables = Tables { y: [0; 256], red: [0; 256], blue: [0; 256], green: [[0; 256]; 2] };
        for code in 0..256 {
            let at = code as usize;
            let cb = level(code - 128, cb_none - 128.0, cb_most - 128.0, 127.0);
            let cr = level(code - 128, cr_none - 128.0, cr_most - 128.0, 127.0);
            tables.y[at] = level(code, y_black, y_white, 255.0);
            tables.red[at] = (fixed(red_of_cr) * cr + half) >> FRACTION;
            tables.blue[at] = (fixed(blue_of_cb) * cb + half) >> FRACTION;
            tables.green[0][at] = half - fixed(green_of_cb) * cb;
            tables.green[1][at] = -fixed(green_of_cr) * cr;
        }
        Ok(tables)
    }
}

/// Clips a weight to the range that contains every weight of sensible coefficients. libtiff clips in this order
/// too, so the weights of green follow from the clipped weights of red and blue.
fn weight(weight: f32) -> f32 {
    weight.clamp(0.0, 2.0)
}

fn fixed(weight: f32) -> i32 {
    (weight * (1 << FRACTION) as f32 + 0.5).floor() as i32
}

/// Returns the value of a code, truncated to a whole number. Black is truncated where it is subtracted, but not
/// where it sets the scale, because libtiff does the same. The limits leave room for sums in 32 bits.
fn level(code: i32, black: f32, white: f32, range: f32) -> i32 {
    let span = if white == black { 1.0 } else { white - black };
    ((code as f32 - black.trunc()) * range / span).clamp(-4096.0, 4096.0) as i32
}

/// The conversion of one image's YCbCr to RGB; see [`YCbCr::tables`].
#[derive(Debug, Clone)]
pub struct Tables {
    y: [i32; 256],
    /// The contribution of Cr to red.
    red: [i32; 256],
    /// The contribution of Cb to blue.
    blue: [i32; 256],
    /// The contributions of Cb and Cr to green before the shift, because libtiff rounds their sum once.
    green: [[i32; 256]; 2],
}

impl Tables {
    /// Converts interleaved Y, Cb, Cr to R, G, B.
    pub fn to_rgb(&self, src: &[u8], dst: &mut [u8]) {
        for (rgb, &pixel) in dst.as_chunks_mut::<3>().0.iter_mut().zip(src.as_chunks::<3>().0) {
            *rgb = self.rgb(pixel);
        }
    }

    /// Converts one pixel.
    #[inline]
    pub(crate) fn rgb(&self, [y, cb, cr]: [u8; 3]) -> [u8; 3] {
        let (y, cb, cr) = (self.y[usize::from(y)], usize::from(cb), usize::from(cr));
        let green = (self.green[0][cb] + self.green[1][cr]) >> FRACTION;
        [y + self.red[cr], y + green, y + self.blue[cb]].map(|level| level.clamp(0, 255) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pixels at both ends of the range and between them.
    const PIXELS: [u8; 18] = [0, 0, 0, 255, 255, 255, 182, 7, 124, 37, 102, 237, 140, 18, 138, 33, 193, 242];

    fn rgb(coefficients: Option<[f32; 3]>, reference: Option<[f32; 6]>) -> [u8; 18] {
        let default = YCbCr::default();
        let image = YCbCr {
            coefficients: coefficients.unwrap_or(default.coefficients),
            reference_black_white: reference.unwrap_or(default.reference_black_white),
        };
        let mut rgb = [7; 18];
        image.tables().unwrap().to_rgb(&PIXELS, &mut rgb);
        rgb
    }

    #[test]
    fn default_tags_give_the_values_of_gdal() {
        assert_eq!(rgb(None, None), [0, 135, 0, 255, 121, 255, 176, 226, 0, 190, 0, 0, 154, 171, 0, 193, 0, 148]);
    }

    #[test]
    fn studio_range_with_other_luma_gives_the_values_of_gdal() {
        assert_eq!(
            rgb(Some([0.2126, 0.7152, 0.0722]), Some([16.0, 235.0, 128.0, 240.0, 128.0, 240.0])),
            [0, 77, 0, 255, 184, 255, 187, 221, 0, 218, 0, 0, 161, 162, 0, 222, 0, 154]
        );
    }

    #[test]
    fn fractions_of_black_and_weights_above_two_are_truncated_as_in_libtiff() {
        assert_eq!(
            rgb(Some([0.1, 0.1, 0.8]), Some([7.5, 235.1, 127.5, 240.3, 128.1, 239.9])),
            [0, 255, 0, 255, 0, 255, 189, 255, 142, 254, 0, 21, 169, 255, 100, 255, 0, 58]
        );
    }

    #[test]
    fn an_empty_range_divides_by_one() {
        assert_eq!(
            rgb(None, Some([5.0, 5.0, 128.0, 128.0, 128.0, 129.0])),
            [0, 255, 0, 255, 0, 255, 255, 255, 0, 255, 255, 0, 255, 255, 0, 255, 0, 255]
        );
    }

    #[test]
    fn tags_that_divide_by_zero_are_errors_and_absurd_ones_do_not_overflow() {
        let default = YCbCr::default();
        for coefficients in [[0.5, 0.0, 0.5], [f32::NAN, 1.0, 0.0], [0.0, f32::INFINITY, 0.0]] {
            assert!(YCbCr { coefficients, ..default }.tables().is_err());
        }
        for code in [f32::NAN, f32::INFINITY, -4e9] {
            assert!(YCbCr { reference_black_white: [code; 6], ..default }.tables().is_err());
        }
        for tiny in [1e-30, -1e-30, 1e30, -1e30] {
            let reference_black_white = [0.0, 1e-30, 128.0, 128.00001, -1e9, 1e9];
            let tables = YCbCr { coefficients: [1e30, tiny, -1e30], reference_black_white }.tables().unwrap();
            tables.to_rgb(&PIXELS, &mut [0; 18]);
        }
    }
}
