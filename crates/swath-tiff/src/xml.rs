//! A small XML reader and writer for the metadata that travels with an image.
//!
//! It reads what GDAL and Esri write and nothing that could hurt: no DOCTYPE, no entities beyond the five
//! predefined ones and character references, and limits on size, depth and number of nodes. It never recurses.

use std::borrow::Cow;
use std::fmt;

/// How much XML a reader is willing to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XmlLimits {
    /// Bytes of the whole document.
    pub bytes: usize,
    /// Elements inside each other.
    pub depth: usize,
    /// Elements and attributes of the whole document.
    pub nodes: usize,
}

impl Default for XmlLimits {
    fn default() -> Self {
        Self { bytes: 64 << 20, depth: 64, nodes: 1 << 20 }
    }
}

/// Why a text could not be read as XML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum XmlError {
    /// The document is larger than the limit.
    #[error("XML of {bytes} bytes is larger than the limit of {limit}")]
    TooLarge {
        /// Size of the document.
        bytes: usize,
        /// [`XmlLimits::bytes`].
        limit: usize,
    },
    /// Elements are nested deeper than the limit.
    #[error("XML is nested deeper than {limit} elements at byte {offset}")]
    TooDeep {
        /// [`XmlLimits::depth`].
        limit: usize,
        /// Where the first element too deep starts.
        offset: usize,
    },
    /// The document has more elements and attributes than the limit.
    #[error("XML has more than {limit} elements and attributes")]
    TooManyNodes {
        /// [`XmlLimits::nodes`].
        limit: usize,
    },
    /// The document declares a document type, which is how entity bombs and external files come in.
    #[error("XML has a DOCTYPE at byte {offset}, which is not accepted")]
    Doctype {
        /// Where it starts.
        offset: usize,
    },
    /// A rule of XML is broken.
    #[error("XML is malformed at byte {offset}: {what}")]
    Malformed {
        /// Where.
        offset: usize,
        /// The rule that is broken, as the end of a sentence.
        what: &'static str,
    },
    /// An element is closed by the tag of another one.
    #[error("XML element <{open}> is closed by </{close}> at byte {offset}")]
    Mismatch {
        /// The innermost open element.
        open: String,
        /// The name in the closing tag.
        close: String,
        /// Where the closing tag starts.
        offset: usize,
    },
    /// The text ends before the root element does.
    #[error("XML ends before its root element is closed")]
    Truncated,
}

/// An XML element with everything inside it.
///
/// Text is kept as in an element tree: [`text`](Self::text) comes before the first child and each child's
/// [`tail`](Self::tail) follows it, so that mixed content survives. White space between elements is dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Element {
    /// The tag, with its namespace prefix as written.
    pub name: String,
    /// Names and unescaped values, in order.
    pub attributes: Vec<(String, String)>,
    /// Unescaped text before the first child.
    pub text: String,
    /// The elements directly inside.
    pub children: Vec<Element>,
    /// Unescaped text between the end of this element and its next sibling.
    pub tail: String,
}

impl Element {
    /// An empty element.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// The first child of that name; case does not matter, as in GDAL.
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.is(name))
    }

    /// All children of that name.
    pub fn children<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.is(name))
    }

    /// The value of an attribute.
    pub fn attr(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The element's own text. Leading white space is layout and left out, as GDAL does.
    pub fn text(&self) -> &str {
        self.text.trim_start_matches(|c: char| c.is_ascii_whitespace())
    }

    /// The text of the first child of that name.
    pub fn child_text(&self, name: &str) -> Option<&str> {
        self.child(name).map(Element::text)
    }

    /// True when the element has that name.
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    fn write(&self, out: &mut fmt::Formatter<'_>, depth: usize, pretty: bool) -> fmt::Result {
        write!(out, "<{}", self.name)?;
        for (name, value) in &self.attributes {
            write!(out, " {name}=\"{}\"", escape(value))?;
        }
        if self.children.is_empty() && self.text.is_empty() {
            return out.write_str(" />");
        }
        write!(out, ">{}", escape_text(&self.text))?;
        // Layout inside mixed content would become part of the text.
        let mixed = !self.text().is_empty() || self.children.iter().any(|child| !child.tail.is_empty());
        let pretty = pretty && !mixed && !self.children.is_empty();
        for child in &self.children {
            if pretty {
                write!(out, "\n{:1$}", "", 2 * (depth + 1))?;
            }
            child.write(out, depth + 1, pretty)?;
            out.write_str(&escape_text(&child.tail))?;
        }
        if pretty {
            write!(out, "\n{:1$}", "", 2 * depth)?;
        }
        write!(out, "</{}>", self.name)
    }
}

/// Writes the element as GDAL does: two spaces per level, a line feed at the end.
impl fmt::Display for Element {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(out, 0, true)?;
        out.write_str("\n")
    }
}

/// Replaces the characters that XML reserves, and drops the control characters that it cannot hold.
pub fn escape(text: &str) -> Cow<'_, str> {
    escape_where(text, true)
}

/// As [`escape`], but a quote needs no escape outside of attributes and GDAL leaves it.
pub(crate) fn escape_text(text: &str) -> Cow<'_, str> {
    escape_where(text, false)
}

