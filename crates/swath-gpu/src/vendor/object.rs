//! Objects and versions of NVIDIA's C libraries.

use std::ffi::c_void;

use super::missing::Refusal;

/// An opaque pointer of a C library, which it calls a handle.
pub(super) type Pointer = *mut c_void;
/// A status of nvJPEG and nvJPEG2000.
pub(super) type Status = i32;

/// An object that a C library created, and destroys on drop.
#[derive(Debug)]
pub(crate) struct Object {
    pointer: Pointer,
    destroy: unsafe extern "C" fn(Pointer) -> Status,
}

// SAFETY: handles and states of these libraries belong to no thread.
unsafe impl Send for Object {}
// SAFETY: a shared reference only returns the pointer; the code that passes it on decides what threads may share.
unsafe impl Sync for Object {}

impl Object {
    /// `create` writes the pointer of the new object; `destroy` destroys the object.
    pub(super) fn new<E>(
        destroy: unsafe extern "C" fn(Pointer) -> Status,
        create: impl FnOnce(*mut Pointer) -> Result<(), E>,
    ) -> Result<Object, E> {
        let mut pointer = std::ptr::null_mut();
        create(&mut pointer)?;
        Ok(Object { pointer, destroy })
    }

    pub(super) fn pointer(&self) -> Pointer {
        self.pointer
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the object was created once, and its owner no longer uses it. Nothing could be done about an error here.
        unsafe { (self.destroy)(self.pointer) };
    }
}

/// Asks the library for the three parts of its version.
pub(super) fn semantic_version(
    call: &'static str,
    property: unsafe extern "C" fn(i32, *mut i32) -> Status,
) -> Result<([i32; 3], String), Refusal> {
    let mut parts = [0; 3];
    for (which, part) in (0..).zip(&mut parts) {
        // SAFETY: there is room for the result.
        let code = unsafe { property(which, part) };
        if code != 0 {
            return Err(Refusal::Unversioned { call, code });
        }
    }
    let [major, minor, patch] = parts;
    Ok((parts, format!("{major}.{minor}.{patch}")))
}

/// The CUDA version that a library was built for, in the notation of the driver: 12090 is 12.9.
pub(super) fn runtime_version(
    call: &'static str,
    property: unsafe extern "C" fn(i32, *mut i32) -> Status,
) -> Result<u32, Refusal> {
    let ([major, minor, _], _) = semantic_version(call, property)?;
    let number = |part: i32| u32::try_from(part).unwrap_or(0).min(999);
    Ok(number(major) * 1000 + number(minor) * 10)
}
