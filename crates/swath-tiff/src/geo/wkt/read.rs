//! Parses well-known text: WKT 1 of GDAL and of ESRI, and WKT 2.
//!
//! ESRI's dialect also occurs in citations, as the "ESRI PE string" that ArcGIS and GDAL write if keys cannot
//! express a system.

use super::projection;
use super::text::{Node, WktError};
use crate::geo::crs::{Authority, Citations, Code, Crs, CrsKind, Projection, Vertical};
use crate::geo::epsg::{self, EpsgKind};
use crate::geo::geographic::{Datum, Ellipsoid, Geographic, PrimeMeridian, solid_row};
use crate::geo::identify;
use crate::geo::keys::GeoKeys;
use crate::geo::method::Quantity;
use crate::geo::names::{DEGREE, Unit, close, plain, prime_meridian, prime_meridian_at};
use crate::geo::transform::RasterType;

pub(super) const UNIT: &[&str] = &["UNIT", "LENGTHUNIT", "ANGLEUNIT", "SCALEUNIT"];
const PROJECTED: &[&str] = &["PROJCS", "PROJCRS", "PROJECTEDCRS"];
const GEODETIC: &[&str] = &["GEOGCS", "GEOGCRS", "GEOGRAPHICCRS", "GEODCRS", "GEODETICCRS", "GEOCCS"];
const UNDER: &[&str] = &["GEOGCS", "BASEGEOGCRS", "BASEGEODCRS"];
const COMPOUND: &[&str] = &["COMPD_CS", "COMPOUNDCRS"];
const VERTICAL: &[&str] = &["VERT_CS", "VERTCS", "VERTCRS", "VERTICALCRS"];
const LOCAL: &[&str] = &["LOCAL_CS", "ENGCRS", "ENGINEERINGCRS"];
const GEODETIC_DATUM: &[&str] = &["DATUM", "GEODETICDATUM", "TRF", "ENSEMBLE"];
const VERTICAL_DATUM: &[&str] = &["VERT_DATUM", "VDATUM", "VERTICALDATUM", "VRF", "ENSEMBLE"];

impl Crs {
    /// Parses a system from text: WKT 1 in GDAL's or ESRI's dialect, or WKT 2.
    ///
    /// A code in the text identifies the system, unless the tables contain the code and the rest of the text
    /// contradicts it: then the definition in the text is used. A text without a code is compared with the
    /// tables, as in [`Crs::from_keys`].
    ///
    /// ```
    /// use swath_tiff::geo::Crs;
    /// let grid = r#"GEOGCRS["WGS 84",DATUM["World Geodetic System 1984",ELLIPSOID["WGS 84",6378137,298.257223563]],
    ///     CS[ellipsoidal,2],AXIS["latitude",north],AXIS["longitude",east],ANGLEUNIT["degree",0.0174532925199433]]"#;
    /// assert_eq!(Crs::from_wkt(grid)?.epsg(), Some(4326));
    /// # Ok::<(), swath_tiff::geo::WktError>(())
    /// ```
    pub fn from_wkt(text: &str) -> Result<Self, WktError> {
        let (root, rest) = Node::parse(text)?;
        let mut crs = system(&root)?;
        let after = rest.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        // ESRI writes the vertical system after the horizontal one, not around both.
        if let Some(heights) = after.strip_prefix(',') {
            let (heights, end) = Node::parse(heights)?;
            if heights.is(VERTICAL) && end.trim().is_empty() {
                let vertical = vertical(&heights);
                crs.add_vertical(vertical, None);
                return crs.checked(&root, text);
            }
        }
        if !after.is_empty() {
            let offset = text.len() - rest.len();
            return Err(WktError::Malformed { offset, what: "text follows the reference system" });
        }
        crs.checked(&root, text)
    }

    /// Checks the projection. An unknown projection is an error, unless it has a code or ESRI's text can be
    /// kept. ESRI's text is also the best description of a datum whose name is not in the tables.
    fn checked(self, root: &Node<'_>, text: &str) -> Result<Self, WktError> {
        let known_datum = self.geographic.as_ref().is_some_and(|base| base.datum.epsg.is_some());
        if self.kind != CrsKind::Projected || self.horizontal.is_some() || self.projection.is_some() && known_datum {
            return Ok(self);
        }
        if root.is(&["PROJCS"]) && is_esri(root) && !self.compound {
            return Ok(Self { esri_wkt: Some(text.trim().to_owned()), ..self });
        }
        if self.projection.is_some() {
            return Ok(self);
        }
        Err(WktError::Method { name: projection::method_name(horizontal(root)).unwrap_or_default().to_owned() })
    }

