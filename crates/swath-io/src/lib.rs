//! Input and output of bytes: local files and memory.
//!
//! A [`Source`] delivers ranges of bytes. A caller requests all ranges of a batch at once
//! ([`Source::fetch`]), and they arrive in one contiguous buffer. So a source can merge neighbouring ranges
//! into one request.

mod arenas;
mod atomic_file;
mod coalesce;
mod error;
mod huge;
mod local;
mod memory;
mod read_ahead;
mod spool;
mod stream_target;

pub use arenas::share_heap_if_limited;
pub use atomic_file::{NewFile, SidecarName, SyncPolicy, folder_of, insert_front, resolve_links, scratch_file};
pub use coalesce::{Batch, Fetch, MergeRule, MergedRange, coalesce};
pub use error::{Error, Result};
pub use huge::advise_huge_pages;
pub use local::LocalFile;
pub use memory::Memory;
pub use read_ahead::ReadAhead;
pub use spool::{Output, Spool};
pub use stream_target::{open_stream, report_file_size_limit};
pub use swath_tiff::{ReadAt, Span};

/// A file to read from. Threads share sources; a source has no current position.
pub trait Source: ReadAt + Send + Sync + std::fmt::Debug {
    /// The name for messages: a path, or a description of the bytes.
    fn name(&self) -> String;

    /// Fetches all `spans` into `batch` and replaces its contents. Empty spans cost nothing and keep their
    /// position.
    ///
    /// # Errors
    /// When any range cannot be read in full: there are no short reads.
    fn fetch(&self, spans: &[Span], batch: &mut Batch) -> std::io::Result<()> {
        batch.fill(spans, |fetch, out| self.fetch_into(fetch, out))
    }

    /// Executes all reads of a plan into a buffer of its size. A source with latency submits all requests
    /// before it waits for the first.
    ///
    /// # Errors
    /// When any range cannot be read in full.
    fn fetch_into(&self, fetch: &Fetch, out: &mut [u8]) -> std::io::Result<()> {
        fetch.reads().try_for_each(|(span, range)| self.read_at(span.offset, &mut out[range]))
    }

    /// Reads the bytes from `offset` on into several buffers, and skips `gap` bytes between one and the next.
    ///
    /// # Errors
    /// When the bytes cannot be read in full.
    fn read_scattered(&self, mut offset: u64, gap: u64, parts: &mut [&mut [u8]]) -> std::io::Result<()> {
        parts.iter_mut().try_for_each(|part| {
            self.read_at(offset, part)?;
            offset += part.len() as u64 + gap;
            Ok(())
        })
    }

    /// Whether every request has high latency, as for a network. If so, a read requests all blocks of a
    /// window at once before it decodes any.
    fn is_high_latency(&self) -> bool {
        false
    }

    /// The local file behind this source, if there is one. A device may be able to read it directly.
    fn file(&self) -> Option<&std::fs::File> {
        None
    }

    /// Removes and returns the error of the last read that the system or the server refused, if there was one. Reading past
    /// the end is not such an error. Callers that ignore values they cannot read call this to tell a damaged file from
    /// a file that could not be read.
    fn take_failure(&self) -> Option<std::io::Error> {
        None
    }

    /// Opens a file beside this one, whose path is this path with `change` applied. Returns `None` if it does
    /// not exist.
    ///
    /// # Errors
    /// When the file exists but cannot be opened.
    fn sibling(&self, change: &dyn Fn(&std::path::Path) -> std::path::PathBuf) -> Result<Option<Box<dyn Source>>>;
}
