//! Tests of nvJPEG.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use swath_codec::jpeg;
use swath_sim::{device_bytes, events, inside_with};

use crate::{
    ALLOCATOR_FAILURE, BAD_JPEG, EXECUTION_FAILED, Gpu, Handle, ILLEGAL_ADDRESS, INVALID_PARAMETER, NOT_SUPPORTED,
    POISON, TYPES, made, pitched, plane, shape, waves,
};

library!(Jpeg, "libnvjpeg.so.12", {
    nvjpegGetProperty(c_int, *mut c_int);
    nvjpegGetCudartProperty(c_int, *mut c_int);
    nvjpegCreateSimple(*mut Handle);
    nvjpegCreateEx(c_int, *const c_void, *const c_void, c_uint, *mut Handle);
    nvjpegDestroy(Handle);
    nvjpegJpegStateCreate(Handle, *mut Handle);
    nvjpegJpegStateDestroy(Handle);
    nvjpegGetImageInfo(Handle, *const u8, usize, *mut c_int, *mut c_int, *mut [c_int; 4], *mut [c_int; 4]);
    nvjpegDecode(Handle, Handle, *const u8, usize, c_int, *const Channels, Handle);
    nvjpegDecodeBatchedInitialize(Handle, Handle, c_int, c_int, c_int);
    nvjpegDecodeBatched(Handle, Handle, *const *const u8, *const usize, *const Channels, Handle);
    nvjpegEncoderStateCreate(Handle, *mut Handle, Handle);
    nvjpegEncoderStateDestroy(Handle);
    nvjpegEncoderParamsCreate(Handle, *mut Handle, Handle);
    nvjpegEncoderParamsDestroy(Handle);
    nvjpegEncoderParamsSetQuality(Handle, c_int, Handle);
    nvjpegEncoderParamsSetEncoding(Handle, c_int, Handle);
    nvjpegEncoderParamsSetOptimizedHuffman(Handle, c_int, Handle);
    nvjpegEncoderParamsSetSamplingFactors(Handle, c_int, Handle);
    nvjpegEncodeGetBufferSize(Handle, Handle, c_int, c_int, *mut usize);
    nvjpegEncodeImage(Handle, Handle, Handle, *const Channels, c_int, c_int, c_int, Handle);
    nvjpegEncodeYUV(Handle, Handle, Handle, *const Channels, c_int, c_int, c_int, Handle);
    nvjpegEncodeRetrieveBitstream(Handle, Handle, *mut u8, *mut usize, Handle);
});

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Channels {
    channel: [u64; 4],
    pitch: [usize; 4],
}

/// nvJPEG with everything that encoding and decoding need.
struct Codec {
    api: Jpeg,
    handle: Handle,
    decoder: Handle,
    encoder: Handle,
    params: Handle,
}

const GRAY: c_int = 6;

impl Codec {
    fn new(gpu: &Gpu) -> Codec {
        let api = Jpeg::load();
        // SAFETY: the arguments follow the manual, here and below.
        unsafe {
            let handle = made(|to| (api.nvjpegCreateSimple)(to));
            let decoder = made(|to| (api.nvjpegJpegStateCreate)(handle, to));
            let encoder = made(|to| (api.nvjpegEncoderStateCreate)(handle, to, gpu.stream));
            let params = made(|to| (api.nvjpegEncoderParamsCreate)(handle, to, gpu.stream));
            Codec { api, handle, decoder, encoder, params }
        }
    }

    /// Returns the number of components, the sampling and the sizes.
    fn info(&self, stream: &[u8]) -> Result<(c_int, c_int, [c_int; 4], [c_int; 4]), c_int> {
        let (mut count, mut sampling, mut widths, mut heights) = (0, 0, [9; 4], [9; 4]);
        let (data, length) = (stream.as_ptr(), stream.len());
        // SAFETY: as above.
        let status = unsafe {
            let ask = self.api.nvjpegGetImageInfo;
            ask(self.handle, data, length, &mut count, &mut sampling, &mut widths, &mut heights)
        };
        if status == 0 { Ok((count, sampling, widths, heights)) } else { Err(status) }
    }

    fn decode(&self, gpu: &Gpu, stream: &[u8], format: c_int, to: Channels) -> c_int {
        let (data, length) = (stream.as_ptr(), stream.len());
        // SAFETY: as above.
        unsafe { (self.api.nvjpegDecode)(self.handle, self.decoder, data, length, format, &to, gpu.stream) }
    }

