//! numpy arrays as bytes.

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use swath::DType;

/// The bytes of a C-contiguous array in native byte order, and what they are. The array is alive as long as the caller holds it.
#[derive(Clone, Copy)]
pub(crate) struct Bytes {
    pub(crate) pointer: *mut u8,
    pub(crate) len: usize,
    pub(crate) dtype: DType,
}

// SAFETY: it is an address; those who read or write there say why they may.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// The bytes of an array.
    pub(crate) fn of(array: &Bound<'_, PyUntypedArray>) -> PyResult<Bytes> {
        if !array.is_c_contiguous() {
            return Err(PyValueError::new_err("the array is not C-contiguous"));
        }
        let dtype = dtype_of(array)?;
        // SAFETY: the array is alive, so its header can be read.
        let pointer = unsafe { (*array.as_array_ptr()).fields.data.cast::<u8>() };
        Ok(Bytes { pointer, len: array.len() * dtype.size(), dtype })
    }

    /// The bytes of an array that is to be written to.
    pub(crate) fn writable(array: &Bound<'_, PyUntypedArray>) -> PyResult<Bytes> {
        // SAFETY: the array is alive, so its header can be read.
        if unsafe { (*array.as_array_ptr()).fields.flags } & numpy::npyffi::NPY_ARRAY_WRITEABLE == 0 {
            return Err(PyValueError::new_err("the array is read-only"));
        }
        Bytes::of(array)
    }

    /// The address of a sample.
    ///
    /// # Safety
    /// The array must have so many.
    pub(crate) unsafe fn at<T>(self, sample: usize) -> *mut T {
        // SAFETY: inside the array, as the caller promises.
        unsafe { self.pointer.cast::<T>().add(sample) }
    }

    /// The bytes, to read.
    ///
    /// # Safety
    /// The array must be alive, and nobody may write to it meanwhile.
    pub(crate) unsafe fn slice<'a>(self) -> &'a [u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the pointer and the length are those of a live array; the caller promises the rest.
        unsafe { std::slice::from_raw_parts(self.pointer, self.len) }
    }

    /// The bytes, to write.
    ///
    /// # Safety
    /// The array must be alive and writable, and nobody else may use it meanwhile.
    pub(crate) unsafe fn slice_mut<'a>(self) -> &'a mut [u8] {
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: the pointer and the length are those of a live array; the caller promises the rest.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.len) }
    }
}

/// The engine's type of an array's elements.
pub(crate) fn dtype_of(array: &Bound<'_, PyUntypedArray>) -> PyResult<DType> {
    let descr = array.dtype();
    if descr.is_native_byteorder() == Some(false) {
        return Err(PyValueError::new_err("the array is not in native byte order"));
    }
    named(&match descr.kind() {
        b'b' => "uint8".to_owned(),
        b'u' => format!("uint{}", descr.itemsize() * 8),
        b'i' => format!("int{}", descr.itemsize() * 8),
        b'f' => format!("float{}", descr.itemsize() * 8),
        b'c' => format!("complex{}", descr.itemsize() * 8),
        _ => descr.to_string(),
    })
}

/// The type of a name.
pub(crate) fn named(name: &str) -> PyResult<DType> {
    DType::ALL
        .into_iter()
        .find(|dtype| dtype.name() == name)
        .ok_or_else(|| PyTypeError::new_err(format!("samples of type {name} cannot be in a TIFF file")))
}

/// Returns this many zeros.
///
/// # Errors
/// [`swath::Error::OutOfMemory`], where `what` names the contents in the plural.
pub(crate) fn zeros(len: usize, what: &'static str) -> swath::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| swath::Error::OutOfMemory { bytes: len as u64, what })?;
    bytes.resize(len, 0);
    Ok(bytes)
}
