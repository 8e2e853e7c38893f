//! Encoding pictures with nvJPEG.

use std::sync::Arc;

use super::super::{Object, nvcomp::CudaStream};
use super::{BASELINE, Functions, Handle, Planes, RGBI, Subsampling, check};
use crate::error::Result;

/// How pictures are encoded.
#[derive(Debug)]
pub(crate) struct EncodeParams {
    params: Object,
    _handle: Arc<Object>,
}

/// Working memory of one picture at a time, and the result, until it was retrieved.
#[derive(Debug)]
pub(crate) struct EncodeState {
    state: Object,
    /// What the library was told of the last picture.
    planes: Box<Planes>,
    _handle: Arc<Object>,
}

impl Handle {
    /// How pictures are encoded: baseline, with the Huffman tables of the standard, which all pictures then share.
    ///
    /// # Errors
    /// When the library does not take the quality, which is 1 to 100, or the subsampling.
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

    /// Working memory for one picture. It takes device memory that no guard knows of.
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

    /// Let the CUDA stream encode interleaved red, green and blue, as YCbCr.
    ///
    /// # Errors
    /// When it could not be begun.
    ///
    /// # Safety
    /// Until the result was retrieved, the picture is device memory of at least its pitch times its height, and the state is used for
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

    /// Let the CUDA stream encode planes as they are: one, or three of which `subsampling` says the sizes.
    ///
    /// # Errors
    /// When it could not be begun.
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

    /// The size of what was encoded. It waits until that is known.
    ///
    /// # Errors
    /// When it was not encoded.
    ///
    /// # Safety
    /// The CUDA stream is the one that it was encoded on.
    pub(crate) unsafe fn encoded_len(&self, state: &mut EncodeState, cuda: CudaStream) -> Result<u64> {
        let mut len = 0;
        let (handle, state) = (self.handle.pointer(), state.state.pointer());
        // SAFETY: without a place for it, only the size is told; there is room for that.
        let code = unsafe { (self.functions.retrieve)(handle, state, std::ptr::null_mut(), &mut len, cuda) };
        check("nvjpegEncodeRetrieveBitstream", code)?;
        Ok(len)
    }

    /// Let the CUDA stream copy what was encoded, and tell its size.
    ///
    /// # Errors
    /// When there is not enough room.
    ///
    /// # Safety
    /// Until the CUDA stream was waited for, `to` is there and nothing else uses it. The CUDA stream is the one that it was encoded
    /// on.
    pub(crate) unsafe fn retrieve(&self, state: &mut EncodeState, to: &mut [u8], cuda: CudaStream) -> Result<u64> {
        let mut len = to.len() as u64;
        let (handle, state) = (self.handle.pointer(), state.state.pointer());
        // SAFETY: there is as much room as is said, as long as the caller says.
        let code = unsafe { (self.functions.retrieve)(handle, state, to.as_mut_ptr(), &mut len, cuda) };
        check("nvjpegEncodeRetrieveBitstream", code)?;
        Ok(len)
    }
}

/// A width or height as the library takes it. It rejects negative sizes.
fn side(pixels: u32) -> i32 {
    i32::try_from(pixels).unwrap_or(-1)
}
