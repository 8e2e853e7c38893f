//! Median and mode: the methods that need all values of a block at once.

use std::cmp::Ordering;

use super::cells::{Sum, Summable};
use super::{ReduceScratch, Resampling, Rows, Rules};
use crate::nodata::is_nodata::Number;

/// Blocks of up to this many values are compared pair by pair; larger blocks are sorted.
const FEW: usize = 16;

/// Computes one output row of median or mode.
pub(super) fn row<T: Summable>(
    rules: &Rules<T>,
    src: &Rows<'_, T>,
    mask: Option<&Rows<'_, u8>>,
    row: u64,
    out: &mut [T],
    scratch: &mut ReduceScratch,
) {
    let block = src.block(row, rules.factor);
    let most = (block.end - block.start) as usize * rules.factor.min(src.width);
    let values = scratch.cleaned.room::<T>(most);
    let order = scratch.counts.room::<u32>(most);
    for (at, out) in out.iter_mut().enumerate() {
        let cols = at * rules.factor..((at + 1) * rules.factor).min(src.width);
        let mut count = 0;
        for row in block.clone() {
            for value in rules.valid_of(src, mask, row, cols.clone()) {
                values[count] = value;
                count += 1;
            }
        }
        *out = match (rules.method, &mut values[..count]) {
            (_, []) => rules.fill,
            (Resampling::Median, values) => {
                let mut median = [median(values)];
                rules.keep_valid(&mut median);
                median[0]
            }
            (_, values) if count <= FEW => mode_of_few(values),
            (_, values) => mode(values, &mut order[..count]),
        };
    }
}

/// Compares two values. Missing values and NaN have been removed before.
fn compare<T: Number>(a: &T, b: &T) -> Ordering {
    a.partial_cmp(b).unwrap_or(Ordering::Equal)
}

fn median<T: Summable>(values: &mut [T]) -> T {
    let middle = values.len() / 2;
    let even = values.len().is_multiple_of(2);
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, compare);
    match below.iter().copied().max_by(compare) {
        Some(lower) if even => {
            let mean = T::Wide::of(lower).plus(T::Wide::of(upper)).mean(2);
            // The sum of two doubles may overflow; the sum of their halves does not.
            if T::Wide::OVERFLOWS && mean.to_f64().is_infinite() {
                return T::from_f64(lower.to_f64() / 2.0 + upper.to_f64() / 2.0);
            }
            mean
        }
        _ => upper,
    }
}

/// Returns the value that is the first to reach the highest count.
fn mode_of_few<T: Number>(values: &[T]) -> T {
    let mut best = (0, values[0]);
    for (at, &value) in values.iter().enumerate() {
        let count = values[..=at].iter().filter(|&&other| other == value).count();
        if count > best.0 {
            best = (count, value);
        }
    }
    best.1
}

/// As [`mode_of_few`], in a time that does not grow with the square of the number of values.
fn mode<T: Number>(values: &[T], order: &mut [u32]) -> T {
    order.iter_mut().zip(0..).for_each(|(slot, at)| *slot = at);
    order.sort_unstable_by(|&a, &b| compare(&values[a as usize], &values[b as usize]).then(a.cmp(&b)));
    let same = order.chunk_by(|&a, &b| values[a as usize] == values[b as usize]);
    // A value reaches its count at its last occurrence.
    let reached = same.filter_map(|group| Some((group.len(), *group.last()?)));
    let best = reached.max_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    best.map_or(values[0], |(_, at)| values[at as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mode_by_sorting_equals_mode_by_counting() {
        let mut seed = 1_u64;
        for count in 1..200_usize {
            let values: Vec<u8> = (0..count)
                .map(|_| {
                    seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (seed >> 60) as u8
                })
                .collect();
            assert_eq!(mode(&values, &mut vec![0; count]), mode_of_few(&values), "{values:?}");
        }
    }

    #[test]
    fn tie_goes_to_the_value_that_reaches_the_count_first() {
        assert_eq!(mode_of_few(&[5_u8, 3, 3, 5]), 3);
        assert_eq!(mode_of_few(&[9_i16, 1, 2, 7]), 9);
    }

    #[test]
    fn median_of_two_does_not_overflow() {
        assert_eq!(median(&mut [u64::MAX, u64::MAX - 2]), u64::MAX - 1);
        assert_eq!(median(&mut [i64::MIN, i64::MIN]), i64::MIN);
        assert_eq!(median(&mut [f64::MAX, f64::MAX]), f64::MAX);
        assert_eq!(median(&mut [-2_i16, -1]), -2);
        assert_eq!(median(&mut [7_u8, 1, 3]), 3);
    }
}
