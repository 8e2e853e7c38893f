//! Encoding pictures with nvJPEG2000.

use std::sync::Arc;

use super::super::{Object, nvcomp::CudaStream};
use super::{ComponentInfo, Functions, Image, PixelType, check};
use crate::error::{Error, Result};
use crate::vendor::Library;

const RESOLUTIONS: usize = 33;

/// `nvjpeg2kEncodeConfig_t`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct EncodeConfig {
    /// 0: a codestream without the boxes of JP2.
    kind: i32,
    colour: i32,
    rsiz: u16,
    width: u32,
    height: u32,
    tiled: u32,
    tile_width: u32,
    tile_height: u32,
    components: u32,
    info: *const ComponentInfo,
    sop: u32,
    eph: u32,
    progression: i32,
    layers: u32,
    colour_transform: u32,
    resolutions: u32,
    code_block_width: u32,
    code_block_height: u32,
    modes: u32,
    irreversible: u32,
    precincts: u32,
    precinct_widths: [u32; RESOLUTIONS],
    precinct_heights: [u32; RESOLUTIONS],
}

const SRGB: i32 = 1;
const GRAY: i32 = 2;
const RPCL: i32 = 2;
const INTERLEAVED: i32 = 1;

/// The encoder. Threads may share it.
#[derive(Debug, Clone)]
pub(crate) struct Encoder {
    pub(super) functions: &'static Functions,
    pub(super) handle: Arc<Object>,
}

/// Working memory of one picture at a time, and its result until it is retrieved.
#[derive(Debug)]
pub(crate) struct EncodeState {
    state: Object,
    /// The arguments of the last picture: an address and a pitch.
    told: Box<[u64; 2]>,
    _encoder: Arc<Object>,
}

/// The parameters of the encoder.
#[derive(Debug)]
pub(crate) struct EncodeParams {
    params: Object,
    pixel: PixelType,
    components: u32,
    /// Kept because the library's documentation does not say that the library copies it.
    _info: Vec<ComponentInfo>,
}

/// Pictures to encode without loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pixels {
    /// Pixels in a row.
    pub(crate) width: u32,
    /// Rows.
    pub(crate) height: u32,
    /// 1 to 4, interleaved.
    pub(crate) components: u32,
    /// The type of the samples.
    pub(crate) pixel: PixelType,
    /// Whether the first three are red, green and blue, which are then transformed together.
    pub(crate) rgb: bool,
}

impl Pixels {
    /// As many resolutions as the size allows, at most 6: the library requires at least one pixel of the lowest one in each direction.
    fn resolutions(&self) -> u32 {
        self.width.min(self.height).max(1).ilog2().min(5) + 1
    }
}

impl Encoder {
    /// Creates parameters for pictures like these: a codestream of one layer and one tile, with the reversible transform, which is lossless.
    ///
    /// # Errors
    /// When the library cannot encode such pictures, such as those of one pixel.
    pub(crate) fn params(&self, pixels: &Pixels) -> Result<EncodeParams> {
        // The library divides by them.
        if pixels.width == 0 || pixels.height == 0 || !(1..=4).contains(&pixels.components) {
            return Err(Error::Unable {
                device: Library::NvJpeg2000.to_string(),
                what: "encode a picture of this size",
            });
        }
        let Functions { params_create, params_destroy, params_config, params_format, .. } = *self.functions;
        // SAFETY: there is room for the handle.
        let params =
            Object::new(params_destroy, |place| check("nvjpeg2kEncodeParamsCreate", unsafe { params_create(place) }))?;
        let &Pixels { width, height, components, pixel, rgb } = pixels;
        let (bits, signed) = (pixel.bits(), u8::from(pixel == PixelType::I16));
        let info = vec![ComponentInfo { width, height, bits, signed }; components as usize];
        let mut config = EncodeConfig {
            kind: 0,
            // A codestream does not store the colour space, but the library rejects an unknown one, and allows the transform for RGB only.
            colour: if rgb && components >= 3 { SRGB } else { GRAY },
            rsiz: 0,
            width,
            height,
            tiled: 0,
            tile_width: 0,
            tile_height: 0,
            components,
            info: info.as_ptr(),
            sop: 0,
            eph: 0,
            progression: RPCL,
            layers: 1,
            colour_transform: u32::from(rgb && components >= 3),
            resolutions: pixels.resolutions(),
            code_block_width: 64,
            code_block_height: 64,
            modes: 0,
            irreversible: 0,
            precincts: 0,
            precinct_widths: [0; RESOLUTIONS],
            precinct_heights: [0; RESOLUTIONS],
        };
        // SAFETY: the handle lives, and so does the description, until the parameters are dropped.
        check("nvjpeg2kEncodeParamsSetEncodeConfig", unsafe { params_config(params.pointer(), &mut config) })?;
        // SAFETY: the handle lives.
        check("nvjpeg2kEncodeParamsSetInputFormat", unsafe { params_format(params.pointer(), INTERLEAVED) })?;
        Ok(EncodeParams { params, pixel, components, _info: info })
    }

