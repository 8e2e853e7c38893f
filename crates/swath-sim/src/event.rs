//! The calls of the libraries in order, for tests.
//!
//! A test links this crate as Rust code and also loads it as the driver's library. The two copies share no
//! memory, so a test reads the events through exported functions of the library.

use std::ffi::c_char;
use std::sync::{Mutex, PoisonError};

use libloading::os::unix::{Library, RTLD_LAZY, Symbol};

use crate::timeline::TimedWork;
use crate::{fail, sim};

static EVENTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Records a call: one line with its name and with numbers that distinguish it from other calls.
pub(crate) fn record(event: impl Into<String>) {
    EVENTS.lock().unwrap_or_else(PoisonError::into_inner).push(event.into());
}

/// Reports misuse that the return value does not show, on standard error and among the events.
pub(crate) fn report(what: &str) {
    eprintln!("swath-sim: {what}");
    record(format!("reported: {what}"));
}

/// Copies the lines to `buffer` if there is space for them, and returns their size in bytes.
///
/// # Safety
/// The buffer is null or has that much space.
#[unsafe(no_mangle)]
unsafe extern "C" fn swath_sim_events(buffer: *mut c_char, room: usize) -> usize {
    let text = EVENTS.lock().unwrap_or_else(PoisonError::into_inner).join("\n");
    if !buffer.is_null() && text.len() <= room {
        // SAFETY: it fits, and the caller guarantees that much space.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), text.len()) };
    }
    text.len()
}

#[unsafe(no_mangle)]
extern "C" fn swath_sim_forget() {
    crate::timeline::forget();
    EVENTS.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

#[unsafe(no_mangle)]
extern "C" fn swath_sim_reset() {
    fail::reset();
    let _ = sim::with(|sim| {
        sim.find_devices();
        Ok(())
    });
    swath_sim_forget();
}

#[unsafe(no_mangle)]
extern "C" fn swath_sim_device_bytes() -> u64 {
    sim::with(|sim| Ok(sim.memory.all())).unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn swath_sim_pinned_bytes() -> u64 {
    sim::with(|sim| Ok(sim.pinned.all())).unwrap_or(0)
}

/// Returns the calls since the process started or since [`forget`] was called, one line per call, in order:
/// `upload 4096`, `launch place 3`, `synchronize`.
///
/// # Panics
/// Panics if the process does not have the simulator.
pub fn events() -> Vec<String> {
    lines(b"swath_sim_events\0")
}

/// Returns the work of all streams since [`forget`] was called, in the order of submission, with the times at which a
/// GPU would do it. The module `timeline` describes how they are computed.
///
/// # Panics
/// Panics as [`events`] does.
pub fn timeline() -> Vec<TimedWork> {
    lines(b"swath_sim_timeline\0").iter().filter_map(|line| TimedWork::parse(line)).collect()
}

/// Returns the lines that an exported function copies to a buffer.
fn lines(function: &[u8]) -> Vec<String> {
    let library = library();
    // SAFETY: the type is that of both functions.
    let ask: Symbol<unsafe extern "C" fn(*mut c_char, usize) -> usize> =
        unsafe { library.get(function) }.expect("the simulator");
    let mut text = Vec::new();
    // Other threads may add events in the meantime.
    loop {
        // SAFETY: the text has that much space.
        let needed = unsafe { ask(text.as_mut_ptr() as *mut c_char, text.len()) };
        if needed <= text.len() {
            text.truncate(needed);
            break;
        }
        text.resize(needed + 1024, 0);
    }
    String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
}

/// Discards the events so far.
///
/// # Panics
/// Panics as [`events`] does.
pub fn forget() {
    // SAFETY: the type is that of the function above.
    unsafe { library().get::<unsafe extern "C" fn()>(b"swath_sim_forget\0").expect("the simulator")() }
}

/// Resets the simulator: the counts of `SWATH_SIM_FAIL` start again, lost devices are available again for new
/// contexts, and the events so far are discarded.
///
/// # Panics
/// Panics as [`events`] does.
pub fn reset() {
    // SAFETY: the type is that of the function above.
    unsafe { library().get::<unsafe extern "C" fn()>(b"swath_sim_reset\0").expect("the simulator")() }
}

/// Returns the number of allocated bytes of pinned memory. It must be 0 at the end, unless a context died with
/// allocations in it.
///
/// # Panics
/// Panics as [`events`] does.
pub fn pinned_bytes() -> u64 {
    // SAFETY: the type is that of the function above.
    unsafe { library().get::<unsafe extern "C" fn() -> u64>(b"swath_sim_pinned_bytes\0").expect("the simulator")() }
}

/// Returns the number of allocated bytes of device memory on all devices. It must be 0 at the end.
///
/// # Panics
/// Panics as [`events`] does.
pub fn device_bytes() -> u64 {
    // SAFETY: the type is that of the function above.
    unsafe { library().get::<unsafe extern "C" fn() -> u64>(b"swath_sim_device_bytes\0").expect("the simulator")() }
}

fn library() -> Library {
    // SAFETY: the library is already loaded as the driver's library and has no initialisers.
    unsafe { Library::open(Some("libcuda.so.1"), RTLD_LAZY) }.expect("the simulator stands in for libcuda.so.1")
}
