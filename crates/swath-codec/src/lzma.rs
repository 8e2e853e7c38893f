//! LZMA (compression 34925): an xz stream with LZMA2 and, as libtiff writes it, a delta filter.

use std::io::{ErrorKind, Write};

use lzma_rust2::{Action, CheckType, Status, XzOptions, XzStream, XzWriter};

use crate::{Error, Result, memory};

const NAME: &str = "LZMA";
/// The limit on the memory that a stream may request. The dictionary grows with the output and is not allocated
/// at once, so a wrong header costs nothing even below this limit. The largest preset requests 65 MiB.
const MEMORY_LIMIT: u64 = 256 << 20;

/// Decodes the xz streams of `src` until they end or `dst` is full, and returns the number of decoded bytes in
/// `dst`.
///
/// The check value is tested if the stream is read to its end: a wrong one is an error, a missing one is not.
/// The bytes of `dst` after the decoded ones are unspecified.
pub fn decode(src: &[u8], dst: &mut [u8]) -> Result<usize> {
    decode_within(src, dst, u64::MAX)
}

/// Decodes like [`decode`], but refuses a stream that requests more memory than `max_memory`.
pub(crate) fn decode_within(src: &[u8], dst: &mut [u8], max_memory: u64) -> Result<usize> {
    let mut stream = XzStream::new_mem_limit(false, (MEMORY_LIMIT.min(max_memory) >> 10) as u32);
    let mut rest = src;
    let mut out = 0;
    loop {
        let step = match stream.process(rest, &mut dst[out..], Action::Run) {
            Ok(step) => step,
            Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                let needed = u64::from(stream.memory_usage().unwrap_or(u32::MAX)) << 10;
                memory::check_limit(NAME, needed, max_memory)?;
                return Err(Error::Memory { codec: NAME, needed, limit: MEMORY_LIMIT });
            }
            Err(_) => return Err(Error::Corrupt { codec: NAME, what: "it breaks the rules of the format" }),
        };
        rest = &rest[step.bytes_consumed..];
        out += step.bytes_produced;
        // There is no progress: the stream is truncated, or contains more than `dst` has space for.
        if step.status == Status::StreamEnd || (step.bytes_consumed, step.bytes_produced) == (0, 0) {
            return Ok(out);
        }
    }
}

/// Appends one xz stream with `preset` 0 (fast) to 9 (small) that contains `src` to `out`.
///
/// libtiff applies a delta filter of one byte before LZMA2. For samples of one byte it has the effect of a
/// predictor. Swath omits the filter, because the caller chooses a predictor separately. The stream itself
/// states its filters to readers.
///
/// # Errors
/// Returns an error if the preset does not exist.
pub fn encode(src: &[u8], preset: u32, out: &mut Vec<u8>) -> Result<()> {
    if preset > 9 {
        return Err(Error::Unsuited { codec: NAME, what: "a preset outside 0 to 9" });
    }
    let mut options = XzOptions::with_preset(preset);
    options.set_check_sum_type(CheckType::Crc32);
    // A dictionary larger than the block is never filled, but costs ten times its size: 94 MB for preset 6.
    let enough = u32::try_from(src.len()).ok().and_then(u32::checked_next_power_of_two).unwrap_or(u32::MAX);
    let dictionary = &mut options.lzma_options.dict_size;
    *dictionary = enough.clamp(MIN_DICTIONARY, *dictionary);
    let start = out.len();
    let written = XzWriter::new(&mut *out, options).and_then(|mut writer| {
        writer.write_all(src)?;
        writer.finish()
    });
    // A `Vec` accepts all output, so only the options could cause an error.
    if written.is_err() {
        out.truncate(start);
        return Err(Error::Unsuited { codec: NAME, what: "a block of this size" });
    }
    Ok(())
}

/// The smallest dictionary that xz allows.
const MIN_DICTIONARY: u32 = 4096;

#[cfg(test)]
mod tests {
    use lzma_rust2::FilterConfig;

    use super::*;
    use crate::torture::{classes, noise, ramp, torture};

    /// libtiff wrote this stream: 24 bytes of 7 and the alphabet, with a delta filter of distance 1.
    const LIBTIFF: [u8; 64] = [
        253, 55, 122, 88, 90, 0, 0, 0, 255, 18, 217, 65, 2, 1, 3, 1, 0, 33, 1, 22, 121, 32, 196, 238, 224, 0, 49, 0,
        11, 93, 0, 3, 128, 58, 39, 191, 183, 94, 103, 19, 123, 224, 0, 0, 0, 1, 31, 50, 53, 234, 11, 37, 6, 114, 158,
        122, 1, 0, 0, 0, 0, 0, 89, 90,
    ];

