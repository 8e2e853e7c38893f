//! Builds complete JPEG streams from blocks of JPEG in TIFF, because nvJPEG takes only complete streams: the tables that all blocks share
//! are in a tag, and the tag for the colours overrides the markers of the stream.

use crate::decode::block::Status;

const SOI: u8 = 0xd8;
const EOI: u8 = 0xd9;
const SOS: u8 = 0xda;
const DQT: u8 = 0xdb;
const DRI: u8 = 0xdd;
const DHT: u8 = 0xc4;

/// Adobe's marker, which states that three components are YCbCr. All decoders follow it.
const IS_YCBCR: &[u8] = b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\x01";

/// The limit of the CPU's decoder: a picture needs about ten.
const MOST_SCANS: usize = 100;

/// The frame of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) bits: u8,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) components: usize,
    /// Whether all components have as many samples as the picture has pixels.
    pub(super) even: bool,
}

/// Builds the complete stream of a block with the tables that it needs, in `out`, without markers about colours and without comments.
/// `ycbcr` means that three components will be converted.
///
/// # Errors
/// A status when the block ends too early, is not valid, or has a form that nvJPEG does not decode.
pub(super) fn splice(tables: &[u8], block: &[u8], ycbcr: bool, out: &mut Vec<u8>) -> Result<Frame, Status> {
    out.clear();
    out.extend([0xff, SOI]);
    if ycbcr {
        out.extend(IS_YCBCR);
    }
    let mut known = Known::default();
    if !tables.is_empty() {
        let mut rest = tables.strip_prefix(&[0xff, SOI]).ok_or(Status::BROKEN)?;
        loop {
            let (marker, segment) = next(&mut rest)?;
            match marker {
                EOI => break,
                DQT | DHT | DRI => known.copy(marker, segment, out),
                _ if is_comment(marker) => {}
                _ => return Err(Status::BROKEN),
            }
        }
    }
    let mut rest = block.strip_prefix(&[0xff, SOI]).ok_or(Status::BROKEN)?;
    let (mut frame, mut scans) = (None, 0);
    loop {
        let (marker, segment) = next(&mut rest)?;
        match (marker, frame) {
            (DQT | DHT | DRI, _) => known.copy(marker, segment, out),
            (0xc0..=0xc2, None) => {
                frame = Some(Frame::parse(segment)?);
                known.copy(marker, segment, out);
            }
            (0xc0..=0xc2 | SOS, _) if frame.is_some() != (marker == SOS) => return Err(Status::BROKEN),
            (SOS, _) => {
                scans += 1;
                if !known.quantization || !known.codes || scans > MOST_SCANS {
                    return Err(Status::BROKEN);
                }
                known.copy(marker, segment, out);
                let (scan, behind) = rest.split_at(entropy_coded(rest)?);
                out.extend_from_slice(scan);
                rest = behind;
            }
            (EOI, Some(frame)) if scans > 0 => {
                out.extend([0xff, EOI]);
                return Ok(frame);
            }
            // Arithmetic, lossless and hierarchical coding, and a height that follows the scan.
            (0xc3..=0xcf | 0xdc, _) => return Err(Status::UNKNOWN_FORM),
            _ if is_comment(marker) => {}
            _ => return Err(Status::BROKEN),
        }
    }
}

/// Segments that are not part of the picture: application data and comments.
fn is_comment(marker: u8) -> bool {
    matches!(marker, 0xe0..=0xef | 0xfe)
}

/// The tables that were found.
#[derive(Debug, Default)]
struct Known {
    quantization: bool,
    codes: bool,
}

impl Known {
    /// Copies a segment.
    fn copy(&mut self, marker: u8, segment: &[u8], out: &mut Vec<u8>) {
        self.quantization |= marker == DQT;
        self.codes |= marker == DHT;
        out.extend([0xff, marker]);
        out.extend_from_slice(segment);
    }
}

