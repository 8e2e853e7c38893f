//! The parts that the device cannot read. The CPU reads them with the same plan, so pixels and errors are the
//! same.

use std::sync::Arc;

use swath_gpu::{DecodeJob, Decoding, DeviceRaster, Unpack};
use swath_io::Source;

use super::{Pending, Reading, Sink};
use crate::error::Result;
use crate::fallback::read::{Alternatives, Setback};
use crate::fallback::stage;
use crate::memory;
use crate::read::cpu;
use crate::read::plan::{BlockCoord, BlockRect, ReadPlan};
use crate::read::prefetched_source::PrefetchedSource;
use crate::read::request::Layout;
use crate::report::ReadReport;

/// The reason why the CPU reads something.
#[derive(Debug, Clone)]
pub(super) struct Refusal<'a> {
    pub(super) setback: Setback,
    pub(super) stage: &'static str,
    pub(super) reason: &'a str,
    /// The first refused block, if the device refused single blocks.
    pub(super) block: Option<BlockCoord>,
    /// The number of blocks among these that the device decoded.
    pub(super) decoded: u64,
    /// A source that holds the compressed bytes in memory.
    pub(super) source: Option<Arc<dyn Source>>,
}

impl<'a> Refusal<'a> {
    pub(super) fn new(setback: Setback, stage: &'static str, reason: &'a str) -> Refusal<'a> {
        Refusal { setback, stage, reason, block: None, decoded: 0, source: None }
    }
}

