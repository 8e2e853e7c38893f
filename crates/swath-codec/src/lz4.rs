//! LZ4 (compression 50004): the frame format, or a bare block without a frame.
//!
//! This module decodes blocks itself, because the LZ4 crates return nothing for a block that is truncated or
//! longer than the requested bytes, and because the destination can serve as the window.

use std::io::Write;

use lz4_flex::frame::{BlockSize, FrameEncoder, FrameInfo};
use twox_hash::XxHash32;

use crate::{Error, Result};

const NAME: &str = "LZ4";
const MAGIC: u32 = 0x184D_2204;
/// The magic number of frames without data, in any of 16 variants.
const SKIPPABLE: u32 = 0x184D_2A50;
/// Set in the size of a block that is stored without compression.
const STORED: u32 = 0x8000_0000;

/// Decodes `src` until it ends or `dst` is full, and returns the number of decoded bytes in `dst`.
///
/// The bytes of `dst` after the decoded ones are unspecified.
pub fn decode(src: &[u8], dst: &mut [u8]) -> Result<usize> {
    let mut rest = src;
    let mut out = 0;
    if !matches!(peek_u32(rest), Some(magic) if magic == MAGIC || is_skippable(magic)) {
        return Ok(decode_block(rest, dst, 0, 0)?.0);
    }
    while out < dst.len() {
        let Some(magic) = take_u32(&mut rest) else { break };
        if magic == MAGIC {
            out = decode_frame(&mut rest, dst, out)?;
        } else if is_skippable(magic) {
            let Some(size) = take_u32(&mut rest) else { break };
            rest = rest.get(size as usize..).unwrap_or_default();
        } else {
            return corrupt("data that is not a frame follows a frame");
        }
    }
    Ok(out)
}

fn is_skippable(magic: u32) -> bool {
    magic & !0xF == SKIPPABLE
}

/// Decodes the frame after its magic number to `dst[out..]`. Returns the end of the data.
fn decode_frame(rest: &mut &[u8], dst: &mut [u8], out: usize) -> Result<usize> {
    let Some(header) = Header::read(rest)? else {
        *rest = &[];
        return Ok(out);
    };
    let start = out;
    let mut out = out;
    loop {
        // The decoder reads up to the end mark even if `dst` is full: the mark shows whether the checksum
        // covers these bytes.
        let size = match peek_u32(rest) {
            Some(0) => break,
            Some(size) if out < dst.len() => size,
            _ => return Ok(out),
        };
        *rest = &rest[4..];
        let (stored, size) = (size & STORED != 0, (size & !STORED) as usize);
        if size > header.block_max {
            return corrupt("a block is larger than its frame allows");
        }
        let whole = size <= rest.len();
        let (block, after) = rest.split_at(size.min(rest.len()));
        *rest = after;
        if header.block_checksum
            && let Some(sum) = take_u32(rest)
            && sum != XxHash32::oneshot(0, block)
        {
            return corrupt("the checksum of a block does not match its data");
        }
        let fits;
        if stored {
            fits = block.len() <= dst.len() - out;
            let len = block.len().min(dst.len() - out);
            dst[out..out + len].copy_from_slice(&block[..len]);
            out += len;
        } else {
            let window = if header.independent { out } else { start };
            (out, fits) = decode_block(block, dst, window, out)?;
        }
        if !whole || !fits {
            return Ok(out);
        }
    }
    *rest = &rest[4..];
    if header.content_checksum
        && let Some(sum) = take_u32(rest)
        && sum != XxHash32::oneshot(0, &dst[start..out])
    {
        return corrupt("its checksum does not match its data");
    }
    Ok(out)
}

/// The fields of a frame header that decoding needs.
struct Header {
    independent: bool,
    block_checksum: bool,
    content_checksum: bool,
    block_max: usize,
}

impl Header {
    /// Reads the header after the magic number; `None` if it is truncated.
    fn read(rest: &mut &[u8]) -> Result<Option<Self>> {
        let &[flags, sizes, ..] = *rest else { return Ok(None) };
        if flags >> 6 != 1 {
            return corrupt("the version of its frame is unknown");
        }
        if flags & 1 != 0 {
            return corrupt("it needs a dictionary, which a TIFF cannot store");
        }
        let len = if flags & 8 != 0 { 10 } else { 2 };
        let Some((fields, after)) = rest.split_at_checked(len) else { return Ok(None) };
        let Some((&sum, after)) = after.split_first() else { return Ok(None) };
        if sum != (XxHash32::oneshot(0, fields) >> 8) as u8 {
            return corrupt("the checksum of its header does not match");
        }
        *rest = after;
        let block_max = match sizes >> 4 & 7 {
            code @ 4..=7 => 1 << (2 * code + 8),
            _ => return corrupt("the block size of its frame is unknown"),
        };
        Ok(Some(Self {
            independent: flags & 32 != 0,
            block_checksum: flags & 16 != 0,
            content_checksum: flags & 4 != 0,
            block_max,
        }))
    }
}

