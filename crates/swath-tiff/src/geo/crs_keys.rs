//! Converts a code or a system to the GeoKeys that name or describe it: the inverse of [`Crs::from_keys`].
//!
//! A system with a code is written as GDAL writes it: the code, and names and units for readers without a code
//! table. A system without a code is written as a full definition. Projections that GeoKeys do not define are
//! written as ESRI's WKT into a citation, where GDAL and ArcGIS search for them.

use super::crs::{Crs, CrsKind, Projection, Vertical};
use super::epsg::{self, EpsgKind};
use super::geographic::{Ellipsoid, Geographic, USER_DEFINED, solid_row};
use super::keys::{GeoKeys, KeyValue};
use super::method::{Method, Quantity};
use super::names::{DEGREE, Unit};
use super::transform::RasterType;
use super::wkt::WktError;

/// The reason why a code, a system or a text cannot be written as GeoKeys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CrsKeysError {
    /// A key has 16 bits. Numbers below 1024 and from 32767 have other meanings.
    #[error("EPSG:{code} cannot be written: GeoKeys hold codes from 1024 to 32766")]
    CodeRange {
        /// The code.
        code: u32,
    },
    /// The code is not in the code tables.
    #[error("EPSG:{code} is not in the code tables; state whether it is projected or geographic, or give its WKT")]
    UnknownCode {
        /// The code.
        code: u32,
    },
    /// The parts of a compound system are not in the code tables.
    #[error(
        "the parts of the compound system EPSG:{code} are not in the code tables; give them as EPSG:horizontal+vertical"
    )]
    UnknownCompound {
        /// The code.
        code: u32,
    },
    /// A vertical system alone cannot locate pixels.
    #[error("EPSG:{code} is a vertical system; give it together with a horizontal one, as in EPSG:4326+{code}")]
    HeightsAlone {
        /// The code.
        code: u32,
    },
    /// The first code of a pair is not a horizontal system, or the second is not a vertical system.
    #[error("EPSG:{horizontal}+{vertical} is not a horizontal system followed by a vertical one")]
    NotACompound {
        /// The first code.
        horizontal: u32,
        /// The second code.
        vertical: u32,
    },
    /// The system has neither a code nor a complete definition.
    #[error("the system {name:?} has neither a code nor a complete definition")]
    Undefined {
        /// Its name.
        name: String,
    },
    /// Heights above an ellipsoid can be written only as a code.
    #[error("heights above the ellipsoid of {name:?} cannot be written: the system has no three-dimensional code")]
    EllipsoidalHeights {
        /// The name of the system.
        name: String,
    },
    /// A vertical unit can be written only as a code.
    #[error("the vertical unit {name:?} cannot be written: it has no EPSG code")]
    HeightUnit {
        /// The unit.
        name: String,
    },
    /// The text is WKT that cannot be parsed.
    #[error(transparent)]
    Wkt(#[from] WktError),
    /// The text is in a language that Swath does not support.
    #[error("{found} is not supported; give an EPSG code or WKT")]
    Language {
        /// The language of the text.
        found: &'static str,
    },
    /// The text has the name of a system that is not in the tables.
    #[error("{text:?} is not a known reference system; give an EPSG code or WKT")]
    UnknownName {
        /// The text.
        text: String,
    },
}

impl GeoKeys {
    /// Returns the keys of a raster without a reference system. They only distinguish areas from points. GDAL
    /// omits them for areas.
    pub fn without_crs(raster_type: RasterType) -> Self {
        let mut keys = Self { version: 1, revision: (1, 0), ..Self::default() };
        keys.set(1025, KeyValue::Short(if raster_type == RasterType::Point { 2 } else { 1 }));
        keys
    }

