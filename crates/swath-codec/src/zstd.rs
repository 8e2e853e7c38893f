//! Zstandard (RFC 8878): compression 50000.

use std::fmt;

use zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

use crate::unzstd::Unzstd;
use crate::{Error, Result, memory};

const NAME: &str = "ZSTD";
/// The largest window that the streaming decoder may allocate, 2^27 bytes: the default limit of zstd.
const WINDOW_LOG_MAX: u32 = 27;

/// The memory that a context needs at least, for messages. zstd does not report how much it could not get.
const CONTEXT_BYTES: usize = 128 << 10;
/// The code with which zstd reports that it could not allocate memory (`ZSTD_error_memory_allocation`, a stable number).
const NO_MEMORY: usize = 64_usize.wrapping_neg();

/// The code with which zstd refuses a window (`ZSTD_error_frameParameter_windowTooLarge`, a stable number).
const WINDOW_TOO_LARGE: usize = 16_usize.wrapping_neg();

/// Returns the size of the window that the first frame states (RFC 8878, 3.1.1.1.2).
fn window_size(src: &[u8]) -> Option<u64> {
    let &[_, _, _, _, descriptor, window, ..] = src else { return None };
    if descriptor & 0x20 != 0 {
        // A single segment: the window is the content.
        return zstd_safe::get_frame_content_size(src).ok().flatten();
    }
    let base = 1_u64 << (10 + (window >> 3));
    Some(base + base / 8 * u64::from(window & 7))
}

/// Returns the error that zstd reports with a code.
fn error(code: usize) -> Error {
    match code {
        NO_MEMORY => memory::out_of_memory(NAME, CONTEXT_BYTES),
        code => Error::Corrupt { codec: NAME, what: zstd_safe::get_error_name(code) },
    }
}

/// A reusable ZSTD decoder.
pub struct Decoder {
    context: DCtx<'static>,
    /// The decoder that comes first. `None` if there was no memory for it.
    first: Option<Unzstd>,
    /// The largest window that may be allocated, as its binary logarithm.
    window_log_max: u32,
    /// The number of bytes from which `window_log_max` was derived.
    max_window: u64,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").finish_non_exhaustive()
    }
}

impl Decoder {
    /// Creates a decoder.
    ///
    /// # Panics
    /// If the system does not have the memory.
    pub fn new() -> Self {
        Self { context: DCtx::create(), first: Unzstd::try_new(), window_log_max: WINDOW_LOG_MAX, max_window: u64::MAX }
    }

    /// Creates a decoder, or returns [`Error::OutOfMemory`].
    pub(crate) fn try_new() -> Result<Self> {
        let context = DCtx::try_create().ok_or(memory::out_of_memory(NAME, CONTEXT_BYTES))?;
        Ok(Self { context, first: Unzstd::try_new(), window_log_max: WINDOW_LOG_MAX, max_window: u64::MAX })
    }

    /// Sets the largest window that decoding may allocate, in bytes. zstd allows no limit below 1 KiB.
    pub(crate) fn set_max_window(&mut self, bytes: u64) {
        self.max_window = bytes;
        self.window_log_max = bytes.max(1 << 10).ilog2().min(WINDOW_LOG_MAX);
    }

