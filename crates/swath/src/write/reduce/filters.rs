//! Bilinear, cubic and Gauss: weighted means that also use pixels outside the block.
//!
//! The weight of a pixel is the product of the weight of its row and the weight of its column. So the rows
//! are first combined into one row, then its columns are combined. The same applies to the weight that
//! remains if pixels are missing.

use std::ops::Range;

use super::cells::clean;
use super::{ReduceScratch, Rows, Rules};
use crate::nodata::is_nodata::Number;

/// The shape of the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kernel {
    Triangle,
    Cubic,
    Binomial,
}

impl Kernel {
    /// Half the width of the kernel in output pixels, for kernels that are scaled by the factor.
    fn radius(self) -> u64 {
        if self == Self::Cubic { 2 } else { 1 }
    }

    /// The kernel for pixels next to missing ones. Its weights are not negative, so that the remaining
    /// weights can be scaled to a sum of one.
    fn beside_holes(self) -> Self {
        if self == Self::Cubic { Self::Triangle } else { self }
    }

    /// Returns the source pixels that can have a weight in an output pixel.
    pub(super) fn reach(self, at: u64, factor: usize, size: u64) -> Range<u64> {
        let factor = factor as u64;
        let start = at * factor;
        let length = factor.min(size - start);
        match self {
            Self::Triangle | Self::Cubic => {
                // The centre is (length - 1) / 2 after the start; the weights at the very ends are 0.
                let reach = self.radius() * factor;
                let first = (2 * start + length).saturating_sub(2 * reach).div_ceil(2);
                first..((2 * start + length - 1 + 2 * reach).div_ceil(2)).min(size)
            }
            Self::Binomial => {
                let side = binomial(factor as usize).len() as u64 / 2;
                let centre = gauss_centre(start, length);
                centre.saturating_sub(side)..(centre + side + 1).min(size)
            }
        }
    }

    /// Returns the weight of a source pixel, before the weights are scaled to a sum of one.
    fn weight(self, at: u64, factor: usize, size: u64, source: u64) -> f64 {
        let start = at * factor as u64;
        let length = (factor as u64).min(size - start);
        // Twice the distance is an integer.
        let distance = || (2 * source).abs_diff(2 * start + length - 1) as f64 / (2 * factor) as f64;
        match self {
            Self::Triangle => (1.0 - distance()).max(0.0),
            Self::Cubic => match distance() {
                x if x < 1.0 => (1.5 * x - 2.5) * x * x + 1.0,
                x if x < 2.0 => ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0,
                _ => 0.0,
            },
            Self::Binomial => {
                let weights = binomial(factor);
                let place = source + weights.len() as u64 / 2 - gauss_centre(start, length);
                weights.get(place as usize).copied().unwrap_or(0.0)
            }
        }
    }

    /// Returns the source pixels that have a weight in an output pixel, with their weights, whose sum is one.
    fn taps(self, at: u64, factor: usize, size: u64, taps: &mut Vec<(u64, f64)>) {
        taps.clear();
        let weighted = self.reach(at, factor, size).map(|source| (source, self.weight(at, factor, size, source)));
        taps.extend(weighted.filter(|(_, weight)| *weight != 0.0));
        let sum: f64 = taps.iter().map(|(_, weight)| weight).sum();
        taps.iter_mut().for_each(|(_, weight)| *weight /= sum);
    }
}

/// GDAL's Gaussian weights.
fn binomial(factor: usize) -> &'static [f64] {
    match factor {
        ..=2 => &[1.0, 2.0, 1.0],
        3 | 4 => &[1.0, 4.0, 6.0, 4.0, 1.0],
        _ => &[1.0, 6.0, 15.0, 20.0, 15.0, 6.0, 1.0],
    }
}

/// As in GDAL, the centre is just after the middle of the block, and never outside the image.
fn gauss_centre(start: u64, length: u64) -> u64 {
    start + length.div_ceil(2).min(length - 1)
}

/// Calls `pixel` for every output pixel of a row, with its position, its taps, and the shift of the taps.
/// Away from the edges all pixels have the same taps.
fn each_pixel(
    kernel: Kernel,
    factor: usize,
    width: usize,
    taps: &mut Vec<(u64, f64)>,
    mut pixel: impl FnMut(usize, &[(u64, f64)], usize),
) {
    let count = width.div_ceil(factor);
    let margin = (kernel.radius() as usize).min(count);
    let inner = margin..(width / factor).saturating_sub(margin).max(margin);
    for at in (0..inner.start).chain(inner.end..count) {
        kernel.taps(at as u64, factor, width as u64, taps);
        pixel(at, taps, 0);
    }
    if !inner.is_empty() {
        kernel.taps(inner.start as u64, factor, width as u64, taps);
        for at in inner.clone() {
            pixel(at, taps, (at - inner.start) * factor);
        }
    }
}