impl Reading<'_> {
    /// Reads everything on the CPU, as one batch.
    pub(super) fn read_all_on_cpu(&mut self, reason: &str, sink: &mut Sink<'_>) -> Result<()> {
        self.permit(Setback::Unsupported, Alternatives::default(), stage::DECODING, reason)?;
        self.report = self.execute_on_cpu(sink)?;
        self.device.note_fallback(stage::DECODING, reason, self.report.blocks);
        Ok(())
    }

    /// Executes the plan on the CPU. Pixels for the device are uploaded.
    pub(super) fn execute_on_cpu(&mut self, sink: &mut Sink<'_>) -> Result<ReadReport> {
        Ok(match sink {
            Sink::Host { out, .. } => cpu::execute(self.plan, out)?,
            Sink::Device(raster) => {
                let (rows, cols) = (self.plan.window().height(), self.plan.window().width());
                let whole = (raster.rows(), raster.cols()) == (rows, cols);
                let mut plan = self.plan.clone();
                if !whole || self.unpack.is_some() {
                    plan.layout = Layout::BandsLast;
                }
                let mut pixels = memory::zeros(plan.output_bytes(), "the pixels of this read")?;
                let report = cpu::execute(&plan, &mut pixels)?;
                match (&self.unpack, whole) {
                    (Some(unpack), _) => self.nodata_found |= put_unpacked(raster, &plan, unpack, &pixels)?,
                    (None, true) => raster.fill(&pixels)?,
                    (None, false) => raster.put(0..plan.bands().len(), 0..rows, 0..cols, &pixels)?,
                }
                report
            }
        })
    }

    /// Returns a source that holds the compressed bytes of some blocks of a batch, copied back from the
    /// device. Returns `None` if the host read them itself, or must read them from the file again.
    pub(super) fn copy_back(
        &mut self,
        decoding: &mut Decoding,
        pending: &Pending,
        which: impl Iterator<Item = usize> + Clone,
    ) -> Result<Option<Arc<dyn Source>>> {
        if !decoding.keeps_compressed() {
            return Ok(None);
        }
        let Pending { spans, ranges, .. } = pending;
        let pieces: Vec<_> = which.clone().map(|i| (ranges[i].start as u64, spans[i].len)).collect();
        match decoding.bring_back(&pieces) {
            Ok(bytes) => {
                let under = Arc::clone(&self.plan.source);
                let source = PrefetchedSource::new(under, which.map(|i| spans[i]), bytes.to_vec());
                Ok(Some(Arc::new(source)))
            }
            // The bytes can be read from the file again.
            Err(error) if error.is_memory() => {
                self.leave_requested_way(Setback::DirectReadFailed, stage::COPYING_BACK, &error)?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads blocks that the device refused on the CPU and records the fallback, if the policy permits it.
    pub(super) fn read_refused_on_cpu(
        &mut self,
        rect: &BlockRect,
        refusal: Refusal<'_>,
        decoding: &mut Decoding,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        let before = self.report.blocks;
        let Refusal { setback, stage, reason, block, decoded, source } = refusal;
        self.read_on_cpu(rect, source, decoding, sink)?;
        // The CPU could not read these blocks either and filled them, as the request allows. That is not a
        // fallback.
        let instead = (self.report.blocks - before).saturating_sub(decoded);
        if instead > 0 {
            let name = block.map_or_else(String::new, |coord| format!("{}: ", coord.name(self.plan.level)));
            self.permit(setback, Alternatives::default(), stage, format_args!("{name}{reason}"))?;
            self.device.note_fallback(stage, reason, instead);
        }
        Ok(())
    }

    /// Reads blocks on the CPU and copies their pixels to the output. The error of a corrupt block is kept until
    /// all blocks before it were read.
    pub(super) fn read_on_cpu(
        &mut self,
        rect: &BlockRect,
        source: Option<Arc<dyn Source>>,
        decoding: &mut Decoding,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        let (rows, cols) = self.plan.area(rect);
        let layout = match sink {
            Sink::Host { .. } => self.plan.layout,
            Sink::Device(_) => Layout::BandsLast,
        };
        let part = self.plan.part((rows.clone(), cols.clone()), rect.bands.clone(), layout)?;
        let part = source.map_or_else(|| part.clone(), |source| part.with_source(source));
        let mut pixels = memory::zeros(part.output_bytes(), "the pixels of this read")?;
        let report = match cpu::execute(&part, &mut pixels) {
            Ok(report) => report,
            Err(error) => return self.note_error(rect, error),
        };
        // These reads run one after another, so the working memory is that of the largest.
        let working_bytes = self.report.working_bytes.max(report.working_bytes);
        self.report.merge(report);
        self.report.working_bytes = working_bytes;
        match sink {
            Sink::Host { out, geometry } => self.hand_over(rect, &pixels, out, *geometry),
            Sink::Device(raster) => {
                let window = self.plan.window();
                let (row, col) = (rows.start - window.row(), cols.start - window.col());
                let (height, width) = (rows.end - rows.start, cols.end - cols.start);
                decoding.put(raster, rect.bands.clone(), row..row + height, col..col + width, &pixels)?;
            }
        }
        Ok(())
    }
}

/// Rows of this many bytes are converted at a time.
const UNPACK_BYTES: u64 = 64 << 20;

/// Uploads pixels `(row, column, band)` that the device converts. Returns whether nodata occurs.
fn put_unpacked(raster: &DeviceRaster, plan: &ReadPlan<'_>, unpack: &Unpack, pixels: &[u8]) -> Result<bool> {
    let (rows, cols, bands) = (plan.window().height(), plan.window().width(), plan.bands().len());
    let row_bytes = cols * (bands * unpack.source().size()) as u64;
    let too_large = swath_gpu::Error::OutOfMemory { stage: "placing", needed: row_bytes };
    let job = DecodeJob::placing(unpack.source(), bands, cols).ok_or(too_large)?;
    let mut decoding = raster.gpu().decode(job.with_unpack(Some(unpack.clone())), &[], u64::MAX)?;
    let step = (UNPACK_BYTES / row_bytes.max(1)).max(1);
    for row in (0..rows).step_by(step as usize) {
        let end = (row + step).min(rows);
        let part = &pixels[(row * row_bytes) as usize..(end * row_bytes) as usize];
        decoding.put(raster, 0..bands, row..end, 0..cols, part)?;
    }
    Ok(decoding.nodata_found())
}
