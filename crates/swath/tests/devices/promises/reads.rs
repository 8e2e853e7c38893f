//! Compressed blocks go from the file to the device in one batch: all reads are submitted before the first
//! wait, into one buffer that is guarded and registered once. That all are submitted before the first wait is
//! tested with the code (`swath-gpu/src/nvidia/cufile/pool/tests.rs`); these tests check the calls that
//! cuFile receives.

use std::time::{Duration, Instant};
use std::{env, fs};

use swath::device::{CodecBackend, DeviceReport, Gpu, Storage};
use swath::tiff::{Builder, ByteOrder, Compression, Tag, Value};
use swath::{DType, Error, FallbackPolicy, Raster, ReadRequest};
use swath_codec::{Codec, Decoder, Predictor, SampleFormat, Shape};
use swath_gpu::{Block, DecodeJob, DeviceFile, DeviceStats, Error as DeviceError, Target, Transfer};

use super::stored;
use super::timeline::Timeline;
use crate::files::{Cut, File, Missing, open};
use crate::subject::{Subject, same_pixels};

/// 320 tiles. nvCOMP requires aligned Deflate streams, so each tile is a separate read.
const TILES: File = File {
    width: 640,
    height: 512,
    bands: 1,
    cut: Cut::Tiles(32, 32),
    planar: false,
    compression: Compression::DEFLATE,
    predictor: Predictor::None,
    order: ByteOrder::Little,
    lsb_first: false,
    format: SampleFormat::Uint,
    bits: 8,
    missing: Missing::None,
};

fn device(raster: &Raster) -> &DeviceReport {
    raster.report.gpu.as_ref().expect("a device did it")
}

fn stats(raster: &Raster) -> DeviceStats {
    device(raster).stats
}

pub(super) fn seed2_every_read_is_submitted_before_the_first_is_waited_for(subject: &Subject) {
    let image = TILES.open();
    let tiles = TILES.blocks();
    let (raster, timeline) = Timeline::of(|| subject.check("tiles", &image, &ReadRequest::new()));
    assert_eq!(timeline.count("cuFileRead"), tiles, "{timeline:?}");
    assert_eq!(timeline.side_by_side(), 16, "as many as there are threads");
    assert!(device(&raster).read_by.contains("GPUDirect"), "{}", device(&raster).read_by);
    // The decode call comes after the reads.
    let decoded = timeline.first("nvcompBatchedDeflateDecompressAsync");
    assert!(timeline.last("ended") < decoded, "{timeline:?}");
    // The host uploads only the table of the blocks, and no block.
    let [uploaded] = timeline.numbers("upload")[..] else { panic!("{timeline:?}") };
    assert!(uploaded < tiles as u64 * 80, "{uploaded} bytes were uploaded for {tiles} tiles");
    // The same holds for a read in several batches.
    let request = ReadRequest::new().gpu_memory_budget(400_000);
    let (raster, timeline) = Timeline::of(|| subject.check("in batches", &image, &request));
    assert!(raster.report.batches > 1);
    assert_eq!(stats(&raster).file_reads, tiles as u64);
    assert_eq!(timeline.count("cuFileRead"), tiles);
}

pub(super) fn seed2_file_and_buffer_are_registered_once_for_many_reads(subject: &Subject) {
    let file = TILES.build();
    let bytes: u64 = stored(&file, 0).iter().map(|span| span.len).sum();
    let image = open(file);
    subject.gpu.trim();
    for round in 0..3 {
        let (raster, timeline) = Timeline::of(|| subject.check("tiles", &image, &ReadRequest::new()));
        let once = usize::from(round == 0);
        assert_eq!(timeline.count("cuFileHandleRegister"), once, "round {round}: {timeline:?}");
        assert_eq!(timeline.count("cuFileBufRegister"), once, "round {round}: {timeline:?}");
        // Memory for compressed bytes, decoded bytes and pixels: three allocations for 320 tiles, and the
        // first is that of the batch.
        assert_eq!(timeline.count("alloc"), 3 * once, "round {round}: {timeline:?}");
        if round == 0 {
            let registered = timeline.numbers("cuFileBufRegister")[0];
            assert_eq!(registered, timeline.numbers("alloc")[0], "{timeline:?}");
            assert!((bytes..bytes + 320 * 160).contains(&registered), "{registered} bytes for {bytes}");
        }
        let stats = stats(&raster);
        assert_eq!((stats.file_reads, stats.file_read_bytes), (320, bytes), "{stats}");
        assert_eq!((stats.allocations, raster.report.bytes_fetched), (3 * once as u64, bytes), "{stats}");
        assert_eq!(timeline.numbers("cuFileRead").iter().sum::<u64>(), bytes, "{timeline:?}");
    }
    // Blocks that need no alignment are read as they lie in the file, in one read.
    let image = File { compression: Compression::LZW, ..TILES }.open();
    let (raster, timeline) = Timeline::of(|| subject.check("LZW", &image, &ReadRequest::new()));
    assert_eq!((timeline.count("cuFileRead"), stats(&raster).file_reads), (1, 1), "{timeline:?}");
    // A window reads only its own tiles.
    let image = TILES.open();
    let request = ReadRequest::new().window(40..60, 0..100);
    let (raster, timeline) = Timeline::of(|| subject.check("a window", &image, &request));
    assert_eq!((timeline.count("cuFileRead"), stats(&raster).file_reads), (4, 4), "{timeline:?}");
}

