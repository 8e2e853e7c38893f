//! Random access to the bytes of a file, and the byte order of its numbers.

use std::sync::Arc;

use crate::error::{Error, Location, Result};

/// Random access to the bytes of a file.
///
/// This crate does no I/O itself: `swath-io` implements this trait for files. This module implements it for
/// byte slices.
pub trait ReadAt {
    /// Size of the file in bytes.
    fn size(&self) -> u64;

    /// Fills `out` with the bytes from `offset` on; a short read is an error.
    ///
    /// # Errors
    /// Returns the error of the source, or `UnexpectedEof` if the range is not inside the file.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()>;

    /// Returns a range of bytes if the source has it in a buffer, without reading the file. Most sources have no
    /// buffer.
    fn buffered(&self, _offset: u64, _len: usize) -> Option<Arc<[u8]>> {
        None
    }
}

impl ReadAt for [u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        let range = usize::try_from(offset).ok().and_then(|start| Some(start..start.checked_add(out.len())?));
        match range.and_then(|range| self.get(range)) {
            Some(bytes) => {
                out.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(std::io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> u64 {
        self.as_slice().size()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.as_slice().read_at(offset, out)
    }
}

/// Reads `len` bytes that belong to `what`. A range outside the file is an error before any memory is
/// allocated.
pub(crate) fn read_vec<R: ReadAt + ?Sized>(source: &R, what: Location, offset: u64, len: u64) -> Result<Vec<u8>> {
    let size = source.size();
    let past_end = || Error::PastEnd { what, offset, len, size };
    if offset.checked_add(len).is_none_or(|end| end > size) {
        return Err(past_end());
    }
    let len = usize::try_from(len).map_err(|_| past_end())?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|cause| Error::Read { offset, len, cause: cause.into() })?;
    bytes.resize(len, 0);
    source.read_at(offset, &mut bytes).map_err(|cause| Error::Read { offset, len, cause })?;
    Ok(bytes)
}

/// The byte order of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOrder {
    /// `II`
    Little,
    /// `MM`
    Big,
}

impl ByteOrder {
    /// Whether values must be swapped on this machine.
    pub fn is_foreign(self) -> bool {
        (self == ByteOrder::Big) != cfg!(target_endian = "big")
    }

    /// Returns the first two bytes as a number.
    pub(crate) fn u16(self, bytes: &[u8]) -> u16 {
        self.number::<2>(bytes) as u16
    }

    /// Returns the first four bytes as a number.
    pub(crate) fn u32(self, bytes: &[u8]) -> u32 {
        self.number::<4>(bytes) as u32
    }

    /// Returns the first eight bytes as a number.
    pub(crate) fn u64(self, bytes: &[u8]) -> u64 {
        self.number::<8>(bytes)
    }

    fn number<const N: usize>(self, bytes: &[u8]) -> u64 {
        let one = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        match self {
            ByteOrder::Little => bytes[..N].iter().rev().fold(0, one),
            ByteOrder::Big => bytes[..N].iter().fold(0, one),
        }
    }
}
