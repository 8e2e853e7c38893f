//! NVIDIA's own libraries, used where they are there: nvCOMP, nvJPEG2000, nvJPEG and cuFile.
//!
//! None is linked: each is looked for once, when it is first wanted ([`find`] tells where), and all its functions are looked
//! up before the first is called. Status codes are numbers here, never enums: a code that a newer library knows and we do
//! not must not be undefined behaviour.
//!
//! In the declarations `size_t` and pointers to device memory are `u64`, as the CUDA driver has them too: nothing is
//! searched for where an address is not 64 bits.

use std::ffi::{CString, c_void};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub(crate) mod context;
pub(crate) mod cufile;
pub(crate) mod nvcomp;
pub(crate) mod nvjpeg;
pub(crate) mod nvjpeg2k;
mod search;

#[cfg(test)]
mod real;

use search::Environment;

use crate::backend::cuda;
use crate::error::Error;

/// Where `site-packages` are that only Python knows of.
static TOLD: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Files that were refused before one of the same library was taken.
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

/// Why a library cannot be used, as one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missing {
    library: Library,
    reason: Reason,
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
enum Reason {
    /// These are libraries of Linux.
    Platform,
    /// The variable says so.
    Declined,
    /// It is nowhere, or what is there is of no use.
    Nowhere { searched: Vec<String>, refused: Vec<Refused> },
    /// It was loaded, but it does not start.
    Unusable { version: String, path: PathBuf, why: String },
}

/// A file that is there and is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refused {
    file: PathBuf,
    why: Refusal,
}

