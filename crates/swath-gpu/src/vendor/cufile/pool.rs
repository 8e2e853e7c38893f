//! Parallel transfers of cuFile: all are submitted to threads, and then all are waited for.
//!
//! cuFile's own batch API is not used. There, every transfer keeps a part of cuFile's memory until its event was read, and when none is left
//! the next submit waits forever: with version 1.14 this happened at the 66th transfer in compatibility mode, with 1.19 at the 66th
//! transfer of whole pages. The batch API also rejects transfers above 1 MiB, ignores offsets into a buffer, and loses events when a
//! signal arrives. Single transfers on several threads have none of these problems in both versions; KvikIO does the same.

use std::ffi::c_void;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::status::{failed, name};
use super::{Functions, Handle, Transfer};
use crate::error::{Error, Result};
use crate::transfer_pool::{THREADS, TransferPool};

/// The most bytes of one call, so that all threads share a large transfer. Larger calls gain nothing.
const PIECE: u64 = 4 << 20;

/// Direct transfers begin and end at multiples of this.
pub(crate) const PAGE: u64 = 4096;

/// The direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

impl Direction {
    fn what(self) -> &'static str {
        match self {
            Direction::Read => "read",
            Direction::Write => "write",
        }
    }

    fn call(self) -> &'static str {
        match self {
            Direction::Read => "cuFileRead",
            Direction::Write => "cuFileWrite",
        }
    }
}

/// How long to wait while no transfer finishes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience(pub(super) Duration);

impl Patience {
    /// One minute, or the seconds in `SWATH_CUFILE_TIMEOUT`.
    pub(super) fn of_process() -> Patience {
        let told = std::env::var("SWATH_CUFILE_TIMEOUT").ok().and_then(|seconds| seconds.trim().parse::<u64>().ok());
        Patience(Duration::from_secs(told.map_or(60, |seconds| seconds.max(1))))
    }
}

/// Runs work while the CUDA context of the buffer is current. Does nothing if the context is gone.
pub(crate) type Inside = Arc<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

/// Transfers between a file and a buffer, submitted and not yet waited for.
#[derive(Debug)]
pub(super) struct Submitted {
    work: Arc<Work>,
    patience: Patience,
}

/// The state that the threads share. It outlives a caller that stopped waiting.
#[derive(Debug)]
struct Work {
    functions: Functions,
    direction: Direction,
    file: Handle,
    buffer: u64,
    pieces: Vec<Transfer>,
    /// The next piece.
    next: AtomicUsize,
    /// Whether no more pieces begin: one failed, or the caller stopped waiting.
    over: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Number of running threads.
    threads: usize,
    last_end: Instant,
    failure: Option<Error>,
}

// SAFETY: a file handle of cuFile belongs to no thread, and many threads may call its functions at once.
unsafe impl Send for Work {}
// SAFETY: as above.
unsafe impl Sync for Work {}

/// Submits transfers between a file and a buffer: when this returns, each is running or queued.
///
/// # Safety
/// The file is registered, and the ranges of the buffer are device memory. Both live until [`wait`](Submitted::wait) returns, or forever if
/// it returns [`Error::Stalled`] or is not called.
pub(super) unsafe fn submit(
    functions: Functions,
    (file, direction): (Handle, Direction),
    buffer: u64,
    transfers: &[Transfer],
    (pool, inside): (&TransferPool, &Inside),
    patience: Patience,
) -> Result<Submitted> {
    let pieces: Vec<Transfer> = transfers.iter().flat_map(split).collect();
    note(pieces.iter().map(|_| "submit"));
    let state = Mutex::new(State { threads: 0, last_end: Instant::now(), failure: None });
    let (next, over, changed) = (AtomicUsize::new(0), AtomicBool::new(false), Condvar::new());
    let work = Arc::new(Work { functions, direction, file, buffer, pieces, next, over, state, changed });
    // cuFile reads, changes and writes a page that is written partially: two such writes at once would lose the data of one.
    let most = if direction == Direction::Write && share_pages(&work.pieces) { 1 } else { THREADS };
    for number in 0..most.min(work.pieces.len()) {
        work.state().threads += 1;
        let (shared, inside) = (Arc::clone(&work), Arc::clone(inside));
        if let Err(error) = pool.run(move || shared.run(inside)) {
            work.state().threads -= 1;
            // The threads that started do all the work.
            if number == 0 {
                return Err(failed(direction.call(), format!("no thread for it: {error}")));
            }
            break;
        }
    }
    Ok(Submitted { work, patience })
}

