//! Compressed tiles go from the device to the file, and the host does not see them.

use std::ops::Range;

use super::TileEncoder;
use super::compress::Piece;
use crate::error::Result;
use crate::storage::{DeviceFile, Transfer};

/// Bytes before a block of a COG, which tell its size, and behind it, which repeat its end.
const FRAME: u64 = 4;

/// The files that tiles go to: that of the full resolution, and that of the overviews.
#[derive(Debug)]
pub(super) struct Direct {
    files: [Option<DeviceFile>; 2],
    /// Where the next bytes go in each.
    ends: [u64; 2],
    framed: bool,
}

impl Direct {
    pub(super) fn new((full, at): (DeviceFile, u64), overviews: Option<(DeviceFile, u64)>, framed: bool) -> Direct {
        let (overviews, overviews_at) = overviews.map_or((None, 0), |(file, at)| (Some(file), at));
        Direct { files: [Some(full), overviews], ends: [at, overviews_at], framed }
    }

    /// The way that bytes take, in words.
    pub(super) fn description(&self) -> &'static str {
        self.files.iter().flatten().next().map_or("", DeviceFile::description)
    }
}

impl TileEncoder {
    /// Write compressed tiles: `slots` are where they lie in the pool, at whose beginning their sizes stand. Tells where each is.
    pub(super) fn write(
        &mut self,
        direct: &mut Direct,
        pieces: &[Piece],
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
            for piece in pieces.iter().filter(|piece| usize::from(piece.level > 0) == which) {
                for tile in piece.first..piece.first + piece.tiles {
                    let (slot, size) = (slots[tile as usize], u64::from(sizes[tile as usize]));
                    if direct.framed {
                        // The sizes stand in the pool as a frame has them: four bytes, the lowest first.
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
            self.gather(&spans, *end, |cutting, part| {
                cutting.stream.synchronize()?;
                let transfer = Transfer { file_offset: part.start, buffer_offset: 0, len: part.end - part.start };
                file.write(cutting.tiles.get(), 0, &[transfer])
            })?;
        }
        direct.ends = ends;
        Ok(places)
    }
}
