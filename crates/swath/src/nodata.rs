//! Nodata: which samples equal the nodata value, and how they become NaN.

pub(crate) mod is_nodata;
pub(crate) mod to_nan;
