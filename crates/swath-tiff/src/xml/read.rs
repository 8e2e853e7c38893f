//! Reads XML with the tokenizer of `quick-xml`.
//!
//! `roxmltree` is not suitable: it follows the XML specification and refuses documents that GDAL reads. The
//! test `documents_that_gdal_reads_are_read` has one of each kind. `quick-xml` only splits the text into tags,
//! text and comments. This module implements the rules about nesting, names, references and limits.

use std::borrow::Cow;

use quick_xml::errors::{Error as Syntax, SyntaxError};
use quick_xml::events::{BytesStart, Event};

use super::{Element, XmlError, XmlLimits, unescape};

/// Reads a document and returns its root element.
///
/// Text before and after the root is ignored, and so is everything from the first NUL on, because the text may
/// come directly from a TIFF tag.
///
/// # Errors
/// Returns [`XmlError`] if the document is broken, has a DOCTYPE or exceeds a limit.
pub fn parse(bytes: &[u8], limits: &XmlLimits) -> Result<Element, XmlError> {
    if bytes.len() > limits.bytes {
        return Err(XmlError::TooLarge { bytes: bytes.len(), limit: limits.bytes });
    }
    let text = decode(bytes);
    Parser { text: &text, open: Vec::new(), nodes: 0, limits }.run()
}

/// Decodes the characters of a document in any supported encoding.
pub(crate) fn decode(bytes: &[u8]) -> Cow<'_, str> {
    match bytes {
        [0xFF, 0xFE, rest @ ..] => return Cow::Owned(decode_utf16(rest, u16::from_le_bytes)),
        [0xFE, 0xFF, rest @ ..] => return Cow::Owned(decode_utf16(rest, u16::from_be_bytes)),
        _ => {}
    }
    let bytes = bytes.strip_prefix(&[0xEF, 0xBB, 0xBF]).unwrap_or(bytes);
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    if !declares_latin1(bytes)
        && let Ok(text) = std::str::from_utf8(bytes)
    {
        return Cow::Borrowed(text);
    }
    // Undeclared text that is not UTF-8 is Latin-1 in practice. Valid UTF-8 around it is kept.
    let mut out = String::with_capacity(bytes.len() + bytes.len() / 8);
    if declares_latin1(bytes) {
        out.extend(bytes.iter().map(|byte| char::from(*byte)));
    } else {
        for chunk in bytes.utf8_chunks() {
            out.push_str(chunk.valid());
            out.extend(chunk.invalid().iter().map(|byte| char::from(*byte)));
        }
    }
    Cow::Owned(out)
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    char::decode_utf16(units.take_while(|unit| *unit != 0)).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

fn declares_latin1(bytes: &[u8]) -> bool {
    let Some(declaration) = bytes.strip_prefix(b"<?xml") else {
        return false;
    };
    let end = declaration.iter().take(200).position(|byte| *byte == b'>').unwrap_or(0);
    let declaration = String::from_utf8_lossy(&declaration[..end]).to_ascii_lowercase();
    ["iso-8859-1", "iso8859-1", "latin1", "latin-1", "windows-1252"].iter().any(|name| declaration.contains(name))
}

struct Parser<'a> {
    text: &'a str,
    /// The elements that are not closed yet, the root first. This is a list and not recursion, so that depth
    /// costs no stack.
    open: Vec<Element>,
    nodes: usize,
    limits: &'a XmlLimits,
}

