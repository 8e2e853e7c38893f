//! The projection of a text: its method, and its parameters under the names of every dialect.

use super::read::{UNIT, angle_of};
use super::text::Node;
use crate::geo::crs::Projection;
use crate::geo::geographic::Geographic;
use crate::geo::method::{Method, MethodParameter, Quantity, polar_variant};
use crate::geo::names::{DEGREE, Unit, close, plain};

/// Names of parameters other than those of GDAL's WKT 1: ESRI's names, those of WKT 2, and EPSG codes.
#[rustfmt::skip]
const ALIASES: &[(&str, &[&str])] = &[
    ("latitude_of_origin", LATITUDES), ("latitude_of_center", LATITUDES),
    ("central_meridian", LONGITUDES), ("longitude_of_center", LONGITUDES),
    ("standard_parallel_1", &["standardparallel1", "latitudeof1ststandardparallel", "8823"]),
    ("standard_parallel_2", &["standardparallel2", "latitudeof2ndstandardparallel", "8824"]),
    ("pseudo_standard_parallel_1", &["pseudostandardparallel1", "latitudeofpseudostandardparallel", "8818"]),
    ("azimuth", &["azimuth", "azimuthatprojectioncentre", "azimuthofinitialline", "colatitudeofconeaxis", "8813", "1036"]),
    ("rectified_grid_angle", &["rectifiedgridangle", "xyplanerotation", "anglefromrectifiedtoskewgrid", "8814"]),
    ("scale_factor", &["scalefactor", "scalefactoratnaturalorigin", "scalefactoratprojectioncentre", "scalefactoroninitialline",
        "scalefactoronpseudostandardparallel", "8805", "8815", "8819"]),
    ("false_easting", &["falseeasting", "eastingatfalseorigin", "eastingatprojectioncentre", "8806", "8826", "8816"]),
    ("false_northing", &["falsenorthing", "northingatfalseorigin", "northingatprojectioncentre", "8807", "8827", "8817"]),
    ("satellite_height", &["satelliteheight", "height"]),
    ("latitude_of_point_1", &["latitudeofpoint1", "latitudeof1stpoint"]),
    ("longitude_of_point_1", &["longitudeofpoint1", "longitudeof1stpoint"]),
    ("latitude_of_point_2", &["latitudeofpoint2", "latitudeof2ndpoint"]),
    ("longitude_of_point_2", &["longitudeofpoint2", "longitudeof2ndpoint"]),
];
#[rustfmt::skip]
const LATITUDES: &[&str] = &["latitudeoforigin", "latitudeofcenter", "centralparallel", "latitudeofnaturalorigin", "latitudeoffalseorigin",
    "latitudeofprojectioncentre", "latitudeofstandardparallel", "8801", "8821", "8811", "8832"];
#[rustfmt::skip]
const LONGITUDES: &[&str] = &["centralmeridian", "longitudeofcenter", "longitudeoforigin", "longitudeofnaturalorigin",
    "longitudeoffalseorigin", "longitudeofprojectioncentre", "8802", "8822", "8812", "8833"];

/// Returns the element that contains the parameters: the system itself in WKT 1.
fn conversion<'a, 'b>(root: &'a Node<'b>) -> &'a Node<'b> {
    root.child(&["CONVERSION", "DERIVINGCONVERSION"]).unwrap_or(root)
}

pub(super) fn method_name<'a>(root: &'a Node<'_>) -> Option<&'a str> {
    conversion(root).child(&["PROJECTION", "METHOD"])?.text()
}

/// Returns the unit of the angles among the parameters, which WKT 2 gives in place of the unit of the system.
pub(super) fn angular_unit(root: &Node<'_>) -> Option<Unit> {
    let node = conversion(root);
    node.all(&["PARAMETER"]).filter(|parameter| parameter.child(&["ANGLEUNIT"]).is_some()).find_map(angle_of)
}

