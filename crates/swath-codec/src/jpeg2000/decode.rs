//! Reads JPEG 2000 blocks with the `hayro-jpeg2000` crate.

use hayro_jpeg2000::error::{DecodeError, DecodingError, MarkerError};
use hayro_jpeg2000::{ComponentData, DecodeSettings, DecoderContext, Image};

use super::codestream::{self, Codestream, Component};
use super::{CODEC, Colour, unsupported};
use crate::{Error, Result, SampleFormat, Shape, contain};

/// Decodes one block into `dst` as native-endian interleaved samples.
///
/// Samples of 1 to 20 bits are supported, signed or unsigned. A sample with fewer bits than the samples of the
/// block keeps its value. If the samples of the block are not whole bytes, they are packed as in TIFF: most
/// significant bit first, each row padded to a byte. A component with fewer samples than pixels is repeated.
/// Three components of which the last two have a lower resolution are always YCbCr, and become RGB.
pub fn decode(src: &[u8], shape: Shape, colour: Colour, dst: &mut [u8]) -> Result<()> {
    decode_within(src, shape, colour, dst, u64::MAX)
}

/// Decodes like [`decode`], but refuses a stream whose tables need more memory than `max_memory`.
pub(crate) fn decode_within(src: &[u8], shape: Shape, colour: Colour, dst: &mut [u8], max_memory: u64) -> Result<()> {
    if dst.len() != shape.len() {
        return Err(Error::Unsuited { codec: CODEC, what: "a buffer of another size than the block" });
    }
    if !matches!(shape.format, SampleFormat::Uint | SampleFormat::Int) || shape.bits > 32 {
        return Err(Error::Unsuited { codec: CODEC, what: "samples of this width and format" });
    }
    let stream = codestream::check_within(src, shape, max_memory)?;
    // The decoder computes in 32-bit floats, which are exact while the samples and the growth in the wavelet
    // fit in 24 bits.
    if stream.components.iter().any(|c| c.bits > 20) {
        return Err(unsupported("JPEG 2000 with more than 20 bits per sample"));
    }
    contain::decoding(CODEC, || decode_checked(&stream, shape, colour, dst))
}

fn decode_checked(stream: &Codestream<'_>, shape: Shape, colour: Colour, dst: &mut [u8]) -> Result<()> {
    let settings = DecodeSettings { resolve_palette_indices: false, strict: true, target_resolution: None };
    let image = Image::new(&stream.bytes, &settings).map_err(translate)?;
    let mut context = DecoderContext::default();
    let decoded = image.decode(&mut context).map_err(translate)?;

    let planes = decoded.components();
    let pixels = shape.width * shape.height;
    if planes.len() != shape.samples || planes.iter().any(|p| p.samples().len() != pixels) {
        return Err(Error::Corrupt { codec: CODEC, what: "its components have different sizes" });
    }
    // The decoder itself converts the YCbCr that it recognises.
    let ycc = colour == Colour::Ycc && shape.samples >= 3 && !stream.has_coarse_chroma();
    let values = Values { planes, components: &stream.components, ycc };
    match shape.bits {
        8 => store(&values, dst, |v| [v as u8]),
        16 => store(&values, dst, |v| (v as u16).to_ne_bytes()),
        32 => store(&values, dst, |v| v.to_ne_bytes()),
        _ => pack(&values, shape, dst),
    }
    Ok(())
}

/// The decoded planes as integers.
struct Values<'a> {
    planes: &'a [ComponentData],
    components: &'a [Component],
    ycc: bool,
}

impl Values<'_> {
    /// Returns sample `c` of pixel `k`.
    fn get(&self, k: usize, c: usize) -> i32 {
        let at = |c: usize| self.planes[c].samples()[k];
        let half = |c: usize| (1u32 << (self.components[c].bits - 1)) as f32;
        let value = match c {
            0 if self.ycc => at(0) + 1.402 * (at(2) - half(2)),
            1 if self.ycc => at(0) - 0.344_136 * (at(1) - half(1)) - 0.714_136 * (at(2) - half(2)),
            2 if self.ycc => at(0) + 1.772 * (at(1) - half(1)),
            _ => at(c),
        };
        round(value, self.components[c])
    }
}

