//! cuFile as `cufile.h` declares it. The real library moves bytes between files and device memory without a
//! copy in host memory; the simulator uses reads and writes of the host.
//!
//! It has only the functions that `swath-gpu` calls. It refuses what the manual says is refused, and more: no
//! call opens the driver implicitly, host memory is never accepted, and every registration must be undone.
//!
//! There are two locks. Code that holds the driver's lock may take the lock of the registrations, but not the
//! other way round.

mod files;
mod transfer;

use std::ffi::{c_int, c_long, c_uint, c_void};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::code::Code;
use crate::event::{record, report};
use crate::fail;
use transfer::{Direction, Failure, Target, Transfer};

pub(crate) use files::is_registered;

/// A `CUfileError_t`: the result of a call, and the code of the driver if the driver failed.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Status {
    code: c_int,
    cuda: c_uint,
}

type Answer<T = ()> = Result<T, Status>;

macro_rules! statuses {
    ($($name:ident = $number:literal;)*) => {
        impl Status {
            $(const $name: Status = Status { code: $number, cuda: 0 };)*
        }
    };
}

statuses! {
    SUCCESS = 0;
    DRIVER_NOT_INITIALIZED = 5001;
    IO_NOT_SUPPORTED = 5008;
    CUDA_POINTER_INVALID = 5012;
    CUDA_POINTER_RANGE_ERROR = 5014;
    INVALID_MAPPING_RANGE = 5017;
    INVALID_FILE_TYPE = 5018;
    INVALID_FILE_OPEN_FLAG = 5019;
    INVALID_VALUE = 5022;
    MEMORY_ALREADY_REGISTERED = 5023;
    HANDLE_NOT_REGISTERED = 5027;
    HANDLE_ALREADY_REGISTERED = 5028;
    INTERNAL_ERROR = 5030;
    GETNEWFD_FAILED = 5031;
    NVFS_SETUP_ERROR = 5033;
    GPU_MEMORY_PINNING_FAILED = 5036;
}

impl Status {
    const CUDA_DRIVER_ERROR: c_int = 5011;

    /// Returns the status for an error of the driver.
    fn cuda(Code(cuda): Code) -> Status {
        Status { code: Status::CUDA_DRIVER_ERROR, cuda }
    }
}

fn answer(done: Answer) -> Status {
    done.err().unwrap_or(Status::SUCCESS)
}

/// The kind of GPUDirect Storage support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Direct,
    /// The kernel copies by itself, without NVIDIA's kernel module.
    Peer,
    /// The library exists, but its kernel module does not.
    Compatible,
}

fn mode() -> Answer<Mode> {
    match std::env::var("SWATH_SIM_CUFILE").as_deref() {
        Err(_) | Ok("" | "direct") => Ok(Mode::Direct),
        Ok("p2p") => Ok(Mode::Peer),
        Ok("compat") => Ok(Mode::Compatible),
        Ok("absent") => Err(Status::NVFS_SETUP_ERROR),
        Ok("closed") => Err(Status::DRIVER_NOT_INITIALIZED),
        Ok(other) => {
            report(&format!("SWATH_SIM_CUFILE is '{other}', which is none of direct, p2p, compat, absent, closed"));
            Err(Status::INTERNAL_ERROR)
        }
    }
}

/// A `CUfileDrvProps_t`. Sizes are in KiB.
#[repr(C)]
struct Properties {
    kernel_major: c_uint,
    kernel_minor: c_uint,
    poll_threshold: usize,
    largest_direct: usize,
    /// One bit for each supported kind of storage.
    storage: c_uint,
    control: c_uint,
    features: c_uint,
    device_cache: c_uint,
    buffer_cache: c_uint,
    pinned: c_uint,
    batch_entries: c_uint,
    batch_milliseconds: c_uint,
}

const STORAGE_NVME: c_uint = 1 << 4;
/// Set if the configuration allows compatibility mode, which is the default. It does not mean that there is no
/// other mode.
const CONTROL_ALLOW_COMPATIBLE: c_uint = 1 << 1;
/// The features of version 1.19 without a kernel module: routing, batches, streams and parallel reads and
/// writes.
const FEATURES: c_uint = 15;
const FEATURE_P2P: c_uint = 1 << 4;

/// A `CUfileDescr_t`.
#[repr(C)]
struct Descriptor {
    kind: c_int,
    file: OpenFile,
    _operations: *const c_void,
}

#[repr(C)]
union OpenFile {
    fd: c_int,
    _other: *mut c_void,
}

const KIND_FD: c_int = 1;

// The layouts of the C headers.
const _: () = assert!(size_of::<Status>() == 8 && size_of::<Properties>() == 56);
const _: () = assert!(size_of::<Descriptor>() == 24 && std::mem::offset_of!(Descriptor, file) == 8);

// Callers pass every function below the pointers that the manual requires: null, or valid for the read or
// write. Each comment `SAFETY: by the manual` refers to this.

#[unsafe(no_mangle)]
extern "C" fn cuFileDriverOpen() -> Status {
    answer(mode().map(|_| files::open()))
}

#[unsafe(no_mangle)]
extern "C" fn cuFileDriverClose_v2() -> Status {
    answer(files::close())
}

#[unsafe(no_mangle)]
extern "C" fn cuFileDriverClose() -> Status {
    cuFileDriverClose_v2()
}

