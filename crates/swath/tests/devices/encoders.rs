//! Swath's own encoders on a device: every reader gets the pixels back, the bytes do not depend on the device, and
//! a batch costs one pool, one download of sizes and one of tiles.

use std::hash::{Hash, Hasher};

use swath::device::{DeviceReport, EncoderBackend};
use swath::tiff::Planar;
use swath::tiff::nodata::NoData;
use swath::write::{BlockSize, ImageShape, Overviews};
use swath::{
    ArraySource, Compress, DType, Dataset, Device, Error, FallbackPolicy, Layout, Predictor, ReadRequest, WriteConfig,
    WriteOptions, WritePlan, WriteReport,
};

use crate::subject::{Subject, same_pixels};
use crate::writing::{Random, TYPES, samples};

const DEFLATE: Compress = Compress::Deflate { level: 6 };

/// An image to write.
struct Picture {
    pixels: Vec<u8>,
    dtype: DType,
    bands: usize,
    height: u64,
    width: u64,
}

impl Picture {
    /// One band of one row of bytes.
    fn row(pixels: Vec<u8>) -> Picture {
        let width = pixels.len() as u64;
        Picture { pixels, dtype: DType::U8, bands: 1, height: 1, width }
    }

    fn plan(&self, options: WriteOptions) -> WritePlan {
        let shape = ImageShape::new(self.height, self.width, self.bands, self.dtype);
        WritePlan::new(shape, options.clone()).unwrap_or_else(|error| panic!("{error}: {options:?}"))
    }

    fn write(&self, plan: &WritePlan, config: &WriteConfig<'_>) -> swath::Result<(Vec<u8>, WriteReport)> {
        let Picture { pixels, dtype, bands, height, width } = self;
        let array = ArraySource::from_bytes(pixels, *dtype, *bands, *height, *width, Layout::BandsLast)?;
        plan.to_bytes(&mut { array }, config)
    }
}

fn config(subject: &Subject) -> WriteConfig<'static> {
    WriteConfig::new()
        .device(Device::Gpu(subject.gpu.clone()))
        .fallback(FallbackPolicy::Strict)
        .encoder(EncoderBackend::Builtin)
        .threads(2)
}

