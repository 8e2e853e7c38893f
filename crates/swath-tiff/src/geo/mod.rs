//! The location of the pixels: affine transforms, ground control points, rational polynomials, and the coordinate reference system.
//!
//! Everything here takes plain slices of tag values, so that tests need no file and values from a sidecar can
//! be used too. If the specification leaves a choice, the rules are those of GDAL, because most existing files
//! were checked with GDAL.

mod crs;
mod crs_keys;
mod crs_text;
mod epsg;
mod gcp;
mod geographic;
mod identify;
mod keys;
mod method;
mod names;
mod rpc;
mod transform;
mod wkt;

pub use crs::{Authority, Citations, Code, Crs, CrsKind, Parameter, Projection, Vertical, compound_epsg};
pub use crs_keys::CrsKeysError;
pub use gcp::Gcp;
pub use geographic::{Datum, Ellipsoid, Geographic, PrimeMeridian};
pub use keys::{EncodedKeys, GeoKey, GeoKeys, GeoWarning, KeyEncodeError, KeyValue};
pub use method::{Method, MethodParameter, Quantity};
pub use names::{Unit, key_name};
pub use rpc::{Rpc, RpcError};
pub use transform::{EmptyLevel, GeoTransform, Georef, RasterType, RawGeoref, georef_tags, resolve};
pub use wkt::WktError;
