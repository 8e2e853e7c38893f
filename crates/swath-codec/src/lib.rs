//! TIFF codecs, predictors and sample unpacking.
//!
//! One file per codec. Every decoder writes into a slice of the exact size that the block must have and can neither
//! write nor allocate beyond it, whatever the stream says.

pub mod byteorder;
pub mod ccitt;
pub mod color;
mod decoder;
pub mod deflate;
mod encoder;
mod error;
pub mod inflate;
pub mod jpeg;
pub mod jpeg2000;
pub mod jxl;
pub mod lerc;
pub mod lz4;
pub mod lzma;
pub mod lzw;
pub mod next;
#[cfg(test)]
mod noise;
pub mod ojpeg;
pub mod packbits;
pub mod place;
pub mod predictor;
pub mod sample;
pub mod sgilog;
mod shape;
pub mod thunderscan;
#[cfg(test)]
mod torture;
pub mod webp;
pub mod zstd;

pub use decoder::{Codec, Decoder, Extent, OldJpeg, RowAccess, Scratch};
pub use encoder::{Compress, EncodeScratch, Encoder, Tuning};
pub use error::{Error, Result};
pub use predictor::Predictor;
pub use sample::DType;
pub use shape::{SampleFormat, Shape};
