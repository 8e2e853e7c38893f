//! CUDA streams of other libraries, in whose order Swath works.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A CUDA stream of another library, and what keeps it alive.
#[derive(Clone)]
pub struct CallerStream {
    handle: u64,
    _owner: Arc<dyn Any + Send + Sync>,
}

impl CallerStream {
    /// The handle of the legacy default stream.
    pub const LEGACY: u64 = 1;
    /// The handle of the default stream of the calling thread.
    pub const PER_THREAD: u64 = 2;

    /// The stream of a handle. `owner` keeps the stream alive: it is dropped after the last use of the stream.
    ///
    /// # Safety
    /// The handle is [`LEGACY`](CallerStream::LEGACY), [`PER_THREAD`](CallerStream::PER_THREAD), or that of a stream in the primary context of the
    /// device that it is used with, and is alive until `owner` is dropped.
    pub unsafe fn new(handle: u64, owner: Box<dyn Any + Send + Sync>) -> CallerStream {
        CallerStream { handle, _owner: Arc::from(owner) }
    }

    /// The legacy default stream, which other libraries use if they are not told another one.
    pub fn legacy() -> CallerStream {
        CallerStream { handle: CallerStream::LEGACY, _owner: Arc::new(()) }
    }

    /// The handle.
    pub fn handle(&self) -> u64 {
        self.handle
    }
}

impl fmt::Debug for CallerStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallerStream({:#x})", self.handle)
    }
}
