//! Tests of whole streams: from an encoder written for clarity, from GDAL, and broken streams with the rows
//! that GDAL returns for them.

use super::codes::{BLACK_LONG, BLACK_SHORT, EXTRA_LONG, WHITE_LONG, WHITE_SHORT};
use super::*;
use crate::SampleFormat;

const EOL: &str = "000000000001";
const GROUP3: Scheme = Scheme::Group3 { two_dimensional: false };
const GROUP3_2D: Scheme = Scheme::Group3 { two_dimensional: true };
const SCHEMES: [Scheme; 5] = [Scheme::Rle, Scheme::RleWord, GROUP3, GROUP3_2D, Scheme::Group4];

fn shape(width: usize, height: usize) -> Shape {
    Shape { width, height, samples: 1, bits: 1, format: SampleFormat::Uint }
}

fn params(scheme: Scheme) -> Params {
    Params { scheme, lsb_first: false, uncompressed: false }
}

fn decoded(params: &Params, src: &[u8], width: usize, height: usize) -> Result<Vec<u8>> {
    let shape = shape(width, height);
    let mut dst = vec![0xa5; shape.len()];
    assert_eq!(decode(params, src, shape, &mut dst, &mut Scratch::default())?, dst.len());
    Ok(dst)
}

/// Returns the rows of a stream given in binary, as text of `.` and `#`.
fn rows(scheme: Scheme, width: usize, height: usize, stream: &[&str]) -> Result<Vec<String>> {
    let rows = decoded(&params(scheme), &bytes(&stream.concat()), width, height)?;
    let pixel = |row: &[u8], x: usize| if row[x / 8] >> (7 - x % 8) & 1 == 1 { '#' } else { '.' };
    Ok(rows.chunks(width.div_ceil(8)).map(|row| (0..width).map(|x| pixel(row, x)).collect()).collect())
}

fn bytes(bits: &str) -> Vec<u8> {
    let byte = |chunk: &[u8]| (0..8).fold(0, |byte, i| byte << 1 | chunk.get(i).map_or(0, |&bit| bit - b'0'));
    bits.as_bytes().chunks(8).map(byte).collect()
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

fn random_from(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |n| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as usize % n
    }
}

fn run(mut length: usize, black: bool, out: &mut String) {
    let (short, long) = if black { (&BLACK_SHORT, &BLACK_LONG) } else { (&WHITE_SHORT, &WHITE_LONG) };
    while length >= 64 {
        let code = (length / 64).min(40);
        out.push_str(if code > 27 { EXTRA_LONG[code - 28] } else { long[code - 1] });
        length -= code * 64;
    }
    out.push_str(short[length]);
}

/// Returns the first pixel at or after `from` that does not have the colour, or the width.
fn end_of_run(row: &[bool], from: usize, black: bool) -> usize {
    (from..row.len()).find(|&x| row[x] != black).unwrap_or(row.len())
}

fn encode_1d(row: &[bool], out: &mut String) {
    let (mut x, mut black) = (0, false);
    while x < row.len() {
        let end = end_of_run(row, x, black);
        run(end - x, black, out);
        (x, black) = (end, !black);
    }
}

/// Follows T.4 section 4.2.1.3.4 literally.
fn encode_2d(row: &[bool], above: &[bool], out: &mut String) {
    let width = row.len();
    let changes = |x: usize| x < width && above[x] != (x > 0 && above[x - 1]);
    let (mut a0, mut black, mut first) = (0, false, true);
    while a0 < width {
        let a1 = end_of_run(row, a0, black);
        let b1 = (a0 + usize::from(!first)..width).find(|&x| changes(x) && above[x] != black).unwrap_or(width);
        let b2 = (b1 + 1..width).find(|&x| changes(x)).unwrap_or(width);
        if b2 < a1 {
            out.push_str("0001");
            a0 = b2;
        } else if a1.abs_diff(b1) <= 3 {
            let codes = ["0000010", "000010", "010", "1", "011", "000011", "0000011"];
            out.push_str(codes[a1 + 3 - b1]);
            (a0, black) = (a1, !black);
        } else {
            let a2 = end_of_run(row, a1, !black);
            out.push_str("001");
            run(a1 - a0, black, out);
            run(a2 - a1, !black, out);
            a0 = a2;
        }
        first = false;
    }
}

fn encode(scheme: Scheme, page: &[Vec<bool>]) -> Vec<u8> {
    let mut out = String::new();
    let mut above = vec![false; page[0].len()];
    for (y, row) in page.iter().enumerate() {
        match scheme {
            Scheme::Rle | Scheme::RleWord => {
                encode_1d(row, &mut out);
                let align = if scheme == Scheme::Rle { 8 } else { 16 };
                out.push_str(&"0".repeat(out.len().next_multiple_of(align) - out.len()));
            }
            Scheme::Group3 { two_dimensional } => {
                // Every second page row has fill bits before its end-of-line code.
                out.push_str(&"0".repeat((y % 2) * 13));
                out.push_str(EOL);
                match (two_dimensional, y % 4) {
                    (true, 1..) => {
                        out.push('0');
                        encode_2d(row, &above, &mut out);
                    }
                    (tag, _) => {
                        out.push_str(if tag { "1" } else { "" });
                        encode_1d(row, &mut out);
                    }
                }
            }
            Scheme::Group4 => encode_2d(row, &above, &mut out),
        }
        above.clone_from(row);
    }
    if scheme == Scheme::Group4 {
        out.push_str(EOL);
        out.push_str(EOL);
    }
    bytes(&out)
}

