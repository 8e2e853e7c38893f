//! nvJPEG2000: JPEG 2000 pictures, decoded and encoded on the device. Codestreams come from host memory and go there.

#[cfg(test)]
use std::path::Path;
use std::sync::{Arc, OnceLock};

use swath_codec::{DType, SampleFormat};

use super::nvcomp::CudaStream;
use super::{
    Found, Library, Loaded, Missing, Object, Pointer, Refusal, Status, functions, runtime_version, semantic_version,
};
use crate::error::{Error, Result};

mod encode;

use encode::EncodeConfig;
pub(crate) use encode::{EncodeParams, EncodeState, Encoder, Pixels};

/// `nvjpeg2kImageInfo_t`.
#[repr(C)]
#[derive(Debug, Default)]
struct ImageInfo {
    width: u32,
    height: u32,
    tile_width: u32,
    tile_height: u32,
    tiles_across: u32,
    tiles_down: u32,
    components: u32,
}

/// `nvjpeg2kImageComponentInfo_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct ComponentInfo {
    width: u32,
    height: u32,
    bits: u8,
    signed: u8,
}

/// `nvjpeg2kImage_t`: a picture in device memory, described in host memory.
#[repr(C)]
struct Image {
    /// Device addresses of the planes, or of the single interleaved plane.
    planes: *const u64,
    /// Bytes from one row to the next, of each plane.
    pitches: *const u64,
    pixel: i32,
    components: u32,
}

functions! {
    /// The functions.
    Functions {
        property: "nvjpeg2kGetProperty" (i32, *mut i32) -> Status;
        cudart: "nvjpeg2kGetCudartProperty" (i32, *mut i32) -> Status;
        create: "nvjpeg2kCreateSimple" (*mut Pointer) -> Status;
        destroy: "nvjpeg2kDestroy" (Pointer) -> Status;
        state_create: "nvjpeg2kDecodeStateCreate" (Pointer, *mut Pointer) -> Status;
        state_destroy: "nvjpeg2kDecodeStateDestroy" (Pointer) -> Status;
        stream_create: "nvjpeg2kStreamCreate" (*mut Pointer) -> Status;
        stream_destroy: "nvjpeg2kStreamDestroy" (Pointer) -> Status;
        parse: "nvjpeg2kStreamParse" (Pointer, *const u8, u64, i32, i32, Pointer) -> Status;
        image_info: "nvjpeg2kStreamGetImageInfo" (Pointer, *mut ImageInfo) -> Status;
        component_info: "nvjpeg2kStreamGetImageComponentInfo" (Pointer, *mut ComponentInfo, u32) -> Status;
        decode: "nvjpeg2kDecode" (Pointer, Pointer, Pointer, *mut Image, CudaStream) -> Status;
        encoder_create: "nvjpeg2kEncoderCreateSimple" (*mut Pointer) -> Status;
        encoder_destroy: "nvjpeg2kEncoderDestroy" (Pointer) -> Status;
        encode_state_create: "nvjpeg2kEncodeStateCreate" (Pointer, *mut Pointer) -> Status;
        encode_state_destroy: "nvjpeg2kEncodeStateDestroy" (Pointer) -> Status;
        params_create: "nvjpeg2kEncodeParamsCreate" (*mut Pointer) -> Status;
        params_destroy: "nvjpeg2kEncodeParamsDestroy" (Pointer) -> Status;
        params_config: "nvjpeg2kEncodeParamsSetEncodeConfig" (Pointer, *mut EncodeConfig) -> Status;
        params_format: "nvjpeg2kEncodeParamsSetInputFormat" (Pointer, i32) -> Status;
        encode: "nvjpeg2kEncode" (Pointer, Pointer, Pointer, *const Image, CudaStream) -> Status;
        retrieve: "nvjpeg2kEncodeRetrieveBitstream" (Pointer, Pointer, *mut u8, *mut u64, CudaStream) -> Status;
    }
}

/// The type of samples in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PixelType {
    /// Bytes.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 16 bits.
    I16,
}

impl PixelType {
    /// The type for a Swath type, if the library supports it.
    pub(crate) fn of(dtype: DType) -> Option<PixelType> {
        match dtype {
            DType::U8 => Some(PixelType::U8),
            DType::U16 => Some(PixelType::U16),
            DType::I16 => Some(PixelType::I16),
            _ => None,
        }
    }

    /// `nvjpeg2kImageType_t`.
    fn number(self) -> i32 {
        match self {
            PixelType::U8 => 0,
            PixelType::U16 => 1,
            PixelType::I16 => 2,
        }
    }

    /// Bits of a sample.
    pub(crate) fn bits(self) -> u8 {
        if self == PixelType::U8 { 8 } else { 16 }
    }

