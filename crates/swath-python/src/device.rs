//! Pixels on a device, as Python sees them.
//!
//! A call of this module returns an array when the device has filled it, so its pixels can be used in any stream. When the array is freed, other
//! libraries may still use it on the device: see `use_in_stream`.

pub(crate) mod allocator;
mod dlpack;
mod foreign;
pub(crate) mod opened;
mod stream;

use pyo3::exceptions::{PyAttributeError, PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use swath::device::DeviceRaster;
use swath::read::Cancel;
use swath::{DType, Error, FallbackPolicy, RowSource};
use swath_gpu::Api;

use crate::array::{Bytes, named as dtype_named, zeros};
use crate::errors::to_python;
use crate::file::{File, ReadKeywords};
use crate::{report, waiting};

use self::dlpack::Kept;
pub(crate) use self::foreign::{Expected, raster_of, writable_raster_of};
pub(crate) use self::opened::named;
pub(crate) use self::stream::stream_of;

/// Decode onto a device: into a new array, or into `out` of the caller, which is returned.
pub(crate) fn read<'py>(
    py: Python<'py>,
    file: &File,
    keywords: &ReadKeywords,
    device: Option<&str>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyDict>)> {
    let cancel = Cancel::new();
    let mut request = keywords.on_device(keywords.request(file, &cancel)?)?;
    if let Some(stream) = &keywords.stream {
        request = request.stream(stream);
    }
    if keywords.out.is_some() && keywords.unpack.is_some() {
        return Err(PyValueError::new_err("unpack does not apply to a read into out"));
    }
    let out = keywords.out.as_ref().map(|out| out.bind(py));
    let target = match out {
        None => None,
        Some(out) => Some(raster_for(py, file, keywords, out, device)?),
    };
    let gpu = match &target {
        Some(raster) => raster.gpu().clone(),
        None => py.detach(|| opened::gpu_named(device.unwrap_or("cuda"))).map_err(to_python)?,
    };
    if let Some(stream) = &keywords.stream {
        // In this thread, whose default stream it may be.
        py.detach(|| gpu.follow_stream(stream)).map_err(|error| to_python(error.into()))?;
    }
    let dtype = file.image().dtype();
    let (raster, done) = waiting::run(py, usize::MAX, &cancel, || {
        if dtype.widened() != dtype {
            let reason = "no kernel makes complex floats of complex integers".into();
            return Err(Error::Fallback { stage: "widening", reason });
        }
        match (&target, &keywords.unpack) {
            (Some(raster), _) => Ok((None, file.image().read_into_device(&request, raster)?)),
            (None, Some(unpack)) => {
                file.image().read_to_device_unpacked(&request, unpack, &gpu).map(|(raster, done)| (Some(raster), done))
            }
            (None, None) => file.image().read_to_device(&request, &gpu).map(|(raster, done)| (Some(raster), done)),
        }
    })?;
    // An array of another library may need the GIL to be released, which is held here.
    drop(target);
    let array = match (raster, out) {
        (Some(raster), _) => Bound::new(py, DeviceArray { raster })?.into_any(),
        (None, Some(out)) => out.clone(),
        (None, None) => py.None().into_bound(py),
    };
    Ok((array, report::of_read(py, &done)?))
}

/// The raster of the array that a read fills, on the device that the caller names, if any.
fn raster_for(
    py: Python<'_>,
    file: &File,
    keywords: &ReadKeywords,
    out: &Bound<'_, PyAny>,
    device: Option<&str>,
) -> PyResult<DeviceRaster> {
    let (rows, cols) = keywords.sides(file)?;
    let bands = keywords.bands.as_ref().map_or(file.image().bands(), Vec::len);
    let expected = Expected { dtype: file.image().dtype(), bands, rows, cols, bands_last: keywords.bands_last };
    let raster = writable_raster_of(out, &expected, keywords.stream.as_ref())?;
    if let Some(device) = device {
        let wanted = py.detach(|| opened::gpu_named(device)).map_err(to_python)?;
        if !wanted.is(raster.gpu()) {
            let found = name_of(&raster);
            return Err(PyValueError::new_err(format!("out is on {found}, and the read is to be on {device}")));
        }
    }
    Ok(raster)
}

/// The name of the device that holds a raster.
fn name_of(raster: &DeviceRaster) -> String {
    let info = raster.gpu().info();
    format!("{}:{}", info.api.name(), info.index)
}

/// The policy that Python calls strict or not.
pub(crate) fn fallback_policy(strict: bool) -> FallbackPolicy {
    if strict { FallbackPolicy::Strict } else { FallbackPolicy::Auto }
}

