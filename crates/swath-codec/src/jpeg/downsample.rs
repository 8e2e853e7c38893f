//! Copies rows of pixels from the block into the planes of the components: the inverse of
//! [`output`](super::output) and [`upsample`](super::upsample).
//!
//! Colours and averages are rounded as in libjpeg.

/// Copies sample `n` of each pixel of `count` samples.
#[inline(always)]
pub(super) fn deinterleave(pixels: &[u8], n: usize, count: usize, plane: &mut [u8]) {
    match count {
        1 => plane.copy_from_slice(pixels),
        2 => pick::<2>(pixels, n, plane),
        3 => pick::<3>(pixels, n, plane),
        _ => pick::<4>(pixels, n, plane),
    }
}

#[inline(always)]
fn pick<const COUNT: usize>(pixels: &[u8], n: usize, plane: &mut [u8]) {
    let n = n.min(COUNT - 1);
    for (pixel, out) in pixels.as_chunks::<COUNT>().0.iter().zip(plane) {
        *out = pixel[n];
    }
}

/// Converts RGB to YCbCr as JFIF defines it. Each plane has one sample per pixel.
#[inline(always)]
pub(super) fn ycbcr(pixels: &[u8], luma: &mut [u8], blue: &mut [u8], red: &mut [u8]) {
    const HALF: i32 = 1 << 15;
    const MIDDLE: i32 = (128 << 16) + HALF - 1;
    let pixels = pixels.as_chunks::<3>().0.iter();
    for (((pixel, luma), blue), red) in pixels.zip(luma).zip(blue).zip(red) {
        let [r, g, b] = pixel.map(i32::from);
        // Factors of more than 15 bits are split, because products of 16-bit numbers are the fastest.
        *luma = ((19595 * r + 22086 * g + (g << 14) + 7471 * b + HALF) >> 16) as u8;
        *blue = ((-11059 * r - 21709 * g + (b << 15) + MIDDLE) >> 16) as u8;
        *red = (((r << 15) - 27439 * g - 5329 * b + MIDDLE) >> 16) as u8;
    }
}

/// Averages pairs. Halves are rounded down and up alternately, so that the mean of the row does not change.
#[inline(always)]
pub(super) fn halve_across(row: &[u8], out: &mut [u8]) {
    for (samples, out) in row.as_chunks::<4>().0.iter().zip(out.as_chunks_mut::<2>().0) {
        let [a, b, c, d] = samples.map(u16::from);
        *out = [(a + b) >> 1, (c + d + 1) >> 1].map(|mean| mean as u8);
    }
}

/// Averages squares of four samples. The rounding alternates as in `halve_across`.
#[inline(always)]
pub(super) fn halve_both(upper: &[u8], lower: &[u8], out: &mut [u8]) {
    let rows = upper.as_chunks::<4>().0.iter().zip(lower.as_chunks::<4>().0);
    for ((upper, lower), out) in rows.zip(out.as_chunks_mut::<2>().0) {
        let ([a, b, c, d], [e, f, g, h]) = (upper.map(u16::from), lower.map(u16::from));
        *out = [(a + b + e + f + 1) >> 2, (c + d + g + h + 2) >> 2].map(|mean| mean as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_those_of_jfif() {
        let steps = [0u8, 1, 2, 63, 64, 127, 128, 129, 200, 254, 255];
        for r in steps {
            for g in steps {
                for b in steps {
                    let (mut luma, mut blue, mut red) = ([0], [0], [0]);
                    ycbcr(&[r, g, b], &mut luma, &mut blue, &mut red);
                    let [r, g, b] = [r, g, b].map(f64::from);
                    let y = 0.299 * r + 0.587 * g + 0.114 * b;
                    let close = |got: u8, want: f64| (f64::from(got) - want.min(255.0)).abs() < 0.51;
                    assert!(close(luma[0], y), "{r} {g} {b}");
                    assert!(close(blue[0], 128.0 + (b - y) / 1.772), "{r} {g} {b}");
                    assert!(close(red[0], 128.0 + (r - y) / 1.402), "{r} {g} {b}");
                }
            }
        }
    }

    #[test]
    fn means_do_not_drift() {
        let (row, lower) = ([10, 11, 10, 11], [10, 11, 10, 11]);
        let mut out = [0; 2];
        halve_across(&row, &mut out);
        assert_eq!(out, [10, 11]);
        halve_both(&row, &lower, &mut out);
        assert_eq!(out, [10, 11]);
    }
}
