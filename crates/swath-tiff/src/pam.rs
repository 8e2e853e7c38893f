//! PAM: the `.aux.xml` file, in which GDAL and Esri store metadata that the image itself does not contain.
//!
//! Each item in PAM takes precedence over the same item of the image. Esri's `GeodataXform`, inside PAM or as
//! the root of the document, is read too.

mod classes;
mod encode;

pub use classes::{Classes, MAX_CLASSES, with_classes, with_statistics};
pub use encode::encode;

use crate::gdal_metadata::{Item, Statistics, inner_xml};
use crate::geo::Gcp;
use crate::geodata_xform::{GeodataXform, Placement, Resolution};
use crate::nodata::NoData;
use crate::number;
use crate::sample_format::SampleFormat;
use crate::xml::{self, Element, XmlError, XmlLimits};

/// The reason why a file is not PAM.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PamError {
    /// The file is not XML.
    #[error(transparent)]
    Xml(#[from] XmlError),
    /// The file is XML of another kind, such as Esri's `<metadata>`. GDAL ignores such a file without a
    /// message.
    #[error("<{root}> is not a PAM document")]
    Root {
        /// The root element.
        root: String,
    },
}

/// A coordinate reference system as text: WKT of any flavour, or `EPSG:n`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Srs {
    /// The text.
    pub text: String,
    /// For each data axis, the number of its axis in the system, counted from 1 and negative if reversed; empty
    /// if not given.
    pub axis_mapping: Vec<i32>,
}

/// A raster attribute table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AttributeTable {
    /// The columns.
    pub fields: Vec<Field>,
    /// The cells of each row as text. A row can be shorter than [`fields`](Self::fields).
    pub rows: Vec<Vec<String>>,
    /// The value of the first row and the size of a bin, if the rows are evenly spaced values.
    pub binning: Option<(f64, f64)>,
    /// Whether the rows are classes. If not, they are ranges of a measured value.
    pub thematic: bool,
}

/// A column of an attribute table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// GDAL's type: 0 integer, 1 real, 2 text.
    pub kind: u32,
    /// GDAL's usage: 0 general, 1 pixel count, 2 name, 5 value, 6 to 9 red, green, blue, alpha ...
    pub usage: u32,
}

/// The items of PAM for one band.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PamBand {
    /// The band, counted from 1.
    pub band: usize,
    /// The nodata value as text.
    pub no_data_text: Option<String>,
    /// The nodata value as an exact double.
    pub no_data_exact: Option<f64>,
    /// The band's name.
    pub description: Option<String>,
    /// The unit of physical values.
    pub units: Option<String>,
    /// The number that is added after scaling.
    pub offset: Option<f64>,
    /// The factor for physical values.
    pub scale: Option<f64>,
    /// The colour of the band by GDAL's name.
    pub color_interpretation: Option<String>,
    /// Names of the classes 0, 1, 2 ...
    pub categories: Vec<String>,
    /// RGBA colours of the values 0, 1, 2 ...
    pub color_table: Vec<[u8; 4]>,
    /// Metadata of all domains.
    pub metadata: Vec<Item>,
    /// The attribute table.
    pub attribute_table: Option<AttributeTable>,
}

impl PamBand {
    /// Returns the nodata value for samples of that type.
    pub fn no_data(&self, kind: SampleFormat, bits: u32) -> Option<NoData> {
        // A double cannot represent every 64-bit integer, so for these samples the text is the exact form.
        if bits >= 64 && !matches!(kind, SampleFormat::Float | SampleFormat::ComplexFloat) {
            return NoData::parse(self.no_data_text.as_deref()?, kind, bits);
        }
        let value = self.no_data_exact.or_else(|| number::leading_f64(self.no_data_text.as_deref()?))?;
        // GDAL reads a number that is too large as an infinity in the tag, but not here.
        let too_great = kind == SampleFormat::Float && bits == 32 && value.is_finite() && (value as f32).is_infinite();
        Some(if too_great { NoData::Float(value) } else { NoData::from_f64(value, kind, bits) })
    }

    /// Returns the statistics that the metadata contains.
    pub fn statistics(&self) -> Option<Statistics> {
        Statistics::from_items(self.metadata.iter().filter(|item| item.domain.is_none()))
    }
}

