//! The projection methods of the specification, with the keys of their parameters and their names in WKT.

use super::keys::GeoKeys;
use super::names::plain;

/// The kind of quantity of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Quantity {
    /// An angle in the angular unit of the geographic system.
    Angle,
    /// A direction at a point, in the azimuth unit (degrees unless the keys state another unit).
    Azimuth,
    /// A length in the linear unit.
    Length,
    /// A ratio.
    Scale,
}

/// One parameter of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MethodParameter {
    /// Name in WKT 1.
    pub name: &'static str,
    /// The kind of quantity.
    pub quantity: Quantity,
    /// The keys that may contain it, the correct one first: writers confuse natural origin, false origin and
    /// centre.
    pub keys: &'static [u16],
}

/// A projection method.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Method {
    /// Short name in the code tables.
    pub(super) id: &'static str,
    /// Value of ProjMethodGeoKey (GeoTIFF 1.0, section 6.3.3.3); 0 for a method that has none.
    pub code: u16,
    /// Name in WKT 1.
    pub name: &'static str,
    /// Parameters in the order of WKT 1.
    pub parameters: &'static [MethodParameter],
}

const fn parameter(name: &'static str, quantity: Quantity, keys: &'static [u16]) -> MethodParameter {
    MethodParameter { name, quantity, keys }
}

const LAT: MethodParameter = parameter("latitude_of_origin", Quantity::Angle, &[3081, 3085, 3089]);
const LON: MethodParameter = parameter("central_meridian", Quantity::Angle, &[3080, 3084, 3088]);
const FALSE_LAT: MethodParameter = parameter("latitude_of_origin", Quantity::Angle, &[3085, 3081, 3089]);
const FALSE_LON: MethodParameter = parameter("central_meridian", Quantity::Angle, &[3084, 3080, 3088]);
const CENTRE_LAT: MethodParameter = parameter("latitude_of_center", Quantity::Angle, &[3089, 3081, 3085]);
const CENTRE_LON: MethodParameter = parameter("longitude_of_center", Quantity::Angle, &[3088, 3080, 3084]);
const CONIC_LAT: MethodParameter = parameter("latitude_of_center", Quantity::Angle, &[3081, 3085, 3089]);
const CONIC_LON: MethodParameter = parameter("longitude_of_center", Quantity::Angle, &[3080, 3084, 3088]);
const VIEW_LAT: MethodParameter = parameter("latitude_of_origin", Quantity::Angle, &[3089, 3081, 3085]);
const VIEW_LON: MethodParameter = parameter("central_meridian", Quantity::Angle, &[3088, 3080, 3084]);
const POLE_LON: MethodParameter = parameter("central_meridian", Quantity::Angle, &[3095, 3080, 3084, 3088]);
const PARALLEL_1: MethodParameter = parameter("standard_parallel_1", Quantity::Angle, &[3078]);
const PARALLEL_2: MethodParameter = parameter("standard_parallel_2", Quantity::Angle, &[3079]);
const AZIMUTH: MethodParameter = parameter("azimuth", Quantity::Azimuth, &[3094]);
const GRID_ANGLE: MethodParameter = parameter("rectified_grid_angle", Quantity::Azimuth, &[3096]);
const SCALE: MethodParameter = parameter("scale_factor", Quantity::Scale, &[3092, 3093]);
const CENTRE_SCALE: MethodParameter = parameter("scale_factor", Quantity::Scale, &[3093, 3092]);
const EASTING: MethodParameter = parameter("false_easting", Quantity::Length, &[3082, 3090, 3086]);
const NORTHING: MethodParameter = parameter("false_northing", Quantity::Length, &[3083, 3091, 3087]);
const FALSE_EASTING: MethodParameter = parameter("false_easting", Quantity::Length, &[3086, 3090, 3082]);
const FALSE_NORTHING: MethodParameter = parameter("false_northing", Quantity::Length, &[3087, 3091, 3083]);
const CENTRE_EASTING: MethodParameter = parameter("false_easting", Quantity::Length, &[3090, 3082, 3086]);
const CENTRE_NORTHING: MethodParameter = parameter("false_northing", Quantity::Length, &[3091, 3083, 3087]);