    /// Returns the stream of a picture of this size and input format. 0 means planes that are encoded
    /// unchanged.
    fn encode(
        &self,
        gpu: &Gpu,
        from: Channels,
        format: c_int,
        sampling: c_int,
        (width, height): (usize, usize),
    ) -> c_int {
        let (width, height) = (width as c_int, height as c_int);
        let Codec { api, handle, encoder, params, .. } = self;
        // SAFETY: as above.
        unsafe {
            match format {
                0 => (api.nvjpegEncodeYUV)(*handle, *encoder, *params, &from, sampling, width, height, gpu.stream),
                _ => (api.nvjpegEncodeImage)(*handle, *encoder, *params, &from, format, width, height, gpu.stream),
            }
        }
    }

    fn set(&self, gpu: &Gpu, quality: c_int, sampling: c_int, optimized: c_int) {
        // SAFETY: as above.
        unsafe {
            assert_eq!((self.api.nvjpegEncoderParamsSetQuality)(self.params, quality, gpu.stream), 0);
            assert_eq!((self.api.nvjpegEncoderParamsSetEncoding)(self.params, 0xc0, gpu.stream), 0);
            assert_eq!((self.api.nvjpegEncoderParamsSetOptimizedHuffman)(self.params, optimized, gpu.stream), 0);
            assert_eq!((self.api.nvjpegEncoderParamsSetSamplingFactors)(self.params, sampling, gpu.stream), 0);
        }
    }

    fn retrieve(&self, gpu: &Gpu, to: *mut u8, length: &mut usize) -> c_int {
        // SAFETY: as above.
        unsafe { (self.api.nvjpegEncodeRetrieveBitstream)(self.handle, self.encoder, to, length, gpu.stream) }
    }

    fn stream(&self, gpu: &Gpu) -> Vec<u8> {
        let mut length = 0;
        assert_eq!(self.retrieve(gpu, null_mut(), &mut length), 0);
        let mut out = vec![0; length];
        assert_eq!((self.retrieve(gpu, out.as_mut_ptr(), &mut length), gpu.synchronize()), (0, 0));
        out
    }

    fn close(self) {
        // SAFETY: as above.
        unsafe {
            assert_eq!((self.api.nvjpegEncoderParamsDestroy)(self.params), 0);
            assert_eq!((self.api.nvjpegEncoderStateDestroy)(self.encoder), 0);
            assert_eq!((self.api.nvjpegJpegStateDestroy)(self.decoder), 0);
            assert_eq!((self.api.nvjpegDestroy)(self.handle), 0);
        }
    }
}

fn channels(planes: &[u64], pitch: usize) -> Channels {
    let mut out = Channels { channel: [0; 4], pitch: [0; 4] };
    for (n, plane) in planes.iter().enumerate() {
        (out.channel[n], out.pitch[n]) = (*plane, pitch);
    }
    out
}

/// Decodes a complete stream with `swath-codec`: YCbCr as RGB, or unchanged components.
fn decoded(stream: &[u8], width: usize, height: usize, samples: usize, rgb: bool) -> Vec<u8> {
    let mut out = vec![0; width * height * samples];
    let params = jpeg::Params { tables: None, photometric: if rgb { 6 } else { 2 } };
    jpeg::decode(&params, stream, shape(width, height, samples, TYPES[0]), &mut out).expect("a stream");
    out
}

fn close(a: &[u8], b: &[u8], tolerance: u8) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.abs_diff(*b) <= tolerance)
}

