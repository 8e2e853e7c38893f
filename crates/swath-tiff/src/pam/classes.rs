//! The classes of a thematic band: what each of the values 0, 1, 2 ... is called and which colour it has.

use super::encode::attribute_table;
use super::{AttributeTable, Field, Pam};
use crate::xml::{self, Element, XmlLimits};

/// More classes than this are taken for an error in the table.
pub const MAX_CLASSES: usize = 1_000_000;

// GDALRATFieldUsage
const USAGE_NAME: u32 = 2;
const USAGE_VALUE: u32 = 5;
const USAGE_COLORS: [u32; 4] = [6, 7, 8, 9];

/// Names and colours by value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Classes {
    /// The name of each value; empty where a value has none.
    pub names: Vec<String>,
    /// Red, green, blue and alpha of each value.
    pub colors: Option<Vec<[u8; 4]>>,
}

impl AttributeTable {
    /// The classes of a thematic table with a column of names. `None` when a row cannot be read, or a value is negative or as great as
    /// [`MAX_CLASSES`].
    ///
    /// A value without a row has an empty name and a transparent colour. The colours need all four channels.
    pub fn classes(&self) -> Option<Classes> {
        if !self.thematic || self.rows.is_empty() {
            return None;
        }
        let column = |usage: u32| self.fields.iter().rposition(|field| field.usage == usage);
        let names = column(USAGE_NAME)?;
        let values = column(USAGE_VALUE);
        let [red, green, blue, alpha] = USAGE_COLORS.map(column);
        let channels = red.zip(green).zip(blue).zip(alpha).map(|(((r, g), b), a)| [r, g, b, a]);
        let mut classes = Classes { names: Vec::new(), colors: channels.map(|_| Vec::new()) };
        for (index, row) in self.rows.iter().enumerate() {
            let value = match values {
                Some(column) => class_value(row.get(column)?)?,
                None => index,
            };
            if value >= MAX_CLASSES {
                return None;
            }
            let length = classes.names.len().max(value + 1);
            classes.names.resize(length, String::new());
            classes.names[value].clone_from(row.get(names)?);
            if let (Some(colors), Some(channels)) = (&mut classes.colors, channels) {
                colors.resize(length, [0; 4]);
                for (part, column) in colors[value].iter_mut().zip(channels) {
                    // The cast keeps the number between 0 and 255.
                    *part = exact(row.get(column)?)? as u8;
                }
            }
        }
        Some(classes)
    }
}

impl From<&Classes> for AttributeTable {
    fn from(classes: &Classes) -> AttributeTable {
        let field = |name: &str, kind, usage| Field { name: name.to_owned(), kind, usage };
        let mut fields = vec![field("Value", 0, USAGE_VALUE), field("Class", 2, USAGE_NAME)];
        if classes.colors.is_some() {
            let names = ["Red", "Green", "Blue", "Alpha"].into_iter().zip(USAGE_COLORS);
            fields.extend(names.map(|(name, usage)| field(name, 0, usage)));
        }
        let row = |(value, name): (usize, &String)| {
            let mut cells = vec![value.to_string(), name.clone()];
            let color = classes.colors.as_ref().and_then(|colors| colors.get(value));
            cells.extend(color.into_iter().flatten().map(u8::to_string));
            cells
        };
        let rows = classes.names.iter().enumerate().map(row).collect();
        AttributeTable { fields, rows, binning: None, thematic: true }
    }
}

impl Pam {
    /// The classes of the image: those of the first band with a table that can be read, otherwise the names of the first band that has
    /// names.
    pub fn classes(&self) -> Option<Classes> {
        let tables = self.bands.iter().filter_map(|band| band.attribute_table.as_ref());
        tables.into_iter().find_map(AttributeTable::classes).or_else(|| {
            let names = self.bands.iter().map(|band| &band.categories).find(|names| !names.is_empty())?;
            (names.len() <= MAX_CLASSES).then(|| Classes { names: names.clone(), colors: None })
        })
    }
}

/// A PAM document with these classes in its first band, and all else as it was. A document that is not PAM is replaced.
pub fn with_classes(document: Option<&[u8]>, classes: &Classes) -> String {
    edit_first_band(document, |band| {
        band.children.retain(|child| !child.is("CategoryNames") && !child.is("GDALRasterAttributeTable"));
        let leaf = |name: &String| Element { text: name.clone(), ..Element::new("Category") };
        let names = classes.names.iter().map(leaf).collect();
        band.children.push(Element { children: names, ..Element::new("CategoryNames") });
        band.children.push(attribute_table(&classes.into()));
    })
}

/// A PAM document with these items among the metadata of its first band, and all else as it was. They replace all statistics. A
/// document that is not PAM is replaced.
pub fn with_statistics(document: Option<&[u8]>, items: &[(String, String)]) -> String {
    const STATISTICS: [&str; 4] = ["STATISTICS_MINIMUM", "STATISTICS_MAXIMUM", "STATISTICS_MEAN", "STATISTICS_STDDEV"];
    edit_first_band(document, |band| {
        let is_plain = |child: &Element| child.is("Metadata") && child.attr("domain").is_none();
        if !band.children.iter().any(is_plain) {
            band.children.push(Element::new("Metadata"));
        }
        let Some(metadata) = band.children.iter_mut().find(|child| is_plain(child)) else { return };
        metadata.children.retain(|item| !item.attr("key").is_some_and(|key| STATISTICS.contains(&key)));
        metadata.children.extend(items.iter().map(|(key, value)| Element {
            text: value.clone(),
            attributes: vec![("key".to_owned(), key.clone())],
            ..Element::new("MDI")
        }));
    })
}

