//! SGI's logarithmic luminance codings of high dynamic range images (compressions 34676 and 34677).
//!
//! The layouts are those of G. Ward Larson, "LogLuv encoding for full-gamut, high-dynamic range images" (1998). Decoded
//! samples are what GDAL gives for files that announce 16-bit samples, as all writers do: the logarithm of the
//! luminance, and for colour images CIE u' and v' in units of 1/32768.

use crate::{Error, Result, Shape};

const NAME: &str = "SGILog";

/// What the pixels of a block are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PixelEncoding {
    /// Luminance only: a sign and a 15-bit logarithm, the two bytes of each row run-length coded apart.
    LogL16,
    /// Luminance as above, u' and v' in a byte each, the four bytes of each row run-length coded apart.
    LogLuv32,
    /// A 10-bit logarithm and a 14-bit index into the visible colours, packed in three bytes, not compressed.
    LogLuv24,
}

impl PixelEncoding {
    /// The kind that the Compression (34676, 34677) and PhotometricInterpretation (32844 LogL, 32845 LogLuv) tags mean,
    /// `None` for a combination that means nothing.
    pub fn from_tags(compression: u16, photometric: u16) -> Option<Self> {
        match (compression, photometric) {
            (34676 | 34677, 32844) => Some(Self::LogL16),
            (34676, 32845) => Some(Self::LogLuv32),
            (34677, 32845) => Some(Self::LogLuv24),
            _ => None,
        }
    }

    /// Decoded samples of a pixel.
    pub fn samples(self) -> usize {
        match self {
            Self::LogL16 => 1,
            Self::LogLuv32 | Self::LogLuv24 => 3,
        }
    }
}

/// Decodes a block into interleaved 16-bit samples in this machine's byte order and returns the bytes written: all of
/// the block.
///
/// A run that goes past the end of its row is cut there, as in libtiff.
///
/// # Errors
/// [`Error::Truncated`] when the stream ends before the last row is full, [`Error::Unsuited`] when the samples are not
/// 16-bit ones or not as many as the kind has.
pub fn decode(kind: PixelEncoding, src: &[u8], shape: Shape, dst: &mut [u8]) -> Result<usize> {
    if shape.bits != 16 || shape.samples != kind.samples() {
        return Err(Error::Unsuited {
            codec: NAME,
            what: "pixels other than one (LogL) or three (LogLuv) 16-bit samples",
        });
    }
    let want = shape.len();
    let got = dst.len();
    let dst = dst.get_mut(..want).ok_or(Error::Truncated { codec: NAME, got, want })?;
    if want == 0 {
        return Ok(0);
    }
    let mut rest = src;
    for (y, row) in dst.chunks_exact_mut(shape.row_bytes()).enumerate() {
        match kind {
            PixelEncoding::LogL16 => gray_row(&mut rest, row),
            PixelEncoding::LogLuv32 => color_row(&mut rest, row),
            PixelEncoding::LogLuv24 => packed_row(&mut rest, row),
        }
        .ok_or(Error::Truncated { codec: NAME, got: y * shape.row_bytes(), want })?;
    }
    Ok(want)
}

fn gray_row(rest: &mut &[u8], row: &mut [u8]) -> Option<()> {
    let (pixels, _) = row.as_chunks_mut::<2>();
    plane(rest, pixels, 0)?;
    plane(rest, pixels, 1)?;
    for pixel in pixels {
        *pixel = u16::from_be_bytes(*pixel).to_ne_bytes();
    }
    Some(())
}

fn color_row(rest: &mut &[u8], row: &mut [u8]) -> Option<()> {
    let (pixels, _) = row.as_chunks_mut::<6>();
    for byte in 0..4 {
        plane(rest, pixels, byte)?;
    }
    for pixel in pixels {
        let [high, low, u, v, ..] = *pixel;
        // The middle of a step of 1/410: (n + 1/2) / 410 * 32768.
        let chroma = |n: u8| ((2 * u32::from(n) + 1) * 8192 / 205) as u16;
        *pixel = sample_bytes(u16::from_be_bytes([high, low]), chroma(u), chroma(v));
    }
    Some(())
}