    /// Adds heights to a horizontal system. `code` is the code of the whole system, if the text gives one.
    fn add_vertical(&mut self, vertical: Vertical, code: Option<u16>) {
        if vertical.ellipsoidal {
            if self.kind == CrsKind::Geographic {
                self.kind = CrsKind::Geographic3D;
            }
            self.code = vertical.epsg.map(Code::epsg);
            self.compound = false;
        } else {
            let named = code.filter(|code| {
                epsg::compound_parts(*code).is_none_or(|(h, v)| self.horizontal == Some(h) && vertical.epsg == Some(v))
            });
            let pair = self.horizontal.zip(vertical.epsg).and_then(|(h, v)| epsg::compound(h, v));
            self.code = named.or(pair).map(Code::epsg);
            self.compound = true;
        }
        self.vertical = Some(vertical);
    }
}

/// Parses the system in a citation. Text after it is ignored, and an unknown projection is dropped.
pub(in crate::geo) fn read_lenient(text: &str) -> Option<Crs> {
    let (root, _) = Node::parse(text).ok()?;
    if root.is(&["PROJCS", "GEOGCS"]) { system(&root).ok() } else { None }
}

/// Returns the part of a system without its heights, shift or epoch.
fn horizontal<'a, 'b>(node: &'a Node<'b>) -> &'a Node<'b> {
    let inner = match node.keyword.to_ascii_uppercase().as_str() {
        "BOUNDCRS" => node.child(&["SOURCECRS"]).and_then(|source| source.children.first()),
        "COMPD_CS" | "COMPOUNDCRS" | "COORDINATEMETADATA" => node.children.first(),
        _ => None,
    };
    // The parser limits the nesting.
    inner.map_or(node, horizontal)
}

fn system(node: &Node<'_>) -> Result<Crs, WktError> {
    if node.is(PROJECTED) {
        projected(node)
    } else if node.is(GEODETIC) {
        geodetic(node)
    } else if node.is(COMPOUND) {
        compound(node)
    } else if node.is(LOCAL) {
        Ok(Crs {
            name: node.text().unwrap_or("unnamed").to_owned(),
            ..Crs::bare(CrsKind::Engineering, length_of(node).unwrap_or(Unit::METRE), Citations::default())
        })
    } else if node.is(&["BOUNDCRS"]) {
        let source = node.child(&["SOURCECRS"]).and_then(|source| source.children.first());
        let mut crs = system(source.ok_or_else(|| missing("SOURCECRS", node))?)?;
        if let (Some(base), Some(shift)) = (&mut crs.geographic, shift_to_wgs84(node)) {
            base.to_wgs84 = shift;
        }
        Ok(crs)
    } else if node.is(&["COORDINATEMETADATA"]) {
        let mut crs = system(node.children.first().ok_or_else(|| missing("system", node))?)?;
        crs.epoch = node.child(&["EPOCH", "COORDEPOCH"]).and_then(Node::number);
        Ok(crs)
    } else {
        Err(WktError::Keyword { keyword: node.keyword.to_owned() })
    }
}

fn projected(node: &Node<'_>) -> Result<Crs, WktError> {
    let under = node.child(UNDER).ok_or_else(|| missing("geographic system", node))?;
    let unit = length_of(node).unwrap_or(Unit::METRE);
    let base = geographic(under, projection::angular_unit(node))?;
    let own = Crs {
        name: node.text().unwrap_or("unnamed").to_owned(),
        projection: projection::read(node, &base, &unit, is_esri(node)),
        geographic: Some(base),
        ..Crs::bare(CrsKind::Projected, unit, Citations::default())
    };
    Ok(settle(own, code(node)))
}

fn geodetic(node: &Node<'_>) -> Result<Crs, WktError> {
    let base = geographic(node, None)?;
    let space = node.child(&["CS"]);
    let axes = space.and_then(Node::number).map_or_else(|| node.all(&["AXIS"]).count(), |count| count as usize);
    let cartesian = space.is_some_and(|cs| cs.words.iter().any(|word| word.eq_ignore_ascii_case("Cartesian")));
    if node.is(&["GEOCCS"]) || cartesian {
        let unit = length_of(node).unwrap_or(Unit::METRE);
        let datum = base.datum.epsg.and_then(epsg::geographic_of_datum);
        let own = Crs {
            name: node.text().unwrap_or("unnamed").to_owned(),
            geographic: Some(Geographic { epsg: datum.map(|row| row.code), ..base }),
            ..Crs::bare(CrsKind::Geocentric, unit, Citations::default())
        };
        return Ok(settle(own, code(node)));
    }
    let solid = axes == 3 && node.is(&["GEOGCRS", "GEOGRAPHICCRS", "GEODCRS", "GEODETICCRS"]);
    let own = Crs {
        name: base.name.clone(),
        geographic: Some(base),
        ..Crs::bare(if solid { CrsKind::Geographic3D } else { CrsKind::Geographic }, Unit::METRE, Citations::default())
    };
    Ok(settle(own, code(node)))
}

