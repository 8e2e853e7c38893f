//! Reads the headers of a JPEG 2000 codestream (ISO/IEC 15444-1 Annex A) before anything is decoded.
//!
//! The decoder allocates as much as these headers request. A stream of a hundred bytes can request a precinct
//! per sample or a tile per pixel, so this module checks the headers against the block, and the decoder never
//! sees a stream that requests more.

use std::borrow::Cow;

use super::{CODEC, unsupported};
use crate::{Error, Result, Shape, memory};

const SOC: u16 = 0xff4f;
const SIZ: u16 = 0xff51;
const COD: u16 = 0xff52;
const COC: u16 = 0xff53;
const SOT: u16 = 0xff90;
const SOD: u16 = 0xff93;
const EOC: u16 = 0xffd9;

/// The bytes of working memory that the decoder's tables may take, and the additional bytes for each sample of
/// the block.
const TABLE_BYTES: u64 = 64 << 20;
const TABLE_BYTES_PER_SAMPLE: u64 = 4;
/// The measured memory of one tile, one code block (with its own precinct) and one quality layer of a code
/// block in the decoder.
const TILE_COMPONENT_BYTES: u64 = 1024;
const CODE_BLOCK_BYTES: u64 = 320;
const LAYER_BYTES: u64 = 24;
/// The decoder counts layers in 32 bits.
const MAX_LAYERS: u16 = 32;

/// One component of the SIZ marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Component {
    /// The number of bits of a sample.
    pub(super) bits: u32,
    /// Whether samples are in two's complement.
    pub(super) signed: bool,
    /// The distance between two samples on the reference grid, across and down.
    step: (u8, u8),
}

/// The parts of a checked codestream that the decoder needs.
#[derive(Debug)]
pub(super) struct Codestream<'a> {
    /// The stream from SOC to EOC, with the length of every tile-part.
    pub(super) bytes: Cow<'a, [u8]>,
    /// The components, one for each sample of the block.
    pub(super) components: Vec<Component>,
}

impl Codestream<'_> {
    /// Whether the second and third of three components have a lower resolution than the first. Only YCbCr is
    /// stored in this way.
    pub(super) fn has_coarse_chroma(&self) -> bool {
        matches!(self.components[..], [y, cb, cr]
            if cb.step == cr.step && cb.step != y.step && cb.step.0 >= y.step.0 && cb.step.1 >= y.step.1)
    }
}

/// Finds the codestream in `src`, which is a codestream or a JP2 file that contains one, and compares it with
/// the block.
pub(super) fn check(src: &[u8], shape: Shape) -> Result<Codestream<'_>> {
    check_within(src, shape, u64::MAX)
}

/// Checks like [`check`], and that the tables of the stream need at most `max_memory` bytes.
pub(super) fn check_within(src: &[u8], shape: Shape, max_memory: u64) -> Result<Codestream<'_>> {
    let src = if src.starts_with(b"\0\0\0\x0cjP  ") { find_in_boxes(src)? } else { src };
    let mut reader = Reader { src, at: 0 };
    if reader.u16()? != SOC || reader.u16()? != SIZ {
        return corrupt("it does not begin with SOC and SIZ");
    }
    let (components, tiles) = check_size(&mut reader.segment()?, shape, max_memory)?;
    let bytes = check_tile_parts(reader, tiles)?;
    Ok(Codestream { bytes, components })
}

/// Returns the content of the first `jp2c` box (Annex I).
fn find_in_boxes(src: &[u8]) -> Result<&[u8]> {
    let mut reader = Reader { src, at: 0 };
    loop {
        let start = reader.at;
        let length = u64::from(reader.u32()?);
        let kind = reader.u32()?;
        let length = if length == 1 { (u64::from(reader.u32()?) << 32) | u64::from(reader.u32()?) } else { length };
        let end = match length {
            0 => src.len(),
            _ => usize::try_from(length).ok().and_then(|l| start.checked_add(l)).unwrap_or(usize::MAX),
        };
        if end < reader.at {
            return corrupt("a JP2 box is shorter than its header");
        }
        if kind == u32::from_be_bytes(*b"jp2c") {
            return Ok(&src[reader.at..end.min(src.len())]);
        }
        reader.at = end;
    }
}

