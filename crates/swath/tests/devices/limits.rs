//! Tile sizes on which nvCOMP's header contradicts itself: Swath verifies the compressed tiles, or does not
//! use nvCOMP.

use std::fs;
use std::path::{Path, PathBuf};

use swath::device::{DeviceReport, Storage};
use swath::write::{BlockSize, ImageShape, Overviews};
use swath::{
    ArraySource, Compress, DType, Device, Error, FallbackPolicy, Layout, ReadRequest, WriteConfig, WriteOptions,
    WritePlan,
};

use crate::files::{open, texture};
use crate::subject::{Subject, same_pixels};

const DEFLATE: Compress = Compress::Deflate { level: 6 };

/// Counts the calls that the simulator received.
fn calls(words: &str) -> usize {
    swath_sim::events().iter().filter(|event| event.starts_with(words)).count()
}

/// A square of 16-bit samples in square tiles, and the plan to write it.
struct Square {
    plan: WritePlan,
    pixels: Vec<u8>,
    side: u64,
}

impl Square {
    fn new(side: u64, tile: u32, compress: Compress, cog: bool) -> Square {
        let mut options = if cog { WriteOptions::new().cog() } else { WriteOptions::default() };
        options = options.blocks(BlockSize::Tiles { width: tile, height: tile }).compression(compress);
        if cog {
            options = options.overviews(Overviews::Factors(vec![2]));
        }
        let plan = WritePlan::new(ImageShape::new(side, side, 1, DType::U16), options).expect("a plan");
        Square { plan, pixels: texture(11, (side * side * 2) as usize), side }
    }

    fn array(&self) -> ArraySource<'_> {
        let Square { side, pixels, .. } = self;
        ArraySource::from_bytes(pixels, DType::U16, 1, *side, *side, Layout::BandsLast).expect("an array")
    }

    fn write(&self, config: &WriteConfig<'_>) -> swath::Result<(Vec<u8>, DeviceReport)> {
        let (bytes, report) = self.plan.to_bytes(&mut self.array(), config)?;
        Ok((bytes, report.gpu.expect("a device did it")))
    }

    /// Writes to a file, which the device may write directly.
    fn write_file(&self, path: &Path, config: &WriteConfig<'_>) -> swath::Result<(Vec<u8>, DeviceReport)> {
        let report = self.plan.write_file(path, &mut self.array(), &config.clone().overwrite(true))?;
        Ok((fs::read(path).expect("it was just written"), report.gpu.expect("a device did it")))
    }

    /// Checks that every level holds what the CPU would write.
    fn check(&self, name: &str, file: &[u8]) {
        let (expected, _) = self.plan.to_bytes(&mut self.array(), &WriteConfig::default()).expect("the CPU writes it");
        let (expected, found) = (open(expected), open(file.to_vec()));
        assert_eq!(found.levels().len(), expected.levels().len(), "{name}");
        for level in 0..expected.levels().len() {
            let [expected, found] = [&expected, &found].map(|image| {
                let raster = image.read(&ReadRequest::new().level(level));
                raster.unwrap_or_else(|error| panic!("{name}, level {level}: {error}"))
            });
            same_pixels(name, expected.pixels.as_bytes(), found.pixels.as_bytes());
        }
    }
}

/// A configuration that passes one row of tiles at a time.
fn config(subject: &Subject, storage: Storage, fallback: FallbackPolicy) -> WriteConfig<'static> {
    let device = Device::Gpu(subject.gpu.clone());
    WriteConfig::new().device(device).fallback(fallback).threads(2).storage(storage).buffer_bytes(1)
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("limits-{name}-{}.tif", std::process::id()))
}

