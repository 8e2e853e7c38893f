//! Old-style JPEG (compression 6), as TIFF 6.0 section 22 defines it and as writers have implemented it.
//!
//! Three layouts occur: the block is a complete stream (whatever the tags contain); the block is the scan, and
//! its header is at JPEGInterchangeFormat; or the block is only entropy-coded data, and the tables are in
//! separate tags. This module converts all of them to one ordinary stream.
//!
//! If there are several blocks, they are often parts of one stream: the header describes the whole image, and
//! each block is one or more restart intervals of its only scan. libtiff puts the blocks together again, with a
//! restart marker between them. A restart interval depends on nothing before it, so this module decodes each
//! block alone: it changes the height in the header and the numbers of the restart markers.

use crate::color::YCbCr;
use crate::jpeg::{Colour, Decoder};
use crate::{Error, Result, Shape};

const CODEC: &str = "old-style JPEG";

/// The TIFF tags that affect the streams. The caller reads the byte ranges.
#[derive(Debug, Clone, Copy)]
pub struct Params<'a> {
    /// The bytes at JPEGInterchangeFormat (513): as many as JPEGInterchangeFormatLength (514) states, or up to
    /// the first block.
    pub interchange: Option<&'a [u8]>,
    /// For each component, the 64 bytes at its offset in JPEGQTables (519).
    pub quant_tables: &'a [&'a [u8]],
    /// For each component, the bytes from its offset in JPEGDCTables (520): 16 counts, then the symbols. More
    /// bytes may follow.
    pub dc_tables: &'a [&'a [u8]],
    /// The same for JPEGACTables (521).
    pub ac_tables: &'a [&'a [u8]],
    /// JPEGRestartInterval (515), 0 if absent.
    pub restart_interval: u16,
    /// Whether the image has more than one block. A stream may then describe the whole image.
    pub several_blocks: bool,
    /// YCbCrSubSampling (530).
    pub subsampling: (u16, u16),
    /// PhotometricInterpretation. 6 (YCbCr) with three samples is converted to RGB.
    pub photometric: u16,
    /// YCbCrCoefficients (529) and ReferenceBlackWhite (532).
    pub ycbcr: YCbCr,
}

impl Default for Params<'_> {
    /// The defaults of these tags in TIFF 6.0.
    fn default() -> Self {
        Params {
            interchange: None,
            quant_tables: &[],
            dc_tables: &[],
            ac_tables: &[],
            restart_interval: 0,
            several_blocks: false,
            subsampling: (2, 2),
            photometric: 6,
            ycbcr: YCbCr::default(),
        }
    }
}

/// Decodes one block of 8-bit samples.
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
    let colour = match params.photometric {
        6 => Colour::Tiff(Box::new(params.ycbcr.tables()?)),
        _ => Colour::AsStored,
    };
    let decoder = Decoder::new(colour, shape, max_memory);
    if src.starts_with(&[0xff, 0xd8]) {
        let header = Header::parse(src);
        if params.several_blocks && header.is_higher_than(shape) {
            let stream = header.joined_with(&src[header.end..], shape);
            return decoder.decode(&stream, dst);
        }
        return decoder.decode(src, dst);
    }
    if let Some(bytes) = params.interchange.filter(|bytes| params.several_blocks && bytes.starts_with(&[0xff, 0xd8])) {
        let header = Header::parse(bytes);
        if header.is_higher_than(shape) {
            return decoder.decode(&header.joined_with(src, shape), dst);
        }
    }
    let mut stream = match params.interchange {
        Some(header) if header.starts_with(&[0xff, 0xd8]) => header_of(header, src),
        _ => header_from_tables(params, shape)?,
    };
    stream.extend_from_slice(src);
    decoder.decode(&stream, dst)
}

/// Returns the part of the interchange stream that belongs before the block's own bytes.
fn header_of(header: &[u8], src: &[u8]) -> Vec<u8> {
    // The header ends after the segment of the scan, or before it if the block contains that segment itself.
    let mut at = 2;
    while let Some(&[0xff, marker, high, low]) = header.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        let behind = at + 2 + usize::from(u16::from_be_bytes([high, low]));
        if marker == 0xda {
            at = if src.starts_with(&[0xff, 0xda]) { at } else { behind };
            break;
        }
        if behind > header.len() {
            break;
        }
        at = behind;
    }
    header[..at.min(header.len())].to_vec()
}

