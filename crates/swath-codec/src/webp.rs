//! WebP (compression 50001), lossy and lossless, with libwebp.

use crate::{Error, Result, SampleFormat, Shape, memory};
use libwebp_sys as ffi;
use std::ptr;

const CODEC: &str = "WebP";

/// The effort, 0 to 6: the default of libwebp and GDAL.
const METHOD: i32 = 4;

/// The effort of the lossless encoder, 0 to 100.
const LOSSLESS_EFFORT: f32 = 75.0;

/// Decodes one block of three or four 8-bit samples.
///
/// If the stream has no alpha, the fourth sample is 255. If the block has no sample for alpha, alpha is
/// dropped.
pub fn decode(src: &[u8], shape: Shape, dst: &mut [u8]) -> Result<()> {
    decode_within(src, shape, dst, u64::MAX)
}

/// Decodes like [`decode`], but refuses a stream for which libwebp may need more memory than `max_memory`.
pub(crate) fn decode_within(src: &[u8], shape: Shape, dst: &mut [u8], max_memory: u64) -> Result<()> {
    let mode = match (shape.samples, shape.bits) {
        (3, 8) => ffi::WEBP_CSP_MODE::MODE_RGB,
        (4, 8) => ffi::WEBP_CSP_MODE::MODE_RGBA,
        _ => return Err(Error::Unsuited { codec: CODEC, what: "blocks other than three or four bands of 8 bits" }),
    };
    check("output bytes", dst.len() as i64, shape.len())?;
    let Ok(mut config) = ffi::WebPDecoderConfig::new() else {
        return Err(Error::Unsuited { codec: CODEC, what: "the interface of this version of libwebp" });
    };
    // SAFETY: the pointer and the length are those of `src`, and `input` is valid memory for the features.
    let status = unsafe { ffi::WebPGetFeatures(src.as_ptr(), src.len(), &mut config.input) };
    outcome(status, shape)?;
    if config.input.has_animation != 0 {
        return Err(Error::Unsuited { codec: CODEC, what: "animations" });
    }
    // libwebp allocates according to these sizes, so they are checked first.
    check("width", config.input.width.into(), shape.width)?;
    check("height", config.input.height.into(), shape.height)?;
    memory::check_limit(CODEC, working_bytes(src, &config.input, shape), max_memory)?;

    let stride = i32::try_from(shape.row_bytes());
    let stride = stride.map_err(|_| Error::Unsuited { codec: CODEC, what: "rows of 2 GiB" })?;
    config.output.colorspace = mode;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = ffi::WebPRGBABuffer { rgba: dst.as_mut_ptr(), stride, size: dst.len() };
    // SAFETY: `src` as above; the output buffer is `dst`, borrowed until the call returns, with its true size
    // and stride, which libwebp checks against the image before it writes. libwebp does not free external
    // buffers.
    let status = unsafe { ffi::WebPDecode(src.as_ptr(), src.len(), &mut config) };
    outcome(status, shape)
}

/// Returns an estimate of the memory that libwebp allocates in addition to the output.
///
/// A lossy stream is decoded row by row. A lossless stream, which alpha may be too, is decoded into one buffer of 32 bits
/// for each pixel. It may divide the image into parts of at least 4 x 4 pixels with prefix codes of their own. The tables
/// of one part take 6 KB, and its shortest codes take 20 bits of the stream.
fn working_bytes(src: &[u8], features: &ffi::WebPBitstreamFeatures, shape: Shape) -> u64 {
    const LOSSLESS: i32 = 2;
    const BYTES_OF_PART: u64 = 6 << 10;
    const MOST_PARTS: u64 = 1 << 16;
    if features.format != LOSSLESS && features.has_alpha == 0 {
        return 0;
    }
    let pixels = (shape.width as u64).saturating_mul(shape.height as u64);
    let parts = (shape.width.div_ceil(4) as u64).saturating_mul(shape.height.div_ceil(4) as u64);
    let parts = parts.min(MOST_PARTS).min(src.len() as u64 * 8 / 20);
    pixels.saturating_mul(4).saturating_add(parts * BYTES_OF_PART)
}

