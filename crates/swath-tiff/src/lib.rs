//! The GeoTIFF container.
#![forbid(unsafe_code)]
