//! Writes an `.aux.xml` file that GDAL reads.

use super::{AttributeTable, Pam, PamBand, Srs};
use crate::gdal_metadata::Item;
use crate::geo::Gcp;
use crate::number::format_g17;
use crate::xml::{self, Element, XmlLimits};

/// Returns the text of the file. [`Pam::parse`] returns the same `Pam` from it, except that XML cannot
/// represent control characters and white space at the start of a text.
///
/// ```
/// use swath_tiff::pam::{Pam, encode};
/// let pam = Pam { geo_transform: Some([10.0, 0.1, 0.0, 50.0, 0.0, -0.1]), ..Pam::default() };
/// assert_eq!(Pam::parse(encode(&pam).as_bytes(), &Default::default())?, pam);
/// # Ok::<(), swath_tiff::pam::PamError>(())
/// ```
pub fn encode(pam: &Pam) -> String {
    // Esri's element alone is written as the root of the document.
    if let Some(esri) = pam.esri.as_ref().filter(|esri| *pam == Pam { esri: Some((*esri).clone()), ..Pam::default() }) {
        return esri.to_element().to_string();
    }
    let mut root = Element::new("PAMDataset");
    if let Some(srs) = &pam.srs {
        let mut element = leaf("SRS", &srs.text);
        set_axes(&mut element, srs);
        root.children.push(element);
    }
    if let Some(transform) = pam.geo_transform {
        root.children.push(leaf("GeoTransform", &transform.map(format_g17).join(", ")));
    }
    if !pam.gcps.is_empty() || pam.gcp_srs.is_some() {
        let mut list = Element::new("GCPList");
        if let Some(srs) = &pam.gcp_srs {
            set(&mut list, "Projection", srs.text.clone());
            set_axes(&mut list, srs);
        }
        list.children.extend(pam.gcps.iter().map(gcp));
        root.children.push(list);
    }
    root.children.extend(metadata(&pam.metadata));
    let has_esri = pam.metadata.iter().any(|item| item.domain.as_deref() == Some("xml:ESRI"));
    if let Some(esri) = pam.esri.as_ref().filter(|_| !has_esri) {
        let mut element = Element::new("Metadata");
        set(&mut element, "domain", "xml:ESRI");
        set(&mut element, "format", "xml");
        element.children.push(esri.to_element());
        root.children.push(element);
    }
    root.children.extend(pam.bands.iter().filter(|band| band.band > 0).map(raster_band));
    root.to_string()
}

fn leaf(name: &str, text: &str) -> Element {
    Element { text: text.to_owned(), ..Element::new(name) }
}

fn set(element: &mut Element, name: &str, value: impl Into<String>) {
    element.attributes.push((name.to_owned(), value.into()));
}

fn set_axes(element: &mut Element, srs: &Srs) {
    if !srs.axis_mapping.is_empty() {
        let axes: Vec<String> = srs.axis_mapping.iter().map(i32::to_string).collect();
        set(element, "dataAxisToSRSAxisMapping", axes.join(","));
    }
}

fn gcp(gcp: &Gcp) -> Element {
    let mut element = Element::new("GCP");
    set(&mut element, "Id", gcp.id.clone());
    if !gcp.info.is_empty() {
        set(&mut element, "Info", gcp.info.clone());
    }
    for (name, value) in [("Pixel", gcp.pixel), ("Line", gcp.line), ("X", gcp.x), ("Y", gcp.y), ("Z", gcp.z)] {
        set(&mut element, name, format_g17(value));
    }
    element
}

