//! The start of a batch: locates its blocks, fetches them and submits them to the device.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use swath_codec::{Extent, RowAccess};
use swath_gpu::{Block, Decoding, Target, Transfer};
use swath_io::{Fetch, Span};

use super::cpu_part::Refusal;
use super::{Pending, Reading, Sink, bands_last};
use crate::error::{Error, Result};
use crate::fallback::read::Setback;
use crate::fallback::stage;
use crate::read::plan::{BlockRect, BlockRequest};

/// The size of a page of memory and of most disks.
const PAGE: usize = 4096;

/// The least compressed bytes of a batch whose reads lie in pages as they do in the file.
const CONGRUENT_BYTES: u64 = 1 << 20;

impl Reading<'_> {
    /// Fetches a batch and submits it to the device. Returns `None` if the CPU read the batch instead.
    pub(super) fn submit(
        &mut self,
        rect: &BlockRect,
        decoding: &mut Decoding,
        sink: &mut Sink<'_>,
    ) -> Result<Option<Pending>> {
        let begun = Instant::now();
        let (mut requests, spans) = self.locate(rect, decoding)?;
        let blocks = requests.len() as u64;
        // `Block` stores the size of a block in 32 bits. The CPU has no such limit.
        if spans.iter().any(|span| u32::try_from(span.len).is_err()) {
            let refusal = Refusal::new(Setback::FetchFailed, stage::FETCHING, "a compressed block has more than 4 GB");
            self.read_refused_on_cpu(rect, refusal, decoding, sink)?;
            self.note_progress(blocks);
            return Ok(None);
        }
        let fetch = plan_fetch(&spans, decoding).map_err(|source| self.fetch_error(&requests, &spans, source))?;
        if self.file.is_none() {
            let payload = decoding.stage(requests.len(), fetch.bytes())?;
            if let Err(source) = self.fetch(&fetch, payload) {
                // The CPU finds the block that fails, and fills it if the request allows that.
                let reason = source.to_string();
                self.read_refused_on_cpu(
                    rect,
                    Refusal::new(Setback::FetchFailed, stage::FETCHING, &reason),
                    decoding,
                    sink,
                )?;
                self.note_progress(blocks);
                return Ok(None);
            }
        }
        let mut fetched = Instant::now();

        self.find_short_blocks(&mut requests, &spans, decoding.job().is_stored());
        let blocks = self.device_blocks(rect, &requests, &spans, fetch.ranges());
        let target = self.target(rect, sink);
        match &self.file {
            None => {
                decoding.submit(blocks, fetch.bytes(), target)?;
                self.device.read_by = "the host, into pinned memory".into();
            }
            Some(file) => {
                let transfers: Vec<Transfer> = fetch.reads().map(transfer).collect();
                decoding.submit_from_file(blocks, fetch.bytes(), (file, &transfers), target)?;
                self.device.read_by = file.description().into();
                // Most of that time was spent waiting for the file.
                fetched = Instant::now();
            }
        }
        self.report.fetch_time += fetched - begun;
        self.report.bytes_fetched += spans.iter().map(|span| span.len).sum::<u64>();
        self.report.decode_time += fetched.elapsed();
        self.report.batches += 1;
        let sparse = requests.iter().zip(&spans).map(|(it, span)| span.is_sparse() && it.problem.is_none()).collect();
        Ok(Some(Pending {
            rect: rect.clone(),
            by_nvcomp: decoding.job().is_by_nvcomp(),
            requests,
            sparse,
            spans,
            ranges: fetch.ranges().to_vec(),
        }))
    }

    /// Reads the compressed bytes of a batch into pinned memory. All reads are submitted before the first is waited for: to the threads of
    /// the device, or by the source itself if it has latency.
    fn fetch(&self, fetch: &Fetch, payload: &mut [u8]) -> std::io::Result<()> {
        let source = Arc::clone(&self.plan.source);
        if source.is_high_latency() {
            return source.fetch_into(fetch, payload);
        }
        let (mut ranges, mut rest, mut at) = (Vec::with_capacity(fetch.reads().len()), payload, 0);
        // The reads lie in the payload one after another.
        for (span, range) in fetch.reads() {
            let (out, after) = rest.split_at_mut(range.end - at);
            ranges.push((span.offset, &mut out[range.start - at..]));
            (rest, at) = (after, range.end);
        }
        self.gpu.read_ranges(Arc::new(move |offset, out: &mut [u8]| source.read_at(offset, out)), ranges)
    }

    /// Finds the blocks of a batch and their byte ranges.
    fn locate(&self, rect: &BlockRect, decoding: &Decoding) -> Result<(Vec<BlockRequest>, Vec<Span>)> {
        let access = match self.plan.decoder.row_access() {
            RowAccess::Prefix if decoding.job().takes_whole_blocks() => RowAccess::All,
            access => access,
        };
        let mut requests: Vec<_> = self.plan.blocks(rect).map(|block| self.plan.request(&block, access)).collect();
        let mut spans = Vec::with_capacity(requests.len());
        self.plan.locate(&mut requests, &mut spans)?;
        Ok((requests, spans))
    }

    /// Marks uncompressed blocks that are shorter than their pixels, because the kernels do not check their
    /// length.
    fn find_short_blocks(&self, requests: &mut [BlockRequest], spans: &[Span], stored: bool) {
        for (request, span) in requests.iter_mut().zip(spans).filter(|_| stored) {
            let short = span.len < request.shape.len() as u64;
            if short && !span.is_sparse() && request.problem.is_none() {
                let (got, want) = (span.len as usize, request.shape.len());
                let source = swath_codec::Error::Truncated { codec: self.plan.decoder.name, got, want };
                let (file, block) = (self.plan.level.file.clone(), request.coord.name(self.plan.level));
                request.problem = Some(Error::Block { file, block, cause: source });
            }
        }
    }

    /// Converts the blocks to the form that the kernels use.
    fn device_blocks(
        &self,
        rect: &BlockRect,
        requests: &[BlockRequest],
        spans: &[Span],
        ranges: &[Range<usize>],
    ) -> Vec<Block> {
        let (grid, window) = (&self.plan.level.blocks.grid, self.plan.window());
        let (area_rows, area_cols) = self.plan.area(rect);
        let block = |((request, span), range): ((&BlockRequest, &Span), &Range<usize>)| {
            let (rows, cols) = (grid.rows_in(request.coord.row, window), grid.cols_in(request.coord.col, window));
            let mut flags = 0;
            flags |= if span.is_sparse() || request.problem.is_some() { Block::SPARSE } else { 0 };
            flags |= if request.extent == Extent::Top { Block::TOP } else { 0 };
            Block {
                src: range.start as u64,
                src_len: span.len as u32,
                dst_len: request.shape.len() as u32,
                flags,
                from_row: (rows.start - request.first_row) as u32,
                from_col: (cols.start - request.coord.col * grid.block_width) as u32,
                rows: (rows.end - rows.start) as u32,
                cols: (cols.end - cols.start) as u32,
                to_row: (rows.start - area_rows.start) as u32,
                to_col: (cols.start - area_cols.start) as u32,
                band: (request.band - rect.bands.start.min(request.band)) as u32,
                ..Block::default()
            }
        };
        requests.iter().zip(spans).zip(ranges).map(block).collect()
    }

    /// Returns where the device puts the pixels of a batch.
    fn target<'t>(&self, rect: &BlockRect, sink: &Sink<'t>) -> Target<'t> {
        let (rows, cols) = self.plan.area(rect);
        match sink {
            Sink::Host { .. } => Target::Host {
                bands: rect.bands.len(),
                rows: rows.end - rows.start,
                cols: cols.end - cols.start,
                bands_last: bands_last(self.plan),
            },
            Sink::Device(raster) => Target::Raster {
                raster,
                band: rect.bands.start,
                row: rows.start - self.plan.window().row(),
                col: cols.start - self.plan.window().col(),
            },
        }
    }

    fn fetch_error(&self, requests: &[BlockRequest], spans: &[Span], source: std::io::Error) -> Error {
        let first = spans.iter().position(|span| !span.is_sparse()).unwrap_or(0);
        Error::Fetch {
            file: self.plan.level.file.clone(),
            block: requests[first].coord.name(self.plan.level),
            offset: spans[first].offset,
            len: spans[first].len,
            cause: source,
        }
    }
}

/// Plans where the compressed bytes of a batch go in its memory.
fn plan_fetch(spans: &[Span], decoding: &Decoding) -> std::io::Result<Fetch> {
    let (align, phase) = decoding.job().alignment();
    let bytes = spans.iter().fold(0_u64, |sum, span| sum.saturating_add(span.len));
    // Decoders that require aligned blocks get each block alone, and a small batch is not worth the padding.
    if align > 1 || bytes < CONGRUENT_BYTES {
        return Fetch::aligned(spans, align, phase);
    }
    Fetch::congruent(spans, PAGE, decoding.payload_offset(spans.len()))
}

/// Converts a range of the file and its destination to a transfer.
fn transfer((span, range): (Span, Range<usize>)) -> Transfer {
    Transfer { file_offset: span.offset, buffer_offset: range.start as u64, len: span.len }
}
