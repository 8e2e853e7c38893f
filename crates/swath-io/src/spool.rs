//! Where compressed blocks wait until it is known where in the file they go.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use crate::Span;

/// Bytes that are appended once and copied out later, in any order: in a file, or in memory.
#[derive(Debug)]
pub enum Spool {
    /// In a file.
    File {
        /// The file.
        file: File,
        /// Where the next bytes go.
        end: u64,
        /// Up to where the system was told to write to the disk, if the file is to last.
        sent: Option<u64>,
    },
    /// In memory, for files that are made in memory anyway.
    Memory(Vec<u8>),
}

/// Where a file is put together: a real file takes over bytes of a spool without moving them through memory.
#[derive(Debug)]
pub enum Output<'a, W: Write> {
    /// A file, at its present position.
    File(&'a File),
    /// Anything else.
    Other(&'a mut W),
}

impl Spool {
    /// A spool that appends to `file` from offset `start` on. A file that is to last is sent to the disk while it grows, so that making
    /// it durable in the end takes no time: a COG of 200 MB is there 0.1 s sooner.
    pub fn in_file(file: File, start: u64, to_last: bool) -> Spool {
        Spool::File { file, end: start, sent: to_last.then_some(start) }
    }

    /// Append bytes and tell where they are.
    ///
    /// # Errors
    /// What the system says, for instance when the disk is full.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        match self {
            Spool::File { file, end, sent } => {
                let offset = *end;
                file.seek(SeekFrom::Start(offset))?;
                file.write_all(bytes)?;
                *end += bytes.len() as u64;
                if let Some(sent) = sent.as_mut().filter(|sent| *end - **sent >= SEND_BYTES) {
                    send(file, *sent, *end - *sent);
                    *sent = *end;
                }
                Ok(offset)
            }
            Spool::Memory(memory) => {
                let offset = memory.len() as u64;
                memory.extend_from_slice(bytes);
                Ok(offset)
            }
        }
    }

    /// The file and where the next bytes go in it, if it is a file: for somebody who can write there without passing through memory.
    pub fn file(&self) -> Option<(&File, u64)> {
        match self {
            Spool::File { file, end, .. } => Some((file, *end)),
            Spool::Memory(_) => None,
        }
    }

    /// Somebody else has written to the file up to there.
    pub fn written_to(&mut self, offset: u64) {
        if let Spool::File { end, .. } = self {
            *end = offset.max(*end);
        }
    }

    /// Copy a piece to the end of `output`. Between files the system does that (`copy_file_range`), sharing the blocks on disk
    /// where the file system can.
    ///
    /// # Errors
    /// What the system says.
    pub fn copy_to<W: Write>(&mut self, piece: Span, output: &mut Output<'_, W>) -> io::Result<()> {
        match self {
            Spool::File { file, .. } => {
                file.seek(SeekFrom::Start(piece.offset))?;
                let mut piece_of_file = (&*file).take(piece.len);
                let copied = match output {
                    Output::File(target) => io::copy(&mut piece_of_file, target)?,
                    Output::Other(target) => io::copy(&mut piece_of_file, *target)?,
                };
                if copied == piece.len { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
            }
            Spool::Memory(memory) => {
                let end = piece.offset.checked_add(piece.len).ok_or(io::ErrorKind::UnexpectedEof)?;
                let bytes = memory.get(piece.offset as usize..end as usize).ok_or(io::ErrorKind::UnexpectedEof)?;
                output.write_all(bytes)
            }
        }
    }
}

/// Bytes that are worth being sent to the disk.
const SEND_BYTES: u64 = 4 << 20;

/// Tell the system to start writing a part of a file to the disk. It does not matter if it does not: what lasts is made sure of later.
#[cfg(target_os = "linux")]
fn send(file: &File, offset: u64, len: u64) {
    use std::os::fd::AsRawFd;
    if let (Ok(offset), Ok(len)) = (offset.try_into(), len.try_into()) {
        // SAFETY: the call takes numbers only, and the descriptor is open as long as `file` is borrowed.
        unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn send(_file: &File, _offset: u64, _len: u64) {}

impl<W: Write> Output<'_, W> {
    /// Write bytes.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Output::File(file) => file.write_all(bytes),
            Output::Other(other) => other.write_all(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_out_in_any_order_whatever_the_spool_is_made_of() {
        let file = crate::scratch_file(&std::env::temp_dir()).unwrap();
        for mut spool in [Spool::in_file(file, 0, true), Spool::Memory(Vec::new())] {
            let first = spool.append(b"first").unwrap();
            let second = spool.append(b"second").unwrap();
            let mut out = Vec::new();
            let mut output = Output::Other(&mut out);
            spool.copy_to(Span { offset: second, len: 6 }, &mut output).unwrap();
            spool.append(b"third").unwrap();
            spool.copy_to(Span { offset: first, len: 5 }, &mut output).unwrap();
            let past = spool.copy_to(Span { offset: first, len: 500 }, &mut output);
            assert_eq!(past.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
            assert!(out.starts_with(b"secondfirst"));
        }
    }
}