    /// Returns the keys of the EPSG code of a projected, geographic, geocentric or compound system.
    ///
    /// The tables contain the kind of every code in the register. For a newer code, state the kind with
    /// [`from_epsg_as`](Self::from_epsg_as).
    pub fn from_epsg(code: u32, raster_type: RasterType) -> Result<Self, CrsKeysError> {
        let number = key_code(code)?;
        let kind = match epsg::kind(number) {
            None => return Err(CrsKeysError::UnknownCode { code }),
            Some(EpsgKind::Vertical) => return Err(CrsKeysError::HeightsAlone { code }),
            Some(EpsgKind::Compound) => {
                let parts = epsg::compound_parts(number).ok_or(CrsKeysError::UnknownCompound { code })?;
                return Self::from_epsg_with_heights(parts.0.into(), parts.1.into(), raster_type);
            }
            Some(EpsgKind::Projected) => CrsKind::Projected,
            Some(EpsgKind::Geographic) => CrsKind::Geographic,
            Some(EpsgKind::Geographic3D) => CrsKind::Geographic3D,
            Some(EpsgKind::Geocentric) => CrsKind::Geocentric,
        };
        Self::from_epsg_as(code, kind, raster_type)
    }

    /// Returns the keys of an EPSG code as a system of this kind. The code does not have to be in the tables.
    pub fn from_epsg_as(code: u32, kind: CrsKind, raster_type: RasterType) -> Result<Self, CrsKeysError> {
        let number = key_code(code)?;
        let mut keys = Self::without_crs(raster_type);
        match kind {
            CrsKind::Projected => keys.name_projected(number),
            CrsKind::Geographic => keys.name_geographic(number),
            CrsKind::Geographic3D => {
                keys.revision = (1, 1);
                keys.code(1024, 2);
                match solid_row(number) {
                    Some((row, false)) => {
                        keys.code(2048, row.code);
                        keys.code(4096, number);
                    }
                    _ => keys.code(2048, number),
                }
            }
            CrsKind::Geocentric => keys.name_geocentric(number),
            CrsKind::Engineering => return Err(CrsKeysError::UnknownCode { code }),
        }
        Ok(keys)
    }

    /// Returns the keys of a horizontal EPSG code with a vertical one.
    pub fn from_epsg_with_heights(
        horizontal: u32,
        vertical: u32,
        raster_type: RasterType,
    ) -> Result<Self, CrsKeysError> {
        let (place, height) = (key_code(horizontal)?, key_code(vertical)?);
        let wrong = CrsKeysError::NotACompound { horizontal, vertical };
        let mut keys = Self { revision: (1, 1), ..Self::without_crs(raster_type) };
        // GeoTIFF 1.1 requires only the codes, and GDAL writes only these.
        let name = match epsg::kind(place) {
            Some(EpsgKind::Projected) => {
                keys.code(1024, 1);
                keys.code(3072, place);
                epsg::projected(place).map(|row| row.name)
            }
            Some(EpsgKind::Geographic) => {
                keys.code(1024, 2);
                keys.code(2048, place);
                epsg::geographic(place).map(|row| row.name.to_owned())
            }
            None => return Err(CrsKeysError::UnknownCode { code: horizontal }),
            _ => return Err(wrong),
        };
        if epsg::kind(height).is_some_and(|kind| kind != EpsgKind::Vertical) {
            return Err(wrong);
        }
        keys.code(4096, height);
        if let Some((place, height)) = name.zip(epsg::vertical(height)) {
            keys.text(1026, &format!("{place} + {}", height.name));
        }
        Ok(keys)
    }

