//! Blocks that the device holds but cannot decode return to the host: by one gather and one copy, guarded,
//! and without a second read of the file.

use std::fs;
use std::path::Path;

use swath::device::{CodecBackend, Gpu, Storage};
use swath::read::OnCorrupt;
use swath::tiff::Compression;
use swath::{DType, Error, FallbackPolicy, Image, Raster, ReadRequest};
use swath_codec::{Codec, Decoder, Predictor, SampleFormat, Shape};
use swath_gpu::{Block, DecodeJob, Decoding, Error as DeviceError, Target, Transfer};

use super::timeline::Timeline;
use crate::files::{Cut, Dice, File, compress, open, texture};
use crate::subject::{Subject, same_pixels};

/// The side in pixels of a tile that no kernel decodes.
const SIDE: u32 = 8;

/// A batch that the device has read from a file and finished.
struct Batch {
    decoding: Decoding,
    /// The contents of the tiles.
    tiles: Vec<Vec<u8>>,
    /// The offset and size of each tile in the payload.
    pieces: Vec<(u64, u64)>,
}

impl Batch {
    /// Reads tiles of these sizes, with contents that LZW cannot decode.
    fn read(gpu: &Gpu, sizes: &[usize], budget: u64) -> Batch {
        let mut dice = Dice::new(sizes.len() as u64);
        let mut random = |len: usize| (0..len).map(|_| dice.below(256) as u8).collect::<Vec<u8>>();
        let tiles: Vec<Vec<u8>> = sizes.iter().map(|&len| random(len)).collect();
        // The file has other bytes between the tiles and before the first one.
        let (mut stored, mut pieces, mut transfers, mut payload) = (vec![1; 11], Vec::new(), Vec::new(), 0);
        for tile in &tiles {
            let len = tile.len() as u64;
            transfers.push(Transfer { file_offset: stored.len() as u64, buffer_offset: payload, len });
            pieces.push((payload, len));
            stored.extend(tile);
            stored.extend([9; 3]);
            payload += len;
        }
        transfers.retain(|transfer| transfer.len > 0);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tiles-{}", std::process::id()));
        fs::write(&path, &stored).expect("room on the disk");
        let file = fs::File::open(&path).expect("it was just made");
        let file =
            gpu.open_file(&file, false, Storage::CuFile).expect("cuFile opens it").expect("cuFile was requested");
        fs::remove_file(path).expect("it was just made");

        let side = SIDE as usize;
        let shape = Shape { width: side, height: side, samples: 1, bits: 8, format: SampleFormat::Uint };
        let decoder = Decoder {
            codec: Codec::Lzw,
            name: "LZW",
            predictor: Predictor::None,
            big_endian: false,
            lsb_first: false,
            subsampling: (1, 1),
            max_memory: u64::MAX,
        };
        let job = DecodeJob::new(gpu, CodecBackend::Auto, &decoder, shape, DType::U8, false, &[0]).expect("a kernel");
        let blocks = pieces.iter().enumerate().map(|(i, &(src, len))| Block {
            src,
            src_len: len as u32,
            dst_len: SIDE * SIDE,
            rows: SIDE,
            cols: SIDE,
            to_col: i as u32 * SIDE,
            ..Block::default()
        });
        let cols = u64::from(SIDE) * pieces.len() as u64;
        let target = Target::Host { bands: 1, rows: SIDE.into(), cols, bands_last: false };
        let mut decoding = gpu.decode(job, &[0], budget).expect("a queue");
        let submitted = decoding.submit_from_file(blocks.collect(), payload as usize, (&file, &transfers), target);
        submitted.expect("room for the batch");
        let finished = decoding.finish().expect("it ran").expect("a batch");
        assert!(finished.statuses().any(|status| !status.is_ok()), "LZW makes sense of all of it");
        assert!(decoding.keeps_compressed());
        Batch { decoding, tiles, pieces }
    }
}

