//! Arrays of other libraries, CuPy's and PyTorch's, as rasters: where they lie, without a copy.

use std::any::Any;

use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use swath::DType;
use swath::device::{CallerStream, DeviceRaster};
use swath_gpu::Cuda;

use super::{DeviceArray, dlpack, dtype_of, opened::gpu_named};
use crate::errors::to_python;

/// What an array has to be.
#[derive(Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) dtype: DType,
    pub(crate) bands: usize,
    pub(crate) rows: u64,
    pub(crate) cols: u64,
    /// Whether its axes are `(y, x, band)` and not `(band, y, x)`.
    pub(crate) bands_last: bool,
}

/// An array in the memory of a CUDA device.
struct Foreign {
    address: u64,
    dtype: DType,
    sides: Vec<u64>,
    /// From an element to the next on each axis, in bytes; none if there are no gaps.
    strides: Option<Vec<i64>>,
    producer: Producer,
    read_only: bool,
    owner: Box<dyn Any + Send + Sync>,
}

/// What has to end before the pixels can be read.
enum Producer {
    /// The work in this stream.
    Stream(CallerStream),
    /// The work in the stream of the array's library and in that of the caller.
    Both(CallerStream, CallerStream),
    /// The work in an unknown stream. PyTorch names none in its `__cuda_array_interface__`, and CUDA does not order Swath's streams after
    /// the default streams.
    Unknown,
}

/// The raster that an object is: a `DeviceArray`, or an array of another library on a CUDA device. `None` if it is on no device.
///
/// # Errors
/// When it is not what is expected, or has gaps: `BufferError`.
/// The work that the array's library has for it, and for the stream of the caller if there is one, comes before later work of Swath.
pub(crate) fn raster_of(
    object: &Bound<'_, PyAny>,
    expected: &Expected,
    stream: Option<&CallerStream>,
) -> PyResult<Option<DeviceRaster>> {
    if let Ok(own) = object.cast::<DeviceArray>() {
        let raster = own.get().raster();
        let found = (raster.dtype(), raster.bands(), raster.rows(), raster.cols());
        if found != (expected.dtype, expected.bands, expected.rows, expected.cols) {
            return Err(other_array(expected, raster.dtype().name(), &own.get().sides()));
        }
        if let Some(stream) = stream {
            // In this thread, whose default stream it may be.
            object.py().detach(|| raster.gpu().follow_stream(stream)).map_err(|error| to_python(error.into()))?;
        }
        return Ok(Some(raster.clone()));
    }
    let foreign = foreign_array(object, stream)?;
    foreign.map(|foreign| foreign.into_raster(object.py(), expected)).transpose()
}

/// As [`raster_of`], for an array that receives pixels.
///
/// # Errors
/// As [`raster_of`]; a TypeError if the object is on no device, a ValueError if it must not be written to.
pub(crate) fn writable_raster_of(
    out: &Bound<'_, PyAny>,
    expected: &Expected,
    stream: Option<&CallerStream>,
) -> PyResult<DeviceRaster> {
    let py = out.py();
    let raster = if out.cast::<DeviceArray>().is_ok() {
        raster_of(out, expected, stream)?
    } else {
        match foreign_array(out, stream)? {
            Some(foreign) if foreign.read_only => {
                return Err(PyValueError::new_err("out must not be written to: its library says that it is read-only"));
            }
            foreign => foreign.map(|foreign| foreign.into_raster(py, expected)).transpose()?,
        }
    };
    let raster = raster.ok_or_else(|| PyTypeError::new_err("out must be an array in the memory of a GPU"))?;
    // Axes in another order are no copy of the result.
    if raster.bands() > 1 && raster.bands_last() != expected.bands_last {
        return Err(PyBufferError::new_err("out has its axes in another order in memory than in its shape"));
    }
    Ok(raster)
}

/// The array of another library on a CUDA device; `None` if it is on no device.
fn foreign_array(object: &Bound<'_, PyAny>, stream: Option<&CallerStream>) -> PyResult<Option<Foreign>> {
    // DLPack comes first: with it, every library orders its work before a stream that the consumer chooses.
    let consumer = stream.cloned().unwrap_or_else(CallerStream::legacy);
    match dlpack::import(object, consumer.handle())? {
        Some(array) => Ok(Some(by_dlpack(array, consumer))),
        None => match object.getattr_opt("__cuda_array_interface__")? {
            Some(interface) => by_interface(object, interface.cast()?).map(|array| Some(array.ready_in(stream))),
            None => Ok(None),
        },
    }
}

/// The array of a DLPack capsule.
fn by_dlpack(array: dlpack::Imported, consumer: CallerStream) -> Foreign {
    let dlpack::Imported { address, dtype, sides, steps, read_only, owner } = array;
    let size = dtype.size() as i64;
    let strides = steps.map(|steps| steps.into_iter().map(|step| step.saturating_mul(size)).collect());
    Foreign { address, dtype, sides, strides, producer: Producer::Stream(consumer), read_only, owner }
}

