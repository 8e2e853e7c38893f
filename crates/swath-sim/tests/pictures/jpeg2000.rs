//! Tests of nvJPEG2000.

use std::ffi::c_int;
use std::ptr::{null, null_mut};

use swath_codec::{Shape, jpeg2000};
use swath_sim::{device_bytes, events, inside_with};

use crate::{
    ALLOCATOR_FAILURE, BAD_JPEG, EXECUTION_FAILED, Gpu, Handle, ILLEGAL_ADDRESS, INVALID_PARAMETER, LAUNCH_FAILED,
    NOT_SUPPORTED, POISON, TYPES, made, noise, pitched, plane, shape,
};

library!(Jpeg2000, "libnvjpeg2k.so.0", {
    nvjpeg2kGetProperty(c_int, *mut c_int);
    nvjpeg2kGetCudartProperty(c_int, *mut c_int);
    nvjpeg2kCreateSimple(*mut Handle);
    nvjpeg2kDestroy(Handle);
    nvjpeg2kDecodeStateCreate(Handle, *mut Handle);
    nvjpeg2kDecodeStateDestroy(Handle);
    nvjpeg2kStreamCreate(*mut Handle);
    nvjpeg2kStreamDestroy(Handle);
    nvjpeg2kStreamParse(Handle, *const u8, usize, c_int, c_int, Handle);
    nvjpeg2kStreamGetImageInfo(Handle, *mut [u32; 7]);
    nvjpeg2kStreamGetImageComponentInfo(Handle, *mut Component, u32);
    nvjpeg2kDecodeParamsCreate(*mut Handle);
    nvjpeg2kDecodeParamsDestroy(Handle);
    nvjpeg2kDecodeParamsSetOutputFormat(Handle, c_int);
    nvjpeg2kDecode(Handle, Handle, Handle, *const Image, Handle);
    nvjpeg2kDecodeImage(Handle, Handle, Handle, Handle, *const Image, Handle);
    nvjpeg2kEncoderCreateSimple(*mut Handle);
    nvjpeg2kEncoderDestroy(Handle);
    nvjpeg2kEncodeStateCreate(Handle, *mut Handle);
    nvjpeg2kEncodeStateDestroy(Handle);
    nvjpeg2kEncodeParamsCreate(*mut Handle);
    nvjpeg2kEncodeParamsDestroy(Handle);
    nvjpeg2kEncodeParamsSetEncodeConfig(Handle, *const Config);
    nvjpeg2kEncodeParamsSetInputFormat(Handle, c_int);
    nvjpeg2kEncode(Handle, Handle, Handle, *const Image, Handle);
    nvjpeg2kEncodeRetrieveBitstream(Handle, Handle, *mut u8, *mut usize, Handle);
});

#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Component {
    width: u32,
    height: u32,
    precision: u8,
    sgn: u8,
}

#[repr(C)]
pub(crate) struct Image {
    pixel_data: *const u64,
    pitch: *const usize,
    pixel_type: c_int,
    components: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Config {
    stream_type: c_int,
    color_space: c_int,
    rsiz: u16,
    size: [u32; 2],
    tiling: [u32; 3],
    components: u32,
    component_info: *const Component,
    markers: [u32; 2],
    order: c_int,
    layers: u32,
    mct: u32,
    resolutions: u32,
    code_block: [u32; 2],
    modes: u32,
    irreversible: u32,
    precincts: u32,
    precinct: [[u32; 33]; 2],
}

fn lossless(picture: &[u8], shape: Shape) -> Vec<u8> {
    let mut out = Vec::new();
    let params = jpeg2000::EncodeParams { quality: jpeg2000::Quality::Lossless, rgb: false };
    jpeg2000::encode(&params, picture, shape, &mut out).expect("an ordinary picture");
    out
}

/// The decoder of nvJPEG2000 with everything that decoding a picture needs.
struct Decoder {
    api: Jpeg2000,
    handle: Handle,
    state: Handle,
    stream: Handle,
}

impl Decoder {
    fn new() -> Decoder {
        let api = Jpeg2000::load();
        // SAFETY: the arguments follow the manual, here and below.
        unsafe {
            let handle = made(|to| (api.nvjpeg2kCreateSimple)(to));
            let state = made(|to| (api.nvjpeg2kDecodeStateCreate)(handle, to));
            let stream = made(|to| (api.nvjpeg2kStreamCreate)(to));
            Decoder { api, handle, state, stream }
        }
    }

