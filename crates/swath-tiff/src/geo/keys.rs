//! The GeoKey directory: a table of tags inside a tag (GeoTIFF 1.1, clause 7.1).

use super::names::key_name;

const DIRECTORY_TAG: u16 = 34735;
const DOUBLE_TAG: u16 = 34736;
const ASCII_TAG: u16 = 34737;

/// The value of a key.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyValue {
    /// A code or a small number.
    Short(u16),
    /// Several codes or small numbers. No key of the specification needs this.
    Shorts(Vec<u16>),
    /// Numbers: exactly one, except for GeogTOWGS84GeoKey.
    Doubles(Vec<f64>),
    /// Text without its terminator.
    Ascii(String),
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct GeoKey {
    /// The number of the key.
    pub id: u16,
    /// The value.
    pub value: KeyValue,
}

impl GeoKey {
    /// The name of the key in GeoTIFF 1.1, `None` for a private one.
    pub fn name(&self) -> Option<&'static str> {
        key_name(self.id)
    }
}

/// A fault in the directory that did not prevent reading the rest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GeoWarning {
    /// The directory is shorter than its header.
    #[error("the GeoKey directory has {found} numbers, but its header requires 4")]
    NoHeader {
        /// Numbers in the tag.
        found: usize,
    },
    /// No specification defines this version. The keys are read as those of version 1.
    #[error("the GeoKey directory has version {version}; it is read as version 1")]
    Version {
        /// The version.
        version: u16,
    },
    /// The header states more keys than the directory has.
    #[error("the GeoKey directory states {announced} keys but has {found}")]
    MissingKeys {
        /// The number in the header.
        announced: u16,
        /// The number of complete keys in the tag.
        found: usize,
    },
    /// The value of a key is outside its tag; the key is ignored.
    #[error("GeoKey {id}: values {offset}..{offset}+{count} are outside tag {tag}, which has {len} values")]
    OutOfRange {
        /// The key.
        id: u16,
        /// The tag that should contain the value.
        tag: u16,
        /// Index of the first value.
        offset: u16,
        /// Number of values.
        count: u16,
        /// Values in the tag.
        len: usize,
    },
    /// A text extends past the end of its tag and was truncated there.
    #[error("GeoKey {id}: the text of {count} bytes is truncated to {len}")]
    TextCut {
        /// The key.
        id: u16,
        /// The length in the directory.
        count: u16,
        /// The number of bytes in the tag.
        len: usize,
    },
    /// The key refers to a tag that does not contain key values; the key is ignored.
    #[error("GeoKey {id} refers to tag {tag}, which does not contain key values")]
    UnknownLocation {
        /// The key.
        id: u16,
        /// The tag.
        tag: u16,
    },
    /// A key occurs more than once. The last one is used, as in GDAL.
    #[error("GeoKey {id} occurs more than once; the last one is used")]
    Duplicate {
        /// The key.
        id: u16,
    },
}

/// All keys of a file, in the order of the directory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GeoKeys {
    /// KeyDirectoryVersion: 1.
    pub version: u16,
    /// KeyRevision and MinorRevision: (1, 0) for GeoTIFF 1.0, (1, 1) for 1.1.
    pub revision: (u16, u16),
    /// The keys.
    pub keys: Vec<GeoKey>,
    /// The faults that were found in the directory.
    pub warnings: Vec<GeoWarning>,
}

/// The three tags that store the keys.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct EncodedKeys {
    /// GeoKeyDirectory (34735).
    pub directory: Vec<u16>,
    /// GeoDoubleParams (34736); do not write it if it is empty.
    pub doubles: Vec<f64>,
    /// GeoAsciiParams (34737) with its NUL; do not write it if it is empty.
    pub ascii: Vec<u8>,
}

/// The reason why a set of keys cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyEncodeError {
    /// The counts and offsets of the directory are limited to 16 bits.
    #[error("GeoKey {id}: the key values exceed the 65,535 values that the directory can address")]
    TooLong {
        /// The key that does not fit.
        id: u16,
    },
    /// A NUL would end the text early.
    #[error("GeoKey {id}: the text contains a NUL")]
    Nul {
        /// The key.
        id: u16,
    },
}

