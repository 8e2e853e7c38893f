//! JPEG XL (compression 50002, and 52546 in DNG 1.7).
//!
//! jxl-oxide parses each stream, and its limits and errors apply. jxl-rs then decodes most streams, because
//! it is faster, and jxl-oxide the others.

mod single_frame;

use crate::{Error, Result, SampleFormat, Shape};
use jxl_bitstream::{Bitstream, ContainerParser, ParseEvent};
use jxl_oxide::image::BitDepth;
use jxl_oxide::{AllocTracker, ImageHeader, InitializeResult, JxlImage};
use jxl_oxide_common::Bundle;
use jxl_render::ImageBuffer;
use std::borrow::Cow;

const CODEC: &str = "JPEG XL";

/// The working memory per sample of the block. Lossy images of 512x512 pixels take 8 bytes; layers and patches
/// take more.
const BYTES_PER_SAMPLE: usize = 48;

/// The working memory of an image of any size, for tables and the padding to whole groups.
const BASE_BYTES: usize = 32 << 20;

/// The largest colour profile that is read (it is not used).
const MAX_ICC: u64 = 4 << 20;

/// The limit on frames; patches and layers are separate frames. A stream with more only wastes the decoder's
/// time.
const MAX_FRAMES: usize = 64;

/// Decodes one block. The colour channels come first; extra channels (alpha or others) become the remaining
/// samples.
///
/// The samples are in the colour space of the stream. Integers with another depth than the block are scaled to
/// its depth.
pub fn decode(src: &[u8], shape: Shape, dst: &mut [u8]) -> Result<()> {
    decode_within(src, shape, dst, u64::MAX)
}

/// Decodes like [`decode`], with at most `max_memory` bytes of working memory.
pub(crate) fn decode_within(src: &[u8], shape: Shape, dst: &mut [u8], max_memory: u64) -> Result<()> {
    let kind = SampleType::of(shape)?;
    check("output bytes", dst.len(), shape.len())?;
    let stream = codestream(src)?;
    check_header(&stream, shape)?;

    let limit = shape.width.saturating_mul(shape.height).saturating_mul(shape.samples).saturating_mul(BYTES_PER_SAMPLE);
    let limit = limit.saturating_add(BASE_BYTES).min(usize::try_from(max_memory).unwrap_or(usize::MAX));
    let tracker = AllocTracker::with_limit(limit);
    let truncated = Error::Truncated { codec: CODEC, got: 0, want: shape.len() };
    let mut image = JxlImage::builder().alloc_tracker(tracker).build_uninit();
    image.feed_bytes(&stream).map_err(refused)?;
    let InitializeResult::Initialized(image) = image.try_init().map_err(refused)? else { return Err(truncated) };
    if image.num_loaded_frames() > MAX_FRAMES {
        return Err(Error::Unsuited { codec: CODEC, what: "more than 64 frames" });
    }
    let Some(frame) = image.frame_header(0).filter(|_| image.is_loading_done()) else { return Err(truncated) };
    if (frame.x0, frame.y0) != (0, 0) || image.num_loaded_keyframes() > 1 {
        return Err(Error::Unsuited { codec: CODEC, what: "layers or animations" });
    }
    if image.num_loaded_frames() == 1
        && single_frame::decode(&stream, image.image_header(), frame, kind, shape, dst).is_some()
    {
        return Ok(());
    }
    render(&image, kind, shape, dst)
}

/// Decodes the image with jxl-oxide.
fn render(image: &JxlImage, kind: SampleType, shape: Shape, dst: &mut [u8]) -> Result<()> {
    let render = image.render_frame(0).map_err(refused)?;
    let (infos, extra) = render.extra_channels();
    let depths = &image.image_header().metadata;
    let colour = render.color_channels().iter().map(|grid| (grid, depths.bit_depth));
    let extra = extra.iter().zip(&depths.ec_info).map(|(grid, info)| (grid, info.bit_depth));
    check("bands", render.color_channels().len() + infos.len(), shape.samples)?;
    for (n, (grid, depth)) in colour.chain(extra).enumerate() {
        if grid.width() < shape.width || grid.height() < shape.height {
            return Err(Error::Unsuited { codec: CODEC, what: "channels of different sizes" });
        }
        place(grid, depth, kind, n, shape, dst);
    }
    Ok(())
}