/// Checks the SIZ marker (A.5.1) and returns the components and the number of tiles.
fn check_size(siz: &mut Reader<'_>, shape: Shape, max_memory: u64) -> Result<(Vec<Component>, Tiles)> {
    let capabilities = siz.u16()?;
    if capabilities & 0x4000 != 0 {
        return Err(unsupported("JPEG 2000 with high-throughput code blocks"));
    }
    let (right, bottom, left, top) = (siz.u32()?, siz.u32()?, siz.u32()?, siz.u32()?);
    let (tile_width, tile_height, tile_left, tile_top) = (siz.u32()?, siz.u32()?, siz.u32()?, siz.u32()?);
    let count = siz.u16()?;
    if usize::from(count) != shape.samples {
        return mismatch("components", count.into(), shape.samples);
    }
    let mut components = Vec::with_capacity(shape.samples);
    for _ in 0..count {
        let (depth, step) = (siz.u8()?, (siz.u8()?, siz.u8()?));
        if step.0 == 0 || step.1 == 0 {
            return corrupt("a component has a sampling step of 0");
        }
        components.push(Component { bits: u32::from(depth & 0x7f) + 1, signed: depth & 0x80 != 0, step });
    }
    // If all components have the same lower resolution, there is nothing to align them with, and the samples
    // are the pixels.
    let first = components.first().map_or((1, 1), |c| c.step);
    let step = if components.iter().all(|c| c.step == first) { first } else { (1, 1) };
    let across = |edge: u32| u64::from(edge.div_ceil(step.0.into()));
    let down = |edge: u32| u64::from(edge.div_ceil(step.1.into()));
    let (width, height) = (across(right).saturating_sub(across(left)), down(bottom).saturating_sub(down(top)));
    if width != shape.width as u64 {
        return mismatch("width", width, shape.width);
    }
    if height != shape.height as u64 {
        return mismatch("height", height, shape.height);
    }
    if let Some(deep) = components.iter().find(|c| c.bits as usize > shape.bits) {
        return mismatch("bits per sample", deep.bits.into(), shape.bits);
    }

    if tile_width == 0 || tile_height == 0 || tile_left > left || tile_top > top {
        return corrupt("its tiles do not cover the image");
    }
    let columns = u64::from(right.saturating_sub(tile_left)).div_ceil(tile_width.into());
    let rows = u64::from(bottom.saturating_sub(tile_top)).div_ceil(tile_height.into());
    let tiles = columns.saturating_mul(rows);
    if tiles > 65535 {
        return corrupt("it has more tiles than can be numbered");
    }
    // The decoder works tile by tile, and a tile may be larger than the image.
    let covered = |tile: u32, image: u32| u64::from(tile.min(image));
    let samples = covered(tile_width, right).saturating_mul(covered(tile_height, bottom)).saturating_mul(count.into());
    let block = (shape.width as u64).saturating_mul(shape.height as u64).saturating_mul(count.into());
    let limit = block.saturating_mul(TABLE_BYTES_PER_SAMPLE).saturating_add(TABLE_BYTES);
    let tiles = Tiles { count: tiles, samples, components: count, limit, max_memory };
    tiles.afford(tiles.count.saturating_mul(count.into()).saturating_mul(TILE_COMPONENT_BYTES))?;
    Ok((components, tiles))
}

/// The numbers from which the tables of one tile are estimated.
#[derive(Debug, Clone, Copy)]
struct Tiles {
    count: u64,
    /// The number of samples of all components of the largest tile.
    samples: u64,
    components: u16,
    /// The number of bytes that the tables may take.
    limit: u64,
    /// The number of bytes that the caller allows.
    max_memory: u64,
}

impl Tiles {
    fn afford(&self, needed: u64) -> Result<()> {
        memory::check_limit(CODEC, needed, self.max_memory)?;
        if needed > self.limit {
            return Err(Error::Memory { codec: CODEC, needed, limit: self.limit });
        }
        Ok(())
    }
}

