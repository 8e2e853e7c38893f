//! A progress bar on a terminal, for work that takes longer than [`DELAY`].

use std::sync::Once;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use swath::read::Progress;

/// Work shorter than this shows no bar.
const DELAY: Duration = Duration::from_millis(400);

const WITHOUT_RATE: &str = "[{bar:40}] {percent:>3} %  {eta} left";
const WITH_RATE: &str = "[{bar:40}] {percent:>3} %  {decimal_bytes_per_sec}, {eta} left";

/// A progress bar. It is drawn on stderr if that is a terminal, at most ten times a second.
pub(crate) struct Bar {
    bar: ProgressBar,
    start: Instant,
    shown: Once,
    /// Bytes of all the work, to show the rate; `None` if they are unknown.
    bytes: Option<u64>,
}

impl Bar {
    /// A bar for an unknown number of bytes.
    pub(crate) fn new() -> Bar {
        Bar::with(None, WITHOUT_RATE)
    }

    /// A bar for work on this many bytes.
    pub(crate) fn of(bytes: u64) -> Bar {
        Bar::with(Some(bytes), WITH_RATE)
    }

    fn with(bytes: Option<u64>, template: &str) -> Bar {
        let bar = ProgressBar::with_draw_target(bytes, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("== "));
        }
        Bar { bar, start: Instant::now(), shown: Once::new(), bytes }
    }

    /// Shows the progress.
    pub(crate) fn show(&self, progress: Progress) {
        if self.start.elapsed() >= DELAY {
            self.shown.call_once(|| self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10)));
        }
        let (done, total) = (progress.done, progress.total.max(1));
        match self.bytes {
            Some(bytes) => self.bar.set_position((bytes as f64 * done as f64 / total as f64) as u64),
            None => {
                self.bar.set_length(total);
                self.bar.set_position(done);
            }
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_valid() {
        assert!(ProgressStyle::with_template(WITHOUT_RATE).is_ok());
        assert!(ProgressStyle::with_template(WITH_RATE).is_ok());
    }
}
