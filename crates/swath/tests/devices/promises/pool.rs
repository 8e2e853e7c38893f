//! Tiles are compressed on the device in one pool and return in one copy, as streams that every decoder can
//! read.

use swath::tiff::Compression;
use swath::write::{BlockSize, ImageShape};
use swath::{
    ArraySource, Compress, DType, Dataset, Device, FallbackPolicy, Layout, Predictor, ReadRequest, WriteConfig,
    WriteOptions, WritePlan, WriteReport,
};
use swath_codec::{deflate, lz4, zstd};

use super::stored;
use super::timeline::Timeline;
use crate::subject::{Subject, same_pixels};
use crate::writing::{Random, samples};

/// The codecs that nvCOMP compresses to, each with its call.
const CODECS: [(Compress, &str); 3] = [
    (Compress::Deflate { level: 6 }, "nvcompBatchedDeflateCompressAsync"),
    (Compress::Zstd { level: 3 }, "nvcompBatchedZstdCompressAsync"),
    (Compress::Lz4, "nvcompBatchedLZ4CompressAsync"),
];

/// The side of a tile in pixels: a tile of bytes has 16 KiB.
const SIDE: u64 = 128;

/// A square of bytes that compress well, in which no two tiles are equal.
fn smooth(side: u64) -> Vec<u8> {
    (0..side * side).map(|i| ((i % side / 9) + (i / side) * 3 + ((i * i) >> 30)) as u8).collect()
}

fn write(subject: &Subject, compress: Compress, side: u64, pixels: &[u8]) -> (Vec<u8>, WriteReport, Timeline) {
    let options = WriteOptions::default()
        .blocks(BlockSize::Tiles { width: SIDE as u32, height: SIDE as u32 })
        .compression(compress)
        .predictor(Predictor::None);
    let plan = WritePlan::new(ImageShape::new(side, side, 1, DType::U8), options).expect("a plan");
    let mut array = ArraySource::new::<u8>(pixels, 1, side, side, Layout::BandsFirst).expect("an array");
    let device = Device::Gpu(subject.gpu.clone());
    let config = WriteConfig::new().device(device).fallback(FallbackPolicy::Strict).threads(2);
    let ((bytes, report), timeline) = Timeline::of(|| plan.to_bytes(&mut array, &config).expect("it writes"));
    (bytes, report, timeline)
}

pub(super) fn seed3_thousand_tiles_cost_one_pool_one_gather_and_one_download(subject: &Subject) {
    for (compress, call) in CODECS {
        let mut allocations = Vec::new();
        for (side, tiles) in [(512, 16), (4096, 1024)] {
            let pixels = smooth(side);
            let (bytes, report, timeline) = write(subject, compress, side, &pixels);
            let name = format!("{tiles} tiles, {compress:?}");
            let gpu = report.gpu.expect("a device did it");
            assert!(gpu.compressed_by.contains("nvCOMP") && gpu.fallbacks.is_empty(), "{name}: {gpu:?}");
            assert_eq!(timeline.numbers(call).iter().sum::<u64>(), tiles, "{name}: {timeline:?}");
            // Each tile is framed, all are gathered, and they return in one copy after their sizes. No
            // uncompressed tile and no pixel is downloaded.
            assert_eq!(timeline.numbers("launch chunk_frame"), [tiles], "{name}: {timeline:?}");
            assert_eq!(timeline.numbers("launch gather"), [tiles], "{name}: {timeline:?}");
            assert_eq!(timeline.numbers("download"), [tiles * 4, report.bytes_encoded], "{name}: {timeline:?}");
            assert!(timeline.first("launch gather") > timeline.first("download"), "{name}: {timeline:?}");
            assert_eq!(report.bytes_encoded, stored(&bytes, 0).iter().map(|span| span.len).sum::<u64>(), "{name}");
            let stats = gpu.stats;
            assert_eq!(
                (stats.downloads, stats.downloaded_bytes),
                (2, tiles * 4 + report.bytes_encoded),
                "{name}: {stats}"
            );
            assert!(stats.downloaded_bytes < pixels.len() as u64 / 2, "{name}: {stats}");
            // Rows, arrays of nvCOMP, the table of the gather.
            assert_eq!((stats.uploads, stats.launches), (3, 3), "{name}: {stats}");
            assert_eq!(stats.copies, 0, "{name}: {stats}");
            // Rows, tiles, pool, table and working memory: the same number of allocations for a thousand
            // tiles as for a few.
            assert!(timeline.count("alloc") <= 5, "{name}: {timeline:?}");
            allocations.push(timeline.count("alloc"));
            assert_eq!(stats.current_bytes, subject.gpu.kept_bytes(), "{name}: the rest was given back");
            subject.gpu.trim();
            assert_eq!(swath_sim::device_bytes(), 0, "{name}");
        }
        assert_eq!(allocations[0], allocations[1], "{compress:?}");
    }
}

/// The checksum at the end of a zlib stream (RFC 1950).
fn adler32(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1, 0), |(a, b), &byte| {
        let a = (a + u32::from(byte)) % 65_521;
        (a, (b + a) % 65_521)
    });
    b << 16 | a
}