/// Splits a transfer into pieces of one call each, at page boundaries of the file. A sparse tile has no bytes, and so no pieces.
fn split(transfer: &Transfer) -> impl Iterator<Item = Transfer> + use<> {
    let mut rest = *transfer;
    std::iter::from_fn(move || {
        let Transfer { file_offset, buffer_offset, len } = rest;
        let piece = if len > PIECE { PIECE - file_offset % PIECE } else { len };
        let (file, buffer) = (file_offset.wrapping_add(piece), buffer_offset.wrapping_add(piece));
        rest = Transfer { file_offset: file, buffer_offset: buffer, len: len - piece };
        (piece > 0).then_some(Transfer { file_offset, buffer_offset, len: piece })
    })
}

/// Whether two transfers touch the same page of the file.
fn share_pages(pieces: &[Transfer]) -> bool {
    let pages = |piece: &Transfer| (piece.file_offset / PAGE, (piece.file_offset + (piece.len - 1)) / PAGE);
    let mut pages: Vec<(u64, u64)> = pieces.iter().map(pages).collect();
    pages.sort_unstable();
    pages.windows(2).any(|two| two[1].0 <= two[0].1)
}

impl Submitted {
    /// Waits for all transfers.
    ///
    /// # Errors
    /// The first failure. Only after [`Error::Stalled`] may cuFile still access the buffer and the file.
    pub(super) fn wait(self) -> Result<()> {
        note(["wait"]);
        let Submitted { work, patience: Patience(stall) } = self;
        let mut state = work.state();
        while state.threads > 0 {
            let left = stall.saturating_sub(state.last_end.elapsed());
            if left.is_zero() {
                work.over.store(true, Ordering::Relaxed);
                let reason = format!("no transfer that ended in {stall:?}");
                return Err(Error::Stalled { what: work.direction.what(), reason });
            }
            state = work.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.failure.take().map_or(Ok(()), Err)
    }
}

impl Work {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop of a thread: one piece after another, until none is left.
    fn run(&self, inside: Inside) {
        let mut entered = false;
        inside(&mut || {
            entered = true;
            while !self.over.load(Ordering::Relaxed) {
                let Some(piece) = self.pieces.get(self.next.fetch_add(1, Ordering::Relaxed)) else { break };
                let moved = self.transfer(piece);
                self.end(moved.err());
            }
        });
        if !entered {
            self.end(Some(failed(self.direction.call(), "the device's context cannot be entered".to_owned())));
        }
        // The caller that waits may close the device next.
        drop(inside);
        self.state().threads -= 1;
        self.changed.notify_all();
    }

    /// Records that a piece is done.
    fn end(&self, failure: Option<Error>) {
        let mut state = self.state();
        state.last_end = Instant::now();
        if failure.is_some() {
            self.over.store(true, Ordering::Relaxed);
            state.failure = state.failure.take().or(failure);
        }
        drop(state);
        self.changed.notify_all();
    }

    fn transfer(&self, piece: &Transfer) -> Result<()> {
        let beyond = |_| failed(self.direction.call(), "an offset of more than 63 bits".to_owned());
        let (at, into) = (i64::try_from(piece.file_offset), i64::try_from(piece.buffer_offset));
        let (at, into) = (at.map_err(beyond)?, into.map_err(beyond)?);
        let buffer: *mut c_void = ptr::without_provenance_mut(self.buffer as usize);
        // SAFETY: as the caller of `submit` promised; the context is current.
        let moved = unsafe {
            match self.direction {
                Direction::Read => (self.functions.read)(self.file, buffer, piece.len as usize, at, into),
                Direction::Write => (self.functions.write)(self.file, buffer, piece.len as usize, at, into),
            }
        };
        match (moved, u64::try_from(moved)) {
            (_, Ok(got)) if got == piece.len => Ok(()),
            (_, Ok(got)) => {
                let (what, offset) = (self.direction.what(), piece.file_offset);
                Err(Error::Transfer { what, offset, got, want: piece.len })
            }
            // As C does it.
            (-1, _) => Err(failed(self.direction.call(), io::Error::last_os_error().to_string())),
            (code, _) => {
                let code = code.checked_neg().and_then(|code| i32::try_from(code).ok());
                Err(failed(self.direction.call(), name(code.unwrap_or(i32::MIN))))
            }
        }
    }
}

/// The actions of the caller's thread in order, for tests.
#[cfg(test)]
fn note(events: impl IntoIterator<Item = &'static str>) {
    tests::TIMELINE.with_borrow_mut(|timeline| timeline.extend(events));
}

#[cfg(not(test))]
fn note(_: impl IntoIterator<Item = &'static str>) {}

#[cfg(test)]
mod tests;
