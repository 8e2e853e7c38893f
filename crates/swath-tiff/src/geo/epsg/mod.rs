//! Tables of the EPSG codes that GeoTIFF keys commonly use.
//!
//! The tables are texts with one row per line, sorted by code. `generate.py` selects them from the EPSG
//! Dataset, so that they can be read, compared and replaced. They are searched in place: nothing is built at
//! start-up. A code that is not in the tables is not an error; only its number is known.
//!
//! The EPSG Dataset is owned by IOGP and has its own terms of use.

const GEOGRAPHIC: &str = include_str!("geographic.txt");
const PROJECTED: &str = include_str!("projected.txt");
const CONVERSIONS: &str = include_str!("conversions.txt");
const ELLIPSOIDS: &str = include_str!("ellipsoids.txt");
const VERTICAL: &str = include_str!("vertical.txt");
const COMPOUND: &str = include_str!("compound.txt");
const UTM: &str = include_str!("utm.txt");
const UNITS: &str = include_str!("units.txt");
const KINDS: &str = include_str!("kinds.txt");

/// The kind of object that a code of the register names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EpsgKind {
    Projected,
    Geographic,
    Geographic3D,
    Geocentric,
    Vertical,
    Compound,
}

/// A geographic system.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct GeographicRow {
    pub(super) code: u16,
    pub(super) name: &'static str,
    pub(super) datum: u16,
    pub(super) datum_name: &'static str,
    pub(super) ellipsoid: u16,
    pub(super) meridian: u16,
    pub(super) unit: u16,
    /// Code of the same system with ellipsoidal heights.
    pub(super) three_d: Option<u16>,
    /// Code of the geocentric system of the datum.
    pub(super) geocentric: Option<u16>,
    /// Whether the longitude comes before the latitude.
    pub(super) longitude_first: bool,
    pub(super) deprecated: bool,
}

/// The axes of a map, in the order of the register and with the words of WKT 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Axes {
    /// The direction of each axis.
    pub(super) towards: [&'static str; 2],
    /// Whether the northing comes first although both axes point to the pole or away from it. In all other
    /// cases the directions determine the order.
    pub(super) northing_first: bool,
}

impl Axes {
    pub(super) const EAST_NORTH: Self = Self::new("EAST", "NORTH");

    pub(super) const fn new(first: &'static str, second: &'static str) -> Self {
        Self { towards: [first, second], northing_first: false }
    }

    /// Returns the axes for the flags of a row.
    fn from_flags(flags: &str) -> Option<Self> {
        let flags = flags.trim_end_matches('d');
        let letters = flags.trim_end_matches('r');
        let axes = match letters {
            "" => Self::EAST_NORTH,
            "ne" => Self::new("NORTH", "EAST"),
            "nn" => Self::new("NORTH", "NORTH"),
            "ss" => Self::new("SOUTH", "SOUTH"),
            "sw" => Self::new("SOUTH", "WEST"),
            "ws" => Self::new("WEST", "SOUTH"),
            _ => return None,
        };
        Some(Self { northing_first: letters.len() < flags.len(), ..axes })
    }
}

/// A projected system.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ProjectedRow {
    pub(super) code: u16,
    pub(super) geographic: u16,
    pub(super) conversion: u16,
    pub(super) unit: u16,
    pub(super) axes: Axes,
    pub(super) deprecated: bool,
    pub(super) name: String,
}

/// A map projection with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ConversionRow {
    pub(super) code: u16,
    /// Short name of the method, as in `method.rs`.
    pub(super) method: &'static str,
    /// Unit of the false eastings and northings.
    pub(super) unit: u16,
    values: Values,
}

/// The parameters as text or as numbers. Text is parsed on demand: a search visits thousands of rows and
/// rejects most at the first number.
#[derive(Debug, Clone, PartialEq)]
enum Values {
    Text(&'static str),
    Utm([f64; 5]),
}

impl ConversionRow {
    /// Returns the parameters in the order of the method, angles in degrees.
    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        let (text, utm) = match self.values {
            Values::Text(text) => (text, None),
            Values::Utm(values) => ("", Some(values)),
        };
        text.split_ascii_whitespace().map_while(|v| v.parse().ok()).chain(utm.into_iter().flatten())
    }
}

/// An ellipsoid; the inverse flattening of a sphere is 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct EllipsoidRow {
    pub(super) code: u16,
    pub(super) name: &'static str,
    pub(super) semi_major: f64,
    pub(super) inverse_flattening: f64,
}

/// A vertical system.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct VerticalRow {
    pub(super) code: u16,
    pub(super) name: &'static str,
    pub(super) datum: u16,
    pub(super) datum_name: &'static str,
    pub(super) unit: u16,
    /// The name of the axis of a depth system, which points down.
    pub(super) depth: Option<&'static str>,
}

