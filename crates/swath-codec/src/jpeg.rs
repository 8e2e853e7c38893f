//! JPEG (compression 7): an abbreviated or complete JPEG stream in each block.
//!
//! Swath has its own decoder because no Rust crate meets three requirements: it supports everything that TIFF
//! files contain (8 and 12 bits, lossless, any number of components), it returns the pixels that libjpeg
//! returns, and it does not guess the colour space from markers, because in a TIFF the
//! PhotometricInterpretation tag decides. The decoder supports sequential, progressive and lossless Huffman
//! coding. It refuses arithmetic coding.

mod abbreviate;
mod downsample;
mod encode;
mod entropy;
mod fdct;
mod header;
mod huffman;
mod idct;
mod lossless;
mod output;
mod scan;
mod upsample;

pub use abbreviate::abbreviate;
pub use encode::{EncodeColour, EncodeParams, EncodeScratch, encode, encode_tables};

use crate::{Error, Result, Shape, color, memory};
use header::{Coding, Frame, Scan, Tables};
use huffman::{Bits, find_marker};
use output::Output;
use scan::{Ended, Plane, Progress, Sequential, padded_blocks, walk};

const CODEC: &str = "JPEG";

const DHT: u8 = 0xc4;
const EOI: u8 = 0xd9;
const SOS: u8 = 0xda;
const DQT: u8 = 0xdb;
const DRI: u8 = 0xdd;

/// PhotometricInterpretation of YCbCr.
const YCBCR: u16 = 6;

/// The limit on scans. A progressive image needs about ten; a stream with many more only wastes the decoder's
/// time.
const MAX_SCANS: usize = 100;

/// The number of rows by which a frame may exceed the block: the last strip of a file may contain rows outside
/// the image.
const SLACK: u64 = 64 << 20;

/// The number of pixel rows by which decoding runs ahead of writing: interpolation reads one chroma row after
/// the last row.
const CONTEXT: usize = 2;

/// The TIFF tags that affect the streams.
#[derive(Debug, Clone, Copy, Default)]
pub struct Params<'a> {
    /// The JPEGTables tag (347): a stream of tables that all blocks share.
    pub tables: Option<&'a [u8]>,
    /// The PhotometricInterpretation tag. 6 (YCbCr) with three samples is converted to RGB. All other values
    /// return the stored samples, even if the markers of the stream describe other colours.
    pub photometric: u16,
}

/// Decodes one block.
///
/// `shape.bits` is 8, or 16 for streams of 9 to 16 bits per sample: a file with BitsPerSample 12 is decoded
/// into native-endian 16-bit samples. As in libtiff, a stream may have more rows than the block, which are
/// dropped (some writers produce such last strips), or fewer rows or columns, which become zeros in the block
/// (tiles that end at the edge of the image). A wider stream is an error.
pub fn decode(params: &Params<'_>, src: &[u8], shape: Shape, dst: &mut [u8]) -> Result<()> {
    decode_within(params, src, shape, dst, u64::MAX)
}

/// Decodes like [`decode`], with at most `max_memory` bytes for the planes.
pub(crate) fn decode_within(
    params: &Params<'_>,
    src: &[u8],
    shape: Shape,
    dst: &mut [u8],
    max_memory: u64,
) -> Result<()> {
    let colour = if params.photometric == YCBCR { Colour::Jfif } else { Colour::AsStored };
    let mut decoder = Decoder::new(colour, shape, max_memory);
    if let Some(tables) = params.tables {
        decoder.read_tables(tables)?;
    }
    decoder.decode(src, dst)
}

/// Returns the error for a stream that breaks a rule.
fn corrupt(what: &'static str) -> Error {
    Error::Corrupt { codec: CODEC, what }
}

/// The colour conversion of the components.
pub(crate) enum Colour {
    /// No conversion.
    AsStored,
    /// Three components are YCbCr as JFIF defines it. They become RGB, with interpolated chroma.
    Jfif,
    /// Three components are YCbCr as the TIFF tags define it. They become RGB, with repeated chroma.
    Tiff(Box<color::Tables>),
}

/// The decoder of one block.
pub(crate) struct Decoder {
    colour: Colour,
    shape: Shape,
    tables: Tables,
    /// The number of bytes that the planes may take.
    max_memory: u64,
}

impl Decoder {
    pub(crate) fn new(colour: Colour, shape: Shape, max_memory: u64) -> Decoder {
        Decoder { colour, shape, tables: Tables::default(), max_memory }
    }