/// Our kernel decodes the first tile above 64 KiB again, and only that one. This needs no extra
/// synchronisation and only the memory for one tile, and the bytes equal those of a write without the check.
pub(crate) fn first_large_deflate_tile_is_verified_in_the_same_synchronisation(subject: &Subject) {
    let strict = |storage| config(subject, storage, FallbackPolicy::Strict);
    for cog in [false, true] {
        // 128 KiB per tile. Only Deflate is verified.
        let [deflate, zstd] = [DEFLATE, Compress::Zstd { level: 3 }].map(|compress| {
            let square = Square::new(1024, 256, compress, cog);
            swath_sim::forget();
            let (bytes, gpu) = square.write(&strict(Storage::Posix)).expect("it writes");
            square.check(&format!("{compress:?}, COG {cog}"), &bytes);
            assert!(gpu.compressed_by.contains("nvCOMP") && gpu.fallbacks.is_empty(), "{gpu:?}");
            (bytes, gpu.stats, calls("launch inflate"), calls("launch chunk_frame"))
        });
        assert_eq!((deflate.2, zstd.2), (1, 0), "COG {cog}");
        assert!(deflate.3 == 4 && zstd.3 == 4, "several strips");
        let (with, without) = (deflate.1, zstd.1);
        assert_eq!(with.synchronisations, without.synchronisations, "{with}, {without}");
        assert_eq!(with.downloads, without.downloads, "{with}, {without}");
        // One upload for the table of the block and one launch to decode it. Three copies move the sizes
        // aside and back, and return the status.
        assert_eq!((with.uploads, with.launches), (without.uploads + 1, without.launches + 1), "{with}, {without}");
        assert_eq!(with.copies, without.copies + 3, "{with}, {without}");
        // The sizes before the blocks of a COG are those in the pool, where the table was in the meantime.
        let file = path("direct");
        let (direct, gpu) = square_of(cog).write_file(&file, &strict(Storage::Auto)).expect("it writes");
        let _ = fs::remove_file(&file);
        assert!(gpu.written_by.contains("cuFile"), "{gpu:?}");
        assert!(direct == deflate.0, "COG {cog}: other bytes by way of cuFile");
    }
    // The memory is freed before the next strip.
    swath_sim::forget();
    square_of(false).write(&strict(Storage::Posix)).expect("it writes");
    let events = swath_sim::events();
    let from = events.iter().position(|event| event.starts_with("launch inflate")).expect("the tile is verified");
    let until = events[from..].iter().position(|event| event.starts_with("launch chunk_frame")).expect("more strips");
    let free = events[from..from + until].iter().filter(|event| event.starts_with("free")).count();
    assert_eq!(free, 1, "{:?}", &events[from..from + until]);
    // 32 KiB per tile, which needs no check.
    swath_sim::forget();
    Square::new(512, 128, DEFLATE, false).write(&strict(Storage::Posix)).expect("it writes");
    assert_eq!((calls("launch inflate"), calls("launch chunk_frame")), (0, 4));
}

/// A scene inside a large area of nodata starts with tiles of one value, which any encoder compresses
/// correctly.
pub(crate) fn empty_tiles_prove_nothing_so_the_next_tiles_are_checked(subject: &Subject) {
    let mut square = square_of(false);
    let rows = 2 * 256 * 1024 * 2;
    square.pixels[..rows].fill(0);
    swath_sim::forget();
    let (bytes, _) = square.write(&config(subject, Storage::Posix, FallbackPolicy::Strict)).expect("it writes");
    square.check("two empty rows of tiles", &bytes);
    assert_eq!(
        (calls("launch inflate"), calls("launch chunk_frame")),
        (3, 4),
        "those two and the first that says something"
    );
    subject.gpu.trim();
    assert_eq!(swath_sim::device_bytes(), 0, "everything was given back");
}

/// Tiles that are too large for nvCOMP's LZ4, with every budget: the write fails with a memory error, or
/// succeeds and reports the encoder, also if the rows were pushed in smaller parts.
pub(crate) fn library_that_compresses_nothing_is_reported_with_any_memory(subject: &Subject) {
    let square = Square::new(1500, 1456, Compress::Lz4, true);
    let mut done = 0;
    for budget in (4..100).map(|quarters| quarters << 18) {
        let with = |fallback| config(subject, Storage::Posix, fallback).gpu_memory_budget(budget).buffer_bytes(None);
        match square.write(&with(FallbackPolicy::Auto)) {
            Ok((_, gpu)) => {
                assert!(gpu.fallbacks.iter().any(|entry| entry.reason.contains("larger than")), "{budget}: {gpu:?}");
                done += 1;
            }
            Err(Error::Device(error)) if error.is_memory() => {}
            Err(error) => panic!("{budget}: {error}"),
        }
        let strict = square.write(&with(FallbackPolicy::Strict)).expect_err("the CPU compresses");
        assert!(matches!(&strict, Error::Fallback { .. } | Error::Device(_)), "{budget}: {strict}");
    }
    assert!((10..90).contains(&done), "{done} of 96 budgets were enough");
}

