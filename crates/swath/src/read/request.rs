//! The request of a read: what to read, and how.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use swath_gpu::{CallerStream, CodecBackend, Storage};
use swath_tiff::Limits;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::fallback::FallbackPolicy;
use crate::read::cache::BlockCache;

/// The order of the samples in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// `(band, row, column)`: band sequential.
    #[default]
    BandsFirst,
    /// `(row, column, band)`: pixel interleaved.
    BandsLast,
}

/// What to do with a block that cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnCorrupt {
    /// Fail and name the block.
    #[default]
    Fail,
    /// Fill the block with nodata (or 0) and list it in the report.
    Fill,
}

/// A handle to cancel a read from another thread.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Creates a handle that is not cancelled.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Stops the read at its next block.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`cancel`](Cancel::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The progress of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The number of finished blocks.
    pub done: u64,
    /// The total number of blocks.
    pub total: u64,
}

pub(crate) type ProgressFn<'a> = dyn Fn(Progress) + Send + Sync + 'a;

/// Which processor decodes a read that names a GPU. With [`FallbackPolicy::Strict`] it is always the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Placement {
    /// The one that a model of their costs prefers: a few blocks go to the CPU. The report has the estimate.
    #[default]
    Fastest,
    /// The GPU.
    Device,
}

impl Placement {
    /// The placement of a request: its own, or that of the environment.
    pub(crate) fn chosen(requested: Option<Placement>) -> Result<Placement> {
        const VARIABLE: &str = "SWATH_PLACEMENT";
        match (requested, std::env::var(VARIABLE).unwrap_or_default().trim()) {
            (Some(placement), _) => Ok(placement),
            (None, "" | "fastest") => Ok(Placement::Fastest),
            (None, "device") => Ok(Placement::Device),
            (None, other) => {
                let expected = "one of fastest|device".into();
                Err(Error::Setting { name: VARIABLE, value: other.to_owned(), expected })
            }
        }
    }
}

/// What to read (window, bands, level) and how (layout, threads, limits, progress, cancellation).
///
/// ```
/// use swath::{Layout, ReadRequest};
/// let request = ReadRequest::new().window(0..256, 512..768).bands([2, 0]).layout(Layout::BandsLast).threads(2);
/// ```
#[derive(Clone, Default)]
pub struct ReadRequest<'a> {
    pub(crate) window: Option<(Range<u64>, Range<u64>)>,
    pub(crate) bands: Option<Vec<usize>>,
    pub(crate) level: usize,
    pub(crate) layout: Layout,
    pub(crate) threads: Option<usize>,
    pub(crate) on_corrupt: OnCorrupt,
    pub(crate) limits: Option<Limits>,
    pub(crate) progress: Option<&'a ProgressFn<'a>>,
    pub(crate) cancel: Option<Cancel>,
    pub(crate) device: Device,
    pub(crate) fallback: FallbackPolicy,
    pub(crate) decoder: CodecBackend,
    pub(crate) storage: Storage,
    pub(crate) gpu_memory_budget: Option<u64>,
    /// The CUDA stream of the caller.
    pub(crate) stream: Option<CallerStream>,
    pub(crate) cache: Option<BlockCache>,
    pub(crate) placement: Option<Placement>,
}

impl<'a> ReadRequest<'a> {
    /// Creates a request for the whole full resolution, all bands, band sequential.
    pub fn new() -> Self {
        ReadRequest::default()
    }

    /// Reads only these rows and columns of the level.
    #[must_use]
    pub fn window(mut self, rows: Range<u64>, cols: Range<u64>) -> Self {
        self.window = Some((rows, cols));
        self
    }

    /// Reads only these bands, counted from 0, in this order. A band may occur more than once.
    #[must_use]
    pub fn bands(mut self, bands: impl Into<Vec<usize>>) -> Self {
        self.bands = Some(bands.into());
        self
    }

