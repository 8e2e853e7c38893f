//! A folder for the files of a bench, which is removed at the end.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A folder that only this process uses. It is removed with its contents.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new(within: &Path) -> Result<Scratch, Failure> {
        let folder = within.join(format!("swath-bench-{}", std::process::id()));
        let failed = |error| Failure::file("create", &folder, error);
        // Fails if the folder exists: another process may own it.
        std::fs::create_dir(&folder).map_err(failed)?;
        Ok(Scratch(folder))
    }

    pub(super) fn folder(&self) -> &Path {
        self.0.parent().unwrap_or(&self.0)
    }

    /// The path of a file in the folder.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
