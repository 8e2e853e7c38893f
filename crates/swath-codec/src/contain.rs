//! Contains panics of codecs: one bad block must not end the program.
//!
//! Several codecs are third-party code that indexes tables with numbers from the stream and asserts that they
//! agree. A panic in a decoder is a corrupt block, and a panic in an encoder is a failed write. Both errors
//! name the codec.
//!
//! A contained panic prints nothing. For that, the first call puts a hook in front of the panic hook of the
//! process, which ignores panics of contained code and passes all others on. If the program installs another
//! hook later, that hook also sees contained panics.
//!
//! With `cfg(fuzzing)` nothing is contained, so that the fuzzer finds the panic.

use std::cell::Cell;

use crate::error::{Error, Result};

thread_local! {
    /// Whether this thread runs contained code.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a decoder. A panic becomes [`Error::Corrupt`].
pub(crate) fn decoding<T>(codec: &'static str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    contain(work).unwrap_or(Err(Error::Corrupt { codec, what: "its decoder panicked" }))
}

/// Runs an encoder. A panic becomes [`Error::EncoderPanicked`].
pub(crate) fn encoding<T>(codec: &'static str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    contain(work).unwrap_or(Err(Error::EncoderPanicked { codec }))
}

/// Creates a context of a C library whose wrapper panics if the library cannot allocate its `bytes` bytes.
pub(crate) fn allocating<T>(codec: &'static str, bytes: usize, work: impl FnOnce() -> T) -> Result<T> {
    contain(work).ok_or_else(|| crate::memory::out_of_memory(codec, bytes))
}

/// Returns `None` if the work panics.
#[cfg(not(fuzzing))]
fn contain<T>(work: impl FnOnce() -> T) -> Option<T> {
    silence_contained_panics();
    let outer = CONTAINED.replace(true);
    // Callers drop everything that the work has changed: the block is an error, and the scratch memory is reset.
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    CONTAINED.set(outer);
    result.ok()
}

#[cfg(fuzzing)]
fn contain<T>(work: impl FnOnce() -> T) -> Option<T> {
    Some(work())
}

#[cfg(not(fuzzing))]
fn silence_contained_panics() {
    static INSTALLED: std::sync::Once = std::sync::Once::new();
    // The hook cannot be changed while the thread unwinds.
    if INSTALLED.is_completed() || std::thread::panicking() {
        return;
    }
    INSTALLED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !CONTAINED.get() {
                before(panic);
            }
        }));
    });
}

#[cfg(all(test, not(fuzzing)))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn panic_of_a_decoder_is_a_corrupt_block_with_the_name_of_the_codec() {
        let result: Result<()> = decoding("JPEG XL", || panic!("index out of range"));
        assert_eq!(result, Err(Error::Corrupt { codec: "JPEG XL", what: "its decoder panicked" }));
        assert_eq!(decoding("LERC", || Ok(3)), Ok(3));
        let own = Error::Truncated { codec: "LZMA", got: 1, want: 2 };
        assert_eq!(decoding::<()>("LZMA", || Err(own.clone())), Err(own), "errors pass unchanged");
    }

    #[test]
    fn panic_of_an_encoder_is_a_failed_write() {
        let result: Result<()> = encoding("WebP", || panic!("assertion failed"));
        assert_eq!(result, Err(Error::EncoderPanicked { codec: "WebP" }));
    }

    #[test]
    fn only_panics_outside_of_codecs_reach_the_hook_of_the_program() {
        static SEEN: AtomicUsize = AtomicUsize::new(0);
        // This test runs in a child process, because the hook belongs to the whole process.
        if std::env::var_os("SWATH_TEST_HOOK").is_none() {
            let name = "contain::tests::only_panics_outside_of_codecs_reach_the_hook_of_the_program";
            let child = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", name, "--nocapture"])
                .env("SWATH_TEST_HOOK", "1")
                .output()
                .unwrap();
            assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
            return;
        }
        std::panic::set_hook(Box::new(|_| {
            SEEN.fetch_add(1, Ordering::Relaxed);
        }));
        let nested: Result<()> = decoding("outer", || {
            assert!(decoding::<()>("inner", || panic!()).is_err());
            panic!("still contained")
        });
        assert!(nested.is_err());
        assert_eq!(SEEN.load(Ordering::Relaxed), 0);
        assert!(std::panic::catch_unwind(|| panic!("outside")).is_err());
        assert_eq!(SEEN.load(Ordering::Relaxed), 1);
    }
}
