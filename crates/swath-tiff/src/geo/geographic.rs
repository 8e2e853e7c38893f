//! The geographic system of a set of keys: datum, ellipsoid, prime meridian and angular unit.

use super::epsg::{self, GeographicRow, ProjectedRow};
use super::keys::GeoKeys;
use super::names::{DEGREE, Unit, close, prime_meridian, prime_meridian_at};

/// The value "user-defined" of every key that contains a code.
pub(super) const USER_DEFINED: u16 = 32767;

/// A geodetic datum.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Datum {
    /// EPSG code.
    pub epsg: Option<u16>,
    /// Name, with spaces or underscores as in its source.
    pub name: String,
}

/// A figure of the Earth, or of another body.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Ellipsoid {
    /// EPSG code.
    pub epsg: Option<u16>,
    /// Name.
    pub name: String,
    /// Semi-major axis in metres.
    pub semi_major: f64,
    /// Inverse flattening; 0 for a sphere.
    pub inverse_flattening: f64,
}

impl Ellipsoid {
    /// Whether both ellipsoids have the same shape, within the precision of inverse flattenings computed from
    /// two axes.
    pub fn same_figure(&self, other: &Self) -> bool {
        close(self.semi_major, other.semi_major, 1e-10)
            && close(self.inverse_flattening, other.inverse_flattening, 1e-10)
    }

    pub(super) fn from_code(code: u16) -> Option<Self> {
        let row = epsg::ellipsoid(code)?;
        Some(Self {
            epsg: Some(row.code),
            name: row.name.into(),
            semi_major: row.semi_major,
            inverse_flattening: row.inverse_flattening,
        })
    }
}

/// The meridian at longitude 0.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PrimeMeridian {
    /// EPSG code.
    pub epsg: Option<u16>,
    /// Name.
    pub name: String,
    /// Degrees east of Greenwich.
    pub longitude: f64,
}

/// The geographic system, either on its own or as the base of a projection.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Geographic {
    /// EPSG code; `None` if other keys contradict it.
    pub epsg: Option<u16>,
    /// Name.
    pub name: String,
    /// Datum.
    pub datum: Datum,
    /// Ellipsoid; `None` if neither a code nor axes are given.
    pub ellipsoid: Option<Ellipsoid>,
    /// Prime meridian.
    pub prime_meridian: PrimeMeridian,
    /// Unit of angles.
    pub angular_unit: Unit,
    /// Shift to WGS 84: three or seven parameters, or empty.
    pub to_wgs84: Vec<f64>,
}

impl Geographic {
    /// Returns the geographic system of the keys; `fallback` is its code if the keys do not define it.
    pub(super) fn from_keys(keys: &GeoKeys, fallback: Option<u16>) -> Self {
        let citation = keys.ascii(2049).unwrap_or_default();
        let stated = real(keys.short(2048));
        let datum_code = real(keys.short(2050));
        // Ellipsoid keys alone change the system of the projected code. If the keys name another system, they
        // describe that one.
        let has_figure = keys.get(2056).is_some() || keys.get(2057).is_some();
        let says_nothing = stated.is_none() && datum_code.is_none() && (keys.get(2048).is_none() || !has_figure);
        let code = stated.or(fallback.filter(|_| says_nothing));
        let row = code.and_then(|code| epsg::geographic(code).or_else(|| solid_row(code).map(|(row, _)| row)));
        let by_datum = datum_code.filter(|_| code.is_none());
        let datum_row = by_datum.and_then(epsg::geographic_of_datum);
        let known = row.or(datum_row);

        let angular_unit = row.and_then(|row| Unit::angle(row.unit)).unwrap_or_else(|| key_angle(keys));
        let ellipsoid = ellipsoid(keys, known, part(citation, "Ellipsoid"));
        let name = row.map(|row| row.name).or(part(citation, "GCS Name")).or(whole(citation));
        let name = name.or(datum_row.map(|row| row.datum_name)).unwrap_or("unknown");
        let datum = Datum {
            epsg: known.map(|row| row.datum).or(datum_code),
            name: known.map(|row| row.datum_name).or(part(citation, "Datum")).unwrap_or("unnamed").into(),
        };
        let mut base = Self {
            epsg: row.map(|row| row.code).or(code),
            name: name.into(),
            datum,
            ellipsoid,
            prime_meridian: meridian(keys, known, row.is_some(), part(citation, "Primem")),
            angular_unit,
            to_wgs84: to_wgs84(keys),
        };
        if !base.agrees() {
            base.epsg = None;
        }
        base
    }

