//! Memory that reductions reuse from row to row.

/// Memory that reductions reuse from call to call; one for each thread.
#[derive(Debug, Default)]
pub(crate) struct ReduceScratch {
    pub(super) sums: Words,
    pub(super) cleaned: Words,
    pub(super) flags: Words,
    pub(super) counts: Words,
    pub(super) holes: Words,
    pub(super) weights: Words,
    pub(super) row_taps: Vec<(u64, f64)>,
    pub(super) column_taps: Vec<(u64, f64)>,
}

/// Memory for any type of numbers.
#[derive(Debug, Default)]
pub(super) struct Words(Vec<u128>);

impl Words {
    /// Returns space for `count` numbers with arbitrary contents.
    pub(super) fn room<T: bytemuck::Pod>(&mut self, count: usize) -> &mut [T] {
        let words = (count * size_of::<T>()).div_ceil(size_of::<u128>());
        if self.0.len() < words {
            self.0.resize(words, 0);
        }
        &mut bytemuck::cast_slice_mut(&mut self.0)[..count]
    }
}