    /// Reads a stream that contains only tables.
    pub(crate) fn read_tables(&mut self, src: &[u8]) -> Result<()> {
        let mut at = 0;
        while let Some((marker, body)) = next_segment(src, &mut at)? {
            if marker == EOI {
                break;
            }
            self.tables.define(marker, body)?;
        }
        Ok(())
    }

    /// Decodes a stream into `dst`.
    pub(crate) fn decode(self, src: &[u8], dst: &mut [u8]) -> Result<()> {
        let want = self.shape.len();
        if dst.len() != want {
            let (found, expected) = (dst.len() as u64, want as u64);
            return Err(Error::Mismatch { codec: CODEC, what: "output bytes", found, expected });
        }
        #[cfg(target_arch = "x86_64")]
        if has_avx2() {
            // The same code for wider registers is 1.4 times as fast on 4:2:0 images.
            // SAFETY: the CPU has the features for which the function is compiled.
            return unsafe { decode_avx2(self, src, dst) };
        }
        self.decode_portable(src, dst)
    }

    #[inline(always)]
    fn decode_portable(self, src: &[u8], dst: &mut [u8]) -> Result<()> {
        let mut at = 0;
        let Decoder { colour, shape, mut tables, max_memory } = self;
        let mut image: Option<Image<'_>> = None;
        let mut target = Some((colour, dst));
        while let Some((marker, body)) = next_segment(src, &mut at)? {
            match (marker, &mut image) {
                (0xc0..=0xcf, image) if !matches!(marker, DHT | 0xc8 | 0xcc) => {
                    let (colour, dst) = target.take().ok_or(corrupt("it has two frames"))?;
                    *image = Some(Image::new(Frame::parse(marker, body)?, shape, max_memory, colour, dst)?);
                }
                (SOS, None) => return Err(corrupt("a scan comes before the frame")),
                (SOS, Some(image)) => match image.scan(body, &tables, src, at)? {
                    Ended::Complete(behind) => at = behind,
                    Ended::Cut { row } => return Err(image.truncated(row)),
                },
                (EOI, image) => {
                    if let Some(image) = image {
                        image.ended = true;
                    }
                    break;
                }
                _ => tables.define(marker, body)?,
            }
            if image.as_ref().is_some_and(Image::needs_no_more) {
                break;
            }
        }
        image.ok_or(Error::Truncated { codec: CODEC, got: 0, want: shape.len() })?.finish()
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    use std::is_x86_feature_detected as has;
    has!("avx2") && has!("bmi1") && has!("bmi2") && has!("lzcnt")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
fn decode_avx2(decoder: Decoder, src: &[u8], dst: &mut [u8]) -> Result<()> {
    decoder.decode_portable(src, dst)
}

/// Returns the next marker and the body of its segment, or `None` at the end of the data. `at` moves past the
/// segment.
fn next_segment<'a>(src: &'a [u8], at: &mut usize) -> Result<Option<(u8, &'a [u8])>> {
    let Some((marker, behind)) = find_marker(src, *at) else { return Ok(None) };
    *at = behind;
    if matches!(marker, 0x01 | 0xd0..=0xd9) {
        return Ok(Some((marker, &[])));
    }
    let length = src.get(behind..).and_then(|rest| rest.first_chunk::<2>());
    let Some(length) = length.map(|bytes| usize::from(u16::from_be_bytes(*bytes))) else { return Ok(None) };
    if length < 2 {
        return Err(corrupt("a marker segment is shorter than its length field"));
    }
    let Some(body) = src.get(behind + 2..behind + length) else { return Ok(None) };
    *at = behind + length;
    Ok(Some((marker, body)))
}

/// The frame while its scans are decoded.
struct Image<'a> {
    frame: Frame,
    shape: Shape,
    max_memory: u64,
    /// Empty until the first scan.
    planes: Vec<Plane>,
    progress: Option<Progress>,
    output: Output<'a>,
    /// The components that have had a scan.
    seen: Vec<bool>,
    scans: usize,
    /// Whether the end marker of the stream was read.
    ended: bool,
}

