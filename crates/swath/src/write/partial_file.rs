//! A file that is assembled from batches of blocks, which any process may have encoded.

use std::path::{Path, PathBuf};
use std::time::Instant;

use swath_io::{NewFile, Output, Span, Spool, SyncPolicy, folder_of, scratch_file};

use crate::error::{Error, Result};
use crate::write::block_index::BlockIndex;
use crate::write::commit::{PLAIN_START, lay_out};
use crate::write::config::WriteConfig;
use crate::write::encode::{EncodedBatch, Run};
use crate::write::plan::WritePlan;
use crate::write::report::WriteReport;
use crate::write::rows::RowsView;
use crate::write::sidecars::{self, SidecarsFn};
use crate::write::stream::{Spools, Streamed};

/// An unfinished file. [`add`](PartialFile::add) takes batches of [`WritePlan::encode`], and
/// [`commit`](PartialFile::commit) makes the complete file from them, or no file.
#[derive(Debug)]
pub struct PartialFile<'a> {
    plan: &'a WritePlan,
    path: PathBuf,
    overwrite: bool,
    sync: SyncPolicy,
    new: NewFile,
    pub(crate) spools: Spools,
    pub(crate) streamed: Streamed,
}

impl WritePlan {
    /// Starts a file. Only [`overwrite`](WriteConfig::overwrite) and [`sync`](WriteConfig::sync) of `config` are used.
    ///
    /// # Errors
    /// [`Error::Exists`] if the file or a sidecar file exists and overwriting is off, [`Error::Write`] if the
    /// system cannot create it.
    pub fn begin_file(&self, path: impl AsRef<Path>, config: &WriteConfig<'_>) -> Result<PartialFile<'_>> {
        let path = path.as_ref().to_owned();
        let overwrite = config.overwrite;
        let file = path.display().to_string();
        let failed = |cause| Error::Write { file: file.clone(), cause };
        if !overwrite && path.exists() {
            return Err(Error::Exists { file });
        }
        let new = NewFile::create(&path).map_err(failed)?.sync(config.sync);
        if let Some(sidecar) = sidecars::existing(&new).filter(|_| !overwrite) {
            return Err(Error::Exists { file: sidecar.display().to_string() });
        }
        // The blocks of the full resolution go to the new file immediately. In a plain file this is their
        // final position; in a COG the file system later inserts the overviews before them.
        let start = if self.is_cog() { 0 } else { PLAIN_START };
        let full = Spool::in_file(new.file().try_clone().map_err(failed)?, start, new.waits_for_disk());
        if let Some(bytes) = self.stored_bytes() {
            full.expect(bytes);
        }
        let overviews = Spool::in_file(scratch_file(folder_of(new.target())).map_err(failed)?, 0, false);
        let spools = Spools { full, overviews };
        Ok(PartialFile { plan: self, path, overwrite, sync: config.sync, new, spools, streamed: Streamed::new(self) })
    }
}

impl PartialFile<'_> {
    /// Adds blocks. In a COG their order does not matter; a plain file keeps the order in which they are added.
    ///
    /// # Errors
    /// [`Error::BlockTwice`] if a block was added before, [`Error::Write`] if writing fails.
    pub fn add(&mut self, encoded: &EncodedBatch) -> Result<()> {
        let Streamed { index, report, .. } = &mut self.streamed;
        self.spools.append(encoded, index, report).map_err(|error| named(error, &self.path))
    }

    /// Checks that every block of every level was added, lays out the file and gives it its name.
    ///
    /// # Errors
    /// [`Error::BlockMissing`], [`Error::TooLarge`], [`Error::Exists`], [`Error::Write`]; in that case there is no new file.
    pub fn commit(self) -> Result<WriteReport> {
        self.commit_with(None)
    }

    /// Does the same with additional sidecar files.
    pub(crate) fn commit_with(mut self, sidecars: Option<&SidecarsFn<'_>>) -> Result<WriteReport> {
        let start = Instant::now();
        let file = self.path.display().to_string();
        let failed = |cause| Error::Write { file: file.clone(), cause };
        let layout = lay_out(self.plan, &self.streamed)?;
        if !layout.complete(&mut self.spools, self.new.file()).map_err(failed)? {
            self.new = NewFile::create(&self.path).map_err(failed)?.sync(self.sync);
            let mut output: Output<'_, std::io::Sink> = Output::File(self.new.file());
            layout.write(&mut self.spools, &mut output).map_err(failed)?;
        }
        let extra = sidecars.map(|make| make(&self.streamed.report)).transpose()?.unwrap_or_default();
        let published = sidecars::publish(self.new, &self.plan.options.metadata, &extra, self.overwrite);
        published.map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => Error::Exists { file: file.clone() },
            _ => failed(error),
        })?;
        self.streamed.report.committed(&layout, start);
        Ok(self.streamed.report)
    }
}

impl Spools {
    /// Appends a batch and records the positions of its blocks.
    pub(crate) fn append(
        &mut self,
        encoded: &EncodedBatch,
        index: &mut BlockIndex,
        report: &mut WriteReport,
    ) -> Result<()> {
        let start = Instant::now();
        let spool = if encoded.level == 0 { &mut self.full } else { &mut self.overviews };
        let written = spool.append(&encoded.bytes);
        let at = written.map_err(|cause| Error::Write { file: "the spool".into(), cause })?;
        for block in &encoded.blocks {
            let span = Span { offset: at + block.offset as u64, len: block.len as u64 };
            index.place(encoded.level, block.mask, block.index, span)?;
            report.blocks += 1;
            report.sparse_blocks += u64::from(block.len == 0);
            report.bytes_encoded += block.len as u64;
        }
        report.append_time += start.elapsed();
        Ok(())
    }

    /// Appends the blocks of a run that are parts of its rows, and records their positions.
    pub(crate) fn append_rows(
        &mut self,
        plan: &WritePlan,
        run: &Run,
        rows: &RowsView<'_>,
        index: &mut BlockIndex,
        report: &mut WriteReport,
    ) -> Result<()> {
        let start = Instant::now();
        let spool = if run.level == 0 { &mut self.full } else { &mut self.overviews };
        for col in run.cols.clone() {
            let (block, mut parts) = plan.parts(run, col, rows);
            let len = parts.iter().map(|part| part.len() as u64).sum();
            let written = spool.append_parts(&mut parts);
            let offset = written.map_err(|cause| Error::Write { file: "the spool".into(), cause })?;
            index.place(run.level, false, block, Span { offset, len })?;
            report.blocks += 1;
            report.sparse_blocks += u64::from(len == 0);
            report.bytes_encoded += len;
        }
        report.append_time += start.elapsed();
        Ok(())
    }
}

/// Returns the same error with the name of the file that is written.
pub(super) fn named(error: Error, path: &Path) -> Error {
    match error {
        Error::Write { cause: source, .. } => Error::Write { file: path.display().to_string(), cause: source },
        other => other,
    }
}
