//! Writes compressed tiles from the device to the file, without a copy in host memory if cuFile supports that.

use std::ops::Range;

use super::TileEncoder;
use super::pool::TileRun;
use crate::error::Result;
use crate::storage::{DeviceFile, Transfer};

/// The number of bytes before a block of a COG, which contain its size, and after it, which repeat its last
/// bytes.
const FRAME: u64 = 4;

/// The files to which the device writes tiles: one for the full resolution and one for the overviews.
#[derive(Debug)]
pub(super) struct DirectWriter {
    files: [Option<DeviceFile>; 2],
    /// The offset of the next bytes in each file.
    ends: [u64; 2],
    framed: bool,
}

impl DirectWriter {
    pub(super) fn new(
        (full, at): (DeviceFile, u64),
        overviews: Option<(DeviceFile, u64)>,
        framed: bool,
    ) -> DirectWriter {
        let (overviews, overviews_at) = overviews.map_or((None, 0), |(file, at)| (Some(file), at));
        DirectWriter { files: [Some(full), overviews], ends: [at, overviews_at], framed }
    }

    /// The path of the bytes to the file, for the report.
    pub(super) fn description(&self) -> &'static str {
        self.files.iter().flatten().next().map_or("", DeviceFile::description)
    }
}

impl TileEncoder {
    /// Writes compressed tiles. `slots` are their offsets in the pool, which starts with their sizes. Returns
    /// the range of each tile in the file.
    pub(super) fn write(
        &mut self,
        direct: &mut DirectWriter,
        runs: &[TileRun],
        slots: &[u64],
        sizes: &[u32],
    ) -> Result<Vec<Range<u64>>> {
        let mut ends = direct.ends;
        let mut places = Vec::with_capacity(slots.len());
        for (which, end) in ends.iter_mut().enumerate() {
            let mut spans = Vec::new();
            let mut put = |from: u64, len: u64| {
                spans.push([from, *end, len]);
                *end += len;
                *end - len..*end
            };
            for run in runs.iter().filter(|run| usize::from(run.level > 0) == which) {
                for tile in run.first..run.first + run.tiles {
                    let (slot, size) = (slots[tile as usize], u64::from(sizes[tile as usize]));
                    if direct.framed {
                        // The pool contains the sizes in the format of a frame: four bytes, the lowest first.
                        put(tile * FRAME, FRAME);
                    }
                    places.push(put(slot, size));
                    if direct.framed {
                        // Every stream of nvCOMP is longer than its frame.
                        put(slot + size.saturating_sub(FRAME), FRAME);
                    }
                }
            }
            let Some(file) = &direct.files[which] else { continue };
            self.gather(&spans, *end, |encoder, part| {
                encoder.stream.synchronize()?;
                let transfer = Transfer { file_offset: part.start, buffer_offset: 0, len: part.end - part.start };
                file.write(encoder.tiles.get(), 0, &[transfer])
            })?;
        }
        direct.ends = ends;
        Ok(places)
    }
}
