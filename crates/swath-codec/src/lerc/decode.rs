//! Reads LERC blobs: converts the mask, the depth and the bands of a blob to the interleaved samples of a
//! block.

use bytemuck::Pod;
use lerc::bitmask::BitMask;
use lerc::{DataType, LercError, LercInfo, Sample};
use libdeflater::{DecompressionError, Decompressor};
use zstd_safe::DCtx;

use super::{CODEC, LercCompression, Params, lerc2};
use crate::{Error, Result, SampleFormat, Shape};

/// Buffers and contexts that a thread reuses from block to block.
pub struct Scratch {
    blob: Vec<u8>,
    /// The type is `u64` so that the buffer is aligned for samples of any type.
    samples: Vec<u64>,
    inflate: Decompressor,
    zstd: DCtx<'static>,
}

impl Scratch {
    /// Creates empty buffers; they grow with the first blocks that need them.
    pub fn new() -> Scratch {
        Scratch { blob: Vec::new(), samples: Vec::new(), inflate: Decompressor::new(), zstd: DCtx::create() }
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Scratch::new()
    }
}

/// Decodes one block into `dst` as native-endian interleaved samples, and returns whether any pixel is masked
/// out.
///
/// A masked pixel is NaN in float data and 0 in integer data, as in GDAL. 8-bit data may have one sample more
/// than the blob: the last sample is then alpha, 0 for masked pixels and 255 for the others.
///
/// `mask`, one byte per pixel, becomes 255 for valid pixels and 0 for invalid ones. If the bands of a blob have
/// separate masks, a pixel is invalid only if all masks exclude it; the samples of `dst` still follow the mask
/// of each band.
pub fn decode(
    params: &Params,
    src: &[u8],
    shape: Shape,
    dst: &mut [u8],
    mask: Option<&mut [u8]>,
    scratch: &mut Scratch,
) -> Result<bool> {
    if dst.len() != shape.len() || mask.as_ref().is_some_and(|m| m.len() != shape.width * shape.height) {
        return Err(Error::Unsuited { codec: CODEC, what: "a buffer of another size than the block" });
    }
    let Scratch { blob, samples, inflate, zstd } = scratch;
    let src = match params.compression {
        LercCompression::None => src,
        LercCompression::Deflate => {
            let out = room_for_blob(blob, shape);
            let len = inflate.zlib_decompress(src, out).map_err(|e| match e {
                DecompressionError::BadData => Error::Corrupt { codec: CODEC, what: "its Deflate wrapper is damaged" },
                DecompressionError::InsufficientSpace => Error::Corrupt { codec: CODEC, what: WRAPPER_TOO_LONG },
            })?;
            &out[..len]
        }
        LercCompression::Zstd => {
            let out = room_for_blob(blob, shape);
            if matches!(zstd_safe::get_frame_content_size(src), Ok(Some(len)) if len > out.len() as u64) {
                return Err(Error::Corrupt { codec: CODEC, what: WRAPPER_TOO_LONG });
            }
            let len = zstd
                .decompress(out, src)
                .map_err(|_| Error::Corrupt { codec: CODEC, what: "its ZSTD wrapper is damaged or too long" })?;
            &out[..len]
        }
    };
    let masks = match (shape.format, shape.bits) {
        (SampleFormat::Uint, 8) => decode_as::<u8>(src, shape, dst, samples)?,
        (SampleFormat::Uint, 16) => decode_as::<u16>(src, shape, dst, samples)?,
        (SampleFormat::Uint, 32) => decode_as::<u32>(src, shape, dst, samples)?,
        (SampleFormat::Int, 8) => decode_as::<i8>(src, shape, dst, samples)?,
        (SampleFormat::Int, 16) => decode_as::<i16>(src, shape, dst, samples)?,
        (SampleFormat::Int, 32) => decode_as::<i32>(src, shape, dst, samples)?,
        (SampleFormat::Float, 32) => decode_as::<f32>(src, shape, dst, samples)?,
        (SampleFormat::Float, 64) => decode_as::<f64>(src, shape, dst, samples)?,
        _ => return Err(Error::Unsuited { codec: CODEC, what: "samples of this width and format" }),
    };
    Ok(report_mask(&masks, shape.width * shape.height, mask))
}

