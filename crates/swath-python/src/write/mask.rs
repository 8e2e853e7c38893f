//! The validity mask that Python gives with the pixels of a write.

use std::ops::Range;

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use swath::RowSource;
use swath::device::DeviceRaster;
use swath::write::ImageShape;

use crate::array::Bytes;

/// Where the mask of a write comes from.
#[derive(Clone, Copy)]
pub(super) enum Mask {
    /// The file gets no mask.
    Absent,
    /// An array of the whole image.
    Array(Bytes),
    /// The producer of rows returns the rows of the mask with the pixels.
    WithRows,
}

impl Mask {
    /// Parses the keyword `mask` for an image of this size.
    pub(super) fn of(mask: Option<&Bound<'_, PyAny>>, height: u64, width: u64) -> PyResult<Mask> {
        let Some(mask) = mask else { return Ok(Mask::Absent) };
        Ok(match mask.extract::<bool>() {
            Ok(true) => Mask::WithRows,
            Ok(false) => Mask::Absent,
            Err(_) => Mask::Array(bytes_of(mask, height, width)?),
        })
    }

    pub(super) fn is_written(&self) -> bool {
        !matches!(self, Mask::Absent)
    }

    /// The mask of a source that is an array.
    pub(super) fn for_array(&self) -> PyResult<Option<Bytes>> {
        match self {
            Mask::Absent => Ok(None),
            Mask::Array(bytes) => Ok(Some(*bytes)),
            Mask::WithRows => Err(PyTypeError::new_err(
                "mask=True is for a source that makes rows; with an array, pass the mask as a (height, width) array",
            )),
        }
    }

    /// Whether a source that makes rows returns a mask with them.
    pub(super) fn for_rows(&self) -> PyResult<bool> {
        match self {
            Mask::Absent => Ok(false),
            Mask::WithRows => Ok(true),
            Mask::Array(_) => Err(PyTypeError::new_err(
                "a mask array is for a source that is an array; a source that makes rows returns (pixels, mask), with \
                 mask=True",
            )),
        }
    }
}

/// The bytes of a mask of `height` x `width` pixels. The array is alive as long as the caller holds it.
pub(super) fn bytes_of(mask: &Bound<'_, PyAny>, height: u64, width: u64) -> PyResult<Bytes> {
    let Ok(array) = mask.cast::<PyUntypedArray>() else {
        let kind = mask.get_type().name()?;
        return Err(PyTypeError::new_err(format!("the mask must be a numpy array of uint8, not {kind}")));
    };
    let descr = array.dtype();
    if descr.itemsize() != 1 || !matches!(descr.kind(), b'u' | b'b') {
        return Err(PyTypeError::new_err(format!("the mask must hold uint8, not {descr}")));
    }
    if !array.shape().iter().map(|&side| side as u64).eq([height, width]) {
        let shape = array.shape();
        return Err(PyValueError::new_err(format!(
            "the mask has shape {shape:?}, the pixels need [{height}, {width}]"
        )));
    }
    if !array.is_c_contiguous() {
        return Err(PyValueError::new_err("the mask is not C-contiguous"));
    }
    Bytes::of(array)
}

/// The pixels and the mask that a producer returned.
pub(super) fn pair<'py>(made: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    made.extract().map_err(|_| PyTypeError::new_err("with mask=True the producer of rows must return (pixels, mask)"))
}

/// A raster on a device with its mask on the host.
pub(super) struct MaskedRaster<'a> {
    pub(super) raster: DeviceRaster,
    /// A byte per pixel, 0 where there is no data.
    pub(super) mask: Option<&'a [u8]>,
}

impl RowSource for MaskedRaster<'_> {
    fn shape(&self) -> ImageShape {
        self.raster.shape()
    }

    fn read(&mut self, rows: Range<u64>, pixels: &mut [u8], mut mask: Option<&mut [u8]>) -> swath::Result<()> {
        self.raster.read(rows.clone(), pixels, mask.as_deref_mut())?;
        if let (Some(from), Some(out)) = (self.mask, mask) {
            let width = self.raster.cols() as usize;
            out.copy_from_slice(&from[rows.start as usize * width..rows.end as usize * width]);
        }
        Ok(())
    }

    fn on_device(&self) -> Option<&DeviceRaster> {
        Some(&self.raster)
    }
}
