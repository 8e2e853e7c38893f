//! Threads that move bytes between files and memory. They belong to a device and wait between batches, so that a batch starts no thread.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Transfers of a batch that run at the same time: about as many as keep a disk busy. As many threads wait for the next batch.
pub(crate) const THREADS: usize = 16;

/// The most bytes of one read by the host, so that the threads share a large one.
const PIECE: usize = 1 << 20;

/// Reads are divided at multiples of this offset in the file, the size of a page.
const PAGE: u64 = 4096;

type Job = Box<dyn FnOnce() + Send>;

/// Reads bytes of a file from an offset on.
pub type RangeReader = Arc<dyn Fn(u64, &mut [u8]) -> io::Result<()> + Send + Sync>;

/// Threads for the transfers of a device.
#[derive(Debug, Default)]
pub(crate) struct TransferPool(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Jobs for threads that wait. There are never more than those.
    jobs: VecDeque<Job>,
    waiting: usize,
    closed: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} threads wait", self.state().waiting)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop of a thread: one job after another, until the pool is closed or enough other threads wait.
    fn serve(&self, first: Job) {
        let mut job = Some(first);
        while let Some(work) = job.take() {
            work();
            let mut state = self.state();
            if state.waiting >= THREADS {
                return;
            }
            state.waiting += 1;
            while state.jobs.is_empty() && !state.closed {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.waiting -= 1;
            job = state.jobs.pop_front();
        }
    }
}

impl TransferPool {
    /// Runs a job on a thread that waits, or on a new one: a job never waits for another one, which may take forever.
    ///
    /// # Errors
    /// When the system has no thread for it. Then the job is dropped.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut state = self.0.state();
        if state.waiting > state.jobs.len() {
            state.jobs.push_back(Box::new(job));
            drop(state);
            self.0.changed.notify_one();
            return Ok(());
        }
        drop(state);
        let shared = Arc::clone(&self.0);
        let thread = thread::Builder::new().name("swath-transfer".into());
        thread.spawn(move || shared.serve(Box::new(job))).map(drop)
    }

    /// Reads ranges of a file into memory: offsets, and where their bytes go. Large ranges are divided at pages of the file, all parts are
    /// submitted to the threads, and then all are waited for. A part that has begun when another one fails is completed, the rest is not.
    ///
    /// # Errors
    /// The error of the first part in the order of `ranges` that failed.
    pub(crate) fn read(&self, read: RangeReader, ranges: Vec<(u64, &mut [u8])>) -> io::Result<()> {
        let parts: Vec<Part> = ranges.into_iter().flat_map(|(offset, out)| divide(offset, out)).collect();
        // A thread that has to be woken costs more than a small read.
        if parts.len() < 2 {
            // SAFETY: the part is borrowed until this function returns.
            return parts.iter().try_for_each(|part| unsafe { read(part.offset, part.out()) });
        }
        note(parts.iter().map(|_| "submit"));
        let reading = Arc::new(Reading {
            read,
            parts,
            next: AtomicUsize::new(0),
            state: Mutex::default(),
            ended: Condvar::new(),
        });
        // From here on, the memory is borrowed by the threads: this function does not return before they have ended.
        let wait = WaitOnDrop(&reading);
        // This thread reads too, so at most one less is needed; if the system has none, it reads everything.
        for _ in 1..THREADS.min(reading.parts.len()) {
            reading.state().threads += 1;
            let shared = Arc::clone(&reading);
            if self.run(move || shared.work()).is_err() {
                reading.state().threads -= 1;
                break;
            }
        }
        reading.read_parts();
        drop(wait);
        reading.state().failure.take().map_or(Ok(()), |(_, error)| Err(error))
    }
}

impl Drop for TransferPool {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.changed.notify_all();
    }
}

/// A part of a read, and the memory that it fills.
struct Part {
    offset: u64,
    memory: *mut u8,
    bytes: usize,
}

impl Part {
    /// # Safety
    /// The memory is borrowed, and no other thread reads this part.
    #[expect(clippy::mut_from_ref, reason = "each part is read by one thread")]
    unsafe fn out(&self) -> &mut [u8] {
        // SAFETY: the parts come from slices that do not overlap, and the caller promises the rest.
        unsafe { std::slice::from_raw_parts_mut(self.memory, self.bytes) }
    }
}

/// Divides a range at pages of the file into parts of about the same size.
fn divide(mut offset: u64, out: &mut [u8]) -> Vec<Part> {
    let mut parts = Vec::with_capacity(out.len() / PIECE + 1);
    let mut rest = out;
    while !rest.is_empty() {
        let bytes = if rest.len() > PIECE { PIECE - (offset % PAGE) as usize } else { rest.len() };
        let (part, after) = rest.split_at_mut(bytes);
        parts.push(Part { offset, memory: part.as_mut_ptr(), bytes });
        (offset, rest) = (offset + bytes as u64, after);
    }
    parts
}

/// Reads that were submitted.
struct Reading {
    read: RangeReader,
    parts: Vec<Part>,
    /// The next part.
    next: AtomicUsize,
    state: Mutex<ReadingState>,
    ended: Condvar,
}

// SAFETY: the memory of the parts is borrowed mutably by `TransferPool::read`, which waits for all threads, and each part is read by the one
// thread that took its number.
unsafe impl Send for Reading {}
// SAFETY: as above.
unsafe impl Sync for Reading {}

