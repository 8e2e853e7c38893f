//! What nvJPEG2000 and nvJPEG have in common: what they answer, handles, pictures in device memory, and streams that are fetched.

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

/// A `nvjpeg2kStatus_t` or `nvjpegStatus_t` that is not success: the two have the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status(c_int);

impl Status {
    pub(crate) const INVALID_PARAMETER: Status = Status(2);
    pub(crate) const BAD_JPEG: Status = Status(3);
    pub(crate) const NOT_SUPPORTED: Status = Status(4);
    pub(crate) const ALLOCATOR_FAILURE: Status = Status(5);
    pub(crate) const EXECUTION_FAILED: Status = Status(6);
}

/// What a call comes to.
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

/// A mistake of the caller's that deserves a sentence.
pub(crate) fn misuse(call: &str, what: &str) -> Status {
    eprintln!("swath-sim: {call}: {what}");
    Status::INVALID_PARAMETER
}

/// Something that NVIDIA's library does and this one does not.
pub(crate) fn unsupported(call: &str, what: &str) -> Status {
    eprintln!("swath-sim: {call}: the simulator has no {what}");
    Status::NOT_SUPPORTED
}

/// Fails with this status if `SWATH_SIM_FAIL` selects the call.
pub(crate) fn fail_point(what: &'static str, status: Status) -> Outcome {
    fail::point(what, Code::UNKNOWN).map_err(|_| status)
}

/// Do something in the current context.
pub(crate) fn here<T>(act: impl FnOnce(&mut Sim, i32) -> Outcome<T>) -> Outcome<T> {
    in_context(|sim, device| Ok(act(sim, device)))?
}

/// A property of a library, such as its version: three numbers.
///
/// # Safety
/// The pointer is null or good for a write.
pub(crate) unsafe fn property(which: c_int, value: *mut c_int, numbers: [c_int; 3]) -> Outcome {
    let number = usize::try_from(which).ok().and_then(|which| numbers.get(which).copied());
    // SAFETY: the caller's promise.
    Ok(unsafe { give(value, number.ok_or(Status::INVALID_PARAMETER)?) }?)
}

/// The lock, also after a panic of another thread: what it guards is whole at every moment.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The objects of one kind behind the handles that callers have.
pub(crate) struct Handles<T>(Mutex<BTreeMap<usize, Arc<T>>>);

/// No two handles are the same, of whatever kind: one that is taken for another's is unknown.
static LAST_HANDLE: AtomicUsize = AtomicUsize::new(0x4A50_0000);

impl<T> Handles<T> {
    pub(crate) const fn new() -> Handles<T> {
        Handles(Mutex::new(BTreeMap::new()))
    }

    /// Make an object and hand out its handle.
    ///
    /// # Safety
    /// The pointer is null or good for a write.
    pub(crate) unsafe fn create(&self, to: *mut *mut c_void, make: impl FnOnce() -> Outcome<T>) -> Outcome {
        if to.is_null() {
            return Err(Status::INVALID_PARAMETER);
        }
        let object = Arc::new(make()?);
        let handle = LAST_HANDLE.fetch_add(16, Ordering::Relaxed);
        locked(&self.0).insert(handle, object);
        // SAFETY: the caller's promise.
        Ok(unsafe { give(to, handle as *mut c_void) }?)
    }

    pub(crate) fn get(&self, handle: *const c_void) -> Outcome<Arc<T>> {
        locked(&self.0).get(&(handle as usize)).cloned().ok_or(Status::INVALID_PARAMETER)
    }

    pub(crate) fn remove(&self, handle: *const c_void) -> Outcome<Arc<T>> {
        locked(&self.0).remove(&(handle as usize)).ok_or(Status::INVALID_PARAMETER)
    }
}

/// Whether work that waits in a stream uses something: each work holds a copy until it is done or dropped.
#[derive(Debug, Clone, Default)]
pub(crate) struct InUse(Arc<()>);

impl InUse {
    pub(crate) fn now(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

/// Device memory that a state holds: what real ones hold depends on the picture; that they hold some is what matters.
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
            Ok(Room { device, at: sim.memory.allocate(&sim.opencl, device, ROOM_BYTES)? })
        })
    }

    /// A state only works on the device that has its memory.
    pub(crate) fn must_be_on(&self, device: i32, call: &str) -> Outcome {
        if self.device != device { Err(misuse(call, "the state belongs to another device")) } else { Ok(()) }
    }

    /// As freeing memory does, this waits for all that the device has to do.
    pub(crate) fn give_back(&self, call: &str) -> Outcome {
        here(|sim, device| {
            self.must_be_on(device, call)?;
            sim.drain_device(device)?;
            Ok(sim.memory.free(&sim.opencl, device, self.at)?)
        })
    }
}

