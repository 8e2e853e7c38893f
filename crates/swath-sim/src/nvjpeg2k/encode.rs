//! Encoding.

use std::ffi::{c_int, c_void};
use std::sync::Mutex;

use swath_codec::jpeg2000::{EncodeParams, Quality, encode};

use super::decode::ComponentInfo;
use super::{Image, Pixel, interleaved};
use crate::event::record;
use crate::fail;
use crate::picture::{
    Encoded, Handles, Outcome, Room, Status, answer, fail_point, here, join, locked, misuse, unsupported,
};

static ENCODERS: Handles<()> = Handles::new();
static STATES: Handles<State> = Handles::new();
static PARAMS: Handles<Mutex<Params>> = Handles::new();

/// An encode state.
#[derive(Debug)]
struct State {
    room: Room,
    encoded: Encoded,
}

/// The settings of the encoder.
#[derive(Debug, Default)]
struct Params {
    config: Option<Checked>,
    interleaved: bool,
}

const MOST_RESOLUTIONS: usize = 33;

/// The numbers that select the kind of stream.
const SRGB: c_int = 1;
const GRAY: c_int = 2;
const SYCC: c_int = 3;
const HIGH_THROUGHPUT: u32 = 0x40;
const HIGH_THROUGHPUT_SIZ: u16 = 0x4000;

/// `nvjpeg2kEncodeConfig_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Config {
    stream_type: c_int,
    color_space: c_int,
    rsiz: u16,
    image_width: u32,
    image_height: u32,
    enable_tiling: u32,
    tile_width: u32,
    tile_height: u32,
    num_components: u32,
    image_comp_info: *const ComponentInfo,
    enable_sop_marker: u32,
    enable_eph_marker: u32,
    prog_order: c_int,
    num_layers: u32,
    mct_mode: u32,
    num_resolutions: u32,
    code_block_w: u32,
    code_block_h: u32,
    encode_modes: u32,
    irreversible: u32,
    num_precincts_init: u32,
    precinct_width: [u32; MOST_RESOLUTIONS],
    precinct_height: [u32; MOST_RESOLUTIONS],
}

/// The values of a valid configuration.
#[derive(Debug, Clone, Copy)]
struct Checked {
    size: (usize, usize),
    components: usize,
    precision: u8,
    signed: bool,
    rgb: bool,
    /// The requested feature that the simulator does not support.
    beyond: Option<&'static str>,
}

