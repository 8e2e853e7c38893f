//! Loading a library of NVIDIA and looking up its functions.

use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use super::missing::{Missing, Reason, Refusal};
use super::search::{self, Environment};
use super::{Library, PASSED_OVER, SITE_PACKAGES};
use crate::backend::Cuda;

/// A library that was loaded. It is never unloaded: its functions may be called from anywhere, and NVIDIA's libraries leave threads and
/// handlers behind.
#[derive(Debug)]
pub(crate) struct Loaded {
    library: &'static libloading::Library,
    /// The path that was loaded.
    asked: PathBuf,
}

impl Loaded {
    /// Loads a file, or the library that the system finds for a bare name.
    pub(super) fn open(file: &Path) -> Result<Loaded, Refusal> {
        // SAFETY: loading runs the initialisers of NVIDIA's libraries, which are written to run in any process.
        let library = unsafe { open(file) }.map_err(|error| {
            // The message of the system is the source of the error.
            let said = std::error::Error::source(&error).map(ToString::to_string);
            Refusal::Unloadable(said.unwrap_or_else(|| error.to_string()))
        })?;
        Ok(Loaded { library: Box::leak(Box::new(library)), asked: file.to_owned() })
    }

    /// Returns the address of a function.
    pub(crate) fn symbol(&self, name: &str) -> Result<*mut c_void, Refusal> {
        let missing = || Refusal::Symbol(name.to_owned());
        let text = CString::new(name).map_err(|_| missing())?;
        // SAFETY: only the address is taken; the caller states the type.
        let found = unsafe { self.library.get::<*mut c_void>(text.as_bytes_with_nul()) };
        found.ok().map(|symbol| *symbol).filter(|address| !address.is_null()).ok_or_else(missing)
    }

    /// The file that the library was loaded from: the one that contains this function.
    pub(crate) fn path(&self, function: *mut c_void) -> PathBuf {
        let file = file_of(function).unwrap_or_else(|| self.asked.clone());
        file.canonicalize().unwrap_or(file)
    }
}

#[cfg(unix)]
unsafe fn open(file: &Path) -> Result<libloading::Library, libloading::Error> {
    use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
    // Missing symbols are reported now, and the symbols do not clash with those of another version.
    // SAFETY: as the caller says.
    unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) }.map(Into::into)
}

#[cfg(not(unix))]
unsafe fn open(file: &Path) -> Result<libloading::Library, libloading::Error> {
    // SAFETY: as the caller says.
    unsafe { libloading::Library::new(file) }
}

#[cfg(unix)]
fn file_of(function: *mut c_void) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: dladdr takes any address, and there is room for the result.
    let found = unsafe { libc::dladdr(function, &mut info) } != 0 && !info.dli_fname.is_null();
    // SAFETY: the loader's text ends with a zero byte, and lives as long as the library, which is never unloaded.
    found.then(|| unsafe { std::ffi::CStr::from_ptr(info.dli_fname) }).map(|name| {
        let name = std::ffi::OsStr::from_bytes(name.to_bytes());
        PathBuf::from(name)
    })
}

#[cfg(not(unix))]
fn file_of(_: *mut c_void) -> Option<PathBuf> {
    None
}

/// Declares a table of functions of a library, all looked up at once. The symbol of a function is the prefix and its name.
macro_rules! functions {
    ($(#[$about:meta])* $table:ident { $($name:ident: $symbol:literal ($($argument:ty),* $(,)?) $(-> $result:ty)?;)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy)]
        pub(super) struct $table {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $table {
            /// Looks up every function, or returns the first one that is missing.
            fn load(
                loaded: &$crate::vendor::Loaded,
                prefix: &str,
            ) -> std::result::Result<$table, $crate::vendor::Refusal> {
                Ok($table {
                    $($name: {
                        let address = loaded.symbol(&format!("{prefix}{}", $symbol))?;
                        // SAFETY: the types are those that NVIDIA's header declares for this symbol, with `size_t`,
                        // enums and device pointers as the numbers that they are in C.
                        unsafe {
                            std::mem::transmute::<
                                *mut std::ffi::c_void,
                                unsafe extern "C" fn($($argument),*) $(-> $result)?,
                            >(address)
                        }
                    },)*
                })
            }
        }
    };
}
pub(super) use functions;

/// Finds and loads a library; `bind` looks up its functions and checks its version.
pub(super) fn load<T>(library: Library, bind: impl Fn(&Loaded) -> Result<T, Refusal>) -> Result<T, Missing> {
    if !cfg!(all(target_os = "linux", target_pointer_width = "64")) {
        return Err(Missing { library, reason: Reason::Platform });
    }
    let site_packages = SITE_PACKAGES.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (loaded, refused) = search::first(library, &Environment::of_process(library, site_packages), |file| {
        Loaded::open(file).and_then(|loaded| bind(&loaded))
    })?;
    let refused = refused.into_iter().map(|refused| (library, refused));
    PASSED_OVER.lock().unwrap_or_else(PoisonError::into_inner).extend(refused);
    Ok(loaded)
}

/// Refuses a library that was built for a newer CUDA than the driver supports: it would load, and then every call would fail. The file names
/// do not show it: nvCOMP and nvJPEG2000 have the same names for CUDA 12 and 13. Within a major version, every library runs on every
/// driver. Without a driver nothing runs in any case.
pub(super) fn check_runtime(made_for: u32) -> Result<(), Refusal> {
    match Cuda::driver_version() {
        Some(driver) if made_for / 1000 > driver / 1000 => Err(Refusal::Runtime { made_for, driver }),
        _ => Ok(()),
    }
}