fn pack(page: &[Vec<bool>]) -> Vec<u8> {
    let byte = |chunk: &[bool]| chunk.iter().enumerate().fold(0, |byte, (i, &bit)| byte | u8::from(bit) << (7 - i));
    page.iter().flat_map(|row| row.chunks(8).map(byte)).collect()
}

/// Returns rows that mostly resemble the row above, so that every mode occurs.
fn random_page(random: &mut impl FnMut(usize) -> usize) -> Vec<Vec<bool>> {
    let widest = [9, 70, 700, 6000][random(4)];
    let width = 1 + random(widest);
    let mut row = vec![false; width];
    let mut page = Vec::new();
    for _ in 0..1 + random(12) {
        for _ in 0..random(6) {
            let from = random(width);
            let longest = 1 + random(width);
            let to = (from + 1 + random(longest)).min(width);
            row[from..to].iter_mut().for_each(|pixel| *pixel = !*pixel);
        }
        row.rotate_right(random(3.min(width)));
        page.push(row.clone());
    }
    page
}

#[test]
fn pages_are_decoded_in_every_scheme_and_fill_order() {
    let mut random = random_from(1);
    for _ in 0..400 {
        let page = random_page(&mut random);
        for scheme in SCHEMES {
            let mut src = encode(scheme, &page);
            for lsb_first in [false, true] {
                let params = Params { scheme, lsb_first, uncompressed: true };
                assert!(decoded(&params, &src, page[0].len(), page.len()).unwrap() == pack(&page), "{params:?}");
                src.iter_mut().for_each(|byte| *byte = byte.reverse_bits());
            }
        }
    }
}

#[test]
fn runs_of_every_length_and_colour_are_decoded() {
    for length in 0..5300 {
        let page: Vec<Vec<bool>> =
            [true, false].map(|black| (0..5400).map(|x| (x < length) == black).collect()).to_vec();
        assert!(decoded(&params(GROUP3), &encode(GROUP3, &page), 5400, 2).unwrap() == pack(&page), "{length}");
    }
}

/// GDAL 3.12 wrote these streams. The encoder above uses the code tables of the decoder, so it cannot detect
/// errors in them.
#[test]
fn streams_of_another_writer_are_read() {
    let (line, boxed, inverse) = ("0000000200", "07fff00200", "f8000ffdff");
    let want = hex(&[line, line, boxed, inverse, boxed, boxed, line, line].concat());
    for (scheme, stream) in [
        (Scheme::Rle, "03540354c0c1d500353d420e20c0c1d500c0c1d50003540354"),
        (GROUP3, "00103540010354001c0c1d50004d4f5083880038183aa000e060ea800206a800206a80"),
        (Scheme::Group4, "206bce06393533a84238870308aa7c7f001001"),
    ] {
        assert_eq!(decoded(&params(scheme), &hex(stream), 40, 8).unwrap(), want, "{scheme:?}");
    }
}

#[test]
fn broken_group4_row_is_repaired_and_the_next_one_read() {
    let two_three = ["001", WHITE_SHORT[2], BLACK_SHORT[3], "1"].concat();
    let read = |stream: &[&str]| rows(Scheme::Group4, 10, 3, stream).unwrap();
    assert_eq!(read(&[&two_three, "111", "111", EOL, EOL]), ["..###....."; 3]);
    // A run past the end of the row is dropped, but its start remains a change.
    let over = ["001", WHITE_SHORT[2], BLACK_SHORT[10], "11111"];
    assert_eq!(read(&over), ["..........", "..########", "..########"]);
    assert_eq!(read(&["0000011", "11"]), [".........."; 3]);
    // A vertical code that leads to a position before a0.
    assert_eq!(
        read(&["1", "001", WHITE_SHORT[9], BLACK_SHORT[0], "0000010", "1"]),
        ["..........", "..........", ".........#"]
    );
    // The block ends in the middle of a row: its colour continues, and the other rows are white.
    assert_eq!(read(&[&two_three, "1", EOL, EOL]), ["..###.....", "..########", ".........."]);
    // An extension that the options do not allow.
    assert_eq!(read(&[&two_three, "0000001", "1", "1"]), ["..###.....", "..........", ".........."]);
}

