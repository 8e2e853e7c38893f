//! nvJPEG: JPEG pictures, decoded in batches and encoded on the device. Streams come from host memory and go there.

#[cfg(test)]
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::nvcomp::CudaStream;
use super::{
    Found, Library, Loaded, Missing, Object, Pointer, Refusal, Status, functions, runtime_version, semantic_version,
};
use crate::error::{Error, Result};

mod encode;

pub(crate) use encode::{EncodeParams, EncodeState};

/// The largest number of components of a picture.
const COMPONENTS: usize = 4;

/// `nvjpegImage_t`: device addresses of up to four planes, and the bytes from one row of each to the next. Interleaved pictures have one
/// plane.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Planes {
    /// Device addresses, 0 for a plane that does not exist.
    pub(crate) at: [u64; COMPONENTS],
    /// Bytes from one row to the next.
    pub(crate) pitch: [u64; COMPONENTS],
}

impl Planes {
    /// A single plane, which may hold interleaved samples.
    pub(crate) fn one(at: u64, pitch: u64) -> Planes {
        Planes { at: [at, 0, 0, 0], pitch: [pitch, 0, 0, 0] }
    }
}

/// `nvjpegBackend_t`: the host decodes Huffman codes.
const DEFAULT_BACKEND: i32 = 0;
/// The device decodes Huffman codes, in batches of more than 50 pictures.
const GPU_HYBRID: i32 = 2;
/// Incomplete streams are rejected, not completed with grey.
const STRICT: u32 = 1 << 2;
/// Smaller components are interpolated, as by the CPU's decoder, not repeated.
const INTERPOLATE: u32 = 1 << 5;
/// `nvjpegJpegEncoding_t`: each block once, with Huffman codes, samples of 8 bits.
const BASELINE: i32 = 0xc0;
/// `nvjpegInputFormat_t`: interleaved red, green and blue.
const RGBI: i32 = 5;

functions! {
    /// The functions.
    Functions {
        property: "nvjpegGetProperty" (i32, *mut i32) -> Status;
        cudart: "nvjpegGetCudartProperty" (i32, *mut i32) -> Status;
        create: "nvjpegCreateEx" (i32, Pointer, Pointer, u32, *mut Pointer) -> Status;
        destroy: "nvjpegDestroy" (Pointer) -> Status;
        state_create: "nvjpegJpegStateCreate" (Pointer, *mut Pointer) -> Status;
        state_destroy: "nvjpegJpegStateDestroy" (Pointer) -> Status;
        image_info: "nvjpegGetImageInfo" (Pointer, *const u8, u64, *mut i32, *mut i32, *mut i32, *mut i32) -> Status;
        batch_initialize: "nvjpegDecodeBatchedInitialize" (Pointer, Pointer, i32, i32, i32) -> Status;
        batch_decode: "nvjpegDecodeBatched" (
            Pointer, Pointer, *const *const u8, *const u64, *mut Planes, CudaStream,
        ) -> Status;
        encode_state_create: "nvjpegEncoderStateCreate" (Pointer, *mut Pointer, CudaStream) -> Status;
        encode_state_destroy: "nvjpegEncoderStateDestroy" (Pointer) -> Status;
        params_create: "nvjpegEncoderParamsCreate" (Pointer, *mut Pointer, CudaStream) -> Status;
        params_destroy: "nvjpegEncoderParamsDestroy" (Pointer) -> Status;
        params_quality: "nvjpegEncoderParamsSetQuality" (Pointer, i32, CudaStream) -> Status;
        params_encoding: "nvjpegEncoderParamsSetEncoding" (Pointer, i32, CudaStream) -> Status;
        params_huffman: "nvjpegEncoderParamsSetOptimizedHuffman" (Pointer, i32, CudaStream) -> Status;
        params_sampling: "nvjpegEncoderParamsSetSamplingFactors" (Pointer, i32, CudaStream) -> Status;
        encode_image: "nvjpegEncodeImage" (
            Pointer, Pointer, Pointer, *const Planes, i32, i32, i32, CudaStream,
        ) -> Status;
        encode_yuv: "nvjpegEncodeYUV" (
            Pointer, Pointer, Pointer, *const Planes, i32, i32, i32, CudaStream,
        ) -> Status;
        retrieve: "nvjpegEncodeRetrieveBitstream" (Pointer, Pointer, *mut u8, *mut u64, CudaStream) -> Status;
    }
}

/// The size of the second and third component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subsampling {
    /// Of the same size.
    S444,
    /// Half as wide.
    S422,
    /// Half as wide and half as high.
    S420,
    /// Half as high.
    S440,
    /// A quarter as wide.
    S411,
    /// A quarter as wide and half as high.
    S410,
    /// There is only one component.
    Gray,
    /// A quarter as wide and half as high, with other sampling factors.
    S410V,
    /// None of these.
    Other,
}

