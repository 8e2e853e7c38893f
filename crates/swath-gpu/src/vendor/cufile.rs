//! cuFile, the library of GPUDirect Storage: transfers between files and device memory without a copy in host memory.
//!
//! Where the kernel module `nvidia-fs` or the file system does not support that, cuFile copies through host memory itself; see [`Mode`].

use std::ffi::c_void;
use std::fs::File;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Found, Library, Loaded, Missing, Reason, Refusal, functions};
use crate::backend::Cuda;
use crate::error::{Error, Result};
use crate::transfer_pool::TransferPool;

mod descriptor;
mod pool;
mod status;

use descriptor::{TemporaryName, open_again, raw_descriptor};
use pool::{Direction, Patience};
use status::{ALREADY_OPEN, Code, SUCCESS, check, describe, failed};

pub(crate) use pool::{Inside, PAGE};

/// The threads of the device, and how they enter the context of its buffers.
pub(crate) type Threads<'a> = (&'a TransferPool, &'a Inside);

/// A `CUfileHandle_t`.
type Handle = *mut c_void;

/// `CUfileDescr_t`.
#[repr(C)]
struct Descriptor {
    /// 1: a file descriptor of Linux.
    kind: i32,
    /// A union of the descriptor and a pointer.
    file: FileOrPointer,
    /// Functions of a file system in user space; null here.
    operations: *const c_void,
}

#[repr(C)]
union FileOrPointer {
    descriptor: i32,
    pointer: *mut c_void,
}

const OPAQUE_FD: i32 = 1;

/// `CUfileDrvProps_t`.
#[repr(C)]
#[derive(Debug, Default)]
struct Properties {
    /// The version of the kernel module; 0.0 without it.
    major: u32,
    minor: u32,
    poll_threshold: u64,
    largest_direct: u64,
    /// A bit for each kind of storage that data can come from directly.
    storage: u32,
    control: u32,
    features: u32,
    device_cache: u32,
    buffer_cache: u32,
    pinned: u32,
    /// Transfers in a batch.
    batch: u32,
    batch_timeout: u32,
    /// Not part of the C structure: a newer library may write more properties.
    spare: [u64; 16],
}

/// The storage bit for NVMe disks that the Linux kernel copies from directly, without `nvidia-fs`. Libraries for CUDA 13 have [`P2P`] instead.
const NVME_P2P: u32 = 1 << 11;
/// The feature bit: the Linux kernel copies directly from the reported kinds of storage.
const P2P: u32 = 1 << 4;

functions! {
    /// The functions.
    Functions {
        version: "cuFileGetVersion" (*mut i32) -> Code;
        driver_open: "cuFileDriverOpen" () -> Code;
        driver_properties: "cuFileDriverGetProperties" (*mut Properties) -> Code;
        handle_register: "cuFileHandleRegister" (*mut Handle, *mut Descriptor) -> Code;
        handle_deregister: "cuFileHandleDeregister" (Handle);
        buffer_register: "cuFileBufRegister" (u64, u64, i32) -> Code;
        buffer_deregister: "cuFileBufDeregister" (u64) -> Code;
        read: "cuFileRead" (Handle, *mut c_void, usize, i64, i64) -> isize;
        write: "cuFileWrite" (Handle, *mut c_void, usize, i64, i64) -> isize;
    }
}

/// How data moves to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Directly from the disk, where the disk and its file system support it.
    Direct,
    /// Through host memory, copied by cuFile.
    Compatible,
}

/// The library, with its driver open.
#[derive(Debug)]
pub(crate) struct CuFile {
    found: Found,
    functions: Functions,
    mode: Mode,
    patience: Patience,
}

impl CuFile {
    /// The library of this process.
    pub(crate) fn get() -> std::result::Result<&'static CuFile, &'static Missing> {
        static CUFILE: OnceLock<std::result::Result<CuFile, Missing>> = OnceLock::new();
        let open = || super::load(Library::CuFile, bind).and_then(|(functions, found)| CuFile::new(functions, found));
        CUFILE.get_or_init(open).as_ref()
    }

