//! JPEG 2000 and JPEG on a device: nvJPEG2000 and nvJPEG read what the CPU reads, in one pool and with one
//! synchronisation per batch, and the CPU reads what they write.

use std::env;

use swath::read::OnCorrupt;
use swath::tiff::{Compression, Photometric, Planar};
use swath::write::{BlockSize, ImageShape, Overviews};
use swath::{
    ArraySource, Compress, DType, Dataset, Device, Error, FallbackPolicy, Image, Layout, ReadRequest, WriteConfig,
    WriteOptions, WritePlan, WriteReport,
};
use swath_codec::jpeg::EncodeColour;
use swath_codec::{SampleFormat, jpeg2000};
use swath_gpu::{CodecBackend, Error as DeviceError};

use crate::files::{Cut, File, Missing, open};
use crate::subject::{FAIL, Subject, same_pixels};

/// The most blocks of a batch.
const BATCH: usize = 32;

const JPEG2000: Compress = Compress::Jpeg2000(jpeg2000::Quality::Lossless);

/// A JPEG 2000 file: 4 x 3 tiles of one band of bytes; the tiles at the edge extend past the image.
fn tiles() -> File {
    File { width: 60, height: 40, bits: 8, compression: Compression::JPEG_2000, ..File::default() }
}

/// Windows that cut blocks: everything, some rows and columns in the middle, one pixel at the end.
fn windows(image: &Image) -> [ReadRequest<'static>; 3] {
    let (width, height) = (image.layout().grid.width, image.layout().grid.height);
    [
        ReadRequest::new(),
        ReadRequest::new().window(height / 3..height - 2, width / 4..width - 3).layout(Layout::BandsLast),
        ReadRequest::new().window(height - 1..height, width - 1..width),
    ]
}

/// Reads in strict mode on the device, to the host and to a raster, and compares.
fn check(subject: &Subject, name: &str, image: &Image, library: &str) {
    for request in windows(image) {
        let raster = subject.check(name, image, &request);
        let report = raster.report.gpu.expect("a device did it");
        assert!(report.decoded_by.starts_with(library), "{name}: {}", report.decoded_by);
        assert_eq!((report.stats.file_reads, report.read_by.contains("host")), (0, true), "{name}");
        let (resident, _) = image
            .read_to_device(&subject.strict(&request), &subject.gpu)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut pixels = vec![0; resident.bytes() as usize];
        resident.download(&mut pixels).expect("it downloads");
        same_pixels(name, raster.pixels.as_bytes(), &pixels);
    }
}

pub(crate) fn jpeg2000_of_every_type_and_layout_is_the_cpus(subject: &Subject) {
    for (format, bits) in [(SampleFormat::Uint, 8), (SampleFormat::Uint, 16), (SampleFormat::Int, 16)] {
        for bands in 1..=4 {
            for (planar, cut) in [false, true].iter().flat_map(|p| [(*p, Cut::Tiles(32, 16)), (*p, Cut::Strips(7))]) {
                let missing = if bands == 2 { Missing::Some } else { Missing::None };
                let file = File { format, bits, bands, planar, cut, missing, ..tiles() };
                check(subject, &format!("{file:?}"), &file.open(), "nvJPEG2000 ");
            }
        }
    }
    // Some bands, in another order.
    for planar in [false, true] {
        let image = File { bands: 4, planar, bits: 16, ..tiles() }.open();
        subject.check("bands", &image, &ReadRequest::new().bands(vec![3, 0, 2]));
    }
}

pub(crate) fn bands_beyond_the_states_of_a_batch_are_read_in_more_batches(subject: &Subject) {
    let file = File { bands: BATCH + 8, planar: true, width: 20, ..tiles() };
    for layout in [Layout::BandsFirst, Layout::BandsLast] {
        let raster = subject.check("many bands", &file.open(), &ReadRequest::new().layout(layout));
        assert!(raster.report.batches >= file.blocks() as u64 / BATCH as u64, "{}", raster.report.batches);
    }
}