/// Visits the main header and every tile-part. This verifies that nothing is missing at the end and that no
/// coding style requests absurd tables. Returns the stream in its strictest form: a last tile-part may omit its
/// length, and the end marker is often missing, but the decoder should still be strict about the packets.
fn check_tile_parts<'a>(mut reader: Reader<'a>, tiles: Tiles) -> Result<Cow<'a, [u8]>> {
    let src = reader.src;
    let mut layers = 1;
    while check_marker(&mut reader, tiles, &mut layers)? != SOT {}
    loop {
        // `reader` is at the byte after the SOT marker.
        let start = reader.at - 2;
        let mut sot = reader.segment()?;
        let (tile, length) = (sot.u16()?, sot.u32()? as usize);
        if u64::from(tile) >= tiles.count {
            return corrupt("a tile-part belongs to no tile");
        }
        loop {
            match check_marker(&mut reader, tiles, &mut layers)? {
                SOD => break,
                SOT | EOC => return corrupt("a tile-part has no data"),
                _ => {}
            }
        }
        if length == 0 {
            let data = src.strip_suffix(&EOC.to_be_bytes()).unwrap_or(src);
            let Ok(stated) = u32::try_from(data.len() - start) else {
                return corrupt("its last tile-part is longer than 4 GiB");
            };
            let mut closed = data.to_vec();
            closed[start + 6..start + 10].copy_from_slice(&stated.to_be_bytes());
            closed.extend_from_slice(&EOC.to_be_bytes());
            return Ok(Cow::Owned(closed));
        }
        let end = start.saturating_add(length);
        if end < reader.at {
            return corrupt("a tile-part is shorter than its header");
        }
        if end > src.len() {
            return Err(Error::Truncated { codec: CODEC, got: src.len(), want: end });
        }
        reader.at = end;
        match reader.u16() {
            Ok(SOT) => {}
            Ok(EOC) => return Ok(Cow::Borrowed(&src[..reader.at])),
            _ => {
                let mut closed = src[..end].to_vec();
                closed.extend_from_slice(&EOC.to_be_bytes());
                return Ok(Cow::Owned(closed));
            }
        }
    }
}

/// Reads a marker and its segment, and checks the segment if it is a coding style. The caller handles SOT and
/// SOD.
fn check_marker(reader: &mut Reader<'_>, tiles: Tiles, layers: &mut u16) -> Result<u16> {
    let marker = reader.u16()?;
    match marker {
        SOT | SOD | EOC | 0xff30..=0xff3f => {}
        0..=0xfeff => return corrupt("a marker is missing"),
        COD => {
            let mut cod = reader.segment()?;
            let style = cod.u8()?;
            let _progression = cod.u8()?;
            *layers = cod.u16()?;
            if *layers > MAX_LAYERS {
                return Err(unsupported("JPEG 2000 with more than 32 quality layers"));
            }
            let _transform = cod.u8()?;
            check_style(&mut cod, style, tiles, *layers)?;
        }
        COC => {
            let mut coc = reader.segment()?;
            let _component = if tiles.components < 257 { u16::from(coc.u8()?) } else { coc.u16()? };
            let style = coc.u8()?;
            check_style(&mut coc, style, tiles, *layers)?;
        }
        _ => {
            reader.segment()?;
        }
    }
    Ok(marker)
}

/// Estimates the tables for code blocks and precincts of this size (A.6.1, table A.15), as if every component
/// used them.
fn check_style(style: &mut Reader<'_>, flags: u8, tiles: Tiles, layers: u16) -> Result<()> {
    let levels = u32::from(style.u8()?);
    let (block_width, block_height) = (u32::from(style.u8()?) + 2, u32::from(style.u8()?) + 2);
    let _ = (style.u8()?, style.u8()?);
    if levels > 32 || block_width > 10 || block_height > 10 {
        return corrupt("its coding style breaks the limits of the standard");
    }
    let mut blocks = 0u64;
    for resolution in 0..=levels {
        let (width, height) = if flags & 1 != 0 {
            let precinct = u32::from(style.u8()?);
            // Above the lowest resolution, a precinct is divided between the sub-bands (B.6).
            let halved = u32::from(resolution > 0);
            ((precinct & 15).saturating_sub(halved), (precinct >> 4).saturating_sub(halved))
        } else {
            (15, 15)
        };
        let area = block_width.min(width) + block_height.min(height);
        let samples = tiles.samples.checked_shr(2 * (levels - resolution)).unwrap_or(0);
        blocks = blocks.saturating_add(samples >> area).saturating_add(3 * u64::from(tiles.components));
    }
    tiles.afford(blocks.saturating_mul(CODE_BLOCK_BYTES + LAYER_BYTES * u64::from(layers)))
}