impl GeoKeys {
    /// Parses the tags GeoKeyDirectory, GeoDoubleParams and GeoAsciiParams. It never fails: keys that cannot be
    /// read are ignored and listed in [`GeoKeys::warnings`].
    pub fn parse(directory: &[u16], doubles: &[f64], ascii: &[u8]) -> Self {
        let Some((&[version, revision, minor, announced], body)) = directory.split_first_chunk() else {
            let warnings = vec![GeoWarning::NoHeader { found: directory.len() }];
            return Self { warnings, ..Self::default() };
        };
        let mut keys = Self { version, revision: (revision, minor), ..Self::default() };
        if version > 1 {
            keys.warnings.push(GeoWarning::Version { version });
        }
        let (entries, _) = body.as_chunks::<4>();
        if entries.len() < usize::from(announced) {
            keys.warnings.push(GeoWarning::MissingKeys { announced, found: entries.len() });
        }
        for &entry in entries.iter().take(usize::from(announced)) {
            match value(entry, directory, doubles, ascii, &mut keys.warnings) {
                Ok(value) => {
                    let id = entry[0];
                    if keys.get(id).is_some() {
                        keys.warnings.push(GeoWarning::Duplicate { id });
                    }
                    keys.keys.push(GeoKey { id, value });
                }
                Err(warning) => keys.warnings.push(warning),
            }
        }
        keys
    }

    /// Returns the value of a key; if there are several, the last one.
    pub fn get(&self, id: u16) -> Option<&KeyValue> {
        self.keys.iter().rev().find(|key| key.id == id).map(|key| &key.value)
    }

    /// Returns the value of a key that contains a code. A double is not accepted as a code, as in GDAL.
    pub fn short(&self, id: u16) -> Option<u16> {
        match self.get(id)? {
            KeyValue::Short(value) => Some(*value),
            KeyValue::Shorts(values) => values.first().copied(),
            _ => None,
        }
    }

    /// Returns the numbers of a key.
    pub fn doubles(&self, id: u16) -> Option<&[f64]> {
        match self.get(id)? {
            KeyValue::Doubles(values) => Some(values),
            _ => None,
        }
    }

    /// Returns the number of a key. A code is accepted too, because some writers store whole numbers in the
    /// directory.
    pub fn double(&self, id: u16) -> Option<f64> {
        match self.get(id)? {
            KeyValue::Doubles(values) => values.first().copied(),
            KeyValue::Short(value) => Some(f64::from(*value)),
            _ => None,
        }
    }

    /// Returns the text of a key.
    pub fn ascii(&self, id: u16) -> Option<&str> {
        match self.get(id)? {
            KeyValue::Ascii(text) => Some(text),
            _ => None,
        }
    }

    /// Sets a key and replaces its previous value.
    pub fn set(&mut self, id: u16, value: KeyValue) {
        self.keys.retain(|key| key.id != id);
        self.keys.push(GeoKey { id, value });
    }

    /// Returns the three tags for these keys, sorted by number as the specification requires.
    pub fn encode(&self) -> Result<EncodedKeys, KeyEncodeError> {
        let mut sorted: Vec<&GeoKey> = self.keys.iter().collect();
        sorted.sort_by_key(|key| key.id);
        let mut out = EncodedKeys::default();
        let mut shorts: Vec<u16> = Vec::new();
        let first_short = 4 + 4 * sorted.len();
        for key in &sorted {
            let id = key.id;
            let place = |n: usize| u16::try_from(n).map_err(|_| KeyEncodeError::TooLong { id });
            let (tag, count, offset) = match &key.value {
                KeyValue::Short(value) => (0, 1, *value),
                KeyValue::Shorts(values) => {
                    let at = place(first_short + shorts.len())?;
                    shorts.extend_from_slice(values);
                    (DIRECTORY_TAG, place(values.len())?, at)
                }
                KeyValue::Doubles(values) => {
                    let at = place(out.doubles.len())?;
                    out.doubles.extend_from_slice(values);
                    (DOUBLE_TAG, place(values.len())?, at)
                }
                KeyValue::Ascii(text) => {
                    // The specification requires ASCII, but GDAL writes UTF-8 unchanged, which keeps the name
                    // readable.
                    if text.bytes().any(|c| c == 0) {
                        return Err(KeyEncodeError::Nul { id });
                    }
                    let at = place(out.ascii.len())?;
                    out.ascii.extend_from_slice(text.as_bytes());
                    out.ascii.push(b'|');
                    (ASCII_TAG, place(text.len() + 1)?, at)
                }
            };
            out.directory.extend_from_slice(&[id, tag, count, offset]);
        }
        if !out.ascii.is_empty() {
            out.ascii.push(0);
        }
        let count = u16::try_from(sorted.len())
            .map_err(|_| KeyEncodeError::TooLong { id: sorted.last().map_or(0, |key| key.id) })?;
        let header = [self.version.max(1), self.revision.0.max(1), self.revision.1, count];
        out.directory.splice(0..0, header);
        out.directory.extend_from_slice(&shorts);
        Ok(out)
    }
}