const WRAPPER_TOO_LONG: &str = "its wrapper contains far more than a block of this size needs";

/// Returns a buffer with the largest possible size of a blob for this block. The length of the blob is not
/// stored, but an encoder that cannot compress writes the raw samples: the blob is then the block, a mask, two
/// limits for each sample of a pixel (which are twice the block if the block is one pixel) and some headers.
fn room_for_blob(blob: &mut Vec<u8>, shape: Shape) -> &mut [u8] {
    let most = shape.len().saturating_mul(3).saturating_add(1 << 16);
    if blob.len() < most {
        // This is not `resize`: new zeroed memory costs nothing until it is written, and most of it never is.
        *blob = vec![0; most];
    }
    &mut blob[..most]
}

/// The order of the values in the blob, relative to the samples of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlobLayout {
    /// The depth is the number of samples: the same order.
    Interleaved,
    /// One blob per sample, one after the other: libtiff writes this if the bands have different masks.
    Bands,
    /// The same as `Interleaved`, but without the last sample, which is the mask.
    MaskIsAlpha,
}

/// A LERC value type that is also the type of the samples of a block.
pub(super) trait Value: Sample + Pod {
    /// The value of a masked sample.
    const MASKED: Self;

    /// Returns the sum. Integers wrap.
    fn add_quantum(self, quantum: u32) -> Self;
}

macro_rules! values {
    ($($t:ty = $masked:expr, $add:expr;)*) => {
        $(impl Value for $t {
            const MASKED: $t = $masked;

            fn add_quantum(self, quantum: u32) -> $t {
                let add: fn($t, $t) -> $t = $add;
                add(self, quantum as $t)
            }
        })*
    };
}
values! {
    u8 = 0, u8::wrapping_add;
    u16 = 0, u16::wrapping_add;
    u32 = 0, u32::wrapping_add;
    i8 = 0, i8::wrapping_add;
    i16 = 0, i16::wrapping_add;
    i32 = 0, i32::wrapping_add;
    f32 = f32::NAN, |a, b| a + b;
    f64 = f64::NAN, |a, b| a + b;
}

/// Decodes the blob, whose values must be of type `T`, and returns a mask for each of its bands.
fn decode_as<T: Value>(src: &[u8], shape: Shape, dst: &mut [u8], samples: &mut Vec<u64>) -> Result<Vec<BitMask>> {
    let info = lerc::decode_info(src).map_err(|e| translate(&e))?;
    let layout = check::<T>(&info, shape)?;
    if layout == BlobLayout::Interleaved
        && let Ok(out) = bytemuck::try_cast_slice_mut::<u8, T>(dst)
    {
        let masks = decode_values(src, &info, out)?;
        fill_masked(out, shape.samples, masks.first());
        return Ok(masks);
    }

    let bytes = shape.len();
    if samples.len() < bytes.div_ceil(8) {
        samples.resize(bytes.div_ceil(8), 0);
    }
    let stored = if layout == BlobLayout::MaskIsAlpha { shape.samples - 1 } else { shape.samples };
    let pixels = shape.width * shape.height;
    let values = &mut bytemuck::cast_slice_mut::<u64, T>(samples)[..pixels * stored];
    let masks = decode_values(src, &info, values)?;
    match layout {
        BlobLayout::Interleaved => {
            fill_masked(values, shape.samples, masks.first());
            dst.copy_from_slice(bytemuck::cast_slice(values));
        }
        BlobLayout::Bands => {
            for (sample, band) in values.chunks_exact_mut(pixels.max(1)).enumerate() {
                fill_masked(band, 1, masks.get(sample));
                let out = dst.chunks_exact_mut(shape.samples * size_of::<T>());
                for (pixel, value) in out.zip(&*band) {
                    pixel[sample * size_of::<T>()..][..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(value));
                }
            }
        }
        BlobLayout::MaskIsAlpha => {
            let mask = masks.first();
            let out = dst.chunks_exact_mut(shape.samples * size_of::<T>());
            let stored_bytes: &[u8] = bytemuck::cast_slice(values);
            for (k, (pixel, colour)) in out.zip(stored_bytes.chunks_exact(stored * size_of::<T>())).enumerate() {
                let (to, alpha) = pixel.split_at_mut(colour.len());
                to.copy_from_slice(colour);
                alpha.fill(if is_valid(mask, k) { 255 } else { 0 });
            }
        }
    }
    Ok(masks)
}

