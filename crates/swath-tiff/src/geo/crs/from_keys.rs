//! The coordinate reference system that GeoKeys define.

use super::{Citations, Code, Crs, CrsKind, Projection, Vertical};
use crate::geo::epsg;
use crate::geo::geographic::{Datum, Geographic, USER_DEFINED, key_angle, linear_unit, part, real, solid_row, whole};
use crate::geo::identify;
use crate::geo::keys::GeoKeys;
use crate::geo::method::{Method, MethodParameter, Quantity};
use crate::geo::names::{DEGREE, Unit};
use crate::geo::wkt;

impl Crs {
    /// Returns the reference system of the keys, or `None` if they do not define one.
    pub fn from_keys(keys: &GeoKeys) -> Option<Self> {
        if keys.keys.iter().all(|key| key.id == 1025) {
            return None;
        }
        let text = |id| keys.ascii(id).map(str::to_owned);
        let citations =
            Citations { general: text(1026), geographic: text(2049), projected: text(3073), vertical: text(4097) };
        let esri =
            citations.projected.as_deref().and_then(esri_string).or(citations.general.as_deref().and_then(esri_string));
        let esri = esri.map(str::to_owned);
        let mut crs = match kind(keys, esri.is_some()) {
            CrsKind::Projected => projected(keys, citations, esri),
            CrsKind::Geographic | CrsKind::Geographic3D => geographic(keys, citations),
            CrsKind::Geocentric => geocentric(keys, citations),
            CrsKind::Engineering => engineering(keys, citations),
        };
        crs.epoch = keys.double(5120);
        crs.add_heights(keys);
        Some(crs)
    }

    fn add_heights(&mut self, keys: &GeoKeys) {
        self.vertical = vertical(keys, self.geographic.as_ref());
        let Some(vertical) = &self.vertical else { return };
        if vertical.ellipsoidal {
            let row = self.horizontal.and_then(epsg::geographic);
            self.code = row.and_then(|row| row.three_d).map(Code::epsg);
            if self.kind == CrsKind::Geographic {
                self.kind = CrsKind::Geographic3D;
            }
            return;
        }
        self.compound = keys.revision >= (1, 1) && self.kind != CrsKind::Engineering;
        if self.compound {
            let pair = self.horizontal.zip(vertical.epsg);
            self.code = pair.and_then(|(h, v)| epsg::compound(h, v)).map(Code::epsg);
        }
    }
}

fn kind(keys: &GeoKeys, esri: bool) -> CrsKind {
    let has = |id| keys.get(id).is_some();
    let projection =
        real(keys.short(3072)).is_some() || real(keys.short(3074)).is_some() || real(keys.short(3075)).is_some();
    match keys.short(1024) {
        Some(2) => CrsKind::Geographic,
        Some(3) => CrsKind::Geocentric,
        _ if projection || esri => CrsKind::Projected,
        // "Projected" without a projection: the coordinates are not longitudes, even if there are geographic
        // keys.
        Some(1) => CrsKind::Engineering,
        _ if has(2048) || has(2050) || has(2056) || has(2057) => CrsKind::Geographic,
        _ => CrsKind::Engineering,
    }
}

