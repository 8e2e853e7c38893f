//! A progress bar on a terminal, for work that takes longer than a moment.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use swath::Progress;

/// Work shorter than this shows no bar.
const PATIENCE: Duration = Duration::from_millis(400);

/// Draws at most ten times a second, on stderr, and only if that is a terminal.
pub(crate) struct Bar {
    start: Instant,
    drawn: Mutex<Option<Instant>>,
    terminal: bool,
    /// Megabytes of all the work, to tell the rate; 0 when nobody knows.
    megabytes: f64,
}

impl Bar {
    pub(crate) fn new() -> Bar {
        Bar::of(0.0)
    }

    /// A bar for work on so many bytes.
    pub(crate) fn of(bytes: f64) -> Bar {
        let terminal = std::io::stderr().is_terminal();
        Bar { start: Instant::now(), drawn: Mutex::new(None), terminal, megabytes: bytes / 1e6 }
    }

    /// Show how far the work has come.
    pub(crate) fn show(&self, progress: Progress) {
        let now = Instant::now();
        if !self.terminal || now - self.start < PATIENCE {
            return;
        }
        let Ok(mut drawn) = self.drawn.try_lock() else { return };
        if drawn.is_some_and(|last| now - last < Duration::from_millis(100)) {
            return;
        }
        *drawn = Some(now);
        let part = progress.done as f64 / progress.total.max(1) as f64;
        let filled = (part * 40.0) as usize;
        let left = (now - self.start).as_secs_f64() * (1.0 - part) / part.max(1e-9);
        let bar = format!("{}{}", "=".repeat(filled), " ".repeat(40 - filled.min(40)));
        let rate = self.megabytes * part / (now - self.start).as_secs_f64();
        let rate = if rate > 0.0 { format!("{rate:.0} MB/s, ") } else { String::new() };
        let _ = write!(std::io::stderr(), "\r[{bar}] {:3.0} %  {rate}{left:.0} s left  ", part * 100.0);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.drawn.lock().is_ok_and(|drawn| drawn.is_some()) {
            let _ = write!(std::io::stderr(), "\r{}\r", " ".repeat(78));
        }
    }
}
