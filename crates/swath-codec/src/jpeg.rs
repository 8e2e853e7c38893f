//! JPEG (compression 7): an abbreviated or complete JPEG stream in each block.
//!
//! A decoder of our own, because none of the Rust crates does all that TIFF files hold (8 and 12 bit, lossless, any number of
//! components) with the pixels that libjpeg gives, and without guessing the colour space from markers: in a
//! TIFF the PhotometricInterpretation tag decides. Sequential, progressive and lossless Huffman coding; arithmetic
//! coding is refused.

mod header;
mod huffman;
mod idct;
mod lossless;
mod scan;
mod upsample;

use crate::{Error, Result, Shape};
use header::{Coding, Frame, Scan, Tables};
use huffman::{Bits, find_marker};
use scan::{Ended, Plane, Progress, padded_blocks};
use upsample::{Rows, rgb};

const CODEC: &str = "JPEG";

/// PhotometricInterpretation of YCbCr.
const YCBCR: u16 = 6;

/// A progressive image needs about ten scans. More than this is a way to make a decoder work for nothing.
const MAX_SCANS: usize = 100;

/// What a frame may exceed the block by, since the last strip of a file may hold rows that the image does not have.
const SLACK: u64 = 64 << 20;

/// What the TIFF tags say about the streams.
#[derive(Debug, Clone, Copy, Default)]
pub struct Params<'a> {
    /// The JPEGTables tag (347): a stream of tables that all blocks share.
    pub tables: Option<&'a [u8]>,
    /// The PhotometricInterpretation tag. 6 (YCbCr) with three samples is converted to RGB; all else is left as stored,
    /// whatever the stream's own markers say about its colours.
    pub photometric: u16,
}

/// Decodes one block.
///
/// `shape.bits` is 8, or 16 for streams of 9 to 16 bits per sample: a file with BitsPerSample 12 is decoded into native-endian 16-bit
/// samples. Rows that the stream has beyond the block are dropped.
pub fn decode(params: &Params<'_>, src: &[u8], shape: Shape, dst: &mut [u8]) -> Result<()> {
    let colour = if params.photometric == YCBCR { Colour::Jfif } else { Colour::AsStored };
    let mut decoder = Decoder::new(colour, shape);
    if let Some(tables) = params.tables {
        decoder.read_tables(tables)?;
    }
    decoder.decode(src, dst)
}

/// The error for a stream that breaks a rule.
fn corrupt(what: &'static str) -> Error {
    Error::Corrupt { codec: CODEC, what }
}

/// What is done to the components.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Colour {
    /// Nothing.
    AsStored,
    /// Three components are YCbCr as JFIF defines it and become RGB, chroma interpolated.
    Jfif,
}

/// The decoder of one block.
pub(crate) struct Decoder {
    colour: Colour,
    shape: Shape,
    tables: Tables,
}

impl Decoder {
    pub(crate) fn new(colour: Colour, shape: Shape) -> Decoder {
        Decoder { colour, shape, tables: Tables::default() }
    }

    /// Reads a stream that only has tables.
    pub(crate) fn read_tables(&mut self, src: &[u8]) -> Result<()> {
        let mut at = 0;
        while let Some((marker, body)) = next_segment(src, &mut at)? {
            if self.define(marker, body)? == Defined::End {
                break;
            }
        }
        Ok(())
    }

    /// Takes in a table, or says that the segment is none.
    fn define(&mut self, marker: u8, body: &[u8]) -> Result<Defined> {
        match marker {
            0xd9 => return Ok(Defined::End),
            0xdb => self.tables.define_quant(body)?,
            0xc4 => self.tables.define_huffman(body)?,
            0xdd => self.tables.define_restart(body)?,
            _ => return Ok(Defined::Other),
        }
        Ok(Defined::Table)
    }