    /// The requested bands; `None` means all.
    pub fn chosen_bands(&self) -> Option<&[usize]> {
        self.bands.as_deref()
    }

    /// Reads another level: 0 is the full resolution, 1 the first overview.
    #[must_use]
    pub fn level(mut self, level: usize) -> Self {
        self.level = level;
        self
    }

    /// Sets the order of the samples in the output.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Sets the number of threads, including the calling thread. The default is [`default_threads`].
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Sets what to do with blocks that cannot be decoded.
    #[must_use]
    pub fn on_corrupt(mut self, on_corrupt: OnCorrupt) -> Self {
        self.on_corrupt = on_corrupt;
        self
    }

    /// Replaces the limits that the file was opened with.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Sets a function that the worker threads call after each batch of blocks.
    #[must_use]
    pub fn progress(mut self, progress: &'a ProgressFn<'a>) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Sets where to decode: on the CPU, or on a [`Gpu`](crate::device::Gpu).
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

    /// Sets the decoder on the device, if there is a choice. See [`CodecBackend`] about files from untrusted
    /// sources.
    #[must_use]
    pub fn decoder(mut self, decoder: CodecBackend) -> Self {
        self.decoder = decoder;
        self
    }

    /// Sets how compressed bytes reach the device.
    #[must_use]
    pub fn storage(mut self, storage: Storage) -> Self {
        self.storage = storage;
        self
    }

    /// Sets the most device memory that the batches of a read may use together. The default is a quarter of the
    /// free memory, up to [`MAX_DEFAULT_GPU_MEMORY`](crate::device::MAX_DEFAULT_GPU_MEMORY). A
    /// [`DeviceRaster`](crate::device::DeviceRaster) that receives the pixels does not count.
    #[must_use]
    pub fn gpu_memory_budget(mut self, bytes: u64) -> Self {
        self.gpu_memory_budget = Some(bytes);
        self
    }

    /// Sets the caller's CUDA stream. The device begins after what the stream has when the read begins; the host does not wait for that. When
    /// the read returns, the pixels are complete: the host waits for each batch, because it must learn which blocks the device refused.
    /// Memory of a [`DeviceRaster`](crate::device::DeviceRaster) that the read returns is freed in the order of this stream. Reads to host
    /// memory ignore the stream.
    #[must_use]
    pub fn stream(mut self, stream: &CallerStream) -> Self {
        self.stream = Some(stream.clone());
        self
    }

    /// Sets whether a GPU decodes even if the CPU is estimated to be faster. The default is the environment variable
    /// `SWATH_PLACEMENT`, or else [`Placement::Fastest`].
    #[must_use]
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = Some(placement);
        self
    }

    /// Keeps decoded blocks of which the window uses only a part in `cache`, for the next window. Only reads
    /// on the CPU use the cache. Uncompressed blocks of a local file are not kept, because the operating
    /// system caches them already.
    #[must_use]
    pub fn cache(mut self, cache: &BlockCache) -> Self {
        self.cache = Some(cache.clone());
        self
    }

    /// Sets a handle that can cancel the read.
    #[must_use]
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.cancel = Some(cancel.clone());
        self
    }
}

impl std::fmt::Debug for ReadRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadRequest")
            .field("window", &self.window)
            .field("bands", &self.bands)
            .field("level", &self.level)
            .field("layout", &self.layout)
            .field("threads", &self.threads)
            .field("on_corrupt", &self.on_corrupt)
            .finish_non_exhaustive()
    }
}

/// The default number of threads of a read: `SWATH_THREADS` if it is a number above 0, else the number of
/// cores that this process may use.
pub fn default_threads() -> usize {
    /// Cached, because the query reads system files, which takes longer than reading a small window.
    static PROCESSORS: LazyLock<usize> = LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
    std::env::var("SWATH_THREADS")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .filter(|&threads| threads > 0)
        .unwrap_or_else(|| *PROCESSORS)
}
