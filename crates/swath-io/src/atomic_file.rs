//! Files that appear complete or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A new file that will replace or become the target. Until [`publish`](NewFile::publish) is called, it has
/// no name, or, on systems without unnamed files, a temporary name beside the target. A file that is not
/// published is removed. An unnamed file disappears even if the process is killed.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    temporary: Option<PathBuf>,
    target: PathBuf,
}

impl NewFile {
    /// Creates a file that will get the name `target`. If `target` is a symbolic link, the file gets the name
    /// of the link's target.
    ///
    /// # Errors
    /// The error of the system, for example if the folder does not exist or is not writable.
    pub fn create(target: &Path) -> io::Result<NewFile> {
        let target = resolve(target)?;
        if let Some(file) = unnamed::create(folder_of(&target)) {
            return Ok(NewFile { file, temporary: None, target });
        }
        let (file, temporary) = create_beside(&target)?;
        Ok(NewFile { file, temporary: Some(temporary), target })
    }

    /// The file to write to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Makes the file durable and gives it the target's name atomically: at every moment, a reader of the
    /// target sees either the old file or the new one. Without `overwrite`, an existing target stays
    /// unchanged.
    ///
    /// # Errors
    /// The error of the system; [`io::ErrorKind::AlreadyExists`] if the target exists and `overwrite` is
    /// false.
    pub fn publish(mut self, overwrite: bool) -> io::Result<()> {
        self.file.sync_all()?;
        if self.temporary.is_none() {
            if !overwrite {
                match unnamed::link(&self.file, &self.target) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => self.give_name()?,
                    linked => {
                        sync_folder(&self.target);
                        return linked;
                    }
                }
            } else {
                // No system call can give an unnamed file a name that is in use. So the file first gets a
                // temporary name and is then renamed.
                let temporary = name_beside(&self.target)?;
                match unnamed::link(&self.file, &temporary) {
                    Ok(()) => self.temporary = Some(temporary),
                    Err(_) => self.give_name()?,
                }
            }
        }
        if let Some(temporary) = &self.temporary {
            if overwrite {
                std::fs::rename(temporary, &self.target)?;
            } else {
                link_or_rename(temporary, &self.target)?;
            }
        }
        if overwrite {
            self.temporary = None;
        }
        sync_folder(&self.target);
        Ok(())
    }

    /// Copies the contents to a file with a temporary name. Few file systems need this: those that support
    /// unnamed files but cannot name them later.
    fn give_name(&mut self) -> io::Result<()> {
        let (file, temporary) = create_beside(&self.target)?;
        self.temporary = Some(temporary);
        (&self.file).seek(SeekFrom::Start(0))?;
        io::copy(&mut &self.file, &mut &file)?;
        file.sync_all()?;
        self.file = file;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // No caller is left that could receive an error, and the name shows what the file is.
            let _ = std::fs::remove_file(temporary);
        }
    }
}

/// Gives a file a name that must not be in use. Creating a link fails if the target exists, without a race
/// between check and action.
fn link_or_rename(temporary: &Path, target: &Path) -> io::Result<()> {
    match std::fs::hard_link(temporary, target) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // Some file systems do not support links.
        Err(_) if target.exists() => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => std::fs::rename(temporary, target),
        Ok(()) => Ok(()),
    }
}

/// Unnamed files, on systems that support them.
#[cfg(target_os = "linux")]
mod unnamed {
    use std::ffi::CString;
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::Path;

    /// Returns `None` if the file system does not support unnamed files, or if the folder is not writable. In
    /// that case the next attempt reports the reason.
    pub(super) fn create(folder: &Path) -> Option<File> {
        // The link is created through /proc.
        let proc = Path::new("/proc/self/fd").is_dir();
        let open = || OpenOptions::new().read(true).write(true).custom_flags(libc::O_TMPFILE).open(folder).ok();
        proc.then(open)?
    }

    /// Gives the file a name that must not be in use.
    pub(super) fn link(file: &File, name: &Path) -> io::Result<()> {
        let from = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let to = CString::new(name.as_os_str().as_bytes())?;
        let (here, follow) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
        // SAFETY: both pointers are to strings that end in NUL and live until the call returns.
        let result = unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), follow) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Unnamed files do not exist on this system.
#[cfg(not(target_os = "linux"))]
mod unnamed {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    pub(super) fn create(_folder: &Path) -> Option<File> {
        None
    }

    pub(super) fn link(_file: &File, _name: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Inserts `len` bytes before the contents of a file without moving its bytes. Returns `false` if the file
/// system cannot do this, or not for this length. This saves a quarter of a second for a COG of 200 MB, whose
/// overviews come before the full resolution.
#[cfg(target_os = "linux")]
pub fn insert_front(file: &File, len: u64) -> bool {
    use std::os::fd::AsRawFd;
    let Ok(len) = libc::off_t::try_from(len) else { return false };
    // SAFETY: the call takes numbers only, and the descriptor is open as long as `file` is borrowed.
    unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_INSERT_RANGE, 0, len) == 0 }
}