/// The part of a read that the CPU takes over after the device failed as a whole; None if the error is final.
#[pyfunction]
pub(crate) fn read_again_on_cpu(strict: bool) -> Option<&'static str> {
    fallback_policy(strict).read_again_on_cpu()
}

/// The part of a write that the CPU takes over after the device failed as a whole; None if the error is final.
#[pyfunction]
pub(crate) fn write_again_on_cpu(strict: bool) -> Option<&'static str> {
    fallback_policy(strict).write_again_on_cpu()
}

/// Copy the rows of a raster to the host, all bands of each pixel side by side.
pub(crate) fn download(py: Python<'_>, mut raster: DeviceRaster, out: &mut [u8]) -> PyResult<()> {
    let rows = raster.rows();
    py.detach(|| raster.read(0..rows, out, None)).map_err(to_python)
}

/// Put rows that Python made, there or on another device or on the host, into the first rows of a raster.
pub(crate) fn put_rows(
    py: Python<'_>,
    made: &Bound<'_, PyAny>,
    expected: &Expected,
    raster: &DeviceRaster,
) -> PyResult<()> {
    let put = |pixels: &[u8]| raster.put(0..raster.bands(), 0..expected.rows, 0..raster.cols(), pixels);
    let put = |pixels: &[u8]| py.detach(|| put(pixels)).map_err(|error| to_python(error.into()));
    match raster_of(made, expected, None)? {
        Some(from) if from.gpu().is(raster.gpu()) && (from.bands_last() || from.bands() == 1) => {
            py.detach(|| raster.copy_rows_from(&from)).map_err(|error| to_python(error.into()))
        }
        Some(from) => {
            let mut pixels = zeros(from.bytes() as usize, "the rows of the producer").map_err(to_python)?;
            download(py, from, &mut pixels)?;
            put(&pixels)
        }
        None => {
            let array = made.cast().map_err(|_| PyTypeError::new_err("the producer of rows gave no array"))?;
            let bytes = Bytes::of(array)?;
            let needed = expected.rows * expected.cols * (expected.bands * expected.dtype.size()) as u64;
            if (bytes.len as u64, bytes.dtype) != (needed, expected.dtype) {
                return Err(PyValueError::new_err("the producer of rows gave an array of another size or type"));
            }
            // SAFETY: the array is alive, and nobody else has it yet.
            put(unsafe { bytes.slice() })
        }
    }
}

/// Pixels on a device. CuPy and PyTorch take it without a copy.
#[pyclass(frozen, module = "swath._swath")]
pub(crate) struct DeviceArray {
    raster: DeviceRaster,
}

impl DeviceArray {
    pub(crate) fn raster(&self) -> &DeviceRaster {
        &self.raster
    }

    /// The sides: of one band `(y, x)`, of more `(y, x, band)` or `(band, y, x)`.
    fn sides(&self) -> Vec<u64> {
        let (bands, rows, cols) = (self.raster.bands() as u64, self.raster.rows(), self.raster.cols());
        match (bands, self.raster.bands_last()) {
            (1, _) => vec![rows, cols],
            (_, true) => vec![rows, cols, bands],
            (_, false) => vec![bands, rows, cols],
        }
    }

    /// From an element to the next on each axis, in elements.
    fn steps(&self) -> Vec<u64> {
        let sides = self.sides();
        (0..sides.len()).map(|axis| sides[axis + 1..].iter().product()).collect()
    }

    fn device(&self) -> (i32, i32) {
        let info = self.raster.gpu().info();
        let kind = match info.api {
            Api::Cuda => dlpack::CUDA,
            Api::OpenCl => dlpack::OPENCL,
            _ => dlpack::CPU,
        };
        (kind, info.index as i32)
    }
}