/// Decodes one block to `dst[out..]`, with `dst[window..out]` as the preceding data. Returns the end of the
/// data and whether `dst` had space for all of it.
fn decode_block(src: &[u8], dst: &mut [u8], window: usize, out: usize) -> Result<(usize, bool)> {
    let mut at = 0;
    let mut out = out;
    while let Some(&token) = src.get(at) {
        at += 1;
        let mut literals = (token >> 4) as usize;
        if literals < 15
            && let Some(from) = src.get(at..at + 16)
            && let Some(to) = dst.get_mut(out..out + 16)
        {
            to.copy_from_slice(from);
        } else {
            if literals == 15 {
                literals += extension(src, &mut at);
            }
            let len = literals.min(src.len() - at).min(dst.len() - out);
            dst[out..out + len].copy_from_slice(&src[at..at + len]);
            if len < literals {
                return Ok((out + len, out + len < dst.len()));
            }
        }
        at += literals;
        out += literals;
        let Some(distance) = src.get(at..at + 2) else { break };
        at += 2;
        let distance = u16::from_le_bytes([distance[0], distance[1]]) as usize;
        if distance == 0 || distance > out - window {
            return corrupt("a match starts before the data");
        }
        let mut len = (token & 15) as usize + 4;
        if len == 19 {
            len += extension(src, &mut at);
        }
        if out + len.next_multiple_of(32) > dst.len() {
            let room = dst.len() - out;
            copy_match(dst, out, distance, len.min(room));
            if len > room {
                return Ok((dst.len(), false));
            }
        } else if distance >= 32 {
            for done in (0..len).step_by(32) {
                dst.copy_within(out - distance + done..out - distance + done + 32, out + done);
            }
        } else {
            copy_match(dst, out, distance, len);
        }
        out += len;
    }
    Ok((out, true))
}

/// Repeats the `distance` bytes before `out` until `len` bytes are written.
fn copy_match(dst: &mut [u8], out: usize, distance: usize, len: usize) {
    let start = out - distance;
    let end = out + len;
    let mut out = out;
    // Each round doubles the number of bytes that can be copied.
    while out < end {
        let len = (out - start).min(end - out);
        dst.copy_within(start..start + len, out);
        out += len;
    }
}

/// Reads the bytes that extend the length of a literal or a match. If `src` ends early, the length is the sum
/// of the bytes that are present.
fn extension(src: &[u8], at: &mut usize) -> usize {
    let mut sum = 0;
    while let Some(&byte) = src.get(*at) {
        *at += 1;
        sum += byte as usize;
        if byte != 255 {
            break;
        }
    }
    sum
}

fn peek_u32(rest: &[u8]) -> Option<u32> {
    rest.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    let (bytes, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u32::from_le_bytes(*bytes))
}

fn corrupt<T>(what: &'static str) -> Result<T> {
    Err(Error::Corrupt { codec: NAME, what })
}

/// Appends one LZ4 frame with a content checksum to `out`. It has one block if the data is not too large,
/// because nvCOMP decodes only such frames.
pub fn encode(src: &[u8], out: &mut Vec<u8>) {
    let sizes = [(64 << 10, BlockSize::Max64KB), (256 << 10, BlockSize::Max256KB), (1 << 20, BlockSize::Max1MB)];
    let fitting = sizes.into_iter().find(|&(most, _)| src.len() <= most);
    let block_size = fitting.map_or(BlockSize::Max4MB, |(_, size)| size);
    let info = FrameInfo::new().block_size(block_size).content_checksum(true);
    let mut frame = FrameEncoder::with_frame_info(info, &mut *out);
    // This cannot fail, because writing to a vector does not fail.
    let _ = frame.write_all(src);
    let _ = frame.finish();
}

#[cfg(test)]
mod tests {
    use lz4_flex::frame::BlockMode;

    use super::*;
    use crate::torture::{classes, noise, ramp, torture};

