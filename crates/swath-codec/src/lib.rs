//! TIFF codecs, predictors and sample unpacking.
//!
//! One file per codec. Every decoder writes into a slice that has the exact size of the decoded block. No
//! stream can make it write or allocate more than that.

pub mod byteorder;
pub mod ccitt;
pub mod codecs;
pub mod color;
mod compress;
mod contain;
mod decoder;
pub mod deflate;
pub mod deflate_encode;
mod encoder;
mod error;
mod excluded;
pub mod inflate;
pub mod jpeg;
pub mod jpeg2000;
#[cfg(feature = "jxl")]
pub mod jxl;
pub mod lerc;
pub mod lz4;
#[cfg(feature = "lzma")]
pub mod lzma;
pub mod lzw;
mod memory;
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
pub mod unzstd;
#[cfg(feature = "webp")]
pub mod webp;
pub mod zstd;

pub use codecs::{CODECS, CodecInfo, can_decode};
pub use compress::{CodecOptions, Compress};
pub use decoder::{Codec, Decoder, Decompressed, Extent, GroupBlock, OldJpeg, RowAccess, Scratch};
pub use encoder::{EncodeScratch, Encoder};
pub use error::{Error, Result};
#[cfg(not(feature = "jxl"))]
pub use excluded::jxl;
#[cfg(not(feature = "lzma"))]
pub use excluded::lzma;
#[cfg(not(feature = "webp"))]
pub use excluded::webp;
pub use predictor::{Predictor, RowUndo};
pub use sample::DType;
pub use shape::Shape;
pub use swath_tiff::SampleFormat;
