//! Nodata: which samples equal the nodata value, and how they become NaN.

pub(crate) mod nodata_test;
pub(crate) mod to_nan;