/// The content of an `.aux.xml` file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pam {
    /// The coordinate system of the geotransform.
    pub srs: Option<Srs>,
    /// GDAL's geotransform.
    pub geo_transform: Option<[f64; 6]>,
    /// Ground control points.
    pub gcps: Vec<Gcp>,
    /// The coordinate system of the ground control points.
    pub gcp_srs: Option<Srs>,
    /// Metadata of the dataset, all domains.
    pub metadata: Vec<Item>,
    /// The items for bands, by band number.
    pub bands: Vec<PamBand>,
    /// Esri's georeferencing.
    pub esri: Option<GeodataXform>,
}

impl Pam {
    /// Parses an `.aux.xml` file.
    pub fn parse(bytes: &[u8], limits: &XmlLimits) -> Result<Self, PamError> {
        let root = xml::parse(bytes, limits)?;
        if root.is("GeodataXform") {
            return Ok(Self { esri: Some(GeodataXform::read(&root)), ..Self::default() });
        }
        if !root.is("PAMDataset") {
            return Err(PamError::Root { root: root.name });
        }
        let gcp_list = root.child("GCPList");
        let esri = root.children("Metadata").find(|metadata| metadata.attr("domain") == Some("xml:ESRI"));
        let mut bands = std::collections::BTreeMap::new();
        for element in root.children("PAMRasterBand") {
            // Two elements for the same band are merged; the later one takes precedence.
            if let Some(number) =
                element.attr("band").and_then(|band| band.trim().parse().ok()).filter(|band| *band > 0)
            {
                let band = bands.entry(number).or_insert_with(|| PamBand { band: number, ..PamBand::default() });
                read_band(element, band);
            }
        }
        Ok(Self {
            srs: root.child("SRS").and_then(|srs| read_srs(srs.text(), srs)),
            geo_transform: root.child_text("GeoTransform").and_then(read_geo_transform),
            gcps: gcp_list.into_iter().flat_map(|list| list.children("GCP")).map(read_gcp).collect(),
            gcp_srs: gcp_list.and_then(|list| read_srs(list.attr("Projection")?, list)),
            metadata: read_metadata(&root),
            bands: bands.into_values().collect(),
            esri: esri.and_then(|metadata| metadata.child("GeodataXform")).map(GeodataXform::read),
        })
    }

    /// Returns the items for a band, counted from 1.
    pub fn band(&self, band: usize) -> Option<&PamBand> {
        self.bands.binary_search_by_key(&band, |found| found.band).ok().and_then(|place| self.bands.get(place))
    }

    /// Returns the georeferencing of an image with that height and resolution: GDAL's own elements first, then
    /// Esri's. Empty if PAM has none.
    pub fn placement(&self, height: u64, resolution: Option<Resolution>) -> Placement {
        if self.geo_transform.is_some() || !self.gcps.is_empty() {
            return Placement { geo_transform: self.geo_transform, gcps: self.gcps.clone() };
        }
        self.esri.as_ref().map(|esri| esri.placement(height, resolution)).unwrap_or_default()
    }

    /// Returns the coordinate system as text: GDAL's own, that of the control points, or Esri's.
    pub fn srs_text(&self) -> Option<&str> {
        let own = self.srs.as_ref().or(self.gcp_srs.as_ref()).map(|srs| srs.text.as_str());
        own.or_else(|| self.esri.as_ref()?.wkt.as_deref())
    }
}

fn number_in(element: &Element, name: &str) -> Option<f64> {
    element.child_text(name).and_then(number::leading_f64)
}

fn number_attr(element: &Element, name: &str) -> Option<f64> {
    element.attr(name).and_then(number::leading_f64)
}

fn read_srs(text: &str, element: &Element) -> Option<Srs> {
    let mapping = element.attr("dataAxisToSRSAxisMapping").unwrap_or_default();
    let axis_mapping =
        mapping.split(',').map(|axis| axis.trim().parse().ok()).collect::<Option<_>>().unwrap_or_default();
    let text = text.trim();
    (!text.is_empty()).then(|| Srs { text: text.to_owned(), axis_mapping })
}