/// Compares the header with the block before anything is allocated or decoded.
fn check<T: Value>(info: &LercInfo, shape: Shape) -> Result<BlobLayout> {
    let mismatch = |what, found: u32, expected: usize| {
        Err(Error::Mismatch { codec: CODEC, what, found: found.into(), expected: expected as u64 })
    };
    if info.width as usize != shape.width {
        return mismatch("width", info.width, shape.width);
    }
    if info.height as usize != shape.height {
        return mismatch("height", info.height, shape.height);
    }
    if info.data_type != T::DATA_TYPE {
        return mismatch("data type", info.data_type as u32, T::DATA_TYPE as usize);
    }
    let (depth, bands) = (info.depth as usize, info.bands as usize);
    if bands == 1 && depth == shape.samples {
        Ok(BlobLayout::Interleaved)
    } else if depth == 1 && bands == shape.samples {
        Ok(BlobLayout::Bands)
    } else if bands == 1 && depth + 1 == shape.samples && T::DATA_TYPE == DataType::Byte {
        Ok(BlobLayout::MaskIsAlpha)
    } else {
        mismatch("bands", info.depth.saturating_mul(info.bands), shape.samples)
    }
}

fn decode_values<T: Value>(src: &[u8], info: &LercInfo, out: &mut [T]) -> Result<Vec<BitMask>> {
    // `decode_into` supports only Lerc2. A Lerc1 image, which is rare and has one band, is decoded into
    // separate memory; `check` has bounded its size by the size of the block.
    if !src.starts_with(b"CntZImage ") {
        if lerc2::decode(src, info, out).is_some() {
            return Ok(vec![BitMask::all_valid(info.width as usize * info.height as usize)]);
        }
        return Ok(lerc::decode_into(src, out).map_err(|e| translate(&e))?.valid_masks);
    }
    let image = lerc::decode(src).map_err(|e| translate(&e))?;
    let values = image.as_typed::<T>().unwrap_or_default();
    if values.len() != out.len() {
        return Err(Error::Truncated { codec: CODEC, got: size_of_val(values), want: size_of_val(out) });
    }
    out.copy_from_slice(values);
    Ok(image.valid_masks)
}

/// Overwrites the `stride` values of each masked pixel.
fn fill_masked<T: Value>(values: &mut [T], stride: usize, mask: Option<&BitMask>) {
    let Some(BitMask::Explicit(_)) = mask else { return };
    for (k, pixel) in values.chunks_exact_mut(stride).enumerate() {
        if !is_valid(mask, k) {
            pixel.fill(T::MASKED);
        }
    }
}

/// Writes the combined mask of all bands and returns whether it excludes any pixel.
fn report_mask(bands: &[BitMask], pixels: usize, out: Option<&mut [u8]>) -> bool {
    let masked = !bands.iter().any(|band| matches!(band, BitMask::AllValid(_)));
    let visible = |k| bands.iter().any(|band| is_valid(Some(band), k));
    match out {
        Some(out) if masked => {
            let mut hidden = false;
            for (k, byte) in out.iter_mut().enumerate() {
                *byte = if visible(k) { 255 } else { 0 };
                hidden |= *byte == 0;
            }
            hidden
        }
        Some(out) => {
            out.fill(255);
            false
        }
        None => masked && !(0..pixels).all(visible),
    }
}

/// Whether pixel `k` is valid. A missing mask, and bits after the end of the mask, count as valid. The bits
/// start with the most significant.
fn is_valid(mask: Option<&BitMask>, k: usize) -> bool {
    mask.and_then(BitMask::as_bytes).and_then(|bits| bits.get(k / 8)).is_none_or(|byte| byte & (0x80 >> (k % 8)) != 0)
}