fn projected(keys: &GeoKeys, citations: Citations, esri: Option<String>) -> Crs {
    // Codes below 1024 are obsolete, and codes above 32767 are private.
    let code = real(keys.short(3072)).filter(|code| (1024..USER_DEFINED).contains(code));
    let row = code.and_then(epsg::projected);
    // ESRI's text can describe systems that the keys cannot; a code is more precise.
    if let Some(text) = esri.filter(|_| code.is_none())
        && let Some(crs) = wkt::read_lenient(&text)
    {
        return Crs { citations, esri_wkt: Some(text), ..crs };
    }
    let base = match &row {
        Some(row) => Geographic::under(row, keys),
        None => Geographic::from_keys(keys, None),
    };
    let native = code.map(|code| Unit::length(epsg::projected_unit(code)).unwrap_or(Unit::METRE));
    let stated = linear_unit(keys, 3076, 3077).or_else(|| imagine_unit(&citations));
    let unit_kept = native.as_ref().zip(stated.as_ref()).is_none_or(|(native, stated)| native.same_size(stated));
    let unit = stated.or(native).unwrap_or(Unit::METRE);
    let projection = Projection::from_keys(keys, &base, &unit)
        .or_else(|| Projection::from_conversion(row.as_ref()?.conversion, &base, &unit));
    let name = match &row {
        Some(row) => row.name.clone(),
        None => system_name(&citations).unwrap_or("unnamed").to_owned(),
    };
    let is_under = row.as_ref().is_none_or(|row| base.is_under(row));
    let named = code.filter(|_| unit_kept && base.agrees() && is_under);
    // A projected code with the code of another geographic system means the system that has both that
    // projection and that datum, if there is one.
    let moved = base.epsg.is_some() && !is_under;
    let found = match &projection {
        Some(projection) if code.is_none() || moved => identify::projected(projection, &base, &unit, &name),
        _ => None,
    };
    Crs {
        name,
        code: named.map(Code::epsg).or(found),
        declared: code,
        horizontal: named.or(found.and_then(Code::as_epsg)),
        identified: found.is_some(),
        projection,
        geographic: Some(base),
        ..Crs::bare(CrsKind::Projected, unit, citations)
    }
}

fn geographic(keys: &GeoKeys, citations: Citations) -> Crs {
    let code = real(keys.short(2048));
    // In a file that declares itself geographic, a projected code names the geographic system of that
    // projection.
    let fallback = real(keys.short(3072)).and_then(epsg::projected).map(|row| row.geographic);
    let base = Geographic::from_keys(keys, fallback);
    let (kind, whole) = match code.and_then(solid_row) {
        Some((_, true)) => (CrsKind::Geocentric, code),
        // Explicit ellipsoid axes turn a three-dimensional system into a two-dimensional one, as in GDAL.
        Some((row, false)) if keys.get(2057).is_some() => (CrsKind::Geographic, Some(row.code)),
        Some(_) => (CrsKind::Geographic3D, code),
        None => (CrsKind::Geographic, base.epsg),
    };
    let named = whole.filter(|_| base.agrees());
    let found = if code.is_none() && named.is_none() { identify::geographic(&base) } else { None };
    Crs {
        name: base.name.clone(),
        code: named.or(found).map(Code::epsg),
        declared: code,
        horizontal: base.epsg.or(found),
        identified: found.is_some(),
        geographic: Some(base),
        ..Crs::bare(kind, Unit::METRE, citations)
    }
}

fn geocentric(keys: &GeoKeys, citations: Citations) -> Crs {
    let base = Geographic::from_keys(keys, None);
    let row = base.datum.epsg.and_then(epsg::geographic_of_datum);
    // GDAL accepts a geocentric code in the key of the geographic code.
    let stated = real(keys.short(2048)).filter(|code| epsg::kind(*code) == Some(epsg::EpsgKind::Geocentric));
    let code = stated.or_else(|| row.and_then(|row| row.geocentric).filter(|_| base.agrees()));
    let unit = linear_unit(keys, 2052, 2053).unwrap_or(Unit::METRE);
    Crs {
        name: citations.general.clone().unwrap_or_else(|| base.name.clone()),
        code: code.map(Code::epsg),
        horizontal: code,
        geographic: Some(base),
        ..Crs::bare(CrsKind::Geocentric, unit, citations)
    }
}

fn engineering(keys: &GeoKeys, citations: Citations) -> Crs {
    let unit = linear_unit(keys, 3076, 3077).unwrap_or(Unit::METRE);
    let name = citations.general.as_deref().or(citations.projected.as_deref()).unwrap_or("unnamed").to_owned();
    let geographic = keys.get(2048).is_some().then(|| Geographic::from_keys(keys, None));
    Crs { name, geographic, ..Crs::bare(CrsKind::Engineering, unit, citations) }
}

/// Returns the unit that ERDAS IMAGINE writes into a citation; it overrides the unit of the code.
fn imagine_unit(citations: &Citations) -> Option<Unit> {
    let texts = [citations.general.as_deref(), citations.projected.as_deref()];
    texts.into_iter().flatten().filter(|text| text.starts_with("IMAGINE GeoTIFF Support")).find_map(|text| {
        let unit = text.lines().find_map(|line| line.strip_prefix("Units = "))?;
        match unit.trim().to_ascii_lowercase().as_str() {
            "meters" | "meter" | "metres" | "metre" => Some(Unit::METRE),
            "us_survey_feet" => Unit::length(9003),
            "international_feet" | "feet" => Unit::length(9002),
            _ => None,
        }
    })
}