    fn parse(&self, bytes: &[u8]) -> c_int {
        // SAFETY: as above.
        unsafe { (self.api.nvjpeg2kStreamParse)(self.handle, bytes.as_ptr(), bytes.len(), 0, 0, self.stream) }
    }

    fn decode(&self, gpu: &Gpu, planes: &[u64], pitch: usize, pixel_type: c_int) -> c_int {
        let pitches = vec![pitch; planes.len()];
        let (pixel_data, pitch, components) = (planes.as_ptr(), pitches.as_ptr(), planes.len() as u32);
        let image = Image { pixel_data, pitch, pixel_type, components };
        // SAFETY: as above.
        unsafe { (self.api.nvjpeg2kDecode)(self.handle, self.state, self.stream, &image, gpu.stream) }
    }

    fn close(self) {
        // SAFETY: as above.
        unsafe {
            assert_eq!((self.api.nvjpeg2kStreamDestroy)(self.stream), 0);
            assert_eq!((self.api.nvjpeg2kDecodeStateDestroy)(self.state), 0);
            assert_eq!((self.api.nvjpeg2kDestroy)(self.handle), 0);
        }
    }
}

/// The encoder of nvJPEG2000.
struct Encoder {
    api: Jpeg2000,
    handle: Handle,
    state: Handle,
    params: Handle,
}

/// The configuration of a lossless picture.
fn config(width: u32, height: u32, components: &[Component]) -> Config {
    Config {
        stream_type: 0,
        color_space: if components.len() == 1 { 2 } else { 1 },
        rsiz: 0,
        size: [width, height],
        tiling: [0; 3],
        components: components.len() as u32,
        component_info: components.as_ptr(),
        markers: [0; 2],
        order: 0,
        layers: 1,
        mct: 0,
        resolutions: 1,
        code_block: [64; 2],
        modes: 0,
        irreversible: 0,
        precincts: 0,
        precinct: [[0; 33]; 2],
    }
}

impl Encoder {
    fn new() -> Encoder {
        let api = Jpeg2000::load();
        // SAFETY: the arguments follow the manual, here and below.
        unsafe {
            let handle = made(|to| (api.nvjpeg2kEncoderCreateSimple)(to));
            let state = made(|to| (api.nvjpeg2kEncodeStateCreate)(handle, to));
            let params = made(|to| (api.nvjpeg2kEncodeParamsCreate)(to));
            Encoder { api, handle, state, params }
        }
    }

    fn configure(&self, config: Config) -> c_int {
        // SAFETY: as above.
        unsafe { (self.api.nvjpeg2kEncodeParamsSetEncodeConfig)(self.params, &config) }
    }

    fn encode(&self, gpu: &Gpu, planes: &[u64], pitch: usize, pixel_type: c_int, components: usize) -> c_int {
        let pitches = vec![pitch; planes.len()];
        let (pixel_data, pitch, components) = (planes.as_ptr(), pitches.as_ptr(), components as u32);
        let image = Image { pixel_data, pitch, pixel_type, components };
        // SAFETY: as above.
        unsafe { (self.api.nvjpeg2kEncode)(self.handle, self.state, self.params, &image, gpu.stream) }
    }

    fn retrieve(&self, gpu: &Gpu, to: *mut u8, length: &mut usize) -> c_int {
        // SAFETY: as above.
        unsafe { (self.api.nvjpeg2kEncodeRetrieveBitstream)(self.handle, self.state, to, length, gpu.stream) }
    }

    /// Returns the stream, in the two steps that the manual shows.
    fn stream(&self, gpu: &Gpu) -> Vec<u8> {
        let mut length = 0;
        assert_eq!(self.retrieve(gpu, null_mut(), &mut length), 0);
        let mut out = vec![0; length];
        assert_eq!(self.retrieve(gpu, out.as_mut_ptr(), &mut length), 0);
        assert_eq!((length, gpu.synchronize()), (out.len(), 0));
        out
    }