/// Reads with a fallback. The CPU reads `blocks` blocks, and the reason contains `named`.
fn falls_back(subject: &Subject, name: &str, image: &Image, blocks: u64, named: &str) {
    let expected = image.read(&ReadRequest::new()).unwrap_or_else(|error| panic!("{name}: CPU: {error}"));
    let request = ReadRequest::new().device(&subject.gpu);
    let raster = image.read(&request).unwrap_or_else(|error| panic!("{name}: {error}"));
    same_pixels(name, expected.pixels.as_bytes(), raster.pixels.as_bytes());
    let fallbacks = raster.report.gpu.expect("the request names a device").fallbacks;
    assert_eq!(fallbacks.iter().map(|it| it.blocks).sum::<u64>(), blocks, "{name}: {fallbacks:?}");
    assert!(fallbacks.iter().all(|it| it.reason.contains(named)), "{name}: {fallbacks:?}");
    let refused = image.read(&request.fallback(FallbackPolicy::Strict)).expect_err("the CPU was ruled out");
    assert!(matches!(refused, Error::Fallback { stage: "decoding", .. }), "{name}: {refused}");
}

pub(crate) fn jpeg2000_that_the_library_does_not_take_is_left_to_the_cpu_and_told(subject: &Subject) {
    let all = |file: &File| file.blocks() as u64;
    let many = File { bands: 5, ..tiles() };
    falls_back(subject, "five components", &many.open(), all(&many), "no kernel decodes JPEG 2000");
    let signed = File { format: SampleFormat::Int, ..tiles() };
    falls_back(subject, "signed bytes", &signed.open(), all(&signed), "no kernel decodes JPEG 2000");

    // One block is wrapped in the boxes of a JP2 file, for which the library may assume other colours.
    let boxed = |block: &mut Vec<u8>| {
        let length = block.len() as u32 + 8;
        let boxes = [b"\0\0\0\x0cjP  \r\n\x87\n".as_slice(), &length.to_be_bytes(), b"jp2c"].concat();
        block.splice(0..0, boxes);
    };
    let file = File { bands: 3, ..tiles() };
    let image = open(file.build_with(|number, block| {
        if number == 5 {
            boxed(block)
        }
    }));
    match image.read(&ReadRequest::new()) {
        Ok(_) => falls_back(subject, "JP2", &image, 1, "form"),
        Err(error) => panic!("the CPU reads boxes: {error}"),
    }
}

/// A file that the CPU writes.
fn written(compress: Compress, bands: usize, change: impl Fn(WriteOptions) -> WriteOptions) -> Vec<u8> {
    let (plan, pixels) = planned(compress, DType::U8, bands, change);
    to_bytes(&plan, &pixels, Device::Cpu, FallbackPolicy::Auto).expect("the CPU writes it").0
}

/// A plan for an image of 75 x 90 pixels, with smooth pixels.
fn planned(
    compress: Compress,
    dtype: DType,
    bands: usize,
    change: impl Fn(WriteOptions) -> WriteOptions,
) -> (WritePlan, Vec<u8>) {
    let (width, height) = (75, 90);
    let mut options = WriteOptions::default().compression(compress).blocks(BlockSize::Tiles { width: 32, height: 16 });
    options = change(options);
    let plan =
        WritePlan::new(ImageShape::new(height, width, bands, dtype), options).unwrap_or_else(|error| panic!("{error}"));
    let sample = |i: usize| {
        let (pixel, band) = (i / bands, i % bands);
        let (x, y) = ((pixel as u64 % width) as f32, (pixel as u64 / width) as f32);
        let value = ((x / 9.0).sin() * (y / 13.0).cos() * 100.0 + 128.0) as i32 - band as i32 * 7;
        value * if dtype.size() == 2 { 211 } else { 1 } - if dtype == DType::I16 { 20_000 } else { 0 }
    };
    let count = (width * height) as usize * bands;
    let pixels = (0..count).flat_map(|i| sample(i).to_ne_bytes()[..dtype.size()].to_vec()).collect();
    (plan, pixels)
}

fn to_bytes(
    plan: &WritePlan,
    pixels: &[u8],
    device: Device,
    fallback: FallbackPolicy,
) -> swath::Result<(Vec<u8>, WriteReport)> {
    let config = WriteConfig::default().device(device).fallback(fallback).threads(2);
    let (dtype, bands) = (plan.dtype(), plan.bands());
    let array = ArraySource::from_bytes(pixels, dtype, bands, plan.height(), plan.width(), Layout::BandsLast);
    plan.to_bytes(&mut array.expect("as planned"), &config)
}

