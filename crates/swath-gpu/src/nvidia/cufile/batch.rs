//! Transfers of cuFile in batches: all are submitted, then all are waited for.

use std::ffi::c_void;
use std::ptr;
use std::time::{Duration, Instant};

use super::{API, BATCH_FULL, BatchHandle, Functions, Handle, Transfer, check, failed, name};
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
    /// Comes back with the event: the number of the transfer, from 1.
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

/// A batch that was submitted.
struct Batch<'a> {
    functions: &'a Functions,
    handle: BatchHandle,
    transfers: &'a [Transfer],
    /// cuFile is not said to copy them.
    _parameters: Vec<Parameters>,
    /// Whether each transfer has come to its end.
    ended: Vec<bool>,
    left: usize,
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        // SAFETY: it was set up once, and the parameters are still there.
        unsafe { (self.functions.batch_destroy)(self.handle) };
    }
}

/// Do all transfers between a file and a buffer, in batches of at most `per_batch`.
///
/// # Safety
/// The file is registered, and the ranges of the buffer are device memory that lives until this returns.
pub(super) unsafe fn run(
    functions: &Functions,
    file: Handle,
    direction: Direction,
    buffer: u64,
    transfers: &[Transfer],
    per_batch: usize,
    patience: &Patience,
) -> Result<()> {
    let transfers: Vec<Transfer> = transfers.iter().copied().filter(|transfer| transfer.len > 0).collect();
    let mut chunks = transfers.chunks(per_batch.max(1)).peekable();
    while chunks.peek().is_some() {
        let mut batches: Vec<Batch<'_>> = Vec::new();
        let mut outcome = Ok(());
        while let Some(chunk) = chunks.peek() {
            // SAFETY: as the caller says; `wait` does not return before all have ended.
            match unsafe { Batch::submit(functions, file, direction, buffer, chunk, patience) } {
                Ok(Some(batch)) => batches.push(batch),
                // There is no room for more in flight: the rest comes after what is.
                Ok(None) if !batches.is_empty() => break,
                Ok(None) => outcome = Err(failed("cuFileBatchIOSubmit", name(BATCH_FULL))),
                Err(error) => outcome = Err(error),
            }
            if outcome.is_err() {
                break;
            }
            chunks.next();
        }
        wait(&mut batches, direction, patience, outcome)?;
    }
    Ok(())
}

