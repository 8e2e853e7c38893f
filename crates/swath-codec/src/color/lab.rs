//! CIE L\*a\*b\* to RGB (TIFF 6.0 section 23).

use crate::{Error, Result};

/// The number of steps of light between the black and the white of the display.
const STEPS: usize = 1500;

/// The matrix from XYZ (white is Y = 100) to the red, green and blue light of a display with the primaries of
/// sRGB.
const DISPLAY: [[f32; 3]; 3] = [[3.2410, -1.5374, -0.4986], [-0.9692, 1.8760, 0.0416], [0.0556, -0.2040, 1.0570]];

/// The light of the display's black and of its white.
const LIGHT: (f32, f32) = (1.0, 100.0);

/// The conversion of the 8-bit L\*a\*b\* of one image to RGB. It is built once and used for all blocks.
///
/// The white point is not adapted: with the default, D50, white is slightly yellow, as in GDAL.
#[derive(Debug, Clone)]
pub struct Lab {
    /// X and Z of the white point, for Y = 100.
    white: (f32, f32),
    /// The sample value for each step of light.
    levels: Box<[u8; STEPS + 1]>,
}

impl Default for Lab {
    /// The white point D50, which applies if the file has no WhitePoint tag.
    fn default() -> Self {
        let [x, y, z] = [96.4250_f64, 100.0, 82.4680];
        let sum = x + y + z;
        Self::from_white((x / sum) as f32, (y / sum) as f32)
    }
}

impl Lab {
    /// Builds a conversion for the white point with the chromaticities x and y (WhitePoint, tag 318).
    ///
    /// # Errors
    /// [`Error::Corrupt`] if y is 0 or a value is not finite.
    pub fn new([x, y]: [f32; 2]) -> Result<Self> {
        if !x.is_finite() || !y.is_finite() || y == 0.0 {
            return Err(Error::Corrupt { codec: "CIE L*a*b*", what: "WhitePoint is not a colour" });
        }
        Ok(Self::from_white(x, y))
    }

    fn from_white(x: f32, y: f32) -> Self {
        let shown = |step: usize| (255.0 * (step as f64 / STEPS as f64).powf(1.0 / 2.4) as f32).round() as u8;
        Self { white: (x / y * 100.0, (1.0 - x - y) / y * 100.0), levels: Box::new(std::array::from_fn(shown)) }
    }

    /// Converts interleaved L\* (0 to 255 for 0 to 100), a\* and b\* (both signed) to opaque RGBA.
    pub fn to_rgba(&self, src: &[u8], dst: &mut [u8]) {
        for (rgba, lab) in dst.as_chunks_mut::<4>().0.iter_mut().zip(src.as_chunks::<3>().0) {
            let xyz = self.xyz(lab);
            let [r, g, b] = DISPLAY.map(|row| self.level(row[0] * xyz[0] + row[1] * xyz[1] + row[2] * xyz[2]));
            *rgba = [r, g, b, 255];
        }
    }

    fn xyz(&self, &[l, a, b]: &[u8; 3]) -> [f32; 3] {
        let l = f32::from(l) * 100.0 / 255.0;
        let (y, root) = if l < 8.856 {
            let y = l * 100.0 / 903.292;
            (y, 7.787 * (y / 100.0) + 16.0 / 116.0)
        } else {
            let root = (l + 16.0) / 116.0;
            (100.0 * root * root * root, root)
        };
        let axis = |white: f32, root: f32| {
            if root < 0.2069 { white * (root - 0.13793) / 7.787 } else { white * root * root * root }
        };
        let x = axis(self.white.0, f32::from(a as i8) / 500.0 + root);
        let z = axis(self.white.1, root - f32::from(b as i8) / 200.0);
        [x, y, z]
    }

    fn level(&self, light: f32) -> u8 {
        let (black, white) = LIGHT;
        let step = (light.clamp(black, white) - black) / ((white - black) / STEPS as f32);
        // An absurd white point can cause a NaN, which becomes step 0.
        self.levels[(step as usize).min(STEPS)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Black, white, colours inside and outside the gamut of the display, and colours on both sides of the end
    /// of the linear part.
    const PIXELS: [u8; 24] =
        [0, 0, 0, 255, 0, 0, 128, 20, 226, 20, 127, 128, 22, 251, 5, 23, 5, 251, 200, 176, 90, 90, 60, 40];

    #[test]
    fn default_white_point_gives_the_values_of_gdal() {
        let mut rgba = [7; 32];
        Lab::default().to_rgba(&PIXELS, &mut rgba);
        let expected = [
            0, 0, 0, 255, 255, 252, 222, 255, 147, 112, 153, 255, 60, 0, 195, 255, 0, 0, 0, 255, 27, 0, 12, 255, 45,
            226, 0, 255, 176, 0, 0, 255,
        ];
        assert_eq!(rgba, expected);
    }

    #[test]
    fn white_point_of_the_file_is_used() {
        let mut rgba = [7; 32];
        Lab::new([0.3127, 0.3290]).unwrap().to_rgba(&PIXELS, &mut rgba);
        let expected = [
            0, 0, 0, 255, 255, 255, 255, 255, 131, 115, 174, 255, 0, 0, 219, 255, 0, 0, 0, 255, 19, 0, 26, 255, 0, 227,
            0, 255, 174, 0, 0, 255,
        ];
        assert_eq!(rgba, expected);
    }

    #[test]
    fn invalid_white_point_is_an_error_and_an_absurd_one_does_not_panic() {
        assert!(Lab::new([0.3, 0.0]).is_err());
        assert!(Lab::new([f32::NAN, 0.3]).is_err());
        assert!(Lab::new([0.3, f32::INFINITY]).is_err());
        for white in [[1e30, 1e-30], [-1e38, 1e38], [9.0, 0.001]] {
            Lab::new(white).unwrap().to_rgba(&PIXELS, &mut [0; 32]);
        }
    }
}
