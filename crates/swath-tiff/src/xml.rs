//! XML elements, for the metadata that is stored with an image.
//!
//! The reader accepts the XML that GDAL and Esri write. It refuses every DOCTYPE, resolves only the five
//! predefined entities and character references, and limits the size, the depth and the number of nodes of a
//! document.

mod read;

use std::borrow::Cow;
use std::fmt;

pub(crate) use read::decode;
pub use read::parse;

/// The limits on the documents that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XmlLimits {
    /// The size of the whole document in bytes.
    pub bytes: usize,
    /// The depth of nested elements.
    pub depth: usize,
    /// The number of elements and attributes of the whole document.
    pub nodes: usize,
}

impl Default for XmlLimits {
    fn default() -> Self {
        Self { bytes: 64 << 20, depth: 64, nodes: 1 << 20 }
    }
}

/// The reason why a text could not be read as XML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum XmlError {
    /// The document is larger than the limit.
    #[error("the XML has {bytes} bytes; the limit is {limit}")]
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
        /// The offset of the first element that is too deep.
        offset: usize,
    },
    /// The document has more elements and attributes than the limit.
    #[error("XML has more than {limit} elements and attributes")]
    TooManyNodes {
        /// [`XmlLimits::nodes`].
        limit: usize,
    },
    /// The document declares a document type, which could contain entity bombs or refer to external files.
    #[error("XML has a DOCTYPE at byte {offset}, which is not supported")]
    Doctype {
        /// The offset of the declaration.
        offset: usize,
    },
    /// The document breaks a rule of XML.
    #[error("XML is malformed at byte {offset}: {what}")]
    Malformed {
        /// The offset of the error.
        offset: usize,
        /// The rule that is broken, as the end of a sentence.
        what: &'static str,
    },
    /// The closing tag of another element closes an element.
    #[error("XML element <{open}> is closed by </{close}> at byte {offset}")]
    Mismatch {
        /// The innermost open element.
        open: String,
        /// The name in the closing tag.
        close: String,
        /// The offset of the closing tag.
        offset: usize,
    },
    /// The text ends before the root element does.
    #[error("XML ends before its root element is closed")]
    Truncated,
}

/// An XML element with its content.
///
/// Text is kept as in an element tree: [`text`](Self::text) comes before the first child, and the
/// [`tail`](Self::tail) of a child follows that child, so that mixed content survives. White space between
/// elements is dropped.
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
    /// Creates an empty element.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Returns the first child of that name. The case of the name does not matter, as in GDAL.
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.is(name))
    }

    /// Returns all children of that name.
    pub fn children<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.is(name))
    }

    /// Returns the value of an attribute.
    pub fn attr(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Returns the element's own text without leading white space, which is layout. GDAL drops it too.
    pub fn text(&self) -> &str {
        self.text.trim_start_matches(|c: char| c.is_ascii_whitespace())
    }

    /// Returns the text of the first child of that name.
    pub fn child_text(&self, name: &str) -> Option<&str> {
        self.child(name).map(Element::text)
    }

    /// Whether the element has that name.
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
        // Indentation inside mixed content would become part of the text.
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

/// Writes the element as GDAL does: an indentation of two spaces per nesting depth, and a line feed at the end.
impl fmt::Display for Element {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(out, 0, true)?;
        out.write_str("\n")
    }
}

/// Replaces the characters that XML reserves, and drops the control characters that XML cannot represent.
pub fn escape(text: &str) -> Cow<'_, str> {
    escape_where(text, true)
}

/// Escapes as [`escape`] does, but keeps quotes: they need no escape outside attributes, and GDAL keeps them.
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

/// Resolves the predefined entities and character references. A `&` followed by anything else is kept.
pub fn unescape(text: &str) -> Cow<'_, str> {
    // "&#x10FFFF;" is the longest reference. This limit keeps the time linear for a text that is full of '&'.
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
