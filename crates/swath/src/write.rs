//! Writing: plan, encode, commit.
//!
//! [`WritePlan`] holds everything that is decided before the first row. A [`RowSource`] provides the rows.
//! `stream.rs` passes them through `encode.rs` and `pyramid.rs`, in the order of `schedule.rs`, into a spool
//! of compressed blocks. `commit.rs` lays out the file, and `partial_file.rs` publishes it,
//! complete or not at all.

mod block_index;
mod commit;
mod config;
mod copied_metadata;
mod encode;
mod error;
mod options;
mod partial_file;
mod passthrough;
mod plan;
mod plan_document;
mod pyramid;
mod reduce;
mod report;
mod rows;
mod schedule;
mod sidecars;
mod source;
mod statistics;
mod stream;
mod tags;

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use swath_io::{Output, Spool, scratch_file};

pub use config::{DEFAULT_BUFFER_BYTES, WriteConfig};
pub use encode::{EncodedBatch, EncodedBlock};
pub use error::PlanError;
pub use options::{BigTiff, BlockSize, FileLayout, Overviews, PredictorChoice, Statistics, WriteOptions};
pub use partial_file::PartialFile;
pub use passthrough::PassthroughBlocks;
pub use plan::{ImageShape, WritePlan};
pub use plan_document::PlanDocument;
pub use reduce::Resampling;
pub use report::WriteReport;
pub use sidecars::{ExtraSidecars, SidecarsFn};
pub use source::{ArraySource, ImageSource, InMemory, RowFn, RowSource};
pub use statistics::BandStatistics;

use crate::error::{Error, Result};
use commit::lay_out;
use partial_file::named;
use stream::{Spools, Streamed, stream};

impl WritePlan {
    /// Writes the rows of `source` to a file. The file appears complete or not at all: after an error, `path`
    /// is unchanged. If `path` is not a regular file (a pipe, a device), the bytes are written to it
    /// directly.
    ///
    /// # Errors
    /// [`Error::Exists`] if the file exists and [`overwrite`](WriteConfig::overwrite) is not set, [`Error::Write`] if the system refuses,
    /// and the errors of the source and of the codec.
    pub fn write_file(
        &self,
        path: impl AsRef<Path>,
        source: &mut dyn RowSource,
        config: &WriteConfig<'_>,
    ) -> Result<WriteReport> {
        let path = path.as_ref();
        let failed = |cause| Error::Write { file: path.display().to_string(), cause };
        match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => return Err(failed(std::io::ErrorKind::IsADirectory.into())),
            Ok(metadata) if !metadata.is_file() => {
                let mut file = swath_io::open_stream(path).map_err(failed)?;
                return self.write_to(&mut file, source, config).map_err(|error| named(error, path));
            }
            _ => {}
        }
        let mut file = self.begin_file(path, config)?;
        stream(self, source, config, &mut file.spools, &mut file.streamed).map_err(|error| named(error, path))?;
        file.commit_with(config.sidecars)
    }

    /// Writes the rows of `source` to any writer, from the first byte to the last. Blocks wait in a temporary
    /// file until their offset is known.
    ///
    /// # Errors
    /// As [`write_file`](WritePlan::write_file). After an error some bytes may have been written.
    pub fn write_to<W: Write>(
        &self,
        writer: &mut W,
        source: &mut dyn RowSource,
        config: &WriteConfig<'_>,
    ) -> Result<WriteReport> {
        let failed = |cause| Error::Write { file: "the spool".into(), cause };
        let scratch = || scratch_file(&std::env::temp_dir()).map(|file| Spool::in_file(file, 0, false)).map_err(failed);
        let mut spools = Spools { full: scratch()?, overviews: scratch()? };
        self.write_through(writer, source, config, &mut spools)
    }

    /// Writes the rows of `source` to a file in memory.
    ///
    /// # Errors
    /// The errors of the source and of the codec.
    pub fn to_bytes(&self, source: &mut dyn RowSource, config: &WriteConfig<'_>) -> Result<(Vec<u8>, WriteReport)> {
        let mut spools = Spools { full: Spool::Memory(Vec::new()), overviews: Spool::Memory(Vec::new()) };
        let mut bytes = Vec::new();
        let report = self.write_through(&mut bytes, source, config, &mut spools)?;
        Ok((bytes, report))
    }

    fn write_through<W: Write>(
        &self,
        writer: &mut W,
        source: &mut dyn RowSource,
        config: &WriteConfig<'_>,
        spools: &mut Spools,
    ) -> Result<WriteReport> {
        let mut streamed = Streamed::new(self);
        stream(self, source, config, spools, &mut streamed)?;
        let start = Instant::now();
        let layout = lay_out(self, &streamed)?;
        let written = layout.write(spools, &mut Output::Other(writer)).and_then(|()| writer.flush());
        written.map_err(|cause| Error::Write { file: "the output".into(), cause })?;
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
