//! One IFD entry: a tag, a type, a count and the position of the values.

use std::borrow::Cow;
use std::sync::Arc;

use crate::build::Value;
use crate::bytes::{ByteOrder, ReadAt, read_vec};
use crate::error::{Error, Location, Result};
use crate::limits::Limits;
use crate::tag::Tag;

/// The type of a field's values, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FieldType(pub u16);

impl FieldType {
    /// 8-bit unsigned.
    pub const BYTE: FieldType = FieldType(1);
    /// 7-bit text that ends with a NUL.
    pub const ASCII: FieldType = FieldType(2);
    /// 16-bit unsigned.
    pub const SHORT: FieldType = FieldType(3);
    /// 32-bit unsigned.
    pub const LONG: FieldType = FieldType(4);
    /// Two 32-bit unsigned: numerator, denominator.
    pub const RATIONAL: FieldType = FieldType(5);
    /// 8-bit signed.
    pub const SBYTE: FieldType = FieldType(6);
    /// Bytes without a defined meaning.
    pub const UNDEFINED: FieldType = FieldType(7);
    /// 16-bit signed.
    pub const SSHORT: FieldType = FieldType(8);
    /// 32-bit signed.
    pub const SLONG: FieldType = FieldType(9);
    /// Two 32-bit signed: numerator, denominator.
    pub const SRATIONAL: FieldType = FieldType(10);
    /// 32-bit float.
    pub const FLOAT: FieldType = FieldType(11);
    /// 64-bit float.
    pub const DOUBLE: FieldType = FieldType(12);
    /// 32-bit offset of an IFD.
    pub const IFD: FieldType = FieldType(13);
    /// 64-bit unsigned.
    pub const LONG8: FieldType = FieldType(16);
    /// 64-bit signed.
    pub const SLONG8: FieldType = FieldType(17);
    /// 64-bit offset of an IFD.
    pub const IFD8: FieldType = FieldType(18);

    /// The name in the TIFF specification and the number of bytes of one value.
    fn known(self) -> Option<(&'static str, u64)> {
        Some(match self.0 {
            1 => ("BYTE", 1),
            2 => ("ASCII", 1),
            3 => ("SHORT", 2),
            4 => ("LONG", 4),
            5 => ("RATIONAL", 8),
            6 => ("SBYTE", 1),
            7 => ("UNDEFINED", 1),
            8 => ("SSHORT", 2),
            9 => ("SLONG", 4),
            10 => ("SRATIONAL", 8),
            11 => ("FLOAT", 4),
            12 => ("DOUBLE", 8),
            13 => ("IFD", 4),
            16 => ("LONG8", 8),
            17 => ("SLONG8", 8),
            18 => ("IFD8", 8),
            _ => return None,
        })
    }

    /// The number of bytes of one value; `None` for a type that the specification does not define.
    pub fn size(self) -> Option<u64> {
        self.known().map(|(_, size)| size)
    }
}

impl std::fmt::Display for FieldType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.known() {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{} (unknown)", self.0),
        }
    }
}

/// The size in bytes of the longest values that an entry keeps in memory.
const MAX_LOADED: usize = 4 << 10;

/// One entry of an IFD. Its values are read on demand, unless they are short and the source had them in its buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The tag.
    pub tag: Tag,
    /// The type of the values.
    pub field_type: FieldType,
    /// The number of values.
    pub count: u64,
    /// The last 4 or 8 bytes of the entry: the values themselves if they fit, otherwise their offset.
    pub(crate) raw: [u8; 8],
    /// The number of bytes of `raw` in the file (4 or 8).
    pub(crate) inline: u64,
    pub(crate) order: ByteOrder,
    /// The bytes of the values, if the IFD was read from a source that had them in its buffer.
    pub(crate) loaded: Option<Arc<[u8]>>,
}

impl Entry {
    /// The number of bytes of all values.
    pub fn byte_len(&self) -> Option<u64> {
        self.count.checked_mul(self.field_type.size()?)
    }

    /// Whether the values are stored in the entry itself.
    pub fn is_inline(&self) -> bool {
        self.byte_len().is_some_and(|len| len <= self.inline)
    }

    /// The offset of the values in the file. It has no meaning for inline values.
    pub fn offset(&self) -> u64 {
        if self.inline == 4 { u64::from(self.order.u32(&self.raw)) } else { self.order.u64(&self.raw) }
    }