impl Projection {
    fn from_keys(keys: &GeoKeys, base: &Geographic, unit: &Unit) -> Option<Self> {
        let Some(method) = real(keys.short(3075)).and_then(|code| Method::from_keys(code, keys)) else {
            return Self::from_conversion(real(keys.short(3074))?, base, unit);
        };
        let angle = key_angle(keys).factor / base.angular_unit.factor;
        let azimuth = keys.short(2060).and_then(Unit::angle).unwrap_or(Unit::DEGREE).factor / base.angular_unit.factor;
        let value = |parameter: &MethodParameter| match (parameter.read(keys), parameter.quantity) {
            (Some(value), Quantity::Angle) => value * angle,
            (Some(value), Quantity::Azimuth) => value * azimuth,
            (Some(value), _) => value,
            (None, Quantity::Azimuth) => parameter.default() * DEGREE / base.angular_unit.factor,
            (None, _) => parameter.default(),
        };
        Some(Self::new(method, method.parameters.iter().map(value)))
    }

    /// Returns the projection with this EPSG code, in the units of the system that uses it.
    fn from_conversion(code: u16, base: &Geographic, unit: &Unit) -> Option<Self> {
        let row = epsg::conversion(code)?;
        let method = Method::by_id(row.method)?;
        let length = Unit::length(row.unit)?.factor / unit.factor;
        let angle = DEGREE / base.angular_unit.factor;
        let values = method.parameters.iter().zip(row.values()).map(|(parameter, value)| match parameter.quantity {
            Quantity::Length => value * length,
            Quantity::Angle | Quantity::Azimuth => value * angle,
            Quantity::Scale => value,
        });
        Some(Self { epsg: Some(code), ..Self::new(method, values) })
    }
}

fn vertical(keys: &GeoKeys, base: Option<&Geographic>) -> Option<Vertical> {
    let mut code = real(keys.short(4096));
    if keys.revision < (1, 1) {
        // The vertical systems of GeoTIFF 1.0, section 6.3.4.1, were named after their datums.
        code = code.map(|code| if (5101..=5112).contains(&code) { code + 600 } else { code });
    }
    let datum = real(keys.short(4098));
    let citation = keys.ascii(4097);
    if [4096, 4098, 4099].into_iter().all(|id| keys.get(id).is_none()) {
        return None;
    }
    let flat = base.and_then(|base| base.epsg).and_then(epsg::geographic);
    // 5001 to 5033 are the ellipsoidal heights of GeoTIFF 1.0, section 6.3.4.1.
    let ellipsoidal =
        code.is_some_and(|code| (5001..=5033).contains(&code) || flat.is_some_and(|row| row.three_d == Some(code)));
    let row = code.and_then(epsg::vertical);
    // GDAL drops an unknown code, whatever the other vertical keys state.
    if code.is_some_and(|code| epsg::kind(code) != Some(epsg::EpsgKind::Vertical)) && !ellipsoidal {
        return None;
    }
    let datum_row = datum.and_then(epsg::vertical_of_datum);
    // A code defines its unit, and GDAL does not let a key change it.
    let unit = row.and_then(|row| Unit::length(row.unit)).or_else(|| keys.short(4099).and_then(Unit::length));
    let name = row.map(|row| row.name).or(citation.and_then(|text| part(text, "VCS Name").or(whole(text))));
    let datum_name = citation.and_then(|text| part(text, "Datum Name"));
    let datum_name = row.or(datum_row).map(|row| row.datum_name).or(datum_name).unwrap_or("unknown");
    Some(Vertical {
        epsg: code,
        name: name.unwrap_or("unknown").into(),
        datum: (!ellipsoidal).then(|| Datum { epsg: row.map(|row| row.datum).or(datum), name: datum_name.into() }),
        unit: unit.unwrap_or(Unit::METRE),
        ellipsoidal,
    })
}