pub(super) fn translate(error: &LercError) -> Error {
    let what = match error {
        LercError::BufferTooSmall { needed, available } => {
            return Error::Truncated { codec: CODEC, got: *available, want: *needed };
        }
        LercError::InvalidMagic => "it does not begin with a LERC signature",
        LercError::UnsupportedVersion(_) => "its version is not 2 to 6",
        LercError::ChecksumMismatch { .. } => "its checksum is wrong",
        LercError::InvalidDataType(_) => "its data type does not exist",
        LercError::UnsupportedEncoding(_) => "its encoding does not exist",
        LercError::IntegrityCheckFailed => "the marker of one of its tiles is wrong",
        LercError::TypeMismatch { .. } => "its bands have different data types",
        LercError::OutputBufferTooSmall { .. } => "its bands have different sizes",
        LercError::InvalidData(_) => "its tiles or tables contradict its header",
    };
    Error::Corrupt { codec: CODEC, what }
}

#[cfg(test)]
mod tests {
    use super::*;

    const W: usize = 16;
    const H: usize = 12;
    const PLAIN: Params = Params { version: 4, compression: LercCompression::None };

    const F32_MASK: &[u8] = include_bytes!("../../testdata/lerc-f32-mask.bin");
    const F32_BAND_MASKS: &[u8] = include_bytes!("../../testdata/lerc-f32-band-masks.bin");
    const U8_ALPHA: &[u8] = include_bytes!("../../testdata/lerc-u8-alpha.bin");
    const DEFLATE_U16: &[u8] = include_bytes!("../../testdata/lerc-deflate-u16.bin");
    const ZSTD_I16: &[u8] = include_bytes!("../../testdata/lerc-zstd-i16.bin");
    const V6_F64: &[u8] = include_bytes!("../../testdata/lerc-v6-f64.bin");

    fn shape(samples: usize, bits: usize, format: SampleFormat) -> Shape {
        Shape { width: W, height: H, samples, bits, format }
    }

    fn v(k: usize, c: usize) -> usize {
        (7 * (k % W) + 13 * (k / W) + 50 * c) % 97
    }

    fn hidden(k: usize) -> bool {
        (k % W + 2 * (k / W)).is_multiple_of(5)
    }

    fn run(params: &Params, src: &[u8], shape: Shape) -> (Vec<u8>, Vec<u8>, bool) {
        let (mut dst, mut mask) = (vec![0xaa; shape.len()], vec![7; W * H]);
        let masked = decode(params, src, shape, &mut dst, Some(&mut mask), &mut Scratch::new()).unwrap();
        (dst, mask, masked)
    }

    fn f32_at(dst: &[u8], i: usize) -> f32 {
        f32::from_ne_bytes(dst[4 * i..4 * i + 4].try_into().unwrap())
    }

    #[test]
    fn masked_floats_are_nan() {
        let (dst, mask, masked) = run(&PLAIN, F32_MASK, shape(1, 32, SampleFormat::Float));
        assert!(masked);
        for (k, &visible) in mask.iter().enumerate() {
            let value = f32_at(&dst, k);
            assert_eq!((value.is_nan(), visible), if hidden(k) { (true, 0) } else { (false, 255) });
            assert!(hidden(k) || value == v(k, 0) as f32);
        }
    }

    #[test]
    fn bands_with_separate_masks_are_interleaved() {
        let (dst, mask, masked) = run(&PLAIN, F32_BAND_MASKS, shape(3, 32, SampleFormat::Float));
        assert!(masked);
        for (k, &visible) in mask.iter().enumerate() {
            let (x, y) = (k % W, k / W);
            for c in 0..3 {
                let value = f32_at(&dst, 3 * k + c);
                let nan = y == 0 || (c == 0 && hidden(k)) || (c == 1 && x == 3);
                assert!(if nan { value.is_nan() } else { value == v(k, c) as f32 }, "pixel {k} band {c}: {value}");
            }
            assert_eq!(visible == 0, y == 0);
        }
    }