#[test]
fn colours_of_every_sampling_survive_encoding_and_decoding() {
    if !inside_with("jpeg::colours_of_every_sampling_survive_encoding_and_decoding", &["nvjpeg"], &[]) {
        return;
    }
    let gpu = Gpu::open();
    let codec = Codec::new(&gpu);
    let (width, height) = (45, 27);
    let picture = waves(width, height, 3);
    let interleaved = gpu.put(&pitched(&picture, 135, 150));
    let planar: Vec<u64> = (0..3).map(|n| gpu.put(&pitched(&plane(&picture, n, 3, 1), width, 64))).collect();
    let out = gpu.alloc(160 * height);
    let planes: Vec<u64> = (0..4).map(|_| gpu.alloc(64 * height)).collect();

    for (sampling, chroma) in [(0, (45, 27)), (1, (23, 27)), (2, (23, 14))] {
        codec.set(&gpu, 95, sampling, 0);
        assert_eq!(codec.encode(&gpu, channels(&[interleaved], 150), 5, 0, (width, height)), 0);
        let stream = codec.stream(&gpu);
        assert!(stream.starts_with(b"\xff\xd8\xff\xe0\0\x10JFIF\0"));
        assert_eq!(codec.encode(&gpu, channels(&planar, 64), 3, 0, (width, height)), 0);
        assert!(codec.stream(&gpu) == stream);
        let (w, h) = chroma;
        assert_eq!(codec.info(&stream), Ok((3, sampling, [45, w, w, 0], [27, h, h, 0])));

        let rgb = decoded(&stream, width, height, 3, true);
        // Halved chroma differs by its change between neighbouring pixels.
        assert!(close(&rgb, &picture, if sampling == 0 { 8 } else { 40 }), "sampling {sampling}");
        assert_eq!(codec.decode(&gpu, &stream, 5, channels(&[out], 160)), 0);
        assert!(gpu.get(out, 160 * height) == pitched(&rgb, 135, 160));
        assert_eq!(codec.decode(&gpu, &stream, 3, channels(&planes, 64)), 0);
        for (n, &memory) in planes[..3].iter().enumerate() {
            assert!(gpu.get(memory, 64 * height) == pitched(&plane(&rgb, n, 3, 1), width, 64));
        }
        let stored = decoded(&stream, width, height, 3, false);
        assert_eq!(codec.decode(&gpu, &stream, 2, channels(&planes, 64)), 0);
        assert!(gpu.get(planes[0], 64 * height) == pitched(&plane(&stored, 0, 3, 1), width, 64));
        // Unchanged components have their own sizes, which the simulator does not change.
        let unchanged = codec.decode(&gpu, &stream, 0, channels(&planes, 64));
        assert_eq!(unchanged, if sampling == 0 { 0 } else { NOT_SUPPORTED });
        if sampling == 0 {
            assert!(gpu.get(planes[2], 64 * height) == pitched(&plane(&stored, 2, 3, 1), width, 64));
        }
    }
    [interleaved, out].into_iter().chain(planar).chain(planes).for_each(|memory| gpu.free(memory));
    codec.close();
    assert_eq!(device_bytes(), 0);
}

