//! What happens when a device cannot do a part of a read.
//!
//! An executor describes the [`Setback`] and which other ways exist ([`Alternatives`]). [`FallbackPolicy::next_step`] returns the next
//! [`Step`], and [`Decision::permit`] refuses it if the policy does not allow it.

use std::fmt::Display;

use swath_gpu::CodecBackend;

use crate::error::{Error, Result};
use crate::fallback::FallbackPolicy;

/// The most refused blocks of a batch that the CPU reads one by one.
const FEW_BLOCKS: usize = 4;

/// Whether the CPU reads refused blocks one by one. If there are more, it reads their whole batch again, with all threads.
pub(crate) fn cpu_reads_one_by_one(refused: usize) -> bool {
    refused <= FEW_BLOCKS
}

/// What an executor reports when the device did not do a part of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setback {
    /// No GPU was found, its driver cannot compile the kernels, or no kernel and no library does this work.
    Unsupported,
    /// An NVIDIA library is missing, or failed before the batch was submitted.
    LibraryFailed,
    /// cuFile cannot open the file or failed to read it, or the bytes that it read cannot be copied back.
    DirectReadFailed,
    /// The device has too little memory for the batch.
    OutOfMemory,
    /// The decoder refused blocks of a batch that may be correct.
    BlocksRefused {
        /// The number of blocks that the decoder refused.
        refused: usize,
        /// The number of blocks of the same batch that it decoded.
        decoded: u64,
    },
    /// The host could not fetch the batch. The CPU reads it again, finds the block and reports it.
    FetchFailed,
}

/// The other ways that are available at this point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Alternatives {
    /// Whether the batch can be split, or was not yet tried with the whole budget.
    pub(crate) smaller_batch: bool,
    /// Whether one of Swath's kernels can replace the library.
    pub(crate) builtin_kernel: bool,
}

/// The next way to do the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Try a smaller batch on the device.
    SmallerBatch,
    /// Use Swath's kernel instead of the library, from now on.
    BuiltinKernel,
    /// Let the host read the file instead of cuFile, from now on.
    HostReads,
    /// Let the CPU do this part.
    Cpu,
}

/// A [`Step`], and whether the policy permits it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) step: Step,
    permitted: bool,
}

impl Decision {
    /// Checks that the policy permits the step.
    ///
    /// # Errors
    /// [`Error::Fallback`] with the stage and the reason when it does not.
    pub(crate) fn permit(self, stage: &'static str, reason: impl Display) -> Result<()> {
        if self.permitted { Ok(()) } else { Err(Error::Fallback { stage, reason: reason.to_string() }) }
    }
}

