//! Coordinate reference systems. `crs/from_keys.rs` reads them from GeoKeys.

mod from_keys;

use super::epsg;
use super::geographic::{Datum, Geographic};
use super::method::{Method, Quantity};
use super::names::Unit;

/// The kind of coordinates of a raster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrsKind {
    /// Eastings and northings on a map projection.
    Projected,
    /// Latitude and longitude.
    Geographic,
    /// Latitude, longitude and height above the ellipsoid.
    Geographic3D,
    /// Earth-centred X, Y, Z.
    Geocentric,
    /// Local coordinates with no known relation to the Earth.
    Engineering,
}

/// The organisation that assigned a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Authority {
    /// The EPSG Dataset.
    Epsg,
    /// Esri's own list.
    Esri,
}

/// A code of a whole reference system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Code {
    /// The organisation that assigned it.
    pub authority: Authority,
    /// The number.
    pub number: u32,
}

/// A parameter of a projection.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Parameter {
    /// Name in WKT 1.
    pub name: &'static str,
    /// Value: an angle in the angular unit, a length in the linear unit, or a ratio.
    pub value: f64,
    /// The kind of quantity.
    pub quantity: Quantity,
}

/// A map projection.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Projection {
    /// EPSG code of the conversion, if the keys contain one.
    pub epsg: Option<u16>,
    /// The method.
    pub method: &'static Method,
    /// Its parameters, in the order of WKT 1.
    pub parameters: Vec<Parameter>,
}

/// The system of heights.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Vertical {
    /// EPSG code.
    pub epsg: Option<u16>,
    /// Name.
    pub name: String,
    /// Datum; `None` for heights above the ellipsoid.
    pub datum: Option<Datum>,
    /// Unit of heights.
    pub unit: Unit,
    /// Whether the heights are above the ellipsoid, which makes the horizontal system three-dimensional.
    pub ellipsoidal: bool,
}

/// The texts of the citation keys, unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Citations {
    /// GTCitationGeoKey.
    pub general: Option<String>,
    /// GeodeticCitationGeoKey.
    pub geographic: Option<String>,
    /// ProjectedCitationGeoKey.
    pub projected: Option<String>,
    /// VerticalCitationGeoKey.
    pub vertical: Option<String>,
}

/// A coordinate reference system.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Crs {
    /// The kind of coordinates.
    pub kind: CrsKind,
    /// Name of the horizontal system.
    pub name: String,
    /// Code of the whole system, if there is one that agrees with the definition.
    pub code: Option<Code>,
    /// The code of the projected or geographic system in the keys, even if other keys change its unit or
    /// ellipsoid.
    pub declared: Option<u16>,
    /// EPSG code of the horizontal part.
    pub horizontal: Option<u16>,
    /// Whether the code was found by comparing the definition, because the keys do not contain it.
    pub identified: bool,
    /// The geographic system.
    pub geographic: Option<Geographic>,
    /// The projection.
    pub projection: Option<Projection>,
    /// Unit of eastings and northings, or of geocentric coordinates.
    pub linear_unit: Unit,
    /// The vertical system.
    pub vertical: Option<Vertical>,
    /// Whether the heights are part of the system. In many GeoTIFF 1.0 files the vertical keys were not meant
    /// as part of it.
    pub compound: bool,
    /// The texts of the citation keys.
    pub citations: Citations,
    /// The definition that ESRI software stored in a citation, as WKT in ESRI's dialect.
    pub esri_wkt: Option<String>,
    /// The epoch of coordinates in a dynamic datum, as a decimal year.
    pub epoch: Option<f64>,
}

impl Crs {
    /// The EPSG code of the whole system: the code in the keys, unless other keys change its unit or ellipsoid,
    /// or the code whose definition the keys contain.
    pub fn epsg(&self) -> Option<u32> {
        self.code.filter(|code| code.authority == Authority::Epsg).map(|code| code.number)
    }

    pub(super) fn bare(kind: CrsKind, linear_unit: Unit, citations: Citations) -> Self {
        Self {
            kind,
            name: String::new(),
            code: None,
            declared: None,
            horizontal: None,
            identified: false,
            geographic: None,
            projection: None,
            linear_unit,
            vertical: None,
            compound: false,
            citations,
            esri_wkt: None,
            epoch: None,
        }
    }
}

/// Returns the EPSG code of the compound of a horizontal and a vertical system.
pub fn compound_epsg(horizontal: u32, vertical: u32) -> Option<u32> {
    epsg::compound(horizontal.try_into().ok()?, vertical.try_into().ok()?).map(u32::from)
}

impl Projection {
    pub(super) fn new(method: &'static Method, values: impl Iterator<Item = f64>) -> Self {
        let parameters = method.parameters.iter().zip(values);
        let parameters = parameters.map(|(p, value)| Parameter { name: p.name, value, quantity: p.quantity }).collect();
        Self { epsg: None, method, parameters }
    }

    /// Returns the value of a parameter, by its name in WKT 1.
    pub fn parameter(&self, name: &str) -> Option<f64> {
        self.parameters.iter().find(|parameter| parameter.name == name).map(|parameter| parameter.value)
    }
}

impl Code {
    pub(super) fn epsg(number: u16) -> Self {
        Self { authority: Authority::Epsg, number: number.into() }
    }

    pub(super) fn as_epsg(self) -> Option<u16> {
        u16::try_from(self.number).ok().filter(|_| self.authority == Authority::Epsg)
    }
}
