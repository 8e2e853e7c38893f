//! What every byte codec must survive, and the data to try it on.

use crate::Result;

/// Bytes below `values` that follow no pattern, the same in every run.
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

/// Runs of equal bytes of many lengths, as in a class map.
pub(crate) fn classes(len: usize) -> Vec<u8> {
    let lengths = noise(len, 97);
    lengths.iter().flat_map(|&n| std::iter::repeat_n(n % 11 * 10, n as usize + 1)).take(len).collect()
}

/// A slope with noise in its low bits, as in a gray image.
pub(crate) fn ramp(len: usize) -> Vec<u8> {
    noise(len, 4).iter().enumerate().map(|(i, n)| (i / 64) as u8 ^ n).collect()
}

/// Decodes `stream`, which encodes `plain`, whole, into less and more room, cut off at every length and with bits
/// flipped; and checks that what comes out is right as far as it can be known and that nothing else is touched.
pub(crate) fn torture(mut decode: impl FnMut(&[u8], &mut [u8]) -> Result<usize>, stream: &[u8], plain: &[u8]) {
    const GUARD: usize = 64;
    let mut room = vec![0; plain.len() * 2 + GUARD];
    let mut guarded = |src: &[u8], len: usize| {
        room.fill(0xA5);
        let got = decode(src, &mut room[..len]);
        assert!(room[len..].iter().all(|&b| b == 0xA5), "wrote beyond its slice");
        got.map(|n| {
            assert!(n <= len, "claims more than there is room for");
            room[..n].to_vec()
        })
    };
    assert!(guarded(stream, plain.len()).as_deref() == Ok(plain), "whole");
    assert!(guarded(stream, plain.len() + 100).as_deref() == Ok(plain), "with room to spare");
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
