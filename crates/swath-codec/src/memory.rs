//! Memory whose size a file decides: a failed allocation is an error of the block and does not end the process.

use crate::error::{Error, Result};

/// The allocator takes larger memory from the system and gives it back when it is freed, so a check costs nothing but the
/// two calls.
const CHECKED_BYTES: usize = 32 << 20;

/// Makes a buffer at least `len` bytes long. Its content is undefined afterwards.
pub(crate) fn grow(codec: &'static str, buffer: &mut Vec<u8>, len: usize) -> Result<()> {
    if buffer.len() < len {
        *buffer = Vec::new();
        // The allocator returns zeroed pages, so pages that the stream does not reach cost nothing.
        *buffer = bytemuck::allocation::try_zeroed_vec(len).map_err(|()| out_of_memory(codec, len))?;
    }
    Ok(())
}

/// Checks that the system has `len` bytes for a codec that allocates its working memory itself and ends the process if it
/// cannot. The check allocates and frees them, so another thread may still take them before the codec does. Small
/// amounts are not checked.
pub(crate) fn check(codec: &'static str, len: usize) -> Result<()> {
    if len > CHECKED_BYTES {
        Vec::<u8>::new().try_reserve_exact(len).map_err(|_| out_of_memory(codec, len))?;
    }
    Ok(())
}

/// Checks the memory that a decoder will use in addition to the block against the limit of the caller.
pub(crate) fn check_limit(codec: &'static str, needed: u64, limit: u64) -> Result<()> {
    if needed > limit {
        return Err(Error::MemoryLimit { codec, needed, limit });
    }
    Ok(())
}

/// Reserves room for `len` more bytes.
pub(crate) fn reserve(codec: &'static str, out: &mut Vec<u8>, len: usize) -> Result<()> {
    out.try_reserve(len).map_err(|_| out_of_memory(codec, len))
}

/// Allocates an array of the values that `make` returns, or returns `None` if the system does not have the memory.
pub(crate) fn boxed<T, const N: usize>(make: impl FnMut() -> T) -> Option<Box<[T; N]>> {
    let mut values = Vec::new();
    values.try_reserve_exact(N).ok()?;
    values.extend(std::iter::repeat_with(make).take(N));
    values.into_boxed_slice().try_into().ok()
}

/// The error of a codec that could not get `len` bytes.
pub(crate) fn out_of_memory(codec: &'static str, len: usize) -> Error {
    Error::OutOfMemory { codec, bytes: len as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_do_not_fit_in_memory_are_errors_not_aborts() {
        let huge = isize::MAX as usize;
        let mut buffer = vec![1; 8];
        assert!(matches!(grow("LERC", &mut buffer, huge), Err(Error::OutOfMemory { codec: "LERC", .. })));
        grow("LERC", &mut buffer, 16).unwrap();
        assert_eq!(buffer.len(), 16, "the buffer can be used after an error");
        assert!(check("LERC", huge).is_err() && check("LERC", 1 << 20).is_ok());
        assert!(reserve("LERC", &mut buffer, huge).is_err());
    }
}
