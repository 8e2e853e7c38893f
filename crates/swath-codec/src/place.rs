//! Copies the samples of a decoded row to their positions in an output row.
//!
//! Rows are slices of bytes. Samples have a width of 1, 2, 4, 8 or 16 bytes and no type.

/// Selects one sample of every pixel of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Every {
    /// The index of the sample in the pixel, less than `stride`.
    pub first: usize,
    /// The number of samples per pixel.
    pub stride: usize,
}

impl Every {
    /// Selects the only sample of single-sample pixels.
    pub const SAMPLE: Self = Self { first: 0, stride: 1 };

    /// Selects sample `first` of pixels that have `stride` samples.
    pub fn nth(first: usize, stride: usize) -> Self {
        Self { first, stride }
    }
}

/// Copies one sample of each pixel of `src` to one sample of each pixel of `dst`, for as many whole pixels as
/// both have.
///
/// A call with [`Every::SAMPLE`] on both sides is a plain copy, which also copies all bands in their order. One
/// call per band extracts bands from an interleaved row (`from` strided), inserts them into one (`to` strided),
/// or does both. If `width` is not 1, 2, 4, 8 or 16, or if a selection lies outside its pixel, nothing is
/// copied.
pub fn copy(width: usize, src: &[u8], from: Every, dst: &mut [u8], to: Every) {
    match width {
        1 => copy_width::<1>(src, from, dst, to),
        2 => copy_width::<2>(src, from, dst, to),
        4 => copy_width::<4>(src, from, dst, to),
        8 => copy_width::<8>(src, from, dst, to),
        16 => copy_width::<16>(src, from, dst, to),
        _ => {}
    }
}

fn copy_width<const W: usize>(src: &[u8], from: Every, dst: &mut [u8], to: Every) {
    if from.first >= from.stride || to.first >= to.stride {
        return;
    }
    match (from.stride, to.stride) {
        (1, 1) => {
            let length = src.len().min(dst.len()) / W * W;
            dst[..length].copy_from_slice(&src[..length]);
        }
        (2, 1) => gather::<W, 2>(src, from.first, dst),
        (3, 1) => gather::<W, 3>(src, from.first, dst),
        (4, 1) => gather::<W, 4>(src, from.first, dst),
        (8, 1) => gather::<W, 8>(src, from.first, dst),
        (1, 2) => scatter::<W, 2>(src, dst, to.first),
        (1, 3) => scatter::<W, 3>(src, dst, to.first),
        (1, 4) => scatter::<W, 4>(src, dst, to.first),
        _ => {
            let src = src.as_chunks::<W>().0.chunks_exact(from.stride);
            let dst = dst.as_chunks_mut::<W>().0.chunks_exact_mut(to.stride);
            for (dst, src) in dst.zip(src) {
                dst[to.first] = src[from.first];
            }
        }
    }
}

/// Splits a row of interleaved pixels into its bands: `dst[n]` receives sample `n` of every pixel.
///
/// Equal to one call of [`copy`] per band, and faster for 4 bands of two bytes, where one pass reads the row once.
pub fn split(width: usize, src: &[u8], dst: &mut [&mut [u8]]) {
    #[cfg(target_arch = "x86_64")]
    if let (2, [a, b, c, d]) = (width, &mut *dst) {
        let done = x86::split_four(src, [a, b, c, d]);
        let bands = dst.len();
        for (n, dst) in dst.iter_mut().enumerate() {
            copy(2, &src[done * 8..], Every::nth(n, bands), &mut dst[done * 2..], Every::SAMPLE);
        }
        return;
    }
    let bands = dst.len();
    for (n, dst) in dst.iter_mut().enumerate() {
        copy(width, src, Every::nth(n, bands), dst, Every::SAMPLE);
    }
}

fn gather<const W: usize, const N: usize>(src: &[u8], first: usize, dst: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    let done = x86::gather::<W, N>(src, first, dst);
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    let pixels = src.as_chunks::<W>().0.as_chunks::<N>().0.get(done..).unwrap_or_default();
    let samples = dst.as_chunks_mut::<W>().0.get_mut(done..).unwrap_or_default();
    for (sample, pixel) in samples.iter_mut().zip(pixels) {
        *sample = pixel[first];
    }
}