/// Returns the error for a stream that jxl-oxide does not accept.
fn refused(error: Box<dyn std::error::Error + Send + Sync>) -> Error {
    let what = match error.downcast_ref::<jxl_render::Error>() {
        Some(jxl_render::Error::Buffer(_)) => "it requires more working memory than an image of its size needs",
        Some(jxl_render::Error::IncompleteFrame) => "a frame is not complete",
        _ => "jxl-oxide does not accept it",
    };
    Error::Corrupt { codec: CODEC, what }
}

fn check(what: &'static str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::Mismatch { codec: CODEC, what, found: found as u64, expected: expected as u64 })
}

/// Returns the bare codestream. The boxes around it contain metadata that may be compressed without limits, and
/// are dropped.
fn codestream(src: &[u8]) -> Result<Cow<'_, [u8]>> {
    if src.starts_with(&[0xff, 0x0a]) {
        return Ok(Cow::Borrowed(src));
    }
    let mut parser = ContainerParser::new();
    let mut stream = Vec::new();
    for event in parser.feed_bytes(src) {
        match event {
            Ok(ParseEvent::Codestream(part)) => stream.extend_from_slice(part),
            Ok(_) => {}
            Err(_) => return Err(Error::Corrupt { codec: CODEC, what: "its boxes are broken" }),
        }
    }
    Ok(Cow::Owned(stream))
}

/// Compares the image header with the block, before the decoder allocates memory.
fn check_header(stream: &[u8], shape: Shape) -> Result<()> {
    let mut bits = Bitstream::new(stream);
    let header = match ImageHeader::parse(&mut bits, ()) {
        Ok(header) => header,
        Err(error) if error.unexpected_eof() => {
            return Err(Error::Truncated { codec: CODEC, got: 0, want: shape.len() });
        }
        Err(_) => return Err(Error::Corrupt { codec: CODEC, what: "it does not start with an image header" }),
    };
    check("width", header.size.width as usize, shape.width)?;
    check("height", header.size.height as usize, shape.height)?;
    let metadata = &header.metadata;
    let colours = if metadata.grayscale() { 1 } else { 3 };
    check("bands", colours + metadata.ec_info.len(), shape.samples)?;
    if metadata.orientation != 1 {
        return Err(Error::Unsuited { codec: CODEC, what: "images with an orientation" });
    }
    if metadata.colour_encoding.want_icc() {
        let needed = bits.read_u64().unwrap_or(0);
        if needed > MAX_ICC {
            return Err(Error::Memory { codec: CODEC, needed, limit: MAX_ICC });
        }
    }
    Ok(())
}

/// The type of a sample of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SampleType {
    U8,
    U16,
    F16,
    F32,
}

impl SampleType {
    fn of(shape: Shape) -> Result<SampleType> {
        match (shape.format, shape.bits) {
            (SampleFormat::Uint, 8) => Ok(SampleType::U8),
            (SampleFormat::Uint, 16) => Ok(SampleType::U16),
            (SampleFormat::Float, 16) => Ok(SampleType::F16),
            (SampleFormat::Float, 32) => Ok(SampleType::F32),
            _ => Err(Error::Unsuited {
                codec: CODEC,
                what: "samples other than 8 or 16-bit integers and 16 or 32-bit floats",
            }),
        }
    }
}

/// Copies one channel to its positions among the interleaved samples.
fn place(grid: &ImageBuffer, depth: BitDepth, kind: SampleType, n: usize, shape: Shape, dst: &mut [u8]) {
    match grid {
        ImageBuffer::F32(grid) => place_rows(|y| grid.get_row(y), |&v| v, float_writer(kind), n, shape, dst),
        ImageBuffer::I32(grid) => place_whole(|y| grid.get_row(y), |&v| v, depth, kind, n, shape, dst),
        ImageBuffer::I16(grid) => place_whole(|y| grid.get_row(y), |&v| v.into(), depth, kind, n, shape, dst),
    }
}