impl Frame {
    /// A segment with its length before it.
    fn parse(segment: &[u8]) -> Result<Frame, Status> {
        let [_, _, bits, y1, y0, x1, x0, count, components @ ..] = segment else { return Err(Status::BROKEN) };
        let side = |high: u8, low: u8| u32::from(u16::from_be_bytes([high, low]));
        let (components, rest) = components.as_chunks::<3>();
        if components.len() != usize::from(*count) || !rest.is_empty() || components.is_empty() {
            return Err(Status::BROKEN);
        }
        let sampling = |component: &[u8; 3]| (component[1] >> 4, component[1] & 15);
        if components.iter().map(sampling).any(|(h, v)| !(1..=4).contains(&h) || !(1..=4).contains(&v)) {
            return Err(Status::BROKEN);
        }
        Ok(Frame {
            bits: *bits,
            width: side(*x1, *x0),
            height: side(*y1, *y0),
            components: components.len(),
            even: components.iter().all(|component| sampling(component) == sampling(&components[0])),
        })
    }
}

/// Returns the next marker and its segment, with the length in front; `rest` advances past it.
fn next<'a>(rest: &mut &'a [u8]) -> Result<(u8, &'a [u8]), Status> {
    let fill = rest.iter().take_while(|&&byte| byte == 0xff).count();
    let marker = *rest.get(fill).ok_or(Status::CUT)?;
    if fill == 0 || marker == 0 {
        return Err(Status::BROKEN);
    }
    let behind = &rest[fill + 1..];
    if matches!(marker, 0x01 | 0xd0..=0xd9) {
        *rest = behind;
        return Ok((marker, &[]));
    }
    let length = behind.first_chunk::<2>().ok_or(Status::CUT)?;
    let length = usize::from(u16::from_be_bytes(*length));
    if length < 2 {
        return Err(Status::BROKEN);
    }
    let (segment, behind) = behind.split_at_checked(length).ok_or(Status::CUT)?;
    *rest = behind;
    Ok((marker, segment))
}

