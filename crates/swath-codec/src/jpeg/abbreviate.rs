//! Removes from complete streams of other encoders the tables that the JPEGTables tag contains for all blocks
//! of a file.

use super::encode::SOI;
use super::{DHT, DQT, EOI, SOS};

/// The JFIF segment. It repeats information that the tags of the file contain.
const JFIF: u8 = 0xe0;

/// Appends a stream without the tables that `tables` also contains, and without the JFIF segment. If either
/// input does not have the usual form, the stream is appended unchanged, and decoders use its own tables.
pub fn abbreviate(stream: &[u8], tables: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    if shorten(stream, tables, out).is_none() {
        out.truncate(start);
        out.extend_from_slice(stream);
    }
}

fn shorten(stream: &[u8], tables: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut shared = Vec::new();
    let mut rest = tables.strip_prefix(&[0xff, SOI])?;
    while let (marker, Some(body)) = next(&mut rest)? {
        shared.extend(split(marker, body)?.into_iter().map(|table| (marker, table)));
    }
    let mut rest = stream.strip_prefix(&[0xff, SOI])?;
    out.extend([0xff, SOI]);
    let mut seen: Vec<(u8, u8)> = Vec::new();
    loop {
        let (marker, body) = next(&mut rest)?;
        let body = body?;
        let mut kept = match marker {
            JFIF => continue,
            DQT | DHT => split(marker, body)?,
            _ => vec![body],
        };
        if matches!(marker, DQT | DHT) {
            // A stream that defines the same table twice uses both definitions, each from its position on.
            for name in kept.iter().map(|table| (marker, table[0])) {
                if seen.contains(&name) {
                    return None;
                }
                seen.push(name);
            }
            kept.retain(|&table| !shared.contains(&(marker, table)));
        }
        let bytes: usize = kept.iter().map(|part| part.len()).sum();
        if !kept.is_empty() {
            out.extend([0xff, marker]);
            out.extend(u16::try_from(bytes + 2).ok()?.to_be_bytes());
            kept.iter().for_each(|part| out.extend_from_slice(part));
        }
        if marker == SOS {
            out.extend_from_slice(rest);
            return Some(());
        }
    }
}

/// Returns the next marker and the content of its segment; the end marker has no content. The decoder's
/// `next_segment` skips any bytes before a marker, but a copied stream must keep those bytes.
fn next<'a>(rest: &mut &'a [u8]) -> Option<(u8, Option<&'a [u8]>)> {
    let [0xff, marker, behind @ ..] = *rest else { return None };
    if *marker == EOI {
        *rest = behind;
        return Some((EOI, None));
    }
    let len = usize::from(u16::from_be_bytes(*behind.first_chunk()?));
    let body = behind.get(2..len)?;
    *rest = &behind[len..];
    Some((*marker, Some(body)))
}

/// Returns the tables of a segment. Each starts with a byte that has its number.
fn split(marker: u8, mut body: &[u8]) -> Option<Vec<&[u8]>> {
    let mut tables = Vec::new();
    while let Some(&first) = body.first() {
        let len = match marker {
            DQT if first >> 4 <= 1 => 65 + 64 * usize::from(first >> 4),
            DHT => 17 + body.get(1..17)?.iter().map(|&count| usize::from(count)).sum::<usize>(),
            _ => return None,
        };
        let (table, behind) = body.split_at_checked(len)?;
        tables.push(table);
        body = behind;
    }
    Some(tables)
}

#[cfg(test)]
mod tests {
    use super::super::{EncodeColour, EncodeParams, EncodeScratch, encode, encode_tables};
    use super::*;
    use crate::{SampleFormat, Shape};

    /// Returns the tables of a file and a block that needs them.
    fn pair(quality: u8) -> (Vec<u8>, Vec<u8>) {
        let params = EncodeParams { quality, colour: EncodeColour::YCbCr { subsampling: (2, 2) } };
        let shape = Shape { width: 24, height: 16, samples: 3, bits: 8, format: SampleFormat::Uint };
        let pixels: Vec<u8> = (0..shape.len()).map(|i| (i * 7 % 251) as u8).collect();
        let mut block = Vec::new();
        encode(&params, &pixels, shape, &mut block, &mut EncodeScratch::default()).unwrap();
        (encode_tables(&params, 3).unwrap(), block)
    }

    /// Returns the block with its own tables, as a library writes it: the JFIF segment, and one segment for all
    /// tables of a kind.
    fn complete(tables: &[u8], block: &[u8]) -> Vec<u8> {
        let mut stream = b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0".to_vec();
        for wanted in [DQT, DHT] {
            let mut rest = &tables[2..];
            let mut all: Vec<u8> = Vec::new();
            while let (marker, Some(body)) = next(&mut rest).unwrap() {
                all.extend(body.iter().filter(|_| marker == wanted));
            }
            stream.extend([0xff, wanted]);
            stream.extend((all.len() as u16 + 2).to_be_bytes());
            stream.extend(all);
        }
        stream.extend(&block[2..]);
        stream
    }

    fn abbreviated(stream: &[u8], tables: &[u8]) -> Vec<u8> {
        let mut out = b"before".to_vec();
        abbreviate(stream, tables, &mut out);
        out.split_off(6)
    }

    #[test]
    fn tables_that_the_file_has_are_removed() {
        let (tables, block) = pair(80);
        assert_eq!(abbreviated(&complete(&tables, &block), &tables), block);
        assert_eq!(abbreviated(&block, &tables), block);
    }

    #[test]
    fn tables_that_differ_are_kept() {
        let (tables, block) = pair(80);
        let (others, _) = pair(40);
        let stream = complete(&tables, &block);
        let found = abbreviated(&stream, &others);
        let (quantization, codes) = (2 * 65, stream.len() - block.len() - 18 - 2 * 4 - 2 * 65);
        assert_eq!(
            found.len(),
            block.len() + 4 + quantization,
            "the Huffman tables are equal and removed: {codes} bytes"
        );
        assert!(found.windows(2).any(|two| two == [0xff, DQT]) && !found.windows(2).any(|two| two == [0xff, DHT]));
    }

    #[test]
    fn stream_without_the_usual_form_is_copied_unchanged() {
        let (tables, block) = pair(80);
        let stream = complete(&tables, &block);
        for end in 0..stream.len() - block.len() + 20 {
            assert_eq!(abbreviated(&stream[..end], &tables), stream[..end], "cut at {end}");
        }
        assert_eq!(abbreviated(&stream, b"\xff\xd8\xff\xdb\0\x04ab\xff\xd9"), stream, "invalid tables");
        assert_eq!(abbreviated(&stream, b""), stream);
        // The same table twice, with different content the second time.
        let mut twice = stream.clone();
        twice.splice(2..20, [0xff, DQT, 0, 67, 0].into_iter().chain([9; 64]));
        assert_eq!(abbreviated(&twice, &tables), twice);
    }
}
