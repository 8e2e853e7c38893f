//! nvCOMP 5 and 6: batches of Deflate, ZSTD and LZ4, compressed and decompressed on the device.
//!
//! Version 4 has functions of the same names as 6 with different arguments, so the version is read before anything else is looked up.
//! Between 5 and 6 only the functions that return the size of the working memory changed: 6 has other names and takes a stream.

use std::ffi::c_void;
#[cfg(test)]
use std::path::Path;
use std::sync::OnceLock;

use super::{Found, Library, Loaded, Missing, Refusal, functions};
use crate::error::{Error, Result};

mod batch;

pub(crate) use batch::{Compress, Decompress};

/// A `cudaStream_t`, which is the driver's `CUstream`.
pub(crate) type CudaStream = *mut c_void;

/// A `nvcompStatus_t`.
type Code = i32;
const SUCCESS: Code = 0;

/// The codecs of the batched API that Swath uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chunked {
    /// Raw Deflate, without a frame of zlib or gzip.
    Deflate,
    /// Frames of ZSTD.
    Zstd,
    /// Blocks of LZ4, without a frame.
    Lz4,
}

impl Chunked {
    /// The framing of a stream in a file, with the numbers of `kernels/nvcomp.c`.
    pub(crate) fn frame(self) -> u32 {
        match self {
            Chunked::Zstd => 0,
            Chunked::Deflate => 1,
            Chunked::Lz4 => 2,
        }
    }
}

/// The alignment that addresses must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Alignment {
    /// Of each chunk that is read.
    pub(crate) input: u64,
    /// Of each chunk that is written.
    pub(crate) output: u64,
    /// Of the working memory.
    pub(crate) temp: u64,
}

/// The options of any codec, in either direction: 64 bytes passed by value, whose first words have a meaning and the rest are zeros. In C
/// each codec has its own structure; all are passed in the same way, because they are larger than any register.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Options([i32; 16]);

impl Options {
    /// Compression: Deflate's first word is its algorithm. LZ4's are the type of its data, where 0 is bytes, and a shuffle of
    /// bits, where 0 is none. ZSTD has no options.
    fn compress(codec: Chunked, algorithm: i32) -> Options {
        let mut words = [0; 16];
        if codec == Chunked::Deflate {
            words[0] = algorithm;
        }
        Options(words)
    }

    /// Decompression: the first word is the backend, where 0 leaves the choice to nvCOMP; the others are as for compression. LZ4 is
    /// decoded by kernels: the decompression engine of newer devices calls every chunk a success, and LZ4 need not have a checksum.
    fn decompress(codec: Chunked) -> Options {
        const BY_KERNELS: i32 = 2;
        let mut words = [0; 16];
        if codec == Chunked::Lz4 {
            words[0] = BY_KERNELS;
        }
        Options(words)
    }

    /// Options that the library should reject.
    #[cfg(test)]
    pub(super) fn wrong(word: usize, value: i32) -> Options {
        let mut words = [0; 16];
        words[word] = value;
        Options(words)
    }
}

/// `nvcompProperties_t`.
#[repr(C)]
#[derive(Debug, Default)]
struct Properties {
    version: u32,
    /// The CUDA runtime that the library was built with.
    cudart: u32,
}

/// `nvcompAlignmentRequirements_t`.
#[repr(C)]
#[derive(Debug, Default)]
struct Alignments {
    input: u64,
    output: u64,
    temp: u64,
}

functions! {
    /// The functions of every version.
    Library0 {
        properties: "nvcompGetProperties" (*mut Properties) -> Code;
    }
}

functions! {
    /// The functions of 5 and 6 for each codec.
    Codec {
        compress_alignment: "CompressGetRequiredAlignments" (Options, *mut Alignments) -> Code;
        compress_bound: "CompressGetMaxOutputChunkSize" (u64, Options, *mut u64) -> Code;
        compress: "CompressAsync" (
            u64, u64, u64, u64, u64, u64, u64, u64, Options, u64, CudaStream,
        ) -> Code;
        decompress_alignment: "DecompressGetRequiredAlignments" (Options, *mut Alignments) -> Code;
        decompress: "DecompressAsync" (
            u64, u64, u64, u64, u64, u64, u64, u64, Options, u64, CudaStream,
        ) -> Code;
    }
}

