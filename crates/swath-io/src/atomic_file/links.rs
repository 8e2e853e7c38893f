//! Follows symbolic links to the file that a write replaces or creates.

use std::io;
use std::path::{Path, PathBuf};

/// The number of links that are followed, as in the Linux kernel.
const MAX_LINKS: usize = 40;

/// Returns the path of the file that a path leads to. If a chain of links ends at a name that does not exist,
/// this is the path that a write through the chain creates.
///
/// # Errors
/// The chain of links is a loop, or a link cannot be read.
pub fn resolve_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..=MAX_LINKS {
        match std::fs::symlink_metadata(&path) {
            // A relative link starts at the folder of the link.
            Ok(metadata) if metadata.is_symlink() => {
                let link = std::fs::read_link(&path)?;
                path = path.parent().unwrap_or(Path::new("")).join(link);
            }
            // If the folder cannot be searched, creating the file reports the reason.
            _ => return Ok(path),
        }
    }
    Err(too_many_links())
}

#[cfg(target_os = "linux")]
fn too_many_links() -> io::Error {
    io::Error::from_raw_os_error(libc::ELOOP)
}

#[cfg(not(target_os = "linux"))]
fn too_many_links() -> io::Error {
    io::Error::other("too many levels of symbolic links")
}
