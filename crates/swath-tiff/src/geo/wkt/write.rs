//! Writes a system as WKT 1 in GDAL's dialect, which every geospatial library reads, or as WKT 2 if WKT 1
//! cannot express it.

use std::fmt::{self, Write};

use crate::geo::crs::{Authority, Code, Crs, CrsKind, Projection, Vertical};
use crate::geo::epsg::{self, Axes};
use crate::geo::geographic::Geographic;
use crate::geo::method::Quantity;
use crate::geo::names::Unit;

/// The extension for Web Mercator that PROJ needs and WKT 1 lacks: the ellipsoid is treated as a sphere.
const WEB_MERCATOR: &str =
    "+proj=merc +a=6378137 +b=6378137 +lat_ts=0 +lon_0=0 +x_0=0 +y_0=0 +k=1 +units=m +nadgrids=@null +wktext +no_defs";

impl Crs {
    /// Returns the system as WKT 1, or `None` if neither the keys nor the code tables define it; [`Crs::epsg`]
    /// may still return its code. WKT 1 cannot express three-dimensional geographic systems, so these are
    /// written as WKT 2, as in GDAL.
    pub fn to_wkt(&self) -> Option<String> {
        let mut out = String::new();
        match self.vertical.as_ref().filter(|_| self.compound) {
            None => self.write_horizontal(&mut out)?,
            Some(vertical) => {
                out.push_str("COMPD_CS[");
                let general = self.citations.general.as_deref().filter(|text| !text.contains('|'));
                let name = general.map_or_else(|| format!("{} + {}", self.name, vertical.name), str::to_owned);
                quote(&mut out, &name);
                out.push(',');
                self.write_horizontal(&mut out)?;
                out.push(',');
                write_vertical(&mut out, vertical);
                if let Some(code) = self.epsg() {
                    authority(&mut out, "EPSG", code);
                }
                out.push(']');
            }
        }
        Some(out)
    }

