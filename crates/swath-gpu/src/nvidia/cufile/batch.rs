//! Transfers of cuFile in batches: all are submitted, then all are waited for.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{API, BATCH_FULL, BatchHandle, Functions, Handle, Mode, SUCCESS, Transfer, check, failed, name};
use crate::error::{Error, Result};

/// `CUfileIOParams_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameters {
    /// 1: a batch.
    mode: i32,
    buffer: u64,
    file_offset: i64,
    buffer_offset: i64,
    len: u64,
    file: Handle,
    opcode: i32,
    /// Comes back with the event, and is never used again.
    cookie: *mut c_void,
}

const BATCH: i32 = 1;

/// `CUfileIOEvents_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    cookie: *mut c_void,
    status: i32,
    /// Bytes, or below zero why not.
    moved: i64,
}

impl Event {
    const NONE: Event = Event { cookie: ptr::null_mut(), status: 0, moved: 0 };
}

/// `struct timespec` where `time_t` has 64 bits.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

const WAITING: i32 = 0x01;
const PENDING: i32 = 0x02;
const COMPLETE: i32 = 0x10;

/// Which way.
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

    /// `CUfileOpcode_t`.
    fn opcode(self) -> i32 {
        match self {
            Direction::Read => 0,
            Direction::Write => 1,
        }
    }
}

/// How long transfers are waited for.
#[derive(Debug)]
pub(super) struct Patience {
    /// One call that waits for events of one batch.
    step: Duration,
    /// Without any event, before all is cancelled.
    stall: Duration,
    /// Without any event after that, before it is given up.
    grace: Duration,
}

impl Patience {
    pub(super) const DEFAULT: Patience =
        Patience { step: Duration::from_millis(200), stall: Duration::from_secs(60), grace: Duration::from_secs(5) };

    /// As long as `SWATH_CUFILE_TIMEOUT` says, in seconds.
    pub(super) fn of_process() -> Patience {
        let told = std::env::var("SWATH_CUFILE_TIMEOUT").ok().and_then(|seconds| seconds.trim().parse::<u64>().ok());
        let stall = told.map_or(Patience::DEFAULT.stall, |seconds| Duration::from_secs(seconds.max(1)));
        Patience { stall, ..Patience::DEFAULT }
    }
}

/// What every transfer of this process goes through: it owns the batches that are set up and have nothing to do. cuFile needs 0.1 s to
/// destroy one, whatever is in it, and 0.1 ms to set one up.
#[derive(Debug)]
pub(super) struct Batches {
    functions: Functions,
    /// Transfers in a batch at most.
    most: usize,
    /// Batches that one call has in flight at most.
    in_flight: usize,
    /// Whether an offset from the beginning of a buffer is heeded; else each transfer names its own address.
    offsets: bool,
    patience: Patience,
    spare: Mutex<Vec<Idle>>,
    /// The next cookie: none is used twice, so that no event is taken for that of a later use of the same batch.
    cookie: AtomicUsize,
}

/// Batches in flight from the disk: no more than are kept. The system has room for some 170, of all processes.
const MOST_IN_FLIGHT: usize = 32;
/// Batches in flight through host memory: most is read while it is submitted, so that more would gain nothing, and each costs 0.1 s when
/// the process ends.
const FEW_IN_FLIGHT: usize = 2;
/// Batches that are kept: as many as two threads need.
const MOST_SPARE: usize = 2 * MOST_IN_FLIGHT;

/// A batch that is set up and of which nothing is under way.
#[derive(Debug)]
struct Idle(BatchHandle);

// SAFETY: a batch belongs to no thread, and one thread has it at a time.
unsafe impl Send for Idle {}