    /// Returns the geographic system of a projected code. GDAL reads it from the keys only if one of them names
    /// a system, a datum or an ellipsoid, and never for 3857, because writers of 3857 name various systems to
    /// obtain a sphere.
    pub(super) fn under(row: &ProjectedRow, keys: &GeoKeys) -> Self {
        let named = [2048, 2050, 2056].into_iter().any(|id| keys.get(id).is_some());
        if named && row.code != PSEUDO_MERCATOR {
            return Self::from_keys(keys, Some(row.geographic));
        }
        let to_wgs84 = to_wgs84(keys);
        Self { to_wgs84, ..Self::from_keys(&GeoKeys::default(), Some(row.geographic)) }
    }

    /// Whether this is the geographic system of a projected code.
    pub(super) fn is_under(&self, row: &ProjectedRow) -> bool {
        let Some(known) = epsg::geographic(row.geographic) else { return true };
        match (self.epsg, self.datum.epsg) {
            (Some(code), _) => code == known.code,
            (None, Some(datum)) => datum == known.datum && self.has_shape_of(known),
            (None, None) => self.has_shape_of(known),
        }
    }

    /// Whether the ellipsoid and the prime meridian are those of the code of the datum.
    pub(super) fn agrees(&self) -> bool {
        let coded = self.epsg.and_then(epsg::geographic);
        let Some(row) = coded.or_else(|| self.datum.epsg.and_then(epsg::geographic_of_datum)) else {
            return true;
        };
        self.has_shape_of(row)
    }

    fn has_shape_of(&self, row: GeographicRow) -> bool {
        let figure = Ellipsoid::from_code(row.ellipsoid).zip(self.ellipsoid.as_ref());
        figure.is_none_or(|(known, own)| known.same_figure(own))
            && prime_meridian(row.meridian).is_none_or(|(_, at)| (at - self.prime_meridian.longitude).abs() < 1e-8)
    }
}

/// The code whose ellipsoid GDAL never changes.
const PSEUDO_MERCATOR: u16 = 3857;

fn to_wgs84(keys: &GeoKeys) -> Vec<f64> {
    keys.doubles(2062).filter(|v| matches!(v.len(), 3 | 7)).map(<[f64]>::to_vec).unwrap_or_default()
}

/// Returns the row of the two-dimensional system for the code of a three-dimensional one, and whether the
/// latter is geocentric.
pub(super) fn solid_row(code: u16) -> Option<(GeographicRow, bool)> {
    if epsg::geographic(code).is_some() {
        return None;
    }
    let row = epsg::geographics().find(|row| row.three_d == Some(code) || row.geocentric == Some(code))?;
    Some((row, row.geocentric == Some(code)))
}

fn ellipsoid(keys: &GeoKeys, known: Option<GeographicRow>, name: Option<&str>) -> Option<Ellipsoid> {
    let positive = |id| keys.double(id).filter(|v| v.is_finite() && *v > 0.0);
    let coded = real(keys.short(2056)).and_then(Ellipsoid::from_code);
    let base = coded.or_else(|| known.and_then(|row| Ellipsoid::from_code(row.ellipsoid)));
    let Some(a) = positive(2057) else { return base };
    let unit = linear_unit(keys, 2052, 2053).unwrap_or(Unit::METRE);
    let semi_major = a * unit.factor;
    if !(semi_major.is_finite() && semi_major > 0.0) {
        return base;
    }
    // With an inverse flattening of 1 or less, the other axis would not be positive, so the number is ignored. So is a
    // number that WKT, with 15 digits, would state as 1.
    let sound = |inverse: &f64| *inverse > 1.0 + 1e-13;
    let inverse_flattening = match (positive(2059).filter(sound), positive(2058)) {
        (Some(inverse), _) => inverse,
        (None, Some(b)) if b < a => Some(a / (a - b)).filter(sound).unwrap_or(0.0),
        (None, Some(_)) => 0.0,
        // A semi-major axis alone repeats that of the code, or is the radius of a sphere.
        (None, None) => {
            base.as_ref().filter(|e| close(e.semi_major, semi_major, 1e-10)).map_or(0.0, |e| e.inverse_flattening)
        }
    };
    let own = Ellipsoid { epsg: None, name: name.unwrap_or("unnamed").into(), semi_major, inverse_flattening };
    match base {
        Some(base) if base.same_figure(&own) => Some(base),
        Some(base) => Some(Ellipsoid { name: name.map_or(base.name, str::to_owned), ..own }),
        None => Some(own),
    }
}