impl Subsampling {
    /// `nvjpegChromaSubsampling_t`.
    const NUMBERS: [(Subsampling, i32); 9] = [
        (Subsampling::S444, 0),
        (Subsampling::S422, 1),
        (Subsampling::S420, 2),
        (Subsampling::S440, 3),
        (Subsampling::S411, 4),
        (Subsampling::S410, 5),
        (Subsampling::Gray, 6),
        (Subsampling::S410V, 7),
        (Subsampling::Other, -1),
    ];

    fn of(number: i32) -> Subsampling {
        let known = Subsampling::NUMBERS.iter().find(|(_, known)| *known == number);
        known.map_or(Subsampling::Other, |(subsampling, _)| *subsampling)
    }

    fn number(self) -> i32 {
        let known = Subsampling::NUMBERS.iter().find(|(subsampling, _)| *subsampling == self);
        known.map_or(-1, |(_, number)| *number)
    }
}

/// The picture that a JPEG stream states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Info {
    /// Components, 4 at most.
    pub(crate) components: u32,
    /// The size of the second and third component.
    pub(crate) subsampling: Subsampling,
    /// Samples in a row of each component.
    pub(crate) widths: [u32; COMPONENTS],
    /// Rows of each component.
    pub(crate) heights: [u32; COMPONENTS],
}

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// One unconverted plane for each component, of its own size.
    Unchanged,
    /// YCbCr as interleaved red, green and blue.
    Rgbi,
}

impl Output {
    /// `nvjpegOutputFormat_t`.
    fn number(self) -> i32 {
        match self {
            Output::Unchanged => 0,
            Output::Rgbi => 5,
        }
    }
}

/// The library. Its objects must be used while the CUDA context is current in which they were created.
#[derive(Debug)]
pub(crate) struct NvJpeg {
    found: Found,
    functions: Functions,
}

impl NvJpeg {
    /// The library of this process.
    pub(crate) fn get() -> std::result::Result<&'static NvJpeg, &'static Missing> {
        static NVJPEG: OnceLock<std::result::Result<NvJpeg, Missing>> = OnceLock::new();
        NVJPEG.get_or_init(|| super::load(Library::NvJpeg, NvJpeg::bind)).as_ref()
    }

    /// The library in a file.
    #[cfg(test)]
    pub(crate) fn open(path: &Path) -> std::result::Result<NvJpeg, Refusal> {
        NvJpeg::bind(&Loaded::open(path)?)
    }

    fn bind(loaded: &Loaded) -> std::result::Result<NvJpeg, Refusal> {
        let functions = Functions::load(loaded, "")?;
        let ([major, ..], version) = semantic_version("nvjpegGetProperty", functions.property)?;
        if !matches!(major, 12 | 13) {
            return Err(Refusal::Version { found: version, wanted: "12 or 13" });
        }
        super::check_runtime(runtime_version("nvjpegGetCudartProperty", functions.cudart)?)?;
        let path = loaded.path(loaded.symbol("nvjpegGetProperty")?);
        Ok(NvJpeg { functions, found: Found { library: Library::NvJpeg, version, path, detail: None } })
    }

    /// The CUDA version that the library was built for: 12090 is 12.9.
    #[cfg(test)]
    pub(super) fn cudart(&self) -> std::result::Result<u32, Refusal> {
        runtime_version("nvjpegGetCudartProperty", self.functions.cudart)
    }

    /// What was found.
    pub(super) fn found(&self) -> &Found {
        &self.found
    }

    /// Creates a handle, which decodes and encodes.
    pub(crate) fn handle(&'static self) -> Result<Handle> {
        let Functions { create, destroy, .. } = self.functions;
        let null = std::ptr::null_mut();
        let with = |(backend, flags)| {
            Object::new(destroy, |place| {
                // SAFETY: there is room for the handle, and null selects the library's own allocators.
                check("nvjpegCreateEx", unsafe { create(backend, null, null, flags, place) })
            })
        };
        // A version without the flag decodes without it, and where the device does not decode Huffman codes, the host does.
        let handle = with((GPU_HYBRID, STRICT | INTERPOLATE))
            .or_else(|_| with((DEFAULT_BACKEND, STRICT | INTERPOLATE)))
            .or_else(|_| with((DEFAULT_BACKEND, STRICT)))?;
        Ok(Handle { functions: &self.functions, handle: Arc::new(handle) })
    }
}

/// A handle, which decodes and encodes. Threads may share it.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    functions: &'static Functions,
    handle: Arc<Object>,
}

/// Working memory of one batch at a time: it may be reused only after the CUDA stream of the last batch is synchronised.
#[derive(Debug)]
pub(crate) struct DecodeState {
    state: Object,
    /// The number of pictures and the output format that the state was prepared for.
    prepared: Option<(i32, Output)>,
    /// The arguments of the last batch, which the library may read until the batch is decoded.
    bytes: Vec<*const u8>,
    lens: Vec<u64>,
    planes: Vec<Planes>,
    _handle: Arc<Object>,
}

// SAFETY: the pointers are only passed to the library, while the caller of `decode` promises that they are valid.
unsafe impl Send for DecodeState {}

