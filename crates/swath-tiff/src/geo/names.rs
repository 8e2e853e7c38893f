//! Names and sizes for the codes of the specification: keys, units, prime meridians.

use std::borrow::Cow;

/// Returns the name of a key in GeoTIFF 1.1, clause 7; `None` for a private key.
pub fn key_name(id: u16) -> Option<&'static str> {
    find(KEYS, id, |row| row.0).map(|row| row.1)
}

/// A unit of length or angle.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Unit {
    /// EPSG code, if it has one.
    pub epsg: Option<u16>,
    /// Name.
    pub name: Cow<'static, str>,
    /// The number of metres or radians in one unit.
    pub factor: f64,
}

impl Unit {
    /// The metre.
    pub const METRE: Self = Self { epsg: Some(9001), name: Cow::Borrowed("metre"), factor: 1.0 };
    /// The degree.
    pub const DEGREE: Self = Self { epsg: Some(9102), name: Cow::Borrowed("degree"), factor: DEGREE };

    /// Returns the unit of length with this EPSG code.
    pub fn length(code: u16) -> Option<Self> {
        Self::from_table(LENGTHS, code)
    }

    /// Returns the unit of angle with this EPSG code. Codes that only define a notation of degrees, such as
    /// 9110, return degrees.
    pub fn angle(code: u16) -> Option<Self> {
        match code {
            9107 | 9108 | 9110 | 9111 | 9115..=9122 => Some(Self::DEGREE),
            _ => Self::from_table(ANGLES, code),
        }
    }

    /// Returns the unit of length of this many metres, with its code if there is one.
    pub(super) fn length_of_size(factor: f64, name: Option<&str>) -> Option<Self> {
        Self::of_size(LENGTHS, factor, name)
    }

    /// Returns the unit of angle of this many radians, with its code if there is one.
    pub(super) fn angle_of_size(factor: f64, name: Option<&str>) -> Option<Self> {
        if close(factor, DEGREE, 1e-9) { Some(Self::DEGREE) } else { Self::of_size(ANGLES, factor, name) }
    }

    fn of_size(table: &'static [(u16, &'static str, f64)], factor: f64, name: Option<&str>) -> Option<Self> {
        let sound = factor.is_finite() && factor > 0.0;
        let known = table.iter().find(|row| close(row.2, factor, 1e-9)).and_then(|row| Self::from_table(table, row.0));
        let own = || Self { epsg: None, name: name.unwrap_or("unknown").to_owned().into(), factor };
        sound.then(|| known.unwrap_or_else(own))
    }

    /// Whether two units have the same size, whatever their names: 9001 is often written as user-defined 1.0.
    pub fn same_size(&self, other: &Self) -> bool {
        close(self.factor, other.factor, 1e-9)
    }

    fn from_table(table: &'static [(u16, &'static str, f64)], code: u16) -> Option<Self> {
        let &(code, name, factor) = find(table, code, |row| row.0)?;
        Some(Self { epsg: Some(code), name: Cow::Borrowed(name), factor })
    }
}

/// Returns the name of the prime meridian with this EPSG code, and its longitude in degrees east of Greenwich.
pub(super) fn prime_meridian(code: u16) -> Option<(&'static str, f64)> {
    find(MERIDIANS, code, |row| row.0).map(|row| (row.1, row.2))
}

/// Returns the code of the meridian at this longitude in degrees.
pub(super) fn prime_meridian_at(longitude: f64) -> Option<(u16, &'static str)> {
    MERIDIANS.iter().find(|row| (row.2 - longitude).abs() < 1e-8).map(|row| (row.0, row.1))
}

/// Whether two numbers differ by at most the fraction `part` of the larger one.
pub(super) fn close(a: f64, b: f64, part: f64) -> bool {
    (a - b).abs() <= part * a.abs().max(b.abs())
}

/// Returns the letters and digits of a name in lower case. Names are compared in this form because every writer
/// has its own punctuation.
pub(super) fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