    /// Decodes the frames of `src` until they end or `dst` is full, and returns the number of decoded bytes in
    /// `dst`.
    ///
    /// The bytes of `dst` after the decoded ones are unspecified.
    pub fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        if let Some(len) = self.first.as_mut().and_then(|first| first.decode(src, dst)) {
            return Ok(len);
        }
        // Decoding in one call is tried before streaming: it needs no window and no second copy of the data. The
        // streaming decoder needs both, because libtiff's frames do not store their size.
        match self.context.decompress(dst, src) {
            Ok(len) => Ok(len),
            Err(_) => self.decode_top(src, dst),
        }
    }

    /// Decodes until `dst` is full, without first trying to decode the whole stream. Use it for a stream that
    /// contains more than `dst` has space for, that is truncated, or that is followed by other data.
    pub fn decode_top(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        self.context.reset(ResetDirective::SessionAndParameters).map_err(error)?;
        self.context.set_parameter(DParameter::WindowLogMax(self.window_log_max)).map_err(error)?;
        let want = dst.len();
        let mut input = InBuffer::around(src);
        let mut output = OutBuffer::around(dst);
        loop {
            let before = (input.pos(), output.pos());
            let (limit, lowered) = (self.max_window, self.window_log_max < WINDOW_LOG_MAX);
            self.context.decompress_stream(&mut output, &mut input).map_err(|code| match code {
                // The window of a frame that follows the first is not known here.
                WINDOW_TOO_LARGE if lowered => {
                    Error::MemoryLimit { codec: NAME, needed: window_size(src).unwrap_or(0).max(limit + 1), limit }
                }
                code => error(code),
            })?;
            // Without progress in either direction, the stream is truncated, or `dst` has no space for the
            // rest.
            if output.pos() == want || (input.pos(), output.pos()) == before {
                return Ok(output.pos());
            }
        }
    }
}

/// A reusable ZSTD encoder with one compression level.
pub struct Encoder {
    context: CCtx<'static>,
    /// A context for large blocks with a smaller hash table, at the levels that have a larger one.
    small_hash: Option<CCtx<'static>>,
    level: i32,
}

/// The binary logarithm of the entries of the hash table for large blocks. zstd's table for them has 2^20 to
/// 2^23 entries (4 to 32 MiB) at levels 7 to 12 and misses the cache at nearly every position. A table of
/// 2 MiB encodes terrain and scenes in tiles of 512 x 512 1.15 times as fast at level 9, and 1.1 to 1.5 times
/// at level 12. Blocks become 0.06 % smaller (noisy scene) to 0.7 % larger (floats without a predictor).
const HASH_LOG: u32 = 19;
const LEVELS_WITH_LARGER_HASH: std::ops::RangeInclusive<i32> = 7..=12;
/// zstd itself uses a smaller table for smaller blocks.
const LARGE_BLOCK: usize = 512 << 10;

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").field("level", &self.level).finish_non_exhaustive()
    }
}

impl Encoder {
    /// Creates an encoder with `level` 1 (fast) to 22 (small).
    pub fn new(level: i32) -> Result<Self> {
        if !(1..=22).contains(&level) {
            return Err(Error::Unsuited { codec: NAME, what: "a compression level outside 1 to 22" });
        }
        let context = || CCtx::try_create().ok_or(memory::out_of_memory(NAME, CONTEXT_BYTES));
        let small_hash = LEVELS_WITH_LARGER_HASH.contains(&level).then(|| {
            let mut context = context()?;
            for parameter in [CParameter::CompressionLevel(level), CParameter::HashLog(HASH_LOG)] {
                context.set_parameter(parameter).map_err(error)?;
            }
            Ok(context)
        });
        Ok(Self { context: context()?, small_hash: small_hash.transpose()?, level })
    }

