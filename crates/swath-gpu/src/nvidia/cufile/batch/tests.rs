//! Batches of a cuFile that does what each test says.

use std::cell::RefCell;
use std::mem::{offset_of, size_of};

use super::super::{Code, Descriptor, Properties};
use super::*;

const DONE: Code = Code { cufile: 0, cuda: 0 };

/// What a cuFile of the tests does, on the thread of a test: what cuFile 1.19 was seen to do on host memory.
#[derive(Default)]
struct Fake {
    /// What was called, in order.
    log: Vec<&'static str>,
    /// Of each batch, what was submitted and not yet reported.
    batches: Vec<Vec<(usize, u64)>>,
    /// Addresses, and offsets from there.
    places: Vec<(u64, i64)>,
    /// Batches that can be set up, if not all.
    room: Option<usize>,
    /// Submits that still succeed; then one gives the code, and takes so many of the transfers.
    submits: Option<(usize, i32, usize)>,
    /// Events of one call at most.
    at_once: Option<usize>,
    /// The transfer of this size gives this event in place of its success.
    instead: Option<(u64, i32, i64)>,
    /// No transfer ends, and so waiting takes its time.
    hangs: bool,
    /// Transfers end when they are waited for so often.
    slow: usize,
    status: i32,
    cancel: i32,
    /// Sizes of transfers that ended.
    ended: Vec<u64>,
}

thread_local! {
    static FAKE: RefCell<Fake> = RefCell::default();
}

fn fake<T>(with: impl FnOnce(&mut Fake) -> T) -> T {
    FAKE.with_borrow_mut(with)
}

unsafe extern "C" fn set_up(handle: *mut BatchHandle, most: u32) -> Code {
    assert_eq!(most, 2, "whatever it is for, so that it can be used again");
    fake(|fake| {
        fake.log.push("set up");
        if fake.room.is_some_and(|room| fake.batches.len() >= room) {
            return Code { cufile: 5039, cuda: 0 };
        }
        fake.batches.push(Vec::new());
        // SAFETY: there is room for the handle.
        unsafe { *handle = ptr::without_provenance_mut(fake.batches.len()) };
        DONE
    })
}

unsafe extern "C" fn submit(handle: BatchHandle, count: u32, parameters: *mut Parameters, _: u32) -> Code {
    // SAFETY: there are as many as are said.
    let parameters = unsafe { std::slice::from_raw_parts(parameters, count as usize) };
    fake(|fake| {
        fake.log.push("submit");
        let mut code = DONE;
        let mut taken = parameters.len();
        match &mut fake.submits {
            Some((0, refused, some)) => {
                (code.cufile, taken) = (*refused, *some);
                // Once.
                fake.submits = None;
            }
            Some((left, ..)) => *left -= 1,
            None => {}
        }
        fake.places.extend(parameters.iter().map(|one| (one.buffer, one.buffer_offset)));
        let batch = &mut fake.batches[handle.addr() - 1];
        assert!(batch.is_empty(), "used again before all of it was told");
        batch.extend(parameters[..taken].iter().map(|one| (one.cookie.addr(), one.len)));
        code
    })
}