fn escape_where(text: &str, quotes: bool) -> Cow<'_, str> {
    let special =
        |c: char| matches!(c, '&' | '<' | '>') || (quotes && c == '"') || (c < ' ' && !matches!(c, '\t' | '\n' | '\r'));
    if !text.contains(special) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' if quotes => out.push_str("&quot;"),
            c if special(c) => {}
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Resolves the predefined entities and character references; anything else after a `&` stays as it is.
pub fn unescape(text: &str) -> Cow<'_, str> {
    // "&#x10FFFF;" is the longest reference; looking no further keeps a text full of '&' linear.
    const LONGEST: usize = 12;
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let name_end = after.bytes().take(LONGEST).position(|byte| !byte.is_ascii_alphanumeric() && byte != b'#');
        let (name, end) = after.split_at(name_end.unwrap_or(0));
        match reference(name).zip(end.strip_prefix(';')) {
            Some((c, remainder)) => {
                out.push(c);
                rest = remainder;
            }
            None => {
                out.push('&');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn reference(name: &str) -> Option<char> {
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code).filter(|c| *c != '\0').unwrap_or(char::REPLACEMENT_CHARACTER)
        }
    })
}

/// Reads a document and returns its root element.
///
/// Text before the root and after it is ignored, as is everything from the first NUL on: the text may come
/// straight from a TIFF tag.
pub fn parse(bytes: &[u8], limits: &XmlLimits) -> Result<Element, XmlError> {
    if bytes.len() > limits.bytes {
        return Err(XmlError::TooLarge { bytes: bytes.len(), limit: limits.bytes });
    }
    Parser { text: &decode(bytes), at: 0, open: Vec::new(), nodes: 0, limits }.run()
}

/// The document's characters, whatever its encoding.
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
    // Undeclared text that is not UTF-8 is Latin-1 in practice; what is valid UTF-8 around it stays.
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
    at: usize,
    open: Vec<Element>,
    nodes: usize,
    limits: &'a XmlLimits,
}

impl<'a> Parser<'a> {
    fn run(mut self) -> Result<Element, XmlError> {
        loop {
            let chunk = self.until("<")?;
            self.append(chunk, true);
            let start = self.at - 1;
            if self.skip("!--") {
                self.until("-->")?;
            } else if self.skip("![CDATA[") {
                let chunk = self.until("]]>")?;
                self.append(chunk, false);
            } else if self.skip("?") {
                self.until("?>")?;
            } else if self.skip("!") {
                let is_doctype = self.rest().get(..7).is_some_and(|word| word.eq_ignore_ascii_case("DOCTYPE"));
                return Err(if is_doctype {
                    XmlError::Doctype { offset: start }
                } else {
                    XmlError::Malformed { offset: start, what: "a declaration that is not known" }
                });
            } else if self.skip("/") {
                if let Some(root) = self.close(start)? {
                    return Ok(root);
                }
            } else if let Some(root) = self.open(start)? {
                return Ok(root);
            }
        }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    /// The text up to `mark`; stands after it then.
    fn until(&mut self, mark: &str) -> Result<&'a str, XmlError> {
        let (before, _) = self.rest().split_once(mark).ok_or(XmlError::Truncated)?;
        self.at += before.len() + mark.len();
        Ok(before)
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = rest.split(|c| !keep(c)).next().unwrap_or_default();
        self.at += taken.len();
        taken
    }

    fn name(&mut self) -> Result<&'a str, XmlError> {
        let offset = self.at;
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '-' | '.') || !c.is_ascii();
        let name = self.take_while(is_name);
        match name.chars().next() {
            Some(first) if !first.is_ascii_digit() && first != '-' && first != '.' => Ok(name),
            Some(_) => Err(XmlError::Malformed { offset, what: "a name starts with a digit, a dash or a dot" }),
            None if self.rest().is_empty() => Err(XmlError::Truncated),
            None => Err(XmlError::Malformed { offset, what: "a name is missing" }),
        }
    }

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

    /// Reads an opening tag; returns the root if it was empty and the outermost.
    fn open(&mut self, start: usize) -> Result<Option<Element>, XmlError> {
        if self.open.len() >= self.limits.depth {
            return Err(XmlError::TooDeep { limit: self.limits.depth, offset: start });
        }
        self.count()?;
        let mut element = Element::new(self.name()?);
        loop {
            self.take_while(|c| c.is_ascii_whitespace());
            if self.skip(">") {
                self.open.push(element);
                return Ok(None);
            }
            if self.skip("/>") {
                return Ok(self.attach(element));
            }
            self.count()?;
            let name = self.name()?;
            self.take_while(|c| c.is_ascii_whitespace());
            if !self.skip("=") {
                return Err(XmlError::Malformed { offset: self.at, what: "an attribute has no value" });
            }
            self.take_while(|c| c.is_ascii_whitespace());
            let value = if self.skip("\"") {
                self.until("\"")?
            } else if self.skip("'") {
                self.until("'")?
            } else {
                return Err(XmlError::Malformed { offset: self.at, what: "an attribute value is not quoted" });
            };
            element.attributes.push((name.to_owned(), unescape(value).into_owned()));
        }
    }

    fn close(&mut self, start: usize) -> Result<Option<Element>, XmlError> {
        let name = self.name()?;
        self.take_while(|c| c.is_ascii_whitespace());
        if !self.skip(">") {
            return Err(XmlError::Malformed { offset: self.at, what: "a closing tag does not end" });
        }
        let Some(element) = self.open.pop() else {
            return Err(XmlError::Malformed { offset: start, what: "a closing tag comes before any opening tag" });
        };
        if !element.is(name) {
            return Err(XmlError::Mismatch { open: element.name, close: name.to_owned(), offset: start });
        }
        Ok(self.attach(element))
    }

    /// Hands a finished element to its parent, or back when it is the root.
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn broken_documents_are_errors_not_guesses() {
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