#[derive(Default)]
struct ReadingState {
    /// Threads that have not ended.
    threads: usize,
    /// The number of the first part that failed, and its error.
    failure: Option<(usize, io::Error)>,
}

impl Reading {
    fn state(&self) -> MutexGuard<'_, ReadingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The job of a thread.
    fn work(&self) {
        let _end = EndOnDrop(self);
        self.read_parts();
    }

    fn read_parts(&self) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = self.parts.get(number) else { return };
            // SAFETY: the caller of `read` waits, and only this thread has this number.
            let Err(error) = (unsafe { (self.read)(part.offset, part.out()) }) else { continue };
            self.next.store(self.parts.len(), Ordering::Relaxed);
            let mut state = self.state();
            if state.failure.as_ref().is_none_or(|(first, _)| number < *first) {
                state.failure = Some((number, error));
            }
            return;
        }
    }
}

/// Records that a thread has ended, even if a source panics.
struct EndOnDrop<'a>(&'a Reading);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.state().threads -= 1;
        self.0.ended.notify_all();
    }
}

/// Waits for all threads, even if a source panics on this one.
struct WaitOnDrop<'a>(&'a Reading);

impl Drop for WaitOnDrop<'_> {
    fn drop(&mut self) {
        note(["wait"]);
        let mut state = self.0.state();
        while state.threads > 0 {
            state = self.0.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
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
mod tests {
    use std::cell::RefCell;
    use std::collections::HashSet;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    thread_local! {
        pub(super) static TIMELINE: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
    }

    /// A file whose bytes follow from their offset.
    fn byte(offset: u64) -> u8 {
        (offset ^ (offset >> 8)) as u8
    }

    fn file() -> RangeReader {
        Arc::new(|offset, out| {
            out.iter_mut().zip(offset..).for_each(|(out, offset)| *out = byte(offset));
            Ok(())
        })
    }

    #[test]
    fn all_parts_are_submitted_before_the_first_is_waited_for() {
        let mut memory = vec![0; 3 << 20];
        let (first, second) = memory.split_at_mut(1 << 20);
        TransferPool::default().read(file(), vec![(77, first), (9_000_000, second)]).unwrap();
        assert_eq!(TIMELINE.take(), ["submit", "submit", "submit", "submit", "wait"]);
        let expected = (77..77 + (1 << 20)).chain(9_000_000..9_000_000 + (2 << 20)).map(byte);
        assert!(memory.iter().copied().eq(expected));
    }

    #[test]
    fn parts_begin_at_pages_of_the_file() {
        let mut memory = vec![0; 5 << 20];
        let parts = divide(1000, &mut memory);
        assert!(parts[1..].iter().all(|part| part.offset.is_multiple_of(PAGE)));
        assert!(parts.iter().all(|part| part.bytes <= PIECE));
        assert_eq!(parts.iter().map(|part| part.bytes).sum::<usize>(), 5 << 20);
        assert!(divide(1000, &mut []).is_empty());
    }

    #[test]
    fn threads_are_kept_from_batch_to_batch() {
        let pool = TransferPool::default();
        let seen = Arc::new(Mutex::new(HashSet::new()));
        for _ in 0..20 {
            let seen = Arc::clone(&seen);
            let read = move |_: u64, _: &mut [u8]| {
                seen.lock().unwrap().insert(thread::current().id());
                thread::sleep(Duration::from_millis(1));
                Ok(())
            };
            pool.read(Arc::new(read), vec![(0, &mut vec![0; 32 << 20])]).unwrap();
        }
        // The caller's thread and those of the pool; a thread may still be on its way back when the next batch begins.
        let threads = seen.lock().unwrap().len();
        assert!(threads <= 2 * THREADS, "{threads} threads for 20 batches");
    }

    #[test]
    fn reads_wait_side_by_side() {
        let (begun_to, begun) = channel();
        let barrier = Arc::new(std::sync::Barrier::new(THREADS));
        let read = move |_: u64, _: &mut [u8]| {
            begun_to.send(()).unwrap();
            barrier.wait();
            Ok(())
        };
        // No read ends before all threads have one.
        TransferPool::default().read(Arc::new(read), vec![(0, &mut vec![0; THREADS << 20])]).unwrap();
        assert_eq!(begun.try_iter().count(), THREADS);
    }

    #[test]
    fn failure_is_returned_after_all_threads_have_ended() {
        let running = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&running);
        let fails = move |offset: u64, _: &mut [u8]| {
            count.fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(1));
            count.fetch_sub(1, Ordering::SeqCst);
            if offset >= 4 << 20 { Err(io::Error::other(offset.to_string())) } else { Ok(()) }
        };
        let error = TransferPool::default().read(Arc::new(fails), vec![(0, &mut vec![0; 64 << 20])]).unwrap_err();
        assert_eq!(running.load(Ordering::SeqCst), 0, "no thread uses the memory any more");
        let offset: u64 = error.to_string().parse().unwrap();
        assert!(offset >= 4 << 20);
    }

    #[test]
    fn job_that_never_ends_does_not_block_the_next() {
        let pool = TransferPool::default();
        let (never_to, never) = channel::<()>();
        pool.run(move || never.iter().for_each(drop)).unwrap();
        let (done_to, done) = channel();
        pool.run(move || done_to.send(()).unwrap()).unwrap();
        done.recv_timeout(Duration::from_secs(60)).expect("the second job runs");
        drop(never_to);
    }
}