    #[test]
    fn alpha_is_rebuilt_from_the_mask() {
        let (dst, _, masked) = run(&PLAIN, U8_ALPHA, shape(4, 8, SampleFormat::Uint));
        assert!(masked);
        for (k, pixel) in dst.chunks_exact(4).enumerate() {
            let want = if hidden(k) { [0; 4] } else { [v(k, 0) as u8, v(k, 1) as u8, v(k, 2) as u8, 255] };
            assert_eq!(pixel, want);
        }
    }

    #[test]
    fn wrapped_blobs_decode() {
        let deflate = Params::from_tag(&[4, 1]).unwrap();
        let (dst, mask, masked) = run(&deflate, DEFLATE_U16, shape(1, 16, SampleFormat::Uint));
        assert!(!masked && mask.iter().all(|&m| m == 255));
        let want: Vec<u8> = (0..W * H).flat_map(|k| (601 * v(k, 0) as u16).to_ne_bytes()).collect();
        assert_eq!(dst, want);

        let zstd = Params::from_tag(&[4, 2]).unwrap();
        let (dst, _, _) = run(&zstd, ZSTD_I16, shape(1, 16, SampleFormat::Int));
        let want: Vec<u8> = (0..W * H).flat_map(|k| (301 * v(k, 0) as i16 - 9000).to_ne_bytes()).collect();
        assert_eq!(dst, want);
    }

    #[test]
    fn version_6_lossless_doubles_decode() {
        let (dst, _, _) = run(&PLAIN, V6_F64, shape(1, 64, SampleFormat::Float));
        let want: Vec<u8> = (0..W * H).flat_map(|k| (v(k, 0) as f64 / 7.0).to_ne_bytes()).collect();
        assert_eq!(dst, want);
    }

    #[test]
    fn a_misaligned_buffer_decodes_the_same() {
        let shape = shape(1, 32, SampleFormat::Float);
        let (aligned, ..) = run(&PLAIN, F32_MASK, shape);
        let mut dst = vec![0; shape.len() + 4];
        let mut scratch = Scratch::new();
        for offset in 0..4 {
            let out = &mut dst[offset..offset + shape.len()];
            assert_eq!(decode(&PLAIN, F32_MASK, shape, out, None, &mut scratch), Ok(true));
            assert_eq!(out, aligned);
        }
    }

    /// Returns a Lerc1 image of raw floats, as ArcGIS wrote them before Lerc2: signature, header, an all-valid
    /// count part and a value part of one tile.
    fn lerc1(width: i32, height: i32) -> Vec<u8> {
        let mut blob = b"CntZImage ".to_vec();
        for n in [11, 8, height, width] {
            blob.extend(n.to_le_bytes());
        }
        blob.extend(0f64.to_le_bytes());
        blob.extend([0i32, 0, 0].map(i32::to_le_bytes).concat());
        blob.extend(1f32.to_le_bytes());
        blob.extend([1, 1, 1 + 4 * (W * H) as i32].map(i32::to_le_bytes).concat());
        blob.extend(96f32.to_le_bytes());
        blob.push(0);
        blob.extend((0..W * H).flat_map(|k| (v(k, 0) as f32).to_le_bytes()));
        blob
    }

    #[test]
    fn lerc1_decodes() {
        let (dst, _, masked) = run(&PLAIN, &lerc1(W as i32, H as i32), shape(1, 32, SampleFormat::Float));
        assert!(!masked);
        assert!((0..W * H).all(|k| f32_at(&dst, k) == v(k, 0) as f32));
    }

    #[test]
    fn image_that_differs_from_the_tags_is_refused_before_decoding() {
        let mut scratch = Scratch::new();
        let mut refuse = |src: &[u8], shape: Shape| {
            decode(&PLAIN, src, shape, &mut vec![0; shape.len()], None, &mut scratch).unwrap_err()
        };
        let float = shape(1, 32, SampleFormat::Float);
        let what = |e| if let Error::Mismatch { what, .. } = e { what } else { panic!("{e}") };
        assert_eq!(what(refuse(F32_MASK, Shape { width: W + 1, ..float })), "width");
        assert_eq!(what(refuse(F32_MASK, Shape { height: H - 1, ..float })), "height");
        assert_eq!(what(refuse(F32_MASK, Shape { samples: 2, ..float })), "bands");
        assert_eq!(what(refuse(F32_MASK, Shape { bits: 64, ..float })), "data type");
        assert_eq!(what(refuse(&lerc1(20_000, 20_000), float)), "width");
        let e = refuse(F32_MASK, Shape { bits: 16, ..float });
        assert_eq!(e, Error::Unsuited { codec: CODEC, what: "samples of this width and format" });
    }

