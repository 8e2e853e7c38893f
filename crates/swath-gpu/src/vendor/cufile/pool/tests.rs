//! Transfers of a cuFile that does what each test says.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::LazyLock;

use super::super::{Code, Descriptor, Properties};
use super::*;

thread_local! {
    /// What the thread of a test asked for and waited for, in order.
    pub(super) static TIMELINE: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// A call: which way, the buffer, bytes, and where in the file and in the buffer.
type Call = (Direction, u64, usize, i64, i64);

/// What a cuFile of the tests does with a file.
#[derive(Default)]
struct Fake {
    /// The transfer of this size returns this, and this `errno`.
    instead: Option<(u64, isize, i32)>,
    /// None ends before so many have begun.
    together: usize,
    /// Those that have begun.
    begun: Mutex<Vec<Call>>,
    more: Condvar,
}

/// By the handles of their files.
static FAKES: LazyLock<Mutex<HashMap<usize, Arc<Fake>>>> = LazyLock::new(Mutex::default);

fn moves(direction: Direction, file: Handle, buffer: *mut c_void, bytes: usize, at: i64, into: i64) -> isize {
    let fake = Arc::clone(&FAKES.lock().unwrap()[&file.addr()]);
    let mut begun = fake.begun.lock().unwrap();
    begun.push((direction, buffer.addr() as u64, bytes, at, into));
    fake.more.notify_all();
    while begun.len() < fake.together {
        begun = fake.more.wait(begun).unwrap();
    }
    match fake.instead {
        Some((of, moved, errno)) if of == bytes as u64 => {
            // SAFETY: the place belongs to this thread.
            unsafe { *libc::__errno_location() = errno };
            moved
        }
        _ => bytes as isize,
    }
}

unsafe extern "C" fn read(file: Handle, buffer: *mut c_void, bytes: usize, at: i64, into: i64) -> isize {
    moves(Direction::Read, file, buffer, bytes, at, into)
}
unsafe extern "C" fn write(file: Handle, buffer: *mut c_void, bytes: usize, at: i64, into: i64) -> isize {
    moves(Direction::Write, file, buffer, bytes, at, into)
}

const DONE: Code = Code { cufile: 0, cuda: 0 };
unsafe extern "C" fn version(_: *mut i32) -> Code {
    DONE
}
unsafe extern "C" fn driver_open() -> Code {
    DONE
}
unsafe extern "C" fn driver_properties(_: *mut Properties) -> Code {
    DONE
}
unsafe extern "C" fn handle_register(_: *mut Handle, _: *mut Descriptor) -> Code {
    DONE
}
unsafe extern "C" fn handle_deregister(_: Handle) {}
unsafe extern "C" fn buffer_register(_: u64, _: u64, _: i32) -> Code {
    DONE
}
unsafe extern "C" fn buffer_deregister(_: u64) -> Code {
    DONE
}

const FUNCTIONS: Functions = Functions {
    version,
    driver_open,
    driver_properties,
    handle_register,
    handle_deregister,
    buffer_register,
    buffer_deregister,
    read,
    write,
};

/// Where the buffer of the tests is said to be: nothing is ever written there.
const BUFFER: u64 = 1 << 40;

/// Move transfers of these sizes by a fake, which is given back with what came of it.
fn moved(fake: Fake, direction: Direction, sizes: &[u64]) -> (Result<()>, Arc<Fake>) {
    let transfer = |&len: &u64| Transfer { file_offset: 1000 * len, buffer_offset: 10 * len, len };
    let transfers: Vec<Transfer> = sizes.iter().map(transfer).collect();
    moved_inside(fake, direction, &transfers, Arc::new(|work| work()))
}

fn moved_inside(fake: Fake, direction: Direction, transfers: &[Transfer], inside: Inside) -> (Result<()>, Arc<Fake>) {
    let fake = Arc::new(fake);
    let file = Arc::as_ptr(&fake).cast_mut().cast::<c_void>();
    FAKES.lock().unwrap().insert(file.addr(), Arc::clone(&fake));
    let patience = Patience(Duration::from_millis(300));
    let pool = TransferPool::default();
    // SAFETY: the functions above touch no buffer.
    let submitted = unsafe { submit(FUNCTIONS, (file, direction), BUFFER, transfers, (&pool, &inside), patience) };
    (submitted.and_then(Submitted::wait), fake)
}

fn offsets(fake: &Fake) -> Vec<i64> {
    let mut offsets: Vec<i64> = fake.begun.lock().unwrap().iter().map(|(.., at, _)| *at).collect();
    offsets.sort_unstable();
    offsets
}

#[test]
fn seed2_all_transfers_are_submitted_before_the_first_is_waited_for() {
    moved(Fake::default(), Direction::Read, &[1, 2, 3, 4, 5]).0.unwrap();
    assert_eq!(TIMELINE.take(), ["submit", "submit", "submit", "submit", "submit", "wait"]);
}

#[test]
fn transfers_do_not_wait_for_each_other() {
    // None of them ends before all threads have one.
    let sizes: Vec<u64> = (1..100).collect();
    let (done, fake) = moved(Fake { together: THREADS, ..Fake::default() }, Direction::Read, &sizes);
    done.unwrap();
    assert_eq!(offsets(&fake), (1..100).map(|size| 1000 * size).collect::<Vec<_>>());
}

#[test]
fn each_names_the_buffer_by_its_beginning_and_its_place_by_an_offset() {
    for direction in [Direction::Read, Direction::Write] {
        let (done, fake) = moved(Fake::default(), direction, &[7]);
        done.unwrap();
        assert_eq!(*fake.begun.lock().unwrap(), [(direction, BUFFER, 7, 7000, 70)]);
    }
}

#[test]
fn large_transfer_is_shared_by_the_threads_in_whole_pages() {
    let transfer = Transfer { file_offset: 1000, buffer_offset: 7, len: 2 * PIECE };
    for direction in [Direction::Read, Direction::Write] {
        let fake = Fake { together: 3, ..Fake::default() };
        let (done, fake) = moved_inside(fake, direction, &[transfer], Arc::new(|work| work()));
        done.unwrap();
        let begun = fake.begun.lock().unwrap();
        let mut pieces: Vec<_> =
            begun.iter().map(|&(.., bytes, at, into)| (at as u64, into as u64, bytes as u64)).collect();
        pieces.sort_unstable();
        // Two that meet within a page, and write it at once, would lose what one of them wrote.
        let first = PIECE - 1000;
        assert_eq!(pieces, [(1000, 7, first), (PIECE, 7 + first, PIECE), (2 * PIECE, 7 + first + PIECE, 1000)]);
    }
}

#[test]
fn writes_to_the_same_page_are_done_one_after_another() {
    let at = |file_offset, len| Transfer { file_offset, buffer_offset: file_offset, len };
    for (transfers, shared) in [
        (vec![at(0, 4096), at(4096, 10)], false),
        (vec![at(4096, 10), at(0, 4096)], false),
        (vec![at(0, 4097), at(8000, 10), at(4098, 10)], true),
        (vec![at(0, 10), at(10, 10)], true),
        (vec![at(100, 20_000), at(5000, 10)], true),
    ] {
        assert_eq!(share_pages(&transfers), shared, "{transfers:?}");
    }
    // None of them ends before two have begun, which does not come to pass.
    let neighbours = [at(0, 10), at(10, 10)];
    let together = || Fake { together: 2, ..Fake::default() };
    let (done, _) = moved_inside(together(), Direction::Write, &neighbours, Arc::new(|work| work()));
    assert!(matches!(done, Err(Error::Stalled { .. })), "{done:?}");
    moved_inside(together(), Direction::Read, &neighbours, Arc::new(|work| work())).0.unwrap();
}

#[test]
fn sparse_tiles_of_no_bytes_are_not_asked_for() {
    let (done, fake) = moved(Fake::default(), Direction::Read, &[0, 0, 0]);
    done.unwrap();
    assert!(offsets(&fake).is_empty());
    let (done, fake) = moved(Fake::default(), Direction::Read, &[0, 7, 0]);
    done.unwrap();
    assert_eq!(offsets(&fake), [7000]);
}

#[test]
fn short_read_is_an_error_that_says_where() {
    let (done, _) = moved(Fake { instead: Some((3, 2, 0)), ..Fake::default() }, Direction::Read, &[1, 2, 3, 4, 5]);
    let error = done.unwrap_err();
    assert_eq!(error, Error::Transfer { what: "read", offset: 3000, got: 2, want: 3 });
    assert_eq!(error.to_string(), "a cuFile read moved 2 of 3 bytes at offset 3000");
}

#[test]
fn failure_tells_its_reason() {
    for (moved_bytes, errno, reason) in [
        (-1, libc::EIO, "Input/output error"),
        (-5011, 0, "CU_FILE_CUDA_DRIVER_ERROR (5011)"),
        (-77, 0, "code 77"),
        (isize::MIN, 0, "code"),
    ] {
        let fake = Fake { instead: Some((1, moved_bytes, errno)), ..Fake::default() };
        let text = moved(fake, Direction::Write, &[1]).0.unwrap_err().to_string();
        assert!(text.starts_with("cuFile: cuFileWrite failed with ") && text.contains(reason), "{text}");
    }
}

#[test]
fn nothing_more_is_begun_after_a_failure_and_what_was_begun_has_ended() {
    let sizes: Vec<u64> = (0..10_000).map(|i| if i == 5 { 3 } else { 7 }).collect();
    let (done, fake) = moved(Fake { instead: Some((3, 0, 0)), ..Fake::default() }, Direction::Read, &sizes);
    done.unwrap_err();
    assert!(offsets(&fake).len() < 10_000);
    assert_eq!(Arc::strong_count(&fake), 2, "no thread has it any more: the test and the table do");
}

#[test]
fn storage_that_never_answers_is_given_up_and_nothing_waits_for_it_again() {
    let begun = Instant::now();
    let (done, fake) = moved(Fake { together: 1000, ..Fake::default() }, Direction::Read, &[1, 2, 3]);
    let error = done.unwrap_err();
    assert!(matches!(error, Error::Stalled { what: "read", .. }), "{error}");
    assert!(error.to_string().contains("no transfer that ended in 300ms"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert_eq!(offsets(&fake).len(), 3, "they are still under way");
}

#[test]
fn device_whose_context_is_gone_is_an_error() {
    let one = Transfer { file_offset: 0, buffer_offset: 0, len: 1 };
    let (done, fake) = moved_inside(Fake::default(), Direction::Read, &[one, one], Arc::new(|_| ()));
    assert!(done.unwrap_err().to_string().contains("context"));
    assert!(offsets(&fake).is_empty());
}

#[test]
fn offset_beyond_what_the_library_takes_is_an_error() {
    let far = Transfer { file_offset: 1 << 63, buffer_offset: 0, len: 1 };
    let (done, fake) = moved_inside(Fake::default(), Direction::Read, &[far], Arc::new(|work| work()));
    assert!(done.unwrap_err().to_string().contains("63 bits"));
    assert!(offsets(&fake).is_empty());
}
