//! Encoding.

use std::ffi::{c_int, c_void};
use std::sync::Mutex;

use swath_codec::jpeg::{EncodeColour, EncodeParams, EncodeScratch, encode, encode_tables};
use swath_codec::{SampleFormat, Shape};

use super::header::{CSS_420, CSS_422, CSS_444, CSS_GRAY};
use super::{Image, LIBRARIES};
use crate::driver::give;
use crate::event::record;
use crate::picture::{
    Encoded, Handles, Outcome, Plane, Room, Status, answer, fail_point, here, join, locked, misuse, split, unsupported,
};

static STATES: Handles<State> = Handles::new();
static PARAMS: Handles<Mutex<Settings>> = Handles::new();

/// An encode state.
#[derive(Debug)]
struct State {
    room: Room,
    encoded: Encoded,
}

/// The settings of the encoder.
#[derive(Debug, Clone, Copy)]
struct Settings {
    quality: u8,
    /// The sampling of the stream: a `nvjpegChromaSubsampling_t`.
    sampling: c_int,
    /// Whether each picture has its own Huffman tables.
    optimized: bool,
}

const DEFAULT: Settings = Settings { quality: 70, sampling: CSS_444, optimized: false };

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpegEncoderStateCreate(
    handle: *mut c_void,
    state: *mut *mut c_void,
    _queue: *const c_void,
) -> c_int {
    let make = || {
        LIBRARIES.get(handle)?;
        fail_point("jpeg-state", Status::ALLOCATOR_FAILURE)?;
        record("nvjpegEncoderStateCreate");
        Ok(State { room: Room::take()?, encoded: Encoded::default() })
    };
    // SAFETY: by the manual.
    answer(unsafe { STATES.create(state, make) })
}

