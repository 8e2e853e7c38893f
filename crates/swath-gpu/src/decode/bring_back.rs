//! Copies compressed blocks that only the device has back to the host.

use super::Decoding;
use crate::backend::kernel::{Arg, Kernel};
use crate::error::{Error, Result};

impl Decoding {
    /// Whether only the device has the compressed bytes of the batch that finished last, because it read them from the file itself, and
    /// has them as they are in the file, without their bits reversed.
    pub fn keeps_compressed(&self) -> bool {
        self.idle.first().is_some_and(|lane| lane.from_file) && !self.job.lsb_first
    }

    /// Copies compressed blocks of the batch that finished last to the host, for blocks that the device cannot decode. The device gathers
    /// them into one buffer, so that one transfer brings all of them, one after another. A piece is the position of a block in the
    /// payload, and its size.
    ///
    /// # Errors
    /// The guard's error, before anything is allocated, and the driver's.
    ///
    /// # Panics
    /// When there is no such batch, or a piece lies outside of it.
    pub fn bring_back(&mut self, pieces: &[(u64, u64)]) -> Result<&[u8]> {
        let lane = self.idle.first_mut().expect("a batch was finished");
        let mut spans = Vec::with_capacity(pieces.len() * 3);
        let mut total = Some(0_u64);
        for &(at, len) in pieces.iter().filter(|(_, len)| *len > 0) {
            let from = at + lane.payload_at as u64;
            assert!(from + len <= lane.batch.get().bytes(), "{at} + {len} lies outside the batch");
            spans.extend([from, total.unwrap_or(0), len]);
            total = total.and_then(|total| total.checked_add(len));
        }
        if spans.is_empty() {
            return Ok(&[]);
        }
        let (gpu, budget) = (&self.gpu, &mut self.budget);
        let table: &[u8] = bytemuck::cast_slice(&spans);
        let stage = "compressed blocks on their way back";
        // The decoded blocks were placed, so their memory is free. Both sizes are checked before either is allocated.
        let others = budget.held - lane.decoded.bytes() - lane.scratch.bytes();
        let gathered = total.map(|total| total.max(lane.decoded.bytes()));
        let needed = gathered.and_then(|bytes| bytes.checked_add(lane.scratch.bytes().max(table.len() as u64)));
        let (needed, left) = (needed.unwrap_or(u64::MAX), budget.limit.saturating_sub(others));
        if needed > left {
            return Err(Error::Budget { stage, needed, left, budget: budget.limit });
        }
        budget.exact = true;
        let made = lane.decoded.room(gpu, stage, total, budget).map(|_| ());
        let made = made.and_then(|()| lane.scratch.room(gpu, stage, Some(table.len() as u64), budget).map(|_| ()));
        budget.exact = false;
        made?;
        let bytes = total.unwrap_or(0) as usize;
        lane.result.room(gpu, bytes)?;
        let (batch, gathered, scratch) = (lane.batch.get(), lane.decoded.get(), lane.scratch.get());
        let args = [Arg::Buffer(scratch), Arg::Buffer(batch), Arg::Buffer(gathered)];
        // SAFETY: the table and the result live until the stream is synchronised below; the spans lie in the batch, and next to each
        // other in a buffer of their total size.
        let copied = unsafe {
            lane.stream.upload(table, scratch, 0).and_then(|()| {
                lane.stream.launch(Kernel::Gather, (spans.len() / 3) as u32, &args)?;
                lane.stream.download(gathered, 0, lane.result.get_mut(bytes))
            })
        };
        lane.stream.synchronize().and(copied)?;
        Ok(self.idle[0].result.get(bytes))
    }
}
