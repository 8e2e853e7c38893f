//! Builds TIFF files: the header, the data and the directories.

use crate::bytes::ByteOrder;
use crate::field::FieldType;
use crate::table::Span;
use crate::tag::Tag;

/// The values of a tag in a file that is written.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// Bytes without a defined meaning.
    Bytes(Vec<u8>),
    /// Text. The terminating NUL is added when the tag is written.
    Text(String),
    /// 16-bit numbers.
    Short(Vec<u16>),
    /// 32-bit numbers.
    Long(Vec<u32>),
    /// 64-bit numbers; BigTIFF only.
    Long8(Vec<u64>),
    /// Floating point numbers.
    Double(Vec<f64>),
    /// Fractions, each a numerator and a denominator.
    Rational(Vec<(u32, u32)>),
    /// Offsets of other directories.
    Ifd(Vec<u32>),
    /// Values of any type in their stored form, in the byte order of the new file.
    Raw(FieldType, u64, Vec<u8>),
}

impl Value {
    /// Returns file offsets or sizes, in the narrowest type that holds all of them.
    pub fn offsets(values: &[u64]) -> Value {
        match values.iter().map(|&value| u32::try_from(value)).collect::<Result<_, _>>() {
            Ok(narrow) => Value::Long(narrow),
            Err(_) => Value::Long8(values.to_vec()),
        }
    }

    /// Returns the fraction nearest to a number, with 32 bits for each part.
    pub fn rational(value: f64) -> Value {
        let value = if value.is_finite() { value.clamp(0.0, f64::from(u32::MAX)) } else { 0.0 };
        // A continued fraction is the best approximation for the size of its denominator.
        let (mut previous, mut best) = ((0_u64, 1_u64), (1_u64, 0_u64));
        let mut rest = value;
        loop {
            let whole = rest.floor();
            let next = (whole as u64 * best.0 + previous.0, whole as u64 * best.1 + previous.1);
            if next.0.max(next.1) > u64::from(u32::MAX) {
                break;
            }
            (previous, best) = (best, next);
            let fraction = rest - whole;
            if fraction == 0.0 || best.0 as f64 / best.1 as f64 == value {
                break;
            }
            rest = (1.0 / fraction).min(1e18);
        }
        Value::Rational(vec![(best.0 as u32, best.1.max(1) as u32)])
    }

    fn encode(&self, order: ByteOrder) -> (FieldType, u64, Vec<u8>) {
        fn all<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
            values.iter().flat_map(|&value| bytes(value)).collect()
        }
        let big = order == ByteOrder::Big;
        match self {
            Value::Bytes(bytes) => (FieldType::UNDEFINED, bytes.len() as u64, bytes.clone()),
            Value::Text(text) => (FieldType::ASCII, text.len() as u64 + 1, [text.as_bytes(), &[0]].concat()),
            Value::Short(v) => {
                (FieldType::SHORT, v.len() as u64, all(v, |x| if big { x.to_be_bytes() } else { x.to_le_bytes() }))
            }
            Value::Long(v) => {
                (FieldType::LONG, v.len() as u64, all(v, |x| if big { x.to_be_bytes() } else { x.to_le_bytes() }))
            }
            Value::Rational(v) => {
                let parts: Vec<u32> = v.iter().flat_map(|&(a, b)| [a, b]).collect();
                let (_, _, bytes) = Value::Long(parts).encode(order);
                (FieldType::RATIONAL, v.len() as u64, bytes)
            }
            Value::Ifd(v) => {
                (FieldType::IFD, v.len() as u64, all(v, |x| if big { x.to_be_bytes() } else { x.to_le_bytes() }))
            }
            Value::Long8(v) => {
                (FieldType::LONG8, v.len() as u64, all(v, |x| if big { x.to_be_bytes() } else { x.to_le_bytes() }))
            }
            Value::Double(v) => {
                (FieldType::DOUBLE, v.len() as u64, all(v, |x| if big { x.to_be_bytes() } else { x.to_le_bytes() }))
            }
            Value::Raw(field_type, count, bytes) => (*field_type, *count, bytes.clone()),
        }
    }
}

/// Builds a file in memory: the data first, the directories after it.
#[derive(Debug)]
pub struct Builder {
    out: Out,
    /// The position at which the offset of the next IFD of the chain is written.
    link_at: usize,
}

impl Builder {
    /// Creates an empty file.
    pub fn new(order: ByteOrder, big: bool) -> Builder {
        let out = Out { order, big, start: 0, bytes: encode_header(order, big, 0) };
        let link_at = out.bytes.len() - out.offset_bytes();
        Builder { out, link_at }
    }

    /// Appends data at an even offset, as TIFF requires.
    pub fn append(&mut self, data: &[u8]) -> Span {
        Span { offset: self.out.append(data), len: data.len() as u64 }
    }

    /// Appends a directory and links it to the end of the chain.
    pub fn ifd(&mut self, entries: &[(Tag, Value)]) -> u64 {
        let (offset, next_at) = self.detached_ifd(entries);
        self.out.patch(self.link_at, offset);
        self.link_at = next_at;
        offset
    }

    /// Appends a directory that is not part of the chain: a SubIFD.
    pub fn sub_ifd(&mut self, entries: &[(Tag, Value)]) -> u64 {
        self.detached_ifd(entries).0
    }

    /// Returns the bytes of the file.
    pub fn finish(self) -> Vec<u8> {
        self.out.bytes
    }

