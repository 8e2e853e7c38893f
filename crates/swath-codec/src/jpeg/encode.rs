//! Encodes baseline sequential streams with the standard Huffman tables (ITU-T T.81, annex K) and libjpeg's
//! scale of quality.
//!
//! The tables are written once, into the JPEGTables tag, and the blocks are abbreviated streams without them:
//! byte for byte what GDAL writes with JPEGTABLESMODE=3. Swath has its own encoder because the decoder already
//! needs the transform and the tests. It is 2.0 to 2.6 times as fast as the `jpeg-encoder` crate with SIMD, and
//! about 0.75 times as fast as libjpeg-turbo.

use crate::jpeg::downsample::{deinterleave, halve_across, halve_both, ycbcr};
use crate::jpeg::entropy::{AC, DC, Spelling, Writer};
use crate::jpeg::fdct::{Divisors, forward};
use crate::jpeg::header::ZIGZAG;
use crate::jpeg::{CODEC, DHT, DQT, EOI, SOS};
use crate::{Error, Result, SampleFormat, Shape};

pub(super) const SOI: u8 = 0xd8;
/// The markers of a baseline frame, and of an extended frame, which 16-bit quantisation values require.
const SOF0: u8 = 0xc0;
const SOF1: u8 = 0xc1;

/// The largest width and height that libjpeg reads, slightly less than the format's 65535.
const MAX_SIDE: usize = 65500;

/// The quantisation tables of quality 50, luma and chroma (T.81 tables K.1 and K.2), in stream order.
#[rustfmt::skip]
const QUANT: [[u8; 64]; 2] = [
    [
        16, 11, 12, 14, 12, 10, 16, 14, 13, 14, 18, 17, 16, 19, 24, 40,
        26, 24, 22, 22, 24, 49, 35, 37, 29, 40, 58, 51, 61, 60, 57, 51,
        56, 55, 64, 72, 92, 78, 64, 68, 87, 69, 55, 56, 80, 109, 81, 87,
        95, 98, 103, 104, 103, 62, 77, 113, 121, 112, 100, 120, 92, 101, 103, 99,
    ],
    [
        17, 18, 18, 24, 21, 24, 47, 26, 26, 47, 99, 66, 56, 66, 99, 99,
        99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
        99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
        99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    ],
];

/// The parameters of the encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodeParams {
    /// The quality, 1 to 100 on libjpeg's scale.
    pub quality: u8,
    /// The colour conversion.
    pub colour: EncodeColour,
}

/// The conversion of the samples before coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncodeColour {
    /// No conversion: one to four bands of any meaning. PhotometricInterpretation is any value except YCbCr.
    Stored,
    /// Three RGB bands become YCbCr. PhotometricInterpretation is 6.
    YCbCr {
        /// The YCbCrSubSampling tag: (1, 1), (2, 1) or (2, 2).
        subsampling: (u8, u8),
    },
}

/// Working memory that is reused from block to block.
#[derive(Debug, Default)]
pub struct EncodeScratch {
    bytes: Vec<u8>,
}

/// Returns the JPEGTables tag for blocks of `samples` bands that are encoded with these parameters.
pub fn encode_tables(params: &EncodeParams, samples: usize) -> Result<Vec<u8>> {
    let layout = FrameLayout::new(params, samples)?;
    let mut out = vec![0xff, SOI];
    for number in 0..layout.tables {
        let table = quant(params.quality, number);
        let mut body = Vec::with_capacity(129);
        if wide(&table) {
            body.push(0x10 | number as u8);
            body.extend(table.iter().flat_map(|value| value.to_be_bytes()));
        } else {
            body.push(number as u8);
            body.extend(table.iter().map(|&value| value as u8));
        }
        segment(&mut out, DQT, &body);
    }
    for number in 0..layout.tables {
        let mut define = |class: u8, spelling: &Spelling| {
            segment(&mut out, DHT, &[&[class | number as u8], &spelling.counts[..], spelling.symbols].concat());
        };
        define(0x00, &DC[number]);
        define(0x10, &AC[number]);
    }
    out.extend([0xff, EOI]);
    Ok(out)
}