#[pymethods]
impl DeviceArray {
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.sides())
    }

    #[getter]
    fn ndim(&self) -> usize {
        self.sides().len()
    }

    /// Bytes from an element to the next on each axis.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let size = self.raster.dtype().size() as u64;
        PyTuple::new(py, self.steps().into_iter().map(|step| step * size))
    }

    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("numpy")?.call_method1("dtype", (self.raster.dtype().name(),))
    }

    #[getter]
    fn nbytes(&self) -> u64 {
        self.raster.bytes()
    }

    /// The device that it lies on, as `device=` takes it.
    #[getter(device)]
    fn device_name(&self) -> String {
        name_of(&self.raster)
    }

    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let address = self.raster.cuda_address().ok_or_else(|| {
            PyAttributeError::new_err(format!(
                "{} is no CUDA device: it has no __cuda_array_interface__",
                self.device_name()
            ))
        })?;
        let dict = PyDict::new(py);
        dict.set_item("shape", self.shape(py)?)?;
        dict.set_item("typestr", typestr(self.raster.dtype()))?;
        // Memory without elements has no address.
        dict.set_item("data", (if self.raster.bytes() == 0 { 0 } else { address }, false))?;
        dict.set_item("strides", py.None())?;
        dict.set_item("version", 3)?;
        // Nobody has to wait: all that wrote to it is done.
        dict.set_item("stream", py.None())?;
        Ok(dict)
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        self.device()
    }

    /// A capsule for `from_dlpack` of another library.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'_, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let own = self.device();
        check_stream(stream, own.0)?;
        let wanted = dl_device.unwrap_or(own);
        let kept = match (wanted == own, copy) {
            (true, Some(true)) => {
                let copy = py.detach(|| self.raster.duplicate());
                Kept::Device(copy.map_err(|error| to_python(error.into()))?, true)
            }
            (true, _) => Kept::Device(self.raster.clone(), false),
            (false, Some(false)) => {
                return Err(PyBufferError::new_err(
                    "an array on a device is elsewhere only as a copy, and copy is False",
                ));
            }
            (false, _) if wanted.0 == dlpack::CPU => Kept::host(py, &self.raster)?,
            (false, _) => {
                return Err(PyBufferError::new_err(format!(
                    "the array lies on {} (DLPack device {own:?}) and goes from there to the host only, not to DLPack device {wanted:?}",
                    self.device_name()
                )));
            }
        };
        let versioned = max_version.is_some_and(|(major, _)| major >= 1);
        dlpack::export(py, kept, &self.sides(), &self.steps(), self.raster.dtype(), wanted, versioned)
    }

    /// A copy on the host, as a numpy array.
    fn to_host<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let array = py.import("numpy")?.call_method1("empty", (self.shape(py)?, self.dtype(py)?))?;
        let bytes = Bytes::writable(array.cast()?)?;
        // SAFETY: the array was made here and nobody else knows it yet.
        let out = unsafe { bytes.slice_mut() };
        py.detach(|| self.raster.download(out)).map_err(|error| to_python(error.into()))?;
        Ok(array)
    }

    /// Copies to the host are asked for, never made unseen.
    #[pyo3(signature = (*_args, **_kwargs))]
    fn __array__(&self, _args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        Err(PyTypeError::new_err("the pixels are on a device: to_host() gives a numpy array of them"))
    }

    fn __len__(&self) -> usize {
        self.sides()[0] as usize
    }

    fn __repr__(&self) -> String {
        format!("<swath DeviceArray on {}: {:?} {}>", self.device_name(), self.sides(), self.raster.dtype().name())
    }
}

/// What the array API allows: None, the default streams 1 and 2, a handle, and -1 for none; of these there is nothing to do for any.
fn check_stream(stream: Option<&Bound<'_, PyAny>>, kind: i32) -> PyResult<()> {
    let Some(stream) = stream else { return Ok(()) };
    let number: i64 =
        stream.extract().map_err(|_| PyTypeError::new_err("stream must be None or the number of a stream"))?;
    match (number, kind) {
        (-1, _) => Ok(()),
        (1.., dlpack::CUDA) => Ok(()),
        (0, dlpack::CUDA) => Err(PyValueError::new_err(
            "stream 0 means the legacy default stream or that of the thread: 1 is the one, 2 the other",
        )),
        (_, dlpack::CUDA) => Err(PyValueError::new_err(format!("{number} is no stream of CUDA"))),
        _ => Err(PyBufferError::new_err("the array is on a device that has no streams of CUDA")),
    }
}

/// A type as the array interface names it.
fn typestr(dtype: DType) -> String {
    let (kind, size) = (kind_of(dtype), dtype.size());
    let order = if size == 1 {
        '|'
    } else if cfg!(target_endian = "little") {
        '<'
    } else {
        '>'
    };
    format!("{order}{kind}{size}")
}

/// The letter of a type. Complex integers, which no library has, are never here.
fn kind_of(dtype: DType) -> char {
    match dtype {
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => 'u',
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => 'i',
        DType::F16 | DType::F32 | DType::F64 => 'f',
        DType::CI16 | DType::CI32 | DType::CF32 | DType::CF64 => 'c',
    }
}

/// The type of a letter and a size in bytes.
fn dtype_of(kind: char, size: usize) -> PyResult<DType> {
    let word = match kind {
        'b' if size == 1 => return Ok(DType::U8),
        'u' => "uint",
        'i' => "int",
        'f' => "float",
        'c' => "complex",
        _ => return Err(PyTypeError::new_err(format!("samples of type {kind}{size} cannot be in a TIFF file"))),
    };
    dtype_named(&format!("{word}{}", size * 8))
}