    /// Decodes a stream into `dst`.
    pub(crate) fn decode(self, src: &[u8], dst: &mut [u8]) -> Result<()> {
        let want = self.shape.len();
        if dst.len() != want {
            let (found, expected) = (dst.len() as u64, want as u64);
            return Err(Error::Mismatch { codec: CODEC, what: "output bytes", found, expected });
        }
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor has the features that the function is compiled for.
            return unsafe { decode_avx2(self, src, dst) };
        }
        self.decode_portable(src, dst)
    }

    #[inline(always)]
    fn decode_portable(mut self, src: &[u8], dst: &mut [u8]) -> Result<()> {
        let mut at = 0;
        let mut image: Option<Image> = None;
        let mut ended = false;
        while let Some((marker, body)) = next_segment(src, &mut at)? {
            match (marker, &mut image) {
                (0xc0..=0xcf, _) if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                    if image.is_some() {
                        return Err(corrupt("it has two frames"));
                    }
                    image = Some(Image::new(Frame::parse(marker, body)?, self.shape)?);
                }
                (0xda, None) => return Err(corrupt("a scan comes before the frame")),
                (0xda, Some(image)) => match image.scan(body, &self.tables, src, at, self.shape)? {
                    Ended::Complete(behind) => at = behind,
                    Ended::Cut { row } => return Err(image.truncated(row, self.shape)),
                },
                _ => {
                    if self.define(marker, body)? == Defined::End {
                        ended = true;
                        break;
                    }
                }
            }
            if image.as_ref().is_some_and(Image::needs_no_more) {
                break;
            }
        }
        match image {
            None => Err(Error::Truncated { codec: CODEC, got: 0, want: self.shape.len() }),
            Some(image) => image.finish(ended, self.colour, self.shape, dst),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
fn decode_avx2(decoder: Decoder, src: &[u8], dst: &mut [u8]) -> Result<()> {
    decoder.decode_portable(src, dst)
}

#[derive(PartialEq)]
enum Defined {
    Table,
    End,
    Other,
}

/// The next marker and the body of its segment; `None` at the end of the data. `at` moves behind it.
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

/// The frame while its scans come in.
struct Image {
    frame: Frame,
    planes: Vec<Plane>,
    progress: Option<Progress>,
    /// Which components have had a scan.
    seen: Vec<bool>,
    scans: usize,
}

impl Image {
    /// Checks the frame against the block before anything is allocated.
    fn new(frame: Frame, shape: Shape) -> Result<Image> {
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
        // Raw camera files (DNG) code a row of one sample as half a row of two: the order of samples is the same.
        let folded = lossless && frame.width * frame.components.len() == shape.width * shape.samples;
        if !folded && frame.components.len() != shape.samples {
            return mismatch("bands", frame.components.len(), shape.samples);
        }
        if !folded && frame.width != shape.width {
            return mismatch("width", frame.width, shape.width);
        }
        if frame.height < shape.height {
            return mismatch("height", frame.height, shape.height);
        }
        let progressive = frame.coding == Coding::Progressive;
        let mut samples = 0u64;
        let mut sizes = Vec::with_capacity(frame.components.len());
        for component in &frame.components {
            let (stride, height) = match lossless {
                true => (frame.width, frame.height),
                false => {
                    let (across, down) = padded_blocks(&frame, component);
                    (across * 8, down * 8)
                }
            };
            samples += stride as u64 * height as u64;
            sizes.push((stride, height));
        }
        let needed = samples * if progressive { 4 } else { 2 };
        let limit = 8 * shape.len() as u64 + SLACK;
        if needed > limit {
            return Err(Error::Memory { codec: CODEC, needed, limit });
        }
        let planes = sizes.iter().map(|&(stride, height)| Plane { samples: vec![0; stride * height], stride }).collect();
        let progress = progressive.then(|| Progress::new(&frame));
        Ok(Image { seen: vec![false; frame.components.len()], frame, planes, progress, scans: 0 })
    }

    #[inline(always)]
    fn scan(&mut self, body: &[u8], tables: &Tables, src: &[u8], at: usize, shape: Shape) -> Result<Ended> {
        let scan = Scan::parse(body, &self.frame)?;
        self.scans += 1;
        if self.scans > MAX_SCANS {
            return Err(corrupt("it has more than 100 scans"));
        }
        for member in &scan.components {
            self.seen[member.index] = true;
        }
        let bits = Bits::new(src, at);
        // Interpolation looks one chroma row beyond the last row that is wanted.
        let rows = shape.height + 2;
        match (&mut self.progress, self.frame.coding) {
            (Some(progress), _) => progress.scan(&self.frame, &scan, tables, bits),
            (None, Coding::Lossless) => lossless::lossless(&self.frame, &scan, tables, bits, rows, &mut self.planes),
            (None, _) => scan::sequential(&self.frame, &scan, tables, bits, rows, &mut self.planes),
        }
    }

    /// True when every component has had its only scan: what follows is not looked at.
    fn needs_no_more(&self) -> bool {
        self.progress.is_none() && self.seen.iter().all(|&seen| seen)
    }

    fn truncated(&self, mcu_row: usize, shape: Shape) -> Error {
        let rows = match self.frame.coding {
            Coding::Sequential => mcu_row * 8 * self.frame.v_max,
            Coding::Lossless => mcu_row,
            Coding::Progressive => 0,
        };
        let got = rows.min(shape.height) * shape.row_bytes();
        Error::Truncated { codec: CODEC, got, want: shape.len() }
    }

    /// Writes the pixels once all scans are in. `ended`: the stream said that it is complete.
    #[inline(always)]
    fn finish(mut self, ended: bool, colour: Colour, shape: Shape, dst: &mut [u8]) -> Result<()> {
        if self.seen.iter().any(|&seen| !seen) {
            return Err(self.truncated(0, shape));
        }
        if let Some(progress) = &self.progress {
            if !ended && !progress.is_complete() {
                return Err(self.truncated(0, shape));
            }
            progress.finish(self.frame.precision, &mut self.planes)?;
        }
        let mut components = Vec::with_capacity(self.planes.len());
        for (component, plane) in self.frame.components.iter().zip(&self.planes) {
            components.push(Rows::new(&self.frame, component, plane, true)?);
        }
        let (width, precision) = (self.frame.width, self.frame.precision);
        for (y, out) in dst.chunks_exact_mut(shape.row_bytes()).take(shape.height).enumerate() {
            match (&mut components[..], colour) {
                ([luma, blue, red], Colour::Jfif) => {
                    let (luma, blue, red) = (&luma.row(y)[..width], &blue.row(y)[..width], &red.row(y)[..width]);
                    let pixels = luma.iter().zip(blue).zip(red).map(|((&y, &cb), &cr)| rgb(y, cb, cr, precision));
                    match shape.bits {
                        8 => out.as_chunks_mut::<3>().0.iter_mut().zip(pixels).for_each(|(out, rgb)| {
                            *out = rgb.map(|value| value as u8);
                        }),
                        _ => out.as_chunks_mut::<6>().0.iter_mut().zip(pixels).for_each(|(out, rgb)| {
                            let [r, g, b] = rgb.map(|value| (value as u16).to_ne_bytes());
                            *out = [r[0], r[1], g[0], g[1], b[0], b[1]];
                        }),
                    }
                }
                (components, _) => {
                    let count = components.len();
                    for (n, component) in components.iter_mut().enumerate() {
                        interleave(&component.row(y)[..width], out, n, count, shape.bits);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Puts one component of a row into its places among `count` interleaved ones.
#[inline(always)]
fn interleave(row: &[u16], out: &mut [u8], n: usize, count: usize, bits: usize) {
    if bits == 8 {
        out.iter_mut().skip(n).step_by(count).zip(row).for_each(|(out, &sample)| *out = sample as u8);
    } else {
        let samples = out.as_chunks_mut::<2>().0;
        samples.iter_mut().skip(n).step_by(count).zip(row).for_each(|(out, &sample)| *out = sample.to_ne_bytes());
    }
}