unsafe extern "C" fn status(
    handle: BatchHandle,
    least: u32,
    count: *mut u32,
    events: *mut Event,
    timeout: *mut Timespec,
) -> Code {
    fake(|fake| {
        fake.log.push("status");
        let batch = &mut fake.batches[handle.addr() - 1];
        // SAFETY: there is room for the number, and for as many events.
        let events = unsafe { std::slice::from_raw_parts_mut(events, *count as usize) };
        assert!(least as usize <= events.len());
        let mut room = events.len().min(fake.at_once.unwrap_or(usize::MAX)).min(batch.len());
        if (fake.hangs || fake.slow > 0) && room > 0 {
            (room, fake.slow) = (0, fake.slow.saturating_sub(1));
            // SAFETY: there is one.
            thread::sleep(Duration::from_nanos(unsafe { *timeout }.nanoseconds as u64));
        }
        for (event, (cookie, len)) in events.iter_mut().zip(batch.drain(..room)) {
            let (status, moved) = match fake.instead {
                Some((of, status, moved)) if of == len => (status, moved),
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
        if fake.cancel == SUCCESS {
            // It has waited for them, and they are not told.
            fake.batches[handle.addr() - 1].clear();
        }
        Code { cufile: fake.cancel, cuda: 0 }
    })
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

/// What reads by the functions above, two in a batch.
fn batches(offsets: bool) -> Batches {
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
    let patience = Patience {
        step: Duration::from_millis(4),
        stall: Duration::from_millis(200),
        grace: Duration::from_millis(20),
    };
    Batches::new(functions, 2, Mode::Direct, offsets, patience)
}

/// Read transfers of these sizes.
fn read_by(batches: &Batches, sizes: &[u64]) -> Result<()> {
    let transfer = |&len: &u64| Transfer { file_offset: 1000 * len, buffer_offset: 10 * len, len };
    let transfers: Vec<Transfer> = sizes.iter().map(transfer).collect();
    // SAFETY: the functions above touch no buffer.
    unsafe { batches.run(ptr::null_mut(), Direction::Read, 1 << 40, &transfers) }
}

fn read(sizes: &[u64]) -> Result<()> {
    read_by(&batches(true), sizes)
}

fn calls(of: &str) -> usize {
    fake(|fake| fake.log.iter().filter(|&&call| call == of).count())
}

#[test]
fn structures_have_the_sizes_of_the_c_header() {
    assert_eq!((size_of::<Parameters>(), offset_of!(Parameters, file), offset_of!(Parameters, cookie)), (64, 40, 56));
    assert_eq!((size_of::<Event>(), offset_of!(Event, status), offset_of!(Event, moved)), (24, 8, 16));
}

#[test]
fn everything_is_submitted_before_anything_is_waited_for() {
    read(&[1, 2, 3, 4, 5]).unwrap();
    let log = fake(|fake| fake.log.clone());
    let last_submit = log.iter().rposition(|&call| call == "submit").unwrap();
    let first_wait = log.iter().position(|&call| call == "status").unwrap();
    assert!(last_submit < first_wait, "{log:?}");
    assert_eq!((calls("submit"), calls("destroy"), calls("cancel")), (3, 0, 0));
}

#[test]
fn batches_are_used_again_and_not_too_many_are_made_or_kept() {
    let batches = batches(true);
    for _ in 0..5 {
        read_by(&batches, &[1, 2, 3, 4, 5]).unwrap();
    }
    assert_eq!((calls("set up"), calls("submit"), calls("destroy")), (3, 15, 0));
    read_by(&batches, &[7; 1000]).unwrap();
    assert_eq!((calls("set up"), calls("destroy")), (MOST_IN_FLIGHT, 0));
    assert_eq!(fake(|fake| fake.ended.len()), 1025);
    // As if many threads had used some.
    let idle: Vec<Idle> = (0..MOST_SPARE + 3).map(|i| Idle(ptr::without_provenance_mut(i + 1))).collect();
    batches.spare.lock().unwrap().clear();
    for Idle(handle) in idle {
        let (transfers, parameters, ended) = (&[][..], Vec::new(), Vec::new());
        batches.finish(Batch { handle, transfers, parameters, first: 0, ended, left: 0, cut_short: false });
    }
    assert_eq!((batches.spare.lock().unwrap().len(), calls("destroy")), (MOST_SPARE, 3));
}

#[test]
fn event_of_an_earlier_use_of_a_batch_is_not_taken_for_one_of_this() {
    let batches = batches(true);
    read_by(&batches, &[1, 2]).unwrap();
    let mut batch = match submit_alone(&batches, &[Transfer { file_offset: 0, buffer_offset: 0, len: 9 }]) {
        Submitted::Whole(batch) => batch,
        Submitted::Refused { error, .. } => panic!("{error}"),
    };
    let event = |cookie| Event { cookie: ptr::without_provenance_mut(cookie), status: COMPLETE, moved: 9 };
    for stale in [0, 1, 2, batch.first + 1] {
        batch.end(Direction::Read, &event(stale)).expect_err("it is none of this batch");
    }
    assert_eq!(batch.left, 1);
    batch.end(Direction::Read, &event(batch.first)).unwrap();
    assert_eq!(batch.left, 0);
}

fn submit_alone<'a>(batches: &Batches, transfers: &'a [Transfer]) -> Submitted<'a> {
    let parameters = batches.parameters(ptr::null_mut(), Direction::Read, 0, transfers).unwrap();
    // SAFETY: the functions above touch no buffer.
    unsafe { batches.submit(transfers, parameters) }
}

#[test]
fn where_offsets_are_forgotten_each_transfer_has_its_own_address() {
    read(&[1, 2]).unwrap();
    read_by(&batches(false), &[1, 2]).unwrap();
    let places = [(1 << 40, 10), (1 << 40, 20), ((1 << 40) + 10, 0), ((1 << 40) + 20, 0)];
    assert_eq!(fake(|fake| fake.places.clone()), places);
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
    assert_eq!((calls("cancel"), calls("destroy")), (0, 0), "they end by themselves");
}

#[test]
fn failed_read_tells_its_reason() {
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
    for taken in [0, 1] {
        fake(|fake| *fake = Fake { submits: Some((2, 5035, taken)), slow: 3, ..Fake::default() });
        let batches = batches(true);
        let text = read_by(&batches, &[1, 2, 3, 4, 5, 6]).unwrap_err().to_string();
        assert_eq!(text, "cuFile: cuFileBatchIOSubmit failed with CU_FILE_BATCH_SUBMIT_FAILED (5035)");
        assert_eq!(fake(|fake| fake.ended.len()), 4 + taken, "what was taken is waited for");
        assert_eq!((calls("destroy"), calls("cancel")), (1, 0), "only that of which not all was told");
        read_by(&batches, &[1, 2, 3, 4, 5, 6]).unwrap();
    }
}

#[test]
fn full_queue_is_emptied_and_not_an_error() {
    fake(|fake| fake.submits = Some((2, BATCH_FULL, 0)));
    read(&[1, 2, 3, 4, 5, 6]).unwrap();
    assert_eq!(fake(|fake| fake.ended.len()), 6);
    fake(|fake| *fake = Fake { submits: Some((0, BATCH_FULL, 0)), ..Fake::default() });
    read(&[1]).expect_err("with nothing to wait for, it stays full");
}

#[test]
fn system_without_room_for_another_batch_is_waited_for_and_not_an_error() {
    fake(|fake| fake.room = Some(2));
    read(&[1, 2, 3, 4, 5, 6, 7, 8, 9]).unwrap();
    assert_eq!(fake(|fake| (fake.batches.len(), fake.ended.len())), (2, 9));
    fake(|fake| *fake = Fake { room: Some(0), ..Fake::default() });
    let text = read(&[1]).unwrap_err().to_string();
    assert_eq!(text, "cuFile: cuFileBatchIOSetUp failed with CU_FILE_INTERNAL_BATCH_SETUP_ERROR (5039)");
}

#[test]
fn events_come_in_any_number() {
    fake(|fake| fake.at_once = Some(1));
    read(&[1, 2, 3]).unwrap();
    assert_eq!(fake(|fake| fake.ended.len()), 3);
}

#[test]
fn slow_storage_is_waited_for() {
    fake(|fake| fake.slow = 3);
    read(&[1, 2, 3]).unwrap();
    assert_eq!((calls("cancel"), fake(|fake| fake.ended.len())), (0, 3));
}

#[test]
fn storage_that_stops_is_an_error_once_cufile_says_that_all_is_over() {
    fake(|fake| fake.hangs = true);
    let error = read(&[1, 2, 3]).unwrap_err();
    assert!(matches!(error, Error::Call { .. }), "{error}");
    assert!(error.to_string().contains("no transfer that ended in 200ms"), "{error}");
    assert_eq!((calls("cancel"), calls("destroy")), (2, 2), "their events may still come");
}

#[test]
fn storage_that_never_answers_is_given_up_and_nothing_waits_for_it_again() {
    fake(|fake| (fake.hangs, fake.cancel) = (true, 5042));
    let error = read(&[1, 2, 3]).unwrap_err();
    assert!(matches!(error, Error::Stalled { .. }), "{error}");
    assert!(error.to_string().contains("no transfer that ended in 200ms"), "{error}");
    assert_eq!((calls("cancel"), calls("destroy")), (1, 0), "both would wait");
}

#[test]
fn refused_batch_of_which_some_never_ends_is_given_up() {
    fake(|fake| *fake = Fake { submits: Some((0, 5035, 1)), hangs: true, cancel: 5042, ..Fake::default() });
    let error = read(&[1, 2]).unwrap_err();
    assert!(matches!(error, Error::Stalled { .. }), "{error}");
    assert_eq!(calls("destroy"), 0);
}

#[test]
fn wait_that_fails_is_given_up_and_not_waited_for_again() {
    fake(|fake| (fake.status, fake.hangs) = (5030, true));
    let error = read(&[1, 2, 3]).unwrap_err();
    assert!(matches!(error, Error::Stalled { .. }), "{error}");
    assert!(error.to_string().contains("CU_FILE_INTERNAL_ERROR (5030)"), "{error}");
    assert_eq!((calls("status"), calls("destroy")), (1, 0));
}

#[test]
fn offset_beyond_what_the_library_takes_is_an_error() {
    read(&[u64::MAX / 1000]).expect_err("more than 63 bits");
    assert!(fake(|fake| fake.log.is_empty()));
}