fn compound(node: &Node<'_>) -> Result<Crs, WktError> {
    let [first, second, ..] = node.children.as_slice() else { return Err(missing("second system", node)) };
    let mut crs = system(first)?;
    let heights = horizontal(second);
    if !heights.is(VERTICAL) {
        return Err(WktError::Keyword { keyword: heights.keyword.to_owned() });
    }
    crs.citations.general = node.text().map(str::to_owned);
    crs.add_vertical(vertical(heights), epsg_code(node));
    Ok(crs)
}

/// Assigns to a parsed system the code in the text, or the code that the tables have for its definition.
fn settle(own: Crs, code: Option<Code>) -> Crs {
    let named = code.and_then(Code::as_epsg).filter(|number| kind_fits(own.kind, epsg::kind(*number)));
    if let Some(number) = named {
        let table = GeoKeys::from_epsg_as(number.into(), own.kind, RasterType::Area).ok();
        let table = table.as_ref().and_then(Crs::from_keys);
        let known = table.filter(|table| table.to_wkt().is_some());
        match known {
            Some(table) if agree(&own, &table) => {
                let shift = own.geographic.map(|base| base.to_wgs84).unwrap_or_default();
                let geographic = table.geographic.map(|base| Geographic { to_wgs84: shift, ..base });
                return Crs { geographic, citations: Citations::default(), ..table };
            }
            // The text contradicts its code: the code is probably a remainder of another system.
            Some(_) => {}
            None => return Crs { code, declared: Some(number), horizontal: Some(number), ..own },
        }
    }
    let esri = code.filter(|code| code.authority == Authority::Esri);
    let base = own.geographic.as_ref();
    let found = match (own.kind, &own.projection, base) {
        (CrsKind::Projected, Some(projection), Some(base)) => {
            identify::projected(projection, base, &own.linear_unit, &own.name)
        }
        (CrsKind::Geographic | CrsKind::Geographic3D, _, Some(base)) => {
            base.epsg.or_else(|| identify::geographic(base)).map(Code::epsg)
        }
        (CrsKind::Geocentric, _, Some(base)) => {
            let row = base.epsg.and_then(epsg::geographic).filter(|_| base.agrees());
            row.and_then(|row| row.geocentric).map(Code::epsg)
        }
        _ => None,
    };
    let horizontal = found.and_then(Code::as_epsg);
    let mut crs = Crs { code: esri.or(found), horizontal, identified: esri.is_none() && found.is_some(), ..own };
    if crs.kind == CrsKind::Geographic3D {
        let row = horizontal.and_then(epsg::geographic);
        let unit = Unit::METRE;
        let code = row.and_then(|row| row.three_d);
        crs.add_vertical(Vertical { epsg: code, name: "unknown".into(), datum: None, unit, ellipsoidal: true }, None);
    }
    crs
}

fn kind_fits(own: CrsKind, kind: Option<EpsgKind>) -> bool {
    match kind {
        None => true,
        Some(EpsgKind::Projected) => own == CrsKind::Projected,
        Some(EpsgKind::Geographic) => own == CrsKind::Geographic,
        Some(EpsgKind::Geographic3D) => own == CrsKind::Geographic3D,
        Some(EpsgKind::Geocentric) => own == CrsKind::Geocentric,
        Some(EpsgKind::Vertical | EpsgKind::Compound) => false,
    }
}

/// Whether a text and the row of its code can be the same system, as far as Swath can parse the text.
fn agree(own: &Crs, table: &Crs) -> bool {
    let (Some(a), Some(b)) = (&own.geographic, &table.geographic) else { return own.kind == table.kind };
    let figure = a.ellipsoid.as_ref().zip(b.ellipsoid.as_ref()).is_none_or(|(a, b)| a.same_figure(b));
    let meridian = (a.prime_meridian.longitude - b.prime_meridian.longitude).abs() < 1e-8;
    let angles = own.kind == CrsKind::Geocentric || a.angular_unit.same_size(&b.angular_unit);
    let same = |a: &Projection, b: &Projection| {
        // A grid can be described in several ways; only equal methods can be compared.
        a.method.id != b.method.id
            || a.parameters.iter().zip(&b.parameters).all(|(x, y)| match x.quantity {
                Quantity::Length => {
                    (x.value * own.linear_unit.factor - y.value * table.linear_unit.factor).abs() < 1e-4
                }
                Quantity::Scale => close(x.value, y.value, 1e-10),
                Quantity::Angle | Quantity::Azimuth => (x.value - y.value).abs() < 1e-8,
            })
    };
    let projection = own.projection.as_ref().zip(table.projection.as_ref()).is_none_or(|(a, b)| same(a, b));
    figure && meridian && angles && projection && own.linear_unit.same_size(&table.linear_unit)
}

