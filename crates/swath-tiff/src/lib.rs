//! The GeoTIFF container: header, IFDs, tags, georeferencing, block grid.
//!
//! This crate reads the structure of a file, never pixels, and does no I/O itself: a [`ReadAt`] supplies the
//! bytes. Tag values are read on demand, and block tables are read by index, so opening a file with ten million
//! tiles costs the same as opening a file with ten.
#![forbid(unsafe_code)]

mod build;
mod bytes;
pub mod cog;
mod error;
mod field;
mod grid;
mod header;
mod ifd;
mod image;
mod limits;
mod roles;
mod sample_format;
mod table;
mod tag;

pub use build::{Builder, Value, encode_directories, encode_header};
pub use bytes::{ByteOrder, ReadAt};
pub use error::{Error, Location, Result};
pub use field::{Entry, FieldType, Fields};
pub use grid::{BlockGrid, Window};
pub use header::Header;
pub use ifd::{Chain, ChainLink, Ifd, read_chain};
pub use image::{Compression, ImageLayout, Photometric, Planar};
pub use limits::{LIMITS_VARIABLE, LimitInfo, Limits, LimitsVariableError, UnknownLimit};
pub use roles::{ImageRoles, Roles};
pub use sample_format::SampleFormat;
pub use table::{BlockTable, Span};
pub use tag::Tag;
pub mod gdal_metadata;
pub mod geodata_xform;
pub mod nodata;
mod number;
pub mod palette;
pub mod pam;
pub mod world_file;
pub mod xml;

pub mod geo;
#[cfg(test)]
mod mutate;
