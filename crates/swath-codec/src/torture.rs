//! A robustness test for every byte codec, and the data for it.

use crate::Result;

/// Returns pseudo-random bytes below `values`, the same in every run.
pub(crate) fn noise(len: usize, values: u32) -> Vec<u8> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64 ^ (len as u64) << 20 ^ values as u64;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ((state >> 32) as u32 % values) as u8
        })
        .collect()
}

/// Returns runs of equal bytes of many lengths, as in a class map.
pub(crate) fn classes(len: usize) -> Vec<u8> {
    let lengths = noise(len, 97);
    lengths.iter().flat_map(|&n| std::iter::repeat_n(n % 11 * 10, n as usize + 1)).take(len).collect()
}

/// Returns a slope with noise in its low bits, as in a grey image.
pub(crate) fn ramp(len: usize) -> Vec<u8> {
    noise(len, 4).iter().enumerate().map(|(i, n)| (i / 64) as u8 ^ n).collect()
}

/// Decodes `stream`, which encodes `plain`: whole, into shorter and longer slices, cut off at every length, and
/// with flipped bits. Checks that the output is correct as far as that can be known, and that the decoder
/// writes nothing outside its slice.
pub(crate) fn torture(mut decode: impl FnMut(&[u8], &mut [u8]) -> Result<usize>, stream: &[u8], plain: &[u8]) {
    const GUARD: usize = 64;
    let mut room = vec![0; plain.len() * 2 + GUARD];
    let mut guarded = |src: &[u8], len: usize| {
        room.fill(0xA5);
        let got = decode(src, &mut room[..len]);
        assert!(room[len..].iter().all(|&b| b == 0xA5), "the decoder wrote beyond its slice");
        got.map(|n| {
            assert!(n <= len, "the decoder reports more bytes than the slice holds");
            room[..n].to_vec()
        })
    };
    assert!(guarded(stream, plain.len()).as_deref() == Ok(plain), "whole");
    assert!(guarded(stream, plain.len() + 100).as_deref() == Ok(plain), "slice longer than the block");
    for len in [0, 1, 2, plain.len() / 3, plain.len() / 2, plain.len() - 1] {
        assert!(guarded(stream, len).as_deref() == Ok(&plain[..len]), "the first {len} bytes");
    }
    for len in 0..stream.len() {
        if let Ok(got) = guarded(&stream[..len], plain.len()) {
            assert!(plain.starts_with(&got), "cut off after {len} bytes");
        }
    }
    let places = noise(8000, 256);
    for pair in places.chunks_exact(4) {
        let mut damaged = stream.to_vec();
        let at = u16::from_le_bytes([pair[0], pair[1]]) as usize % damaged.len();
        damaged[at] ^= 1 << (pair[2] % 8);
        let _ = guarded(&damaged, plain.len());
        damaged[at] = pair[3];
        let _ = guarded(&damaged, plain.len() * 2);
    }
}
