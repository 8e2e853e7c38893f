//! Image file directories and the chain that links them.

use std::collections::HashSet;
use std::sync::Arc;

use crate::bytes::{ByteOrder, ReadAt, read_vec};
use crate::error::{Error, Location, Result};
use crate::field::{Entry, FieldType, Fields};
use crate::header::Header;
use crate::limits::Limits;
use crate::tag::Tag;

/// The size in bytes of all values that the entries of one chain keep in memory. Entries can share their values, so the
/// size of the file is no bound.
const MAX_LOADED: usize = 64 << 10;

/// One image file directory: its entries, sorted by tag. The values stay in the file, except short ones that were in the
/// buffer of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ifd {
    /// Its offset in the file.
    pub offset: u64,
    /// Its entries, sorted by tag. Of duplicate tags, the first in the file comes first.
    pub entries: Vec<Entry>,
    /// The offset of the next IFD in the chain, 0 at the end.
    pub next: u64,
    /// The byte order of the file.
    pub order: ByteOrder,
}

impl Ifd {
    /// Reads the IFD at `offset`. No tag value is read.
    ///
    /// # Errors
    /// [`Error::PastEnd`], [`Error::Read`], [`Error::Limit`]; [`Error::DuplicateTag`] if a tag that determines
    /// the layout of the pixels appears twice with different values.
    pub fn read<R: ReadAt + ?Sized>(source: &R, header: Header, offset: u64, limits: &Limits) -> Result<Ifd> {
        let place = Location::Ifd(offset);
        let order = header.order;
        let count_len = header.count_bytes() as u64;
        let count_bytes = read_vec(source, place, offset, count_len)?;
        let count = if header.big { order.u64(&count_bytes) } else { u64::from(order.u16(&count_bytes)) };
        if count > limits.max_ifd_entries {
            let (what, name, limit) = ("the number of entries of an IFD", "max_ifd_entries", limits.max_ifd_entries);
            return Err(Error::Limit { what, name, value: count, limit });
        }
        let len = count.saturating_mul(header.entry_bytes() as u64);
        let bytes = read_vec(source, place, offset.saturating_add(count_len), len)?;

        let mut entries: Vec<Entry> =
            bytes.chunks_exact(header.entry_bytes()).map(|entry| parse_entry(header, entry)).collect();
        entries.sort_by_key(|entry| entry.tag);
        for pair in entries.windows(2) {
            if pair[0].tag == pair[1].tag && pair[0] != pair[1] && pair[0].tag.decides_layout() {
                return Err(Error::DuplicateTag { ifd: place, tag: pair[0].tag });
            }
        }

        // A file that ends directly after its last IFD lacks only the zero that marks the end of the chain.
        let next_at = offset.saturating_add(count_len).saturating_add(len);
        let next = match read_vec(source, place, next_at, header.offset_bytes() as u64) {
            Ok(bytes) if header.big => order.u64(&bytes),
            Ok(bytes) => u64::from(order.u32(&bytes)),
            Err(Error::PastEnd { .. }) => 0,
            Err(error) => return Err(error),
        };
        Ok(Ifd { offset, entries, next, order })
    }

    /// Returns access to the values of the tags of this IFD.
    pub fn fields<'a, R: ReadAt + ?Sized>(&'a self, source: &'a R, limits: &'a Limits) -> Fields<'a, R> {
        Fields { entries: &self.entries, ifd: Location::Ifd(self.offset), source, limits }
    }

    /// Returns the offsets of the IFDs that the SubIFDs tag lists.
    fn sub_ifds<R: ReadAt + ?Sized>(&self, source: &R, limits: &Limits) -> Result<Vec<u64>> {
        let fields = self.fields(source, limits);
        match fields.entry(Tag::SUB_IFDS) {
            Some(entry) if entry.count > limits.max_ifds as u64 => Err(too_many_ifds(entry.count, limits)),
            Some(_) => Ok(fields.uints(Tag::SUB_IFDS)?.unwrap_or_default()),
            None => Ok(Vec::new()),
        }
    }
}

fn parse_entry(header: Header, bytes: &[u8]) -> Entry {
    let order = header.order;
    let (count, value) = if header.big {
        (order.u64(&bytes[4..]), &bytes[12..20])
    } else {
        (u64::from(order.u32(&bytes[4..])), &bytes[8..12])
    };
    let mut raw = [0; 8];
    raw[..value.len()].copy_from_slice(value);
    Entry {
        tag: Tag(order.u16(bytes)),
        field_type: FieldType(order.u16(&bytes[2..])),
        count,
        raw,
        inline: value.len() as u64,
        order,
        loaded: None,
    }
}

