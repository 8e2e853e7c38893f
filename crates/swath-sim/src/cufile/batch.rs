//! Batches, and the threads that work on them.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_int;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::transfer::{Failure, Transfer};
use super::{Answer, Status, report};
use crate::code::Code;
use crate::fail;

/// What a completion says.
const CANCELED: c_int = 0x08;
const COMPLETE: c_int = 0x10;
const FAILED: c_int = 0x40;

/// Threads that nobody needs more of.
const MOST_WORKERS: u64 = 256;

/// Something to be done, and the number that the caller knows it by.
#[derive(Debug)]
pub(super) struct Entry {
    cookie: usize,
    transfer: Transfer,
    /// It is never done.
    stuck: bool,
}

impl Entry {
    pub(super) fn new(cookie: usize, transfer: Transfer) -> Entry {
        Entry { cookie, transfer, stuck: false }
    }

    /// As [`Transfer::tell_fate`]. Only what is in a batch can be stuck: nothing ends it elsewhere.
    pub(super) fn tell_fate(&mut self) {
        self.transfer.tell_fate();
        self.stuck = self.transfer.is_read() && fail::point("stuck", Code::UNKNOWN).is_err();
    }
}

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Completion {
    pub(super) cookie: usize,
    pub(super) status: c_int,
    /// Bytes, or what went wrong as a negative number.
    pub(super) result: i64,
}

impl Completion {
    fn canceled(cookie: usize) -> Completion {
        Completion { cookie, status: CANCELED, result: 0 }
    }
}

#[derive(Debug, Default)]
struct Batch {
    room: usize,
    /// Entries that wait for a thread are in the pool's queue.
    waiting: usize,
    running: usize,
    /// Those that will never be done, by their cookies.
    stuck: Vec<usize>,
    /// Those that were done and not asked for yet.
    done: VecDeque<Completion>,
}

impl Batch {
    fn unfinished(&self) -> usize {
        self.waiting + self.running + self.stuck.len()
    }
}

