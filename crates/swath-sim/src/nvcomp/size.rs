//! The requirements of nvCOMP for its caller: options, alignments and sizes.
//!
//! The numbers are those that the real library returns without a GPU, 5.3.0.16 and 6.0.0.12 alike. They are
//! expressed as formulas, which were compared with the library for thousands of sizes. Comments state where
//! they are not exact.

use super::{CHUNK_TOO_LARGE, INVALID_VALUE, NOT_SUPPORTED, Status};

/// The codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    Deflate,
    Zstd,
    Lz4,
}

/// The options of any call: its numbers first, then zeros up to the end.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Options(pub(super) [i32; 16]);

impl Options {
    /// Returns the first numbers. The others are reserved: the real library does not check that they are zero,
    /// but its documentation requires it.
    fn numbers<const N: usize>(self) -> Result<[i32; N], Status> {
        let (numbers, reserved) = self.0.split_first_chunk().ok_or(INVALID_VALUE)?;
        if reserved.iter().any(|&number| number != 0) {
            eprintln!("swath-sim: the reserved bytes of options for nvCOMP are not zero");
            return Err(INVALID_VALUE);
        }
        Ok(*numbers)
    }
}

/// The numbers of which addresses must be multiples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Alignments {
    pub(super) input: usize,
    pub(super) output: usize,
    pub(super) temp: usize,
}

/// The compression parameters, from checked options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    /// Deflate with the algorithm of this number.
    Deflate(i32),
    Zstd,
    /// Samples of this many bytes.
    Lz4(usize),
}

/// The decompression parameters, from checked options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decompression {
    pub(super) codec: Codec,
    /// Whether to use a hardware engine, which this device does not have.
    pub(super) hardware: bool,
}

/// Refuses bit shuffling, which TIFF does not use.
fn unshuffled(mode: i32) -> Result<(), Status> {
    if mode == 0 {
        return Ok(());
    }
    eprintln!("swath-sim: the options for nvCOMP request bit shuffling, which is not simulated");
    Err(NOT_SUPPORTED)
}

impl Compression {
    pub(super) fn new(codec: Codec, options: Options) -> Result<Compression, Status> {
        match codec {
            Codec::Deflate => {
                let [algorithm] = options.numbers()?;
                if (0..=5).contains(&algorithm) { Ok(Compression::Deflate(algorithm)) } else { Err(NOT_SUPPORTED) }
            }
            Codec::Zstd => options.numbers::<0>().map(|_| Compression::Zstd),
            Codec::Lz4 => {
                let [sample, mode] = options.numbers()?;
                unshuffled(mode)?;
                match sample {
                    0 | 1 | 0xff => Ok(Compression::Lz4(1)),
                    2 | 3 => Ok(Compression::Lz4(2)),
                    4 | 5 => Ok(Compression::Lz4(4)),
                    _ => Err(NOT_SUPPORTED),
                }
            }
        }
    }

    pub(super) fn alignments(self) -> Alignments {
        match self {
            Compression::Deflate(_) => Alignments { input: 1, output: 8, temp: 8 },
            Compression::Zstd => Alignments { input: 4, output: 1, temp: 1 },
            Compression::Lz4(sample) => Alignments { input: sample, output: 1, temp: 2 },
        }
    }

    /// Refuses chunks that are too large.
    pub(super) fn chunk(self, bytes: usize) -> Result<(), Status> {
        let most = match self {
            Compression::Deflate(_) => 1 << 31,
            Compression::Zstd => (1 << 31) - 1,
            Compression::Lz4(_) => 1 << 24,
        };
        if bytes <= most { Ok(()) } else { Err(CHUNK_TOO_LARGE) }
    }

    /// Returns the largest possible size of a compressed chunk.
    pub(super) fn max_output(self, bytes: usize) -> Result<usize, Status> {
        self.chunk(bytes)?;
        Ok(match self {
            // This is exact up to 14 MB. Above that the real library seems to compute in floats, and differs by
            // up to 280 bytes.
            Compression::Deflate(_) => {
                let bits = 18 * bytes + 16 * (3 * (bytes / 256) / 2) + 193;
                (8 * bits.div_ceil(64)).max((2 * bytes + 32).next_multiple_of(8)).max(64)
            }
            Compression::Zstd => {
                let header = match bytes {
                    ..256 => 6,
                    256..65_792 => 8,
                    _ => 10,
                };
                bytes + header + 3 * bytes.div_ceil(64 << 10).max(1)
            }
            Compression::Lz4(_) => (bytes + bytes / 255 + 2).next_multiple_of(8),
        })
    }

