//! PNG pictures for people: 8 bits, contrast stretched, nodata transparent, palette applied.

use std::io::{self, Write};
use std::path::Path;

use swath::{Image, Layout, Pixels, ReadReport, ReadRequest};

use crate::failure::Failure;
use crate::read::write_file;

/// Reads the request and writes it as a picture.
pub(crate) fn write(
    out: &Path,
    overwrite: bool,
    image: &Image,
    request: ReadRequest<'_>,
) -> Result<ReadReport, Failure> {
    let bands = request.chosen_bands().map_or_else(|| default_bands(image), <[usize]>::to_vec);
    check_channels(image, &bands)?;
    let request = request.bands(bands.clone()).layout(Layout::BandsFirst);
    let raster = image.read(&request)?;
    let mask = image.read_mask(&request)?;
    let (width, height) = (mask.width, mask.height);
    let count = width * height;
    // 64-bit samples of one band, the planes, the interleaved samples, and the copies of the encoder.
    check_memory(count.saturating_mul(8 + 4 * (bands.len() + 1)))?;

    let palette = image.metadata().palette.as_ref().filter(|_| bands.len() == 1);
    let planes: Vec<Vec<u8>> = match palette {
        Some(palette) => {
            let indices = raster.pixels.to_f64(0..count);
            let channel = |c: usize| {
                let color = |&index: &f64| palette.entries.get(index as usize).map_or(0, |entry| entry[c]);
                indices.iter().map(color).collect()
            };
            (0..4).map(channel).collect()
        }
        None => (0..bands.len())
            .map(|band| {
                let range = band * count..(band + 1) * count;
                stretch(&raster.pixels, range, &mask.values, is_alpha(image, bands[band]))
            })
            .collect(),
    };
    // If the bands have no alpha and some pixels are invalid, the mask becomes the alpha channel.
    let transparent = planes.len() % 2 == 1 && mask.values.contains(&0);
    let channels: Vec<&[u8]> =
        planes.iter().map(Vec::as_slice).chain(transparent.then_some(mask.values.as_slice())).collect();
    let samples: Vec<u8> = (0..count).flat_map(|at| channels.iter().map(move |channel| channel[at])).collect();
    write_file(out, overwrite, |writer| png(writer, width, height, channels.len(), &samples))?;
    Ok(raster.report)
}

/// Checks that the system has the memory for a picture: the encoder ends the process if it does not get its memory.
fn check_memory(bytes: usize) -> Result<(), Failure> {
    let what = "the pixels of the picture";
    let failed = |_| swath::Error::OutOfMemory { bytes: bytes as u64, what };
    Ok(Vec::<u8>::new().try_reserve_exact(bytes).map_err(failed)?)
}

/// Writes one band of bytes unchanged.
pub(crate) fn write_gray(out: &mut dyn Write, pixels: &Pixels, width: usize, height: usize) -> io::Result<()> {
    Vec::<u8>::new().try_reserve_exact(pixels.as_bytes().len().saturating_mul(3)).map_err(io::Error::from)?;
    png(out, width, height, 1, pixels.as_bytes())
}

/// The bands to show: red, green and blue if the image declares them, else the first band; and alpha if there is one.
fn default_bands(image: &Image) -> Vec<usize> {
    let is_rgb = image.metadata().bands.first().is_some_and(|band| band.color == "red");
    let colors = if is_rgb && image.bands() >= 3 { 3 } else { 1 };
    let mut bands: Vec<usize> = (0..colors).collect();
    bands.extend(image.metadata().alpha_band().filter(|&band| band >= colors));
    bands
}

/// Checks that PNG has a color type for these bands: gray or RGB, each with or without alpha (PNG 1.2, section 4.1.1).
fn check_channels(image: &Image, bands: &[usize]) -> Result<(), Failure> {
    let reason = match *bands {
        [_] | [_, _, _] => return Ok(()),
        // A band that does not exist is reported by the read.
        [_, last] | [_, _, _, last] if is_alpha(image, last) || last >= image.bands() => return Ok(()),
        [_, last] | [_, _, _, last] => format!(" of which the last, band {}, is not alpha", last + 1),
        _ => String::new(),
    };
    Err(Failure::Usage(format!(
        "a PNG cannot hold {} bands{reason}; choose 1 or 3 bands with --bands, or write a .npy file, or a .tif file with \
         'swath convert'",
        bands.len()
    )))
}

fn is_alpha(image: &Image, band: usize) -> bool {
    image.metadata().bands.get(band).is_some_and(|band| band.color == "alpha")
}

/// Converts one band to bytes. Bytes stay unchanged; other samples are stretched from the 2nd to the 98th percentile.
fn stretch(pixels: &Pixels, range: std::ops::Range<usize>, mask: &[u8], alpha: bool) -> Vec<u8> {
    if let Pixels::U8(samples) = pixels {
        let samples = &samples[range];
        // Samples of one or a few bits would look black, so they are scaled to their largest value.
        let top = samples.iter().copied().max().unwrap_or(0);
        let scale = |&sample: &u8| {
            if top < 16 && top > 0 && !alpha { (u16::from(sample) * 255 / u16::from(top)) as u8 } else { sample }
        };
        return samples.iter().map(scale).collect();
    }
    let values = pixels.to_f64(range);
    let step = (values.len() / 200_000).max(1);
    let valid = |(value, valid): (&f64, &u8)| (*valid != 0 && value.is_finite()).then_some(*value);
    let mut sample: Vec<f64> = values.iter().zip(mask).step_by(step).filter_map(valid).collect();
    sample.sort_by(f64::total_cmp);
    let at = |part: f64| sample.get(((sample.len().saturating_sub(1)) as f64 * part) as usize).copied().unwrap_or(0.0);
    let (low, high) = if alpha { (0.0, at(1.0)) } else { (at(0.02), at(0.98)) };
    let scale = if high > low { 255.0 / (high - low) } else { 0.0 };
    // Casts to u8 saturate, and NaN becomes 0.
    values.iter().map(|value| ((value - low) * scale).round() as u8).collect()
}

/// Writes a PNG of 8-bit channels that are interleaved by pixel.
fn png(out: &mut dyn Write, width: usize, height: usize, channels: usize, samples: &[u8]) -> io::Result<()> {
    use png::ColorType::{Grayscale, GrayscaleAlpha, Rgb, Rgba};
    let side = |pixels: usize| u32::try_from(pixels).map_err(io::Error::other);
    let mut encoder = png::Encoder::new(out, side(width)?, side(height)?);
    encoder.set_color([Grayscale, GrayscaleAlpha, Rgb, Rgba][channels - 1]);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(samples)?;
    Ok(writer.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretch_keeps_bytes_and_spreads_everything_else() {
        let bytes = Pixels::U8(vec![0, 100, 255]);
        assert_eq!(stretch(&bytes, 0..3, &[255; 3], false), [0, 100, 255]);
        let wide = Pixels::F32((0..101).map(|i| i as f32).collect());
        let out = stretch(&wide, 0..101, &[255; 101], false);
        assert_eq!((out[0], out[2], out[50], out[98], out[100]), (0, 0, 128, 255, 255));
    }

    #[test]
    fn nodata_does_not_take_part_in_the_stretch() {
        let wide = Pixels::F32(vec![-9999.0, 1.0, 2.0, 3.0, f32::NAN]);
        let out = stretch(&wide, 0..5, &[0, 255, 255, 255, 0], false);
        assert_eq!((out[0], out[1], out[4]), (0, 0, 0));
        assert!(out[3] > 128);
    }
}
