//! The errors of opening a source.

use std::path::PathBuf;

/// A `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why a source could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system could not open the file.
    #[error("cannot open {}: {cause}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// The path names something that is not a regular file.
    #[error("cannot open {}: it is {kind}, not a file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// The kind of the object.
        kind: &'static str,
    },
}