    fn plain() -> Vec<u8> {
        [[7; 24].as_slice(), b"abcdefghijklmnopqrstuvwxyz"].concat()
    }

    fn framed(src: &[u8], info: FrameInfo) -> Vec<u8> {
        let mut frame = FrameEncoder::with_frame_info(info, Vec::new());
        frame.write_all(src).unwrap();
        frame.finish().unwrap()
    }

    #[test]
    fn frame_of_the_reference_library_decodes() {
        torture(
            decode,
            &[
                4, 34, 77, 24, 104, 64, 50, 0, 0, 0, 0, 0, 0, 0, 132, 33, 0, 0, 0, 31, 7, 1, 0, 4, 240, 11, 97, 98, 99,
                100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114, 115, 116, 117, 118, 119,
                120, 121, 122, 0, 0, 0, 0,
            ],
            &plain(),
        );
    }

    #[test]
    fn bare_block_of_the_reference_library_decodes() {
        torture(
            decode,
            &[
                31, 7, 1, 0, 4, 240, 11, 97, 98, 99, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112,
                113, 114, 115, 116, 117, 118, 119, 120, 121, 122,
            ],
            &plain(),
        );
    }

    #[test]
    fn frames_of_every_kind_decode() {
        for plain in [noise(300_000, 256), noise(300_000, 2), classes(300_000), ramp(300_000)] {
            for mode in [BlockMode::Independent, BlockMode::Linked] {
                for size in [BlockSize::Max64KB, BlockSize::Max4MB] {
                    let info = FrameInfo::new()
                        .block_mode(mode)
                        .block_size(size)
                        .block_checksums(true)
                        .content_checksum(true)
                        .content_size(Some(plain.len() as u64));
                    let stream = framed(&plain, info);
                    let mut dst = vec![0; plain.len()];
                    assert_eq!(decode(&stream, &mut dst), Ok(plain.len()));
                    assert!(dst == plain);
                    let len = decode(&stream, &mut dst[..100_000]).unwrap();
                    assert!(len == 100_000 && dst[..len] == plain[..len]);
                    let len = decode(&stream[..stream.len() / 2], &mut dst).unwrap();
                    assert!(len < plain.len() && dst[..len] == plain[..len]);
                }
            }
        }
    }

    #[test]
    fn consecutive_and_skippable_frames_are_one_stream() {
        let plain = ramp(3000);
        let skippable = [0x53, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 9, 9, 9];
        let mut stream = Vec::new();
        encode(&plain[..1000], &mut stream);
        stream.extend(skippable);
        encode(&plain[1000..], &mut stream);
        torture(decode, &stream, &plain);
        let mut dst = vec![0; plain.len()];
        assert_eq!(decode(&[skippable.as_slice(), &stream].concat(), &mut dst), Ok(plain.len()));
        assert!(dst == plain);
    }

    #[test]
    fn wrong_checksum_of_content_is_corrupt_and_a_missing_one_is_not() {
        let plain = ramp(3000);
        let mut stream = Vec::new();
        encode(&plain, &mut stream);
        let mut dst = vec![0; plain.len()];
        assert_eq!(decode(&stream[..stream.len() - 4], &mut dst), Ok(plain.len()));
        *stream.last_mut().unwrap() ^= 1;
        assert!(matches!(decode(&stream, &mut dst), Err(Error::Corrupt { .. })));
        assert_eq!(decode(&stream, &mut dst[..2999]), Ok(2999));
    }

    #[test]
    fn truncated_header_is_an_end_not_corruption() {
        let info = FrameInfo::new().content_size(Some(3000));
        let stream = framed(&ramp(3000), info);
        for len in 4..20 {
            assert_eq!(decode(&stream[..len], &mut [0; 3000]), Ok(0));
        }
    }

    #[test]
    fn match_before_the_data_is_corrupt() {
        assert!(matches!(decode(&[0x10, b'a', 2, 0], &mut [0; 20]), Err(Error::Corrupt { .. })));
        assert!(matches!(decode(&[0x10, b'a', 0, 0], &mut [0; 20]), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn damage_neither_panics_nor_overruns() {
        for plain in [noise(2000, 256), noise(2000, 2), classes(3000), ramp(3000)] {
            let mut stream = Vec::new();
            encode(&plain, &mut stream);
            torture(decode, &stream, &plain);
            torture(decode, &lz4_flex::block::compress(&plain), &plain);
        }
    }
}
