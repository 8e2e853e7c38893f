//! Where Swath gets its bytes and where it puts them: local files and memory.
//!
//! A [`Source`] delivers ranges of bytes. All ranges of a batch are asked for at once ([`Source::fetch`]) and land in
//! one contiguous buffer, so that a source can merge neighbours into one request.

mod atomic_file;
mod coalesce;
mod error;
mod huge;
mod local;
mod memory;
mod spool;

pub use atomic_file::{NewFile, folder_of, insert_front, scratch_file};
pub use coalesce::{Batch, Fetch};
pub use error::{Error, Result};
pub use huge::advise_huge_pages;
pub use local::LocalFile;
pub use memory::Memory;
pub use spool::{Output, Spool};
pub use swath_tiff::{ReadAt, Span};

/// A place to read a file from. Sources are shared between threads and keep no position.
pub trait Source: ReadAt + Send + Sync + std::fmt::Debug {
    /// The name to use in messages: a path, or what the bytes are.
    fn name(&self) -> String;

    /// Fetch all `spans` into `batch`, replacing what it held. Empty spans cost nothing and keep their place.
    ///
    /// # Errors
    /// When any range cannot be read in full: there are no short reads.
    fn fetch(&self, spans: &[Span], batch: &mut Batch) -> std::io::Result<()> {
        batch.fill(spans, |fetch, out| self.fetch_into(fetch, out))
    }

    /// Do all reads of a plan into a buffer of its size. A source with latency asks for all before it waits for the first.
    ///
    /// # Errors
    /// When any range cannot be read in full.
    fn fetch_into(&self, fetch: &Fetch, out: &mut [u8]) -> std::io::Result<()> {
        fetch.reads().try_for_each(|(span, range)| self.read_at(span.offset, &mut out[range]))
    }

    /// Whether every request waits for somebody else: then all blocks of a window are asked for at once, before any is decoded.
    fn is_high_latency(&self) -> bool {
        false
    }

    /// The file of this machine that this is, if it is one: a device may be able to read it by itself.
    fn file(&self) -> Option<&std::fs::File> {
        None
    }

    /// Open a file beside this one, whose name is this one's with `change` applied; `None` when there is none.
    ///
    /// # Errors
    /// When the file exists but cannot be opened.
    fn sibling(&self, change: &dyn Fn(&std::path::Path) -> std::path::PathBuf) -> Result<Option<Box<dyn Source>>>;
}
