//! Writes JPEG 2000 codestreams with `openjp2`, the translation of OpenJPEG to Rust.

use std::ffi::c_void;

use openjp2::openjpeg::{
    OPJ_CLRSPC_UNSPECIFIED, OPJ_CODEC_J2K, opj_cparameters_t, opj_stream_set_user_data, opj_stream_set_write_function,
    opj_stream_t,
};
use openjp2::{Codec, Stream, opj_image, opj_image_comptparm};

use super::{CODEC, EncodeParams, Quality};
use crate::{Error, Result, SampleFormat, Shape, contain};

/// Appends the codestream of one block of native interleaved samples to `out`, without the boxes of a JP2 file,
/// as TIFF requires.
///
/// # Errors
/// Returns an error if the samples are not integers of 8 or 16 bits, or if the parameters or the length of
/// `src` are wrong.
pub fn encode(params: &EncodeParams, src: &[u8], shape: Shape, out: &mut Vec<u8>) -> Result<()> {
    let unsuited = |what| Err(Error::Unsuited { codec: CODEC, what });
    if !matches!(shape.format, SampleFormat::Uint | SampleFormat::Int) || !matches!(shape.bits, 8 | 16) {
        return unsuited("samples of this width and format");
    }
    if src.len() != shape.len() {
        return unsuited("a buffer of another size than the block");
    }
    if !(1..=MAX_SAMPLES).contains(&(shape.width * shape.height)) || !(1..=MAX_COMPONENTS).contains(&shape.samples) {
        return unsuited("a block of this size");
    }
    match params.quality {
        Quality::Percent(percent) if !(percent > 0.0 && percent <= 100.0) => {
            return unsuited("a size outside 0 to 100 percent");
        }
        Quality::Psnr(decibels) if !(decibels > 0.0 && decibels.is_finite()) => {
            return unsuited("a signal-to-noise ratio that is not positive and finite");
        }
        _ => {}
    }
    let start = out.len();
    if !contain::encoding(CODEC, || Ok(write(params, src, shape, out))).inspect_err(|_| out.truncate(start))? {
        out.truncate(start);
        return unsuited("this block, because OpenJPEG refuses it");
    }
    Ok(())
}

/// The largest number of samples: OpenJPEG counts four bytes per sample in 32 bits.
const MAX_SAMPLES: usize = 1 << 28;

/// The largest number of components of a codestream.
const MAX_COMPONENTS: usize = 16384;

/// The largest number of resolutions; each halves the previous one. More do not reduce the size.
const MAX_RESOLUTIONS: u32 = 6;

/// Returns whether all calls succeeded.
fn write(params: &EncodeParams, src: &[u8], shape: Shape, out: &mut Vec<u8>) -> bool {
    let Some(mut image) = image(src, shape) else { return false };
    let Some(mut codec) = Codec::new_encoder(OPJ_CODEC_J2K) else { return false };
    let mut settings = settings(params, shape);
    if codec.setup_encoder(&mut settings, &mut image) == 0 {
        return false;
    }
    let mut stream = Stream::new_custom(1 << 16, false);
    let handle = (&raw mut stream).cast::<opj_stream_t>();
    // SAFETY: `handle` points to a stream, as these functions require, and the two pointer types are the same
    // in C. The stream writes to `out` only in the calls below and when it is dropped, which happens before
    // this function returns. `out` is borrowed for longer, and nothing else accesses it in between.
    unsafe {
        opj_stream_set_write_function(handle, Some(append));
        opj_stream_set_user_data(handle, (&raw mut *out).cast::<c_void>(), None);
    }
    codec.start_compress(&mut image, &mut stream) != 0
        && codec.encode(&mut stream) != 0
        && codec.end_compress(&mut stream) != 0
        && stream.flush().is_ok()
}

/// Appends `length` bytes of the stream to the output.
///
/// # Safety
/// `data` points to that many bytes, and `out` to a `Vec<u8>` that nothing else uses during the call.
unsafe extern "C" fn append(data: *mut c_void, length: usize, out: *mut c_void) -> usize {
    // SAFETY: the caller guarantees both.
    let (out, data) = unsafe { (&mut *out.cast::<Vec<u8>>(), std::slice::from_raw_parts(data.cast::<u8>(), length)) };
    out.extend_from_slice(data);
    length
}

