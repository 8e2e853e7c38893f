//! DLPack: how libraries hand arrays to each other without a copy.
//!
//! The structures are those of the specification, version 1.0, and of what was before versions: the first that a consumer asks for, the
//! second where it does not say what it knows.

use std::any::Any;
use std::ffi::{CStr, c_void};
use std::ptr;

use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use swath::DType;
use swath::device::DeviceRaster;

use crate::array::zeros;
use crate::errors::to_python;

/// Kinds of devices.
pub(super) const CPU: i32 = 1;
pub(super) const CUDA: i32 = 2;
pub(super) const OPENCL: i32 = 4;
pub(super) const CUDA_MANAGED: i32 = 13;

const VERSION: Version = Version { major: 1, minor: 0 };
const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;

/// Names of capsules: as they are made, and once somebody has taken what is in them.
const LEGACY: &CStr = c"dltensor";
const LEGACY_USED: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const VERSIONED_USED: &CStr = c"used_dltensor_versioned";

#[repr(C)]
struct Version {
    major: u32,
    minor: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Place {
    kind: i32,
    id: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Kind {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Place,
    ndim: i32,
    dtype: Kind,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct ManagedVersioned {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: Tensor,
}

/// What a consumer keeps alive.
pub(super) enum Kept {
    /// A raster, and whether it was made for the consumer alone.
    Device(DeviceRaster, bool),
    /// A copy on the host: of so many bytes, from an offset at which they are aligned.
    Host(Vec<u8>, usize),
}

impl Kept {
    /// Consumers may expect memory that begins at a multiple of this.
    const ALIGNMENT: usize = 256;

    /// A copy on the host.
    pub(super) fn host(py: Python<'_>, raster: &DeviceRaster) -> PyResult<Kept> {
        py.detach(|| {
            let bytes = raster.bytes() as usize;
            let mut memory = zeros(bytes + Kept::ALIGNMENT, "the pixels of the array")?;
            let at = memory.as_ptr().align_offset(Kept::ALIGNMENT);
            raster.download(&mut memory[at..at + bytes])?;
            Ok(Kept::Host(memory, at))
        })
        .map_err(to_python)
    }

    fn data(&mut self) -> *mut c_void {
        match self {
            // An address of CUDA, a `cl_mem` of OpenCL.
            Kept::Device(raster, _) => ptr::without_provenance_mut(raster.buffer().handle() as usize),
            Kept::Host(memory, at) => memory[*at..].as_mut_ptr().cast(),
        }
    }

    fn is_copy(&self) -> bool {
        matches!(self, Kept::Host(..) | Kept::Device(_, true))
    }
}

/// What a capsule points to: the structure that consumers know, first, and what belongs to it.
#[repr(C)]
struct Exported<M> {
    managed: M,
    shape: Box<[i64]>,
    strides: Box<[i64]>,
    kept: Kept,
}

/// A capsule. What is in it lives until its consumer lets go, or until the capsule does if there is none.
pub(super) fn export<'py>(
    py: Python<'py>,
    mut kept: Kept,
    sides: &[u64],
    steps: &[u64],
    dtype: DType,
    (kind, id): (i32, i32),
    versioned: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let signed = |numbers: &[u64]| numbers.iter().map(|&n| n as i64).collect::<Box<[i64]>>();
    let (mut shape, mut strides) = (signed(sides), signed(steps));
    let tensor = Tensor {
        data: kept.data(),
        device: Place { kind, id },
        ndim: sides.len() as i32,
        dtype: kind_of(dtype)?,
        // What a box holds stays where it is when the box is moved.
        shape: shape.as_mut_ptr(),
        strides: strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let context = ptr::null_mut();
    if versioned {
        let flags = if kept.is_copy() { IS_COPIED } else { 0 };
        let deleter = Some(delete::<ManagedVersioned> as unsafe extern "C" fn(*mut ManagedVersioned));
        let managed = ManagedVersioned { version: VERSION, context, deleter, flags, tensor };
        capsule(py, Exported { managed, shape, strides, kept }, VERSIONED)
    } else {
        let managed = Managed { tensor, context, deleter: Some(delete::<Managed>) };
        capsule(py, Exported { managed, shape, strides, kept }, LEGACY)
    }
}

fn capsule<'py, M>(py: Python<'py>, exported: Exported<M>, name: &'static CStr) -> PyResult<Bound<'py, PyAny>> {
    let pointer = Box::into_raw(Box::new(exported));
    // SAFETY: the name is static and the pointer is not null; a new reference comes back, or null with an exception set.
    unsafe {
        let made = ffi::PyCapsule_New(pointer.cast(), name.as_ptr(), Some(abandoned));
        if made.is_null() {
            drop(Box::from_raw(pointer));
        }
        Bound::from_owned_ptr_or_err(py, made)
    }
}

/// The consumer lets go: any thread may call this, with the GIL or without.
unsafe extern "C" fn delete<M>(managed: *mut M) {
    // SAFETY: consumers call this once, with the pointer that was in the capsule: that of the first field of a box made by `capsule`.
    drop(unsafe { Box::from_raw(managed.cast::<Exported<M>>()) });
}

/// A capsule goes. If nobody has taken what is in it, which its name tells, that goes too.
unsafe extern "C" fn abandoned(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with a capsule that `capsule` made, so that what is in it is what its name says.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            delete::<ManagedVersioned>(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        } else if ffi::PyCapsule_IsValid(capsule, LEGACY.as_ptr()) == 1 {
            delete::<Managed>(ffi::PyCapsule_GetPointer(capsule, LEGACY.as_ptr()).cast());
        }
    }
}

/// An array of another library. It is alive until this is dropped.
pub(super) struct Imported {
    pub(super) address: u64,
    pub(super) dtype: DType,
    pub(super) sides: Vec<u64>,
    /// From an element to the next on each axis, in elements.
    pub(super) steps: Option<Vec<i64>>,
    /// Whether its library marks the array as read-only.
    pub(super) read_only: bool,
    /// What keeps it.
    pub(super) owner: Box<dyn Any + Send + Sync>,
}

/// What came out of a capsule: the other library's, until it is told that nobody needs it.
enum Consumed {
    Legacy(*mut Managed),
    Versioned(*mut ManagedVersioned),
}

// SAFETY: deleters of DLPack may be called from any thread; they take the GIL themselves if they need it.
unsafe impl Send for Consumed {}
// SAFETY: nothing can be done with a shared reference.
unsafe impl Sync for Consumed {}

impl Consumed {
    /// Whether the array must not be written to. Structures without a version cannot say that.
    fn is_read_only(&self) -> bool {
        match *self {
            Consumed::Legacy(_) => false,
            // SAFETY: the structure lives until this is dropped, and is not changed.
            Consumed::Versioned(managed) => unsafe { (*managed).flags & READ_ONLY != 0 },
        }
    }
}

impl Drop for Consumed {
    fn drop(&mut self) {
        // SAFETY: the structure came from a capsule that was marked as used, so that it is ours to delete, once.
        unsafe {
            match *self {
                Consumed::Legacy(managed) => {
                    if let Some(deleter) = (*managed).deleter {
                        deleter(managed);
                    }
                }
                Consumed::Versioned(managed) => {
                    if let Some(deleter) = (*managed).deleter {
                        deleter(managed);
                    }
                }
            }
        }
    }
}

/// Take an array from an object on a CUDA device; `None` if it is none that DLPack knows, or on another kind of device, or if the object has
/// a `__cuda_array_interface__` and its `__dlpack__` takes no stream or has no such type. The object orders what was to write to it before
/// `stream`.
pub(super) fn import(object: &Bound<'_, PyAny>, stream: u64) -> PyResult<Option<Imported>> {
    let py = object.py();
    let (Some(place), true) = (object.getattr_opt("__dlpack_device__")?, object.hasattr("__dlpack__")?) else {
        return Ok(None);
    };
    let (kind, _): (i32, i32) = place.call0()?.extract()?;
    if !matches!(kind, CUDA | CUDA_MANAGED) {
        return Ok(None);
    }
    let arguments = pyo3::types::PyDict::new(py);
    arguments.set_item("stream", stream)?;
    arguments.set_item("max_version", (VERSION.major, VERSION.minor))?;
    let capsule = object.call_method("__dlpack__", (), Some(&arguments)).or_else(|error| {
        // Older libraries do not know of versions.
        if !error.is_instance_of::<PyTypeError>(py) {
            return Err(error);
        }
        arguments.del_item("max_version")?;
        object.call_method("__dlpack__", (), Some(&arguments))
    });
    let capsule = match capsule {
        Err(error) if error.is_instance_of::<PyTypeError>(py) && object.hasattr("__cuda_array_interface__")? => {
            return Ok(None);
        }
        other => other?,
    };
    let (owner, tensor) = consume(&capsule)?;
    let read_only = owner.is_read_only();
    // SAFETY: the owner keeps the structure, which nobody changes.
    let tensor = unsafe { &*tensor };
    if !matches!(tensor.device.kind, CUDA | CUDA_MANAGED) {
        return Err(PyBufferError::new_err("the DLPack capsule is not of the device that its array said"));
    }
    let Kind { code, bits, lanes } = tensor.dtype;
    let letter = match (code, lanes) {
        (0, 1) => 'i',
        (1, 1) => 'u',
        (2, 1) => 'f',
        (5, 1) => 'c',
        (6, 1) => 'b',
        _ => return Err(PyTypeError::new_err(format!("samples of DLPack type {code} cannot be in a TIFF file"))),
    };
    let dtype = super::dtype_of(letter, usize::from(bits) / 8)?;
    let axes = usize::try_from(tensor.ndim).unwrap_or(0);
    // SAFETY: by the specification there are so many numbers, or no strides at all.
    let (sides, steps) = unsafe {
        let steps = (!tensor.strides.is_null()).then(|| std::slice::from_raw_parts(tensor.strides, axes).to_vec());
        let sides = if axes == 0 { &[][..] } else { std::slice::from_raw_parts(tensor.shape, axes) };
        (sides.iter().map(|&side| side.max(0) as u64).collect(), steps)
    };
    let address = (tensor.data.addr() as u64).wrapping_add(tensor.byte_offset);
    Ok(Some(Imported { address, dtype, sides, steps, read_only, owner: Box::new(owner) }))
}

/// Take what is in a capsule, so that nobody else does.
fn consume(capsule: &Bound<'_, PyAny>) -> PyResult<(Consumed, *const Tensor)> {
    let object = capsule.as_ptr();
    // SAFETY: the object is alive, and what a capsule of such a name holds is what the specification says. Once it is renamed it is ours.
    unsafe {
        if ffi::PyCapsule_IsValid(object, VERSIONED.as_ptr()) == 1 {
            let managed: *mut ManagedVersioned = ffi::PyCapsule_GetPointer(object, VERSIONED.as_ptr()).cast();
            rename(object, VERSIONED_USED)?;
            let owner = Consumed::Versioned(managed);
            // The beginning, with the deleter, is the same in all versions; what follows is not.
            if (*managed).version.major != VERSION.major {
                let found = (*managed).version.major;
                return Err(PyBufferError::new_err(format!(
                    "the array comes as version {found} of DLPack, which is not 1"
                )));
            }
            return Ok((owner, &raw const (*managed).tensor));
        }
        if ffi::PyCapsule_IsValid(object, LEGACY.as_ptr()) == 1 {
            let managed: *mut Managed = ffi::PyCapsule_GetPointer(object, LEGACY.as_ptr()).cast();
            rename(object, LEGACY_USED)?;
            return Ok((Consumed::Legacy(managed), &raw const (*managed).tensor));
        }
    }
    Err(PyValueError::new_err("__dlpack__ gave no capsule that can be used: it is used up, or no DLPack capsule"))
}

/// # Safety
/// The object is a capsule.
unsafe fn rename(capsule: *mut ffi::PyObject, name: &'static CStr) -> PyResult<()> {
    // SAFETY: the caller's promise, and the name is static.
    match unsafe { ffi::PyCapsule_SetName(capsule, name.as_ptr()) } {
        0 => Ok(()),
        _ => Python::attach(|py| Err(PyErr::fetch(py))),
    }
}

fn kind_of(dtype: DType) -> PyResult<Kind> {
    let code = match super::kind_of(dtype) {
        'i' => 0,
        'u' => 1,
        'f' => 2,
        'c' => 5,
        _ => return Err(PyBufferError::new_err(format!("DLPack knows no samples of {dtype}"))),
    };
    Ok(Kind { code, bits: dtype.size() as u8 * 8, lanes: 1 })
}
