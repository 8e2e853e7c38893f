//! GDAL's metadata tag (42112): items in domains, for the dataset and for each band.
//!
//! Some items have a role and define how to read a band: scale, offset, unit, description, colour. As in GDAL,
//! only the role decides: an item with the name `SCALE` but without the role is an ordinary item.

mod statistics;

use std::collections::HashMap;

use crate::number;
use crate::xml::{self, Element, XmlError, XmlLimits};

pub use self::statistics::Statistics;

/// One metadata item.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Item {
    /// The name. It is unique within a domain, and its case does not matter.
    pub name: String,
    /// The value. It is a whole document if the name of the domain starts with `xml:` or `json:`.
    pub value: String,
    /// The domain; `None` is the default domain.
    pub domain: Option<String>,
    /// The role of the item: `scale`, `offset`, `unittype`, `description`, `colorinterp`.
    pub role: Option<String>,
    /// The band, counted from 0; `None` for an item of the dataset.
    pub sample: Option<usize>,
}

/// The roles that describe how a band is read. GDAL names an item as its role, in upper case.
const BAND_ROLES: [&str; 5] = ["scale", "offset", "unittype", "description", "colorinterp"];

impl Item {
    /// An item of the default domain. That of a band has the role that its name says, if GDAL has one of that name.
    pub fn named(name: String, value: String, sample: Option<usize>) -> Item {
        let role = BAND_ROLES.iter().find(|role| sample.is_some() && name == role.to_ascii_uppercase());
        Item { role: role.map(|role| (*role).to_owned()), name, value, domain: None, sample }.with_sound_role()
    }

    /// The item without its role, if that is a scale or an offset and the value is not a finite number. The text stays an item like
    /// any other.
    pub fn with_sound_role(mut self) -> Item {
        let is_number = |role: &String| ["scale", "offset"].iter().any(|number| role.eq_ignore_ascii_case(number));
        if self.role.as_ref().is_some_and(is_number) && !read_number(&self.value).is_some_and(f64::is_finite) {
            self.role = None;
        }
        self
    }
}

/// The items of the tag for one band.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Band<'a> {
    /// See [`GdalMetadata::scale`].
    pub scale: Option<f64>,
    /// See [`GdalMetadata::offset`].
    pub offset: Option<f64>,
    /// See [`GdalMetadata::units`].
    pub units: Option<&'a str>,
    /// See [`GdalMetadata::description`].
    pub description: Option<&'a str>,
    /// See [`GdalMetadata::color_interpretation`].
    pub color_interpretation: Option<&'a str>,
    /// The items without a role, of all domains.
    pub items: Vec<&'a Item>,
}

/// The content of the tag.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GdalMetadata {
    /// All items in file order, including those with a role.
    pub items: Vec<Item>,
    /// The unchanged text of the tag, for copies that do not change it.
    pub xml: String,
}

impl GdalMetadata {
    /// Parses the bytes of the tag. A document with another root element has no items, as in GDAL.
    ///
    /// ```
    /// use swath_tiff::gdal_metadata::GdalMetadata;
    /// let tag = br#"<GDALMetadata><Item name="SCALE" sample="0" role="scale">0.1</Item></GDALMetadata>"#;
    /// assert_eq!(GdalMetadata::parse(tag, &Default::default())?.scale(0), Some(0.1));
    /// # Ok::<(), swath_tiff::xml::XmlError>(())
    /// ```
    pub fn parse(tag: &[u8], limits: &XmlLimits) -> Result<Self, XmlError> {
        let root = xml::parse(tag, limits)?;
        let items =
            if root.is("GDALMetadata") { root.children("Item").filter_map(read_item).collect() } else { vec![] };
        Ok(Self { items, xml: xml::decode(tag).into_owned() })
    }