/// What `__cuda_array_interface__` says, of any version from 0 to 3.
fn by_interface(object: &Bound<'_, PyAny>, interface: &Bound<'_, PyDict>) -> PyResult<Foreign> {
    let item = |name: &str| Ok::<_, PyErr>(interface.get_item(name)?.filter(|value| !value.is_none()));
    let needed = |name: &str| {
        let missing = || PyTypeError::new_err(format!("__cuda_array_interface__ says nothing of '{name}'"));
        item(name)?.ok_or_else(missing)
    };
    if item("mask")?.is_some() {
        return Err(PyTypeError::new_err("masked arrays on a device cannot be written: fill what is masked before"));
    }
    let text: String = needed("typestr")?.extract()?;
    let mut letters = text.chars();
    let (order, kind) = (letters.next().unwrap_or('?'), letters.next().unwrap_or('?'));
    let size = letters.as_str().parse().map_err(|_| PyTypeError::new_err(format!("'{text}' is no type of samples")))?;
    let dtype = dtype_of(kind, size)?;
    if !matches!(order, '|' | '=') && (order == '<') != cfg!(target_endian = "little") && size > 1 {
        return Err(PyValueError::new_err("the array is not in native byte order"));
    }
    let producer = match item("stream")? {
        None => Producer::Unknown,
        Some(stream) => match stream.extract::<u64>() {
            Ok(stream) if stream != 0 => {
                // SAFETY: by the protocol it is a default stream, or one that the array's library holds as long as the array.
                Producer::Stream(unsafe { CallerStream::new(stream, Box::new(object.clone().unbind())) })
            }
            _ => {
                return Err(PyValueError::new_err(format!(
                    "__cuda_array_interface__ has stream {stream}, which is none"
                )));
            }
        },
    };
    let (address, read_only): (u64, bool) = needed("data")?.extract()?;
    let strides = item("strides")?.map(|strides| strides.extract()).transpose()?;
    let sides = needed("shape")?.extract()?;
    Ok(Foreign { address, dtype, sides, strides, producer, read_only, owner: Box::new(object.clone().unbind()) })
}

impl Foreign {
    /// The same array, which is ready in the order of the caller's stream.
    fn ready_in(mut self, stream: Option<&CallerStream>) -> Foreign {
        self.producer = match (self.producer, stream) {
            (Producer::Stream(own), Some(stream)) => Producer::Both(own, stream.clone()),
            // The caller knows more than the interface says.
            (Producer::Unknown, Some(stream)) => Producer::Stream(stream.clone()),
            (producer, _) => producer,
        };
        self
    }

    fn into_raster(self, py: Python<'_>, expected: &Expected) -> PyResult<DeviceRaster> {
        let axes = self.axes(expected).ok_or_else(|| other_array(expected, self.dtype.name(), &self.sides))?;
        let bands_last = self.order(&axes).ok_or_else(|| {
            PyBufferError::new_err("the array has gaps or another order of axes than (y, x, band) and (band, y, x) have: make it contiguous")
        })?;
        py.detach(|| {
            let gpu = gpu_named(&format!("cuda:{}", Cuda::device_of(self.address)?))?;
            match &self.producer {
                Producer::Stream(stream) => gpu.follow_stream(stream)?,
                Producer::Both(own, stream) => {
                    gpu.follow_stream(own)?;
                    gpu.follow_stream(stream)?;
                }
                Producer::Unknown => gpu.wait_for_context()?,
            }
            let shape = (expected.bands, expected.rows, expected.cols);
            // SAFETY: the array's library says that it lies there, of this shape and order, on a device that the driver has found by the
            // address, in the primary context, as all libraries use it; Swath's work comes after what was to write to it, and the owner keeps
            // it. That nobody writes to it meanwhile is for the caller to see to, as with every function that reads an array without the GIL.
            Ok(unsafe { DeviceRaster::from_foreign(&gpu, self.address, self.dtype, shape, bands_last, self.owner)? })
        })
        .map_err(to_python)
    }

    /// Which axes the bands, the rows and the columns are, if the array is what is expected.
    fn axes(&self, expected: &Expected) -> Option<[Option<usize>; 3]> {
        let (bands, rows, cols) = (expected.bands as u64, expected.rows, expected.cols);
        let strides = self.strides.as_ref().is_none_or(|strides| strides.len() == self.sides.len());
        let axes = match (&self.sides[..], expected.bands_last) {
            (sides, _) if sides == [rows, cols] && bands == 1 => [None, Some(0), Some(1)],
            (sides, true) if sides == [rows, cols, bands] => [Some(2), Some(0), Some(1)],
            (sides, false) if sides == [bands, rows, cols] => [Some(0), Some(1), Some(2)],
            _ => return None,
        };
        (strides && self.dtype == expected.dtype).then_some(axes)
    }

    /// Whether the bands of a pixel lie side by side; `None` if there are gaps. An axis of one element may have any stride.
    fn order(&self, axes: &[Option<usize>; 3]) -> Option<bool> {
        let size = self.dtype.size() as u64;
        let side = |axis: Option<usize>| axis.map_or(1, |axis| self.sides[axis]);
        let dense = |order: [usize; 3]| {
            let mut expected = size;
            order.into_iter().rev().all(|i| {
                let stride = self.stride(axes[i]);
                let fits = side(axes[i]) <= 1 || stride.is_none_or(|stride| u64::try_from(stride) == Ok(expected));
                expected = expected.saturating_mul(side(axes[i]));
                fits
            })
        };
        // Bands, rows, columns are 0, 1, 2. Without strides the axes are in their order.
        let first = axes[0].is_none_or(|band| band == 0);
        match &self.strides {
            None => Some(!first),
            Some(_) if dense([1, 2, 0]) => Some(true),
            Some(_) => dense([0, 1, 2]).then_some(false),
        }
    }

    fn stride(&self, axis: Option<usize>) -> Option<i64> {
        Some(*self.strides.as_ref()?.get(axis?)?)
    }
}

fn other_array(expected: &Expected, dtype: &str, sides: &[u64]) -> PyErr {
    let Expected { bands, rows, cols, bands_last, .. } = *expected;
    let wanted = if bands_last { [rows, cols, bands as u64] } else { [bands as u64, rows, cols] };
    let name = expected.dtype.name();
    PyValueError::new_err(format!(
        "the array on the device is {sides:?} of {dtype}, but {wanted:?} of {name} is needed"
    ))
}
