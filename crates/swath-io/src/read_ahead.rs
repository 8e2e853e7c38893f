//! Reads the headers of a file with few requests.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use crate::{ReadAt, Source};

/// Bytes of the first request. Headers, IFDs and short tag values are in the first 16 KiB of most files.
const FIRST: u64 = 16 << 10;

/// Bytes of each further request, for IFDs at other places.
const FURTHER: u64 = 4 << 10;

/// A source whose small reads are answered from a buffer. The buffer has the bytes that follow the start of the last read
/// that it could not answer.
#[derive(Debug)]
pub struct ReadAhead<'a> {
    source: &'a dyn Source,
    /// The offset of the buffer in the file, and its bytes.
    buffer: RefCell<(u64, Vec<u8>)>,
}

impl<'a> ReadAhead<'a> {
    /// Wraps a source. Nothing is read yet.
    pub fn new(source: &'a dyn Source) -> ReadAhead<'a> {
        ReadAhead { source, buffer: RefCell::default() }
    }

    /// Copies bytes from the buffer. Returns whether it has them all.
    fn copy(&self, offset: u64, out: &mut [u8]) -> bool {
        let (start, bytes) = &*self.buffer.borrow();
        let part = part(*start, bytes, offset, out.len());
        part.inspect(|part| out.copy_from_slice(part)).is_some()
    }

    /// Reads the bytes from `offset` on into the buffer, at least `len`. Returns whether that was possible.
    fn fill(&self, offset: u64, len: usize) -> bool {
        let ahead = if offset == 0 { FIRST } else { FURTHER };
        let ahead = ahead.min(self.source.size().saturating_sub(offset));
        if ahead < len as u64 {
            return false;
        }
        let (start, bytes) = &mut *self.buffer.borrow_mut();
        *start = offset;
        bytes.resize(ahead as usize, 0);
        let filled = self.source.read_at(offset, bytes);
        filled.inspect_err(|_| bytes.clear()).is_ok()
    }
}

impl ReadAt for ReadAhead<'_> {
    fn size(&self) -> u64 {
        self.source.size()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if self.copy(offset, out) || (self.fill(offset, out.len()) && self.copy(offset, out)) {
            return Ok(());
        }
        // The bytes after `out` may be the reason why the buffer cannot be filled.
        self.source.read_at(offset, out)
    }

    fn buffered(&self, offset: u64, len: usize) -> Option<Arc<[u8]>> {
        let (start, bytes) = &*self.buffer.borrow();
        part(*start, bytes, offset, len).map(Arc::from)
    }
}

/// Returns the `len` bytes at `offset` of a file, of which `bytes` is the part that begins at `start`.
fn part(start: u64, bytes: &[u8], offset: u64, len: usize) -> Option<&[u8]> {
    let first = usize::try_from(offset.checked_sub(start)?).ok()?;
    bytes.get(first..first.checked_add(len)?)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::Mutex;

    use super::*;
    use crate::Result;

    /// Bytes of which those from `broken` on cannot be read, and the offsets and lengths of all reads.
    #[derive(Debug)]
    struct Counted {
        bytes: Vec<u8>,
        broken: usize,
        reads: Mutex<Vec<(u64, usize)>>,
    }

    impl Counted {
        fn new(len: usize, broken: usize) -> Counted {
            let bytes = (0..len).map(|i| (i * 7 % 251) as u8).collect();
            Counted { bytes, broken, reads: Mutex::default() }
        }
    }

    impl ReadAt for Counted {
        fn size(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.reads.lock().unwrap().push((offset, out.len()));
            self.bytes[..self.broken].read_at(offset, out)
        }
    }

    impl Source for Counted {
        fn name(&self) -> String {
            "counted".into()
        }

        fn sibling(&self, _change: &dyn Fn(&Path) -> PathBuf) -> Result<Option<Box<dyn Source>>> {
            Ok(None)
        }
    }

    #[test]
    fn reads_in_the_buffer_cost_no_request_and_others_give_the_same_bytes() {
        let source = Counted::new(40_000, 40_000);
        let ahead = ReadAhead::new(&source);
        for (offset, len) in [(0, 16), (8, 2), (16_000, 384), (16_000, 385), (16_385, 3999), (39_990, 10), (100, 8000)]
        {
            let mut out = vec![0; len];
            ahead.read_at(offset, &mut out).unwrap();
            assert_eq!(out, source.bytes[offset as usize..][..len], "{offset}");
            assert_eq!(ahead.buffered(offset, len).is_some(), len < 5000);
        }
        let reads = source.reads.lock().unwrap().clone();
        assert_eq!(reads, [(0, 16_384), (16_000, 4096), (16_385, 4096), (39_990, 10), (100, 8000)]);
        assert_eq!(ahead.buffered(u64::MAX, 1), None);
        assert_eq!(ahead.buffered(39_995, usize::MAX), None);
    }

    #[test]
    fn bytes_before_a_broken_part_are_read_and_the_others_are_an_error() {
        let source = Counted::new(40_000, 100);
        let ahead = ReadAhead::new(&source);
        let mut out = [0; 16];
        ahead.read_at(84, &mut out).unwrap();
        assert_eq!(out, source.bytes[84..100]);
        assert_eq!(ahead.buffered(84, 1), None, "what was not read is not in the buffer");
        assert_eq!(ahead.read_at(85, &mut out).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(ahead.read_at(39_999, &mut out).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