    /// Returns the items of a domain of the dataset (`sample` is `None`) or of a band, without the items that
    /// have a role there. If several items have the same name, the last one applies.
    pub fn items(&self, sample: Option<usize>, domain: Option<&str>) -> Vec<&Item> {
        let mut places = HashMap::new();
        let mut out: Vec<&Item> = Vec::new();
        for item in &self.items {
            // The role of a band needs a band: an item with a role but without a band is an ordinary item.
            let has_role = item.role.is_some() && item.sample.is_some();
            if item.sample != sample || has_role || item.domain.as_deref() != domain {
                continue;
            }
            match places.entry(item.name.to_ascii_lowercase()) {
                std::collections::hash_map::Entry::Occupied(place) => out[*place.get()] = item,
                std::collections::hash_map::Entry::Vacant(place) => {
                    place.insert(out.len());
                    out.push(item);
                }
            }
        }
        out
    }

    /// Returns the value of an item of the dataset in the default domain.
    pub fn get(&self, name: &str) -> Option<&str> {
        let matches =
            |item: &&Item| item.sample.is_none() && item.domain.is_none() && item.name.eq_ignore_ascii_case(name);
        self.items.iter().rev().find(matches).map(|item| item.value.as_str())
    }

    /// Returns the named domains of the dataset or of a band, in file order.
    pub fn domains(&self, sample: Option<usize>) -> Vec<&str> {
        let mut seen = std::collections::HashSet::new();
        let of_sample = self.items.iter().filter(|item| item.sample == sample);
        of_sample.filter_map(|item| item.domain.as_deref()).filter(|domain| seen.insert(*domain)).collect()
    }

    /// Returns the items of all bands of an image with `count` bands, in one pass. Reading the bands one by one
    /// visits every item each time, which takes minutes for tens of thousands of bands.
    pub fn bands(&self, count: usize) -> Vec<Band<'_>> {
        let mut out = vec![Band::default(); count];
        for item in &self.items {
            let Some(band) = item.sample.and_then(|sample| out.get_mut(sample)) else {
                continue;
            };
            let value = item.value.as_str();
            match item.role.as_deref().map(str::to_ascii_lowercase).as_deref() {
                None => band.items.push(item),
                Some("scale") => band.scale = read_number(value),
                Some("offset") => band.offset = read_number(value),
                Some("unittype") => band.units = Some(value),
                Some("description") => band.description = Some(value),
                Some("colorinterp") => band.color_interpretation = Some(value),
                Some(_) => {}
            }
        }
        out
    }

    /// Adds items for the scale, offset and unit of bands that the tag states otherwise or not at all, because a sidecar or the height
    /// system gives them. Returns whether it added any.
    ///
    /// `bands` has the scale, offset and unit of each band. A scale of 1 and an offset of 0 need no item.
    pub fn state_bands<'a>(
        &mut self,
        bands: impl Iterator<Item = (Option<f64>, Option<f64>, Option<&'a str>)>,
    ) -> bool {
        let mut stated = HashMap::new();
        for item in &self.items {
            if let (Some(band), Some(role)) = (item.sample, &item.role) {
                stated.insert((role.to_ascii_lowercase(), band), item.value.as_str());
            }
        }
        let mut added: Vec<Item> = Vec::new();
        let mut add = |role: &str, band: usize, value: String| {
            added.push(Item {
                name: role.to_ascii_uppercase(),
                value,
                role: Some(role.to_owned()),
                sample: Some(band),
                domain: None,
            });
        };
        for (band, (scale, offset, units)) in bands.enumerate() {
            for (role, plain, value) in [("scale", 1.0, scale), ("offset", 0.0, offset)] {
                let Some(value) = value else { continue };
                let is_stated = match stated.get(&(role.to_owned(), band)).map(|text| text.trim().parse::<f64>()) {
                    Some(Ok(number)) => number == value || !value.is_finite(),
                    // GDAL reads the number at the start of such a text.
                    Some(Err(_)) => true,
                    None => value == plain,
                };
                if !is_stated {
                    add(role, band, format!("{value:?}"));
                }
            }
            let own_units = stated.get(&("unittype".to_owned(), band)).copied().unwrap_or_default();
            if let Some(units) = units.filter(|units| *units != own_units) {
                add("unittype", band, units.to_owned());
            }
        }
        if added.is_empty() {
            return false;
        }
        let of = |item: &Item| item.sample.zip(item.role.as_ref().map(|role| role.to_ascii_lowercase()));
        let replaced: std::collections::HashSet<_> = added.iter().filter_map(of).collect();
        self.items.retain(|item| of(item).is_none_or(|key| !replaced.contains(&key)));
        self.items.extend(added);
        self.xml = encode(&self.items);
        true
    }

    /// Returns the factor that converts a pixel of the band (counted from 0) to a physical value.
    pub fn scale(&self, band: usize) -> Option<f64> {
        read_number(self.role(band, "scale")?)
    }

    /// Returns the number that is added after scaling.
    pub fn offset(&self, band: usize) -> Option<f64> {
        read_number(self.role(band, "offset")?)
    }

    /// Returns the unit of the physical values.
    pub fn units(&self, band: usize) -> Option<&str> {
        self.role(band, "unittype")
    }

    /// Returns the name of the band.
    pub fn description(&self, band: usize) -> Option<&str> {
        self.role(band, "description")
    }

    /// Returns the colour of the band by GDAL's name: `Red`, `Alpha`, `NIR` ...
    pub fn color_interpretation(&self, band: usize) -> Option<&str> {
        self.role(band, "colorinterp")
    }

    /// Returns the statistics of a band.
    pub fn statistics(&self, band: usize) -> Option<Statistics> {
        Statistics::from_items(self.items(Some(band), None).into_iter())
    }

    fn role(&self, band: usize, role: &str) -> Option<&str> {
        let matches = |item: &&Item| {
            item.sample == Some(band) && item.role.as_ref().is_some_and(|found| found.eq_ignore_ascii_case(role))
        };
        self.items.iter().rev().find(matches).map(|item| item.value.as_str())
    }
}

