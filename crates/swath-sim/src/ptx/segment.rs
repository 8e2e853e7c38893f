//! The layout of variables in the shared, local and constant memory.

use super::parse::Variable;

/// The bytes between two variables and around all of them, which belong to no variable. No access is longer, so
/// an access with its first and last byte in variables lies in one variable.
const GAP: usize = 16;

/// A memory with variables and gaps between them.
#[derive(Debug, Clone, Default)]
pub(super) struct Segment {
    /// The content at the start.
    pub(super) initial: Vec<u8>,
    /// Whether a byte belongs to a variable.
    pub(super) owned: Vec<bool>,
    variables: Vec<(String, usize)>,
    /// The bytes of the variables together, as a GPU would place them.
    pub(super) used: usize,
}

impl Segment {
    pub(super) fn new(variables: &[Variable]) -> Segment {
        let mut segment = Segment::default();
        for variable in variables {
            let at = (segment.initial.len() + GAP).next_multiple_of(variable.align.max(GAP));
            segment.owned.resize(at, false);
            segment.owned.resize(at + variable.bytes, true);
            segment.initial.resize(at, 0);
            segment.initial.extend_from_slice(&variable.initial);
            segment.initial.resize(at + variable.bytes, 0);
            segment.variables.push((variable.name.clone(), at));
            segment.used = segment.used.next_multiple_of(variable.align.max(1)) + variable.bytes;
        }
        segment.owned.resize(segment.initial.len() + GAP, false);
        segment.initial.resize(segment.owned.len(), 0);
        segment
    }

    /// Returns the address of a variable.
    pub(super) fn address(&self, name: &str) -> Option<u64> {
        self.variables.iter().find(|(variable, _)| variable == name).map(|(_, at)| *at as u64)
    }

    /// Returns the position of an access if it lies in a variable.
    #[inline]
    pub(super) fn range(&self, address: u64, bytes: usize) -> Option<usize> {
        let at = usize::try_from(address).ok()?;
        let last = at.checked_add(bytes - 1)?;
        (*self.owned.get(at)? && *self.owned.get(last)?).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_across_the_end_of_a_variable_is_outside() {
        let variable = |name: &str, bytes| Variable { name: name.into(), align: 4, bytes, initial: vec![7] };
        let segment = Segment::new(&[variable("a", 6), variable("b", 8)]);
        let [a, b] = ["a", "b"].map(|name| segment.address(name).expect("it was declared"));
        assert!(a + 6 + GAP as u64 <= b);
        assert_eq!(segment.range(a + 4, 2), Some(a as usize + 4));
        assert_eq!(segment.range(a + 4, 4), None);
        assert_eq!(segment.range(a - 1, 1), None);
        assert_eq!(segment.range(b + 7, 1), Some(b as usize + 7));
        assert_eq!(segment.range(u64::MAX, 8), None);
        assert_eq!((segment.initial[b as usize], segment.used), (7, 16));
    }
}
