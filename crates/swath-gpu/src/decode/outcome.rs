//! The outcome of each block of a batch, and why a batch could not be submitted.

use std::fmt;

use crate::decode::block::Status;
use crate::error::Error;
use crate::vendor::Library;

/// The outcome of one block, as the device or the host reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlockStatus {
    /// The block was decoded.
    Decoded,
    /// The compressed bytes end before the block is complete.
    Truncated,
    /// The compressed bytes are not valid in their format.
    Corrupt,
    /// The checksum of the block does not match.
    Checksum,
    /// The decoder does not support this form of the format. Another decoder may.
    UnsupportedForm,
    /// The block holds a picture of another size or of other samples than the file states.
    OtherPicture,
    /// A library of NVIDIA rejected the block. Another decoder may accept it.
    Refused,
    /// The kernel reported a code that it should not report.
    KernelFailed(u32),
}

impl BlockStatus {
    /// Whether the pixels of the block are there.
    pub fn is_ok(self) -> bool {
        self == BlockStatus::Decoded
    }

    /// Whether the decoder is the limit: it found no fault in the block, so another decoder may succeed.
    pub fn is_of_decoder(self) -> bool {
        matches!(self, BlockStatus::UnsupportedForm | BlockStatus::Refused)
    }
}

impl From<Status> for BlockStatus {
    fn from(status: Status) -> BlockStatus {
        match status {
            Status::OK => BlockStatus::Decoded,
            Status::CUT => BlockStatus::Truncated,
            Status::BROKEN => BlockStatus::Corrupt,
            Status::CHECKSUM => BlockStatus::Checksum,
            Status::UNKNOWN_FORM => BlockStatus::UnsupportedForm,
            Status::OTHER_PICTURE => BlockStatus::OtherPicture,
            Status::REFUSED => BlockStatus::Refused,
            Status(code) => BlockStatus::KernelFailed(code),
        }
    }
}

impl fmt::Display for BlockStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockStatus::Decoded => write!(f, "the block was decoded"),
            BlockStatus::Truncated => write!(f, "the compressed data ends too early"),
            BlockStatus::Corrupt => write!(f, "the compressed data is not valid in its format"),
            BlockStatus::Checksum => write!(f, "the checksum does not match"),
            BlockStatus::UnsupportedForm => write!(f, "the decoder does not support this form of the format"),
            BlockStatus::OtherPicture => write!(f, "the block holds another picture than the file states"),
            BlockStatus::Refused => write!(f, "NVIDIA's library does not decode the block"),
            BlockStatus::KernelFailed(code) => write!(f, "the kernel failed with status {code}"),
        }
    }
}

/// Why a device cannot decode the blocks of an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// No kernel decodes the codec.
    #[error("no kernel decodes {0}")]
    Codec(&'static str),
    /// A library of NVIDIA decodes the codec, but cannot be used.
    #[error(transparent)]
    Library(Error),
    /// The read converts colours.
    #[error("no kernel converts these colours")]
    Colours,
    /// Several pixels share their chroma.
    #[error("no kernel expands subsampled chroma")]
    Chroma,
    /// The samples have a width that the kernels do not support.
    #[error("no kernel unpacks samples of this width and type")]
    Samples,
    /// The predictor was applied to samples that are not whole bytes.
    #[error("no kernel undoes the predictor on samples of this width and type")]
    Predictor,
    /// The sizes do not fit in the 32-bit numbers of the kernels.
    #[error("its blocks are larger than the kernels can count")]
    Size,
}

/// Why a batch could not be submitted, where another way of decoding may succeed. Errors that no other way avoids, such as a lost
/// device, stay errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchFailure {
    /// The driver rejected a kernel ([`Error::Build`]). The CPU can decode.
    Unsupported(Error),
    /// The device or the budget has too little memory for the batch. A smaller batch may fit.
    OutOfMemory(Error),
    /// A library of NVIDIA failed. Another decoder, or the host, may do the work.
    LibraryFailed {
        /// The library.
        library: Library,
        /// What it reported.
        reason: Error,
    },
}

impl TryFrom<Error> for BatchFailure {
    type Error = Error;

    fn try_from(error: Error) -> Result<BatchFailure, Error> {
        match error.library() {
            Some(library) => Ok(BatchFailure::LibraryFailed { library, reason: error }),
            None if error.is_memory() => Ok(BatchFailure::OutOfMemory(error)),
            None if matches!(error, Error::Build { .. }) => Ok(BatchFailure::Unsupported(error)),
            None => Err(error),
        }
    }
}

/// A batch that the device has finished.
#[derive(Debug)]
pub struct FinishedBatch<'a> {
    /// A status code of four bytes per block.
    pub(super) statuses: &'a [u8],
    /// The first error that the library reported about a block.
    pub(super) failure: Option<&'a Error>,
    /// The pixels, if the target is the host. Pixels of blocks that were not decoded are undefined.
    pub pixels: &'a [u8],
}

impl FinishedBatch<'_> {
    /// The status of each block, in the order of the batch.
    pub fn statuses(&self) -> impl Iterator<Item = BlockStatus> + '_ {
        let codes = self.statuses.as_chunks::<4>().0.iter();
        codes.map(|code| BlockStatus::from(Status(u32::from_ne_bytes(*code))))
    }

    /// Describes the status of a block. A block that a library refused has the library's own message.
    pub fn reason(&self, status: BlockStatus) -> String {
        match self.failure.filter(|_| status == BlockStatus::Refused) {
            Some(failure) => failure.to_string(),
            None => status.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Api;

    #[test]
    fn code_that_no_kernel_has_is_an_error_not_a_success() {
        let finished =
            |codes: &'static [u32]| FinishedBatch { statuses: bytemuck::cast_slice(codes), failure: None, pixels: &[] };
        let statuses: Vec<_> = finished(&[0, 3, 77]).statuses().collect();
        assert_eq!(statuses, [BlockStatus::Decoded, BlockStatus::Checksum, BlockStatus::KernelFailed(77)]);
        assert!(statuses[0].is_ok() && !statuses[1].is_ok() && !statuses[2].is_ok());
    }

    #[test]
    fn refused_block_has_the_message_of_the_library() {
        let said = Error::Library { library: Library::NvJpeg, call: "nvjpegDecodeBatched", code: "3".into() };
        let finished = FinishedBatch { statuses: &[], failure: Some(&said), pixels: &[] };
        assert_eq!(finished.reason(BlockStatus::Refused), said.to_string());
        assert_eq!(finished.reason(BlockStatus::Corrupt), BlockStatus::Corrupt.to_string());
    }

    #[test]
    fn errors_that_no_other_decoder_avoids_stay_errors() {
        let lost = Error::Driver { api: Api::Cuda, call: "cuStreamSynchronize", code: "700".into() };
        assert_eq!(BatchFailure::try_from(lost.clone()), Err(lost));
        let memory = Error::OutOfMemory { stage: "test", needed: 1 };
        assert_eq!(BatchFailure::try_from(memory.clone()), Ok(BatchFailure::OutOfMemory(memory)));
        let short = Error::Transfer { what: "read", offset: 0, got: 0, want: 1 };
        let failed = BatchFailure::LibraryFailed { library: Library::CuFile, reason: short.clone() };
        assert_eq!(BatchFailure::try_from(short), Ok(failed));
        let build = Error::Build { kernel: "lzw", device: "a device".into(), log: String::new() };
        let unsupported = BatchFailure::Unsupported(build.clone());
        assert_eq!(BatchFailure::try_from(build), Ok(unsupported));
    }
}