/// Writes on the device alone, and checks that the CPU reads the same pixels as from its own file, in every level.
/// Returns both files.
fn check(subject: &Subject, name: &str, picture: &Picture, options: WriteOptions) -> (Vec<u8>, Vec<u8>) {
    let plan = picture.plan(options);
    let (expected, _) = picture.write(&plan, &WriteConfig::new()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let written = picture.write(&plan, &config(subject));
    let (found, report) = written.unwrap_or_else(|error| panic!("{name}: {error}"));
    let gpu = report.gpu.unwrap_or_else(|| panic!("{name}: no device"));
    let kernel = if plan.compression() == Compress::Lzw { "kernel lzw_encode" } else { "kernel deflate_encode" };
    assert_eq!((&gpu.compressed_by[..], gpu.fallbacks.len()), (kernel, 0), "{name}");
    let (ours, theirs) = (Dataset::from_bytes(found.clone()), Dataset::from_bytes(expected.clone()));
    let (ours, theirs) = (ours.unwrap().image(0).unwrap(), theirs.unwrap().image(0).unwrap());
    assert_eq!(ours.levels().len(), theirs.levels().len(), "{name}");
    for level in 0..ours.levels().len() {
        let request = ReadRequest::new().level(level).layout(Layout::BandsLast);
        let read = |image: &swath::Image| image.read(&request).unwrap_or_else(|error| panic!("{name}: {error}"));
        same_pixels(name, read(&theirs).pixels.as_bytes(), read(&ours).pixels.as_bytes());
    }
    (found, expected)
}

/// Bytes of many kinds, `len` of them.
fn kinds(len: usize) -> Vec<(&'static str, Vec<u8>)> {
    let mut random = Random(11);
    let noise = (0..len).map(|_| random.below(256) as u8).collect();
    let classes = (0..len).map(|i| (i / 37 * 7 % 5) as u8 + u8::from(random.below(60) == 0)).collect();
    let smooth = (0..len).map(|i| ((i as f64 / 90.0).sin() * 100.0 + 128.0) as u8).collect();
    let words = (0..len).map(|i| b"tile strip band "[(i * i / 11 + i / 64) % 16]).collect();
    vec![
        ("zeros", vec![0; len]),
        ("a value of four bytes", [0, 0, 0x50, 0x40].into_iter().cycle().take(len).collect()),
        ("noise", noise),
        ("classes", classes),
        ("smooth", smooth),
        ("words", words),
        ("every byte", (0..len).map(|i| (i * 167) as u8).collect()),
        ("few matches", (0..len).map(|i| ((i * i) >> 3) as u8).collect()),
        ("skewed", skewed(len)),
    ]
}

/// Bytes whose best code is longer than the 15 bits that Deflate allows: the counts of 19 of them are Fibonacci
/// numbers.
fn skewed(len: usize) -> Vec<u8> {
    let mut random = Random(5);
    let (mut rare, mut counts) = (Vec::new(), (1_usize, 2_usize));
    for symbol in 200..219_u8 {
        rare.extend(std::iter::repeat_n(symbol, counts.0));
        counts = (counts.1, counts.0 + counts.1);
    }
    for i in (1..rare.len()).rev() {
        rare.swap(i, random.below(i as u64 + 1) as usize);
    }
    // Every other byte is one of many, so that there are few matches.
    let mixed = rare.into_iter().flat_map(|byte| [byte, random.below(200) as u8]).collect::<Vec<u8>>();
    mixed.into_iter().cycle().take(len).collect()
}

/// Tiles of any size: shorter than a match, at the edges of a round, of a part of 64 KiB and of a piece of LZW, and
/// around the lengths at which the LZW table is full.
pub(crate) fn tiles_of_every_size_and_content_are_read_back(subject: &Subject) {
    let sizes: &[usize] = &[
        1, 2, 3, 4, 5, 6, 31, 32, 33, 63, 257, 258, 259, 1023, 1024, 1025, 3836, 3837, 5_000, 65_535, 65_536, 65_537,
        131_072, 140_003,
    ];
    let sizes = subject.amount(sizes, &[1, 3, 5, 33, 300, 1_025]);
    for &size in sizes {
        for (kind, bytes) in kinds(size) {
            let options = WriteOptions::default().blocks(BlockSize::Strips { rows: 1 });
            let picture = Picture::row(bytes);
            check(subject, &format!("deflate, {size} bytes, {kind}"), &picture, options.clone().compression(DEFLATE));
            let name = format!("lzw, {size} bytes, {kind}");
            let (found, expected) = check(subject, &name, &picture, options.compression(Compress::Lzw));
            assert!(found == expected, "{name}: other bytes than the CPU");
        }
    }
}

/// All types, predictors, layouts and odd edges, with overviews.
pub(crate) fn encoded_files_have_the_pixels_of_the_cpu(subject: &Subject) {
    let mut random = Random(23);
    let side = subject.amount(150, 30);
    for &dtype in subject.amount(&TYPES[..], &[DType::U16, DType::F32]) {
        let predictors: &[Predictor] = match dtype {
            DType::CF64 => &[Predictor::None],
            DType::F16 | DType::F32 | DType::F64 => &[Predictor::None, Predictor::Horizontal, Predictor::FloatingPoint],
            _ => &[Predictor::None, Predictor::Horizontal],
        };
        for &predictor in predictors {
            for compress in [DEFLATE, Compress::Lzw] {
                let (width, height, bands) = (1 + random.below(side), 1 + random.below(side), random.pick(&[1, 3]));
                let pixels = samples(&mut random, dtype, (width * height) as usize * bands);
                let picture = Picture { pixels, dtype, bands, height, width };
                let complex = matches!(dtype, DType::CI16 | DType::CF32 | DType::CF64);
                let cog = random.below(2) == 0 && !complex;
                let options = if cog { WriteOptions::new().cog() } else { WriteOptions::default() };
                let blocks = random.pick(&[
                    BlockSize::Tiles { width: 48, height: 32 },
                    BlockSize::Tiles { width: 16, height: 64 },
                    if cog { BlockSize::Tiles { width: 32, height: 32 } } else { BlockSize::Strips { rows: 11 } },
                ]);
                let planar = random.pick(&[Planar::Chunky, Planar::Separate]);
                let options = options.blocks(blocks).compression(compress).predictor(predictor).planar(planar);
                let name = format!("{compress:?} {dtype} {predictor:?} {width} x {height} x {bands} {planar:?}");
                let (found, expected) = check(subject, &name, &picture, options);
                assert!(compress == DEFLATE || found == expected, "{name}: other bytes than the CPU");
            }
        }
    }
}

/// Fowler, Noll and Vo's hash, which does not change from one version of Rust to the next.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// The bytes of Deflate are the same on every device: this number is that of PoCL, of the simulator and of Oclgrind.
/// A change of the kernel that changes its output changes the number too.
pub(crate) fn deflate_bytes_do_not_depend_on_the_device(subject: &Subject) {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    for (_, bytes) in kinds(3000) {
        let picture = Picture { pixels: bytes, dtype: DType::U16, bands: 1, height: 30, width: 50 };
        let options = WriteOptions::default().blocks(BlockSize::Tiles { width: 32, height: 32 }).compression(DEFLATE);
        let (file, _) = check(subject, "30 x 50", &picture, options);
        file.hash(&mut hash);
    }
    assert_eq!(format!("{:016x}", hash.finish()), "99b80016d31cb2d5");
}

/// The size of a file by the kernel is at most 1.1 times that of the CPU at level 1.
pub(crate) fn deflate_is_within_a_tenth_of_level_1_of_the_cpu(subject: &Subject) {
    let side = 512_u64;
    let mut random = Random(3);
    let terrain: Vec<u8> = (0..side * side)
        .flat_map(|i| {
            let (x, y) = ((i % side) as f32, (i / side) as f32);
            let height = (x / 40.0).sin() * 80.0 + (y / 55.0).cos() * 120.0 + (x * y / 9000.0).sin() * 15.0;
            ((height * 100.0).round() / 100.0 + random.below(8) as f32 / 100.0).to_ne_bytes()
        })
        .collect();
    let scene: Vec<u8> = (0..side * side)
        .flat_map(|i| ((i % side) as u16 / 3 + (i / side) as u16 * 2 + random.below(24) as u16).to_ne_bytes())
        .collect();
    let classes: Vec<u8> = (0..side * side).map(|i| ((i % side / 41 + i / side / 29) * 7 % 11) as u8).collect();
    let constant: Vec<u8> = 3.25_f32.to_ne_bytes().repeat((side * side) as usize);
    for (what, pixels, dtype, predictor) in [
        ("terrain", terrain.clone(), DType::F32, Predictor::None),
        ("terrain", terrain.clone(), DType::F32, Predictor::Horizontal),
        ("terrain", terrain, DType::F32, Predictor::FloatingPoint),
        ("scene", scene.clone(), DType::U16, Predictor::None),
        ("scene", scene, DType::U16, Predictor::Horizontal),
        ("classes", classes, DType::U8, Predictor::None),
        ("constant", constant, DType::F32, Predictor::None),
    ] {
        let picture = Picture { pixels, dtype, bands: 1, height: side, width: side };
        for tile in [256, 512] {
            let options = WriteOptions::default()
                .blocks(BlockSize::Tiles { width: tile, height: tile })
                .compression(Compress::Deflate { level: 1 })
                .predictor(predictor);
            let name = format!("{what} {dtype} {predictor:?} in tiles of {tile}");
            let (found, expected) = check(subject, &name, &picture, options);
            let ratio = found.len() as f64 / expected.len() as f64;
            assert!(ratio <= 1.1, "{name}: {} bytes, {ratio:.3} times those of the CPU", found.len());
        }
    }
}

/// A batch of 256 tiles: one pool, one download of sizes, one of tiles. Later batches allocate nothing.
pub(crate) fn batch_of_encoded_tiles_is_one_pool_and_one_compacting_copy(subject: &Subject) {
    for compress in [DEFLATE, Compress::Lzw] {
        let (width, height) = (1024_u64, 1024_u64);
        let pixels: Vec<u8> = (0..width * height).map(|i| (i / 7 % 251 + i / width % 3) as u8).collect();
        let picture = Picture { pixels, dtype: DType::U8, bands: 1, height, width };
        let tiles = BlockSize::Tiles { width: 64, height: 64 };
        let plan = picture.plan(WriteOptions::default().blocks(tiles).compression(compress));
        let stats = |config: &WriteConfig<'_>| {
            let (bytes, report) = picture.write(&plan, config).expect("it is written");
            (bytes, report.gpu.expect("a device").stats)
        };
        let (whole, once) = stats(&config(subject));
        // Rows, tiles, the pool, the table of spans and, for Deflate, working memory.
        let allocations = if compress == DEFLATE { 5 } else { 4 };
        assert_eq!(once.allocations, allocations, "{compress:?}: {once}");
        // The rows and the table of spans go up, the sizes and the tiles come down.
        assert_eq!((once.uploads, once.downloads, once.synchronisations), (2, 2, 2), "{compress:?}: {once}");
        assert!(once.downloaded_bytes < whole.len() as u64 + 256 * 4, "{compress:?}: {once}");
        // Sixteen batches allocate hardly more often than one.
        let (streamed, often) = stats(&config(subject).buffer_bytes(1));
        assert!(streamed == whole, "{compress:?}: the bytes do not depend on the batches");
        assert_eq!((often.uploads, often.downloads, often.synchronisations), (32, 32, 32), "{compress:?}: {often}");
        // Two more are for rows that are uploaded ahead.
        assert!(often.allocations <= allocations + 2, "{compress:?}: {often}");
        subject.gpu.trim();
        assert_eq!(subject.gpu.stats().current_bytes, 0, "everything was given back");
    }
}