fn geographic(node: &Node<'_>, unit: Option<Unit>) -> Result<Geographic, WktError> {
    let datum = node.child(GEODETIC_DATUM).ok_or_else(|| missing("datum", node))?;
    let figure = figure(datum)?;
    let coded = epsg_code(node).and_then(|code| epsg::geographic(code).or_else(|| solid_row(code).map(|(row, _)| row)));
    let prime_meridian = meridian(node.child(&["PRIMEM", "PRIMEMERIDIAN"]), node);
    let fits = |row: &epsg::GeographicRow| {
        Ellipsoid::from_code(row.ellipsoid).is_some_and(|known| known.same_figure(&figure))
            && prime_meridian_of(row.meridian).is_some_and(|at| (at - prime_meridian.longitude).abs() < 1e-8)
    };
    let stated = angle_of(node).or(unit);
    let unit_fits = |row: &epsg::GeographicRow| {
        let native = Unit::angle(row.unit);
        stated.as_ref().zip(native.as_ref()).is_none_or(|(own, native)| own.same_size(native))
    };
    let row = coded.filter(fits).filter(unit_fits);
    // The code of the datum is used only with its own ellipsoid.
    let datum_name = datum.text().unwrap_or("unknown");
    let of_datum = epsg_code(datum).and_then(epsg::geographic_of_datum);
    let of_datum = of_datum.or_else(|| identify::datum_by_name(datum_name).and_then(epsg::geographic_of_datum));
    let same_figure =
        |row: &epsg::GeographicRow| Ellipsoid::from_code(row.ellipsoid).is_some_and(|known| known.same_figure(&figure));
    let datum_row = row.or(of_datum.filter(same_figure));
    let unknown_code = epsg_code(datum).filter(|_| of_datum.is_none());
    // Values that are not in the tables cannot contradict them.
    let foreign = epsg_code(node).filter(|code| coded.is_none() && epsg::kind(*code) == Some(EpsgKind::Geographic));
    let ellipsoid = match datum_row.and_then(|row| Ellipsoid::from_code(row.ellipsoid)) {
        Some(known) => known,
        None => figure,
    };
    let name = node.text().unwrap_or("unknown");
    let to_wgs84 = datum.child(&["TOWGS84"]).or(node.child(&["TOWGS84"])).map(|shift| shift.numbers.clone());
    Ok(Geographic {
        epsg: row.map(|row| row.code).or(foreign),
        name: row.map_or(name.strip_prefix("GCS_").unwrap_or(name), |row| row.name).to_owned(),
        datum: Datum {
            epsg: datum_row.map(|row| row.datum).or(unknown_code),
            name: datum_row
                .map_or(datum_name.strip_prefix("D_").unwrap_or(datum_name), |row| row.datum_name)
                .to_owned(),
        },
        ellipsoid: Some(ellipsoid),
        prime_meridian,
        angular_unit: row.and_then(|row| Unit::angle(row.unit)).or(stated).unwrap_or(Unit::DEGREE),
        to_wgs84: to_wgs84.filter(|v| matches!(v.len(), 3 | 7) && v.iter().all(|v| v.is_finite())).unwrap_or_default(),
    })
}

fn prime_meridian_of(code: u16) -> Option<f64> {
    prime_meridian(code).map(|(_, longitude)| longitude)
}

fn figure(datum: &Node<'_>) -> Result<Ellipsoid, WktError> {
    let node = datum.child(&["SPHEROID", "ELLIPSOID"]).ok_or_else(|| missing("ellipsoid", datum))?;
    let &[axis, inverse_flattening, ..] = node.numbers.as_slice() else { return Err(missing("axis", node)) };
    let semi_major = axis * length_of(node).map_or(1.0, |unit| unit.factor);
    let sound = semi_major.is_finite() && semi_major > 0.0 && (inverse_flattening == 0.0 || inverse_flattening > 1.0);
    if !(sound && inverse_flattening.is_finite()) {
        return Err(missing("axis", node));
    }
    let own =
        Ellipsoid { epsg: None, name: node.text().unwrap_or("unnamed").to_owned(), semi_major, inverse_flattening };
    let known = epsg_code(node).and_then(Ellipsoid::from_code);
    Ok(known.filter(|known| known.same_figure(&own)).unwrap_or(own))
}