impl FallbackPolicy {
    /// Returns the next step after a setback of a read with `decoder`. `None` means that no alternative is
    /// left and the device's error is final.
    pub(crate) fn next_step(
        self,
        decoder: CodecBackend,
        setback: Setback,
        alternatives: Alternatives,
    ) -> Option<Decision> {
        let lenient = self == FallbackPolicy::Auto;
        // A caller that leaves the choice of the decoder to Swath wants pixels that the device decoded, and
        // our kernel provides them. Only an explicit request for nvCOMP rules our kernel out.
        let any_decoder = lenient || decoder != CodecBackend::NvComp;
        let (step, permitted) = match setback {
            Setback::OutOfMemory if alternatives.smaller_batch => (Step::SmallerBatch, true),
            Setback::OutOfMemory if alternatives.builtin_kernel => (Step::BuiltinKernel, any_decoder),
            Setback::OutOfMemory => return None,
            Setback::DirectReadFailed => (Step::HostReads, lenient),
            Setback::LibraryFailed if alternatives.builtin_kernel => (Step::BuiltinKernel, lenient),
            Setback::BlocksRefused { refused, decoded }
                if lenient && refused <= FEW_BLOCKS && (refused as u64) < decoded =>
            {
                (Step::Cpu, true)
            }
            Setback::BlocksRefused { .. } if alternatives.builtin_kernel => (Step::BuiltinKernel, any_decoder),
            Setback::Unsupported | Setback::LibraryFailed | Setback::BlocksRefused { .. } | Setback::FetchFailed => {
                (Step::Cpu, lenient)
            }
        };
        Some(Decision { step, permitted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fallback::stage;

    const NO_OTHER_WAY: Alternatives = Alternatives { smaller_batch: false, builtin_kernel: false };
    const BUILTIN: Alternatives = Alternatives { smaller_batch: false, builtin_kernel: true };
    const SMALLER: Alternatives = Alternatives { smaller_batch: true, builtin_kernel: true };

    fn decide(policy: FallbackPolicy, decoder: CodecBackend, setback: Setback, ways: Alternatives) -> (Step, bool) {
        let Decision { step, permitted } = policy.next_step(decoder, setback, ways).expect("a way is left");
        (step, permitted)
    }

    #[test]
    fn strict_mode_never_permits_the_cpu_or_the_host() {
        let refused = Setback::BlocksRefused { refused: 1, decoded: 9 };
        for setback in [Setback::Unsupported, Setback::LibraryFailed, Setback::FetchFailed, refused] {
            for (policy, permitted) in [(FallbackPolicy::Auto, true), (FallbackPolicy::Strict, false)] {
                assert_eq!(
                    decide(policy, CodecBackend::Auto, setback, NO_OTHER_WAY),
                    (Step::Cpu, permitted),
                    "{setback:?}"
                );
            }
        }
        let cufile = decide(FallbackPolicy::Strict, CodecBackend::Auto, Setback::DirectReadFailed, BUILTIN);
        assert_eq!(cufile, (Step::HostReads, false));
    }

    #[test]
    fn out_of_memory_tries_a_smaller_batch_then_our_kernel_then_fails() {
        let next = |policy: FallbackPolicy, decoder, ways| policy.next_step(decoder, Setback::OutOfMemory, ways);
        for policy in [FallbackPolicy::Auto, FallbackPolicy::Strict] {
            let smaller = Some(Decision { step: Step::SmallerBatch, permitted: true });
            assert_eq!(next(policy, CodecBackend::NvComp, SMALLER), smaller);
            let kernel = Some(Decision { step: Step::BuiltinKernel, permitted: true });
            assert_eq!(next(policy, CodecBackend::Auto, BUILTIN), kernel);
            assert_eq!(next(policy, CodecBackend::Auto, NO_OTHER_WAY), None);
        }
        let refused = next(FallbackPolicy::Strict, CodecBackend::NvComp, BUILTIN).expect("a way is left");
        assert!(matches!(refused.permit(stage::LIBRARY_DECODE, "no memory"), Err(Error::Fallback { .. })));
    }

    #[test]
    fn many_refused_blocks_go_to_our_kernel_and_few_to_the_cpu() {
        let decide = |policy, refused, decoded| {
            decide(policy, CodecBackend::Auto, Setback::BlocksRefused { refused, decoded }, BUILTIN)
        };
        assert_eq!(decide(FallbackPolicy::Auto, 4, 5), (Step::Cpu, true));
        assert_eq!(decide(FallbackPolicy::Auto, 4, 4), (Step::BuiltinKernel, true));
        assert_eq!(decide(FallbackPolicy::Auto, 5, 99), (Step::BuiltinKernel, true));
        assert_eq!(decide(FallbackPolicy::Strict, 1, 99), (Step::BuiltinKernel, true));
    }

    #[test]
    fn our_kernel_replaces_a_failed_library_except_in_strict_mode() {
        for (policy, permitted) in [(FallbackPolicy::Auto, true), (FallbackPolicy::Strict, false)] {
            let decided = decide(policy, CodecBackend::Auto, Setback::LibraryFailed, BUILTIN);
            assert_eq!(decided, (Step::BuiltinKernel, permitted));
        }
    }
}