fn jpeg(colour: EncodeColour) -> Compress {
    Compress::Jpeg { quality: 85, colour }
}

const SUBSAMPLINGS: [(u8, u8); 3] = [(1, 1), (2, 1), (2, 2)];

pub(crate) fn jpeg_of_every_colour_and_layout_is_the_cpus(subject: &Subject) {
    // The simulator decodes like the CPU, so every difference is an error of Swath.
    for blocks in [BlockSize::Tiles { width: 32, height: 16 }, BlockSize::Strips { rows: 16 }] {
        for subsampling in SUBSAMPLINGS {
            let file = written(jpeg(EncodeColour::YCbCr { subsampling }), 3, |options| options.blocks(blocks));
            check(subject, &format!("YCbCr {subsampling:?} {blocks:?}"), &open(file), "nvJPEG ");
        }
        for (bands, planar) in [(1, Planar::Chunky), (3, Planar::Chunky), (3, Planar::Separate), (4, Planar::Separate)]
        {
            let file = written(jpeg(EncodeColour::Stored), bands, |options| options.blocks(blocks).planar(planar));
            let image = open(file);
            assert_ne!(image.layout().photometric, Photometric::YCBCR);
            check(subject, &format!("{bands} bands {planar:?} {blocks:?}"), &image, "nvJPEG ");
        }
    }
    let four = open(written(jpeg(EncodeColour::Stored), 4, |options| options));
    let blocks = four.layout().grid.count().expect("a number");
    falls_back(subject, "four bands", &four, blocks, "no kernel decodes JPEG");
}

/// A library that does not support that flag decodes without it; one that does receives it.
pub(crate) fn jpeg_is_decoded_where_chroma_cannot_be_interpolated(subject: &Subject) {
    let image = open(written(jpeg(EncodeColour::YCbCr { subsampling: (2, 2) }), 3, |options| options));
    swath_sim::forget();
    check(subject, "no interpolation", &image, "nvJPEG ");
    let handles: Vec<String> = swath_sim::events().into_iter().filter(|it| it.starts_with("nvjpegCreateEx")).collect();
    assert_eq!(handles, ["nvjpegCreateEx 36", "nvjpegCreateEx 36", "nvjpegCreateEx 4"]);
}

pub(crate) fn jpeg_with_shared_tables_is_spliced(subject: &Subject) {
    let file = written(jpeg(EncodeColour::YCbCr { subsampling: (2, 2) }), 3, |options| options);
    let image = open(file.clone());
    swath_sim::forget();
    check(subject, "shared tables", &image, "nvJPEG ");
    let events = swath_sim::events();
    assert!(events.contains(&"nvjpegDecodeBatched 18".to_owned()), "all blocks at once: {events:?}");

    // A truncated block: the library does not report which block of the batch fails, so the CPU reads the
    // batch and names the block.
    let mut cut = file;
    let end = cut.windows(2).rposition(|marker| marker == [0xff, 0xd9]).expect("a last block");
    let scan = cut[..end].windows(2).rposition(|marker| marker == [0xff, 0xda]).expect("with a scan");
    let middle = usize::midpoint(scan, end);
    cut[middle..middle + 2].copy_from_slice(&[0xff, 0xd9]);
    let image = open(cut);
    let (on_cpu, on_device) = (
        image.read(&ReadRequest::new()).unwrap_err(),
        image.read(&ReadRequest::new().device(&subject.gpu)).unwrap_err(),
    );
    assert_eq!(on_device.to_string(), on_cpu.to_string());
}

pub(crate) fn libraries_are_left_alone_when_they_are_ruled_out(subject: &Subject) {
    let file = tiles();
    let request = ReadRequest::new().device(&subject.gpu).decoder(CodecBackend::Builtin);
    swath_sim::forget();
    let report = file.open().read(&request).expect("the CPU reads it").report;
    assert_eq!(report.gpu.expect("the request names a device").fallbacks[0].reason, "no kernel decodes JPEG 2000");
    let (plan, pixels) = planned(JPEG2000, DType::U8, 1, |options| options);
    let config = WriteConfig::default().device(Device::Gpu(subject.gpu.clone())).encoder(CodecBackend::Builtin);
    let array = ArraySource::from_bytes(&pixels, DType::U8, 1, plan.height(), plan.width(), Layout::BandsLast);
    plan.to_bytes(&mut array.expect("as planned"), &config).expect("the CPU encodes it");
    let events = swath_sim::events();
    assert!(!events.iter().any(|event| event.starts_with("nvjpeg")), "{events:?}");
}