/// Bytes before the marker that ends a scan. A zero after a byte 0xff belongs to the scan, and so do restart markers.
fn entropy_coded(data: &[u8]) -> Result<usize, Status> {
    let mut at = 0;
    loop {
        at += data[at..].iter().position(|&byte| byte == 0xff).ok_or(Status::CUT)?;
        match data.get(at + 1).ok_or(Status::CUT)? {
            0 | 0xd0..=0xd7 => at += 2,
            // Any number of 0xff bytes may precede a marker.
            0xff => at += 1,
            _ => return Ok(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use swath_codec::jpeg::{EncodeColour, EncodeParams, EncodeScratch, Params, decode, encode, encode_tables};
    use swath_codec::{SampleFormat, Shape};

    use super::*;

    const SHAPE: Shape = Shape { width: 40, height: 24, samples: 3, bits: 8, format: SampleFormat::Uint };
    const COLOUR: EncodeParams = EncodeParams { quality: 80, colour: EncodeColour::YCbCr { subsampling: (2, 2) } };

    /// Tables and a block that needs them.
    fn example() -> (Vec<u8>, Vec<u8>) {
        let pixels: Vec<u8> = (0..SHAPE.len()).map(|i| (i * i / 97) as u8).collect();
        let mut block = Vec::new();
        encode(&COLOUR, &pixels, SHAPE, &mut block, &mut EncodeScratch::default()).unwrap();
        (encode_tables(&COLOUR, 3).unwrap(), block)
    }

    fn pixels(tables: Option<&[u8]>, stream: &[u8]) -> Vec<u8> {
        let mut out = vec![0; SHAPE.len()];
        decode(&Params { tables, photometric: 6 }, stream, SHAPE, &mut out).unwrap();
        out
    }

    #[test]
    fn spliced_stream_needs_no_tables_and_has_the_same_pixels() {
        let (tables, block) = example();
        let mut out = vec![1, 2, 3];
        let frame = splice(&tables, &block, true, &mut out).unwrap();
        assert_eq!(frame, Frame { bits: 8, width: 40, height: 24, components: 3, even: false });
        assert_eq!(pixels(None, &out), pixels(Some(&tables), &block));
        assert_eq!(out[2..18], *IS_YCBCR);

        // Once more with what is complete already.
        let whole = out.clone();
        splice(&[], &whole, true, &mut out).unwrap();
        assert_eq!(out, whole, "what says something of the colours is not there twice");
    }

    #[test]
    fn markers_that_contradict_the_tag_and_comments_are_left_out() {
        let (tables, block) = example();
        let rgb = b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\0\xff\xfe\0\x05abc";
        let said = [&block[..2], &rgb[..], b"\xff\xff\xff", &block[3..]].concat();
        let (mut plain, mut out) = (Vec::new(), Vec::new());
        splice(&tables, &block, true, &mut plain).unwrap();
        splice(&tables, &said, true, &mut out).unwrap();
        assert_eq!(out, plain);
        splice(&tables, &said, false, &mut out).unwrap();
        assert!(!out.windows(5).any(|text| text == b"Adobe"));
    }

    #[test]
    fn cut_streams_are_refused_wherever_they_are_cut() {
        let (tables, block) = example();
        let mut out = Vec::new();
        for length in 0..block.len() {
            let refused = splice(&tables, &block[..length], true, &mut out).unwrap_err();
            assert!([Status::CUT, Status::BROKEN].contains(&refused), "{length}: {refused:?}");
        }
        for length in 1..tables.len() {
            assert!(splice(&tables[..length], &block, true, &mut out).is_err(), "{length} bytes of the tables");
        }
        assert_eq!(splice(&[], &block, true, &mut out), Err(Status::BROKEN), "without its tables");
    }

    #[test]
    fn what_nvjpeg_does_not_decode_is_refused_and_not_handed_on() {
        let (tables, block) = example();
        let frame = block.windows(2).position(|marker| marker == [0xff, 0xc0]).unwrap();
        let mut out = Vec::new();
        for marker in [0xc3, 0xc5, 0xc9, 0xcb] {
            let mut other = block.clone();
            other[frame + 1] = marker;
            assert_eq!(splice(&tables, &other, true, &mut out), Err(Status::UNKNOWN_FORM), "{marker:#x}");
        }
        // A frame within the tables, two frames, a scan before the frame, no scan.
        let end = frame + 2 + usize::from(block[frame + 3]);
        let segment = &block[frame..end];
        let in_tables = [&tables[..2], segment, &tables[2..]].concat();
        let twice = [&block[..frame], segment, segment, &block[end..]].concat();
        let never = [&block[..frame], &block[end..]].concat();
        let no_scan = [&block[..end], &[0xff, EOI]].concat();
        for (tables, block) in [(&in_tables, &block), (&tables, &twice), (&tables, &never), (&tables, &no_scan)] {
            assert_eq!(splice(tables, block, true, &mut out), Err(Status::BROKEN));
        }
    }

    #[test]
    fn mutated_streams_never_panic_and_stay_as_short_as_they_are() {
        let (tables, block) = example();
        let mut out = Vec::new();
        for at in 0..block.len() {
            for value in [0, 1, 0x7f, 0xc0, 0xd8, 0xd9, 0xda, 0xff] {
                let mut mutated = block.clone();
                mutated[at] = value;
                let _ = splice(&tables, &mutated, true, &mut out);
                assert!(out.len() <= tables.len() + mutated.len() + IS_YCBCR.len());
            }
        }
        for at in 0..tables.len() {
            for value in [0, 0xc0, 0xd9, 0xff] {
                let mut mutated = tables.clone();
                mutated[at] = value;
                let _ = splice(&mutated, &block, true, &mut out);
            }
        }
    }
}
