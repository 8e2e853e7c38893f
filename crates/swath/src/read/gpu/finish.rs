//! The end of a batch: checks the status of each block, delivers the pixels, and reads refused blocks in
//! another way.

use std::time::Instant;

use swath_gpu::{BlockStatus, Decoding, FinishedBatch};

use super::cpu_part::Refusal;
use super::{Pending, Queue, Reading, Sink};
use crate::error::Result;
use crate::fallback::read::{Alternatives, Setback, Step, cpu_reads_one_by_one};
use crate::fallback::stage;
use crate::read::plan::{BlockCoord, BlockRect};
use crate::report::ReadReport;

/// A block that the device did not decode.
struct RefusedBlock {
    /// Its index in the batch.
    index: usize,
    coord: BlockCoord,
    band: usize,
    /// The status from the device. `None` if a problem was known in advance and the block was not submitted.
    reported: Option<(BlockStatus, String)>,
}

/// The block counts of a report, restored when a batch is read again.
struct Counts(u64, u64, u64);

impl Counts {
    fn of(report: &ReadReport) -> Counts {
        Counts(report.blocks, report.bytes_decoded, report.sparse_blocks)
    }

    fn restore(self, report: &mut ReadReport) {
        (report.blocks, report.bytes_decoded, report.sparse_blocks) = (self.0, self.1, self.2);
    }
}

impl Reading<'_> {
    /// Waits for the oldest batch and checks the status of each block. Then delivers its pixels, or puts the
    /// batch back into the queue.
    pub(super) fn finish_oldest(
        &mut self,
        decoding: &mut Decoding,
        queue: &mut Queue,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        self.check_cancelled()?;
        let begun = Instant::now();
        let (Some(mut pending), Some(finished)) = (queue.in_flight.pop_front(), decoding.finish()?) else {
            return Ok(());
        };
        if self.before_error(pending.rect.clone()).is_none() {
            return Ok(());
        }
        if let Sink::Host { out, geometry } = sink {
            self.hand_over(&pending.rect, finished.pixels, out, *geometry);
        }
        let before = Counts::of(&self.report);
        let refused = self.check(&mut pending, &finished);
        self.report.decode_time += begun.elapsed();
        let decoded = self.report.blocks - before.0;
        if self.decode_again(&pending, &refused, decoded, decoding)? {
            before.restore(&mut self.report);
            queue.waiting.push_front(pending.rect);
            return Ok(());
        }
        let blocks = pending.requests.len() as u64;
        if !cpu_reads_one_by_one(refused.len()) {
            before.restore(&mut self.report);
            self.read_batch_again(&pending, &refused, decoded, decoding, sink)?;
        } else if !refused.is_empty() {
            self.read_blocks_again(&pending, refused, decoding, sink)?;
        }
        self.note_progress(blocks);
        Ok(())
    }

    /// Counts the blocks of a batch and returns those that the device did not decode.
    fn check(&mut self, pending: &mut Pending, finished: &FinishedBatch<'_>) -> Vec<RefusedBlock> {
        let mut refused = Vec::new();
        let blocks = pending.requests.iter_mut().zip(&pending.sparse).zip(finished.statuses());
        for (index, ((request, &sparse), status)) in blocks.enumerate() {
            let (coord, band) = (request.coord, request.band);
            match request.problem.take() {
                None if sparse => self.report.sparse_blocks += 1,
                Some(_) => refused.push(RefusedBlock { index, coord, band, reported: None }),
                None if !status.is_ok() => {
                    let reported = Some((status, finished.reason(status)));
                    refused.push(RefusedBlock { index, coord, band, reported });
                }
                None => {
                    self.report.blocks += 1;
                    self.report.bytes_decoded += request.shape.len() as u64;
                }
            }
        }
        refused
    }

    /// Decides whether our kernel decodes the batch again because the library refused blocks that may be
    /// correct.
    fn decode_again(
        &mut self,
        pending: &Pending,
        refused: &[RefusedBlock],
        decoded: u64,
        decoding: &mut Decoding,
    ) -> Result<bool> {
        let mut by_decoder =
            refused.iter().filter_map(|block| block.reported.as_ref()).filter(|(status, _)| status.is_of_decoder());
        let Some((_, reason)) = by_decoder.next() else { return Ok(false) };
        // The previous batch may have switched to our kernel while this one was in flight.
        let switched = pending.by_nvcomp && !decoding.job().is_by_nvcomp();
        let setback = Setback::BlocksRefused { refused: 1 + by_decoder.count(), decoded };
        let builtin_kernel = switched || decoding.has_builtin_kernel();
        let decision = self.next_step(setback, Alternatives { builtin_kernel, smaller_batch: false });
        let Some(decision) = decision.filter(|decision| decision.step == Step::BuiltinKernel) else {
            return Ok(false);
        };
        if !switched {
            self.use_builtin_kernel(decision, reason, decoding)?;
        }
        Ok(true)
    }

    /// Reads the whole batch on the CPU with all threads, because many blocks were refused.
    fn read_batch_again(
        &mut self,
        pending: &Pending,
        refused: &[RefusedBlock],
        decoded: u64,
        decoding: &mut Decoding,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        // Compressed bytes that only the device holds are copied back together, instead of being read from
        // the file again.
        let source = self.copy_back(decoding, pending, 0..pending.spans.len())?;
        let setback = Setback::BlocksRefused { refused: refused.len(), decoded };
        let reported = refused.iter().find_map(|block| Some((block.coord, &block.reported.as_ref()?.1)));
        let refusal = match reported {
            Some((coord, reason)) => Refusal { block: Some(coord), ..Refusal::new(setback, stage::DECODING, reason) },
            None => Refusal::new(setback, stage::DECODING, "its blocks lie outside the file"),
        };
        let refusal = Refusal { source, decoded, ..refusal };
        self.read_refused_on_cpu(&pending.rect, refusal, decoding, sink)
    }

    /// Reads single blocks on the CPU, because few were refused.
    fn read_blocks_again(
        &mut self,
        pending: &Pending,
        refused: Vec<RefusedBlock>,
        decoding: &mut Decoding,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        let source = self.copy_back(decoding, pending, refused.iter().map(|block| block.index))?;
        let setback = Setback::BlocksRefused { refused: refused.len(), decoded: 0 };
        for RefusedBlock { coord, band, reported, .. } in refused {
            if self.is_after_error(coord) {
                continue;
            }
            let bands = if self.plan.is_planar() { band..band + 1 } else { pending.rect.bands.clone() };
            let rect = BlockRect::single(coord.row, coord.col, bands);
            match reported {
                None => self.read_on_cpu(&rect, source.clone(), decoding, sink)?,
                Some((_, reason)) => {
                    let refusal = Refusal::new(setback, stage::DECODING, &reason);
                    let refusal = Refusal { block: Some(coord), source: source.clone(), ..refusal };
                    self.read_refused_on_cpu(&rect, refusal, decoding, sink)?;
                }
            }
        }
        Ok(())
    }
}
