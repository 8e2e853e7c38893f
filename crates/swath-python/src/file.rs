//! An opened file.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use half::f16;
use numpy::PyUntypedArray;
use pyo3::exceptions::{PyBaseException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use swath::dataset::MaskOrigin;
use swath::device::{CallerStream, DeviceSettings};
use swath::io::{LocalFile, Memory, Source};
use swath::read::{BlockCache, Cancel, Unpack};
use swath::{DType, Dataset, Image, Layout, Limits, ReadReport, ReadRequest};
use swath_codec::sample::widen_complex_int;

use crate::array::{Bytes, named as dtype_named, zeros};
use crate::errors::{exception_of, to_python};
use crate::ranges::Ranges;
use crate::{describe, device, keywords, limits, nodata, report, waiting};

/// Row start, column start, row stop, column stop.
pub(crate) type Window = (i64, i64, i64, i64);

/// The rows and columns of a window.
pub(crate) fn window_of((row, col, row_stop, col_stop): Window) -> PyResult<(Range<u64>, Range<u64>)> {
    let range = |start: i64, stop: i64| Some(u64::try_from(start).ok()?..u64::try_from(stop).ok()?);
    range(row, row_stop).zip(range(col, col_stop)).ok_or_else(|| {
        PyValueError::new_err(format!(
            "window ({row}, {col}, {row_stop}, {col_stop}) is out of range: it has negative numbers"
        ))
    })
}

/// An opened TIFF. Opening reads headers only; all threads may read at once.
#[pyclass(frozen, weakref, module = "swath._swath")]
pub(crate) struct File {
    dataset: Dataset,
    image: Image,
    /// The limits with which the file was opened, if they are not those of the process.
    limits: Option<Limits>,
}

impl File {
    /// Opens a source with the given limits, or with those of the process.
    fn with_limits(
        py: Python<'_>,
        limits: Option<&Bound<'_, PyDict>>,
        source: impl FnOnce() -> swath::Result<Arc<dyn Source>> + Send,
    ) -> PyResult<File> {
        let (own, limits) = (limits.is_some(), limits::of_file(limits)?);
        let open = || {
            let dataset = Dataset::from_source(source()?, limits.clone())?;
            let image = dataset.image(0)?;
            Ok(File { dataset, image, limits: own.then_some(limits) })
        };
        py.detach(open).map_err(to_python)
    }

    pub(crate) fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    pub(crate) fn image(&self) -> &Image {
        &self.image
    }

    /// The type that the samples have in Python: numpy has no complex integers, and half precision is read as single.
    pub(crate) fn dtype(&self) -> DType {
        match self.image.dtype() {
            DType::F16 => DType::F32,
            other => other.widened(),
        }
    }

    /// Read into a buffer of that type.
    pub(crate) fn read(&self, request: &ReadRequest<'_>, out: &mut [u8]) -> swath::Result<ReadReport> {
        let (stored, wanted) = (self.image.dtype(), self.dtype());
        if stored == wanted {
            return self.image.read_bytes_into(request, out);
        }
        let mut narrow = zeros(out.len() / wanted.size() * stored.size(), "the stored samples of this read")?;
        let report = self.image.read_bytes_into(request, &mut narrow)?;
        if stored == DType::F16 {
            for (half, single) in narrow.as_chunks::<2>().0.iter().zip(out.as_chunks_mut::<4>().0) {
                *single = f16::from_ne_bytes(*half).to_f32().to_ne_bytes();
            }
            return Ok(report);
        }
        widen_complex_int(stored, &narrow, wanted, out)
            .map_err(|cause| swath::Error::Codec { file: self.dataset.name(), cause })?;
        Ok(report)
    }
}

/// Decoded blocks of all files that are open: 5 % of the memory, as GDAL has it, and at most 1 GiB. `SWATH_CACHE_BYTES` changes it.
pub(crate) static CACHE: LazyLock<BlockCache> = LazyLock::new(|| {
    let configured = std::env::var("SWATH_CACHE_BYTES").ok().and_then(|text| text.trim().parse().ok());
    BlockCache::new(configured.unwrap_or_else(|| (memory() / 20).min(1 << 30)))
});

/// The memory of the machine; where nobody says, as much as a small one has.
fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total =
        text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    total.map_or(4 << 30, |kib| kib * 1024)
}

impl Drop for File {
    fn drop(&mut self) {
        CACHE.forget(&self.image);
    }
}

/// What to read and how: the keyword arguments of `read_into` and `read_to_device`, `ReadKeywords` in `_swath.pyi`.
pub(crate) struct ReadKeywords {
    pub(crate) window: Option<Window>,
    pub(crate) bands: Option<Vec<usize>>,
    pub(crate) level: usize,
    pub(crate) bands_last: bool,
    pub(crate) threads: Option<usize>,
    pub(crate) max_pixels: Option<u64>,
    pub(crate) device: Option<String>,
    pub(crate) strict: bool,
    pub(crate) settings: DeviceSettings,
    /// The array on a device that receives the pixels.
    pub(crate) out: Option<Py<PyAny>>,
    /// The CUDA stream of the caller.
    pub(crate) stream: Option<CallerStream>,
    /// The conversion of samples on the device.
    pub(crate) unpack: Option<Unpack>,
}