fn meridian(node: Option<&Node<'_>>, system: &Node<'_>) -> PrimeMeridian {
    let stated = node.and_then(Node::number).unwrap_or(0.0);
    // WKT 1 of GDAL and of ESRI gives degrees, whatever the unit of the system. WKT 2 gives the unit, or uses
    // that of the system.
    let unit = match node.and_then(angle_of) {
        Some(unit) => unit,
        None if system.is(&["GEOGCS", "GEOCCS"]) => Unit::DEGREE,
        None => angle_of(system).unwrap_or(Unit::DEGREE),
    };
    let longitude = if unit.same_size(&Unit::DEGREE) { stated } else { stated * unit.factor / DEGREE };
    let known = prime_meridian_at(longitude);
    let name = node.and_then(Node::text).or(known.map(|(_, name)| name)).unwrap_or("unnamed").to_owned();
    let exact = known.and_then(|(code, _)| prime_meridian_of(code));
    PrimeMeridian { epsg: known.map(|(code, _)| code), name, longitude: exact.unwrap_or(longitude) }
}

fn vertical(node: &Node<'_>) -> Vertical {
    let unit = length_of(node).unwrap_or(Unit::METRE);
    let code = epsg_code(node);
    let row = code.and_then(epsg::vertical);
    let row = row.filter(|row| Unit::length(row.unit).is_some_and(|native| native.same_size(&unit)));
    let code = code.filter(|code| row.is_some() || epsg::vertical(*code).is_none());
    let datum = node.child(VERTICAL_DATUM);
    // 2002 is the type of an ellipsoidal surface (OGC 01-009, 10.3).
    let ellipsoidal = datum.and_then(Node::number) == Some(2002.0);
    let datum_code = datum.and_then(epsg_code);
    let datum_row = row.or(datum_code.and_then(epsg::vertical_of_datum));
    let datum_name = datum_row.map_or(datum.and_then(Node::text).unwrap_or("unknown"), |row| row.datum_name);
    Vertical {
        epsg: code.filter(|_| !ellipsoidal),
        name: row.map_or(node.text().unwrap_or("unknown"), |row| row.name).to_owned(),
        datum: (!ellipsoidal)
            .then(|| Datum { epsg: row.map(|row| row.datum).or(datum_code), name: datum_name.to_owned() }),
        unit,
        ellipsoidal,
    }
}

/// Returns the seven numbers of a shift to WGS 84, as in TOWGS84, or `None` for a shift by a grid or to another
/// system.
fn shift_to_wgs84(bound: &Node<'_>) -> Option<Vec<f64>> {
    let target = bound.child(&["TARGETCRS"])?.children.first()?;
    if epsg_code(target) != Some(4326) && target.text() != Some("WGS 84") {
        return None;
    }
    let transformation = bound.child(&["ABRIDGEDTRANSFORMATION"])?;
    let second = DEGREE / 3600.0;
    let value = |name: &str, default: f64| {
        let found =
            transformation.all(&["PARAMETER"]).find(|node| node.text().is_some_and(|text| plain(text) == name))?;
        let number = found.number()?;
        let Some(unit) = found.child(UNIT).and_then(Node::number) else {
            // Without a unit, a scale difference is given as the scale itself.
            return Some(if name == "scaledifference" { (number - 1.0) / default } else { number });
        };
        Some(if close(unit, default, 1e-9) { number } else { number * unit / default })
    };
    let shift = [value("xaxistranslation", 1.0)?, value("yaxistranslation", 1.0)?, value("zaxistranslation", 1.0)?];
    let turns = ["xaxisrotation", "yaxisrotation", "zaxisrotation"].map(|name| value(name, second));
    let [Some(x), Some(y), Some(z)] = turns else { return Some(shift.to_vec()) };
    // The other convention rotates the axes and not the position.
    let method = plain(transformation.child(&["METHOD"])?.text()?);
    let sign = if method.starts_with("coordinateframe") { -1.0 } else { 1.0 };
    let scale = value("scaledifference", 1e-6).unwrap_or(0.0);
    Some(shift.into_iter().chain([sign * x, sign * y, sign * z, scale]).collect())
}

