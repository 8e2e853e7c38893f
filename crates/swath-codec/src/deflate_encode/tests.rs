//! Decodes what the encoder writes with three decoders, and checks its codes.

use libdeflater::{CompressionLvl, Compressor, Decompressor};
use miniz_oxide::inflate::decompress_to_vec_zlib;

use super::huffman::Code;
use super::{BLOCK, LITERALS, LongMatchEncoder, MAX_LITERAL_BITS, bound};
use crate::deflate;
use crate::inflate::{Inflater, Stream};
use crate::torture::{classes, noise, ramp};

fn encoded(plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    LongMatchEncoder::new().encode(plain, &mut out);
    out
}

/// Checks that libdeflate, miniz_oxide, which follows zlib, and the interleaved decoder return `plain`.
fn assert_decodes(stream: &[u8], plain: &[u8]) {
    let mut out = vec![0; plain.len()];
    assert_eq!(Decompressor::new().zlib_decompress(stream, &mut out), Ok(plain.len()));
    assert!(out == plain, "libdeflate decodes {} other bytes", plain.len());
    assert!(
        decompress_to_vec_zlib(stream).is_ok_and(|out| out == plain),
        "miniz_oxide decodes {} other bytes",
        plain.len()
    );
    out.fill(0);
    let mut streams = [Stream::new(stream, &mut out)];
    Inflater::new().decode(&mut streams);
    assert_eq!(streams[0].len, Some(plain.len()));
    assert!(out == plain, "the interleaved decoder decodes {} other bytes", plain.len());
}

/// Rows of byte planes as the floating point predictor makes them: zeros, a few small steps, noise.
fn planes(rows: usize) -> Vec<u8> {
    let steps = noise(rows * 256, 256);
    let low = noise(rows * 512, 256);
    let mut out = Vec::new();
    for (steps, low) in steps.chunks_exact(256).zip(low.chunks_exact(512)) {
        out.extend([0; 256]);
        out.extend(steps.iter().map(|&step| if step < 40 { step % 2 * 2 } else { 1 }.wrapping_sub(1)));
        out.extend(low);
    }
    out
}

fn plains() -> Vec<Vec<u8>> {
    let mut plains = vec![vec![], vec![7], vec![0; 70_000], vec![9; 1 << 20], (0..=255).cycle().take(90_000).collect()];
    for len in [2, 3, 7, 8, 9, 13, 14, 15, 22, 23, 100, 257, 258, 259, 3000, 65_535, 65_536, 66_000, 200_000] {
        plains.extend([noise(len, 256), noise(len, 3), noise(len, 90), classes(len), ramp(len)]);
    }
    // Around the end of the first block, and the rest that joins it.
    for len in [BLOCK - 1, BLOCK, BLOCK + 1, BLOCK + BLOCK / 2 - 1, BLOCK + BLOCK / 2, 2 * BLOCK, 3 * BLOCK + 5] {
        plains.extend([noise(len, 256), noise(len, 7), classes(len), planes(len.div_ceil(1024))]);
    }
    // Skewed values, which produce codes of many lengths.
    plains.push(noise(150_000, 256).iter().map(|a| (a.trailing_zeros() * 31) as u8 ^ (a & 1)).collect());
    plains
}

#[test]
fn every_stream_is_decoded_by_all_decoders_and_is_never_larger_than_stored() {
    for plain in plains() {
        let stream = encoded(&plain);
        assert_decodes(&stream, &plain);
        assert!(stream.len() <= plain.len() + 5 * (plain.len() / 32_768 + 2) + 6, "{} bytes", plain.len());
    }
}

#[test]
fn matches_at_the_largest_distance_are_found_and_farther_ones_are_not_used() {
    for (distance, is_found) in [(32_767, true), (32_768, true), (32_769, false), (65_536, false), (100_000, false)] {
        let mut plain = noise(distance, 256);
        plain.extend_from_within(..200);
        plain.extend(noise(distance - 200, 256));
        plain.extend_from_within(distance..);
        let stream = encoded(&plain);
        assert_decodes(&stream, &plain);
        assert_eq!(stream.len() < plain.len() - distance / 2, is_found, "distance {distance}");
    }
}

#[test]
fn random_copies_of_random_bytes_are_decoded_exactly() {
    let mut random = noise(3 * 4000, 256).into_iter().map(usize::from);
    let mut next = || random.next().unwrap_or(0);
    let mut plain = noise(300, 256);
    while plain.len() < 600_000 {
        match next() % 4 {
            0 => plain.extend(noise(next() * 5, 1 + next() as u32)),
            1 => plain.extend(vec![next() as u8; next() * 3]),
            _ => {
                let distance = 1 + (next() * 256 + next()) % plain.len();
                for _ in 0..next() * 2 {
                    plain.push(plain[plain.len() - distance]);
                }
            }
        }
    }
    for end in [1000, 65_000, 140_000, 333_333, plain.len()] {
        assert_decodes(&encoded(&plain[..end]), &plain[..end]);
    }
}