fn settings(params: &EncodeParams, shape: Shape) -> opj_cparameters_t {
    let mut settings = opj_cparameters_t {
        tcp_numlayers: 1,
        // An image of one pixel cannot be halved.
        numresolution: MAX_RESOLUTIONS.min(shape.width.min(shape.height).max(1).ilog2() + 1) as i32,
        tcp_mct: (params.rgb && shape.samples >= 3).into(),
        ..opj_cparameters_t::default()
    };
    match params.quality {
        Quality::Lossless => settings.cp_disto_alloc = 1,
        Quality::Percent(percent) => {
            settings.irreversible = 1;
            settings.cp_disto_alloc = 1;
            settings.tcp_rates[0] = 100.0 / percent;
        }
        Quality::Psnr(decibels) => {
            settings.irreversible = 1;
            settings.cp_fixed_quality = 1;
            settings.tcp_distoratio[0] = decibels;
        }
    }
    settings
}

/// Returns the samples of each band separately, or `None` if there is no memory.
fn image(src: &[u8], shape: Shape) -> Option<Box<opj_image>> {
    let (w, h) = (shape.width as u32, shape.height as u32);
    let signed = shape.format == SampleFormat::Int;
    let component =
        opj_image_comptparm { dx: 1, dy: 1, w, h, prec: shape.bits as u32, sgnd: signed.into(), ..Default::default() };
    let mut image = opj_image::create(&vec![component; shape.samples], OPJ_CLRSPC_UNSPECIFIED)?;
    (image.x1, image.y1) = (w, h);
    for (n, component) in image.comps_mut()?.iter_mut().enumerate() {
        let plane = component.data_mut()?;
        match (shape.bits, signed) {
            (8, false) => fill(plane, src, n, shape.samples, |[v]| v.into()),
            (8, true) => fill(plane, src, n, shape.samples, |v| i8::from_ne_bytes(v).into()),
            (_, false) => fill(plane, src, n, shape.samples, |v| u16::from_ne_bytes(v).into()),
            (_, true) => fill(plane, src, n, shape.samples, |v| i16::from_ne_bytes(v).into()),
        }
    }
    Some(image)
}