pub(super) fn seed1_blocks_come_back_by_one_gather_and_one_copy(subject: &Subject) {
    let many: Vec<usize> = (0..1024).map(|i| 1 + i * 7 % 60).collect();
    for sizes in [vec![700], vec![5, 0, 900, 0], vec![0, 0, 0], many] {
        let mut batch = Batch::read(&subject.gpu, &sizes, 1 << 30);
        let all: Vec<usize> = (0..sizes.len()).collect();
        let some: Vec<usize> = all.iter().rev().step_by(3).copied().collect();
        // All tiles, some tiles in another order, none, and all again.
        for which in [&all[..], &some[..], &[], &all[..]] {
            let pieces: Vec<_> = which.iter().map(|&i| batch.pieces[i]).collect();
            let expected: Vec<u8> = which.iter().flat_map(|&i| batch.tiles[i].clone()).collect();
            let stored = pieces.iter().filter(|(_, len)| *len > 0).count() as u64;
            let before = subject.gpu.stats();
            let (bytes, timeline) = Timeline::of(|| batch.decoding.bring_back(&pieces).expect("room").to_vec());
            let stats = subject.gpu.stats().since(&before);
            assert!(bytes == expected, "{sizes:?}: other bytes came back than were read");
            if stored == 0 {
                assert!(timeline.is_idle(), "{sizes:?}: {timeline:?}");
                assert_eq!((stats.downloads, stats.launches, stats.allocations), (0, 0, 0), "{sizes:?}: {stats}");
                continue;
            }
            assert_eq!(timeline.numbers("launch gather"), [stored], "{timeline:?}");
            assert_eq!(timeline.numbers("download"), [expected.len() as u64], "{timeline:?}");
            assert_eq!((timeline.count("launch"), timeline.count("upload")), (1, 1), "{timeline:?}");
            assert_eq!(timeline.count("synchronize"), 1, "{timeline:?}");
            assert!(timeline.first("launch gather") < timeline.first("download"), "{timeline:?}");
            assert!(timeline.first("download") < timeline.first("synchronize"), "{timeline:?}");
            // One allocation for the gathered bytes, if they exceed the decoded bytes, and one for the table.
            assert!(timeline.count("alloc") <= 2, "{timeline:?}");
            assert_eq!((stats.downloads, stats.downloaded_bytes), (1, expected.len() as u64), "{stats}");
            assert_eq!((stats.launches, stats.synchronisations, stats.file_reads), (1, 1, 0), "{stats}");
        }
    }
}

pub(super) fn seed1_guard_refuses_before_anything_is_allocated(subject: &Subject) {
    let budget = 200_000;
    let mut batch = Batch::read(&subject.gpu, &[3000; 4], budget);
    let whole = batch.pieces[0];
    // Too many bytes to gather; and few bytes with a table that is too long.
    for (pieces, least) in [(vec![whole; 100], 300_000), (vec![(whole.0, 1); 9000], 9000)] {
        let (refused, timeline) = Timeline::of(|| batch.decoding.bring_back(&pieces).map(<[u8]>::to_vec));
        let refused = refused.expect_err("more than the budget");
        let DeviceError::Budget { stage, needed, left, budget: reported } = refused else { panic!("{refused}") };
        assert!(stage.contains("on their way back"), "{stage}");
        assert!(needed >= least && needed > left && reported == budget, "{needed} of {left}, budget {reported}");
        assert!(timeline.is_idle(), "{timeline:?}");
    }
    // A request that fits succeeds.
    let tile = batch.decoding.bring_back(&[whole]).expect("3,000 bytes").to_vec();
    assert!(tile == batch.tiles[0]);
}

pub(super) fn seed1_guard_of_the_device_refuses_before_anything_is_allocated(subject: &Subject) {
    let mut batch = Batch::read(&subject.gpu, &[3000; 4], u64::MAX);
    let pieces = vec![batch.pieces[1]; 130];
    let (refused, timeline) = Timeline::of(|| batch.decoding.bring_back(&pieces).map(<[u8]>::to_vec));
    let refused = refused.expect_err("more than the device has");
    let DeviceError::Memory { stage, needed: 390_000, free } = refused else { panic!("{refused}") };
    assert!(stage.contains("on their way back") && free < 390_000, "{stage}: {free}");
    assert!(timeline.is_idle(), "{timeline:?}");
}

/// 64 tiles of ZSTD, of which some are two frames in a row: one block for the CPU, and a form that nothing on the device decodes.
fn two_frames(refused: usize) -> (Image, File, Vec<u64>) {
    let file = File {
        width: 512,
        height: 512,
        bits: 8,
        cut: Cut::Tiles(64, 64),
        compression: Compression::ZSTD,
        ..File::default()
    };
    let mut sizes = Vec::new();
    let bytes = file.build_with(|number, block| {
        // Which of them does not matter, but that it is so many.
        if number * 37 % 64 < refused {
            let content = texture(number as u64 + 500, file.block_bytes());
            let (first, second) = content.split_at(1000);
            *block = compress(Compression::ZSTD, 3, 64, first);
            block.extend(compress(Compression::ZSTD, 3, 64, second));
        }
        sizes.push(block.len() as u64);
    });
    (open(bytes), file, sizes)
}