/// Why a file is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The system cannot load it; in its words.
    Unloadable(String),
    /// It lacks a function.
    Symbol(String),
    /// It is of a version that has another ABI.
    Version { found: String, wanted: &'static str },
    /// It does not tell its version.
    Unversioned { call: &'static str, code: i32 },
    /// It was made for a CUDA that the driver does not know. Both as 1000 times the major version and 10 times the minor one.
    Runtime { made_for: u32, driver: u32 },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Unloadable(why) => write!(f, "cannot be loaded ({why})"),
            Refusal::Symbol(symbol) => write!(f, "has no function {symbol}"),
            Refusal::Version { found, wanted } => write!(f, "is version {found}, not {wanted}"),
            Refusal::Unversioned { call, code } => {
                write!(f, "does not tell its version ({call} failed with code {code})")
            }
            Refusal::Runtime { made_for, driver } => {
                write!(f, "is made for CUDA {}, but the driver knows CUDA {}", dotted(*made_for), dotted(*driver))
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
                // What is installed by pip is made for CUDA 12.
                let old = |refused: &Refused| matches!(refused.why, Refusal::Runtime { driver, .. } if driver < 12_000);
                match refused.iter().any(old) {
                    true => write!(f, "install a driver of NVIDIA's that knows CUDA 12"),
                    false => write!(f, "pip install {}, or say where it is with {variable}", library.install()),
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

/// A version of CUDA as people write it.
fn dotted(version: u32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

impl std::error::Error for Missing {}

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
    TOLD.lock().unwrap_or_else(PoisonError::into_inner).push(site_packages);
}

/// A library that was loaded. It is never unloaded: its functions are called from anywhere, and NVIDIA's libraries leave threads
/// and handlers behind.
#[derive(Debug)]
pub(crate) struct Loaded {
    library: &'static libloading::Library,
    /// What it was loaded by.
    asked: PathBuf,
}

impl Loaded {
    /// Load a file, or by its bare name what the system finds.
    fn open(file: &Path) -> Result<Loaded, Refusal> {
        // SAFETY: loading runs the initialisers of NVIDIA's libraries, which are made to be run in any process.
        let library = unsafe { open(file) }.map_err(|error| {
            // What the system says is behind what failed.
            let said = std::error::Error::source(&error).map(ToString::to_string);
            Refusal::Unloadable(said.unwrap_or_else(|| error.to_string()))
        })?;
        Ok(Loaded { library: Box::leak(Box::new(library)), asked: file.to_owned() })
    }

    /// The address of a function.
    pub(crate) fn symbol(&self, name: &str) -> Result<*mut c_void, Refusal> {
        let missing = || Refusal::Symbol(name.to_owned());
        let text = CString::new(name).map_err(|_| missing())?;
        // SAFETY: only the address is taken; whoever calls it says what type it has.
        let found = unsafe { self.library.get::<*mut c_void>(text.as_bytes_with_nul()) };
        found.ok().map(|symbol| *symbol).filter(|address| !address.is_null()).ok_or_else(missing)
    }

    /// The file that it came from, which has this function in it.
    pub(crate) fn path(&self, function: *mut c_void) -> PathBuf {
        let file = file_of(function).unwrap_or_else(|| self.asked.clone());
        file.canonicalize().unwrap_or(file)
    }
}

#[cfg(unix)]
unsafe fn open(file: &Path) -> Result<libloading::Library, libloading::Error> {
    use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
    // All that is missing is known at once, and its names do not get in the way of those of another version.
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
    // SAFETY: any address may be asked about; there is room for the answer.
    let found = unsafe { libc::dladdr(function, &mut info) } != 0 && !info.dli_fname.is_null();
    // SAFETY: the loader's text ends in a zero, and stays while the library is loaded, which is for ever.
    found.then(|| unsafe { std::ffi::CStr::from_ptr(info.dli_fname) }).map(|name| {
        let name = std::ffi::OsStr::from_bytes(name.to_bytes());
        PathBuf::from(name)
    })
}

#[cfg(not(unix))]
fn file_of(_: *mut c_void) -> Option<PathBuf> {
    None
}

/// A table of functions of a library, found all at once. The symbols are looked up with a prefix before them.
macro_rules! functions {
    ($(#[$about:meta])* $table:ident { $($name:ident: $symbol:literal ($($argument:ty),* $(,)?) $(-> $result:ty)?;)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy)]
        pub(super) struct $table {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $table {
            /// Find every function, or say which is missing.
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
use functions;

/// Load a library from where it is found; `bind` looks up its functions and checks its version.
fn load<T>(library: Library, bind: impl Fn(&Loaded) -> Result<T, Refusal>) -> Result<T, Missing> {
    if !cfg!(all(target_os = "linux", target_pointer_width = "64")) {
        return Err(Missing { library, reason: Reason::Platform });
    }
    let told = TOLD.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (loaded, refused) = search::first(library, &Environment::of_process(library, told), |file| {
        Loaded::open(file).and_then(|loaded| bind(&loaded))
    })?;
    let refused = refused.into_iter().map(|refused| (library, refused));
    PASSED_OVER.lock().unwrap_or_else(PoisonError::into_inner).extend(refused);
    Ok(loaded)
}

/// Refuse what was made for a newer CUDA than the driver knows: it would load, and then fail at everything. Names do not tell: nvCOMP and
/// nvJPEG2000 have the same for CUDA 12 and 13. Within a major version all runs on all. Where there is no driver nothing runs in any case.
fn check_runtime(made_for: u32) -> Result<(), Refusal> {
    match cuda::driver_version() {
        Some(driver) if made_for / 1000 > driver / 1000 => Err(Refusal::Runtime { made_for, driver }),
        _ => Ok(()),
    }
}

/// An opaque pointer of a C library: what it calls a handle.
type Pointer = *mut c_void;
/// A status of nvJPEG and nvJPEG2000.
type Status = i32;

/// Something that a C library made and takes back.
#[derive(Debug)]
pub(crate) struct Object {
    pointer: Pointer,
    destroy: unsafe extern "C" fn(Pointer) -> Status,
}

// SAFETY: handles and states of these libraries belong to no thread.
unsafe impl Send for Object {}
// SAFETY: nothing is done through a shared reference but to tell the pointer; what may be shared is up to whoever passes it on.
unsafe impl Sync for Object {}

impl Object {
    /// What `create` puts into the place that it is given; `destroy` takes it back.
    fn new<E>(
        destroy: unsafe extern "C" fn(Pointer) -> Status,
        create: impl FnOnce(*mut Pointer) -> Result<(), E>,
    ) -> Result<Object, E> {
        let mut pointer = std::ptr::null_mut();
        create(&mut pointer)?;
        Ok(Object { pointer, destroy })
    }

    fn pointer(&self) -> Pointer {
        self.pointer
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: it was created once, and whoever holds it no longer uses it. What it returns helps nobody here.
        unsafe { (self.destroy)(self.pointer) };
    }
}

/// A version in three parts, each of which the library is asked for by its number.
fn semantic_version(
    call: &'static str,
    property: unsafe extern "C" fn(i32, *mut i32) -> Status,
) -> Result<([i32; 3], String), Refusal> {
    let mut parts = [0; 3];
    for (which, part) in (0..).zip(&mut parts) {
        // SAFETY: there is room for the answer.
        let code = unsafe { property(which, part) };
        if code != 0 {
            return Err(Refusal::Unversioned { call, code });
        }
    }
    let [major, minor, patch] = parts;
    Ok((parts, format!("{major}.{minor}.{patch}")))
}

/// The CUDA that a library says it was made for, as the driver tells versions: 12090 is 12.9.
fn runtime_version(
    call: &'static str,
    property: unsafe extern "C" fn(i32, *mut i32) -> Status,
) -> Result<u32, Refusal> {
    let ([major, minor, _], _) = semantic_version(call, property)?;
    let number = |part: i32| u32::try_from(part).unwrap_or(0).min(999);
    Ok(number(major) * 1000 + number(minor) * 10)
}
