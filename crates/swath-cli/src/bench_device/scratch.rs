//! A folder for the files of a bench, which goes when it is done.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A folder of this process alone; it is removed with all that is in it.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new(within: &Path) -> Result<Scratch, Failure> {
        let folder = within.join(format!("swath-bench-{}", std::process::id()));
        let failed = |error| Failure::file("create", &folder, error);
        // Not one that somebody else has put there.
        std::fs::create_dir(&folder).map_err(failed)?;
        Ok(Scratch(folder))
    }

    pub(super) fn folder(&self) -> &Path {
        self.0.parent().unwrap_or(&self.0)
    }

    /// A file in it.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