/// Bytes that this process has read from files.
fn bytes_read() -> u64 {
    let text = fs::read_to_string("/proc/self/io").expect("a system that counts");
    text.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok()).expect("a number of bytes")
}

/// Read by the CPU and by the device, once before it is looked at, so that kernels are there; compare.
fn read(subject: &Subject, name: &str, image: &Image, request: &ReadRequest<'_>) -> (Raster, Timeline, u64) {
    let expected = image.read(request).unwrap_or_else(|error| panic!("{name}: CPU: {error}"));
    let request = request.clone().device(&subject.gpu);
    let read = || image.read(&request).unwrap_or_else(|error| panic!("{name}: {error}"));
    read();
    let before = bytes_read();
    let (raster, timeline) = Timeline::of(read);
    let bytes = bytes_read() - before;
    same_pixels(name, expected.pixels.as_bytes(), raster.pixels.as_bytes());
    assert_eq!(raster.report.filled_blocks, expected.report.filled_blocks, "{name}");
    assert_eq!(raster.report.blocks, expected.report.blocks, "{name}");
    (raster, timeline, bytes)
}

pub(super) fn seed1_refused_blocks_of_a_file_come_back_once_and_are_not_read_again(subject: &Subject) {
    for refused in [1, 4, 5, 40, 64] {
        let name = format!("{refused} refused");
        let (image, _, sizes) = two_frames(refused);
        let (raster, timeline, bytes) = read(subject, &name, &image, &ReadRequest::new());
        let gpu = raster.report.gpu.expect("a device did it");
        let fallbacks: Vec<_> = gpu.fallbacks.iter().map(|fallback| (fallback.stage, fallback.blocks)).collect();
        assert_eq!(fallbacks, [("decoding", refused as u64)], "{name}");
        // Few blocks return one by one; if there are many, the CPU decodes the whole batch.
        let back = if refused > 4 { 64 } else { refused as u64 };
        assert_eq!(timeline.numbers("launch gather"), [back], "{name}: {timeline:?}");
        let downloads = timeline.numbers("download");
        assert_eq!(downloads.len(), 2, "{name}: pixels, and blocks: {timeline:?}");
        let stored: u64 = sizes.iter().sum();
        if back == 64 {
            assert_eq!(downloads[1], stored, "{name}");
        } else {
            assert!(downloads[1] < stored / 4, "{name}: {downloads:?} of {stored}");
        }
        assert_eq!(
            (gpu.stats.downloads, gpu.stats.file_reads),
            (2, timeline.count("cuFileRead") as u64),
            "{}",
            gpu.stats
        );
        assert!(gpu.stats.file_read_bytes >= stored, "{}", gpu.stats);
        // The device reads the blocks once. The host reads only the tables, each time that it looks for
        // blocks.
        let tables = 3 * 64 * 8;
        let most = gpu.stats.file_read_bytes + tables + 1000;
        assert!(bytes >= stored && bytes <= most, "{name}: {bytes} bytes were read, blocks are {stored}");

        let strict = ReadRequest::new().device(&subject.gpu).fallback(FallbackPolicy::Strict);
        let error = image.read(&strict).expect_err("the CPU was ruled out");
        assert!(matches!(&error, Error::Fallback { stage: "decoding", .. }), "{name}: {error}");

        // Uploads: the blocks, the table of the gather, and one upload for each block that the CPU decoded,
        // or one for all.
        let request = ReadRequest::new().device(&subject.gpu);
        let ((resident, report), timeline) =
            Timeline::of(|| image.read_to_device(&request, &subject.gpu).expect("it reads"));
        let uploads = 2 + if refused > 4 { 1 } else { refused };
        assert_eq!((timeline.count("upload"), timeline.count("launch gather")), (uploads, 1), "{name}: {timeline:?}");
        assert_eq!(report.gpu.expect("a device did it").stats.uploads, uploads as u64, "{name}");
        let mut pixels = vec![0; resident.bytes() as usize];
        resident.download(&mut pixels).expect("it downloads");
        same_pixels(&name, raster.pixels.as_bytes(), &pixels);
    }
}

