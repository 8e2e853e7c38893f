//! Old-style JPEG (compression 6), as TIFF 6.0 section 22 defines it and as writers have implemented it.
//!
//! Three layouts occur: the block is a complete stream (whatever the tags contain); the block is the scan, and
//! its header is at JPEGInterchangeFormat; or the block is only entropy-coded data, and the tables are in
//! separate tags. This module converts all of them to one ordinary stream.

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
            subsampling: (2, 2),
            photometric: 6,
            ycbcr: YCbCr::default(),
        }
    }
}

/// Decodes one block of 8-bit samples.
pub fn decode(params: &Params<'_>, src: &[u8], shape: Shape, dst: &mut [u8]) -> Result<()> {
    let colour = match params.photometric {
        6 => Colour::Tiff(Box::new(params.ycbcr.tables()?)),
        _ => Colour::AsStored,
    };
    let decoder = Decoder::new(colour, shape);
    if src.starts_with(&[0xff, 0xd8]) {
        return decoder.decode(src, dst);
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
