//! The colour interpretation of each band, in GDAL's terms.

use swath_tiff::{ImageLayout, Photometric};

/// The names that a colour interpretation can have.
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

/// Returns the colour interpretation for a name from the metadata or a sidecar file. Case does not matter; an
/// unknown name gives `undefined`.
pub fn from_name(name: &str) -> &'static str {
    NAMES.into_iter().find(|known| known.eq_ignore_ascii_case(name.trim())).unwrap_or("undefined")
}

/// Returns the colour interpretation that the tags give a band. The alpha band is not handled here.
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
        // GDAL represents MinIsWhite as a palette, for sample types that can have a palette of that size.
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
    fn case_does_not_matter_and_unknown_names_are_undefined() {
        assert_eq!(from_name("Alpha"), "alpha");
        assert_eq!(from_name("NIR"), "nir");
        assert_eq!(from_name("YCbCr_Y"), "ycbcr_y");
        assert_eq!(from_name("Undefined"), "undefined");
        assert_eq!(from_name("ultraviolet"), "undefined");
    }
}