fn scatter<const W: usize, const N: usize>(src: &[u8], dst: &mut [u8], first: usize) {
    let pixels = dst.as_chunks_mut::<W>().0.as_chunks_mut::<N>().0;
    for (pixel, sample) in pixels.iter_mut().zip(src.as_chunks::<W>().0) {
        pixel[first] = *sample;
    }
}

/// Vector code for samples of one or two bytes, which compilers load one by one on x86. It is 10, 8 and 7 times
/// as fast for 2, 3 and 4 bands of one byte, and 1.5, 4.6 and 3.9 times as fast for 2, 3 and 4 bands of two
/// bytes.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::x86_64::*;

    /// Returns the number of samples that it copied. The portable loop copies wider samples, and is as fast for
    /// them.
    pub(super) fn gather<const W: usize, const N: usize>(src: &[u8], first: usize, dst: &mut [u8]) -> usize {
        if W > 2 || !is_x86_feature_detected!("ssse3") {
            return 0;
        }
        // SAFETY: the CPU has SSSE3, the only requirement of this function.
        unsafe { gather_registers::<W, N>(src, first, dst) }
    }

    /// Collects a register of samples from the `N` registers that hold their pixels.
    #[target_feature(enable = "ssse3")]
    fn gather_registers<const W: usize, const N: usize>(src: &[u8], first: usize, dst: &mut [u8]) -> usize {
        let pick: [__m128i; N] = core::array::from_fn(|n| bytemuck::cast(Picks::<W, N>::TABLE[first][n]));
        let pixels = src.as_chunks::<16>().0.as_chunks::<N>().0;
        let samples = dst.as_chunks_mut::<16>().0;
        for (samples, pixels) in samples.iter_mut().zip(pixels) {
            let mut all = _mm_setzero_si128();
            for (pixels, pick) in pixels.iter().zip(pick) {
                all = _mm_or_si128(all, _mm_shuffle_epi8(bytemuck::cast(*pixels), pick));
            }
            *samples = bytemuck::cast(all);
        }
        samples.len().min(pixels.len()) * (16 / W)
    }

    /// Splits pixels of 4 samples of two bytes. Returns the number of pixels: all whole groups of 16 that every slice has.
    pub(super) fn split_four(src: &[u8], dst: [&mut [u8]; 4]) -> usize {
        if !is_x86_feature_detected!("avx2") {
            return 0;
        }
        // SAFETY: the CPU has AVX2, the only requirement of this function.
        unsafe { split_four_avx2(src, dst) }
    }

    #[target_feature(enable = "avx2")]
    fn split_four_avx2(src: &[u8], dst: [&mut [u8]; 4]) -> usize {
        // In each half of a register: the first samples of both pixels, then the second ones, and so on.
        let pairs = _mm256_setr_epi8(
            0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15, 0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15,
        );
        // Both halves of the registers below hold every second pair of pixels.
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        let [a, b, c, d] = dst.map(|band| band.as_chunks_mut::<32>().0);
        let pixels = src.as_chunks::<128>().0;
        let mut groups = 0;
        for ((((pixels, a), b), c), d) in pixels.iter().zip(a).zip(b).zip(c).zip(d) {
            let load = |at: usize| {
                let bytes: [u8; 32] = core::array::from_fn(|i| pixels[at * 32 + i]);
                _mm256_shuffle_epi8(bytemuck::cast(bytes), pairs)
            };
            let (p, q, r, s) = (load(0), load(1), load(2), load(3));
            let (low_pq, high_pq) = (_mm256_unpacklo_epi32(p, q), _mm256_unpackhi_epi32(p, q));
            let (low_rs, high_rs) = (_mm256_unpacklo_epi32(r, s), _mm256_unpackhi_epi32(r, s));
            let store = |halves| bytemuck::cast(_mm256_permutevar8x32_epi32(halves, order));
            *a = store(_mm256_unpacklo_epi64(low_pq, low_rs));
            *b = store(_mm256_unpackhi_epi64(low_pq, low_rs));
            *c = store(_mm256_unpacklo_epi64(high_pq, high_rs));
            *d = store(_mm256_unpackhi_epi64(high_pq, high_rs));
            groups += 1;
        }
        groups * 16
    }

    struct Picks<const W: usize, const N: usize>;

    impl<const W: usize, const N: usize> Picks<W, N> {
        /// The `pshufb` operand for each sample of the pixel and each register of the group.
        const TABLE: [[[u8; 16]; N]; N] = {
            const ZERO: u8 = 0x80;
            let mut table = [[[ZERO; 16]; N]; N];
            let mut first = 0;
            while first < N {
                let mut at = 0;
                while at < 16 {
                    let from = (at / W * N + first) * W + at % W;
                    table[first][from / 16][at] = (from % 16) as u8;
                    at += 1;
                }
                first += 1;
            }
            table
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::noise;

    #[test]
    fn every_selection_of_bands_writes_its_own_samples_and_no_others() {
        for width in [1, 2, 4, 8, 16] {
            for (from_stride, to_stride) in (1..=9).flat_map(|from| (1..=9).map(move |to| (from, to))) {
                for pixels in [0, 1, 15, 16, 17, 64, 67] {
                    let src = noise(width * from_stride * pixels);
                    let (from, to) = (Every::nth(from_stride / 2, from_stride), Every::nth(to_stride - 1, to_stride));
                    let before = noise(width * to_stride * pixels + 3);
                    let mut model = before.clone();
                    for pixel in 0..pixels {
                        let (a, b) = (pixel * from_stride + from.first, pixel * to_stride + to.first);
                        model[b * width..][..width].copy_from_slice(&src[a * width..][..width]);
                    }
                    let mut dst = before;
                    copy(width, &src, from, &mut dst, to);
                    assert!(dst == model, "width {width} {from:?} {to:?} pixels {pixels}");
                }
            }
        }
    }

    #[test]
    fn split_is_one_copy_per_band() {
        for width in [1, 2, 4, 8, 16] {
            for bands in 1..=6 {
                for pixels in [0, 1, 15, 16, 17, 33, 100] {
                    let src = noise(width * bands * pixels);
                    let mut model = vec![vec![0; width * pixels]; bands];
                    for (n, band) in model.iter_mut().enumerate() {
                        copy(width, &src, Every::nth(n, bands), band, Every::SAMPLE);
                    }
                    let mut split_bands = vec![vec![0; width * pixels]; bands];
                    let mut slices: Vec<&mut [u8]> = split_bands.iter_mut().map(Vec::as_mut_slice).collect();
                    split(width, &src, &mut slices);
                    assert!(split_bands == model, "width {width}, {bands} bands, {pixels} pixels");
                }
            }
        }
    }

    #[test]
    fn the_shorter_side_decides_how_many_pixels_are_copied() {
        let mut dst = [0; 4];
        copy(1, &[1, 2, 3, 4, 5, 6, 7], Every::nth(1, 3), &mut dst, Every::SAMPLE);
        assert_eq!(dst, [2, 5, 0, 0]);
        let mut dst = [0; 2];
        copy(1, &[1, 2, 3, 4, 5, 6, 7, 8, 9], Every::nth(2, 3), &mut dst, Every::SAMPLE);
        assert_eq!(dst, [3, 6]);
    }

    #[test]
    fn selection_outside_the_pixel_copies_nothing() {
        let mut dst = [0; 4];
        for choice in [Every::nth(3, 3), Every::nth(0, 0)] {
            copy(1, &[1; 12], choice, &mut dst, Every::SAMPLE);
            copy(1, &[1; 12], Every::SAMPLE, &mut dst, choice);
        }
        copy(5, &[1; 20], Every::SAMPLE, &mut dst, Every::SAMPLE);
        assert_eq!(dst, [0; 4]);
    }
}
