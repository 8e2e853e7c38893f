//! Publishes a file together with its sidecars, so that no reader combines new pixels with old sidecars.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{NewFile, folder_of, name_beside, sync_folder};

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
    /// As [`publish`](NewFile::publish). If the file does not get its name, the old sidecars get theirs back.
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
        let mut old = OldSidecars::default();
        if overwrite {
            for path in self.sidecar_paths(suffixes) {
                old.set_aside(&path)?;
            }
        }
        self.name(overwrite)?;
        let named = fresh.iter_mut().try_for_each(|sidecar| sidecar.name(true));
        drop(lock);
        old.remove();
        if is_synced {
            sync_folder(&self.target);
        }
        named
    }

    /// Creates a file that becomes a sidecar of this one. Its name is the name of the real target plus `suffix`;
    /// if that is a symbolic link, the link is replaced.
    ///
    /// # Errors
    /// The error of the system.
    pub fn sidecar(&self, suffix: &str) -> io::Result<NewFile> {
        let target = with_suffix(&self.target, suffix);
        let mut new = NewFile::create_at(target)?;
        // The contents of a private image must not become public in its sidecar.
        new.otherwise_like = Some(self.target.clone());
        new.sync = self.sync;
        Ok(new)
    }

    /// Creates the same sidecar beside the link through which the file is written. Readers that open the link
    /// look for sidecars there. Returns `None` if there is no link, or if its folder is not writable.
    pub fn sidecar_of_link(&self, suffix: &str) -> Option<NewFile> {
        let link = self.link.as_ref()?;
        let mut new = NewFile::create_at(with_suffix(link, suffix)).ok()?;
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

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Sidecars of the old file under temporary names. Dropping this gives them their names back.
#[derive(Default)]
struct OldSidecars {
    /// The name of each sidecar, and its temporary name.
    renamed: Vec<(PathBuf, PathBuf)>,
}

impl OldSidecars {
    fn set_aside(&mut self, path: &Path) -> io::Result<()> {
        match std::fs::symlink_metadata(path) {
            // Most files have no sidecars.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
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

    /// Deletes the sidecars.
    fn remove(mut self) {
        for (_, temporary) in self.renamed.drain(..) {
            // Readers do not look for this name, and the new file is complete.
            let _ = std::fs::remove_file(temporary);
        }
    }
}

impl Drop for OldSidecars {
    fn drop(&mut self) {
        for (path, temporary) in self.renamed.drain(..) {
            // The error that prevented the replacement is reported.
            let _ = std::fs::rename(temporary, path);
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