    /// Appends a directory without a link to it. Returns its offset and the position of its own link to the
    /// next directory.
    fn detached_ifd(&mut self, entries: &[(Tag, Value)]) -> (u64, usize) {
        let ifd = self.out.ifd(entries);
        for (at, value) in ifd.outside {
            self.out.place(at, &value);
        }
        (ifd.offset, ifd.next_at)
    }
}

/// Returns the header of a file whose first directory is at `first_ifd`.
pub fn encode_header(order: ByteOrder, big: bool, first_ifd: u64) -> Vec<u8> {
    let mut out = Out { order, big, start: 0, bytes: Vec::new() };
    out.bytes.extend(if order == ByteOrder::Big { b"MM" } else { b"II" });
    out.number(if big { 43 } else { 42 }, 2);
    if big {
        out.number(8, 2);
        out.number(0, 2);
    }
    out.number(first_ifd, out.offset_bytes());
    out.bytes
}

/// Returns the bytes of a chain of directories that starts at offset `start` of a file. The first directory is
/// at the first even offset. Each directory is followed by its values. The block tables come after all
/// directories, so that a reader that needs one tile does not have to read the tables. The length of the result
/// does not depend on the numbers in the tables.
pub fn encode_directories(order: ByteOrder, big: bool, start: u64, directories: &[Vec<(Tag, Value)>]) -> Vec<u8> {
    let mut out = Out { order, big, start, bytes: Vec::new() };
    let mut tables = Vec::new();
    let mut link: Option<usize> = None;
    for entries in directories {
        let ifd = out.ifd(entries);
        if let Some(at) = link {
            out.patch(at, ifd.offset);
        }
        link = Some(ifd.next_at);
        for (at, value) in ifd.outside {
            if matches!(
                value.tag,
                Tag::TILE_OFFSETS | Tag::TILE_BYTE_COUNTS | Tag::STRIP_OFFSETS | Tag::STRIP_BYTE_COUNTS
            ) {
                tables.push((at, value));
            } else {
                out.place(at, &value);
            }
        }
    }
    for (at, table) in tables {
        out.place(at, &table);
    }
    out.bytes
}

/// A value that does not fit into its entry.
struct Outside {
    tag: Tag,
    bytes: Vec<u8>,
}

/// A directory whose larger values do not have an offset yet.
struct Ifd {
    offset: u64,
    /// The offset of its link to the next directory.
    next_at: usize,
    /// The values, each with the position of its offset in the entry.
    outside: Vec<(usize, Outside)>,
}

/// Bytes that will be written at offset `start` of a file.
#[derive(Debug)]
struct Out {
    order: ByteOrder,
    big: bool,
    start: u64,
    bytes: Vec<u8>,
}

impl Out {
    fn ifd(&mut self, entries: &[(Tag, Value)]) -> Ifd {
        let mut entries: Vec<&(Tag, Value)> = entries.iter().collect();
        entries.sort_by_key(|(tag, _)| *tag);
        self.align();
        let (offset, inline) = (self.end(), self.offset_bytes());
        let mut outside = Vec::new();
        self.number(entries.len() as u64, if self.big { 8 } else { 2 });
        for (tag, value) in entries {
            let (field_type, count, mut bytes) = value.encode(self.order);
            self.number(tag.0.into(), 2);
            self.number(field_type.0.into(), 2);
            self.number(count, inline);
            if bytes.len() > inline {
                outside.push((self.bytes.len(), Outside { tag: *tag, bytes }));
                self.number(0, inline);
            } else {
                bytes.resize(inline, 0);
                self.bytes.extend(bytes);
            }
        }
        let next_at = self.bytes.len();
        self.number(0, inline);
        Ifd { offset, next_at, outside }
    }

    /// Appends a value and stores its offset in its entry.
    fn place(&mut self, at: usize, value: &Outside) {
        let offset = self.append(&value.bytes);
        self.patch(at, offset);
    }

    /// Appends data at an even offset.
    fn append(&mut self, data: &[u8]) -> u64 {
        self.align();
        let offset = self.end();
        self.bytes.extend(data);
        offset
    }

    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn offset_bytes(&self) -> usize {
        if self.big { 8 } else { 4 }
    }

    fn align(&mut self) {
        if self.end() % 2 == 1 {
            self.bytes.push(0);
        }
    }

    fn number(&mut self, value: u64, width: usize) {
        let at = self.bytes.len();
        self.bytes.resize(at + width, 0);
        self.put(at, value, width);
    }

    fn patch(&mut self, at: usize, value: u64) {
        self.put(at, value, self.offset_bytes());
    }

    fn put(&mut self, at: usize, value: u64, width: usize) {
        let out = &mut self.bytes[at..at + width];
        match self.order {
            ByteOrder::Little => out.copy_from_slice(&value.to_le_bytes()[..width]),
            ByteOrder::Big => out.copy_from_slice(&value.to_be_bytes()[8 - width..]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_as_near_as_32_bits_allow() {
        for (value, fraction) in [
            (72.0, (72, 1)),
            (0.0, (0, 1)),
            (0.1, (1, 10)),
            (118.11, (11811, 100)),
            (1.0 / 3.0, (1, 3)),
            (-1.0, (0, 1)),
        ] {
            assert_eq!(Value::rational(value), Value::Rational(vec![fraction]), "{value}");
        }
        let Value::Rational(pi) = Value::rational(std::f64::consts::PI) else { panic!("a fraction") };
        assert!((f64::from(pi[0].0) / f64::from(pi[0].1) - std::f64::consts::PI).abs() < 1e-15);
        assert_eq!(Value::rational(f64::NAN), Value::Rational(vec![(0, 1)]));
        assert_eq!(Value::rational(1e300), Value::Rational(vec![(u32::MAX, 1)]));
    }
}
