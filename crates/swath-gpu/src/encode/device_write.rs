//! Writes compressed tiles from the device to the file, without passing through host memory where cuFile can.

use std::ops::Range;

use super::TileEncoder;
use super::pool::TileRun;
use crate::error::Result;
use crate::storage::{DeviceFile, Transfer};

/// Bytes before a block of a COG, which hold its size, and behind it, which repeat its last bytes.
const FRAME: u64 = 4;

/// The files that the device writes tiles to: one for the full resolution and one for the overviews.
#[derive(Debug)]
pub(super) struct DirectWriter {
    files: [Option<DeviceFile>; 2],
    /// The offset of the next bytes in each.
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

    /// How the bytes reach the file, for the report.
    pub(super) fn description(&self) -> &'static str {
        self.files.iter().flatten().next().map_or("", DeviceFile::description)
    }
}

impl TileEncoder {
    /// Writes compressed tiles: `slots` are their places in the pool, which begins with their sizes. Returns the place of each in the file.
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
                        // The pool holds the sizes in the format of a frame: four bytes, the lowest first.
                        put(tile * FRAME, FRAME);
                    }
                    places.push(put(slot, size));
                    if direct.framed {
                        // No stream of nvCOMP is shorter than what frames it.
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
