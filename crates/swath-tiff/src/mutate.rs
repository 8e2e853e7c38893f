//! Pseudo-random damage for tests: the same on every machine, without a dependency.

/// Calls `check` with `count` damaged copies of `seed`, with bytes flipped, replaced, removed, repeated or cut
/// off.
pub(crate) fn each(seed: &[u8], count: usize, mut check: impl FnMut(&[u8])) {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut below = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % bound.max(1)
    };
    const MARKUP: &[u8] = b"<>/&;'\"=!-[]?# \0\n,.0129e+-x\xE9\xFF";
    for _ in 0..count {
        let mut bytes = seed.to_vec();
        for _ in 0..=below(4) {
            if bytes.is_empty() {
                break;
            }
            let at = below(bytes.len());
            match below(5) {
                0 => bytes[at] ^= 1 << below(8),
                1 => bytes[at] = MARKUP[below(MARKUP.len())],
                2 => drop(bytes.drain(at..(at + 1 + below(8)).min(bytes.len()))),
                3 => {
                    let copy = bytes[at..(at + 1 + below(16)).min(bytes.len())].to_vec();
                    let to = below(bytes.len());
                    bytes.splice(to..to, copy);
                }
                _ => bytes.truncate(at),
            }
        }
        check(&bytes);
    }
}
