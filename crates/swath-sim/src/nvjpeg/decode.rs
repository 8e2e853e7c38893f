//! Decodes one picture or a batch of them.

use std::ffi::{c_int, c_void};
use std::sync::Mutex;

use swath_codec::jpeg::{Params, decode};
use swath_codec::{SampleFormat, Shape};

use super::header::Header;
use super::{Image, LIBRARIES};
use crate::event::record;
use crate::picture::{
    Handles, InUse, Outcome, Plane, Room, Status, answer, fail_point, here, join, locked, misuse, split, unsupported,
    write,
};
use crate::sim::{Sim, total_memory};

static STATES: Handles<State> = Handles::new();

/// A decode state.
#[derive(Debug)]
struct State {
    room: Room,
    in_use: InUse,
    /// The batch that the state was prepared for: the number of pictures and their output format.
    batch: Mutex<Option<(usize, Output)>>,
}

/// The output format of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    /// A plane for each component, unchanged. The library has two names for that.
    Unchanged,
    Luma,
    Rgb,
    RgbInterleaved,
}

impl Output {
    fn of(call: &str, format: c_int) -> Outcome<Output> {
        match format {
            0 | 1 => Ok(Output::Unchanged),
            2 => Ok(Output::Luma),
            3 => Ok(Output::Rgb),
            5 => Ok(Output::RgbInterleaved),
            4 | 6..=9 => Err(unsupported(call, "output format of this kind")),
            _ => Err(Status::INVALID_PARAMETER),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpegJpegStateCreate(handle: *mut c_void, state: *mut *mut c_void) -> c_int {
    let make = || {
        LIBRARIES.get(handle)?;
        fail_point("jpeg-state", Status::ALLOCATOR_FAILURE)?;
        record("nvjpegJpegStateCreate");
        Ok(State { room: Room::take()?, in_use: InUse::default(), batch: Mutex::default() })
    };
    // SAFETY: by the manual.
    answer(unsafe { STATES.create(state, make) })
}

#[unsafe(no_mangle)]
extern "C" fn nvjpegJpegStateDestroy(state: *mut c_void) -> c_int {
    answer(STATES.remove(state).and_then(|state| state.room.give_back("nvjpegJpegStateDestroy")))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpegGetImageInfo(
    handle: *mut c_void,
    data: *const u8,
    length: usize,
    components: *mut c_int,
    subsampling: *mut c_int,
    widths: *mut c_int,
    heights: *mut c_int,
) -> c_int {
    answer(LIBRARIES.get(handle).and_then(|_| {
        if [components, subsampling, widths, heights].iter().any(|pointer| pointer.is_null()) {
            return Err(Status::INVALID_PARAMETER);
        }
        fail_point("jpeg-info", Status::BAD_JPEG)?;
        // SAFETY: by the manual.
        let header = Header::parse(unsafe { stream(data, length) }?)?;
        // SAFETY: by the manual there is space for the sizes of four components.
        unsafe {
            *components = header.components() as c_int;
            *subsampling = header.subsampling();
            for index in 0..4 {
                let (width, height) = header.size(index);
                *widths.add(index) = width as c_int;
                *heights.add(index) = height as c_int;
            }
        }
        Ok(())
    }))
}

/// # Safety
/// The pointer is null or valid for reads of that many bytes.
unsafe fn stream<'a>(data: *const u8, length: usize) -> Outcome<&'a [u8]> {
    if data.is_null() {
        return Err(Status::INVALID_PARAMETER);
    }
    // SAFETY: guaranteed by the caller.
    Ok(unsafe { std::slice::from_raw_parts(data, length) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpegDecode(
    handle: *mut c_void,
    state: *mut c_void,
    data: *const u8,
    length: usize,
    format: c_int,
    destination: *const Image,
    queue: *const c_void,
) -> c_int {
    const CALL: &str = "nvjpegDecode";
    answer(LIBRARIES.get(handle).and_then(|_| {
        let state = STATES.get(state)?;
        // SAFETY: by the manual, for both.
        let (data, destination) = unsafe { (stream(data, length)?, destination.as_ref()) };
        let (output, destination) = (Output::of(CALL, format)?, destination.ok_or(Status::INVALID_PARAMETER)?);
        record(CALL);
        start(CALL, &state, vec![picture(CALL, data, output, destination)?], queue)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn nvjpegDecodeBatchedInitialize(
    handle: *mut c_void,
    state: *mut c_void,
    batch: c_int,
    threads: c_int,
    format: c_int,
) -> c_int {
    const CALL: &str = "nvjpegDecodeBatchedInitialize";
    answer(LIBRARIES.get(handle).and_then(|_| {
        let state = STATES.get(state)?;
        let batch = usize::try_from(batch).ok().filter(|batch| *batch > 0 && threads > 0);
        let batch = batch.ok_or_else(|| misuse(CALL, "a batch or a number of threads of 0"))?;
        if state.in_use.now() {
            return Err(misuse(
                CALL,
                "the state is prepared anew before the stream of its last batch was synchronised",
            ));
        }
        *locked(&state.batch) = Some((batch, Output::of(CALL, format)?));
        Ok(())
    }))
}

/// Decodes a batch. If one picture cannot be decoded, no picture of the batch is, and the state must be
/// prepared again.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpegDecodeBatched(
    handle: *mut c_void,
    state: *mut c_void,
    data: *const *const u8,
    lengths: *const usize,
    destinations: *const Image,
    queue: *const c_void,
) -> c_int {
    const CALL: &str = "nvjpegDecodeBatched";
    answer(LIBRARIES.get(handle).and_then(|_| {
        let state = STATES.get(state)?;
        let Some((batch, output)) = *locked(&state.batch) else {
            return Err(misuse(CALL, "nvjpegDecodeBatchedInitialize was not called, or a picture failed since"));
        };
        if data.is_null() || lengths.is_null() || destinations.is_null() {
            return Err(Status::INVALID_PARAMETER);
        }
        record(format!("{CALL} {batch}"));
        let decoded = (0..batch).map(|index| {
            // SAFETY: by the manual each array has as many elements as the state was prepared for.
            let (data, destination) =
                unsafe { (stream(*data.add(index), *lengths.add(index))?, &*destinations.add(index)) };
            picture(CALL, data, output, destination)
        });
        let done = decoded.collect::<Outcome<Vec<_>>>().and_then(|pictures| start(CALL, &state, pictures, queue));
        if done.is_err() {
            *locked(&state.batch) = None;
        }
        done
    }))
}

/// The planes of a picture, and their content.
type Decoded = (Vec<Plane>, Vec<Vec<u8>>);

/// Decodes a picture on the host.
fn picture(call: &str, data: &[u8], output: Output, destination: &Image) -> Outcome<Decoded> {
    fail_point("jpeg-decode", Status::EXECUTION_FAILED)?;
    let header = Header::parse(data)?;
    let (width, height, components) = (header.width, header.height, header.components());
    let colour = matches!(output, Output::Rgb | Output::RgbInterleaved);
    match (output, components) {
        (Output::Unchanged, 1 | 3 | 4) if header.is_even() => {}
        (Output::Unchanged, _) => return Err(unsupported(call, "components of different sizes")),
        (Output::Luma, 3) if !header.is_ycc() => return Err(unsupported(call, "luma of RGB")),
        (_, 1 | 3) => {}
        _ => return Err(unsupported(call, "conversion of this number of components")),
    }
    let shape = Shape { width, height, samples: components, bits: 8, format: SampleFormat::Uint };
    let bytes = width * height * components;
    if bytes as u64 > total_memory() {
        return Err(Status::ALLOCATOR_FAILURE);
    }
    let mut samples = vec![0; bytes];
    // The PhotometricInterpretation of YCbCr, which is converted, or of RGB, which is not.
    let photometric = if colour && header.is_ycc() { 6 } else { 2 };
    decode(&Params { tables: None, photometric }, data, shape, &mut samples)
        .inspect_err(|error| eprintln!("swath-sim: {call}: {error}"))?;

    let mut planes = split(&samples, components, 1);
    match output {
        Output::Luma => planes.truncate(1),
        // Grey has the same value in each colour.
        Output::Rgb | Output::RgbInterleaved if components == 1 => planes = vec![samples; 3],
        _ => {}
    }
    if output == Output::RgbInterleaved {
        return Ok((destination.planes(call, 1, 3 * width, height)?, vec![join(&planes, 1)]));
    }
    Ok((destination.planes(call, planes.len(), width, height)?, planes))
}

/// Writes decoded pictures to device memory when the stream reaches this work.
fn start(call: &'static str, state: &State, pictures: Vec<Decoded>, queue: *const c_void) -> Outcome {
    here(|sim, device| {
        state.room.must_be_on(device, call)?;
        if state.in_use.now() {
            return Err(misuse(call, "the state is used again before the stream of its last picture was synchronised"));
        }
        let held = state.in_use.clone();
        let work = move |sim: &mut Sim, device| {
            let _held = held;
            // All pictures of a batch are written at once: pictures must not overlap either.
            let (planes, contents): (Vec<_>, Vec<_>) = pictures.into_iter().unzip();
            write(sim, device, call, &planes.concat(), &contents.concat())
        };
        Ok(sim.later(device, queue as usize, Box::new(work))?)
    })
}
