//! Parses and decodes streams.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex};

use swath_codec::jpeg2000::{Colour, decode};

use super::{Bitstream, Image, LIBRARIES, Parsed, Pixel, STREAMS, interleaved};
use crate::code::Code;
use crate::driver::give;
use crate::event::record;
use crate::nvjpeg2k::header::Header;
use crate::picture::{
    Handles, InUse, Outcome, Room, Status, answer, fail_point, here, locked, misuse, split, unsupported, write,
};
use crate::sim::{Sim, total_memory};

static STATES: Handles<State> = Handles::new();
/// Whether samples are interleaved in the output.
static PARAMS: Handles<Mutex<bool>> = Handles::new();

/// A decode state.
#[derive(Debug)]
struct State {
    room: Room,
    in_use: InUse,
}

/// `nvjpeg2kImageInfo_t`.
#[repr(C)]
struct ImageInfo {
    image_width: u32,
    image_height: u32,
    tile_width: u32,
    tile_height: u32,
    num_tiles_x: u32,
    num_tiles_y: u32,
    num_components: u32,
}

/// `nvjpeg2kImageComponentInfo_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct ComponentInfo {
    pub(super) component_width: u32,
    pub(super) component_height: u32,
    pub(super) precision: u8,
    pub(super) sgn: u8,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpeg2kDecodeStateCreate(handle: *mut c_void, state: *mut *mut c_void) -> c_int {
    let make = || {
        LIBRARIES.get(handle)?;
        fail_point("j2k-state", Status::ALLOCATOR_FAILURE)?;
        record("nvjpeg2kDecodeStateCreate");
        Ok(State { room: Room::take()?, in_use: InUse::default() })
    };
    // SAFETY: by the manual.
    answer(unsafe { STATES.create(state, make) })
}