/// Decodes a stored tile with a decoder for whole streams, and checks the framing byte by byte.
fn decode(compression: Compression, level: i32, stream: &[u8], len: usize) -> Vec<u8> {
    let mut tile = vec![0; len];
    let decoded = match compression {
        Compression::DEFLATE => {
            let header = u32::from(stream[0]) << 8 | u32::from(stream[1]);
            assert_eq!((stream[0], header % 31, stream[1] & 0x20), (0x78, 0, 0), "no header of zlib: {header:#x}");
            let effort = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3][level as usize];
            assert_eq!(stream[1] >> 6, effort, "level {level}");
            let decoded = deflate::Decoder::new().decode(stream, &mut tile);
            let sum = stream.last_chunk().map(|bytes| u32::from_be_bytes(*bytes));
            assert_eq!(sum, Some(adler32(&tile)), "the checksum is not that of the tile");
            // The table of docs/nvidia.md: the simulator's algorithms 1, 2, 4 and 5 are the CPU's levels 1, 3, 6 and 9.
            let mut expected = Vec::new();
            deflate::Encoder::new([1, 3, 6, 9][usize::from(effort)]).expect("a level").encode(&tile, &mut expected);
            assert!(stream[2..] == expected[2..], "level {level} by another algorithm");
            decoded
        }
        Compression::ZSTD => {
            assert_eq!(stream[..4], [0x28, 0xb5, 0x2f, 0xfd]);
            zstd::Decoder::new().decode(stream, &mut tile)
        }
        Compression::LZ4 => {
            assert_eq!((&stream[..4], &stream[stream.len() - 4..]), (&[4, 0x22, 0x4d, 0x18][..], &[0; 4][..]));
            lz4::decode(stream, &mut tile)
        }
        other => panic!("nvCOMP does not compress to {}", other.name()),
    };
    assert_eq!(decoded.expect("a stream that decodes"), len);
    tile
}

pub(super) fn seed3_other_decoders_read_every_tile(subject: &Subject) {
    let side = 1024;
    let pixels = smooth(side);
    let levels = [1, 2, 3, 5, 6, 8, 9, 12].map(|level| Compress::Deflate { level });
    for compress in levels.into_iter().chain([Compress::Zstd { level: 3 }, Compress::Lz4]) {
        let (bytes, report, _) = write(subject, compress, side, &pixels);
        let (compression, level) = match compress {
            Compress::Deflate { level } => (Compression::DEFLATE, level),
            Compress::Zstd { .. } => (Compression::ZSTD, 0),
            _ => (Compression::LZ4, 0),
        };
        assert!(report.gpu.expect("a device did it").compressed_by.contains("nvCOMP"));
        let spans = stored(&bytes, 0);
        assert_eq!(spans.len(), 64);
        let across = side / SIDE;
        for (number, span) in (0..).zip(spans) {
            let stream = &bytes[span.offset as usize..][..span.len as usize];
            let tile = decode(compression, level, stream, (SIDE * SIDE) as usize);
            let (top, left) = (number / across * SIDE, number % across * SIDE);
            let rows = (top..top + SIDE).flat_map(|row| &pixels[(row * side + left) as usize..][..SIDE as usize]);
            assert!(tile.iter().eq(rows), "tile {number}, {compress:?}");
        }
    }
    // Samples of all widths, predictors and edges: both the CPU and nvCOMP read what nvCOMP compressed.
    let mut random = Random(5);
    for dtype in [DType::U8, DType::I16, DType::U32, DType::F32, DType::F64] {
        let float = matches!(dtype, DType::F32 | DType::F64);
        for predictor in [Predictor::None, Predictor::Horizontal, Predictor::FloatingPoint] {
            if predictor == Predictor::FloatingPoint && !float {
                continue;
            }
            for (compress, _) in CODECS {
                let (width, height, bands) = (75, 61, 3);
                let pixels = samples(&mut random, dtype, width * height * bands);
                let options = WriteOptions::default()
                    .blocks(BlockSize::Tiles { width: 32, height: 16 })
                    .compression(compress)
                    .predictor(predictor);
                let (rows, cols) = (height as u64, width as u64);
                let plan = WritePlan::new(ImageShape::new(rows, cols, bands, dtype), options).expect("a plan");
                let array = ArraySource::from_bytes(&pixels, dtype, bands, rows, cols, Layout::BandsLast);
                let device = Device::Gpu(subject.gpu.clone());
                let config = WriteConfig::new().device(device).fallback(FallbackPolicy::Strict);
                let (bytes, report) = plan.to_bytes(&mut array.expect("an array"), &config).expect("it writes");
                assert!(report.gpu.expect("a device did it").compressed_by.contains("nvCOMP"));
                let name = format!("{dtype} {predictor:?} {compress:?}");
                let image = Dataset::from_bytes(bytes).and_then(|dataset| dataset.image(0)).expect("a file");
                let raster = subject.check(&name, &image, &ReadRequest::new().layout(Layout::BandsLast));
                same_pixels(&name, &pixels, raster.pixels.as_bytes());
            }
        }
    }
}
