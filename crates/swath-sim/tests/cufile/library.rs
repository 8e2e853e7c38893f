//! The functions of `libcufile.so.0`, declared once more: by what its header says, not by what the simulator thinks.

use std::ffi::{c_int, c_long, c_uint, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr;

use libloading::os::unix::{Library, RTLD_NOW};

pub(crate) type Pointer = *mut c_void;

/// A `CUfileError_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) code: c_int,
    pub(crate) cuda: c_uint,
}

/// A `CUfileDrvProps_t`.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Properties {
    pub(crate) version: [c_uint; 2],
    pub(crate) sizes: [usize; 2],
    pub(crate) storage: c_uint,
    pub(crate) control: c_uint,
    pub(crate) features: c_uint,
    pub(crate) caches: [c_uint; 3],
    pub(crate) batch_entries: c_uint,
    pub(crate) batch_milliseconds: c_uint,
}

/// A `CUfileDescr_t`, of a file by its descriptor.
#[repr(C)]
pub(crate) struct Descriptor {
    pub(crate) kind: c_int,
    pub(crate) fd: u64,
    pub(crate) operations: Pointer,
}

/// A `CUfileIOParams_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) mode: c_int,
    pub(crate) base: u64,
    pub(crate) file_offset: i64,
    pub(crate) base_offset: i64,
    pub(crate) bytes: usize,
    pub(crate) file: Pointer,
    pub(crate) operation: c_int,
    pub(crate) cookie: usize,
}

/// A `CUfileIOEvents_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Event {
    pub(crate) cookie: usize,
    pub(crate) status: c_int,
    pub(crate) result: isize,
}

const COMPLETE: c_int = 16;
const FAILED: c_int = 64;
pub(crate) const WRITE: c_int = 1;

macro_rules! library {
    ($($field:ident: $symbol:literal = fn($($argument:ty),*) $(-> $answer:ty)?;)*) => {
        /// The functions, in a process that has the simulator.
        pub(crate) struct CuFile {
            $(pub(crate) $field: unsafe extern "C" fn($($argument),*) $(-> $answer)?,)*
            _library: Library,
        }

        impl CuFile {
            pub(crate) fn load() -> CuFile {
                // SAFETY: the simulator does nothing when it is loaded, and the types are those of `cufile.h`.
                unsafe {
                    let library = Library::open(Some("libcufile.so.0"), RTLD_NOW).expect("the simulator");
                    CuFile { $($field: *library.get($symbol).expect("a function"),)* _library: library }
                }
            }
        }
    };
}

library! {
    open: b"cuFileDriverOpen\0" = fn() -> Status;
    close: b"cuFileDriverClose_v2\0" = fn() -> Status;
    close_v1: b"cuFileDriverClose\0" = fn() -> Status;
    properties: b"cuFileDriverGetProperties\0" = fn(*mut Properties) -> Status;
    version: b"cuFileGetVersion\0" = fn(*mut c_int) -> Status;
    use_count: b"cuFileUseCount\0" = fn() -> c_long;
    handle_register: b"cuFileHandleRegister\0" = fn(*mut Pointer, *const Descriptor) -> Status;
    handle_deregister: b"cuFileHandleDeregister\0" = fn(Pointer);
    buf_register: b"cuFileBufRegister\0" = fn(u64, usize, c_int) -> Status;
    buf_deregister: b"cuFileBufDeregister\0" = fn(u64) -> Status;
    read: b"cuFileRead\0" = fn(Pointer, u64, usize, i64, i64) -> isize;
    write: b"cuFileWrite\0" = fn(Pointer, u64, usize, i64, i64) -> isize;
    batch_set_up: b"cuFileBatchIOSetUp\0" = fn(*mut Pointer, c_uint) -> Status;
    batch_submit: b"cuFileBatchIOSubmit\0" = fn(Pointer, c_uint, *const Entry, c_uint) -> Status;
    batch_status: b"cuFileBatchIOGetStatus\0" =
        fn(Pointer, c_uint, *mut c_uint, *mut Event, *const libc::timespec) -> Status;
    batch_cancel: b"cuFileBatchIOCancel\0" = fn(Pointer) -> Status;
    batch_destroy: b"cuFileBatchIODestroy\0" = fn(Pointer);
}