impl<'a> Parser<'a> {
    fn run(mut self) -> Result<Element, XmlError> {
        let mut reader = quick_xml::Reader::from_str(self.text);
        let config = reader.config_mut();
        config.allow_dangling_amp = true;
        config.allow_unmatched_ends = true;
        // `close` compares the names, without regard to case.
        config.check_end_names = false;
        let mut text_start = 0;
        loop {
            let start = reader.buffer_position() as usize;
            let event = reader.read_event().map_err(|error| translate(&error, start))?;
            // The text between two tags arrives in several events if it has references. The code below takes it
            // as a whole.
            if matches!(event, Event::Text(_) | Event::GeneralRef(_)) {
                continue;
            }
            self.append(self.text.get(text_start..start).unwrap_or_default(), true);
            text_start = reader.buffer_position() as usize;
            let root = match event {
                Event::Start(tag) => {
                    let element = self.element(&tag, start)?;
                    self.open.push(element);
                    None
                }
                Event::Empty(tag) => {
                    let element = self.element(&tag, start)?;
                    self.attach(element)
                }
                Event::End(tag) => self.close(utf8(tag.name().into_inner()), start)?,
                Event::CData(data) => {
                    self.append(utf8(&data), false);
                    None
                }
                Event::DocType(_) => return Err(XmlError::Doctype { offset: start }),
                Event::Eof => return Err(XmlError::Truncated),
                _ => None,
            };
            if let Some(root) = root {
                return Ok(root);
            }
        }
    }

    /// Appends to the text of the innermost open element, or to the tail of its last child.
    fn append(&mut self, chunk: &str, escaped: bool) {
        let Some(element) = self.open.last_mut() else {
            return;
        };
        if escaped && chunk.bytes().all(|byte| byte.is_ascii_whitespace()) {
            return;
        }
        let text = match element.children.last_mut() {
            Some(child) => &mut child.tail,
            None => &mut element.text,
        };
        text.push_str(&if escaped { unescape(chunk) } else { Cow::Borrowed(chunk) });
    }

    fn count(&mut self) -> Result<(), XmlError> {
        self.nodes += 1;
        if self.nodes > self.limits.nodes {
            return Err(XmlError::TooManyNodes { limit: self.limits.nodes });
        }
        Ok(())
    }

    /// Returns the element that an opening tag starts, with its attributes.
    fn element(&mut self, tag: &BytesStart<'_>, start: usize) -> Result<Element, XmlError> {
        if self.open.len() >= self.limits.depth {
            return Err(XmlError::TooDeep { limit: self.limits.depth, offset: start });
        }
        self.count()?;
        let mut element = Element::new(check_name(utf8(tag.name().into_inner()), start)?);
        for attribute in tag.attributes().with_checks(false) {
            self.count()?;
            let what = "an attribute has no quoted value";
            let attribute = attribute.map_err(|_| XmlError::Malformed { offset: start, what })?;
            let name = check_name(utf8(attribute.key.into_inner()), start)?;
            element.attributes.push((name.to_owned(), unescape(utf8(&attribute.value)).into_owned()));
        }
        Ok(element)
    }

    fn close(&mut self, name: &str, start: usize) -> Result<Option<Element>, XmlError> {
        let name = check_name(name, start)?;
        let Some(element) = self.open.pop() else {
            return Err(XmlError::Malformed { offset: start, what: "a closing tag comes before any opening tag" });
        };
        if !element.is(name) {
            return Err(XmlError::Mismatch { open: element.name, close: name.to_owned(), offset: start });
        }
        Ok(self.attach(element))
    }

    /// Adds a finished element to its parent, or returns it when it is the root.
    fn attach(&mut self, element: Element) -> Option<Element> {
        match self.open.last_mut() {
            Some(parent) => {
                parent.children.push(element);
                None
            }
            None => Some(element),
        }
    }
}

fn check_name(name: &str, offset: usize) -> Result<&str, XmlError> {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '-' | '.') || !c.is_ascii();
    match name.chars().next() {
        None => Err(XmlError::Malformed { offset, what: "a name is missing" }),
        Some('0'..='9' | '-' | '.') => {
            Err(XmlError::Malformed { offset, what: "a name starts with a digit, a dash or a dot" })
        }
        Some(_) if name.chars().all(is_name) => Ok(name),
        Some(_) => Err(XmlError::Malformed { offset, what: "a name has a character that is not allowed in names" }),
    }
}