fn fill<const N: usize>(plane: &mut [i32], src: &[u8], n: usize, samples: usize, value: impl Fn([u8; N]) -> i32) {
    for (out, sample) in plane.iter_mut().zip(src.as_chunks::<N>().0.iter().skip(n).step_by(samples)) {
        *out = value(*sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jpeg2000::{Colour, decode};
    use crate::noise::noise;

    const LOSSLESS: EncodeParams = EncodeParams { quality: Quality::Lossless, rgb: false };

    fn encoded(params: EncodeParams, src: &[u8], shape: Shape) -> Vec<u8> {
        let mut out = vec![7];
        encode(&params, src, shape, &mut out).expect("suited");
        out.split_off(1)
    }

    fn decoded(stream: &[u8], shape: Shape) -> Vec<u8> {
        let mut dst = vec![0xaa; shape.len()];
        decode(stream, shape, Colour::Stored, &mut dst).expect("the codestream decodes");
        dst
    }

    /// Returns a red, a green and a blue wave that resemble each other.
    fn waves(shape: Shape) -> Vec<u8> {
        (0..shape.width * shape.height * shape.samples)
            .map(|i| {
                let (x, y) = (i / shape.samples % shape.width, i / shape.samples / shape.width);
                ((x as f32 / 9.0).sin() * (y as f32 / 13.0).cos() * 90.0 + 128.0) as u8 + (i % shape.samples) as u8 * 9
            })
            .collect()
    }

    fn psnr(a: &[u8], b: &[u8]) -> f64 {
        let square = |(a, b): (&u8, &u8)| f64::from(a.abs_diff(*b)).powi(2);
        10.0 * (255.0 * 255.0 * a.len() as f64 / a.iter().zip(b).map(square).sum::<f64>()).log10()
    }

    const RGB: Shape = Shape { width: 200, height: 150, samples: 3, bits: 8, format: SampleFormat::Uint };

    #[test]
    fn lossless_is_lossless_for_every_type_and_number_of_bands_down_to_one_pixel() {
        for (bits, format) in [8, 16].into_iter().flat_map(|b| [(b, SampleFormat::Uint), (b, SampleFormat::Int)]) {
            for (width, height) in [(1, 1), (2, 1), (3, 5), (1, 40), (37, 53), (64, 64), (130, 65)] {
                for samples in [1, 2, 3, 4, 7] {
                    let shape = Shape { width, height, samples, bits, format };
                    for src in [noise(shape.len()), vec![0xff; shape.len()], vec![0x80; shape.len()]] {
                        for rgb in [false, true] {
                            let stream = encoded(EncodeParams { rgb, ..LOSSLESS }, &src, shape);
                            assert!(decoded(&stream, shape) == src, "{shape:?}, rgb {rgb}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn stream_has_no_boxes_and_is_the_same_every_time() {
        let src = waves(RGB);
        let stream = encoded(LOSSLESS, &src, RGB);
        assert!(stream.starts_with(&[0xff, 0x4f, 0xff, 0x51]) && stream.ends_with(&[0xff, 0xd9]));
        assert!(stream == encoded(LOSSLESS, &src, RGB));
    }

    #[test]
    fn differences_of_colours_are_smaller_than_colours() {
        let src = waves(RGB);
        let (alone, together) =
            (encoded(LOSSLESS, &src, RGB), encoded(EncodeParams { rgb: true, ..LOSSLESS }, &src, RGB));
        assert!(together.len() * 3 < alone.len() * 2, "{} and {}", together.len(), alone.len());
    }

    #[test]
    fn percent_sets_the_size_and_decibels_set_the_noise() {
        let mut src = waves(RGB);
        src.iter_mut().zip(noise(RGB.len())).for_each(|(v, noise)| *v = v.wrapping_add(noise >> 4));
        for percent in [3.0, 10.0, 25.0] {
            let length = encoded(EncodeParams { quality: Quality::Percent(percent), rgb: true }, &src, RGB).len();
            let want = src.len() as f64 * f64::from(percent) / 100.0;
            assert!((0.9..1.01).contains(&(length as f64 / want)), "{length} bytes of {want}");
        }
        for (decibels, rgb) in [(30.0, true), (35.0, false), (40.0, false), (45.0, false)] {
            let stream = encoded(EncodeParams { quality: Quality::Psnr(decibels), rgb }, &src, RGB);
            let got = psnr(&decoded(&stream, RGB), &src);
            assert!((got - f64::from(decibels)).abs() < 2.5, "{got} dB, {decibels} dB requested");
        }
    }

    #[test]
    fn tiny_blocks_with_loss_are_valid() {
        for (width, height) in [(1, 1), (3, 5), (16, 2)] {
            let shape = Shape { width, height, ..RGB };
            for quality in [Quality::Percent(1.0), Quality::Percent(100.0), Quality::Psnr(40.0)] {
                decoded(&encoded(EncodeParams { quality, rgb: true }, &waves(shape), shape), shape);
            }
        }
    }

    #[test]
    fn unsupported_blocks_are_refused() {
        let refused = |quality, src: &[u8], shape| {
            let mut out = vec![1];
            let result = encode(&EncodeParams { quality, rgb: false }, src, shape, &mut out);
            assert!(matches!(result, Err(Error::Unsuited { .. })), "{result:?}");
            assert_eq!(out, [1]);
        };
        for (bits, format) in [(32, SampleFormat::Uint), (12, SampleFormat::Uint), (16, SampleFormat::Float)] {
            let shape = Shape { bits, format, ..RGB };
            refused(Quality::Lossless, &vec![0; shape.len()], shape);
        }
        refused(Quality::Lossless, &[0; 10], RGB);
        refused(Quality::Lossless, &[], Shape { height: 0, ..RGB });
        refused(Quality::Lossless, &[], Shape { samples: 0, ..RGB });
        let src = waves(RGB);
        for bad in [0.0, -1.0, 101.0, f32::NAN] {
            refused(Quality::Percent(bad), &src, RGB);
        }
        for bad in [0.0, -1.0, f32::INFINITY, f32::NAN] {
            refused(Quality::Psnr(bad), &src, RGB);
        }
    }
}