fn square_of(cog: bool) -> Square {
    Square::new(1024, 256, DEFLATE, cog)
}

/// nvCOMP compresses the tile in the middle of the first row incorrectly and reports success.
pub(crate) fn wrong_compression_by_nvcomp_is_detected_before_anything_is_written(subject: &Subject) {
    for (cog, storage) in [(false, Storage::Posix), (true, Storage::Auto)] {
        let (square, file) = (square_of(cog), path("wrong"));
        let name = format!("COG {cog}, {storage:?}");
        swath_sim::reset();
        swath_sim::forget();
        let auto = config(subject, storage, FallbackPolicy::Auto);
        let (bytes, gpu) = square.write_file(&file, &auto).expect("the CPU compresses");
        assert_eq!(calls("injected failure: compress-wrong"), 1, "{name}");
        square.check(&name, &bytes);
        let [entry] = &gpu.fallbacks[..] else { panic!("{name}: {:?}", gpu.fallbacks) };
        assert!(entry.reason.contains("nvCOMP") && entry.reason.contains("a tile of 131072 bytes"), "{entry}");
        // None of its output is in the file, and nvCOMP is not used again.
        assert_eq!((gpu.compressed_by.as_str(), gpu.stats.file_writes), ("the CPU", 0), "{name}: {gpu:?}");
        assert_eq!(calls("nvcompBatchedDeflateCompressAsync"), 1, "{name}");
        let (expected, _) =
            square.plan.to_bytes(&mut square.array(), &WriteConfig::default()).expect("the CPU writes it");
        assert!(bytes == expected, "{name}: other bytes than the CPU's");
        subject.gpu.trim();
        assert_eq!(swath_sim::device_bytes(), 0, "{name}: everything was given back");

        // In strict mode the write is an error, and the old file stays.
        fs::write(&file, b"old").expect("room on the disk");
        swath_sim::reset();
        let strict = config(subject, storage, FallbackPolicy::Strict);
        let error = square.write_file(&file, &strict).expect_err("nvCOMP was requested");
        assert!(matches!(&error, Error::Fallback { .. }), "{error}");
        assert!(error.to_string().contains("nvCOMP"), "{error}");
        assert_eq!(fs::read(&file).expect("it is there"), b"old");
        let _ = fs::remove_file(&file);
    }
}

/// ZSTD tiles above 16 MiB are compressed by the CPU, and the report says so.
pub(crate) fn zstd_tiles_above_16_mib_go_to_the_cpu_and_are_reported(subject: &Subject) {
    for (tile, by_nvcomp) in [(2896, true), (2912, false)] {
        let square = Square::new(16, tile, Compress::Zstd { level: 1 }, false);
        let (bytes, gpu) = square.write(&config(subject, Storage::Posix, FallbackPolicy::Auto)).expect("it writes");
        square.check(&format!("tiles of {tile}"), &bytes);
        assert_eq!(gpu.compressed_by.contains("nvCOMP"), by_nvcomp, "{gpu:?}");
        assert_eq!(gpu.fallbacks.is_empty(), by_nvcomp, "{:?}", gpu.fallbacks);
        assert!(gpu.fallbacks.iter().all(|entry| entry.reason.contains("larger than the 16777216")), "{gpu:?}");
        let strict = square.write(&config(subject, Storage::Posix, FallbackPolicy::Strict));
        assert_eq!(strict.is_ok(), by_nvcomp, "{strict:?}");
    }
}