/// Checks that a batch of pictures was distributed over four streams, and that nothing was waited for between two pictures: those of
/// different streams overlap, and those of one stream follow one another without a gap.
fn side_by_side(call: &str, pictures: usize) {
    let timeline: Vec<_> = swath_sim::timeline().into_iter().filter(|work| work.name == call).collect();
    assert_eq!(timeline.len(), pictures, "{timeline:?}");
    let streams: std::collections::BTreeSet<usize> = timeline.iter().map(|work| work.stream).collect();
    assert_eq!(streams.len(), 4, "{timeline:?}");
    for round in timeline.chunks_exact(4) {
        assert!(round[1..].iter().all(|work| work.overlaps(&round[0])), "{timeline:?}");
    }
    let picture = timeline[0].end - timeline[0].begin;
    let all = timeline[pictures - 1].end - timeline[0].begin;
    assert!(all < (pictures.div_ceil(4) as u64 + 1) * picture, "no gap between the pictures of a stream: {timeline:?}");
}

/// All components of all tiles of a batch are in one pool, which is allocated once. The device decodes them
/// in four streams, and the host waits once, at the end.
pub(crate) fn seed4_one_pool_one_synchronisation_for_a_batch_of_jpeg2000(subject: &Subject) {
    let file = File { width: 8 * 16, height: 4 * 16, bands: 3, bits: 16, ..tiles() };
    let image = file.open();
    let (blocks, pool) = (file.blocks(), (file.blocks() * file.block_bytes()) as u64);
    assert_eq!(blocks, BATCH);
    for allocations in [3, 0] {
        swath_sim::forget();
        let raster = subject.check("one batch", &image, &ReadRequest::new());
        let stats = raster.report.gpu.as_ref().expect("a device did it").stats;
        assert_eq!(raster.report.batches, 1);
        // The table, the pool and the pixels.
        assert_eq!(stats.allocations, allocations, "{stats}");
        assert_eq!((stats.synchronisations, stats.uploads, stats.downloads), (1, 1, 1), "{stats}");
        assert_eq!(stats.library_calls, blocks as u64, "{stats}");
        assert!(stats.uploaded_bytes < raster.report.bytes_fetched, "streams stay on the host: {stats}");

        let events = swath_sim::events();
        let of = |name: &str| events.iter().filter(|event| event.split(' ').next() == Some(name)).count();
        assert_eq!((of("nvjpeg2kDecode"), of("synchronize"), of("alloc") as u64), (blocks, 1, allocations));
        let pools = events.iter().filter_map(|event| event.strip_prefix("alloc ")?.parse::<u64>().ok());
        let large = pools.filter(|bytes| (pool..pool * 5 / 4).contains(bytes)).count();
        // The decoded components and the pixels have the same size.
        assert_eq!(large as u64, allocations.min(2), "{events:?}");
        let last = events.iter().rposition(|event| event == "nvjpeg2kDecode").expect("they are decoded");
        let wait = events.iter().position(|event| event == "synchronize").expect("it is waited for");
        assert!(last < wait, "{events:?}");
        side_by_side("nvjpeg2kDecode", blocks);
        let allocated = events.iter().rposition(|event| event.starts_with("alloc"));
        let first = events.iter().position(|event| event == "nvjpeg2kDecode");
        assert!(allocated < first, "nothing is allocated in the midst of it: {events:?}");
    }
    // Twice as many blocks are two batches, with one synchronisation each.
    let file = File { height: 8 * 16, ..file };
    let raster = subject.check("two batches", &file.open(), &ReadRequest::new());
    assert_eq!((raster.report.batches, raster.report.gpu.expect("a device").stats.synchronisations), (2, 2));
}

