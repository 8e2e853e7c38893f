//! What the device cannot do the CPU does, as it does for a read of its own: the same pixels, the same errors; and what a library of
//! NVIDIA's cannot, our kernels or the host.

use std::ops::Range;
use std::sync::Arc;

use swath_gpu::{CodecBackend, Decoding};
use swath_io::Span;

use super::part::Part;
use super::{BY_CUFILE, BY_LIBRARY, Reading, Sink};
use crate::dataset::level::Level;
use crate::error::{Error, Result};
use crate::read::cpu::{ReadPlan, read_on_cpu};
use crate::read::plan::Place;
use crate::read::prefetched_source::PrefetchedSource;
use crate::read::request::{Layout, ReadRequest};

/// Why the CPU has to read something.
#[derive(Debug, Clone, Copy)]
pub(super) struct Why<'a> {
    pub(super) stage: &'static str,
    pub(super) reason: &'a str,
    /// The first block that it is about, if it is about blocks.
    pub(super) place: Option<Place>,
}

impl<'a> Why<'a> {
    pub(super) fn new(stage: &'static str, reason: &'a str) -> Why<'a> {
        Why { stage, reason, place: None }
    }
}

impl Reading<'_> {
    /// All of it by the CPU, as one batch.
    pub(super) fn read_on_cpu(&mut self, reason: &str, sink: &mut Sink<'_>) -> Result<()> {
        let stage = "decoding";
        if self.strict() {
            return Err(Error::Fallback { stage, reason: reason.to_owned() });
        }
        let request = self.cpu_request();
        self.report = match sink {
            Sink::Host { out, .. } => read_on_cpu(self.level, &request, self.checked, self.limits, out)?,
            Sink::Device(raster) => {
                let (rows, cols) = (self.checked.window.height(), self.checked.window.width());
                let whole = (raster.rows(), raster.cols()) == (rows, cols);
                let layout = if whole { request.layout } else { Layout::BandsLast };
                let mut pixels = vec![0; self.checked.samples * self.level.dtype.size()];
                let request = request.layout(layout);
                let report = read_on_cpu(self.level, &request, self.checked, self.limits, &mut pixels)?;
                match whole {
                    true => raster.fill(&pixels)?,
                    false => raster.put(0..self.checked.bands.len(), 0..rows, 0..cols, &pixels)?,
                }
                report
            }
        };
        self.device.note_fallback(stage, reason, self.report.blocks);
        Ok(())
    }

    /// A library failed before anything of a part was under way: another way is taken from now on, or the CPU reads this part. Whether
    /// it is to be tried again.
    pub(super) fn try_without_library(
        &mut self,
        part: &Part,
        error: &swath_gpu::Error,
        decoding: &mut Decoding,
        sink: &mut Sink<'_>,
    ) -> Result<bool> {
        if self.file.take_if(|_| error.is_about_files()).is_some() {
            self.note_other_way(BY_CUFILE, error)?;
            return Ok(true);
        }
        let reason = error.to_string();
        if self.take_own_kernel(&reason, self.strict(), decoding)? {
            return Ok(true);
        }
        self.read_part_on_cpu(part, Why::new(BY_LIBRARY, &reason), 0, None, decoding, sink)?;
        let deep = if self.planar() { part.bands.len() } else { 1 };
        self.note_progress(part.rows.clone().count() * part.cols.clone().count() * deep);
        Ok(false)
    }

    /// Whether nvCOMP alone may decode. Who leaves the choice to us has what was wanted, pixels that the device decoded, also where it is
    /// our kernel that takes what nvCOMP may not see or has no memory for.
    pub(super) fn wants_nvcomp(&self) -> bool {
        self.strict() && self.request.decoder == CodecBackend::NvComp
    }

    /// Decode by a kernel of our own from now on, unless that was ruled out, and tell it. Whether there is one.
    pub(super) fn take_own_kernel(&mut self, reason: &str, ruled_out: bool, decoding: &mut Decoding) -> Result<bool> {
        if !decoding.decode_by_own_kernel() {
            return Ok(false);
        }
        if ruled_out {
            return Err(Error::Fallback { stage: BY_LIBRARY, reason: reason.to_owned() });
        }
        self.device.note_fallback(BY_LIBRARY, reason, 0);
        self.device.decoded_by = decoding.job().decoded_by();
        Ok(true)
    }

    /// The level with the compressed bytes of some blocks at hand, which only the device has.
    pub(super) fn hold(
        &mut self,
        decoding: &mut Decoding,
        spans: &[Span],
        ranges: &[Range<usize>],
        which: impl Iterator<Item = usize> + Clone,
    ) -> Result<Option<Level>> {
        let pieces: Vec<_> = which.clone().map(|i| (ranges[i].start as u64, spans[i].len)).collect();
        match decoding.bring_back(&pieces) {
            Ok(bytes) => {
                let source =
                    PrefetchedSource::new(Arc::clone(&self.level.source), which.map(|i| spans[i]), bytes.to_vec());
                Ok(Some(self.level.with_source(Arc::new(source))))
            }
            // The file still has them.
            Err(error) if error.is_memory() => {
                self.note_other_way("bringing blocks back", &error)?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Let the CPU read a part that the device cannot, or not all of: it has decoded `good` blocks of it.
    pub(super) fn read_part_on_cpu(
        &mut self,
        part: &Part,
        why: Why<'_>,
        good: u64,
        held: Option<&Level>,
        decoding: &mut Decoding,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        let before = self.report.blocks;
        self.read_part(part, held, decoding, sink)?;
        // A block that neither can read was filled because that was wanted; it is no fallback.
        let instead = (self.report.blocks - before).saturating_sub(good);
        if instead > 0 {
            let Why { stage, reason, place } = why;
            if self.strict() {
                // Who wants no other way wants to know which block it was.
                let block = place.map_or_else(String::new, |place| format!("{}: ", place.name(self.level)));
                return Err(Error::Fallback { stage, reason: format!("{block}{reason}") });
            }
            self.device.note_fallback(stage, reason, instead);
        }
        Ok(())
    }

    /// Read a part by the CPU, and put it where it belongs. What is wrong with a block is found out and said here.
    pub(super) fn read_part(
        &mut self,
        part: &Part,
        held: Option<&Level>,
        decoding: &mut Decoding,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        let level = held.unwrap_or(self.level);
        let (rows, cols) = self.area(part);
        let layout = match sink {
            Sink::Host { .. } => self.request.layout,
            Sink::Device(_) => Layout::BandsLast,
        };
        let bands = self.checked.bands[part.bands.clone()].to_vec();
        let request = self.cpu_request().window(rows.clone(), cols.clone()).bands(bands).layout(layout);
        let request = ReadRequest { progress: None, ..request };
        let checked = ReadPlan::new(level, &request, self.limits)?;
        let mut pixels = vec![0; checked.samples * level.dtype.size()];
        let report = read_on_cpu(level, &request, &checked, self.limits, &mut pixels)?;
        // One such read after another: the largest is what it took.
        let working_bytes = self.report.working_bytes.max(report.working_bytes);
        self.report.merge(report);
        self.report.working_bytes = working_bytes;
        match sink {
            Sink::Host { out, geometry } => {
                let last = layout == Layout::BandsLast;
                self.copy(&rows, &cols, &part.bands, &pixels, last, out, *geometry);
            }
            Sink::Device(raster) => {
                let window = &self.checked.window;
                let (row, col) = (rows.start - window.row(), cols.start - window.col());
                let (height, width) = (rows.end - rows.start, cols.end - cols.start);
                decoding.put(raster, part.bands.clone(), row..row + height, col..col + width, &pixels)?;
            }
        }
        Ok(())
    }
}
