//! Parses the headers of a stream as nvJPEG2000 does (ISO/IEC 15444-1, annexes A and I), and refuses the same
//! streams.

use crate::picture::{Outcome, Status};

const SOC: u16 = 0xff4f;
const SIZ: u16 = 0xff51;
const COD: u16 = 0xff52;
const QCD: u16 = 0xff5c;
const SOT: u16 = 0xff90;
const EOC: u16 = 0xffd9;

/// The limits of the library.
const MOST_COMPONENTS: u16 = 4;
const MOST_BITS: u8 = 16;
const MOST_LAYERS: u16 = 32;
/// Predictable termination, the only code block style that the library supports.
const PREDICTABLE: u8 = 16;

/// A component: its size, the number of bits of a sample, and whether samples are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Component {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) bits: u8,
    pub(super) signed: bool,
}

/// A picture: its size, the size of its tiles and their number, each across and down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) size: (u32, u32),
    pub(super) tile: (u32, u32),
    pub(super) tiles: (u32, u32),
    pub(super) components: Vec<Component>,
}

impl Header {
    pub(super) fn parse(src: &[u8]) -> Outcome<Header> {
        let src = if src.starts_with(b"\0\0\0\x0cjP  ") { codestream(src)? } else { src };
        let mut reader = Reader(src);
        if reader.u16()? != SOC || reader.u16()? != SIZ {
            return Err(Status::BAD_JPEG);
        }
        let header = Header::size(reader.segment()?)?;
        let (mut style, mut steps) = (false, false);
        loop {
            match reader.u16()? {
                SOT => break,
                // The real parser also reports a picture without tiles as unsupported.
                EOC => return Err(Status::NOT_SUPPORTED),
                COD => {
                    header.style(reader.segment()?)?;
                    style = true;
                }
                marker => {
                    steps |= marker == QCD;
                    reader.segment()?;
                }
            }
        }
        if !style || !steps {
            return Err(Status::BAD_JPEG);
        }
        header.walk(reader)?;
        Ok(header)
    }

    /// The parameters of the SIZ marker (A.5.1).
    fn size(mut siz: Reader<'_>) -> Outcome<Header> {
        let _capabilities = siz.u16()?;
        let (right, bottom, left, top) = (siz.u32()?, siz.u32()?, siz.u32()?, siz.u32()?);
        let (tile_width, tile_height, tile_left, tile_top) = (siz.u32()?, siz.u32()?, siz.u32()?, siz.u32()?);
        let count = siz.u16()?;
        if count == 0 || siz.0.len() != 3 * usize::from(count) {
            return Err(Status::BAD_JPEG);
        }
        if left >= right || top >= bottom || tile_left > left || tile_top > top {
            return Err(Status::BAD_JPEG);
        }
        // The first tile must contain a part of the picture (B.3).
        let (tile_right, tile_bottom) = (tile_left.checked_add(tile_width), tile_top.checked_add(tile_height));
        if tile_right.is_some_and(|edge| edge <= left) || tile_bottom.is_some_and(|edge| edge <= top) {
            return Err(Status::BAD_JPEG);
        }
        if count > MOST_COMPONENTS {
            return Err(Status::NOT_SUPPORTED);
        }
        let (mut components, mut steps) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let (depth, across, down) = (siz.u8()?, u32::from(siz.u8()?), u32::from(siz.u8()?));
            if across == 0 || down == 0 {
                return Err(Status::BAD_JPEG);
            }
            steps.push((across, down));
            components.push(Component {
                width: right.div_ceil(across) - left.div_ceil(across),
                height: bottom.div_ceil(down) - top.div_ceil(down),
                bits: (depth & 0x7f) + 1,
                signed: depth & 0x80 != 0,
            });
        }
        if components.iter().any(|c| c.bits > MOST_BITS) || !known_sampling(&steps) {
            return Err(Status::NOT_SUPPORTED);
        }
        let tiles = ((right - tile_left).div_ceil(tile_width), (bottom - tile_top).div_ceil(tile_height));
        // This is the value that the library reports: it subtracts the origin of the tiles from their size.
        let tile = (tile_width.saturating_sub(tile_left), tile_height.saturating_sub(tile_top));
        Ok(Header { size: (right - left, bottom - top), tile, tiles, components })
    }

    /// The parameters of the COD marker (A.6.1).
    fn style(&self, mut cod: Reader<'_>) -> Outcome {
        let (flags, order, layers, mixed) = (cod.u8()?, cod.u8()?, cod.u16()?, cod.u8()?);
        let (levels, width, height, blocks, wavelet) = (cod.u8()?, cod.u8()?, cod.u8()?, cod.u8()?, cod.u8()?);
        let precincts = if flags & 1 == 1 { usize::from(levels) + 1 } else { 0 };
        // The sides of code blocks are powers of two from 4 on, and a block has at most 4,096 samples.
        let small = width <= 8 && height <= 8 && width + height <= 8;
        if order > 4 || layers == 0 || mixed > 1 || levels > 32 || !small || wavelet > 1 || cod.0.len() != precincts {
            return Err(Status::BAD_JPEG);
        }
        let alike = |c: &Component| (c.bits, c.signed) == (self.components[0].bits, self.components[0].signed);
        let mixable = self.components.get(..3).is_some_and(|colours| colours.iter().all(alike));
        // The real library also decodes high throughput, which the simulator cannot. Of the other code block
        // styles it supports one.
        if layers > MOST_LAYERS || (mixed == 1 && !mixable) || !matches!(blocks, 0 | PREDICTABLE) {
            return Err(Status::NOT_SUPPORTED);
        }
        Ok(())
    }

    /// Visits the tile-parts; `reader` is after the first SOT. All tiles must be complete.
    fn walk(&self, mut reader: Reader<'_>) -> Outcome {
        let count = u64::from(self.tiles.0) * u64::from(self.tiles.1);
        let mut seen = std::collections::BTreeSet::new();
        loop {
            let before = reader.0;
            let mut sot = reader.segment()?;
            let (tile, length) = (sot.u16()?, sot.u32()? as usize);
            if u64::from(tile) >= count {
                return Err(Status::BAD_JPEG);
            }
            seen.insert(tile);
            if length == 0 {
                break;
            }
            // The length counts from the marker, and the data after it must have space for another marker.
            let rest = length.checked_sub(2).filter(|&skip| skip >= 12).and_then(|skip| before.get(skip..));
            reader = Reader(rest.ok_or(Status::BAD_JPEG)?);
            match reader.u16()? {
                SOT => {}
                EOC => break,
                _ => return Err(Status::BAD_JPEG),
            }
        }
        if seen.len() as u64 == count { Ok(()) } else { Err(Status::BAD_JPEG) }
    }
}

