//! Divides the caller's buffer into pieces: each block gets the rows that it fills, and no two blocks share a
//! byte.
//!
//! The buffer is split with `split_at_mut`, one block row at a time, so any number of threads can place
//! blocks without a copy, a lock or a pointer. Jobs are created one at a time, so a row of a million tiles
//! needs no memory.

use std::ops::Range;

use swath_tiff::{BlockGrid, Window};

use crate::read::plan::ReadPlan;
use crate::read::request::Layout;

/// A part of the output with its own sequence of rows, and the bands that are stored in it.
struct Plane<'a> {
    rest: &'a mut [u8],
    row_bytes: usize,
    /// The number of bytes of one pixel in this plane.
    pixel_bytes: usize,
}

/// The blocks at one position that fill the same pixels, and the output rows that they fill.
pub(crate) struct Job<'a> {
    /// The block row.
    pub(crate) row: u64,
    /// The block column.
    pub(crate) col: u64,
    /// The index of its group in the [`OutputSplitter`].
    pub(crate) group: usize,
    /// The image rows to place.
    pub(crate) rows: Range<u64>,
    /// The image columns to place.
    pub(crate) cols: Range<u64>,
    /// For each plane of the group in turn: one piece of the output per row, or one piece for all rows if no
    /// other block shares them.
    pub(crate) pieces: Vec<&'a mut [u8]>,
    /// The number of rows in a piece.
    rows_per_piece: usize,
}

impl Job<'_> {
    /// Returns the output of row `at` of the job in plane `plane` of its group.
    pub(crate) fn row(&mut self, plane: usize, at: usize) -> &mut [u8] {
        let row = plane * (self.rows.end - self.rows.start) as usize + at;
        if self.rows_per_piece == 1 {
            // Nearly all tiles. The divisions below take longer than the copy of a short row.
            return self.pieces[row];
        }
        let piece = &mut *self.pieces[row / self.rows_per_piece];
        let len = piece.len() / self.rows_per_piece;
        &mut piece[row % self.rows_per_piece * len..][..len]
    }
}

impl<'a> Job<'a> {
    /// Returns the output of row `at` of the job in each of the 4 planes of its group.
    pub(crate) fn rows_of_four(&mut self, at: usize) -> [&mut [u8]; 4] {
        let (rows, rows_per_piece) = ((self.rows.end - self.rows.start) as usize, self.rows_per_piece);
        // The rows of each plane are whole pieces, because a piece has one row or all rows of a plane.
        let pieces_per_plane = rows / rows_per_piece;
        let mut planes = self.pieces.chunks_exact_mut(pieces_per_plane.max(1));
        std::array::from_fn(|_| {
            let Some(piece) = planes.next().and_then(|plane| plane.get_mut(at / rows_per_piece)) else {
                return &mut [][..];
            };
            let len = piece.len() / rows_per_piece;
            &mut piece[at % rows_per_piece * len..][..len]
        })
    }
}

/// Output planes that are filled together: all planes, or the plane of one band if both the blocks and the
/// output are planar.
struct Group<'a> {
    planes: Vec<Plane<'a>>,
}

/// The output buffer, divided into [`Job`]s in block order.
pub(crate) struct OutputSplitter<'a> {
    grid: BlockGrid,
    window: Window,
    groups: Vec<Group<'a>>,
    group: usize,
    row: u64,
    /// The rest of each row of the current block row, with the bytes per pixel of each.
    open: Vec<(&'a mut [u8], usize)>,
    /// The block columns that are left in the current block row.
    cols: Range<u64>,
}

