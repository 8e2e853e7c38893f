//! Writing.

// Until the writer uses them.
#[cfg_attr(not(test), allow(dead_code))]
mod reduce;
#[cfg_attr(not(test), allow(dead_code))]
mod statistics;

pub use reduce::Resampling;
pub use statistics::BandStatistics;