/// Appends the stream of one block of 8-bit samples to `out`. A decoder needs the tables of [`encode_tables`]
/// for it.
///
/// The block has at most 65,500 rows and columns. If they do not fill whole units, the last ones are repeated.
pub fn encode(
    params: &EncodeParams,
    src: &[u8],
    shape: Shape,
    out: &mut Vec<u8>,
    scratch: &mut EncodeScratch,
) -> Result<()> {
    let layout = FrameLayout::new(params, shape.samples)?;
    if shape.bits != 8 || shape.format != SampleFormat::Uint {
        return unsuited("samples other than unsigned 8-bit integers");
    }
    if shape.width == 0 || shape.height == 0 {
        return unsuited("a block without pixels");
    }
    if shape.width > MAX_SIDE || shape.height > MAX_SIDE {
        return unsuited("blocks of more than 65,500 rows or columns");
    }
    if src.len() != shape.len() {
        let (found, expected) = (src.len() as u64, shape.len() as u64);
        return Err(Error::Mismatch { codec: CODEC, what: "input bytes", found, expected });
    }
    #[cfg(target_arch = "x86_64")]
    if super::has_avx2() {
        // The same code for wider registers is 1.4 times as fast on 4:2:0 images.
        // SAFETY: the CPU has the features for which the function is compiled.
        unsafe { encode_avx2(params, &layout, src, shape, out, &mut scratch.bytes) };
        return Ok(());
    }
    encode_portable(params, &layout, src, shape, out, &mut scratch.bytes);
    Ok(())
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
fn encode_avx2(
    params: &EncodeParams,
    layout: &FrameLayout,
    src: &[u8],
    shape: Shape,
    out: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
) {
    encode_portable(params, layout, src, shape, out, scratch);
}

#[inline(always)]
fn encode_portable(
    params: &EncodeParams,
    layout: &FrameLayout,
    src: &[u8],
    shape: Shape,
    out: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
) {
    let tables = [quant(params.quality, 0), quant(params.quality, 1)];
    header(layout, shape, tables[..layout.tables].iter().any(wide), out);
    let divisors = tables.map(|table| {
        let mut natural = [1; 64];
        table.iter().zip(ZIGZAG).for_each(|(&value, place)| natural[usize::from(place)] = value);
        Divisors::new(&natural)
    });

    let planes = Planes::new(layout, shape);
    scratch.resize(planes.len(), 0);
    let mut writer = Writer::new(out);
    let mut last = [0; 4];
    let mut block = [0; 64];
    for unit_y in 0..planes.units.1 {
        planes.fill(src, shape, unit_y * 8 * layout.v, scratch);
        for unit_x in 0..planes.units.0 {
            for ((component, plane), last) in layout.components().iter().zip(&planes.planes).zip(&mut last) {
                for (y, x) in (0..component.v).flat_map(|y| (0..component.h).map(move |x| (y, x))) {
                    let column = unit_x * component.h + x;
                    // Blocks without a sample of the image complete the unit. They are smallest if they repeat
                    // the last value.
                    if column >= plane.blocks.0 || unit_y * component.v + y >= plane.blocks.1 {
                        writer.block(0, &block, 0, component.table);
                        continue;
                    }
                    let samples = &scratch[plane.start + 8 * y * plane.stride + 8 * column..];
                    let mask = forward(samples, plane.stride, &divisors[component.table & 1], &mut block);
                    let difference = i32::from(block[0]) - std::mem::replace(last, i32::from(block[0]));
                    writer.block(difference, &block, mask, component.table);
                }
            }
        }
    }
    writer.finish();
    out.extend([0xff, EOI]);
}

fn unsuited<T>(what: &'static str) -> Result<T> {
    Err(Error::Unsuited { codec: CODEC, what })
}

/// Returns the quantisation table in stream order, scaled as in libjpeg.
fn quant(quality: u8, number: usize) -> [u16; 64] {
    let quality = u32::from(quality.clamp(1, 100));
    let percent = if quality < 50 { 5000 / quality } else { 200 - 2 * quality };
    QUANT[number & 1].map(|value| ((u32::from(value) * percent + 50) / 100).max(1) as u16)
}

/// Whether the table needs 16 bits per value, which baseline does not support.
fn wide(table: &[u16; 64]) -> bool {
    table.iter().any(|&value| value > 255)
}

/// Appends a marker segment. Every segment here is far below 64 KiB.
fn segment(out: &mut Vec<u8>, marker: u8, body: &[u8]) {
    out.extend([0xff, marker]);
    out.extend((body.len() as u16 + 2).to_be_bytes());
    out.extend(body);
}

/// Appends everything before the entropy-coded segment.
fn header(layout: &FrameLayout, shape: Shape, wide: bool, out: &mut Vec<u8>) {
    let components = layout.components();
    let count = components.len() as u8;
    let [[y1, y0], [x1, x0]] = [shape.height, shape.width].map(|side| (side as u16).to_be_bytes());
    out.extend([0xff, SOI]);
    out.extend([0xff, if wide { SOF1 } else { SOF0 }, 0, 8 + 3 * count, 8, y1, y0, x1, x0, count]);
    for component in components {
        out.extend([component.id, (component.h << 4 | component.v) as u8, component.table as u8]);
    }
    out.extend([0xff, SOS, 0, 6 + 2 * count, count]);
    for component in components {
        out.extend([component.id, (component.table << 4 | component.table) as u8]);
    }
    out.extend([0, 63, 0]);
}

#[derive(Debug, Clone, Copy)]
struct Component {
    id: u8,
    /// Sampling factors.
    h: usize,
    v: usize,
    /// The index of its tables of all kinds.
    table: usize,
}

/// The components and tables of the frame.
#[derive(Debug)]
struct FrameLayout {
    /// Only the first `count` are used.
    components: [Component; 4],
    count: usize,
    /// The number of tables of each kind.
    tables: usize,
    /// The largest sampling factors.
    h: usize,
    v: usize,
    convert: bool,
}

impl FrameLayout {
    fn new(params: &EncodeParams, samples: usize) -> Result<FrameLayout> {
        if !(1..=100).contains(&params.quality) {
            return unsuited("a quality outside 1 to 100");
        }
        if !(1..=4).contains(&samples) {
            return unsuited("blocks of other than one to four bands");
        }
        // Readers that use only the stream derive the colours from the identifiers. These are the identifiers
        // that libjpeg writes for grey, RGB, YCbCr and bands without a colour.
        let (ids, (h, v), convert) = match (params.colour, samples) {
            (EncodeColour::Stored, 1) => ([1, 0, 0, 0], (1, 1), false),
            (EncodeColour::Stored, 3) => ([b'R', b'G', b'B', 0], (1, 1), false),
            (EncodeColour::Stored, _) => ([0, 1, 2, 3], (1, 1), false),
            (EncodeColour::YCbCr { subsampling: (1, 1) }, 3) => ([1, 2, 3, 0], (1, 1), true),
            (EncodeColour::YCbCr { subsampling: (2, 1) }, 3) => ([1, 2, 3, 0], (2, 1), true),
            (EncodeColour::YCbCr { subsampling: (2, 2) }, 3) => ([1, 2, 3, 0], (2, 2), true),
            (EncodeColour::YCbCr { .. }, 3) => return unsuited("this subsampling of colour"),
            (EncodeColour::YCbCr { .. }, _) => return unsuited("YCbCr with other than three bands"),
        };
        let mut components = ids.map(|id| Component { id, h: 1, v: 1, table: 0 });
        if convert {
            (components[0].h, components[0].v) = (h, v);
            (components[1].table, components[2].table) = (1, 1);
        }
        Ok(FrameLayout { components, count: samples, tables: if convert { 2 } else { 1 }, h, v, convert })
    }

    fn components(&self) -> &[Component] {
        &self.components[..self.count]
    }
}

/// The position of the samples of a component in the working memory.
#[derive(Debug, Clone, Copy, Default)]
struct Plane {
    start: usize,
    stride: usize,
    /// The number of blocks across and down the whole image that contain its samples.
    blocks: (usize, usize),
}

/// The samples of one row of units.
struct Planes<'a> {
    layout: &'a FrameLayout,
    /// The number of units across and down.
    units: (usize, usize),
    /// The number of pixels in a row of whole units.
    width: usize,
    planes: [Plane; 4],
    /// The end of the planes. Two rows of both chroma components at full resolution follow.
    behind: usize,
}

