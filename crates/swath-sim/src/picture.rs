//! Shared parts of nvJPEG2000 and nvJPEG: status codes, handles, pictures in device memory, and the retrieval
//! of encoded streams.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::code::{Code, Done};
use crate::driver::give;
use crate::event::record;
use crate::fail;
use crate::sim::{Sim, in_context, total_memory};

/// A `nvjpeg2kStatus_t` or `nvjpegStatus_t` other than success: both have the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status(c_int);

impl Status {
    pub(crate) const INVALID_PARAMETER: Status = Status(2);
    pub(crate) const BAD_JPEG: Status = Status(3);
    pub(crate) const NOT_SUPPORTED: Status = Status(4);
    pub(crate) const ALLOCATOR_FAILURE: Status = Status(5);
    pub(crate) const EXECUTION_FAILED: Status = Status(6);
}

/// The result of a call.
pub(crate) type Outcome<T = ()> = Result<T, Status>;

impl From<Code> for Status {
    fn from(code: Code) -> Status {
        match code {
            Code::INVALID_VALUE => Status::INVALID_PARAMETER,
            Code::OUT_OF_MEMORY => Status::ALLOCATOR_FAILURE,
            _ => Status::EXECUTION_FAILED,
        }
    }
}

impl From<swath_codec::Error> for Status {
    fn from(error: swath_codec::Error) -> Status {
        match error {
            swath_codec::Error::Unsupported { .. } => Status::NOT_SUPPORTED,
            _ => Status::BAD_JPEG,
        }
    }
}

pub(crate) fn answer(outcome: Outcome) -> c_int {
    outcome.map_or_else(|Status(status)| status, |()| 0)
}

/// Prints a mistake of the caller and returns its status.
pub(crate) fn misuse(call: &str, what: &str) -> Status {
    eprintln!("swath-sim: {call}: {what}");
    Status::INVALID_PARAMETER
}

/// Prints a feature of NVIDIA's library that the simulator lacks and returns its status.
pub(crate) fn unsupported(call: &str, what: &str) -> Status {
    eprintln!("swath-sim: {call}: the simulator has no {what}");
    Status::NOT_SUPPORTED
}

/// Fails with this status if `SWATH_SIM_FAIL` selects the call.
pub(crate) fn fail_point(what: &'static str, status: Status) -> Outcome {
    fail::point(what, Code::UNKNOWN).map_err(|_| status)
}

/// Runs `act` in the current context.
pub(crate) fn here<T>(act: impl FnOnce(&mut Sim, i32) -> Outcome<T>) -> Outcome<T> {
    in_context(|sim, device| Ok(act(sim, device)))?
}

/// Writes a property of a library, such as its version, which has three numbers.
///
/// # Safety
/// The pointer is null or valid for a write.
pub(crate) unsafe fn property(which: c_int, value: *mut c_int, numbers: [c_int; 3]) -> Outcome {
    let number = usize::try_from(which).ok().and_then(|which| numbers.get(which).copied());
    // SAFETY: guaranteed by the caller.
    Ok(unsafe { give(value, number.ok_or(Status::INVALID_PARAMETER)?) }?)
}

/// Locks a mutex, even after a panic of another thread: the protected data is valid at every moment.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The objects of one kind, by the handles that callers have.
pub(crate) struct Handles<T>(Mutex<BTreeMap<usize, Arc<T>>>);

/// Handles of all kinds are unique, so that a handle of the wrong kind is unknown.
static LAST_HANDLE: AtomicUsize = AtomicUsize::new(0x4A50_0000);

impl<T> Handles<T> {
    pub(crate) const fn new() -> Handles<T> {
        Handles(Mutex::new(BTreeMap::new()))
    }

    /// Creates an object and writes its handle.
    ///
    /// # Safety
    /// The pointer is null or valid for a write.
    pub(crate) unsafe fn create(&self, to: *mut *mut c_void, make: impl FnOnce() -> Outcome<T>) -> Outcome {
        if to.is_null() {
            return Err(Status::INVALID_PARAMETER);
        }
        let object = Arc::new(make()?);
        let handle = LAST_HANDLE.fetch_add(16, Ordering::Relaxed);
        locked(&self.0).insert(handle, object);
        // SAFETY: guaranteed by the caller.
        Ok(unsafe { give(to, handle as *mut c_void) }?)
    }

    pub(crate) fn get(&self, handle: *const c_void) -> Outcome<Arc<T>> {
        locked(&self.0).get(&(handle as usize)).cloned().ok_or(Status::INVALID_PARAMETER)
    }

    pub(crate) fn remove(&self, handle: *const c_void) -> Outcome<Arc<T>> {
        locked(&self.0).remove(&(handle as usize)).ok_or(Status::INVALID_PARAMETER)
    }
}