/// Returns the nearest integer in the range of the component, the even one of two; 0 for NaN. The decoder shifts
/// the samples of all components to start at 0, and this function shifts signed samples back.
fn round(value: f32, component: Component) -> i32 {
    // Between 2^23 and 2^24 the floats are the integers, and the addition rounds. The range of a component ends
    // below 2^20.
    const INTEGERS: f32 = 8_388_608.0;
    let Component { bits, signed, .. } = component;
    let most = (1u32 << bits) - 1;
    let unsigned = ((value.max(0.0).min(most as f32) + INTEGERS).to_bits() - INTEGERS.to_bits()) as i32;
    if signed { unsigned - (1 << (bits - 1)) } else { unsigned }
}

fn store<const N: usize>(values: &Values<'_>, dst: &mut [u8], bytes: impl Fn(i32) -> [u8; N]) {
    let samples = values.planes.len();
    if values.ycc {
        for (k, pixel) in dst.chunks_exact_mut(samples * N).enumerate() {
            for (c, sample) in pixel.chunks_exact_mut(N).enumerate() {
                sample.copy_from_slice(&bytes(values.get(k, c)));
            }
        }
        return;
    }
    // Plane by plane, so that the compiler can use vector instructions: a read of an image with little detail is
    // 1.6 times as fast as with the loop over pixels.
    for (c, (plane, &component)) in values.planes.iter().zip(values.components).enumerate() {
        let places = dst[c * N..].chunks_mut(samples * N);
        for (place, &value) in places.zip(plane.samples()) {
            place[..N].copy_from_slice(&bytes(round(value, component)));
        }
    }
}

/// Packs samples of any width, most significant bit first.
fn pack(values: &Values<'_>, shape: Shape, dst: &mut [u8]) {
    for (y, row) in dst.chunks_exact_mut(shape.row_bytes().max(1)).enumerate() {
        row.fill(0);
        let mut bit = 0;
        for k in y * shape.width..(y + 1) * shape.width {
            for c in 0..shape.samples {
                let value = values.get(k, c);
                for place in (0..shape.bits).rev() {
                    row[bit / 8] |= (((value >> place) & 1) as u8) << (7 - bit % 8);
                    bit += 1;
                }
            }
        }
    }
}

fn translate(error: DecodeError) -> Error {
    let what = match error {
        DecodeError::Marker(MarkerError::Unsupported) => "it has a marker from outside part 1 of the standard",
        DecodeError::Marker(_) => "a marker segment is invalid",
        DecodeError::Tile(_) => "the packets of a tile end too early or too late",
        DecodeError::Decoding(DecodingError::UnexpectedEof) => "a code block ends too early",
        DecodeError::Decoding(_) => "a code block is invalid",
        DecodeError::Validation(_) => "its headers break the limits of the standard",
        DecodeError::Format(_) => "it is not a codestream",
        DecodeError::Color(_) => "its components cannot be combined",
    };
    Error::Corrupt { codec: CODEC, what }
}

#[cfg(test)]
mod tests {
    use super::*;

    const W: usize = 16;
    const H: usize = 12;
    const RGB8: &[u8] = include_bytes!("../../testdata/rgb8.j2k");
    const INT16: &[u8] = include_bytes!("../../testdata/int16.jp2");
    const GRAY12: &[u8] = include_bytes!("../../testdata/gray12.j2k");
    const YCC8: &[u8] = include_bytes!("../../testdata/ycc8.j2k");

    const RGB: Shape = Shape { width: W, height: H, samples: 3, bits: 8, format: SampleFormat::Uint };

    fn v(k: usize, c: usize) -> usize {
        (7 * (k % W) + 13 * (k / W) + 50 * c) % 97
    }

    fn run(src: &[u8], shape: Shape, colour: Colour) -> Result<Vec<u8>> {
        let mut dst = vec![0xaa; shape.len()];
        decode(src, shape, colour, &mut dst).map(|()| dst)
    }

    fn rgb_pixels() -> Vec<u8> {
        (0..3 * W * H).map(|i| v(i / 3, i % 3) as u8).collect()
    }

    #[test]
    fn reversible_rgb_is_exact() {
        assert_eq!(run(RGB8, RGB, Colour::Stored).unwrap(), rgb_pixels());
    }

    #[test]
    fn signed_16_bit_in_a_jp2_file_is_exact() {
        let shape = Shape { samples: 1, bits: 16, format: SampleFormat::Int, ..RGB };
        let want: Vec<u8> = (0..W * H).flat_map(|k| (301 * v(k, 0) as i16 - 9000).to_ne_bytes()).collect();
        assert_eq!(run(INT16, shape, Colour::Stored).unwrap(), want);
    }