fn read_geo_transform(text: &str) -> Option<[f64; 6]> {
    let mut out = [0.0; 6];
    let mut parts = text.split(',');
    for slot in &mut out {
        *slot = number::leading_f64(parts.next()?)?;
    }
    (parts.next().is_none() && out.iter().all(|number| number.is_finite())).then_some(out)
}

fn read_gcp(element: &Element) -> Gcp {
    let text = |name| element.attr(name).unwrap_or_default().to_owned();
    let number = |name| number_attr(element, name).unwrap_or(0.0);
    Gcp {
        id: text("Id"),
        info: text("Info"),
        pixel: number("Pixel"),
        line: number("Line"),
        x: number("X"),
        y: number("Y"),
        z: number_attr(element, "Z").or_else(|| number_attr(element, "GCPZ")).unwrap_or(0.0),
    }
}

fn read_metadata(parent: &Element) -> Vec<Item> {
    let mut out = Vec::new();
    for element in parent.children("Metadata") {
        let domain = element.attr("domain").filter(|domain| !domain.is_empty()).map(str::to_owned);
        let item = |name: &str, value: String| Item {
            name: name.to_owned(),
            value,
            domain: domain.clone(),
            ..Item::default()
        };
        match element.attr("format") {
            Some("xml") => out.push(item("doc", inner_xml(element))),
            Some("json") => out.push(item("doc", element.text().to_owned())),
            _ => {
                let items =
                    element.children("MDI").filter_map(|mdi| Some(item(mdi.attr("key")?, mdi.text().to_owned())));
                out.extend(items);
            }
        }
    }
    out
}

fn read_band(element: &Element, band: &mut PamBand) {
    if let Some(no_data) = element.child("NoDataValue") {
        band.no_data_text = Some(no_data.text().to_owned());
        band.no_data_exact = no_data.attr("le_hex_equiv").and_then(read_hex_double);
    }
    let replace = |slot: &mut Option<String>, name| {
        *slot = element.child_text(name).filter(|text| !text.is_empty()).map(str::to_owned).or(slot.take())
    };
    replace(&mut band.description, "Description");
    replace(&mut band.units, "UnitType");
    replace(&mut band.color_interpretation, "ColorInterp");
    band.offset = number_in(element, "Offset").or(band.offset);
    band.scale = number_in(element, "Scale").or(band.scale);
    if let Some(names) = element.child("CategoryNames") {
        band.categories = names.children("Category").map(|name| name.text().to_owned()).collect();
    }
    if let Some(table) = element.child("ColorTable") {
        let channel =
            |entry: &Element, name, default: u8| number_attr(entry, name).map_or(default, |value| value as u8);
        let color = |entry: &Element| {
            [channel(entry, "c1", 0), channel(entry, "c2", 0), channel(entry, "c3", 0), channel(entry, "c4", 255)]
        };
        band.color_table = table.children("Entry").map(color).collect();
    }
    band.metadata.extend(read_metadata(element));
    if let Some(table) = element.child("GDALRasterAttributeTable") {
        band.attribute_table = Some(read_attribute_table(table));
    }
}

fn read_attribute_table(table: &Element) -> AttributeTable {
    let code = |field: &Element, name| number_in(field, name).map_or(0, |code| code as u32);
    let field = |field: &Element| Field {
        name: field.child_text("Name").unwrap_or_default().to_owned(),
        kind: code(field, "Type"),
        usage: code(field, "Usage"),
    };
    let row = |row: &Element| row.children("F").map(|cell| cell.text().to_owned()).collect();
    AttributeTable {
        fields: table.children("FieldDefn").map(field).collect(),
        rows: table.children("Row").map(row).collect(),
        binning: number_attr(table, "Row0Min").zip(number_attr(table, "BinSize")),
        thematic: table.attr("tableType").is_some_and(|kind| kind.eq_ignore_ascii_case("thematic")),
    }
}

