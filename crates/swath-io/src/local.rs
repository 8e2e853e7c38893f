//! Local files.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};

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
    /// The number of the system's last error, or 0.
    failure: AtomicI32,
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
        Ok(LocalFile { file, path: path.to_owned(), size: metadata.len(), failure: AtomicI32::new(0) })
    }

    /// Remembers an error of the system. Errors without a number, such as the end of the file, are no failures.
    fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(code) = result.as_ref().map_err(io::Error::raw_os_error)
            && let Some(code) = code
        {
            self.failure.store(code, Ordering::Relaxed);
        }
        result
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(target_os = "linux")]
impl LocalFile {
    /// Reads up to all of the parts with one system call, and returns the number of bytes with those between the parts.
    /// The bytes between the parts go to `dropped`, which has the length of a gap.
    fn read_some(&self, offset: u64, parts: &mut [&mut [u8]], dropped: &mut [u8]) -> io::Result<usize> {
        use std::os::fd::AsRawFd;
        let offset = libc::off64_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        let buffer = |bytes: &mut [u8]| libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let gap = buffer(dropped);
        let mut buffers = Vec::with_capacity(2 * parts.len());
        for part in parts {
            if gap.iov_len > 0 && !buffers.is_empty() {
                buffers.push(gap);
            }
            buffers.push(buffer(part));
        }
        // SAFETY: each buffer is a slice that is borrowed mutably until the call ends. That several are `dropped` is
        // allowed: the system writes them one after the other, and nothing reads them. The file is open.
        let read =
            unsafe { libc::preadv64(self.file.as_raw_fd(), buffers.as_ptr(), buffers.len() as libc::c_int, offset) };
        match usize::try_from(read) {
            Ok(read) => Ok(read),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
                error => Err(error),
            },
        }
    }
}

impl ReadAt for LocalFile {
    fn size(&self) -> u64 {
        self.size
    }

    #[cfg(unix)]
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.note(std::os::unix::fs::FileExt::read_exact_at(&self.file, out, offset))
    }

    #[cfg(windows)]
    fn read_at(&self, mut offset: u64, mut out: &mut [u8]) -> io::Result<()> {
        while !out.is_empty() {
            match self.note(std::os::windows::fs::FileExt::seek_read(&self.file, out, offset))? {
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

    /// Fills hundreds of buffers with one system call, unless the gaps are so long that it is faster not to read them.
    /// For tiles of 512 x 512 float32 this takes 0.84 of the CPU time of a read into one buffer and a copy of each row.
    #[cfg(target_os = "linux")]
    fn read_scattered(&self, mut offset: u64, gap: u64, parts: &mut [&mut [u8]]) -> io::Result<()> {
        /// The longest gap that is read and dropped: copying more takes longer than another system call.
        const LONGEST_GAP: u64 = 4096;
        /// The most parts of one call. Linux accepts 1024 buffers, and each gap needs one too.
        const PARTS: usize = 512;
        let (calls, gap_buffer) = if gap <= LONGEST_GAP { (PARTS, gap as usize) } else { (1, 0) };
        let mut dropped = vec![0; gap_buffer];
        for parts in parts.chunks_mut(calls) {
            let mut done = self.read_some(offset, parts, &mut dropped)?;
            // The system can stop early, for example at a signal. The rest is read part by part.
            for part in parts {
                let here = done.min(part.len());
                done = done.saturating_sub(part.len() + gap_buffer);
                self.read_at(offset + here as u64, &mut part[here..])?;
                offset += part.len() as u64 + gap;
            }
        }
        Ok(())
    }

    fn file(&self) -> Option<&File> {
        Some(&self.file)
    }

    fn take_failure(&self) -> Option<io::Error> {
        match self.failure.swap(0, Ordering::Relaxed) {
            0 => None,
            code => Some(io::Error::from_raw_os_error(code)),
        }
    }

    fn sibling(&self, change: &dyn Fn(&Path) -> PathBuf) -> Result<Option<Box<dyn Source>>> {
        match LocalFile::open(change(&self.path)) {
            Ok(file) => Ok(Some(Box::new(file))),
            Err(Error::Open { cause, .. }) if is_absent(&cause) => Ok(None),
            // A directory or pipe that has the name of a sidecar file is not a sidecar file.
            Err(Error::NotAFile { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether the error says that there is no file of that name. A name that is too long for the file system has none
/// either: the name of a sidecar is longer than that of its file.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sidecar_whose_name_is_too_long_is_absent() {
        let folder = std::env::temp_dir().join(format!("swath-long-name-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("x".repeat(251) + ".tif");
        std::fs::write(&path, b"II").unwrap();
        let file = LocalFile::open(&path).unwrap();
        let sidecar = |path: &Path| PathBuf::from(format!("{}.ovr", path.display()));
        assert!(file.sibling(&sidecar).unwrap().is_none());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn directory_is_named_as_such_and_missing_file_is_not_found() {
        let dir = std::env::temp_dir();
        assert!(matches!(LocalFile::open(&dir), Err(Error::NotAFile { kind: "a directory", .. })));
        let missing = dir.join("swath-there-is-no-such-file.tif");
        assert!(matches!(LocalFile::open(missing), Err(Error::Open { .. })));
    }

    #[test]
    fn scattered_read_fills_every_part_and_is_an_error_past_the_end() {
        let path = std::env::temp_dir().join(format!("swath-scattered-{}.bin", std::process::id()));
        let bytes: Vec<u8> = (0..9000_u32).map(|i| (i * 7 % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = LocalFile::open(&path).unwrap();
        // More parts than one system call accepts, some of them empty, with gaps that are read and gaps that are not.
        for (gap, count) in [(0, 2500), (1, 1100), (7, 900), (4096, 3), (4097, 3)] {
            let mut buffers: Vec<Vec<u8>> = (0..count).map(|i| vec![0; i % 5]).collect();
            let mut parts: Vec<&mut [u8]> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
            file.read_scattered(100, gap, &mut parts).unwrap();
            let mut at = 100;
            for buffer in buffers {
                assert_eq!(buffer, bytes[at..at + buffer.len()], "gap {gap}");
                at += buffer.len() + gap as usize;
            }
        }
        let (mut a, mut b) = ([0; 10], [0; 10]);
        let error = file.read_scattered(8985, 0, &mut [&mut a, &mut b]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        std::fs::remove_file(path).unwrap();
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