/// Appends the stream of one block of three or four 8-bit samples to `out`.
///
/// `quality` is 0 to 100. Alpha is then exact, and pixels with alpha 0 get the colours that cost the fewest
/// bytes, as in GDAL. `None` is lossless, bit for bit, even for pixels with alpha 0. A fourth band in which
/// every sample is 255 is not stored: readers treat a stream without alpha as opaque.
pub fn encode(quality: Option<f32>, src: &[u8], shape: Shape, out: &mut Vec<u8>) -> Result<()> {
    let unsuited = |what| Err(Error::Unsuited { codec: CODEC, what });
    if !matches!((shape.samples, shape.bits, shape.format), (3 | 4, 8, SampleFormat::Uint)) {
        return unsuited("blocks other than three or four bands of 8 bits");
    }
    let side = 1..=ffi::WEBP_MAX_DIMENSION as usize;
    if !side.contains(&shape.width) || !side.contains(&shape.height) {
        return unsuited("blocks without pixels or of more than 16,383 rows or columns");
    }
    if quality.is_some_and(|quality| !(0.0..=100.0).contains(&quality)) {
        return unsuited("a quality outside 0 to 100");
    }
    check("input bytes", i64::try_from(src.len()).unwrap_or(i64::MAX), shape.len())?;

    let (Ok(mut config), Ok(picture)) = (ffi::WebPConfig::new(), ffi::WebPPicture::new()) else {
        return unsuited("the interface of this version of libwebp");
    };
    config.lossless = quality.is_none().into();
    config.quality = quality.unwrap_or(LOSSLESS_EFFORT);
    config.method = METHOD;
    config.exact = config.lossless;
    let mut picture = Picture(picture);
    picture.0.use_argb = config.lossless;
    // Neither is above 16,383 here.
    (picture.0.width, picture.0.height) = (shape.width as i32, shape.height as i32);
    let stride = shape.row_bytes() as i32;
    let import = if shape.samples == 3 { ffi::WebPPictureImportRGB } else { ffi::WebPPictureImportRGBA };
    // SAFETY: the picture is initialised; `src` has `height` rows of `stride` bytes, as was checked. libwebp
    // only reads it, into memory that it allocates for the picture.
    if unsafe { import(&mut picture.0, src.as_ptr(), stride) } == 0 {
        return Err(failure(picture.0.error_code));
    }

    let mut memory = Memory::new();
    picture.0.writer = Some(ffi::WebPMemoryWrite);
    picture.0.custom_ptr = ptr::from_mut(&mut memory.0).cast();
    // SAFETY: both are initialised. `custom_ptr` is the initialised writer that `WebPMemoryWrite` expects; it
    // lives until after the call, and nothing else accesses it during the call.
    if unsafe { ffi::WebPEncode(&config, &mut picture.0) } == 0 {
        return Err(failure(picture.0.error_code));
    }
    out.extend_from_slice(memory.bytes());
    Ok(())
}

/// A picture with pixels that libwebp allocated.
struct Picture(ffi::WebPPicture);

impl Drop for Picture {
    fn drop(&mut self) {
        // SAFETY: the picture was initialised on creation, so its pointers are null or allocated by libwebp.
        unsafe { ffi::WebPPictureFree(&mut self.0) }
    }
}

/// The output that libwebp has written.
struct Memory(ffi::WebPMemoryWriter);

impl Memory {
    fn new() -> Memory {
        // The state that `WebPMemoryWriterInit` creates: nothing is allocated.
        Memory(ffi::WebPMemoryWriter { mem: ptr::null_mut(), size: 0, max_size: 0, pad: [0] })
    }

    fn bytes(&self) -> &[u8] {
        if self.0.mem.is_null() {
            return &[];
        }
        // SAFETY: `mem` is not null, so libwebp allocated it and wrote its first `size` bytes. Neither changes
        // while `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.0.mem, self.0.size) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `mem` is null or allocated by libwebp, and this function frees such memory; nothing borrows
        // it any more.
        unsafe { ffi::WebPMemoryWriterClear(&mut self.0) }
    }
}

/// Returns the error for a block that libwebp did not encode.
fn failure(code: ffi::WebPEncodingError) -> Error {
    use ffi::WebPEncodingError as Code;
    let what = match code {
        Code::VP8_ENC_ERROR_OUT_OF_MEMORY | Code::VP8_ENC_ERROR_BITSTREAM_OUT_OF_MEMORY => {
            "a block that libwebp cannot get the memory for"
        }
        Code::VP8_ENC_ERROR_PARTITION0_OVERFLOW
        | Code::VP8_ENC_ERROR_PARTITION_OVERFLOW
        | Code::VP8_ENC_ERROR_FILE_TOO_BIG => "so much detail in one block",
        _ => "a block that libwebp does not accept",
    };
    Error::Unsuited { codec: CODEC, what }
}

