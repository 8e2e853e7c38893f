//! The true pixels, which numpy stored as (height, width, bands).

use std::fs;

use crate::Error;

pub(crate) struct Truth {
    pixels: Vec<u8>,
    width: usize,
    /// Bytes of all bands of a pixel.
    stride: usize,
    is_float: bool,
    is_u8: bool,
}

impl Truth {
    /// Reads a file in version 1 of numpy's format.
    pub(crate) fn load(path: &str) -> Result<Self, Error> {
        let mut pixels = fs::read(path)?;
        let data_at = 10 + usize::from(u16::from_le_bytes([pixels[8], pixels[9]]));
        let header = String::from_utf8(pixels[10..data_at].to_vec())?;
        let shape = header.split(['(', ')']).nth(1).ok_or("no shape")?;
        let shape = shape.split(',').map(|n| n.trim().parse()).collect::<Result<Vec<usize>, _>>()?;
        pixels.drain(..data_at);
        let stride = pixels.len() / (shape[0] * shape[1]);
        let (is_float, is_u8) = (header.contains("<f4"), header.contains("|u1"));
        Ok(Self { pixels, width: shape[1], stride, is_float, is_u8 })
    }

    /// Compares a window, or the whole image, with the truth. The mean difference may be 1.1 x that of a lossy codec.
    pub(crate) fn compare(&self, window: Option<[usize; 4]>, found: &[u8], allowed: f64) -> Result<(), Error> {
        let height = self.pixels.len() / (self.width * self.stride);
        let [row, col, row_stop, col_stop] = window.unwrap_or([0, 0, height, self.width]);
        let length = (col_stop - col) * self.stride;
        if found.len() != length * (row_stop - row) {
            return Err(format!("{} bytes instead of the window", found.len()).into());
        }
        let mut difference = 0.0;
        for (found, row) in found.chunks_exact(length).zip(row..row_stop) {
            let at = (row * self.width + col) * self.stride;
            let expected = &self.pixels[at..at + length];
            if found != expected {
                difference += self.difference(found, expected).ok_or("pixels differ")?;
            }
        }
        let samples = found.len() / if self.is_float { 4 } else { 1 };
        let mean = difference / samples as f64;
        if mean > 1.1 * allowed { Err(format!("pixels are off by {mean:.3} on average").into()) } else { Ok(()) }
    }

    /// The sum of the differences; none for types that no lossy file of the benchmark has.
    fn difference(&self, found: &[u8], expected: &[u8]) -> Option<f64> {
        let floats = |bytes: &[u8]| {
            bytes.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect()
        };
        if self.is_float {
            let (found, expected): (Vec<f64>, Vec<f64>) = (floats(found), floats(expected));
            return Some(found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).sum());
        }
        self.is_u8.then(|| found.iter().zip(expected).map(|(a, b)| f64::from(a.abs_diff(*b))).sum())
    }
}
