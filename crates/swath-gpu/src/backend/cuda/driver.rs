//! The functions of the CUDA driver, looked up once at run time.
//!
//! `cudarc` declares them too, but its functions panic when the driver lacks one, and return an enum: a code that only a newer driver has
//! would be undefined behaviour. So this module uses the types of `cudarc`, but looks up all functions itself before the first call, and
//! treats codes as numbers.
//!
//! The library is `libcuda.so.1`, as NVIDIA's own libraries open it. Only if that is missing, the library that `cudarc` finds is used:
//! `cudarc` tries `libcuda.so` first, which in the CUDA toolkit is a stub without devices, and a process can load only one of the two.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdevice_attribute_enum, CUdeviceptr, CUevent, CUfunction, CUjit_option_enum,
    CUmemPool_attribute_enum, CUmemoryPool, CUmodule, CUpointer_attribute_enum, CUstream,
};

use crate::backend::Api;
use crate::error::{Error, Result};

/// A `CUresult`.
pub(super) type Code = c_uint;

pub(super) const API: Api = Api::Cuda;
const SUCCESS: Code = sys::CUresult::CUDA_SUCCESS as Code;
const OUT_OF_MEMORY: Code = sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY as Code;
const STUB: Code = sys::CUresult::CUDA_ERROR_STUB_LIBRARY as Code;

macro_rules! functions {
    ($($name:ident, $symbol:literal, ($($argument:ty),*);)*) => {
        /// The functions.
        #[derive(Debug)]
        pub(super) struct Driver {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> Code,)*
        }

        impl Driver {
            /// Looks up every function, or returns the first one that is missing.
            fn bind(library: &'static libloading::Library) -> std::result::Result<Driver, &'static str> {
                Ok(Driver {
                    $($name: {
                        // SAFETY: the types are those that `cuda.h` declares for this symbol, with `CUresult` as the
                        // unsigned int that it is in C.
                        *unsafe { library.get(concat!($symbol, "\0").as_bytes()) }.map_err(|_| $symbol)?
                    },)*
                })
            }
        }
    };
}

functions! {
    init, "cuInit", (c_uint);
    driver_version, "cuDriverGetVersion", (*mut c_int);
    error_name, "cuGetErrorName", (Code, *mut *const c_char);
    error_string, "cuGetErrorString", (Code, *mut *const c_char);
    device_count, "cuDeviceGetCount", (*mut c_int);
    device_get, "cuDeviceGet", (*mut CUdevice, c_int);
    device_name, "cuDeviceGetName", (*mut c_char, c_int, CUdevice);
    device_attribute, "cuDeviceGetAttribute", (*mut c_int, CUdevice_attribute_enum, CUdevice);
    device_memory, "cuDeviceTotalMem_v2", (*mut usize, CUdevice);
    context_retain, "cuDevicePrimaryCtxRetain", (*mut CUcontext, CUdevice);
    context_release, "cuDevicePrimaryCtxRelease_v2", (CUdevice);
    context_push, "cuCtxPushCurrent_v2", (CUcontext);
    context_pop, "cuCtxPopCurrent_v2", (*mut CUcontext);
    module_load, "cuModuleLoadDataEx", (*mut CUmodule, *const c_void, c_uint, *mut CUjit_option_enum, *mut *mut c_void);
    module_function, "cuModuleGetFunction", (*mut CUfunction, CUmodule, *const c_char);
    occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor", (*mut c_int, CUfunction, c_int, usize);
    module_unload, "cuModuleUnload", (CUmodule);
    memory_info, "cuMemGetInfo_v2", (*mut usize, *mut usize);
    memory_alloc, "cuMemAlloc_v2", (*mut CUdeviceptr, usize);
    memory_free, "cuMemFree_v2", (CUdeviceptr);
    memory_alloc_async, "cuMemAllocAsync", (*mut CUdeviceptr, usize, CUstream);
    memory_free_async, "cuMemFreeAsync", (CUdeviceptr, CUstream);
    device_pool, "cuDeviceGetMemPool", (*mut CUmemoryPool, CUdevice);
    pool_attribute, "cuMemPoolGetAttribute", (CUmemoryPool, CUmemPool_attribute_enum, *mut c_void);
    pointer_attribute, "cuPointerGetAttribute", (*mut c_void, CUpointer_attribute_enum, CUdeviceptr);
    host_alloc, "cuMemHostAlloc", (*mut *mut c_void, usize, c_uint);
    host_free, "cuMemFreeHost", (*mut c_void);
    upload, "cuMemcpyHtoDAsync_v2", (CUdeviceptr, *const c_void, usize, CUstream);
    download, "cuMemcpyDtoHAsync_v2", (*mut c_void, CUdeviceptr, usize, CUstream);
    copy, "cuMemcpyDtoDAsync_v2", (CUdeviceptr, CUdeviceptr, usize, CUstream);
    context_synchronize, "cuCtxSynchronize", ();
    stream_create, "cuStreamCreate", (*mut CUstream, c_uint);
    stream_synchronize, "cuStreamSynchronize", (CUstream);
    event_create, "cuEventCreate", (*mut CUevent, c_uint);
    event_record, "cuEventRecord", (CUevent, CUstream);
    event_wait, "cuStreamWaitEvent", (CUstream, CUevent, c_uint);
    event_destroy, "cuEventDestroy_v2", (CUevent);
    stream_destroy, "cuStreamDestroy_v2", (CUstream);
    launch, "cuLaunchKernel", (
        CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void, *mut *mut c_void
    );
}