impl<'a> Planes<'a> {
    fn new(layout: &'a FrameLayout, shape: Shape) -> Planes<'a> {
        let FrameLayout { h, v, .. } = *layout;
        let units = (shape.width.div_ceil(8 * h), shape.height.div_ceil(8 * v));
        let mut planes = [Plane::default(); 4];
        let mut behind = 0;
        for (plane, component) in planes.iter_mut().zip(layout.components()) {
            let across = (shape.width * component.h).div_ceil(8 * h);
            let down = (shape.height * component.v).div_ceil(8 * v);
            *plane = Plane { start: behind, stride: units.0 * 8 * component.h, blocks: (across, down) };
            behind += plane.stride * 8 * component.v;
        }
        Planes { layout, units, width: units.0 * 8 * h, planes, behind }
    }

    fn len(&self) -> usize {
        self.behind + 4 * self.width
    }

    /// Copies the pixels from row `y0` on.
    #[inline(always)]
    fn fill(&self, src: &[u8], shape: Shape, y0: usize, memory: &mut [u8]) {
        let FrameLayout { h, v, count, convert, .. } = *self.layout;
        let (width, used) = (self.width, shape.width);
        let (planes, chroma) = memory.split_at_mut(self.behind);
        // An odd last row is averaged with itself.
        let rows = (shape.height - y0).min(8 * v).next_multiple_of(v);
        for y in 0..rows {
            let row = (y0 + y).min(shape.height - 1) * shape.row_bytes();
            let row = &src[row..row + shape.row_bytes()];
            if !convert {
                for n in 0..count {
                    let plane = &mut planes[self.planes[n].start + y * width..][..width];
                    deinterleave(row, n, count, &mut plane[..used]);
                    extend(plane, used);
                }
                continue;
            }
            let (luma, rest) = planes.split_at_mut(self.planes[1].start);
            let (blue, red) = rest.split_at_mut(self.planes[2].start - self.planes[1].start);
            let luma = &mut luma[y * width..][..width];
            if h == 1 {
                let (blue, red) = (&mut blue[y * width..][..width], &mut red[y * width..][..width]);
                ycbcr(row, &mut luma[..used], &mut blue[..used], &mut red[..used]);
                [luma, blue, red].into_iter().for_each(|plane| extend(plane, used));
                continue;
            }
            let (full_blue, full_red) = chroma.split_at_mut(2 * width);
            let (at, half) = (y % v * width, width / 2);
            {
                let (blue, red) = (&mut full_blue[at..][..width], &mut full_red[at..][..width]);
                ycbcr(row, &mut luma[..used], &mut blue[..used], &mut red[..used]);
                [luma, blue, red].into_iter().for_each(|plane| extend(plane, used));
            }
            for (full, plane) in [(full_blue, blue), (full_red, red)] {
                let out = &mut plane[y / v * half..][..half];
                match (v, y % 2) {
                    (1, _) => halve_across(&full[..width], out),
                    (_, 1) => halve_both(&full[..width], &full[width..], out),
                    _ => {}
                }
            }
        }
        for (&Plane { start, stride, .. }, component) in self.planes.iter().zip(self.layout.components()) {
            let filled = rows / v * component.v;
            let plane = &mut planes[start..start + 8 * component.v * stride];
            for y in filled..8 * component.v {
                plane.copy_within((filled - 1) * stride..filled * stride, y * stride);
            }
        }
    }
}

/// Repeats the last of the `used` samples to the end of the row.
#[inline(always)]
fn extend(row: &mut [u8], used: usize) {
    let last = row[used - 1];
    row[used..].fill(last);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jpeg::{Params, YCBCR, decode};
    use crate::noise::noise;

    const HALF_BOTH: EncodeColour = EncodeColour::YCbCr { subsampling: (2, 2) };
    const HALF_ACROSS: EncodeColour = EncodeColour::YCbCr { subsampling: (2, 1) };
    const FULL: EncodeColour = EncodeColour::YCbCr { subsampling: (1, 1) };

    fn shape(width: usize, height: usize, samples: usize) -> Shape {
        Shape { width, height, samples, bits: 8, format: SampleFormat::Uint }
    }

    fn encoded(quality: u8, colour: EncodeColour, src: &[u8], shape: Shape) -> Result<Vec<u8>> {
        let mut out = b"kept".to_vec();
        encode(&EncodeParams { quality, colour }, src, shape, &mut out, &mut EncodeScratch::default())?;
        assert_eq!(out.drain(..4).as_slice(), b"kept");
        Ok(out)
    }

    /// Encodes a block and decodes it again.
    fn round_trip(quality: u8, colour: EncodeColour, src: &[u8], shape: Shape) -> Vec<u8> {
        let stream = encoded(quality, colour, src, shape).unwrap();
        let tables = encode_tables(&EncodeParams { quality, colour }, shape.samples).unwrap();
        let photometric = if colour == EncodeColour::Stored { 2 } else { YCBCR };
        let mut dst = vec![0xa5; shape.len()];
        decode(&Params { tables: Some(&tables), photometric }, &stream, shape, &mut dst).unwrap();
        dst
    }

    /// Returns waves whose bands differ little, as in photographs.
    fn picture(shape: Shape) -> Vec<u8> {
        let noise = noise(shape.len());
        let pixels = noise.chunks_exact(shape.samples).enumerate();
        let values = pixels.flat_map(|(n, pixel)| {
            let (x, y) = ((n % shape.width) as f32, (n / shape.width) as f32);
            pixel.iter().enumerate().map(move |(band, &noise)| {
                let wave = 120.0 + 80.0 * ((x + 5.0 * band as f32) / 17.0).sin() * (y / 13.0).cos();
                wave as u8 + noise % 6
            })
        });
        values.collect()
    }

    fn psnr(a: &[u8], b: &[u8]) -> f64 {
        let squares: f64 = a.iter().zip(b).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum();
        10.0 * (255.0 * 255.0 * a.len() as f64 / squares.max(1e-9)).log10()
    }

    macro_rules! fixture {
        ($name:literal) => {
            include_bytes!(concat!("../../testdata/jpeg-", $name)).as_slice()
        };
    }

    #[test]
    fn bytes_are_identical_to_gdal() {
        let stored = EncodeParams { quality: 75, colour: EncodeColour::Stored };
        assert_eq!(encode_tables(&stored, 3).unwrap(), fixture!("written-rgb.tables"));
        let stream = encoded(75, EncodeColour::Stored, fixture!("rgb.raw"), shape(32, 32, 3)).unwrap();
        assert_eq!(stream, fixture!("written-rgb.jpg"));
        // A quality that requires 16-bit tables, and a size that does not fill a unit.
        let halved = EncodeParams { quality: 10, colour: HALF_BOTH };
        assert_eq!(encode_tables(&halved, 3).unwrap(), fixture!("written-420.tables"));
        let stream = encoded(10, HALF_BOTH, fixture!("420.raw"), shape(45, 19, 3)).unwrap();
        assert_eq!(stream, fixture!("written-420.jpg"));
    }

    #[test]
    fn decoded_pixels_are_close_to_the_original() {
        for (colour, samples, bounds) in [
            (EncodeColour::Stored, 1, [28.0, 38.0, 42.0, 52.0]),
            (EncodeColour::Stored, 2, [28.0, 38.0, 42.0, 52.0]),
            (EncodeColour::Stored, 3, [28.0, 38.0, 42.0, 52.0]),
            (EncodeColour::Stored, 4, [28.0, 38.0, 42.0, 52.0]),
            (FULL, 3, [28.0, 36.0, 40.0, 48.0]),
            (HALF_ACROSS, 3, [28.0, 36.0, 39.0, 40.0]),
            (HALF_BOTH, 3, [28.0, 36.0, 39.0, 40.0]),
        ] {
            let shape = shape(150, 101, samples);
            let src = picture(shape);
            for (quality, bound) in [10, 75, 95, 100].into_iter().zip(bounds) {
                let got = psnr(&round_trip(quality, colour, &src, shape), &src);
                assert!(got > bound, "{colour:?} {samples} quality {quality}: {got}");
            }
        }
    }

    #[test]
    fn sizes_that_do_not_fill_a_unit_are_read_back() {
        for (width, height) in (1..36).map(|n| (n, n * 7 % 36 + 1)).chain([(1, 300), (300, 1), (16, 16)]) {
            for (colour, samples) in [(EncodeColour::Stored, 1), (EncodeColour::Stored, 4), (FULL, 3)] {
                let shape = shape(width, height, samples);
                let src = picture(shape);
                let pixels = round_trip(100, colour, &src, shape);
                assert!(src.iter().zip(&pixels).all(|(a, b)| a.abs_diff(*b) <= 4), "{width}x{height} {colour:?}");
            }
            // Grey has no chroma to lose.
            for colour in [HALF_ACROSS, HALF_BOTH] {
                let gray: Vec<u8> = picture(shape(width, height, 1)).iter().flat_map(|&value| [value; 3]).collect();
                let pixels = round_trip(100, colour, &gray, shape(width, height, 3));
                assert!(gray.iter().zip(&pixels).all(|(a, b)| a.abs_diff(*b) <= 4), "{width}x{height} {colour:?}");
            }
        }
    }

    #[test]
    fn flat_blocks_are_exact_and_small() {
        for value in [0, 1, 127, 128, 200, 255] {
            for (colour, samples) in [(EncodeColour::Stored, 1), (EncodeColour::Stored, 3), (HALF_BOTH, 3)] {
                let shape = shape(256, 256, samples);
                let src = vec![value; shape.len()];
                let pixels = round_trip(90, colour, &src, shape);
                assert!(pixels.iter().all(|&got| got.abs_diff(value) <= 1), "{value} {colour:?}");
                let length = encoded(90, colour, &src, shape).unwrap().len();
                assert!(length < 100 + shape.len() / 64, "{length}");
            }
        }
    }

    #[test]
    fn noise_at_the_best_quality_survives() {
        for (colour, samples) in [(EncodeColour::Stored, 1), (EncodeColour::Stored, 4), (FULL, 3), (HALF_BOTH, 3)] {
            let shape = shape(128, 128, samples);
            let extremes: Vec<u8> = noise(shape.len()).iter().map(|&value| value / 128 * 255).collect();
            for src in [noise(shape.len()), extremes] {
                let stream = encoded(100, colour, &src, shape).unwrap();
                assert!(stream.len() < 2 * shape.len(), "{}", stream.len());
                let pixels = round_trip(100, colour, &src, shape);
                if colour == EncodeColour::Stored {
                    assert!(src.iter().zip(&pixels).all(|(a, b)| a.abs_diff(*b) <= 4));
                }
            }
        }
    }

    #[test]
    fn every_quality_has_tables_that_fit_and_better_ones_are_closer() {
        let shape = shape(48, 48, 3);
        let src = picture(shape);
        let close: Vec<f64> =
            (1..=100).map(|quality| psnr(&round_trip(quality, EncodeColour::Stored, &src, shape), &src)).collect();
        assert!(close.windows(20).all(|few| few[19] > few[0]), "{close:?}");
    }

    #[test]
    fn reused_memory_does_not_affect_the_next_block() {
        let mut scratch = EncodeScratch::default();
        for (width, height, samples, colour) in
            [(64, 64, 3, HALF_BOTH), (5, 3, 3, HALF_BOTH), (40, 9, 4, EncodeColour::Stored), (33, 17, 3, HALF_ACROSS)]
        {
            let params = EncodeParams { quality: 80, colour };
            let shape = shape(width, height, samples);
            let src = picture(shape);
            let mut out = Vec::new();
            encode(&params, &src, shape, &mut out, &mut scratch).unwrap();
            assert_eq!(out, encoded(80, colour, &src, shape).unwrap());
        }
    }

    #[test]
    fn portable_and_dispatched_code_agree() {
        for (colour, samples) in
            [(EncodeColour::Stored, 3), (HALF_BOTH, 3), (HALF_ACROSS, 3), (EncodeColour::Stored, 2)]
        {
            let shape = shape(77, 53, samples);
            let src = picture(shape);
            let params = EncodeParams { quality: 85, colour };
            let mut out = Vec::new();
            encode_portable(
                &params,
                &FrameLayout::new(&params, samples).unwrap(),
                &src,
                shape,
                &mut out,
                &mut Vec::new(),
            );
            assert_eq!(out, encoded(85, colour, &src, shape).unwrap());
        }
    }

    #[test]
    fn unsupported_blocks_are_refused() {
        let unsuited = |quality, colour, shape: Shape| {
            let refused = encoded(quality, colour, &vec![0; shape.len()], shape);
            matches!(refused, Err(Error::Unsuited { codec: CODEC, .. }))
        };
        let stored = EncodeColour::Stored;
        assert!(unsuited(0, stored, shape(8, 8, 1)) && unsuited(101, stored, shape(8, 8, 1)));
        assert!(unsuited(75, stored, shape(8, 8, 0)) && unsuited(75, stored, shape(8, 8, 5)));
        assert!(unsuited(75, FULL, shape(8, 8, 1)) && unsuited(75, FULL, shape(8, 8, 4)));
        assert!(unsuited(75, EncodeColour::YCbCr { subsampling: (4, 1) }, shape(8, 8, 3)));
        assert!(unsuited(75, stored, Shape { bits: 16, ..shape(8, 8, 1) }));
        assert!(unsuited(75, stored, Shape { format: SampleFormat::Int, ..shape(8, 8, 1) }));
        assert!(unsuited(75, stored, shape(0, 8, 1)) && unsuited(75, stored, shape(8, 0, 1)));
        assert!(unsuited(75, stored, shape(65501, 1, 1)) && unsuited(75, stored, shape(1, 65501, 1)));
        assert!(!unsuited(75, stored, shape(65500, 1, 1)));
        assert!(encode_tables(&EncodeParams { quality: 75, colour: FULL }, 1).is_err());
        let short = encoded(75, stored, &[0; 63], shape(8, 8, 1));
        assert!(matches!(short, Err(Error::Mismatch { what: "input bytes", found: 63, .. })));
    }
}