    fn plain() -> Vec<u8> {
        [[7; 24].as_slice(), b"abcdefghijklmnopqrstuvwxyz"].concat()
    }

    fn encoded(src: &[u8], check_type: CheckType, delta: Option<u32>) -> Vec<u8> {
        let mut options = XzOptions::with_preset(4);
        options.check_type = check_type;
        options.filters.extend(delta.map(FilterConfig::new_delta));
        let mut writer = XzWriter::new(Vec::new(), options).unwrap();
        writer.write_all(src).unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn libtiff_stream_with_a_delta_filter_decodes() {
        torture(decode, &LIBTIFF, &plain());
    }

    #[test]
    fn every_check_and_delta_decodes() {
        let plain = ramp(100_000);
        for check in [CheckType::None, CheckType::Crc32, CheckType::Crc64, CheckType::Sha256] {
            for delta in [None, Some(1), Some(3), Some(256)] {
                let mut dst = vec![0; plain.len()];
                assert_eq!(decode(&encoded(&plain, check, delta), &mut dst), Ok(plain.len()));
                assert!(dst == plain, "{delta:?}");
            }
        }
    }

    #[test]
    fn wrong_check_is_corrupt_and_a_missing_one_is_not() {
        let plain = ramp(3000);
        let stream = encoded(&plain, CheckType::Crc32, None);
        let mut dst = vec![0; plain.len()];
        // After the check follow the index of 8 bytes with its checksum and the footer of 12 bytes.
        let check = stream.len() - 12 - 12 - 4;
        assert_eq!(decode(&stream[..check], &mut dst), Ok(plain.len()));
        let mut damaged = stream.clone();
        damaged[check] ^= 1;
        assert!(matches!(decode(&damaged, &mut dst), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn every_preset_round_trips_from_nothing_to_more_than_a_dictionary() {
        for preset in 0..=9 {
            for plain in [vec![], vec![7], ramp(4097), classes(70_000), noise(300_000, 256)] {
                let mut stream = vec![1, 2];
                encode(&plain, preset, &mut stream).unwrap();
                let mut dst = vec![0; plain.len()];
                assert_eq!(decode(&stream[2..], &mut dst), Ok(plain.len()));
                assert!(dst == plain, "preset {preset}");
            }
        }
        assert!(matches!(encode(&[], 10, &mut Vec::new()), Err(Error::Unsuited { .. })));
    }

    /// A reader has to allocate the size of the dictionary too.
    #[test]
    fn dictionary_is_not_larger_than_the_block_needs() {
        for (length, property) in [(1, 0), (4096, 0), (4097, 2), (1 << 20, 16), (9 << 20, 22)] {
            let mut stream = Vec::new();
            encode(&vec![0; length], 6, &mut stream).unwrap();
            // The stream header of 12 bytes; size and flags of the block; LZMA2 with one byte of properties.
            assert_eq!(stream[12..17], [2, 0, 0x21, 1, property], "{length} bytes");
        }
    }

    #[test]
    fn dictionary_of_gigabytes_is_refused() {
        // The stream of libtiff with the largest possible dictionary size, 4 GiB - 1.
        let mut stream = LIBTIFF;
        stream[19..24].copy_from_slice(&[40, 210, 61, 165, 47]);
        let error = decode(&stream, &mut [0; 50]).unwrap_err();
        assert!(matches!(error, Error::Memory { needed: 0x1_0000_0000.., .. }), "{error}");
    }

    #[test]
    fn large_dictionary_for_a_small_block_is_accepted() {
        // 64 MiB, which the highest preset of every xz writer requests.
        let mut stream = LIBTIFF;
        stream[19..24].copy_from_slice(&[28, 103, 201, 17, 14]);
        let mut dst = [0; 50];
        assert_eq!(decode(&stream, &mut dst), Ok(50));
        assert!(dst == *plain());
    }

    #[test]
    fn legacy_lzma_stream_is_corrupt() {
        assert!(matches!(
            decode(&[0x5D, 0, 0, 0x80, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], &mut [0; 9]),
            Err(Error::Corrupt { .. })
        ));
    }

    #[test]
    fn damage_neither_panics_nor_overruns() {
        for (plain, delta) in [(noise(900, 256), None), (noise(1500, 2), Some(2)), (classes(3000), Some(1))] {
            torture(decode, &encoded(&plain, CheckType::Crc32, delta), &plain);
        }
    }
}
