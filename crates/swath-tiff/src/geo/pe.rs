//! Reads the "ESRI PE string": WKT 1 in ESRI's dialect, which ArcGIS and GDAL put into a citation when the keys cannot say it.

use super::crs::{Citations, Code, Crs, CrsKind, Projection};
use super::epsg;
use super::geographic::{Datum, Ellipsoid, Geographic, PrimeMeridian};
use super::identify;
use super::method::{Method, polar_variant};
use super::names::{DEGREE, Unit, close, prime_meridian_at};

/// Deeper nesting and more nodes than any WKT has; more is an attack.
const MAX_DEPTH: usize = 16;
const MAX_ITEMS: usize = 1024;

/// `KEYWORD["text",1.5,KEYWORD[...]]`
#[derive(Debug, Default, PartialEq)]
struct Node<'a> {
    keyword: &'a str,
    text: Option<&'a str>,
    numbers: Vec<f64>,
    children: Vec<Node<'a>>,
}

/// The system that the text describes. A method that the tables do not know leaves the projection out.
pub(super) fn read(text: &str) -> Option<Crs> {
    let root = Reader { rest: text, items: 0 }.node(0)?;
    match root.keyword {
        "PROJCS" => projected(&root),
        "GEOGCS" => {
            let base = geographic(&root)?;
            let found = identify::geographic(&base);
            Some(Crs {
                name: base.name.clone(),
                code: found.map(Code::epsg),
                horizontal: found,
                identified: found.is_some(),
                geographic: Some(base),
                ..Crs::bare(CrsKind::Geographic, Unit::METRE, Citations::default())
            })
        }
        _ => None,
    }
}

fn projected(root: &Node<'_>) -> Option<Crs> {
    let base = geographic(root.child("GEOGCS")?)?;
    let unit = root.child("UNIT").map_or(Unit::METRE, linear_unit);
    let projection = projection(root);
    let name = root.text.unwrap_or("unnamed").to_owned();
    let found = projection.as_ref().and_then(|projection| identify::projected(projection, &base, &unit, &name));
    Some(Crs {
        name,
        code: found,
        horizontal: found.and_then(Code::as_epsg),
        identified: found.is_some(),
        geographic: Some(base),
        projection,
        ..Crs::bare(CrsKind::Projected, unit, Citations::default())
    })
}

fn geographic(node: &Node<'_>) -> Option<Geographic> {
    let datum = node.child("DATUM")?;
    let spheroid = datum.child("SPHEROID")?;
    let &[semi_major, inverse_flattening, ..] = spheroid.numbers.as_slice() else { return None };
    let datum_name = datum.text.unwrap_or("unknown");
    let datum_code = identify::datum_by_name(datum_name);
    let longitude = node.child("PRIMEM").and_then(|node| node.numbers.first().copied()).unwrap_or(0.0);
    let meridian_name = node.child("PRIMEM").and_then(|node| node.text);
    let factor = node.child("UNIT").and_then(|node| node.numbers.first().copied()).unwrap_or(DEGREE);
    let name = node.text.unwrap_or("unknown");
    let angular_unit = if close(factor, DEGREE, 1e-9) {
        Unit::DEGREE
    } else {
        let name = node.child("UNIT").and_then(|node| node.text).unwrap_or("unknown").to_owned();
        Unit { epsg: None, name: name.into(), factor }
    };
    Some(Geographic {
        epsg: None,
        name: name.strip_prefix("GCS_").unwrap_or(name).into(),
        datum: Datum {
            epsg: datum_code,
            name: datum_code
                .and_then(epsg::geographic_of_datum)
                .map_or(datum_name.strip_prefix("D_").unwrap_or(datum_name), |row| row.datum_name)
                .into(),
        },
        ellipsoid: Some(Ellipsoid {
            epsg: None,
            name: spheroid.text.unwrap_or("unknown").into(),
            semi_major,
            inverse_flattening,
        }),
        prime_meridian: PrimeMeridian {
            epsg: prime_meridian_at(longitude).map(|(code, _)| code),
            name: meridian_name.unwrap_or("Greenwich").into(),
            longitude,
        },
        angular_unit,
        to_wgs84: Vec::new(),
    })
}

fn projection(root: &Node<'_>) -> Option<Projection> {
    let value = |names: &[&str]| {
        let given = root.children.iter().filter(|node| node.keyword == "PARAMETER");
        given
            .filter(|node| node.text.is_some_and(|text| names.iter().any(|name| text.eq_ignore_ascii_case(name))))
            .find_map(|node| node.numbers.first().copied())
    };
    let parallel = value(&["standard_parallel_1"]);
    let scale = value(&["scale_factor"]);
    let name = root.child("PROJECTION")?.text?;
    let method = match name {
        "Mercator" => Method::by_id("MERC2"),
        "Lambert_Conformal_Conic" if value(&["standard_parallel_2"]).is_some() => Method::by_id("LCC2"),
        "Lambert_Conformal_Conic" => Method::by_id("LCC1"),
        // ESRI names the latitude of true scale a standard parallel.
        "Stereographic_North_Pole" | "Stereographic_South_Pole" => {
            let method = Method::by_id("PSB")?;
            let longitude = value(&["central_meridian"]).unwrap_or(0.0);
            let [east, north] = [value(&["false_easting"]), value(&["false_northing"])].map(|v| v.unwrap_or(0.0));
            return Some(Projection::new(method, [parallel?, longitude, east, north].into_iter()));
        }
        "Polar_Stereographic" => {
            Method::by_id(polar_variant(value(&["latitude_of_origin"]).unwrap_or(90.0), scale.unwrap_or(1.0)))
        }
        _ => Method::by_name(name),
    }?;
    let values = method.parameters.iter().map(|parameter| {
        let names: &[&str] = match parameter.name {
            "latitude_of_origin" | "latitude_of_center" => {
                &["latitude_of_origin", "latitude_of_center", "central_parallel"]
            }
            "central_meridian" | "longitude_of_center" => {
                &["central_meridian", "longitude_of_center", "longitude_of_origin"]
            }
            name => &[name],
        };
        value(names).unwrap_or_else(|| parameter.default())
    });
    Some(Projection::new(method, values))
}

