//! Where compressed blocks wait until it is known where in the file they go.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use crate::Span;

/// Bytes that are appended once and copied out later, in any order: in a file, or in memory.
#[derive(Debug)]
pub enum Spool {
    /// In a file, from offset `start` of it on.
    File {
        /// The file.
        file: File,
        /// Where the next bytes go.
        end: u64,
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
    /// A spool that appends to `file` from offset `start` on.
    pub fn in_file(file: File, start: u64) -> Spool {
        Spool::File { file, end: start }
    }

    /// Append bytes and tell where they are.
    ///
    /// # Errors
    /// What the system says, for instance when the disk is full.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        match self {
            Spool::File { file, end } => {
                let offset = *end;
                file.seek(SeekFrom::Start(offset))?;
                file.write_all(bytes)?;
                *end += bytes.len() as u64;
                Ok(offset)
            }
            Spool::Memory(memory) => {
                let offset = memory.len() as u64;
                memory.extend_from_slice(bytes);
                Ok(offset)
            }
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
        for mut spool in [Spool::in_file(file, 0), Spool::Memory(Vec::new())] {
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
