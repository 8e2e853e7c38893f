//! The part of nvJPEG 12.4 that Swath uses, as `nvjpeg.h` declares it, implemented with `swath-codec`.

mod decode;
mod encode;
mod header;

use std::ffi::{c_int, c_uint, c_void};

use crate::cudart;
use crate::event::record;
use crate::fail;
use crate::picture::{Handles, Outcome, Plane, Status, answer, here, misuse, property};

/// The version of the library.
const VERSION: [c_int; 3] = [12, 4, 0];

/// Library handles have no content.
static LIBRARIES: Handles<()> = Handles::new();

/// The location of a picture in device memory: `nvjpegImage_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Image {
    channel: [*const c_void; 4],
    pitch: [usize; 4],
}

impl Image {
    /// Returns the first planes, with rows of that many bytes.
    fn planes(&self, call: &str, count: usize, row: usize, rows: usize) -> Outcome<Vec<Plane>> {
        let channels = self.channel.iter().zip(self.pitch).take(count);
        channels.map(|(&at, pitch)| Plane::new(call, at, pitch, row, rows, 1)).collect()
    }
}

// Callers of the C interface pass every function of this library the pointers that the manual requires: null,
// or valid for the read or write. Each comment `SAFETY: by the manual` refers to this.

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpegGetProperty(which: c_int, value: *mut c_int) -> c_int {
    // SAFETY: by the manual.
    answer(unsafe { property(which, value, VERSION) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpegGetCudartProperty(which: c_int, value: *mut c_int) -> c_int {
    // SAFETY: by the manual.
    answer(unsafe { property(which, value, cudart::parts()) })
}

/// Unlike a handle of nvJPEG2000, this handle needs a device.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpegCreateSimple(handle: *mut *mut c_void) -> c_int {
    // SAFETY: by the manual.
    answer(unsafe { LIBRARIES.create(handle, || here(|_, _| Ok(()))) })
}

/// The flag that refuses incomplete streams, which the simulator always does.
const STRICT: c_uint = 4;
/// The flag that interpolates smaller components, which the simulator always does.
const INTERPOLATE: c_uint = 32;

/// Custom allocators and other flags are refused: Swath does not use them.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpegCreateEx(
    backend: c_int,
    device_allocator: *const c_void,
    pinned_allocator: *const c_void,
    flags: c_uint,
    handle: *mut *mut c_void,
) -> c_int {
    const CALL: &str = "nvjpegCreateEx";
    // The default, and the backends that decode on the GPU with and without the host.
    let known = matches!(backend, 0..=2) && flags & !(STRICT | INTERPOLATE) == 0;
    record(format!("{CALL} {flags}"));
    if flags & INTERPOLATE != 0 && fail::now("jpeg-interpolate") {
        return answer(Err(Status::INVALID_PARAMETER));
    }
    let make = || match known && device_allocator.is_null() && pinned_allocator.is_null() {
        true => here(|_, _| Ok(())),
        false => Err(misuse(CALL, "a backend, an allocator or flags that the simulator does not support")),
    };
    // SAFETY: by the manual.
    answer(unsafe { LIBRARIES.create(handle, make) })
}

#[unsafe(no_mangle)]
extern "C" fn nvjpegDestroy(handle: *mut c_void) -> c_int {
    answer(LIBRARIES.remove(handle).map(|_| ()))
}