/// Batches, and what is to be done for all of them, the oldest first.
#[derive(Debug)]
struct Pool {
    queue: VecDeque<(usize, Entry)>,
    batches: BTreeMap<usize, Batch>,
    workers: Vec<JoinHandle<()>>,
    /// How often the threads were told to end: those of before do, and those of now stay.
    epoch: u64,
    last_handle: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    queue: VecDeque::new(),
    batches: BTreeMap::new(),
    workers: Vec::new(),
    epoch: 0,
    last_handle: 0xBA7C_0000,
});
/// There is something in the queue, or threads are to end.
static WORK: Condvar = Condvar::new();
/// Something was done.
static DONE: Condvar = Condvar::new();

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wait until something was done.
fn wait(pool: MutexGuard<'static, Pool>) -> MutexGuard<'static, Pool> {
    DONE.wait(pool).unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    fn batch(&mut self, batch: usize) -> Answer<&mut Batch> {
        self.batches.get_mut(&batch).ok_or(Status::INVALID_VALUE)
    }

    /// Take all entries of a batch from the queue that no thread has begun; their cookies.
    fn unqueue(&mut self, batch: usize) -> Vec<usize> {
        let (taken, left): (VecDeque<_>, VecDeque<_>) =
            mem::take(&mut self.queue).into_iter().partition(|(of, _)| *of == batch);
        self.queue = left;
        taken.into_iter().map(|(_, entry)| entry.cookie).collect()
    }

    /// See to it that there are as many threads as there are to be; at least one, or nothing would ever be done.
    fn hire(&mut self) -> Answer {
        let wanted = fail::number("SWATH_SIM_CUFILE_WORKERS", 8).clamp(1, MOST_WORKERS);
        let epoch = self.epoch;
        while (self.workers.len() as u64) < wanted {
            match thread::Builder::new().name("cufile".to_owned()).spawn(move || work(epoch)) {
                Ok(worker) => self.workers.push(worker),
                Err(_) if !self.workers.is_empty() => break,
                Err(_) => return Err(Status::BATCH_SUBMIT_FAILED),
            }
        }
        Ok(())
    }
}

/// What a thread does until it is told to end.
fn work(epoch: u64) {
    let mut pool = pool();
    loop {
        let Some((batch, entry)) = pool.queue.pop_front() else {
            if pool.epoch != epoch {
                return;
            }
            pool = WORK.wait(pool).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        if let Ok(batch) = pool.batch(batch) {
            batch.waiting -= 1;
            batch.running += 1;
        }
        drop(pool);
        let (status, result) = match entry.transfer.run() {
            Ok(bytes) => (COMPLETE, bytes as i64),
            Err(Failure::Errno(code) | Failure::Refused(code)) => (FAILED, -i64::from(code)),
        };
        pool = self::pool();
        // Who destroys a batch waits for what runs, so that it is there.
        if let Ok(batch) = pool.batch(batch) {
            batch.running -= 1;
            batch.done.push_back(Completion { cookie: entry.cookie, status, result });
        }
        DONE.notify_all();
    }
}

/// Batches there are.
pub(super) fn count() -> usize {
    pool().batches.len()
}

/// A batch for so many entries.
pub(super) fn set_up(room: usize) -> usize {
    let mut pool = pool();
    pool.last_handle += 16;
    let handle = pool.last_handle;
    pool.batches.insert(handle, Batch { room, ..Batch::default() });
    handle
}

/// Whether so many more entries fit into a batch. Those count that were done and not asked for.
pub(super) fn has_room(batch: usize, entries: usize) -> Answer {
    let mut pool = pool();
    let batch = pool.batch(batch)?;
    let used = batch.unfinished() + batch.done.len();
    if entries <= batch.room.saturating_sub(used) { Ok(()) } else { Err(Status::BATCH_FULL) }
}

/// Hand entries to the threads.
pub(super) fn submit(batch: usize, entries: Vec<Entry>) -> Answer {
    let mut pool = pool();
    pool.hire()?;
    let of = pool.batch(batch)?;
    let (stuck, entries): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.stuck);
    of.stuck.extend(stuck.into_iter().map(|entry| entry.cookie));
    of.waiting += entries.len();
    pool.queue.extend(entries.into_iter().map(|entry| (batch, entry)));
    WORK.notify_all();
    Ok(())
}

/// Wait until `least` entries are done, as many as there are, or until the time has come, and take at most `most`.
pub(super) fn completed(batch: usize, least: usize, most: usize, until: Option<Instant>) -> Answer<Vec<Completion>> {
    let mut pool = pool();
    loop {
        let found = pool.batch(batch)?;
        let now = Instant::now();
        let late = until.is_some_and(|until| until <= now);
        if late || found.done.len() >= least || found.unfinished() == 0 {
            let count = found.done.len().min(most);
            return Ok(found.done.drain(..count).collect());
        }
        pool = match until {
            None => wait(pool),
            Some(until) => DONE.wait_timeout(pool, until - now).unwrap_or_else(PoisonError::into_inner).0,
        };
    }
}

/// Cancel what no thread has begun, and what is stuck.
pub(super) fn cancel(batch: usize) -> Answer {
    let mut pool = pool();
    pool.batch(batch)?;
    let waiting = pool.unqueue(batch);
    let found = pool.batch(batch)?;
    found.waiting = 0;
    let stuck = mem::take(&mut found.stuck);
    found.done.extend(waiting.into_iter().chain(stuck).map(Completion::canceled));
    DONE.notify_all();
    Ok(())
}

/// Forget a batch, once nothing of it runs any more.
pub(super) fn destroy(batch: usize) {
    if cancel(batch).is_err() {
        report("a batch is destroyed that is none");
        return;
    }
    let mut pool = pool();
    while pool.batch(batch).is_ok_and(|found| found.waiting + found.running > 0) {
        pool = wait(pool);
    }
    pool.batches.remove(&batch);
    // Another thread may wait for it.
    DONE.notify_all();
}

/// Let the threads end, which have nothing to do: there are no batches.
pub(super) fn stop() {
    let mut pool = pool();
    pool.epoch += 1;
    let workers = mem::take(&mut pool.workers);
    drop(pool);
    WORK.notify_all();
    for worker in workers {
        let _ = worker.join();
    }
}