fn linear_unit(node: &Node<'_>) -> Unit {
    let factor = node.numbers.first().copied().filter(|v| v.is_finite() && *v > 0.0).unwrap_or(1.0);
    let own = Unit { epsg: None, name: node.text.unwrap_or("unknown").to_owned().into(), factor };
    [9001, 9002, 9003].into_iter().filter_map(Unit::length).find(|unit| unit.same_size(&own)).unwrap_or(own)
}

impl<'a> Node<'a> {
    fn child(&self, keyword: &str) -> Option<&Self> {
        self.children.iter().find(|node| node.keyword == keyword)
    }
}

struct Reader<'a> {
    rest: &'a str,
    items: usize,
}

impl<'a> Reader<'a> {
    fn node(&mut self, depth: usize) -> Option<Node<'a>> {
        let keyword = self.word();
        if depth > MAX_DEPTH || keyword.is_empty() || !(self.take('[') || self.take('(')) {
            return None;
        }
        let mut node = Node { keyword, ..Node::default() };
        loop {
            self.items += 1;
            if self.items > MAX_ITEMS {
                return None;
            }
            self.rest = self.rest.trim_start();
            match self.rest.chars().next()? {
                '"' => {
                    let (text, rest) = self.rest.get(1..)?.split_once('"')?;
                    node.text = node.text.or(Some(text));
                    self.rest = rest;
                }
                c if c.is_ascii_alphabetic() => {
                    let ahead = self.rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
                    if ahead.trim_start().starts_with(['[', '(']) {
                        node.children.push(self.node(depth + 1)?);
                    } else {
                        // A direction such as EAST.
                        self.rest = ahead;
                    }
                }
                _ => {
                    let end = self.rest.find([',', ']', ')'])?;
                    let (number, rest) = self.rest.split_at_checked(end)?;
                    node.numbers.push(number.trim().parse().ok()?);
                    self.rest = rest;
                }
            }
            if self.take(']') || self.take(')') {
                return Some(node);
            }
            if !self.take(',') {
                return None;
            }
        }
    }

    fn word(&mut self) -> &'a str {
        let text = self.rest.trim_start();
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        let (word, rest) = text.split_at_checked(end).unwrap_or(("", text));
        self.rest = rest;
        word
    }

    fn take(&mut self, wanted: char) -> bool {
        match self.rest.trim_start().strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GCS: &str = r#"GEOGCS["GCS_WGS_1984",DATUM["D_WGS_1984",SPHEROID["WGS_1984",6378137.0,298.257223563]],PRIMEM["Greenwich",0.0],UNIT["Degree",0.0174532925199433]]"#;

    #[test]
    fn utm_in_esri_dialect_is_identified_by_its_definition() {
        let text = format!(
            r#"PROJCS["anything",{GCS},PROJECTION["Transverse_Mercator"],PARAMETER["False_Easting",500000.0],PARAMETER["False_Northing",0.0],PARAMETER["Central_Meridian",-117.0],PARAMETER["Scale_Factor",0.9996],PARAMETER["Latitude_Of_Origin",0.0],UNIT["Meter",1.0]]"#
        );
        assert_eq!(read(&text).unwrap().epsg(), Some(32611));
    }

    #[test]
    fn auxiliary_sphere_is_web_mercator() {
        let text = format!(
            r#"PROJCS["WGS_1984_Web_Mercator_Auxiliary_Sphere",{GCS},PROJECTION["Mercator_Auxiliary_Sphere"],PARAMETER["False_Easting",0.0],PARAMETER["Central_Meridian",0.0],PARAMETER["Auxiliary_Sphere_Type",0.0],UNIT["Meter",1.0]]"#
        );
        assert_eq!(read(&text).unwrap().epsg(), Some(3857));
    }

    #[test]
    fn stereographic_pole_becomes_the_polar_variant_b() {
        let text = format!(
            r#"PROJCS["x",{GCS},PROJECTION["Stereographic_North_Pole"],PARAMETER["False_Easting",0.0],PARAMETER["False_Northing",0.0],PARAMETER["Central_Meridian",-45.0],PARAMETER["Standard_Parallel_1",70.0],UNIT["Meter",1.0]]"#
        );
        assert_eq!(read(&text).unwrap().epsg(), Some(3413));
    }

    #[test]
    fn unknown_method_keeps_the_rest() {
        let crs = read(&format!(r#"PROJCS["x",{GCS},PROJECTION["Eckert_IV"],UNIT["Meter",1.0]]"#)).unwrap();
        assert_eq!((crs.projection.is_none(), crs.geographic.unwrap().datum.epsg), (true, Some(6326)));
    }

    #[test]
    fn broken_and_deep_texts_are_none_not_a_crash() {
        let deep = "A[".repeat(100_000);
        for text in ["", "PROJCS", "PROJCS[", "PROJCS[\"x", "PROJCS[\"x\",]", "PROJCS[1e]", "\u{e9}[\"x\"]", &deep] {
            assert!(read(text).is_none(), "{}", &text[..text.len().min(20)]);
        }
    }
}