/// The header of a stream that describes more rows than one block has.
struct Header<'a> {
    /// The bytes up to the data of the scan, or up to the segment of the scan if that is missing.
    bytes: &'a [u8],
    /// The length of `bytes`.
    end: usize,
    /// The position of the segment of the scan, if it is among the bytes.
    scan_at: Option<usize>,
    /// The position of the height in the segment of the frame.
    height_at: Option<usize>,
    /// The position of the segment of the restart interval.
    restart_at: Option<usize>,
}

impl<'a> Header<'a> {
    fn parse(stream: &'a [u8]) -> Header<'a> {
        let mut header = Header { bytes: stream, end: 2, scan_at: None, height_at: None, restart_at: None };
        while let Some(&[0xff, marker, high, low]) = stream.get(header.end..).and_then(|rest| rest.first_chunk::<4>()) {
            let behind = header.end + 2 + usize::from(u16::from_be_bytes([high, low]));
            if behind > stream.len() {
                break;
            }
            match marker {
                // The frames that the decoder supports: baseline, extended and progressive.
                0xc0..=0xc2 => header.height_at = Some(header.end + 5),
                0xdd => header.restart_at = Some(header.end),
                _ => {}
            }
            let at = std::mem::replace(&mut header.end, behind);
            if marker == 0xda {
                header.scan_at = Some(at);
                break;
            }
        }
        header.bytes = &stream[..header.end.min(stream.len())];
        header
    }

    /// Whether the frame has more rows than the block.
    fn is_higher_than(&self, shape: Shape) -> bool {
        let height = self.height_at.and_then(|at| self.bytes.get(at..at + 2));
        height.is_some_and(|bytes| usize::from(u16::from_be_bytes([bytes[0], bytes[1]])) > shape.height)
    }

    /// Returns a stream of one block: the header with the height of the block, and the data of the block with
    /// restart markers that count from 0.
    fn joined_with(&self, src: &[u8], shape: Shape) -> Vec<u8> {
        // A block can contain the segment of the scan itself.
        let end = self.scan_at.filter(|_| src.starts_with(&[0xff, 0xda])).unwrap_or(self.bytes.len());
        let mut stream = self.bytes[..end].to_vec();
        if let (Some(at), Ok(height)) = (self.height_at, u16::try_from(shape.height)) {
            stream[at..at + 2].copy_from_slice(&height.to_be_bytes());
        }
        let mut data = src;
        // A block may begin or end with the marker between two blocks.
        if let [0xff, 0xd0..=0xd7, rest @ ..] = data {
            data = rest;
        }
        if let [rest @ .., 0xff, 0xd0..=0xd7] = data {
            data = rest;
        }
        let start = stream.len();
        stream.extend_from_slice(data);
        // In the data of a scan, 0xff is followed by 0 unless it begins a marker.
        let mut number = 0;
        for at in start..stream.len().saturating_sub(1) {
            if stream[at] == 0xff && matches!(stream[at + 1], 0xd0..=0xd7) {
                stream[at + 1] = 0xd0 + number % 8;
                number += 1;
            }
        }
        if let Some(at) = self.restart_at.filter(|at| number == 0 && *at + 6 <= start) {
            // The interval is the whole block.
            stream[at + 4..at + 6].fill(0);
        }
        stream
    }
}

/// Builds a header from the tables in tags, with all parts that a sequential stream of one interleaved scan
/// needs.
fn header_from_tables(params: &Params<'_>, shape: Shape) -> Result<Vec<u8>> {
    let count = shape.samples;
    let side = |length: usize| {
        u16::try_from(length)
            .map_err(|_| Error::Unsuited { codec: CODEC, what: "blocks of more than 65,535 rows or columns" })
    };
    let (width, height) = (side(shape.width)?, side(shape.height)?);
    let (h, v) = params.subsampling;
    if !(1..=4).contains(&count) || !(1..=4).contains(&h) || !(1..=4).contains(&v) {
        return Err(Error::Unsuited { codec: CODEC, what: "more than four bands, or chroma of less than a quarter" });
    }
    let missing = Error::Corrupt { codec: CODEC, what: "the file has no tables for some component" };
    let mut stream = vec![0xff, 0xd8];
    let mut segment = |marker: u8, body: &[u8]| {
        stream.extend_from_slice(&[0xff, marker]);
        stream.extend_from_slice(&(body.len() as u16 + 2).to_be_bytes());
        stream.extend_from_slice(body);
    };
    let (mut frame, mut scan) = (vec![8], vec![count as u8]);
    frame.extend_from_slice(&height.to_be_bytes());
    frame.extend_from_slice(&width.to_be_bytes());
    frame.push(count as u8);
    for n in 0..count as u8 {
        let table = |tables: &[&'_ [u8]]| tables.get(usize::from(n)).map(|table| table.to_vec());
        let quant = table(params.quant_tables).filter(|table| table.len() >= 64).ok_or(missing.clone())?;
        segment(0xdb, &[&[n], &quant[..64]].concat());
        for (class, tables) in [(0u8, params.dc_tables), (0x10, params.ac_tables)] {
            let table = table(tables).filter(|table| table.len() >= 16).ok_or(missing.clone())?;
            let length = 16 + table[..16].iter().map(|&codes| usize::from(codes)).sum::<usize>();
            segment(0xc4, &[&[class | n], table.get(..length).ok_or(missing.clone())?].concat());
        }
        // Only luma has more than one sample per unit, and only if there is chroma.
        let sampling = if n == 0 && count == 3 { (h << 4 | v) as u8 } else { 0x11 };
        frame.extend_from_slice(&[n + 1, sampling, n]);
        scan.extend_from_slice(&[n + 1, n << 4 | n]);
    }
    scan.extend_from_slice(&[0, 63, 0]);
    segment(0xdd, &params.restart_interval.to_be_bytes());
    segment(0xc0, &frame);
    segment(0xda, &scan);
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SampleFormat, jpeg};

    const STREAM: &[u8] = include_bytes!("../testdata/jpeg-420.jpg");
    const SHAPE: Shape = Shape { width: 45, height: 19, samples: 3, bits: 8, format: SampleFormat::Uint };

    fn decoded(params: &Params<'_>, src: &[u8]) -> Result<Vec<u8>> {
        let mut dst = vec![0; SHAPE.len()];
        decode(params, src, SHAPE, &mut dst).map(|()| dst)
    }

    /// Returns the segments of the stream up to its scan, the start of the scan's segment, and the start of its
    /// data.
    fn segments() -> (Vec<(u8, &'static [u8])>, usize, usize) {
        let (mut at, mut found) = (2, Vec::new());
        loop {
            let length = usize::from(u16::from_be_bytes([STREAM[at + 2], STREAM[at + 3]]));
            if STREAM[at + 1] == 0xda {
                return (found, at, at + 2 + length);
            }
            found.push((STREAM[at + 1], &STREAM[at + 4..at + 2 + length]));
            at += 2 + length;
        }
    }

    #[test]
    fn all_three_layouts_give_the_same_pixels() {
        let complete = decoded(&Params::default(), STREAM).unwrap();

        // Old-style JPEG repeats chroma and the other decoder interpolates it, so the pixels are only close.
        let modern = jpeg::Params { tables: None, photometric: 6 };
        let mut smooth = vec![0; SHAPE.len()];
        jpeg::decode(&modern, STREAM, SHAPE, &mut smooth).unwrap();
        let distance: u32 = complete.iter().zip(&smooth).map(|(a, b)| u32::from(a.abs_diff(*b))).sum();
        assert!(complete != smooth && distance < 12 * SHAPE.len() as u32, "{distance}");

        let (segments, scan, data) = segments();
        let header = Params { interchange: Some(&STREAM[..scan]), ..Params::default() };
        assert_eq!(decoded(&header, &STREAM[scan..]).unwrap(), complete);
        let header = Params { interchange: Some(&STREAM[..data]), ..Params::default() };
        assert_eq!(decoded(&header, &STREAM[scan..]).unwrap(), complete);
        assert_eq!(decoded(&header, &STREAM[data..]).unwrap(), complete);

        let tables = |marker: u8, kind: u8| {
            let found = segments.iter().find(|(m, body)| *m == marker && body[0] == kind);
            &found.expect("the fixture has the table").1[1..]
        };
        let params = Params {
            quant_tables: &[tables(0xdb, 0), tables(0xdb, 1), tables(0xdb, 1)],
            dc_tables: &[tables(0xc4, 0), tables(0xc4, 1), tables(0xc4, 1)],
            ac_tables: &[tables(0xc4, 0x10), tables(0xc4, 0x11), tables(0xc4, 0x11)],
            ..Params::default()
        };
        assert_eq!(decoded(&params, &STREAM[data..]).unwrap(), complete);
    }

    #[test]
    fn blocks_that_are_restart_intervals_of_one_stream_are_decoded_one_by_one() {
        let shape = |height| Shape { width: 40, height, samples: 3, bits: 8, format: SampleFormat::Uint };
        let params = jpeg::EncodeParams { quality: 90, colour: jpeg::EncodeColour::YCbCr { subsampling: (2, 2) } };
        let pixels: Vec<u8> = (0..shape(48).len()).map(|i| (i * 7 % 251) as u8).collect();
        let tables = jpeg::encode_tables(&params, 3).unwrap();
        // Each strip is encoded alone, as an encoder does after a restart marker.
        let strips: Vec<Vec<u8>> = [(0, 16), (16, 32), (32, 48)]
            .map(|(start, end): (usize, usize)| {
                let mut out = Vec::new();
                let rows = &pixels[start * 120..end * 120];
                jpeg::encode(&params, rows, shape(end - start), &mut out, &mut jpeg::EncodeScratch::default()).unwrap();
                [&tables[..tables.len() - 2], &out[2..]].concat()
            })
            .into();
        let expected: Vec<Vec<u8>> = strips
            .iter()
            .map(|stream| {
                let mut dst = vec![0; shape(16).len()];
                decode(&Params::default(), stream, shape(16), &mut dst).unwrap();
                dst
            })
            .collect();
        let header = Header::parse(&strips[0]);
        assert!(header.scan_at.is_some());
        let mut whole = header.bytes.to_vec();
        let at = header.height_at.unwrap();
        whole[at..at + 2].copy_from_slice(&48_u16.to_be_bytes());
        // The restart interval of the whole stream: 3 x 1 MCUs of 16 x 16 pixels.
        whole.splice(2..2, [0xff, 0xdd, 0, 4, 0, 3]);
        let several = Params { interchange: Some(&whole), several_blocks: true, ..Params::default() };
        for (number, (stream, expected)) in strips.iter().zip(&expected).enumerate() {
            let data = &stream[Header::parse(stream).end..stream.len() - 2];
            let marker = [0xff, 0xd0 + number as u8];
            for block in [data.to_vec(), [data, &marker].concat(), [&marker, data].concat(), [&whole, data].concat()] {
                let mut dst = vec![0; shape(16).len()];
                decode(&several, &block, shape(16), &mut dst).unwrap();
                assert!(dst == *expected, "strip {number}");
            }
        }
        let mut dst = vec![0; shape(16).len()];
        let single = Params { several_blocks: false, ..several };
        assert!(decode(&single, &strips[1][header.end..], shape(16), &mut dst).is_err(), "one block of another size");
        // A block of two restart intervals, whose markers do not start at 0.
        let second = |number: usize| &strips[number][header.end..strips[number].len() - 2];
        let block = [second(1), &[0xff, 0xd5], second(2)].concat();
        let mut dst = vec![0; shape(32).len()];
        decode(&several, &block, shape(32), &mut dst).unwrap();
        assert!(dst == [expected[1].clone(), expected[2].clone()].concat());
    }

    #[test]
    fn missing_tables_are_an_error() {
        assert!(matches!(decoded(&Params::default(), &[1, 2, 3]), Err(Error::Corrupt { codec: CODEC, .. })));
        assert!(decoded(&Params { interchange: Some(&[0xff, 0xd8, 0xff]), ..Params::default() }, &[1, 2]).is_err());
    }

    #[test]
    fn truncated_block_is_an_error() {
        let (_, scan, _) = segments();
        let header = Params { interchange: Some(&STREAM[..scan]), ..Params::default() };
        for length in scan..STREAM.len() - 3 {
            assert!(decoded(&header, &STREAM[scan..length]).is_err(), "{length}");
        }
    }
}
