//! The configuration of a write: how it runs.

use swath_gpu::{CallerStream, EncoderBackend, Storage};
use swath_io::SyncPolicy;

use crate::device::Device;
use crate::fallback::FallbackPolicy;
use crate::read::request::{Cancel, ProgressFn};
use crate::write::sidecars::SidecarsFn;

/// The default size of the row buffers of a write, in bytes.
pub const DEFAULT_BUFFER_BYTES: u64 = 256 << 20;

/// How a write runs: device, threads, memory, progress, cancellation, and whether to replace a file.
///
/// The configuration does not change a byte of the file, with one exception: an
/// [`encoder`](WriteConfig::encoder) on a device may make other compressed bytes than the CPU's encoder. The
/// pixels are always the same.
///
/// ```
/// use swath::{WriteConfig};
/// let config = WriteConfig::new().threads(2).buffer_bytes(64 << 20).overwrite(true);
/// ```
#[derive(Clone, Default)]
pub struct WriteConfig<'a> {
    pub(crate) overwrite: bool,
    pub(crate) sync: SyncPolicy,
    pub(crate) threads: Option<usize>,
    pub(crate) buffer_bytes: Option<u64>,
    pub(crate) device: Device,
    pub(crate) fallback: FallbackPolicy,
    pub(crate) encoder: EncoderBackend,
    pub(crate) storage: Storage,
    pub(crate) gpu_memory_budget: Option<u64>,
    /// The CUDA stream of the caller.
    pub(crate) stream: Option<CallerStream>,
    pub(crate) progress: Option<&'a ProgressFn<'a>>,
    pub(crate) cancel: Option<Cancel>,
    pub(crate) sidecars: Option<&'a SidecarsFn<'a>>,
}

impl<'a> WriteConfig<'a> {
    /// Creates the default configuration: the CPU, all cores, no file is replaced.
    pub fn new() -> Self {
        WriteConfig::default()
    }

    /// Sets whether to replace an existing file. The default is to fail with
    /// [`Error::Exists`](crate::Error::Exists).
    #[must_use]
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Sets when to wait until the file is on the disk. The default is
    /// [`SyncPolicy::WhenReplacing`](crate::io::SyncPolicy::WhenReplacing).
    #[must_use]
    pub fn sync(mut self, policy: SyncPolicy) -> Self {
        self.sync = policy;
        self
    }

    /// Sets the number of threads that encode. The default, `None`, is
    /// [`default_threads`](crate::read::default_threads).
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Sets the size of the row buffers in bytes. The default, `None`, is [`DEFAULT_BUFFER_BYTES`]. A write
    /// always holds at least one row of blocks and one chunk of the source.
    #[must_use]
    pub fn buffer_bytes(mut self, bytes: impl Into<Option<u64>>) -> Self {
        self.buffer_bytes = bytes.into();
        self
    }

    /// Sets where blocks are extracted and predicted and overviews are computed: on the CPU, or on a
    /// [`Gpu`](crate::device::Gpu).
    #[must_use]
    pub fn device(mut self, device: impl Into<Device>) -> Self {
        self.device = device.into();
        self
    }

    /// Sets what to do when the device cannot do a part of the work.
    #[must_use]
    pub fn fallback(mut self, fallback: FallbackPolicy) -> Self {
        self.fallback = fallback;
        self
    }

    /// Sets the encoder of blocks, if a device could compress them. NVIDIA's libraries and Swath's Deflate kernel
    /// make other bytes than the CPU's encoders, in the same formats.
    #[must_use]
    pub fn encoder(mut self, encoder: impl Into<EncoderBackend>) -> Self {
        self.encoder = encoder.into();
        self
    }

    /// Sets how blocks that a device compressed reach the file.
    #[must_use]
    pub fn storage(mut self, storage: Storage) -> Self {
        self.storage = storage;
        self
    }

    /// Sets the most device memory to use. The default, `None`, is all free memory. A write always needs one
    /// strip of rows and its tiles.
    #[must_use]
    pub fn gpu_memory_budget(mut self, bytes: impl Into<Option<u64>>) -> Self {
        self.gpu_memory_budget = bytes.into();
        self
    }

    /// Sets the caller's CUDA stream. The device reads the pixels after what the stream has when the write begins; the host does not wait
    /// for that. When the write returns, the device has read all pixels, and the caller may change them.
    #[must_use]
    pub fn stream(mut self, stream: &CallerStream) -> Self {
        self.stream = Some(stream.clone());
        self
    }

    /// Sets a function to call after each strip of rows. The counts of [`Progress`](crate::read::Progress)
    /// are rows.
    #[must_use]
    pub fn progress(mut self, progress: &'a ProgressFn<'a>) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Sets a function that makes additional sidecar files. They appear together with the file, or not at all. A write to
    /// something other than a file has no sidecars.
    #[must_use]
    pub fn sidecars(mut self, sidecars: &'a SidecarsFn<'a>) -> Self {
        self.sidecars = Some(sidecars);
        self
    }

    /// Sets a handle that can cancel the write.
    #[must_use]
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.cancel = Some(cancel.clone());
        self
    }
}

impl std::fmt::Debug for WriteConfig<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteConfig")
            .field("overwrite", &self.overwrite)
            .field("threads", &self.threads)
            .field("buffer_bytes", &self.buffer_bytes)
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}