impl Config {
    /// Refuses what the real library refuses, with the same code, and a little more: components with other
    /// sizes than the picture, and a number of layers other than the one that the manual requires.
    ///
    /// # Safety
    /// The pointer to the components is null or points to as many as the configuration states.
    unsafe fn check(&self) -> Outcome<Checked> {
        let invalid = |wrong: bool| if wrong { Err(Status::INVALID_PARAMETER) } else { Ok(()) };
        let unknown = |wrong: bool| if wrong { Err(Status::NOT_SUPPORTED) } else { Ok(()) };
        invalid(self.image_comp_info.is_null() || self.num_components == 0)?;
        unknown(self.num_components > 4)?;
        invalid(!matches!(self.stream_type, 0 | 1))?;
        let colours: &[c_int] = if self.num_components == 1 { &[GRAY] } else { &[SRGB, GRAY, SYCC] };
        invalid(!colours.contains(&self.color_space))?;
        invalid(self.mct_mode > 1 || (self.mct_mode == 1 && self.color_space != SRGB))?;
        unknown(!matches!(self.rsiz, 0 | HIGH_THROUGHPUT_SIZ) || !matches!(self.encode_modes, 0 | HIGH_THROUGHPUT))?;
        invalid(self.image_width == 0 || self.image_height == 0)?;
        unknown(self.image_width == 1 || self.image_height == 1)?;
        invalid(self.enable_tiling > 1 || self.irreversible > 1)?;
        let (image, mut tile) = ((self.image_width, self.image_height), (self.image_width, self.image_height));
        if self.enable_tiling == 1 {
            tile = (self.tile_width, self.tile_height);
            invalid(tile.0 == 0 || tile.1 == 0 || tile.0 > image.0 || tile.1 > image.1)?;
        }
        invalid(self.num_resolutions == 0 || self.num_resolutions > tile.0.min(tile.1).ilog2() + 1)?;
        unknown(self.enable_sop_marker != 0 || self.enable_eph_marker != 0 || self.num_layers != 1)?;
        unknown(!(0..=4).contains(&self.prog_order))?;
        let high_throughput = self.encode_modes == HIGH_THROUGHPUT;
        unknown(match (self.code_block_w, self.code_block_h) {
            (32 | 64, 32 | 64) => false,
            (128, 32) => !high_throughput,
            _ => true,
        })?;

        // SAFETY: guaranteed by the caller.
        let components = unsafe { std::slice::from_raw_parts(self.image_comp_info, self.num_components as usize) };
        let ComponentInfo { precision, sgn, .. } = components[0];
        invalid(components.iter().any(|c| !(1..=32).contains(&c.precision)))?;
        unknown(components.iter().any(|c| (c.precision, c.sgn) != (precision, sgn)))?;
        invalid(components.iter().any(|c| (c.component_width, c.component_height) != image))?;
        let beyond = [
            (self.stream_type == 1, "JP2 files"),
            (high_throughput || self.rsiz != 0, "high-throughput encoder"),
            (tile != image, "tiles"),
            (self.irreversible == 1, "lossy encoder"),
            (self.num_precincts_init != 0, "custom precincts"),
        ];
        Ok(Checked {
            size: (image.0 as usize, image.1 as usize),
            components: components.len(),
            precision,
            signed: sgn != 0,
            rgb: self.mct_mode == 1,
            beyond: beyond.iter().find(|(is_set, _)| *is_set).map(|(_, what)| *what),
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpeg2kEncoderCreateSimple(encoder: *mut *mut c_void) -> c_int {
    // SAFETY: by the manual.
    answer(unsafe { ENCODERS.create(encoder, || Ok(())) })
}

#[unsafe(no_mangle)]
extern "C" fn nvjpeg2kEncoderDestroy(encoder: *mut c_void) -> c_int {
    answer(ENCODERS.remove(encoder).map(|_| ()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpeg2kEncodeStateCreate(encoder: *mut c_void, state: *mut *mut c_void) -> c_int {
    let make = || {
        ENCODERS.get(encoder)?;
        fail_point("j2k-state", Status::ALLOCATOR_FAILURE)?;
        record("nvjpeg2kEncodeStateCreate");
        Ok(State { room: Room::take()?, encoded: Encoded::default() })
    };
    // SAFETY: by the manual.
    answer(unsafe { STATES.create(state, make) })
}

#[unsafe(no_mangle)]
extern "C" fn nvjpeg2kEncodeStateDestroy(state: *mut c_void) -> c_int {
    answer(STATES.remove(state).and_then(|state| state.room.give_back("nvjpeg2kEncodeStateDestroy")))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpeg2kEncodeParamsCreate(params: *mut *mut c_void) -> c_int {
    // SAFETY: by the manual.
    answer(unsafe { PARAMS.create(params, || Ok(Mutex::default())) })
}

#[unsafe(no_mangle)]
extern "C" fn nvjpeg2kEncodeParamsDestroy(params: *mut c_void) -> c_int {
    answer(PARAMS.remove(params).map(|_| ()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpeg2kEncodeParamsSetEncodeConfig(params: *mut c_void, config: *const Config) -> c_int {
    answer(PARAMS.get(params).and_then(|params| {
        // SAFETY: by the manual, here and for the components.
        let config = unsafe { config.as_ref() }.ok_or(Status::INVALID_PARAMETER)?;
        // SAFETY: as above.
        locked(&params).config = Some(unsafe { config.check() }?);
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn nvjpeg2kEncodeParamsSetInputFormat(params: *mut c_void, format: c_int) -> c_int {
    answer(PARAMS.get(params).and_then(|params| {
        locked(&params).interleaved = interleaved(format)?;
        Ok(())
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpeg2kEncode(
    encoder: *mut c_void,
    state: *mut c_void,
    params: *mut c_void,
    input: *const Image,
    queue: *const c_void,
) -> c_int {
    const CALL: &str = "nvjpeg2kEncode";
    let done = || {
        ENCODERS.get(encoder)?;
        let (state, params) = (STATES.get(state)?, PARAMS.get(params)?);
        let Params { config, interleaved } = *locked(&params);
        let config = config.ok_or_else(|| misuse(CALL, "no configuration was set"))?;
        // SAFETY: by the manual.
        let input = unsafe { input.as_ref() }.ok_or(Status::INVALID_PARAMETER)?;
        let pixel = Pixel::of(input.pixel_type)?;
        if input.num_components as usize != config.components {
            return Err(misuse(CALL, &format!("{} components of {}", input.num_components, config.components)));
        }
        pixel.must_hold(CALL, config.precision, config.signed)?;
        let narrow = (usize::from(config.precision) < 8 * pixel.bytes()).then_some("samples narrower than their type");
        if let Some(beyond) = config.beyond.or(narrow) {
            return Err(unsupported(CALL, beyond));
        }
        // SAFETY: by the manual.
        let planes = unsafe { input.planes(CALL, config.size, interleaved) }?;
        record(CALL);
        crate::timeline::picture(CALL, queue as usize);
        fail_point("j2k-encode", Status::EXECUTION_FAILED)?;
        let shape = pixel.shape(config.size.0, config.size.1, config.components);
        let wrong = fail::now("j2k-wrong");
        let encode = move |mut picture: Vec<Vec<u8>>| {
            if wrong {
                picture[0][0] ^= 1;
            }
            let settings = EncodeParams { quality: Quality::Lossless, rgb: config.rgb };
            let mut out = Vec::new();
            encode(&settings, &join(&picture, if interleaved { 1 } else { pixel.bytes() }), shape, &mut out)
                .map(|()| out)
        };
        here(|sim, device| {
            state.room.must_be_on(device, CALL)?;
            state.encoded.later(sim, device, queue, CALL, planes, encode)
        })
    };
    answer(done())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvjpeg2kEncodeRetrieveBitstream(
    encoder: *mut c_void,
    state: *mut c_void,
    data: *mut u8,
    length: *mut usize,
    queue: *const c_void,
) -> c_int {
    const CALL: &str = "nvjpeg2kEncodeRetrieveBitstream";
    answer(ENCODERS.get(encoder).and_then(|_| {
        let state = STATES.get(state)?;
        // SAFETY: by the manual.
        here(|sim, device| unsafe { state.encoded.retrieve(sim, device, queue, CALL, data, length) })
    }))
}
