//! WebP (compression 50001), lossy and lossless, by libwebp.

use crate::{Error, Result, Shape};
use libwebp_sys as ffi;

const CODEC: &str = "WebP";

/// Decodes one block of three or four 8-bit samples.
///
/// A stream without alpha fills the fourth sample with 255; alpha that the block has no sample for is dropped.
pub fn decode(src: &[u8], shape: Shape, dst: &mut [u8]) -> Result<()> {
    let mode = match (shape.samples, shape.bits) {
        (3, 8) => ffi::WEBP_CSP_MODE::MODE_RGB,
        (4, 8) => ffi::WEBP_CSP_MODE::MODE_RGBA,
        _ => return Err(Error::Unsuited { codec: CODEC, what: "anything but three or four bands of 8 bits" }),
    };
    check("output bytes", dst.len() as i64, shape.len())?;
    let Ok(mut config) = ffi::WebPDecoderConfig::new() else {
        return Err(Error::Unsuited { codec: CODEC, what: "the interface of another libwebp" });
    };
    // SAFETY: the pointer and the length are those of `src`, and `input` is a valid place for the features.
    let status = unsafe { ffi::WebPGetFeatures(src.as_ptr(), src.len(), &mut config.input) };
    outcome(status, shape)?;
    if config.input.has_animation != 0 {
        return Err(Error::Unsuited { codec: CODEC, what: "animations" });
    }
    // libwebp allocates by these sizes, so they are checked before it does.
    check("width", config.input.width.into(), shape.width)?;
    check("height", config.input.height.into(), shape.height)?;

    let stride = i32::try_from(shape.row_bytes());
    let stride = stride.map_err(|_| Error::Unsuited { codec: CODEC, what: "rows of 2 GiB" })?;
    config.output.colorspace = mode;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = ffi::WebPRGBABuffer { rgba: dst.as_mut_ptr(), stride, size: dst.len() };
    // SAFETY: `src` as above; the output buffer is `dst`, borrowed until the call returns, with its true size and stride, which
    // libwebp checks against the image before it writes. Buffers that are external are not freed by it.
    let status = unsafe { ffi::WebPDecode(src.as_ptr(), src.len(), &mut config) };
    outcome(status, shape)
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
        Status::VP8_STATUS_UNSUPPORTED_FEATURE => corrupt("it uses a feature that libwebp does not know"),
        _ => corrupt("libwebp does not accept it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SampleFormat;

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
    fn pixels_are_those_of_libwebp() {
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
}