#[test]
fn broken_group3_row_is_repaired_and_the_next_one_found_by_its_end_of_line() {
    let good = [EOL, WHITE_SHORT[2], BLACK_SHORT[8]].concat();
    let read = |broken: &[&str]| rows(GROUP3, 10, 2, &[EOL, &broken.concat(), &good]).unwrap();
    assert_eq!(read(&[WHITE_SHORT[2], "000000001"]), ["..........", "..########"]);
    assert_eq!(read(&[WHITE_SHORT[2], BLACK_SHORT[3]]), ["..###.....", "..########"]);
    assert_eq!(read(&[WHITE_SHORT[2], BLACK_SHORT[10]]), ["..........", "..########"]);
    assert_eq!(read(&[WHITE_SHORT[2], BLACK_SHORT[8], WHITE_SHORT[3]]), ["..########"; 2]);
    assert_eq!(read(&[]), ["..........", "..########"]);
}

#[test]
fn group3_without_any_end_of_line_is_read_row_after_row() {
    let row = [WHITE_SHORT[2], BLACK_SHORT[8]].concat();
    assert_eq!(
        rows(GROUP3, 10, 3, &[&row, WHITE_SHORT[10], &row]).unwrap(),
        ["..########", "..........", "..########"]
    );
    assert_eq!(rows(GROUP3_2D, 10, 2, &["1", &row, "0", "11"]).unwrap(), ["..########"; 2]);
}

#[test]
fn truncated_huffman_stream_is_an_error_not_white_rows() {
    let page = vec![vec![true; 100]; 8];
    for scheme in [Scheme::Rle, Scheme::RleWord] {
        let src = encode(scheme, &page);
        let cut = &src[..src.len() / 2];
        let want = Err(Error::Truncated { codec: NAME, got: 4 * 13, want: 8 * 13 });
        assert_eq!(decoded(&params(scheme), cut, 100, 8), want);
    }
}

#[test]
fn fax_stream_without_a_row_is_an_error_but_missing_later_rows_are_white() {
    for scheme in [GROUP3, GROUP3_2D, Scheme::Group4] {
        for src in [&[][..], &[0], &[0, 0, 0]] {
            let error = decoded(&params(scheme), src, 100, 8);
            assert!(matches!(error, Err(Error::Truncated { got: 0, .. })), "{scheme:?} {src:?}");
        }
        let src = encode(scheme, &[vec![true; 100]]);
        let dst = decoded(&params(scheme), &src, 100, 8).unwrap();
        assert_eq!(dst[..13], pack(&[vec![true; 100]]));
        assert!(dst[13..].iter().all(|&byte| byte == 0));
    }
}

#[test]
fn uncompressed_mode_is_refused_if_the_options_allow_it() {
    for (scheme, tag) in [(Scheme::Group4, ""), (GROUP3_2D, &[EOL, "0"].concat())] {
        let params = Params { scheme, lsb_first: false, uncompressed: true };
        let src = bytes(&[tag, "0000001111", "0101", "0000001"].concat());
        assert_eq!(decoded(&params, &src, 10, 3), Err(UNCOMPRESSED));
    }
}

#[test]
fn memory_of_a_wide_row_is_bounded_by_the_stream_and_the_limit() {
    let width = i32::MAX as usize;
    let mut scratch = Scratch::default();
    let shape = shape(width, 0);
    assert_eq!(decode(&params(Scheme::Group4), &[0x80; 9], shape, &mut [], &mut scratch), Ok(0));
    assert!(Lines::new(&mut scratch, width, 9).is_ok());
    assert!(scratch.above.len() < 100);
    assert!(matches!(Lines::new(&mut scratch, width, 1 << 30), Err(Error::Memory { .. })));
    assert!(scratch.above.len() < 100);
}

#[test]
fn random_streams_neither_panic_nor_write_past_the_block() {
    let mut random = random_from(2);
    let mut scratch = Scratch::default();
    for i in 0..12_000 {
        let page = random_page(&mut random);
        let shape = shape(page[0].len(), page.len());
        let scheme = SCHEMES[random(5)];
        let mut src = if i % 3 == 0 {
            (0..random(400)).map(|_| [0, 0, 0x11, 0xff, random(256) as u8][random(5)]).collect()
        } else {
            encode(scheme, &page)
        };
        for _ in 0..random(4) {
            let at = random(src.len().max(1));
            match random(3) {
                0 => src.truncate(at),
                1 => src.insert(at.min(src.len()), random(256) as u8),
                _ => src.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random(8)),
            }
        }
        let params = Params { scheme, lsb_first: random(8) == 0, uncompressed: random(2) == 0 };
        let mut dst = vec![0xa5; shape.len() + 9];
        let result = decode(&params, &src, shape, &mut dst, &mut scratch);
        assert!(dst[shape.len()..].iter().all(|&byte| byte == 0xa5));
        if result.is_ok() {
            let clean = decoded(&params, &src, shape.width, shape.height).unwrap();
            assert!(dst[..shape.len()] == clean, "a block depends on the block before it");
        }
    }
}
