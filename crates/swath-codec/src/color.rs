//! Converts 8-bit YCbCr, CMYK and CIE L\*a\*b\* samples to RGB, with exactly the values that GDAL returns.
//!
//! GDAL uses libtiff's display conversion for such images. The arithmetic here follows TIFF 6.0 sections 16,
//! 20, 21 and 23. The specification does not define the rounding, the clipping and the sizes of the tables;
//! these were found by comparing outputs, for CMYK and L\*a\*b\* over the whole input space. Images of other
//! depths are not converted and keep their samples.
//!
//! All conversions take interleaved pixels and convert as many whole pixels as both slices have.

mod lab;
mod subsampled;
mod ycbcr;

pub use lab::Lab;
pub use subsampled::{expand_subsampled, subsampled_len};
pub use ycbcr::{Tables, YCbCr};

/// Converts pixels of `samples` inks to opaque RGBA. The first four inks are cyan, magenta, yellow and black.
///
/// Further inks are ignored whatever they mean, as in GDAL. With fewer than four inks nothing is converted.
pub fn cmyk_to_rgba(src: &[u8], samples: usize, dst: &mut [u8]) {
    for (rgba, pixel) in dst.as_chunks_mut::<4>().0.iter_mut().zip(src.chunks_exact(samples.max(1))) {
        if let Some(inks) = pixel.first_chunk() {
            *rgba = mix(inks);
        }
    }
}

/// Returns the light that passes the ink and the black, rounded down.
fn mix(&[c, m, y, k]: &[u8; 4]) -> [u8; 4] {
    let white = u16::from(255 - k);
    let light = |ink: u8| (u16::from(255 - ink) * white / 255) as u8;
    [light(c), light(m), light(y), 255]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_is_rounded_down_as_gdal_does() {
        let inks = [0, 255, 128, 0, 1, 2, 3, 4, 200, 100, 50, 25, 65, 118, 202, 13, 0, 0, 0, 0, 9, 9, 9, 255];
        let mut rgba = [7; 24];
        cmyk_to_rgba(&inks, 4, &mut rgba);
        let expected = [
            255, 0, 127, 255, 250, 249, 248, 255, 49, 139, 184, 255, 180, 130, 50, 255, 255, 255, 255, 255, 0, 0, 0,
            255,
        ];
        assert_eq!(rgba, expected);
    }

    #[test]
    fn extra_inks_are_ignored_and_missing_inks_convert_nothing() {
        let mut rgba = [7; 8];
        cmyk_to_rgba(&[1, 2, 3, 4, 99, 200, 100, 50, 25, 99, 1, 1], 5, &mut rgba);
        assert_eq!(rgba, [250, 249, 248, 255, 49, 139, 184, 255]);
        cmyk_to_rgba(&[1, 2, 3, 4, 5, 6], 3, &mut rgba);
        assert_eq!(rgba, [250, 249, 248, 255, 49, 139, 184, 255]);
        cmyk_to_rgba(&[1, 2, 3, 4], 0, &mut rgba);
        cmyk_to_rgba(&[1, 2, 3], 4, &mut rgba);
        assert_eq!(rgba, [250, 249, 248, 255, 49, 139, 184, 255]);
    }
}
