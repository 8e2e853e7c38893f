//! Streams of the codecs that nvCOMP decodes, in every form of their framing.

use std::ops::Range;

use swath_codec::{deflate, lz4, zstd};
use twox_hash::XxHash32;

use crate::files::Dice;

pub(crate) const OK: u32 = 0;
pub(crate) const TRUNCATED: u32 = 1;
pub(crate) const CORRUPT: u32 = 2;
pub(crate) const CHECKSUM: u32 = 3;
pub(crate) const UNSUPPORTED: u32 = 4;
pub(crate) const REFUSED: u32 = 6;

pub(crate) const ZLIB: u32 = 0;
pub(crate) const ZSTD: u32 = 1;
pub(crate) const LZ4: u32 = 2;

pub(crate) const LZ4_MAGIC: [u8; 4] = [4, 0x22, 0x4D, 0x18];

/// A stream to begin with.
pub(crate) struct Stream {
    pub(crate) name: &'static str,
    pub(crate) codec: u32,
    pub(crate) bytes: Vec<u8>,
    pub(crate) dst_len: usize,
    /// Whether nvCOMP may see it.
    pub(crate) status: u32,
}

impl Stream {
    /// The fields that say how the rest is to be read, but for sizes.
    pub(crate) fn header(&self) -> Range<usize> {
        match self.codec {
            ZLIB => 0..2,
            LZ4 if !self.bytes.starts_with(&LZ4_MAGIC) => 0..0,
            _ => 4..6,
        }
    }
}

/// Steps and a little noise: streams of all parts that their formats have.
pub(crate) fn plain(len: usize) -> Vec<u8> {
    let mut dice = Dice::new(len as u64);
    (0..len).map(|i| (i / 40) as u8 ^ u8::from(dice.below(30) == 0)).collect()
}

fn zstd_frame(header: &[u8], blocks: &[(u32, u32, &[u8])]) -> Vec<u8> {
    let mut frame = [&[0x28, 0xB5, 0x2F, 0xFD], header].concat();
    for (i, &(kind, size, data)) in blocks.iter().enumerate() {
        let last = u32::from(i + 1 == blocks.len());
        frame.extend(&(last | kind << 1 | size << 3).to_le_bytes()[..3]);
        frame.extend(data);
    }
    frame
}

pub(crate) fn lz4_frame(flg: u8, bd: u8, content_size: Option<u64>, size: u32, behind: &[u8]) -> Vec<u8> {
    let mut fields = vec![flg, bd];
    fields.extend(content_size.iter().flat_map(|content_size| content_size.to_le_bytes()));
    let sum = (XxHash32::oneshot(0, &fields) >> 8) as u8;
    [&LZ4_MAGIC[..], &fields, &[sum], &size.to_le_bytes(), behind].concat()
}

/// The one block of a short frame of the CPU's encoder, bare.
pub(crate) fn lz4_block(plain: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    lz4::encode(plain, &mut frame);
    let size = u32::from_le_bytes(frame[7..11].try_into().unwrap());
    assert!(size as usize == frame.len() - 19, "one block, which is not stored");
    frame[11..frame.len() - 8].to_vec()
}