    fn write_horizontal(&self, out: &mut String) -> Option<()> {
        if let Some(text) = self.esri_wkt.as_ref().filter(|_| !self.is_web_mercator()) {
            out.push_str(text);
            return Some(());
        }
        match self.kind {
            CrsKind::Projected => self.write_projected(out),
            CrsKind::Geographic => write_geographic(out, self.geographic.as_ref()?, true),
            CrsKind::Geographic3D => self.write_solid(out),
            CrsKind::Geocentric => {
                out.push_str("GEOCCS[");
                quote(out, &self.name);
                out.push(',');
                write_datum(out, self.geographic.as_ref()?)?;
                out.push(',');
                write_unit(out, &self.linear_unit);
                out.push_str(r#",AXIS["Geocentric X",OTHER],AXIS["Geocentric Y",OTHER],AXIS["Geocentric Z",NORTH]"#);
                if let Some(code) = self.horizontal {
                    authority(out, "EPSG", code);
                }
                out.push(']');
                Some(())
            }
            CrsKind::Engineering => {
                out.push_str("LOCAL_CS[");
                quote(out, &self.name);
                out.push(',');
                write_unit(out, &self.linear_unit);
                out.push_str(r#",AXIS["Easting",EAST],AXIS["Northing",NORTH]]"#);
                Some(())
            }
        }
    }

    fn write_projected(&self, out: &mut String) -> Option<()> {
        let (base, projection) = (self.geographic.as_ref()?, self.projection.as_ref()?);
        out.push_str("PROJCS[");
        quote(out, &self.name);
        out.push(',');
        write_geographic(out, base, false)?;
        if self.is_web_mercator() {
            out.push_str(r#",PROJECTION["Mercator_1SP"],PARAMETER["central_meridian",0],PARAMETER["scale_factor",1],"#);
            out.push_str(r#"PARAMETER["false_easting",0],PARAMETER["false_northing",0],"#);
        } else {
            write_projection(out, projection);
        }
        write_unit(out, &self.linear_unit);
        // A system that is written with its code has the axes of the register.
        let row = self.horizontal.filter(|_| !self.identified).and_then(epsg::projected);
        write_axes(out, row.map_or_else(|| axes(projection, base), |row| row.axes));
        if self.is_web_mercator() {
            push(out, format_args!(r#",EXTENSION["PROJ4","{WEB_MERCATOR}"]"#));
        }
        match self.code {
            // A code that was only found by comparison is not written: the text contains only what the file
            // contains.
            Some(code) if !self.identified && !self.compound => {
                let name = match code.authority {
                    Authority::Epsg => "EPSG",
                    Authority::Esri => "ESRI",
                };
                authority(out, name, code.number);
            }
            _ => {
                if let Some(code) = self.horizontal.filter(|_| !self.identified) {
                    authority(out, "EPSG", code);
                }
            }
        }
        out.push(']');
        Some(())
    }

    /// Writes a geographic system with heights above its ellipsoid as WKT 2 (ISO 19162:2019).
    fn write_solid(&self, out: &mut String) -> Option<()> {
        let base = self.geographic.as_ref()?;
        let ellipsoid = base.ellipsoid.as_ref()?;
        out.push_str("GEOGCRS[");
        quote(out, &base.name);
        out.push_str(",DATUM[");
        // The tables have the name that WKT 1 uses.
        quote(out, if base.datum.epsg == Some(6326) { "World Geodetic System 1984" } else { &base.datum.name });
        out.push_str(",ELLIPSOID[");
        quote(out, &ellipsoid.name);
        push(out, format_args!(",{},{}", Number(ellipsoid.semi_major), Number(ellipsoid.inverse_flattening)));
        out.push_str(r#",LENGTHUNIT["metre",1]]"#);
        identifier(out, base.datum.epsg);
        out.push_str("],PRIMEM[");
        quote(out, &base.prime_meridian.name);
        push(out, format_args!(",{},", Number(base.prime_meridian.longitude)));
        write_measure(out, "ANGLEUNIT", &Unit::DEGREE);
        out.push_str("],CS[ellipsoidal,3]");
        let code = self.code.filter(|_| !self.identified).and_then(Code::as_epsg);
        // The heights of a code are in metres, even if the keys state another unit, as in GDAL.
        let own = self.vertical.as_ref().filter(|_| code.is_none());
        let height = own.map_or(Unit::METRE, |vertical| vertical.unit.clone());
        let angle = ("ANGLEUNIT", &base.angular_unit);
        for (order, (axis, (keyword, unit))) in [
            (r#""geodetic latitude (Lat)",north"#, angle),
            (r#""geodetic longitude (Lon)",east"#, angle),
            (r#""ellipsoidal height (h)",up"#, ("LENGTHUNIT", &height)),
        ]
        .into_iter()
        .enumerate()
        {
            push(out, format_args!(",AXIS[{axis},ORDER[{}],", order + 1));
            write_measure(out, keyword, unit);
            out.push(']');
        }
        identifier(out, code);
        out.push(']');
        Some(())
    }

    fn is_web_mercator(&self) -> bool {
        self.projection.as_ref().is_some_and(|projection| projection.method.id == "WEBM")
    }
}

/// Returns the axes of a projection without a code. Near a pole both axes point the same way.
fn axes(projection: &Projection, base: &Geographic) -> Axes {
    let latitude = || {
        let value = projection.parameter("latitude_of_origin").or(projection.parameter("latitude_of_center"));
        value.unwrap_or(0.0) * base.angular_unit.factor
    };
    match projection.method.id {
        "TMS" => Axes::new("WEST", "SOUTH"),
        "KROVAK" => Axes::new("SOUTH", "WEST"),
        "PSA" | "PSB" if latitude() >= 0.0 => Axes::new("SOUTH", "SOUTH"),
        "PSA" | "PSB" => Axes::new("NORTH", "NORTH"),
        "LAEA" if (latitude() - std::f64::consts::FRAC_PI_2).abs() < 1e-10 => Axes::new("SOUTH", "SOUTH"),
        "LAEA" if (latitude() + std::f64::consts::FRAC_PI_2).abs() < 1e-10 => Axes::new("NORTH", "NORTH"),
        _ => Axes::EAST_NORTH,
    }
}

fn write_axes(out: &mut String, axes: Axes) {
    let [first, second] = axes.towards;
    let name = |towards| match towards {
        "EAST" => "Easting",
        "WEST" => "Westing",
        "SOUTH" => "Southing",
        _ => "Northing",
    };
    let names = match (first == second, axes.northing_first) {
        (false, _) => [name(first), name(second)],
        (true, false) => ["Easting", "Northing"],
        (true, true) => ["Northing", "Easting"],
    };
    push(out, format_args!(r#",AXIS["{}",{first}],AXIS["{}",{second}]"#, names[0], names[1]));
}

fn write_projection(out: &mut String, projection: &Projection) {
    // The two orientations of Krovak have the same name; their axes distinguish them.
    let name = if projection.method.id == "KROVAKN" { "Krovak" } else { projection.method.name };
    push(out, format_args!(r#",PROJECTION["{name}"],"#));
    for parameter in &projection.parameters {
        // WKT 1 defines these two methods only with their origin on the equator. PROJ accepts the parameter if
        // the origin is elsewhere.
        let equator = matches!(projection.method.id, "MERC1" | "EQC") && parameter.name == "latitude_of_origin";
        if equator && parameter.value == 0.0 && parameter.quantity == Quantity::Angle {
            continue;
        }
        push(out, format_args!(r#"PARAMETER["{}",{}],"#, parameter.name, Number(parameter.value)));
    }
}

fn write_geographic(out: &mut String, base: &Geographic, alone: bool) -> Option<()> {
    out.push_str("GEOGCS[");
    quote(out, &base.name);
    out.push(',');
    write_datum(out, base)?;
    out.push(',');
    write_unit(out, &base.angular_unit);
    if alone {
        let row = base.epsg.and_then(epsg::geographic);
        out.push_str(match row.is_some_and(|row| row.longitude_first) {
            false => r#",AXIS["Latitude",NORTH],AXIS["Longitude",EAST]"#,
            true => r#",AXIS["Longitude",EAST],AXIS["Latitude",NORTH]"#,
        });
    }
    if let Some(code) = base.epsg {
        authority(out, "EPSG", code);
    }
    out.push(']');
    Some(())
}

/// `DATUM[...],PRIMEM[...]`
fn write_datum(out: &mut String, base: &Geographic) -> Option<()> {
    let ellipsoid = base.ellipsoid.as_ref()?;
    out.push_str("DATUM[");
    match base.datum.epsg {
        // GDAL joins the words of registered names with underscores, and other readers expect that form.
        Some(_) => quote(out, &joined(&base.datum.name)),
        None => quote(out, &base.datum.name),
    }
    out.push_str(",SPHEROID[");
    quote(out, &ellipsoid.name);
    push(out, format_args!(",{},{}", Number(ellipsoid.semi_major), Number(ellipsoid.inverse_flattening)));
    if let Some(code) = ellipsoid.epsg {
        authority(out, "EPSG", code);
    }
    out.push(']');
    if let [x, y, z, rest @ ..] = base.to_wgs84.as_slice() {
        let seven = [*x, *y, *z].into_iter().chain(rest.iter().copied()).chain([0.0; 4]).take(7);
        let text: Vec<String> = seven.map(|v| Number(v).to_string()).collect();
        push(out, format_args!(",TOWGS84[{}]", text.join(",")));
    }
    if let Some(code) = base.datum.epsg {
        authority(out, "EPSG", code);
    }
    out.push_str("],PRIMEM[");
    quote(out, &base.prime_meridian.name);
    push(out, format_args!(",{}", Number(base.prime_meridian.longitude)));
    if let Some(code) = base.prime_meridian.epsg {
        authority(out, "EPSG", code);
    }
    out.push(']');
    Some(())
}

fn write_vertical(out: &mut String, vertical: &Vertical) {
    out.push_str("VERT_CS[");
    quote(out, &vertical.name);
    out.push_str(",VERT_DATUM[");
    let datum = vertical.datum.as_ref();
    quote(out, datum.map_or("unknown", |datum| &datum.name));
    // 2005 is a gravity-related surface, which is the type of every vertical datum in the tables.
    out.push_str(",2005");
    if let Some(code) = datum.and_then(|datum| datum.epsg) {
        authority(out, "EPSG", code);
    }
    out.push_str("],");
    write_unit(out, &vertical.unit);
    let row = vertical.epsg.and_then(epsg::vertical);
    match row.and_then(|row| row.depth) {
        Some(name) => push(out, format_args!(r#",AXIS["{name}",DOWN]"#)),
        None => out.push_str(r#",AXIS["Gravity-related height",UP]"#),
    }
    let native = row.and_then(|row| Unit::length(row.unit));
    let kept = native.is_none_or(|unit| unit.same_size(&vertical.unit));
    if let Some(code) = vertical.epsg.filter(|_| kept) {
        authority(out, "EPSG", code);
    }
    out.push(']');
}

fn write_unit(out: &mut String, unit: &Unit) {
    out.push_str("UNIT[");
    quote(out, &unit.name);
    push(out, format_args!(",{}", Number(unit.factor)));
    if let Some(code) = unit.epsg {
        // The code for degrees in coordinates, which does not prescribe a notation.
        authority(out, "EPSG", if code == 9102 { 9122 } else { code });
    }
    out.push(']');
}

/// Writes a unit as WKT 2.
fn write_measure(out: &mut String, keyword: &str, unit: &Unit) {
    push(out, format_args!("{keyword}["));
    quote(out, &unit.name);
    push(out, format_args!(",{}]", Number(unit.factor)));
}

/// Writes a code as WKT 2.
fn identifier(out: &mut String, code: Option<u16>) {
    if let Some(code) = code {
        push(out, format_args!(r#",ID["EPSG",{code}]"#));
    }
}

fn authority(out: &mut String, name: &str, code: impl Into<u32>) {
    push(out, format_args!(r#",AUTHORITY["{name}","{}"]"#, code.into()));
}

pub(super) fn quote(out: &mut String, text: &str) {
    push(out, format_args!("\"{}\"", text.replace('"', "\"\"")));
}

pub(super) fn push(out: &mut String, arguments: fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(arguments);
}

pub(super) fn joined(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_alphanumeric() || matches!(c, '+' | '-') {
            out.push(c);
        } else if !out.ends_with('_') {
            out.push('_');
        }
    }
    out.trim_end_matches('_').to_owned()
}

/// A number with 15 significant digits, as C's `%.15g` prints it. This is sufficient for geodesy and hides
/// rounding errors in the last bit.
pub(super) struct Number(pub(super) f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_finite() {
            return write!(f, "{}", self.0);
        }
        let text = format!("{:.14e}", self.0);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        if (-5..15).contains(&exponent) {
            let decimals = usize::try_from(14 - exponent).unwrap_or(0);
            let plain = format!("{:.decimals$}", self.0);
            let trimmed = if plain.contains('.') { plain.trim_end_matches('0').trim_end_matches('.') } else { &plain };
            f.write_str(if trimmed == "-0" { "0" } else { trimmed })
        } else {
            let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
            write!(f, "{mantissa}E{exponent:+03}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geo::{GeoKeys, KeyValue, RasterType};

    fn crs(revision: (u16, u16), shorts: &[(u16, u16)], doubles: &[(u16, f64)], texts: &[(u16, &str)]) -> Crs {
        let mut keys = GeoKeys { version: 1, revision, ..GeoKeys::default() };
        for &(id, value) in shorts {
            keys.set(id, KeyValue::Short(value));
        }
        for &(id, value) in doubles {
            keys.set(id, KeyValue::Doubles(vec![value]));
        }
        for &(id, value) in texts {
            keys.set(id, KeyValue::Ascii(value.into()));
        }
        Crs::from_keys(&keys).unwrap()
    }

    #[test]
    fn numbers_have_fifteen_digits_and_no_noise() {
        let text = |v| Number(v).to_string();
        assert_eq!(text(2_000_000.0000000002), "2000000");
        assert_eq!(text(0.1 + 0.2), "0.3");
        assert_eq!(text(298.257222101), "298.257222101");
        assert_eq!(text(std::f64::consts::PI / 180.0), "0.0174532925199433");
        assert_eq!(text(4.84813681109536e-06), "4.84813681109536E-06");
        assert_eq!(
            (text(0.0), text(-0.0), text(-117.25), text(1e20)),
            ("0".into(), "0".into(), "-117.25".into(), "1E+20".into())
        );
    }

    #[test]
    fn coded_utm_is_complete_without_a_database() {
        let wkt = crs((1, 0), &[(1024, 1), (3072, 32632)], &[], &[]).to_wkt().unwrap();
        assert_eq!(
            wkt,
            "PROJCS[\"WGS 84 / UTM zone 32N\",GEOGCS[\"WGS 84\",DATUM[\"WGS_1984\",SPHEROID[\"WGS 84\",6378137,298.257223563,AUTHORITY[\"EPSG\",\"7030\"]],AUTHORITY[\"EPSG\",\"6326\"]],PRIMEM[\"Greenwich\",0,AUTHORITY[\"EPSG\",\"8901\"]],UNIT[\"degree\",0.0174532925199433,AUTHORITY[\"EPSG\",\"9122\"]],AUTHORITY[\"EPSG\",\"4326\"]],PROJECTION[\"Transverse_Mercator\"],PARAMETER[\"latitude_of_origin\",0],PARAMETER[\"central_meridian\",9],PARAMETER[\"scale_factor\",0.9996],PARAMETER[\"false_easting\",500000],PARAMETER[\"false_northing\",0],UNIT[\"metre\",1,AUTHORITY[\"EPSG\",\"9001\"]],AXIS[\"Easting\",EAST],AXIS[\"Northing\",NORTH],AUTHORITY[\"EPSG\",\"32632\"]]"
        );
    }

    #[test]
    fn heights_of_a_1_1_file_make_a_compound() {
        let wkt = crs((1, 1), &[(1024, 2), (2048, 4326), (4096, 3855)], &[], &[]).to_wkt().unwrap();
        assert!(wkt.starts_with("COMPD_CS[\"WGS 84 + EGM2008 height\",GEOGCS["), "{wkt}");
        assert!(wkt.ends_with("AUTHORITY[\"EPSG\",\"3855\"]],AUTHORITY[\"EPSG\",\"9518\"]]"), "{wkt}");
        let flat = crs((1, 0), &[(1024, 2), (2048, 4326), (4096, 3855)], &[], &[]).to_wkt().unwrap();
        assert!(flat.starts_with("GEOGCS["), "{flat}");
    }

    fn of_code(code: u32) -> String {
        Crs::from_keys(&GeoKeys::from_epsg(code, RasterType::Area).unwrap()).unwrap().to_wkt().unwrap()
    }

    #[test]
    fn depths_point_down() {
        for code in [9289, 10156, 10553, 10679] {
            let wkt = of_code(code);
            assert!(wkt.contains(r#"AXIS["Depth",DOWN]"#) && !wkt.contains("UP]"), "{wkt}");
        }
        assert!(of_code(9518).contains(r#"AXIS["Gravity-related height",UP]"#));
        // In another unit the system has no code, but it is still a depth.
        let mut feet = crs((1, 1), &[(1024, 2), (2048, 4326), (4096, 5715)], &[], &[]);
        feet.vertical.as_mut().unwrap().unit = Unit::length(9002).unwrap();
        let feet = feet.to_wkt().unwrap();
        assert!(feet.contains(r#"AXIS["Depth",DOWN]"#) && !feet.contains("5715"), "{feet}");
    }

    #[test]
    fn axes_of_a_code_are_those_of_the_register() {
        for (code, axes) in [
            (4326, r#"AXIS["Latitude",NORTH],AXIS["Longitude",EAST]"#),
            (7035, r#"AXIS["Longitude",EAST],AXIS["Latitude",NORTH]"#),
            (10318, r#"AXIS["Longitude",EAST],AXIS["Latitude",NORTH]"#),
            (32633, r#"AXIS["Easting",EAST],AXIS["Northing",NORTH]"#),
            (3067, r#"AXIS["Easting",EAST],AXIS["Northing",NORTH]"#),
            (2193, r#"AXIS["Northing",NORTH],AXIS["Easting",EAST]"#),
            (2046, r#"AXIS["Westing",WEST],AXIS["Southing",SOUTH]"#),
            (8044, r#"AXIS["Southing",SOUTH],AXIS["Westing",WEST]"#),
            (3031, r#"AXIS["Easting",NORTH],AXIS["Northing",NORTH]"#),
            (3413, r#"AXIS["Easting",SOUTH],AXIS["Northing",SOUTH]"#),
            (27702, r#"AXIS["Easting",NORTH],AXIS["Northing",NORTH]"#),
            (5482, r#"AXIS["Northing",NORTH],AXIS["Easting",NORTH]"#),
            (32661, r#"AXIS["Northing",SOUTH],AXIS["Easting",SOUTH]"#),
            (32761, r#"AXIS["Northing",NORTH],AXIS["Easting",NORTH]"#),
        ] {
            assert!(of_code(code).contains(axes), "{code} {}", of_code(code));
        }
    }

    #[test]
    fn three_dimensional_system_is_not_written_as_two_dimensional() {
        let wkt = of_code(4979);
        assert!(wkt.starts_with(r#"GEOGCRS["WGS 84",DATUM["World Geodetic System 1984",ELLIPSOID["#), "{wkt}");
        assert!(
            wkt.contains("CS[ellipsoidal,3]") && wkt.ends_with(r#",ID["EPSG",4979]]"#) && !wkt.contains("4326"),
            "{wkt}"
        );
        // A system without a code: a user-defined ellipsoid with heights of GeoTIFF 1.0.
        let keys = [(1024, 2), (2048, 32767), (4096, 5030), (4099, 9002)];
        let own = crs((1, 0), &keys, &[(2057, 6_370_000.0), (2059, 300.0)], &[]).to_wkt().unwrap();
        assert!(own.contains(r#"up,ORDER[3],LENGTHUNIT["foot",0.3048]"#) && !own.contains(",ID["), "{own}");
        assert_eq!(Crs::from_wkt(&own).unwrap().kind, CrsKind::Geographic3D);
    }

    #[test]
    fn unknown_code_has_no_wkt_but_keeps_its_number() {
        let crs = crs((1, 0), &[(1024, 1), (3072, 2400)], &[], &[]);
        assert_eq!((crs.to_wkt(), crs.epsg()), (None, Some(2400)));
    }

    #[test]
    fn quotes_in_a_citation_cannot_end_the_text() {
        let crs = crs((1, 0), &[(1024, 1), (3076, 9001)], &[], &[(1026, "a\",UNIT[\"b")]);
        assert!(crs.to_wkt().unwrap().starts_with("LOCAL_CS[\"a\"\",UNIT[\"\"b\",UNIT["));
    }

    #[test]
    fn web_mercator_is_marked_as_a_sphere() {
        let wkt = crs((1, 0), &[(1024, 1), (3072, 3857)], &[], &[]).to_wkt().unwrap();
        assert!(wkt.contains("PROJECTION[\"Mercator_1SP\"]") && wkt.contains("+nadgrids=@null"), "{wkt}");
    }
}
