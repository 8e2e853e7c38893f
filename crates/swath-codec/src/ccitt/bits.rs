//! The bit reader of the fax codecs. It returns the most significant bit first, whichever FillOrder the bytes were stored in.

/// A stream of bits, of which up to 64 are in a register.
///
/// Past the end the stream reads as zeros. No code of T.4 or T.6 is all zeros, so a decoder needs to check
/// [`Bits::at_end`] only where it met no valid code.
#[derive(Clone)]
pub(super) struct Bits<'a, const LSB_FIRST: bool> {
    src: &'a [u8],
    /// The first byte of `src` that is not counted in `have`.
    next: usize,
    /// The next bits, the first one on top. Bits below `have` are either zero or what `src` holds there.
    window: u64,
    /// Valid bits of `window`; negative once more bits were taken than the stream has.
    have: i32,
}

impl<'a, const LSB_FIRST: bool> Bits<'a, LSB_FIRST> {
    pub(super) fn new(src: &'a [u8]) -> Self {
        Bits { src, next: 0, window: 0, have: 0 }
    }

    /// The next `n` bits (at most 32) as a number.
    #[inline(always)]
    pub(super) fn peek(&mut self, n: u32) -> usize {
        if self.have < n as i32 {
            self.refill();
        }
        (self.window >> (64 - n)) as usize
    }

    /// Goes on by `n` bits, which must have been peeked at.
    #[inline(always)]
    pub(super) fn skip(&mut self, n: u32) {
        self.window <<= n;
        self.have -= n as i32;
    }

    /// Takes one bit.
    pub(super) fn bit(&mut self) -> bool {
        let bit = self.peek(1) != 0;
        self.skip(1);
        bit
    }

    /// True when every bit has been taken.
    pub(super) fn at_end(&self) -> bool {
        self.have <= 0 && self.next == self.src.len()
    }

    /// Goes on to the next multiple of `bytes` bytes from the start of the stream.
    pub(super) fn align(&mut self, bytes: usize) {
        let taken = self.next * 8 - self.have.max(0) as usize;
        let over = taken % (bytes * 8);
        if over != 0 {
            let fill = (bytes * 8 - over) as u32;
            self.peek(fill);
            self.skip(fill);
        }
    }

    /// Goes on to the next `zeros` zero bits in a row and stops before them; false when there are none.
    pub(super) fn seek_zeros(&mut self, zeros: u32) -> bool {
        loop {
            self.refill();
            if self.have < zeros as i32 {
                return false;
            }
            let run = self.window.leading_zeros();
            if run >= zeros {
                return true;
            }
            self.skip(run + 1);
        }
    }

    /// Goes on past the next bit that is set; false when there is none.
    pub(super) fn skip_past_one(&mut self) -> bool {
        loop {
            self.refill();
            if self.have <= 0 {
                return false;
            }
            let run = self.window.leading_zeros();
            if run < self.have as u32 {
                self.skip(run + 1);
                return true;
            }
            // Not more than 63, and bits below `have` will be loaded again.
            self.skip(self.have as u32);
        }
    }

    /// Fills the window to at least 56 bits, or to the end of the stream.
    #[inline(always)]
    fn refill(&mut self) {
        if let Some(bytes) = self.src.get(self.next..).and_then(|rest| rest.first_chunk::<8>()) {
            // `have` is not negative here: only a window that could not be filled is overdrawn.
            let word = if LSB_FIRST { u64::from_le_bytes(*bytes).reverse_bits() } else { u64::from_be_bytes(*bytes) };
            self.window |= word >> self.have;
            self.next += (63 - self.have as usize) >> 3;
            self.have |= 56;
        } else {
            self.refill_at_end();
        }
    }

    #[cold]
    fn refill_at_end(&mut self) {
        while self.have < 56
            && let Some(&byte) = self.src.get(self.next)
        {
            let byte = if LSB_FIRST { byte.reverse_bits() } else { byte };
            self.window |= u64::from(byte) << (56 - self.have.max(0));
            self.have = self.have.max(0) + 8;
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of `src` one at a time, which is what every other way of reading must agree with.
    fn plain(src: &[u8], lsb_first: bool) -> Vec<bool> {
        let bit = |byte: u8, i: u32| byte >> (if lsb_first { i } else { 7 - i }) & 1 == 1;
        src.iter().flat_map(|&byte| (0..8).map(move |i| bit(byte, i))).collect()
    }

    fn check<const LSB_FIRST: bool>() {
        let src: Vec<u8> = (0..97u32).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 13) as u8).collect();
        let want = plain(&src, LSB_FIRST);
        for step in 1..=32 {
            let mut bits = Bits::<LSB_FIRST>::new(&src);
            for chunk in want.chunks(step) {
                let value = chunk.iter().fold(0, |value, &bit| value << 1 | usize::from(bit));
                assert_eq!(bits.peek(step as u32), value << (step - chunk.len()));
                bits.skip(step as u32);
            }
            assert!(bits.at_end());
            assert_eq!(bits.peek(32), 0);
        }
    }

    #[test]
    fn bits_come_in_order_up_to_the_last_and_then_zeros() {
        check::<false>();
        check::<true>();
    }

    #[test]
    fn align_counts_from_the_start_of_the_stream() {
        let src = [0xff, 0, 0xff, 0, 0x80];
        let mut bits = Bits::<false>::new(&src);
        bits.align(2);
        assert_eq!(bits.peek(8), 0xff);
        bits.skip(1);
        bits.align(1);
        assert_eq!(bits.peek(8), 0);
        bits.align(2);
        assert_eq!(bits.peek(16), 0xff00);
        bits.skip(9);
        bits.align(2);
        assert!(bits.bit());
        bits.align(2);
        assert!(bits.at_end());
        bits.align(2);
        assert!(bits.at_end());
    }

    #[test]
    fn a_run_of_zeros_is_found_across_windows_and_not_in_the_padding() {
        let mut src = vec![0x49; 40];
        src.extend([0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0xff]);
        let mut bits = Bits::<false>::new(&src);
        assert!(bits.seek_zeros(11));
        assert!(bits.skip_past_one());
        assert_eq!(bits.peek(12), 0x0ff);
        assert!(!bits.seek_zeros(11));
        assert!(!Bits::<false>::new(&[0x80, 0]).seek_zeros(16));
        assert!(!Bits::<false>::new(&[0; 20]).skip_past_one());
    }
}
