//! Panics of crates that Swath uses.
//!
//! Swath contains panics of decoders and encoders, but not in a build for the fuzzer, so that the fuzzer finds
//! panics in Swath's own code. A panic in the code of another crate would stop the fuzzer although users get an
//! error. This module prints such a panic once and lets the fuzzer go on.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind, set_hook, take_hook};
use std::sync::Mutex;

/// Puts a hook in front of the panic hook, which is the fuzzer's and aborts the process: panics of other crates
/// do not reach it. Call it once, before the first input.
#[expect(clippy::print_stderr, reason = "the log of the fuzzer is its standard error")]
pub fn ignore_panics() {
    let seen = Mutex::new(HashSet::new());
    let abort = take_hook();
    set_hook(Box::new(move |info| match info.location() {
        Some(place) if is_third_party(place) => {
            let name = format!("{}:{}", place.file(), place.line());
            if seen.lock().is_ok_and(|mut seen| seen.insert(name.clone())) {
                eprintln!("a contained panic: {name}");
            }
        }
        _ => abort(info),
    }));
}

/// Runs a target. A panic that the hook of [`ignore_panics`] let pass ends only this input.
pub fn contain(target: super::Target, data: &[u8]) {
    let outcome = catch_unwind(AssertUnwindSafe(|| target(data)));
    if let Err(panic) = outcome
        && !cfg!(fuzzing)
    {
        resume_unwind(panic);
    }
}

/// Cargo unpacks the crates of a registry below a folder of this name.
fn is_third_party(place: &Location<'_>) -> bool {
    place.file().replace('\\', "/").contains("/registry/src/")
}