const PSEUDO_PARALLEL: MethodParameter = parameter("pseudo_standard_parallel_1", Quantity::Angle, &[]);
const HEIGHT: MethodParameter = parameter("satellite_height", Quantity::Length, &[]);
const LAT_1: MethodParameter = parameter("latitude_of_point_1", Quantity::Angle, &[]);
const LON_1: MethodParameter = parameter("longitude_of_point_1", Quantity::Angle, &[]);
const LAT_2: MethodParameter = parameter("latitude_of_point_2", Quantity::Angle, &[]);
const LON_2: MethodParameter = parameter("longitude_of_point_2", Quantity::Angle, &[]);
/// The parameters of a map of the whole world.
const WORLD: &[MethodParameter] = &[LON, EASTING, NORTHING];

#[rustfmt::skip]
static METHODS: &[Method] = &[
    Method { id: "TM", code: 1, name: "Transverse_Mercator", parameters: &[LAT, LON, SCALE, EASTING, NORTHING] },
    Method { id: "HOMA", code: 3, name: "Hotine_Oblique_Mercator",
        parameters: &[CENTRE_LAT, CENTRE_LON, AZIMUTH, GRID_ANGLE, CENTRE_SCALE, EASTING, NORTHING] },
    Method { id: "LAB", code: 4, name: "Laborde_Oblique_Mercator",
        parameters: &[CENTRE_LAT, CENTRE_LON, AZIMUTH, CENTRE_SCALE, EASTING, NORTHING] },
    Method { id: "SWISS", code: 5, name: "Swiss_Oblique_Cylindrical",
        parameters: &[CENTRE_LAT, CENTRE_LON, EASTING, NORTHING] },
    Method { id: "MERC1", code: 7, name: "Mercator_1SP", parameters: &[LAT, LON, SCALE, EASTING, NORTHING] },
    Method { id: "MERC2", code: 7, name: "Mercator_2SP", parameters: &[PARALLEL_1, LON, EASTING, NORTHING] },
    Method { id: "LCC2", code: 8, name: "Lambert_Conformal_Conic_2SP",
        parameters: &[FALSE_LAT, FALSE_LON, PARALLEL_1, PARALLEL_2, FALSE_EASTING, FALSE_NORTHING] },
    Method { id: "LCC1", code: 9, name: "Lambert_Conformal_Conic_1SP", parameters: &[LAT, LON, SCALE, EASTING, NORTHING] },
    Method { id: "LAEA", code: 10, name: "Lambert_Azimuthal_Equal_Area",
        parameters: &[CENTRE_LAT, CENTRE_LON, EASTING, NORTHING] },
    Method { id: "AEA", code: 11, name: "Albers_Conic_Equal_Area",
        parameters: &[CONIC_LAT, CONIC_LON, PARALLEL_1, PARALLEL_2, EASTING, NORTHING] },
    Method { id: "AEQD", code: 12, name: "Azimuthal_Equidistant", parameters: &[CENTRE_LAT, CENTRE_LON, EASTING, NORTHING] },
    Method { id: "EQDC", code: 13, name: "Equidistant_Conic",
        parameters: &[CONIC_LAT, CONIC_LON, PARALLEL_1, PARALLEL_2, EASTING, NORTHING] },
    Method { id: "STERE", code: 14, name: "Stereographic", parameters: &[VIEW_LAT, VIEW_LON, SCALE, EASTING, NORTHING] },
    Method { id: "PSA", code: 15, name: "Polar_Stereographic", parameters: &[LAT, POLE_LON, SCALE, EASTING, NORTHING] },
    Method { id: "PSB", code: 15, name: "Polar_Stereographic", parameters: &[LAT, POLE_LON, EASTING, NORTHING] },
    Method { id: "OST", code: 16, name: "Oblique_Stereographic", parameters: &[LAT, LON, SCALE, EASTING, NORTHING] },
    Method { id: "EQC", code: 17, name: "Equirectangular",
        parameters: &[VIEW_LAT, VIEW_LON, PARALLEL_1, EASTING, NORTHING] },
    Method { id: "CASS", code: 18, name: "Cassini_Soldner", parameters: &[LAT, LON, EASTING, NORTHING] },
    Method { id: "GNOM", code: 19, name: "Gnomonic", parameters: &[VIEW_LAT, VIEW_LON, EASTING, NORTHING] },
    Method { id: "MILL", code: 20, name: "Miller_Cylindrical", parameters: &[CENTRE_LON, EASTING, NORTHING] },
    Method { id: "ORTHO", code: 21, name: "Orthographic", parameters: &[VIEW_LAT, VIEW_LON, EASTING, NORTHING] },
    Method { id: "POLY", code: 22, name: "Polyconic", parameters: &[LAT, LON, EASTING, NORTHING] },
    Method { id: "ROBIN", code: 23, name: "Robinson", parameters: &[CENTRE_LON, EASTING, NORTHING] },
    Method { id: "SINU", code: 24, name: "Sinusoidal", parameters: &[CENTRE_LON, EASTING, NORTHING] },
    Method { id: "VANDG", code: 25, name: "VanDerGrinten", parameters: &[VIEW_LON, EASTING, NORTHING] },
    Method { id: "NZMG", code: 26, name: "New_Zealand_Map_Grid", parameters: &[LAT, LON, EASTING, NORTHING] },
    Method { id: "TMS", code: 27, name: "Transverse_Mercator_South_Orientated",
        parameters: &[LAT, LON, SCALE, EASTING, NORTHING] },
    Method { id: "CEA", code: 28, name: "Cylindrical_Equal_Area", parameters: &[PARALLEL_1, LON, EASTING, NORTHING] },
    Method { id: "HOMB", code: 9815, name: "Hotine_Oblique_Mercator_Azimuth_Center",
        parameters: &[CENTRE_LAT, CENTRE_LON, AZIMUTH, GRID_ANGLE, CENTRE_SCALE, CENTRE_EASTING, CENTRE_NORTHING] },
    Method { id: "WEBM", code: 0, name: "Popular_Visualisation_Pseudo_Mercator", parameters: &[LAT, LON, EASTING, NORTHING] },
    Method { id: "KROVAK", code: 0, name: "Krovak",
        parameters: &[CENTRE_LAT, CENTRE_LON, AZIMUTH, PSEUDO_PARALLEL, CENTRE_SCALE, EASTING, NORTHING] },
    Method { id: "KROVAKN", code: 0, name: "Krovak_North_Orientated",
        parameters: &[CENTRE_LAT, CENTRE_LON, AZIMUTH, PSEUDO_PARALLEL, CENTRE_SCALE, EASTING, NORTHING] },
    Method { id: "GEOS", code: 0, name: "Geostationary_Satellite", parameters: &[LON, HEIGHT, EASTING, NORTHING] },
    Method { id: "BONNE", code: 0, name: "Bonne", parameters: &[PARALLEL_1, LON, EASTING, NORTHING] },
    Method { id: "LOXIM", code: 0, name: "Loximuthal", parameters: &[LAT, LON, EASTING, NORTHING] },
    Method { id: "WINTRI", code: 0, name: "Winkel_Tripel", parameters: &[LON, PARALLEL_1, EASTING, NORTHING] },
    Method { id: "WINK1", code: 0, name: "Winkel_I", parameters: &[LON, PARALLEL_1, EASTING, NORTHING] },
    Method { id: "WINK2", code: 0, name: "Winkel_II", parameters: &[LON, PARALLEL_1, EASTING, NORTHING] },
    Method { id: "TPEQD", code: 0, name: "Two_Point_Equidistant", parameters: &[LAT_1, LON_1, LAT_2, LON_2, EASTING, NORTHING] },
    Method { id: "HOM2", code: 0, name: "Hotine_Oblique_Mercator_Two_Point_Natural_Origin",
        parameters: &[CENTRE_LAT, LAT_1, LON_1, LAT_2, LON_2, CENTRE_SCALE, CENTRE_EASTING, CENTRE_NORTHING] },
    Method { id: "MOLL", code: 0, name: "Mollweide", parameters: WORLD },
    Method { id: "ECK1", code: 0, name: "Eckert_I", parameters: WORLD },
    Method { id: "ECK2", code: 0, name: "Eckert_II", parameters: WORLD },
    Method { id: "ECK3", code: 0, name: "Eckert_III", parameters: WORLD },
    Method { id: "ECK4", code: 0, name: "Eckert_IV", parameters: WORLD },
    Method { id: "ECK5", code: 0, name: "Eckert_V", parameters: WORLD },
    Method { id: "ECK6", code: 0, name: "Eckert_VI", parameters: WORLD },
    Method { id: "GALL", code: 0, name: "Gall_Stereographic", parameters: WORLD },
    Method { id: "GOODE", code: 0, name: "Goode_Homolosine", parameters: WORLD },
    Method { id: "IGH", code: 0, name: "Interrupted_Goode_Homolosine", parameters: WORLD },
    Method { id: "QUAAUT", code: 0, name: "Quartic_Authalic", parameters: WORLD },
    Method { id: "TIMES", code: 0, name: "Times", parameters: WORLD },
    Method { id: "AITOFF", code: 0, name: "Aitoff", parameters: WORLD },
    Method { id: "CRAST", code: 0, name: "Craster_Parabolic", parameters: WORLD },
    Method { id: "MBTFPQ", code: 0, name: "Flat_Polar_Quartic", parameters: WORLD },
    Method { id: "WAG4", code: 0, name: "Wagner_IV", parameters: WORLD },
    Method { id: "WAG5", code: 0, name: "Wagner_V", parameters: WORLD },
    Method { id: "WAG7", code: 0, name: "Wagner_VII", parameters: WORLD },
    Method { id: "NATEARTH", code: 0, name: "Natural_Earth", parameters: WORLD },
    Method { id: "NATEARTH2", code: 0, name: "Natural_Earth_II", parameters: WORLD },
    Method { id: "EQEARTH", code: 0, name: "Equal_Earth", parameters: WORLD },
    Method { id: "PATTERSON", code: 0, name: "Patterson", parameters: WORLD },
    Method { id: "COMILL", code: 0, name: "Compact_Miller", parameters: WORLD },
];