pub(super) fn seed2_blocks_that_are_not_stored_cost_no_read(subject: &Subject) {
    for missing in [Missing::Some, Missing::SomeWithNodata, Missing::AllWithNodata] {
        let file = File { missing, ..TILES }.build();
        let stored: Vec<u64> = stored(&file, 0).iter().map(|span| span.len).filter(|&len| len > 0).collect();
        let image = open(file);
        assert_eq!(stored.len(), if missing == Missing::AllWithNodata { 0 } else { 213 });
        let (raster, timeline) = Timeline::of(|| subject.check(&format!("{missing:?}"), &image, &ReadRequest::new()));
        let bytes: u64 = stored.iter().sum();
        let stats = stats(&raster);
        assert_eq!((stats.file_reads, stats.file_read_bytes), (stored.len() as u64, bytes), "{missing:?}: {stats}");
        assert_eq!(timeline.count("cuFileRead"), stored.len(), "{missing:?}: {timeline:?}");
        assert_eq!(raster.report.sparse_blocks, 320 - stored.len() as u64, "{missing:?}");
        if stored.is_empty() {
            assert_eq!(timeline.count("ended"), 0, "{timeline:?}");
        }
    }
}

pub(super) fn seed2_guard_looks_at_the_sum_of_the_blocks_before_anything_is_read(subject: &Subject) {
    // 64 tiles share one stream of 700,000 bytes: the file is small, but the sum of its blocks is not.
    let file = File { width: 128, height: 128, bits: 8, compression: Compression::LZW, ..File::default() };
    let mut builder = Builder::new(ByteOrder::Little, false);
    let mut first = true;
    let mut tags = file.level(&mut builder, |_, block| {
        if std::mem::take(&mut first) {
            block.resize(700_000, 0);
        }
    });
    for (tag, value) in &mut tags {
        let Value::Long(numbers) = value else { continue };
        if matches!(*tag, Tag::TILE_OFFSETS | Tag::TILE_BYTE_COUNTS) {
            let one = numbers[0];
            numbers.fill(one);
        }
    }
    builder.ifd(&tags);
    let image = open(builder.finish());
    for budget in [3_000_000, 10_000_000] {
        subject.gpu.trim();
        let request = ReadRequest::new().gpu_memory_budget(budget);
        let (raster, timeline) = Timeline::of(|| subject.check("overlapping", &image, &request));
        let stats = stats(&raster);
        assert!(stats.peak_bytes <= budget && raster.report.batches > 64 * 700_000 / budget, "{stats}");
        assert_eq!((stats.file_reads, stats.file_read_bytes), (64, 64 * 700_000), "{stats}");
        assert!(timeline.numbers("alloc").iter().all(|&bytes| bytes <= budget), "{timeline:?}");
    }
    // If not even one block fits, the error says how much it needs, and nothing was allocated or read.
    subject.gpu.trim();
    let request = subject.strict(&ReadRequest::new()).gpu_memory_budget(600_000);
    let (refused, timeline) = Timeline::of(|| image.read(&request));
    let error = refused.expect_err("700,000 bytes do not fit");
    let Error::Device(DeviceError::Budget { stage, needed, budget, .. }) = &error else { panic!("{error}") };
    assert_eq!((*stage, *budget), ("the compressed batch", 600_000), "{error}");
    assert!((700_000..702_000).contains(needed), "{error}");
    assert_eq!((timeline.count("alloc"), timeline.count("cuFileRead")), (0, 0), "{timeline:?}");
}

