//! NVIDIA's libraries, used where they are installed: nvCOMP, nvJPEG2000, nvJPEG and cuFile.
//!
//! None is linked. Each is searched for once, when it is first needed ([`find`] describes where), and all its functions are looked up
//! before the first call. `search.rs` lists the places, `load.rs` loads a file, `missing.rs` reports why a library cannot be used.
//!
//! Status codes are numbers in the declarations, never enums: a code that a newer library adds must not be undefined behaviour. `size_t`
//! and pointers to device memory are `u64`, as in the CUDA driver: on systems without 64-bit addresses no library is searched for.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

pub(crate) mod context;
pub(crate) mod cufile;
mod load;
mod missing;
pub(crate) mod nvcomp;
pub(crate) mod nvjpeg;
pub(crate) mod nvjpeg2k;
mod object;
mod search;

#[cfg(test)]
mod real;

use load::{Loaded, check_runtime, functions, load};
pub use missing::Missing;
use missing::{Reason, Refusal, Refused};
use object::{Object, Pointer, Status, runtime_version, semantic_version};

/// Folders of `site-packages` that [`search_also`] added.
static SITE_PACKAGES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Files that were found before the file of the same library that is used, and were refused.
static PASSED_OVER: Mutex<Vec<(Library, Refused)>> = Mutex::new(Vec::new());

/// A library of NVIDIA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Library {
    /// Deflate, ZSTD and LZ4.
    NvComp,
    /// JPEG 2000.
    NvJpeg2000,
    /// JPEG.
    NvJpeg,
    /// GPUDirect Storage: from the disk to the device.
    CuFile,
}

impl Library {
    /// All of them.
    pub const ALL: [Library; 4] = [Library::NvComp, Library::NvJpeg2000, Library::NvJpeg, Library::CuFile];

    /// NVIDIA's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Library::NvComp => "nvCOMP",
            Library::NvJpeg2000 => "nvJPEG2000",
            Library::NvJpeg => "nvJPEG",
            Library::CuFile => "cuFile",
        }
    }

    /// The names that it is looked for by, best first. They say which ABI the library has; the name without a number does
    /// not, so it is never used: nvCOMP 4 and 6 have functions of the same names that take other arguments.
    pub fn sonames(self) -> &'static [&'static str] {
        match self {
            Library::NvComp => &["libnvcomp.so.6", "libnvcomp.so.5"],
            Library::NvJpeg2000 => &["libnvjpeg2k.so.0"],
            Library::NvJpeg => &["libnvjpeg.so.13", "libnvjpeg.so.12"],
            Library::CuFile => &["libcufile.so.0"],
        }
    }

    /// The variable that says where it is: a file, a folder that holds it, or `none` to do without it.
    pub fn variable(self) -> &'static str {
        match self {
            Library::NvComp => "SWATH_NVCOMP_PATH",
            Library::NvJpeg2000 => "SWATH_NVJPEG2K_PATH",
            Library::NvJpeg => "SWATH_NVJPEG_PATH",
            Library::CuFile => "SWATH_CUFILE_PATH",
        }
    }

    /// The pip package that brings it.
    pub fn install(self) -> &'static str {
        match self {
            Library::NvComp => "nvidia-libnvcomp-cu12",
            Library::NvJpeg2000 => "nvidia-nvjpeg2k-cu12",
            Library::NvJpeg => "nvidia-nvjpeg-cu12",
            Library::CuFile => "nvidia-cufile-cu12",
        }
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A library that was loaded and can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Which.
    pub library: Library,
    /// As the library itself tells it.
    pub version: String,
    /// The file that was loaded.
    pub path: PathBuf,
    /// What else there is to know.
    pub detail: Option<&'static str>,
}

/// Look for a library, load it, and tell where it is.
///
/// In this order: what the variable [`Library::variable`] says, and nothing else if it is set; the process's library path;
/// `nvidia/*/lib` and `lib64` in every `site-packages` that is known ([`search_also`], `VIRTUAL_ENV`, the program's own prefix,
/// the Pythons of `PATH`, `pip install --user`, `CONDA_PREFIX`); conda's `lib`; `/usr/local/cuda`. It is done once: a library stays
/// loaded, and one that is missing stays so.
///
/// # Errors
/// When there is none that can be used; the sentence says what was looked for, where, and what to install.
pub fn find(library: Library) -> Result<Found, Missing> {
    match library {
        Library::NvComp => nvcomp::NvComp::get().map(|found| found.found().clone()).map_err(Clone::clone),
        Library::NvJpeg2000 => nvjpeg2k::NvJpeg2000::get().map(|found| found.found().clone()).map_err(Clone::clone),
        Library::NvJpeg => nvjpeg::NvJpeg::get().map(|found| found.found().clone()).map_err(Clone::clone),
        Library::CuFile => cufile::CuFile::get().map(|found| found.found().clone()).map_err(Clone::clone),
    }
}

/// What was found of a library and is not used, though another file of it is: a sentence each. [`find`] looks for them.
pub fn passed_over(library: Library) -> Vec<String> {
    let passed_over = PASSED_OVER.lock().unwrap_or_else(PoisonError::into_inner);
    passed_over.iter().filter(|(of, _)| *of == library).map(|(_, refused)| refused.to_string()).collect()
}

/// The name and the version of a library that is there.
pub(crate) fn version_of(library: Library) -> String {
    let version = find(library).map_or_else(|_| String::new(), |found| found.version);
    format!("{} {version}", library.name()).trim_end().to_owned()
}

/// Look in these `site-packages` too, before all others. To be called before the first search.
pub fn search_also(site_packages: PathBuf) {
    SITE_PACKAGES.lock().unwrap_or_else(PoisonError::into_inner).push(site_packages);
}