/// Streams of every form, good ones and bad ones.
pub(crate) fn streams() -> Vec<Stream> {
    let mut all = Vec::new();
    let mut add = |name, codec, bytes, dst_len, status| {
        all.push(Stream { name, codec, bytes, dst_len, status });
    };
    for (len, level) in [(1, 6), (300, 1), (2000, 12)] {
        let mut bytes = Vec::new();
        deflate::Encoder::new(level).unwrap().encode(&plain(len), &mut bytes);
        add("zlib", ZLIB, bytes, len, OK);
    }
    let dictionary = [0x78, 0xBB, 0, 0, 0, 1, 3, 0, 0, 0, 0, 1];
    add("zlib with a dictionary", ZLIB, dictionary.to_vec(), 0, UNSUPPORTED);
    add("zlib with a window of 64 KB", ZLIB, [0x88, 0x1C, 3, 0, 0, 0, 0, 1].to_vec(), 0, CORRUPT);

    let sized = |len: usize, level| {
        let mut bytes = Vec::new();
        zstd::Encoder::new(level).unwrap().encode(&plain(len), &mut bytes).unwrap();
        bytes
    };
    add("a frame with a size of 1 byte", ZSTD, sized(200, 3), 200, OK);
    add("a frame with a size of 2 bytes", ZSTD, sized(3000, 19), 3000, OK);
    let runs = [(1, 131_072, b"a".as_slice()); 2];
    add("a frame with a size of 4 bytes", ZSTD, zstd_frame(&[0xA0, 0, 0, 4, 0], &runs), 262_144, OK);
    let text: &[u8] = b"sixty bytes that are stored as they are, in one frame of two";
    let blocks = [(0, 20, &text[..20]), (1, 10, b"x".as_slice()), (0, 30, &text[30..])];
    let unsized_frame = zstd_frame(&[0, 0x60], &blocks);
    add("a frame without a size", ZSTD, unsized_frame.clone(), 60, OK);
    add("two frames", ZSTD, [&unsized_frame[..], &unsized_frame].concat(), 120, UNSUPPORTED);
    add("a byte behind the frame", ZSTD, [&unsized_frame[..], b"!"].concat(), 60, UNSUPPORTED);
    add("more than the block holds", ZSTD, unsized_frame.clone(), 59, CORRUPT);
    add("a window and a size", ZSTD, zstd_frame(&[0x80, 0x58, 60, 0, 0, 0], &blocks), 60, OK);
    add("a size of 8 bytes", ZSTD, zstd_frame(&[0xE0, 60, 0, 0, 0, 0, 0, 0, 0], &blocks), 60, OK);
    add("another size", ZSTD, zstd_frame(&[0xE0, 60, 0, 0, 0, 1, 0, 0, 0], &blocks), 60, CORRUPT);
    add("a window of 8 MB", ZSTD, zstd_frame(&[0, 0x68], &blocks), 60, OK);
    add("a window of 9 MB", ZSTD, zstd_frame(&[0, 0x69], &blocks), 60, UNSUPPORTED);
    let summed = [&zstd_frame(&[4, 0x60], &blocks)[..], b"abcd"].concat();
    add("a checksum", ZSTD, summed, 60, UNSUPPORTED);
    add("a dictionary", ZSTD, zstd_frame(&[0x21, 7, 60], &blocks), 60, UNSUPPORTED);
    add("a reserved bit", ZSTD, zstd_frame(&[8, 0x60], &blocks), 60, UNSUPPORTED);
    add("a skippable frame", ZSTD, [0x50, 0x2A, 0x4D, 0x18, 2, 0, 0, 0, 1, 2].to_vec(), 60, UNSUPPORTED);
    add("a reserved kind of block", ZSTD, zstd_frame(&[0, 0x60], &[(3, 2, b"ab")]), 60, CORRUPT);
    add("a compressed block of a byte", ZSTD, zstd_frame(&[0, 0x60], &[(2, 1, b"a")]), 60, CORRUPT);
    add("a block beyond 128 KB", ZSTD, zstd_frame(&[0, 0x60], &[(1, 131_073, b"a")]), 140_000, CORRUPT);
    let beyond_window = zstd_frame(&[0, 0], &[(1, 1025, b"a")]);
    add("a block beyond the window", ZSTD, beyond_window, 2000, CORRUPT);
    for (empty, status) in [(1023, OK), (1024, UNSUPPORTED)] {
        let mut blocks = vec![(0, 0, b"".as_slice()); empty];
        blocks.push((0, 60, text));
        add("many empty blocks", ZSTD, zstd_frame(&[0, 0x60], &blocks), 60, status);
    }

    let block = lz4_block(&plain(300));
    let size = block.len() as u32;
    let ended = [&block[..], &[0; 4]].concat();
    let frame = |flg, bd, size, behind: &[u8]| lz4_frame(flg, bd, None, size, behind);
    let sized = |content_size| lz4_frame(0x68, 0x50, Some(content_size), size, &ended);
    add("a frame of LZ4", LZ4, frame(0x60, 0x70, size, &ended), 300, OK);
    add("a frame of linked blocks", LZ4, frame(0x40, 0x40, size, &ended), 300, OK);
    add("a frame with a size", LZ4, sized(300), 300, OK);
    add("a frame of another size", LZ4, sized(300 | 1 << 40), 300, CORRUPT);
    add("a bare block", LZ4, block.clone(), 300, OK);
    let mut checked = Vec::new();
    lz4::encode(&plain(300), &mut checked);
    add("a checksum of the content", LZ4, checked, 300, OK);
    add("a checksum of the block", LZ4, frame(0x70, 0x70, size, &ended), 300, UNSUPPORTED);
    add("a dictionary", LZ4, frame(0x61, 0x70, size, &ended), 300, UNSUPPORTED);
    add("a later version", LZ4, frame(0xA0, 0x70, size, &ended), 300, UNSUPPORTED);
    add("a block size of no meaning", LZ4, frame(0x60, 0x30, size, &ended), 300, CORRUPT);
    add("a stored block of another size", LZ4, frame(0x60, 0x70, size | 1 << 31, &ended), 300, UNSUPPORTED);
    let stored = [&plain(300)[..], &[0; 4]].concat();
    add("a stored block", LZ4, frame(0x60, 0x70, 300 | 1 << 31, &stored), 300, OK);
    add("a block beyond 64 KB", LZ4, frame(0x60, 0x40, 65_537, &ended), 300, CORRUPT);
    add("no block", LZ4, frame(0x60, 0x70, 0, &[]), 300, UNSUPPORTED);
    add("two blocks", LZ4, frame(0x60, 0x70, 4, &[0x10, 1, 2, 3, 1, 0, 0, 0, 9]), 300, UNSUPPORTED);
    add("no end mark", LZ4, frame(0x60, 0x70, size, &block), 300, TRUNCATED);
    let more = [&ended[..], &[0; 4]].concat();
    add("bytes behind the frame", LZ4, frame(0x60, 0x70, size, &more), 300, UNSUPPORTED);
    add("a skippable frame of LZ4", LZ4, [0x5F, 0x2A, 0x4D, 0x18, 2, 0, 0, 0, 1, 2].to_vec(), 300, UNSUPPORTED);
    add("nothing", LZ4, Vec::new(), 300, TRUNCATED);
    all
}

/// What the CPU makes of a stream: so many bytes, these.
pub(crate) fn cpu(codec: u32, src: &[u8], dst_len: usize) -> swath_codec::Result<Vec<u8>> {
    let mut out = vec![0; dst_len];
    let len = match codec {
        ZLIB => deflate::Decoder::new().decode(src, &mut out)?,
        ZSTD => zstd::Decoder::new().decode(src, &mut out)?,
        _ => lz4::decode(src, &mut out)?,
    };
    out.truncate(len);
    Ok(out)
}