/// Returns the text of the tag for these items, as GDAL writes it; empty if there are no items. The final NUL
/// is added when the tag is written.
pub fn encode(items: &[Item]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let mut out = String::from("<GDALMetadata>\n");
    for item in items {
        out.push_str("  <Item");
        let sample = item.sample.map(|sample| sample.to_string());
        let attributes = [
            ("name", Some(item.name.as_str())),
            ("sample", sample.as_deref()),
            ("domain", item.domain.as_deref()),
            ("role", item.role.as_deref()),
        ];
        for (name, value) in attributes {
            if let Some(value) = value {
                out.extend([" ", name, "=\"", &xml::escape(value), "\""]);
            }
        }
        // GDAL escapes values twice, once as a value and once as XML. Its reader undoes both.
        out.extend([">", &xml::escape_text(&escape_value(&item.value)), "</Item>\n"]);
    }
    out.push_str("</GDALMetadata>\n");
    out
}

/// Escapes as [`xml::escape`] does, and also writes control characters and leading white space as references.
/// XML does not allow control characters, and readers drop leading white space. The references survive because
/// they are escaped once more.
fn escape_value(value: &str) -> String {
    let rest = value.trim_start_matches(|c: char| c.is_ascii_whitespace());
    let (lead, rest) = value.split_at(value.len() - rest.len());
    let mut out: String = lead.chars().map(|c| format!("&#{};", u32::from(c))).collect();
    let special = |c: char| c < ' ' && !matches!(c, '\t' | '\n' | '\r' | '\0');
    let mut start = 0;
    for (at, found) in rest.match_indices(special) {
        out.push_str(&xml::escape(rest.get(start..at).unwrap_or_default()));
        out.extend(found.chars().map(|c| format!("&#{};", u32::from(c))));
        start = at + found.len();
    }
    out.push_str(&xml::escape(rest.get(start..).unwrap_or_default()));
    out
}

/// Returns the items that define how to read a band, in GDAL's order. `scale` and `offset` are written
/// together.
pub fn band_items(
    band: usize,
    scale_offset: Option<(f64, f64)>,
    units: Option<&str>,
    description: Option<&str>,
    color_interpretation: Option<&str>,
) -> Vec<Item> {
    let item = |name: &str, value: String| Item {
        name: name.to_ascii_uppercase(),
        value,
        role: Some(name.to_owned()),
        sample: Some(band),
        domain: None,
    };
    let mut out = Vec::new();
    if let Some((scale, offset)) = scale_offset {
        out.push(item("offset", number::format_g17(offset)));
        out.push(item("scale", number::format_g17(scale)));
    }
    for (name, value) in [("unittype", units), ("description", description), ("colorinterp", color_interpretation)] {
        out.extend(value.map(|value| item(name, value.to_owned())));
    }
    out
}

