//! Decodes Zstandard frames (RFC 8878) with fewer instructions per sequence than libzstd.
//!
//! A raster with noise compresses to many short sequences: libzstd executes about 130 instructions for each of
//! them. Here an entry of a table is one word, the position in the bit stream is one number, and the limits of a
//! sequence are checked once: see `sequences.rs`.
//!
//! This decoder accepts a subset of the frames that libzstd accepts and returns the same bytes. A frame that it
//! refuses may still be valid: the caller passes it to libzstd, which decides whether it is an error. It refuses
//! frames with a checksum or a dictionary, several frames, windows over 2^27 bytes, and frames with long sequences,
//! which libzstd decodes faster.

mod bits;
mod frame;
mod fse;
mod huffman;
mod sequences;
#[cfg(test)]
mod tests;

use fse::Table;
use huffman::Huffman;

use crate::memory;

/// The largest number of bytes that a block decodes to.
const MAX_BLOCK: usize = 128 << 10;
/// The bytes after the literals of a block that copies may read, and the bytes at the end of the output that only
/// exact copies write.
const SLACK: usize = 32;

/// The reason why this decoder stops: the frame is damaged, or one that it does not decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Refused;

/// Decodes frames. It keeps its buffers (about 150 KB) between frames.
pub struct Unzstd {
    /// The literals of a block, and [`SLACK`] bytes.
    literals: Box<[u8; MAX_BLOCK + SLACK]>,
    huffman: Huffman,
    tables: Box<[Tables; 1]>,
}

/// The tables of a block's sequences, side by side, so that one register finds them all.
#[derive(Default)]
struct Tables {
    literals: Table,
    offsets: Table,
    matches: Table,
}

impl std::fmt::Debug for Unzstd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unzstd").finish_non_exhaustive()
    }
}

impl Unzstd {
    /// Creates a decoder, or returns `None` if the system does not have the memory.
    pub fn try_new() -> Option<Self> {
        Some(Self {
            literals: memory::boxed(|| 0)?,
            huffman: Huffman::try_new()?,
            tables: memory::boxed(Tables::default)?,
        })
    }

    /// Decodes the only frame of `src` and returns the number of decoded bytes, which are the first of `dst`.
    /// Returns `None` if it refuses the frame, if libzstd is likely to be faster, or if `dst` is too small. The contents
    /// of `dst` are then unspecified.
    pub fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        self.frame(src, dst, false).ok()
    }

    /// As [`decode`](Self::decode), also if libzstd is likely to be faster.
    pub fn decode_any(&mut self, src: &[u8], dst: &mut [u8]) -> Option<usize> {
        self.frame(src, dst, true).ok()
    }
}
