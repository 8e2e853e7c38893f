//! The colours of an image with a palette.

use crate::nodata::NoData;

/// The reason why a ColorMap tag is not a valid palette.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PaletteError {
    /// The tag does not have three values for each possible pixel value.
    #[error("ColorMap has {found} values; {bits}-bit samples require {expected}")]
    Length {
        /// The number of values in the tag.
        found: usize,
        /// The required number of values.
        expected: usize,
        /// Bits of a sample.
        bits: u32,
    },
    /// Samples of this size cannot have a palette.
    #[error("samples of {bits} bits cannot have a palette; only samples of 1 to 16 bits can")]
    Bits {
        /// Bits of a sample.
        bits: u32,
    },
}

/// One RGBA colour, with 8 bits per channel, for each possible pixel value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Palette {
    /// The colours; the index is the pixel value.
    pub entries: Vec<[u8; 4]>,
}

impl Palette {
    /// Parses the values of the ColorMap tag: all reds, then all greens, then all blues.
    ///
    /// TIFF defines 16-bit values where 65535 is full intensity, that is 257 times the 8-bit value. Many
    /// writers multiply by 256, or store 8-bit values. Both can be detected from the values of the whole table.
    pub fn from_color_map(values: &[u16], bits: u32) -> Result<Self, PaletteError> {
        let count = entry_count(bits)?;
        if values.len() != 3 * count {
            return Err(PaletteError::Length { found: values.len(), expected: 3 * count, bits });
        }
        let divisor = if values.iter().all(|value| *value < 256) {
            1
        } else if values.iter().all(|value| value % 256 == 0) {
            256
        } else {
            257
        };
        let (red, rest) = values.split_at(count);
        let (green, blue) = rest.split_at(count);
        let channel = |value: &u16| (value / divisor) as u8;
        let entries =
            red.iter().zip(green).zip(blue).map(|((r, g), b)| [channel(r), channel(g), channel(b), 255]).collect();
        Ok(Self { entries })
    }

    /// Returns the ramp from white to black for an image whose photometric interpretation is MinIsWhite.
    pub fn min_is_white(bits: u32) -> Result<Self, PaletteError> {
        let last = entry_count(bits)? - 1;
        let gray = |index: usize| ((last - index) * 255 / last) as u8;
        Ok(Self { entries: (0..=last).map(|index| [gray(index), gray(index), gray(index), 255]).collect() })
    }

    /// Returns black and white, the palette that GDAL attaches to single-band 1-bit images with MinIsBlack.
    pub fn bilevel() -> Self {
        Self { entries: vec![[0, 0, 0, 255], [255, 255, 255, 255]] }
    }

    /// Makes the entry of the nodata value transparent. The fraction of the value is dropped, as in GDAL.
    pub fn hide(&mut self, nodata: NoData) {
        let value = nodata.value_f64();
        if value >= 0.0
            && value < self.entries.len() as f64
            && let Some(entry) = self.entries.get_mut(value as usize)
        {
            entry[3] = 0;
        }
    }

    /// Returns the values of a ColorMap tag for samples of `bits` bits. Missing entries are black.
    pub fn to_color_map(&self, bits: u32) -> Result<Vec<u16>, PaletteError> {
        let count = entry_count(bits)?;
        let channel = |channel: usize| {
            (0..count).map(move |index| self.entries.get(index).map_or(0, |entry| u16::from(entry[channel]) * 257))
        };
        Ok((0..3).flat_map(channel).collect())
    }
}

fn entry_count(bits: u32) -> Result<usize, PaletteError> {
    if (1..=16).contains(&bits) { Ok(1 << bits) } else { Err(PaletteError::Bits { bits }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reds(values: [u16; 4]) -> Vec<u8> {
        let palette = Palette::from_color_map(&values.repeat(3), 2).expect("the right length");
        palette.entries.iter().map(|entry| entry[0]).collect()
    }

    #[test]
    fn every_convention_for_intensities_gives_full_white() {
        assert_eq!(reds([0, 257, 514, 65535]), [0, 1, 2, 255]);
        assert_eq!(reds([0, 256, 512, 65280]), [0, 1, 2, 255]);
        assert_eq!(reds([0, 1, 2, 255]), [0, 1, 2, 255]);
    }

    #[test]
    fn one_value_of_another_convention_does_not_brighten_the_rest() {
        assert_eq!(reds([0, 1, 2, 256]), [0, 0, 0, 0]);
        assert_eq!(reds([1000, 255, 33333, 65406]), [3, 0, 129, 254]);
    }

    #[test]
    fn channels_are_separate_planes() {
        let palette = Palette::from_color_map(&[0, 65535, 257, 0, 0, 514], 1).expect("the right length");
        assert_eq!(palette.entries, [[0, 1, 0, 255], [255, 0, 2, 255]]);
    }

    #[test]
    fn wrong_lengths_and_sizes_are_errors() {
        assert_eq!(
            Palette::from_color_map(&[0; 15], 2),
            Err(PaletteError::Length { found: 15, expected: 12, bits: 2 })
        );
        assert_eq!(Palette::from_color_map(&[], 0), Err(PaletteError::Bits { bits: 0 }));
        assert_eq!(Palette::from_color_map(&[0; 6], 83), Err(PaletteError::Bits { bits: 83 }));
        assert!(Palette::from_color_map(&vec![0; 3 << 16], 16).is_ok());
    }

    #[test]
    fn only_the_nodata_entry_becomes_transparent() {
        let alphas = |nodata: NoData| {
            let mut palette = Palette::bilevel();
            palette.hide(nodata);
            [palette.entries[0][3], palette.entries[1][3]]
        };
        assert_eq!(alphas(NoData::Uint(1)), [255, 0]);
        assert_eq!(alphas(NoData::Float(1.5)), [255, 0]);
        for outside in [NoData::Int(-1), NoData::Uint(2), NoData::Uint(u64::MAX), NoData::Float(f64::NAN)] {
            assert_eq!(alphas(outside), [255, 255]);
        }
    }

    #[test]
    fn inverted_ramp_rounds_down_like_gdal() {
        let first = |bits| Palette::min_is_white(bits).expect("a valid size").entries[1][0];
        assert_eq!([first(1), first(2), first(3), first(5), first(12)], [0, 170, 218, 246, 254]);
    }

    #[test]
    fn written_color_map_reads_back() {
        let palette = Palette::min_is_white(4).expect("a valid size");
        let values = palette.to_color_map(4).expect("a valid size");
        assert_eq!(Palette::from_color_map(&values, 4), Ok(palette));
    }
}
