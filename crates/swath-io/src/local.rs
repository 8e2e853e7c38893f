//! Local files.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::{Error, ReadAt, Result, Source};

/// A file opened for reading at any offset.
///
/// Bytes are read with positioned reads, not through a memory map: a file that shrinks during a read then
/// gives an error instead of a signal that ends the process.
#[derive(Debug)]
pub struct LocalFile {
    file: File,
    path: PathBuf,
    size: u64,
}

impl LocalFile {
    /// Opens a regular file.
    ///
    /// # Errors
    /// [`Error::Open`] if the system cannot open it, [`Error::NotAFile`] for directories, pipes and devices.
    pub fn open(path: impl AsRef<Path>) -> Result<LocalFile> {
        let path = path.as_ref();
        let open_error = |cause| Error::Open { path: path.to_owned(), cause };
        // Check the type before opening: opening a pipe would wait for a writer.
        let metadata = std::fs::metadata(path).map_err(open_error)?;
        if !metadata.is_file() {
            let kind = if metadata.is_dir() { "a directory" } else { "a pipe or device" };
            return Err(Error::NotAFile { path: path.to_owned(), kind });
        }
        let file = File::open(path).map_err(open_error)?;
        Ok(LocalFile { file, path: path.to_owned(), size: metadata.len() })
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl ReadAt for LocalFile {
    fn size(&self) -> u64 {
        self.size
    }

    #[cfg(unix)]
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, out, offset)
    }

    #[cfg(windows)]
    fn read_at(&self, mut offset: u64, mut out: &mut [u8]) -> io::Result<()> {
        while !out.is_empty() {
            match std::os::windows::fs::FileExt::seek_read(&self.file, out, offset)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => {
                    offset += n as u64;
                    out = &mut out[n..];
                }
            }
        }
        Ok(())
    }
}

impl Source for LocalFile {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn file(&self) -> Option<&File> {
        Some(&self.file)
    }

    fn sibling(&self, change: &dyn Fn(&Path) -> PathBuf) -> Result<Option<Box<dyn Source>>> {
        match LocalFile::open(change(&self.path)) {
            Ok(file) => Ok(Some(Box::new(file))),
            Err(Error::Open { cause: source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            // A directory or pipe that has the name of a sidecar file is not a sidecar file.
            Err(Error::NotAFile { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_is_named_as_such_and_missing_file_is_not_found() {
        let dir = std::env::temp_dir();
        assert!(matches!(LocalFile::open(&dir), Err(Error::NotAFile { kind: "a directory", .. })));
        let missing = dir.join("swath-there-is-no-such-file.tif");
        assert!(matches!(LocalFile::open(missing), Err(Error::Open { .. })));
    }

    #[test]
    fn file_that_shrinks_after_opening_is_an_error_not_a_crash() {
        let path = std::env::temp_dir().join(format!("swath-shrinks-{}.bin", std::process::id()));
        std::fs::write(&path, [7; 100]).unwrap();
        let file = LocalFile::open(&path).unwrap();
        let mut out = [0; 50];
        file.read_at(50, &mut out).unwrap();
        assert_eq!(out, [7; 50]);
        std::fs::write(&path, [7; 60]).unwrap();
        assert_eq!(file.read_at(50, &mut out).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        std::fs::remove_file(path).unwrap();
    }
}
