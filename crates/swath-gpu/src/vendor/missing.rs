//! Why a library of NVIDIA cannot be used.

use std::fmt;
use std::path::PathBuf;

use super::Library;
use crate::error::Error;

/// Why a library cannot be used, as one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missing {
    pub(super) library: Library,
    pub(super) reason: Reason,
}

impl Missing {
    /// The library.
    pub fn library(&self) -> Library {
        self.library
    }
}

impl From<&Missing> for Error {
    fn from(missing: &Missing) -> Error {
        Error::NoLibrary(missing.clone())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reason {
    /// NVIDIA ships these libraries for Linux only.
    Platform,
    /// The environment variable is `none`.
    Declined,
    /// No file was found, or none of the files that were found can be used.
    Nowhere { searched: Vec<String>, refused: Vec<Refused> },
    /// The library was loaded, but it does not start.
    Unusable { version: String, path: PathBuf, why: String },
}

/// A file of the library that was found and is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) file: PathBuf,
    pub(super) why: Refusal,
}

/// Why a file is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The system cannot load the file, with the message of the system.
    Unloadable(String),
    /// The library lacks a function.
    Symbol(String),
    /// The library has a version with another ABI.
    Version { found: String, wanted: &'static str },
    /// The library does not report its version.
    Unversioned { call: &'static str, code: i32 },
    /// The library was built for a CUDA that the driver does not support. Both versions are 1000 times the major number plus 10 times the
    /// minor number.
    Runtime { made_for: u32, driver: u32 },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Unloadable(why) => write!(f, "cannot be loaded ({why})"),
            Refusal::Symbol(symbol) => write!(f, "has no function {symbol}"),
            Refusal::Version { found, wanted } => write!(f, "is version {found}, not {wanted}"),
            Refusal::Unversioned { call, code } => {
                write!(f, "does not report its version ({call} failed with code {code})")
            }
            Refusal::Runtime { made_for, driver } => {
                write!(f, "is built for CUDA {}, but the driver supports CUDA {}", dotted(*made_for), dotted(*driver))
            }
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Missing { library, reason } = self;
        let (name, variable) = (library.name(), library.variable());
        match reason {
            Reason::Platform => write!(f, "{name} is used on 64-bit Linux only"),
            Reason::Declined => write!(f, "{name} is not used because {variable} is 'none'"),
            Reason::Unusable { version, path, why } => {
                write!(f, "{name} {version} in {} cannot be used: {why}", path.display())
            }
            Reason::Nowhere { searched, refused } => {
                write!(f, "{name} was not found: no usable {} in ", library.sonames().join(" or "))?;
                write!(f, "{}; ", searched.join(", "))?;
                for refused in refused {
                    write!(f, "{refused}; ")?;
                }
                // The pip packages are built for CUDA 12.
                let old = |refused: &Refused| matches!(refused.why, Refusal::Runtime { driver, .. } if driver < 12_000);
                match refused.iter().any(old) {
                    true => write!(f, "install an NVIDIA driver that supports CUDA 12"),
                    false => {
                        write!(f, "run pip install {}, or set {variable} to the path of the library", library.install())
                    }
                }
            }
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.file.display(), self.why)
    }
}

/// A version of CUDA in the usual notation, such as 12.9.
fn dotted(version: u32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

impl std::error::Error for Missing {}