pub(super) fn geographic(code: u16) -> Option<GeographicRow> {
    search(GEOGRAPHIC, code).and_then(geographic_row)
}

/// Returns all geographic systems, by code.
pub(super) fn geographics() -> impl Iterator<Item = GeographicRow> {
    rows(GEOGRAPHIC).filter_map(geographic_row)
}

/// Returns the projected system with this code: a named grid, or a zone of a UTM family.
pub(super) fn projected(code: u16) -> Option<ProjectedRow> {
    search(PROJECTED, code).and_then(projected_row).or_else(|| {
        let family = utm_family(floor(UTM, code)?)?;
        let zone = code.checked_sub(family.code)?.checked_add(family.first)?;
        (zone <= family.last).then(|| family.zone(zone)).flatten()
    })
}

/// Returns the projected systems that use this conversion.
pub(super) fn projected_over(conversion: u16) -> impl Iterator<Item = ProjectedRow> {
    let zone = conversion.wrapping_sub(16000);
    let families = utm_families().filter(move |family| (family.first..=family.last).contains(&zone));
    let grids = rows(PROJECTED).filter(move |row| field(row, '|', 2) == Some(conversion)).filter_map(projected_row);
    grids.chain(families.filter_map(move |family| family.zone(zone)))
}

/// Returns the conversion with this code: that of a named grid, or a UTM zone.
pub(super) fn conversion(code: u16) -> Option<ConversionRow> {
    search(CONVERSIONS, code).and_then(conversion_row).or_else(|| utm_conversion(code))
}

/// Returns all conversions, including UTM zones.
pub(super) fn conversions() -> impl Iterator<Item = ConversionRow> {
    rows(CONVERSIONS).filter_map(conversion_row).chain((16001..=16160).filter_map(utm_conversion))
}

/// Returns the geographic system of a datum; if there are several, the one with the smallest code.
pub(super) fn geographic_of_datum(datum: u16) -> Option<GeographicRow> {
    rows(GEOGRAPHIC).find(|row| field(row, '|', 2) == Some(datum)).and_then(geographic_row)
}

pub(super) fn ellipsoid(code: u16) -> Option<EllipsoidRow> {
    search(ELLIPSOIDS, code).and_then(|row| {
        let mut fields = row.split('|');
        Some(EllipsoidRow {
            code: fields.next()?.parse().ok()?,
            name: fields.next()?,
            semi_major: fields.next()?.parse().ok()?,
            inverse_flattening: fields.next()?.parse().ok()?,
        })
    })
}

pub(super) fn vertical(code: u16) -> Option<VerticalRow> {
    search(VERTICAL, code).and_then(vertical_row)
}

/// Returns the vertical system of a vertical datum; if there are several, the one in metres.
pub(super) fn vertical_of_datum(datum: u16) -> Option<VerticalRow> {
    rows(VERTICAL).filter_map(vertical_row).find(|row| row.datum == datum)
}

/// Returns the code of the compound of a horizontal and a vertical system.
pub(super) fn compound(horizontal: u16, vertical: u16) -> Option<u16> {
    rows(COMPOUND).find_map(|row| {
        let same = field(row, ' ', 0) == Some(horizontal) && field(row, ' ', 1) == Some(vertical);
        same.then(|| field(row, ' ', 2)).flatten()
    })
}

/// Returns the horizontal and the vertical system of a compound.
pub(super) fn compound_parts(code: u16) -> Option<(u16, u16)> {
    let row = rows(COMPOUND).find(|row| field(row, ' ', 2) == Some(code))?;
    Some((field(row, ' ', 0)?, field(row, ' ', 1)?))
}

/// Returns the kind of any code of the register, including codes that are not in the other tables.
pub(super) fn kind(code: u16) -> Option<EpsgKind> {
    let row = floor(KINDS, code)?;
    let last: u16 = field(row, ' ', 1)?;
    let kind = match row.split(' ').nth(2)? {
        "p" => EpsgKind::Projected,
        "g" => EpsgKind::Geographic,
        "s" => EpsgKind::Geographic3D,
        "x" => EpsgKind::Geocentric,
        "v" => EpsgKind::Vertical,
        _ => EpsgKind::Compound,
    };
    (code <= last).then_some(kind)
}

