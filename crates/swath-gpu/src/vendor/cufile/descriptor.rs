//! Descriptors and names of files, as cuFile needs them.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::PathBuf;

/// Opens the same file again, so that the flags of the caller's descriptor stay as they are. Also returns whether the system bypasses its
/// cache for the file, which direct transfers need.
#[cfg(target_os = "linux")]
pub(super) fn open_again(file: &File, writable: bool) -> io::Result<(File, bool)> {
    use std::os::unix::fs::OpenOptionsExt;
    let path = format!("/proc/self/fd/{}", raw_descriptor(file));
    let mut options = OpenOptions::new();
    options.read(true).write(writable);
    match options.custom_flags(libc::O_DIRECT).open(&path) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok((options.custom_flags(0).open(&path)?, false)),
        opened => Ok((opened?, true)),
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn open_again(_: &File, _: bool) -> io::Result<(File, bool)> {
    let _ = OpenOptions::new();
    Err(io::ErrorKind::Unsupported.into())
}

/// A name for a file without one, until it is dropped. cuFile looks up the name of a file and opens it again for partial pages, but a
/// file that is being written has no name before it is complete. The name is a symbolic link from the path that the system reports
/// to the descriptor: the file itself gets no name, because that name could not be removed without a race.
#[derive(Debug)]
pub(super) struct TemporaryName(Option<PathBuf>);

impl TemporaryName {
    #[cfg(target_os = "linux")]
    pub(super) fn lend(file: &File) -> TemporaryName {
        let here = format!("/proc/self/fd/{}", raw_descriptor(file));
        let missing =
            std::fs::read_link(&here).ok().filter(|name| name.is_absolute() && name.symlink_metadata().is_err());
        TemporaryName(missing.filter(|name| std::os::unix::fs::symlink(&here, name).is_ok()))
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn lend(_: &File) -> TemporaryName {
        TemporaryName(None)
    }
}

impl Drop for TemporaryName {
    fn drop(&mut self) {
        if let Some(name) = &self.0 {
            let _ = std::fs::remove_file(name);
        }
    }
}

#[cfg(unix)]
pub(super) fn raw_descriptor(file: &File) -> i32 {
    std::os::fd::AsRawFd::as_raw_fd(file)
}

#[cfg(not(unix))]
pub(super) fn raw_descriptor(_: &File) -> i32 {
    -1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn file_is_opened_again_although_it_was_deleted_and_is_not_writable_unless_asked() {
        use std::io::{Read, Seek, Write};
        let path = std::env::temp_dir().join(format!("swath-cufile-{}", std::process::id()));
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(b"tile").unwrap();
        let (again, _) = open_again(&file, false).unwrap();
        assert_eq!(again.metadata().unwrap().len(), 4);
        assert!((&again).write(b"x").is_err(), "opened for reading");
        open_again(&file, true).unwrap();
        // The caller's own descriptor is as it was: unaligned reads work.
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "tile");
    }
}