pub(crate) fn tiles_of_jpeg2000_are_encoded_in_four_streams(subject: &Subject) {
    let (plan, pixels) = planned(JPEG2000, DType::U16, 1, |options| options);
    let device = Device::Gpu(subject.gpu.clone());
    swath_sim::forget();
    let (bytes, report) = to_bytes(&plan, &pixels, device, FallbackPolicy::Strict).expect("the device writes it");
    side_by_side("nvjpeg2kEncode", 18);
    // One for the sizes of all streams and one for the streams.
    let stats = report.gpu.expect("a device").stats;
    assert_eq!(stats.synchronisations, 2, "{stats}");
    let raster = open(bytes).read(&ReadRequest::new()).expect("the CPU reads it");
    same_pixels("encoded in four streams", &pixels, raster.pixels.as_bytes());
}

pub(crate) fn seed4_guard_refuses_the_pool_before_it_is_allocated(subject: &Subject) {
    // One tile of smooth pixels, which are far smaller in the file.
    let (plan, pixels) =
        planned(JPEG2000, DType::U16, 4, |options| options.blocks(BlockSize::Tiles { width: 96, height: 96 }));
    let file = to_bytes(&plan, &pixels, Device::Cpu, FallbackPolicy::Auto).expect("the CPU writes it").0;
    let (image, bytes) = (open(file), 96 * 96 * 4 * 2);
    swath_sim::forget();
    let request = subject.strict(&ReadRequest::new()).gpu_memory_budget(bytes);
    let refused = image.read(&request).expect_err("there is no room for a block");
    let Error::Device(DeviceError::Budget { stage, needed, .. }) = refused else { panic!("{refused}") };
    assert_eq!(stage, "the decoded batch");
    assert!(needed >= bytes);
    let events = swath_sim::events();
    assert!(!events.iter().any(|event| event.starts_with("nvjpeg")), "{events:?}");
    let allocated = events.iter().filter_map(|event| event.strip_prefix("alloc ")?.parse::<u64>().ok());
    assert!(allocated.max().unwrap_or(0) < bytes, "{events:?}");

    // With memory for one block at a time, all blocks are read.
    let several = File { width: 100, height: 100, bands: 4, bits: 16, ..tiles() };
    let budget = 2 * (2 * several.block_bytes() as u64 + 16_384);
    let raster = subject.check("a small budget", &several.open(), &ReadRequest::new().gpu_memory_budget(budget));
    let peak = raster.report.gpu.expect("a device").stats.peak_bytes;
    assert!(raster.report.batches > 1 && peak <= budget, "{} batches, {peak} bytes", raster.report.batches);
}

pub(crate) fn seed4_failed_tile_is_named(subject: &Subject) {
    let file = File { bands: 2, ..tiles() };
    let damages: [fn(&mut Vec<u8>); 5] = [
        // Truncated; not a codestream; another width; another precision; packets that contradict the headers.
        |block| block.truncate(block.len() / 2),
        |block| block.fill(0xff),
        |block| block[11] = 17,
        |block| block[42] = 11,
        |block| {
            let end = block.len() - 2;
            block[end / 2..end].fill(0xff);
        },
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        let image = open(file.build_with(|at, block| {
            if at == 6 {
                damage(block)
            }
        }));
        let on_cpu = image.read(&ReadRequest::new()).expect_err("it is damaged").to_string();
        assert!(on_cpu.contains("tile (1, 2)"), "{on_cpu}");
        for policy in [FallbackPolicy::Auto, FallbackPolicy::Strict] {
            let request = ReadRequest::new().device(&subject.gpu).fallback(policy);
            swath_sim::forget();
            let failed = image.read(&request).expect_err("it is damaged");
            assert_eq!(failed.to_string(), on_cpu, "damage {number}");
            // A header that contradicts the image is not passed to the library.
            let shown = swath_sim::events().iter().filter(|event| *event == "nvjpeg2kStreamParse").count();
            assert!(shown < file.blocks() || ![1, 2, 3].contains(&number), "damage {number}: {shown} were parsed");
        }
        // The damaged block is filled on request, and the others are unchanged.
        let request = ReadRequest::new().on_corrupt(OnCorrupt::Fill);
        let (cpu, device) = (
            image.read(&request).expect("the others are good"),
            image.read(&request.clone().device(&subject.gpu)).expect("the others are good"),
        );
        same_pixels("filled", cpu.pixels.as_bytes(), device.pixels.as_bytes());
        assert_eq!(device.report.filled_blocks, 1);
    }
}

