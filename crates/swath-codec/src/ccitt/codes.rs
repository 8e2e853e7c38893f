//! The code words of ITU-T T.4 (tables 2 to 4) and T.6, as tables indexed by the next bits of the stream.

/// The meaning of the next bits of a run code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RunCode(u16);

impl RunCode {
    const NONE: RunCode = RunCode(0);
    /// Eleven zeros, the start of an end-of-line code. The value is longer than any run.
    const EOL: RunCode = RunCode(0xfff << 4);

    /// The number of pixels of this code. A run continues with another code if this is 64 or more.
    #[inline(always)]
    pub(super) fn run(self) -> usize {
        usize::from(self.0 >> 4)
    }

    /// The number of bits of the code, 0 if the bits are not a run code.
    #[inline(always)]
    pub(super) fn len(self) -> u32 {
        u32::from(self.0 & 15)
    }

    /// Whether the bits start an end-of-line code.
    pub(super) fn is_eol(self) -> bool {
        self == RunCode::EOL
    }
}

/// The number of bits that index [`WHITE`].
pub(super) const WHITE_BITS: u32 = 12;
/// The number of bits that index [`BLACK`].
pub(super) const BLACK_BITS: u32 = 13;

/// White runs, indexed by the next 12 bits.
pub(super) static WHITE: [RunCode; 1 << WHITE_BITS] = run_table(&WHITE_SHORT, &WHITE_LONG);
/// Black runs, indexed by the next 13 bits.
pub(super) static BLACK: [RunCode; 1 << BLACK_BITS] = run_table(&BLACK_SHORT, &BLACK_LONG);

/// The two-dimensional modes of T.4 table 4 and T.6 table 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// a1 is this many pixels right of b1.
    Vertical(i8),
    /// Two run codes follow.
    Horizontal,
    /// a0 moves below b2; the colour does not change.
    Pass,
    /// An extension. If 111 follows, it is the uncompressed mode.
    Extension,
    /// Seven zeros: the start of an end-of-line or end-of-block code.
    Eol,
}

/// The number of bits that index [`MODES`].
pub(super) const MODE_BITS: u32 = 7;

/// Each mode and the length of its code, indexed by the next 7 bits.
pub(super) static MODES: [(Mode, u8); 1 << MODE_BITS] = mode_table();

const fn mode_table() -> [(Mode, u8); 1 << MODE_BITS] {
    let codes = [
        ("1", Mode::Vertical(0)),
        ("011", Mode::Vertical(1)),
        ("010", Mode::Vertical(-1)),
        ("001", Mode::Horizontal),
        ("0001", Mode::Pass),
        ("000011", Mode::Vertical(2)),
        ("000010", Mode::Vertical(-2)),
        ("0000011", Mode::Vertical(3)),
        ("0000010", Mode::Vertical(-3)),
        ("0000001", Mode::Extension),
    ];
    let mut table = [(Mode::Eol, MODE_BITS as u8); 1 << MODE_BITS];
    let mut i = 0;
    while i < codes.len() {
        let (first, count, len) = span(codes[i].0, MODE_BITS);
        let mut k = first;
        while k < first + count {
            table[k] = (codes[i].1, len as u8);
            k += 1;
        }
        i += 1;
    }
    table
}

const fn run_table<const N: usize>(short: &[&str; 64], long: &[&str; 27]) -> [RunCode; N] {
    let mut table = [RunCode::NONE; N];
    let mut i = 0;
    while i < 64 + 27 + EXTRA_LONG.len() {
        table = if i < 64 {
            with_code(table, short[i], i)
        } else if i < 64 + 27 {
            with_code(table, long[i - 64], (i - 63) * 64)
        } else {
            with_code(table, EXTRA_LONG[i - 91], (i - 63) * 64)
        };
        i += 1;
    }
    let (first, count, _) = span("00000000000", N.trailing_zeros());
    let mut k = first;
    while k < first + count {
        table[k] = RunCode::EOL;
        k += 1;
    }
    table
}

const fn with_code<const N: usize>(mut table: [RunCode; N], code: &str, run: usize) -> [RunCode; N] {
    let (first, count, len) = span(code, N.trailing_zeros());
    let mut k = first;
    while k < first + count {
        assert!(table[k].0 == 0, "two codes share a prefix");
        table[k] = RunCode((run << 4) as u16 | len as u16);
        k += 1;
    }
    table
}

/// Returns the entries of a code, given in binary, in a table indexed by `bits` bits: first index, number of
/// entries, bits of the code.
const fn span(code: &str, bits: u32) -> (usize, usize, u32) {
    let code = code.as_bytes();
    let len = code.len() as u32;
    let mut value = 0;
    let mut i = 0;
    while i < code.len() {
        value = value << 1 | (code[i] - b'0') as usize;
        i += 1;
    }
    (value << (bits - len), 1 << (bits - len), len)
}