/// 4:4:4, or 4:2:2 and 4:2:0 of the second and third component.
fn known_sampling(steps: &[(u32, u32)]) -> bool {
    let chroma = if steps.len() < 3 { (1, 1) } else { steps[1] };
    let known = |(index, &step): (usize, &(u32, u32))| step == if matches!(index, 1 | 2) { chroma } else { (1, 1) };
    matches!(chroma, (1, 1) | (2, 1) | (2, 2)) && steps.iter().enumerate().all(known)
}

/// The contents of the first `jp2c` box (annex I).
fn codestream(src: &[u8]) -> Outcome<&[u8]> {
    let mut reader = Reader(src);
    loop {
        let start = reader.0;
        let (length, kind) = (u64::from(reader.u32()?), reader.u32()?);
        let length = if length == 1 { u64::from(reader.u32()?) << 32 | u64::from(reader.u32()?) } else { length };
        if kind == u32::from_be_bytes(*b"jp2c") {
            return Ok(reader.0);
        }
        let header = (start.len() - reader.0.len()) as u64;
        let skip = length.checked_sub(header).and_then(|skip| usize::try_from(skip).ok());
        reader = Reader(skip.and_then(|skip| reader.0.get(skip..)).ok_or(Status::BAD_JPEG)?);
    }
}

