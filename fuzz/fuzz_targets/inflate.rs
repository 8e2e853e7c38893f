//! `swath_fuzz::inflate` describes the target.
#![no_main]

use libfuzzer_sys::fuzz_target;
use swath_fuzz::{inflate, third_party};

fuzz_target!(
    init: third_party::ignore_panics(),
    |data: &[u8]| third_party::contain(inflate::run, data)
);