fn find<T>(table: &'static [T], code: u16, key: impl Fn(&T) -> u16) -> Option<&'static T> {
    table.binary_search_by_key(&code, key).ok().and_then(|at| table.get(at))
}

/// The number of radians in a degree.
pub(super) const DEGREE: f64 = std::f64::consts::PI / 180.0;

#[rustfmt::skip]
const KEYS: &[(u16, &str)] = &[
    (1024, "GTModelTypeGeoKey"), (1025, "GTRasterTypeGeoKey"), (1026, "GTCitationGeoKey"),
    (2048, "GeodeticCRSGeoKey"), (2049, "GeodeticCitationGeoKey"), (2050, "GeodeticDatumGeoKey"),
    (2051, "PrimeMeridianGeoKey"), (2052, "GeogLinearUnitsGeoKey"), (2053, "GeogLinearUnitSizeGeoKey"),
    (2054, "GeogAngularUnitsGeoKey"), (2055, "GeogAngularUnitSizeGeoKey"), (2056, "EllipsoidGeoKey"),
    (2057, "EllipsoidSemiMajorAxisGeoKey"), (2058, "EllipsoidSemiMinorAxisGeoKey"), (2059, "EllipsoidInvFlatteningGeoKey"),
    (2060, "GeogAzimuthUnitsGeoKey"), (2061, "PrimeMeridianLongitudeGeoKey"), (2062, "GeogTOWGS84GeoKey"),
    (3059, "ProjLinearUnitsInterpCorrectGeoKey"),
    (3072, "ProjectedCRSGeoKey"), (3073, "ProjectedCitationGeoKey"), (3074, "ProjectionGeoKey"), (3075, "ProjMethodGeoKey"),
    (3076, "ProjLinearUnitsGeoKey"), (3077, "ProjLinearUnitSizeGeoKey"),
    (3078, "ProjStdParallel1GeoKey"), (3079, "ProjStdParallel2GeoKey"),
    (3080, "ProjNatOriginLongGeoKey"), (3081, "ProjNatOriginLatGeoKey"),
    (3082, "ProjFalseEastingGeoKey"), (3083, "ProjFalseNorthingGeoKey"),
    (3084, "ProjFalseOriginLongGeoKey"), (3085, "ProjFalseOriginLatGeoKey"),
    (3086, "ProjFalseOriginEastingGeoKey"), (3087, "ProjFalseOriginNorthingGeoKey"),
    (3088, "ProjCenterLongGeoKey"), (3089, "ProjCenterLatGeoKey"),
    (3090, "ProjCenterEastingGeoKey"), (3091, "ProjCenterNorthingGeoKey"),
    (3092, "ProjScaleAtNatOriginGeoKey"), (3093, "ProjScaleAtCenterGeoKey"), (3094, "ProjAzimuthAngleGeoKey"),
    (3095, "ProjStraightVertPoleLongGeoKey"), (3096, "ProjRectifiedGridAngleGeoKey"),
    (4096, "VerticalGeoKey"), (4097, "VerticalCitationGeoKey"), (4098, "VerticalDatumGeoKey"), (4099, "VerticalUnitsGeoKey"),
    (5120, "CoordinateEpochGeoKey"),
];

const LENGTHS: &[(u16, &str, f64)] = &[
    (9001, "metre", 1.0),
    (9002, "foot", 0.3048),
    (9003, "US survey foot", 0.30480060960121924),
    (9005, "Clarke's foot", 0.3047972654),
    (9014, "fathom", 1.8288),
    (9030, "nautical mile", 1852.0),
    (9031, "German legal metre", 1.0000135965),
    (9033, "US survey chain", 20.11684023368047),
    (9034, "US survey link", 0.2011684023368047),
    (9035, "US survey mile", 1609.3472186944375),
    (9036, "kilometre", 1000.0),
    (9037, "Clarke's yard", 0.9143917962),
    (9038, "Clarke's chain", 20.1166195164),
    (9039, "Clarke's link", 0.201166195164),
    (9040, "British yard (Sears 1922)", 0.9143984146160287),
    (9041, "British foot (Sears 1922)", 0.3047994715386762),
    (9042, "British chain (Sears 1922)", 20.116765121552632),
    (9043, "British link (Sears 1922)", 0.2011676512155263),
    (9050, "British yard (Benoit 1895 A)", 0.9143992),
    (9051, "British foot (Benoit 1895 A)", 0.3047997333333333),
    (9052, "British chain (Benoit 1895 A)", 20.1167824),
    (9053, "British link (Benoit 1895 A)", 0.201167824),
    (9060, "British yard (Benoit 1895 B)", 0.9143992042898124),
    (9061, "British foot (Benoit 1895 B)", 0.30479973476327077),
    (9062, "British chain (Benoit 1895 B)", 20.116782494375872),
    (9063, "British link (Benoit 1895 B)", 0.2011678249437587),
    (9070, "British foot (1865)", 0.30480083333333335),
    (9080, "Indian foot", 0.30479951024814694),
    (9081, "Indian foot (1937)", 0.30479841),
    (9082, "Indian foot (1962)", 0.3047996),
    (9083, "Indian foot (1975)", 0.3047995),
    (9084, "Indian yard", 0.9143985307444408),
    (9085, "Indian yard (1937)", 0.91439523),
    (9086, "Indian yard (1962)", 0.9143988),
    (9087, "Indian yard (1975)", 0.9143985),
    (9093, "Statute mile", 1609.344),
    (9094, "Gold Coast foot", 0.3047997101815088),
    (9095, "British foot (1936)", 0.3048007491),
    (9096, "yard", 0.9144),
    (9097, "chain", 20.1168),
    (9098, "link", 0.201168),
    (9099, "British yard (Sears 1922 truncated)", 0.914398),
    (9300, "British foot (Sears 1922 truncated)", 0.30479933333333337),
    (9301, "British chain (Sears 1922 truncated)", 20.116756),
    (9302, "British link (Sears 1922 truncated)", 0.20116756),
];

const ANGLES: &[(u16, &str, f64)] = &[
    (9101, "radian", 1.0),
    (9102, "degree", DEGREE),
    (9103, "arc-minute", 0.0002908882086657216),
    (9104, "arc-second", 4.84813681109536e-06),
    (9105, "grad", 0.015707963267948967),
    (9106, "gon", 0.015707963267948967),
    (9109, "microradian", 1e-06),
    (9112, "centesimal minute", 0.0001570796326794895),
    (9113, "centesimal second", 1.570796326794895e-06),
    (9114, "mil_6400", 0.0009817477042468094),
    (9122, "degree (supplier to define representation)", DEGREE),
];

const MERIDIANS: &[(u16, &str, f64)] = &[
    (1026, "Copenhagen", 12.57775),
    (8901, "Greenwich", 0.0),
    (8902, "Lisbon", -9.13190611111111),
    (8903, "Paris", 2.33722917),
    (8904, "Bogota", -74.0809166666667),
    (8905, "Madrid", -3.687375),
    (8906, "Rome", 12.4523333333333),
    (8907, "Bern", 7.43958333333333),
    (8908, "Jakarta", 106.807719444444),
    (8909, "Ferro", -17.6666666666667),
    (8910, "Brussels", 4.367975),
    (8911, "Stockholm", 18.0582777777778),
    (8912, "Athens", 23.7163375),
    (8913, "Oslo", 10.7229166666667),
    (8914, "Paris RGS", 2.33720833333333),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_for_the_binary_search() {
        assert!(KEYS.is_sorted_by(|a, b| a.0 < b.0));
        assert!(LENGTHS.is_sorted_by(|a, b| a.0 < b.0));
        assert!(ANGLES.is_sorted_by(|a, b| a.0 < b.0));
        assert!(MERIDIANS.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn the_two_feet_are_not_the_same_size() {
        let foot = |code| Unit::length(code).unwrap();
        assert!(!foot(9002).same_size(&foot(9003)));
        assert!(foot(9003).same_size(&Unit { epsg: None, name: "ft".into(), factor: 0.304800609601219 }));
        assert_eq!(Unit::length(9102), None);
    }

    #[test]
    fn sexagesimal_codes_are_degrees() {
        assert_eq!(Unit::angle(9110), Some(Unit::DEGREE));
        assert_eq!(Unit::angle(9105).map(|u| u.name), Some("grad".into()));
    }

    #[test]
    fn private_keys_have_no_name() {
        assert_eq!((key_name(3072), key_name(40000)), (Some("ProjectedCRSGeoKey"), None));
    }
}