/// Whether pending work in a stream uses an object: each work item holds a clone until it is done or dropped.
#[derive(Debug, Clone, Default)]
pub(crate) struct InUse(Arc<()>);

impl InUse {
    pub(crate) fn now(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

/// Device memory that a state holds. In the real library the size depends on the picture; for tests it matters
/// only that there is some.
#[derive(Debug)]
pub(crate) struct Room {
    device: i32,
    at: usize,
}

const ROOM_BYTES: usize = 64 << 10;

impl Room {
    pub(crate) fn take() -> Outcome<Room> {
        here(|sim, device| {
            if ROOM_BYTES as u64 > total_memory().saturating_sub(sim.memory.used(device)) {
                return Err(Status::ALLOCATOR_FAILURE);
            }
            Ok(Room { device, at: sim.memory.allocate(&sim.executor, device, ROOM_BYTES)? })
        })
    }

    /// Checks that the state belongs to this device: a state works only on the device that has its memory.
    pub(crate) fn must_be_on(&self, device: i32, call: &str) -> Outcome {
        if self.device != device { Err(misuse(call, "the state belongs to another device")) } else { Ok(()) }
    }

    /// Frees the memory. As in CUDA, this waits for all pending work of the device.
    pub(crate) fn give_back(&self, call: &str) -> Outcome {
        here(|sim, device| {
            self.must_be_on(device, call)?;
            sim.drain_device(device)?;
            Ok(sim.memory.free(&sim.executor, device, self.at)?)
        })
    }
}

/// Rows of samples in device memory, of one component or of several interleaved ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plane {
    at: usize,
    pitch: usize,
    /// The number of bytes of samples in a row, and the number of rows.
    row: usize,
    rows: usize,
    /// The number of bytes of a sample, which are read and written together.
    sample: usize,
}

impl Plane {
    /// Creates a plane, with the checks that are possible before the stream reaches it.
    pub(crate) fn new(
        call: &str,
        at: *const c_void,
        pitch: usize,
        row: usize,
        rows: usize,
        sample: usize,
    ) -> Outcome<Plane> {
        if at.is_null() || row == 0 || rows == 0 {
            return Err(misuse(call, "a component has no memory or no samples"));
        }
        if pitch < row {
            return Err(misuse(call, &format!("a pitch of {pitch} bytes for rows of {row}")));
        }
        pitch.checked_mul(rows).ok_or(Status::INVALID_PARAMETER)?;
        Ok(Plane { at: at as usize, pitch, row, rows, sample })
    }
}

/// Returns the addresses of the planes, if each lies in live memory of the device and no two overlap.
fn place(sim: &Sim, device: i32, call: &str, planes: &[Plane]) -> Done<Vec<Range<usize>>> {
    let wrong = |what: String| {
        eprintln!("swath-sim: {call}: {what}");
        Err(Code::ILLEGAL_ADDRESS)
    };
    let mut ranges: Vec<Range<usize>> = Vec::with_capacity(planes.len());
    for (index, plane) in planes.iter().enumerate() {
        let (at, bytes) = (plane.at, plane.pitch * plane.rows);
        let Ok(range) = sim.memory.at_work(device, at as u64, bytes) else {
            return wrong(format!("the {bytes} bytes at {at:#x} of plane {index} are not in live device memory"));
        };
        if at % plane.sample != 0 || plane.pitch % plane.sample != 0 {
            return wrong(format!("samples of {} bytes of plane {index} are not aligned", plane.sample));
        }
        if let Some(other) = ranges.iter().position(|other| range.start < other.end && other.start < range.end) {
            return wrong(format!("planes {other} and {index} overlap"));
        }
        ranges.push(range);
    }
    Ok(ranges)
}

/// Writes a picture to the device: the samples of each plane, without the padding of the pitch.
pub(crate) fn write(sim: &Sim, device: i32, call: &str, planes: &[Plane], contents: &[Vec<u8>]) -> Done {
    let ranges = place(sim, device, call, planes)?;
    for ((plane, range), content) in planes.iter().zip(ranges).zip(contents) {
        for (index, row) in content.chunks_exact(plane.row).take(plane.rows).enumerate() {
            // SAFETY: the row lies in the range, which is in live memory that only this thread uses, under the
            // lock.
            unsafe {
                ptr::copy_nonoverlapping(row.as_ptr(), (range.start + index * plane.pitch) as *mut u8, plane.row);
            }
        }
    }
    Ok(())
}

/// Reads a picture from the device in the form in which `write` writes it.
fn read(sim: &Sim, device: i32, call: &str, planes: &[Plane]) -> Done<Vec<Vec<u8>>> {
    let ranges = place(sim, device, call, planes)?;
    let rows = |(plane, range): (&Plane, Range<usize>)| {
        let row = |index| {
            // SAFETY: as in `write`.
            unsafe { std::slice::from_raw_parts((range.start + index * plane.pitch) as *const u8, plane.row) }
        };
        (0..plane.rows).flat_map(row).copied().collect()
    };
    Ok(planes.iter().zip(ranges).map(rows).collect())
}

/// Splits interleaved samples into planes.
pub(crate) fn split(interleaved: &[u8], planes: usize, sample: usize) -> Vec<Vec<u8>> {
    let plane = |n| interleaved.chunks_exact(sample).skip(n).step_by(planes).flatten().copied().collect();
    (0..planes).map(plane).collect()
}

/// Interleaves the samples of planes of the same size.
pub(crate) fn join(planes: &[Vec<u8>], sample: usize) -> Vec<u8> {
    let count = planes.first().map_or(0, |plane| plane.len() / sample);
    (0..count)
        .flat_map(|k| planes.iter().flat_map(move |plane| &plane[k * sample..(k + 1) * sample]))
        .copied()
        .collect()
}

/// The result of an encoder, which the caller retrieves later.
#[derive(Debug, Clone, Default)]
pub(crate) struct Encoded {
    in_use: InUse,
    stream: Arc<Mutex<Option<Vec<u8>>>>,
}

impl Encoded {
    /// Encodes the content of the planes when the stream reaches this work.
    pub(crate) fn later(
        &self,
        sim: &mut Sim,
        device: i32,
        queue: *const c_void,
        call: &'static str,
        planes: Vec<Plane>,
        encode: impl FnOnce(Vec<Vec<u8>>) -> swath_codec::Result<Vec<u8>> + Send + 'static,
    ) -> Outcome {
        if self.in_use.now() {
            return Err(misuse(call, "the state is used again before the stream of its last picture was synchronised"));
        }
        let held = self.clone();
        let work = move |sim: &mut Sim, device| {
            // This moves the whole value: a closure captures only the fields that it uses, and the other field
            // marks the state as pending.
            let held = held;
            let picture = read(sim, device, call, &planes)?;
            let encoded = encode(picture).map_err(|error| {
                eprintln!("swath-sim: {call}: {error}");
                Code::LAUNCH_FAILED
            })?;
            *locked(&held.stream) = Some(encoded);
            Ok(())
        };
        *locked(&self.stream) = None;
        Ok(sim.later(device, queue as usize, Box::new(work))?)
    }

