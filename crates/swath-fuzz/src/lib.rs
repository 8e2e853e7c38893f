//! The bodies of the fuzz targets in `fuzz/`. Each takes any bytes and panics if Swath breaks a promise: errors
//! are allowed; panics, different pixels and values that do not survive a round trip are not.
//!
//! They are a library, so that `cargo test` replays the inputs in `fuzz/seeds` and `fuzz/regressions` with the
//! stable compiler.

mod block;
pub mod decode;
pub mod default_limits;
pub mod directory;
pub mod geokeys;
pub mod inflate;
pub mod kernels;
pub mod open_read;
pub mod plan;
pub mod round_trip;
pub mod third_party;
pub mod unzstd;
pub mod wkt;
pub mod xml;

/// The body of a target.
pub type Target = fn(&[u8]);

/// All targets: the name, the folder of their inputs below `fuzz/seeds` and `fuzz/regressions`, and the body.
/// Targets that take a file share their inputs.
pub const TARGETS: [(&str, &str, Target); 12] = [
    ("decode", "decode", decode::run),
    ("default_limits", "open_read", default_limits::run),
    ("directory", "open_read", directory::run),
    ("geokeys", "geokeys", geokeys::run),
    ("inflate", "inflate", inflate::run),
    ("kernels", "kernels", kernels::run),
    ("open_read", "open_read", open_read::run),
    ("plan", "plan", plan::run),
    ("round_trip", "round_trip", round_trip::run),
    ("unzstd", "unzstd", unzstd::run),
    ("wkt", "wkt", wkt::run),
    ("xml", "xml", xml::run),
];
