//! A source with the latency of an object store: every read takes a fixed time, and several run at once.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use swath_io::{Fetch, ReadAt, Source, Span};

/// A source with a fixed time for each read, whatever its size, and a fixed number of reads that run at once.
#[derive(Debug)]
pub struct SlowSource<S> {
    source: S,
    delay: Duration,
    in_flight: usize,
}

impl<S: Source> SlowSource<S> {
    /// Delays every read of `source` by `delay`. At most `in_flight` reads run at once.
    pub fn new(source: S, delay: Duration, in_flight: usize) -> SlowSource<S> {
        SlowSource { source, delay, in_flight: in_flight.max(1) }
    }

    /// Performs reads that were all requested at `start`, one after another. Each starts when the previous one
    /// should be done and not when this thread wakes up, because a server does not wait for the client's
    /// threads.
    fn in_turn(&self, start: Instant, reads: Vec<(Span, &mut [u8])>) -> io::Result<()> {
        let mut done = start;
        for (span, out) in reads {
            self.source.read_at(span.offset, out)?;
            done += self.delay;
            sleep_until(done);
        }
        Ok(())
    }
}

impl<S: Source> ReadAt for SlowSource<S> {
    fn size(&self) -> u64 {
        self.source.size()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let len = out.len() as u64;
        self.in_turn(Instant::now(), vec![(Span { offset, len }, out)])
    }
}

impl<S: Source> Source for SlowSource<S> {
    fn name(&self) -> String {
        format!("{}, with a latency of {:?}", self.source.name(), self.delay)
    }

    /// Read `i` starts when read `i - in_flight` is done: `in_flight` threads take turns, and all reads are
    /// requested before the first wait.
    fn fetch_into(&self, fetch: &Fetch, mut out: &mut [u8]) -> io::Result<()> {
        let start = Instant::now();
        let mut lanes: Vec<Vec<(Span, &mut [u8])>> = Vec::new();
        lanes.resize_with(self.in_flight.min(fetch.reads().len()), Vec::new);
        let mut passed = 0;
        for (i, (span, range)) in fetch.reads().enumerate() {
            // The reads of a plan are in the order of its buffer, so splitting from the front gives each read
            // its part.
            let (part, rest) = out.split_at_mut(range.end - passed);
            lanes[i % self.in_flight].push((span, &mut part[range.start - passed..]));
            (out, passed) = (rest, range.end);
        }
        thread::scope(|scope| {
            let threads: Vec<_> =
                lanes.into_iter().map(|reads| scope.spawn(move || self.in_turn(start, reads))).collect();
            threads.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|_| Err(io::Error::other("a reading thread panicked")))
            })
        })
    }

    fn sibling(&self, change: &dyn Fn(&Path) -> PathBuf) -> swath_io::Result<Option<Box<dyn Source>>> {
        self.source.sibling(change)
    }
}

fn sleep_until(done: Instant) {
    let left = done.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        thread::sleep(left);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::{Condvar, Mutex};

    use super::*;

    /// Bytes that depend on their offset. Reads wait until `meeting` of them run.
    #[derive(Debug)]
    struct Meeting {
        meeting: usize,
        under_way: Mutex<usize>,
        arrived: Condvar,
        reads: AtomicUsize,
    }

    impl Meeting {
        fn of(meeting: usize) -> Meeting {
            Meeting { meeting, under_way: Mutex::new(0), arrived: Condvar::new(), reads: AtomicUsize::new(0) }
        }
    }

    impl ReadAt for Meeting {
        fn size(&self) -> u64 {
            1 << 30
        }

        fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.reads.fetch_add(1, SeqCst);
            let mut under_way = self.under_way.lock().unwrap();
            *under_way += 1;
            self.arrived.notify_all();
            let enough = |under_way: &mut usize| *under_way < self.meeting;
            let (_met, late) = self.arrived.wait_timeout_while(under_way, Duration::from_secs(20), enough).unwrap();
            if late.timed_out() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            out.iter_mut().zip(offset..).for_each(|(byte, at)| *byte = (at % 251) as u8);
            Ok(())
        }
    }

    impl Source for Meeting {
        fn name(&self) -> String {
            "bytes that depend on their offset".into()
        }

        fn sibling(&self, _change: &dyn Fn(&Path) -> PathBuf) -> swath_io::Result<Option<Box<dyn Source>>> {
            Ok(None)
        }
    }

    fn fetched(source: &impl Source, spans: &[(u64, u64)]) -> io::Result<()> {
        let spans: Vec<Span> = spans.iter().map(|&(offset, len)| Span { offset, len }).collect();
        let fetch = Fetch::plan(&spans).unwrap();
        let mut out = vec![255; fetch.bytes()];
        source.fetch_into(&fetch, &mut out)?;
        for (span, range) in spans.iter().zip(fetch.ranges()) {
            let expected: Vec<u8> = (span.offset..span.offset + span.len).map(|at| (at % 251) as u8).collect();
            assert_eq!(out[range.clone()], expected, "{span:?}");
        }
        Ok(())
    }

    #[test]
    fn reads_run_together_and_land_at_their_offsets() {
        let apart: Vec<(u64, u64)> = (0..21).map(|i| (i * 10_000, 10 + i)).collect();
        let source = SlowSource::new(Meeting::of(8), Duration::ZERO, 8);
        fetched(&source, &apart).unwrap();
        assert_eq!(source.source.reads.load(SeqCst), 21);
        // Adjacent, empty and overlapping ranges, and fewer reads than threads.
        fetched(&SlowSource::new(Meeting::of(1), Duration::ZERO, 8), &[(50, 9), (0, 0), (60, 5), (0, 0), (52, 9)])
            .unwrap();
        fetched(&SlowSource::new(Meeting::of(1), Duration::ZERO, 8), &[(0, 0)]).unwrap();
    }

    #[test]
    fn no_more_reads_run_than_allowed() {
        let source = SlowSource::new(Meeting::of(1), Duration::from_millis(3), 2);
        let start = Instant::now();
        fetched(&source, &[(0, 10), (10_000, 10), (20_000, 10)]).unwrap();
        assert!(start.elapsed() >= 2 * source.delay, "the third waits for the first");
    }

    #[test]
    fn failed_read_fails_the_batch() {
        let source = SlowSource::new(swath_io::Memory::new(vec![0; 100]), Duration::ZERO, 8);
        let error = fetched(&source, &[(0, 1), (50_000, 10), (1, 0)]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn single_read_takes_the_latency() {
        let delay = Duration::from_millis(3);
        let source = SlowSource::new(swath_io::Memory::new(vec![7; 100]), delay, 8);
        let (start, mut out) = (Instant::now(), [0; 10]);
        source.read_at(5, &mut out).unwrap();
        assert!(start.elapsed() >= delay && out == [7; 10]);
    }
}
