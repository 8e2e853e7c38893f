//! Writes bits to a slice, from the lowest bit of each byte.

/// A writer of bits. Between calls fewer than eight bits are waiting.
pub(super) struct BitWriter<'a> {
    out: &'a mut [u8],
    len: usize,
    word: u64,
    bits: u32,
}

/// A code of up to 16 bits in the low half and its number of bits in the high half.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Packed(u32);

impl Packed {
    pub(super) fn new(code: u16, bits: u8) -> Self {
        Self(u32::from(code) | u32::from(bits) << 16)
    }

    #[inline(always)]
    fn code(self) -> u64 {
        u64::from(self.0 & 0xFFFF)
    }

    #[inline(always)]
    fn bits(self) -> u32 {
        self.0 >> 16
    }
}

impl<'a> BitWriter<'a> {
    pub(super) fn new(out: &'a mut [u8]) -> Self {
        Self { out, len: 0, word: 0, bits: 0 }
    }

    /// Stores the whole word and keeps the bits of the last, incomplete byte. `out` has space for eight bytes.
    #[inline(always)]
    fn flush(&mut self) {
        self.out[self.len..self.len + 8].copy_from_slice(&self.word.to_le_bytes());
        self.len += (self.bits / 8) as usize;
        self.word >>= self.bits & 56;
        self.bits &= 7;
    }

    /// Writes the `bits` low bits of `value`, at most 56. The other bits of `value` are 0.
    #[inline(always)]
    pub(super) fn put(&mut self, value: u64, bits: u32) {
        self.word |= value << self.bits;
        self.bits += bits;
        self.flush();
    }

    /// Writes the codes of `literals`, which have at most 14 bits each. The codes of four literals are joined in
    /// pairs, so that only one addition per group waits for the group before.
    #[inline(always)]
    pub(super) fn put_literals(&mut self, literals: &[u8], codes: &[Packed; 256]) {
        let (groups, rest) = literals.as_chunks::<4>();
        for group in groups {
            let [a, b, c, d] = group.map(|byte| codes[usize::from(byte)]);
            let (first, first_bits) = (a.code() | b.code() << a.bits(), a.bits() + b.bits());
            let (second, second_bits) = (c.code() | d.code() << c.bits(), c.bits() + d.bits());
            self.put(first | second << first_bits, first_bits + second_bits);
        }
        for &byte in rest {
            let code = codes[usize::from(byte)];
            self.word |= code.code() << self.bits;
            self.bits += code.bits();
        }
        self.flush();
    }

    /// Writes the length and the bytes of a stored block from the next whole byte on.
    pub(super) fn put_stored(&mut self, piece: &[u8]) {
        self.len = self.end();
        let len = (piece.len() as u16).to_le_bytes();
        for part in [&len, &len.map(|byte| !byte), piece] {
            self.out[self.len..self.len + part.len()].copy_from_slice(part);
            self.len += part.len();
        }
        (self.word, self.bits) = (0, 0);
    }

    /// The number of bytes with the last, incomplete one, which is already stored.
    fn end(&self) -> usize {
        self.len + self.bits.div_ceil(8) as usize
    }

    /// Returns the number of bytes. Unused bits of the last byte are 0.
    pub(super) fn finish(self) -> usize {
        self.end()
    }
}
