//! The address space that the allocator reserves.

/// Makes all threads share one heap if the address space of the process is limited (`ulimit -v`).
///
/// The GNU C library reserves 64 MiB of address space for the heap of each thread, of which Swath uses little. Under a
/// limit of 200 MB, three threads would leave nothing for the pixels. Call this before the first thread starts.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn share_heap_if_limited() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid memory for the result. `mallopt` changes a number of the allocator, under its lock.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_AS, &mut limit) == 0 && limit.rlim_cur != libc::RLIM_INFINITY {
            libc::mallopt(libc::M_ARENA_MAX, 1);
        }
    }
}

/// Does nothing: only the GNU C library reserves that much.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn share_heap_if_limited() {}
