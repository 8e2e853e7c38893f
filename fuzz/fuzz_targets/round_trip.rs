//! `swath_fuzz::round_trip` describes the target.
#![no_main]

use libfuzzer_sys::fuzz_target;
use swath_fuzz::{round_trip, third_party};

fuzz_target!(
    init: third_party::ignore_panics(),
    |data: &[u8]| third_party::contain(round_trip::run, data)
);