    /// Whether samples have a sign.
    pub(crate) fn format(self) -> SampleFormat {
        if self == PixelType::I16 { SampleFormat::Int } else { SampleFormat::Uint }
    }
}

/// The picture that a codestream states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Picture {
    /// Of the picture.
    pub(crate) width: u32,
    /// Of the picture.
    pub(crate) height: u32,
    /// Its components, which may be smaller.
    pub(crate) components: Vec<Component>,
}

/// A component of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Component {
    /// Samples in a row.
    pub(crate) width: u32,
    /// Rows.
    pub(crate) height: u32,
    /// Bits of a sample.
    pub(crate) bits: u8,
    /// Whether samples are signed.
    pub(crate) signed: bool,
}

/// The library. Its objects must be used while the CUDA context is current in which they were created.
#[derive(Debug)]
pub(crate) struct NvJpeg2000 {
    found: Found,
    functions: Functions,
}

impl NvJpeg2000 {
    /// The library of this process.
    pub(crate) fn get() -> std::result::Result<&'static NvJpeg2000, &'static Missing> {
        static NVJPEG2K: OnceLock<std::result::Result<NvJpeg2000, Missing>> = OnceLock::new();
        NVJPEG2K.get_or_init(|| super::load(Library::NvJpeg2000, NvJpeg2000::bind)).as_ref()
    }

    /// The library in a file.
    #[cfg(test)]
    pub(crate) fn open(path: &Path) -> std::result::Result<NvJpeg2000, Refusal> {
        NvJpeg2000::bind(&Loaded::open(path)?)
    }

    fn bind(loaded: &Loaded) -> std::result::Result<NvJpeg2000, Refusal> {
        let functions = Functions::load(loaded, "")?;
        let ([major, ..], version) = semantic_version("nvjpeg2kGetProperty", functions.property)?;
        if major != 0 {
            return Err(Refusal::Version { found: version, wanted: "0" });
        }
        super::check_runtime(runtime_version("nvjpeg2kGetCudartProperty", functions.cudart)?)?;
        let path = loaded.path(loaded.symbol("nvjpeg2kGetProperty")?);
        Ok(NvJpeg2000 { functions, found: Found { library: Library::NvJpeg2000, version, path, detail: None } })
    }

    /// The CUDA version that the library was built for: 12090 is 12.9.
    #[cfg(test)]
    pub(super) fn cudart(&self) -> std::result::Result<u32, Refusal> {
        runtime_version("nvjpeg2kGetCudartProperty", self.functions.cudart)
    }

    /// What was found.
    pub(super) fn found(&self) -> &Found {
        &self.found
    }

    /// Creates a decoder.
    pub(crate) fn decoder(&'static self) -> Result<Decoder> {
        let Functions { create, destroy, .. } = self.functions;
        // SAFETY: there is room for the handle.
        let handle = Object::new(destroy, |place| check("nvjpeg2kCreateSimple", unsafe { create(place) }))?;
        Ok(Decoder { functions: &self.functions, handle: Arc::new(handle) })
    }

    /// Creates an encoder.
    pub(crate) fn encoder(&'static self) -> Result<Encoder> {
        let Functions { encoder_create, encoder_destroy, .. } = self.functions;
        let handle = Object::new(encoder_destroy, |place| {
            // SAFETY: there is room for the handle.
            check("nvjpeg2kEncoderCreateSimple", unsafe { encoder_create(place) })
        })?;
        Ok(Encoder { functions: &self.functions, handle: Arc::new(handle) })
    }
}

/// The decoder. Threads may share it.
#[derive(Debug, Clone)]
pub(crate) struct Decoder {
    functions: &'static Functions,
    handle: Arc<Object>,
}

/// Working memory of one picture at a time: it may be reused only after the CUDA stream of the last picture is synchronised.
#[derive(Debug)]
pub(crate) struct DecodeState {
    state: Object,
    /// The arguments of the last picture, which the library may read until the picture is decoded.
    planes: Vec<u64>,
    pitches: Vec<u64>,
    _decoder: Arc<Object>,
}

/// A codestream that was parsed.
#[derive(Debug)]
pub(crate) struct Codestream {
    stream: Object,
}

impl Decoder {
    /// Working memory for one picture. It takes device memory that the guard does not count.
    pub(crate) fn state(&self) -> Result<DecodeState> {
        let Functions { state_create, state_destroy, .. } = *self.functions;
        let state = Object::new(state_destroy, |place| {
            // SAFETY: the handle lives, and there is room for the state.
            check("nvjpeg2kDecodeStateCreate", unsafe { state_create(self.handle.pointer(), place) })
        })?;
        Ok(DecodeState { state, planes: Vec::new(), pitches: Vec::new(), _decoder: Arc::clone(&self.handle) })
    }