fn too_many_ifds(value: u64, limits: &Limits) -> Error {
    Error::Limit { what: "the number of IFDs", name: "max_ifds", value, limit: limits.max_ifds as u64 }
}

/// An IFD of the main chain with the IFDs that it lists as SubIFDs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChainLink {
    /// The IFD of the chain.
    pub ifd: Ifd,
    /// Its SubIFDs, in the order in which it lists them.
    pub subs: Vec<Ifd>,
}

/// The chain of IFDs of a file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Chain {
    /// The IFDs that could be read, in file order; at least one.
    pub links: Vec<ChainLink>,
    /// Why the chain, or a list of SubIFDs, ends before its end: it returns to an IFD that was already read, or
    /// points to something that is not an IFD. Overviews, masks or pages may be missing.
    pub broken: Option<Arc<Error>>,
}

/// Reads all IFDs of a file: the chain, and the SubIFDs of each IFD.
///
/// The first IFD must be valid. If a later one is not, or was already read, the chain ends before it and
/// [`Chain::broken`] is set, so that a caller can report that overviews or pages may be missing.
///
/// # Errors
/// [`Error::NoIfd`]; [`Error::Limit`] if there are too many IFDs; [`Error::Read`]; and all errors of
/// [`Ifd::read`] for the first IFD.
pub fn read_chain<R: ReadAt + ?Sized>(source: &R, header: Header, limits: &Limits) -> Result<Chain> {
    let mut reader = ChainReader { source, header, limits, seen: HashSet::new(), broken: None, room: MAX_LOADED };
    let mut links = Vec::new();
    let mut offset = header.first_ifd;
    while offset != 0 {
        let Some(ifd) = reader.next(offset, links.is_empty())? else { break };
        let mut subs = Vec::new();
        for sub in reader.sub_ifds(&ifd)? {
            if sub != 0 {
                subs.extend(reader.next(sub, false)?);
            }
        }
        offset = ifd.next;
        links.push(ChainLink { ifd, subs });
    }
    if links.is_empty() { Err(Error::NoIfd) } else { Ok(Chain { links, broken: reader.broken.map(Arc::new) }) }
}

/// Reads IFDs, each once.
struct ChainReader<'a, R: ReadAt + ?Sized> {
    source: &'a R,
    header: Header,
    limits: &'a Limits,
    seen: HashSet<u64>,
    broken: Option<Error>,
    /// The number of bytes of values that the entries may still keep.
    room: usize,
}

impl<R: ReadAt + ?Sized> ChainReader<'_, R> {
    /// Returns the IFD at `offset`, or `None` if there is no usable one.
    fn next(&mut self, offset: u64, first: bool) -> Result<Option<Ifd>> {
        if !self.seen.insert(offset) {
            return self.ends_with(Error::Cycle { offset });
        }
        if self.seen.len() > self.limits.max_ifds {
            return Err(too_many_ifds(self.seen.len() as u64, self.limits));
        }
        match Ifd::read(self.source, self.header, offset, self.limits) {
            Ok(ifd) if !first && ifd.entries.iter().all(|entry| entry.field_type.size().is_none()) => {
                self.ends_with(Error::NotAnIfd { offset })
            }
            Ok(mut ifd) => {
                ifd.entries.iter_mut().for_each(|entry| entry.load(self.source, &mut self.room));
                Ok(Some(ifd))
            }
            Err(error) if first => Err(error),
            Err(error) => self.ends_with(error),
        }
    }

    fn sub_ifds(&mut self, ifd: &Ifd) -> Result<Vec<u64>> {
        match ifd.sub_ifds(self.source, self.limits) {
            Err(error @ Error::Limit { name: "max_ifds", .. }) => Err(error),
            Err(error) => self.ends_with(error).map(|none| none.unwrap_or_default()),
            offsets => offsets,
        }
    }

    /// Notes why the chain ends. An error of the source is final: the IFD may be valid.
    fn ends_with<T>(&mut self, error: Error) -> Result<Option<T>> {
        if matches!(error, Error::Read { .. }) {
            return Err(error);
        }
        self.broken.get_or_insert(error);
        Ok(None)
    }
}
