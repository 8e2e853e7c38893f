//! What is decoded as one batch.

use std::ops::Range;

/// A rectangle of blocks that is decoded as one batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// Block rows.
    pub(super) rows: Range<u64>,
    /// Block columns.
    pub(super) cols: Range<u64>,
    /// Which of the requested bands; all of them where a block holds all.
    pub(super) bands: Range<usize>,
}

impl Part {
    /// The two halves, if there is more than one block.
    pub(super) fn split(&self, planar: bool) -> Option<[Part; 2]> {
        let half = |range: &Range<u64>| range.start + (range.end - range.start) / 2;
        let Part { rows, cols, bands } = self.clone();
        if rows.end - rows.start > 1 {
            let middle = half(&rows);
            return Some([
                Part { rows: rows.start..middle, ..self.clone() },
                Part { rows: middle..rows.end, ..self.clone() },
            ]);
        }
        if cols.end - cols.start > 1 {
            let middle = half(&cols);
            return Some([
                Part { cols: cols.start..middle, ..self.clone() },
                Part { cols: middle..cols.end, ..self.clone() },
            ]);
        }
        if planar && bands.len() > 1 {
            let middle = bands.start + bands.len() / 2;
            return Some([
                Part { bands: bands.start..middle, ..self.clone() },
                Part { bands: middle..bands.end, ..self.clone() },
            ]);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_halved_until_one_block_is_left() {
        let whole = Part { rows: 2..5, cols: 1..3, bands: 0..2 };
        let mut left = vec![whole];
        let mut single = 0;
        while let Some(part) = left.pop() {
            match part.split(true) {
                Some(halves) => left.extend(halves),
                None => {
                    assert_eq!((part.rows.end - part.rows.start, part.cols.end - part.cols.start), (1, 1));
                    assert_eq!(part.bands.len(), 1);
                    single += 1;
                }
            }
        }
        assert_eq!(single, 3 * 2 * 2);
        assert_eq!(Part { rows: 0..1, cols: 0..1, bands: 0..9 }.split(false), None);
    }
}