/// Copies samples in their coded form: integers, or the bits of floats.
fn place_whole<'a, T: 'a>(
    row: impl Fn(usize) -> &'a [T],
    value: impl Fn(&T) -> i32,
    depth: BitDepth,
    kind: SampleType,
    n: usize,
    shape: Shape,
    dst: &mut [u8],
) {
    match (depth, kind) {
        (BitDepth::IntegerSample { bits_per_sample: 8 }, SampleType::U8) => {
            place_rows(row, value, |v: i32, out| out[0] = v.clamp(0, 255) as u8, n, shape, dst);
        }
        (BitDepth::IntegerSample { bits_per_sample: 16 }, SampleType::U16) => {
            let write = |v: i32, out: &mut [u8]| out.copy_from_slice(&(v.clamp(0, 65535) as u16).to_ne_bytes());
            place_rows(row, value, write, n, shape, dst);
        }
        // The bits are copied, so that infinities, NaN and subnormal numbers do not change.
        (BitDepth::FloatSample { bits_per_sample: 16, exp_bits: 5 }, SampleType::F16) => {
            place_rows(row, value, |v: i32, out| out.copy_from_slice(&(v as u16).to_ne_bytes()), n, shape, dst);
        }
        (BitDepth::FloatSample { bits_per_sample: 32, exp_bits: 8 }, SampleType::F32) => {
            place_rows(row, value, |v: i32, out| out.copy_from_slice(&v.to_ne_bytes()), n, shape, dst);
        }
        (depth, kind) => {
            place_rows(row, |v| depth.parse_integer_sample(value(v)), float_writer(kind), n, shape, dst);
        }
    }
}

/// Writes a sample whose nominal range is 0 to 1.
fn float_writer(kind: SampleType) -> impl Fn(f32, &mut [u8]) {
    move |value, out| match kind {
        SampleType::U8 => out[0] = (value * 255.0 + 0.5) as u8,
        SampleType::U16 => out.copy_from_slice(&((value * 65535.0 + 0.5) as u16).to_ne_bytes()),
        SampleType::F16 => out.copy_from_slice(&half::f16::from_f32(value).to_ne_bytes()),
        SampleType::F32 => out.copy_from_slice(&value.to_ne_bytes()),
    }
}