/// The pixels of each level.
fn levels(file: &[u8]) -> Vec<Vec<u8>> {
    let dataset = Dataset::from_bytes(file.to_vec()).expect("it opens");
    let image = dataset.image(0).expect("an image");
    let request = |level| ReadRequest::new().level(level).layout(Layout::BandsLast);
    (0..image.levels().len())
        .map(|level| image.read(&request(level)).expect("it reads").pixels.as_bytes().to_vec())
        .collect()
}

pub(crate) fn tiles_are_written_as_jpeg2000_without_loss(subject: &Subject) {
    for (dtype, bands) in [DType::U8, DType::U16, DType::I16].iter().flat_map(|d| (1..=4).map(|b| (*d, b))) {
        for planar in [Planar::Chunky, Planar::Separate] {
            for kind in 0..3 {
                let (plan, pixels) = planned(JPEG2000, dtype, bands, |options| {
                    let options = match kind {
                        0 => options.blocks(BlockSize::Strips { rows: 13 }),
                        1 => options.overviews(Overviews::Factors(vec![2, 4])),
                        _ => options.cog().blocks(BlockSize::Tiles { width: 16, height: 16 }),
                    };
                    options.planar(planar)
                });
                let name = format!("{dtype} x {bands} {planar:?} {kind}");
                let device = Device::Gpu(subject.gpu.clone());
                let (file, report) = to_bytes(&plan, &pixels, device, FallbackPolicy::Strict)
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
                let gpu = report.gpu.expect("a device did it");
                assert!(gpu.compressed_by.starts_with("nvJPEG2000 "), "{name}: {}", gpu.compressed_by);
                assert_eq!(gpu.fallbacks.len(), 0, "{name}");
                assert!(gpu.stats.library_calls >= 2 * report.blocks, "{name}: {}", gpu.stats);
                // Each wave waits for the sizes and for the streams, and a strip may need one more
                // synchronisation.
                let waves = report.blocks.div_ceil(BATCH as u64);
                assert!(gpu.stats.synchronisations <= 2 * waves + 1, "{name}: {}", gpu.stats);
                let found = levels(&file);
                same_pixels(&name, &pixels, &found[0]);
                let by_cpu = to_bytes(&plan, &pixels, Device::Cpu, FallbackPolicy::Auto).expect("the CPU writes it").0;
                assert!(found == levels(&by_cpu), "{name}: overviews");
            }
        }
    }
}

/// nvJPEG2000 does not encode pictures of one row, and the last strip may have one row. The write detects
/// this at the first strip.
pub(crate) fn last_strip_of_one_row_is_detected_at_the_start(subject: &Subject) {
    let (plan, pixels) = planned(JPEG2000, DType::U8, 1, |options| options.blocks(BlockSize::Strips { rows: 89 }));
    let device = || Device::Gpu(subject.gpu.clone());
    let (file, report) = to_bytes(&plan, &pixels, device(), FallbackPolicy::Strict).expect("the CPU compresses all");
    same_pixels("strips", &pixels, &levels(&file)[0]);
    let gpu = report.gpu.expect("a device cut it");
    assert_eq!((gpu.compressed_by.as_str(), gpu.fallbacks.len()), ("the CPU", 0));
    let (plan, pixels) = planned(JPEG2000, DType::U8, 1, |options| options.blocks(BlockSize::Strips { rows: 88 }));
    let (_, report) = to_bytes(&plan, &pixels, device(), FallbackPolicy::Strict).expect("two rows are enough");
    assert!(report.gpu.expect("a device did it").compressed_by.starts_with("nvJPEG2000 "));
}

/// The library encodes a lossless tile incorrectly and reports success.
pub(crate) fn wrong_lossless_jpeg2000_is_detected_before_anything_is_written(subject: &Subject) {
    let (plan, pixels) = planned(JPEG2000, DType::U16, 3, |options| options);
    let expected = to_bytes(&plan, &pixels, Device::Cpu, FallbackPolicy::Auto).expect("the CPU writes it").0;
    let device = || Device::Gpu(subject.gpu.clone());
    swath_sim::reset();
    swath_sim::forget();
    let (file, report) = to_bytes(&plan, &pixels, device(), FallbackPolicy::Auto).expect("the CPU encodes");
    assert_eq!(swath_sim::events().iter().filter(|event| event.starts_with("injected failure: j2k-wrong")).count(), 1);
    assert!(file == expected, "other bytes than the CPU's");
    let gpu = report.gpu.expect("a device cut it");
    assert_eq!(gpu.compressed_by, "the CPU");
    assert!(gpu.fallbacks.iter().any(|entry| entry.reason.contains("other pixels when it is decoded")), "{gpu:?}");
    swath_sim::reset();
    let error = to_bytes(&plan, &pixels, device(), FallbackPolicy::Strict).expect_err("the library was requested");
    assert!(matches!(&error, Error::Fallback { reason, .. } if reason.contains("nvJPEG2000")), "{error}");
}

