//! Writing: plan, encode, commit.
//!
//! [`Plan`] says what the file will be. A [`BandSource`] gives its rows, band by band; `stream.rs` takes them through `encode.rs` and
//! `pyramid.rs` into a spool of compressed blocks; `commit.rs` lays the file out and publishes it, complete or not at all.

mod beside;
mod commit;
mod copy;
mod encode;
mod error;
mod index;
mod like;
mod nan;
mod options;
mod plan;
mod pyramid;
mod reduce;
mod report;
mod rows;
mod source;
mod statistics;
mod stream;
mod tags;

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use swath_io::{NewFile, Output, Spool, scratch_file};

pub use copy::StoredBlocks;
pub use encode::{Encoded, EncodedBlock};
pub use error::PlanError;
pub use options::{Arrangement, BigTiff, BlockSize, Overviews, PredictorChoice, WriteOptions};
pub use plan::Plan;
pub use reduce::Resampling;
pub use report::WriteReport;
pub use source::{ArraySource, BandSource, ClosureSource, ImageSource};
pub use statistics::BandStatistics;
pub use stream::{DEFAULT_BUFFER_BYTES, Running};

use crate::error::{Error, Result};
use commit::{PLAIN_START, lay_out};
use stream::{Spools, stream};

impl Plan {
    /// Write the rows of `source` to a file. It appears complete, or not at all: whatever happens, `path` is the old file or the new one.
    /// What is not a regular file (a pipe, a device) is written to directly.
    ///
    /// # Errors
    /// [`Error::Exists`] when the file exists and is not to be overwritten, [`Error::Write`] when the system refuses, and what the source and
    /// the codec say. Then nothing is left behind.
    pub fn write_file(
        &self,
        path: impl AsRef<Path>,
        overwrite: bool,
        source: &mut dyn BandSource,
        running: &Running<'_>,
    ) -> Result<WriteReport> {
        let path = path.as_ref();
        let file_name = || path.display().to_string();
        let failed = |source| Error::Write { file: file_name(), source };
        match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => return Err(failed(std::io::ErrorKind::IsADirectory.into())),
            Ok(metadata) if !metadata.is_file() => {
                let mut file = std::fs::OpenOptions::new().write(true).open(path).map_err(failed)?;
                return self.write_to(&mut file, source, running).map_err(|error| named(error, &file_name()));
            }
            Ok(_) if !overwrite => return Err(Error::Exists { file: file_name() }),
            _ => {}
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut new = NewFile::create(path).map_err(failed)?;
        // The blocks of the full resolution go to the new file at once: to their place in a plain file, and in a COG to where the file
        // system puts the overviews in front of them.
        let start = if self.is_cog() { 0 } else { PLAIN_START };
        let full = Spool::in_file(new.file().try_clone().map_err(failed)?, start, true);
        let overviews = Spool::in_file(scratch_file(folder).map_err(failed)?, 0, false);
        let mut spools = Spools { full, overviews };
        let mut streamed = stream(self, source, running, &mut spools).map_err(|error| named(error, &file_name()))?;

        let start = Instant::now();
        let layout = lay_out(self, &streamed)?;
        if !layout.complete(&mut spools, new.file()).map_err(failed)? {
            new = NewFile::create(path).map_err(failed)?;
            let mut output: Output<'_, std::io::Sink> = Output::File(new.file());
            layout.write(&mut spools, &mut output).map_err(failed)?;
        }
        new.publish(overwrite).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => Error::Exists { file: file_name() },
            _ => failed(error),
        })?;
        beside::replace(path, &self.options.about, overwrite)
            .map_err(|source| Error::Write { file: format!("{}.aux.xml", file_name()), source })?;
        streamed.report.committed(&layout, start);
        Ok(streamed.report)
    }

    /// Write the rows of `source` to anything that takes bytes, from the first to the last. Blocks wait in a temporary file until
    /// it is known where they go.
    ///
    /// # Errors
    /// As [`Plan::write_file`]; then some bytes may have been written.
    pub fn write_to<W: Write>(
        &self,
        writer: &mut W,
        source: &mut dyn BandSource,
        running: &Running<'_>,
    ) -> Result<WriteReport> {
        let failed = |source| Error::Write { file: "the spool".into(), source };
        let scratch = || scratch_file(&std::env::temp_dir()).map(|file| Spool::in_file(file, 0, false)).map_err(failed);
        let mut spools = Spools { full: scratch()?, overviews: scratch()? };
        self.write_through(writer, source, running, &mut spools)
    }

    /// Write the rows of `source` to a file in memory.
    ///
    /// # Errors
    /// What the source and the codec say.
    pub fn to_bytes(&self, source: &mut dyn BandSource, running: &Running<'_>) -> Result<(Vec<u8>, WriteReport)> {
        let mut spools = Spools { full: Spool::Memory(Vec::new()), overviews: Spool::Memory(Vec::new()) };
        let mut bytes = Vec::new();
        let report = self.write_through(&mut bytes, source, running, &mut spools)?;
        Ok((bytes, report))
    }

    fn write_through<W: Write>(
        &self,
        writer: &mut W,
        source: &mut dyn BandSource,
        running: &Running<'_>,
        spools: &mut Spools,
    ) -> Result<WriteReport> {
        let mut streamed = stream(self, source, running, spools)?;
        let start = Instant::now();
        let layout = lay_out(self, &streamed)?;
        let written = layout.write(spools, &mut Output::Other(writer)).and_then(|()| writer.flush());
        written.map_err(|source| Error::Write { file: "the output".into(), source })?;
        streamed.report.committed(&layout, start);
        Ok(streamed.report)
    }
}

impl WriteReport {
    fn committed(&mut self, layout: &commit::Layout, start: Instant) {
        (self.file_bytes, self.big_tiff) = (layout.size, layout.big);
        self.commit_time = start.elapsed();
        self.wall_time += self.commit_time;
    }
}

/// The same error with the name of the file that is written.
fn named(error: Error, name: &str) -> Error {
    match error {
        Error::Write { source, .. } => Error::Write { file: name.to_owned(), source },
        other => other,
    }
}