fn check(what: &'static str, found: i64, expected: usize) -> Result<()> {
    if u64::try_from(found) == Ok(expected as u64) {
        return Ok(());
    }
    Err(Error::Mismatch { codec: CODEC, what, found: found.unsigned_abs(), expected: expected as u64 })
}

fn outcome(status: ffi::VP8StatusCode, shape: Shape) -> Result<()> {
    use ffi::VP8StatusCode as Status;
    let corrupt = |what| Err(Error::Corrupt { codec: CODEC, what });
    match status {
        Status::VP8_STATUS_OK => Ok(()),
        Status::VP8_STATUS_NOT_ENOUGH_DATA | Status::VP8_STATUS_SUSPENDED => {
            Err(Error::Truncated { codec: CODEC, got: 0, want: shape.len() })
        }
        Status::VP8_STATUS_OUT_OF_MEMORY => corrupt("libwebp could not get the memory it needs"),
        Status::VP8_STATUS_UNSUPPORTED_FEATURE => corrupt("it uses a feature that libwebp does not support"),
        _ => corrupt("libwebp does not accept it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::noise;

    const LOSSY: &[u8] = include_bytes!("../testdata/webp-lossy.webp");
    const LOSSY_PIXELS: &[u8] = include_bytes!("../testdata/webp-lossy.raw");
    const ALPHA: &[u8] = include_bytes!("../testdata/webp-lossless-alpha.webp");
    const ALPHA_PIXELS: &[u8] = include_bytes!("../testdata/webp-lossless-alpha.raw");

    fn decoded(src: &[u8], width: usize, height: usize, samples: usize) -> Result<Vec<u8>> {
        let shape = Shape { width, height, samples, bits: 8, format: SampleFormat::Uint };
        let mut dst = vec![0xa5; shape.len()];
        decode(src, shape, &mut dst).map(|()| dst)
    }

    #[test]
    fn pixels_are_identical_to_libwebp() {
        assert_eq!(decoded(LOSSY, 37, 27, 3).unwrap(), LOSSY_PIXELS);
        assert_eq!(decoded(ALPHA, 21, 19, 4).unwrap(), ALPHA_PIXELS);
    }

    #[test]
    fn missing_alpha_is_opaque_and_unwanted_alpha_is_dropped() {
        let filled = decoded(LOSSY, 37, 27, 4).unwrap();
        for (got, want) in filled.chunks_exact(4).zip(LOSSY_PIXELS.chunks_exact(3)) {
            assert_eq!(got, [want[0], want[1], want[2], 255]);
        }
        let dropped = decoded(ALPHA, 21, 19, 3).unwrap();
        for (got, want) in dropped.chunks_exact(3).zip(ALPHA_PIXELS.chunks_exact(4)) {
            assert_eq!(got, &want[..3]);
        }
    }

    #[test]
    fn other_sizes_are_refused() {
        assert!(matches!(decoded(LOSSY, 36, 27, 3), Err(Error::Mismatch { what: "width", found: 37, .. })));
        assert!(matches!(decoded(LOSSY, 37, 28, 3), Err(Error::Mismatch { what: "height", found: 27, .. })));
        assert!(matches!(decoded(LOSSY, 37, 27, 1), Err(Error::Unsuited { .. })));
    }

    #[test]
    fn truncated_stream_is_an_error() {
        for length in 0..LOSSY.len() - 2 {
            assert!(decoded(&LOSSY[..length], 37, 27, 3).is_err(), "{length}");
        }
        for length in 0..ALPHA.len() - 2 {
            assert!(decoded(&ALPHA[..length], 21, 19, 4).is_err(), "{length}");
        }
    }

    #[test]
    fn flipped_bits_do_not_panic() {
        for (stream, width, height) in [(LOSSY, 37, 27), (ALPHA, 21, 19)] {
            let mut stream = stream.to_vec();
            for bit in 0..stream.len() * 8 {
                stream[bit / 8] ^= 1 << (bit % 8);
                let _ = decoded(&stream, width, height, 4);
                stream[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    fn shape(width: usize, height: usize, samples: usize) -> Shape {
        Shape { width, height, samples, bits: 8, format: SampleFormat::Uint }
    }

    fn encoded(quality: Option<f32>, src: &[u8], shape: Shape) -> Result<Vec<u8>> {
        let mut out = b"kept".to_vec();
        encode(quality, src, shape, &mut out)?;
        assert_eq!(out.drain(..4).as_slice(), b"kept");
        Ok(out)
    }

    /// Returns slopes and waves with a little noise. Alpha, if present, is 0 in places where the colours are
    /// not.
    fn picture(width: usize, height: usize, samples: usize) -> Vec<u8> {
        let noise = noise(width * height * samples);
        let mut pixels = Vec::new();
        for (n, pixel) in noise.chunks_exact(samples).enumerate() {
            let (x, y) = ((n % width) as f32, (n / width) as f32);
            for (band, &noise) in pixel.iter().enumerate() {
                let wave = 128.0 + 90.0 * ((x + 10.0 * band as f32) / 19.0).sin() * (y / 23.0).cos();
                pixels.push(if band == 3 { noise / 86 * 127 } else { wave as u8 + noise % 8 });
            }
        }
        pixels
    }

    fn psnr(a: &[u8], b: &[u8]) -> f64 {
        let squares: f64 = a.iter().zip(b).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum();
        10.0 * (255.0 * 255.0 * a.len() as f64 / squares.max(1e-9)).log10()
    }

    #[test]
    fn lossless_is_exact_even_for_transparent_pixels() {
        for (width, height) in [(1, 1), (1, 40), (37, 1), (45, 19), (64, 64)] {
            for samples in [3, 4] {
                for src in [picture(width, height, samples), noise(width * height * samples)] {
                    let stream = encoded(None, &src, shape(width, height, samples)).unwrap();
                    assert!(decoded(&stream, width, height, samples).unwrap() == src, "{width}x{height}x{samples}");
                }
            }
        }
    }

    #[test]
    fn opaque_alpha_is_restored() {
        let src: Vec<u8> = noise(4 * 400).chunks(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2], 255]).collect();
        for quality in [None, Some(75.0)] {
            let stream = encoded(quality, &src, shape(20, 20, 4)).unwrap();
            assert!(decoded(&stream, 20, 20, 4).unwrap().iter().skip(3).step_by(4).all(|&alpha| alpha == 255));
        }
    }

    #[test]
    fn lossy_is_close_and_keeps_alpha() {
        let mut lengths = Vec::new();
        for (quality, bound) in [(10.0, 29.0), (75.0, 35.0), (100.0, 40.0)] {
            let src = picture(120, 90, 3);
            let stream = encoded(Some(quality), &src, shape(120, 90, 3)).unwrap();
            let got = psnr(&decoded(&stream, 120, 90, 3).unwrap(), &src);
            assert!(got > bound, "{quality}: {got}");
            lengths.push(stream.len());
        }
        assert!(lengths.is_sorted() && lengths[0] * 3 < lengths[2]);

        let src = picture(64, 48, 4);
        let pixels = decoded(&encoded(Some(75.0), &src, shape(64, 48, 4)).unwrap(), 64, 48, 4).unwrap();
        assert!(src.chunks(4).zip(pixels.chunks(4)).all(|(want, got)| want[3] == got[3]));
    }

    #[test]
    fn unsupported_blocks_are_refused() {
        let unsuited = |quality, shape: Shape| {
            matches!(encoded(quality, &vec![0; shape.len()], shape), Err(Error::Unsuited { .. }))
        };
        assert!(unsuited(None, shape(8, 8, 1)) && unsuited(None, shape(8, 8, 5)));
        assert!(unsuited(None, Shape { bits: 16, ..shape(8, 8, 3) }));
        assert!(unsuited(None, Shape { format: SampleFormat::Int, ..shape(8, 8, 3) }));
        assert!(unsuited(None, shape(0, 8, 3)) && unsuited(None, shape(8, 0, 3)));
        assert!(unsuited(None, shape(16384, 1, 3)) && !unsuited(None, shape(16383, 1, 3)));
        assert!(unsuited(Some(-1.0), shape(8, 8, 3)) && unsuited(Some(100.5), shape(8, 8, 3)));
        assert!(unsuited(Some(f32::NAN), shape(8, 8, 3)));
        let short = encoded(None, &[0; 191], shape(8, 8, 3));
        assert!(matches!(short, Err(Error::Mismatch { what: "input bytes", found: 191, .. })));
    }
}