    /// Returns the keys of a system: its code if the system was given one, otherwise its full definition.
    pub fn from_crs(crs: &Crs, raster_type: RasterType) -> Result<Self, CrsKeysError> {
        // A code that was only found by comparison is not in the original definition, so it is not written.
        let code = crs.horizontal.filter(|_| !crs.identified);
        let solid = code.filter(|code| epsg::kind(*code) == Some(EpsgKind::Geographic3D));
        if let Some(code) = solid.filter(|_| crs.kind == CrsKind::Geographic3D) {
            return Self::from_epsg_as(code.into(), crs.kind, raster_type);
        }
        let flat = if crs.kind == CrsKind::Geographic3D { CrsKind::Geographic } else { crs.kind };
        let compound = crs.compound || crs.kind == CrsKind::Geographic3D;
        let mut keys = match (code, crs.vertical.as_ref().and_then(|vertical| vertical.epsg)) {
            (Some(code), Some(height)) if crs.compound => {
                Self::from_epsg_with_heights(code.into(), height.into(), raster_type)
                    .or_else(|_| Self::from_epsg_as(code.into(), flat, raster_type))?
            }
            (Some(code), _) => Self::from_epsg_as(code.into(), flat, raster_type)?,
            (None, _) => {
                let mut keys = Self::without_crs(raster_type);
                keys.spell(crs)?;
                keys
            }
        };
        let general = crs.citations.general.as_deref().filter(|_| crs.compound);
        if let Some(text) = general.or((keys.get(1026).is_none() && flat != CrsKind::Geographic).then_some(&crs.name)) {
            keys.text(1026, text);
        }
        if crs.compound && keys.short(3072) == Some(USER_DEFINED) && keys.get(3073).is_none() {
            keys.text(3073, &crs.name);
        }
        if let Some(base) = crs.geographic.as_ref().filter(|base| !base.to_wgs84.is_empty()) {
            keys.set(2062, KeyValue::Doubles(base.to_wgs84.clone()));
        }
        if compound || crs.vertical.is_some() {
            keys.add_heights(crs)?;
        }
        if let Some(epoch) = crs.epoch {
            keys.put(5120, epoch);
        }
        keys.keys.sort_by_key(|key| key.id);
        Ok(keys)
    }

    fn code(&mut self, id: u16, value: u16) {
        self.set(id, KeyValue::Short(value));
    }

    fn put(&mut self, id: u16, value: f64) {
        self.set(id, KeyValue::Doubles(vec![value]));
    }

    /// Sets a text without the characters that would end it early.
    fn text(&mut self, id: u16, value: &str) {
        self.set(id, KeyValue::Ascii(value.replace('\0', "")));
    }

    fn name_projected(&mut self, code: u16) {
        self.code(1024, 1);
        self.code(3072, code);
        if let Some(row) = epsg::projected(code) {
            self.text(1026, &row.name);
            if let Some(base) = epsg::geographic(row.geographic) {
                self.text(2049, base.name);
                self.code(2054, base.unit);
            }
        }
        if epsg::kind(code).is_some() {
            self.code(3076, epsg::projected_unit(code));
        }
    }

    fn name_geographic(&mut self, code: u16) {
        self.code(1024, 2);
        self.code(2048, code);
        if let Some(row) = epsg::geographic(code) {
            self.text(2049, row.name);
            self.code(2054, row.unit);
            self.figure(Ellipsoid::from_code(row.ellipsoid).as_ref());
        }
    }

    /// Writes a geocentric system. There is no key for its code: GDAL writes its datum, and accepts its code in
    /// the key of the geographic code.
    fn name_geocentric(&mut self, code: u16) {
        self.code(1024, 3);
        let Some((row, true)) = solid_row(code) else {
            self.code(2048, code);
            return;
        };
        self.text(1026, row.name);
        self.code(2048, USER_DEFINED);
        self.code(2050, row.datum);
        self.code(2052, 9001);
        self.code(2054, row.unit);
        self.figure(Ellipsoid::from_code(row.ellipsoid).as_ref());
    }

    fn figure(&mut self, ellipsoid: Option<&Ellipsoid>) {
        let Some(ellipsoid) = ellipsoid else { return };
        self.put(2057, ellipsoid.semi_major);
        if ellipsoid.inverse_flattening == 0.0 {
            self.put(2058, ellipsoid.semi_major);
        } else {
            self.put(2059, ellipsoid.inverse_flattening);
        }
    }

