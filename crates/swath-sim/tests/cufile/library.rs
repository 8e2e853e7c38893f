//! The functions of `libcufile.so.0`, declared again from the header of cuFile and independently of the
//! simulator.

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

/// A `CUfileDescr_t` of a file by its descriptor.
#[repr(C)]
pub(crate) struct Descriptor {
    pub(crate) kind: c_int,
    pub(crate) fd: u64,
    pub(crate) operations: Pointer,
}

/// A read or a write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) base: u64,
    pub(crate) file_offset: i64,
    pub(crate) base_offset: i64,
    pub(crate) bytes: usize,
    pub(crate) file: Pointer,
    pub(crate) write: bool,
}

// SAFETY: a handle is a number.
unsafe impl Send for Entry {}
// SAFETY: as above.
unsafe impl Sync for Entry {}

macro_rules! library {
    ($($field:ident: $symbol:literal = fn($($argument:ty),*) $(-> $answer:ty)?;)*) => {
        /// The functions, in a process that has the simulator.
        pub(crate) struct CuFile {
            $(pub(crate) $field: unsafe extern "C" fn($($argument),*) $(-> $answer)?,)*
            _library: Library,
        }

        impl CuFile {
            pub(crate) fn load() -> CuFile {
                // SAFETY: the simulator has no initialisers, and the types are those of `cufile.h`.
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
}

/// The same functions with Rust types. Every test passes valid arguments, or arguments that must be refused.
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
        // SAFETY: both exist.
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

    /// Runs transfers one after another and returns the result of each. If the system failed, the result is its
    /// error number, negated.
    pub(crate) fn all(&self, entries: &[Entry]) -> Vec<isize> {
        entries.iter().map(|entry| self.one(entry)).collect()
    }

    pub(crate) fn one(&self, entry: &Entry) -> isize {
        let Entry { file, base, bytes, file_offset, base_offset, write } = *entry;
        let moved = match write {
            false => self.read(file, base, bytes, file_offset, base_offset),
            true => self.write(file, base, bytes, file_offset, base_offset),
        };
        let errno = || std::io::Error::last_os_error().raw_os_error().expect("a number");
        if moved == -1 { -(errno() as isize) } else { moved }
    }
}
