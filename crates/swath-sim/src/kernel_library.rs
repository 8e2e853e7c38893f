//! Kernels from a library that another program compiled from the PTX, for a second opinion about the PTX.
//!
//! The library has these functions, of the C ABI:
//!
//! * `uint64_t ptx_hash(void)`: the 64-bit FNV-1a hash of the PTX from which it was compiled.
//! * `int ptx_parameter(const char *kernel, uint32_t i)`: the bytes of a parameter, 0 behind the last, -1 if there is no such kernel.
//! * `uint32_t ptx_shared(const char *kernel)`: the bytes of the shared memory of a kernel.
//! * `int ptx_launch(const char *kernel, uint32_t blocks, uint32_t threads, const uint64_t *values, const uint64_t (*live)[2], uint64_t
//!   count)`: runs a kernel to its end and returns 0 or a `CUresult`. `live` are the live allocations in ascending order: first address and
//!   address after the last.

use std::ffi::{CString, c_char, c_int};
use std::path::Path;

use libloading::Library;
use swath_gpu::{Kernel, PTX};

use crate::code::{Code, Done};
use crate::event::{record, report};

type Hash = unsafe extern "C" fn() -> u64;
type ParameterBytes = unsafe extern "C" fn(*const c_char, u32) -> c_int;
type SharedBytes = unsafe extern "C" fn(*const c_char) -> u32;
type Launch = unsafe extern "C" fn(*const c_char, u32, u32, *const u64, *const [u64; 2], u64) -> c_int;

/// The variable that accepts a library that was compiled from another PTX, such as a deliberately damaged one.
const OTHER_PTX: &str = "SWATH_SIM_OTHER_PTX";

/// Why a library cannot be used.
#[derive(Debug, thiserror::Error)]
enum LoadError {
    #[error(transparent)]
    Library(#[from] libloading::Error),
    #[error("it was compiled from another PTX; set {OTHER_PTX} to use it nevertheless")]
    OtherPtx,
}

/// A library of kernels.
#[derive(Debug)]
pub(crate) struct KernelLibrary {
    parameter_bytes: ParameterBytes,
    shared_bytes: SharedBytes,
    launch: Launch,
    /// Last, so that it is unloaded after the functions are gone.
    _library: Library,
}

impl KernelLibrary {
    /// Loads the library in a file.
    pub(crate) fn open(path: &Path) -> Done<KernelLibrary> {
        KernelLibrary::load(path).map_err(|error| {
            eprintln!("swath-sim: {}: {error}", path.display());
            Code::SYSTEM_NOT_READY
        })
    }

    fn load(path: &Path) -> Result<KernelLibrary, LoadError> {
        // SAFETY: the caller of the simulator names a library whose functions have these types.
        let (hash, library) = unsafe {
            let library = Library::new(path)?;
            let hash = *library.get::<Hash>(b"ptx_hash\0")?;
            let functions = KernelLibrary {
                parameter_bytes: *library.get(b"ptx_parameter\0")?,
                shared_bytes: *library.get(b"ptx_shared\0")?,
                launch: *library.get(b"ptx_launch\0")?,
                _library: library,
            };
            (hash(), functions)
        };
        if hash != fnv1a(PTX) && std::env::var_os(OTHER_PTX).is_none() {
            return Err(LoadError::OtherPtx);
        }
        record(format!("kernels: the library {}", path.display()));
        Ok(library)
    }

    /// The bytes of each parameter and of the shared memory of a kernel.
    pub(crate) fn signature(&self, kernel: Kernel) -> Done<(Vec<usize>, u64)> {
        let name = CString::new(kernel.name()).map_err(|_| Code::NOT_FOUND)?;
        // SAFETY: the name is a string of C.
        let bytes = |i| unsafe { (self.parameter_bytes)(name.as_ptr(), i) };
        if bytes(0) < 0 {
            return Err(Code::NOT_FOUND);
        }
        let parameters = (0..).map(bytes).take_while(|bytes| *bytes > 0).map(|bytes| bytes as usize).collect();
        // SAFETY: as above.
        Ok((parameters, unsafe { (self.shared_bytes)(name.as_ptr()) }.into()))
    }

    /// Runs a kernel to its end.
    pub(crate) fn run(&self, kernel: Kernel, groups: u32, values: &[u64], allocations: &[(u64, u64)]) -> Done {
        let name = CString::new(kernel.name()).map_err(|_| Code::NOT_FOUND)?;
        let live: Vec<[u64; 2]> = allocations.iter().map(|&(start, end)| [start, end]).collect();
        // SAFETY: there is a value for each parameter, and the ranges are the live allocations of the device.
        let code = unsafe {
            (self.launch)(name.as_ptr(), groups, kernel.group(), values.as_ptr(), live.as_ptr(), live.len() as u64)
        };
        if code == 0 {
            return Ok(());
        }
        report(&format!("{} failed with {code} in the library of kernels", kernel.name()));
        Err(Code(code as u32))
    }
}

fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3))
}