/// Returns every code of the tables of systems, for tests that check all of them.
#[cfg(test)]
pub(super) fn all_codes() -> Vec<(u16, EpsgKind)> {
    let zones = utm_families().flat_map(|family| {
        let zones = (family.first..=family.last).filter(move |zone| !(61..=100).contains(zone));
        zones.filter_map(move |zone| family.zone(zone)).map(|row| row.code).collect::<Vec<_>>()
    });
    let grids =
        rows(PROJECTED).filter_map(|row| field(row, '|', 0)).chain(zones).map(|code| (code, EpsgKind::Projected));
    let flat = geographics().map(|row| (row.code, EpsgKind::Geographic));
    let solid = geographics().filter_map(|row| row.three_d).map(|code| (code, EpsgKind::Geographic3D));
    let geocentric = geographics().filter_map(|row| row.geocentric).map(|code| (code, EpsgKind::Geocentric));
    let compounds = rows(COMPOUND).filter_map(|row| field(row, ' ', 2)).map(|code| (code, EpsgKind::Compound));
    grids.chain(flat).chain(solid).chain(geocentric).chain(compounds).collect()
}

/// Returns the unit of length of any projected EPSG code, including codes that are not in the tables.
pub(super) fn projected_unit(code: u16) -> u16 {
    let unit = floor(UNITS, code).and_then(|row| {
        let last: u16 = field(row, ' ', 1)?;
        (code <= last).then(|| field(row, ' ', 2)).flatten()
    });
    unit.unwrap_or(9001)
}

struct UtmFamily {
    geographic: u16,
    /// The first and the last zone. In the south 100 is added, as in the codes of the conversions.
    first: u16,
    last: u16,
    /// Code of the first zone.
    code: u16,
    axes: Axes,
    deprecated: bool,
}

impl UtmFamily {
    fn zone(&self, zone: u16) -> Option<ProjectedRow> {
        let base = geographic(self.geographic)?.name;
        let (number, side) = if zone > 100 { (zone - 100, 'S') } else { (zone, 'N') };
        Some(ProjectedRow {
            code: self.code.checked_add(zone.checked_sub(self.first)?)?,
            geographic: self.geographic,
            conversion: 16000 + zone,
            unit: 9001,
            axes: self.axes,
            deprecated: self.deprecated,
            name: format!("{base} / UTM zone {number}{side}"),
        })
    }
}

fn utm_families() -> impl Iterator<Item = UtmFamily> {
    rows(UTM).filter_map(utm_family)
}

fn utm_family(row: &str) -> Option<UtmFamily> {
    let mut fields = row.split(' ');
    let mut number = || fields.next()?.parse().ok();
    let (code, geographic, first, last) = (number()?, number()?, number()?, number()?);
    let flags = fields.next().unwrap_or_default();
    let (axes, deprecated) = (Axes::from_flags(flags)?, flags.contains('d'));
    Some(UtmFamily { geographic, first, last, code, axes, deprecated })
}

fn utm_conversion(code: u16) -> Option<ConversionRow> {
    let (zone, northing) = match code {
        16001..=16060 => (code - 16000, 0.0),
        16101..=16160 => (code - 16100, 1e7),
        _ => return None,
    };
    let values = Values::Utm([0.0, f64::from(zone) * 6.0 - 183.0, 0.9996, 500_000.0, northing]);
    Some(ConversionRow { code, method: "TM", unit: 9001, values })
}

fn geographic_row(row: &'static str) -> Option<GeographicRow> {
    let mut fields = row.split('|');
    let flags = row.rsplit('|').next()?;
    Some(GeographicRow {
        code: fields.next()?.parse().ok()?,
        name: fields.next()?,
        datum: fields.next()?.parse().ok()?,
        datum_name: fields.next()?,
        ellipsoid: fields.next()?.parse().ok()?,
        meridian: fields.next()?.parse().ok()?,
        unit: fields.next()?.parse().ok()?,
        three_d: fields.next()?.parse().ok(),
        geocentric: fields.next()?.parse().ok(),
        longitude_first: flags.contains('l'),
        deprecated: flags.contains('d'),
    })
}

fn projected_row(row: &'static str) -> Option<ProjectedRow> {
    let mut fields = row.split('|');
    let code = fields.next()?.parse().ok()?;
    let base: u16 = fields.next()?.parse().ok()?;
    let conversion = fields.next()?.parse().ok()?;
    let unit = fields.next()?;
    let flags = fields.next()?;
    let name = fields.next()?;
    Some(ProjectedRow {
        code,
        geographic: base,
        conversion,
        unit: if unit.is_empty() { 9001 } else { unit.parse().ok()? },
        axes: Axes::from_flags(flags)?,
        deprecated: flags.contains('d'),
        name: match name.strip_prefix('~') {
            Some(rest) => format!("{} / {rest}", geographic(base)?.name),
            None => name.to_owned(),
        },
    })
}

fn conversion_row(row: &'static str) -> Option<ConversionRow> {
    let mut fields = row.splitn(4, ' ');
    Some(ConversionRow {
        code: fields.next()?.parse().ok()?,
        method: fields.next()?,
        unit: fields.next()?.parse().ok()?,
        values: Values::Text(fields.next()?),
    })
}