fn corrupt<T>(what: &'static str) -> Result<T> {
    Err(Error::Corrupt { codec: CODEC, what })
}

fn mismatch<T>(what: &'static str, found: u64, expected: usize) -> Result<T> {
    Err(Error::Mismatch { codec: CODEC, what, found, expected: expected as u64 })
}

/// Reads big-endian numbers from a slice.
struct Reader<'a> {
    src: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.src.get(self.at..).and_then(|rest| rest.first_chunk::<N>());
        let bytes =
            *bytes.ok_or(Error::Truncated { codec: CODEC, got: self.src.len(), want: self.at.saturating_add(N) })?;
        self.at += N;
        Ok(bytes)
    }

    fn u8(&mut self) -> Result<u8> {
        Ok(self.take::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.take()?))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.take()?))
    }

    /// Returns the parameters of a marker segment. The length of the segment includes the length field itself.
    fn segment(&mut self) -> Result<Reader<'a>> {
        let start = self.at;
        let length = usize::from(self.u16()?);
        let end = start + length;
        let Some(parameters) = self.src.get(self.at..end) else {
            return if length < 2 {
                corrupt("a marker segment is shorter than its length")
            } else {
                Err(Error::Truncated { codec: CODEC, got: self.src.len(), want: end })
            };
        };
        self.at = end;
        Ok(Reader { src: parameters, at: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SampleFormat;

    const SHAPE: Shape = Shape { width: 2048, height: 2048, samples: 1, bits: 8, format: SampleFormat::Uint };

    /// Returns a stream of headers only: one component of 2048 x 2048 in square tiles of `tile`, and a coding
    /// style.
    fn headers(tile: u32, layers: u16, block: u8, precinct: u8) -> Vec<u8> {
        let mut out = vec![0xff, 0x4f, 0xff, 0x51, 0, 41, 0, 0];
        for n in [2048, 2048, 0, 0, tile, tile, 0, 0] {
            out.extend(n.to_be_bytes());
        }
        out.extend([0, 1, 7, 1, 1, 0xff, 0x52, 0, 13, 1, 0]);
        out.extend(layers.to_be_bytes());
        out.extend([0, 0, block, block, 0, 1, precinct]);
        out.extend([0xff, 0x90, 0, 10, 0, 0, 0, 0, 0, 14, 0, 1, 0xff, 0x93, 0xff, 0xd9]);
        out
    }

    #[test]
    fn ordinary_headers_pass() {
        let stream = headers(2048, 20, 4, 0x88);
        let checked = check(&stream, SHAPE).unwrap();
        assert_eq!(checked.components, [Component { bits: 8, signed: false, step: (1, 1) }]);
        assert_eq!(*checked.bytes, *stream);
    }

    #[test]
    fn a_precinct_for_every_sample_is_refused() {
        assert!(matches!(check(&headers(2048, 1, 4, 0x00), SHAPE), Err(Error::Memory { .. })));
    }

    #[test]
    fn smallest_code_blocks_with_many_layers_are_refused() {
        assert!(matches!(check(&headers(2048, 32, 0, 0xff), SHAPE), Err(Error::Memory { .. })));
    }

    #[test]
    fn a_tile_for_every_pixel_is_refused() {
        assert!(matches!(check(&headers(1, 1, 4, 0xff), SHAPE), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn more_layers_than_the_decoder_supports_are_an_error() {
        assert!(matches!(check(&headers(2048, 33, 4, 0xff), SHAPE), Err(Error::Unsupported { .. })));
    }

    #[test]
    fn boxes_without_progress_do_not_loop_forever() {
        // A box of length 8 advances only by its header. A box of length 1 has its length in the next 8 bytes.
        let mut file = b"\0\0\0\x0cjP  \r\n\x87\n\0\0\0\x08free\0\0\0\x01wide".to_vec();
        file.extend(u64::MAX.to_be_bytes());
        assert!(matches!(check(&file, SHAPE), Err(Error::Truncated { .. })));
        file.truncate(28);
        file.extend(3u64.to_be_bytes());
        assert!(matches!(check(&file, SHAPE), Err(Error::Corrupt { .. })));
    }
}