/// Other names of methods: names in WKT 2, EPSG codes, and names in ESRI's dialect; letters and digits only.
#[rustfmt::skip]
const ALIASES: &[(&str, &str)] = &[
    ("gausskruger", "TM"), ("9807", "TM"),
    ("9808", "TMS"),
    ("rectifiedskeworthomorphicnaturalorigin", "HOMA"), ("hotineobliquemercatorazimuthnaturalorigin", "HOMA"),
    ("hotineobliquemercatorvarianta", "HOMA"), ("9812", "HOMA"),
    ("rectifiedskeworthomorphiccenter", "HOMB"), ("hotineobliquemercatorvariantb", "HOMB"), ("obliquemercator", "HOMB"),
    ("9815", "HOMB"), ("9813", "LAB"),
    ("mercatorvarianta", "MERC1"), ("9804", "MERC1"),
    ("mercator", "MERC2"), ("mercatorvariantb", "MERC2"), ("9805", "MERC2"),
    ("mercatorauxiliarysphere", "WEBM"), ("1024", "WEBM"),
    ("lambertconicconformal2sp", "LCC2"), ("9802", "LCC2"), ("lambertconicconformal1sp", "LCC1"), ("9801", "LCC1"),
    ("9820", "LAEA"), ("lambertazimuthalequalareaspherical", "LAEA"), ("1027", "LAEA"),
    ("albers", "AEA"), ("albersequalarea", "AEA"), ("9822", "AEA"),
    ("1125", "AEQD"), ("1119", "EQDC"),
    ("polarstereographicvarianta", "PSA"), ("9810", "PSA"), ("polarstereographicvariantb", "PSB"), ("9829", "PSB"),
    ("stereographicnorthpole", "PSB"), ("stereographicsouthpole", "PSB"),
    ("doublestereographic", "OST"), ("9809", "OST"),
    ("platecarree", "EQC"), ("equidistantcylindrical", "EQC"), ("equidistantcylindricalspherical", "EQC"),
    ("equidistantcylindricalellipsoidal", "EQC"), ("1028", "EQC"),
    ("1029", "EQC"),
    ("cassini", "CASS"), ("9806", "CASS"), ("9840", "ORTHO"), ("americanpolyconic", "POLY"), ("9818", "POLY"),
    ("vandergrinteni", "VANDG"), ("9811", "NZMG"),
    ("lambertcylindricalequalarea", "CEA"), ("behrmann", "CEA"), ("lambertcylindricalequalareaspherical", "CEA"), ("9835", "CEA"),
    ("9834", "CEA"),
    ("9819", "KROVAK"), ("1041", "KROVAKN"), ("9827", "BONNE"), ("1078", "EQEARTH"), ("geostationarysatellitesweepy", "GEOS"),
];

