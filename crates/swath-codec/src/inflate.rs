//! Decodes Deflate in zlib framing, several streams at once in one thread.
//!
//! The blocks of a raster are independent streams, so their decoding can overlap: see `interleave.rs`. This
//! decoder accepts a subset of the streams that libdeflate accepts and returns the same bytes. A stream that it
//! refuses may still be valid: the caller passes it to [`deflate::Decoder`](crate::deflate::Decoder), which
//! decides whether it is an error.

mod interleave;
mod lane;
pub(crate) mod table;
#[cfg(test)]
mod tests;

use interleave::Event;
use lane::{Lane, Progress, Refused};
use table::Tables;

use crate::memory;

/// The number of streams that are decoded at once.
pub const LANES: usize = 4;

/// A stream and the buffer for its decoded bytes.
#[derive(Debug)]
pub struct Stream<'a> {
    /// The zlib stream. Bytes after its end are ignored.
    pub src: &'a [u8],
    /// The buffer for the decoded bytes. The decoder may write to all of it.
    pub dst: &'a mut [u8],
    /// Whether only the first bytes are needed, those that fill `dst`. The rest of the stream is then ignored, with
    /// its checksum.
    pub top: bool,
    /// The number of decoded bytes in `dst`. `None` before decoding, and if the decoder refuses the stream.
    pub len: Option<usize>,
}

impl<'a> Stream<'a> {
    /// Creates a stream that is not decoded yet.
    pub fn new(src: &'a [u8], dst: &'a mut [u8]) -> Self {
        Self { src, dst, top: false, len: None }
    }

    /// Creates a stream of which only the bytes that fill `dst` are needed.
    pub fn top(src: &'a [u8], dst: &'a mut [u8]) -> Self {
        Self { top: true, ..Self::new(src, dst) }
    }
}

/// Whether decoding a stream of `len` bytes to at most `decoded` bytes together with other streams is likely to be
/// faster than libdeflate. Streams that compress well consist of long matches. Their speed is limited by copying
/// and not by the table look-ups that interleaving overlaps.
pub fn gains(len: usize, decoded: usize) -> bool {
    decoded / 4 < len
}

/// A reusable decoder of several streams.
pub struct Inflater {
    tables: Box<[Tables; LANES]>,
}

impl Default for Inflater {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Inflater {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inflater").finish_non_exhaustive()
    }
}

impl Inflater {
    /// Creates a decoder.
    pub fn new() -> Self {
        Self { tables: Box::new(std::array::from_fn(|_| Tables::new())) }
    }

    /// Creates a decoder, or returns `None` if the system does not have the memory.
    pub(crate) fn try_new() -> Option<Self> {
        Some(Self { tables: memory::boxed(Tables::new)? })
    }

    /// Decodes `streams` independently: a damaged stream does not affect the others. Sets [`Stream::len`] of
    /// each.
    pub fn decode<'a, 's: 'a>(&mut self, streams: impl IntoIterator<Item = &'a mut Stream<'s>>) {
        let mut waiting = streams.into_iter();
        let mut lanes = Vec::with_capacity(LANES);
        for tables in self.tables.iter_mut() {
            lanes.extend(next_lane(&mut waiting, tables));
        }
        while !lanes.is_empty() {
            let (number, progress) = match interleave::run(&mut lanes, &self.tables) {
                Event::Moved => continue,
                Event::Symbol(number) => (number, lanes[number].step(&mut self.tables[number])),
                Event::NearEnd(number) => (number, lanes[number].run(&mut self.tables[number])),
            };
            if matches!(progress, Ok(Progress::More)) {
                continue;
            }
            let lane = match next_lane(&mut waiting, &mut self.tables[number]) {
                Some(next) => std::mem::replace(&mut lanes[number], next),
                None => {
                    self.tables.swap(number, lanes.len() - 1);
                    lanes.swap_remove(number)
                }
            };
            if progress.is_ok() {
                lane.finish();
            }
        }
    }
}

/// Returns the next stream that is not already complete after its start.
fn next_lane<'a, 's: 'a>(
    waiting: &mut impl Iterator<Item = &'a mut Stream<'s>>,
    tables: &mut Tables,
) -> Option<Lane<'a>> {
    waiting.find_map(|stream| match Lane::start(stream, tables) {
        Ok((lane, Progress::More)) => Some(lane),
        Ok((lane, Progress::Done)) => {
            lane.finish();
            None
        }
        Err(Refused) => None,
    })
}
