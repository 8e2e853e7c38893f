//! The CUDA version that the libraries report as the one they were built for.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The version that NVIDIA's wheels for CUDA 12 report.
const VERSION: u32 = 12_090;

/// Returns the version in the notation of nvCOMP: 12090 is 12.9.
pub(crate) fn version() -> u32 {
    env::var("SWATH_SIM_CUDART").ok().and_then(|text| version_for(&text, file().as_deref())).unwrap_or(VERSION)
}

/// Returns the version as nvJPEG and nvJPEG2000 report it.
pub(crate) fn parts() -> [c_int; 3] {
    let version = version();
    [version / 1000, version % 1000 / 10, 0].map(|part| c_int::try_from(part).unwrap_or(0))
}

/// Parses a text such as `13000` or `13000@folder` and returns the version for a library in this file.
fn version_for(text: &str, file: Option<&Path>) -> Option<u32> {
    let (number, folder) = text.split_once('@').map_or((text, None), |(number, folder)| (number, Some(folder)));
    let means = folder.is_none_or(|folder| file.is_some_and(|file| file.starts_with(folder)));
    number.parse().ok().filter(|_| means)
}

/// Returns the path of the file from which this copy of the simulator was loaded.
fn file() -> Option<PathBuf> {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let here = file as *const c_void;
    // SAFETY: dladdr accepts any address, and the result has valid memory.
    if unsafe { libc::dladdr(here, &mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's text ends with a zero and lives while the library is loaded, which includes this
    // call.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    fs::canonicalize(OsStr::from_bytes(name.to_bytes())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_that_of_all_copies_or_of_those_in_a_folder() {
        let file = Some(Path::new("/opt/cu13/lib/libnvcomp.so.6"));
        assert_eq!(version_for("13000", file), Some(13_000));
        assert_eq!(version_for("13000@/opt/cu13", file), Some(13_000));
        assert_eq!(version_for("13000@/opt/cu12", file), None);
        assert_eq!(version_for("13000@/opt", None), None);
        assert_eq!(version_for("many", file), None);
    }
}