/// Whether a WKT 1 text is in ESRI's dialect, which has its own names.
fn is_esri(node: &Node<'_>) -> bool {
    let base = node.child(&["GEOGCS"]).unwrap_or(node);
    let datum = base.child(&["DATUM"]).and_then(Node::text).is_some_and(|name| name.starts_with("D_"));
    datum || base.text().is_some_and(|name| name.starts_with("GCS_"))
}

fn code(node: &Node<'_>) -> Option<Code> {
    let id = node.child(&["AUTHORITY", "ID"])?;
    let number = match id.texts.get(1) {
        Some(text) => text.trim().parse().ok()?,
        None => u32::try_from(id.number()? as i64).ok()?,
    };
    let authority = id.text()?;
    let authority = if authority.eq_ignore_ascii_case("EPSG") {
        Authority::Epsg
    } else if authority.eq_ignore_ascii_case("ESRI") {
        Authority::Esri
    } else {
        return None;
    };
    Some(Code { authority, number })
}

fn epsg_code(node: &Node<'_>) -> Option<u16> {
    code(node).and_then(Code::as_epsg)
}

/// Returns the unit of an element: its own, or that of its first axis.
fn unit_node<'a, 'b>(node: &'a Node<'b>) -> Option<&'a Node<'b>> {
    node.child(UNIT).or_else(|| node.all(&["AXIS"]).find_map(|axis| axis.child(UNIT)))
}

fn length_of(node: &Node<'_>) -> Option<Unit> {
    let unit = unit_node(node)?;
    Unit::length_of_size(unit.number()?, unit.text())
}

pub(super) fn angle_of(node: &Node<'_>) -> Option<Unit> {
    let unit = unit_node(node)?;
    Unit::angle_of_size(unit.number()?, unit.text())
}