#[unsafe(no_mangle)]
extern "C" fn nvjpegEncoderStateDestroy(state: *mut c_void) -> c_int {
    answer(STATES.remove(state).and_then(|state| state.room.give_back("nvjpegEncoderStateDestroy")))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpegEncoderParamsCreate(
    handle: *mut c_void,
    params: *mut *mut c_void,
    _queue: *const c_void,
) -> c_int {
    // SAFETY: by the manual.
    answer(unsafe { PARAMS.create(params, || LIBRARIES.get(handle).map(|_| Mutex::new(DEFAULT))) })
}

#[unsafe(no_mangle)]
extern "C" fn nvjpegEncoderParamsDestroy(params: *mut c_void) -> c_int {
    answer(PARAMS.remove(params).map(|_| ()))
}

#[unsafe(no_mangle)]
extern "C" fn nvjpegEncoderParamsSetQuality(params: *mut c_void, quality: c_int, _queue: *const c_void) -> c_int {
    answer(PARAMS.get(params).and_then(|params| {
        let known = u8::try_from(quality).ok().filter(|quality| (1..=100).contains(quality));
        locked(&params).quality = known.ok_or(Status::INVALID_PARAMETER)?;
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn nvjpegEncoderParamsSetEncoding(params: *mut c_void, encoding: c_int, _queue: *const c_void) -> c_int {
    answer(PARAMS.get(params).and_then(|_| match encoding {
        0xc0 => Ok(()),
        0xc2 => Err(unsupported("nvjpegEncoderParamsSetEncoding", "progressive encoder")),
        _ => Err(Status::INVALID_PARAMETER),
    }))
}

#[unsafe(no_mangle)]
extern "C" fn nvjpegEncoderParamsSetOptimizedHuffman(
    params: *mut c_void,
    optimized: c_int,
    _queue: *const c_void,
) -> c_int {
    answer(PARAMS.get(params).map(|params| locked(&params).optimized = optimized != 0))
}

#[unsafe(no_mangle)]
extern "C" fn nvjpegEncoderParamsSetSamplingFactors(
    params: *mut c_void,
    sampling: c_int,
    _queue: *const c_void,
) -> c_int {
    answer(PARAMS.get(params).and_then(|params| match sampling {
        CSS_444 | CSS_422 | CSS_420 | CSS_GRAY => {
            locked(&params).sampling = sampling;
            Ok(())
        }
        3..=5 | 7 => Err(unsupported("nvjpegEncoderParamsSetSamplingFactors", "sampling of this kind")),
        _ => Err(Status::INVALID_PARAMETER),
    }))
}

/// Returns an upper bound of the stream size.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpegEncodeGetBufferSize(
    handle: *mut c_void,
    params: *mut c_void,
    width: c_int,
    height: c_int,
    length: *mut usize,
) -> c_int {
    let bytes = || {
        LIBRARIES.get(handle)?;
        PARAMS.get(params)?;
        let (width, height) = size("nvjpegEncodeGetBufferSize", width, height)?;
        // Four bytes for each sample of whole units, and the headers.
        Ok(width.next_multiple_of(16) * height.next_multiple_of(16) * 3 * 4 + 4096)
    };
    // SAFETY: by the manual.
    answer(bytes().and_then(|bytes| Ok(unsafe { give(length, bytes) }?)))
}

fn size(call: &str, width: c_int, height: c_int) -> Outcome<(usize, usize)> {
    let side = |side: c_int| usize::try_from(side).ok().filter(|side| (1..=65500).contains(side));
    side(width).zip(side(height)).ok_or_else(|| misuse(call, &format!("a picture of {width} x {height}")))
}

/// Encodes components unchanged. The simulator can neither halve nor double chroma.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpegEncodeYUV(
    handle: *mut c_void,
    state: *mut c_void,
    params: *mut c_void,
    source: *const Image,
    sampling: c_int,
    width: c_int,
    height: c_int,
    queue: *const c_void,
) -> c_int {
    const CALL: &str = "nvjpegEncodeYUV";
    let planes = |settings: &Settings, source: &Image, (width, height)| {
        let count = match (sampling, settings.sampling) {
            (CSS_GRAY, CSS_GRAY) | (CSS_444, CSS_GRAY) => 1,
            (CSS_444, CSS_444) => 3,
            (-1..=7, _) => {
                return Err(unsupported(CALL, "subsampled planes, nor other sampling than that of the input"));
            }
            _ => return Err(Status::INVALID_PARAMETER),
        };
        Ok((source.planes(CALL, count, width, height)?, Input::Stored))
    };
    // SAFETY: by the manual.
    answer(unsafe { start(CALL, [handle, state, params], source, (width, height), queue, planes) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpegEncodeImage(
    handle: *mut c_void,
    state: *mut c_void,
    params: *mut c_void,
    source: *const Image,
    format: c_int,
    width: c_int,
    height: c_int,
    queue: *const c_void,
) -> c_int {
    const CALL: &str = "nvjpegEncodeImage";
    let planes = |_: &Settings, source: &Image, (width, height)| match format {
        3 | 4 => Ok((source.planes(CALL, 3, width, height)?, Input::Rgb { reversed: format == 4 })),
        5 | 6 => Ok((source.planes(CALL, 1, 3 * width, height)?, Input::Rgb { reversed: format == 6 })),
        1 | 8 => Err(unsupported(CALL, "input format of this kind")),
        _ => Err(Status::INVALID_PARAMETER),
    };
    // SAFETY: by the manual.
    answer(unsafe { start(CALL, [handle, state, params], source, (width, height), queue, planes) })
}

/// The input format of a picture.
#[derive(Debug, Clone, Copy)]
enum Input {
    /// The components of the stream, one plane each.
    Stored,
    /// Colours to convert, in planes or interleaved; if reversed, blue comes first.
    Rgb { reversed: bool },
}

/// Encodes a picture when the stream reaches this work.
///
/// # Safety
/// The source is null or a picture.
unsafe fn start(
    call: &'static str,
    [handle, state, params]: [*mut c_void; 3],
    source: *const Image,
    (width, height): (c_int, c_int),
    queue: *const c_void,
    planes: impl FnOnce(&Settings, &Image, (usize, usize)) -> Outcome<(Vec<Plane>, Input)>,
) -> Outcome {
    LIBRARIES.get(handle)?;
    let (state, settings) = (STATES.get(state)?, *locked(&*PARAMS.get(params)?));
    let (width, height) = size(call, width, height)?;
    // SAFETY: guaranteed by the caller.
    let source = unsafe { source.as_ref() }.ok_or(Status::INVALID_PARAMETER)?;
    let (planes, input) = planes(&settings, source, (width, height))?;
    record(call);
    fail_point("jpeg-encode", Status::EXECUTION_FAILED)?;
    let encode = move |picture| stream(settings, input, picture, width, height);
    here(|sim, device| {
        state.room.must_be_on(device, call)?;
        state.encoded.later(sim, device, queue, call, planes, encode)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpegEncodeRetrieveBitstream(
    handle: *mut c_void,
    state: *mut c_void,
    data: *mut u8,
    length: *mut usize,
    queue: *const c_void,
) -> c_int {
    const CALL: &str = "nvjpegEncodeRetrieveBitstream";
    answer(LIBRARIES.get(handle).and_then(|_| {
        let state = STATES.get(state)?;
        // SAFETY: by the manual.
        here(|sim, device| unsafe { state.encoded.retrieve(sim, device, queue, CALL, data, length) })
    }))
}

const JFIF: &[u8] = b"\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0";

/// Returns the complete stream of a picture.
fn stream(
    settings: Settings,
    input: Input,
    mut picture: Vec<Vec<u8>>,
    width: usize,
    height: usize,
) -> swath_codec::Result<Vec<u8>> {
    let subsampling = match settings.sampling {
        CSS_422 => (2, 1),
        CSS_420 => (2, 2),
        _ => (1, 1),
    };
    let colour = match input {
        Input::Stored => EncodeColour::Stored,
        Input::Rgb { reversed } => {
            if let [interleaved] = &picture[..] {
                picture = split(interleaved, 3, 1);
            }
            if reversed {
                picture.reverse();
            }
            if settings.sampling == CSS_GRAY {
                picture = vec![luma(&picture)];
                EncodeColour::Stored
            } else {
                EncodeColour::YCbCr { subsampling }
            }
        }
    };
    let params = EncodeParams { quality: settings.quality, colour };
    let shape = Shape { width, height, samples: picture.len(), bits: 8, format: SampleFormat::Uint };
    let tables = encode_tables(&params, shape.samples)?;
    let mut scan = Vec::new();
    encode(&params, &join(&picture, 1), shape, &mut scan, &mut EncodeScratch::default())?;
    Ok(assemble(&tables, scan, shape.samples, settings.optimized))
}

/// Returns the luma of red, green and blue, as JFIF defines it.
fn luma(planes: &[Vec<u8>]) -> Vec<u8> {
    let [red, green, blue] = planes else { return Vec::new() };
    let pixels = red.iter().zip(green).zip(blue).map(|((&r, &g), &b)| (u32::from(r), u32::from(g), u32::from(b)));
    pixels.map(|(r, g, b)| ((19_595 * r + 38_470 * g + 7_471 * b + 32_768) >> 16) as u8).collect()
}

/// Combines a stream of tables and an abbreviated stream, both from `swath-codec`, to a complete stream.
///
/// Components are numbered 1, 2, 3, as NVIDIA's library always does. If each picture has its own tables, these
/// are the usual tables under numbers that depend on the picture, so that code that uses the tables of one
/// picture for another fails.
fn assemble(tables: &[u8], mut scan: Vec<u8>, components: usize, optimized: bool) -> Vec<u8> {
    // SOI, then SOF, whose component parameters start 10 bytes after its marker, then SOS, whose parameters
    // start 5 bytes after its marker.
    let frame = 2 + 10;
    let start = frame + 3 * components + 5;
    let sum = scan.iter().fold(0_u8, |sum, byte| sum.rotate_left(1) ^ byte);
    let swapped = u8::from(optimized && sum.count_ones() % 2 == 1);
    for n in 0..components {
        scan[frame + 3 * n] = n as u8 + 1;
        scan[start + 2 * n] = n as u8 + 1;
        scan[start + 2 * n + 1] ^= 0x11 * swapped;
    }
    let (mut quantization, mut huffman) = (Vec::new(), Vec::new());
    let mut rest = &tables[2..tables.len() - 2];
    while let [0xff, marker, high, low, ..] = *rest {
        let (segment, behind) = rest.split_at(2 + usize::from(u16::from_be_bytes([high, low])));
        rest = behind;
        if marker == 0xdb {
            quantization.extend_from_slice(segment);
        } else {
            let at = huffman.len();
            huffman.extend_from_slice(segment);
            huffman[at + 4] ^= swapped;
        }
    }
    let (head, body) = scan.split_at(start - 5);
    [&head[..2], JFIF, &quantization, &head[2..], &huffman, body].concat()
}