    fn spell(&mut self, crs: &Crs) -> Result<(), CrsKeysError> {
        let undefined = || CrsKeysError::Undefined { name: crs.name.clone() };
        if crs.kind == CrsKind::Engineering {
            self.linear_unit(&crs.linear_unit);
            return Ok(());
        }
        let base = crs.geographic.as_ref().filter(|base| base.ellipsoid.is_some()).ok_or_else(undefined)?;
        self.spell_geographic(base, crs.kind == CrsKind::Geocentric);
        match crs.kind {
            CrsKind::Geocentric => {
                self.code(1024, 3);
                self.code(2052, crs.linear_unit.epsg.unwrap_or(USER_DEFINED));
                if crs.linear_unit.epsg.is_none() {
                    self.put(2053, crs.linear_unit.factor);
                }
            }
            CrsKind::Projected => {
                self.linear_unit(&crs.linear_unit);
                match (&crs.projection, crs.to_esri_wkt()) {
                    (_, Some(words)) => {
                        self.code(1024, USER_DEFINED);
                        self.text(3073, &format!("ESRI PE String = {words}"));
                    }
                    (Some(projection), None) => {
                        self.code(1024, 1);
                        self.code(3072, USER_DEFINED);
                        self.spell_projection(projection, base, &crs.linear_unit);
                    }
                    (None, None) => return Err(undefined()),
                }
            }
            _ => self.code(1024, 2),
        }
        Ok(())
    }

    fn spell_geographic(&mut self, base: &Geographic, geocentric: bool) {
        let coded = base.epsg.filter(|_| !geocentric);
        self.code(2048, coded.unwrap_or(USER_DEFINED));
        let unit = &base.angular_unit;
        self.code(2054, unit.epsg.map_or(USER_DEFINED, |code| if code == 9122 { 9102 } else { code }));
        if unit.epsg.is_none() {
            self.put(2055, unit.factor);
        }
        self.figure(base.ellipsoid.as_ref());
        if coded.is_some() {
            self.text(2049, &base.name);
            return;
        }
        let figure = base.ellipsoid.as_ref();
        self.code(2050, base.datum.epsg.unwrap_or(USER_DEFINED));
        if base.datum.epsg.is_none() {
            self.code(2056, figure.and_then(|figure| figure.epsg).unwrap_or(USER_DEFINED));
        }
        let meridian = &base.prime_meridian;
        match meridian.epsg {
            // GDAL misreads the longitude of a user-defined meridian in grads; a code cannot be misread.
            Some(code) if code != 8901 => self.code(2051, code),
            _ => self.put(2061, meridian.longitude * DEGREE / unit.factor),
        }
        if geocentric {
            return;
        }
        let parts = [
            ("GCS Name", Some(base.name.as_str())),
            ("Datum", Some(base.datum.name.as_str()).filter(|_| base.datum.epsg.is_none())),
            ("Ellipsoid", figure.filter(|own| own.epsg.is_none()).map(|figure| figure.name.as_str())),
            ("Primem", Some(meridian.name.as_str())),
            ("AUnits", Some(unit.name.as_ref()).filter(|_| unit.epsg.is_none())),
        ];
        let parts =
            parts.iter().filter_map(|(key, value)| Some(format!("{key} = {}|", value.as_ref()?.replace('|', "/"))));
        let citation: String = parts.collect();
        self.text(2049, &citation);
    }

    fn linear_unit(&mut self, unit: &Unit) {
        self.code(3076, unit.epsg.unwrap_or(USER_DEFINED));
        if unit.epsg.is_none() {
            self.put(3077, unit.factor);
            self.text(3073, &format!("LUnits = {}", unit.name.replace('|', "/")));
            // This key states that false eastings are in this unit; older versions of GDAL read them as metres.
            self.code(3059, 1);
        }
    }

    fn spell_projection(&mut self, projection: &Projection, base: &Geographic, unit: &Unit) {
        // Every reader supports the codes of UTM zones.
        let zone = |code: &u16| matches!(code, 16001..=16060 | 16101..=16160) && unit.epsg == Some(9001);
        if let Some(code) = projection.epsg.filter(zone) {
            self.code(3074, code);
            return;
        }
        let swiss = swiss_as_oblique(projection, base);
        let projection = swiss.as_ref().unwrap_or(projection);
        self.code(3074, USER_DEFINED);
        self.code(3075, projection.method.code);
        for (own, parameter) in projection.parameters.iter().zip(projection.method.parameters) {
            let Some(&key) = parameter.keys.first() else { continue };
            let value = match own.quantity {
                Quantity::Azimuth => own.value * base.angular_unit.factor / DEGREE,
                _ => own.value,
            };
            self.put(key, value);
        }
        if projection.method.id == "PSB" {
            // Both variants use this key. Without it readers disagree about the variant.
            self.put(3092, 1.0);
        }
    }

