//! The kernels: their names, source files and group sizes.

use crate::memory::buffer::Buffer;

/// The macros and structs that are prepended to every file.
#[cfg(feature = "opencl")]
pub(crate) const PRELUDE: &str = include_str!("../../kernels/prelude.h");

/// Every kernel as PTX (compute_70, ISA 8.1), compiled from the sources by `make ptx`.
pub const PTX: &str = include_str!("../../kernels/kernels.ptx");

macro_rules! kernels {
    ($($(#[$doc:meta])* $variant:ident, $name:literal, $file:literal, $group:literal;)*) => {
        /// A kernel.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kernel {
            $($(#[$doc])* $variant,)*
        }

        impl Kernel {
            /// Every kernel.
            pub const ALL: &'static [Kernel] = &[$(Kernel::$variant,)*];

            /// The name of the function.
            pub fn name(self) -> &'static str {
                match self { $(Kernel::$variant => $name,)* }
            }

            /// The name of its stage in a profile.
            pub(crate) fn stage(self) -> &'static str {
                match self { $(Kernel::$variant => concat!("kernel ", $name),)* }
            }

            /// Its source file. The kernels of a file are compiled together.
            pub fn file(self) -> &'static str {
                match self { $(Kernel::$variant => $file,)* }
            }

            /// The text of that file, without the prelude.
            pub fn text(self) -> &'static str {
                match self { $(Kernel::$variant => include_str!(concat!("../../kernels/", $file)),)* }
            }

            /// The work items of a group.
            pub fn group(self) -> u32 {
                match self { $(Kernel::$variant => $group,)* }
            }
        }
    };
}

kernels! {
    /// Decode LZW.
    Lzw, "lzw", "lzw.c", 32;
    /// Decode PackBits.
    PackBits, "packbits", "packbits.c", 32;
    /// Encode PackBits.
    PackBitsEncode, "packbits_encode", "packbits.c", 32;
    /// Encode LZW.
    LzwEncode, "lzw_encode", "lzw_encode.c", 32;
    /// Encode Deflate in zlib framing.
    DeflateEncode, "deflate_encode", "deflate_encode.c", 32;
    /// Write the checksums of encoded Deflate streams.
    DeflateFinish, "deflate_finish", "deflate_encode.c", 32;
    /// Decode Deflate in zlib framing.
    Inflate, "inflate", "inflate.c", 32;
    /// Decode ZSTD.
    Zstd, "zstd", "zstd.c", 32;
    /// Reverse the bits of every byte.
    ReverseBits, "reverse_bits", "reverse.c", 256;
    /// Undo differences.
    Sum, "sum", "sum.c", 64;
    /// Place decoded blocks.
    Place, "place", "place.c", 256;
    /// Place decoded blocks and convert their samples.
    PlaceUnpack, "place_unpack", "unpack.c", 256;
    /// Interleave bands.
    Interleave, "interleave", "interleave.c", 256;
    /// Cut rows into blocks.
    Cut, "cut", "cut.c", 256;
    /// Replace NaN by nodata.
    NanToNodata, "nan_to_nodata", "nodata.c", 256;
    /// Replace nodata by NaN.
    NodataToNan, "nodata_to_nan", "nodata.c", 256;
    /// Decide which blocks nvCOMP may decode.
    ChunkAdmit, "chunk_admit", "nvcomp.c", 32;
    /// Check what nvCOMP decoded.
    ChunkCheck, "chunk_check", "nvcomp.c", 256;
    /// Frame what nvCOMP encoded.
    ChunkFrame, "chunk_frame", "nvcomp.c", 256;
    /// Compact pieces of a buffer.
    Gather, "gather", "gather.c", 256;
    /// Halve a level.
    Reduce, "reduce", "reduce.c", 256;
}

impl Kernel {
    /// The number of groups that one multiprocessor runs at the same time, for devices that do not report it: what the registers and
    /// the shared memory of compute capability 8.0 allow.
    pub fn usual_residency(self) -> u32 {
        match self {
            Kernel::PackBits => 32,
            Kernel::Inflate => 18,
            Kernel::Lzw => 14,
            Kernel::Zstd => 12,
            _ => 4,
        }
    }
}

/// An argument of a kernel.
#[derive(Debug, Clone, Copy)]
pub enum Arg<'a> {
    /// The first byte of a buffer.
    Buffer(&'a Buffer),
    /// A number.
    U32(u32),
    /// A number.
    U64(u64),
}

/// Bytes of working memory that the ZSTD kernel needs for each block: a number in its source.
pub(crate) fn zstd_scratch() -> u64 {
    let text = Kernel::Zstd.text();
    let number = text.split("#define ZSTD_SCRATCH ").nth(1).and_then(|rest| rest.split_whitespace().next());
    number.and_then(|number| number.trim_end_matches(['u', 'U', 'l', 'L']).parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_says_what_the_texts_say() {
        for &kernel in Kernel::ALL {
            let head = format!("KERNEL({}) {}(", kernel.group(), kernel.name());
            let text = kernel.text().replace(")\n", ") ");
            assert!(text.contains(&head), "{} has no '{head}'", kernel.file());
            assert!(PTX.contains(&format!(".entry {}(", kernel.name())), "the PTX has no {}", kernel.name());
        }
        assert!(zstd_scratch() >= 128 << 10);
    }
}
