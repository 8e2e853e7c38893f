//! The decoder against libzstd, which decides what is right.

use zstd_safe::{CCtx, CParameter, DCtx};

use super::Unzstd;
use crate::torture::{classes, noise, ramp};

/// Returns what libzstd decodes, `None` if it is an error.
fn libzstd(src: &[u8], capacity: usize) -> Option<Vec<u8>> {
    let mut dst = vec![0; capacity];
    let len = DCtx::create().decompress(&mut dst[..], src).ok()?;
    dst.truncate(len);
    Some(dst)
}

/// Decodes with both decoders, and returns whether this one accepts the frame.
fn check(unzstd: &mut Unzstd, src: &[u8], capacity: usize) -> bool {
    const GUARD: usize = 64;
    let mut room = vec![0xA5; capacity + GUARD];
    let decoded = unzstd.decode_any(src, &mut room[..capacity]);
    assert!(room[capacity..].iter().all(|byte| *byte == 0xA5), "the decoder wrote beyond its slice");
    if let Some(len) = decoded {
        let expected = libzstd(src, capacity);
        assert!(expected.as_deref() == Some(&room[..len]), "other bytes than libzstd's, or libzstd refuses the frame");
    }
    decoded.is_some()
}

/// Samples of 16 bits with noise, as differences of neighbours.
fn scene(len: usize) -> Vec<u8> {
    let low = noise(len, 23);
    low.iter().enumerate().map(|(i, n)| if i % 2 == 0 { *n } else { u8::from(*n > 20) * 255 }).collect()
}

/// Repeats of earlier bytes at offsets and of lengths of all sizes.
fn repeats(len: usize) -> Vec<u8> {
    let random = noise(4 * len.max(400), 256);
    let mut bytes = random[..300.min(len)].to_vec();
    let mut choices = random[300..].chunks_exact(6);
    while let (true, Some(choice)) = (bytes.len() < len, choices.next()) {
        let number = |i: usize| usize::from(u16::from_le_bytes([choice[i], choice[i + 1]]));
        let offset = 1 + number(0) % if choice[5] < 128 { 20 } else { bytes.len() };
        let count = number(2) % if choice[5] % 8 == 0 { 70_000 } else { 40 };
        for _ in 0..count.min(len - bytes.len()) {
            bytes.push(bytes[bytes.len() - offset.min(bytes.len())]);
        }
        if choice[4] % 2 == 0 {
            bytes.extend_from_slice(&choice[..1 + usize::from(choice[4] % 6)]);
        }
    }
    bytes.truncate(len);
    bytes
}

fn contents() -> Vec<Vec<u8>> {
    let lengths = [1, 2, 5, 6, 7, 63, 64, 255, 256, 1000, 4097, 70_000, 131_072, 131_073, 600_000];
    let kinds: [fn(usize) -> Vec<u8>; 6] = [scene, repeats, classes, ramp, |len| noise(len, 256), |len| vec![7; len]];
    kinds.iter().flat_map(|kind| lengths.map(kind)).collect()
}

fn encode(plain: &[u8], parameters: &[CParameter]) -> Vec<u8> {
    let mut context = CCtx::create();
    for parameter in parameters {
        context.set_parameter(*parameter).unwrap();
    }
    let mut frame = vec![0; zstd_safe::compress_bound(plain.len())];
    let len = context.compress2(&mut frame[..], plain).unwrap();
    frame.truncate(len);
    frame
}

#[test]
fn frames_of_all_levels_are_accepted() {
    let mut unzstd = Unzstd::try_new().unwrap();
    for plain in contents() {
        for level in [-5, 1, 2, 3, 5, 7, 9, 12, 16, 19] {
            for has_size in [true, false] {
                let options = [CParameter::CompressionLevel(level), CParameter::ContentSizeFlag(has_size)];
                let frame = encode(&plain, &options);
                assert!(check(&mut unzstd, &frame, plain.len()), "{} bytes at level {level}", plain.len());
                assert!(check(&mut unzstd, &frame, plain.len() + 1000), "into a longer slice");
                assert!(!check(&mut unzstd, &frame, plain.len() - 1), "into a slice that is too short");
            }
        }
    }
}

#[test]
fn small_windows_and_literals_without_a_code_are_accepted() {
    let mut unzstd = Unzstd::try_new().unwrap();
    for plain in contents() {
        for window in [10, 12, 17] {
            let options =
                [CParameter::CompressionLevel(3), CParameter::WindowLog(window), CParameter::ContentSizeFlag(false)];
            assert!(check(&mut unzstd, &encode(&plain, &options), plain.len()), "{} bytes", plain.len());
        }
    }
}

#[test]
fn frames_for_libzstd_are_refused() {
    let mut unzstd = Unzstd::try_new().unwrap();
    let plain = scene(10_000);
    let frame = encode(&plain, &[]);
    let with_checksum = encode(&plain, &[CParameter::ChecksumFlag(true)]);
    let two = [&frame[..], &frame[..]].concat();
    let followed = [&frame[..], &[0]].concat();
    for (what, src) in [("a checksum", with_checksum), ("two frames", two), ("bytes after it", followed)] {
        assert!(!check(&mut unzstd, &src, 2 * plain.len()), "{what}");
    }
}

#[test]
fn truncated_frames_are_refused() {
    let mut unzstd = Unzstd::try_new().unwrap();
    for plain in [scene(3000), repeats(3000), noise(400, 256)] {
        let frame = encode(&plain, &[CParameter::ContentSizeFlag(false)]);
        for len in 0..frame.len() {
            assert!(!check(&mut unzstd, &frame[..len], plain.len()), "{len} of {} bytes", frame.len());
        }
    }
}

/// Every damaged frame that is accepted must be one that libzstd accepts, with the same bytes.
#[test]
fn damaged_frames_are_accepted_only_if_libzstd_does() {
    let mut unzstd = Unzstd::try_new().unwrap();
    let mut accepted = 0;
    for (number, plain) in [scene(5000), repeats(9000), classes(4000), ramp(3000), noise(500, 11)].iter().enumerate() {
        for level in [1, 5, 19] {
            let frame = encode(plain, &[CParameter::CompressionLevel(level), CParameter::ContentSizeFlag(false)]);
            let random = noise(4 * 4000 + number, 256);
            for choice in random.chunks_exact(4) {
                let mut damaged = frame.clone();
                // Half of the damage is in the headers and tables.
                let range = if choice[2] < 128 { frame.len() } else { frame.len().min(120) };
                let at = 4 + usize::from(u16::from_le_bytes([choice[0], choice[1]])) % (range - 4);
                if choice[2] % 2 == 0 {
                    damaged[at] ^= 1 << (choice[3] % 8);
                } else {
                    damaged[at] = choice[3];
                }
                accepted += usize::from(check(&mut unzstd, &damaged, plain.len() + 5000));
            }
        }
    }
    assert!(accepted > 100, "only {accepted} damaged frames are still frames: the test tests nothing");
}

#[test]
fn long_sequences_are_left_to_libzstd() {
    let mut unzstd = Unzstd::try_new().unwrap();
    let mut accepts = |plain: &[u8]| unzstd.decode(&encode(plain, &[]), &mut vec![0; plain.len()]).is_some();
    assert!(accepts(&scene(300_000)), "short sequences");
    assert!(!accepts(&classes(300_000)), "long matches");
    assert!(!accepts(&noise(300_000, 200)), "only literals");
}
