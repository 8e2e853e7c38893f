//! TIFF codecs, predictors and sample unpacking.
//!
//! One file per codec. Every decoder writes into a slice of the exact size that the block must have and can neither
//! write nor allocate beyond it, whatever the stream says.

mod error;
pub mod jpeg;
pub mod jxl;
pub mod ojpeg;
mod shape;
pub mod webp;

pub use error::{Error, Result};
pub use shape::{SampleFormat, Shape};