    /// Appends one frame to `out` that contains `src` and its size.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if zstd cannot get its working memory. `out` is then as it was.
    pub fn encode(&mut self, src: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        let bound = zstd_safe::compress_bound(src.len());
        memory::reserve(NAME, out, bound)?;
        out.resize(start + bound, 0);
        let made = match &mut self.small_hash {
            Some(context) if src.len() > LARGE_BLOCK => context.compress2(&mut out[start..], src),
            _ => self.context.compress(&mut out[start..], src, self.level),
        };
        // The bound is large enough for any content, but zstd allocates its tables when it compresses.
        out.truncate(start + made.as_ref().map_or(0, |len| *len));
        made.map(drop).map_err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::{classes, noise, ramp, torture};

    fn encoded(src: &[u8], level: i32) -> Vec<u8> {
        let mut out = Vec::new();
        Encoder::new(level).unwrap().encode(src, &mut out).unwrap();
        out
    }

    #[test]
    fn libtiff_stream_decodes() {
        // libtiff wrote this stream: 24 bytes of 7 and the alphabet, in a frame that does not store its size.
        let stream = &[
            40, 181, 47, 253, 0, 96, 13, 1, 0, 216, 7, 97, 98, 99, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109,
            110, 111, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122, 1, 0, 212, 78, 8,
        ];
        let plain: Vec<u8> = [[7; 24].as_slice(), b"abcdefghijklmnopqrstuvwxyz"].concat();
        let mut decoder = Decoder::new();
        torture(|src, dst| decoder.decode(src, dst), stream, &plain);
    }

    #[test]
    fn large_blocks_decode_and_do_not_depend_on_earlier_blocks() {
        let mut encoder = Encoder::new(9).unwrap();
        for plain in [ramp(LARGE_BLOCK + 1), ramp(5000), noise(LARGE_BLOCK * 3, 16), classes(LARGE_BLOCK + 7)] {
            let mut stream = Vec::new();
            encoder.encode(&plain, &mut stream).unwrap();
            assert!(stream == encoded(&plain, 9));
            let mut dst = vec![0; plain.len()];
            assert_eq!(Decoder::new().decode(&stream, &mut dst), Ok(plain.len()));
            assert!(dst == plain);
        }
    }

    #[test]
    fn consecutive_frames_are_one_stream() {
        let plain = ramp(9000);
        let stream = [encoded(&plain[..4000], 3), encoded(&plain[4000..], 19)].concat();
        let mut decoder = Decoder::new();
        torture(|src, dst| decoder.decode(src, dst), &stream, &plain);
    }

    #[test]
    fn truncated_stream_returns_the_bytes_that_it_contains() {
        let plain = noise(1_000_000, 16);
        let stream = encoded(&plain, 3);
        let mut dst = vec![0; plain.len()];
        let len = Decoder::new().decode(&stream[..stream.len() / 2], &mut dst).unwrap();
        assert!(len > plain.len() / 4 && len < plain.len());
        assert!(dst[..len] == plain[..len]);
    }

    #[test]
    fn bytes_after_the_frame_are_ignored_if_the_block_is_full() {
        let plain = ramp(9000);
        let stream = [encoded(&plain, 3), vec![0xEE; 100]].concat();
        let mut dst = vec![0; plain.len()];
        assert_eq!(Decoder::new().decode(&stream, &mut dst), Ok(plain.len()));
        assert!(dst == plain);
    }

    #[test]
    fn a_window_of_gigabytes_is_refused_before_it_is_allocated() {
        // A frame header that requests a window of 2^31 bytes, then a truncated compressed block.
        let stream = [0x28, 0xB5, 0x2F, 0xFD, 0x00, 21 << 3, 0x04, 0x01, 0x00];
        assert!(matches!(Decoder::new().decode(&stream, &mut [0; 100]), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn a_window_above_the_limit_of_the_caller_is_refused_and_a_smaller_one_is_not() {
        // A frame header that requests a window of 2^26 bytes, then a truncated compressed block.
        let stream = [0x28, 0xB5, 0x2F, 0xFD, 0x00, 16 << 3, 0x04, 0x01, 0x00];
        let mut decoder = Decoder::new();
        decoder.set_max_window(1 << 25);
        let refused = decoder.decode(&stream, &mut [0; 100]);
        assert_eq!(refused, Err(Error::MemoryLimit { codec: NAME, needed: 1 << 26, limit: 1 << 25 }));
        decoder.set_max_window(1 << 26);
        assert!(!matches!(decoder.decode(&stream, &mut [0; 100]), Err(Error::MemoryLimit { .. })));
    }

    #[test]
    fn levels_outside_1_to_22_are_refused() {
        for level in [-1, 0, 23] {
            assert!(matches!(Encoder::new(level), Err(Error::Unsuited { .. })));
        }
    }

    #[test]
    fn damage_neither_panics_nor_overruns() {
        let mut decoder = Decoder::new();
        for (plain, level) in [(noise(1000, 256), 1), (noise(2000, 3), 9), (classes(3000), 15), (ramp(3000), 19)] {
            torture(|src, dst| decoder.decode(src, dst), &encoded(&plain, level), &plain);
        }
    }

    #[test]
    fn decoder_can_move_to_another_thread() {
        fn send<T: Send>() {}
        send::<Decoder>();
        send::<Encoder>();
    }
}
