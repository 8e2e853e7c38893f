//! Computes the rows of an overview from those of the level it is made from, and the statistics of rows.

use std::ops::Range;

use swath_codec::DType;
use swath_codec::place::{Every, copy};

use crate::write::plan::WritePlan;
use crate::write::reduce::{Plane, ReduceScratch};
use crate::write::rows::RowsView;
use crate::write::statistics::Partial;

/// Working memory of one thread.
#[derive(Default)]
pub(crate) struct PyramidScratch {
    reduce: ReduceScratch,
    plane: Vec<u8>,
    alpha: Vec<u8>,
    out: Vec<u8>,
}

/// Computes rows `rows` of a level from `view`, which holds rows of the level it is made from.
pub(crate) fn reduce(
    plan: &WritePlan,
    level: usize,
    view: &RowsView<'_>,
    rows: Range<u64>,
    out: &mut [u8],
    mask: Option<&mut [u8]>,
    scratch: &mut PyramidScratch,
) {
    let planned = &plan.levels[level];
    let Some(reduction) = &planned.reduction else { return };
    let parent = &plan.levels[planned.parent].grid;
    let (width, size, bands) = (parent.width as usize, plan.dtype.size(), plan.bands);
    let source = reduction.source_rows(rows.clone(), parent.height);
    let samples = view.samples(source.clone());
    let (first, height) = (source.start, parent.height);
    fn plane(samples: &[u8], first: u64, width: usize, height: u64) -> Plane<'_> {
        Plane { samples, first, width, height }
    }
    let valid = view.mask(source.clone());
    if bands == 1 {
        reduction.reduce(
            plane(samples, first, width, height),
            valid.map(|valid| plane(valid, first, width, height)),
            rows.clone(),
            out,
            &mut scratch.reduce,
        );
    } else {
        let PyramidScratch { reduce, plane: band_plane, alpha, out: band_out } = scratch;
        let pixels = samples.len() / (size * bands);
        band_plane.resize(pixels * size, 0);
        band_out.resize(out.len() / bands, 0);
        // Where the alpha band is 0, the colours are not valid.
        let transparent = plan.alpha.map(|band| {
            copy(size, samples, Every::nth(band, bands), band_plane, Every::SAMPLE);
            alpha.clear();
            alpha
                .extend(band_plane.chunks_exact(size).map(|value| u8::from(value.iter().any(|&byte| byte != 0)) * 255));
            &alpha[..]
        });
        for band in 0..bands {
            copy(size, samples, Every::nth(band, bands), band_plane, Every::SAMPLE);
            let valid = if plan.alpha == Some(band) { None } else { valid.or(transparent) };
            reduction.reduce(
                plane(band_plane, first, width, height),
                valid.map(|valid| plane(valid, first, width, height)),
                rows.clone(),
                band_out,
                reduce,
            );
            copy(size, band_out, Every::SAMPLE, out, Every::nth(band, bands));
        }
    }
    clamp_to_bits(plan.dtype, plan.bits, out);
    if let (Some(valid), Some(out)) = (valid, mask) {
        reduction.reduce_mask(plane(valid, first, width, height), rows, out);
    }
}

/// Limits values to the bits that they are stored in, if their type has more: cubic resampling overshoots.
fn clamp_to_bits(dtype: DType, bits: u16, samples: &mut [u8]) {
    if usize::from(bits) >= dtype.size() * 8 {
        return;
    }
    let most = (1_u64 << bits) - 1;
    macro_rules! clamp {
        ($type:ty) => {
            for sample in samples.as_chunks_mut().0 {
                *sample = <$type>::from_ne_bytes(*sample).min(most as $type).to_ne_bytes();
            }
        };
    }
    match dtype {
        DType::U8 => clamp!(u8),
        DType::U16 => clamp!(u16),
        DType::U32 => clamp!(u32),
        DType::U64 => clamp!(u64),
        // Other types are always stored in all of their bits.
        _ => {}
    }
}

/// The statistics of each row, for each band.
pub(crate) fn measure(
    plan: &WritePlan,
    view: &RowsView<'_>,
    rows: Range<u64>,
    scratch: &mut PyramidScratch,
) -> Vec<Vec<Partial>> {
    let size = plan.dtype.size();
    rows.map(|row| {
        let (samples, mask) = (view.samples(row..row + 1), view.mask(row..row + 1));
        let band = |band: usize| {
            if plan.bands == 1 {
                return Partial::of_row(samples, plan.dtype, plan.nodata, mask);
            }
            scratch.plane.resize(samples.len() / plan.bands, 0);
            copy(size, samples, Every::nth(band, plan.bands), &mut scratch.plane, Every::SAMPLE);
            Partial::of_row(&scratch.plane, plan.dtype, plan.nodata, mask)
        };
        (0..plan.bands).map(band).collect()
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overshoot_stays_within_the_bits_of_a_sample() {
        let mut samples = [1023_u16, 1024, 7].map(u16::to_ne_bytes).concat();
        clamp_to_bits(DType::U16, 10, &mut samples);
        assert_eq!(samples, [1023_u16, 1023, 7].map(u16::to_ne_bytes).concat());
        clamp_to_bits(DType::U16, 16, &mut samples);
        assert_eq!(samples, [1023_u16, 1023, 7].map(u16::to_ne_bytes).concat());
    }
}
