//! Building files: header, data, directories.

use crate::bytes::ByteOrder;
use crate::field::FieldType;
use crate::table::Span;
use crate::tag::Tag;

/// The values of a tag that is written.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// Bytes of no particular meaning.
    Bytes(Vec<u8>),
    /// Text; the terminating NUL is added.
    Text(String),
    /// 16-bit numbers.
    Short(Vec<u16>),
    /// 32-bit numbers.
    Long(Vec<u32>),
    /// 64-bit numbers; BigTIFF only.
    Long8(Vec<u64>),
    /// Floating point numbers.
    Double(Vec<f64>),
    /// Offsets of other directories.
    Ifd(Vec<u32>),
    /// Values of any type as they are stored, in the byte order of the file that is built.
    Raw(FieldType, u64, Vec<u8>),
}

impl Value {
    /// File offsets or sizes, as wide as they must be.
    pub fn offsets(values: &[u64]) -> Value {
        match values.iter().map(|&value| u32::try_from(value)).collect::<Result<_, _>>() {
            Ok(narrow) => Value::Long(narrow),
            Err(_) => Value::Long8(values.to_vec()),
        }
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

/// A file that is built in memory: data first, directories behind it.
#[derive(Debug)]
pub struct Builder {
    order: ByteOrder,
    big: bool,
    bytes: Vec<u8>,
    /// Where the offset of the next IFD of the chain has to be written.
    link_at: usize,
}

impl Builder {
    /// An empty file.
    pub fn new(order: ByteOrder, big: bool) -> Builder {
        let mut builder = Builder { order, big, bytes: Vec::new(), link_at: 0 };
        builder.bytes.extend(if order == ByteOrder::Big { b"MM" } else { b"II" });
        builder.number(if big { 43 } else { 42 }, 2);
        if big {
            builder.number(8, 2);
            builder.number(0, 2);
        }
        builder.link_at = builder.bytes.len();
        builder.number(0, builder.offset_bytes());
        builder
    }

    /// Append data; it starts at an even offset, as TIFF wants it.
    pub fn append(&mut self, data: &[u8]) -> Span {
        self.align();
        let span = Span { offset: self.bytes.len() as u64, len: data.len() as u64 };
        self.bytes.extend(data);
        span
    }

    /// Append a directory and link it to the end of the chain.
    pub fn ifd(&mut self, entries: &[(Tag, Value)]) -> u64 {
        let (offset, next_at) = self.detached_ifd(entries);
        self.patch(self.link_at, offset);
        self.link_at = next_at;
        offset
    }

    /// Append a directory that is not part of the chain: a SubIFD.
    pub fn sub_ifd(&mut self, entries: &[(Tag, Value)]) -> u64 {
        self.detached_ifd(entries).0
    }

    /// The bytes of the file.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the offset of the directory and that of its link to the next.
    fn detached_ifd(&mut self, entries: &[(Tag, Value)]) -> (u64, usize) {
        let mut entries = entries.to_vec();
        entries.sort_by_key(|(tag, _)| *tag);
        let inline = self.offset_bytes();
        let mut placed = Vec::with_capacity(entries.len());
        for (tag, value) in &entries {
            let (field_type, count, mut bytes) = value.encode(self.order);
            let outside = (bytes.len() > inline).then(|| self.append(&bytes).offset);
            bytes.resize(inline, 0);
            placed.push((*tag, field_type, count, outside, bytes));
        }
        self.align();
        let offset = self.bytes.len() as u64;
        self.number(placed.len() as u64, if self.big { 8 } else { 2 });
        for (tag, field_type, count, outside, bytes) in placed {
            self.number(tag.0.into(), 2);
            self.number(field_type.0.into(), 2);
            self.number(count, inline);
            match outside {
                Some(offset) => self.number(offset, inline),
                None => self.bytes.extend(bytes),
            }
        }
        let next_at = self.bytes.len();
        self.number(0, inline);
        (offset, next_at)
    }

    fn offset_bytes(&self) -> usize {
        if self.big { 8 } else { 4 }
    }

    fn align(&mut self) {
        if self.bytes.len() % 2 == 1 {
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