functions! {
    /// The sizes of working memory in version 5, "asynchronous" only by name.
    Temp5 {
        compress: "CompressGetTempSizeAsync" (u64, u64, Options, *mut u64, u64) -> Code;
        decompress: "DecompressGetTempSizeAsync" (u64, u64, Options, *mut u64, u64) -> Code;
    }
}

functions! {
    /// The sizes of working memory in version 6.
    Temp6 {
        compress: "CompressGetTempSize" (u64, u64, Options, *mut u64, u64, CudaStream) -> Code;
        decompress: "DecompressGetTempSize" (u64, u64, Options, *mut u64, u64, CudaStream) -> Code;
    }
}

#[derive(Debug, Clone, Copy)]
enum Temp {
    Five(Temp5),
    Six(Temp6),
}

/// The functions of a codec.
#[derive(Debug, Clone, Copy)]
struct Functions {
    codec: Codec,
    temp: Temp,
}

/// The library. While a function is called, the CUDA context of the addresses must be current.
#[derive(Debug)]
pub(crate) struct NvComp {
    found: Found,
    #[cfg(test)]
    version: u32,
    #[cfg(test)]
    cudart: u32,
    deflate: Functions,
    zstd: Functions,
    lz4: Functions,
}

/// The symbol of a function of a codec.
macro_rules! symbol {
    ($codec:expr, $function:literal) => {
        match $codec {
            Chunked::Deflate => concat!("nvcompBatchedDeflate", $function),
            Chunked::Zstd => concat!("nvcompBatchedZstd", $function),
            Chunked::Lz4 => concat!("nvcompBatchedLZ4", $function),
        }
    };
}
use symbol;

impl NvComp {
    /// The library of this process.
    pub(crate) fn get() -> std::result::Result<&'static NvComp, &'static Missing> {
        static NVCOMP: OnceLock<std::result::Result<NvComp, Missing>> = OnceLock::new();
        NVCOMP.get_or_init(|| super::load(Library::NvComp, NvComp::bind)).as_ref()
    }

    /// The library in a file.
    #[cfg(test)]
    pub(crate) fn open(path: &Path) -> std::result::Result<NvComp, Refusal> {
        NvComp::bind(&Loaded::open(path)?)
    }

    fn bind(loaded: &Loaded) -> std::result::Result<NvComp, Refusal> {
        let mut properties = Properties::default();
        // SAFETY: there is room for the answer.
        let code = unsafe { (Library0::load(loaded, "")?.properties)(&mut properties) };
        if code != SUCCESS {
            return Err(Refusal::Unversioned { call: "nvcompGetProperties", code });
        }
        let version = properties.version;
        let text = format!("{}.{}.{}", version / 1000, version / 100 % 10, version % 100);
        if !matches!(version / 1000, 5 | 6) {
            return Err(Refusal::Version { found: text, wanted: "5 or 6" });
        }
        super::check_runtime(properties.cudart)?;
        let functions = |prefix| {
            let temp = match version / 1000 {
                5 => Temp::Five(Temp5::load(loaded, prefix)?),
                _ => Temp::Six(Temp6::load(loaded, prefix)?),
            };
            Ok(Functions { codec: Codec::load(loaded, prefix)?, temp })
        };
        Ok(NvComp {
            #[cfg(test)]
            version,
            #[cfg(test)]
            cudart: properties.cudart,
            deflate: functions("nvcompBatchedDeflate")?,
            zstd: functions("nvcompBatchedZstd")?,
            lz4: functions("nvcompBatchedLZ4")?,
            found: Found {
                library: Library::NvComp,
                version: text,
                path: loaded.path(loaded.symbol("nvcompGetProperties")?),
                detail: None,
            },
        })
    }

    /// What was found.
    pub(super) fn found(&self) -> &Found {
        &self.found
    }

    /// The version: 1000 times the major number, plus 100 times the minor number, plus the patch number.
    #[cfg(test)]
    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// The CUDA version that the library was built for: 12090 is 12.9.
    #[cfg(test)]
    pub(crate) fn cudart(&self) -> u32 {
        self.cudart
    }

    fn functions(&self, codec: Chunked) -> &Functions {
        match codec {
            Chunked::Deflate => &self.deflate,
            Chunked::Zstd => &self.zstd,
            Chunked::Lz4 => &self.lz4,
        }
    }