/// Converts a part of the document to text. The tokenizer received a `str` and cuts it at ASCII characters, so
/// its parts are UTF-8.
fn utf8(part: &[u8]) -> &str {
    std::str::from_utf8(part).unwrap_or_default()
}

fn translate(error: &Syntax, offset: usize) -> XmlError {
    match error {
        Syntax::Syntax(SyntaxError::UnclosedDoctype) => XmlError::Doctype { offset },
        Syntax::Syntax(SyntaxError::InvalidBangMarkup) => {
            XmlError::Malformed { offset, what: "an unknown declaration" }
        }
        Syntax::Syntax(_) => XmlError::Truncated,
        _ => XmlError::Malformed { offset, what: "a tag breaks the rules of XML" },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::escape;

    fn read(text: &str) -> Result<Element, XmlError> {
        parse(text.as_bytes(), &XmlLimits::default())
    }

    #[test]
    fn elements_attributes_and_text_are_read() {
        let root = read(
            "junk <?xml version='1.0'?><!-- c --><A x='1' y = \"&lt;&#x41;\"> a <b/>t<b>&amp;<![CDATA[<&lt;]]></b></A> x",
        );
        let root = root.expect("well-formed");
        assert_eq!((root.name.as_str(), root.attr("X"), root.attr("y")), ("A", Some("1"), Some("<A")));
        assert_eq!(root.text(), "a ");
        assert_eq!(
            root.children("B").map(|b| (b.text(), b.tail.as_str())).collect::<Vec<_>>(),
            [("", "t"), ("&<&lt;", "")]
        );
    }

    #[test]
    fn doctype_is_refused_even_when_harmless() {
        assert_eq!(read("<!DOCTYPE a><a/>"), Err(XmlError::Doctype { offset: 0 }));
        assert_eq!(read("<a><!doctype a [<!ENTITY e 'x'>]></a>"), Err(XmlError::Doctype { offset: 3 }));
    }

    #[test]
    fn unknown_entities_are_never_expanded() {
        let root = read("<a>AT&T &e; &#0;&#xD800; &#65;&;&</a>").expect("well-formed");
        assert_eq!(root.text(), "AT&T &e; \u{FFFD}\u{FFFD} A&;&");
    }

    #[test]
    fn limits_stop_size_depth_and_nodes() {
        let limits = XmlLimits { bytes: 100, depth: 3, nodes: 4 };
        let at = |text: &str| parse(text.as_bytes(), &limits);
        assert!(at("<a><b><c/></b></a>").is_ok());
        assert_eq!(at("<a><b><c><d/></c></b></a>"), Err(XmlError::TooDeep { limit: 3, offset: 9 }));
        assert_eq!(at("<a x='' y='' z='' w=''/>"), Err(XmlError::TooManyNodes { limit: 4 }));
        assert_eq!(at(&" ".repeat(101)), Err(XmlError::TooLarge { bytes: 101, limit: 100 }));
    }

    #[test]
    fn broken_documents_are_errors() {
        for truncated in
            ["", "a", "<", "<a", "<a ", "<a x", "<a x='", "<a>", "<a>b</", "<a><!-- ", "<a><![CDATA[ ]]", "<?x"]
        {
            let error = read(truncated).expect_err(truncated);
            assert!(matches!(error, XmlError::Truncated | XmlError::Malformed { .. }), "{truncated}: {error}");
        }
        assert!(matches!(read("<a></b>"), Err(XmlError::Mismatch { .. })));
        for malformed in ["</a>", "<a x=1/>", "<a x/>", "<1/>", "<a>x < y</a>", "<a></a x>", "<!X><a/>"] {
            assert!(matches!(read(malformed), Err(XmlError::Malformed { .. })), "{malformed}");
        }
    }

    #[test]
    fn documents_that_gdal_reads_are_read() {
        let item = |text: &str| {
            let root = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            root.child_text("Item").expect("an item").to_owned()
        };
        let inside = |item: &str| format!("<M>{item}</M>");
        // GDAL reads each of these documents and `roxmltree` refuses it. GDAL ends a text at a bare '&'; this
        // reader keeps it.
        for (text, want) in [
            (inside("<Item>AT&T</Item>"), "AT&T"),
            (inside("<Item>A & B</Item>"), "A & B"),
            (inside("<Item>a &nbsp; b</Item>"), "a &nbsp; b"),
            (inside("<Item n=\"K&L\">V</Item>"), "V"),
            (inside("<Item>a\u{1}b&#1;</Item>"), "a\u{1}b\u{1}"),
            (inside("<Item>a]]>b</Item>"), "a]]>b"),
            (inside("<Item n=\"a<b\">V</Item>"), "V"),
            (inside("<Item n='1' n='2'>V</Item>"), "V"),
            (inside("<Item xlink:href='u'>V</Item><gmd:X/>"), "V"),
            (inside("<!-- a -- b --><Item>V</Item>"), "V"),
            ("<M><Item>V</item></m>".into(), "V"),
            (" <?xml version='1.0'?><M><Item>V</Item></M>".into(), "V"),
            ("junk <M><Item>V</Item></M> junk <X/>".into(), "V"),
            ("<M><Item>V</Item></M>\0<garbage".into(), "V"),
        ] {
            assert_eq!(item(&text), want, "{text}");
        }
    }

    #[test]
    fn every_encoding_in_the_wild_is_decoded() {
        let text = |bytes: &[u8]| parse(bytes, &XmlLimits::default()).map(|root| root.text).expect("well-formed");
        assert_eq!(text("\u{FEFF}<a>é</a>".as_bytes()), "é");
        assert_eq!(text(b"<a>\xE9 \xC3\xA9</a>\0\0junk"), "é é");
        assert_eq!(text(b"<?xml version='1.0' encoding='ISO-8859-1'?><a>\xC3\xA9</a>"), "Ã©");
        let utf16 = "<a>é</a>".encode_utf16();
        assert_eq!(
            text(&[0xFF, 0xFE].into_iter().chain(utf16.clone().flat_map(u16::to_le_bytes)).collect::<Vec<_>>()),
            "é"
        );
        assert_eq!(text(&[0xFE, 0xFF].into_iter().chain(utf16.flat_map(u16::to_be_bytes)).collect::<Vec<_>>()), "é");
    }

    #[test]
    fn written_xml_has_gdals_layout_and_reads_back() {
        let text = "<foo a=\"1 &quot;\">\n  <b>t &amp; \"q\" &lt;</b>\n  <c>x<d />y</c>\n  <Name />\n</foo>\n";
        let root = read(text).expect("well-formed");
        assert_eq!(root.to_string(), text);
        assert_eq!(escape("a\u{1}\"<"), "a&quot;&lt;");
    }

    #[test]
    fn hostile_repetition_takes_linear_time() {
        let start = std::time::Instant::now();
        for unit in ["<a ", "<a>", "&", "&#", "<!-", "<![CDATA[", "]]", "<?", "<a b='", "</", "\u{FFFD}", "<a/>"] {
            for prefix in ["", "<r>", "<r>x<b/>"] {
                let text = format!("{prefix}{}", unit.repeat((1 << 20) / unit.len()));
                let _ = read(&text);
            }
        }
        assert!(start.elapsed().as_secs() < 10, "36 MiB of markup took {:?}", start.elapsed());
    }

    #[test]
    fn mutated_documents_never_panic() {
        let seed = "\u{FEFF}<?xml encoding='utf-8'?><P a='é'><!-- x --><M b=\"&#65;\"><![CDATA[q]]>t</M><N/>&amp;</P>";
        crate::mutate::each(seed.as_bytes(), 20_000, |bytes| {
            let _ = parse(bytes, &XmlLimits::default()).map(|root| read(&root.to_string()).is_ok());
        });
    }
}