    /// Returns the length of the stream, or copies the stream as a download does.
    ///
    /// # Safety
    /// `length` is null or valid for reads and writes. `to` is null or has as much space as `length` states,
    /// and lives until the queue is synchronised if it is pinned.
    pub(crate) unsafe fn retrieve(
        &self,
        sim: &mut Sim,
        device: i32,
        queue: *const c_void,
        call: &'static str,
        to: *mut u8,
        length: *mut usize,
    ) -> Outcome {
        record(call);
        // Both answers need the length.
        if self.in_use.now() {
            sim.drain(device, queue as usize)?;
        }
        if self.in_use.now() {
            return Err(misuse(call, "the picture is being encoded in another stream"));
        }
        let Some(bytes) = locked(&self.stream).clone() else {
            return Err(misuse(call, "no picture was encoded"));
        };
        // SAFETY: guaranteed by the caller.
        let room = unsafe { length.as_mut() }.ok_or(Status::INVALID_PARAMETER)?;
        if !to.is_null() && *room < bytes.len() {
            return Err(misuse(call, &format!("the buffer has {room} bytes; {} are needed", bytes.len())));
        }
        *room = bytes.len();
        if to.is_null() {
            return Ok(sim.drain(device, queue as usize)?);
        }
        let (to, count) = (to as usize, bytes.len());
        let held = self.in_use.clone();
        let work = move |_: &mut Sim, _| {
            let _held = held;
            // SAFETY: the caller has that much space there, and does not access it until the stream is
            // synchronised if it is pinned. Other memory is written before the call returns.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len()) };
            Ok(())
        };
        sim.later(device, queue as usize, Box::new(work))?;
        if sim.pinned.contains(to, count) { Ok(()) } else { Ok(sim.drain(device, queue as usize)?) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_that_are_split_join_again() {
        let interleaved: Vec<u8> = (0..24).collect();
        for (planes, sample) in [(1, 1), (3, 1), (3, 2), (4, 2)] {
            let split = split(&interleaved, planes, sample);
            assert_eq!(split.len(), planes);
            assert_eq!(join(&split, sample), interleaved);
        }
        assert_eq!(split(&interleaved, 3, 2)[1][..4], [2, 3, 8, 9]);
    }

    #[test]
    fn object_is_in_use_until_the_last_work_with_it_is_dropped() {
        let state = InUse::default();
        assert!(!state.now());
        let (first, second) = (state.clone(), state.clone());
        drop(first);
        assert!(state.now());
        drop(second);
        assert!(!state.now());
    }
}
