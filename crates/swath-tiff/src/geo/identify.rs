//! Finds the code of a system whose definition is in the keys without a code.
//!
//! The definition decides: method, parameters, unit and datum must agree with a row of the code tables. Names
//! only select between rows that are otherwise equal.

use super::crs::{Authority, Code, Projection};
use super::epsg::{self, Axes, GeographicRow, ProjectedRow};
use super::geographic::{Ellipsoid, Geographic};
use super::method::Quantity;
use super::names::{DEGREE, Unit, close, plain, prime_meridian};

/// Systems of Esri's own list that have the definition of an EPSG system but another name. The name identifies
/// the Esri system.
const ESRI: &[(&str, u32)] = &[
    ("USA_Contiguous_Albers_Equal_Area_Conic_USGS_version", 102039),
    ("USA_Contiguous_Albers_Equal_Area_Conic", 102003),
    ("USA_Contiguous_Lambert_Conformal_Conic", 102004),
    ("Canada_Albers_Equal_Area_Conic", 102001),
    ("Canada_Lambert_Conformal_Conic", 102002),
    ("North_America_Albers_Equal_Area_Conic", 102008),
    ("North_America_Lambert_Conformal_Conic", 102009),
    ("WGS_1984_Web_Mercator", 102113),
    ("North_Pole_Stereographic", 102018),
    ("South_Pole_Stereographic", 102021),
];

/// Datum names of other writers, without punctuation and without the `D_` of Esri.
const DATUMS: &[(&str, u16)] = &[
    ("wgs1984", 6326),
    ("wgs84", 6326),
    ("worldgeodeticsystem1984", 6326),
    ("worldgeodeticsystem1984ensemble", 6326),
    ("wgs1972", 6322),
    ("northamerican1983", 6269),
    ("nad83", 6269),
    ("northamerican1927", 6267),
    ("nad27", 6267),
    ("etrs1989", 6258),
    ("etrs89", 6258),
    ("europeanterrestrialreferencesystem1989ensemble", 6258),
    ("european1950", 6230),
    ("osgb1936", 6277),
    ("gda1994", 6283),
    ("gda2020", 1168),
    ("sirgas2000", 6674),
    ("southamerican1969", 6618),
    ("nzgd1949", 6272),
    ("nzgd2000", 6167),
    ("jgd2000", 6612),
    ("jgd2011", 1128),
    ("rgf1993", 6171),
    ("ntf", 6275),
    ("belge1972", 6313),
    ("china2000", 1043),
    ("deutscheshauptdreiecksnetz", 6314),
    ("rt1990", 6124),
    ("sjtsk", 6156),
];

/// The information of a definition about its datum.
enum Known {
    Code(u16),
    Datum(u16),
    /// The writer marked the datum as unknown: any datum on the same ellipsoid is possible.
    Ellipsoid,
}

/// Returns the code of a projected system.
pub(super) fn projected(projection: &Projection, base: &Geographic, unit: &Unit, name: &str) -> Option<Code> {
    if let Some(&(_, number)) = ESRI.iter().find(|(known, _)| *known == name) {
        return Some(Code { authority: Authority::Esri, number });
    }
    let known = known_datum(base)?;
    let fits = |row: &ProjectedRow| {
        let Some(under) = epsg::geographic(row.geographic) else { return false };
        !row.deprecated
            && Unit::length(row.unit).is_some_and(|native| native.same_size(unit))
            && match known {
                Known::Code(code) => under.code == code,
                Known::Datum(datum) => under.datum == datum && same_shape(base, under),
                Known::Ellipsoid => row.axes == Axes::EAST_NORTH && same_shape(base, under),
            }
    };
    let conversions = epsg::conversions().filter(|row| {
        let length = Unit::length(row.unit).map_or(1.0, |unit| unit.factor);
        row.method == projection.method.id
            && projection.parameters.iter().zip(row.values()).all(|(own, value)| match own.quantity {
                Quantity::Angle | Quantity::Azimuth => {
                    (own.value * base.angular_unit.factor / DEGREE - value).abs() < 1e-9
                }
                Quantity::Scale => close(own.value, value, 1e-10),
                Quantity::Length => (own.value * unit.factor - value * length).abs() < 1e-4,
            })
    });
    let rows = conversions.flat_map(|row| epsg::projected_over(row.code)).filter(fits);
    let wanted = plain(name);
    // Of several rows, the first by name is used. The choice is arbitrary, but PROJ makes the same one, so
    // files keep the code that other readers show.
    let best = rows.min_by(|a, b| {
        let strange = |row: &ProjectedRow| plain(&row.name) != wanted;
        let rank = |row: &ProjectedRow| (strange(row), row.axes != Axes::EAST_NORTH);
        rank(a).cmp(&rank(b)).then_with(|| a.name.cmp(&b.name))
    });
    best.map(|row| Code::epsg(row.code))
}

/// Returns the code of a geographic system with a known datum.
pub(super) fn geographic(base: &Geographic) -> Option<u16> {
    let Known::Datum(datum) = known_datum(base)? else { return None };
    let fits = |row: &GeographicRow| {
        let unit = Unit::angle(row.unit).is_some_and(|unit| unit.same_size(&base.angular_unit));
        row.datum == datum && !row.deprecated && unit && same_shape(base, *row)
    };
    epsg::geographics().find(fits).map(|row| row.code)
}

/// Returns the code of the datum with this name.
pub(super) fn datum_by_name(name: &str) -> Option<u16> {
    let name = plain(name.strip_prefix("D_").unwrap_or(name));
    let alias = DATUMS.iter().find(|(known, _)| *known == name).map(|(_, code)| *code);
    alias.or_else(|| epsg::geographics().find(|row| plain(row.datum_name) == name).map(|row| row.datum))
}

fn known_datum(base: &Geographic) -> Option<Known> {
    if let Some(code) = base.epsg {
        return Some(Known::Code(code));
    }
    if let Some(datum) = base.datum.epsg {
        return Some(Known::Datum(datum));
    }
    let name = plain(base.datum.name.strip_prefix("D_").unwrap_or(&base.datum.name));
    if name == "unknown" || name.starts_with("unknownbasedon") {
        return Some(Known::Ellipsoid);
    }
    datum_by_name(&base.datum.name).map(Known::Datum)
}

fn same_shape(base: &Geographic, row: GeographicRow) -> bool {
    let figure = base.ellipsoid.as_ref().zip(Ellipsoid::from_code(row.ellipsoid));
    let meridian = prime_meridian(row.meridian);
    figure.is_some_and(|(own, known)| own.same_figure(&known))
        && meridian.is_some_and(|(_, longitude)| (longitude - base.prime_meridian.longitude).abs() < 1e-8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datum_names_of_other_writers_are_known() {
        for name in ["D_WGS_1984", "WGS_1984", "World Geodetic System 1984"] {
            assert_eq!(datum_by_name(name), Some(6326), "{name}");
        }
        assert_eq!(datum_by_name("D_North_American_1983"), Some(6269));
        assert_eq!(datum_by_name("Rikets koordinatsystem 1990"), Some(6124));
        assert_eq!(datum_by_name("Not_specified_based_on_WGS_84_spheroid"), None);
    }

    #[test]
    fn every_alias_has_a_row() {
        for (name, code) in DATUMS {
            assert!(epsg::geographic_of_datum(*code).is_some(), "{name}");
        }
    }
}