    fn add_heights(&mut self, crs: &Crs) -> Result<(), CrsKeysError> {
        let row = crs.geographic.as_ref().and_then(|base| base.epsg).and_then(epsg::geographic);
        let solid = crs.vertical.as_ref().and_then(|own| own.epsg).or(row.and_then(|row| row.three_d));
        if crs.kind == CrsKind::Geographic3D || crs.vertical.as_ref().is_some_and(|own| own.ellipsoidal) {
            let code = solid.ok_or_else(|| CrsKeysError::EllipsoidalHeights { name: crs.name.clone() })?;
            self.revision = (1, 1);
            self.code(4096, code);
            return Ok(());
        }
        let Some(own) = &crs.vertical else { return Ok(()) };
        if crs.compound {
            self.revision = (1, 1);
        }
        self.spell_heights(own)
    }

    fn spell_heights(&mut self, own: &Vertical) -> Result<(), CrsKeysError> {
        self.code(4096, own.epsg.unwrap_or(USER_DEFINED));
        let native = own.epsg.and_then(epsg::vertical).and_then(|row| Unit::length(row.unit));
        if !native.as_ref().is_some_and(|native| native.same_size(&own.unit)) {
            let unit = own.unit.epsg.ok_or_else(|| CrsKeysError::HeightUnit { name: own.unit.name.to_string() })?;
            self.code(4099, unit);
        }
        if own.epsg.is_none() {
            self.text(4097, &own.name.replace('|', "/"));
            self.code(4098, own.datum.as_ref().and_then(|datum| datum.epsg).unwrap_or(USER_DEFINED));
        }
        Ok(())
    }
}

/// Returns the Swiss projection as the oblique Mercator along the parallel. GDAL expects it under that name.
fn swiss_as_oblique(projection: &Projection, base: &Geographic) -> Option<Projection> {
    let method = Method::by_id("HOMB").filter(|_| projection.method.id == "SWISS")?;
    let quarter = 90.0 * DEGREE / base.angular_unit.factor;
    let value = |name: &'static str| match name {
        "azimuth" | "rectified_grid_angle" => quarter,
        "scale_factor" => 1.0,
        other => projection.parameter(other).unwrap_or(0.0),
    };
    Some(Projection::new(method, method.parameters.iter().map(|parameter| value(parameter.name))))
}