/// Rows of samples in device memory: one component, or several that are interleaved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plane {
    at: usize,
    pitch: usize,
    /// Bytes of a row that are samples, and rows.
    row: usize,
    rows: usize,
    /// Bytes of a sample, which are read and written together.
    sample: usize,
}

impl Plane {
    /// A plane as far as it can be checked before the stream gets to it.
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

/// The addresses of the planes, if each lies in live memory of the device and no two overlap.
fn place(sim: &Sim, device: i32, call: &str, planes: &[Plane]) -> Done<Vec<Range<usize>>> {
    let wrong = |what: String| {
        eprintln!("swath-sim: {call}: {what}");
        Err(Code::ILLEGAL_ADDRESS)
    };
    let mut ranges: Vec<Range<usize>> = Vec::with_capacity(planes.len());
    for (index, plane) in planes.iter().enumerate() {
        let (at, bytes) = (plane.at, plane.pitch * plane.rows);
        let Some(range) = sim.memory.range(device, at as u64, bytes) else {
            return wrong(format!("the {bytes} bytes at {at:#x} of plane {index} are no live device memory"));
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

/// Write a picture to the device: the samples of each plane, without what the pitch adds.
pub(crate) fn write(sim: &Sim, device: i32, call: &str, planes: &[Plane], contents: &[Vec<u8>]) -> Done {
    let ranges = place(sim, device, call, planes)?;
    for ((plane, range), content) in planes.iter().zip(ranges).zip(contents) {
        for (index, row) in content.chunks_exact(plane.row).take(plane.rows).enumerate() {
            // SAFETY: the row lies in the range, which was found in live memory that only this thread uses, under the lock.
            unsafe {
                ptr::copy_nonoverlapping(row.as_ptr(), (range.start + index * plane.pitch) as *mut u8, plane.row);
            }
        }
    }
    Ok(())
}

/// Read a picture from the device, as `write` writes it.
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

/// The planes of interleaved samples.
pub(crate) fn split(interleaved: &[u8], planes: usize, sample: usize) -> Vec<Vec<u8>> {
    let plane = |n| interleaved.chunks_exact(sample).skip(n).step_by(planes).flatten().copied().collect();
    (0..planes).map(plane).collect()
}

/// Interleaved samples from planes of the same size.
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
    /// Encode what the planes hold when the stream gets there.
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
            // Moves the whole value: a closure captures only the fields that it uses, and the other field marks the state as waiting.
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

    /// Tell how long the stream is, or copy it as a download does.
    ///
    /// # Safety
    /// `length` is null or good for reads and writes, `to` is null or has as much room as it says, and stays until the queue is
    /// synchronised if it is pinned.
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
        // The length must be known, for either answer.
        if self.in_use.now() {
            sim.drain(device, queue as usize)?;
        }
        if self.in_use.now() {
            return Err(misuse(call, "the picture is being encoded in another stream"));
        }
        let Some(bytes) = locked(&self.stream).clone() else {
            return Err(misuse(call, "no picture was encoded"));
        };
        // SAFETY: the caller's promise.
        let room = unsafe { length.as_mut() }.ok_or(Status::INVALID_PARAMETER)?;
        if !to.is_null() && *room < bytes.len() {
            return Err(misuse(call, &format!("room for {room} of {} bytes", bytes.len())));
        }
        *room = bytes.len();
        if to.is_null() {
            return Ok(sim.drain(device, queue as usize)?);
        }
        let (to, count) = (to as usize, bytes.len());
        let held = self.in_use.clone();
        let work = move |_: &mut Sim, _| {
            let _held = held;
            // SAFETY: the caller has that much room there, and leaves it alone until the stream is synchronised if it is pinned.
            // Other memory is written before the call returns.
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
    fn something_is_in_use_until_the_last_work_with_it_is_gone() {
        let state = InUse::default();
        assert!(!state.now());
        let (first, second) = (state.clone(), state.clone());
        drop(first);
        assert!(state.now());
        drop(second);
        assert!(!state.now());
    }
}