impl Method {
    #[cfg(test)]
    pub(super) fn all() -> impl Iterator<Item = &'static Self> {
        METHODS.iter()
    }

    /// Returns the method with this short name.
    pub(super) fn by_id(id: &str) -> Option<&'static Self> {
        METHODS.iter().find(|method| method.id == id)
    }

    /// Returns the method with this name in WKT of any version, including ESRI's names, or with this EPSG code
    /// as text. The parameters select between the two polar stereographic variants: see [`polar_variant`].
    pub(super) fn by_name(name: &str) -> Option<&'static Self> {
        let name = plain(name);
        let alias = ALIASES.iter().find(|(known, _)| *known == name).and_then(|(_, id)| Self::by_id(id));
        alias.or_else(|| METHODS.iter().find(|method| plain(method.name) == name))
    }

    /// Returns the method of these keys, in the variant that its parameters select.
    pub(super) fn from_keys(code: u16, keys: &GeoKeys) -> Option<&'static Self> {
        match code {
            // Both variants of Mercator have one code: a standard parallel without a scale factor selects the
            // second variant.
            7 if keys.double(3078).is_some() && keys.double(3092).is_none() => Self::by_id("MERC2"),
            15 => Self::by_id(polar_variant(LAT.read(keys).unwrap_or(90.0), SCALE.read(keys).unwrap_or(1.0))),
            0 => None,
            _ => METHODS.iter().find(|method| method.code == code),
        }
    }
}