/// Returns the weighted sum over a combined row.
#[inline]
fn weigh(columns: &[f64], taps: &[(u64, f64)], shift: usize) -> f64 {
    taps.iter().map(|&(at, weight)| columns[at as usize + shift] * weight).sum()
}

/// Computes one output row.
pub(super) fn row<T: Number>(
    rules: &Rules<T>,
    kernel: Kernel,
    src: &Rows<'_, T>,
    mask: Option<&Rows<'_, u8>>,
    row: u64,
    out: &mut [T],
    scratch: &mut ReduceScratch,
) {
    let (factor, width) = (rules.factor, src.width);
    let columns = scratch.sums.room::<f64>(width);
    let touched = scratch.holes.room::<u8>(width);
    let cleaned = scratch.cleaned.room::<T>(width);
    let flags = scratch.flags.room::<u8>(width);
    let may_miss = rules.may_miss(mask);
    let mut holes = false;
    columns.fill(0.0);
    kernel.taps(row, factor, src.height, &mut scratch.row_taps);
    for &(at, weight) in &scratch.row_taps {
        let samples = src.row(at);
        let mask = mask.map(|mask| mask.row(at));
        if !may_miss || rules.missing.all_valid(samples, mask) {
            add_weighted(columns, samples, weight);
            continue;
        }
        if !holes {
            holes = true;
            touched.fill(0);
        }
        rules.flags(samples, mask, flags);
        clean(samples, flags, T::ZERO, cleaned);
        add_weighted(columns, cleaned, weight);
        touched.iter_mut().zip(&*flags).for_each(|(touched, flag)| *touched |= 1 - flag);
    }
    let taps = &mut scratch.column_taps;
    each_pixel(kernel, factor, width, taps, |at, taps, shift| out[at] = T::from_f64(weigh(columns, taps, shift)));
    if !holes {
        return rules.keep_valid(out);
    }

    let counts = scratch.counts.room::<u8>(out.len());
    each_pixel(kernel, factor, width, taps, |at, taps, shift| {
        counts[at] = taps.iter().fold(0, |any, &(column, _)| any | touched[column as usize + shift]);
    });
    let kernel = kernel.beside_holes();
    let weights = scratch.weights.room::<f64>(width);
    columns.fill(0.0);
    weights.fill(0.0);
    kernel.taps(row, factor, src.height, &mut scratch.row_taps);
    for &(at, weight) in &scratch.row_taps {
        let samples = src.row(at);
        rules.flags(samples, mask.map(|mask| mask.row(at)), flags);
        clean(samples, flags, T::ZERO, cleaned);
        add_weighted(columns, cleaned, weight);
        add_weighted(weights, flags, weight);
    }
    each_pixel(kernel, factor, width, taps, |at, taps, shift| {
        if counts[at] != 0 {
            // If no weight remains, this is NaN and is replaced below.
            let left = weigh(weights, taps, shift);
            out[at] = T::from_f64(weigh(columns, taps, shift) / left);
            counts[at] = if left == 0.0 { 2 } else { 1 };
        }
    });
    rules.keep_valid(out);
    out.iter_mut().zip(&*counts).filter(|(_, count)| **count == 2).for_each(|(out, _)| *out = rules.fill);
}

fn add_weighted<T: Number>(columns: &mut [f64], samples: &[T], weight: f64) {
    columns.iter_mut().zip(samples).for_each(|(column, &sample)| *column += sample.to_f64() * weight);
}

/// Computes one output row of the mask: valid if any pixel with a weight is.
pub(super) fn mask_row(
    kernel: Kernel,
    factor: usize,
    mask: &Rows<'_, u8>,
    row: u64,
    out: &mut [u8],
    scratch: &mut ReduceScratch,
) {
    let kernel = kernel.beside_holes();
    let any = scratch.flags.room::<u8>(mask.width);
    any.fill(0);
    kernel.taps(row, factor, mask.height, &mut scratch.row_taps);
    for &(at, _) in &scratch.row_taps {
        any.iter_mut().zip(mask.row(at)).for_each(|(any, mask)| *any |= mask);
    }
    each_pixel(kernel, factor, mask.width, &mut scratch.column_taps, |at, taps, shift| {
        let valid = taps.iter().fold(0, |valid, &(column, _)| valid | any[column as usize + shift]);
        out[at] = if valid == 0 { 0 } else { 255 };
    });
}
