//! What each band shows, in GDAL's words.

use swath_tiff::{ImageLayout, Photometric};

/// What a band may show.
const NAMES: [&str; 33] = [
    "gray",
    "palette",
    "red",
    "green",
    "blue",
    "alpha",
    "hue",
    "saturation",
    "lightness",
    "cyan",
    "magenta",
    "yellow",
    "black",
    "ycbcr_y",
    "ycbcr_cb",
    "ycbcr_cr",
    "pan",
    "coastal",
    "rededge",
    "nir",
    "swir",
    "mwir",
    "lwir",
    "tir",
    "otherir",
    "sar_ka",
    "sar_k",
    "sar_ku",
    "sar_x",
    "sar_c",
    "sar_s",
    "sar_l",
    "sar_p",
];

/// The colour that metadata or a sidecar gives a band. Upper and lower case do not matter; what nobody knows is
/// `undefined`.
pub fn from_name(name: &str) -> &'static str {
    NAMES.into_iter().find(|known| known.eq_ignore_ascii_case(name.trim())).unwrap_or("undefined")
}

/// The colour that the tags give a band that is not alpha.
pub(crate) fn from_tags(layout: &ImageLayout, band: usize, has_palette: bool) -> &'static str {
    let name = |names: &[&'static str]| names.get(band).copied().unwrap_or("undefined");
    match layout.photometric {
        _ if has_palette && band == 0 => "palette",
        Photometric::RGB => name(&["red", "green", "blue"]),
        Photometric::YCBCR | Photometric::SEPARATED | Photometric::CIELAB if layout.bits == 8 => {
            name(&["red", "green", "blue", "alpha"])
        }
        Photometric::SEPARATED => name(&["cyan", "magenta", "yellow", "black"]),
        _ if has_palette => "undefined",
        Photometric::MIN_IS_BLACK => name(&["gray"]),
        // GDAL shows what 0 means by a palette, where a palette of that size makes sense.
        Photometric::MIN_IS_WHITE if layout.bits <= 16 && matches!(layout.sample_format, 1 | 2 | 4) => {
            name(&["palette"])
        }
        _ => "undefined",
    }
}

#[cfg(test)]
mod tests {
    use super::from_name;

    #[test]
    fn names_are_known_in_any_case_and_others_are_undefined() {
        assert_eq!(from_name("Alpha"), "alpha");
        assert_eq!(from_name("NIR"), "nir");
        assert_eq!(from_name("YCbCr_Y"), "ycbcr_y");
        assert_eq!(from_name("Undefined"), "undefined");
        assert_eq!(from_name("ultraviolet"), "undefined");
    }
}