/// Encoders need working memory of several times the size of their tiles.
pub(crate) fn large_pictures_are_encoded_few_at_a_time(subject: &Subject) {
    let options = WriteOptions::default()
        .compression(jpeg(EncodeColour::Stored))
        .blocks(BlockSize::Tiles { width: 4096, height: 4096 });
    let plan = WritePlan::new(ImageShape::new(4096, 4096 * 5, 1, DType::U8), options).expect("a plan");
    let pixels = vec![7; 4096 * 5 * 4096];
    swath_sim::forget();
    let device = Device::Gpu(subject.gpu.clone());
    let (_, report) = to_bytes(&plan, &pixels, device, FallbackPolicy::Strict).expect("it is written");
    assert!(report.gpu.expect("a device did it").compressed_by.starts_with("nvJPEG "));
    let states = swath_sim::events().iter().filter(|event| event.starts_with("nvjpegEncoderStateCreate")).count();
    assert_eq!(states, 4, "64 MiB of tiles of 16 MiB");
}

pub(crate) fn tiles_are_written_as_jpeg(subject: &Subject) {
    let stored =
        [(1, Planar::Chunky), (3, Planar::Separate)].map(|(bands, planar)| (EncodeColour::Stored, bands, planar));
    let colours = SUBSAMPLINGS.map(|subsampling| (EncodeColour::YCbCr { subsampling }, 3, Planar::Chunky));
    for (colour, bands, planar) in stored.into_iter().chain(colours) {
        for blocks in [BlockSize::Tiles { width: 32, height: 16 }, BlockSize::Strips { rows: 24 }] {
            let name = format!("{colour:?} x {bands} {planar:?} {blocks:?}");
            let (plan, pixels) = planned(jpeg(colour), DType::U8, bands, |options| {
                options.blocks(blocks).planar(planar).overviews(Overviews::Factors(vec![2]))
            });
            let device = Device::Gpu(subject.gpu.clone());
            let (file, report) = to_bytes(&plan, &pixels, device, FallbackPolicy::Strict)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            let gpu = report.gpu.expect("a device did it");
            assert!(gpu.compressed_by.starts_with("nvJPEG 1"), "{name}: {}", gpu.compressed_by);
            let by_cpu = to_bytes(&plan, &pixels, Device::Cpu, FallbackPolicy::Auto).expect("the CPU writes it").0;
            let (found, expected) = (levels(&file), levels(&by_cpu));
            assert_eq!(found.len(), 2);
            for (found, expected) in found.iter().zip(&expected) {
                let far = found.iter().zip(expected).map(|(a, b)| a.abs_diff(*b)).max();
                assert!(far <= Some(4) && found.len() == expected.len(), "{name}: {far:?}");
            }
            // The file has the tables once, not in each block.
            let tables = |file: &[u8]| file.windows(2).filter(|two| *two == [0xff, 0xdb]).count();
            assert_eq!(tables(&file), tables(&by_cpu), "{name}");
            let (ours, theirs) = (open(file.clone()), open(by_cpu));
            assert_eq!(ours.layout().photometric, theirs.layout().photometric, "{name}");
            // A device also reads what it wrote.
            check(subject, &name, &ours, "nvJPEG ");
        }
    }
    // nvJPEG would need planar pixels to store three bands without colour conversion, so the CPU compresses the tiles.
    let (plan, pixels) = planned(jpeg(EncodeColour::Stored), DType::U8, 3, |options| options);
    let (file, report) =
        to_bytes(&plan, &pixels, Device::Gpu(subject.gpu.clone()), FallbackPolicy::Strict).expect("it is cut there");
    assert_eq!(report.gpu.expect("a device did it").compressed_by, "the CPU");
    assert_eq!(open(file).layout().photometric, Photometric::RGB);
}

