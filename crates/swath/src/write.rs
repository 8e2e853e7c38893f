//! Writing: plan, encode, commit.
//!
//! [`Plan`] says what the file will be. A [`RowSource`] gives its rows, band by band; `stream.rs` takes them through `encode.rs` and
//! `pyramid.rs` into a spool of compressed blocks; `commit.rs` lays the file out and publishes it, complete or not at all.

mod assembly;
mod beside;
mod commit;
mod copy;
mod encode;
mod error;
mod index;
mod like;
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

use swath_io::{Output, Spool, scratch_file};

pub use assembly::PartialFile;
pub use copy::PassthroughBlocks;
pub use encode::{EncodedBatch, EncodedBlock};
pub use error::PlanError;
pub use options::{BigTiff, BlockSize, FileLayout, Overviews, PredictorChoice, Statistics, WriteOptions};
pub use plan::Plan;
pub use reduce::Resampling;
pub use report::WriteReport;
pub use source::{ArraySource, ImageSource, RowFn, RowSource};
pub use statistics::BandStatistics;
pub use stream::{DEFAULT_BUFFER_BYTES, WriteConfig};

use crate::error::{Error, Result};
use assembly::named;
use commit::lay_out;
use stream::{Spools, Streamed, stream};

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
        source: &mut dyn RowSource,
        running: &WriteConfig<'_>,
    ) -> Result<WriteReport> {
        let path = path.as_ref();
        let failed = |source| Error::Write { file: path.display().to_string(), source };
        match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => return Err(failed(std::io::ErrorKind::IsADirectory.into())),
            Ok(metadata) if !metadata.is_file() => {
                let mut file = std::fs::OpenOptions::new().write(true).open(path).map_err(failed)?;
                return self.write_to(&mut file, source, running).map_err(|error| named(error, path));
            }
            _ => {}
        }
        let mut assembly = self.assemble(path, overwrite)?;
        stream(self, source, running, &mut assembly.spools, &mut assembly.streamed)
            .map_err(|error| named(error, path))?;
        assembly.commit()
    }

    /// Write the rows of `source` to anything that takes bytes, from the first to the last. Blocks wait in a temporary file until
    /// it is known where they go.
    ///
    /// # Errors
    /// As [`Plan::write_file`]; then some bytes may have been written.
    pub fn write_to<W: Write>(
        &self,
        writer: &mut W,
        source: &mut dyn RowSource,
        running: &WriteConfig<'_>,
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
    pub fn to_bytes(&self, source: &mut dyn RowSource, running: &WriteConfig<'_>) -> Result<(Vec<u8>, WriteReport)> {
        let mut spools = Spools { full: Spool::Memory(Vec::new()), overviews: Spool::Memory(Vec::new()) };
        let mut bytes = Vec::new();
        let report = self.write_through(&mut bytes, source, running, &mut spools)?;
        Ok((bytes, report))
    }

    fn write_through<W: Write>(
        &self,
        writer: &mut W,
        source: &mut dyn RowSource,
        running: &WriteConfig<'_>,
        spools: &mut Spools,
    ) -> Result<WriteReport> {
        let mut streamed = Streamed::new(self);
        stream(self, source, running, spools, &mut streamed)?;
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