/// A batch that was submitted.
struct Batch<'a> {
    handle: BatchHandle,
    transfers: &'a [Transfer],
    /// cuFile is not said to copy them.
    parameters: Vec<Parameters>,
    /// The cookie of the first transfer.
    first: usize,
    /// Whether each transfer has come to its end.
    ended: Vec<bool>,
    left: usize,
    /// It was refused, though some of it may have been taken, or it was cancelled: events need not come, and tell nothing new.
    cut_short: bool,
}

/// What became of a batch that was to be submitted.
enum Submitted<'a> {
    Whole(Batch<'a>),
    /// Some of it may have been taken. If it was for want of room, it can be tried again later.
    Refused {
        batch: Option<Batch<'a>>,
        error: Error,
        full: bool,
    },
}

/// What waiting for a batch brought.
enum Polled {
    /// Some transfers came to their end; the first failure of them.
    Ended(Result<()>),
    Nothing,
    /// Nothing, and without waiting for it: nothing is under way that cuFile knows of.
    Idle,
}

impl Batches {
    pub(super) fn new(functions: Functions, most: usize, mode: Mode, offsets: bool, patience: Patience) -> Batches {
        let in_flight = match mode {
            Mode::Direct => MOST_IN_FLIGHT,
            Mode::Compatible => FEW_IN_FLIGHT,
        };
        let (spare, cookie) = (Mutex::new(Vec::new()), AtomicUsize::new(1));
        Batches { functions, most: most.max(1), in_flight, offsets, patience, spare, cookie }
    }

    /// Do all transfers between a file and a buffer.
    ///
    /// # Errors
    /// When one of them could not be done. [`Error::Stalled`] is the only one after which cuFile may still use the buffer and the file.
    ///
    /// # Safety
    /// The file is registered, and the ranges of the buffer are device memory that lives until this returns, or for ever after
    /// [`Error::Stalled`].
    pub(super) unsafe fn run(
        &self,
        file: Handle,
        direction: Direction,
        buffer: u64,
        transfers: &[Transfer],
    ) -> Result<()> {
        let transfers: Vec<Transfer> = transfers.iter().copied().filter(|transfer| transfer.len > 0).collect();
        let mut rest = &transfers[..];
        while !rest.is_empty() {
            let mut batches: Vec<Batch<'_>> = Vec::new();
            let mut outcome = Ok(());
            while !rest.is_empty() && outcome.is_ok() && batches.len() < self.in_flight {
                let (next, behind) = rest.split_at(rest.len().min(self.most));
                let parameters = self.parameters(file, direction, buffer, next);
                // SAFETY: as the caller says; `wait` does not return before all have ended.
                match parameters.map(|parameters| unsafe { self.submit(next, parameters) }) {
                    Ok(Submitted::Whole(batch)) => {
                        batches.push(batch);
                        rest = behind;
                    }
                    Ok(Submitted::Refused { batch, error, full }) => {
                        let in_flight = !batches.is_empty();
                        batches.extend(batch);
                        if full && in_flight {
                            // The rest comes after what is in flight.
                            break;
                        }
                        outcome = Err(error);
                    }
                    Err(error) => outcome = Err(error),
                }
            }
            let outcome = self.wait(&mut batches, direction, outcome);
            batches.into_iter().for_each(|batch| self.finish(batch));
            outcome?;
        }
        Ok(())
    }

    fn parameters(
        &self,
        file: Handle,
        direction: Direction,
        buffer: u64,
        transfers: &[Transfer],
    ) -> Result<Vec<Parameters>> {
        let beyond = || failed("cuFileBatchIOSubmit", "an offset of more than 63 bits".to_owned());
        let one = |transfer: &Transfer| {
            let (base, offset) = match self.offsets {
                true => (buffer, transfer.buffer_offset),
                false => (buffer.checked_add(transfer.buffer_offset).ok_or_else(beyond)?, 0),
            };
            Ok(Parameters {
                mode: BATCH,
                buffer: base,
                file_offset: i64::try_from(transfer.file_offset).map_err(|_| beyond())?,
                buffer_offset: i64::try_from(offset).map_err(|_| beyond())?,
                len: transfer.len,
                file,
                opcode: direction.opcode(),
                cookie: ptr::null_mut(),
            })
        };
        transfers.iter().map(one).collect()
    }

