//! Unpacks data units in which several pixels share chroma (TIFF 6.0 section 21).

use crate::{Error, Result};

const NAME: &str = "YCbCr";

/// Returns the number of bytes of `height` rows of `width` pixels if each unit of `h` x `v` pixels shares one
/// Cb and one Cr, or `None` if that number overflows. Units at the right and bottom edge are stored whole.
pub fn subsampled_len(width: usize, height: usize, (h, v): (usize, usize)) -> Option<usize> {
    if h == 0 || v == 0 {
        return None;
    }
    let unit = h.checked_mul(v)?.checked_add(2)?;
    width.div_ceil(h).checked_mul(height.div_ceil(v))?.checked_mul(unit)
}

/// Unpacks rows of data units (`h` x `v` luma values, row by row, then Cb and Cr) into `height` rows of `width`
/// interleaved Y, Cb, Cr pixels. The chroma of a unit is repeated for all its pixels.
///
/// A `dst` that is too short receives only the first pixels. Bytes of `src` after the last unit are ignored.
///
/// libtiff, and so GDAL, reads the last bytes of a strip as zeros if units are 4 x 4 and a row has an odd
/// number of units. It also misplaces 4 x 4 units in tiles that cross the right edge. This function uses all
/// units and keeps them in place.
///
/// # Errors
/// [`Error::Unsuited`] for factors other than 1, 2 and 4, [`Error::Truncated`] if `src` is shorter than
/// [`subsampled_len`].
pub fn expand_subsampled(
    src: &[u8],
    width: usize,
    height: usize,
    (h, v): (usize, usize),
    dst: &mut [u8],
) -> Result<()> {
    let expand = match (h, v) {
        (1, 1) => expand::<1, 1>,
        (1, 2) => expand::<1, 2>,
        (1, 4) => expand::<1, 4>,
        (2, 1) => expand::<2, 1>,
        (2, 2) => expand::<2, 2>,
        (2, 4) => expand::<2, 4>,
        (4, 1) => expand::<4, 1>,
        (4, 2) => expand::<4, 2>,
        (4, 4) => expand::<4, 4>,
        _ => return Err(Error::Unsuited { codec: NAME, what: "chroma subsampled by other than 1, 2 or 4" }),
    };
    let want = subsampled_len(width, height, (h, v)).unwrap_or(usize::MAX);
    let src = src.get(..want).ok_or(Error::Truncated { codec: NAME, got: src.len(), want })?;
    if want == 0 {
        return Ok(());
    }
    expand(src, width, height, dst);
    Ok(())
}

/// `width` and `height` are not 0, and `src` has the length that they require, which also bounds the products
/// here.
fn expand<const H: usize, const V: usize>(src: &[u8], width: usize, height: usize, dst: &mut [u8]) {
    let unit_bytes = H * V + 2;
    let unit_rows = src.chunks_exact(width.div_ceil(H) * unit_bytes);
    let pixels = dst.as_chunks_mut::<3>().0;
    let mut rows = pixels.chunks_exact_mut(width).take(height);
    for units in unit_rows {
        for (y, row) in rows.by_ref().take(V).enumerate() {
            for (pixels, unit) in row.chunks_mut(H).zip(units.chunks_exact(unit_bytes)) {
                let (luma, chroma) = unit.split_at(H * V);
                for (pixel, &luma) in pixels.iter_mut().zip(&luma[y * H..]) {
                    *pixel = [luma, chroma[0], chroma[1]];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::noise;

    const FACTORS: [usize; 3] = [1, 2, 4];

    #[test]
    fn units_cut_by_the_right_and_bottom_edge_give_only_their_pixels_inside() {
        let src: Vec<u8> = (0..24).collect();
        let mut dst = [255; 27];
        expand_subsampled(&src, 3, 3, (2, 2), &mut dst).unwrap();
        #[rustfmt::skip]
        let expected = [
            0, 4, 5, 1, 4, 5, 6, 10, 11,
            2, 4, 5, 3, 4, 5, 8, 10, 11,
            12, 16, 17, 13, 16, 17, 18, 22, 23,
        ];
        assert_eq!(dst, expected);
    }

    #[test]
    fn every_factor_agrees_with_the_definition_by_pixel() {
        for h in FACTORS {
            for v in FACTORS {
                for (width, height) in [(1, 1), (4, 4), (5, 3), (3, 5), (17, 13), (16, 9)] {
                    let src = noise(subsampled_len(width, height, (h, v)).unwrap());
                    let mut dst = vec![0; width * height * 3];
                    expand_subsampled(&src, width, height, (h, v), &mut dst).unwrap();
                    for (at, pixel) in dst.chunks_exact(3).enumerate() {
                        let (x, y) = (at % width, at / width);
                        let unit = (y / v * width.div_ceil(h) + x / h) * (h * v + 2);
                        let luma = src[unit + y % v * h + x % h];
                        assert_eq!(pixel, [luma, src[unit + h * v], src[unit + h * v + 1]], "{h}x{v} at {x},{y}");
                    }
                }
            }
        }
    }

    #[test]
    fn missing_units_are_an_error_not_grey_pixels() {
        let src = noise(23);
        let error = expand_subsampled(&src, 3, 3, (2, 2), &mut [0; 27]).unwrap_err();
        assert_eq!(error, Error::Truncated { codec: NAME, got: 23, want: 24 });
    }

    #[test]
    fn absurd_sizes_and_factors_are_refused() {
        assert_eq!(subsampled_len(usize::MAX, 2, (1, 1)), None);
        assert_eq!(subsampled_len(8, 8, (0, 1)), None);
        assert_eq!(subsampled_len(8, 8, (usize::MAX, 2)), None);
        assert!(expand_subsampled(&[0; 64], usize::MAX, 2, (1, 1), &mut [0; 64]).is_err());
        assert!(expand_subsampled(&[0; 64], 2, 2, (3, 1), &mut [0; 12]).is_err());
        assert!(expand_subsampled(&[0; 64], 2, 2, (0, 0), &mut [0; 12]).is_err());
        assert_eq!(expand_subsampled(&[], 0, 5, (2, 2), &mut []), Ok(()));
    }

    #[test]
    fn a_short_output_is_filled_by_rows_and_no_further() {
        let mut dst = [9; 13];
        expand_subsampled(&[1; 12], 2, 2, (1, 1), &mut dst[..7]).unwrap();
        assert_eq!(dst, [1, 1, 1, 1, 1, 1, 9, 9, 9, 9, 9, 9, 9]);
    }
}