/// Selects the polar stereographic variant. Variant A has the latitude of the pole and a scale; variant B has
/// the latitude of true scale. A latitude with a scale that is not 1 is neither and is kept unchanged.
pub(super) fn polar_variant(latitude: f64, scale: f64) -> &'static str {
    if latitude.abs() != 90.0 && scale == 1.0 { "PSB" } else { "PSA" }
}

impl MethodParameter {
    /// Returns the value in the keys, unchanged.
    pub(super) fn read(&self, keys: &GeoKeys) -> Option<f64> {
        self.keys.iter().find_map(|&key| keys.double(key))
    }

    /// Returns the value of a parameter that the keys do not contain.
    pub(super) fn default(&self) -> f64 {
        match self.quantity {
            Quantity::Scale => 1.0,
            Quantity::Azimuth => 90.0,
            Quantity::Angle | Quantity::Length => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geo::KeyValue;

    fn keys(values: &[(u16, f64)]) -> GeoKeys {
        let mut keys = GeoKeys::default();
        for &(id, value) in values {
            keys.set(id, KeyValue::Doubles(vec![value]));
        }
        keys
    }

    #[test]
    fn mercator_with_a_parallel_and_no_scale_is_the_second_variant() {
        assert_eq!(Method::from_keys(7, &keys(&[(3078, 30.0)])).unwrap().name, "Mercator_2SP");
        assert_eq!(Method::from_keys(7, &keys(&[(3078, 30.0), (3092, 1.0)])).unwrap().name, "Mercator_1SP");
    }

    #[test]
    fn polar_stereographic_variant_follows_latitude_and_scale() {
        assert_eq!(Method::from_keys(15, &keys(&[(3081, -71.0), (3092, 1.0)])).unwrap().id, "PSB");
        assert_eq!(Method::from_keys(15, &keys(&[(3081, 90.0)])).unwrap().id, "PSA");
        assert_eq!(Method::from_keys(15, &keys(&[(3081, 60.0), (3092, 90.0)])).unwrap().id, "PSA");
    }

    #[test]
    fn origin_in_the_wrong_key_is_still_found() {
        assert_eq!(CONIC_LON.read(&keys(&[(3088, -117.5)])), Some(-117.5));
        assert_eq!(POLE_LON.read(&keys(&[(3080, 1.0), (3095, 2.0)])), Some(2.0));
    }

    #[test]
    fn method_zero_and_unknown_methods_are_none() {
        assert_eq!(Method::from_keys(0, &keys(&[])), None);
        assert_eq!(Method::from_keys(4711, &keys(&[])), None);
    }
}
