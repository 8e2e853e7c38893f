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
    /// GPUDirect Storage: transfers between disks and the device.
    CuFile,
}

impl Library {
    /// All libraries.
    pub const ALL: [Library; 4] = [Library::NvComp, Library::NvJpeg2000, Library::NvJpeg, Library::CuFile];

    /// NVIDIA's name of the library.
    pub fn name(self) -> &'static str {
        match self {
            Library::NvComp => "nvCOMP",
            Library::NvJpeg2000 => "nvJPEG2000",
            Library::NvJpeg => "nvJPEG",
            Library::CuFile => "cuFile",
        }
    }

    /// The file names that the search looks for, best first. Their numbers state the ABI. The name without a number does not, so it is never
    /// used: nvCOMP 4 and 6 have functions of the same names with different arguments.
    pub fn sonames(self) -> &'static [&'static str] {
        match self {
            Library::NvComp => &["libnvcomp.so.6", "libnvcomp.so.5"],
            Library::NvJpeg2000 => &["libnvjpeg2k.so.0"],
            Library::NvJpeg => &["libnvjpeg.so.13", "libnvjpeg.so.12"],
            Library::CuFile => &["libcufile.so.0"],
        }
    }

    /// The environment variable with the path of the library: a file, a folder that contains it, or `none` to disable it.
    pub fn variable(self) -> &'static str {
        match self {
            Library::NvComp => "SWATH_NVCOMP_PATH",
            Library::NvJpeg2000 => "SWATH_NVJPEG2K_PATH",
            Library::NvJpeg => "SWATH_NVJPEG_PATH",
            Library::CuFile => "SWATH_CUFILE_PATH",
        }
    }

    /// The pip package that contains the library.
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
    /// The library.
    pub library: Library,
    /// The version that the library reports.
    pub version: String,
    /// The file that was loaded.
    pub path: PathBuf,
    /// A remark for `swath devices`.
    pub detail: Option<&'static str>,
}

/// Finds and loads a library.
///
/// The search order: the path in the environment variable [`Library::variable`], and nothing else if it is set; the library path of the
/// process; `nvidia/*/lib` and `lib64` in every known `site-packages` ([`search_also`], `VIRTUAL_ENV`, the prefix of the program, the
/// Pythons in `PATH`, `pip install --user`, `CONDA_PREFIX`); conda's `lib`; `/usr/local/cuda`. The search runs once: a library stays
/// loaded, and a missing one stays missing.
///
/// # Errors
/// When no library can be used. The message states the names and places of the search, and what to install.
pub fn find(library: Library) -> Result<Found, Missing> {
    match library {
        Library::NvComp => nvcomp::NvComp::get().map(|found| found.found().clone()).map_err(Clone::clone),
        Library::NvJpeg2000 => nvjpeg2k::NvJpeg2000::get().map(|found| found.found().clone()).map_err(Clone::clone),
        Library::NvJpeg => nvjpeg::NvJpeg::get().map(|found| found.found().clone()).map_err(Clone::clone),
        Library::CuFile => cufile::CuFile::get().map(|found| found.found().clone()).map_err(Clone::clone),
    }
}

/// Files of a library that [`find`] found and refused before the file that it uses, as one sentence each.
pub fn passed_over(library: Library) -> Vec<String> {
    let passed_over = PASSED_OVER.lock().unwrap_or_else(PoisonError::into_inner);
    passed_over.iter().filter(|(of, _)| *of == library).map(|(_, refused)| refused.to_string()).collect()
}

/// The name and the version of a library that can be used.
pub(crate) fn version_of(library: Library) -> String {
    let version = find(library).map_or_else(|_| String::new(), |found| found.version);
    format!("{} {version}", library.name()).trim_end().to_owned()
}

/// Adds a `site-packages` folder to the search, before all others. Call it before the first search.
pub fn search_also(site_packages: PathBuf) {
    SITE_PACKAGES.lock().unwrap_or_else(PoisonError::into_inner).push(site_packages);
}
