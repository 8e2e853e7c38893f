//! Files that appear complete or not at all.

mod attributes;
mod durability;
mod links;
mod publish;

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Span;
use crate::spool::copy_between;

pub use durability::SyncPolicy;
pub use links::resolve_links;
pub use publish::SidecarName;

/// A new file that will replace or become the target. Until [`publish`](NewFile::publish) is called, it has
/// no name, or, on systems without unnamed files, a temporary name beside the target. A file that is not
/// published is removed. An unnamed file disappears even if the process is killed.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    temporary: Option<PathBuf>,
    target: PathBuf,
    /// The path that the caller gave, if it is a symbolic link to the target.
    link: Option<PathBuf>,
    /// The file whose attributes the new one gets if the target does not exist.
    otherwise_like: Option<PathBuf>,
    sync: SyncPolicy,
}

impl NewFile {
    /// Creates a file that will get the name `target`. If `target` is a symbolic link, or the first of several,
    /// the file gets the name at the end of the links, whether that exists or not.
    ///
    /// # Errors
    /// The error of the system, for example if the folder does not exist or is not writable, or if the links
    /// are a loop.
    pub fn create(target: &Path) -> io::Result<NewFile> {
        let real = resolve_links(target)?;
        let link = (real != target).then(|| target.to_owned());
        let mut new = NewFile::create_at(real)?;
        new.link = link;
        Ok(new)
    }

    /// Creates a file that will get the name `target`, even if that is a symbolic link.
    fn create_at(target: PathBuf) -> io::Result<NewFile> {
        let (file, temporary) = match unnamed::create(folder_of(&target)) {
            Some(file) => (file, None),
            None => create_beside(&target).map(|(file, temporary)| (file, Some(temporary)))?,
        };
        Ok(NewFile { file, temporary, target, link: None, otherwise_like: None, sync: SyncPolicy::default() })
    }

    /// The file to write to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The path that the file will have, which is not a symbolic link.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Sets when to wait until the file is on the disk.
    #[must_use]
    pub fn sync(mut self, policy: SyncPolicy) -> NewFile {
        self.sync = policy;
        self
    }

    /// Whether publishing waits until the file is on the disk.
    pub fn waits_for_disk(&self) -> bool {
        match self.sync {
            SyncPolicy::Always => true,
            SyncPolicy::Never => false,
            SyncPolicy::WhenReplacing => self.target.exists() || durability::reports_failures_late(&self.file),
        }
    }

    /// Gives the file the target's name atomically: at every moment, a reader of the target sees either the old
    /// file or the new one. Before that, it waits for the disk if the [`SyncPolicy`] says so. Without
    /// `overwrite`, an existing target stays unchanged. With it, the new file keeps the mode of the old one, and its owner, access control list and
    /// extended attributes as far as the system permits.
    ///
    /// # Errors
    /// The error of the system; [`io::ErrorKind::AlreadyExists`] if the target exists and `overwrite` is
    /// false.
    pub fn publish(mut self, overwrite: bool) -> io::Result<()> {
        let is_synced = self.stage(overwrite)?;
        self.name(overwrite)?;
        if is_synced {
            sync_folder(&self.target);
        }
        Ok(())
    }

    /// Does everything that can fail or take time before the file gets its name. Returns whether the file is on
    /// the disk.
    fn stage(&mut self, overwrite: bool) -> io::Result<bool> {
        if overwrite {
            self.keep_attributes()?;
        }
        let is_synced = self.waits_for_disk();
        if is_synced {
            self.file.sync_all()?;
        }
        if overwrite && self.temporary.is_none() {
            // No system call can give an unnamed file a name that is in use. So the file first gets a temporary
            // name and is then renamed.
            let temporary = name_beside(&self.target)?;
            match unnamed::link(&self.file, &temporary) {
                Ok(()) => self.temporary = Some(temporary),
                Err(_) => {
                    self.give_name()?;
                    self.keep_attributes()?;
                }
            }
        }
        Ok(is_synced)
    }

    /// Gives the file the attributes of the file that it replaces, if there is one.
    fn keep_attributes(&self) -> io::Result<()> {
        for old in [Some(&self.target), self.otherwise_like.as_ref()].into_iter().flatten() {
            match std::fs::metadata(old) {
                Ok(metadata) if metadata.is_file() => return attributes::keep(old, &self.file),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // Without the old mode, the new file could be open to more users than the old one.
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Gives a staged file the target's name.
    fn name(&mut self, overwrite: bool) -> io::Result<()> {
        if self.temporary.is_none() {
            match unnamed::link(&self.file, &self.target) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => self.give_name()?,
                linked => return linked,
            }
        }
        let Some(temporary) = &self.temporary else { return Ok(()) };
        if overwrite {
            std::fs::rename(temporary, &self.target)?;
            self.temporary = None;
            return Ok(());
        }
        // Dropping the file removes the temporary name.
        link_or_rename(temporary, &self.target)
    }

    /// Copies the contents to a file with a temporary name. Few file systems need this: those that support
    /// unnamed files but cannot name them later.
    fn give_name(&mut self) -> io::Result<()> {
        let (file, temporary) = create_beside(&self.target)?;
        self.temporary = Some(temporary);
        let len = self.file.metadata()?.len();
        copy_between(&self.file, Span { offset: 0, len }, &file)?;
        if self.waits_for_disk() {
            file.sync_all()?;
        }
        self.file = file;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // No caller is left that could receive an error, and the name shows what the file is.
            let _ = remove(temporary);
        }
    }
}

/// Removes a temporary name. The system can refuse that for a moment, for example on a network drive, so a second
/// attempt follows the first.
fn remove(temporary: &Path) -> io::Result<()> {
    std::fs::remove_file(temporary).or_else(|_| std::fs::remove_file(temporary))
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

/// Creates a file in the folder of `target`. The umask decides its permissions, unless the target exists: then
/// only the owner may open the file, until it gets the permissions of the target.
fn create_beside(target: &Path) -> io::Result<(File, PathBuf)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    if target.exists() {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    loop {
        let temporary = name_beside(target)?;
        match options.open(&temporary) {
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
    fn only_a_file_that_replaces_another_one_waits_for_the_disk() {
        let folder = folder("durable");
        let target = folder.join("a.tif");
        let waits = |policy| NewFile::create(&target).unwrap().sync(policy).waits_for_disk();
        let policies = [SyncPolicy::WhenReplacing, SyncPolicy::Always, SyncPolicy::Never];
        // Other systems cannot tell whether the folder is on a network file system.
        assert_eq!(policies.map(waits), [!cfg!(target_os = "linux"), true, false]);
        std::fs::write(&target, "old").unwrap();
        assert_eq!(policies.map(waits), [true, true, false]);
        std::fs::remove_dir_all(folder).unwrap();
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
            let (sync, target) = (SyncPolicy::default(), target.clone());
            NewFile { file, temporary: Some(temporary), target, link: None, otherwise_like: None, sync }
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