    /// Returns the temporary device memory in bytes for this number of chunks of at most this size.
    pub(super) fn temp(self, count: usize, chunk: usize) -> Result<usize, Status> {
        self.chunk(chunk)?;
        let (count, all) = (count as u128, count as u128 * chunk as u128);
        // Offsets in a chunk have 16 bits if they can.
        let offset = if chunk <= 64 << 10 { 2 } else { 4 };
        let arrays = |widths: &[u128]| widths.iter().map(|width| (width * all).next_multiple_of(8)).sum::<u128>();
        let bytes = match self {
            Compression::Lz4(_) => count * (32 << 10),
            // The real library queries the device, so the value is unknown. This is an estimate on the large
            // side.
            Compression::Zstd => 5 * all,
            _ if count == 0 => 0,
            Compression::Deflate(0) => 0,
            Compression::Deflate(algorithm @ 1..=3) => {
                let table = if algorithm == 1 { 16 << 10 } else { 160 << 10 };
                count * (table * offset + 24) + 2 * (4 * count).next_multiple_of(8) + arrays(&[1, offset, offset])
            }
            // The library sorts, and this is the limit of its sort.
            Compression::Deflate(_) if all > i32::MAX as u128 => return Err(NOT_SUPPORTED),
            // This is exact except for the last 8 bytes, which the real library does not always request.
            Compression::Deflate(algorithm) => {
                let first = if algorithm == 4 { 1 } else { 2 };
                count * 72 + arrays(&[first, offset, offset, offset, offset, 4 * offset]) + 8
            }
        };
        usize::try_from(bytes).map_err(|_| INVALID_VALUE)
    }
}

impl Decompression {
    pub(super) fn new(codec: Codec, options: Options) -> Result<Decompression, Status> {
        let backend = match codec {
            Codec::Deflate => {
                let [backend, _sort] = options.numbers()?;
                backend
            }
            Codec::Zstd => {
                let [backend] = options.numbers()?;
                // There is no engine for it, and its error differs from that of the others.
                if !matches!(backend, 0 | 2) {
                    return Err(INVALID_VALUE);
                }
                backend
            }
            Codec::Lz4 => {
                let [backend, _sort, _sample, mode] = options.numbers()?;
                unshuffled(mode)?;
                backend
            }
        };
        if (0..=2).contains(&backend) {
            Ok(Decompression { codec, hardware: backend == 1 })
        } else {
            Err(NOT_SUPPORTED)
        }
    }

    pub(super) fn alignments(self) -> Alignments {
        match self.codec {
            Codec::Deflate => Alignments { input: 4, output: 1, temp: 1 },
            Codec::Zstd => Alignments { input: 1, output: 1, temp: 8 },
            Codec::Lz4 => Alignments { input: 1, output: 1, temp: 1 },
        }
    }

    /// Refuses chunks that are too large, compressed or not.
    pub(super) fn chunk(self, bytes: usize) -> Result<(), Status> {
        let most = match self.codec {
            Codec::Deflate | Codec::Lz4 => (1 << 32) - 1,
            Codec::Zstd => (1 << 31) - 1,
        };
        if bytes <= most { Ok(()) } else { Err(CHUNK_TOO_LARGE) }
    }