/// Inserting space is not supported on this system.
#[cfg(not(target_os = "linux"))]
pub fn insert_front(_file: &File, _len: u64) -> bool {
    false
}

/// Creates an unnamed file in `folder` for reading and writing. It disappears when it is closed, even if the
/// process is killed.
///
/// # Errors
/// The error of the system.
pub fn scratch_file(folder: &Path) -> io::Result<File> {
    if let Some(file) = unnamed::create(folder) {
        return Ok(file);
    }
    let (file, path) = create_beside(&folder.join("spool"))?;
    // On Unix, an open file stays usable after its name is removed.
    if cfg!(unix) {
        std::fs::remove_file(path)?;
    }
    Ok(file)
}

/// Returns the path of the file that a path leads to, through symbolic links.
fn resolve(target: &Path) -> io::Result<PathBuf> {
    match std::fs::symlink_metadata(target) {
        Ok(metadata) if metadata.is_symlink() => match std::fs::canonicalize(target) {
            Ok(path) => Ok(path),
            // The link points to a file that does not exist: the new file is created there.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let link = std::fs::read_link(target)?;
                Ok(target.parent().unwrap_or(Path::new("")).join(link))
            }
            Err(error) => Err(error),
        },
        _ => Ok(target.to_owned()),
    }
}

/// Creates a file in the folder of `target`. The umask decides its permissions.
fn create_beside(target: &Path) -> io::Result<(File, PathBuf)> {
    loop {
        let temporary = name_beside(target)?;
        match OpenOptions::new().read(true).write(true).create_new(true).open(&temporary) {
            // A killed process with the same process id left this file behind.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return opened.map(|file| (file, temporary)),
        }
    }
}

/// Returns a name in the folder of `target` that no other write uses, in this or another process.
fn name_beside(target: &Path) -> io::Result<PathBuf> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    // Most systems limit file names to 255 bytes.
    let stem: String = name.chars().take(40).collect();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    Ok(target.with_file_name(format!(".{stem}.{}-{number}.swath-tmp", std::process::id())))
}

/// Returns the folder of a file.
pub fn folder_of(target: &Path) -> &Path {
    target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the name durable too. Errors are ignored, because the file itself is complete.
fn sync_folder(target: &Path) {
    if let Ok(folder) = File::open(folder_of(target)) {
        let _ = folder.sync_all();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("swath-publish-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn names(folder: &Path) -> usize {
        std::fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn dropped_file_leaves_the_old_one_and_nothing_else() {
        let folder = folder("dropped");
        let target = folder.join("a.tif");
        std::fs::write(&target, "old").unwrap();
        let new = NewFile::create(&target).unwrap();
        new.file().write_all(b"half").unwrap();
        drop(new);
        assert_eq!((std::fs::read(&target).unwrap(), names(&folder)), (b"old".to_vec(), 1));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn existing_file_is_replaced_only_with_overwrite() {
        let folder = folder("existing");
        let target = folder.join("a.tif");
        let new = |text: &[u8]| {
            let new = NewFile::create(&target).unwrap();
            new.file().write_all(text).unwrap();
            new
        };
        new(b"1").publish(false).unwrap();
        assert_eq!(new(b"2").publish(false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&target).unwrap(), b"1");
        new(b"3").publish(true).unwrap();
        assert_eq!((std::fs::read(&target).unwrap(), names(&folder)), (b"3".to_vec(), 1));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn file_that_cannot_be_given_a_name_is_copied() {
        let folder = folder("copied");
        let target = folder.join("a.tif");
        let mut new = NewFile::create(&target).unwrap();
        new.file().write_all(b"all of it").unwrap();
        new.give_name().unwrap();
        new.publish(false).unwrap();
        assert_eq!((std::fs::read(&target).unwrap(), names(&folder)), (b"all of it".to_vec(), 1));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn file_with_a_temporary_name_is_published_and_dropped_like_an_unnamed_one() {
        let folder = folder("named");
        let target = folder.join("a.tif");
        let named = || {
            let (file, temporary) = create_beside(&target).unwrap();
            NewFile { file, temporary: Some(temporary), target: target.clone() }
        };
        named().publish(false).unwrap();
        assert_eq!(named().publish(false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        named().publish(true).unwrap();
        drop(named());
        assert_eq!(names(&folder), 1);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn link_is_written_through_and_scratch_files_have_no_name() {
        let folder = folder("link");
        let (target, link) = (folder.join("a.tif"), folder.join("b.tif"));
        std::os::unix::fs::symlink("a.tif", &link).unwrap();
        NewFile::create(&link).unwrap().publish(true).unwrap();
        assert!(target.exists() && std::fs::symlink_metadata(&link).unwrap().is_symlink());
        let scratch = scratch_file(&folder).unwrap();
        assert_eq!(names(&folder), 2);
        drop(scratch);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