/// Returns the prime meridian of the keys. The code of a system defines its own meridian, so a longitude in the
/// keys applies only if they name another meridian.
fn meridian(keys: &GeoKeys, known: Option<GeographicRow>, has_code: bool, name: Option<&str>) -> PrimeMeridian {
    let coded = |code| prime_meridian(code).map(|(name, longitude)| (Some(code), name.to_owned(), longitude));
    let counts = !has_code || keys.short(2051) == Some(USER_DEFINED);
    let measured = keys.double(2061).filter(|v| counts && v.is_finite()).map(|value| {
        let longitude = value * key_angle(keys).factor / DEGREE;
        let known = prime_meridian_at(longitude);
        let name = name.or(known.map(|(_, name)| name)).unwrap_or("unnamed");
        (known.map(|(code, _)| code), name.to_owned(), longitude)
    });
    let found =
        real(keys.short(2051)).and_then(coded).or(measured).or_else(|| known.and_then(|row| coded(row.meridian)));
    let (epsg, name, longitude) = found.unwrap_or((Some(8901), "Greenwich".into(), 0.0));
    PrimeMeridian { epsg, name, longitude }
}

/// Returns the unit of the angular keys.
pub(super) fn key_angle(keys: &GeoKeys) -> Unit {
    let own = || {
        let factor = keys.double(2055).filter(|v| v.is_finite() && *v > 0.0);
        let name = keys.ascii(2049).and_then(|text| part(text, "AUnits")).unwrap_or("unknown").to_owned();
        let factor = factor.unwrap_or(DEGREE);
        if close(factor, DEGREE, 1e-9) { Unit::DEGREE } else { Unit { epsg: None, name: name.into(), factor } }
    };
    match keys.short(2054) {
        Some(USER_DEFINED) => own(),
        Some(code) => Unit::angle(code).unwrap_or(Unit::DEGREE),
        None => Unit::DEGREE,
    }
}

/// Returns the unit of length that a pair of keys defines.
pub(super) fn linear_unit(keys: &GeoKeys, code: u16, size: u16) -> Option<Unit> {
    match keys.short(code)? {
        USER_DEFINED => {
            let factor = keys.double(size).filter(|v| v.is_finite() && *v > 0.0)?;
            let name = keys.ascii(3073).and_then(|text| part(text, "LUnits")).unwrap_or("unknown").to_owned();
            Some(Unit { epsg: None, name: name.into(), factor })
        }
        code => Unit::length(code),
    }
}

/// Returns a code that is neither "undefined" nor "user-defined".
pub(super) fn real(code: Option<u16>) -> Option<u16> {
    code.filter(|&code| code != 0 && code != USER_DEFINED)
}

/// Returns the text of `key` in a citation such as `GCS Name = x|Datum = y|`.
pub(super) fn part<'a>(citation: &'a str, key: &str) -> Option<&'a str> {
    citation.split('|').find_map(|field| field.trim().strip_prefix(key)?.trim_start().strip_prefix('=').map(str::trim))
}

/// Returns a citation that is a plain name.
pub(super) fn whole(citation: &str) -> Option<&str> {
    let name = citation.trim_matches(['|', ' ', '\n']);
    (!name.is_empty() && !name.contains(" = ")).then_some(name)
}
