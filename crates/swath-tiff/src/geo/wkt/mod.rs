//! Well-known text: the format in which programs exchange reference systems.
//!
//! Swath writes WKT 1 in GDAL's dialect, which every geospatial library reads, and ESRI's dialect for
//! projections that GeoKeys do not define. It reads WKT 1 of both dialects and WKT 2 (ISO 19162:2015 and 2019).

mod esri;
mod projection;
mod read;
mod text;
mod write;

pub use text::WktError;

pub(super) use read::read_lenient;