/// Returns one element for each domain, in the order of the items. A document has its own element.
fn metadata(items: &[Item]) -> Vec<Element> {
    let mut out: Vec<Element> = Vec::new();
    for item in items {
        let domain = item.domain.as_deref().filter(|domain| !domain.is_empty());
        let new = |format: Option<&str>| {
            let mut element = Element::new("Metadata");
            for (name, value) in [("domain", domain), ("format", format)] {
                if let Some(value) = value {
                    set(&mut element, name, value);
                }
            }
            element
        };
        let language = domain.and_then(|domain| domain.split_once(':')).map(|(language, _)| language);
        match (language, xml::parse(item.value.as_bytes(), &XmlLimits::default())) {
            (Some("xml"), Ok(document)) if item.name == "doc" => {
                out.push(Element { children: vec![document], ..new(Some("xml")) });
            }
            (Some("json"), _) if item.name == "doc" => {
                out.push(Element { text: item.value.clone(), ..new(Some("json")) });
            }
            _ => {
                let mut entry = leaf("MDI", &item.value);
                set(&mut entry, "key", item.name.clone());
                let joins = |last: &&mut Element| last.attr("domain") == domain && last.attr("format").is_none();
                match out.last_mut().filter(joins) {
                    Some(last) => last.children.push(entry),
                    None => out.push(Element { children: vec![entry], ..new(None) }),
                }
            }
        }
    }
    out
}

fn raster_band(band: &PamBand) -> Element {
    let mut out = Element::new("PAMRasterBand");
    set(&mut out, "band", band.band.to_string());
    let texts = |pairs: &[(&str, Option<&str>)], out: &mut Element| {
        out.children.extend(pairs.iter().filter_map(|(name, text)| text.map(|text| leaf(name, text))));
    };
    texts(&[("Description", band.description.as_deref())], &mut out);
    if band.no_data_text.is_some() || band.no_data_exact.is_some() {
        let exact = band.no_data_exact;
        let text = band.no_data_text.clone().or(exact.map(format_g17)).unwrap_or_default();
        let mut element = leaf("NoDataValue", &text);
        if let Some(exact) = exact {
            set(&mut element, "le_hex_equiv", format!("{:016X}", exact.to_bits().swap_bytes()));
        }
        out.children.push(element);
    }
    let (offset, scale) = (band.offset.map(format_g17), band.scale.map(format_g17));
    texts(
        &[
            ("UnitType", band.units.as_deref()),
            ("Offset", offset.as_deref()),
            ("Scale", scale.as_deref()),
            ("ColorInterp", band.color_interpretation.as_deref()),
        ],
        &mut out,
    );
    if !band.categories.is_empty() {
        let names = band.categories.iter().map(|name| leaf("Category", name)).collect();
        out.children.push(Element { children: names, ..Element::new("CategoryNames") });
    }
    if !band.color_table.is_empty() {
        let entry = |color: &[u8; 4]| {
            let mut entry = Element::new("Entry");
            for (name, value) in ["c1", "c2", "c3", "c4"].into_iter().zip(color) {
                set(&mut entry, name, value.to_string());
            }
            entry
        };
        let entries = band.color_table.iter().map(entry).collect();
        out.children.push(Element { children: entries, ..Element::new("ColorTable") });
    }
    out.children.extend(metadata(&band.metadata));
    out.children.extend(band.attribute_table.as_ref().map(attribute_table));
    out
}

