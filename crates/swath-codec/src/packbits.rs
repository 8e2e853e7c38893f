//! PackBits (TIFF 6.0 section 9): runs of bytes, each after a signed count.

use crate::Result;

/// The longest run or literal that one count byte can express.
const LONGEST: usize = 128;

/// Decodes `src` until it ends or `dst` is full, and returns the number of decoded bytes in `dst`.
///
/// No stream is corrupt: if `src` ends inside a run, the bytes before its end are used, and a run that extends
/// past `dst` is truncated there.
pub fn decode(src: &[u8], dst: &mut [u8]) -> Result<usize> {
    let mut rest = src;
    let mut out = 0;
    while out < dst.len() {
        let Some((&count, after)) = rest.split_first() else { break };
        rest = after;
        let room = &mut dst[out..];
        match count as i8 {
            0.. => {
                let len = (count as usize + 1).min(room.len()).min(rest.len());
                room[..len].copy_from_slice(&rest[..len]);
                rest = &rest[len..];
                out += len;
            }
            // The specification defines this count as no operation.
            i8::MIN => {}
            _ => {
                let Some((&value, after)) = rest.split_first() else { break };
                rest = after;
                let len = (257 - count as usize).min(room.len());
                room[..len].fill(value);
                out += len;
            }
        }
    }
    Ok(out)
}

/// Appends the PackBits form of `src` to `out`, each row of `row_bytes` separately, as TIFF requires.
pub fn encode(src: &[u8], row_bytes: usize, out: &mut Vec<u8>) {
    for row in src.chunks(row_bytes.max(1)) {
        encode_row(row, out);
    }
}

fn encode_row(row: &[u8], out: &mut Vec<u8>) {
    let mut rest = row;
    while let Some(&value) = rest.first() {
        let run = rest.iter().take(LONGEST).take_while(|&&byte| byte == value).count();
        let taken = if run >= 2 {
            out.extend([(257 - run) as u8, value]);
            run
        } else {
            // A run of two inside a literal saves nothing, so only three equal bytes end a literal.
            let ends = rest.windows(3).take(LONGEST).position(|w| w[0] == w[1] && w[1] == w[2]);
            let len = ends.unwrap_or(rest.len()).min(LONGEST);
            out.push((len - 1) as u8);
            out.extend_from_slice(&rest[..len]);
            len
        };
        rest = &rest[taken..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::{classes, noise, ramp, torture};

    #[test]
    fn example_of_the_specification_decodes() {
        let stream = [0xFE, 0xAA, 0x02, 0x80, 0x00, 0x2A, 0xFD, 0xAA, 0x03, 0x80, 0x00, 0x2A, 0x22, 0xF7, 0xAA];
        let plain = [
            0xAA, 0xAA, 0xAA, 0x80, 0x00, 0x2A, 0xAA, 0xAA, 0xAA, 0xAA, 0x80, 0x00, 0x2A, 0x22, 0xAA, 0xAA, 0xAA, 0xAA,
            0xAA, 0xAA, 0xAA, 0xAA, 0xAA, 0xAA,
        ];
        let mut dst = [0; 24];
        assert_eq!(decode(&stream, &mut dst), Ok(24));
        assert_eq!(dst, plain);
        let mut out = Vec::new();
        encode(&plain, 24, &mut out);
        assert_eq!(out, stream);
    }

    #[test]
    fn minus_128_is_skipped() {
        let mut dst = [0; 3];
        assert_eq!(decode(&[0x80, 0x80, 0xFE, 7, 0x80], &mut dst), Ok(3));
        assert_eq!(dst, [7; 3]);
    }

    #[test]
    fn bytes_of_a_truncated_literal_are_used() {
        let mut dst = [0; 9];
        assert_eq!(decode(&[4, 1, 2], &mut dst), Ok(2));
        assert_eq!(decode(&[4], &mut dst), Ok(0));
        assert_eq!(decode(&[0xF0], &mut dst), Ok(0));
    }

    #[test]
    fn no_packet_crosses_a_row() {
        let plain = vec![3; 1000];
        for row_bytes in [1, 7, 128, 129, 250, 1000, 5000] {
            let mut out = Vec::new();
            encode(&plain, row_bytes, &mut out);
            let mut at = 0;
            let mut column = 0;
            while at < out.len() {
                column += 257 - out[at] as usize;
                if out[at] == 0 {
                    column -= 256;
                }
                assert!(column <= row_bytes);
                column %= row_bytes;
                at += 2;
            }
            assert_eq!(at, out.len());
        }
    }

    #[test]
    fn damage_neither_panics_nor_overruns() {
        for plain in [noise(3000, 256), noise(3000, 2), classes(3000), ramp(3000)] {
            for row_bytes in [100, 3000] {
                let mut stream = Vec::new();
                encode(&plain, row_bytes, &mut stream);
                assert!(stream.len() <= plain.len() + plain.len().div_ceil(LONGEST) + plain.len() / row_bytes);
                torture(decode, &stream, &plain);
            }
        }
    }
}
