//! Files that the device reads without the host, through cuFile.

use std::sync::{Arc, Mutex, PoisonError};

use swath_gpu::{DeviceFile, Gpu, Storage};
use swath_io::Source;

/// The registration of one file with cuFile, shared by all reads of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct DirectFile(Arc<Mutex<Option<Arc<DeviceFile>>>>);

/// Why a device does not read a file directly, although the request specifies it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DirectReadError {
    #[error("cuFile reads only local files")]
    NotLocal,
    #[error("an earlier transfer of this file did not finish")]
    Stalled,
    #[error("{decoder} takes compressed bytes from the host")]
    FedByHost { decoder: String },
    #[error(transparent)]
    Device(#[from] swath_gpu::Error),
}

impl DirectFile {
    /// Registers the file on the first read and reuses the registration. Returns `None` when the host reads
    /// the file.
    ///
    /// # Errors
    /// With [`Storage::CuFile`] only, when the device cannot read the file directly.
    pub(crate) fn open(
        &self,
        source: &dyn Source,
        gpu: &Gpu,
        storage: Storage,
    ) -> Result<Option<Arc<DeviceFile>>, DirectReadError> {
        let read_by_host = |reason| if storage == Storage::CuFile { Err(reason) } else { Ok(None) };
        let Some(file) = source.file() else { return read_by_host(DirectReadError::NotLocal) };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // If a transfer of the file did not finish once, every further read would wait for it without result.
        if known.as_ref().is_some_and(|known| known.is_for(gpu) && !known.is_alive()) {
            return read_by_host(DirectReadError::Stalled);
        }
        // A file that was registered for an explicit request may go through host memory. Without such a
        // request, that has no benefit.
        let usable = |known: &Arc<DeviceFile>| known.is_for(gpu) && (storage == Storage::CuFile || known.is_direct());
        if known.as_ref().is_some_and(usable) && storage != Storage::Posix {
            return Ok(known.clone());
        }
        let opened = gpu.open_file(file, false, storage)?.map(Arc::new);
        if opened.is_some() {
            known.clone_from(&opened);
        }
        Ok(opened)
    }
}