    /// Creates an object to parse codestreams into. It may be reused.
    pub(crate) fn codestream(&self) -> Result<Codestream> {
        let Functions { stream_create, stream_destroy, .. } = *self.functions;
        // SAFETY: there is room for the handle.
        let stream =
            Object::new(stream_destroy, |place| check("nvjpeg2kStreamCreate", unsafe { stream_create(place) }))?;
        Ok(Codestream { stream })
    }

    /// Parses a codestream, on the host.
    ///
    /// # Errors
    /// When the bytes are not a codestream, or the library cannot decode it.
    pub(crate) fn parse(&self, codestream: &mut Codestream, bytes: &[u8]) -> Result<Picture> {
        let Functions { parse, image_info, component_info, .. } = *self.functions;
        let stream = codestream.stream.pointer();
        // SAFETY: the handles live, and the slice has this many bytes. The library keeps their address until it decodes; `decode`
        // requires that they are still valid then.
        let code = unsafe { parse(self.handle.pointer(), bytes.as_ptr(), bytes.len() as u64, 0, 0, stream) };
        check("nvjpeg2kStreamParse", code)?;
        let mut image = ImageInfo::default();
        // SAFETY: there is room for the answer.
        check("nvjpeg2kStreamGetImageInfo", unsafe { image_info(stream, &mut image) })?;
        let component = |i| {
            let mut info = ComponentInfo::default();
            // SAFETY: there is room for the answer.
            check("nvjpeg2kStreamGetImageComponentInfo", unsafe { component_info(stream, &mut info, i) })?;
            let ComponentInfo { width, height, bits, signed } = info;
            Ok(Component { width, height, bits, signed: signed != 0 })
        };
        let components = (0..image.components).map(component).collect::<Result<_>>()?;
        Ok(Picture { width: image.width, height: image.height, components })
    }

    /// Enqueues the decoding of a codestream: each component into its own plane, with `pitch` bytes from one row to the next.
    ///
    /// # Errors
    /// When it could not be enqueued. Whether the decoding succeeded is known after the CUDA stream is synchronised.
    ///
    /// # Safety
    /// Until the CUDA stream is synchronised: the parsed bytes stay valid, the planes are device memory of at least `pitch` times the
    /// height of the component and do not overlap with any other plane, and the state and the codestream are used for nothing else. The
    /// CUDA stream is one of the current context, or null.
    pub(crate) unsafe fn decode(
        &self,
        state: &mut DecodeState,
        codestream: &Codestream,
        planes: &[u64],
        pitch: u64,
        pixel: PixelType,
        cuda: CudaStream,
    ) -> Result<()> {
        state.planes.clear();
        state.planes.extend_from_slice(planes);
        state.pitches.clear();
        state.pitches.resize(planes.len(), pitch);
        let mut image = Image {
            planes: state.planes.as_ptr(),
            pitches: state.pitches.as_ptr(),
            pixel: pixel.number(),
            components: planes.len() as u32,
        };
        let (handle, state, stream) = (self.handle.pointer(), state.state.pointer(), codestream.stream.pointer());
        // SAFETY: the handles live, the arrays have an entry for each component, and the rest is as the caller says.
        check("nvjpeg2kDecode", unsafe { (self.functions.decode)(handle, state, stream, &mut image, cuda) })
    }
}

/// Turns a code into an error, unless it is success.
fn check(call: &'static str, code: Status) -> Result<()> {
    let name = match code {
        0 => return Ok(()),
        1 => "NVJPEG2K_STATUS_NOT_INITIALIZED",
        2 => "NVJPEG2K_STATUS_INVALID_PARAMETER",
        3 => "NVJPEG2K_STATUS_BAD_JPEG",
        4 => "NVJPEG2K_STATUS_JPEG_NOT_SUPPORTED",
        5 => "NVJPEG2K_STATUS_ALLOCATOR_FAILURE",
        6 => "NVJPEG2K_STATUS_EXECUTION_FAILED",
        7 => "NVJPEG2K_STATUS_ARCH_MISMATCH",
        8 => "NVJPEG2K_STATUS_INTERNAL_ERROR",
        9 => "NVJPEG2K_STATUS_IMPLEMENTATION_NOT_SUPPORTED",
        _ => "a status of no name",
    };
    Err(Error::Library { library: Library::NvJpeg2000, call, code: format!("{name} ({code})") })
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_c_header() {
        assert_eq!((size_of::<ImageInfo>(), size_of::<ComponentInfo>()), (28, 12));
        assert_eq!((size_of::<Image>(), offset_of!(Image, pixel), offset_of!(Image, components)), (24, 16, 20));
    }
}