impl<'a> OutputSplitter<'a> {
    /// Splits the output of a plan.
    pub(crate) fn new(out: &'a mut [u8], plan: &ReadPlan<'_>) -> OutputSplitter<'a> {
        let (grid, sample_bytes) = (plan.level.blocks.grid, plan.level.dtype.size());
        OutputSplitter::split(out, grid, *plan.window(), plan.bands().len(), sample_bytes, plan.layout)
    }

    /// Splits `out` for a window of `bands` bands of `sample_bytes` each. If the file is planar and the
    /// output is bands first, each block fills one output plane. In all other cases the blocks at one
    /// position share their pixels.
    fn split(
        out: &'a mut [u8],
        grid: BlockGrid,
        window: Window,
        bands: usize,
        sample_bytes: usize,
        layout: Layout,
    ) -> OutputSplitter<'a> {
        let (width, height) = (window.width() as usize, window.height() as usize);
        let groups = match layout {
            Layout::BandsLast => {
                let pixel_bytes = sample_bytes * bands;
                vec![Group { planes: vec![Plane { rest: out, row_bytes: width * pixel_bytes, pixel_bytes }] }]
            }
            Layout::BandsFirst => {
                let row_bytes = width * sample_bytes;
                let planes = out.chunks_exact_mut((row_bytes * height).max(1)).map(|rest| Plane {
                    rest,
                    row_bytes,
                    pixel_bytes: sample_bytes,
                });
                if grid.planes > 1 {
                    planes.map(|plane| Group { planes: vec![plane] }).collect()
                } else {
                    vec![Group { planes: planes.collect() }]
                }
            }
        };
        let row = grid.block_rows(&window).start;
        OutputSplitter { grid, window, groups, group: 0, row, open: Vec::new(), cols: 0..0 }
    }

    /// The number of groups: 1, or one per band.
    pub(crate) fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Returns the next job in block order.
    pub(crate) fn next(&mut self) -> Option<Job<'a>> {
        if self.cols.is_empty() {
            self.open_block_row()?;
        }
        let col = self.cols.next()?;
        let (rows, cols) = (self.grid.rows_in(self.row - 1, &self.window), self.grid.cols_in(col, &self.window));
        let rows_per_piece = self.rows_per_piece();
        let width = (cols.end - cols.start) as usize * rows_per_piece;
        let pieces = self.open.iter_mut().map(|(rest, pixel_bytes)| {
            let (piece, tail) = std::mem::take(rest).split_at_mut(width * *pixel_bytes);
            *rest = tail;
            piece
        });
        let pieces = pieces.collect();
        Some(Job { row: self.row - 1, col, group: self.group, rows, cols, pieces, rows_per_piece })
    }

    /// The number of rows that can be one piece because they are contiguous in the output: all rows of a
    /// block that spans the whole width, else 1.
    fn rows_per_piece(&self) -> usize {
        let cols = self.grid.block_cols(&self.window);
        let rows = self.grid.rows_in(self.row - 1, &self.window);
        if cols.end - cols.start == 1 { (rows.end - rows.start) as usize } else { 1 }
    }

    /// Splits the next block row of the current group, or of the next group, into rows. Returns `None` when
    /// no block row is left.
    fn open_block_row(&mut self) -> Option<()> {
        let block_rows = self.grid.block_rows(&self.window);
        if self.row == block_rows.end {
            self.group += 1;
            self.row = block_rows.start;
        }
        self.row += 1;
        let (height, rows_per_piece) = {
            let rows = self.grid.rows_in(self.row - 1, &self.window);
            ((rows.end - rows.start) as usize, self.rows_per_piece())
        };
        let group = self.groups.get_mut(self.group)?;
        self.cols = self.grid.block_cols(&self.window);
        self.open.clear();
        for plane in &mut group.planes {
            let (rows, rest) = std::mem::take(&mut plane.rest).split_at_mut(height * plane.row_bytes);
            plane.rest = rest;
            let pixel_bytes = plane.pixel_bytes;
            self.open.extend(rows.chunks_exact_mut(rows_per_piece * plane.row_bytes).map(|piece| (piece, pixel_bytes)));
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_cover_every_byte_of_the_output_exactly_once() {
        for planes in [1, 3] {
            for layout in [Layout::BandsFirst, Layout::BandsLast] {
                let grid = BlockGrid { width: 50, height: 40, block_width: 16, block_height: 8, planes, tiled: true };
                let window = Window::new(5..33, 7..50, 50, 40).unwrap();
                let mut out = vec![0_u8; 28 * 43 * 3 * 2];
                let mut splitter = OutputSplitter::split(&mut out, grid, window, 3, 2, layout);
                let mut jobs = 0;
                while let Some(mut job) = splitter.next() {
                    jobs += 1;
                    for piece in &mut job.pieces {
                        piece.iter_mut().for_each(|byte| *byte += 1);
                    }
                }
                let groups = if planes == 3 && layout == Layout::BandsFirst { 3 } else { 1 };
                assert_eq!((jobs, splitter.group_count()), (5 * 4 * groups, groups));
                assert!(out.iter().all(|&byte| byte == 1));
            }
        }
    }
}