/// Parses the eight bytes of a double, lowest byte first, from hexadecimal digits.
fn read_hex_double(text: &str) -> Option<f64> {
    if text.len() != 16 {
        return None;
    }
    u64::from_str_radix(text, 16).ok().map(|bits| f64::from_bits(bits.swap_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(inner: &str) -> Pam {
        Pam::parse(format!("<PAMDataset>{inner}</PAMDataset>").as_bytes(), &XmlLimits::default()).expect("well-formed")
    }

    fn band(inner: &str) -> PamBand {
        read(&format!("<PAMRasterBand band=\"1\">{inner}</PAMRasterBand>")).bands.remove(0)
    }

    #[test]
    fn georeferencing_is_read() {
        let pam = read(
            "<SRS dataAxisToSRSAxisMapping=\"2,1\">GEOGCS[\"WGS 84\"]</SRS>\
             <GeoTransform> -5.3903736894644425e+01,  0.5,\n 0, 4.5e+01, 0,-5.15e-01</GeoTransform>\
             <GCPList Projection=\"EPSG:32632\"><GCP Id=\"a\" Info=\"i\" Pixel=\"1.5\" Line=\"2\" X=\"3\" Y=\"4\" Z=\"5\"/>\
             <GCP GCPZ=\"9\"/></GCPList>",
        );
        assert_eq!(pam.srs, Some(Srs { text: "GEOGCS[\"WGS 84\"]".into(), axis_mapping: vec![2, 1] }));
        assert_eq!(pam.geo_transform, Some([-53.903736894644425, 0.5, 0.0, 45.0, 0.0, -0.515]));
        assert_eq!((pam.gcps[0].id.as_str(), pam.gcps[0].pixel, pam.gcps[0].z, pam.gcps[1].z), ("a", 1.5, 5.0, 9.0));
        assert_eq!(pam.gcp_srs.map(|srs| srs.text).as_deref(), Some("EPSG:32632"));
    }

    #[test]
    fn geotransform_needs_exactly_six_numbers() {
        for text in ["0,1,0,0", "0,1,0,0,0,1,7", "5 1 0 0 0 1", "5,x,0,0,0,1", "nan,1,0,0,0,1", ""] {
            assert_eq!(read(&format!("<GeoTransform>{text}</GeoTransform>")).geo_transform, None, "{text}");
        }
    }

    #[test]
    fn nodata_is_exact_by_its_bits_or_by_its_digits() {
        let value = |text: &str, kind, bits| band(text).no_data(kind, bits);
        let hex = "<NoDataValue le_hex_equiv=\"0000000000000840\">9</NoDataValue>";
        assert_eq!(value(hex, SampleFormat::Float, 64), Some(NoData::Float(3.0)));
        assert_eq!(value(hex, SampleFormat::Uint, 8), Some(NoData::Uint(3)));
        assert_eq!(value(hex, SampleFormat::Int, 64), Some(NoData::Int(9)));
        assert_eq!(
            value("<NoDataValue le_hex_equiv=\"0840\">9</NoDataValue>", SampleFormat::Float, 64),
            Some(NoData::Float(9.0))
        );
        let digits = "<NoDataValue>9007199254740993</NoDataValue>";
        assert_eq!(value(digits, SampleFormat::Uint, 64), Some(NoData::Uint(9_007_199_254_740_993)));
        assert_eq!(value("<NoDataValue></NoDataValue>", SampleFormat::Uint, 8), None);
        assert_eq!(value("<NoDataValue>-1</NoDataValue>", SampleFormat::Uint, 64), Some(NoData::Uint(u64::MAX)));
    }

    #[test]
    fn nodata_too_large_for_the_samples_is_not_infinity() {
        let value = |text: &str| band(&format!("<NoDataValue>{text}</NoDataValue>")).no_data(SampleFormat::Float, 32);
        for text in ["1e300", "-1e300", "3.4028236e+38"] {
            assert!(value(text).is_some_and(|value| !value.fits(SampleFormat::Float, 32)), "{text}");
        }
        assert_eq!(value("3.4028235e+38"), Some(NoData::Float(f32::MAX.into())));
        assert_eq!(value("inf"), Some(NoData::Float(f64::INFINITY)));
    }

    #[test]
    fn everything_about_a_band_is_read() {
        let band = band(
            "<Description>d</Description><UnitType>K</UnitType><Offset>-1</Offset><Scale>0.5</Scale><ColorInterp>Red</ColorInterp>\
             <CategoryNames><Category>x</Category><Category/><Category>z</Category></CategoryNames>\
             <ColorTable><Entry c1=\"1\" c2=\"2\" c3=\"300\" c4=\"4\"/><Entry/></ColorTable>\
             <Metadata><MDI key=\"STATISTICS_MEAN\">68.5</MDI></Metadata>\
             <GDALRasterAttributeTable Row0Min=\"0\" BinSize=\"1\" tableType=\"thematic\"><FieldDefn index=\"0\"><Name>Red</Name>\
             <Type>0</Type><Usage>6</Usage></FieldDefn><Row index=\"0\"><F>71</F></Row></GDALRasterAttributeTable>",
        );
        assert_eq!((band.description.as_deref(), band.units.as_deref()), (Some("d"), Some("K")));
        assert_eq!(
            (band.offset, band.scale, band.color_interpretation.as_deref()),
            (Some(-1.0), Some(0.5), Some("Red"))
        );
        assert_eq!(band.categories, ["x", "", "z"]);
        assert_eq!(band.color_table, [[1, 2, 255, 4], [0, 0, 0, 255]]);
        assert_eq!(band.statistics().and_then(|statistics| statistics.mean), Some(68.5));
        let table = band.attribute_table.expect("the band has a table");
        assert_eq!((table.fields[0].usage, table.binning, table.thematic), (6, Some((0.0, 1.0)), true));
        assert_eq!(table.rows, [["71"]]);
    }

    #[test]
    fn two_elements_for_one_band_are_merged() {
        let pam = read(
            "<PAMRasterBand band='2'><Description>1</Description><UnitType>u</UnitType></PAMRasterBand>\
             <PAMRasterBand><Description>none</Description></PAMRasterBand><PAMRasterBand band='0'/>\
             <PAMRasterBand band='2'><Description>2</Description></PAMRasterBand>",
        );
        assert_eq!(pam.bands.len(), 1);
        let band = pam.band(2).expect("the band exists");
        assert_eq!((band.description.as_deref(), band.units.as_deref()), (Some("2"), Some("u")));
        assert_eq!(pam.band(1), None);
    }

    #[test]
    fn metadata_of_every_format_survives() {
        let pam = read(
            "<Metadata domain=\"xml:FOO\" format=\"xml\"><foo a=\"1\"><b>t</b></foo></Metadata>\
             <Metadata domain=\"json:X\" format=\"json\">{\"a\":1}</Metadata>\
             <Metadata><MDI>no key</MDI><MDI key=\"t\">a &amp; b</MDI></Metadata>",
        );
        let values: Vec<_> = pam.metadata.iter().map(|item| (item.domain.as_deref(), item.value.as_str())).collect();
        assert_eq!(
            values,
            [(Some("xml:FOO"), "<foo a=\"1\">\n  <b>t</b>\n</foo>\n"), (Some("json:X"), "{\"a\":1}"), (None, "a & b")]
        );
    }

    #[test]
    fn other_documents_are_distinguished() {
        let parse = |text: &str| Pam::parse(text.as_bytes(), &XmlLimits::default());
        assert_eq!(parse("<metadata/>"), Err(PamError::Root { root: "metadata".into() }));
        assert!(matches!(parse("<!DOCTYPE a><PAMDataset/>"), Err(PamError::Xml(XmlError::Doctype { .. }))));
    }

    #[test]
    fn mutated_documents_never_panic() {
        let seed = "<PAMDataset><SRS dataAxisToSRSAxisMapping='2,1'>x</SRS><GeoTransform>1,2,3,4,5,6</GeoTransform>\
                    <Metadata domain='xml:ESRI' format='xml'><GeodataXform><PolynomialOrder>1</PolynomialOrder><CoeffX><Double>1\
                    </Double></CoeffX></GeodataXform></Metadata><PAMRasterBand band='1'><NoDataValue le_hex_equiv='0000000000000840'>9\
                    </NoDataValue><ColorTable><Entry c1='1'/></ColorTable></PAMRasterBand></PAMDataset>";
        crate::mutate::each(seed.as_bytes(), 20_000, |bytes| {
            if let Ok(pam) = Pam::parse(bytes, &XmlLimits::default()) {
                let _ = pam.placement(10, Some(Resolution { x: 1.0, y: 1.0, unit: 2 }));
                for band in &pam.bands {
                    let _ = band.no_data(SampleFormat::Float, 64);
                }
            }
        });
    }
}