#[unsafe(no_mangle)]
extern "C" fn nvjpeg2kDecodeStateDestroy(state: *mut c_void) -> c_int {
    answer(STATES.remove(state).and_then(|state| state.room.give_back("nvjpeg2kDecodeStateDestroy")))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpeg2kStreamCreate(stream: *mut *mut c_void) -> c_int {
    // SAFETY: by the manual.
    answer(unsafe { STREAMS.create(stream, || Ok(Bitstream::default())) })
}

#[unsafe(no_mangle)]
extern "C" fn nvjpeg2kStreamDestroy(stream: *mut c_void) -> c_int {
    answer(STREAMS.remove(stream).and_then(|stream| unused(&stream, "nvjpeg2kStreamDestroy")))
}

fn unused(stream: &Bitstream, call: &str) -> Outcome {
    if !stream.in_use.now() {
        return Ok(());
    }
    Err(misuse(call, "the bitstream is used before the stream that decodes it was synchronised"))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpeg2kStreamParse(
    handle: *mut c_void,
    data: *const u8,
    length: usize,
    _save_metadata: c_int,
    _save_stream: c_int,
    stream: *mut c_void,
) -> c_int {
    answer(LIBRARIES.get(handle).and_then(|_| {
        let stream = STREAMS.get(stream)?;
        if data.is_null() {
            return Err(Status::INVALID_PARAMETER);
        }
        unused(&stream, "nvjpeg2kStreamParse")?;
        record("nvjpeg2kStreamParse");
        let mut parsed = locked(&stream.parsed);
        *parsed = None;
        fail_point("j2k-parse", Status::BAD_JPEG)?;
        // SAFETY: by the manual that many bytes can be read there.
        let bytes = unsafe { std::slice::from_raw_parts(data, length) };
        *parsed = Some(Arc::new(Parsed { header: Header::parse(bytes)?, at: data.addr(), bytes: bytes.to_vec() }));
        Ok(())
    }))
}

fn parsed(stream: *mut c_void) -> Outcome<Arc<Parsed>> {
    locked(&STREAMS.get(stream)?.parsed).clone().ok_or(Status::INVALID_PARAMETER)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpeg2kStreamGetImageInfo(stream: *mut c_void, info: *mut ImageInfo) -> c_int {
    answer(parsed(stream).and_then(|parsed| {
        let Header { size, tile, tiles, components } = &parsed.header;
        let found = ImageInfo {
            image_width: size.0,
            image_height: size.1,
            tile_width: tile.0,
            tile_height: tile.1,
            num_tiles_x: tiles.0,
            num_tiles_y: tiles.1,
            num_components: components.len() as u32,
        };
        // SAFETY: by the manual.
        Ok(unsafe { give(info, found) }?)
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpeg2kStreamGetImageComponentInfo(
    stream: *mut c_void,
    info: *mut ComponentInfo,
    component: u32,
) -> c_int {
    answer(parsed(stream).and_then(|parsed| {
        let found = parsed.header.components.get(component as usize).ok_or(Status::INVALID_PARAMETER)?;
        let found = ComponentInfo {
            component_width: found.width,
            component_height: found.height,
            precision: found.bits,
            sgn: found.signed.into(),
        };
        // SAFETY: by the manual.
        Ok(unsafe { give(info, found) }?)
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpeg2kDecodeParamsCreate(params: *mut *mut c_void) -> c_int {
    // SAFETY: by the manual.
    answer(unsafe { PARAMS.create(params, || Ok(Mutex::default())) })
}

#[unsafe(no_mangle)]
extern "C" fn nvjpeg2kDecodeParamsDestroy(params: *mut c_void) -> c_int {
    answer(PARAMS.remove(params).map(|_| ()))
}

#[unsafe(no_mangle)]
extern "C" fn nvjpeg2kDecodeParamsSetOutputFormat(params: *mut c_void, format: c_int) -> c_int {
    answer(PARAMS.get(params).and_then(|params| {
        *locked(&params) = interleaved(format)?;
        Ok(())
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpeg2kDecode(
    handle: *mut c_void,
    state: *mut c_void,
    stream: *mut c_void,
    output: *const Image,
    queue: *const c_void,
) -> c_int {
    // SAFETY: by the manual.
    answer(unsafe { start("nvjpeg2kDecode", handle, state, stream, false, output, queue) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpeg2kDecodeImage(
    handle: *mut c_void,
    state: *mut c_void,
    stream: *mut c_void,
    params: *mut c_void,
    output: *const Image,
    queue: *const c_void,
) -> c_int {
    let interleaved = if params.is_null() { Ok(false) } else { PARAMS.get(params).map(|params| *locked(&params)) };
    // SAFETY: by the manual.
    answer(interleaved.and_then(|i| unsafe { start("nvjpeg2kDecodeImage", handle, state, stream, i, output, queue) }))
}

/// Decodes a picture: on the host immediately, and into device memory when the stream reaches this work.
///
/// # Safety
/// The output is null or a picture whose arrays are null or have an element for each plane.
unsafe fn start(
    call: &'static str,
    handle: *mut c_void,
    state: *mut c_void,
    stream: *mut c_void,
    interleaved: bool,
    output: *const Image,
    queue: *const c_void,
) -> Outcome {
    LIBRARIES.get(handle)?;
    let (state, bitstream) = (STATES.get(state)?, STREAMS.get(stream)?);
    let parsed = parsed(stream)?;
    // SAFETY: guaranteed by the caller.
    let output = unsafe { output.as_ref() }.ok_or(Status::INVALID_PARAMETER)?;
    let pixel = Pixel::of(output.pixel_type)?;
    let header = &parsed.header;
    if output.num_components as usize != header.components.len() {
        let what = format!("{} components for a stream of {}", output.num_components, header.components.len());
        return Err(misuse(call, &what));
    }
    header.components.iter().try_for_each(|c| pixel.must_hold(call, c.bits, c.signed))?;
    if header.components.iter().any(|c| (c.width, c.height) != header.size) {
        return Err(unsupported(call, "components of different sizes"));
    }
    let size = (header.size.0 as usize, header.size.1 as usize);
    // SAFETY: guaranteed by the caller.
    let planes = unsafe { output.planes(call, size, interleaved) }?;

    record(call);
    crate::timeline::picture(call, queue as usize);
    fail_point("j2k-decode", Status::EXECUTION_FAILED)?;
    let late = fail_point("j2k-late", Status::EXECUTION_FAILED).is_err();
    let shape = pixel.shape(size.0, size.1, header.components.len());
    let bytes = [shape.height, shape.samples, pixel.bytes()].iter().try_fold(shape.width, |all, n| all.checked_mul(*n));
    let bytes = bytes.filter(|&bytes| bytes as u64 <= total_memory()).ok_or(Status::ALLOCATOR_FAILURE)?;
    let mut picture = vec![0; bytes];
    decode(&parsed.bytes, shape, Colour::Stored, &mut picture)
        .inspect_err(|error| eprintln!("swath-sim: {call}: {error}"))?;
    let contents = if interleaved { vec![picture] } else { split(&picture, planes.len(), pixel.bytes()) };

    here(|sim, device| {
        state.room.must_be_on(device, call)?;
        if state.in_use.now() {
            return Err(misuse(call, "the state is used again before the stream of its last picture was synchronised"));
        }
        let held = (state.in_use.clone(), bitstream.in_use.clone());
        let work = move |sim: &mut Sim, device| {
            let _held = held;
            if !parsed.is_untouched(sim) {
                eprintln!("swath-sim: {call}: the codestream was overwritten before it was decoded");
                return Err(Code::ILLEGAL_ADDRESS);
            }
            if late {
                return Err(Code::LAUNCH_FAILED);
            }
            write(sim, device, call, &planes, &contents)
        };
        Ok(sim.later(device, queue as usize, Box::new(work))?)
    })
}