    /// Returns the bytes of values `first .. first + count`, in file order. Only these bytes are read.
    ///
    /// # Errors
    /// [`Error::PastEnd`], [`Error::Read`]; [`Error::TagType`] for an undefined field type.
    pub(crate) fn slice<R: ReadAt + ?Sized>(
        &self,
        source: &R,
        ifd: Location,
        first: u64,
        count: u64,
    ) -> Result<Cow<'_, [u8]>> {
        let wrong = || Error::TagType { ifd, tag: self.tag, found: self.field_type, wanted: "values" };
        let size = self.field_type.size().ok_or_else(wrong)?;
        let (skip, len) = (first.checked_mul(size).ok_or_else(wrong)?, count.checked_mul(size).ok_or_else(wrong)?);
        if self.is_inline() {
            let (skip, len) = (skip as usize, len as usize);
            return self.raw.get(skip..skip + len).map(Cow::Borrowed).ok_or_else(wrong);
        }
        if let Some(bytes) = self.loaded_part(skip, len) {
            return Ok(Cow::Borrowed(bytes));
        }
        let Location::Ifd(ifd_offset) = ifd else { return Err(wrong()) };
        let what = Location::Value(ifd_offset, self.tag);
        read_vec(source, what, self.offset().saturating_add(skip), len).map(Cow::Owned)
    }

    /// Keeps the values in memory if they are outside the entry, short, and in the buffer of the source. `room` is the
    /// number of bytes that all entries together may still keep.
    pub(crate) fn load<R: ReadAt + ?Sized>(&mut self, source: &R, room: &mut usize) {
        let len = self.byte_len().and_then(|len| usize::try_from(len).ok()).unwrap_or(usize::MAX);
        if self.is_inline() || len > MAX_LOADED.min(*room) {
            return;
        }
        self.loaded = source.buffered(self.offset(), len);
        *room -= self.loaded.as_ref().map_or(0, |bytes| bytes.len());
    }

    fn loaded_part(&self, skip: u64, len: u64) -> Option<&[u8]> {
        let start = usize::try_from(skip).ok()?;
        self.loaded.as_ref()?.get(start..start.checked_add(usize::try_from(len).ok()?)?)
    }

    /// Returns value `i` of `bytes` as an unsigned number; `None` if the type is not an integer or the value is
    /// negative.
    pub(crate) fn uint_at(&self, bytes: &[u8], i: usize) -> Option<u64> {
        let order = self.order;
        Some(match self.field_type {
            FieldType::BYTE | FieldType::UNDEFINED => u64::from(*bytes.get(i)?),
            FieldType::SHORT => u64::from(order.u16(bytes.get(i * 2..i * 2 + 2)?)),
            FieldType::LONG | FieldType::IFD => u64::from(order.u32(bytes.get(i * 4..i * 4 + 4)?)),
            FieldType::LONG8 | FieldType::IFD8 => order.u64(bytes.get(i * 8..i * 8 + 8)?),
            FieldType::SBYTE | FieldType::SSHORT | FieldType::SLONG | FieldType::SLONG8 => {
                u64::try_from(self.int_at(bytes, i)?).ok()?
            }
            _ => return None,
        })
    }

    /// Returns value `i` of `bytes` as a signed number.
    pub(crate) fn int_at(&self, bytes: &[u8], i: usize) -> Option<i64> {
        let order = self.order;
        Some(match self.field_type {
            FieldType::SBYTE => i64::from(*bytes.get(i)? as i8),
            FieldType::SSHORT => i64::from(order.u16(bytes.get(i * 2..i * 2 + 2)?) as i16),
            FieldType::SLONG => i64::from(order.u32(bytes.get(i * 4..i * 4 + 4)?) as i32),
            FieldType::SLONG8 => order.u64(bytes.get(i * 8..i * 8 + 8)?) as i64,
            _ => i64::try_from(self.uint_at(bytes, i)?).ok()?,
        })
    }

    /// Returns value `i` of `bytes` as a float. A rational with denominator 0 is NaN or infinite and not an
    /// error.
    pub(crate) fn float_at(&self, bytes: &[u8], i: usize) -> Option<f64> {
        let order = self.order;
        Some(match self.field_type {
            FieldType::FLOAT => f64::from(f32::from_bits(order.u32(bytes.get(i * 4..i * 4 + 4)?))),
            FieldType::DOUBLE => f64::from_bits(order.u64(bytes.get(i * 8..i * 8 + 8)?)),
            FieldType::RATIONAL | FieldType::SRATIONAL => {
                let pair = bytes.get(i * 8..i * 8 + 8)?;
                let (a, b) = (order.u32(pair), order.u32(&pair[4..]));
                match self.field_type {
                    FieldType::RATIONAL => f64::from(a) / f64::from(b),
                    _ => f64::from(a as i32) / f64::from(b as i32),
                }
            }
            FieldType::LONG8 | FieldType::IFD8 => self.uint_at(bytes, i)? as f64,
            _ => self.int_at(bytes, i)? as f64,
        })
    }
}

/// The values of the tags of one IFD, read from `source` on demand.
#[derive(Clone, Copy)]
pub struct Fields<'a, R: ReadAt + ?Sized> {
    pub(crate) entries: &'a [Entry],
    pub(crate) ifd: Location,
    pub(crate) source: &'a R,
    pub(crate) limits: &'a Limits,
}

/// An entry and the bytes of its values.
type Loaded<'a> = (&'a Entry, Cow<'a, [u8]>);