pub(super) fn seed1_every_batch_with_refused_blocks_brings_them_back_once(subject: &Subject) {
    let (image, file, _) = two_frames(64);
    let budget = 16 * file.block_bytes() as u64;
    let (raster, timeline, _) = read(subject, "in batches", &image, &ReadRequest::new().gpu_memory_budget(budget));
    let gpu = raster.report.gpu.expect("a device did it");
    let batches = timeline.count("launch chunk_check");
    assert!(batches >= 8, "{timeline:?}");
    assert_eq!(timeline.count("launch gather"), batches, "{timeline:?}");
    assert_eq!(timeline.numbers("launch gather").iter().sum::<u64>(), 64, "{timeline:?}");
    assert_eq!(gpu.stats.downloads, 2 * batches as u64, "{}", gpu.stats);
    assert!(gpu.stats.peak_bytes <= budget, "{}", gpu.stats);
    assert!(gpu.fallbacks.iter().all(|fallback| fallback.stage == "decoding"), "{:?}", gpu.fallbacks);
}

pub(super) fn seed1_damaged_blocks_come_back_once_and_are_filled_as_the_cpu_fills_them(subject: &Subject) {
    for compression in [Compression::DEFLATE, Compression::LZW] {
        let file = File { width: 256, height: 256, cut: Cut::Tiles(32, 32), compression, ..File::default() };
        for damaged in [3, 30] {
            let image = open(file.build_with(|number, block| {
                if number < damaged {
                    // Damage the checksum of one, the middle of the other.
                    let at = if compression == Compression::DEFLATE { block.len() - 1 } else { block.len() / 2 };
                    block[at] ^= 0x55;
                    if compression == Compression::LZW {
                        block.truncate(at);
                    }
                }
            }));
            let name = format!("{damaged} of {compression:?}");
            let (raster, timeline, _) = read(subject, &name, &image, &ReadRequest::new().on_corrupt(OnCorrupt::Fill));
            assert_eq!(raster.report.filled_blocks, damaged as u64, "{name}");
            let back = if damaged > 4 { 64 } else { damaged as u64 };
            assert_eq!(timeline.numbers("launch gather"), [back], "{name}: {timeline:?}");
            let gpu = raster.report.gpu.expect("a device did it");
            // A block that no decoder can read is not a fallback.
            assert_eq!((gpu.stats.downloads, gpu.fallbacks), (2, vec![]), "{name}");
        }
    }
}

pub(super) fn seed1_blocks_that_cannot_be_copied_back_are_read_from_the_file_and_reported(subject: &Subject) {
    // Blocks much longer than their contents: the CPU ignores the bytes after a stream, but a decoder that
    // expects the checksum at the end finds a wrong one.
    let file = File { width: 64, height: 64, bits: 8, compression: Compression::DEFLATE, ..File::default() };
    let image = open(file.build_with(|number, block| block.extend(texture(number as u64, 9000))));
    let request = ReadRequest::new().gpu_memory_budget(240_000);
    let (raster, timeline, bytes) = read(subject, "a small budget", &image, &request);
    let gpu = raster.report.gpu.expect("a device did it");
    assert_eq!((timeline.count("launch gather"), gpu.stats.file_reads), (0, 16), "{timeline:?}");
    let stages: Vec<_> = gpu.fallbacks.iter().map(|fallback| fallback.stage).collect();
    assert_eq!(stages, ["copying blocks back from the device", "decoding"], "{:?}", gpu.fallbacks);
    assert!(gpu.fallbacks[0].reason.contains("left of a budget of 240000"), "{:?}", gpu.fallbacks);
    assert!(bytes >= 2 * 16 * 9000, "{bytes}: by the device and by the host");
    // The guard came first: nothing new was allocated.
    assert_eq!((timeline.count("alloc"), gpu.stats.allocations), (0, 0), "{timeline:?}");
    let strict = request.device(&subject.gpu).fallback(FallbackPolicy::Strict);
    let error = image.read(&strict).expect_err("the CPU was ruled out");
    assert!(matches!(&error, Error::Fallback { stage: "copying blocks back from the device", .. }), "{error}");
    // With enough memory the blocks return.
    let (raster, timeline, bytes) = read(subject, "enough", &image, &ReadRequest::new());
    assert_eq!(timeline.numbers("launch gather"), [16], "{timeline:?}");
    assert!(bytes < 2 * 16 * 9000, "{bytes}");
    assert_eq!(raster.report.gpu.expect("a device did it").fallbacks.len(), 1);
}