fn key_code(code: u32) -> Result<u16, CrsKeysError> {
    let number = u16::try_from(code).ok().filter(|number| (1024..USER_DEFINED).contains(number));
    number.ok_or(CrsKeysError::CodeRange { code })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geo::Authority;

    fn read_back(keys: &GeoKeys) -> Crs {
        let tags = keys.encode().unwrap();
        let back = GeoKeys::parse(&tags.directory, &tags.doubles, &tags.ascii);
        assert_eq!(back.warnings, []);
        Crs::from_keys(&back).unwrap()
    }

    /// Returns every system of the tables, as read from its code.
    fn systems() -> impl Iterator<Item = (u16, Crs)> {
        epsg::all_codes().into_iter().map(|(code, _)| {
            let keys = GeoKeys::from_epsg(code.into(), RasterType::Area).unwrap();
            (code, read_back(&keys))
        })
    }

    #[test]
    fn every_code_of_the_tables_is_read_back() {
        for (code, crs) in systems() {
            assert_eq!(crs.epsg(), Some(code.into()));
        }
    }

    #[test]
    fn every_system_survives_conversion_to_wkt_and_back() {
        for (code, crs) in systems() {
            let Some(wkt) = crs.to_wkt() else {
                // The horizontal part of some compounds is not in the tables.
                assert!(crs.compound, "{code}");
                continue;
            };
            let read = Crs::from_wkt(&wkt).unwrap();
            let mut back = read_back(&GeoKeys::from_crs(&read, RasterType::Area).unwrap());
            if crs.kind == CrsKind::Geographic3D {
                // The only difference is the name of the plane, which the keys of a code do not contain.
                assert_eq!(back.citations.geographic.take().as_ref(), Some(&crs.name));
            }
            assert_eq!(back, crs, "{code}");
        }
    }

    #[test]
    fn every_grid_survives_as_a_full_definition() {
        let keyed = |crs: &Crs| crs.projection.as_ref().is_some_and(|projection| projection.method.code != 0);
        let named = |crs: &Crs| crs.kind == CrsKind::Projected && !crs.compound && keyed(crs);
        for (code, mut crs) in systems().filter(|(_, crs)| named(crs)) {
            (crs.code, crs.declared, crs.horizontal) = (None, None, None);
            let mut expected = crs.projection.take().unwrap();
            expected.epsg = None;
            crs.projection = Some(expected.clone());
            let back = read_back(&GeoKeys::from_crs(&crs, RasterType::Point).unwrap());
            let method = back.projection.as_ref().unwrap();
            assert_eq!(
                (method.method.id, &back.name, &back.linear_unit),
                (expected.method.id, &crs.name, &crs.linear_unit)
            );
            for (own, wanted) in method.parameters.iter().zip(&expected.parameters) {
                assert!((own.value - wanted.value).abs() <= 1e-12 * wanted.value.abs(), "{code} {own:?} {wanted:?}");
            }
            assert_eq!(back.geographic, crs.geographic, "{code}");
        }
    }

    #[test]
    fn user_defined_base_keeps_its_names_units_and_shift() {
        let text = r#"PROJCS["my | grid",GEOGCS["my gcs",DATUM["my datum",SPHEROID["my figure",6370000.5,300.25],
            TOWGS84[1,2,3,4,5,6,7]],PRIMEM["mine",1.5],UNIT["my angle",0.001]],PROJECTION["Transverse_Mercator"],
            PARAMETER["latitude_of_origin",2],PARAMETER["central_meridian",-3.25],PARAMETER["scale_factor",0.5],
            PARAMETER["false_easting",100],PARAMETER["false_northing",0.1],UNIT["my \"\"foot\"\"",0.3]]"#;
        let crs = Crs::from_wkt(&text.replace("\\\"", "\"")).unwrap();
        let keys = GeoKeys::from_crs(&crs, RasterType::Point).unwrap();
        let back = read_back(&keys);
        assert_eq!((&back.projection, &back.linear_unit.factor), (&crs.projection, &0.3));
        let (back, own) = (back.geographic.unwrap(), crs.geographic.unwrap());
        assert!((back.prime_meridian.longitude - 1.5).abs() < 1e-12);
        assert_eq!(Geographic { prime_meridian: own.prime_meridian.clone(), ..back }, own);
        assert_eq!(
            (keys.short(1025), keys.ascii(3073), keys.ascii(1026)),
            (Some(2), Some("LUnits = my \"foot\""), Some("my | grid"))
        );
    }

    #[test]
    fn methods_without_a_key_are_written_as_esri_wkt() {
        let base = r#"GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563]],PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]]"#;
        for method in Method::all().filter(|method| method.code == 0) {
            let values = (0..).map(|n| 10.5 + f64::from(n));
            let crs = Crs::from_wkt(&format!(r#"PROJCS["x",{base},PROJECTION["Robinson"],UNIT["metre",1]]"#)).unwrap();
            let mut projection = Projection::new(method, values);
            if method.id == "WEBM" {
                // ESRI's method has no latitude.
                projection.parameters[0].value = 0.0;
            }
            let crs = Crs { projection: Some(projection), ..crs };
            let keys = GeoKeys::from_crs(&crs, RasterType::Area).unwrap();
            assert!(
                keys.ascii(3073).unwrap().starts_with("ESRI PE String = PROJCS[\"x\",GEOGCS[\"GCS_WGS_84\""),
                "{keys:?}"
            );
            assert_eq!(read_back(&keys).projection, crs.projection, "{}", method.name);
        }
    }

    #[test]
    fn keys_of_a_code_are_those_of_gdal() {
        let short = |keys: &GeoKeys, ids: &[u16]| ids.iter().map(|id| keys.short(*id).unwrap_or(0)).collect::<Vec<_>>();
        let keys = GeoKeys::from_epsg(27572, RasterType::Area).unwrap();
        assert_eq!(short(&keys, &[1024, 1025, 2048, 2054, 3072, 3076]), [1, 1, 0, 9105, 27572, 9001]);
        assert_eq!((keys.ascii(1026), keys.ascii(2049)), (Some("NTF (Paris) / Lambert zone II"), Some("NTF (Paris)")));
        let keys = GeoKeys::from_epsg(4979, RasterType::Point).unwrap();
        assert_eq!((keys.revision, short(&keys, &[1024, 1025, 2048, 4096])), ((1, 1), vec![2, 2, 4326, 4979]));
        let keys = GeoKeys::from_epsg(7405, RasterType::Area).unwrap();
        assert_eq!((keys.revision, short(&keys, &[1024, 3072, 3076, 4096])), ((1, 1), vec![1, 27700, 0, 5701]));
        let keys = GeoKeys::from_epsg(4978, RasterType::Area).unwrap();
        assert_eq!(short(&keys, &[1024, 2048, 2050, 2052]), [3, 32767, 6326, 9001]);
    }

    #[test]
    fn codes_outside_the_tables_are_written_if_the_caller_states_their_kind() {
        assert_eq!(GeoKeys::from_epsg(1500, RasterType::Area), Err(CrsKeysError::UnknownCode { code: 1500 }));
        for kind in [CrsKind::Projected, CrsKind::Geographic] {
            let keys = GeoKeys::from_epsg_as(1500, kind, RasterType::Area).unwrap();
            assert_eq!((read_back(&keys).kind, read_back(&keys).epsg()), (kind, Some(1500)));
        }
        // The tables contain the kind (projected) and the unit (feet) of this code, but not its definition.
        assert_eq!(GeoKeys::from_epsg(10980, RasterType::Area).unwrap().short(3076), Some(9002));
    }

    #[test]
    fn heights_are_written_with_their_unit_or_refused() {
        let with = |vertical: &str| {
            let text = format!(
                r#"COMPD_CS["c",{},{vertical}]"#,
                systems().find(|(code, _)| *code == 32633).unwrap().1.to_wkt().unwrap()
            );
            GeoKeys::from_crs(&Crs::from_wkt(&text).unwrap(), RasterType::Area)
        };
        let keys = with(r#"VERT_CS["mine",VERT_DATUM["my sea",2005],UNIT["foot",0.3048]]"#).unwrap();
        let crs = read_back(&keys);
        let vertical = crs.vertical.unwrap();
        assert_eq!((crs.compound, vertical.name.as_str(), vertical.unit.epsg), (true, "mine", Some(9002)));
        assert_eq!(crs.horizontal, Some(32633));
        let refused = with(r#"VERT_CS["mine",VERT_DATUM["my sea",2005],UNIT["ell",0.6]]"#);
        assert_eq!(refused, Err(CrsKeysError::HeightUnit { name: "ell".into() }));
    }

    #[test]
    fn esri_code_is_kept_by_its_name() {
        let text = r#"PROJCS["North_America_Albers_Equal_Area_Conic",GEOGCS["NAD83",DATUM["North_American_Datum_1983",
            SPHEROID["GRS 1980",6378137,298.257222101]],PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433],AUTHORITY["EPSG","4269"]],
            PROJECTION["Albers_Conic_Equal_Area"],PARAMETER["latitude_of_center",40],PARAMETER["longitude_of_center",-96],
            PARAMETER["standard_parallel_1",20],PARAMETER["standard_parallel_2",60],PARAMETER["false_easting",0],
            PARAMETER["false_northing",0],UNIT["metre",1],AUTHORITY["ESRI","102008"]]"#;
        let crs = Crs::from_wkt(text).unwrap();
        assert_eq!(crs.code.map(|code| (code.authority, code.number)), Some((Authority::Esri, 102_008)));
        assert_eq!(read_back(&GeoKeys::from_crs(&crs, RasterType::Area).unwrap()).code, crs.code);
    }
}
