//! Writes rows of pixels from the planes into the block.

use crate::jpeg::Colour;
use crate::jpeg::header::Frame;
use crate::jpeg::scan::Plane;
use crate::jpeg::upsample::{Upsampler, rgb};
use crate::{Result, Shape};

/// The rows of the block that are not written yet.
pub(super) struct Output<'a> {
    rest: &'a mut [u8],
    /// The next row, and the end of the rows that both the block and the frame have.
    y: usize,
    end: usize,
    upsamplers: Vec<Upsampler>,
    colour: Colour,
    /// The width of the frame.
    width: usize,
    precision: u32,
    shape: Shape,
}

impl<'a> Output<'a> {
    pub(super) fn new(frame: &Frame, shape: Shape, colour: Colour, dst: &'a mut [u8]) -> Result<Output<'a>> {
        let smooth = !matches!(colour, Colour::Tiff(_));
        let mut upsamplers = Vec::with_capacity(frame.components.len());
        for component in &frame.components {
            upsamplers.push(Upsampler::new(frame, component, smooth)?);
        }
        let end = frame.height.min(shape.height);
        let (width, precision) = (frame.width, frame.precision);
        Ok(Output { rest: dst, y: 0, end, upsamplers, colour, width, precision, shape })
    }

    /// Writes the rows before row `end` that are not written yet.
    #[inline(always)]
    pub(super) fn write(&mut self, planes: &[Plane], end: usize) {
        let width = self.width;
        let row_bytes = self.shape.row_bytes();
        let used = width * planes.len() * (self.shape.bits / 8);
        while self.y < end.min(self.end) {
            let (row, rest) = std::mem::take(&mut self.rest).split_at_mut(row_bytes);
            let (out, beyond) = row.split_at_mut(used);
            match (&mut self.upsamplers[..], planes, &self.colour) {
                ([luma, blue, red], [plane0, plane1, plane2], Colour::Jfif | Colour::Tiff(_)) => {
                    let luma = &luma.row(plane0, self.y)[..width];
                    let blue = &blue.row(plane1, self.y)[..width];
                    let red = &red.row(plane2, self.y)[..width];
                    match &self.colour {
                        Colour::Tiff(tables) if self.precision == 8 => {
                            let pixels = luma.iter().zip(blue).zip(red);
                            for (out, ((&y, &cb), &cr)) in out.as_chunks_mut::<3>().0.iter_mut().zip(pixels) {
                                *out = tables.rgb([y as u8, cb as u8, cr as u8]);
                            }
                        }
                        _ => write_rgb(luma, blue, red, self.precision, out),
                    }
                }
                (upsamplers, planes, _) => {
                    let count = planes.len();
                    for (n, (upsampler, plane)) in upsamplers.iter_mut().zip(planes).enumerate() {
                        interleave(&upsampler.row(plane, self.y)[..width], out, n, count, self.shape.bits);
                    }
                }
            }
            beyond.fill(0);
            self.rest = rest;
            self.y += 1;
        }
    }

    /// Writes the remaining rows, and zeros where the block extends past the frame.
    #[inline(always)]
    pub(super) fn finish(mut self, planes: &[Plane]) {
        self.write(planes, self.end);
        self.rest.fill(0);
    }
}

/// Converts one row of YCbCr.
#[inline(always)]
fn write_rgb(luma: &[u16], blue: &[u16], red: &[u16], precision: u32, out: &mut [u8]) {
    let pixels = luma.iter().zip(blue).zip(red);
    if precision == 8 {
        for (out, ((&y, &cb), &cr)) in out.as_chunks_mut::<3>().0.iter_mut().zip(pixels) {
            *out = rgb(y, cb, cr, 8).map(|value| value as u8);
        }
    } else {
        for (out, ((&y, &cb), &cr)) in out.as_chunks_mut::<6>().0.iter_mut().zip(pixels) {
            let [r, g, b] = rgb(y, cb, cr, precision).map(|value| (value as u16).to_ne_bytes());
            *out = [r[0], r[1], g[0], g[1], b[0], b[1]];
        }
    }
}

/// Writes one component of a row to its positions among `count` interleaved components.
#[inline(always)]
fn interleave(row: &[u16], out: &mut [u8], n: usize, count: usize, bits: usize) {
    if bits == 8 && count == 1 {
        out.iter_mut().zip(row).for_each(|(out, &sample)| *out = sample as u8);
    } else if bits == 8 {
        out.iter_mut().skip(n).step_by(count).zip(row).for_each(|(out, &sample)| *out = sample as u8);
    } else {
        let samples = out.as_chunks_mut::<2>().0;
        samples.iter_mut().skip(n).step_by(count).zip(row).for_each(|(out, &sample)| *out = sample.to_ne_bytes());
    }
}