    #[test]
    fn twelve_bits_fill_16_or_are_packed() {
        let wide = Shape { samples: 1, bits: 16, ..RGB };
        let want: Vec<u8> = (0..W * H).flat_map(|k| (42 * v(k, 0) as u16).to_ne_bytes()).collect();
        assert_eq!(run(GRAY12, wide, Colour::Stored).unwrap(), want);

        let packed = run(GRAY12, Shape { bits: 12, ..wide }, Colour::Stored).unwrap();
        let pairs = packed.chunks_exact(3).map(|b| {
            let (a, b, c) = (usize::from(b[0]), usize::from(b[1]), usize::from(b[2]));
            [(a << 4) | (b >> 4), ((b & 15) << 8) | c]
        });
        assert_eq!(pairs.flatten().collect::<Vec<_>>(), (0..W * H).map(|k| 42 * v(k, 0)).collect::<Vec<_>>());
    }

    #[test]
    fn aperio_ycc_becomes_rgb() {
        let dst = run(YCC8, RGB, Colour::Ycc).unwrap();
        for (i, &byte) in dst.iter().enumerate() {
            assert!((v(i / 3, i % 3) + 60).abs_diff(byte.into()) <= 1);
        }
        assert_ne!(run(YCC8, RGB, Colour::Stored).unwrap(), dst);
    }

    #[test]
    fn rounding_equals_the_plain_expression_for_every_float() {
        let mut component = codestream::check(RGB8, RGB).unwrap().components[0];
        for (bits, signed) in [(1, false), (8, false), (8, true), (12, true), (16, false), (20, false), (20, true)] {
            (component.bits, component.signed) = (bits, signed);
            // All exponents and signs, infinities and NaN, and all halves near the ends of the range.
            let floats = (0..=u32::MAX).step_by(65_521).map(f32::from_bits);
            let end = (1 << bits) as f32;
            let near = (-40..40).flat_map(|n| [n as f32 / 2.0, end + n as f32 / 2.0, end / 2.0 + n as f32 / 4.0]);
            for value in floats.chain(near) {
                let unsigned = (value.round_ties_even() as i32).clamp(0, (1 << bits) - 1);
                let want = if signed { unsigned - (1 << (bits - 1)) } else { unsigned };
                assert_eq!(round(value, component), want, "{value} in {bits} bits");
            }
        }
    }

    #[test]
    fn image_that_differs_from_the_tags_is_refused_before_decoding() {
        let what = |shape| match run(RGB8, shape, Colour::Stored) {
            Err(Error::Mismatch { what, .. }) => what,
            other => panic!("{other:?}"),
        };
        assert_eq!(what(Shape { width: W + 1, ..RGB }), "width");
        assert_eq!(what(Shape { height: H - 1, ..RGB }), "height");
        assert_eq!(what(Shape { samples: 4, ..RGB }), "components");
        assert_eq!(what(Shape { bits: 7, ..RGB }), "bits per sample");
    }

    #[test]
    fn truncated_stream_is_an_error_not_zeros() {
        // Without the two bytes of the end marker, the image is still complete.
        for len in 0..RGB8.len() - 2 {
            assert!(run(&RGB8[..len], RGB, Colour::Stored).is_err(), "{len} bytes");
        }
        assert_eq!(run(&RGB8[..RGB8.len() - 2], RGB, Colour::Stored).unwrap(), rgb_pixels());
    }

    #[test]
    fn an_open_last_tile_part_decodes() {
        let sot = RGB8.windows(2).position(|m| m == [0xff, 0x90]).unwrap();
        let mut open = RGB8.to_vec();
        open[sot + 6..sot + 10].fill(0);
        assert_eq!(run(&open, RGB, Colour::Stored).unwrap(), rgb_pixels());
        open.truncate(open.len() - 2);
        assert_eq!(run(&open, RGB, Colour::Stored).unwrap(), rgb_pixels());
    }

    #[test]
    fn mutated_streams_never_panic() {
        // `decode` catches a panic of the decoder and returns this error only then, so a panic would show here.
        let caught = Error::Corrupt { codec: CODEC, what: "its packets contradict its headers" };
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut decoded = 0;
        for _ in 0..3000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let mut stream = RGB8.to_vec();
            let at = (seed >> 33) as usize % stream.len();
            stream[at] = (seed >> 20) as u8;
            match run(&stream, RGB, Colour::Stored) {
                Ok(_) => decoded += 1,
                Err(e) => assert_ne!(e, caught),
            }
        }
        assert!(decoded > 300, "the mutations must get past the header, {decoded} did");
    }
}
