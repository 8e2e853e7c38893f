//! From YCbCr, CMYK and CIE L\*a\*b\* to RGB, for 8-bit images, level for level as GDAL shows them.
//!
//! GDAL hands such images to libtiff's display conversion. The arithmetic here follows TIFF 6.0 sections 16, 20, 21 and
//! 23; what the specification leaves open (rounding, clipping, table sizes) was found by comparing outputs, for the
//! whole input space of CMYK and L\*a\*b\*. Images of other depths are not converted: they keep their samples.
//!
//! All conversions work on interleaved pixels, for as many whole pixels as both slices have.

mod lab;
mod subsampled;
mod ycbcr;

pub use lab::Lab;
pub use subsampled::{expand_subsampled, subsampled_len};
pub use ycbcr::{Tables, YCbCr};

/// Converts pixels of `samples` inks, of which the first four are cyan, magenta, yellow and black, to opaque RGBA.
///
/// Further inks are ignored whatever they mean, as in GDAL. Fewer than four inks convert nothing.
pub fn cmyk_to_rgba(src: &[u8], samples: usize, dst: &mut [u8]) {
    for (rgba, pixel) in dst.as_chunks_mut::<4>().0.iter_mut().zip(src.chunks_exact(samples.max(1))) {
        if let Some(inks) = pixel.first_chunk() {
            *rgba = mix(inks);
        }
    }
}

/// Light that passes the ink and the black, rounded down.
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
    fn extra_inks_are_skipped_and_missing_ones_convert_nothing() {
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