    /// Working memory for one picture. It takes device memory that the guard does not count.
    pub(crate) fn state(&self) -> Result<EncodeState> {
        let Functions { encode_state_create, encode_state_destroy, .. } = *self.functions;
        let state = Object::new(encode_state_destroy, |place| {
            // SAFETY: the handle lives, and there is room for the state.
            check("nvjpeg2kEncodeStateCreate", unsafe { encode_state_create(self.handle.pointer(), place) })
        })?;
        Ok(EncodeState { state, told: Box::new([0; 2]), _encoder: Arc::clone(&self.handle) })
    }

    /// Enqueues the encoding of an interleaved picture, with `pitch` bytes from one row to the next.
    ///
    /// # Errors
    /// When it could not be enqueued.
    ///
    /// # Safety
    /// Until the result is retrieved, the picture is device memory of at least `pitch` times its height, and the state is used for
    /// nothing else. The CUDA stream is one of the current context, or null.
    pub(crate) unsafe fn encode(
        &self,
        state: &mut EncodeState,
        params: &EncodeParams,
        address: u64,
        pitch: u64,
        cuda: CudaStream,
    ) -> Result<()> {
        *state.told = [address, pitch];
        let [planes, pitches] = &*state.told;
        let image = Image { planes, pitches, pixel: params.pixel.number(), components: params.components };
        let (handle, state, params) = (self.handle.pointer(), state.state.pointer(), params.params.pointer());
        // SAFETY: the handles live, interleaved pictures have one plane, and the rest is as the caller says.
        check("nvjpeg2kEncode", unsafe { (self.functions.encode)(handle, state, params, &image, cuda) })
    }

    /// Waits for the size of the encoded picture.
    ///
    /// # Errors
    /// When the encoding failed.
    ///
    /// # Safety
    /// `cuda` is the stream of the encoding.
    pub(crate) unsafe fn encoded_len(&self, state: &mut EncodeState, cuda: CudaStream) -> Result<u64> {
        let mut len = 0;
        let (handle, state) = (self.handle.pointer(), state.state.pointer());
        // SAFETY: without a buffer the library only returns the size, for which there is room.
        let code = unsafe { (self.functions.retrieve)(handle, state, std::ptr::null_mut(), &mut len, cuda) };
        check("nvjpeg2kEncodeRetrieveBitstream", code)?;
        Ok(len)
    }

    /// Enqueues the copy of the encoded picture, and returns its size.
    ///
    /// # Errors
    /// When `to` is too small.
    ///
    /// # Safety
    /// Until the CUDA stream is synchronised, `to` stays valid and nothing else uses it. `cuda` is the stream of the encoding.
    pub(crate) unsafe fn retrieve(&self, state: &mut EncodeState, to: &mut [u8], cuda: CudaStream) -> Result<u64> {
        let mut len = to.len() as u64;
        let (handle, state) = (self.handle.pointer(), state.state.pointer());
        // SAFETY: the slice has this many bytes, and stays valid as the caller promises.
        let code = unsafe { (self.functions.retrieve)(handle, state, to.as_mut_ptr(), &mut len, cuda) };
        check("nvjpeg2kEncodeRetrieveBitstream", code)?;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    #[test]
    fn configuration_has_the_layout_of_the_c_header() {
        assert_eq!(size_of::<EncodeConfig>(), 360);
        assert_eq!(offset_of!(EncodeConfig, info), 40);
        assert_eq!(offset_of!(EncodeConfig, resolutions), 68);
        assert_eq!(offset_of!(EncodeConfig, precinct_widths), 92);
    }
}
