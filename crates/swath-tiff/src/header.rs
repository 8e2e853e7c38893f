//! The file header: the first 8 (classic TIFF) or 16 (BigTIFF) bytes.

use crate::bytes::{ByteOrder, ReadAt};
use crate::error::{Error, Result};

/// The header of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// Byte order of everything outside compressed data.
    pub order: ByteOrder,
    /// Whether the file is a BigTIFF, which has 64-bit offsets and counts.
    pub big: bool,
    /// Offset of the first IFD.
    pub first_ifd: u64,
}

impl Header {
    /// Reads the header.
    ///
    /// # Errors
    /// [`Error::TooShort`], [`Error::NotTiff`], [`Error::OffsetSize`], [`Error::Read`].
    pub fn read<R: ReadAt + ?Sized>(source: &R) -> Result<Header> {
        let size = source.size();
        if size < 8 {
            return Err(Error::TooShort { size });
        }
        let mut bytes = [0; 16];
        let len = size.min(16) as usize;
        source.read_at(0, &mut bytes[..len]).map_err(|cause| Error::Read { offset: 0, len, cause })?;
        let magic = [bytes[0], bytes[1], bytes[2], bytes[3]];
        let order = match &magic[..2] {
            b"II" => ByteOrder::Little,
            b"MM" => ByteOrder::Big,
            _ => return Err(Error::NotTiff { magic }),
        };
        match order.u16(&bytes[2..]) {
            42 => Ok(Header { order, big: false, first_ifd: u64::from(order.u32(&bytes[4..])) }),
            43 if len < 16 => Err(Error::TooShort { size }),
            43 => match order.u16(&bytes[4..]) {
                8 => Ok(Header { order, big: true, first_ifd: order.u64(&bytes[8..]) }),
                size => Err(Error::OffsetSize { size }),
            },
            _ => Err(Error::NotTiff { magic }),
        }
    }

    /// The number of bytes of the entry count at the start of an IFD.
    pub(crate) fn count_bytes(self) -> usize {
        if self.big { 8 } else { 2 }
    }

    /// The number of bytes of one IFD entry.
    pub(crate) fn entry_bytes(self) -> usize {
        if self.big { 20 } else { 12 }
    }

    /// The number of bytes of an offset, which is also the size of an inline value.
    pub(crate) fn offset_bytes(self) -> usize {
        if self.big { 8 } else { 4 }
    }
}
