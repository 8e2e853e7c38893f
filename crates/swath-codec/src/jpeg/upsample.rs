//! Converts planes to pixels: enlarges chroma to full size, converts YCbCr to RGB, and interleaves samples.
//!
//! The weights and their rounding are those of libjpeg ("fancy upsampling", 16-bit fixed-point colour), because
//! GDAL returns these pixels.

use crate::Result;
use crate::jpeg::CODEC;
use crate::jpeg::header::{Component, Frame};
use crate::jpeg::scan::Plane;

/// The method that enlarges a component to the size of the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stretch {
    /// The component already has the size of the frame.
    None,
    /// Twice as wide: 3/4 of the nearer sample, 1/4 of the farther.
    Wide,
    /// Twice as high, with the same weights.
    High,
    /// Twice as wide and twice as high.
    Both,
    /// Repeats samples, for every other ratio.
    Repeat { h: usize, v: usize },
}

impl Stretch {
    fn of(frame: &Frame, component: &Component, smooth: bool) -> Result<Stretch> {
        if !frame.h_max.is_multiple_of(component.h) || !frame.v_max.is_multiple_of(component.v) {
            return Err(crate::Error::Unsuited { codec: CODEC, what: "fractional subsampling" });
        }
        // Components of one or two columns are too narrow for the weights, so their samples are repeated.
        Ok(match (frame.h_max / component.h, frame.v_max / component.v) {
            (1, 1) => Stretch::None,
            (2, 1) if smooth && component.width > 2 => Stretch::Wide,
            (1, 2) if smooth => Stretch::High,
            (2, 2) if smooth && component.width > 2 => Stretch::Both,
            (h, v) => Stretch::Repeat { h, v },
        })
    }
}

/// Enlarges the rows of one component to full width.
pub(super) struct Upsampler {
    stretch: Stretch,
    /// The size of the component.
    width: usize,
    height: usize,
    /// The current row at full width.
    row: Vec<u16>,
    /// Weighted sums of two rows.
    sums: Vec<u16>,
}

impl Upsampler {
    /// With `smooth`, chroma is interpolated. Without it, samples are repeated, as TIFF 6.0 defines for YCbCr.
    pub(super) fn new(frame: &Frame, component: &Component, smooth: bool) -> Result<Upsampler> {
        let stretch = Stretch::of(frame, component, smooth)?;
        let full = if stretch == Stretch::None { 0 } else { component.width * (frame.h_max / component.h) };
        let sums = if stretch == Stretch::Both { component.width } else { 0 };
        let (row, sums) = (vec![0; full], vec![0; sums]);
        Ok(Upsampler { stretch, width: component.width, height: component.height, row, sums })
    }

    /// Returns row `y` of the frame. The row is at least as long as the frame is wide.
    #[inline(always)]
    pub(super) fn row<'a>(&'a mut self, plane: &'a Plane, y: usize) -> &'a [u16] {
        let source = |y: usize| &plane.row(y)[..self.width];
        // The farther row is above an even row and below an odd one. At the edges the row itself is used.
        let far = match y % 2 {
            0 => (y / 2).saturating_sub(1),
            _ => (y / 2 + 1).min(self.height - 1),
        };
        match self.stretch {
            Stretch::None => return plane.row(y),
            Stretch::Wide => widen(source(y), &mut self.row, 0, [1, 2]),
            Stretch::High => {
                let bias = 1 + (y % 2) as u16;
                for ((out, &near), &far) in self.row.iter_mut().zip(source(y / 2)).zip(source(far)) {
                    *out = (3 * near + far + bias) >> 2;
                }
            }
            Stretch::Both => {
                for ((sum, &near), &far) in self.sums.iter_mut().zip(source(y / 2)).zip(source(far)) {
                    *sum = 3 * near + far;
                }
                widen(&self.sums, &mut self.row, 2, [8, 7]);
            }
            Stretch::Repeat { h, v } => {
                for (out, &sample) in self.row.chunks_exact_mut(h).zip(source(y / v)) {
                    out.fill(sample);
                }
            }
        }
        &self.row
    }
}

/// Doubles the number of samples with the weights 3 and 1. The input is `2^scale` too large; `bias` rounds left
/// and right halves in opposite directions. Sums stay below 2^16: 16 times a 12-bit sample.
#[inline(always)]
fn widen(samples: &[u16], out: &mut [u16], scale: u32, bias: [u16; 2]) {
    let count = samples.len();
    let pairs = out.as_chunks_mut::<2>().0;
    let [Some(first), Some(last)] = [samples.first(), samples.last()] else { return };
    for ((pair, window), _) in pairs[1..].iter_mut().zip(samples.windows(3)).zip(1..count - 1) {
        pair[0] = (3 * window[1] + window[0] + bias[0]) >> (scale + 2);
        pair[1] = (3 * window[1] + window[2] + bias[1]) >> (scale + 2);
    }
    // At both ends the sample itself replaces its missing neighbour: 4 times the sample.
    pairs[0] = [(4 * first + bias[0]) >> (scale + 2), (3 * first + samples[1] + bias[1]) >> (scale + 2)];
    let before = samples[count - 2];
    pairs[count - 1] = [(3 * last + before + bias[0]) >> (scale + 2), (4 * last + bias[1]) >> (scale + 2)];
}

/// Converts one YCbCr pixel to RGB (JFIF: full range, BT.601) at `precision` bits.
#[inline(always)]
pub(super) fn rgb(y: u16, cb: u16, cr: u16, precision: u32) -> [i32; 3] {
    let (middle, top) = (1 << (precision - 1), (1 << precision) - 1);
    let (y, cb, cr) = (i32::from(y), i32::from(cb) - middle, i32::from(cr) - middle);
    let half = 1 << 15;
    // 1.402, 0.34414, 0.71414 and 1.772 with 16 fractional bits.
    let red = y + ((91881 * cr + half) >> 16);
    let green = y + ((-22554 * cb - 46802 * cr + half) >> 16);
    let blue = y + ((116130 * cb + half) >> 16);
    [red.clamp(0, top), green.clamp(0, top), blue.clamp(0, top)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widening_keeps_a_flat_row_and_the_ends() {
        let mut out = [0; 8];
        widen(&[200; 4], &mut out, 0, [1, 2]);
        assert_eq!(out, [200; 8]);
        widen(&[0, 100, 200, 255], &mut out, 0, [1, 2]);
        assert_eq!(out, [0, 25, 75, 125, 175, 214, 241, 255]);
        widen(&[16380; 4], &mut out, 2, [8, 7]);
        assert_eq!(out, [4095; 8]);
    }

    #[test]
    fn colours_at_the_corners() {
        assert_eq!(rgb(76, 85, 255, 8), [254, 0, 0]);
        assert_eq!(rgb(255, 128, 128, 8), [255; 3]);
        assert_eq!(rgb(4095, 2048, 2048, 12), [4095; 3]);
        assert_eq!(rgb(0, 0, 0, 8), [0, 135, 0]);
    }
}
