//! The syntax of well-known text: keywords, brackets, quoted texts, numbers.

use std::borrow::Cow;

/// Limits far above any existing system: a text that exceeds them is an attack or not WKT.
const MAX_BYTES: usize = 1 << 20;
const MAX_DEPTH: usize = 16;
const MAX_ITEMS: usize = 1 << 14;

/// The reason why a text is not a coordinate reference system.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WktError {
    /// The text is longer than the limit.
    #[error("the WKT has {bytes} bytes; the limit is {limit}")]
    TooLong {
        /// The size of the text.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The elements are nested deeper than the limit.
    #[error("WKT is nested deeper than {limit} elements at byte {offset}")]
    TooDeep {
        /// The limit.
        limit: usize,
        /// The offset of the first element that is too deep.
        offset: usize,
    },
    /// The text has more elements than the limit.
    #[error("WKT has more than {limit} elements")]
    TooManyItems {
        /// The limit.
        limit: usize,
    },
    /// The brackets, quotes or numbers of the text are invalid.
    #[error("WKT is malformed at byte {offset}: {what}")]
    Malformed {
        /// The offset of the error.
        offset: usize,
        /// The rule that is broken, as the end of a sentence.
        what: &'static str,
    },
    /// The text does not describe a system, or describes a kind of system that a GeoTIFF cannot store.
    #[error("a GeoTIFF cannot store the WKT element {keyword}")]
    Keyword {
        /// The keyword.
        keyword: String,
    },
    /// A required element is missing or has no usable value.
    #[error("{element} of the WKT element {of} is missing or invalid")]
    Missing {
        /// The missing element.
        element: &'static str,
        /// The element that should contain it.
        of: String,
    },
    /// The projection cannot be written.
    #[error("the projection method {name:?} is not supported, and the system has no EPSG code")]
    Method {
        /// Its name in the text.
        name: String,
    },
}

/// `KEYWORD["text",1.5,word,KEYWORD[...]]`
#[derive(Debug, Default, PartialEq)]
pub(super) struct Node<'a> {
    /// The keyword as written. Comparisons ignore its case.
    pub(super) keyword: &'a str,
    pub(super) texts: Vec<Cow<'a, str>>,
    pub(super) numbers: Vec<f64>,
    /// Words without quotes or brackets, such as the directions of axes.
    pub(super) words: Vec<&'a str>,
    pub(super) children: Vec<Node<'a>>,
}

impl<'a> Node<'a> {
    /// Parses the element at the start of the text. Returns it and the rest of the text.
    pub(super) fn parse(text: &'a str) -> Result<(Self, &'a str), WktError> {
        if text.len() > MAX_BYTES {
            return Err(WktError::TooLong { bytes: text.len(), limit: MAX_BYTES });
        }
        let mut reader = Reader { whole: text.len(), rest: text, items: 0 };
        let node = reader.node(0)?;
        Ok((node, reader.rest))
    }

    pub(super) fn is(&self, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.keyword.eq_ignore_ascii_case(keyword))
    }

    /// Returns the first child with one of these keywords.
    pub(super) fn child(&self, keywords: &[&str]) -> Option<&Self> {
        self.children.iter().find(|node| node.is(keywords))
    }

    /// Returns the children with one of these keywords.
    pub(super) fn all<'b>(&'b self, keywords: &'b [&'b str]) -> impl Iterator<Item = &'b Self> {
        self.children.iter().filter(move |node| node.is(keywords))
    }

    /// Returns the first quoted text, which is the name of most elements.
    pub(super) fn text(&self) -> Option<&str> {
        self.texts.first().map(AsRef::as_ref)
    }

    /// Returns the first number, if it is finite.
    pub(super) fn number(&self) -> Option<f64> {
        self.numbers.first().copied().filter(|number| number.is_finite())
    }
}

struct Reader<'a> {
    whole: usize,
    rest: &'a str,
    items: usize,
}

impl<'a> Reader<'a> {
    fn malformed(&self, what: &'static str) -> WktError {
        WktError::Malformed { offset: self.whole - self.rest.len(), what }
    }

