//! Converts the text that a user gives for a reference system to GeoKeys.

use super::crs::Crs;
use super::crs_keys::CrsKeysError;
use super::keys::GeoKeys;
use super::transform::RasterType;

impl GeoKeys {
    /// Returns the keys of a system given as text: `EPSG:32633`, `EPSG:4326+5773` (with heights), `OGC:CRS84`,
    /// the `urn:` or `http:` form of a code, or WKT of any version.
    ///
    /// ```
    /// use swath_tiff::geo::{Crs, GeoKeys, RasterType};
    /// let keys = GeoKeys::from_text("EPSG:4326+5773", RasterType::Area)?;
    /// assert_eq!(Crs::from_keys(&keys).and_then(|crs| crs.epsg()), Some(9707));
    /// # Ok::<(), swath_tiff::geo::CrsKeysError>(())
    /// ```
    pub fn from_text(text: &str, raster_type: RasterType) -> Result<Self, CrsKeysError> {
        let text = text.trim();
        if text.starts_with('{') {
            return Err(CrsKeysError::Language { found: "PROJJSON" });
        }
        if text.starts_with("+proj=") || text.contains("proj=") && !text.contains(['[', '(']) {
            return Err(CrsKeysError::Language { found: "a PROJ string" });
        }
        if text.contains(['[', '(']) {
            return Self::from_crs(&Crs::from_wkt(text)?, raster_type);
        }
        let unknown = || CrsKeysError::UnknownName { text: text.chars().take(100).collect() };
        let (authority, codes) = name(text).ok_or_else(unknown)?;
        match authority.to_ascii_uppercase().as_str() {
            "EPSG" => {
                let number = |code: &str| code.trim().parse::<u32>().map_err(|_| unknown());
                match codes.split_once('+') {
                    None => Self::from_epsg(number(codes)?, raster_type),
                    Some((place, heights)) => {
                        let heights = strip_ignoring_case(heights.trim(), "EPSG:");
                        Self::from_epsg_with_heights(number(place)?, number(heights)?, raster_type)
                    }
                }
            }
            // These differ from EPSG's only in the order of the axes, which does not apply to a raster.
            "OGC" | "CRS" => match codes.to_ascii_uppercase().as_str() {
                "CRS84" | "84" => Self::from_epsg(4326, raster_type),
                "CRS83" | "83" => Self::from_epsg(4269, raster_type),
                "CRS27" | "27" => Self::from_epsg(4267, raster_type),
                _ => Err(unknown()),
            },
            _ => Err(unknown()),
        }
    }
}

/// Returns the authority and the code of `EPSG:1`, `urn:ogc:def:crs:EPSG::1` and
/// `http://www.opengis.net/def/crs/EPSG/0/1`.
fn name(text: &str) -> Option<(&str, &str)> {
    let urn = strip_ignoring_case(text, "urn:ogc:def:crs:");
    if urn.len() < text.len() {
        let (authority, rest) = urn.split_once(':')?;
        return Some((authority, rest.rsplit(':').next()?));
    }
    if let Some((_, path)) = text.split_once("opengis.net/def/crs/") {
        let (authority, rest) = path.split_once('/')?;
        return Some((authority, rest.rsplit('/').next()?));
    }
    text.split_once(':')
}

fn strip_ignoring_case<'a>(text: &'a str, prefix: &str) -> &'a str {
    match text.split_at_checked(prefix.len()) {
        Some((start, rest)) if start.eq_ignore_ascii_case(prefix) => rest,
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epsg(text: &str) -> Result<Option<u32>, CrsKeysError> {
        let keys = GeoKeys::from_text(text, RasterType::Area)?;
        Ok(Crs::from_keys(&keys).and_then(|crs| crs.epsg()))
    }

    #[test]
    fn codes_are_parsed_in_every_form() {
        for (text, code) in [
            ("EPSG:32633", 32633),
            (" epsg:4326 ", 4326),
            ("epsg:4326+5773", 9707),
            ("EPSG:27700+EPSG:5701", 7405),
            ("EPSG:4979", 4979),
            ("EPSG:4978", 4978),
            ("OGC:CRS84", 4326),
            ("urn:ogc:def:crs:OGC:1.3:CRS84", 4326),
            ("urn:ogc:def:crs:EPSG::25832", 25832),
            ("http://www.opengis.net/def/crs/EPSG/0/3857", 3857),
        ] {
            assert_eq!(epsg(text), Ok(Some(code)), "{text}");
        }
    }

    #[test]
    fn other_languages_are_named_in_the_error() {
        let language = |found| Err(CrsKeysError::Language { found });
        assert_eq!(epsg("+proj=utm +zone=33"), language("a PROJ string"));
        assert_eq!(epsg("proj=utm zone=33"), language("a PROJ string"));
        assert_eq!(epsg("{\"type\":\"ProjectedCRS\"}"), language("PROJJSON"));
    }

    #[test]
    fn text_that_is_not_a_system_is_an_error() {
        for text in
            ["", "EPSG", "EPSG:", "EPSG:x", "EPSG:4326+", "ESRI:102008", "OGC:CRS1", "32633", "urn:ogc:def:crs:"]
        {
            assert_eq!(epsg(text), Err(CrsKeysError::UnknownName { text: text.into() }), "{text}");
        }
        assert_eq!(epsg("EPSG:5773"), Err(CrsKeysError::HeightsAlone { code: 5773 }));
        assert_eq!(epsg("EPSG:1500"), Err(CrsKeysError::UnknownCode { code: 1500 }));
        for code in [0, 1023, 32767, 900_913, 4_294_967_295] {
            assert_eq!(epsg(&format!("EPSG:{code}")), Err(CrsKeysError::CodeRange { code }));
        }
        let not = |horizontal, vertical| Err(CrsKeysError::NotACompound { horizontal, vertical });
        assert_eq!(epsg("EPSG:5773+4326"), not(5773, 4326));
        assert_eq!(epsg("EPSG:4326+4326"), not(4326, 4326));
        assert!(matches!(epsg("PROJCS[\"x\"]"), Err(CrsKeysError::Wkt(_))));
    }
}
