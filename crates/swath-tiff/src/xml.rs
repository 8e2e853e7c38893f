//! XML elements, for the metadata that is stored with an image.
//!
//! The reader accepts what GDAL and Esri write. It refuses every DOCTYPE, resolves no entities but the five predefined ones and
//! character references, and limits the size, the depth and the number of nodes of a document.

mod read;

use std::borrow::Cow;
use std::fmt;

pub(crate) use read::decode;
pub use read::parse;

/// The largest document that is read.
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