/// With little memory the device first takes fewer rows and fewer parts at a time, then leaves compression to the
/// CPU and reports it.
pub(crate) fn little_memory_encodes_fewer_tiles_at_a_time_and_then_none(subject: &Subject) {
    let (width, height) = (512_u64, 512_u64);
    let pixels: Vec<u8> = (0..width * height).map(|i| (i / 5 % 253) as u8).collect();
    let picture = Picture { pixels, dtype: DType::U8, bands: 1, height, width };
    let tiles = BlockSize::Tiles { width: 128, height: 128 };
    let plan = picture.plan(WriteOptions::default().blocks(tiles).compression(DEFLATE));
    let (expected, report) = picture.write(&plan, &config(subject)).expect("memory without limit");
    let most = report.gpu.expect("a device").stats.peak_bytes;
    let (on_cpu, _) = picture.write(&plan, &config(subject).encoder(EncoderBackend::Cpu)).expect("it is written");
    let mut seen = [false; 2];
    for budget in (1..).map(|step| most / 24 * step).take_while(|&budget| budget < most) {
        let small = config(subject).gpu_memory_budget(budget);
        subject.gpu.reset_peak();
        let Ok((bytes, report)) = picture.write(&plan, &small.clone().fallback(FallbackPolicy::Auto)) else { continue };
        let DeviceReport { stats, fallbacks, .. } = report.gpu.expect("a device");
        assert!(stats.peak_bytes <= budget, "{budget}: {stats}");
        if fallbacks.is_empty() {
            assert!(bytes == expected, "{budget}: the bytes do not depend on the memory");
            seen[0] = true;
            continue;
        }
        assert!(fallbacks.iter().all(|fallback| fallback.stage == "compressing"), "{budget}: {fallbacks:?}");
        assert_eq!(
            Dataset::from_bytes(bytes.clone())
                .unwrap()
                .image(0)
                .unwrap()
                .read(&ReadRequest::new())
                .unwrap()
                .pixels
                .as_bytes(),
            picture.pixels
        );
        assert!(bytes.len() != expected.len() || bytes == on_cpu, "{budget}");
        let refused = picture.write(&plan, &small).expect_err("strict");
        assert!(matches!(&refused, Error::Fallback { stage: "compressing", .. }), "{budget}: {refused}");
        seen[1] = true;
    }
    assert_eq!(seen, [true, true], "both were seen");
}