impl Default for ReadKeywords {
    fn default() -> ReadKeywords {
        ReadKeywords {
            window: None,
            bands: None,
            level: 0,
            bands_last: true,
            threads: None,
            max_pixels: None,
            device: None,
            strict: false,
            settings: DeviceSettings::new(),
            out: None,
            stream: None,
            unpack: None,
        }
    }
}

impl ReadKeywords {
    fn new(function: &'static str, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<ReadKeywords> {
        let mut read = ReadKeywords::default();
        keywords::for_each(function, keywords, |keyword| {
            match keyword.name {
                "window" => read.window = keyword.value()?,
                "bands" => read.bands = keyword.value()?,
                "level" => read.level = keyword.value()?,
                "bands_last" => read.bands_last = keyword.value()?,
                "threads" => read.threads = keyword.value()?,
                "max_pixels" => read.max_pixels = keyword.value()?,
                "device" => read.device = keyword.value()?,
                "strict" => read.strict = keyword.value()?,
                "decoder" => read.settings = read.settings.decoder(keyword.choice()?),
                "storage" => read.settings = read.settings.storage(keyword.choice()?),
                "gpu_memory" => read.settings = read.settings.gpu_memory(keyword.value::<Option<u64>>()?),
                "out" if function == "read_to_device" => read.out = keyword.value()?,
                "stream" if function == "read_to_device" => {
                    let stream = keyword.value::<Option<Bound<'_, PyAny>>>()?;
                    read.stream = stream.as_ref().map(device::stream_of).transpose()?;
                }
                "unpack" if function == "read_to_device" => {
                    read.unpack = keyword.value::<Option<UnpackRule<'_>>>()?.map(unpack_of).transpose()?;
                }
                _ => return Err(keyword.unknown()),
            }
            Ok(())
        })?;
        Ok(read)
    }

    /// The request for the engine.
    pub(crate) fn request(&self, file: &File, cancel: &Cancel) -> PyResult<ReadRequest<'static>> {
        let mut request = ReadRequest::new().level(self.level).cancel(cancel).cache(&CACHE);
        request = request.layout(if self.bands_last { Layout::BandsLast } else { Layout::BandsFirst });
        if let Some(window) = self.window {
            let (rows, cols) = window_of(window)?;
            request = request.window(rows, cols);
        }
        if let Some(bands) = &self.bands {
            request = request.bands(bands.clone());
        }
        if let Some(threads) = self.threads {
            request = request.threads(threads.max(1));
        }
        // As they are now: files stay open.
        let mut limits = file.limits.clone().map_or_else(limits::current, Ok)?;
        limits.max_pixels = self.max_pixels.unwrap_or(limits.max_pixels);
        request = request.limits(limits);
        if let Some(name) = &self.device {
            request = self.on_device(request.device(device::named(name).map_err(to_python)?))?;
        }
        Ok(request.fallback(device::fallback_policy(self.strict)))
    }

    /// The rows and columns of the result.
    pub(crate) fn sides(&self, file: &File) -> PyResult<(u64, u64)> {
        if let Some(window) = self.window {
            let (rows, cols) = window_of(window)?;
            return Ok((rows.end.saturating_sub(rows.start), cols.end.saturating_sub(cols.start)));
        }
        let level = file.image().levels().nth(self.level);
        Ok(level.map_or((0, 0), |level| (level.grid.height, level.grid.width)))
    }

    /// Adds the settings of a device to a request.
    pub(crate) fn on_device(&self, request: ReadRequest<'static>) -> PyResult<ReadRequest<'static>> {
        let settings = &self.settings;
        let request = request
            .decoder(settings.chosen_decoder().map_err(to_python)?)
            .storage(settings.chosen_storage().map_err(to_python)?);
        Ok(match settings.gpu_memory_budget().map_err(to_python)? {
            Some(bytes) => request.gpu_memory_budget(bytes),
            None => request,
        })
    }
}

/// The nodata value, whether it becomes NaN, scale and offset of each band or of all, the type of the result: `UnpackRule` in `_swath.pyi`.
type UnpackRule<'py> = (Option<Bound<'py, PyAny>>, bool, Vec<(f64, f64)>, String);

fn unpack_of((value, mask, factors, dtype): UnpackRule<'_>) -> PyResult<Unpack> {
    let unpack = Unpack::new().mask(mask).factors(factors).dtype(dtype_named(&dtype)?);
    Ok(match value {
        Some(value) => unpack.nodata(nodata::from_python(&value)?),
        None => unpack,
    })
}

#[pymethods]
impl File {
    /// Open a file of this machine.
    #[staticmethod]
    #[pyo3(signature = (path, limits = None))]
    fn open(py: Python<'_>, path: std::path::PathBuf, limits: Option<&Bound<'_, PyDict>>) -> PyResult<File> {
        File::with_limits(py, limits, || Ok(Arc::new(LocalFile::open(path)?)))
    }