impl<'a> Image<'a> {
    /// Checks the frame against the block before any allocation.
    fn new(frame: Frame, shape: Shape, max_memory: u64, colour: Colour, dst: &'a mut [u8]) -> Result<Image<'a>> {
        let mismatch = |what, found: usize, expected: usize| {
            Err(Error::Mismatch { codec: CODEC, what, found: found as u64, expected: expected as u64 })
        };
        let lossless = frame.coding == Coding::Lossless;
        let held = match frame.precision {
            8 => shape.bits == 8 || (lossless && shape.bits == 16),
            12 => shape.bits == 16,
            2..=7 => lossless && matches!(shape.bits, 8 | 16),
            9..=16 => lossless && shape.bits == 16,
            _ => return Err(corrupt("its bits per sample are not 2 to 16")),
        };
        if !held {
            return mismatch("bits per sample", frame.precision as usize, shape.bits);
        }
        // Raw camera files (DNG) code a row of one sample as half a row of two samples: the order of the
        // samples is the same.
        let folded = lossless && frame.width * frame.components.len() == shape.width * shape.samples;
        if !folded && frame.components.len() != shape.samples {
            return mismatch("bands", frame.components.len(), shape.samples);
        }
        if !folded && frame.width > shape.width {
            return mismatch("width", frame.width, shape.width);
        }
        let output = Output::new(&frame, shape, colour, dst)?;
        let seen = vec![false; frame.components.len()];
        Ok(Image { frame, shape, max_memory, planes: Vec::new(), progress: None, output, seen, scans: 0, ended: false })
    }

    /// Allocates the planes: two rows of MCUs if `streamed`, otherwise all rows.
    fn allocate(&mut self, streamed: bool) -> Result<()> {
        let frame = &self.frame;
        let sizes = frame.components.iter().map(|component| match frame.coding {
            Coding::Lossless => (frame.width, frame.height),
            _ if streamed => (padded_blocks(frame, component).0 * 8, 2 * 8 * component.v),
            _ => (padded_blocks(frame, component).0 * 8, padded_blocks(frame, component).1 * 8),
        });
        let samples: u64 = sizes.clone().map(|(stride, rows)| stride as u64 * rows as u64).sum();
        let progressive = frame.coding == Coding::Progressive;
        let needed = samples * if progressive { 4 } else { 2 };
        let limit = 8 * self.shape.len() as u64 + SLACK;
        if needed > limit {
            return Err(Error::Memory { codec: CODEC, needed, limit });
        }
        memory::check_limit(CODEC, needed, self.max_memory)?;
        memory::check(CODEC, usize::try_from(needed).unwrap_or(usize::MAX))?;
        self.planes = sizes.map(|(stride, rows)| Plane { samples: vec![0; stride * rows], stride, rows }).collect();
        self.progress = progressive.then(|| Progress::new(frame));
        Ok(())
    }

    #[inline(always)]
    fn scan(&mut self, body: &[u8], tables: &Tables, src: &[u8], at: usize) -> Result<Ended> {
        let scan = Scan::parse(body, &self.frame)?;
        self.scans += 1;
        if self.scans > MAX_SCANS {
            return Err(corrupt("it has more than 100 scans"));
        }
        // The usual case: one scan contains everything, and pixels are written as soon as their rows are
        // complete.
        let streamed = self.frame.coding == Coding::Sequential && scan.components.len() == self.frame.components.len();
        if self.planes.is_empty() {
            self.allocate(streamed)?;
        }
        for member in &scan.components {
            self.seen[member.index] = true;
        }
        let bits = Bits::new(src, at);
        let (frame, planes, output) = (&self.frame, &mut self.planes[..], &mut self.output);
        // Interpolation reads one chroma row after the last requested row.
        let rows = self.shape.height + CONTEXT;
        match (&mut self.progress, frame.coding) {
            (Some(progress), _) => progress.scan(frame, &scan, tables, bits),
            (None, Coding::Lossless) => lossless::lossless(frame, &scan, tables, bits, rows, planes),
            (None, _) => {
                let mut visitor = Sequential::new(frame, &scan, tables, planes, streamed.then_some(output))?;
                walk(frame, &scan, tables.restart, bits, rows, &mut visitor)
            }
        }
    }

    /// Whether every component has had its only scan. Data after it is ignored.
    fn needs_no_more(&self) -> bool {
        self.progress.is_none() && self.seen.iter().all(|&seen| seen)
    }

    fn truncated(&self, mcu_row: usize) -> Error {
        let rows = match self.frame.coding {
            Coding::Sequential => mcu_row * 8 * self.frame.v_max,
            Coding::Lossless => mcu_row,
            Coding::Progressive => 0,
        };
        let got = rows.min(self.shape.height) * self.shape.row_bytes();
        Error::Truncated { codec: CODEC, got, want: self.shape.len() }
    }

    /// Writes the remaining rows after all scans.
    #[inline(always)]
    fn finish(mut self) -> Result<()> {
        if self.seen.iter().any(|&seen| !seen) {
            return Err(self.truncated(0));
        }
        if let Some(progress) = &self.progress {
            if !self.ended && !progress.is_complete() {
                return Err(self.truncated(0));
            }
            progress.finish(self.frame.precision, &mut self.planes)?;
        }
        self.output.finish(&self.planes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SampleFormat;

    macro_rules! fixture {
        ($name:literal) => {
            include_bytes!(concat!("../testdata/jpeg-", $name)).as_slice()
        };
    }

    fn shape(width: usize, height: usize, samples: usize, bits: usize) -> Shape {
        Shape { width, height, samples, bits, format: SampleFormat::Uint }
    }

    struct Case {
        params: Params<'static>,
        shape: Shape,
        stream: &'static [u8],
        /// Little-endian.
        pixels: &'static [u8],
    }

    fn case(photometric: u16, shape: Shape, stream: &'static [u8], pixels: &'static [u8]) -> Case {
        Case { params: Params { tables: None, photometric }, shape, stream, pixels }
    }

    fn cases() -> Vec<Case> {
        let mut rgb = case(2, shape(32, 32, 3, 8), fixture!("rgb.jpg"), fixture!("rgb.raw"));
        rgb.params.tables = Some(fixture!("rgb.tables"));
        vec![
            case(6, shape(45, 19, 3, 8), fixture!("420.jpg"), fixture!("420.raw")),
            case(6, shape(37, 27, 3, 8), fixture!("422-progressive.jpg"), fixture!("422-progressive.raw")),
            case(5, shape(32, 16, 4, 8), fixture!("cmyk.jpg"), fixture!("cmyk.raw")),
            rgb,
            case(1, shape(32, 32, 1, 16), fixture!("12bit.jpg"), fixture!("12bit.raw")),
            case(1, shape(30, 20, 1, 16), fixture!("lossless.jpg"), fixture!("lossless.raw")),
        ]
    }

    fn decoded(case: &Case, stream: &[u8]) -> Result<Vec<u8>> {
        let mut dst = vec![0xa5; case.shape.len()];
        decode(&case.params, stream, case.shape, &mut dst)?;
        if case.shape.bits == 16 && cfg!(target_endian = "big") {
            dst.as_chunks_mut::<2>().0.iter_mut().for_each(|sample| sample.reverse());
        }
        Ok(dst)
    }

    /// Returns the stream with another frame height and width.
    fn resized(stream: &[u8], height: u16, width: u16) -> Vec<u8> {
        let mut stream = stream.to_vec();
        let at = stream.windows(2).position(|w| w[0] == 0xff && (0xc0..=0xc3).contains(&w[1])).unwrap();
        stream[at + 5..at + 7].copy_from_slice(&height.to_be_bytes());
        stream[at + 7..at + 9].copy_from_slice(&width.to_be_bytes());
        stream
    }

    #[test]
    fn pixels_are_bit_identical_to_libjpeg() {
        for case in cases() {
            assert_eq!(decoded(&case, case.stream).unwrap(), case.pixels, "{:?}", case.shape);
        }
    }

    #[test]
    fn portable_and_dispatched_code_agree() {
        for case in cases() {
            let colour = if case.params.photometric == YCBCR { Colour::Jfif } else { Colour::AsStored };
            let mut decoder = Decoder::new(colour, case.shape, u64::MAX);
            decoder.read_tables(case.params.tables.unwrap_or(&[])).unwrap();
            let mut dst = vec![0; case.shape.len()];
            decoder.decode_portable(case.stream, &mut dst).unwrap();
            let mut dispatched = vec![0; case.shape.len()];
            decode(&case.params, case.stream, case.shape, &mut dispatched).unwrap();
            assert_eq!(dst, dispatched);
        }
    }

    #[test]
    fn photometric_tag_decides_the_colour_not_the_markers() {
        // A JFIF stream, which is YCbCr by its own markers, in a file whose tags say RGB.
        let mut case = cases().swap_remove(0);
        let converted = decoded(&case, case.stream).unwrap();
        case.params.photometric = 2;
        let stored = decoded(&case, case.stream).unwrap();
        for (stored, rgb) in stored.chunks_exact(3).zip(converted.chunks_exact(3)) {
            let luma = 0.299 * f32::from(rgb[0]) + 0.587 * f32::from(rgb[1]) + 0.114 * f32::from(rgb[2]);
            let clipped = rgb.iter().any(|&value| value == 0 || value == 255);
            assert!(clipped || (f32::from(stored[0]) - luma).abs() < 2.0);
        }
    }

    #[test]
    fn truncated_stream_is_an_error_not_grey_pixels() {
        for case in cases() {
            for length in 0..case.stream.len() {
                match decoded(&case, &case.stream[..length]) {
                    // Only bytes without pixels may be missing: the end marker and padding bits.
                    Ok(pixels) => assert!(pixels == case.pixels && length + 3 >= case.stream.len(), "{length}"),
                    Err(Error::Truncated { got, want, .. }) => assert!(got < want && want == case.shape.len()),
                    Err(error) => panic!("{length}: {error}"),
                }
            }
        }
    }

    #[test]
    fn missing_end_marker_is_accepted() {
        for case in cases() {
            assert_eq!(decoded(&case, &case.stream[..case.stream.len() - 2]).unwrap(), case.pixels);
        }
    }

    #[test]
    fn flipped_bits_do_not_panic() {
        for case in cases() {
            let mut stream = case.stream.to_vec();
            for bit in 0..stream.len() * 8 {
                stream[bit / 8] ^= 1 << (bit % 8);
                let _ = decoded(&case, &stream);
                stream[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn flipped_bits_in_the_shared_tables_do_not_panic() {
        let case = cases().swap_remove(3);
        let mut tables = case.params.tables.unwrap().to_vec();
        for bit in 0..tables.len() * 8 {
            tables[bit / 8] ^= 1 << (bit % 8);
            let params = Params { tables: Some(&tables), ..case.params };
            let _ = decode(&params, case.stream, case.shape, &mut vec![0; case.shape.len()]);
            tables[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn rows_beyond_the_block_are_dropped() {
        for case in cases() {
            for height in 1..case.shape.height {
                let cut = Case { shape: Shape { height, ..case.shape }, ..case };
                let pixels = decoded(&cut, case.stream).unwrap();
                assert_eq!(pixels, case.pixels[..cut.shape.len()], "{height}");
            }
        }
    }

    #[test]
    fn block_larger_than_the_stream_gets_zeros() {
        for case in cases() {
            let Shape { width, height, .. } = case.shape;
            let larger = Case { shape: Shape { width: width + 3, height: height + 2, ..case.shape }, ..case };
            // A lossless stream of one band differs from a folded one only in its width.
            let pixels = decoded(&larger, case.stream).unwrap();
            let (narrow, wide) = (case.shape.row_bytes(), larger.shape.row_bytes());
            for (y, row) in pixels.chunks_exact(wide).enumerate() {
                match case.pixels.chunks_exact(narrow).nth(y) {
                    Some(want) => assert_eq!(&row[..narrow], want),
                    None => assert!(row[..narrow].iter().all(|&byte| byte == 0)),
                }
                assert!(row[narrow..].iter().all(|&byte| byte == 0));
            }
        }
    }

    #[test]
    fn frame_that_does_not_fit_is_refused_before_allocation() {
        for case in cases() {
            let huge = resized(case.stream, 65535, 65535);
            assert!(matches!(decoded(&case, &huge), Err(Error::Mismatch { what: "width", found: 65535, .. })));
            // A tall frame may be a last strip; its rows after the block are not read.
            let tall = resized(case.stream, 65535, case.shape.width as u16);
            match decoded(&case, &tall) {
                Ok(_) | Err(Error::Truncated { .. } | Error::Corrupt { .. } | Error::Memory { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn other_bits_bands_and_buffers_are_mismatches() {
        let case = cases().swap_remove(0);
        let refused = |shape: Shape| decode(&case.params, case.stream, shape, &mut vec![0; shape.len()]).unwrap_err();
        assert!(matches!(refused(shape(45, 19, 3, 16)), Error::Mismatch { what: "bits per sample", found: 8, .. }));
        assert!(matches!(refused(shape(45, 19, 1, 8)), Error::Mismatch { what: "bands", found: 3, .. }));
        let short = decode(&case.params, case.stream, case.shape, &mut [0; 7]);
        assert!(matches!(short, Err(Error::Mismatch { what: "output bytes", found: 7, .. })));
        assert!(matches!(decoded(&cases()[4], fixture!("420.jpg")), Err(Error::Mismatch { .. })));
    }

    #[test]
    fn arithmetic_coding_is_refused_by_name() {
        let case = cases().swap_remove(0);
        let mut stream = case.stream.to_vec();
        let at = stream.windows(2).position(|w| w == [0xff, 0xc0]).unwrap();
        stream[at + 1] = 0xc9;
        assert_eq!(decoded(&case, &stream), Err(Error::Unsuited { codec: CODEC, what: "arithmetic coding" }));
    }
}