/// Returns the projection of a projected system, or `None` for a method, or a variant of one, that is not in
/// the tables.
pub(super) fn read(root: &Node<'_>, base: &Geographic, unit: &Unit, esri: bool) -> Option<Projection> {
    let node = conversion(root);
    let given = Given { node, angle: base.angular_unit.factor, length: unit.factor };
    let named = node.child(&["PROJECTION", "METHOD"])?;
    let by_code = named.child(&["ID"]).filter(|id| id.text() == Some("EPSG")).and_then(Node::number);
    let by_code = by_code.and_then(|code| Method::by_name(&code.to_string()));
    let name = plain(named.text()?);
    let degrees = base.angular_unit.factor / DEGREE;
    let latitude = given.angle(LATITUDES);
    let parallel = given.angle(&["standardparallel1"]);
    let scale = given.plain(&["scalefactor"]);
    let id = match (name.as_str(), by_code) {
        (_, Some(method)) => method.id,
        ("lambertconformalconic", _) => {
            let scaled = scale.is_some_and(|scale| scale != 1.0);
            let second = given.angle(&["standardparallel2"]);
            match (second, parallel.zip(latitude)) {
                (Some(_), _) if scaled => return None,
                (Some(_), _) => "LCC2",
                (None, Some((parallel, origin))) if (parallel - origin).abs() > 1e-10 => {
                    // There is one parallel, and it differs from the latitude of the origin. Two equal
                    // parallels are equivalent if there is no scale.
                    let method = Method::by_id("LCC2").filter(|_| !scaled)?;
                    let value = |own: &MethodParameter| match own.name {
                        "standard_parallel_2" => parallel,
                        _ => given.value(own).unwrap_or_else(|| own.default()),
                    };
                    return Some(Projection::new(method, method.parameters.iter().map(value)));
                }
                _ => "LCC1",
            }
        }
        ("polarstereographic", _) => polar_variant(latitude.unwrap_or(90.0 / degrees) * degrees, scale.unwrap_or(1.0)),
        ("stereographicnorthpole" | "stereographicsouthpole", _) => {
            polar_variant(parallel.or(latitude)? * degrees, scale.unwrap_or(1.0))
        }
        ("stereographic", _) if esri && latitude.is_some_and(|v| (v * degrees).abs() == 90.0) => "PSA",
        ("mercator1sp", _) if is_web_mercator(root) => "WEBM",
        ("krovak", _) if is_north_orientated(root, &given) => "KROVAKN",
        ("goodehomolosine", _) if given.plain(&["option"]) == Some(1.0) => "IGH",
        ("swissobliquecylindrical" | "swissobliquemercator", _) => "HOMB",
        // WKT 1 has no name for the instrument that sweeps along the other axis.
        ("geostationarysatellite", _) if extension(root).is_some_and(|text| text.contains("+sweep=x")) => return None,
        _ => Method::by_name(&name)?.id,
    };
    let method = Method::by_id(id)?;
    let value = |own: &MethodParameter| {
        let found = match (id, own.name) {
            // ESRI calls the latitude of true scale a standard parallel.
            ("PSA" | "PSB", "latitude_of_origin") => latitude.or(parallel),
            ("BONNE", "standard_parallel_1") => parallel.or(latitude),
            ("HOMA" | "HOMB", "rectified_grid_angle") => given.value(own).or_else(|| given.angle(&["azimuth"])),
            _ => given.value(own),
        };
        found.unwrap_or_else(|| match own.quantity {
            Quantity::Azimuth => own.default() / degrees,
            _ => own.default(),
        })
    };
    Some(Projection::new(method, method.parameters.iter().map(value)))
}

/// The parameters of a text, in the units of the resulting system.
struct Given<'a, 'b> {
    node: &'a Node<'b>,
    angle: f64,
    length: f64,
}

impl Given<'_, '_> {
    fn value(&self, wanted: &MethodParameter) -> Option<f64> {
        let (_, names) = ALIASES.iter().find(|(name, _)| *name == wanted.name)?;
        match wanted.quantity {
            Quantity::Angle | Quantity::Azimuth => self.angle(names),
            Quantity::Length => self.find(names, self.length),
            Quantity::Scale => self.plain(names),
        }
    }

    fn angle(&self, names: &[&str]) -> Option<f64> {
        self.find(names, self.angle)
    }

    fn plain(&self, names: &[&str]) -> Option<f64> {
        self.find(names, 1.0)
    }

    /// Returns the value of a parameter, converted from its own unit if it has one.
    fn find(&self, names: &[&str], unit: f64) -> Option<f64> {
        let is_meant = |parameter: &&Node<'_>| {
            let name = parameter.text().map(plain).unwrap_or_default();
            let code = parameter.child(&["ID"]).and_then(Node::number).map(|code| code.to_string());
            names.iter().any(|wanted| *wanted == name || code.as_deref() == Some(wanted))
        };
        let parameter = self.node.all(&["PARAMETER"]).find(is_meant)?;
        let own = parameter.child(UNIT).and_then(Node::number).filter(|factor| *factor > 0.0);
        let value = parameter.number()?;
        match own {
            Some(own) if !close(own, unit, 1e-9) => Some(value * own / unit),
            _ => Some(value),
        }
    }
}

/// Returns the extension of WKT 1 that GDAL writes for PROJ.
fn extension<'a>(root: &'a Node<'_>) -> Option<&'a str> {
    root.child(&["EXTENSION"])?.texts.get(1).map(AsRef::as_ref)
}

/// Whether the text is Web Mercator. GDAL writes it as a Mercator with an extension that tells PROJ to treat
/// its ellipsoid as a sphere.
fn is_web_mercator(root: &Node<'_>) -> bool {
    let sphere = |text: &str| text.contains("+nadgrids=@null") && text.contains("+a=6378137 +b=6378137");
    extension(root).is_some_and(sphere)
}

fn is_north_orientated(root: &Node<'_>, given: &Given<'_, '_>) -> bool {
    match given.plain(&["xscale"]) {
        Some(scale) => scale < 0.0,
        None => {
            let first = root.all(&["AXIS"]).next().and_then(|axis| axis.words.first());
            !first.is_some_and(|direction| direction.eq_ignore_ascii_case("SOUTH"))
        }
    }
}
