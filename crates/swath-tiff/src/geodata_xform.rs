//! Georeferencing by Esri: the `GeodataXform` element, inside PAM or as its own document, and the coordinate
//! system in `<metadata>`.

use crate::geo::Gcp;
use crate::number;
use crate::xml::{self, Element, XmlError, XmlLimits};

/// The resolution tags of the image. They locate Esri's control points, which are in inches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resolution {
    /// The XResolution tag.
    pub x: f64,
    /// The YResolution tag.
    pub y: f64,
    /// The ResolutionUnit tag; 2 is inch.
    pub unit: u16,
}

/// The georeferencing of the image.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Placement {
    /// GDAL's geotransform.
    pub geo_transform: Option<[f64; 6]>,
    /// Ground control points.
    pub gcps: Vec<Gcp>,
}

/// Esri's description of how an image was georeferenced.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct GeodataXform {
    /// The kind of transform without its prefix: `PolynomialXform`, `IdentityXform` ...
    pub kind: String,
    /// The order of the polynomial.
    pub order: Option<u32>,
    /// The coordinate system as WKT in Esri's dialect.
    pub wkt: Option<String>,
    /// Esri's number of the coordinate system at the time the file was written.
    pub wkid: Option<u32>,
    /// The current number of the coordinate system: the EPSG code if there is one.
    pub latest_wkid: Option<u32>,
    /// The control points in the image, in inches from the lower left corner if the image has a resolution.
    pub source_gcps: Vec<[f64; 2]>,
    /// The same points on the ground.
    pub target_gcps: Vec<[f64; 2]>,
    /// Coefficients of the x coordinate on the ground.
    pub coeff_x: Vec<f64>,
    /// Coefficients of the y coordinate on the ground.
    pub coeff_y: Vec<f64>,
}

impl GeodataXform {
    /// Returns the georeferencing of the image as GDAL reads it: the control points if their positions in the
    /// image can be computed, which requires a resolution per inch; otherwise the coefficients if they are
    /// affine.
    pub fn placement(&self, height: u64, resolution: Option<Resolution>) -> Placement {
        let gcps = self.gcps(height, resolution);
        let geo_transform = if gcps.is_empty() { self.geo_transform() } else { None };
        Placement { geo_transform, gcps }
    }

    fn gcps(&self, height: u64, resolution: Option<Resolution>) -> Vec<Gcp> {
        let Some(resolution) = resolution.filter(|tags| tags.unit == 2 && tags.x > 0.0 && tags.y > 0.0) else {
            return Vec::new();
        };
        if self.source_gcps.len() != self.target_gcps.len() {
            return Vec::new();
        }
        let place = |([across, up], [x, y]): (&[f64; 2], &[f64; 2])| Gcp {
            pixel: across * resolution.x,
            line: height as f64 - up * resolution.y,
            x: *x,
            y: *y,
            ..Gcp::default()
        };
        self.source_gcps.iter().zip(&self.target_gcps).map(place).collect()
    }

    fn geo_transform(&self) -> Option<[f64; 6]> {
        if self.order != Some(1) {
            return None;
        }
        let ([x, a, b], [y, d, e]) = (self.coeff_x.as_slice(), self.coeff_y.as_slice()) else {
            return None;
        };
        // Esri counts rows upwards from the centre of the first pixel; GDAL counts downwards from its corner.
        let (b, e) = (-b, -e);
        Some([x - 0.5 * a - 0.5 * b, *a, b, y - 0.5 * d - 0.5 * e, *d, e])
    }

    /// Returns the element as Esri writes it.
    pub(crate) fn to_element(&self) -> Element {
        let leaf = |name: &str, text: String| Element { text, ..Element::new(name) };
        let mut root = Element::new("GeodataXform");
        root.attributes.push(("xsi:type".into(), format!("typens:{}", self.kind)));
        for (name, value) in [
            ("xmlns:xsi", "http://www.w3.org/2001/XMLSchema-instance"),
            ("xmlns:xs", "http://www.w3.org/2001/XMLSchema"),
            ("xmlns:typens", "http://www.esri.com/schemas/ArcGIS/10.2"),
        ] {
            root.attributes.push((name.into(), value.into()));
        }
        root.children.extend(self.order.map(|order| leaf("PolynomialOrder", order.to_string())));
        let mut srs = Element::new("SpatialReference");
        srs.children.extend(self.wkt.clone().map(|wkt| leaf("WKT", wkt)));
        let codes = [("WKID", self.wkid), ("LatestWKID", self.latest_wkid)];
        srs.children.extend(codes.into_iter().filter_map(|(name, code)| Some(leaf(name, code?.to_string()))));
        if !srs.children.is_empty() {
            root.children.push(srs);
        }
        let lists = [
            ("SourceGCPs", self.source_gcps.as_flattened()),
            ("TargetGCPs", self.target_gcps.as_flattened()),
            ("CoeffX", &self.coeff_x),
            ("CoeffY", &self.coeff_y),
        ];
        for (name, values) in lists.into_iter().filter(|(_, values)| !values.is_empty()) {
            let values = values.iter().map(|value| leaf("Double", number::format_g17(*value))).collect();
            root.children.push(Element { children: values, ..Element::new(name) });
        }
        root
    }