fn value(
    [id, tag, count, offset]: [u16; 4],
    directory: &[u16],
    doubles: &[f64],
    ascii: &[u8],
    warnings: &mut Vec<GeoWarning>,
) -> Result<KeyValue, GeoWarning> {
    let start = usize::from(offset);
    let end = start + usize::from(count);
    let out_of_range = |len| GeoWarning::OutOfRange { id, tag, offset, count, len };
    match tag {
        // The count should be 1. Whatever it is, the entry contains one value.
        0 => Ok(KeyValue::Short(offset)),
        DIRECTORY_TAG => {
            let values = directory.get(start..end).ok_or_else(|| out_of_range(directory.len()))?;
            Ok(match *values {
                [one] => KeyValue::Short(one),
                _ => KeyValue::Shorts(values.to_vec()),
            })
        }
        DOUBLE_TAG => {
            let values = doubles.get(start..end).filter(|v| !v.is_empty());
            Ok(KeyValue::Doubles(values.ok_or_else(|| out_of_range(doubles.len()))?.to_vec()))
        }
        ASCII_TAG => {
            let rest = ascii.get(start..).ok_or_else(|| out_of_range(ascii.len()))?;
            let bytes = rest.get(..usize::from(count)).unwrap_or_else(|| {
                warnings.push(GeoWarning::TextCut { id, count, len: rest.len() });
                rest
            });
            Ok(KeyValue::Ascii(text(bytes)))
        }
        _ => Err(GeoWarning::UnknownLocation { id, tag }),
    }
}

