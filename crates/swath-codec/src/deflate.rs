//! Deflate in zlib framing (RFC 1950, 1951): compression 8 and 32946.
//!
//! libdeflate decodes. It needs the size of the output in advance, so streams that contain more than the block
//! needs, or that are truncated, are decoded again by an inflater that can stop in the middle.

use std::fmt;
use std::ops::RangeInclusive;

use libdeflater::{CompressionLvl, Compressor, DecompressionError, Decompressor};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_PARSE_ZLIB_HEADER, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use crate::deflate_encode::{LongMatchEncoder, Share};
use crate::inflate::{self, Inflater, Stream};
use crate::{Error, Result};

const NAME: &str = "Deflate";

/// The number of bytes of space that [`Decoder::decode_top`] needs after the requested bytes.
pub const SLACK: usize = 2048;

/// The position in the slack of a marker that only decoded bytes can overwrite. libdeflate writes in order and
/// copies up to 299 bytes past the end of the decoded bytes, so if the marker has changed, all bytes before the
/// slack are decoded.
const MARK: std::ops::Range<usize> = 512..1536;

/// The marker: bytes that are very unlikely in an image.
const PATTERN: [u8; MARK.end - MARK.start] = {
    let mut pattern = [0; MARK.end - MARK.start];
    let (mut i, mut state) = (0, 0x9E37_79B9_u32);
    while i < pattern.len() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        pattern[i] = (state >> 24) as u8;
        i += 1;
    }
    pattern
};

/// The smallest number of streams to decode at once. A single stream takes 1.2 times as long as with
/// libdeflate.
const FEWEST: usize = 2;

/// A reusable Deflate decoder.
pub struct Decoder {
    whole: Decompressor,
    partial: Option<Box<DecompressorOxide>>,
    several: Option<Inflater>,
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
    pub fn new() -> Self {
        Self { whole: Decompressor::new(), partial: None, several: None }
    }

    /// Decodes `src` until it ends or `dst` is full, and returns the number of decoded bytes in `dst`.
    ///
    /// The checksum is tested if the stream is read to its end: a wrong checksum is an error, a missing one is
    /// not. Data after the bytes that fill `dst` is ignored. The bytes of `dst` after the decoded ones are
    /// unspecified.
    pub fn decode(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        match self.whole.zlib_decompress(src, dst) {
            Ok(len) => Ok(len),
            Err(_) => self.decode_partly(src, dst),
        }
    }

    /// Decodes each of `streams` as [`decode`](Self::decode) does, with the same results, except that it ignores the
    /// checksum if only the [top](Stream::top) of a stream is needed. Streams that are faster to decode together are
    /// decoded at once: the more streams the better, as long as they fit into the cache.
    pub fn decode_batch(&mut self, streams: &mut [Stream<'_>]) -> Vec<Result<usize>> {
        let gains = |stream: &Stream<'_>| inflate::gains(stream.src.len(), stream.dst.len());
        if streams.iter().filter(|stream| gains(stream)).count() >= FEWEST
            && let Some(several) = self.several()
        {
            several.decode(streams.iter_mut().filter(|stream| gains(stream)));
        }
        let decode = |Stream { src, dst, len, .. }: &mut Stream<'_>| match len.take() {
            Some(len) => Ok(len),
            None => self.decode(src, dst),
        };
        streams.iter_mut().map(decode).collect()
    }

    /// Decodes the first `want` bytes of a stream that may contain many more, at the speed of libdeflate. `dst`
    /// has [`SLACK`] bytes more than that; their content afterwards is unspecified. Returns the number of
    /// requested bytes that were decoded, and ignores the checksum.
    ///
    /// libdeflate stops if the next piece of the stream does not fit, and does not report how far it got. It
    /// has decoded everything up to the last piece, which has at most 258 bytes, or 65535 bytes in a stored
    /// block. The marker distinguishes the two cases.
    pub fn decode_top(&mut self, src: &[u8], dst: &mut [u8], want: usize) -> Result<usize> {
        let Some(mark) = dst.get_mut(want + MARK.start..want + MARK.end) else { return self.decode(src, dst) };
        mark.copy_from_slice(&PATTERN);
        match self.whole.zlib_decompress(src, dst) {
            Ok(len) => Ok(len.min(want)),
            Err(DecompressionError::InsufficientSpace) if dst[want + MARK.start..want + MARK.end] != PATTERN => {
                Ok(want)
            }
            Err(_) => {
                // As in a batch: damage after the requested bytes is no error, whichever way the block is decoded.
                let mut top = [Stream::top(src, &mut dst[..want])];
                if let Some(several) = self.several() {
                    several.decode(&mut top);
                }
                match top {
                    [Stream { len: Some(len), .. }] => Ok(len),
                    _ => self.decode_partly(src, &mut dst[..want]),
                }
            }
        }
    }

    /// The decoder of several streams, or `None` if there is no memory for its tables: each stream is then decoded alone.
    fn several(&mut self) -> Option<&mut Inflater> {
        if self.several.is_none() {
            self.several = Inflater::try_new();
        }
        self.several.as_mut()
    }

