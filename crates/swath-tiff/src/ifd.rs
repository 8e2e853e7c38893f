//! Image file directories and the chain that links them.

use crate::bytes::{ByteOrder, ReadAt, read_vec};
use crate::error::{Error, Location, Result};
use crate::field::{Entry, FieldType, Fields};
use crate::header::Header;
use crate::limits::Limits;
use crate::tag::Tag;

/// One image file directory: its entries, sorted by tag. The values stay in the file.
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
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Chain {
    /// The IFDs that could be read, in file order; at least one.
    pub links: Vec<ChainLink>,
}

/// Reads all IFDs of a file: the chain, and the SubIFDs of each IFD.
///
/// Every IFD must be valid. A broken IFD after the first one is an error too: Swath must not present a file
/// whose overviews or pages cannot be listed as a file without them.
///
/// # Errors
/// [`Error::NoIfd`], [`Error::Cycle`], [`Error::Limit`] and all errors of [`Ifd::read`].
pub fn read_chain<R: ReadAt + ?Sized>(source: &R, header: Header, limits: &Limits) -> Result<Chain> {
    let mut links = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let mut offset = header.first_ifd;
    while offset != 0 {
        if !seen.insert(offset) {
            return Err(Error::Cycle { offset });
        }
        if seen.len() > limits.max_ifds {
            return Err(too_many_ifds(seen.len() as u64, limits));
        }
        let ifd = Ifd::read(source, header, offset, limits)?;
        let mut subs = Vec::new();
        for sub in ifd.sub_ifds(source, limits)? {
            if sub == 0 {
                continue;
            }
            if !seen.insert(sub) {
                return Err(Error::Cycle { offset: sub });
            }
            if seen.len() > limits.max_ifds {
                return Err(too_many_ifds(seen.len() as u64, limits));
            }
            subs.push(Ifd::read(source, header, sub, limits)?);
        }
        offset = ifd.next;
        links.push(ChainLink { ifd, subs });
    }
    if links.is_empty() { Err(Error::NoIfd) } else { Ok(Chain { links }) }
}