/// The encoder is the one that the caller chose, and the report names it.
pub(crate) fn requested_encoder_is_used_and_reported(subject: &Subject) {
    let pixels: Vec<u8> = (0..100 * 90_u32).map(|i| (i / 30 % 7) as u8).collect();
    let picture = Picture { pixels, dtype: DType::U8, bands: 1, height: 90, width: 100 };
    let tiles = WriteOptions::default().blocks(BlockSize::Tiles { width: 32, height: 32 });
    let by = |compress: Compress, encoder: EncoderBackend| {
        let plan = picture.plan(tiles.clone().compression(compress));
        let (bytes, report) = picture.write(&plan, &config(subject).encoder(encoder)).expect("it is written");
        let (on_cpu, _) = picture.write(&plan, &WriteConfig::new()).expect("it is written");
        (report.gpu.expect("a device").compressed_by, bytes == on_cpu)
    };
    for (compress, kernel, same) in [
        (DEFLATE, "kernel deflate_encode", false),
        (Compress::Lzw, "kernel lzw_encode", true),
        (Compress::PackBits, "kernel packbits_encode", true),
        (Compress::Zstd { level: 3 }, "the CPU", true),
    ] {
        assert_eq!(by(compress, EncoderBackend::Builtin), (kernel.to_owned(), same), "{compress:?}");
        assert_eq!(by(compress, EncoderBackend::Cpu), ("the CPU".to_owned(), true), "{compress:?}");
    }
    assert_eq!(by(DEFLATE, EncoderBackend::Auto).0, if subject.nvidia { "nvCOMP 6.0.0" } else { "the CPU" });
    assert_eq!(by(Compress::Lzw, EncoderBackend::Auto), ("the CPU".to_owned(), true));

    // Only the CPU's bytes show which blocks are empty.
    let sparse = tiles.overviews(Overviews::None).nodata(NoData::Uint(0)).skip_empty(true).compression(DEFLATE);
    let plan = picture.plan(sparse);
    let refused = picture.write(&plan, &config(subject)).expect_err("strict");
    assert!(
        matches!(&refused, Error::Fallback { stage: "compressing", reason } if reason.contains("empty")),
        "{refused}"
    );
    let (bytes, report) =
        picture.write(&plan, &config(subject).fallback(FallbackPolicy::Auto)).expect("the CPU compresses");
    let gpu = report.gpu.expect("a device");
    assert_eq!((&gpu.compressed_by[..], gpu.fallbacks.len()), ("the CPU", 1));
    assert!(bytes == picture.write(&plan, &WriteConfig::new()).expect("it is written").0);
}