#[test]
fn a_stream_does_not_depend_on_earlier_blocks_or_on_the_thread() {
    let plains = plains();
    let fresh: Vec<Vec<u8>> = plains.iter().map(|plain| encoded(plain)).collect();
    std::thread::scope(|scope| {
        for step in [1, 3] {
            let (plains, fresh) = (&plains, &fresh);
            scope.spawn(move || {
                let mut encoder = deflate::Encoder::new(6).unwrap();
                let mut long = LongMatchEncoder::new();
                for index in (0..plains.len()).map(|i| i * step % plains.len()) {
                    let mut out = vec![1, 2, 3];
                    long.encode(&plains[index], &mut out);
                    assert!(out[..3] == [1, 2, 3] && out[3..] == fresh[index], "plain {index}");
                    let (mut used, mut unused) = (Vec::new(), Vec::new());
                    encoder.encode(&plains[index], &mut used);
                    deflate::Encoder::new(6).unwrap().encode(&plains[index], &mut unused);
                    assert!(used == unused, "plain {index}");
                }
            });
        }
    });
}

#[test]
fn only_blocks_without_short_matches_are_encoded_with_long_ones() {
    let libdeflate = |plain: &[u8], level: i32| {
        let mut compressor = Compressor::new(CompressionLvl::new(level).unwrap());
        let mut out = vec![0; compressor.zlib_compress_bound(plain.len())];
        let len = compressor.zlib_compress(plain, &mut out).unwrap();
        out.truncate(len);
        out
    };
    // Differences of noisy 16-bit samples: the high bytes are 0 or 255, so pairs of samples repeat.
    let pairs = noise(200_000, 100);
    let samples = pairs.windows(2).flat_map(|pair| (i16::from(pair[1]) - i16::from(pair[0])).to_le_bytes()).collect();
    let blocks = [(planes(1024), true), (noise(400_000, 100), true), (noise(400_000, 256), true)];
    let others: [(Vec<u8>, bool); 4] =
        [(samples, false), (classes(400_000), false), (vec![0; 400_000], false), (planes(20), false)];
    for (plain, is_long) in blocks.into_iter().chain(others) {
        for level in [1, 4, 5, 6, 7, 9] {
            let mut stream = Vec::new();
            deflate::Encoder::new(level).unwrap().encode(&plain, &mut stream);
            assert_decodes(&stream, &plain);
            let expected = libdeflate(&plain, level);
            assert!(stream.len() * 100 <= expected.len() * 101, "{} bytes, level {level}", plain.len());
            if level == 6 {
                assert_eq!(stream == encoded(&plain), is_long, "{} bytes", plain.len());
            }
        }
    }
}

#[test]
fn bytes_of_a_stream_are_pinned() {
    // If this fails, the bytes of Deflate files change. That needs a line in CHANGELOG.md.
    let stream = encoded(&planes(300));
    assert_eq!((stream.len(), libdeflater::crc32(&stream)), (172_161, 2_319_884_753));
}

#[test]
fn codes_are_complete_and_within_the_limit_for_any_counts() {
    let mut fibonacci = [0; LITERALS];
    let (mut a, mut b) = (1_u32, 1);
    for count in fibonacci.iter_mut().take(40) {
        *count = a;
        (a, b) = (b, a + b);
    }
    let mut counts = vec![[0; LITERALS], [1; LITERALS], fibonacci];
    for (used, most) in [(1, 2), (2, 256), (286, 256), (100, 3)] {
        let random = noise(LITERALS, most);
        counts.push(std::array::from_fn(|i| if i < used { u32::from(random[i]).pow(3) } else { 0 }));
    }
    counts.push(std::array::from_fn(|i| u32::from(i == 285)));
    for counts in counts {
        for max_bits in [9, MAX_LITERAL_BITS, 15] {
            let code = Code::new(&counts, max_bits);
            let space: usize = code.lens.iter().filter(|&&len| len > 0).map(|len| 1 << (15 - len)).sum();
            assert_eq!(space, 1 << 15, "the code is complete");
            assert!(code.lens.iter().all(|&len| usize::from(len) <= max_bits));
            assert!(code.lens.iter().zip(&counts).all(|(&len, &count)| count == 0 || len > 0));
        }
    }
}

#[test]
fn the_bound_includes_stored_blocks_and_the_last_store() {
    for len in [0, 1, 65_535, 65_536, 1 << 20, 10_000_000] {
        assert!(bound(len) >= len + 5 * (len / MAX_PIECE + 2) + 8);
    }
}

/// Stored blocks are at least this large on average: the pieces of one block have at most 65535 bytes.
const MAX_PIECE: usize = BLOCK / 3;