#[unsafe(no_mangle)]
extern "C" fn cuFileUseCount() -> c_long {
    files::opened().into()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuFileGetVersion(version: *mut c_int) -> Status {
    // SAFETY: by the manual. The call is also allowed before the driver is opened.
    answer(unsafe { give(version, 1140) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuFileDriverGetProperties(properties: *mut Properties) -> Status {
    let found = files::require_open().and_then(|()| mode()).map(|mode| {
        let (kernel_major, kernel_minor, storage, features) = match mode {
            Mode::Direct => (2, 25, STORAGE_NVME, FEATURES),
            Mode::Peer => (0, 0, STORAGE_NVME, FEATURES | FEATURE_P2P),
            Mode::Compatible => (0, 0, 0, FEATURES),
        };
        Properties {
            kernel_major,
            kernel_minor,
            poll_threshold: 4,
            largest_direct: 16_384,
            storage,
            control: CONTROL_ALLOW_COMPATIBLE,
            features,
            device_cache: 131_072,
            buffer_cache: 1024,
            pinned: 33_554_432,
            batch_entries: 128,
            batch_milliseconds: 5,
        }
    });
    // SAFETY: by the manual.
    answer(found.and_then(|found| unsafe { give(properties, found) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuFileHandleRegister(handle: *mut *mut c_void, descriptor: *const Descriptor) -> Status {
    answer(files::require_open().and_then(|()| {
        record("cuFileHandleRegister");
        fail::point("register", Code::UNKNOWN).map_err(|_| Status::IO_NOT_SUPPORTED)?;
        // SAFETY: by the manual.
        let descriptor = unsafe { descriptor.as_ref() }.filter(|_| !handle.is_null()).ok_or(Status::INVALID_VALUE)?;
        if descriptor.kind != KIND_FD {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: a descriptor of this kind has this field, and any bits are a valid number.
        let fd = unsafe { descriptor.file.fd };
        let strict = fail::number("SWATH_SIM_CUFILE_STRICT", 0) != 0 && matches!(mode(), Ok(Mode::Direct));
        // SAFETY: by the manual.
        unsafe { give(handle, files::register_file(fd, strict)? as *mut c_void) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuFileHandleDeregister(handle: *mut c_void) {
    files::deregister_file(handle as usize);
}

#[unsafe(no_mangle)]
extern "C" fn cuFileBufRegister(base: *const c_void, bytes: usize, flags: c_int) -> Status {
    const KNOWN_FLAGS: c_int = 3;
    answer(files::require_open().and_then(|()| {
        record(format!("cuFileBufRegister {bytes}"));
        if std::env::var("SWATH_SIM_CUFILE_REGISTER").is_ok_and(|value| value == "fail") {
            return Err(Status::GPU_MEMORY_PINNING_FAILED);
        }
        if bytes == 0 || flags & !KNOWN_FLAGS != 0 {
            return Err(Status::INVALID_VALUE);
        }
        files::register_buffer(base as usize, bytes)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuFileBufDeregister(base: *const c_void) -> Status {
    answer(files::require_open().and_then(|()| files::deregister_buffer(base as usize)))
}

#[unsafe(no_mangle)]
extern "C" fn cuFileRead(
    file: *mut c_void,
    base: *mut c_void,
    bytes: usize,
    file_offset: i64,
    base_offset: i64,
) -> isize {
    let target = Target { base: base as usize, base_offset, bytes, file_offset };
    moved(Direction::Read, file as usize, target)
}

#[unsafe(no_mangle)]
extern "C" fn cuFileWrite(
    file: *mut c_void,
    base: *const c_void,
    bytes: usize,
    file_offset: i64,
    base_offset: i64,
) -> isize {
    let target = Target { base: base as usize, base_offset, bytes, file_offset };
    moved(Direction::Write, file as usize, target)
}

/// Reads or writes immediately. Errors of the file system are returned as in C, with -1 and `errno`.
fn moved(direction: Direction, file: usize, target: Target) -> isize {
    let place = format!("{} {}", target.file_offset, target.bytes);
    let transfer = files::require_open().and_then(|()| Transfer::new(direction, file, target));
    let done = transfer.map_err(|status| Failure::Refused(status.code)).and_then(|mut transfer| {
        record(format!("{} {place}", direction.name()));
        transfer.tell_fate();
        while fail::now("hung") {
            thread::sleep(Duration::from_secs(3600));
        }
        let _turn = Turn::take();
        let done = transfer.run();
        record(format!("ended {place}"));
        done
    });
    match done {
        Ok(bytes) => bytes as isize,
        Err(Failure::Refused(code)) => -(code as isize),
        Err(Failure::Errno(number)) => {
            // SAFETY: the location belongs to this thread.
            unsafe { *libc::__errno_location() = number };
            -1
        }
    }
}

/// The number of running transfers. A disk runs a limited number at once, and the others wait.
static AT_WORK: Mutex<u64> = Mutex::new(0);
static LEFT: Condvar = Condvar::new();

/// A running transfer.
struct Turn;

impl Turn {
    fn take() -> Turn {
        let most = fail::number("SWATH_SIM_CUFILE_WORKERS", 8).max(1);
        let at_work = AT_WORK.lock().unwrap_or_else(PoisonError::into_inner);
        let mut at_work = LEFT.wait_while(at_work, |at_work| *at_work >= most).unwrap_or_else(PoisonError::into_inner);
        *at_work += 1;
        Turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *AT_WORK.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        LEFT.notify_one();
    }
}

/// Writes a result to the caller's pointer.
///
/// # Safety
/// The pointer is null or valid for a write.
unsafe fn give<T>(to: *mut T, value: T) -> Answer {
    if to.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: guaranteed by the caller.
    unsafe { to.write(value) };
    Ok(())
}