fn missing(element: &'static str, of: &Node<'_>) -> WktError {
    WktError::Missing { element, of: of.keyword.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GCS: &str = r#"GEOGCS["GCS_WGS_1984",DATUM["D_WGS_1984",SPHEROID["WGS_1984",6378137.0,298.257223563]],PRIMEM["Greenwich",0.0],UNIT["Degree",0.0174532925199433]]"#;

    fn esri(projection: &str) -> Crs {
        Crs::from_wkt(&format!(r#"PROJCS["x",{GCS},{projection},UNIT["Meter",1.0]]"#)).unwrap()
    }

    #[test]
    fn utm_in_esri_dialect_is_identified_by_its_definition() {
        let crs = esri(
            r#"PROJECTION["Transverse_Mercator"],PARAMETER["False_Easting",500000.0],PARAMETER["False_Northing",0.0],PARAMETER["Central_Meridian",-117.0],PARAMETER["Scale_Factor",0.9996],PARAMETER["Latitude_Of_Origin",0.0]"#,
        );
        assert_eq!((crs.epsg(), crs.identified), (Some(32611), true));
    }

    #[test]
    fn auxiliary_sphere_is_web_mercator() {
        let crs = esri(
            r#"PROJECTION["Mercator_Auxiliary_Sphere"],PARAMETER["False_Easting",0.0],PARAMETER["Central_Meridian",0.0],PARAMETER["Auxiliary_Sphere_Type",0.0]"#,
        );
        assert_eq!(crs.epsg(), Some(3857));
    }

    #[test]
    fn stereographic_pole_becomes_the_polar_variant_b() {
        let crs = esri(
            r#"PROJECTION["Stereographic_North_Pole"],PARAMETER["False_Easting",0.0],PARAMETER["False_Northing",0.0],PARAMETER["Central_Meridian",-45.0],PARAMETER["Standard_Parallel_1",70.0]"#,
        );
        assert_eq!(crs.epsg(), Some(3413));
    }

    #[test]
    fn origin_selects_the_variant_of_an_esri_conic_with_one_parallel() {
        let conic = |rest: &str| {
            let text = format!(r#"PROJECTION["Lambert_Conformal_Conic"],PARAMETER["Standard_Parallel_1",49.0],{rest}"#);
            esri(&text).projection.map(|projection| (projection.method.id, projection.parameter("standard_parallel_2")))
        };
        let scale = r#"PARAMETER["Scale_Factor",0.9]"#;
        let origin = |at: f64| format!(r#"PARAMETER["Latitude_Of_Origin",{at}]"#);
        assert_eq!(conic(&format!("{scale},{}", origin(49.0))), Some(("LCC1", None)));
        assert_eq!(conic(&origin(40.0)), Some(("LCC2", Some(49.0))));
        // Keys cannot express these.
        assert_eq!(conic(&format!("{scale},{}", origin(40.0))), None);
        assert_eq!(conic(&format!(r#"PARAMETER["Standard_Parallel_2",44.0],{scale}"#)), None);
    }

    #[test]
    fn unknown_method_is_kept_in_esri_wkt_and_refused_in_other_dialects() {
        let crs = esri(r#"PROJECTION["Fuller"]"#);
        assert!(crs.projection.is_none() && crs.esri_wkt.is_some_and(|text| text.contains("Fuller")));
        let gdal = GCS.replace("GCS_", "").replace("D_", "");
        let text = |end: &str| format!(r#"PROJCS["x",{gdal},PROJECTION["Fuller"],UNIT["metre",1]{end}]"#);
        assert_eq!(Crs::from_wkt(&text("")), Err(WktError::Method { name: "Fuller".into() }));
        // A code is sufficient.
        assert_eq!(Crs::from_wkt(&text(r#",AUTHORITY["EPSG","3752"]"#)).unwrap().epsg(), Some(3752));
    }

    #[test]
    fn code_that_the_text_contradicts_is_not_used() {
        let utm = |meridian: &str, unit: &str| {
            let text = format!(
                r#"PROJCS["x",{GCS},PROJECTION["Transverse_Mercator"],PARAMETER["latitude_of_origin",0],PARAMETER["central_meridian",{meridian}],PARAMETER["scale_factor",0.9996],PARAMETER["false_easting",500000],PARAMETER["false_northing",0],{unit},AUTHORITY["EPSG","32633"]]"#
            );
            let crs = Crs::from_wkt(&text).unwrap();
            (crs.epsg(), crs.identified)
        };
        assert_eq!(utm("15", r#"UNIT["metre",1]"#), (Some(32633), false));
        assert_eq!(utm("15.5", r#"UNIT["metre",1]"#), (None, false));
        assert_eq!(utm("9", r#"UNIT["metre",1]"#), (Some(32632), true));
        assert_eq!(utm("15", r#"UNIT["foot",0.3048]"#), (None, false));
    }

    #[test]
    fn wkt_2_is_read_with_the_units_of_its_parameters() {
        let text = r#"PROJCRS["NTF (Paris) / mine",BASEGEOGCRS["NTF (Paris)",DATUM["Nouvelle Triangulation Francaise (Paris)",
            ELLIPSOID["Clarke 1880 (IGN)",6378249.2,293.466021293627,LENGTHUNIT["metre",1]]],PRIMEM["Paris",2.5969213,ANGLEUNIT["grad",0.0157079632679489]]],
            CONVERSION["c",METHOD["Lambert Conic Conformal (1SP)",ID["EPSG",9801]],
            PARAMETER["Latitude of natural origin",52,ANGLEUNIT["grad",0.0157079632679489],ID["EPSG",8801]],
            PARAMETER["Longitude of natural origin",0,ANGLEUNIT["grad",0.0157079632679489],ID["EPSG",8802]],
            PARAMETER["Scale factor at natural origin",0.99987742,SCALEUNIT["unity",1],ID["EPSG",8805]],
            PARAMETER["False easting",600,LENGTHUNIT["kilometre",1000],ID["EPSG",8806]],
            PARAMETER["False northing",2200000,LENGTHUNIT["metre",1],ID["EPSG",8807]]],
            CS[Cartesian,2],AXIS["easting (X)",east,ORDER[1],LENGTHUNIT["metre",1]],AXIS["northing (Y)",north,ORDER[2],LENGTHUNIT["metre",1]]]"#;
        let crs = Crs::from_wkt(text).unwrap();
        assert_eq!((crs.epsg(), crs.identified), (Some(27572), true));
        let projection = crs.projection.unwrap();
        assert_eq!(projection.parameter("latitude_of_origin"), Some(52.0));
        assert_eq!(projection.parameter("false_easting"), Some(600_000.0));
    }

    #[test]
    fn ensembles_3d_and_geocentric_systems_and_epochs_are_read() {
        let datum = r#"ENSEMBLE["World Geodetic System 1984 ensemble",MEMBER["a"],ELLIPSOID["WGS 84",6378137,298.257223563],ENSEMBLEACCURACY[2.0]]"#;
        let epsg = |text: &str| Crs::from_wkt(text).unwrap().epsg();
        let degrees = r#"ANGLEUNIT["degree",0.0174532925199433]"#;
        assert_eq!(
            epsg(&format!(r#"GEOGCRS["WGS 84",{datum},CS[ellipsoidal,3],AXIS["a",north,{degrees}]]"#)),
            Some(4979)
        );
        assert_eq!(
            epsg(&format!(r#"GEODCRS["WGS 84",{datum},CS[Cartesian,3],AXIS["x",geocentricX],LENGTHUNIT["metre",1]]"#)),
            Some(4978)
        );
        let text =
            format!(r#"COORDINATEMETADATA[GEOGCRS["WGS 84",{datum},CS[ellipsoidal,2],{degrees}],EPOCH[2010.5]]"#);
        assert_eq!(Crs::from_wkt(&text).unwrap().epoch, Some(2010.5));
    }

    #[test]
    fn bound_systems_keep_their_shift_in_the_convention_of_towgs84() {
        let shift = |method: &str, scale: &str| {
            let turn = |axis: &str, by: f64| {
                format!(r#"PARAMETER["{axis}-axis rotation",{by},ANGLEUNIT["arc-second",4.84813681109536E-06]]"#)
            };
            let move_ =
                |axis: &str, by: f64| format!(r#"PARAMETER["{axis}-axis translation",{by},LENGTHUNIT["metre",1]]"#);
            let text = format!(
                r#"BOUNDCRS[SOURCECRS[{GCS}],TARGETCRS[GEOGCRS["WGS 84",ID["EPSG",4326]]],ABRIDGEDTRANSFORMATION["t",METHOD["{method}"],{},{},{},{},{},{},{scale}]]"#,
                move_("X", 1.0),
                move_("Y", 2.0),
                move_("Z", 3.0),
                turn("X", 4.0),
                turn("Y", 5.0),
                turn("Z", 6.0)
            );
            Crs::from_wkt(&text).unwrap().geographic.unwrap().to_wgs84
        };
        let near = |found: Vec<f64>, wanted: [f64; 7]| {
            assert!(found.len() == 7 && found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
        };
        let million = r#"PARAMETER["Scale difference",7,SCALEUNIT["parts per million",1E-06]]"#;
        near(shift("Position Vector transformation (geog2D domain)", million), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        let whole = r#"PARAMETER["Scale difference",1.000007]"#;
        near(shift("Coordinate Frame rotation (geog2D domain)", whole), [1.0, 2.0, 3.0, -4.0, -5.0, -6.0, 7.0]);
    }

    #[test]
    fn heights_after_an_esri_system_belong_to_it() {
        let text = format!(
            r#"{GCS},VERTCS["EGM96",VDATUM["EGM96",AUTHORITY["EPSG","5171"]],PARAMETER["Vertical_Shift",0.0],UNIT["Meter",1.0]]"#
        );
        let crs = Crs::from_wkt(&text).unwrap();
        assert_eq!(
            (crs.compound, crs.vertical.and_then(|own| own.datum).and_then(|datum| datum.epsg)),
            (true, Some(5171))
        );
    }

    #[test]
    fn text_without_a_horizontal_system_is_refused() {
        let refused = |text: &str| Crs::from_wkt(text).unwrap_err();
        assert_eq!(
            refused(r#"VERT_CS["x",VERT_DATUM["y",2005],UNIT["m",1]]"#),
            WktError::Keyword { keyword: "VERT_CS".into() }
        );
        assert_eq!(refused("GEOGCS[\"x\"]"), WktError::Missing { element: "datum", of: "GEOGCS".into() });
        for figure in ["0,298", "-1,298", "6378137,0.5", "6378137,-1", "nan,0", "inf,0", "1e400,0"] {
            let text = format!(r#"GEOGCS["x",DATUM["y",SPHEROID["z",{figure}]]]"#);
            assert_eq!(refused(&text), WktError::Missing { element: "axis", of: "SPHEROID".into() }, "{figure}");
        }
        assert!(matches!(refused(&format!("{GCS} x")), WktError::Malformed { .. }));
        assert!(matches!(refused(&format!("{GCS},{GCS}")), WktError::Malformed { .. }));
    }

    #[test]
    fn damaged_texts_never_panic() {
        let text = format!(
            r#"COMPD_CS["c",PROJCS["x",{GCS},PROJECTION["Lambert_Conformal_Conic"],PARAMETER["Standard_Parallel_1",49.0],UNIT["Meter",1.0],AUTHORITY["EPSG","32633"]],VERT_CS["h",VERT_DATUM["d",2005],UNIT["m",1],AUTHORITY["EPSG","5773"]]]"#
        );
        crate::mutate::each(text.as_bytes(), 20_000, |bytes| {
            if let Ok(crs) = Crs::from_wkt(&String::from_utf8_lossy(bytes)) {
                let _ = (crs.to_wkt(), GeoKeys::from_crs(&crs, RasterType::Area).map(|keys| keys.encode().is_ok()));
            }
        });
    }
}