impl Handle {
    /// Parses the headers of a stream, on the host.
    ///
    /// # Errors
    /// When the bytes are not a JPEG stream, or the library cannot decode it.
    pub(crate) fn image_info(&self, bytes: &[u8]) -> Result<Info> {
        let (mut components, mut subsampling) = (0, -1);
        let (mut widths, mut heights) = ([0; COMPONENTS], [0; COMPONENTS]);
        // SAFETY: the slice has this many bytes, and there is room for the results: four numbers for each of the last two.
        let code = unsafe {
            (self.functions.image_info)(
                self.handle.pointer(),
                bytes.as_ptr(),
                bytes.len() as u64,
                &mut components,
                &mut subsampling,
                widths.as_mut_ptr(),
                heights.as_mut_ptr(),
            )
        };
        check("nvjpegGetImageInfo", code)?;
        let size = |number: i32| u32::try_from(number).unwrap_or(0);
        Ok(Info {
            components: size(components).min(COMPONENTS as u32),
            subsampling: Subsampling::of(subsampling),
            widths: widths.map(size),
            heights: heights.map(size),
        })
    }

    /// Working memory for a batch. It takes device memory that the guard does not count.
    pub(crate) fn decode_state(&self) -> Result<DecodeState> {
        let Functions { state_create, state_destroy, .. } = *self.functions;
        let state = Object::new(state_destroy, |place| {
            // SAFETY: the handle lives, and there is room for the state.
            check("nvjpegJpegStateCreate", unsafe { state_create(self.handle.pointer(), place) })
        })?;
        let (bytes, lens, planes) = (Vec::new(), Vec::new(), Vec::new());
        Ok(DecodeState { state, prepared: None, bytes, lens, planes, _handle: Arc::clone(&self.handle) })
    }

    /// Enqueues the decoding of a batch: pairs of a JPEG stream and its output.
    ///
    /// # Errors
    /// When it could not be enqueued. Whether the decoding succeeded is known after the CUDA stream is synchronised.
    ///
    /// # Safety
    /// Until the CUDA stream is synchronised: the bytes stay valid, the planes are device memory that is large enough for the sizes that
    /// [`image_info`](Handle::image_info) returns and for the output format, and the state is used for nothing else. The CUDA stream is
    /// one of the current context, or null.
    pub(crate) unsafe fn decode(
        &self,
        state: &mut DecodeState,
        pictures: &[(&[u8], Planes)],
        output: Output,
        cuda: CudaStream,
    ) -> Result<()> {
        if pictures.is_empty() {
            return Ok(());
        }
        let (handle, of_batch) = (self.handle.pointer(), state.state.pointer());
        // A batch too large for the number is too large for any device.
        let count = i32::try_from(pictures.len()).unwrap_or(i32::MAX);
        // A batch that fails leaves the state unprepared.
        if state.prepared.take() != Some((count, output)) {
            // One thread of the host does the host's part of the work.
            let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get().min(16)) as i32;
            // SAFETY: the handles live.
            let code = unsafe { (self.functions.batch_initialize)(handle, of_batch, count, threads, output.number()) };
            check("nvjpegDecodeBatchedInitialize", code)?;
        }
        state.bytes.clear();
        state.bytes.extend(pictures.iter().map(|(bytes, _)| bytes.as_ptr()));
        state.lens.clear();
        state.lens.extend(pictures.iter().map(|(bytes, _)| bytes.len() as u64));
        state.planes.clear();
        state.planes.extend(pictures.iter().map(|(_, planes)| *planes));
        let (bytes, lens, planes) = (state.bytes.as_ptr(), state.lens.as_ptr(), state.planes.as_mut_ptr());
        // SAFETY: the handles live, the arrays have an entry for each picture, and the rest is as the caller says.
        check("nvjpegDecodeBatched", unsafe {
            (self.functions.batch_decode)(handle, of_batch, bytes, lens, planes, cuda)
        })?;
        state.prepared = Some((count, output));
        Ok(())
    }
}

/// Turns a code into an error, unless it is success.
fn check(call: &'static str, code: Status) -> Result<()> {
    let name = match code {
        0 => return Ok(()),
        1 => "NVJPEG_STATUS_NOT_INITIALIZED",
        2 => "NVJPEG_STATUS_INVALID_PARAMETER",
        3 => "NVJPEG_STATUS_BAD_JPEG",
        4 => "NVJPEG_STATUS_JPEG_NOT_SUPPORTED",
        5 => "NVJPEG_STATUS_ALLOCATOR_FAILURE",
        6 => "NVJPEG_STATUS_EXECUTION_FAILED",
        7 => "NVJPEG_STATUS_ARCH_MISMATCH",
        8 => "NVJPEG_STATUS_INTERNAL_ERROR",
        9 => "NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED",
        10 => "NVJPEG_STATUS_INCOMPLETE_BITSTREAM",
        _ => "a status of no name",
    };
    Err(Error::Library { library: Library::NvJpeg, call, code: format!("{name} ({code})") })
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    #[test]
    fn planes_have_the_layout_of_the_c_header() {
        assert_eq!((size_of::<Planes>(), offset_of!(Planes, pitch)), (64, 32));
    }
}
