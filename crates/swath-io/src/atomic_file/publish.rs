//! Publishes a file together with its sidecars, so that no reader combines new pixels with old sidecars.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::local::is_absent;

use super::{NewFile, folder_of, name_beside, remove, sync_folder};

/// The time to wait for another process that replaces files in the same folder. It needs the lock for a few
/// renames only, so a lock that is held for longer belongs to a program that hangs.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

impl NewFile {
    /// Publishes the file as [`publish`](NewFile::publish) does, and replaces its sidecars: the files beside the
    /// real target, and beside the link that led to it, whose names end in one of `suffixes`.
    ///
    /// Everything is written, and on the disk if the write waits for it, before the first name changes. Then the old sidecars get temporary
    /// names, the file gets its name, and the files of `fresh`, which [`sidecar`](NewFile::sidecar) created, get
    /// theirs. So a reader finds old pixels without sidecars for the time of these renames, but never new pixels
    /// with old sidecars. A lock on the folder makes concurrent writers of one target wait for each other: the
    /// sidecars that remain are those of the file that remains.
    ///
    /// # Errors
    /// As [`publish`](NewFile::publish). If the file or a sidecar does not get its name, the old file and its sidecars get
    /// theirs back. Where the file system has no hard links, the old file is lost if only a sidecar fails.
    pub fn publish_with_sidecars(
        mut self,
        overwrite: bool,
        suffixes: &[&str],
        mut fresh: Vec<NewFile>,
    ) -> io::Result<()> {
        let is_synced = self.stage(overwrite)?;
        for sidecar in &mut fresh {
            sidecar.stage(true)?;
        }
        let lock = lock_folder(folder_of(&self.target));
        let mut old = OldFiles::default();
        let replaced = self.sidecar_paths(suffixes);
        if overwrite && !fresh.is_empty() {
            old.keep(&self.target)?;
        }
        for other in fresh.iter().map(|sidecar| &sidecar.target).filter(|path| !replaced.contains(path)) {
            old.keep(other)?;
        }
        for path in replaced.iter().filter(|_| overwrite) {
            old.set_aside(path)?;
        }
        self.name(overwrite)?;
        old.added.push(self.target.clone());
        for sidecar in &mut fresh {
            sidecar.name(true)?;
            old.added.push(sidecar.target.clone());
        }
        drop(lock);
        old.remove();
        if is_synced {
            sync_folder(&self.target);
        }
        Ok(())
    }

    /// Creates a file that becomes a sidecar of this one, beside the real target. If its name is a symbolic link, the
    /// link is replaced.
    ///
    /// # Errors
    /// The error of the system.
    pub fn sidecar(&self, name: SidecarName) -> io::Result<NewFile> {
        let mut new = NewFile::create_at(name.beside(&self.target))?;
        // The contents of a private image must not become public in its sidecar.
        new.otherwise_like = Some(self.target.clone());
        new.sync = self.sync;
        Ok(new)
    }

    /// Creates the same sidecar beside the link through which the file is written. Readers that open the link
    /// look for sidecars there. Returns `None` if there is no link, or if its folder is not writable.
    pub fn sidecar_of_link(&self, name: SidecarName) -> Option<NewFile> {
        let link = self.link.as_ref()?;
        let mut new = NewFile::create_at(name.beside(link)).ok()?;
        new.otherwise_like = Some(self.target.clone());
        new.sync = self.sync;
        Some(new)
    }

    /// The paths of all possible sidecars: beside the real target, and beside the link that led to it.
    pub fn sidecar_paths(&self, suffixes: &[&str]) -> Vec<PathBuf> {
        let owners = std::iter::once(&self.target).chain(&self.link);
        owners.flat_map(|path| suffixes.iter().map(|suffix| with_suffix(path, suffix))).collect()
    }
}

/// How the name of a sidecar follows from the name of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SidecarName {
    /// The name plus this suffix, such as `.aux.xml`.
    Suffix(&'static str),
    /// The name with this extension, such as `qml`.
    Extension(&'static str),
}

impl SidecarName {
    /// The path of the sidecar of the file at `path`.
    fn beside(self, path: &Path) -> PathBuf {
        match self {
            SidecarName::Suffix(suffix) => with_suffix(path, suffix),
            SidecarName::Extension(extension) => path.with_extension(extension),
        }
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The old file and its sidecars under temporary names. Dropping this gives them their names back.
#[derive(Default)]
struct OldFiles {
    /// The name of each file, and its temporary name.
    renamed: Vec<(PathBuf, PathBuf)>,
    /// The new files that have their names already.
    added: Vec<PathBuf>,
}

impl OldFiles {
    /// Gives a file a second, temporary name, so that it can come back. Does nothing if there is no such file, or if the
    /// file system has no links.
    fn keep(&mut self, path: &Path) -> io::Result<()> {
        let temporary = name_beside(path)?;
        if std::fs::hard_link(path, &temporary).is_ok() {
            self.renamed.push((path.to_owned(), temporary));
        }
        Ok(())
    }

    fn set_aside(&mut self, path: &Path) -> io::Result<()> {
        match std::fs::symlink_metadata(path) {
            // Most files have no sidecars.
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(error),
            Ok(metadata) if metadata.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(_) => {}
        }
        let temporary = name_beside(path)?;
        match std::fs::rename(path, &temporary) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => {
                self.renamed.push((path.to_owned(), temporary));
                Ok(())
            }
        }
    }

    /// Deletes the old files.
    fn remove(mut self) {
        self.added.clear();
        for (_, temporary) in self.renamed.drain(..) {
            // Readers do not look for this name, and the new file is complete.
            let _ = remove(&temporary);
        }
    }
}

impl Drop for OldFiles {
    fn drop(&mut self) {
        // The error that prevented the replacement is reported. Files that come back replace the new ones.
        for path in self.added.drain(..).filter(|path| self.renamed.iter().all(|(old, _)| old != path)) {
            let _ = remove(&path);
        }
        for (path, temporary) in self.renamed.drain(..) {
            let renamed = std::fs::rename(&temporary, &path).or_else(|_| std::fs::rename(&temporary, &path));
            // Renaming does nothing if both names belong to one file.
            if renamed.is_ok() && temporary.exists() {
                let _ = remove(&temporary);
            }
        }
    }
}

/// Locks a folder against other writers of Swath that replace files with sidecars. Returns `None` if the file
/// system does not support locks on folders, or if the lock stays in use: then the write continues without it.
fn lock_folder(folder: &Path) -> Option<File> {
    let file = File::open(folder).ok()?;
    let start = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Some(file),
            Err(TryLockError::WouldBlock) if start.elapsed() < LOCK_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(_) => return None,
        }
    }
}