    fn close(self) {
        // SAFETY: as above.
        unsafe {
            assert_eq!((self.api.nvjpeg2kEncodeParamsDestroy)(self.params), 0);
            assert_eq!((self.api.nvjpeg2kEncodeStateDestroy)(self.state), 0);
            assert_eq!((self.api.nvjpeg2kEncoderDestroy)(self.handle), 0);
        }
    }
}

#[test]
fn every_type_and_number_of_components_survives_encoding_and_decoding() {
    if !inside_with("jpeg2000::every_type_and_number_of_components_survives_encoding_and_decoding", &["nvjpeg2k"], &[])
    {
        return;
    }
    let gpu = Gpu::open();
    let (decoder, encoder) = (Decoder::new(), Encoder::new());
    // SAFETY: the arguments follow the manual.
    let params = made(|to| unsafe { (decoder.api.nvjpeg2kDecodeParamsCreate)(to) });
    let cases = TYPES.into_iter().flat_map(|kind| (1..=4).map(move |samples| (kind, samples)));
    for ((kind, samples), interleaved) in cases.flat_map(|case| [(case, false), (case, true)]) {
        let shape = shape(37, 21, samples, kind);
        let (pixel_type, bytes) = (kind.0, kind.1 / 8);
        let picture = noise(shape.len(), samples as u32);
        let contents: Vec<_> = match interleaved {
            true => vec![picture.clone()],
            false => (0..samples).map(|n| plane(&picture, n, samples, bytes)).collect(),
        };
        let row = 37 * bytes * samples / contents.len();
        let pitch = row.next_multiple_of(16) + 16;

        let planes: Vec<_> = contents.iter().map(|content| gpu.put(&pitched(content, row, pitch))).collect();
        let component = Component { width: 37, height: 21, precision: kind.1 as u8, sgn: (pixel_type == 2).into() };
        let components = vec![component; samples];
        let mct = u32::from(samples == 3);
        assert_eq!(encoder.configure(Config { mct, resolutions: 5, ..config(37, 21, &components) }), 0);
        // SAFETY: the arguments follow the manual.
        unsafe {
            let format = c_int::from(interleaved);
            assert_eq!((encoder.api.nvjpeg2kEncodeParamsSetInputFormat)(encoder.params, format), 0);
            assert_eq!((decoder.api.nvjpeg2kDecodeParamsSetOutputFormat)(params, format), 0);
        }
        assert_eq!(encoder.encode(&gpu, &planes, pitch, pixel_type, samples), 0);
        let stream = encoder.stream(&gpu);
        planes.into_iter().for_each(|plane| gpu.free(plane));
        let mut decoded = vec![0; shape.len()];
        jpeg2000::decode(&stream, shape, jpeg2000::Colour::Stored, &mut decoded).expect("a stream");
        assert!(decoded == picture, "{kind:?}, {samples} samples, interleaved {interleaved}");

        assert_eq!(decoder.parse(&stream), 0);
        let planes: Vec<_> = contents.iter().map(|_| gpu.alloc(pitch * 21)).collect();
        let pitches = vec![pitch; planes.len()];
        let (pixel_data, pitches, components) = (planes.as_ptr(), pitches.as_ptr(), samples as u32);
        let image = Image { pixel_data, pitch: pitches, pixel_type, components };
        let Decoder { api, handle, state, stream } = &decoder;
        // SAFETY: the arguments follow the manual.
        assert_eq!(unsafe { (api.nvjpeg2kDecodeImage)(*handle, *state, *stream, params, &image, gpu.stream) }, 0);
        for (plane, content) in planes.into_iter().zip(contents) {
            assert!(gpu.get(plane, pitch * 21) == pitched(&content, row, pitch), "{kind:?}, {samples} samples");
            gpu.free(plane);
        }
    }
    // SAFETY: the arguments follow the manual.
    assert_eq!(unsafe { (decoder.api.nvjpeg2kDecodeParamsDestroy)(params) }, 0);
    decoder.close();
    encoder.close();
    assert_eq!(device_bytes(), 0);
}

#[test]
fn jpeg_2000_headers_are_reported_and_truncated_streams_are_refused() {
    if !inside_with("jpeg2000::jpeg_2000_headers_are_reported_and_truncated_streams_are_refused", &["nvjpeg2k"], &[]) {
        return;
    }
    let gpu = Gpu::open();
    let decoder = Decoder::new();
    let mut value = 0;
    // SAFETY: the arguments follow the manual or are null, here and below.
    let versions = [0, 1, 2].map(|which| unsafe {
        assert_eq!((decoder.api.nvjpeg2kGetProperty)(which, &mut value), 0);
        let version = value;
        assert_eq!((decoder.api.nvjpeg2kGetCudartProperty)(which, &mut value), 0);
        (version, value)
    });
    assert_eq!(versions, [(0, 12), (11, 9), (0, 0)]);
    // SAFETY: as above.
    assert_eq!(unsafe { (decoder.api.nvjpeg2kGetProperty)(3, &mut value) }, INVALID_PARAMETER);

    let image_info = || {
        let (mut image, mut component) = ([0; 7], Component::default());
        // SAFETY: as above.
        unsafe {
            assert_eq!((decoder.api.nvjpeg2kStreamGetImageInfo)(decoder.stream, &mut image), 0);
            let count = image[6];
            let ask = decoder.api.nvjpeg2kStreamGetImageComponentInfo;
            assert_eq!(ask(decoder.stream, &mut component, count - 1), 0);
            assert_eq!(ask(decoder.stream, &mut component, count), INVALID_PARAMETER);
        }
        (image, component)
    };
    let gray12: &[u8] = include_bytes!("../../../swath-codec/testdata/gray12.j2k");
    assert_eq!(decoder.parse(gray12), 0);
    assert_eq!(image_info(), ([16, 12, 16, 12, 1, 1, 1], Component { width: 16, height: 12, precision: 12, sgn: 0 }));
    // Twelve bits need an unsigned 16-bit type.
    let memory = gpu.alloc(16 * 12 * 2);
    assert_eq!([0, 2, 3].map(|pixel| decoder.decode(&gpu, &[memory], 32, pixel)), [INVALID_PARAMETER; 3]);
    assert_eq!(decoder.decode(&gpu, &[memory], 32, 1), 0);
    let mut expected = vec![0; 16 * 12 * 2];
    jpeg2000::decode(gray12, shape(16, 12, 1, TYPES[1]), jpeg2000::Colour::Stored, &mut expected).expect("a stream");
    assert!(gpu.get(memory, expected.len()) == expected);

    let int16: &[u8] = include_bytes!("../../../swath-codec/testdata/int16.jp2");
    assert_eq!(decoder.parse(int16), 0);
    assert_eq!(image_info(), ([16, 12, 16, 12, 1, 1, 1], Component { width: 16, height: 12, precision: 16, sgn: 1 }));
    assert_eq!([0, 1].map(|pixel| decoder.decode(&gpu, &[memory], 32, pixel)), [INVALID_PARAMETER; 2]);
    assert_eq!(decoder.decode(&gpu, &[memory], 32, 2), 0);
    assert_eq!(gpu.synchronize(), 0);

    // A picture that cannot be parsed discards the previous one.
    for length in [0, 1, 20, 100, gray12.len() - 1] {
        assert_eq!(decoder.parse(&gray12[..length]), BAD_JPEG, "{length} bytes");
    }
    // SAFETY: as above.
    let forgotten = unsafe { (decoder.api.nvjpeg2kStreamGetImageInfo)(decoder.stream, &mut [0; 7]) };
    assert_eq!([forgotten, decoder.decode(&gpu, &[memory], 32, 1)], [INVALID_PARAMETER; 2]);
    // The headers are valid and the packets are not: errors that the host finds are reported immediately.
    let mut broken = gray12.to_vec();
    let data = broken.windows(2).position(|marker| marker == [0xff, 0x93]).expect("a tile") + 2;
    broken[data..].fill(0xff);
    let end = broken.len() - 2;
    broken[end..].copy_from_slice(&[0xff, 0xd9]);
    assert_eq!(decoder.parse(&broken), 0);
    assert_eq!(decoder.decode(&gpu, &[memory], 32, 1), BAD_JPEG);
    assert_eq!(gpu.synchronize(), 0);
    gpu.free(memory);
    decoder.close();
    assert_eq!(device_bytes(), 0);
}

#[test]
fn pictures_are_written_at_synchronisation_and_states_are_free_then() {
    if !inside_with("jpeg2000::pictures_are_written_at_synchronisation_and_states_are_free_then", &["nvjpeg2k"], &[]) {
        return;
    }
    let gpu = Gpu::open();
    let decoder = Decoder::new();
    let picture = noise(64 * 64, 1);
    let stream = lossless(&picture, shape(64, 64, 1, TYPES[0]));
    assert_eq!(decoder.parse(&stream), 0);
    let memory = gpu.alloc(64 * 64);
    assert_eq!(decoder.decode(&gpu, &[memory], 64, 0), 0);
    assert!(
        gpu.peek(memory, 64 * 64).iter().all(|&byte| byte == POISON),
        "the picture was written before synchronisation"
    );
    // Neither the state nor the bitstream may be used now.
    assert_eq!(decoder.decode(&gpu, &[memory], 64, 0), INVALID_PARAMETER);
    assert_eq!(decoder.parse(&stream), INVALID_PARAMETER);
    // Another state may decode the same bitstream in the meantime.
    // SAFETY: the arguments follow the manual.
    let state = made(|to| unsafe { (decoder.api.nvjpeg2kDecodeStateCreate)(decoder.handle, to) });
    let other = Decoder { api: Jpeg2000::load(), state, ..decoder };
    let second = gpu.alloc(64 * 64);
    assert_eq!(other.decode(&gpu, &[second], 64, 0), 0);
    assert!(gpu.get(memory, 64 * 64) == picture && gpu.peek(second, 64 * 64) == picture);
    assert_eq!((decoder.decode(&gpu, &[memory], 64, 0), gpu.synchronize(), decoder.parse(&stream)), (0, 0, 0));

    let decodes = events().iter().filter(|event| *event == "nvjpeg2kDecode").count();
    assert_eq!(decodes, 4, "the refused transfer is counted");
    // States hold device memory until they are destroyed.
    let held = device_bytes();
    // SAFETY: the arguments follow the manual.
    assert_eq!(unsafe { (other.api.nvjpeg2kDecodeStateDestroy)(state) }, 0);
    assert!(device_bytes() < held);
    // SAFETY: the simulator knows that it was destroyed.
    assert_eq!(unsafe { (other.api.nvjpeg2kDecodeStateDestroy)(state) }, INVALID_PARAMETER);
    gpu.free(memory);
    gpu.free(second);
    decoder.close();
    assert_eq!(device_bytes(), 0);
}

#[test]
fn codestream_overwritten_before_decoding_is_detected() {
    if !inside_with("jpeg2000::codestream_overwritten_before_decoding_is_detected", &["nvjpeg2k"], &[]) {
        return;
    }
    let gpu = Gpu::open();
    let decoder = Decoder::new();
    let stream = lossless(&noise(64 * 64, 1), shape(64, 64, 1, TYPES[0]));
    let memory = gpu.alloc(64 * 64);
    // SAFETY: the arguments follow the manual, except for the last byte.
    unsafe {
        let pinned = made(|to| (gpu.cuda.cuMemHostAlloc)(to, stream.len(), 0)).cast::<u8>();
        pinned.copy_from_nonoverlapping(stream.as_ptr(), stream.len());
        assert_eq!(decoder.parse(std::slice::from_raw_parts(pinned, stream.len())), 0);
        assert_eq!((decoder.decode(&gpu, &[memory], 64, 0), gpu.synchronize()), (0, 0));
        assert_eq!(decoder.decode(&gpu, &[memory], 64, 0), 0);
        pinned.add(stream.len() - 1).write(0);
        assert_eq!(gpu.synchronize(), ILLEGAL_ADDRESS);
    }
}

/// Decodes into memory that must not be written, and returns the result of the stream.
fn caught(test: &str, planes: impl FnOnce(&Gpu) -> Vec<u64>) {
    if !inside_with(test, &["nvjpeg2k"], &[]) {
        return;
    }
    let gpu = Gpu::open();
    let decoder = Decoder::new();
    let planes = planes(&gpu);
    let shape = shape(32, 32, planes.len(), TYPES[1]);
    assert_eq!(decoder.parse(&lossless(&noise(shape.len(), 2), shape)), 0);
    assert_eq!(decoder.decode(&gpu, &planes, 64, 1), 0, "only the stream can detect it");
    assert_eq!(gpu.synchronize(), ILLEGAL_ADDRESS);
    assert_eq!(decoder.decode(&gpu, &planes, 64, 1), EXECUTION_FAILED, "the context is dead");
}

#[test]
fn host_memory_for_a_picture_is_detected() {
    let host = vec![0_u64; 256];
    caught("jpeg2000::host_memory_for_a_picture_is_detected", |_| vec![host.as_ptr() as u64]);
    assert!(host.iter().all(|&word| word == 0));
}

#[test]
fn memory_one_byte_too_small_for_a_picture_is_detected() {
    caught("jpeg2000::memory_one_byte_too_small_for_a_picture_is_detected", |gpu| vec![gpu.alloc(32 * 64 - 1)]);
}

#[test]
fn overlapping_planes_are_detected() {
    caught("jpeg2000::overlapping_planes_are_detected", |gpu| {
        let memory = gpu.alloc(2 * 32 * 64);
        vec![memory, memory + 32 * 64 - 64]
    });
}

#[test]
fn samples_at_odd_addresses_are_detected() {
    caught("jpeg2000::samples_at_odd_addresses_are_detected", |gpu| vec![gpu.alloc(32 * 64 + 1) + 1]);
}

#[test]
fn encoder_of_jpeg_2000_refuses_invalid_configurations() {
    if !inside_with("jpeg2000::encoder_of_jpeg_2000_refuses_invalid_configurations", &["nvjpeg2k"], &[]) {
        return;
    }
    let gpu = Gpu::open();
    let encoder = Encoder::new();
    let memory = gpu.put(&noise(32 * 32 * 3, 3));
    let planes = [memory, memory + 1024, memory + 2048];
    let mut length = 0;
    assert_eq!(encoder.retrieve(&gpu, null_mut(), &mut length), INVALID_PARAMETER, "nothing was encoded");
    assert_eq!(encoder.encode(&gpu, &planes, 32, 0, 3), INVALID_PARAMETER, "no configuration");

    // The results of the real library for the same configurations.
    let components = [Component { width: 32, height: 32, precision: 8, sgn: 0 }; 5];
    let mixed = [components[0], Component { precision: 16, ..components[0] }, components[0]];
    let rgb = config(32, 32, &components[..3]);
    let refused = [
        (Config { component_info: null(), ..rgb }, INVALID_PARAMETER),
        (Config { stream_type: 2, ..rgb }, INVALID_PARAMETER),
        (Config { color_space: 0, ..rgb }, INVALID_PARAMETER),
        (Config { color_space: 1, ..config(32, 32, &components[..1]) }, INVALID_PARAMETER),
        (Config { color_space: 3, mct: 1, ..rgb }, INVALID_PARAMETER),
        (Config { mct: 2, ..rgb }, INVALID_PARAMETER),
        (Config { size: [0, 32], ..rgb }, INVALID_PARAMETER),
        (Config { size: [1, 32], ..rgb }, NOT_SUPPORTED),
        (Config { tiling: [1, 33, 32], ..rgb }, INVALID_PARAMETER),
        (Config { resolutions: 0, ..rgb }, INVALID_PARAMETER),
        (Config { resolutions: 7, ..rgb }, INVALID_PARAMETER),
        (Config { irreversible: 2, ..rgb }, INVALID_PARAMETER),
        (config(32, 32, &components), NOT_SUPPORTED),
        (config(32, 32, &mixed), NOT_SUPPORTED),
        (Config { rsiz: 1, ..rgb }, NOT_SUPPORTED),
        (Config { markers: [1, 0], ..rgb }, NOT_SUPPORTED),
        (Config { markers: [0, 1], ..rgb }, NOT_SUPPORTED),
        (Config { layers: 2, ..rgb }, NOT_SUPPORTED),
        (Config { order: 5, ..rgb }, NOT_SUPPORTED),
        (Config { code_block: [16, 64], ..rgb }, NOT_SUPPORTED),
        (Config { code_block: [64, 128], ..rgb }, NOT_SUPPORTED),
    ];
    for (index, (config, status)) in refused.into_iter().enumerate() {
        assert_eq!(encoder.configure(config), status, "configuration {index}");
    }
    // Settings that only the real library supports are refused when a picture is encoded.
    for beyond in
        [Config { irreversible: 1, ..rgb }, Config { tiling: [1, 16, 16], ..rgb }, Config { stream_type: 1, ..rgb }]
    {
        assert_eq!(encoder.configure(beyond), 0);
        assert_eq!(encoder.encode(&gpu, &planes, 32, 0, 3), NOT_SUPPORTED);
    }
    assert_eq!(encoder.configure(Config { resolutions: 6, ..rgb }), 0);
    assert_eq!(encoder.encode(&gpu, &planes, 31, 0, 3), INVALID_PARAMETER, "rows do not fit the pitch");
    assert_eq!(encoder.encode(&gpu, &planes, 32, 0, 2), INVALID_PARAMETER);
    assert_eq!(encoder.encode(&gpu, &planes, 32, 2, 3), INVALID_PARAMETER);

    assert_eq!(encoder.encode(&gpu, &planes, 32, 0, 3), 0);
    assert_eq!(encoder.encode(&gpu, &planes, 32, 0, 3), INVALID_PARAMETER, "the state is in use");
    assert_eq!(encoder.retrieve(&gpu, null_mut(), &mut length), 0);
    let mut out = vec![0; length];
    let mut room = length - 1;
    assert_eq!(encoder.retrieve(&gpu, out.as_mut_ptr(), &mut room), INVALID_PARAMETER);

    // Pinned memory receives the stream at synchronisation.
    // SAFETY: the arguments follow the manual.
    unsafe {
        let pinned = made(|to| (gpu.cuda.cuMemHostAlloc)(to, length, 0));
        assert_eq!(encoder.retrieve(&gpu, pinned.cast(), &mut length), 0);
        let bytes = move || std::slice::from_raw_parts(pinned.cast::<u8>(), length).to_vec();
        assert!(bytes().iter().all(|&byte| byte == POISON));
        assert_eq!(encoder.retrieve(&gpu, out.as_mut_ptr(), &mut length), 0);
        assert!(out.starts_with(&[0xff, 0x4f]) && bytes() == out);
        assert_eq!((gpu.cuda.cuMemFreeHost)(pinned), 0);
    }
    // Host memory as a source.
    let host = vec![0_u8; 3072];
    let planes = [0, 1024, 2048].map(|at| host.as_ptr() as u64 + at);
    assert_eq!((encoder.encode(&gpu, &planes, 32, 0, 3), gpu.synchronize()), (0, ILLEGAL_ADDRESS));
}

#[test]
fn failures_of_jpeg_2000_have_their_own_statuses() {
    let fail = "j2k-parse:2,j2k-decode:2,j2k-late:2,j2k-state:3,j2k-encode:1";
    if !inside_with(
        "jpeg2000::failures_of_jpeg_2000_have_their_own_statuses",
        &["nvjpeg2k"],
        &[("SWATH_SIM_FAIL", fail)],
    ) {
        return;
    }
    let gpu = Gpu::open();
    let (decoder, encoder) = (Decoder::new(), Encoder::new());
    let held = device_bytes();
    // SAFETY: the arguments follow the manual.
    let third = unsafe { (decoder.api.nvjpeg2kDecodeStateCreate)(decoder.handle, &mut null_mut()) };
    assert_eq!((third, device_bytes()), (ALLOCATOR_FAILURE, held));

    let picture = noise(16 * 16, 4);
    let stream = lossless(&picture, shape(16, 16, 1, TYPES[0]));
    assert_eq!([0; 3].map(|_| decoder.parse(&stream)), [0, BAD_JPEG, 0]);
    let memory = gpu.alloc(256);
    let component = [Component { width: 16, height: 16, precision: 8, sgn: 0 }];
    assert_eq!(encoder.configure(config(16, 16, &component)), 0);
    assert_eq!(encoder.encode(&gpu, &[memory], 16, 0, 1), EXECUTION_FAILED);
    assert_eq!((decoder.decode(&gpu, &[memory], 16, 0), gpu.synchronize()), (0, 0));
    assert_eq!(decoder.decode(&gpu, &[memory], 16, 0), EXECUTION_FAILED);
    assert!(gpu.get(memory, 256) == picture, "after a failure the state is free and the stream is alive");
    encoder.close();
    // The last failure appears when the stream is synchronised.
    assert_eq!((decoder.decode(&gpu, &[memory], 16, 0), gpu.synchronize()), (0, LAUNCH_FAILED));
}
