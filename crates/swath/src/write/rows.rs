//! The rows of a level that are in memory.

use std::ops::Range;

use crate::error::{Error, Result};

/// Some rows of one level: pixels interleaved by pixel, and the mask if there is one.
///
/// Before the rows there is space for rows of the previous buffer that are still needed, so that a source can
/// fill this buffer while the previous one is encoded.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    samples: Vec<u8>,
    mask: Vec<u8>,
    /// The image row of the first row in the buffer.
    first: u64,
    /// The number of rows in the buffer.
    count: u64,
    /// The number of rows of space before the first row.
    room: u64,
    row_bytes: usize,
    /// The number of pixels of a row; 0 when there is no mask.
    mask_bytes: usize,
}

/// Rows that can be read from several threads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowsView<'a> {
    /// The pixels.
    pub(crate) samples: &'a [u8],
    /// The mask, a byte per pixel.
    pub(crate) mask: Option<&'a [u8]>,
    /// The image row of the first row.
    pub(crate) first: u64,
    /// Bytes of a row of pixels.
    pub(crate) row_bytes: usize,
    /// Bytes of a row of the mask.
    pub(crate) mask_bytes: usize,
}

impl Rows {
    pub(crate) fn new(row_bytes: usize, mask_bytes: usize) -> Rows {
        Rows { row_bytes, mask_bytes, ..Rows::default() }
    }

    /// Clears the buffer and prepares it for rows `rows`, with space for `room` rows before them.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system does not have that much memory.
    pub(crate) fn prepare(&mut self, rows: Range<u64>, room: u64) -> Result<()> {
        (self.first, self.count, self.room) = (rows.start, rows.end - rows.start, room);
        let total = room + self.count;
        grow(&mut self.samples, total, self.row_bytes)?;
        grow(&mut self.mask, total, self.mask_bytes)
    }

    /// The rows to fill.
    pub(crate) fn fill(&mut self) -> (&mut [u8], Option<&mut [u8]>) {
        let (room, count) = (self.room as usize, self.count as usize);
        let samples = &mut self.samples[room * self.row_bytes..(room + count) * self.row_bytes];
        let mask = &mut self.mask[room * self.mask_bytes..(room + count) * self.mask_bytes];
        (samples, (self.mask_bytes > 0).then_some(mask))
    }

    /// Copies the rows of `before` from `from` on. They end where these rows start.
    pub(crate) fn carry(&mut self, before: &Rows, from: u64) {
        let carried = before.end().saturating_sub(from.max(before.first)).min(self.room);
        let kept = before.view();
        let skip = (before.count - carried) as usize;
        let at = (self.room - carried) as usize;
        let copy = |to: &mut [u8], from: &[u8], width: usize| {
            let bytes = carried as usize * width;
            to[at * width..at * width + bytes].copy_from_slice(&from[skip * width..skip * width + bytes]);
        };
        copy(&mut self.samples, kept.samples, self.row_bytes);
        if let Some(mask) = kept.mask {
            copy(&mut self.mask, mask, self.mask_bytes);
        }
        (self.first, self.count, self.room) = (self.first - carried, self.count + carried, self.room - carried);
    }

    /// The image row after the last row.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.count
    }

    /// The rows held.
    pub(crate) fn view(&self) -> RowsView<'_> {
        let (room, count) = (self.room as usize, self.count as usize);
        let mask = &self.mask[room * self.mask_bytes..(room + count) * self.mask_bytes];
        RowsView {
            samples: &self.samples[room * self.row_bytes..(room + count) * self.row_bytes],
            mask: (self.mask_bytes > 0).then_some(mask),
            first: self.first,
            row_bytes: self.row_bytes,
            mask_bytes: self.mask_bytes,
        }
    }

    /// The size of the memory in bytes.
    pub(crate) fn capacity(&self) -> u64 {
        (self.samples.len() + self.mask.len()) as u64
    }
}

impl<'a> RowsView<'a> {
    /// Rows `rows` of the pixels.
    pub(crate) fn samples(&self, rows: Range<u64>) -> &'a [u8] {
        part(self.samples, self.first, rows, self.row_bytes)
    }

    /// Rows `rows` of the mask.
    pub(crate) fn mask(&self, rows: Range<u64>) -> Option<&'a [u8]> {
        self.mask.map(|mask| part(mask, self.first, rows, self.mask_bytes))
    }
}

/// Grows a buffer to hold `rows` rows. It grows a few times at most, and the system provides new memory only
/// when it is written.
fn grow(buffer: &mut Vec<u8>, rows: u64, row_bytes: usize) -> Result<()> {
    let bytes = rows.saturating_mul(row_bytes as u64);
    if bytes > buffer.len() as u64 {
        *buffer = Vec::new();
        let len = usize::try_from(bytes).unwrap_or(usize::MAX);
        *buffer = bytemuck::allocation::try_zeroed_vec(len).map_err(|()| Error::Memory { rows, bytes })?;
    }
    Ok(())
}

fn part(bytes: &[u8], first: u64, rows: Range<u64>, width: usize) -> &[u8] {
    &bytes[(rows.start - first) as usize * width..(rows.end - first) as usize * width]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_still_needed_are_carried_and_no_others() {
        let mut before = Rows::new(2, 1);
        before.prepare(0..4, 0).unwrap();
        before.fill().0.copy_from_slice(&[0, 0, 1, 1, 2, 2, 3, 3]);
        before.fill().1.unwrap().copy_from_slice(&[0, 1, 2, 3]);
        let mut next = Rows::new(2, 1);
        next.prepare(4..6, 3).unwrap();
        next.fill().0.copy_from_slice(&[4, 4, 5, 5]);
        next.fill().1.unwrap().copy_from_slice(&[4, 5]);
        next.carry(&before, 2);
        assert_eq!((next.view().first, next.end()), (2, 6));
        assert_eq!(next.view().samples, [2, 2, 3, 3, 4, 4, 5, 5]);
        assert_eq!(next.view().mask, Some(&[2, 3, 4, 5][..]));
        assert_eq!(next.view().samples(3..5), [3, 3, 4, 4]);
    }

    #[test]
    fn rows_too_large_for_memory_are_an_error_not_a_crash() {
        let mut rows = Rows::new(usize::MAX / 4, 0);
        assert!(matches!(rows.prepare(0..512, 0), Err(Error::Memory { rows: 512, .. })));
    }
}