    /// The alignment of the addresses of a batch to decompress.
    pub(crate) fn decompress_alignment(&self, codec: Chunked) -> Result<Alignment> {
        self.alignment(
            self.functions(codec).codec.decompress_alignment,
            symbol!(codec, "DecompressGetRequiredAlignments"),
            Options::decompress(codec),
        )
    }

    /// The alignment of the addresses of a batch to compress.
    pub(crate) fn compress_alignment(&self, codec: Chunked, algorithm: i32) -> Result<Alignment> {
        self.alignment(
            self.functions(codec).codec.compress_alignment,
            symbol!(codec, "CompressGetRequiredAlignments"),
            Options::compress(codec, algorithm),
        )
    }

    /// As [`decompress_alignment`](NvComp::decompress_alignment) and [`compress_alignment`](NvComp::compress_alignment),
    /// with options that the library should reject.
    #[cfg(test)]
    pub(super) fn alignments_with(&self, codec: Chunked, options: Options) -> [Result<Alignment>; 2] {
        let Codec { decompress_alignment, compress_alignment, .. } = self.functions(codec).codec;
        [decompress_alignment, compress_alignment].map(|ask| self.alignment(ask, "GetRequiredAlignments", options))
    }

    fn alignment(
        &self,
        ask: unsafe extern "C" fn(Options, *mut Alignments) -> Code,
        call: &'static str,
        options: Options,
    ) -> Result<Alignment> {
        let mut alignments = Alignments::default();
        // SAFETY: there is room for the answer.
        check(call, unsafe { ask(options, &mut alignments) })?;
        let Alignments { input, output, temp } = alignments;
        Ok(Alignment { input, output, temp })
    }

    /// The largest compressed size of a chunk of this size.
    pub(crate) fn compress_bound(&self, codec: Chunked, algorithm: i32, largest: u64) -> Result<u64> {
        let mut bound = 0;
        let ask = self.functions(codec).codec.compress_bound;
        // SAFETY: there is room for the answer.
        let code = unsafe { ask(largest, Options::compress(codec, algorithm), &mut bound) };
        check(symbol!(codec, "CompressGetMaxOutputChunkSize"), code)?;
        Ok(bound)
    }
}

/// Turns a code into an error, unless it is success.
fn check(call: &'static str, code: Code) -> Result<()> {
    match code {
        SUCCESS => Ok(()),
        _ => Err(Error::Library { library: Library::NvComp, call, code: describe(code) }),
    }
}

/// The name and number of a status of a call or of a chunk.
pub(crate) fn describe(code: i32) -> String {
    let name = match code {
        SUCCESS => "nvcompSuccess",
        10 => "nvcompErrorInvalidValue",
        11 => "nvcompErrorNotSupported",
        12 => "nvcompErrorCannotDecompress",
        13 => "nvcompErrorBadChecksum",
        14 => "nvcompErrorCannotVerifyChecksums",
        15 => "nvcompErrorOutputBufferTooSmall",
        16 => "nvcompErrorWrongHeaderLength",
        17 => "nvcompErrorAlignment",
        18 => "nvcompErrorChunkSizeTooLarge",
        19 => "nvcompErrorCannotCompress",
        20 => "nvcompErrorWrongInputLength",
        21 => "nvcompErrorBatchSizeTooLarge",
        22 => "nvcompErrorSubChunkCountTooLarge",
        23 => "nvcompErrorSubChunkCountTooSmall",
        24 => "nvcompErrorOutputBufferAlignmentTooSmall",
        1000 => "nvcompErrorCudaError",
        10000 => "nvcompErrorInternal",
        _ => return format!("code {code}"),
    };
    format!("{name} ({code})")
}

#[cfg(test)]
mod tests {
    use std::mem::size_of;

    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_c_header() {
        assert_eq!((size_of::<Options>(), size_of::<Properties>(), size_of::<Alignments>()), (64, 8, 24));
    }

    #[test]
    fn status_that_nobody_knows_is_told_by_its_number() {
        assert_eq!(describe(12), "nvcompErrorCannotDecompress (12)");
        assert_eq!(describe(24), "nvcompErrorOutputBufferAlignmentTooSmall (24)");
        assert_eq!(describe(-7), "code -7");
    }
}