fn system_name(citations: &Citations) -> Option<&str> {
    let texts = [citations.general.as_deref(), citations.projected.as_deref()];
    texts.into_iter().flatten().find_map(|text| part(text, "PCS Name").or(whole(text)))
}

fn esri_string(citation: &str) -> Option<&str> {
    let text = citation.trim_start().strip_prefix("ESRI PE String")?.trim_start().strip_prefix('=')?;
    Some(text.trim_matches(['|', ' ']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geo::{Authority, KeyValue};

    fn keys(shorts: &[(u16, u16)], doubles: &[(u16, f64)], texts: &[(u16, &str)]) -> GeoKeys {
        let mut keys = GeoKeys { version: 1, revision: (1, 0), ..GeoKeys::default() };
        for &(id, value) in shorts {
            keys.set(id, KeyValue::Short(value));
        }
        for &(id, value) in doubles {
            keys.set(id, KeyValue::Doubles(vec![value]));
        }
        for &(id, value) in texts {
            keys.set(id, KeyValue::Ascii(value.into()));
        }
        keys
    }

    fn epsg_of(shorts: &[(u16, u16)], doubles: &[(u16, f64)], texts: &[(u16, &str)]) -> Option<u32> {
        Crs::from_keys(&keys(shorts, doubles, texts)).unwrap().epsg()
    }

    #[test]
    fn missing_model_type_is_read_from_the_other_keys() {
        assert_eq!(epsg_of(&[(2048, 4326)], &[], &[]), Some(4326));
        assert_eq!(epsg_of(&[(3072, 32631)], &[], &[]), Some(32631));
        assert_eq!(Crs::from_keys(&keys(&[(1025, 1)], &[], &[])), None);
    }

    #[test]
    fn projected_without_a_projection_is_not_geographic() {
        let crs = Crs::from_keys(&keys(&[(1024, 1), (2048, 4326)], &[], &[])).unwrap();
        assert_eq!((crs.kind, crs.epsg()), (CrsKind::Engineering, None));
    }

    #[test]
    fn user_defined_projection_over_a_geographic_code_is_read() {
        let albers = [(3078, 29.5), (3079, 45.5), (3080, -96.0), (3081, 23.0), (3082, 0.0), (3083, 0.0)];
        let shorts = [(1024, 1), (2048, 4269), (3072, 32767), (3074, 32767), (3075, 11), (3076, 9001)];
        let crs = Crs::from_keys(&keys(&shorts, &albers, &[(1026, "Albers Conical Equal Area")])).unwrap();
        assert_eq!((crs.epsg(), crs.identified), (Some(5070), true));
        let crs = Crs::from_keys(&keys(&shorts, &albers, &[(1026, ESRI_ALBERS)])).unwrap();
        assert_eq!(crs.code, Some(Code { authority: Authority::Esri, number: 102039 }));
    }

    const ESRI_ALBERS: &str = "USA_Contiguous_Albers_Equal_Area_Conic_USGS_version";

    #[test]
    fn other_unit_removes_the_code() {
        assert_eq!(epsg_of(&[(1024, 1), (3072, 26931), (3076, 9003)], &[], &[]), None);
        assert_eq!(epsg_of(&[(1024, 1), (3072, 2225), (3076, 9001)], &[], &[]), None);
        assert_eq!(epsg_of(&[(1024, 1), (3072, 2225), (3076, 9003)], &[], &[]), Some(2225));
        assert_eq!(epsg_of(&[(1024, 1), (3072, 26931), (3076, 32767)], &[(3077, 1.0)], &[]), Some(26931));
        let imagine = "IMAGINE GeoTIFF Support\nUnits = international_FeeT\nGeoTIFF Units = x";
        assert_eq!(epsg_of(&[(1024, 1), (3072, 2838)], &[], &[(1026, imagine)]), None);
    }

    #[test]
    fn false_easting_follows_the_unit_of_the_file() {
        let crs = Crs::from_keys(&keys(&[(1024, 1), (3072, 26941), (3076, 9003)], &[], &[])).unwrap();
        let easting = crs.projection.unwrap().parameter("false_easting").unwrap();
        assert!((easting - 6_561_666.666_666_667).abs() < 1e-6, "{easting}");
    }

    #[test]
    fn other_ellipsoid_removes_the_code_but_rounding_does_not() {
        let rd = [(1024, 1), (2048, 4289), (3072, 28992)];
        assert_eq!(epsg_of(&rd, &[(2057, 6377397.155), (2059, 299.152813106079)], &[]), None);
        assert_eq!(epsg_of(&rd, &[(2057, 6377397.155), (2059, 299.1528128000008)], &[]), Some(28992));
    }

    #[test]
    fn projected_code_over_another_datum_is_not_that_code() {
        assert_eq!(epsg_of(&[(1024, 1), (3072, 26915), (2048, 4267)], &[], &[]), Some(26715));
        assert_eq!(epsg_of(&[(1024, 1), (3072, 32633), (2048, 4258)], &[], &[]), Some(25833));
        for other in [(2048, 4326), (2050, 6326), (2056, 7030)] {
            assert_eq!(epsg_of(&[(1024, 1), (3072, 27700), other], &[], &[]), None, "{other:?}");
        }
        for same in [(2048, 4277), (2050, 6277), (2056, 7001)] {
            assert_eq!(epsg_of(&[(1024, 1), (3072, 27700), same], &[], &[]), Some(27700), "{same:?}");
        }
        assert_eq!(epsg_of(&[(1024, 1), (3072, 3857), (2048, 4267)], &[], &[]), Some(3857));
        assert_eq!(epsg_of(&[(1024, 1), (3072, 3857), (2048, 4326)], &[(2057, 6378137.0)], &[]), Some(3857));
    }

    #[test]
    fn meridian_beside_a_projected_code_does_not_move_it() {
        assert_eq!(epsg_of(&[(1024, 1), (3072, 27572), (2051, 8901)], &[], &[]), Some(27572));
        assert_eq!(epsg_of(&[(1024, 1), (3072, 27700), (2051, 8903)], &[], &[]), Some(27700));
        assert_eq!(epsg_of(&[(1024, 1), (3072, 27700)], &[(2061, 2.5)], &[]), Some(27700));
        assert_eq!(epsg_of(&[(1024, 1), (3072, 27700), (2048, 4277), (2051, 8903)], &[], &[]), None);
        assert_eq!(epsg_of(&[(1024, 2), (2048, 4277)], &[(2061, 2.5)], &[]), Some(4277));
        assert_eq!(epsg_of(&[(1024, 2), (2048, 4277), (2051, 32767)], &[(2061, 2.5)], &[]), None);
    }

    #[test]
    fn utm_on_an_unnamed_datum_is_found_by_its_ellipsoid() {
        let shorts =
            [(1024, 1), (2048, 32767), (2050, 32767), (2056, 32767), (3072, 32767), (3074, 16032), (3076, 9001)];
        let axes = [(2057, 6378137.0), (2059, 298.257222101)];
        let citation = "GCS Name = x|Datum = unknown|Ellipsoid = unnamed|Primem = Greenwich||";
        assert_eq!(epsg_of(&shorts, &axes, &[(2049, citation)]), Some(25832));
        let other = "GCS Name = x|Datum = Not_specified_based_on_GRS_80_spheroid|";
        assert_eq!(epsg_of(&shorts, &axes, &[(2049, other)]), None);
    }

    #[test]
    fn state_plane_conversion_code_over_nad27_has_its_feet() {
        let shorts = [(1024, 1), (2048, 4267), (3072, 32767), (3074, 10406), (3076, 9003)];
        let crs = Crs::from_keys(&keys(&shorts, &[], &[])).unwrap();
        assert_eq!(crs.epsg(), Some(26746));
        assert_eq!(crs.projection.unwrap().parameter("false_easting"), Some(2_000_000.0));
    }

    #[test]
    fn datum_code_alone_names_the_geographic_system() {
        assert_eq!(epsg_of(&[(1024, 2), (2048, 32767), (2050, 6742), (2054, 9102)], &[], &[]), Some(4742));
        assert_eq!(epsg_of(&[(1024, 2), (2048, 32767), (2050, 6326), (2054, 9104)], &[], &[]), None);
    }

    #[test]
    fn esri_datum_name_is_recognised() {
        let citation = "GCS Name = GCS_WGS_1984|Datum = D_WGS_1984|Ellipsoid = WGS_1984|Primem = Greenwich||";
        let shorts = [(1024, 2), (2048, 32767), (2050, 32767), (2056, 32767)];
        assert_eq!(epsg_of(&shorts, &[(2057, 6378137.0), (2059, 298.257223563)], &[(2049, citation)]), Some(4326));
    }

    #[test]
    fn ellipsoidal_heights_select_the_three_dimensional_code() {
        assert_eq!(epsg_of(&[(1024, 2), (2048, 4326), (4096, 5030)], &[], &[]), Some(4979));
        assert_eq!(epsg_of(&[(1024, 2), (2048, 4979)], &[], &[]), Some(4979));
        assert_eq!(epsg_of(&[(1024, 2), (2048, 4978)], &[], &[]), Some(4978));
        assert_eq!(epsg_of(&[(1024, 1), (3072, 32631), (4096, 5030)], &[], &[]), None);
    }

    #[test]
    fn vertical_keys_of_a_1_0_file_do_not_hide_the_horizontal_code() {
        let mut keys = keys(&[(1024, 1), (3072, 27700), (4096, 5701)], &[], &[]);
        let crs = Crs::from_keys(&keys).unwrap();
        assert_eq!((crs.epsg(), crs.vertical.unwrap().name.as_str()), (Some(27700), "ODN height"));
        keys.revision = (1, 1);
        assert_eq!(Crs::from_keys(&keys).unwrap().epsg(), Some(7405));
    }

    #[test]
    fn unknown_vertical_codes_do_not_hide_the_horizontal_code() {
        let with = |vertical: &[(u16, u16)], texts: &[(u16, &str)]| {
            let mut keys = keys(&[&[(1024, 1), (3072, 32633)], vertical].concat(), &[], texts);
            keys.revision = (1, 1);
            let crs = Crs::from_keys(&keys).unwrap();
            (crs.epsg(), crs.vertical.map(|vertical| vertical.unit.name.to_string()))
        };
        assert_eq!(with(&[(4096, 9999)], &[]), (Some(32633), None));
        assert_eq!(with(&[(4096, 9999), (4098, 5171), (4099, 9003)], &[(4097, "mine")]), (Some(32633), None));
        assert_eq!(with(&[], &[(4097, "mine")]), (Some(32633), None));
        assert_eq!(with(&[(4096, 32767), (4099, 9003)], &[]), (None, Some("US survey foot".into())));
    }

    #[test]
    fn unit_beside_a_vertical_code_does_not_change_it() {
        for (code, unit, name) in [(5703, 9003, "metre"), (6360, 9001, "US survey foot"), (5103, 9003, "metre")] {
            let crs = Crs::from_keys(&keys(&[(1024, 1), (3072, 32633), (4096, code), (4099, unit)], &[], &[])).unwrap();
            assert_eq!(crs.vertical.unwrap().unit.name, name, "{code}");
        }
    }

    #[test]
    fn private_and_obsolete_codes_are_not_epsg() {
        for code in [0, 7, 1000, 54009, 65535] {
            assert_eq!(epsg_of(&[(1024, 1), (3072, code), (3076, 9001)], &[], &[]), None, "{code}");
        }
    }

    #[test]
    fn invalid_axes_are_not_an_ellipsoid() {
        for a in [-1.0, 0.0, f64::NAN, f64::INFINITY] {
            let crs = Crs::from_keys(&keys(&[(1024, 2), (2048, 32767)], &[(2057, a), (2059, 200.0)], &[])).unwrap();
            assert_eq!((crs.geographic.as_ref().and_then(|g| g.ellipsoid.as_ref()), crs.to_wkt()), (None, None), "{a}");
        }
    }

    #[test]
    fn angles_in_grads_stay_in_grads() {
        let shorts = [(1024, 1), (2048, 4807), (2054, 9105), (3072, 32767), (3075, 9), (3076, 9001)];
        let doubles = [(3080, 0.0), (3081, 51.99999999999999), (3082, 600000.0), (3083, 2200000.0), (3092, 0.99987742)];
        let crs = Crs::from_keys(&keys(&shorts, &doubles, &[])).unwrap();
        assert_eq!(crs.epsg(), Some(27572));
        assert_eq!(crs.projection.unwrap().parameter("latitude_of_origin"), Some(51.99999999999999));
    }
}