impl<'a, R: ReadAt + ?Sized> Fields<'a, R> {
    /// Returns the entry of a tag.
    pub fn entry(&self, tag: Tag) -> Option<&'a Entry> {
        // libtiff keeps the first of duplicate tags. The entries are sorted stably, so the first match is that
        // one.
        let first = self.entries.partition_point(|entry| entry.tag < tag);
        self.entries.get(first).filter(|entry| entry.tag == tag)
    }

    /// Returns the bytes of all values of a tag, in file byte order.
    ///
    /// # Errors
    /// The same errors as [`Fields::uints`].
    pub fn bytes(&self, tag: Tag) -> Result<Option<Vec<u8>>> {
        Ok(self.load(tag)?.map(|(_, bytes)| bytes.into_owned()))
    }

    /// Returns the values of a tag without change, for a little-endian file.
    ///
    /// # Errors
    /// The same errors as [`Fields::uints`].
    pub fn value(&self, tag: Tag) -> Result<Option<Value>> {
        let Some((entry, bytes)) = self.load(tag)? else { return Ok(None) };
        let mut bytes = bytes.into_owned();
        let unit = match entry.field_type {
            FieldType::RATIONAL | FieldType::SRATIONAL => 4,
            other => other.size().unwrap_or(1) as usize,
        };
        if entry.order == ByteOrder::Big {
            bytes.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
        }
        Ok(Some(Value::Raw(entry.field_type, entry.count, bytes)))
    }

    /// Returns all values of a tag as unsigned numbers.
    ///
    /// # Errors
    /// [`Error::Limit`] if the values take more than `max_tag_bytes`, [`Error::PastEnd`], [`Error::Read`], and
    /// [`Error::TagType`] if a value is not an unsigned number.
    pub fn uints(&self, tag: Tag) -> Result<Option<Vec<u64>>> {
        self.all(tag, "an unsigned number", Entry::uint_at)
    }

    /// Returns the first `most` values of a tag as unsigned numbers. The others are not read.
    ///
    /// # Errors
    /// The same errors as [`Fields::uints`].
    pub fn first_uints(&self, tag: Tag, most: u64) -> Result<Option<Vec<u64>>> {
        let Some(entry) = self.entry(tag) else { return Ok(None) };
        let count = entry.count.min(most);
        let bytes = entry.slice(self.source, self.ifd, 0, count)?;
        let values: Option<Vec<u64>> = (0..count as usize).map(|i| entry.uint_at(&bytes, i)).collect();
        let wrong = Error::TagType { ifd: self.ifd, tag, found: entry.field_type, wanted: "an unsigned number" };
        values.map(Some).ok_or(wrong)
    }

    /// Returns all values of a tag as floating point numbers.
    ///
    /// # Errors
    /// The same errors as [`Fields::uints`].
    pub fn floats(&self, tag: Tag) -> Result<Option<Vec<f64>>> {
        self.all(tag, "a number", Entry::float_at)
    }

    /// Returns all values of a tag as signed numbers.
    ///
    /// # Errors
    /// The same errors as [`Fields::uints`].
    pub fn ints(&self, tag: Tag) -> Result<Option<Vec<i64>>> {
        self.all(tag, "an integer", Entry::int_at)
    }

    /// Returns the first value of a tag as an unsigned number.
    ///
    /// # Errors
    /// The same errors as [`Fields::uints`].
    pub fn uint(&self, tag: Tag) -> Result<Option<u64>> {
        let Some(entry) = self.entry(tag).filter(|entry| entry.count > 0) else { return Ok(None) };
        let bytes = entry.slice(self.source, self.ifd, 0, 1)?;
        let wrong = Error::TagType { ifd: self.ifd, tag, found: entry.field_type, wanted: "an unsigned number" };
        entry.uint_at(&bytes, 0).map(Some).ok_or(wrong)
    }

    /// Returns the text of a tag without its terminating NULs. Bytes that are not UTF-8 are read as Latin-1.
    ///
    /// # Errors
    /// The same errors as [`Fields::uints`].
    pub fn text(&self, tag: Tag) -> Result<Option<String>> {
        let Some(mut bytes) = self.bytes(tag)? else { return Ok(None) };
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        Ok(Some(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => error.as_bytes().iter().map(|&byte| char::from(byte)).collect(),
        }))
    }

    fn all<T>(
        &self,
        tag: Tag,
        wanted: &'static str,
        at: impl Fn(&Entry, &[u8], usize) -> Option<T>,
    ) -> Result<Option<Vec<T>>> {
        let Some((entry, bytes)) = self.load(tag)? else { return Ok(None) };
        let values: Option<Vec<T>> = (0..entry.count as usize).map(|i| at(entry, &bytes, i)).collect();
        values.map(Some).ok_or(Error::TagType { ifd: self.ifd, tag, found: entry.field_type, wanted })
    }

    fn load(&self, tag: Tag) -> Result<Option<Loaded<'a>>> {
        let Some(entry) = self.entry(tag) else { return Ok(None) };
        let len = entry.byte_len().unwrap_or(u64::MAX);
        if len > self.limits.max_tag_bytes && entry.field_type.size().is_some() {
            let limit = self.limits.max_tag_bytes;
            return Err(Error::Limit { what: "the size of a tag value", name: "max_tag_bytes", value: len, limit });
        }
        self.limits.count_metadata(len)?;
        Ok(Some((entry, entry.slice(self.source, self.ifd, 0, entry.count)?)))
    }
}
