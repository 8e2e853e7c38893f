//! Batches, and the threads that work on them.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_int;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::transfer::{Failure, Transfer};
use super::{Answer, Status, report};
use crate::fail;

/// What a completion says.
const COMPLETE: c_int = 0x10;
const FAILED: c_int = 0x40;

/// Threads that nobody needs more of.
const MOST_WORKERS: u64 = 256;

/// Something to be done, and the number that the caller knows it by.
#[derive(Debug)]
pub(super) struct Entry {
    cookie: usize,
    transfer: Transfer,
    stuck: Option<Stuck>,
}

/// A transfer that does not end by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stuck {
    /// It ends when it is cancelled or its batch destroyed.
    Cancellable,
    /// It never ends.
    Hung,
}

impl Entry {
    pub(super) fn new(cookie: usize, transfer: Transfer) -> Entry {
        Entry { cookie, transfer, stuck: None }
    }

    fn run(&self) -> Completion {
        let (status, result) = match self.transfer.run() {
            Ok(bytes) => (COMPLETE, bytes as i64),
            Err(Failure::Errno(code) | Failure::Refused(code)) => (FAILED, -i64::from(code)),
        };
        Completion { cookie: self.cookie, status, result }
    }

    /// As [`Transfer::tell_fate`]. Only what is in a batch can be stuck: nothing ends it elsewhere.
    pub(super) fn tell_fate(&mut self) {
        self.transfer.tell_fate();
        let stuck = self.transfer.is_read() && fail::now("stuck");
        self.stuck = if fail::now("hung") { Some(Stuck::Hung) } else { stuck.then_some(Stuck::Cancellable) };
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

#[derive(Debug, Default)]
struct Batch {
    room: usize,
    /// Entries that wait for a thread are in the pool's queue.
    waiting: usize,
    running: usize,
    /// Those that will never be done.
    stuck: Vec<Stuck>,
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
        let completion = entry.run();
        pool = self::pool();
        // Who destroys a batch waits for what runs, so that it is there.
        if let Ok(batch) = pool.batch(batch) {
            batch.running -= 1;
            batch.done.push_back(completion);
        }
        DONE.notify_all();
    }
}

/// Batches there are.
pub(super) fn count() -> usize {
    pool().batches.len()
}

/// A batch for so many entries. Each takes some of what the system has for reads and writes in flight.
pub(super) fn set_up(room: usize) -> Answer<usize> {
    let mut pool = pool();
    if pool.batches.len() as u64 >= fail::number("SWATH_SIM_CUFILE_BATCHES", 170) {
        return Err(Status::BATCH_SETUP_ERROR);
    }
    pool.last_handle += 16;
    let handle = pool.last_handle;
    pool.batches.insert(handle, Batch { room, ..Batch::default() });
    Ok(handle)
}

/// Whether so many more entries fit into a batch. Those count that were done and not asked for.
pub(super) fn has_room(batch: usize, entries: usize) -> Answer {
    let mut pool = pool();
    let batch = pool.batch(batch)?;
    let used = batch.unfinished() + batch.done.len();
    if entries <= batch.room.saturating_sub(used) { Ok(()) } else { Err(Status::BATCH_FULL) }
}

/// Hand entries to the threads; or do them here and now, where a read that fails is a submit that fails, and nothing more is told.
pub(super) fn submit(batch: usize, entries: Vec<Entry>, now: bool) -> Answer {
    if now {
        let done: VecDeque<Completion> = entries.iter().map(Entry::run).collect();
        if done.iter().any(|done| done.status == FAILED) {
            return Err(Status::BATCH_SUBMIT_FAILED);
        }
        pool().batch(batch)?.done.extend(done);
        return Ok(());
    }
    let mut pool = pool();
    pool.hire()?;
    let of = pool.batch(batch)?;
    let (stuck, entries): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.stuck.is_some());
    of.stuck.extend(stuck.into_iter().filter_map(|entry| entry.stuck));
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

/// Wait until nothing of a batch is under way, and tell of nothing that was. If there is something that does not end in time, that is
/// an error, and the batch is as it was.
pub(super) fn cancel(batch: usize) -> Answer {
    let until = Instant::now() + Duration::from_millis(fail::number("SWATH_SIM_CUFILE_CANCEL_MS", 5000));
    let mut pool = pool();
    loop {
        let found = pool.batch(batch)?;
        found.stuck.retain(|stuck| *stuck == Stuck::Hung);
        if found.unfinished() == 0 {
            found.done.clear();
            DONE.notify_all();
            return Ok(());
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Status::BATCH_CANCEL_ERROR);
        }
        pool = DONE.wait_timeout(pool, left).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Forget a batch, once nothing of it is under way any more.
pub(super) fn destroy(batch: usize) {
    let mut pool = pool();
    let Ok(found) = pool.batch(batch) else {
        drop(pool);
        return report("a batch is destroyed that is none");
    };
    if found.stuck.contains(&Stuck::Hung) {
        report("a batch is destroyed of which something never ends: the real library would wait for ever");
    }
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
