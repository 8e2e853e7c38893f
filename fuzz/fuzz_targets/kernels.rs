//! `swath_fuzz::kernels` describes the target.
#![no_main]

use libfuzzer_sys::fuzz_target;
use swath_fuzz::{kernels, third_party};

fuzz_target!(
    init: third_party::ignore_panics(),
    |data: &[u8]| third_party::contain(kernels::run, data)
);