    /// Opens cuFile's driver. It is never closed: another user of cuFile in the process may still need it.
    pub(super) fn new(functions: Functions, found: Found) -> std::result::Result<CuFile, Missing> {
        let unusable = |why: String| Missing {
            library: Library::CuFile,
            reason: Reason::Unusable { version: found.version.clone(), path: found.path.clone(), why },
        };
        // Without the CUDA driver the library would write to standard error and leave a log in the working folder.
        if !Cuda::is_installed() {
            return Err(unusable("NVIDIA's driver, libcuda.so.1, is not there".to_owned()));
        }
        if reads_modules(&found) && File::open("/proc/modules").is_err() {
            let why = "there is no /proc/modules here, and without it cuFileDriverOpen never returns";
            return Err(unusable(why.to_owned()));
        }
        // SAFETY: any thread may call it, at any time.
        let code = unsafe { (functions.driver_open)() };
        if !matches!(code.cufile, SUCCESS | ALREADY_OPEN) {
            return Err(unusable(format!("cuFileDriverOpen failed with {}", describe(code))));
        }
        let mut properties = Properties::default();
        // SAFETY: there is room for the answer.
        let code = unsafe { (functions.driver_properties)(&mut properties) };
        if code.cufile != SUCCESS {
            return Err(unusable(format!("cuFileDriverGetProperties failed with {}", describe(code))));
        }
        let mode = mode(&properties);
        let detail = match mode {
            Mode::Direct => "GPUDirect Storage",
            Mode::Compatible => "compatibility mode: no nvidia-fs, so data goes through host memory",
        };
        let patience = Patience::of_process();
        Ok(CuFile { functions, mode, patience, found: Found { detail: Some(detail), ..found } })
    }

    /// What was found.
    pub(super) fn found(&self) -> &Found {
        &self.found
    }

    /// How data moves to the device.
    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// Registers a file. It is opened again, without the page cache if its file system allows that; the caller may close its own descriptor.
    ///
    /// # Errors
    /// When the file cannot be opened, or cuFile cannot use it.
    pub(crate) fn register_file(&'static self, file: &File, writable: bool) -> Result<FileHandle> {
        let (file, uncached) = open_again(file, writable).map_err(|error| failed("open", error.to_string()))?;
        let mut descriptor = Descriptor {
            kind: OPAQUE_FD,
            file: FileOrPointer { pointer: std::ptr::null_mut() },
            operations: std::ptr::null(),
        };
        descriptor.file.descriptor = raw_descriptor(&file);
        let mut handle = std::ptr::null_mut();
        let _name = TemporaryName::lend(&file);
        // SAFETY: the descriptor is open until the handle is deregistered, and there is room for the handle.
        check("cuFileHandleRegister", unsafe { (self.functions.handle_register)(&mut handle, &mut descriptor) })?;
        let mode = if uncached { self.mode } else { Mode::Compatible };
        Ok(FileHandle { cufile: self, handle, file: Some(file), mode, stalled: AtomicBool::new(false) })
    }

    /// Registers device memory, so that data moves without another copy. The CUDA context must be current.
    ///
    /// # Errors
    /// When cuFile cannot use it.
    pub(crate) fn register_buffer(&'static self, address: u64, bytes: u64) -> Result<Registration> {
        // SAFETY: cuFile asks the driver whether this is device memory; it reads and writes nothing.
        check("cuFileBufRegister", unsafe { (self.functions.buffer_register)(address, bytes, 0) })?;
        Ok(Registration { cufile: self, address })
    }
}

/// Looks up the functions and reads the version.
pub(super) fn bind(loaded: &Loaded) -> std::result::Result<(Functions, Found), Refusal> {
    let functions = Functions::load(loaded, "")?;
    let mut version = 0;
    // SAFETY: there is room for the answer.
    let code = unsafe { (functions.version)(&mut version) };
    if code.cufile != SUCCESS {
        return Err(Refusal::Unversioned { call: "cuFileGetVersion", code: code.cufile });
    }
    // 1000 times the major version and 10 times the minor one.
    let text = format!("{}.{}", version / 1000, version % 1000 / 10);
    if version / 1000 != 1 {
        return Err(Refusal::Version { found: text, wanted: "1" });
    }
    let path = loaded.path(loaded.symbol("cuFileGetVersion")?);
    Ok((functions, Found { library: Library::CuFile, version: text, path, detail: None }))
}

/// The result of opening cuFile's driver, without the check for CUDA that [`CuFile::new`] does first.
#[cfg(test)]
pub(super) fn try_open(functions: &Functions) -> String {
    // SAFETY: any thread may call it, at any time.
    let code = unsafe { (functions.driver_open)() };
    if code.cufile == SUCCESS { "yes".to_owned() } else { describe(code) }
}

/// Whether this is NVIDIA's library, which reads the list of kernel modules when it is opened. The simulator, with the same soname, does not.
fn reads_modules(found: &Found) -> bool {
    found.path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libcufile"))
}

fn mode(properties: &Properties) -> Mode {
    let module = (properties.major, properties.minor) != (0, 0);
    let p2p = properties.storage & NVME_P2P != 0 || properties.features & P2P != 0;
    let direct = properties.storage != 0 && (module || p2p);
    if direct { Mode::Direct } else { Mode::Compatible }
}

/// A file that is registered with cuFile.
#[derive(Debug)]
pub(crate) struct FileHandle {
    cufile: &'static CuFile,
    handle: Handle,
    /// The descriptor, open as long as the handle.
    file: Option<File>,
    mode: Mode,
    /// Whether a transfer stalled, and may still be running.
    stalled: AtomicBool,
}

