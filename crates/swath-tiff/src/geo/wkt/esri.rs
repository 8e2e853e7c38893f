//! Writes a projected system in ESRI's dialect, for the citation that replaces keys that do not exist.

use super::write::{Number, joined, push, quote};
use crate::geo::crs::{Crs, CrsKind, Projection};
use crate::geo::geographic::Geographic;
use crate::geo::names::Unit;

/// Returns the parameters that ESRI requires in addition to those of Swath's tables, with the values that make
/// both methods equal.
fn fixed(id: &str) -> &'static [(&'static str, f64)] {
    match id {
        "WEBM" => &[("Standard_Parallel_1", 0.0), ("Auxiliary_Sphere_Type", 0.0)],
        "KROVAK" => &[("X_Scale", 1.0), ("Y_Scale", 1.0), ("XY_Plane_Rotation", 0.0)],
        "KROVAKN" => &[("X_Scale", -1.0), ("Y_Scale", 1.0), ("XY_Plane_Rotation", 90.0)],
        "GEOS" | "GOODE" => &[("Option", 0.0)],
        "IGH" => &[("Option", 1.0)],
        _ => &[],
    }
}

fn method_name(projection: &Projection) -> &'static str {
    match projection.method.id {
        "WEBM" => "Mercator_Auxiliary_Sphere",
        "KROVAKN" => "Krovak",
        "IGH" => "Goode_Homolosine",
        _ => projection.method.name,
    }
}

/// Returns ESRI's name of a parameter, or `None` if ESRI's method does not have it.
fn parameter_name(id: &str, name: &'static str) -> Option<&'static str> {
    Some(match (id, name) {
        ("WEBM", "latitude_of_origin") => return None,
        ("GEOS", "central_meridian") => "Longitude_Of_Center",
        ("LOXIM", "latitude_of_origin") => "Central_Parallel",
        (_, "latitude_of_center") => "Latitude_Of_Center",
        (_, "longitude_of_center") => "Longitude_Of_Center",
        (_, "central_meridian") => "Central_Meridian",
        (_, "standard_parallel_1") => "Standard_Parallel_1",
        (_, "pseudo_standard_parallel_1") => "Pseudo_Standard_Parallel_1",
        (_, "azimuth") => "Azimuth",
        (_, "scale_factor") => "Scale_Factor",
        (_, "false_easting") => "False_Easting",
        (_, "false_northing") => "False_Northing",
        (_, "satellite_height") => "Height",
        (_, "latitude_of_point_1") => "Latitude_Of_1st_Point",
        (_, "longitude_of_point_1") => "Longitude_Of_1st_Point",
        (_, "latitude_of_point_2") => "Latitude_Of_2nd_Point",
        (_, "longitude_of_point_2") => "Longitude_Of_2nd_Point",
        (_, other) => other,
    })
}

impl Crs {
    /// Returns the projected system in ESRI's dialect: the text of the file if it has one, otherwise a text for
    /// a method that GeoKeys do not define.
    pub(in crate::geo) fn to_esri_wkt(&self) -> Option<String> {
        if self.esri_wkt.is_some() {
            return self.esri_wkt.clone();
        }
        let (base, projection) = (self.geographic.as_ref()?, self.projection.as_ref()?);
        if self.kind != CrsKind::Projected || projection.method.code != 0 {
            return None;
        }
        let mut out = String::from("PROJCS[");
        quote(&mut out, &self.name);
        out.push(',');
        write_geographic(&mut out, base)?;
        push(&mut out, format_args!(r#",PROJECTION["{}"]"#, method_name(projection)));
        let id = projection.method.id;
        let own = projection.parameters.iter().filter_map(|own| Some((parameter_name(id, own.name)?, own.value)));
        for (name, value) in own.chain(fixed(id).iter().copied()) {
            push(&mut out, format_args!(r#",PARAMETER["{name}",{}]"#, Real(value)));
        }
        write_unit(&mut out, &self.linear_unit);
        out.push(']');
        Some(out)
    }
}

fn write_geographic(out: &mut String, base: &Geographic) -> Option<()> {
    let ellipsoid = base.ellipsoid.as_ref()?;
    // These words identify the dialect, also for PROJ.
    let named = |prefix: &str, name: &str| format!("{prefix}{}", joined(name.strip_prefix(prefix).unwrap_or(name)));
    out.push_str("GEOGCS[");
    quote(out, &if base.epsg == Some(4326) { "GCS_WGS_1984".into() } else { named("GCS_", &base.name) });
    out.push_str(",DATUM[");
    quote(out, &named("D_", &base.datum.name));
    out.push_str(",SPHEROID[");
    quote(out, &joined(&ellipsoid.name));
    push(out, format_args!(",{},{}]],PRIMEM[", Real(ellipsoid.semi_major), Real(ellipsoid.inverse_flattening)));
    quote(out, &base.prime_meridian.name);
    push(out, format_args!(",{}]", Real(base.prime_meridian.longitude)));
    write_unit(out, &base.angular_unit);
    out.push(']');
    Some(())
}

fn write_unit(out: &mut String, unit: &Unit) {
    let name = match unit.epsg {
        Some(9001) => "Meter",
        Some(9002) => "Foot",
        Some(9003) => "Foot_US",
        Some(9102 | 9122) => "Degree",
        Some(9105) => "Grad",
        _ => &unit.name,
    };
    push(out, format_args!(",UNIT["));
    quote(out, &joined(name));
    push(out, format_args!(",{}]", Real(unit.factor)));
}

/// A number that is always written with a decimal point.
struct Real(f64);

impl std::fmt::Display for Real {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = Number(self.0).to_string();
        f.write_str(&text)?;
        if text.bytes().all(|c| c.is_ascii_digit() || c == b'-') { f.write_str(".0") } else { Ok(()) }
    }
}