    /// Open a file that is in memory.
    #[staticmethod]
    #[pyo3(signature = (data, limits = None))]
    fn from_bytes(py: Python<'_>, data: &[u8], limits: Option<&Bound<'_, PyDict>>) -> PyResult<File> {
        File::with_limits(py, limits, || Ok(Arc::new(Memory::new(data))))
    }

    /// Open what an object of Python reads.
    #[staticmethod]
    #[pyo3(signature = (ranges, limits = None))]
    fn from_ranges(py: Python<'_>, ranges: &Bound<'_, PyAny>, limits: Option<&Bound<'_, PyDict>>) -> PyResult<File> {
        let ranges = Ranges::new(ranges)?;
        File::with_limits(py, limits, || Ok(Arc::new(ranges)))
    }

    #[getter]
    fn width(&self) -> u64 {
        self.image.width()
    }

    #[getter]
    fn height(&self) -> u64 {
        self.image.height()
    }

    #[getter]
    fn bands(&self) -> usize {
        self.image.bands()
    }

    #[getter(dtype)]
    fn dtype_name(&self) -> &'static str {
        self.dtype().name()
    }

    /// `(height, width, rows of a block, columns of a block)` of each level.
    #[getter]
    pub(crate) fn levels(&self) -> Vec<(u64, u64, u64, u64)> {
        let size = |grid: &swath::tiff::BlockGrid| (grid.height, grid.width, grid.block_height, grid.block_width);
        self.image.levels().map(|layout| size(&layout.grid)).collect()
    }

    /// Overview and mask files beside the file that exist but cannot be read: name and exception of each.
    fn unreadable_sidecars(&self, py: Python<'_>) -> Vec<(String, Py<PyBaseException>)> {
        let sidecars = self.dataset.unreadable_sidecars().iter();
        sidecars.map(|sidecar| (sidecar.name.clone(), exception_of(&sidecar.error).into_value(py))).collect()
    }

    /// All that is known of the file but its pixels.
    fn describe<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        describe::describe(py, self)
    }

    /// Decode into an array.
    #[pyo3(signature = (out, **keywords))]
    fn read_into<'py>(
        &self,
        py: Python<'py>,
        out: &Bound<'_, PyUntypedArray>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let keywords = ReadKeywords::new("read_into", keywords)?;
        let bytes = Bytes::writable(out)?;
        if bytes.dtype != self.dtype() {
            let (found, wanted) = (bytes.dtype.name(), self.dtype().name());
            return Err(PyValueError::new_err(format!("the array holds {found}, the file has {wanted} samples")));
        }
        let cancel = Cancel::new();
        let request = keywords.request(self, &cancel)?;
        let done = waiting::run(py, bytes.len, &cancel, || {
            // SAFETY: the array is alive and writable until the call ends. That nobody else uses it meanwhile is for the caller to see to,
            // as with every function that fills an array without the GIL.
            self.read(&request, unsafe { bytes.slice_mut() })
        })?;
        report::of_read(py, &done)
    }

    /// Decode onto a device, where the pixels stay.
    #[pyo3(signature = (**keywords))]
    fn read_to_device<'py>(
        &self,
        py: Python<'py>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyDict>)> {
        let mut keywords = ReadKeywords::new("read_to_device", keywords)?;
        let device = keywords.device.take();
        device::read(py, self, &keywords, device.as_deref())
    }

    /// Which pixels are valid, 255 or 0, by a mask in the file or beside it; False when there is none, and `out` is as it was.
    #[pyo3(signature = (out, *, window = None, level = 0))]
    fn read_mask_into(
        &self,
        py: Python<'_>,
        out: &Bound<'_, PyUntypedArray>,
        window: Option<Window>,
        level: usize,
    ) -> PyResult<bool> {
        let bytes = Bytes::writable(out)?;
        if self.image.mask_origin() != MaskOrigin::MaskImage {
            return Ok(false);
        }
        let cancel = Cancel::new();
        let keywords = ReadKeywords { window, level, ..ReadKeywords::default() };
        let request = keywords.request(self, &cancel)?;
        let mask = waiting::run(py, bytes.len, &cancel, || self.image.read_mask(&request))?;
        if bytes.dtype != DType::U8 || bytes.len != mask.values.len() {
            return Err(PyValueError::new_err(format!("the mask has {} bytes, out {}", mask.values.len(), bytes.len)));
        }
        // SAFETY: the array is alive and writable until the call ends; the GIL is held.
        unsafe { bytes.slice_mut() }.copy_from_slice(&mask.values);
        Ok(true)
    }

    fn __repr__(&self) -> String {
        let (image, dtype) = (&self.image, self.dtype());
        format!(
            "<swath File {}: {} x {} x {} {}>",
            self.dataset.name(),
            image.height(),
            image.width(),
            image.bands(),
            dtype.name()
        )
    }
}
