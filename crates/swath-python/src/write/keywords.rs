//! The keyword arguments of `write`.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use swath::device::{CallerStream, DeviceSettings};
use swath::io::SyncPolicy;

use crate::device;
use crate::keywords::{self, missing};

/// The keyword arguments of `write`, `WriteKeywords` in `_swath.pyi`.
pub(super) struct WriteKeywords<'py> {
    /// Bands, height and width.
    pub(super) shape: (usize, u64, u64),
    pub(super) dtype: String,
    pub(super) bands_last: bool,
    pub(super) options: Bound<'py, PyDict>,
    pub(super) chunk_rows: Vec<u64>,
    pub(super) threads: Option<usize>,
    pub(super) buffer_bytes: Option<u64>,
    pub(super) overwrite: bool,
    pub(super) sync: SyncPolicy,
    pub(super) device: Option<String>,
    pub(super) strict: bool,
    pub(super) settings: DeviceSettings,
    /// The CUDA stream of the caller.
    pub(super) stream: Option<CallerStream>,
    pub(super) rows_on_device: bool,
    pub(super) mask: Option<Bound<'py, PyAny>>,
    pub(super) progress: Option<Bound<'py, PyAny>>,
    pub(super) sidecars: Option<Bound<'py, PyAny>>,
}

impl<'py> WriteKeywords<'py> {
    pub(super) fn new(py: Python<'py>, keywords: Option<&Bound<'py, PyDict>>) -> PyResult<WriteKeywords<'py>> {
        let (mut shape, mut dtype, mut options) = (None, None, None);
        let mut write = WriteKeywords {
            shape: (0, 0, 0),
            dtype: String::new(),
            bands_last: true,
            options: PyDict::new(py),
            chunk_rows: Vec::new(),
            threads: None,
            buffer_bytes: None,
            overwrite: true,
            sync: SyncPolicy::WhenReplacing,
            device: None,
            strict: false,
            settings: DeviceSettings::new(),
            stream: None,
            rows_on_device: false,
            mask: None,
            progress: None,
            sidecars: None,
        };
        keywords::for_each("write", keywords, |keyword| {
            match keyword.name {
                "shape" => shape = Some(keyword.value()?),
                "dtype" => dtype = Some(keyword.value()?),
                "bands_last" => write.bands_last = keyword.value()?,
                "options" => options = Some(keyword.value()?),
                "chunk_rows" => write.chunk_rows = keyword.value::<Option<_>>()?.unwrap_or_default(),
                "threads" => write.threads = keyword.value()?,
                "buffer_bytes" => write.buffer_bytes = keyword.value()?,
                "overwrite" => write.overwrite = keyword.value()?,
                "sync" => {
                    write.sync = match keyword.value::<Option<bool>>()? {
                        None => SyncPolicy::WhenReplacing,
                        Some(true) => SyncPolicy::Always,
                        Some(false) => SyncPolicy::Never,
                    }
                }
                "device" => write.device = keyword.value()?,
                "strict" => write.strict = keyword.value()?,
                "encoder" => write.settings = write.settings.encoder(keyword.choice()?),
                "storage" => write.settings = write.settings.storage(keyword.choice()?),
                "gpu_memory" => write.settings = write.settings.gpu_memory(keyword.value::<Option<u64>>()?),
                "stream" => {
                    let stream = keyword.value::<Option<Bound<'_, PyAny>>>()?;
                    write.stream = stream.as_ref().map(device::stream_of).transpose()?;
                }
                "rows_on_device" => write.rows_on_device = keyword.value()?,
                "mask" => write.mask = keyword.value()?,
                "progress" => write.progress = keyword.value()?,
                "sidecars" => write.sidecars = keyword.value()?,
                _ => return Err(keyword.unknown()),
            }
            Ok(())
        })?;
        write.shape = shape.ok_or_else(|| missing("write", "shape"))?;
        write.dtype = dtype.ok_or_else(|| missing("write", "dtype"))?;
        write.options = options.ok_or_else(|| missing("write", "options"))?;
        Ok(write)
    }
}