// SAFETY: a handle belongs to no thread, and cuFile does the locking: many threads may call its functions at once.
unsafe impl Send for FileHandle {}
// SAFETY: as above, and nothing is changed through a shared reference.
unsafe impl Sync for FileHandle {}

impl Drop for FileHandle {
    fn drop(&mut self) {
        if self.stalled.load(Ordering::Relaxed) {
            std::mem::forget(self.file.take());
            return;
        }
        // SAFETY: the handle was registered once, and no transfer is running: all were waited for.
        unsafe { (self.cufile.functions.handle_deregister)(self.handle) };
    }
}

/// A range of a file, and its offset in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// The offset in the file.
    pub file_offset: u64,
    /// The offset in the buffer.
    pub buffer_offset: u64,
    /// Bytes.
    pub len: u64,
}

impl FileHandle {
    /// Whether the bytes bypass host memory, as far as cuFile reports it: for an unknown file system cuFile may still go through host memory
    /// without reporting it.
    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether a transfer stalled, so that the handle should not be used again.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    /// Reads ranges of the file into a buffer. All reads are submitted before the first is waited for. `threads` enter the buffer's context.
    ///
    /// # Errors
    /// When a range could not be read completely; the content of the buffer is then undefined. Only after [`Error::Stalled`] may cuFile
    /// still access the buffer.
    ///
    /// # Safety
    /// The ranges of the buffer are device memory that lives until this returns, or forever after [`Error::Stalled`], and nothing else uses
    /// them.
    pub(crate) unsafe fn read(&self, buffer: u64, transfers: &[Transfer], threads: Threads<'_>) -> Result<()> {
        // SAFETY: as the caller says.
        unsafe { self.transfer(Direction::Read, buffer, transfers, threads) }
    }

    /// Writes ranges of a buffer to the file, as [`read`](FileHandle::read) reads them.
    ///
    /// # Errors
    /// When a range could not be written completely; the content of the file is then undefined.
    ///
    /// # Safety
    /// As for [`read`](FileHandle::read), except that other code may read the ranges.
    pub(crate) unsafe fn write(&self, buffer: u64, transfers: &[Transfer], threads: Threads<'_>) -> Result<()> {
        // SAFETY: as the caller says.
        unsafe { self.transfer(Direction::Write, buffer, transfers, threads) }
    }

    /// # Safety
    /// As for [`read`](FileHandle::read).
    unsafe fn transfer(
        &self,
        direction: Direction,
        buffer: u64,
        transfers: &[Transfer],
        threads: Threads<'_>,
    ) -> Result<()> {
        let CuFile { functions, patience, .. } = self.cufile;
        // SAFETY: as the caller says; the handle is registered, and stays registered while a transfer may still be running.
        let submitted =
            unsafe { pool::submit(*functions, (self.handle, direction), buffer, transfers, threads, *patience) };
        let done = submitted.and_then(pool::Submitted::wait);
        if matches!(done, Err(Error::Stalled { .. })) {
            self.stalled.store(true, Ordering::Relaxed);
        }
        done
    }
}

/// A registration of device memory with cuFile, until it is dropped. It must be dropped before the memory is freed.
#[derive(Debug)]
pub(crate) struct Registration {
    cufile: &'static CuFile,
    address: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: the memory was registered once. Nothing could be done about an error here.
        unsafe { (self.cufile.functions.buffer_deregister)(self.address) };
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_c_header() {
        assert_eq!((size_of::<Code>(), size_of::<Descriptor>()), (8, 24));
        assert_eq!((offset_of!(Descriptor, file), offset_of!(Descriptor, operations)), (8, 16));
        assert_eq!((offset_of!(Properties, storage), offset_of!(Properties, batch)), (24, 48));
        assert_eq!(offset_of!(Properties, spare), 56);
    }

    #[test]
    fn copies_through_host_memory_are_not_called_direct() {
        let with = |major, storage| mode(&Properties { major, storage, features: 15, ..Properties::default() });
        assert_eq!(with(0, 0), Mode::Compatible);
        assert_eq!(with(2, 0), Mode::Compatible, "no storage that can");
        assert_eq!(with(0, 1 << 4), Mode::Compatible, "no nvidia-fs");
        assert_eq!(with(2, 1 << 4), Mode::Direct);
        assert_eq!(with(0, NVME_P2P), Mode::Direct, "the kernel does it itself");
        let p2p = |storage| mode(&Properties { storage, features: 15 | P2P, ..Properties::default() });
        assert_eq!(p2p(1 << 4), Mode::Direct, "it is told otherwise for CUDA 13");
        assert_eq!(p2p(0), Mode::Compatible);
    }
}
