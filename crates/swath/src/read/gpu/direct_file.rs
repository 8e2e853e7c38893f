//! Files that the device reads without the host, through cuFile.

use std::sync::{Arc, Mutex, PoisonError};

use swath_gpu::{DeviceFile, Gpu, Storage};
use swath_io::Source;

/// The registration of one file with cuFile, shared by all reads of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct DirectFile(Arc<Mutex<Option<Arc<DeviceFile>>>>);

/// Why a device does not read a file directly, although the caller asked for it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DirectReadError {
    #[error("only local files can be read by cuFile")]
    NotLocal,
    #[error("an earlier transfer of this file did not finish")]
    Stalled,
    #[error("{decoder} takes compressed bytes from the host")]
    FedByHost { decoder: String },
    #[error(transparent)]
    Device(#[from] swath_gpu::Error),
}

impl DirectFile {
    /// Registers the file once, however often it is read. Returns `None` when the host reads it.
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
        // Every further window would wait in vain for a file whose transfer did not finish once.
        if known.as_ref().is_some_and(|known| known.is_for(gpu) && !known.is_alive()) {
            return read_by_host(DirectReadError::Stalled);
        }
        // A file that was opened on request may go through host memory, which is of no use unless requested again.
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
