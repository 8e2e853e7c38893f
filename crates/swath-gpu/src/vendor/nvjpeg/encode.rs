//! Encoding pictures with nvJPEG.

use std::sync::Arc;

use super::super::{Object, nvcomp::CudaStream};
use super::{BASELINE, Functions, Handle, Planes, RGBI, Subsampling, check};
use crate::error::Result;

/// The parameters of the encoder.
#[derive(Debug)]
pub(crate) struct EncodeParams {
    params: Object,
    _handle: Arc<Object>,
}

/// Working memory of one picture at a time, and its result until it is retrieved.
#[derive(Debug)]
pub(crate) struct EncodeState {
    state: Object,
    /// The arguments of the last picture.
    planes: Box<Planes>,
    _handle: Arc<Object>,
}

impl Handle {
    /// Creates parameters for baseline JPEG with the Huffman tables of the standard, so that all pictures share their tables.
    ///
    /// # Errors
    /// When the library rejects the quality, which is 1 to 100, or the subsampling.
    ///
    /// # Safety
    /// The CUDA stream is one of the current context, or null.
    pub(crate) unsafe fn encode_params(
        &self,
        quality: u8,
        subsampling: Subsampling,
        cuda: CudaStream,
    ) -> Result<EncodeParams> {
        let functions = self.functions;
        let params = Object::new(functions.params_destroy, |place| {
            // SAFETY: the handle lives, there is room for the parameters, and the stream is as the caller says.
            check("nvjpegEncoderParamsCreate", unsafe { (functions.params_create)(self.handle.pointer(), place, cuda) })
        })?;
        let at = params.pointer();
        // SAFETY: the parameters live, and the stream is as the caller says.
        unsafe {
            check("nvjpegEncoderParamsSetEncoding", (functions.params_encoding)(at, BASELINE, cuda))?;
            check("nvjpegEncoderParamsSetQuality", (functions.params_quality)(at, i32::from(quality), cuda))?;
            check("nvjpegEncoderParamsSetOptimizedHuffman", (functions.params_huffman)(at, 0, cuda))?;
            check(
                "nvjpegEncoderParamsSetSamplingFactors",
                (functions.params_sampling)(at, subsampling.number(), cuda),
            )?;
        }
        Ok(EncodeParams { params, _handle: Arc::clone(&self.handle) })
    }

    /// Working memory for one picture. It takes device memory that the guard does not count.
    ///
    /// # Safety
    /// The CUDA stream is one of the current context, or null.
    pub(crate) unsafe fn encode_state(&self, cuda: CudaStream) -> Result<EncodeState> {
        let Functions { encode_state_create, encode_state_destroy, .. } = *self.functions;
        let state = Object::new(encode_state_destroy, |place| {
            // SAFETY: the handle lives, there is room for the state, and the stream is as the caller says.
            check("nvjpegEncoderStateCreate", unsafe { encode_state_create(self.handle.pointer(), place, cuda) })
        })?;
        Ok(EncodeState { state, planes: Box::default(), _handle: Arc::clone(&self.handle) })
    }

    /// Enqueues the encoding of interleaved red, green and blue as YCbCr.
    ///
    /// # Errors
    /// When it could not be enqueued.
    ///
    /// # Safety
    /// Until the result is retrieved, the picture is device memory of at least its pitch times its height, and the state is used for
    /// nothing else. The CUDA stream is one of the current context, or null.
    pub(crate) unsafe fn encode_rgb(
        &self,
        state: &mut EncodeState,
        params: &EncodeParams,
        pixels: Planes,
        (width, height): (u32, u32),
        cuda: CudaStream,
    ) -> Result<()> {
        *state.planes = pixels;
        let (handle, at, params) = (self.handle.pointer(), state.state.pointer(), params.params.pointer());
        let (width, height) = (side(width), side(height));
        // SAFETY: the handles live, and the rest is as the caller says.
        let code =
            unsafe { (self.functions.encode_image)(handle, at, params, &*state.planes, RGBI, width, height, cuda) };
        check("nvjpegEncodeImage", code)
    }

    /// Enqueues the encoding of unconverted planes: one, or three with the sizes that `subsampling` states.
    ///
    /// # Errors
    /// When it could not be enqueued.
    ///
    /// # Safety
    /// As for [`encode_rgb`](Handle::encode_rgb), for each plane.
    pub(crate) unsafe fn encode_planes(
        &self,
        state: &mut EncodeState,
        params: &EncodeParams,
        planes: Planes,
        subsampling: Subsampling,
        (width, height): (u32, u32),
        cuda: CudaStream,
    ) -> Result<()> {
        *state.planes = planes;
        let (handle, at, params) = (self.handle.pointer(), state.state.pointer(), params.params.pointer());
        let (format, width, height) = (subsampling.number(), side(width), side(height));
        // SAFETY: the handles live, and the rest is as the caller says.
        let code =
            unsafe { (self.functions.encode_yuv)(handle, at, params, &*state.planes, format, width, height, cuda) };
        check("nvjpegEncodeYUV", code)
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
        check("nvjpegEncodeRetrieveBitstream", code)?;
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
        check("nvjpegEncodeRetrieveBitstream", code)?;
        Ok(len)
    }
}

/// A width or height as the library takes it. The library rejects negative sizes.
fn side(pixels: u32) -> i32 {
    i32::try_from(pixels).unwrap_or(-1)
}