pub(crate) const READ_FAILURES: [&str; 12] = [
    "j2k-parse:2",
    "j2k-parse:2+",
    "j2k-state:3",
    "j2k-state:1+",
    "j2k-decode:2",
    "j2k-decode:1+",
    "j2k-late:2",
    "jpeg-info:2",
    "jpeg-state:1",
    "jpeg-state:1+",
    "jpeg-decode:1",
    "jpeg-decode:1+",
];

/// After every fault the pixels are correct, and the report says what the CPU read.
pub(crate) fn read_that_fails(subject: &Subject) {
    let failure = env::var(FAIL).expect("something fails");
    let image = match failure.starts_with("j2k") {
        true => File { bands: 3, ..tiles() }.open(),
        false => open(written(jpeg(EncodeColour::YCbCr { subsampling: (2, 2) }), 3, |options| options)),
    };
    let expected = image.read(&ReadRequest::new()).expect("the CPU reads it");
    let read = image.read(&ReadRequest::new().device(&subject.gpu));
    match (read, failure.starts_with("j2k-late")) {
        (Err(Error::Device(error)), true) => assert!(!error.is_library(), "{error}"),
        (Ok(raster), false) => {
            same_pixels(&failure, expected.pixels.as_bytes(), raster.pixels.as_bytes());
            let fallbacks = raster.report.gpu.expect("the request names a device").fallbacks;
            assert!(fallbacks.iter().any(|it| it.blocks > 0), "{failure}: {fallbacks:?}");
        }
        (read, _) => panic!("{failure}: {:?}", read.map(|raster| raster.report)),
    }
    // A device whose work failed does nothing more. Otherwise a single fault has no further effect, and a
    // permanent fault is an error in strict mode.
    let again = image.read(&subject.strict(&ReadRequest::new()));
    match failure.ends_with('+') {
        _ if failure.starts_with("j2k-late") => assert!(matches!(again, Err(Error::Device(_)))),
        true => {
            let Err(Error::Fallback { reason, .. }) = &again else { panic!("{failure}: {again:?}") };
            // The reason contains the library's message, and the block if there is one.
            assert!(reason.contains("nvJPEG"), "{failure}: {reason}");
            let about_blocks = !failure.contains("state");
            assert_eq!(reason.starts_with("tile (0, 0): "), about_blocks, "{failure}: {reason}");
        }
        false => same_pixels(&failure, expected.pixels.as_bytes(), again.expect("it goes on").pixels.as_bytes()),
    }
}

pub(crate) const WRITE_FAILURES: [&str; 8] = [
    "j2k-state:3",
    "j2k-state:1+",
    "j2k-encode:2",
    "j2k-encode:1+",
    "jpeg-state:2",
    "jpeg-state:1+",
    "jpeg-encode:2",
    "jpeg-encode:1+",
];

/// After every fault the file holds the correct pixels, and the report says what the CPU encoded.
pub(crate) fn write_that_fails(subject: &Subject) {
    let failure = env::var(FAIL).expect("something fails");
    let compress = match failure.starts_with("j2k") {
        true => JPEG2000,
        false => jpeg(EncodeColour::YCbCr { subsampling: (2, 2) }),
    };
    let (plan, pixels) = planned(compress, DType::U8, 3, |options| options);
    let expected = to_bytes(&plan, &pixels, Device::Cpu, FallbackPolicy::Auto).expect("the CPU writes it").0;
    let device = || Device::Gpu(subject.gpu.clone());
    let (file, report) = to_bytes(&plan, &pixels, device(), FallbackPolicy::Auto).expect("the CPU helps out");
    assert!(levels(&file) == levels(&expected), "{failure}");
    let fallbacks = report.gpu.expect("the request names a device").fallbacks;
    assert!(
        fallbacks.iter().any(|it| it.blocks > 0 && it.stage.starts_with("compressing")),
        "{failure}: {fallbacks:?}"
    );
    let again = to_bytes(&plan, &pixels, device(), FallbackPolicy::Strict);
    match failure.ends_with('+') {
        true => assert!(matches!(again, Err(Error::Fallback { .. })), "{failure}"),
        false => assert!(levels(&again.expect("it goes on").0) == levels(&expected), "{failure}"),
    }
}
