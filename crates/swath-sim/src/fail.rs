//! Makes calls fail on request, for tests.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::code::{Code, Done};
use crate::event::record;

/// The number of calls of each kind.
static CALLS: Mutex<Option<HashMap<&'static str, u64>>> = Mutex::new(None);

/// Counts a call that `SWATH_SIM_FAIL` can make fail, and fails if this call is selected.
pub(crate) fn point(what: &'static str, code: Code) -> Done {
    if now(what) { Err(code) } else { Ok(()) }
}

/// Counts an operation that `SWATH_SIM_FAIL` can make go wrong, and returns whether this one is selected.
pub(crate) fn now(what: &'static str) -> bool {
    let mut calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    let call = calls.get_or_insert_default().entry(what).or_default();
    *call += 1;
    let fails = std::env::var("SWATH_SIM_FAIL").is_ok_and(|list| is_listed(&list, what, *call));
    if fails {
        record(format!("injected failure: {what} {call}"));
    }
    fails
}

/// Restarts the counts.
pub(crate) fn reset() {
    *CALLS.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Whether a list such as `alloc:3,launch:1+` selects this call.
fn is_listed(list: &str, what: &str, call: u64) -> bool {
    list.split(',').filter_map(|entry| entry.trim().split_once(':')).any(|(name, number)| {
        let from = number.strip_suffix('+');
        let wanted = from.unwrap_or(number).parse::<u64>();
        name == what && wanted.is_ok_and(|wanted| call == wanted || (from.is_some() && call > wanted))
    })
}

/// Returns the number in an environment variable.
pub(crate) fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use super::is_listed;

    #[test]
    fn only_the_calls_named_fail() {
        let failing = |list, what| (1..=5).filter(|&call| is_listed(list, what, call)).collect::<Vec<_>>();
        assert_eq!(failing("alloc:3", "alloc"), [3]);
        assert_eq!(failing("launch:1, alloc:2+", "alloc"), [2, 3, 4, 5]);
        assert_eq!(failing("launch:1,alloc:2+", "pin"), [0; 0]);
        assert_eq!(failing("alloc:many", "alloc"), [0; 0]);
    }
}
