//! Work without the GIL that Ctrl-C can end.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pyo3::prelude::*;
use swath::read::Cancel;

/// How often the calling thread looks for signals.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// Less work than this is over before anybody could stop it, and a thread costs more than a small window.
const LARGE: usize = 16 << 20;

/// Do work that makes so many bytes without the GIL. Ctrl-C cancels it.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    bytes: usize,
    cancel: &Cancel,
    work: impl FnOnce() -> swath::Result<T> + Send,
) -> PyResult<T> {
    if bytes < LARGE {
        return py.detach(work).map_err(crate::errors::to_python);
    }
    py.detach(|| {
        let (send, receive) = channel();
        std::thread::scope(|scope| {
            // Nobody listens when the calling thread was interrupted, which cancelled the work already.
            scope.spawn(move || send.send(work()).ok());
            loop {
                match receive.recv_timeout(LOOK) {
                    Ok(done) => return done.map_err(crate::errors::to_python),
                    Err(RecvTimeoutError::Timeout) => {
                        Python::attach(|py| py.check_signals()).inspect_err(|_| cancel.cancel())?
                    }
                    // The work panicked; the scope passes that on.
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(crate::errors::to_python(swath::Error::Cancelled));
                    }
                }
            }
        })
    })
}
