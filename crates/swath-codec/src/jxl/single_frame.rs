//! Decodes the most common JPEG XL streams with the `jxl` crate (jxl-rs), which is 1.2 to 1.4 times as fast as jxl-oxide
//! for lossless streams and more than twice as fast for lossy ones: one frame, one or three colour channels, no extra
//! channels, and integers with the depth of the block.
//!
//! The caller has parsed and checked the stream with jxl-oxide, which also decodes the streams that this module does
//! not support or that jxl-rs does not accept, and returns their errors.

use std::panic::{AssertUnwindSafe, catch_unwind};

use jxl_oxide::frame::Encoding;
use jxl_oxide::image::BitDepth;
use jxl_oxide::{FrameHeader, ImageHeader};
use jxl_rs::api::{
    Endianness, Event, JxlColorType, JxlDataFormat, JxlDecoder, JxlDecoderOptions, JxlOutputBuffer, JxlPixelFormat,
};

use super::SampleType;
use crate::Shape;

/// Decodes `stream` into `dst`. Returns `None` if jxl-oxide must decode it; `dst` is then undefined.
pub(super) fn decode(
    stream: &[u8],
    header: &ImageHeader,
    frame: &FrameHeader,
    kind: SampleType,
    shape: Shape,
    dst: &mut [u8],
) -> Option<()> {
    let bits = bits_of(header, frame)?;
    // One bad block must not end the program, and jxl-rs does not promise that it never panics.
    catch_unwind(AssertUnwindSafe(|| match (bits, kind) {
        (8, SampleType::U8) => run(stream, JxlDataFormat::U8 { bit_depth: 8 }, shape, dst),
        (16, SampleType::U16) if bytemuck::try_cast_slice::<u8, u16>(dst).is_ok() => {
            run(stream, JxlDataFormat::U16 { endianness: Endianness::native(), bit_depth: 16 }, shape, dst)
        }
        _ => None,
    }))
    .ok()?
}

/// Returns the bits per sample, or `None` for a stream that this module does not support.
///
/// A lossless stream has the same pixels in every decoder. In a lossy stream jxl-rs, jxl-oxide and libjxl (which
/// dithers) differ from each other by 1 in about a quarter of the 8-bit samples, and never by more.
fn bits_of(header: &ImageHeader, frame: &FrameHeader) -> Option<u32> {
    let metadata = &header.metadata;
    let BitDepth::IntegerSample { bits_per_sample: bits } = metadata.bit_depth else { return None };
    let whole = (frame.width, frame.height) == (header.size.width, header.size.height);
    let flags = &frame.flags;
    let drawn = flags.noise() || flags.patches() || flags.splines() || flags.use_lf_frame();
    let plain = whole && !drawn && frame.upsampling == 1 && metadata.ec_info.is_empty();
    let filtered = frame.restoration_filter.gab.enabled() || frame.restoration_filter.epf.enabled();
    let is_lossless = frame.encoding == Encoding::Modular && !filtered && !metadata.xyb_encoded && !frame.do_ycbcr;
    let is_lossy = frame.encoding == Encoding::VarDct && !frame.do_ycbcr;
    (plain && (is_lossless || is_lossy)).then_some(bits)
}

/// Decodes one frame in `format`.
fn run(stream: &[u8], format: JxlDataFormat, shape: Shape, dst: &mut [u8]) -> Option<()> {
    let mut options = JxlDecoderOptions::default();
    options.adjust_orientation = false;
    options.render_spot_colors = false;
    // jxl-rs counts at least 16 columns and three channels, and refuses an image that reaches the limit.
    options.sample_limit = Some(shape.width.max(16) * shape.height * 3 + 1);
    let mut decoder = JxlDecoder::new(options);
    let mut input = stream;
    while !matches!(decoder.process(&mut input, None, None).ok()?, Event::BasicInfo) {
        if input.is_empty() {
            return None;
        }
    }
    let size = decoder.basic_info()?.size;
    let color_type = match shape.samples {
        1 => JxlColorType::Grayscale,
        3 => JxlColorType::Rgb,
        _ => return None,
    };
    let row_bytes = shape.width * shape.samples * format.bytes_per_sample();
    if size != (shape.width, shape.height) || dst.len() != row_bytes * shape.height {
        return None;
    }
    let pixels = JxlPixelFormat { color_type, color_data_format: Some(format), extra_channel_format: Vec::new() };
    decoder.set_pixel_format(pixels).ok()?;
    // jxl-rs converts to sRGB if it cannot return the colour space of the stream.
    if decoder.output_color_profile()? != decoder.embedded_color_profile()? {
        return None;
    }
    let mut buffers = [JxlOutputBuffer::new(dst, shape.height, row_bytes)];
    loop {
        match decoder.process(&mut input, Some(&mut buffers), None).ok()? {
            Event::FrameComplete { has_more_frames: false } => return Some(()),
            Event::BasicInfo | Event::FrameHeader => {}
            _ => return None,
        }
    }
}