    /// # Safety
    /// As for [`run`](Batches::run), until the batch was waited for.
    unsafe fn submit<'a>(&self, transfers: &'a [Transfer], mut parameters: Vec<Parameters>) -> Submitted<'a> {
        let handle = match self.idle() {
            Ok(Idle(handle)) => handle,
            // Each takes some of what the system has for reads and writes in flight.
            Err(error) => return Submitted::Refused { batch: None, error, full: true },
        };
        let count = transfers.len();
        let first = self.cookie.fetch_add(count, Ordering::Relaxed);
        for (i, one) in parameters.iter_mut().enumerate() {
            one.cookie = ptr::without_provenance_mut(first.wrapping_add(i));
        }
        // SAFETY: there are as many parameters as are said, and they stay until all have ended.
        let code = unsafe { (self.functions.batch_submit)(handle, count as u32, parameters.as_mut_ptr(), 0) };
        let (ended, left) = (vec![false; count], count);
        let batch = Batch { handle, transfers, parameters, first, ended, left, cut_short: false };
        match check("cuFileBatchIOSubmit", code) {
            Ok(()) => Submitted::Whole(batch),
            Err(error) => {
                let batch = Some(Batch { cut_short: true, ..batch });
                Submitted::Refused { batch, error, full: code.cufile == BATCH_FULL }
            }
        }
    }

    /// A batch of nothing: one that was used before, or a new one.
    fn idle(&self) -> Result<Idle> {
        if let Some(idle) = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(idle);
        }
        let mut handle = ptr::null_mut();
        // SAFETY: there is room for the handle.
        check("cuFileBatchIOSetUp", unsafe { (self.functions.batch_set_up)(&mut handle, self.most as u32) })?;
        Ok(Idle(handle))
    }

    /// Keep the batch for the next, if all of it has ended and was told.
    fn finish(&self, batch: Batch<'_>) {
        if batch.left > 0 {
            // cuFile may still use them; destroying the batch would wait for that, perhaps for ever.
            std::mem::forget(batch.parameters);
            return;
        }
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if !batch.cut_short && spare.len() < MOST_SPARE {
            spare.push(Idle(batch.handle));
            return;
        }
        drop(spare);
        // SAFETY: it was set up once and is not used again.
        unsafe { (self.functions.batch_destroy)(batch.handle) };
    }

    /// Wait for all transfers of all batches, whatever fails: they end by themselves, and cuFile writes to the buffer until then. `outcome`
    /// is what the caller knows to have failed before.
    fn wait(&self, batches: &mut [Batch<'_>], direction: Direction, mut outcome: Result<()>) -> Result<()> {
        let Patience { stall, grace, .. } = self.patience;
        let given_up = |reason: String| Err(Error::Stalled { what: direction.what(), reason });
        let silence = || format!("no transfer that ended in {stall:?}");
        let mut cancelled = false;
        let mut last = Instant::now();
        while batches.iter().any(|batch| batch.left > 0) {
            for batch in batches.iter_mut().filter(|batch| batch.left > 0) {
                match self.poll(batch, direction) {
                    Ok(Polled::Ended(found)) => {
                        last = Instant::now();
                        outcome = outcome.and(found);
                    }
                    Ok(Polled::Idle) if batch.cut_short => batch.left = 0,
                    Ok(Polled::Idle) => thread::sleep(Duration::from_millis(1)),
                    Ok(Polled::Nothing) => {}
                    // It tells no more about this batch: there is nothing more to wait for.
                    Err(error) => return given_up(error.to_string()),
                }
            }
            if last.elapsed() >= if cancelled { grace } else { stall } {
                if cancelled {
                    return given_up(silence());
                }
                outcome = outcome.and(Err(failed("cuFileBatchIOGetStatus", silence())));
                // Each may take seconds, and if one is to no avail the others need not be tried.
                if !batches.iter_mut().filter(|batch| batch.left > 0).all(|batch| self.cancel(batch)) {
                    return given_up(silence());
                }
                (cancelled, last) = (true, Instant::now());
            }
        }
        outcome
    }

    /// Cancel a batch. cuFile 1.19 waits for what is in flight, 5 s at most, and tells nothing of it afterwards; whether it has ended.
    fn cancel(&self, batch: &mut Batch<'_>) -> bool {
        // SAFETY: the batch is set up.
        let code = unsafe { (self.functions.batch_cancel)(batch.handle) };
        batch.cut_short |= code.cufile == SUCCESS;
        code.cufile == SUCCESS
    }

    /// Wait a while for the events of a batch.
    fn poll(&self, batch: &mut Batch<'_>, direction: Direction) -> Result<Polled> {
        let step = self.patience.step;
        let mut events = vec![Event::NONE; batch.left];
        let mut count = batch.left as u32;
        let mut timeout = Timespec { seconds: step.as_secs() as i64, nanoseconds: i64::from(step.subsec_nanos()) };
        let begun = Instant::now();
        // SAFETY: there is room for as many events as are said.
        let code = unsafe {
            (self.functions.batch_status)(batch.handle, count, &mut count, events.as_mut_ptr(), &mut timeout)
        };
        check("cuFileBatchIOGetStatus", code)?;
        events.truncate(count as usize);
        let mut polled = if events.is_empty() && begun.elapsed() < step / 2 { Polled::Idle } else { Polled::Nothing };
        for event in events.iter().filter(|event| !matches!(event.status, WAITING | PENDING)) {
            let found = batch.end(direction, event);
            let found = if batch.cut_short { Ok(()) } else { found };
            polled = match polled {
                Polled::Ended(before) => Polled::Ended(before.and(found)),
                Polled::Nothing | Polled::Idle => Polled::Ended(found),
            };
        }
        Ok(polled)
    }
}