fn packed_row(rest: &mut &[u8], row: &mut [u8]) -> Option<()> {
    let (pixels, _) = row.as_chunks_mut::<6>();
    let bytes = rest.split_off(..pixels.len() * 3)?;
    for (pixel, &[a, b, c]) in pixels.iter_mut().zip(bytes.as_chunks::<3>().0) {
        let packed = u32::from_be_bytes([0, a, b, c]);
        // The 10-bit logarithm has a quarter of the 16-bit one's steps. The mask lets a bit of the colour index through,
        // because libtiff's values have it in their lowest bit.
        let luminance = (packed >> 12 & 0xffd) + 13314;
        let (u, v) = colour((packed & 0x3fff) as u16);
        *pixel = sample_bytes(luminance as u16, u, v);
    }
    Some(())
}

fn sample_bytes(luminance: u16, u: u16, v: u16) -> [u8; 6] {
    bytemuck::cast([luminance, u, v])
}

/// Unpacks one byte of every pixel of a row; `None` when the stream ends before.
fn plane<const N: usize>(rest: &mut &[u8], pixels: &mut [[u8; N]], byte: usize) -> Option<()> {
    let mut pixels = pixels.iter_mut();
    while pixels.len() > 0 {
        let count = usize::from(*rest.split_off_first()?);
        if count < 128 {
            // Only what the row takes is consumed: what follows in a literal that is too long counts as codes.
            let literal = rest.split_off(..count.min(pixels.len()))?;
            pixels.by_ref().zip(literal).for_each(|(pixel, &value)| pixel[byte] = value);
        } else {
            let value = *rest.split_off_first()?;
            pixels.by_ref().take(count - 126).for_each(|pixel| pixel[byte] = value);
        }
    }
    Some(())
}

/// u' and v', in units of 1/32768, of an index into the squares that cover the visible colours.
fn colour(index: u16) -> (u16, u16) {
    let row = FIRST_INDEX.partition_point(|&first| first <= index) - 1;
    let Some(&start) = STARTS.get(row) else {
        return NEUTRAL;
    };
    let column = index - FIRST_INDEX[row];
    let middle = |start: u32, at: usize| ((start + at as u32 * SIDE + SIDE / 2) as u64 * 32768 / 1_000_000) as u16;
    (middle(start, column.into()), middle(FIRST_ROW, row))
}

/// What indices beyond the last square give: the white of equal energy.
const NEUTRAL: (u16, u16) = (6898, 15521);

/// Side of a square, in millionths, as the two numbers that follow.
const SIDE: u32 = 3500;

/// The CIE coordinate v' (in millionths) at which the first row of squares starts.
const FIRST_ROW: u32 = 16940;

/// Rows of squares.
const ROWS: usize = 163;

/// By row, the index of its first square; at the end, the number of squares.
const FIRST_INDEX: [u16; ROWS + 1] = {
    let mut first = [0; ROWS + 1];
    let mut row = 0;
    while row < ROWS {
        first[row + 1] = first[row] + COUNTS[row];
        row += 1;
    }
    first
};

/// u' where each row starts, in millionths.
const STARTS: [u32; ROWS] = [
    247663, 243777, 241681, 237873, 235906, 232152, 228351, 226259, 222371, 220409, 214710, 212714, 210721, 204976,
    202985, 199245, 195525, 193559, 189878, 186216, 186216, 182592, 179002, 175466, 172000, 172000, 168612, 168612,
    163575, 158641, 158641, 158641, 153815, 153815, 149097, 149097, 142745, 142745, 142745, 138270, 138270, 138270,
    132165, 132165, 126204, 126204, 126204, 120381, 120381, 120381, 120381, 112962, 112962, 112962, 107450, 107450,
    107450, 107450, 100343, 100343, 100343, 95126, 95126, 95126, 95126, 88276, 88276, 88276, 88276, 81523, 81523,
    81523, 81523, 74861, 74861, 74861, 74861, 68290, 68290, 68290, 68290, 63573, 63573, 63573, 63573, 57219, 57219,
    57219, 57219, 50985, 50985, 50985, 50985, 50985, 44859, 44859, 44859, 44859, 40571, 40571, 40571, 40571, 36339,
    36339, 36339, 36339, 32139, 32139, 32139, 32139, 27947, 27947, 27947, 23739, 23739, 23739, 23739, 19504, 19504,
    19504, 16976, 16976, 16976, 16976, 12639, 12639, 12639, 9991, 9991, 9991, 9016, 9016, 9016, 6217, 6217, 5097, 5097,
    5097, 3909, 3909, 2340, 2389, 1068, 1653, 717, 1614, 270, 484, 1103, 1242, 1188, 1011, 709, 301, 2416, 3251, 3246,
    4141, 5963, 8838, 10490, 16994, 23658,
];