    /// Returns the temporary device memory in bytes for this number of chunks with this total size.
    pub(super) fn temp(self, count: usize, total: usize) -> Result<usize, Status> {
        match self.codec {
            Codec::Deflate | Codec::Lz4 => Ok(0),
            Codec::Zstd if count == 0 => Ok(0),
            Codec::Zstd => {
                let bytes = 3 * total as u128 + 3468 * (2 * count).max(total / (64 << 10)) as u128;
                usize::try_from(bytes).map_err(|_| INVALID_VALUE)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB_64: usize = 64 << 10;

    fn compression(codec: Codec, number: i32) -> Compression {
        let mut options = Options::default();
        options.0[0] = number;
        Compression::new(codec, options).expect("good options")
    }

    fn deflate(algorithm: i32) -> Compression {
        compression(Codec::Deflate, algorithm)
    }

    #[test]
    fn output_sizes_are_those_of_the_real_library() {
        let sizes = [0, 7, 100, 1000, 4096, 65_535, KIB_64, KIB_64 + 1, 100_000, 512 << 10, 1 << 20];
        let outputs = |how: Compression| sizes.map(|bytes| how.max_output(bytes).unwrap());
        let expected = [64, 64, 256, 2288, 9296, 148_248, 148_256, 148_256, 226_200, 1_185_824, 2_371_616];
        assert_eq!(outputs(deflate(1)), expected);
        assert_eq!(outputs(deflate(5)), expected);
        let expected = [9, 16, 109, 1011, 4107, 65_546, 65_547, 65_551, 100_016, 524_322, 1_048_634];
        assert_eq!(outputs(compression(Codec::Zstd, 0)), expected);
        let expected = [8, 16, 104, 1008, 4120, 65_800, 65_800, 65_800, 100_400, 526_352, 1_052_696];
        assert_eq!(outputs(compression(Codec::Lz4, 0)), expected);
        assert_eq!(compression(Codec::Lz4, 0).max_output((1 << 24) + 1), Err(CHUNK_TOO_LARGE));
        assert_eq!(compression(Codec::Zstd, 0).max_output(1 << 31), Err(CHUNK_TOO_LARGE));
        assert_eq!(deflate(1).max_output((1 << 31) + 1), Err(CHUNK_TOO_LARGE));
    }

    #[test]
    fn temp_sizes_are_those_of_the_real_library() {
        let queries = [(0, 100), (1, 0), (1, 100), (3, KIB_64), (3, KIB_64 + 1), (101, 1), (100, 128 << 10)];
        let temps = |how: Compression| queries.map(|(count, chunk)| how.temp(count, chunk).unwrap());
        assert_eq!(temps(deflate(0)), [0; 7]);
        let expected = [0, 32_808, 33_312, 1_081_448, 1_966_224, 3_313_328, 124_521_600];
        assert_eq!(temps(deflate(1)), expected);
        assert_eq!(deflate(1).temp(100, KIB_64), Ok(36_048_000));
        assert_eq!(deflate(2).temp(3, KIB_64 + 1), Ok(3_735_696));
        assert!((3_342_552..=3_342_560).contains(&deflate(4).temp(3, KIB_64).unwrap()));
        assert!((6_685_008..=6_685_016).contains(&deflate(5).temp(3, KIB_64 + 1).unwrap()));
        assert_eq!(deflate(4).temp(1 << 16, 1 << 15), Err(NOT_SUPPORTED));
        assert_eq!(compression(Codec::Lz4, 0).temp(100, KIB_64), Ok(3_276_800));

        let zstd = Decompression::new(Codec::Zstd, Options::default()).unwrap();
        let totals = [(0, 0), (1, 0), (1, 100), (100, 100 * (128 << 10)), (10, 5 << 20), (1, (1 << 31) - 1)];
        let expected = [0, 6936, 7236, 40_015_200, 16_006_080, 6_556_086_897];
        assert_eq!(totals.map(|(count, total)| zstd.temp(count, total).unwrap()), expected);
    }

    #[test]
    fn undefined_options_are_refused() {
        let options = |first| {
            let mut options = Options::default();
            options.0[0] = first;
            options
        };
        for (codec, code) in
            [(Codec::Deflate, NOT_SUPPORTED), (Codec::Lz4, NOT_SUPPORTED), (Codec::Zstd, INVALID_VALUE)]
        {
            assert_eq!(Decompression::new(codec, options(3)), Err(code));
            assert_eq!(Decompression::new(codec, options(-1)), Err(code));
            assert!(Decompression::new(codec, options(2)).is_ok());
        }
        assert_eq!(Compression::new(Codec::Deflate, options(6)), Err(NOT_SUPPORTED));
        assert_eq!(Compression::new(Codec::Lz4, options(6)), Err(NOT_SUPPORTED));
        let mut reserved = options(0);
        reserved.0[15] = 1;
        assert_eq!(Compression::new(Codec::Deflate, reserved), Err(INVALID_VALUE));
        assert_eq!(Decompression::new(Codec::Lz4, reserved), Err(INVALID_VALUE));
    }
}
