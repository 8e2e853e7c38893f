//! The errors of decoding and encoding blocks.

/// A `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a block could not be decoded or encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Swath has no decoder for this compression scheme.
    #[error("compression {name} ({code}) is not supported")]
    Unsupported {
        /// The name of the scheme, `unknown` for a number without a name.
        name: &'static str,
        /// The value of the Compression tag.
        code: u16,
    },
    /// TIFF does not define this value of the Predictor tag.
    #[error("predictor {value} is not supported; TIFF defines 1, 2 and 3")]
    UnknownPredictor {
        /// The value of the tag.
        value: u16,
    },
    /// Swath cannot write a codec of that name.
    #[error("Swath cannot write compression '{name}'; it can write {}", crate::Compress::names().collect::<Vec<_>>().join(", "))]
    NoEncoder {
        /// The name.
        name: String,
    },
    /// The codec exists, but its Cargo feature was off when Swath was compiled.
    #[error("this build of Swath does not include {codec}; enable the feature `{feature}`")]
    NotIncluded {
        /// The codec.
        codec: &'static str,
        /// The Cargo feature that includes it.
        feature: &'static str,
    },
    /// The caller gave an option that the codec does not have.
    #[error("{option} does not apply to {codec}")]
    OptionUnused {
        /// The codec's name.
        codec: &'static str,
        /// The option, with its article, for example `a quality`.
        option: &'static str,
    },
    /// The value of an option is outside the codec's range.
    #[error("{option} {value} is not supported by {codec}; use {allowed}")]
    OptionRange {
        /// The codec's name.
        codec: &'static str,
        /// The name of the option, for example `quality`.
        option: &'static str,
        /// The value that was given.
        value: String,
        /// The allowed range, for example `1 to 12`.
        allowed: String,
    },
    /// The compressed stream ended before the block was full.
    #[error("the {codec} stream ends after {got} of {want} bytes")]
    Truncated {
        /// The codec's name.
        codec: &'static str,
        /// The number of bytes that were decoded.
        got: usize,
        /// The size of the decoded block in bytes.
        want: usize,
    },
    /// The stream breaks a rule of its format.
    #[error("the {codec} stream is corrupt: {what}")]
    Corrupt {
        /// The codec's name.
        codec: &'static str,
        /// The rule that is broken, as the end of a sentence.
        what: &'static str,
    },
    /// The stream is a valid image, but it differs from the one that the TIFF tags describe.
    #[error("the {codec} stream has {what} {found}, but the tags of the file say {expected}")]
    Mismatch {
        /// The codec's name.
        codec: &'static str,
        /// The quantity that differs, for example `width`, `bands` or `bits per sample`.
        what: &'static str,
        /// The value in the stream.
        found: u64,
        /// The value in the TIFF tags.
        expected: u64,
    },
    /// The codec does not support these samples or blocks.
    #[error("{codec} does not support {what}")]
    Unsuited {
        /// The codec's name.
        codec: &'static str,
        /// The unsupported feature, as the end of a sentence, for example `64-bit samples`.
        what: &'static str,
    },
    /// The encoder panicked, which is a defect of its code.
    #[error("the {codec} encoder panicked; the block cannot be written with this codec")]
    EncoderPanicked {
        /// The codec's name.
        codec: &'static str,
    },
    /// A value needs more bits than a stored sample has.
    #[error("the value {value} does not fit in {bits} bits")]
    TooWide {
        /// The value.
        value: u64,
        /// The number of bits of a stored sample.
        bits: usize,
    },
    /// The stream requires more working memory than the limit for a block of this size.
    #[error("the {codec} stream requires {needed} bytes of working memory; the limit is {limit}")]
    Memory {
        /// The codec's name.
        codec: &'static str,
        /// The number of bytes that the stream requires.
        needed: u64,
        /// The number of bytes that are allowed.
        limit: u64,
    },
    /// The decoder needs more memory than the caller allows ([`Decoder::max_memory`](crate::Decoder::max_memory)).
    #[error("the {codec} decoder needs about {needed} bytes of working memory; the limit max_codec_memory is {limit}")]
    MemoryLimit {
        /// The codec's name.
        codec: &'static str,
        /// The estimated number of bytes.
        needed: u64,
        /// The number of bytes that are allowed.
        limit: u64,
    },
    /// The system did not provide the memory for a block.
    #[error("the system does not have the {bytes} bytes of memory that {codec} needs for one block")]
    OutOfMemory {
        /// The codec's name.
        codec: &'static str,
        /// The number of bytes.
        bytes: u64,
    },
}