/// Reads a number; `None` if the text has none. GDAL reads such text as 0, but a scale of 0 would make the
/// whole band 0.
fn read_number(text: &str) -> Option<f64> {
    number::leading(text, true).map(number::Leading::value)
}

fn read_item(element: &Element) -> Option<Item> {
    let some = |name: &str| element.attr(name).filter(|value| !value.is_empty()).map(str::to_owned);
    let sample = match element.attr("sample") {
        // GDAL parses this with `atoi`: text is band 0, and a negative number means the dataset.
        Some(text) => {
            let index = number::leading_f64(text).unwrap_or(0.0);
            (index > -1.0).then_some(index as usize)
        }
        None => None,
    };
    Some(Item {
        name: element.attr("name")?.to_owned(),
        value: read_value(element),
        domain: some("domain"),
        role: some("role"),
        sample,
    })
}

/// Returns the value of an element: its text, or the XML inside it if the writer stored elements and no text.
pub(crate) fn read_value(element: &Element) -> String {
    if element.children.is_empty() { xml::unescape(element.text()).into_owned() } else { inner_xml(element) }
}

/// Returns the elements inside an element as XML text.
pub(crate) fn inner_xml(element: &Element) -> String {
    element.children.iter().map(Element::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(items: &str) -> GdalMetadata {
        let tag = format!("<GDALMetadata>{items}</GDALMetadata>\n\0");
        GdalMetadata::parse(tag.as_bytes(), &XmlLimits::default()).expect("well-formed")
    }

    fn pairs(items: Vec<&Item>) -> Vec<(&str, &str)> {
        items.into_iter().map(|item| (item.name.as_str(), item.value.as_str())).collect()
    }

    #[test]
    fn text_of_gdal_is_written_back_byte_for_byte() {
        let text = r#"<GDALMetadata>
  <Item name="A">1</Item>
  <Item name="B">a&amp;amp;b&amp;lt;c&amp;gt;d&amp;quot;e'f
g	h  i é</Item>
  <Item name="EMPTY"></Item>
  <Item name="na&amp;me&lt;&quot;" domain="a&quot;b&lt;">y</Item>
  <Item name="doc" domain="xml:FOO">&amp;lt;foo a=&amp;quot;1&amp;quot;&amp;gt;x &amp;amp;amp; y&amp;lt;/foo&amp;gt;</Item>
  <Item name="K" sample="0" domain="DOM">band1dom</Item>
  <Item name="SCALE" sample="0" role="scale">0.10000000000000001</Item>
</GDALMetadata>
"#;
        let metadata = GdalMetadata::parse(text.as_bytes(), &XmlLimits::default()).expect("well-formed");
        assert_eq!(encode(&metadata.items), text);
        assert_eq!(metadata.xml, text);
        assert_eq!(metadata.get("b"), Some("a&b<c>d\"e'f\ng\th  i é"));
        assert_eq!(pairs(metadata.items(None, Some("xml:FOO"))), [("doc", "<foo a=\"1\">x &amp; y</foo>")]);
        assert_eq!(metadata.domains(None), ["a\"b<", "xml:FOO"]);
    }

    #[test]
    fn values_escaped_once_by_other_writers_are_not_cut_off() {
        let metadata = read("<Item name='A'>x &amp; y</Item><Item name='B'>AT&amp;T &lt;</Item>");
        assert_eq!(pairs(metadata.items(None, None)), [("A", "x & y"), ("B", "AT&T <")]);
    }

    #[test]
    fn only_the_role_of_an_item_decides_not_its_name() {
        let metadata = read(
            "<Item name='SCALE' sample='0'>9</Item><Item name='q' sample='1' role='Scale'>2,5</Item>\
             <Item name='OFFSET' sample='1' role='offset'>x</Item><Item name='SCALE' role='scale'>4</Item>",
        );
        assert_eq!((metadata.scale(0), metadata.scale(1), metadata.offset(1)), (None, Some(2.5), None));
        assert_eq!(pairs(metadata.items(Some(0), None)), [("SCALE", "9")]);
        assert_eq!(pairs(metadata.items(Some(1), None)), []);
        assert_eq!(pairs(metadata.items(None, None)), [("SCALE", "4")]);
    }

    #[test]
    fn bands_that_a_sidecar_describes_get_items() {
        let mut metadata = read(
            "<Item name='A'>1</Item><Item name='SCALE' sample='0' role='scale'>0.5</Item>\
             <Item name='OFFSET' sample='0' role='offset'>2x</Item>",
        );
        assert!(!metadata.state_bands([(Some(0.5), Some(2.0), None), (Some(1.0), Some(0.0), None)].into_iter()));
        assert!(metadata.state_bands([(Some(0.25), Some(2.0), Some("m"))].into_iter()));
        assert_eq!((metadata.scale(0), metadata.offset(0), metadata.units(0)), (Some(0.25), Some(2.0), Some("m")));
        assert_eq!(metadata.items.len(), 4);
        assert_eq!(GdalMetadata::parse(metadata.xml.as_bytes(), &XmlLimits::default()).unwrap().items, metadata.items);
    }

    #[test]
    fn role_comes_from_the_name_and_needs_a_number() {
        let role = |name: &str, value: &str, band| Item::named(name.into(), value.into(), band).role;
        assert_eq!(role("SCALE", "2,5", Some(0)).as_deref(), Some("scale"));
        assert_eq!(role("UNITTYPE", "m", Some(1)).as_deref(), Some("unittype"));
        for (name, value, band) in [("SCALE", "2", None), ("SCALE", "x", Some(0)), ("scale", "2", Some(0))] {
            assert_eq!(role(name, value, band), None, "{name} {value}");
        }
    }

    #[test]
    fn tens_of_thousands_of_bands_take_one_pass() {
        let count = 65_535;
        let items: Vec<Item> =
            (0..count).flat_map(|band| band_items(band, Some((2.0, 1.0)), None, Some("b"), None)).collect();
        let metadata = GdalMetadata { items, xml: String::new() };
        let start = std::time::Instant::now();
        let bands = metadata.bands(count);
        assert!(bands.iter().all(|band| band.scale == Some(2.0) && band.description == Some("b")));
        assert!(start.elapsed().as_secs() < 2, "{:?}", start.elapsed());
        assert_eq!(metadata.bands(0), []);
    }

    #[test]
    fn band_numbers_are_parsed_like_atoi() {
        let metadata = read(
            "<Item name='A' sample='-1'>x</Item><Item name='B' sample='junk'>y</Item><Item name='C' sample='1e99'>z</Item>",
        );
        assert_eq!(
            metadata.items.iter().map(|item| item.sample).collect::<Vec<_>>(),
            [None, Some(0), Some(usize::MAX)]
        );
    }

    #[test]
    fn last_of_several_items_with_the_same_name_applies() {
        let metadata = read("<Item name='A'>1</Item><Item name='B'>2</Item><Item name='a'>3</Item><Item>4</Item>");
        assert_eq!(pairs(metadata.items(None, None)), [("a", "3"), ("B", "2")]);
        assert_eq!(metadata.get("A"), Some("3"));
    }

    #[test]
    fn elements_inside_an_item_survive() {
        let metadata = read("<Item name='doc' domain='xml:FOO' format='xml'><foo a='1'><b>x &amp; y</b></foo></Item>");
        let value = "<foo a=\"1\">\n  <b>x &amp; y</b>\n</foo>\n";
        assert_eq!(pairs(metadata.items(None, Some("xml:FOO"))), [("doc", value)]);
        let again = GdalMetadata::parse(encode(&metadata.items).as_bytes(), &XmlLimits::default());
        assert_eq!(again.map(|again| again.items), Ok(metadata.items));
    }

    #[test]
    fn statistics_need_a_number() {
        let metadata = read(
            "<Item name='STATISTICS_MINIMUM' sample='1'>-3.5</Item><Item name='STATISTICS_MAXIMUM' sample='1'>nan</Item>\
             <Item name='STATISTICS_MEAN' sample='1'>?</Item><Item name='STATISTICS_APPROXIMATE' sample='1'>YES</Item>",
        );
        let statistics = metadata.statistics(1).expect("the band has statistics");
        assert_eq!((statistics.minimum, statistics.mean, statistics.approximate), (Some(-3.5), None, true));
        assert_eq!(metadata.statistics(0), None);
    }

    #[test]
    fn written_band_items_have_gdals_order_and_digits() {
        let items = band_items(2, Some((2e-5, 1.0 / 3.0)), Some("K<"), None, Some("Red"));
        let lines = encode(&items);
        assert_eq!(
            lines.lines().collect::<Vec<_>>()[1..5],
            [
                r#"  <Item name="OFFSET" sample="2" role="offset">0.33333333333333331</Item>"#,
                r#"  <Item name="SCALE" sample="2" role="scale">2.0000000000000002e-05</Item>"#,
                r#"  <Item name="UNITTYPE" sample="2" role="unittype">K&amp;lt;</Item>"#,
                r#"  <Item name="COLORINTERP" sample="2" role="colorinterp">Red</Item>"#,
            ]
        );
    }

    #[test]
    fn written_statistics_have_gdals_names_and_digits() {
        let statistics = Statistics {
            minimum: Some(-0.6464149355888367),
            maximum: Some(1e15),
            mean: Some(5.0),
            std_dev: Some(1.0 / 3.0),
            valid_percent: Some(99.9999),
            approximate: true,
        };
        let items = statistics.to_items(Some(1));
        let all: Vec<_> =
            items.iter().map(|item| (item.name.trim_start_matches("STATISTICS_"), item.value.as_str())).collect();
        assert_eq!(
            all,
            [
                ("APPROXIMATE", "YES"),
                ("MINIMUM", "-0.64641493558884"),
                ("MAXIMUM", "1e+15"),
                ("MEAN", "5"),
                ("STDDEV", "0.33333333333333"),
                ("VALID_PERCENT", "99.999")
            ]
        );
        let back =
            GdalMetadata::parse(encode(&items).as_bytes(), &XmlLimits::default()).unwrap().statistics(1).unwrap();
        assert_eq!((back.approximate, back.mean, back.valid_percent), (true, Some(5.0), Some(99.999)));
        assert_eq!(Statistics { valid_percent: Some(100.0), ..Statistics::default() }.to_items(None)[0].value, "100");
    }

    #[test]
    fn every_text_is_read_back_unchanged() {
        for value in [
            "]]>",
            "a\u{1}b\u{1f}",
            "\n\t lead",
            "trail \n",
            "é 日本 \u{10FFFF}",
            "&#65;&amp;&lt;",
            "<![CDATA[x]]>",
            "a\r\nb",
        ] {
            let item =
                Item { name: value.trim().replace(['\u{1}', '\u{1f}'], ""), value: value.into(), ..Item::default() };
            let text = encode(std::slice::from_ref(&item));
            let back = GdalMetadata::parse(text.as_bytes(), &XmlLimits::default()).unwrap();
            assert_eq!(back.items, [item], "{text}");
        }
    }

    #[test]
    fn foreign_and_damaged_documents_have_no_items() {
        let parse = |text: &str| GdalMetadata::parse(text.as_bytes(), &XmlLimits::default());
        assert_eq!(parse("<Root><GDALMetadata/></Root>").map(|metadata| metadata.items), Ok(vec![]));
        assert!(parse("<GDALMetadata><Item name='A'>1</Item></GDALMeta").is_err());
        let seed = "<GDALMetadata><Item name=\"A\" sample=\"1\" role=\"scale\">&amp;amp;1.5</Item></GDALMetadata>\0";
        crate::mutate::each(seed.as_bytes(), 20_000, |bytes| {
            if let Ok(metadata) = GdalMetadata::parse(bytes, &XmlLimits::default()) {
                let _ =
                    (metadata.scale(1), metadata.statistics(0), metadata.items(None, None), encode(&metadata.items));
            }
        });
    }
}