pub(super) fn attribute_table(table: &AttributeTable) -> Element {
    let mut out = Element::new("GDALRasterAttributeTable");
    if let Some((first, size)) = table.binning {
        set(&mut out, "Row0Min", format_g17(first));
        set(&mut out, "BinSize", format_g17(size));
    }
    set(&mut out, "tableType", if table.thematic { "thematic" } else { "athematic" });
    let indexed = |name: &str, index: usize, children: Vec<Element>| {
        let mut element = Element { children, ..Element::new(name) };
        set(&mut element, "index", index.to_string());
        element
    };
    out.children.extend(table.fields.iter().enumerate().map(|(index, field)| {
        let (kind, usage) = (field.kind.to_string(), field.usage.to_string());
        indexed("FieldDefn", index, vec![leaf("Name", &field.name), leaf("Type", &kind), leaf("Usage", &usage)])
    }));
    out.children.extend(
        table
            .rows
            .iter()
            .enumerate()
            .map(|(index, row)| indexed("Row", index, row.iter().map(|cell| leaf("F", cell)).collect())),
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gdal_metadata::Statistics;
    use crate::geodata_xform::GeodataXform;
    use crate::pam::Field;

    fn read_back(pam: &Pam) -> Pam {
        let text = encode(pam);
        Pam::parse(text.as_bytes(), &XmlLimits::default()).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn item(domain: Option<&str>, name: &str, value: &str) -> Item {
        Item { name: name.into(), value: value.into(), domain: domain.map(str::to_owned), ..Item::default() }
    }

    fn full() -> Pam {
        let gcp = Gcp { id: "a\"".into(), info: "i <".into(), pixel: 1.5, line: 0.1, x: 1.0 / 3.0, y: -2e-300, z: 5.0 };
        let band = PamBand {
            band: 3,
            no_data_text: Some("-9999".into()),
            no_data_exact: Some(-9999.0),
            description: Some("é & ]]>".into()),
            units: Some("K".into()),
            offset: Some(0.1),
            scale: Some(1e-7),
            color_interpretation: Some("Palette".into()),
            categories: vec!["water".into(), String::new(), "<land>".into()],
            color_table: vec![[0, 1, 2, 255], [255, 254, 253, 0]],
            metadata: Statistics { mean: Some(0.1), ..Statistics::default() }.to_items(None),
            attribute_table: Some(AttributeTable {
                fields: vec![
                    Field { name: "Value".into(), kind: 0, usage: 5 },
                    Field { name: "Class".into(), kind: 2, usage: 2 },
                ],
                rows: vec![vec!["1".into(), "a & b".into()], vec!["2".into()]],
                binning: Some((0.5, 0.1)),
                thematic: true,
            }),
        };
        let srs = Srs { text: "GEOGCS[\"WGS 84\"]".into(), axis_mapping: vec![2, -1] };
        Pam {
            srs: Some(srs.clone()),
            geo_transform: Some([10.1, 1.0 / 3.0, 0.0, 50.0, -0.0, -1e-9]),
            gcps: vec![gcp, Gcp::default()],
            gcp_srs: Some(srs),
            metadata: vec![
                item(None, "A", "x & y"),
                item(None, "B", "日本 "),
                item(Some("D<"), "K\"", "v"),
                item(Some("xml:FOO"), "doc", "<foo a=\"1\">\n  <b>t</b>\n</foo>\n"),
                item(Some("xml:BAD"), "doc", "no <xml"),
                item(Some("json:X"), "doc", "{\"a\": \"<\"}"),
                item(None, "C", "again"),
            ],
            bands: vec![PamBand { band: 1, ..PamBand::default() }, band],
            esri: None,
        }
    }

    #[test]
    fn all_content_is_read_back() {
        assert_eq!(read_back(&full()), full());
        assert_eq!(read_back(&Pam::default()), Pam::default());
    }

    #[test]
    fn esri_georeferencing_is_read_back_alone_and_beside_the_rest() {
        let esri = GeodataXform {
            kind: "PolynomialXform".into(),
            order: Some(1),
            wkt: Some("PROJCS[\"x\"]".into()),
            wkid: Some(102_100),
            latest_wkid: Some(3857),
            source_gcps: vec![[1.0, 0.1], [3.0, 4.0]],
            target_gcps: vec![[1e-9, 2.0], [3.0, 4.0]],
            coeff_x: vec![1.0, 2.0, 3.0],
            coeff_y: vec![],
        };
        let alone = Pam { esri: Some(esri.clone()), ..Pam::default() };
        assert_eq!(read_back(&alone), alone);
        let both = read_back(&Pam { esri: Some(esri.clone()), ..full() });
        assert_eq!(both.esri, Some(esri));
        // A second write must not add the element to the metadata again.
        assert_eq!(read_back(&both), both);
    }

    #[test]
    fn characters_that_xml_cannot_represent_do_not_break_the_document() {
        let metadata = vec![item(None, "n\u{1}", "a\u{0}b\u{1f}c"), item(Some("xml:A"), "doc", "<a>\u{2}</a>")];
        let pam = Pam { metadata, ..Pam::default() };
        let back = read_back(&pam);
        assert_eq!((back.metadata[0].name.as_str(), back.metadata[0].value.as_str()), ("n", "abc"));
        let nowhere = Pam { bands: vec![PamBand { band: 0, ..PamBand::default() }], ..Pam::default() };
        assert_eq!(read_back(&nowhere).bands, []);
    }
}
