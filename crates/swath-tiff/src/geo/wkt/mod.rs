//! Well-known text: the form in which reference systems travel between programs.
//!
//! Written is WKT 1 in GDAL's dialect, which every geospatial library reads, and ESRI's dialect where GeoKeys have no words for
//! a projection. Read are WKT 1 of both dialects and WKT 2 (ISO 19162:2015 and 2019).

mod esri;
mod projection;
mod read;
mod text;
mod write;

pub use text::WktError;

pub(super) use read::read_lenient;