    fn node(&mut self, depth: usize) -> Result<Node<'a>, WktError> {
        if depth > MAX_DEPTH {
            return Err(WktError::TooDeep { limit: MAX_DEPTH, offset: self.whole - self.rest.len() });
        }
        let keyword = self.word();
        if keyword.is_empty() {
            return Err(self.malformed("a keyword is missing"));
        }
        let close = if self.take('[') {
            ']'
        } else if self.take('(') {
            ')'
        } else {
            return Err(self.malformed("a keyword without an opening bracket"));
        };
        let mut node = Node { keyword, ..Node::default() };
        if self.take(close) {
            return Ok(node);
        }
        loop {
            self.items += 1;
            if self.items > MAX_ITEMS {
                return Err(WktError::TooManyItems { limit: MAX_ITEMS });
            }
            self.value(&mut node, depth)?;
            if self.take(close) {
                return Ok(node);
            }
            if !self.take(',') {
                return Err(self.malformed("a comma or a closing bracket is missing"));
            }
        }
    }

    fn value(&mut self, node: &mut Node<'a>, depth: usize) -> Result<(), WktError> {
        self.rest = self.rest.trim_start();
        match self.rest.chars().next() {
            Some('"') => node.texts.push(self.quoted()?),
            Some(c) if c.is_ascii_alphabetic() => {
                let before = self.rest;
                let word = self.word();
                if self.rest.trim_start().starts_with(['[', '(']) {
                    self.rest = before;
                    node.children.push(self.node(depth + 1)?);
                } else {
                    node.words.push(word);
                }
            }
            Some(_) => {
                let end = self.rest.find([',', ']', ')']).ok_or_else(|| self.malformed("the text ends too early"))?;
                let (number, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
                let number = number.trim().parse().map_err(|_| self.malformed("a number is invalid"))?;
                node.numbers.push(number);
                self.rest = rest;
            }
            None => return Err(self.malformed("the text ends too early")),
        }
        Ok(())
    }

    /// Parses a quoted text. A quote inside it is doubled.
    fn quoted(&mut self) -> Result<Cow<'a, str>, WktError> {
        let open = self.malformed("a quote is not closed");
        let mut out = Cow::Borrowed("");
        let mut rest = self.rest.strip_prefix('"').unwrap_or(self.rest);
        loop {
            let (piece, after) = rest.split_once('"').ok_or_else(|| open.clone())?;
            out += piece;
            match after.strip_prefix('"') {
                Some(more) => {
                    out += "\"";
                    rest = more;
                }
                None => {
                    self.rest = after;
                    return Ok(out);
                }
            }
        }
    }

    fn word(&mut self) -> &'a str {
        let text = self.rest.trim_start();
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        let (word, rest) = text.split_at_checked(end).unwrap_or(("", text));
        self.rest = rest;
        word
    }

    fn take(&mut self, wanted: char) -> bool {
        let Some(rest) = self.rest.trim_start().strip_prefix(wanted) else { return false };
        self.rest = rest;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_numbers_words_and_elements_are_distinguished() {
        let (node, rest) = Node::parse(" A[\"x \"\"y\"\"\", -1.5e3 ,EAST, B(\"\", 2) ] ,C").unwrap();
        assert_eq!(node.texts, ["x \"y\""]);
        assert_eq!((node.numbers.as_slice(), node.words.as_slice()), (&[-1500.0][..], &["EAST"][..]));
        assert_eq!(node.child(&["b"]).map(|b| (b.text(), b.number())), Some((Some(""), Some(2.0))));
        assert_eq!(rest, " ,C");
    }

    #[test]
    fn error_of_a_broken_text_has_its_position() {
        let at = |text: &str| match Node::parse(text) {
            Err(WktError::Malformed { offset, .. }) => Some(offset),
            other => panic!("{text}: {other:?}"),
        };
        for (text, offset) in
            [("", 0), ("A", 1), ("A[", 2), ("A[\"x", 2), ("A[1", 2), ("A[1e]", 2), ("A[\"x\" \"y\"]", 5)]
        {
            assert_eq!(at(text), Some(offset), "{text}");
        }
        assert_eq!(at("A[1)"), Some(3));
    }

    #[test]
    fn hostile_sizes_are_refused() {
        assert!(matches!(Node::parse(&"A[".repeat(100_000)), Err(WktError::TooDeep { limit: 16, .. })));
        assert!(matches!(Node::parse(&format!("A[{}1]", "1,".repeat(20_000))), Err(WktError::TooManyItems { .. })));
        assert!(matches!(Node::parse(&" ".repeat(2 << 20)), Err(WktError::TooLong { .. })));
        let quotes = format!("A[\"{}", "\"\"".repeat(500_000));
        assert!(matches!(Node::parse(&quotes), Err(WktError::Malformed { offset: 2, .. })));
    }
}