    fn decode_partly(&mut self, src: &[u8], dst: &mut [u8]) -> Result<usize> {
        let inflater = self.partial.get_or_insert_default();
        inflater.init();
        let flags = TINFL_FLAG_PARSE_ZLIB_HEADER | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        let (status, _, len) = decompress(inflater, src, dst, 0, flags);
        match status {
            TINFLStatus::Done
            | TINFLStatus::HasMoreOutput
            | TINFLStatus::NeedsMoreInput
            | TINFLStatus::FailedCannotMakeProgress => Ok(len),
            TINFLStatus::Adler32Mismatch => corrupt("its checksum does not match its data"),
            _ => corrupt("it breaks the rules of the format"),
        }
    }
}

fn corrupt<T>(what: &'static str) -> Result<T> {
    Err(Error::Corrupt { codec: NAME, what })
}

/// A reusable Deflate encoder with one compression level.
pub struct Encoder {
    compressor: Compressor,
    /// The part of its size that a sample of a block must at least take for [`LongMatchEncoder`], at the levels that
    /// use it.
    smallest_sample: Option<Share>,
    for_long: Option<Box<LongMatchEncoder>>,
    /// The compressor for noisy blocks, at the levels that have one.
    for_noise: Option<Compressor>,
}

/// The levels that find matches of three bytes. In noise such matches take more space than their bytes.
/// Level 1 only uses matches of four bytes or more, so it makes smaller streams from noise in less time: a
/// scene with sensor noise becomes 1.8 % smaller and takes 0.73 of the time of level 6.
const LEVELS_WITH_SHORT_MATCHES: RangeInclusive<i32> = 5..=9;
/// Smaller blocks are not tested.
const SMALLEST_TESTED: usize = 64 << 10;

