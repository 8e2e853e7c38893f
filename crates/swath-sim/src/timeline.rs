//! When the work of the streams would run on a GPU, for tests of overlap.
//!
//! The simulator executes work when it is waited for, so the times are computed: work begins when the work before it in its stream has
//! ended, when the host has submitted it, and when the engine that it needs is free. There is one engine for copies in each direction, and
//! one for kernels, because a batch is meant to fill the device. Durations are rough: the bytes of a copy at 25 GB/s, 20 microseconds for a kernel or
//! a library call and 0.1 for each of its blocks, 200 for a picture of nvJPEG2000, 1 for a call of the host.

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::sync::{Mutex, PoisonError};

/// Nanoseconds of a call of the host.
const CALL: u64 = 1_000;
/// Nanoseconds of a kernel or a library call, and of each of its blocks.
const KERNEL: u64 = 20_000;
const BLOCK: u64 = 100;
/// Nanoseconds of a picture of nvJPEG2000.
const PICTURE: u64 = 200_000;
/// Bytes that a copy moves in a nanosecond.
const RATE: u64 = 25;

/// What work needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Engine {
    Upload,
    Download,
    Compute,
}

#[derive(Debug, Default)]
struct Clock {
    host: u64,
    /// When the work of each stream ends.
    streams: BTreeMap<usize, u64>,
    /// When each engine is free.
    engines: BTreeMap<Engine, u64>,
    /// When the work before each event ends.
    events: BTreeMap<usize, u64>,
    /// One line for each work item: its name, its stream, its begin and its end.
    lines: Vec<String>,
}

static CLOCK: Mutex<Option<Clock>> = Mutex::new(None);

fn with<T>(act: impl FnOnce(&mut Clock) -> T) -> T {
    act(CLOCK.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// Adds a copy of so many bytes to a stream.
pub(crate) fn copy(engine: Engine, stream: usize, bytes: usize) {
    let name = if engine == Engine::Upload { "upload" } else { "download" };
    with(|clock| clock.add(engine, name, stream, 1 + bytes as u64 / RATE));
}

/// Adds a kernel or a library call that works on so many blocks to a stream.
pub(crate) fn compute(name: &str, stream: usize, blocks: u64) {
    with(|clock| clock.add(Engine::Compute, name, stream, KERNEL + BLOCK * blocks));
}

/// Adds the decoding or encoding of a picture to a stream. A picture does not fill the device, so those of several streams run side by
/// side.
pub(crate) fn picture(name: &str, stream: usize) {
    with(|clock| {
        clock.host += CALL;
        let begin = clock.streams.get(&stream).copied().unwrap_or(0).max(clock.host);
        let end = begin + PICTURE;
        clock.streams.insert(stream, end);
        clock.lines.push(format!("{name} {stream} {begin} {end}"));
    });
}

/// The host waits for a stream, or for all of them.
pub(crate) fn wait(stream: Option<usize>) {
    with(|clock| {
        let ends = clock.streams.iter().filter(|(of, _)| stream.is_none_or(|stream| stream == **of));
        clock.host = ends.map(|(_, end)| *end).max().unwrap_or(0).max(clock.host);
    });
}

/// An event is recorded in a stream.
pub(crate) fn record(event: usize, stream: usize) {
    with(|clock| clock.events.insert(event, clock.streams.get(&stream).copied().unwrap_or(0)));
}

/// A stream waits for an event.
pub(crate) fn wait_for_event(stream: usize, event: usize) {
    with(|clock| {
        let until = clock.events.get(&event).copied().unwrap_or(0);
        let end = clock.streams.entry(stream).or_default();
        *end = until.max(*end);
    });
}

impl Clock {
    fn add(&mut self, engine: Engine, name: &str, stream: usize, nanoseconds: u64) {
        self.host += CALL;
        let before = self.streams.get(&stream).copied().unwrap_or(0);
        let free = self.engines.get(&engine).copied().unwrap_or(0);
        let begin = self.host.max(before).max(free);
        let end = begin + nanoseconds;
        self.streams.insert(stream, end);
        self.engines.insert(engine, end);
        self.lines.push(format!("{name} {stream} {begin} {end}"));
    }
}

/// Forgets the work so far.
pub(crate) fn forget() {
    with(|clock| *clock = Clock::default());
}

/// Copies the lines to `buffer` if there is space for them, and returns their size in bytes.
///
/// # Safety
/// The buffer is null or has that much space.
#[unsafe(no_mangle)]
unsafe extern "C" fn swath_sim_timeline(buffer: *mut c_char, room: usize) -> usize {
    let text = with(|clock| clock.lines.join("\n"));
    if !buffer.is_null() && text.len() <= room {
        // SAFETY: it fits, and the caller guarantees that much space.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), text.len()) };
    }
    text.len()
}

/// A work item of a stream, and when it would run, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedWork {
    /// `upload`, `download`, or the name of a kernel or a library function.
    pub name: String,
    /// The stream.
    pub stream: usize,
    /// When it begins.
    pub begin: u64,
    /// When it ends.
    pub end: u64,
}

impl TimedWork {
    /// Whether both run at some time.
    pub fn overlaps(&self, other: &TimedWork) -> bool {
        self.begin < other.end && other.begin < self.end
    }

    /// Reads a line.
    pub(crate) fn parse(line: &str) -> Option<TimedWork> {
        let mut words = line.split(' ');
        let name = words.next()?.to_owned();
        let mut number = || words.next()?.parse().ok();
        Some(TimedWork { name, stream: number()? as usize, begin: number()?, end: number()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(clock: &Clock) -> Vec<TimedWork> {
        clock.lines.iter().filter_map(|line| TimedWork::parse(line)).collect()
    }

    #[test]
    fn streams_overlap_and_the_work_of_one_does_not() {
        let mut clock = Clock::default();
        clock.add(Engine::Upload, "upload", 1, 10_000);
        clock.add(Engine::Compute, "decode", 1, 50_000);
        clock.add(Engine::Upload, "upload", 2, 10_000);
        clock.add(Engine::Compute, "decode", 2, 50_000);
        let work = work(&clock);
        assert!(!work[0].overlaps(&work[1]), "one stream");
        assert!(!work[0].overlaps(&work[2]), "one copy engine");
        assert!(work[1].overlaps(&work[2]), "the second upload and the first decoding");
        assert!(!work[1].overlaps(&work[3]), "one device");
    }

    #[test]
    fn wait_of_the_host_separates_what_comes_before_and_after() {
        let mut clock = Clock::default();
        clock.add(Engine::Compute, "decode", 1, 50_000);
        clock.host = clock.streams[&1];
        clock.add(Engine::Upload, "upload", 2, 10_000);
        let work = work(&clock);
        assert!(!work[0].overlaps(&work[1]));
    }
}