fn place_rows<'a, T: 'a, V>(
    row: impl Fn(usize) -> &'a [T],
    value: impl Fn(&T) -> V,
    write: impl Fn(V, &mut [u8]),
    n: usize,
    shape: Shape,
    dst: &mut [u8],
) {
    let size = shape.bits / 8;
    for (y, out) in dst.chunks_exact_mut(shape.row_bytes()).enumerate() {
        let pixels = out.chunks_exact_mut(size * shape.samples);
        for (pixel, sample) in pixels.zip(row(y)) {
            write(value(sample), &mut pixel[n * size..][..size]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Case {
        shape: Shape,
        stream: &'static [u8],
        /// Little-endian.
        pixels: &'static [u8],
    }

    macro_rules! case {
        ($name:literal, $width:literal, $height:literal, $samples:literal, $bits:literal, $format:ident) => {
            Case {
                shape: Shape {
                    width: $width,
                    height: $height,
                    samples: $samples,
                    bits: $bits,
                    format: SampleFormat::$format,
                },
                stream: include_bytes!(concat!("../testdata/jxl-", $name, ".jxl")),
                pixels: include_bytes!(concat!("../testdata/jxl-", $name, ".raw")),
            }
        };
    }

    fn lossless() -> [Case; 4] {
        [
            case!("u16", 20, 24, 3, 16, Uint),
            case!("rgba", 24, 20, 4, 8, Uint),
            case!("f32", 24, 20, 1, 32, Float),
            case!("f16", 24, 20, 1, 16, Float),
        ]
    }

    fn decoded(stream: &[u8], shape: Shape) -> Result<Vec<u8>> {
        let mut dst = vec![0xa5; shape.len()];
        decode(stream, shape, &mut dst)?;
        if cfg!(target_endian = "big") {
            dst.chunks_exact_mut(shape.bits / 8).for_each(|sample| sample.reverse());
        }
        Ok(dst)
    }

    #[test]
    fn lossless_is_lossless() {
        for case in lossless() {
            assert_eq!(decoded(case.stream, case.shape).unwrap(), case.pixels, "{:?}", case.shape);
        }
    }

    #[test]
    fn lossy_differs_from_libjxl_by_at_most_one() {
        let case = case!("lossy", 37, 27, 3, 8, Uint);
        let pixels = decoded(case.stream, case.shape).unwrap();
        assert!(pixels.iter().zip(case.pixels).all(|(got, want)| got.abs_diff(*want) <= 1));
    }

    /// Decodes with jxl-rs, or with jxl-oxide if `oxide`. The first is `None` if jxl-rs does not decode the stream.
    fn decoded_by(oxide: bool, stream: &[u8], shape: Shape) -> Option<Vec<u8>> {
        let kind = SampleType::of(shape).unwrap();
        let mut image = JxlImage::builder().alloc_tracker(AllocTracker::with_limit(1 << 26)).build_uninit();
        image.feed_bytes(stream).ok()?;
        let InitializeResult::Initialized(image) = image.try_init().ok()? else { return None };
        let frame = image.frame_header(0).filter(|_| image.is_loading_done() && image.num_loaded_frames() == 1)?;
        let mut dst = vec![0; shape.len()];
        if oxide {
            render(&image, kind, shape, &mut dst).ok()?;
        } else {
            single_frame::decode(stream, image.image_header(), frame, kind, shape, &mut dst)?;
        }
        Some(dst)
    }

    #[test]
    fn jxl_rs_and_jxl_oxide_decode_the_same() {
        let case = case!("u16", 20, 24, 3, 16, Uint);
        assert_eq!(decoded_by(false, case.stream, case.shape).unwrap(), case.pixels);
        assert_eq!(decoded_by(true, case.stream, case.shape).unwrap(), case.pixels);
    }

    #[test]
    fn jxl_rs_accepts_no_damaged_stream_that_jxl_oxide_refuses() {
        let case = case!("u16", 20, 24, 3, 16, Uint);
        let mut stream = case.stream.to_vec();
        let (mut accepted, mut differ) = (0, 0);
        for bit in (0..stream.len() * 8).step_by(5) {
            stream[bit / 8] ^= 1 << (bit % 8);
            if let Some(rs) = decoded_by(false, &stream, case.shape) {
                accepted += 1;
                let oxide = decoded_by(true, &stream, case.shape).expect("jxl-oxide must accept the stream");
                differ += usize::from(rs != oxide);
            }
            stream[bit / 8] ^= 1 << (bit % 8);
        }
        // The pixels of a damaged stream have no meaning. They differ in one of all streams with one changed bit.
        assert!(differ <= 1, "the pixels of {differ} streams differ");
        assert!(accepted > 100, "the damage must get past the header, {accepted} did");
    }

    #[test]
    fn damaged_lossy_stream_that_jxl_rs_accepts_is_rarely_refused_by_jxl_oxide() {
        let case = case!("lossy", 37, 27, 3, 8, Uint);
        let mut stream = case.stream.to_vec();
        let (mut accepted, mut refused) = (0, 0);
        for bit in (0..stream.len() * 8).step_by(7) {
            stream[bit / 8] ^= 1 << (bit % 8);
            if decoded_by(false, &stream, case.shape).is_some() {
                accepted += 1;
                refused += usize::from(decoded_by(true, &stream, case.shape).is_none());
            }
            stream[bit / 8] ^= 1 << (bit % 8);
        }
        // 2 of 979 with every bit of the stream.
        assert!(refused <= 2, "{refused} of {accepted}");
        assert!(accepted > 50, "the damage must get past the header, {accepted} did");
    }

    #[test]
    fn integers_are_scaled_to_the_depth_of_the_block() {
        let case = case!("rgba", 24, 20, 4, 8, Uint);
        let wide = Shape { bits: 16, ..case.shape };
        let pixels = decoded(case.stream, wide).unwrap();
        for (got, &want) in pixels.chunks_exact(2).zip(case.pixels) {
            assert_eq!(u16::from_le_bytes([got[0], got[1]]), u16::from(want) * 257);
        }
    }

    #[test]
    fn other_sizes_and_kinds_are_refused_from_the_header() {
        let Case { shape, stream, .. } = case!("rgba", 24, 20, 4, 8, Uint);
        let header = &stream[..stream.len().min(40)];
        let refused = |shape| decoded(header, shape).unwrap_err();
        assert!(matches!(refused(Shape { width: 25, ..shape }), Error::Mismatch { what: "width", found: 24, .. }));
        assert!(matches!(refused(Shape { height: 2, ..shape }), Error::Mismatch { what: "height", found: 20, .. }));
        assert!(matches!(refused(Shape { samples: 3, ..shape }), Error::Mismatch { what: "bands", found: 4, .. }));
        assert!(matches!(refused(Shape { bits: 32, ..shape }), Error::Unsuited { .. }));
        assert!(matches!(refused(Shape { format: SampleFormat::Int, ..shape }), Error::Unsuited { .. }));
    }

    #[test]
    fn truncated_stream_is_an_error() {
        for case in lossless() {
            for length in 0..case.stream.len() {
                assert!(decoded(&case.stream[..length], case.shape).is_err(), "{length} of {:?}", case.shape);
            }
        }
    }

    #[test]
    fn flipped_bits_do_not_panic() {
        for case in lossless() {
            let mut stream = case.stream.to_vec();
            for bit in (0..stream.len() * 8).step_by(3) {
                stream[bit / 8] ^= 1 << (bit % 8);
                let _ = decoded(&stream, case.shape);
                stream[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
}