/// The same, by values of Rust. Every test that calls it gives it what is good for what it asks, or what must be refused.
impl CuFile {
    pub(crate) fn opened() -> CuFile {
        let library = CuFile::load();
        assert_eq!(library.open(), 0);
        library
    }

    pub(crate) fn open(&self) -> c_int {
        // SAFETY: no arguments.
        unsafe { (self.open)() }.code
    }

    pub(crate) fn close(&self) -> c_int {
        // SAFETY: no arguments.
        unsafe { (self.close)() }.code
    }

    pub(crate) fn register(&self, file: &File) -> Result<Pointer, c_int> {
        let mut handle = ptr::null_mut();
        let descriptor = Descriptor { kind: 1, fd: file.as_raw_fd() as u64, operations: ptr::null_mut() };
        // SAFETY: both are there.
        match unsafe { (self.handle_register)(&mut handle, &descriptor) }.code {
            0 => Ok(handle),
            code => Err(code),
        }
    }

    pub(crate) fn deregister(&self, file: Pointer) {
        // SAFETY: a handle is a number.
        unsafe { (self.handle_deregister)(file) }
    }

    pub(crate) fn register_buffer(&self, base: u64, bytes: usize) -> c_int {
        // SAFETY: addresses are checked.
        unsafe { (self.buf_register)(base, bytes, 0) }.code
    }

    pub(crate) fn deregister_buffer(&self, base: u64) -> c_int {
        // SAFETY: addresses are checked.
        unsafe { (self.buf_deregister)(base) }.code
    }

    pub(crate) fn read(&self, file: Pointer, base: u64, bytes: usize, file_offset: i64, base_offset: i64) -> isize {
        // SAFETY: addresses are checked.
        unsafe { (self.read)(file, base, bytes, file_offset, base_offset) }
    }

    pub(crate) fn write(&self, file: Pointer, base: u64, bytes: usize, file_offset: i64, base_offset: i64) -> isize {
        // SAFETY: addresses are checked.
        unsafe { (self.write)(file, base, bytes, file_offset, base_offset) }
    }

    pub(crate) fn batch(&self, entries: usize) -> Result<Pointer, c_int> {
        let mut batch = ptr::null_mut();
        // SAFETY: there is room for the handle.
        match unsafe { (self.batch_set_up)(&mut batch, entries as c_uint) }.code {
            0 => Ok(batch),
            code => Err(code),
        }
    }

    pub(crate) fn submit(&self, batch: Pointer, entries: &[Entry]) -> c_int {
        // SAFETY: there are so many.
        unsafe { (self.batch_submit)(batch, entries.len() as c_uint, entries.as_ptr(), 0) }.code
    }

    /// What is done when `least` are, or after so many milliseconds.
    pub(crate) fn wait(&self, batch: Pointer, least: usize, milliseconds: Option<i64>) -> Vec<Event> {
        let mut events = vec![Event::default(); 1024];
        let mut count = events.len() as c_uint;
        let timeout = milliseconds.map(|time| libc::timespec { tv_sec: time / 1000, tv_nsec: time % 1000 * 1_000_000 });
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: there is room for as many as it says.
        let answer = unsafe { (self.batch_status)(batch, least as c_uint, &mut count, events.as_mut_ptr(), timeout) };
        assert_eq!(answer.code, 0);
        events.truncate(count as usize);
        events.sort();
        events
    }

    pub(crate) fn cancel(&self, batch: Pointer) -> c_int {
        // SAFETY: a handle is a number.
        unsafe { (self.batch_cancel)(batch) }.code
    }

    pub(crate) fn destroy(&self, batch: Pointer) {
        // SAFETY: a handle is a number.
        unsafe { (self.batch_destroy)(batch) }
    }

    /// Submit, wait for all and destroy.
    pub(crate) fn all(&self, entries: &[Entry]) -> Vec<Event> {
        let batch = self.batch(entries.len()).expect("a batch");
        assert_eq!(self.submit(batch, entries), 0);
        let done = self.wait(batch, entries.len(), None);
        self.destroy(batch);
        done
    }
}

pub(crate) fn done(cookie: usize, bytes: usize) -> Event {
    Event { cookie, status: COMPLETE, result: bytes as isize }
}

pub(crate) fn failed(cookie: usize, result: isize) -> Event {
    Event { cookie, status: FAILED, result }
}