/// Reads numbers from the rest of a stream.
#[derive(Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Outcome<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk::<N>().ok_or(Status::BAD_JPEG)?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn u8(&mut self) -> Outcome<u8> {
        Ok(self.take::<1>()?[0])
    }

    fn u16(&mut self) -> Outcome<u16> {
        Ok(u16::from_be_bytes(self.take()?))
    }

    fn u32(&mut self) -> Outcome<u32> {
        Ok(u32::from_be_bytes(self.take()?))
    }

    /// Returns the parameters of a marker segment. Its length includes the length field itself.
    fn segment(&mut self) -> Outcome<Reader<'a>> {
        let length = usize::from(self.u16()?).checked_sub(2).ok_or(Status::BAD_JPEG)?;
        let (parameters, rest) = self.0.split_at_checked(length).ok_or(Status::BAD_JPEG)?;
        self.0 = rest;
        Ok(Reader(parameters))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a grey picture of 53 x 37 with variable sampling, precision and tiles.
    fn stream(components: &[[u8; 3]], tile: (u32, u32), parts: &[u16]) -> Vec<u8> {
        let mut out = vec![0xff, 0x4f, 0xff, 0x51, 0, 38 + 3 * components.len() as u8, 0, 0];
        for n in [53, 37, 0, 0, tile.0, tile.1, 0, 0] {
            out.extend(n.to_be_bytes());
        }
        out.extend([0, components.len() as u8]);
        out.extend(components.as_flattened());
        out.extend([0xff, 0x52, 0, 12, 0, 0, 0, 1, 0, 0, 4, 4, 0, 1, 0xff, 0x5c, 0, 4, 0x40, 0x40]);
        for tile in parts {
            out.extend([0xff, 0x90, 0, 10, 0, *tile as u8, 0, 0, 0, 14, 0, 1, 0xff, 0x93]);
        }
        out.extend([0xff, 0xd9]);
        out
    }

    #[test]
    fn sizes_of_components_follow_their_sampling() {
        let header = Header::parse(&stream(&[[11, 1, 1], [11, 2, 2], [11, 2, 2]], (40, 40), &[0, 1])).unwrap();
        assert_eq!((header.size, header.tile, header.tiles), ((53, 37), (40, 40), (2, 1)));
        let luma = Component { width: 53, height: 37, bits: 12, signed: false };
        let chroma = Component { width: 27, height: 19, ..luma };
        assert_eq!(header.components, [luma, chroma, chroma]);
    }

    #[test]
    fn unsupported_streams_are_refused() {
        let parse = |components: &[[u8; 3]]| Header::parse(&stream(components, (53, 37), &[0])).map(|_| ());
        assert_eq!(parse(&[[0x8f, 1, 1]]), Ok(()));
        assert_eq!(parse(&[[7, 1, 1]; 4]), Ok(()));
        let unknown: [&[[u8; 3]]; 5] =
            [&[[7, 1, 1]; 5], &[[16, 1, 1]], &[[7, 2, 2]], &[[7, 1, 1], [7, 2, 2]], &[[7, 1, 1], [7, 1, 2], [7, 1, 2]]];
        for components in unknown {
            assert_eq!(parse(components), Err(Status::NOT_SUPPORTED), "{components:?}");
        }
        assert_eq!(parse(&[[7, 0, 1]]), Err(Status::BAD_JPEG));

        // The coding style, after SIZ: layers, the colour transform, the sides and the style of code blocks,
        // the wavelet.
        let style = |components: &[[u8; 3]], at: usize, value: u8| {
            let mut stream = stream(components, (53, 37), &[0]);
            stream[42 + 3 * components.len() + at] = value;
            Header::parse(&stream).map(|_| ())
        };
        let (gray, alike, mixed) = ([[7, 1, 1]], [[7, 1, 1]; 3], [[7, 1, 1], [7, 1, 1], [0x87, 1, 1]]);
        assert_eq!(parse(&mixed), Ok(()));
        let supported = [style(&gray, 7, 32), style(&alike, 8, 1), style(&gray, 10, 3), style(&gray, 12, 16)];
        assert_eq!(supported, [Ok(()); 4]);
        let unknown = [style(&gray, 7, 33), style(&gray, 8, 1), style(&mixed, 8, 1), style(&gray, 12, 1)];
        assert_eq!(unknown, [Err(Status::NOT_SUPPORTED); 4]);
        let bad =
            [style(&gray, 7, 0), style(&gray, 8, 2), style(&gray, 10, 5), style(&gray, 13, 2), style(&gray, 4, 1)];
        assert_eq!(bad, [Err(Status::BAD_JPEG); 5]);
    }

    #[test]
    fn truncated_streams_and_missing_tiles_are_refused() {
        let whole = stream(&[[7, 1, 1]], (40, 40), &[0, 1]);
        assert!(Header::parse(&whole).is_ok());
        for length in 0..whole.len() {
            assert_eq!(Header::parse(&whole[..length]), Err(Status::BAD_JPEG), "{length} bytes");
        }
        assert_eq!(Header::parse(&stream(&[[7, 1, 1]], (40, 40), &[0])), Err(Status::BAD_JPEG));
        assert_eq!(Header::parse(&stream(&[[7, 1, 1]], (0, 40), &[0])), Err(Status::BAD_JPEG));
    }

    #[test]
    fn mutated_headers_never_panic() {
        let whole = stream(&[[7, 1, 1]; 3], (20, 20), &[0, 1, 2, 3, 4, 5]);
        let mut boxed = b"\0\0\0\x0cjP  \r\n\x87\n\0\0\0\0jp2c".to_vec();
        boxed.extend(&whole);
        for stream in [whole, boxed] {
            assert!(Header::parse(&stream).is_ok());
            for at in 0..stream.len() {
                for value in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut mutated = stream.clone();
                    mutated[at] = value;
                    let _ = Header::parse(&mutated);
                }
            }
        }
    }
}