/// White runs of 0 to 63.
pub(super) const WHITE_SHORT: [&str; 64] = [
    "00110101", "000111", "0111", "1000", "1011", "1100", "1110", "1111", "10011", "10100", "00111", "01000", "001000",
    "000011", "110100", "110101", "101010", "101011", "0100111", "0001100", "0001000", "0010111", "0000011", "0000100",
    "0101000", "0101011", "0010011", "0100100", "0011000", "00000010", "00000011", "00011010", "00011011", "00010010",
    "00010011", "00010100", "00010101", "00010110", "00010111", "00101000", "00101001", "00101010", "00101011",
    "00101100", "00101101", "00000100", "00000101", "00001010", "00001011", "01010010", "01010011", "01010100",
    "01010101", "00100100", "00100101", "01011000", "01011001", "01011010", "01011011", "01001010", "01001011",
    "00110010", "00110011", "00110100",
];

/// White runs of 64, 128 ... 1728.
pub(super) const WHITE_LONG: [&str; 27] = [
    "11011",
    "10010",
    "010111",
    "0110111",
    "00110110",
    "00110111",
    "01100100",
    "01100101",
    "01101000",
    "01100111",
    "011001100",
    "011001101",
    "011010010",
    "011010011",
    "011010100",
    "011010101",
    "011010110",
    "011010111",
    "011011000",
    "011011001",
    "011011010",
    "011011011",
    "010011000",
    "010011001",
    "010011010",
    "011000",
    "010011011",
];

/// Black runs of 0 to 63.
pub(super) const BLACK_SHORT: [&str; 64] = [
    "0000110111",
    "010",
    "11",
    "10",
    "011",
    "0011",
    "0010",
    "00011",
    "000101",
    "000100",
    "0000100",
    "0000101",
    "0000111",
    "00000100",
    "00000111",
    "000011000",
    "0000010111",
    "0000011000",
    "0000001000",
    "00001100111",
    "00001101000",
    "00001101100",
    "00000110111",
    "00000101000",
    "00000010111",
    "00000011000",
    "000011001010",
    "000011001011",
    "000011001100",
    "000011001101",
    "000001101000",
    "000001101001",
    "000001101010",
    "000001101011",
    "000011010010",
    "000011010011",
    "000011010100",
    "000011010101",
    "000011010110",
    "000011010111",
    "000001101100",
    "000001101101",
    "000011011010",
    "000011011011",
    "000001010100",
    "000001010101",
    "000001010110",
    "000001010111",
    "000001100100",
    "000001100101",
    "000001010010",
    "000001010011",
    "000000100100",
    "000000110111",
    "000000111000",
    "000000100111",
    "000000101000",
    "000001011000",
    "000001011001",
    "000000101011",
    "000000101100",
    "000001011010",
    "000001100110",
    "000001100111",
];

/// Black runs of 64, 128 ... 1728.
pub(super) const BLACK_LONG: [&str; 27] = [
    "0000001111",
    "000011001000",
    "000011001001",
    "000001011011",
    "000000110011",
    "000000110100",
    "000000110101",
    "0000001101100",
    "0000001101101",
    "0000001001010",
    "0000001001011",
    "0000001001100",
    "0000001001101",
    "0000001110010",
    "0000001110011",
    "0000001110100",
    "0000001110101",
    "0000001110110",
    "0000001110111",
    "0000001010010",
    "0000001010011",
    "0000001010100",
    "0000001010101",
    "0000001011010",
    "0000001011011",
    "0000001100100",
    "0000001100101",
];

/// Runs of either colour of 1792, 1856 ... 2560.
pub(super) const EXTRA_LONG: [&str; 13] = [
    "00000001000",
    "00000001100",
    "00000001101",
    "000000010010",
    "000000010011",
    "000000010100",
    "000000010101",
    "000000010110",
    "000000010111",
    "000000011100",
    "000000011101",
    "000000011110",
    "000000011111",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Kraft's sum detects a mistyped digit: T.4 leaves exactly these prefixes undefined.
    #[test]
    fn code_words_leave_exactly_the_gaps_of_the_standard() {
        let unused = |table: &[RunCode]| table.iter().filter(|&&code| code == RunCode::NONE).count();
        // 00000000 and 00000001 are used for EOL and the common long runs; only part of 0000000 is used.
        let common: usize = EXTRA_LONG.iter().map(|code| 1 << (12 - code.len())).sum();
        assert_eq!(unused(&WHITE), (1 << 5) - common - 2);
        assert_eq!(unused(&BLACK), (1 << 6) - 2 * common - 4);
    }

    #[test]
    fn each_code_is_found_whatever_bits_follow() {
        for (run, code) in BLACK_SHORT.iter().enumerate() {
            let (first, count, len) = span(code, BLACK_BITS);
            for entry in &BLACK[first..first + count] {
                assert_eq!((entry.run(), entry.len()), (run, len));
            }
        }
        assert_eq!(WHITE[0b0110_0000_0000 | 0b0001_1111].run(), 1664);
        assert_eq!(WHITE[1].len(), 0);
        assert!(WHITE[1].is_eol() && BLACK[3].is_eol() && !WHITE[2].is_eol());
    }
}
