//! The grid of blocks, which represents both tiles and strips.

use std::ops::Range;

/// A rectangle of pixels inside its image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Window {
    row: u64,
    col: u64,
    height: u64,
    width: u64,
}

impl Window {
    /// Returns the window of rows `rows` and columns `cols`, or `None` if it is empty or not inside an image of
    /// `width` x `height` pixels.
    pub fn new(rows: Range<u64>, cols: Range<u64>, width: u64, height: u64) -> Option<Window> {
        let inside = rows.start < rows.end && rows.end <= height && cols.start < cols.end && cols.end <= width;
        inside.then(|| Window {
            row: rows.start,
            col: cols.start,
            height: rows.end - rows.start,
            width: cols.end - cols.start,
        })
    }

    /// The first row.
    pub fn row(&self) -> u64 {
        self.row
    }

    /// The first column.
    pub fn col(&self) -> u64 {
        self.col
    }

    /// The number of rows.
    pub fn height(&self) -> u64 {
        self.height
    }

    /// The number of columns.
    pub fn width(&self) -> u64 {
        self.width
    }

    /// The rows as a range.
    pub fn rows(&self) -> Range<u64> {
        self.row..self.row + self.height
    }

    /// The columns as a range.
    pub fn cols(&self) -> Range<u64> {
        self.col..self.col + self.width
    }
}

/// The blocks (tiles or strips) of an image and their numbers.
///
/// A strip is a block that is as wide as the image. In a planar file each band has its own grid of blocks. The
/// grids are stored one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockGrid {
    /// Image width in pixels.
    pub width: u64,
    /// Image height in pixels.
    pub height: u64,
    /// Block width in pixels.
    pub block_width: u64,
    /// Block height in pixels. The last strip of an image may have fewer rows; the last tile has all of them.
    pub block_height: u64,
    /// The number of grids that are stored one after another: the number of bands in a planar file, otherwise
    /// 1.
    pub planes: u64,
    /// True for tiles, false for strips.
    pub tiled: bool,
}

impl BlockGrid {
    /// The number of blocks from left to right.
    pub fn across(&self) -> u64 {
        self.width.div_ceil(self.block_width)
    }

    /// The number of blocks from top to bottom.
    pub fn down(&self) -> u64 {
        self.height.div_ceil(self.block_height)
    }

    /// The number of blocks of the image; `None` if it does not fit in 64 bits.
    pub fn count(&self) -> Option<u64> {
        self.across().checked_mul(self.down())?.checked_mul(self.planes)
    }

    /// Returns the index of a block in the block table.
    pub fn index(&self, plane: u64, row: u64, col: u64) -> u64 {
        (plane * self.down() + row) * self.across() + col
    }

    /// Returns the plane, row and column of a block.
    pub fn position(&self, index: u64) -> (u64, u64, u64) {
        let (rest, col) = (index / self.across(), index % self.across());
        (rest / self.down(), rest % self.down(), col)
    }

    /// Returns the number of decoded rows of block row `row`: all rows for tiles (including padding), only the
    /// rows inside the image for strips.
    pub fn decoded_height(&self, row: u64) -> u64 {
        if self.tiled {
            self.block_height
        } else {
            self.block_height.min(self.height.saturating_sub(row * self.block_height))
        }
    }

    /// Returns the block rows that intersect a window.
    pub fn block_rows(&self, window: &Window) -> Range<u64> {
        let rows = window.rows();
        rows.start / self.block_height..(rows.end - 1) / self.block_height + 1
    }

    /// Returns the block columns that intersect a window.
    pub fn block_cols(&self, window: &Window) -> Range<u64> {
        let cols = window.cols();
        cols.start / self.block_width..(cols.end - 1) / self.block_width + 1
    }

    /// Returns the image rows of block row `row` that are inside `window`.
    pub fn rows_in(&self, row: u64, window: &Window) -> Range<u64> {
        let start = row * self.block_height;
        start.max(window.row)..(start + self.block_height).min(window.row + window.height)
    }

    /// Returns the image columns of block column `col` that are inside `window`.
    pub fn cols_in(&self, col: u64, window: &Window) -> Range<u64> {
        let start = col * self.block_width;
        start.max(window.col)..(start + self.block_width).min(window.col + window.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_that_is_empty_or_outside_the_image_is_none() {
        assert!(Window::new(0..10, 0..20, 20, 10).is_some());
        assert!(Window::new(0..11, 0..20, 20, 10).is_none());
        assert!(Window::new(0..10, 0..21, 20, 10).is_none());
        assert!(Window::new(5..5, 0..20, 20, 10).is_none());
        #[expect(clippy::reversed_empty_ranges)]
        let backwards = Window::new(6..5, 0..20, 20, 10);
        assert!(backwards.is_none());
        assert!(Window::new(0..1, u64::MAX..u64::MAX, 20, 10).is_none());
    }

    #[test]
    fn every_pixel_of_a_window_lies_in_exactly_one_block() {
        let grid = BlockGrid { width: 37, height: 23, block_width: 16, block_height: 8, planes: 2, tiled: true };
        assert_eq!((grid.across(), grid.down(), grid.count()), (3, 3, Some(18)));
        let window = Window::new(3..20, 15..36, 37, 23).unwrap();
        let mut pixels = 0;
        for row in grid.block_rows(&window) {
            for col in grid.block_cols(&window) {
                let (rows, cols) = (grid.rows_in(row, &window), grid.cols_in(col, &window));
                assert!(!rows.is_empty() && !cols.is_empty());
                pixels += (rows.end - rows.start) * (cols.end - cols.start);
            }
        }
        assert_eq!(pixels, window.width() * window.height());
    }

    #[test]
    fn last_strip_is_short_but_last_tile_is_not() {
        let mut grid = BlockGrid { width: 10, height: 10, block_width: 10, block_height: 4, planes: 1, tiled: false };
        assert_eq!([0, 1, 2].map(|row| grid.decoded_height(row)), [4, 4, 2]);
        grid.tiled = true;
        assert_eq!(grid.decoded_height(2), 4);
    }

    #[test]
    fn index_and_position_are_inverse_over_planes() {
        let grid = BlockGrid { width: 100, height: 50, block_width: 16, block_height: 16, planes: 3, tiled: true };
        for index in 0..grid.count().unwrap() {
            let (plane, row, col) = grid.position(index);
            assert_eq!(grid.index(plane, row, col), index);
        }
    }
}