/// Squares of each row.
const COUNTS: [u16; ROWS] = [
    4, 6, 7, 9, 10, 12, 14, 15, 17, 18, 21, 22, 23, 26, 27, 29, 31, 32, 34, 36, 36, 38, 40, 42, 44, 44, 46, 46, 49, 52,
    52, 52, 55, 55, 58, 58, 62, 62, 62, 65, 65, 65, 69, 69, 73, 73, 73, 77, 77, 77, 77, 82, 82, 82, 86, 86, 86, 86, 91,
    91, 91, 95, 95, 95, 95, 100, 100, 100, 100, 105, 105, 105, 105, 110, 110, 110, 110, 115, 115, 115, 115, 119, 119,
    119, 119, 124, 124, 124, 124, 129, 129, 129, 129, 129, 134, 134, 134, 134, 138, 138, 138, 138, 142, 142, 142, 142,
    146, 146, 146, 146, 150, 150, 150, 154, 154, 154, 154, 158, 158, 158, 161, 161, 161, 161, 165, 165, 165, 168, 168,
    168, 170, 170, 170, 173, 173, 175, 175, 175, 177, 177, 177, 170, 164, 157, 150, 143, 136, 129, 123, 115, 109, 103,
    97, 89, 82, 76, 69, 62, 55, 47, 40, 31, 21,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SampleFormat;
    use crate::noise::noise;

    const ALL: [PixelEncoding; 3] = [PixelEncoding::LogL16, PixelEncoding::LogLuv32, PixelEncoding::LogLuv24];

    fn shape(kind: PixelEncoding, width: usize, height: usize) -> Shape {
        Shape { width, height, samples: kind.samples(), bits: 16, format: SampleFormat::Int }
    }

    fn samples(kind: PixelEncoding, src: &[u8], width: usize, height: usize) -> Result<Vec<i16>> {
        let shape = shape(kind, width, height);
        let mut dst = vec![0xee; shape.len()];
        assert_eq!(decode(kind, src, shape, &mut dst)?, dst.len());
        Ok(dst.chunks_exact(2).map(|pair| i16::from_ne_bytes([pair[0], pair[1]])).collect())
    }

    #[test]
    fn bytes_of_a_row_come_one_plane_after_the_other() {
        let src = [3, 0x3c, 0xbc, 0x3d, 129, 7, 128, 86, 1, 255, 129, 194];
        let expected = [15367, 6913, 15544, -17401, 6913, 15544, 15623, 20420, 15544];
        assert_eq!(samples(PixelEncoding::LogLuv32, &src, 3, 1).unwrap(), expected);
        assert_eq!(samples(PixelEncoding::LogL16, &src, 3, 1).unwrap(), [15367, -17401, 15623]);
    }

    #[test]
    fn packed_colours_are_gdals_also_beyond_the_last_square() {
        let src = [0, 0, 0, 255, 192, 0, 128, 0, 3, 128, 0, 4, 75, 31, 64, 75, 63, 160, 75, 63, 161, 1, 255, 255];
        let expected = [
            13314, 8172, 612, 17406, 8172, 612, 15362, 8516, 612, 15362, 8045, 727, 14515, 15698, 12310, 14515, 3126,
            19191, 14515, 6898, 15521, 13343, 6898, 15521,
        ];
        assert_eq!(samples(PixelEncoding::LogLuv24, &src, 8, 1).unwrap(), expected);
    }

    #[test]
    fn what_goes_past_the_end_of_a_row_is_cut_as_in_libtiff() {
        let runs = [136, 1, 136, 2, 8, 1, 2, 3, 4, 5, 6, 7, 8, 134, 9];
        let expected = [258, 258, 258, 258, 258, 258, 258, 258, 265, 521, 777, 1033, 1289, 1545, 1801, 2057];
        assert_eq!(samples(PixelEncoding::LogL16, &runs, 8, 2).unwrap(), expected);
        let literals = [10, 1, 1, 1, 1, 1, 1, 1, 1, 130, 7, 134, 3, 134, 4, 134, 5];
        let expected = [263, 263, 263, 263, 259, 259, 259, 259, 1029, 1029, 1029, 1029, 1029, 1029, 1029, 1029];
        assert_eq!(samples(PixelEncoding::LogL16, &literals, 8, 2).unwrap(), expected);
        let nothing = [0, 134, 1, 0, 0, 134, 2];
        assert_eq!(samples(PixelEncoding::LogL16, &nothing, 8, 1).unwrap(), [258; 8]);
    }

    #[test]
    fn truncated_stream_is_an_error_not_zeros() {
        let full = [134, 1, 134, 2, 134, 3, 3, 1, 2, 3, 131, 9];
        assert_eq!(samples(PixelEncoding::LogL16, &full, 8, 2).unwrap()[15], 777);
        for cut in 0..full.len() {
            let got = if cut < 4 { 0 } else { 16 };
            let error = samples(PixelEncoding::LogL16, &full[..cut], 8, 2).unwrap_err();
            assert_eq!(error, Error::Truncated { codec: NAME, got, want: 32 }, "cut at {cut}");
        }
        assert!(samples(PixelEncoding::LogLuv24, &[0; 11], 2, 2).is_err());
        assert!(samples(PixelEncoding::LogLuv24, &[0; 12], 2, 2).is_ok());
    }

    #[test]
    fn noise_never_panics_nor_writes_beyond_the_block() {
        for kind in ALL {
            for length in 0..300 {
                let shape = shape(kind, 13, 3);
                let mut dst = vec![0xee; shape.len() + 8];
                // The result does not matter, only that there is one.
                let _ = decode(kind, &noise(length), shape, &mut dst);
                assert!(dst[shape.len()..].iter().all(|&byte| byte == 0xee));
            }
        }
    }

    #[test]
    fn other_depths_and_a_short_output_are_refused() {
        let wide = Shape { bits: 32, ..shape(PixelEncoding::LogL16, 2, 2) };
        assert!(decode(PixelEncoding::LogL16, &[0; 64], wide, &mut [0; 16]).is_err());
        assert!(decode(PixelEncoding::LogLuv24, &[0; 64], shape(PixelEncoding::LogL16, 2, 2), &mut [0; 24]).is_err());
        assert!(decode(PixelEncoding::LogLuv24, &[0; 64], shape(PixelEncoding::LogLuv24, 2, 2), &mut [0; 23]).is_err());
        assert_eq!(decode(PixelEncoding::LogL16, &[], shape(PixelEncoding::LogL16, 0, 2), &mut []), Ok(0));
    }

    #[test]
    fn luminance_alone_is_coded_the_same_under_both_compressions() {
        assert_eq!(PixelEncoding::from_tags(34677, 32844), Some(PixelEncoding::LogL16));
        assert_eq!(PixelEncoding::from_tags(34676, 32844), Some(PixelEncoding::LogL16));
        assert_eq!(PixelEncoding::from_tags(34676, 32845), Some(PixelEncoding::LogLuv32));
        assert_eq!(PixelEncoding::from_tags(34677, 32845), Some(PixelEncoding::LogLuv24));
        assert_eq!(PixelEncoding::from_tags(34676, 2), None);
    }
}