/// Decodes text up to its NUL, without one closing `|`. Further bars may belong to the text (`...|Primem =
/// Greenwich||`).
fn text(bytes: &[u8]) -> String {
    let bytes = bytes.split(|&c| c == 0).next().unwrap_or_default();
    let bytes = bytes.strip_suffix(b"|").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        // Text that is not UTF-8 comes from writers that use Latin-1.
        Err(_) => bytes.iter().map(|&c| char::from(c)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_from_all_three_tags() {
        let directory = [1, 1, 0, 4, 1024, 0, 1, 1, 1026, 34737, 4, 0, 2057, 34736, 1, 1, 2062, 34736, 3, 0];
        let keys = GeoKeys::parse(&directory, &[1.0, 2.0, 3.0], b"abc|def|\0");
        assert_eq!(keys.short(1024), Some(1));
        assert_eq!(keys.ascii(1026), Some("abc"));
        assert_eq!(keys.double(2057), Some(2.0));
        assert_eq!(keys.doubles(2062), Some(&[1.0, 2.0, 3.0][..]));
        assert_eq!(keys.warnings, []);
        assert_eq!(keys.keys[1].name(), Some("GTCitationGeoKey"));
    }

    #[test]
    fn double_out_of_range_drops_only_that_key() {
        let keys = GeoKeys::parse(&[1, 1, 0, 2, 2057, 34736, 1, 7, 3072, 0, 1, 32631], &[1.0], b"");
        assert_eq!(keys.short(3072), Some(32631));
        let expected = GeoWarning::OutOfRange { id: 2057, tag: 34736, offset: 7, count: 1, len: 1 };
        assert_eq!(keys.get(2057), None);
        assert_eq!(keys.warnings, [expected]);
    }

    #[test]
    fn text_past_the_end_is_truncated_not_dropped() {
        let keys = GeoKeys::parse(&[1, 1, 0, 1, 1026, 34737, 50, 2], &[], b"abcd|\0");
        assert_eq!(keys.ascii(1026), Some("cd"));
        assert_eq!(keys.warnings, [GeoWarning::TextCut { id: 1026, count: 50, len: 4 }]);
    }

    #[test]
    fn missing_keys_are_reported() {
        let keys = GeoKeys::parse(&[1, 1, 0, 9, 3072, 0, 1, 32631, 3076, 0], &[], b"");
        assert_eq!(keys.short(3072), Some(32631));
        assert_eq!(keys.warnings, [GeoWarning::MissingKeys { announced: 9, found: 1 }]);
    }

    #[test]
    fn padding_after_the_stated_keys_is_not_read() {
        let keys = GeoKeys::parse(&[1, 1, 0, 1, 3072, 0, 1, 32631, 0, 0, 0, 0], &[], b"");
        assert_eq!(keys.keys.len(), 1);
    }

    #[test]
    fn header_too_short_and_odd_versions_are_warnings() {
        assert_eq!(GeoKeys::parse(&[1, 1], &[], b"").warnings, [GeoWarning::NoHeader { found: 2 }]);
        let keys = GeoKeys::parse(&[2, 7, 7, 1, 3072, 0, 1, 32631], &[], b"");
        assert_eq!((keys.short(3072), keys.warnings), (Some(32631), vec![GeoWarning::Version { version: 2 }]));
    }

    #[test]
    fn second_of_two_equal_keys_is_used() {
        let keys = GeoKeys::parse(&[1, 1, 0, 2, 3072, 0, 1, 32631, 3072, 0, 1, 32632], &[], b"");
        assert_eq!((keys.short(3072), keys.warnings), (Some(32632), vec![GeoWarning::Duplicate { id: 3072 }]));
    }

    #[test]
    fn value_in_an_unrelated_tag_is_ignored() {
        let keys = GeoKeys::parse(&[1, 1, 0, 1, 3072, 256, 1, 0], &[], b"");
        assert_eq!(keys.warnings, [GeoWarning::UnknownLocation { id: 3072, tag: 256 }]);
    }

    #[test]
    fn latin1_citation_is_read_and_inner_bars_are_kept() {
        let keys = GeoKeys::parse(&[1, 1, 0, 1, 1026, 34737, 8, 0], &[], b"a=\xe9|b||\0");
        assert_eq!(keys.ascii(1026), Some("a=\u{e9}|b|"));
    }

    #[test]
    fn encoded_keys_read_back_sorted() {
        let mut keys = GeoKeys { version: 1, revision: (1, 1), ..GeoKeys::default() };
        keys.set(3072, KeyValue::Short(32767));
        keys.set(2062, KeyValue::Doubles(vec![1.0, 2.0, 3.0]));
        keys.set(1026, KeyValue::Ascii("a|b".into()));
        keys.set(1024, KeyValue::Short(1));
        keys.set(2049, KeyValue::Ascii("c".into()));
        keys.set(40000, KeyValue::Shorts(vec![7, 8]));
        let tags = keys.encode().unwrap();
        assert_eq!(tags.ascii, b"a|b|c|\0");
        let back = GeoKeys::parse(&tags.directory, &tags.doubles, &tags.ascii);
        keys.keys.sort_by_key(|key| key.id);
        assert_eq!(back, keys);
    }

    #[test]
    fn text_that_cannot_be_stored_is_refused() {
        let mut keys = GeoKeys::default();
        keys.set(1026, KeyValue::Ascii("a\0b".into()));
        assert_eq!(keys.encode(), Err(KeyEncodeError::Nul { id: 1026 }));
        keys.set(1026, KeyValue::Ascii("x".repeat(70_000)));
        assert_eq!(keys.encode(), Err(KeyEncodeError::TooLong { id: 1026 }));
    }
}
