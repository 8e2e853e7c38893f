//! The part of nvJPEG2000 0.11 that Swath uses, as `nvjpeg2k.h` declares it, implemented with `swath-codec`.
//!
//! The parser and the encoder's settings return the same results as the real library, which can be queried
//! without a GPU. The behaviour for pictures follows its manual.

mod decode;
mod encode;
mod header;

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex};

use swath_codec::{SampleFormat, Shape};

use crate::cudart;
use crate::nvjpeg2k::header::Header;
use crate::picture::{Handles, InUse, Outcome, Plane, Status, answer, misuse, property};
use crate::sim::Sim;

/// The version of the library.
const VERSION: [c_int; 3] = [0, 11, 0];

/// Library handles have no content.
static LIBRARIES: Handles<()> = Handles::new();
static STREAMS: Handles<Bitstream> = Handles::new();

/// A parsed picture. The next parsed picture replaces it.
#[derive(Debug, Default)]
struct Bitstream {
    parsed: Mutex<Option<Arc<Parsed>>>,
    in_use: InUse,
}

#[derive(Debug)]
struct Parsed {
    header: Header,
    /// The address of the stream, and a copy. If they differ at decoding, the caller has changed the memory too
    /// early.
    at: usize,
    bytes: Vec<u8>,
}

impl Parsed {
    /// Whether the stream is unchanged. This can be checked only for pinned memory, because the simulator knows
    /// that it is alive.
    fn is_untouched(&self, sim: &Sim) -> bool {
        // SAFETY: the simulator owns pinned memory, and it is alive while it contains the range.
        let now = || unsafe { std::slice::from_raw_parts(self.at as *const u8, self.bytes.len()) };
        !sim.pinned.contains(self.at, self.bytes.len()) || now() == self.bytes
    }
}

/// The types of samples in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pixel {
    U8,
    U16,
    I16,
}

impl Pixel {
    fn of(number: c_int) -> Outcome<Pixel> {
        match number {
            0 => Ok(Pixel::U8),
            1 => Ok(Pixel::U16),
            2 => Ok(Pixel::I16),
            _ => Err(Status::INVALID_PARAMETER),
        }
    }

    fn bytes(self) -> usize {
        if self == Pixel::U8 { 1 } else { 2 }
    }

    /// Refuses samples that the type cannot represent, and a sign on only one side: the manual does not define
    /// either.
    fn must_hold(self, call: &str, bits: u8, signed: bool) -> Outcome {
        if (self == Pixel::I16) == signed && usize::from(bits) <= 8 * self.bytes() {
            return Ok(());
        }
        let sign = if signed { "signed" } else { "unsigned" };
        Err(misuse(call, &format!("{self:?} for {sign} samples of {bits} bits")))
    }

    fn shape(self, width: usize, height: usize, samples: usize) -> Shape {
        let format = if self == Pixel::I16 { SampleFormat::Int } else { SampleFormat::Uint };
        Shape { width, height, samples, bits: 8 * self.bytes(), format }
    }
}

/// The location of a picture in device memory: `nvjpeg2kImage_t`.
#[repr(C)]
struct Image {
    pixel_data: *const *const c_void,
    pitch_in_bytes: *const usize,
    pixel_type: c_int,
    num_components: u32,
}

impl Image {
    /// Returns the planes of a picture: one for each component, or one for all interleaved components.
    ///
    /// # Safety
    /// The arrays are null or have an element for each plane.
    unsafe fn planes(&self, call: &str, (width, height): (usize, usize), interleaved: bool) -> Outcome<Vec<Plane>> {
        if self.pixel_data.is_null() || self.pitch_in_bytes.is_null() {
            return Err(Status::INVALID_PARAMETER);
        }
        let sample = Pixel::of(self.pixel_type)?.bytes();
        let components = self.num_components as usize;
        let (count, samples) = if interleaved { (1, components) } else { (components, 1) };
        let row = width.checked_mul(samples * sample).ok_or(Status::INVALID_PARAMETER)?;
        let plane = |index| {
            // SAFETY: guaranteed by the caller.
            let (at, pitch) = unsafe { (*self.pixel_data.add(index), *self.pitch_in_bytes.add(index)) };
            Plane::new(call, at, pitch, row, height, sample)
        };
        (0..count).map(plane).collect()
    }
}

/// Whether samples are interleaved, for a `nvjpeg2kImageFormat_t`.
fn interleaved(format: c_int) -> Outcome<bool> {
    match format {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Status::INVALID_PARAMETER),
    }
}

// Callers of the C interface pass every function of this library the pointers that the manual requires: null,
// or valid for the read or write. Each comment `SAFETY: by the manual` refers to this.

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpeg2kGetProperty(which: c_int, value: *mut c_int) -> c_int {
    // SAFETY: by the manual.
    answer(unsafe { property(which, value, VERSION) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpeg2kGetCudartProperty(which: c_int, value: *mut c_int) -> c_int {
    // SAFETY: by the manual.
    answer(unsafe { property(which, value, cudart::parts()) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpeg2kCreateSimple(handle: *mut *mut c_void) -> c_int {
    // SAFETY: by the manual.
    answer(unsafe { LIBRARIES.create(handle, || Ok(())) })
}

#[unsafe(no_mangle)]
extern "C" fn nvjpeg2kDestroy(handle: *mut c_void) -> c_int {
    answer(LIBRARIES.remove(handle).map(|_| ()))
}