    /// Parses the element.
    pub(crate) fn read(root: &Element) -> Self {
        let srs = root.child("SpatialReference");
        let code = |name| srs?.child_text(name)?.trim().parse().ok();
        let doubles = |name: &str| -> Vec<f64> {
            let values = root.child(name).into_iter().flat_map(|list| list.children("Double"));
            values.map(|value| number::leading_f64(value.text()).unwrap_or(0.0)).collect()
        };
        let points = |name| {
            let values = doubles(name);
            // An odd number of values means that one is missing, and the reader cannot know which one.
            if values.len() % 2 == 0 { values.chunks_exact(2).map(|xy| [xy[0], xy[1]]).collect() } else { Vec::new() }
        };
        Self {
            kind: root
                .attr("xsi:type")
                .map(|kind| kind.rsplit(':').next().unwrap_or(kind).to_owned())
                .unwrap_or_default(),
            order: root.child_text("PolynomialOrder").and_then(|order| order.trim().parse().ok()),
            wkt: srs.and_then(|srs| srs.child_text("WKT")).filter(|wkt| !wkt.is_empty()).map(str::to_owned),
            wkid: code("WKID"),
            latest_wkid: code("LatestWKID"),
            source_gcps: points("SourceGCPs"),
            target_gcps: points("TargetGCPs"),
            coeff_x: doubles("CoeffX"),
            coeff_y: doubles("CoeffY"),
        }
    }
}

/// The number of a coordinate system in a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SrsCode {
    /// The registry: `EPSG`, `Esri`.
    pub authority: String,
    /// The number.
    pub code: u32,
}

/// Returns the coordinate system in Esri's `<metadata>` file, which is `name.xml` beside `name.tif`.
///
/// GDAL uses it last, if neither the image nor PAM has a coordinate system.
pub fn esri_metadata_srs(bytes: &[u8], limits: &XmlLimits) -> Result<Option<SrsCode>, XmlError> {
    let root = xml::parse(bytes, limits)?;
    let read = || {
        let id = root.child("refSysInfo")?.child("RefSystem")?.child("refSysID")?;
        let code = id.child("identCode")?.attr("code")?.trim().parse().ok()?;
        Some(SrsCode { authority: id.child_text("idCodeSpace")?.to_owned(), code })
    };
    Ok(if root.is("metadata") { read() } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pam::Pam;

    fn xform(inner: &str) -> GeodataXform {
        let text = format!("<GeodataXform xsi:type='typens:PolynomialXform'>{inner}</GeodataXform>");
        let inside = format!("<PAMDataset><Metadata domain=\"xml:ESRI\" format=\"xml\">{text}</Metadata></PAMDataset>");
        let [inside, alone] =
            [inside, text].map(|text| Pam::parse(text.as_bytes(), &XmlLimits::default()).expect("well-formed").esri);
        assert_eq!(inside, alone);
        alone.expect("the element exists")
    }

    fn list(name: &str, values: &[f64]) -> String {
        let values: String = values.iter().map(|value| format!("<Double>{value}</Double>")).collect();
        format!("<{name}>{values}</{name}>")
    }

    #[test]
    fn esri_points_in_inches_need_a_resolution_per_inch() {
        let xform =
            xform(&(list("SourceGCPs", &[1.0, 2.0, 3.0, 4.0]) + &list("TargetGCPs", &[10.0, 20.0, 30.0, 40.0])));
        let placement = |unit| xform.placement(1000, Some(Resolution { x: 300.0, y: 200.0, unit }));
        let gcp = &placement(2).gcps[1];
        assert_eq!((gcp.pixel, gcp.line, gcp.x, gcp.y), (900.0, 200.0, 30.0, 40.0));
        assert_eq!(placement(3), Placement::default());
        assert_eq!(xform.placement(1000, None), Placement::default());
    }

    #[test]
    fn esri_points_without_partners_are_not_used() {
        let inch = Some(Resolution { x: 300.0, y: 200.0, unit: 2 });
        for (source, target) in [(&[1.0, 2.0][..], &[1.0, 2.0, 3.0, 4.0][..]), (&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0])] {
            let xform = xform(&(list("SourceGCPs", source) + &list("TargetGCPs", target)));
            assert_eq!(xform.placement(1000, inch), Placement::default());
        }
    }

    #[test]
    fn esri_coefficients_of_first_order_are_a_transform() {
        let coefficients = list("CoeffX", &[100.0, 2.0, 3.0]) + &list("CoeffY", &[200.0, 4.0, 5.0]);
        let affine = xform(&format!("<PolynomialOrder>1</PolynomialOrder>{coefficients}")).placement(7, None);
        assert_eq!(affine.geo_transform, Some([100.5, 2.0, -3.0, 200.5, 4.0, -5.0]));
        assert_eq!(xform(&coefficients).placement(7, None).geo_transform, None);
        let more = format!("<PolynomialOrder>2</PolynomialOrder>{coefficients}");
        assert_eq!(xform(&more).placement(7, None).geo_transform, None);
    }

    #[test]
    fn esri_coordinate_system_comes_with_its_numbers() {
        let text = "<SpatialReference><WKT>PROJCS[&quot;x&quot;]</WKT><WKID>102100</WKID><LatestWKID>3857</LatestWKID></SpatialReference>";
        let xform = xform(text);
        assert_eq!(
            (xform.wkt.as_deref(), xform.wkid, xform.latest_wkid),
            (Some("PROJCS[\"x\"]"), Some(102_100), Some(3857))
        );
        assert_eq!(xform.kind, "PolynomialXform");
        let metadata = br#"<metadata><refSysInfo><RefSystem><refSysID><identCode code="25832"/>
            <idCodeSpace Sync="TRUE">EPSG</idCodeSpace></refSysID></RefSystem></refSysInfo></metadata>"#;
        let code = esri_metadata_srs(metadata, &XmlLimits::default());
        assert_eq!(code, Ok(Some(SrsCode { authority: "EPSG".into(), code: 25832 })));
    }
}