#[test]
fn grey_and_unchanged_planes_survive_encoding_and_decoding() {
    if !inside_with("jpeg::grey_and_unchanged_planes_survive_encoding_and_decoding", &["nvjpeg"], &[]) {
        return;
    }
    let gpu = Gpu::open();
    let codec = Codec::new(&gpu);
    let (width, height) = (40, 33);
    let picture = waves(width, height, 3);
    let planar: Vec<u64> = (0..3).map(|n| gpu.put(&plane(&picture, n, 3, 1))).collect();
    let out: Vec<u64> = (0..3).map(|_| gpu.alloc(width * height)).collect();

    codec.set(&gpu, 92, GRAY, 0);
    assert_eq!(codec.encode(&gpu, channels(&planar, 40), 0, GRAY, (width, height)), 0);
    let gray = codec.stream(&gpu);
    assert_eq!(codec.info(&gray), Ok((1, GRAY, [40, 0, 0, 0], [33, 0, 0, 0])));
    let luma = decoded(&gray, width, height, 1, false);
    assert!(close(&luma, &plane(&picture, 0, 3, 1), 8));
    // Grey has the same value in all colours.
    assert_eq!(codec.decode(&gpu, &gray, 3, channels(&out, 40)), 0);
    assert!(out.iter().all(|&plane| gpu.get(plane, width * height) == luma));
    for format in [0, 1, 2] {
        assert_eq!(codec.decode(&gpu, &gray, format, channels(&out, 40)), 0);
        assert!(gpu.get(out[0], width * height) == luma);
    }

    codec.set(&gpu, 92, 0, 0);
    assert_eq!(codec.encode(&gpu, channels(&planar, 40), 0, 0, (width, height)), 0);
    let stream = codec.stream(&gpu);
    assert!(close(&decoded(&stream, width, height, 3, false), &picture, 8), "nothing is converted");
    assert_eq!(codec.decode(&gpu, &stream, 0, channels(&out, 40)), 0);
    for (n, &memory) in out.iter().enumerate() {
        assert!(close(&gpu.get(memory, width * height), &plane(&picture, n, 3, 1), 8));
    }

    // Only an Adobe marker prevents components from being treated as YCbCr.
    let adobe = [&stream[..2], b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\0", &stream[2..]].concat();
    for (stream, rgb) in [(&stream, true), (&adobe, false)] {
        assert_eq!(codec.decode(&gpu, stream, 3, channels(&out, 40)), 0);
        let expected = decoded(stream, width, height, 3, rgb);
        assert!((0..3).all(|n| gpu.get(out[n], width * height) == plane(&expected, n, 3, 1)));
    }
    assert_eq!(codec.decode(&gpu, &adobe, 2, channels(&out, 40)), NOT_SUPPORTED);

    // Planes cannot be subsampled, and the size of streams has an upper bound.
    codec.set(&gpu, 92, 2, 0);
    assert_eq!(codec.encode(&gpu, channels(&planar, 40), 0, 0, (width, height)), NOT_SUPPORTED);
    let mut bound = 0;
    // SAFETY: the arguments follow the manual.
    let status = unsafe { (codec.api.nvjpegEncodeGetBufferSize)(codec.handle, codec.params, 40, 33, &mut bound) };
    assert!(status == 0 && bound > stream.len());
    planar.into_iter().chain(out).for_each(|memory| gpu.free(memory));
    codec.close();
    assert_eq!(device_bytes(), 0);
}

#[test]
fn optimized_tables_are_those_of_one_picture() {
    if !inside_with("jpeg::optimized_tables_are_those_of_one_picture", &["nvjpeg"], &[]) {
        return;
    }
    let gpu = Gpu::open();
    let codec = Codec::new(&gpu);
    // Everything before the scan: it contains the tables.
    let head = |stream: &[u8]| {
        let scan = stream.windows(2).position(|marker| marker == [0xff, 0xda]).expect("a scan");
        stream[..scan].to_vec()
    };
    for optimized in [0, 1] {
        codec.set(&gpu, 75, 2, optimized);
        let mut heads = std::collections::BTreeSet::new();
        for n in 0..12 {
            let picture: Vec<u8> = waves(32, 32, 3).iter().map(|value| value.wrapping_add(n)).collect();
            let memory = gpu.put(&picture);
            assert_eq!(codec.encode(&gpu, channels(&[memory], 96), 5, 0, (32, 32)), 0);
            let stream = codec.stream(&gpu);
            assert!(close(&decoded(&stream, 32, 32, 3, true), &picture, 60));
            heads.insert(head(&stream));
            gpu.free(memory);
        }
        assert_eq!(heads.len() > 1, optimized == 1, "optimized {optimized}: {} kinds of tables", heads.len());
    }
    codec.close();
}

#[test]
fn batches_of_jpeg_are_decoded_whole_or_not_at_all() {
    if !inside_with("jpeg::batches_of_jpeg_are_decoded_whole_or_not_at_all", &["nvjpeg"], &[]) {
        return;
    }
    let gpu = Gpu::open();
    let codec = Codec::new(&gpu);
    codec.set(&gpu, 90, 0, 0);
    let streams: Vec<Vec<u8>> = (0..3)
        .map(|n| {
            let memory = gpu.put(&waves(24 + n, 16, 3));
            assert_eq!(codec.encode(&gpu, channels(&[memory], 3 * (24 + n)), 5, 0, (24 + n, 16)), 0);
            let stream = codec.stream(&gpu);
            gpu.free(memory);
            stream
        })
        .collect();
    let pool = gpu.alloc(3 * 80 * 16);
    let targets: Vec<Channels> = (0..3).map(|n| channels(&[pool + n * 80 * 16], 80)).collect();
    let batched = |streams: &[&[u8]], targets: &[Channels]| {
        let data: Vec<_> = streams.iter().map(|stream| stream.as_ptr()).collect();
        let lengths: Vec<_> = streams.iter().map(|stream| stream.len()).collect();
        let Codec { api, handle, decoder, .. } = &codec;
        let (data, lengths, targets) = (data.as_ptr(), lengths.as_ptr(), targets.as_ptr());
        // SAFETY: the arguments follow the manual.
        unsafe { (api.nvjpegDecodeBatched)(*handle, *decoder, data, lengths, targets, gpu.stream) }
    };
    let prepare = |batch: c_int, format: c_int| {
        // SAFETY: the arguments follow the manual.
        unsafe { (codec.api.nvjpegDecodeBatchedInitialize)(codec.handle, codec.decoder, batch, 1, format) }
    };
    let whole: Vec<&[u8]> = streams.iter().map(|stream| &stream[..]).collect();
    let mut cut = whole.clone();
    cut[1] = &cut[1][..cut[1].len() / 2];

    assert_eq!(batched(&whole, &targets), INVALID_PARAMETER, "the state was not prepared");
    assert_eq!([prepare(0, 5), prepare(3, 10), prepare(3, 5)], [INVALID_PARAMETER, INVALID_PARAMETER, 0]);
    assert_eq!(batched(&cut, &targets), BAD_JPEG);
    assert!(gpu.get(pool, 3 * 80 * 16).iter().all(|&byte| byte == POISON), "a part of the batch was decoded");
    assert_eq!(batched(&whole, &targets), INVALID_PARAMETER, "a batch that failed must be prepared again");
    assert_eq!((prepare(3, 5), batched(&whole, &targets)), (0, 0));
    assert!(gpu.peek(pool, 3 * 80 * 16).iter().all(|&byte| byte == POISON), "it was not synchronised");
    assert_eq!(batched(&whole, &targets), INVALID_PARAMETER, "the state is in use");
    for (n, stream) in (0..).zip(&whole) {
        let expected = pitched(&decoded(stream, 24 + n, 16, 3, true), 3 * (24 + n), 80);
        assert!(gpu.get(pool + n as u64 * 80 * 16, 80 * 16) == expected, "picture {n}");
    }
    assert!(events().contains(&"nvjpegDecodeBatched 3".to_owned()));

    // Pictures must not overlap.
    let overlapping = vec![targets[0]; 3];
    assert_eq!((prepare(3, 5), batched(&whole, &overlapping), gpu.synchronize()), (0, 0, ILLEGAL_ADDRESS));
}

#[test]
fn jpeg_streams_that_need_tables_or_more_bits_are_refused() {
    if !inside_with("jpeg::jpeg_streams_that_need_tables_or_more_bits_are_refused", &["nvjpeg"], &[]) {
        return;
    }
    let gpu = Gpu::open();
    let codec = Codec::new(&gpu);
    let memory = gpu.alloc(1 << 16);
    let target = channels(&[memory, memory + (1 << 14), memory + (1 << 15), memory + (3 << 14)], 64);
    let params = jpeg::EncodeParams { quality: 80, colour: jpeg::EncodeColour::YCbCr { subsampling: (2, 2) } };
    let mut abbreviated = Vec::new();
    let picture = waves(48, 32, 3);
    let shape = shape(48, 32, 3, TYPES[0]);
    jpeg::encode(&params, &picture, shape, &mut abbreviated, &mut jpeg::EncodeScratch::default()).expect("a picture");
    // The header is present, but the tables are not: TIFF stores them elsewhere.
    assert_eq!(codec.info(&abbreviated), Ok((3, 2, [48, 24, 24, 0], [32, 16, 16, 0])));
    assert_eq!(codec.decode(&gpu, &abbreviated, 3, target), BAD_JPEG);
    let tables = jpeg::encode_tables(&params, 3).expect("tables");
    let spliced = [&tables[..tables.len() - 2], &abbreviated[2..]].concat();
    assert_eq!((codec.decode(&gpu, &spliced, 3, target), gpu.synchronize()), (0, 0));
    for length in [0, 1, 2, 30, spliced.len() / 2] {
        assert_eq!(codec.decode(&gpu, &spliced[..length], 3, target), BAD_JPEG, "{length} bytes");
    }

    let twelve: &[u8] = include_bytes!("../../../swath-codec/testdata/jpeg-12bit.jpg");
    let lossless: &[u8] = include_bytes!("../../../swath-codec/testdata/jpeg-lossless.jpg");
    for stream in [twelve, lossless] {
        assert_eq!((codec.info(stream), codec.decode(&gpu, stream, 0, target)), (Err(NOT_SUPPORTED), NOT_SUPPORTED));
    }
    let cmyk: &[u8] = include_bytes!("../../../swath-codec/testdata/jpeg-cmyk.jpg");
    let (count, sampling, widths, heights) = codec.info(cmyk).expect("four components");
    assert_eq!((count, sampling), (4, -1));
    assert!(widths.iter().chain(&heights).all(|&side| (1..=64).contains(&side)), "{widths:?} {heights:?}");
    assert_eq!((codec.decode(&gpu, cmyk, 0, target), gpu.synchronize()), (0, 0));
    assert_eq!(codec.decode(&gpu, cmyk, 3, target), NOT_SUPPORTED);
    let progressive: &[u8] = include_bytes!("../../../swath-codec/testdata/jpeg-422-progressive.jpg");
    assert_eq!(codec.info(progressive).map(|(count, sampling, ..)| (count, sampling)), Ok((3, 1)));

    let host = vec![0_u64; 64 * 32];
    let target = channels(&[host.as_ptr() as u64], 512);
    assert_eq!((codec.decode(&gpu, &spliced, 5, target), gpu.synchronize()), (0, ILLEGAL_ADDRESS));
}

#[test]
fn failures_of_jpeg_have_their_own_statuses() {
    let fail = "jpeg-info:2,jpeg-decode:1,jpeg-encode:2,jpeg-state:3";
    if !inside_with("jpeg::failures_of_jpeg_have_their_own_statuses", &["nvjpeg"], &[("SWATH_SIM_FAIL", fail)]) {
        return;
    }
    let gpu = Gpu::open();
    let codec = Codec::new(&gpu);
    // SAFETY: the arguments follow the manual.
    let third = unsafe { (codec.api.nvjpegJpegStateCreate)(codec.handle, &mut null_mut()) };
    assert_eq!(third, ALLOCATOR_FAILURE);
    let memory = gpu.put(&waves(16, 16, 3));
    let from = channels(&[memory], 48);
    codec.set(&gpu, 90, 0, 0);
    assert_eq!(codec.encode(&gpu, from, 5, 0, (16, 16)), 0);
    let stream = codec.stream(&gpu);
    assert_eq!(codec.encode(&gpu, from, 5, 0, (16, 16)), EXECUTION_FAILED);
    assert!(codec.stream(&gpu) == stream, "the last picture is kept");
    assert_eq!([0; 3].map(|_| codec.info(&stream).err()), [None, Some(BAD_JPEG), None]);
    assert_eq!([0; 2].map(|_| codec.decode(&gpu, &stream, 5, from)), [EXECUTION_FAILED, 0]);
    assert!(gpu.get(memory, 16 * 48) == decoded(&stream, 16, 16, 3, true));
    let mut length = stream.len() - 1;
    assert_eq!(codec.retrieve(&gpu, [0; 1].as_mut_ptr(), &mut length), INVALID_PARAMETER);
    gpu.free(memory);
    codec.close();
    assert_eq!(device_bytes(), 0);
}

#[test]
fn nvjpeg_reports_its_version_and_refuses_unknown_settings() {
    if !inside_with("jpeg::nvjpeg_reports_its_version_and_refuses_unknown_settings", &["nvjpeg"], &[]) {
        return;
    }
    let gpu = Gpu::open();
    let codec = Codec::new(&gpu);
    let (mut version, mut runtime) = (0, 0);
    // SAFETY: the arguments follow the manual.
    unsafe {
        for (which, expected) in [(0, (12, 12)), (1, (4, 9)), (2, (0, 0))] {
            assert_eq!((codec.api.nvjpegGetProperty)(which, &mut version), 0);
            assert_eq!((codec.api.nvjpegGetCudartProperty)(which, &mut runtime), 0);
            assert_eq!((version, runtime), expected);
        }
        let Codec { api, params, .. } = &codec;
        assert_eq!(
            [0, 101, -1].map(|q| (api.nvjpegEncoderParamsSetQuality)(*params, q, gpu.stream)),
            [INVALID_PARAMETER; 3]
        );
        let encodings = [0xc2, 0xc3].map(|e| (api.nvjpegEncoderParamsSetEncoding)(*params, e, gpu.stream));
        assert_eq!(encodings, [NOT_SUPPORTED, INVALID_PARAMETER]);
        let samplings = [4, 8].map(|s| (api.nvjpegEncoderParamsSetSamplingFactors)(*params, s, gpu.stream));
        assert_eq!(samplings, [NOT_SUPPORTED, INVALID_PARAMETER]);
    }
    let memory = gpu.alloc(48 * 16);
    let from = channels(&[memory], 48);
    let formats = [1, 8, 2].map(|format| codec.encode(&gpu, from, format, 0, (16, 16)));
    assert_eq!(formats, [NOT_SUPPORTED, NOT_SUPPORTED, INVALID_PARAMETER]);
    assert_eq!([(0, 16), (16, 65501)].map(|size| codec.encode(&gpu, from, 5, 0, size)), [INVALID_PARAMETER; 2]);
    assert_eq!(codec.encode(&gpu, channels(&[memory], 47), 5, 0, (16, 16)), INVALID_PARAMETER);
    gpu.free(memory);
    codec.close();
}