impl<'a> Batch<'a> {
    /// Submit a batch; `None` if cuFile can take no more for now.
    ///
    /// # Safety
    /// As for [`run`], until the batch was waited for.
    unsafe fn submit(
        functions: &'a Functions,
        file: Handle,
        direction: Direction,
        buffer: u64,
        transfers: &'a [Transfer],
        patience: &Patience,
    ) -> Result<Option<Batch<'a>>> {
        let beyond = |_| failed("cuFileBatchIOSubmit", "an offset of more than 63 bits".to_owned());
        let parameters = transfers.iter().enumerate().map(|(i, transfer)| {
            Ok(Parameters {
                mode: BATCH,
                buffer,
                file_offset: i64::try_from(transfer.file_offset).map_err(beyond)?,
                buffer_offset: i64::try_from(transfer.buffer_offset).map_err(beyond)?,
                len: transfer.len,
                file,
                opcode: direction.opcode(),
                cookie: ptr::without_provenance_mut(i + 1),
            })
        });
        let mut parameters: Vec<Parameters> = parameters.collect::<Result<_>>()?;
        let count = transfers.len() as u32;
        let mut handle = ptr::null_mut();
        // SAFETY: there is room for the handle.
        check("cuFileBatchIOSetUp", unsafe { (functions.batch_set_up)(&mut handle, count) })?;
        let at = parameters.as_mut_ptr();
        let (ended, left) = (vec![false; transfers.len()], transfers.len());
        let batch = Batch { functions, handle, transfers, _parameters: parameters, ended, left };
        // SAFETY: there are as many parameters as are said, and they stay until the batch is destroyed.
        let code = unsafe { (functions.batch_submit)(handle, count, at, 0) };
        if code.cufile == BATCH_FULL {
            return Ok(None);
        }
        if let Err(error) = check("cuFileBatchIOSubmit", code) {
            // Some of it may have been taken: that comes to its end, or is said to be cancelled, before long.
            let mut batch = batch;
            batch.cancel();
            while batch.left > 0
                && batch.poll(direction, patience.step).is_some_and(|found| !found.as_ref().is_err_and(gave_up))
            {
            }
            return Err(error);
        }
        Ok(Some(batch))
    }

    /// Cancel what has not begun.
    fn cancel(&self) {
        // SAFETY: the batch is set up. A code says only that there was nothing to cancel.
        unsafe { (self.functions.batch_cancel)(self.handle) };
    }

    /// Wait a while for the events of this batch. `Some` if there were any: whether all of them were successes.
    fn poll(&mut self, direction: Direction, step: Duration) -> Option<Result<()>> {
        let mut events = vec![Event::NONE; self.left];
        let mut count = self.left as u32;
        let mut timeout = Timespec { seconds: step.as_secs() as i64, nanoseconds: i64::from(step.subsec_nanos()) };
        // SAFETY: there is room for as many events as are said.
        let code =
            unsafe { (self.functions.batch_status)(self.handle, count, &mut count, events.as_mut_ptr(), &mut timeout) };
        if let Err(error) = check("cuFileBatchIOGetStatus", code) {
            // It tells no more about this batch, so that there is nothing more to wait for.
            self.cancel();
            self.left = 0;
            return Some(Err(Error::Stalled { what: direction.what(), reason: error.to_string() }));
        }
        events.truncate(count as usize);
        let ended = events.iter().filter(|event| !matches!(event.status, WAITING | PENDING));
        let mut outcome = None;
        for event in ended {
            let found = self.end(direction, event);
            outcome = Some(outcome.unwrap_or(Ok(())).and(found));
        }
        outcome
    }

    /// A transfer has come to its end.
    fn end(&mut self, direction: Direction, event: &Event) -> Result<()> {
        let unknown = || failed("cuFileBatchIOGetStatus", "an event of no transfer".to_owned());
        let i = event.cookie.addr().checked_sub(1).ok_or_else(unknown)?;
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

/// Wait for all transfers of all batches, whatever fails: cuFile writes to the buffer until then. `outcome` is what the caller knows to
/// have failed before.
fn wait(batches: &mut [Batch<'_>], direction: Direction, patience: &Patience, mut outcome: Result<()>) -> Result<()> {
    let mut cancelled = false;
    let mut stalled = false;
    let mut last = Instant::now();
    loop {
        if outcome.is_err() && !cancelled {
            batches.iter().for_each(Batch::cancel);
            cancelled = true;
        }
        if batches.iter().all(|batch| batch.left == 0) {
            return outcome;
        }
        for batch in batches.iter_mut().filter(|batch| batch.left > 0) {
            if let Some(found) = batch.poll(direction, patience.step) {
                last = Instant::now();
                // The first failure is the reason of those that come of cancelling the rest, unless there is a worse one.
                outcome = if found.as_ref().is_err_and(gave_up) { found } else { outcome.and(found) };
            }
        }
        if last.elapsed() >= if stalled { patience.grace } else { patience.stall } {
            if stalled {
                // Destroying the batch is the last that can be done.
                let reason = format!("no transfer that ended in {:?}", patience.stall);
                return Err(Error::Stalled { what: direction.what(), reason });
            }
            let code = format!("no transfer that ended in {:?}", patience.stall);
            outcome = outcome.and(Err(failed("cuFileBatchIOGetStatus", code)));
            (stalled, last) = (true, Instant::now());
        }
    }
}

fn gave_up(error: &Error) -> bool {
    matches!(error, Error::Stalled { .. })
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
mod tests {
    use std::cell::RefCell;
    use std::mem::{offset_of, size_of};

    use super::super::{Code, Descriptor, Properties};
    use super::*;

    const DONE: Code = Code { cufile: 0, cuda: 0 };

    /// What a cuFile of the tests does, on the thread of a test.
    #[derive(Default)]
    struct Fake {
        /// What was called, in order.
        log: Vec<&'static str>,
        /// Of each batch, what was submitted and not yet reported.
        batches: Vec<Vec<(usize, u64)>>,
        cancelled: Vec<bool>,
        /// Submits that still succeed; then they give the code.
        submits: Option<(usize, i32)>,
        /// Events of one call at most.
        at_once: Option<usize>,
        /// The transfer of this size gives this event in place of its success.
        instead: Option<(u64, i32, i64)>,
        /// No transfer ends.
        hangs: bool,
        status: i32,
        /// Sizes of transfers that ended.
        ended: Vec<u64>,
    }

    thread_local! {
        static FAKE: RefCell<Fake> = RefCell::default();
    }

    fn fake<T>(with: impl FnOnce(&mut Fake) -> T) -> T {
        FAKE.with_borrow_mut(with)
    }

    unsafe extern "C" fn set_up(handle: *mut BatchHandle, _: u32) -> Code {
        let number = fake(|fake| {
            fake.log.push("set up");
            fake.batches.push(Vec::new());
            fake.cancelled.push(false);
            fake.batches.len()
        });
        // SAFETY: there is room for the handle.
        unsafe { *handle = ptr::without_provenance_mut(number) };
        DONE
    }

    unsafe extern "C" fn submit(handle: BatchHandle, count: u32, parameters: *mut Parameters, _: u32) -> Code {
        // SAFETY: there are as many as are said.
        let parameters = unsafe { std::slice::from_raw_parts(parameters, count as usize) };
        fake(|fake| {
            fake.log.push("submit");
            if let Some((left, code)) = &mut fake.submits {
                if *left == 0 {
                    let cufile = *code;
                    // Once.
                    fake.submits = None;
                    return Code { cufile, cuda: 0 };
                }
                *left -= 1;
            }
            let batch = &mut fake.batches[handle.addr() - 1];
            batch.extend(parameters.iter().map(|one| (one.cookie.addr(), one.len)));
            DONE
        })
    }

    unsafe extern "C" fn status(
        handle: BatchHandle,
        least: u32,
        count: *mut u32,
        events: *mut Event,
        _: *mut Timespec,
    ) -> Code {
        fake(|fake| {
            fake.log.push("status");
            let (batch, cancelled) = (&mut fake.batches[handle.addr() - 1], fake.cancelled[handle.addr() - 1]);
            // SAFETY: there is room for the number, and for as many events.
            let events = unsafe { std::slice::from_raw_parts_mut(events, *count as usize) };
            assert!(least as usize <= events.len());
            let room = events.len().min(fake.at_once.unwrap_or(usize::MAX)).min(batch.len());
            let room = if fake.hangs { 0 } else { room };
            for (event, (cookie, len)) in events.iter_mut().zip(batch.drain(..room)) {
                let (status, moved) = match fake.instead {
                    Some((of, status, moved)) if of == len => (status, moved),
                    _ if cancelled => (0x08, 0),
                    _ => (COMPLETE, len as i64),
                };
                *event = Event { cookie: ptr::without_provenance_mut(cookie), status, moved };
                fake.ended.push(len);
            }
            // SAFETY: as above.
            unsafe { *count = room as u32 };
            Code { cufile: fake.status, cuda: 0 }
        })
    }

    unsafe extern "C" fn cancel(handle: BatchHandle) -> Code {
        fake(|fake| {
            fake.log.push("cancel");
            fake.cancelled[handle.addr() - 1] = true;
        });
        DONE
    }

    unsafe extern "C" fn destroy(_: BatchHandle) {
        fake(|fake| fake.log.push("destroy"));
    }

    unsafe extern "C" fn other() -> Code {
        DONE
    }
    unsafe extern "C" fn version(_: *mut i32) -> Code {
        DONE
    }
    unsafe extern "C" fn properties(_: *mut Properties) -> Code {
        DONE
    }
    unsafe extern "C" fn register(_: *mut Handle, _: *mut Descriptor) -> Code {
        DONE
    }
    unsafe extern "C" fn deregister(_: Handle) {}
    unsafe extern "C" fn register_buffer(_: u64, _: u64, _: i32) -> Code {
        DONE
    }
    unsafe extern "C" fn deregister_buffer(_: u64) -> Code {
        DONE
    }

    /// Read transfers of these sizes, two in a batch.
    fn read(sizes: &[u64]) -> Result<()> {
        let functions = Functions {
            version,
            driver_open: other,
            driver_properties: properties,
            handle_register: register,
            handle_deregister: deregister,
            buffer_register: register_buffer,
            buffer_deregister: deregister_buffer,
            batch_set_up: set_up,
            batch_submit: submit,
            batch_status: status,
            batch_cancel: cancel,
            batch_destroy: destroy,
        };
        let transfers: Vec<Transfer> =
            sizes.iter().map(|&len| Transfer { file_offset: 1000 * len, buffer_offset: 0, len }).collect();
        let patience = Patience {
            step: Duration::from_millis(1),
            stall: Duration::from_millis(50),
            grace: Duration::from_millis(20),
        };
        // SAFETY: the functions above touch no buffer.
        unsafe { run(&functions, ptr::null_mut(), Direction::Read, 0, &transfers, 2, &patience) }
    }

    fn calls(of: &str) -> usize {
        fake(|fake| fake.log.iter().filter(|&&call| call == of).count())
    }

    #[test]
    fn structures_have_the_sizes_of_the_c_header() {
        assert_eq!(
            (size_of::<Parameters>(), offset_of!(Parameters, file), offset_of!(Parameters, cookie)),
            (64, 40, 56)
        );
        assert_eq!((size_of::<Event>(), offset_of!(Event, status), offset_of!(Event, moved)), (24, 8, 16));
    }

    #[test]
    fn everything_is_submitted_before_anything_is_waited_for() {
        read(&[1, 2, 3, 4, 5]).unwrap();
        let log = fake(|fake| fake.log.clone());
        let last_submit = log.iter().rposition(|&call| call == "submit").unwrap();
        let first_wait = log.iter().position(|&call| call == "status").unwrap();
        assert!(last_submit < first_wait, "{log:?}");
        assert_eq!((calls("submit"), calls("destroy"), calls("cancel")), (3, 3, 0));
    }

    #[test]
    fn sparse_tiles_of_no_bytes_are_not_asked_for() {
        read(&[0, 0, 0]).unwrap();
        assert!(fake(|fake| fake.log.is_empty()));
        read(&[0, 7, 0]).unwrap();
        assert_eq!(fake(|fake| fake.ended.clone()), [7]);
    }

    #[test]
    fn short_read_is_an_error_that_says_where_after_all_have_ended() {
        fake(|fake| fake.instead = Some((3, COMPLETE, 2)));
        let error = read(&[1, 2, 3, 4, 5]).unwrap_err();
        assert_eq!(error, Error::Transfer { what: "read", offset: 3000, got: 2, want: 3 });
        assert_eq!(error.to_string(), "cuFile read 2 of 3 bytes at offset 3000");
        assert_eq!(fake(|fake| fake.ended.len()), 5, "none may still be under way");
        assert!(calls("cancel") > 0 && calls("destroy") == 3);
    }

    #[test]
    fn failed_read_tells_its_reason_and_not_that_of_the_cancelled_ones() {
        for (moved, reason) in [(-5, "Input/output error"), (-5011, "CU_FILE_CUDA_DRIVER_ERROR (5011)")] {
            fake(|fake| *fake = Fake { instead: Some((1, 0x40, moved)), ..Fake::default() });
            let text = read(&[1, 2, 3]).unwrap_err().to_string();
            assert!(text.starts_with("cuFile: cuFileBatchIOGetStatus failed with CUFILE_FAILED: "), "{text}");
            assert!(text.contains(reason), "{text}");
        }
    }

    #[test]
    fn success_with_a_code_below_zero_is_no_success() {
        fake(|fake| fake.instead = Some((2, COMPLETE, -5)));
        let text = read(&[2]).unwrap_err().to_string();
        assert!(text.contains("CUFILE_COMPLETE: Input/output error"), "{text}");
    }

    #[test]
    fn batch_that_is_not_taken_lets_those_before_it_end() {
        fake(|fake| fake.submits = Some((2, 5035)));
        let text = read(&[1, 2, 3, 4, 5, 6]).unwrap_err().to_string();
        assert_eq!(text, "cuFile: cuFileBatchIOSubmit failed with CU_FILE_BATCH_SUBMIT_FAILED (5035)");
        assert_eq!(fake(|fake| fake.ended.len()), 4);
        assert_eq!((calls("destroy"), calls("cancel")), (3, 3));
    }

    #[test]
    fn full_queue_is_emptied_and_not_an_error() {
        fake(|fake| fake.submits = Some((2, BATCH_FULL)));
        read(&[1, 2, 3, 4, 5, 6]).unwrap();
        assert_eq!(fake(|fake| fake.ended.len()), 6);
        fake(|fake| *fake = Fake { submits: Some((0, BATCH_FULL)), ..Fake::default() });
        read(&[1]).expect_err("with nothing to wait for, it stays full");
    }

    #[test]
    fn events_come_in_any_number() {
        fake(|fake| fake.at_once = Some(1));
        read(&[1, 2, 3]).unwrap();
        assert_eq!(fake(|fake| fake.ended.len()), 3);
    }

    #[test]
    fn storage_that_never_answers_is_given_up() {
        fake(|fake| fake.hangs = true);
        let text = read(&[1, 2, 3]).unwrap_err().to_string();
        assert!(text.contains("no transfer that ended in 50ms"), "{text}");
        assert_eq!((calls("cancel"), calls("destroy")), (2, 2));
    }

    #[test]
    fn wait_that_fails_is_an_error_and_not_waited_for_again() {
        fake(|fake| (fake.status, fake.hangs) = (5030, true));
        let text = read(&[1, 2, 3]).unwrap_err().to_string();
        assert!(text.contains("CU_FILE_INTERNAL_ERROR (5030)"), "{text}");
        assert_eq!((calls("status"), calls("destroy")), (2, 2));
    }

    #[test]
    fn offset_beyond_what_the_library_takes_is_an_error() {
        read(&[u64::MAX / 1000]).expect_err("more than 63 bits");
        assert!(fake(|fake| fake.log.is_empty()));
    }
}
