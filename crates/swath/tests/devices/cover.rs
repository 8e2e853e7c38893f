//! Covers the product of many properties without testing all of it: every pair of values of two properties
//! occurs.

/// Returns rows of values, one for each property; `counts` holds the number of values of each property. All
/// combinations of the first `whole` properties occur. For the others, every pair of values occurs, with each
/// other and with the first ones.
///
/// `allowed(property, value, other, its_value)` says whether two values can be combined; `property` comes
/// before `other`. Value 0 must be combinable with every value.
pub(crate) fn rows(
    counts: &[usize],
    whole: usize,
    allowed: impl Fn(usize, usize, usize, usize) -> bool,
) -> Vec<Vec<usize>> {
    let mut walk = Walk { counts, allowed, seen: Vec::new(), rows: Vec::new(), turn: 0 };
    walk.seen = vec![false; walk.index(counts.len(), 0, 0, 0)];
    if whole > 0 {
        walk.combine(&mut Vec::new(), whole);
    }
    for a in 0..counts.len() {
        for b in a + 1..counts.len() {
            for x in 0..counts[a] {
                for y in 0..counts[b] {
                    if !walk.seen[walk.index(a, b, x, y)] && (walk.allowed)(a, x, b, y) {
                        let mut row = vec![None; counts.len()];
                        (row[a], row[b]) = (Some(x), Some(y));
                        walk.complete(row);
                    }
                }
            }
        }
    }
    walk.rows
}

struct Walk<'a, F> {
    counts: &'a [usize],
    allowed: F,
    /// The pairs that occur in the rows.
    seen: Vec<bool>,
    rows: Vec<Vec<usize>>,
    /// Advances with every choice, so that equally good values alternate.
    turn: usize,
}

impl<F: Fn(usize, usize, usize, usize) -> bool> Walk<'_, F> {
    fn index(&self, a: usize, b: usize, x: usize, y: usize) -> usize {
        let most = self.counts.iter().copied().max().unwrap_or(0);
        ((a * self.counts.len() + b) * most + x) * most + y
    }

    /// Adds a row for every combination of the first properties.
    fn combine(&mut self, chosen: &mut Vec<usize>, whole: usize) {
        if chosen.len() == whole {
            let row = chosen.iter().copied().map(Some).chain(vec![None; self.counts.len() - whole]);
            return self.complete(row.collect());
        }
        let next = chosen.len();
        for value in 0..self.counts[next] {
            if chosen.iter().enumerate().all(|(a, &x)| (self.allowed)(a, x, next, value)) {
                chosen.push(value);
                self.combine(chosen, whole);
                chosen.pop();
            }
        }
    }

    /// Chooses the open values of a row so that as many new pairs as possible occur in it.
    fn complete(&mut self, mut row: Vec<Option<usize>>) {
        for open in 0..row.len() {
            if row[open].is_some() {
                continue;
            }
            self.turn += 1;
            let count = self.counts[open];
            let mut best = (0, 0);
            for value in (0..count).map(|value| (value + self.turn) % count) {
                let given = row.iter().enumerate().filter_map(|(other, choice)| choice.map(|choice| (other, choice)));
                let pairs: Vec<_> = given
                    .map(
                        |(other, choice)| {
                            if other < open { (other, choice, open, value) } else { (open, value, other, choice) }
                        },
                    )
                    .collect();
                if pairs.iter().all(|&(a, x, b, y)| (self.allowed)(a, x, b, y)) {
                    let fresh = pairs.iter().filter(|&&(a, x, b, y)| !self.seen[self.index(a, b, x, y)]).count();
                    if fresh + 1 > best.0 {
                        best = (fresh + 1, value);
                    }
                }
            }
            row[open] = Some(best.1);
        }
        let row: Vec<usize> = row.into_iter().flatten().collect();
        for a in 0..row.len() {
            for b in a + 1..row.len() {
                assert!((self.allowed)(a, row[a], b, row[b]), "{row:?}: {a} and {b} do not go together");
                let index = self.index(a, b, row[a], row[b]);
                self.seen[index] = true;
            }
        }
        self.rows.push(row);
    }
}