    #[test]
    fn a_wrapper_bomb_is_refused() {
        let shape = shape(1, 8, SampleFormat::Uint);
        let bomb = vec![0; 8 << 20];
        let mut packed = vec![0; 1 << 20];
        let len = zstd_safe::compress(&mut packed[..], &bomb, 1).unwrap();
        let zstd = Params { version: 4, compression: LercCompression::Zstd };
        let mut scratch = Scratch::new();
        let e = decode(&zstd, &packed[..len], shape, &mut vec![0; shape.len()], None, &mut scratch).unwrap_err();
        assert_eq!(e, Error::Corrupt { codec: CODEC, what: WRAPPER_TOO_LONG });

        let len = libdeflater::Compressor::default().zlib_compress(&bomb, &mut packed).unwrap();
        let deflate = Params { version: 4, compression: LercCompression::Deflate };
        let e = decode(&deflate, &packed[..len], shape, &mut vec![0; shape.len()], None, &mut scratch).unwrap_err();
        assert_eq!(e, Error::Corrupt { codec: CODEC, what: WRAPPER_TOO_LONG });
        assert!(scratch.blob.len() < 1 << 17);
    }

    #[test]
    fn truncated_stream_is_an_error_not_zeros() {
        let cases = [
            (PLAIN, F32_MASK, shape(1, 32, SampleFormat::Float)),
            (PLAIN, F32_BAND_MASKS, shape(3, 32, SampleFormat::Float)),
            (Params { compression: LercCompression::Deflate, ..PLAIN }, DEFLATE_U16, shape(1, 16, SampleFormat::Uint)),
            (Params { compression: LercCompression::Zstd, ..PLAIN }, ZSTD_I16, shape(1, 16, SampleFormat::Int)),
        ];
        let mut scratch = Scratch::new();
        for (params, src, shape) in cases {
            let mut dst = vec![0; shape.len()];
            for len in 0..src.len() {
                assert!(decode(&params, &src[..len], shape, &mut dst, None, &mut scratch).is_err(), "{len} bytes");
            }
        }
    }

    /// The checksum is repaired, because otherwise the decoder would refuse every mutation at once.
    #[test]
    fn mutated_streams_never_panic() {
        let cases = [
            (F32_MASK.to_vec(), shape(1, 32, SampleFormat::Float)),
            (F32_BAND_MASKS.to_vec(), shape(3, 32, SampleFormat::Float)),
            (U8_ALPHA.to_vec(), shape(4, 8, SampleFormat::Uint)),
            (V6_F64.to_vec(), shape(1, 64, SampleFormat::Float)),
            (lerc1(W as i32, H as i32), shape(1, 32, SampleFormat::Float)),
        ];
        let mut scratch = Scratch::new();
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut decoded = 0;
        for (src, shape) in cases {
            let (mut dst, mut mask) = (vec![0; shape.len()], vec![0; W * H]);
            for _ in 0..4000 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let mut blob = src.clone();
                let at = (seed >> 33) as usize % blob.len();
                blob[at] = (seed >> 20) as u8;
                if blob.starts_with(b"Lerc2 ") {
                    let sum = lerc::checksum::fletcher32(&blob[14..]);
                    blob[10..14].copy_from_slice(&sum.to_le_bytes());
                }
                let done = decode(&PLAIN, &blob, shape, &mut dst, Some(&mut mask), &mut scratch).is_ok();
                decoded += usize::from(done);
            }
        }
        assert!(decoded > 1000, "the mutations must get past the header, {decoded} did");
    }
}