fn vertical_row(row: &'static str) -> Option<VerticalRow> {
    let mut fields = row.split('|');
    Some(VerticalRow {
        code: fields.next()?.parse().ok()?,
        name: fields.next()?,
        datum: fields.next()?.parse().ok()?,
        datum_name: fields.next()?,
        unit: fields.next()?.parse().ok()?,
        depth: fields.next(),
    })
}

fn rows(table: &'static str) -> impl Iterator<Item = &'static str> {
    table.lines().skip_while(|row| row.starts_with('#'))
}

fn field<T: std::str::FromStr>(row: &str, separator: char, index: usize) -> Option<T> {
    row.split(separator).nth(index)?.parse().ok()
}

/// Returns the row that starts with this code.
fn search(table: &'static str, code: u16) -> Option<&'static str> {
    floor(table, code).filter(|row| leading(row) == u32::from(code))
}

/// Returns the last row that starts with this code or a smaller one, by bisection on the text.
fn floor(table: &'static str, code: u16) -> Option<&'static str> {
    let (mut low, mut high, mut found) = (0, table.len(), None);
    while low < high {
        let middle = low + (high - low) / 2;
        let start = table.as_bytes().get(..middle)?.iter().rposition(|&c| c == b'\n').map_or(0, |at| at + 1);
        let row = table.get(start..)?.lines().next()?;
        if leading(row) <= u32::from(code) {
            found = Some(row);
            low = start + row.len() + 1;
        } else {
            high = start;
        }
    }
    found
}

/// Returns the number at the start of a row; 0 for the comments at the top, which sort before every row.
fn leading(row: &str) -> u32 {
    row.bytes().map_while(|c| c.is_ascii_digit().then(|| u32::from(c - b'0'))).fold(0, |n, d| n * 10 + d)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bisection_finds_every_row_and_no_other() {
        for table in [GEOGRAPHIC, PROJECTED, CONVERSIONS, ELLIPSOIDS, VERTICAL, UTM, UNITS, KINDS] {
            let mut previous = 0;
            for row in rows(table) {
                let digits: String = row.chars().take_while(char::is_ascii_digit).collect();
                let code: u16 = digits.parse().unwrap();
                assert_eq!(search(table, code), Some(row));
                if code - previous > 1 {
                    assert_eq!(search(table, code - 1), None);
                }
                previous = code;
            }
            assert_eq!(search(table, u16::MAX), None);
        }
    }

    #[test]
    fn every_row_can_be_read_and_points_to_known_rows() {
        assert_eq!(geographics().count(), rows(GEOGRAPHIC).count());
        assert_eq!(conversions().count(), rows(CONVERSIONS).count() + 120);
        for row in geographics() {
            assert!(ellipsoid(row.ellipsoid).is_some(), "{row:?}");
            assert!(super::super::names::prime_meridian(row.meridian).is_some(), "{row:?}");
        }
        for row in conversions() {
            let method = super::super::method::Method::by_id(row.method).unwrap();
            assert_eq!(row.values().count(), method.parameters.len(), "{row:?}");
        }
        for row in rows(PROJECTED).map(|row| projected_row(row).unwrap()) {
            assert!(geographic(row.geographic).is_some() && conversion(row.conversion).is_some(), "{row:?}");
            assert_eq!(projected_unit(row.code), row.unit, "{row:?}");
        }
        assert_eq!(utm_families().count(), rows(UTM).count());
        for family in utm_families() {
            assert!(family.zone(family.first).is_some() && family.zone(family.last).is_some(), "{}", family.code);
        }
    }

    #[test]
    fn utm_zones_of_both_hemispheres_are_computed() {
        let south = projected(32733).unwrap();
        assert_eq!((south.geographic, south.conversion, south.name.as_str()), (4326, 16133, "WGS 84 / UTM zone 33S"));
        let values: Vec<f64> = conversion(16133).unwrap().values().collect();
        assert_eq!(values, [0.0, 15.0, 0.9996, 500_000.0, 1e7]);
        assert_eq!(projected(26923).unwrap().name, "NAD83 / UTM zone 23N");
        assert_eq!(projected(26928), None);
    }

    #[test]
    fn every_code_of_the_tables_has_its_kind() {
        let codes = all_codes();
        assert!(codes.len() > 3000, "{}", codes.len());
        for (code, kind) in codes {
            assert_eq!(super::kind(code), Some(kind), "{code}");
        }
        let known =
            rows(VERTICAL).filter_map(|row| field(row, '|', 0)).all(|code| kind(code) == Some(EpsgKind::Vertical));
        assert!(known);
        assert_eq!((kind(1024), kind(32767), kind(5514)), (None, None, Some(EpsgKind::Projected)));
    }

    #[test]
    fn foot_codes_outside_the_tables_have_their_unit() {
        assert_eq!((projected_unit(6360), projected_unit(2263), projected_unit(6418)), (9001, 9003, 9003));
    }
}
