//! Work without the GIL that Ctrl-C can end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use swath::read::Cancel;

use crate::errors::to_python;

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
        return py.detach(|| contained(work)).map_err(Failure::into_python);
    }
    py.detach(|| {
        let (send, receive) = channel();
        // In a mutex, so that the work is still there if no thread can be started.
        let work = Mutex::new(Some(work));
        let take = || work.lock().unwrap_or_else(PoisonError::into_inner).take();
        std::thread::scope(|scope| {
            // The calling thread does not listen if it was interrupted. In that case it has cancelled the work.
            let in_thread = move || take().and_then(|work| send.send(contained(work)).ok());
            if std::thread::Builder::new().name("swath-work".into()).spawn_scoped(scope, in_thread).is_err() {
                // Without a thread for the work, Ctrl-C has to wait for it.
                let cancelled = || Err(Failure::Error(swath::Error::Cancelled));
                return take().map_or_else(cancelled, contained).map_err(Failure::into_python);
            }
            loop {
                match receive.recv_timeout(LOOK) {
                    Ok(done) => return done.map_err(Failure::into_python),
                    Err(RecvTimeoutError::Timeout) => {
                        Python::attach(|py| py.check_signals()).inspect_err(|_| cancel.cancel())?
                    }
                    Err(RecvTimeoutError::Disconnected) => return Err(to_python(swath::Error::Cancelled)),
                }
            }
        })
    })
}

/// Why the engine did not finish its work.
pub(crate) enum Failure {
    /// The engine returned an error.
    Error(swath::Error),
    /// The engine panicked with this message.
    Panic(String),
}

impl Failure {
    /// The exception. A panic is a RuntimeError, which programs catch as other exceptions, and not pyo3's PanicException.
    pub(crate) fn into_python(self) -> PyErr {
        match self {
            Failure::Error(error) => to_python(error),
            Failure::Panic(message) => {
                PyRuntimeError::new_err(format!("Swath has failed, which is a defect of Swath: {message}"))
            }
        }
    }
}

/// Runs work of the engine. A panic becomes an error, so that the calling thread does not wait for ever.
pub(crate) fn contained<T>(work: impl FnOnce() -> swath::Result<T>) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(Failure::Error),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(ToString::to_string);
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(Failure::Panic(text.unwrap_or_else(|| "it panicked".into())))
        }
    }
}