fn edit_first_band(document: Option<&[u8]>, edit: impl FnOnce(&mut Element)) -> String {
    let parsed = document.and_then(|bytes| xml::parse(bytes, &XmlLimits::default()).ok());
    let mut root = parsed.filter(|root| root.is("PAMDataset")).unwrap_or_else(|| Element::new("PAMDataset"));
    let is_first = |child: &Element| child.is("PAMRasterBand") && child.attr("band") == Some("1");
    if !root.children.iter().any(is_first) {
        let attributes = vec![("band".to_owned(), "1".to_owned())];
        root.children.push(Element { attributes, ..Element::new("PAMRasterBand") });
    }
    if let Some(band) = root.children.iter_mut().find(|child| is_first(child)) {
        edit(band);
    }
    root.to_string()
}

/// The value of a row: a number that is not negative, without its fraction.
fn class_value(text: &str) -> Option<usize> {
    let value = exact(text)?;
    (value > -1.0 && value < MAX_CLASSES as f64).then_some(value as usize)
}

/// A finite number, and nothing behind it.
fn exact(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(content: &str) -> Pam {
        let text = format!("<PAMDataset><PAMRasterBand band=\"1\">{content}</PAMRasterBand></PAMDataset>");
        Pam::parse(text.as_bytes(), &XmlLimits::default()).expect("well-formed")
    }

    fn table(usages: &[u32], rows: &[&[&str]]) -> AttributeTable {
        let field = |usage: &u32| Field { usage: *usage, ..Field::default() };
        let row = |cells: &&[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect();
        AttributeTable {
            fields: usages.iter().map(field).collect(),
            rows: rows.iter().map(row).collect(),
            binning: None,
            thematic: true,
        }
    }

    #[test]
    fn classes_are_read_back() {
        let classes = Classes {
            names: vec!["a<b".into(), String::new(), "c".into()],
            colors: Some(vec![[1, 2, 3, 255], [0; 4], [7, 8, 9, 0]]),
        };
        assert_eq!(AttributeTable::from(&classes).classes().as_ref(), Some(&classes));
        let document = with_classes(None, &classes);
        let pam = Pam::parse(document.as_bytes(), &XmlLimits::default()).expect("our own document");
        assert_eq!((pam.classes().as_ref(), &pam.bands[0].categories), (Some(&classes), &classes.names));
    }

    #[test]
    fn value_without_a_row_is_empty_and_transparent() {
        let classes = table(&[5, 2, 6, 7, 8, 9], &[&["2", "c", "1", "2", "3", "300"]]).classes().expect("readable");
        assert_eq!(classes.names, ["", "", "c"]);
        assert_eq!(classes.colors, Some(vec![[0; 4], [0; 4], [1, 2, 3, 255]]));
        let by_row = table(&[2], &[&["a"], &["b"]]).classes().expect("readable");
        assert_eq!(by_row, Classes { names: vec!["a".into(), "b".into()], colors: None });
    }

    #[test]
    fn unusable_table_leaves_the_names() {
        for row in [&["x", "a"][..], &["-1", "a"], &["0"], &["1e300", "a"], &["1000000", "a"]] {
            assert_eq!(table(&[5, 2], &[row]).classes(), None, "{row:?}");
        }
        assert_eq!(table(&[5, 1], &[&["0", "1"]]).classes(), None);
        let pam = parse(
            "<CategoryNames><Category>water</Category></CategoryNames>\
             <GDALRasterAttributeTable tableType='athematic'><FieldDefn><Usage>2</Usage></FieldDefn><Row><F>a</F></Row>\
             </GDALRasterAttributeTable>",
        );
        assert_eq!(pam.classes(), Some(Classes { names: vec!["water".into()], colors: None }));
    }

    #[test]
    fn everything_else_in_the_document_stays() {
        let document = "<PAMDataset><PAMRasterBand band='1'><Histograms>kept</Histograms><Metadata><MDI key='a'>b</MDI>\
                        <MDI key='STATISTICS_MEAN'>9</MDI></Metadata></PAMRasterBand></PAMDataset>";
        let classes = Classes { names: vec!["x".into()], colors: None };
        let edited = with_classes(Some(document.as_bytes()), &classes);
        assert!(edited.contains("<Histograms>kept</Histograms>"), "{edited}");
        let items = [("STATISTICS_MINIMUM".to_owned(), "1".to_owned())];
        let edited = with_statistics(Some(edited.as_bytes()), &items);
        let pam = Pam::parse(edited.as_bytes(), &XmlLimits::default()).expect("our own document");
        let found: Vec<_> =
            pam.bands[0].metadata.iter().map(|item| (item.name.as_str(), item.value.as_str())).collect();
        assert_eq!(found, [("a", "b"), ("STATISTICS_MINIMUM", "1")]);
        assert_eq!(pam.classes(), Some(classes));
        assert!(with_statistics(Some(b"<!DOCTYPE a><PAMDataset/>"), &items).starts_with("<PAMDataset>"));
    }
}
