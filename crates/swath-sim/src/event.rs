//! The calls of the libraries in order, for tests.
//!
//! A test links this crate as Rust and finds it as the library of the driver, and the two share nothing. So what the library saw
//! is asked for through functions of the library.

use std::ffi::c_char;
use std::sync::{Mutex, PoisonError};

use libloading::os::unix::{Library, RTLD_LAZY, Symbol};

use crate::{fail, sim};

static EVENTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Note a call: a line of its name and of numbers that tell it from others.
pub(crate) fn record(event: impl Into<String>) {
    EVENTS.lock().unwrap_or_else(PoisonError::into_inner).push(event.into());
}

/// Copy the lines to `buffer` if there is room for them, and tell how many bytes they are.
///
/// # Safety
/// The buffer is null or has so much room.
#[unsafe(no_mangle)]
unsafe extern "C" fn swath_sim_events(buffer: *mut c_char, room: usize) -> usize {
    let text = EVENTS.lock().unwrap_or_else(PoisonError::into_inner).join("\n");
    if !buffer.is_null() && text.len() <= room {
        // SAFETY: it fits, and by the caller's promise there is that much room.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), text.len()) };
    }
    text.len()
}

#[unsafe(no_mangle)]
extern "C" fn swath_sim_forget() {
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

/// The calls since the process began or [`forget`] was called, one line per call, in order: `upload 4096`,
/// `launch place 3`, `synchronize`.
///
/// # Panics
/// When the process does not have the simulator.
pub fn events() -> Vec<String> {
    let library = library();
    // SAFETY: the type is that of the function above.
    let ask: Symbol<unsafe extern "C" fn(*mut c_char, usize) -> usize> =
        unsafe { library.get(b"swath_sim_events\0") }.expect("the simulator");
    let mut text = Vec::new();
    // Other threads may go on meanwhile.
    loop {
        // SAFETY: the text has that much room.
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
/// As [`events`].
pub fn forget() {
    // SAFETY: the type is that of the function above.
    unsafe { library().get::<unsafe extern "C" fn()>(b"swath_sim_forget\0").expect("the simulator")() }
}

/// Begin anew: what `SWATH_SIM_FAIL` counts is counted from the beginning, devices that were lost are there again, for new contexts, and
/// what was asked so far is forgotten.
///
/// # Panics
/// As [`events`].
pub fn reset() {
    // SAFETY: the type is that of the function above.
    unsafe { library().get::<unsafe extern "C" fn()>(b"swath_sim_reset\0").expect("the simulator")() }
}

/// Bytes of pinned memory that are allocated: what must be none at the end, unless a context died with them.
///
/// # Panics
/// As [`events`].
pub fn pinned_bytes() -> u64 {
    // SAFETY: the type is that of the function above.
    unsafe { library().get::<unsafe extern "C" fn() -> u64>(b"swath_sim_pinned_bytes\0").expect("the simulator")() }
}

/// Bytes of device memory that are allocated, on all devices: what must be none at the end.
///
/// # Panics
/// As [`events`].
pub fn device_bytes() -> u64 {
    // SAFETY: the type is that of the function above.
    unsafe { library().get::<unsafe extern "C" fn() -> u64>(b"swath_sim_device_bytes\0").expect("the simulator")() }
}

fn library() -> Library {
    // SAFETY: the library was loaded as the driver's and has no initialisers.
    unsafe { Library::open(Some("libcuda.so.1"), RTLD_LAZY) }.expect("the simulator stands in for libcuda.so.1")
}