/// Returns the smallest part of its size that a sample must take, so that [`LongMatchEncoder`] replaces libdeflate at
/// this level. At levels 1 to 4 it must not be slower, at 7 to 9 not larger: libdeflate wins where matches cover most
/// of the block, in time or in size.
fn smallest_sample(level: i32) -> Option<Share> {
    match level {
        1..=4 => Some(Share { part: 1, of: 3 }),
        5..=6 => Some(Share { part: 1, of: 6 }),
        7..=9 => Some(Share { part: 2, of: 3 }),
        _ => None,
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}

impl Encoder {
    /// Creates an encoder with `level` 1 (fast) to 12 (small).
    pub fn new(level: i32) -> Result<Self> {
        match CompressionLvl::new(level) {
            Ok(lvl) if level >= 1 => {
                let for_noise = LEVELS_WITH_SHORT_MATCHES.contains(&level).then(|| CompressionLvl::new(1).ok());
                Ok(Self {
                    compressor: Compressor::new(lvl),
                    smallest_sample: smallest_sample(level),
                    for_long: None,
                    for_noise: for_noise.flatten().map(Compressor::new),
                })
            }
            _ => Err(Error::Unsuited { codec: NAME, what: "a compression level outside 1 to 12" }),
        }
    }

    /// Appends the zlib stream of `src` to `out`. The stream depends only on `src` and the level.
    pub fn encode(&mut self, src: &[u8], out: &mut Vec<u8>) {
        if src.len() >= SMALLEST_TESTED
            && let Some(smallest) = self.smallest_sample
        {
            let for_long = self.for_long.get_or_insert_default();
            if for_long.suits(src, smallest) {
                return for_long.encode(src, out);
            }
        }
        let start = out.len();
        out.resize(start + self.compressor.zlib_compress_bound(src.len()), 0);
        let stream = &mut out[start..];
        // This cannot fail: the bound is large enough for any content.
        let len = if self.is_noise(src, stream)
            && let Some(for_noise) = &mut self.for_noise
        {
            for_noise.zlib_compress(src, stream)
        } else {
            self.compressor.zlib_compress(src, stream)
        }
        .unwrap_or_default();
        out.truncate(start + len);
    }

    /// Whether the compressor for noise makes the stream of a sample at least 1 % smaller. The margin is for
    /// blocks whose matches are too far apart for a sample. The test takes 2 % of the time of a block.
    fn is_noise(&mut self, src: &[u8], space: &mut [u8]) -> bool {
        let Some(for_noise) = self.for_noise.as_mut().filter(|_| src.len() >= SMALLEST_TESTED) else { return false };
        let len = (src.len() / 64).clamp(4 << 10, 16 << 10);
        let sample = &src[(src.len() - len) / 2..][..len];
        match (for_noise.zlib_compress(sample, space), self.compressor.zlib_compress(sample, space)) {
            (Ok(noise), Ok(other)) => noise * 100 <= other * 99,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::{classes, noise, ramp, torture};

    fn encoded(src: &[u8], level: i32) -> Vec<u8> {
        let mut out = Vec::new();
        Encoder::new(level).unwrap().encode(src, &mut out);
        out
    }

    #[test]
    fn libtiff_stream_decodes() {
        // libtiff wrote this stream: 24 bytes of 7 and the alphabet.
        let stream = &[
            120, 156, 99, 103, 199, 14, 18, 147, 146, 83, 82, 211, 210, 51, 50, 179, 178, 115, 114, 243, 242, 11, 10,
            139, 138, 75, 74, 203, 202, 43, 42, 171, 0, 169, 226, 11, 200,
        ];
        let plain: Vec<u8> = [[7; 24].as_slice(), b"abcdefghijklmnopqrstuvwxyz"].concat();
        let mut dst = vec![0; plain.len()];
        assert_eq!(Decoder::new().decode(stream, &mut dst), Ok(plain.len()));
        assert_eq!(dst, plain);
    }

    #[test]
    fn wrong_checksum_is_corrupt_and_a_missing_one_is_not() {
        let plain = ramp(5000);
        let mut stream = encoded(&plain, 6);
        let mut dst = vec![0; plain.len()];
        let mut decoder = Decoder::new();
        assert_eq!(decoder.decode(&stream[..stream.len() - 4], &mut dst), Ok(plain.len()));
        assert!(dst == plain);
        *stream.last_mut().unwrap() ^= 1;
        assert!(matches!(decoder.decode(&stream, &mut dst), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn damage_after_the_last_needed_byte_is_ignored() {
        let plain = ramp(50_000);
        let mut stream = encoded(&plain, 6);
        let at = stream.len() - 5000;
        stream[at..].fill(0xFF);
        let mut dst = vec![0; 20_000];
        assert_eq!(Decoder::new().decode(&stream, &mut dst), Ok(20_000));
        assert!(dst == plain[..20_000]);
    }

    #[test]
    fn top_of_a_stream_is_correct_for_every_kind_of_block() {
        // At level 1, noise becomes stored blocks of up to 65535 bytes, the pieces that libdeflate skips as a
        // whole.
        for (plain, level) in
            [(noise(400_000, 256), 1), (ramp(400_000), 6), (classes(400_000), 12), (noise(400_000, 3), 9)]
        {
            let stream = encoded(&plain, level);
            let mut decoder = Decoder::new();
            for want in [1, 100, 512, 1024, 65_534, 65_535, 65_536, 131_071, 200_001, 397_000, 399_999, 400_000] {
                let mut dst = vec![0xAA; want + SLACK];
                assert_eq!(decoder.decode_top(&stream, &mut dst, want), Ok(want));
                assert!(dst[..want] == plain[..want], "{want} bytes, level {level}");
            }
        }
    }

    #[test]
    fn raw_deflate_is_refused() {
        let stream = encoded(&classes(5000), 6);
        let raw = &stream[2..stream.len() - 4];
        assert!(matches!(Decoder::new().decode(raw, &mut [0; 5000]), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn noise_is_encoded_smaller_than_with_short_matches_and_terrain_is_not_changed() {
        let with = |level: i32, src: &[u8]| {
            let mut compressor = Compressor::new(CompressionLvl::new(level).unwrap());
            let mut out = vec![0; compressor.zlib_compress_bound(src.len())];
            let len = compressor.zlib_compress(src, &mut out).unwrap();
            out.truncate(len);
            out
        };
        // Differences of noisy samples, stored as 16-bit integers: the high byte of each difference is 0 or 255.
        let values = noise(400_000, 100);
        let differences = values.windows(2).flat_map(|pair| (i16::from(pair[1]) - i16::from(pair[0])).to_le_bytes());
        let noisy: Vec<u8> = differences.collect();
        let mut encoder = Encoder::new(6).unwrap();
        for (plain, level) in [(&noisy, 1), (&ramp(400_000), 6), (&classes(400_000), 6), (&noisy, 1)] {
            let mut stream = Vec::new();
            encoder.encode(plain, &mut stream);
            assert!(stream == with(level, plain), "encoded as with level {level}");
            assert!(stream.len() <= with(6, plain).len());
            let mut dst = vec![0; plain.len()];
            assert_eq!(Decoder::new().decode(&stream, &mut dst), Ok(plain.len()));
            assert!(&dst == plain);
        }
    }

    #[test]
    fn levels_outside_1_to_12_are_refused() {
        for level in [-1, 0, 13] {
            assert!(matches!(Encoder::new(level), Err(Error::Unsuited { .. })));
        }
    }

    #[test]
    fn truncated_stream_returns_the_bytes_that_it_contains() {
        let plain = ramp(50_000);
        let stream = encoded(&plain, 6);
        let mut dst = vec![0; plain.len()];
        let len = Decoder::new().decode(&stream[..stream.len() / 2], &mut dst).unwrap();
        assert!(len > plain.len() / 4 && len < plain.len());
        assert!(dst[..len] == plain[..len]);
    }

    #[test]
    fn damage_neither_panics_nor_overruns() {
        let mut decoder = Decoder::new();
        for (plain, level) in [(noise(2000, 256), 1), (noise(2000, 3), 6), (classes(3000), 9), (ramp(3000), 12)] {
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
