//! Writing.

#[cfg_attr(not(test), allow(dead_code))]
mod reduce;

pub use reduce::Resampling;