/// cuFile fails from some read on. The host reads, and the fallback is reported, or refused in strict mode.
fn other_way(subject: &Subject, reason: &str) {
    let image = TILES.open();
    let expected = image.read(&ReadRequest::new()).expect("the CPU reads it");
    let request = ReadRequest::new().device(&subject.gpu);
    let (raster, timeline) = Timeline::of(|| image.read(&request).expect("the host reads it"));
    same_pixels(reason, expected.pixels.as_bytes(), raster.pixels.as_bytes());
    let report = device(&raster);
    let [entry] = &report.fallbacks[..] else { panic!("{:?}", report.fallbacks) };
    assert_eq!((entry.stage, entry.blocks), ("reading by cuFile", 0), "{entry}");
    assert!(entry.reason.contains(reason), "{entry}");
    assert!(report.read_by.contains("host") && report.decoded_by.contains("nvCOMP"), "{report:?}");
    // The batch was read again through the host, and was decoded once.
    assert!(timeline.count("cuFileRead") <= 320, "{timeline:?}");
    assert_eq!(timeline.numbers("nvcompBatchedDeflateDecompressAsync"), [320], "{timeline:?}");
    assert_eq!((report.stats.file_reads, report.stats.uploads), (0, 2), "{}", report.stats);
    let error = image.read(&request.fallback(FallbackPolicy::Strict)).expect_err("it fails again");
    let Error::Fallback { stage: "reading by cuFile", reason: why } = &error else { panic!("{error}") };
    assert!(why.contains(reason), "{error}");
    subject.gpu.trim();
    assert_eq!(swath_sim::device_bytes(), 0);
}

pub(super) fn seed2_short_read_is_reported_and_the_host_reads(subject: &Subject) {
    other_way(subject, "bytes at offset");
}

pub(super) fn seed2_failed_read_is_reported_and_the_host_reads(subject: &Subject) {
    other_way(subject, "cuFile");
}

pub(super) fn seed2_out_of_memory_is_a_memory_error(subject: &Subject) {
    let image = TILES.open();
    for fallback in [FallbackPolicy::Auto, FallbackPolicy::Strict] {
        let request = ReadRequest::new().device(&subject.gpu).fallback(fallback);
        let (refused, timeline) = Timeline::of(|| image.read(&request));
        let error = refused.expect_err("there is no memory");
        let Error::Device(DeviceError::OutOfMemory { stage, needed }) = &error else { panic!("{error}") };
        assert!(*stage == "the compressed batch" && *needed > 0, "{error}");
        assert_eq!(timeline.count("cuFileRead"), 0, "nothing is read into memory that is not there: {timeline:?}");
    }
    assert_eq!(swath_sim::device_bytes(), 0);
}

/// 256 tiles of a file, as transfers to a batch of their own.
fn file_of_tiles(gpu: &Gpu, side: usize) -> (DeviceFile, Vec<Transfer>) {
    let bytes = side * side;
    let path = env::temp_dir().join(format!("swath-tiles-{}", std::process::id()));
    fs::write(&path, vec![7; 256 * bytes]).expect("room on the disk");
    let file = fs::File::open(&path).expect("it was just made");
    let opened = gpu.open_file(&file, false, Storage::CuFile).expect("cuFile opens it").expect("cuFile was requested");
    fs::remove_file(path).expect("it was just made");
    let at = |tile: usize| (tile * bytes) as u64;
    let transfer = |tile| Transfer { file_offset: at(tile), buffer_offset: at(tile), len: bytes as u64 };
    (opened, (0..256).map(transfer).collect())
}

pub(super) fn seed2_reads_wait_side_by_side(subject: &Subject) {
    let side = 16;
    let (file, transfers) = file_of_tiles(&subject.gpu, side);
    let shape = Shape { width: side, height: side, samples: 1, bits: 8, format: SampleFormat::Uint };
    let decoder = Decoder {
        codec: Codec::None,
        name: "none",
        predictor: Predictor::None,
        big_endian: false,
        lsb_first: false,
        subsampling: (1, 1),
        max_memory: u64::MAX,
    };
    let job =
        DecodeJob::new(&subject.gpu, CodecBackend::Auto, &decoder, shape, DType::U8, false, &[0]).expect("it fits");
    let mut decoding = subject.gpu.decode(job, &[0], 1 << 30).expect("a queue");
    let (cols, tile) = (256 * side as u64, (side * side) as u32);
    let target = Target::Host { bands: 1, rows: side as u64, cols, bands_last: false };
    let mut shortest = Duration::MAX;
    for _ in 0..5 {
        let blocks = transfers.iter().enumerate().map(|(i, transfer)| Block {
            src: transfer.buffer_offset,
            src_len: tile,
            dst_len: tile,
            rows: side as u32,
            cols: side as u32,
            to_col: (i * side) as u32,
            ..Block::default()
        });
        let blocks = blocks.collect();
        let begun = Instant::now();
        // This returns when the file was read; kernels run when they are waited for.
        let submitted = decoding.submit_from_file(blocks, 256 * side * side, (&file, &transfers), target);
        shortest = shortest.min(begun.elapsed());
        submitted.expect("it reads");
        let finished = decoding.finish().expect("it runs").expect("a batch");
        assert!(finished.pixels.iter().all(|&pixel| pixel == 7));
    }
    // One after another they would wait for 256 ms, eight at a time for 32 ms. A busy machine wakes sleepers late.
    let (least, most) = (Duration::from_millis(32), Duration::from_millis(128));
    assert!((least..most).contains(&shortest), "256 reads of 1 ms took {shortest:?}");
}
