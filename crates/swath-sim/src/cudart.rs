//! The CUDA that the libraries say they were made for.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// What NVIDIA's wheels for CUDA 12 say.
const VERSION: u32 = 12_090;

/// In the notation of nvCOMP: 12090 is 12.9.
pub(crate) fn version() -> u32 {
    env::var("SWATH_SIM_CUDART").ok().and_then(|text| told(&text, file().as_deref())).unwrap_or(VERSION)
}

/// As nvJPEG and nvJPEG2000 tell it.
pub(crate) fn parts() -> [c_int; 3] {
    let version = version();
    [version / 1000, version % 1000 / 10, 0].map(|part| c_int::try_from(part).unwrap_or(0))
}

/// The version that a text such as `13000` or `13000@folder` means for a library in this file.
fn told(text: &str, file: Option<&Path>) -> Option<u32> {
    let (number, folder) = text.split_once('@').map_or((text, None), |(number, folder)| (number, Some(folder)));
    let means = folder.is_none_or(|folder| file.is_some_and(|file| file.starts_with(folder)));
    number.parse().ok().filter(|_| means)
}

/// The file that this copy of the simulator was loaded from.
fn file() -> Option<PathBuf> {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let here = file as *const c_void;
    // SAFETY: dladdr takes any address, and there is room for the result.
    if unsafe { libc::dladdr(here, &mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's text ends in a zero, and stays while the library is loaded, which is while this runs.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    fs::canonicalize(OsStr::from_bytes(name.to_bytes())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_that_of_all_copies_or_of_those_in_a_folder() {
        let file = Some(Path::new("/opt/cu13/lib/libnvcomp.so.6"));
        assert_eq!(told("13000", file), Some(13_000));
        assert_eq!(told("13000@/opt/cu13", file), Some(13_000));
        assert_eq!(told("13000@/opt/cu12", file), None);
        assert_eq!(told("13000@/opt", None), None);
        assert_eq!(told("many", file), None);
    }
}