impl Driver {
    /// The driver, initialised.
    pub(super) fn get() -> Result<&'static Driver> {
        let driver = Driver::loaded()?;
        // The call is cheap when it was done before, and it finds a driver that was started meanwhile.
        // SAFETY: any thread may call it, at any time.
        match unsafe { (driver.init)(0) } {
            SUCCESS => Ok(driver),
            STUB => Err(no_device("what was found is the stub of the CUDA toolkit, not NVIDIA's driver".to_owned())),
            code => Err(no_device(format!(
                "NVIDIA's driver is installed, but cuInit failed with {}{}",
                driver.describe(code),
                visible_devices()
            ))),
        }
    }

    /// The driver's functions, even without a device.
    fn loaded() -> Result<&'static Driver> {
        static DRIVER: OnceLock<Driver> = OnceLock::new();
        if let Some(driver) = DRIVER.get() {
            return Ok(driver);
        }
        let library = library().ok_or_else(|| missing(std::env::var("LD_LIBRARY_PATH").ok().as_deref()))?;
        let driver = Driver::bind(library).map_err(|symbol| {
            no_device(format!("the driver's library has no {symbol}: it is too old, or not NVIDIA's"))
        })?;
        Ok(DRIVER.get_or_init(|| driver))
    }

    /// The newest CUDA version that the driver supports, as 1000 times the major number plus 10 times the minor number. `None` without a
    /// driver, or if the driver does not report it. It needs no device.
    pub(super) fn version() -> Option<u32> {
        let driver = Driver::loaded().ok()?;
        let mut version = 0;
        // SAFETY: there is room for the number, and the call is allowed before `cuInit`.
        let code = unsafe { (driver.driver_version)(&mut version) };
        u32::try_from(version).ok().filter(|&version| code == SUCCESS && version > 0)
    }

    /// Turns a code into an error, unless it is success.
    pub(super) fn check(&self, call: &'static str, code: Code) -> Result<()> {
        match code {
            SUCCESS => Ok(()),
            _ => Err(Error::Driver { api: API, call, code: self.describe(code) }),
        }
    }

    /// As [`check`](Driver::check), for calls that allocate memory.
    pub(super) fn check_memory(&self, call: &'static str, code: Code, stage: &'static str, needed: u64) -> Result<()> {
        match code {
            OUT_OF_MEMORY => Err(Error::OutOfMemory { stage, needed }),
            _ => self.check(call, code),
        }
    }

    /// The name of a code and the driver's description.
    pub(super) fn describe(&self, code: Code) -> String {
        let text = |find: unsafe extern "C" fn(Code, *mut *const c_char) -> Code| {
            let mut text = std::ptr::null();
            // SAFETY: the driver writes a pointer to its own text, which is never freed, or null for an unknown code.
            unsafe {
                let found = find(code, &mut text) == SUCCESS && !text.is_null();
                found.then(|| CStr::from_ptr(text).to_string_lossy())
            }
        };
        match (text(self.error_name), text(self.error_string)) {
            (Some(name), Some(string)) => format!("{name} ({string})"),
            (Some(name), None) => name.into_owned(),
            (None, _) => format!("code {code}"),
        }
    }
}

/// Whether NVIDIA's driver is installed.
pub(crate) fn is_installed() -> bool {
    library().is_some()
}

/// The driver's library, which is never unloaded.
fn library() -> Option<&'static libloading::Library> {
    static FIRST: OnceLock<libloading::Library> = OnceLock::new();
    if let Some(first) = FIRST.get() {
        return Some(first);
    }
    // SAFETY: here and below: loading runs the initialisers of NVIDIA's driver, which are written to run in any process.
    if let Ok(first) = unsafe { libloading::Library::new("libcuda.so.1") } {
        return Some(FIRST.get_or_init(|| first));
    }
    // SAFETY: `culib` panics when there is no library, which is checked before.
    unsafe { sys::is_culib_present().then(|| sys::culib()) }
}

pub(super) fn no_device(reason: String) -> Error {
    Error::NoDevice { api: API, reason }
}

/// A reminder that `CUDA_VISIBLE_DEVICES` may hide devices.
pub(super) fn visible_devices() -> String {
    std::env::var("CUDA_VISIBLE_DEVICES")
        .map_or_else(|_| String::new(), |list| format!("; CUDA_VISIBLE_DEVICES is '{list}'"))
}

/// The error that the driver's library is missing: the names and the places of the search.
fn missing(library_path: Option<&str>) -> Error {
    let names = ["cuda", "nvcuda"].iter().flat_map(|name| cudarc::get_lib_name_candidates(name));
    // Of the many names that cudarc tries, only those that NVIDIA's driver ever had.
    let (known, others): (Vec<_>, Vec<_>) =
        names.partition(|name| ["libcuda.so", "libcuda.so.1", "nvcuda.dll", "libcuda.dylib"].contains(&name.as_str()));
    let path = match library_path {
        Some(path) if !path.is_empty() => format!("LD_LIBRARY_PATH ({path})"),
        _ => "LD_LIBRARY_PATH (not set)".to_owned(),
    };
    no_device(format!(
        "no {} (nor {} other names) in {path} or the system's library folders; it comes with NVIDIA's driver",
        known.join(" or "),
        others.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_library_says_what_and_where() {
        let text = missing(Some("/opt/lib:/srv/lib")).to_string();
        assert!(text.starts_with("there is no CUDA device: no "), "{text}");
        assert!(text.contains("(/opt/lib:/srv/lib)"), "{text}");
        if cfg!(target_os = "linux") {
            assert!(text.contains("libcuda.so or libcuda.so.1 "), "{text}");
        }
        assert!(missing(None).to_string().contains("LD_LIBRARY_PATH (not set)"));
    }
}