impl Batch<'_> {
    /// A transfer has come to its end.
    fn end(&mut self, direction: Direction, event: &Event) -> Result<()> {
        let unknown = || failed("cuFileBatchIOGetStatus", "an event of no transfer".to_owned());
        let i = event.cookie.addr().wrapping_sub(self.first);
        let (transfer, ended) = self.transfers.get(i).zip(self.ended.get_mut(i)).ok_or_else(unknown)?;
        if !std::mem::replace(ended, true) {
            self.left -= 1;
        }
        match (event.status, u64::try_from(event.moved)) {
            (COMPLETE, Ok(moved)) if moved == transfer.len => Ok(()),
            (COMPLETE, Ok(got)) => {
                Err(Error::Transfer { what: direction.what(), offset: transfer.file_offset, got, want: transfer.len })
            }
            (status, _) => {
                Err(Error::Call { api: API, call: "cuFileBatchIOGetStatus", code: outcome(status, event.moved) })
            }
        }
    }
}

/// A `CUfileStatus_t` by name, and the reason that was told with it.
fn outcome(status: i32, moved: i64) -> String {
    let status = match status {
        0x04 => "CUFILE_INVALID".to_owned(),
        0x08 => "CUFILE_CANCELED".to_owned(),
        COMPLETE => "CUFILE_COMPLETE".to_owned(),
        0x20 => "CUFILE_TIMEOUT".to_owned(),
        0x40 => "CUFILE_FAILED".to_owned(),
        _ => format!("status {status}"),
    };
    match moved.checked_neg().and_then(|code| i32::try_from(code).ok()) {
        Some(code @ 5000..) => format!("{status}: {}", name(code)),
        Some(errno @ 1..) => format!("{status}: {}", std::io::Error::from_raw_os_error(errno)),
        _ => status,
    }
}

#[cfg(test)]
mod tests;
