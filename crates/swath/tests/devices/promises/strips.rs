//! A write passes strips of rows to the device. The file has the same bytes for every strip height and for
//! every path to the file, and the device holds only one strip.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use swath::device::{DeviceReport, Gpu, Storage};
use swath::tiff::Planar;
use swath::tiff::nodata::NoData;
use swath::write::{BlockSize, FileLayout, ImageShape, Overviews};
use swath::{
    ArraySource, Compress, DType, Dataset, Device, Error, FallbackPolicy, Layout, Predictor, ReadRequest, RowFn,
    WriteConfig, WriteOptions, WritePlan, WriteReport,
};

use super::stored;
use super::timeline::Timeline;
use crate::subject::{Subject, same_pixels};
use crate::writing::{Random, large, samples};

/// The codecs that nvCOMP supports.
const CODECS: [Compress; 3] = [Compress::Deflate { level: 6 }, Compress::Zstd { level: 3 }, Compress::Lz4];

fn config(gpu: &Gpu, storage: Storage, buffer_bytes: Option<u64>) -> WriteConfig<'static> {
    let device = Device::Gpu(gpu.clone());
    WriteConfig::new()
        .device(device)
        .fallback(FallbackPolicy::Strict)
        .threads(2)
        .storage(storage)
        .buffer_bytes(buffer_bytes)
}

/// The path of a temporary file, which is removed on drop.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Temporary {
        Temporary(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("strips-{name}-{}.tif", std::process::id())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// An image and the plan to write it.
struct Picture {
    plan: WritePlan,
    pixels: Vec<u8>,
    /// Width, height and number of bands.
    size: (u64, u64, usize),
    dtype: DType,
}

impl Picture {
    /// Creates an image of noise, with a plan for tiles of 32 x 32 pixels.
    fn new(size: (u64, u64, usize), dtype: DType, mut options: WriteOptions) -> Picture {
        let (width, height, bands) = size;
        let pixels = samples(&mut Random(width * height), dtype, (width * height) as usize * bands);
        options = options.blocks(BlockSize::Tiles { width: 32, height: 32 });
        let plan = WritePlan::new(ImageShape::new(height, width, bands, dtype), options).expect("a plan");
        Picture { plan, pixels, size, dtype }
    }

    fn array(&self) -> ArraySource<'_> {
        let (width, height, bands) = self.size;
        ArraySource::from_bytes(&self.pixels, self.dtype, bands, height, width, Layout::BandsLast).expect("an array")
    }

    /// Writes to memory, through the host.
    fn to_bytes(&self, config: &WriteConfig<'_>) -> (Vec<u8>, WriteReport) {
        self.plan.to_bytes(&mut self.array(), config).expect("it writes")
    }

    /// Writes to memory from a source that makes `chunk` rows at a time.
    fn in_chunks(&self, chunk: u64, config: &WriteConfig<'_>) -> (Vec<u8>, WriteReport) {
        let (width, height, bands) = self.size;
        let row_bytes = width as usize * bands * self.dtype.size();
        let mut rows = |rows: Range<u64>, out: &mut [u8], _: Option<&mut [u8]>| {
            out.copy_from_slice(&self.pixels[rows.start as usize * row_bytes..rows.end as usize * row_bytes]);
            Ok(())
        };
        let mut source = RowFn::new(ImageShape::new(height, width, bands, self.dtype), chunk, &mut rows);
        self.plan.to_bytes(&mut source, config).expect("it writes")
    }

    fn to_file(&self, path: &Path, config: &WriteConfig<'_>) -> swath::Result<(Vec<u8>, WriteReport)> {
        let report = self.plan.write_file(path, &mut self.array(), &config.clone().overwrite(true))?;
        Ok((fs::read(path).expect("it was just written"), report))
    }

    /// Checks that every level holds what the CPU would write.
    fn check(&self, name: &str, bytes: &[u8]) {
        let on_cpu = WriteConfig::new().threads(2);
        let images = [self.to_bytes(&on_cpu).0, bytes.to_vec()]
            .map(|bytes| Dataset::from_bytes(bytes).and_then(|dataset| dataset.image(0)).expect("a file"));
        let [expected, found] = &images;
        assert_eq!(found.levels().len(), expected.levels().len(), "{name}");
        for level in 0..expected.levels().len() {
            let request = ReadRequest::new().level(level);
            let [expected, found] = [expected, found].map(|image| image.read(&request).expect("it reads"));
            same_pixels(&format!("{name}, level {level}"), expected.pixels.as_bytes(), found.pixels.as_bytes());
        }
    }
}

fn device(report: &WriteReport) -> &DeviceReport {
    report.gpu.as_ref().expect("a device did it")
}

/// Plain files and COGs with overviews, with one band and with several, interleaved and planar.
fn pictures() -> Vec<(String, Picture)> {
    let mut pictures = Vec::new();
    for compress in CODECS {
        for (cog, bands, planar, dtype, predictor) in [
            (false, 1, Planar::Chunky, DType::U16, Predictor::Horizontal),
            (true, 1, Planar::Chunky, DType::F32, Predictor::FloatingPoint),
            (true, 3, Planar::Separate, DType::U8, Predictor::None),
            (true, 3, Planar::Chunky, DType::I16, Predictor::Horizontal),
        ] {
            let mut options = if cog { WriteOptions::new().cog() } else { WriteOptions::default() };
            options = options.compression(compress).planar(planar).predictor(predictor);
            if cog {
                options = options.overviews(Overviews::Factors(vec![2, 4]));
            }
            let name = format!("{compress:?}, {bands} bands of {dtype}, {planar:?}, COG {cog}");
            pictures.push((name, Picture::new((210, 173, bands), dtype, options)));
        }
    }
    pictures
}

pub(super) fn seed5_strips_of_any_height_give_the_same_bytes_through_nvcomp(subject: &Subject) {
    for (name, picture) in pictures() {
        let (eager, report) = picture.to_bytes(&config(&subject.gpu, Storage::Auto, None));
        assert!(device(&report).compressed_by.contains("nvCOMP"), "{name}: {:?}", report.gpu);
        assert_eq!(device(&report).stats.uploads, 3, "{name}: all rows are one strip: {:?}", report.gpu);
        picture.check(&name, &eager);
        // One row at a time, one tile row, chunks that end inside a tile, one and a half tile rows, and the
        // whole image.
        for (chunk, buffer) in [(1, 1), (32, 1), (24, 1), (48, 200_000), (173, 60_000)] {
            let streamed = config(&subject.gpu, Storage::Auto, Some(buffer));
            let (bytes, report) = picture.in_chunks(chunk, &streamed);
            assert!(bytes == eager, "{name}, chunks of {chunk} rows, {buffer} bytes: other bytes");
            let stats = device(&report).stats;
            assert!(device(&report).compressed_by.contains("nvCOMP") && stats.library_calls >= 1, "{name}: {stats}");
            assert!(buffer > 1 || stats.uploads > 6, "{name}: several strips: {stats}");
        }
        // Any writer: blocks wait in spool files, which the device writes.
        let mut written = Vec::new();
        let streamed = config(&subject.gpu, Storage::Auto, Some(1));
        let report = picture.plan.write_to(&mut written, &mut picture.array(), &streamed).expect("it writes");
        assert!(written == eager, "{name}: other bytes in a vector");
        assert!(device(&report).written_by.contains("cuFile"), "{name}: {:?}", report.gpu);
        let file = Temporary::new("same");
        let (bytes, _) = picture.to_file(&file.0, &streamed).expect("it writes");
        assert!(bytes == eager, "{name}: other bytes in a file");
    }
    subject.gpu.trim();
    assert_eq!(swath_sim::device_bytes(), 0);
}

pub(super) fn seed5_device_holds_one_strip_not_the_whole_image(subject: &Subject) {
    let (side, tile) = (8192_u64, 512_u64);
    let image = side * side * 4;
    let strip = side * tile * 4;
    for compress in [Compress::Deflate { level: 1 }, Compress::Zstd { level: 1 }] {
        let mut peaks = Vec::new();
        for (height, cog) in [(4096, false), (side, false), (4096, true), (side, true)] {
            let mut options = if cog { WriteOptions::new().cog() } else { WriteOptions::default() };
            options = options
                .blocks(BlockSize::Tiles { width: tile as u32, height: tile as u32 })
                .compression(compress)
                .overviews(if cog { Overviews::Factors(vec![2, 4]) } else { Overviews::None });
            let plan = WritePlan::new(ImageShape::new(height, side, 1, DType::F32), options).expect("a plan");
            let file = Temporary::new("peak");
            let mut source = RowFn::new(ImageShape::new(height, side, 1, DType::F32), tile, large);
            subject.gpu.trim();
            subject.gpu.reset_peak();
            let config = config(&subject.gpu, Storage::Auto, Some(1));
            let (report, timeline) = Timeline::of(|| {
                plan.write_file(&file.0, &mut source, &config.clone().overwrite(true)).expect("it writes")
            });
            let stats = device(&report).stats;
            // An overview buffer holds the rows of a tile and the rows that a strip adds, twice, because rows
            // move: at half and at a quarter of the width. In the worst case a strip completes tiles of all
            // levels.
            let (rows, tiles) = if cog { (1.0 + 1.5 + 0.7, 1.75) } else { (1.0, 1.0) };
            // nvCOMP's bound for Deflate is 2.26 times the tile, for ZSTD a little more than the tile. Its
            // working memory is at most 256 MiB. Allocations are an eighth larger than needed, so that they
            // can be reused.
            let pool = if matches!(compress, Compress::Deflate { .. }) { 2.3 } else { 1.1 };
            let most = ((strip as f64 * (rows + tiles * (1.0 + pool)) + f64::from(256 << 20)) * 9.0 / 8.0) as u64;
            assert!(stats.peak_bytes <= most, "{compress:?}, COG {cog}: {stats}, of {most} bytes");
            assert!(stats.peak_bytes >= 3 * strip, "{compress:?}: rows, tiles and a pool: {stats}");
            let strips = (height / tile) as usize;
            assert_eq!(timeline.count("launch chunk_frame"), strips, "{timeline:?}");
            assert_eq!(stats.uploaded_bytes / (height * side * 4), 1, "each row is uploaded once: {stats}");
            assert!(stats.downloaded_bytes < image / 1000, "sizes alone come back: {stats}");
            // The number of allocations does not grow with the strips.
            assert!(stats.allocations <= 30, "{stats}");
            peaks.push(stats.peak_bytes);
        }
        assert_eq!((peaks[0], peaks[2]), (peaks[1], peaks[3]), "{compress:?}: an image of twice the height");
    }
}

pub(super) fn seed5_nan_becomes_nodata_strip_by_strip(subject: &Subject) {
    for dtype in [DType::F32, DType::F64] {
        let options = WriteOptions::new()
            .cog()
            .layout(FileLayout::Cog)
            .compression(Compress::Deflate { level: 6 })
            .overviews(Overviews::Factors(vec![2]))
            .nan_to_nodata(true)
            .nodata(NoData::Float(-9999.0));
        let picture = Picture::new((100, 200, 1), dtype, options);
        let nan = |pixels: &[u8]| match dtype {
            DType::F32 => pixels.as_chunks::<4>().0.iter().filter(|bytes| f32::from_ne_bytes(**bytes).is_nan()).count(),
            _ => pixels.as_chunks::<8>().0.iter().filter(|bytes| f64::from_ne_bytes(**bytes).is_nan()).count(),
        };
        let holes = nan(&picture.pixels);
        assert!(holes > 100, "{holes} holes");
        let (eager, _) = picture.to_bytes(&config(&subject.gpu, Storage::Auto, None));
        picture.check(&format!("{dtype}"), &eager);
        let streamed = config(&subject.gpu, Storage::Auto, Some(1));
        let ((bytes, _), timeline) = Timeline::of(|| picture.in_chunks(24, &streamed));
        assert!(bytes == eager, "{dtype}: other bytes");
        // One launch for each uploaded strip.
        let strips = timeline.count("launch nan_to_nodata");
        assert!(strips > 5, "{timeline:?}");
        assert_eq!(nan(&picture.pixels), holes, "the source is as it was");
        let image = Dataset::from_bytes(bytes).and_then(|dataset| dataset.image(0)).expect("a file");
        for level in 0..2 {
            let raster = image.read(&ReadRequest::new().level(level)).expect("it reads");
            assert_eq!(nan(raster.pixels.as_bytes()), 0, "level {level}");
        }
    }
}

/// Strips end where the source's chunks end, and the first strip may not fill a row of tiles.
pub(super) fn seed5_strip_that_completes_no_tile_does_not_disable_cufile(subject: &Subject) {
    let options = WriteOptions::new().cog().compression(Compress::Deflate { level: 6 });
    let picture = Picture::new((64, 300, 1), DType::U8, options);
    let (expected, _) = picture.to_bytes(&config(&subject.gpu, Storage::Posix, None));
    let file = Temporary::new("no-tile");
    let mut source = RowFn::new(ImageShape::new(300, 64, 1, DType::U8), 20, |rows: Range<u64>, to: &mut [u8], _| {
        to.copy_from_slice(&picture.pixels[rows.start as usize * 64..rows.end as usize * 64]);
        Ok(())
    });
    // At most 32 rows; a chunk has 20.
    let config = config(&subject.gpu, Storage::Auto, Some(32 * 64));
    let report = picture.plan.write_file(&file.0, &mut source, &config.clone().overwrite(true)).expect("it writes");
    let gpu = device(&report);
    assert!(gpu.written_by.contains("GPUDirect") && gpu.fallbacks.is_empty(), "{gpu:?}");
    assert_eq!(gpu.stats.file_written_bytes, report.bytes_encoded + 8 * report.blocks, "{}", gpu.stats);
    assert!(fs::read(&file.0).expect("it was written") == expected, "other bytes");
}

pub(super) fn seed5_file_written_by_cufile_equals_file_written_by_the_host(subject: &Subject) {
    for (name, picture) in pictures() {
        let [direct, by_host] = ["direct", "host"].map(Temporary::new);
        let (expected, report) =
            picture.to_file(&by_host.0, &config(&subject.gpu, Storage::Posix, Some(1))).expect("it writes");
        let stats = device(&report).stats;
        assert_eq!((device(&report).written_by.as_str(), stats.file_writes), ("", 0), "{name}: {stats}");
        assert!(stats.downloaded_bytes >= report.bytes_encoded, "{name}: {stats}");
        for buffer in [Some(1), None] {
            let config = config(&subject.gpu, Storage::Auto, buffer);
            let ((bytes, report), timeline) = Timeline::of(|| picture.to_file(&direct.0, &config).expect("it writes"));
            assert!(bytes == expected, "{name}: other bytes");
            let gpu = device(&report);
            assert!(gpu.written_by.contains("GPUDirect") && gpu.fallbacks.is_empty(), "{name}: {gpu:?}");
            // The sizes of all tiles, each once, and nothing else.
            assert_eq!(timeline.numbers("download").iter().sum::<u64>(), report.blocks * 4, "{name}: {timeline:?}");
            assert_eq!(gpu.stats.downloaded_bytes, report.blocks * 4, "{name}: {}", gpu.stats);
            let framing = if picture.plan.layout() == FileLayout::Cog { 8 * report.blocks } else { 0 };
            assert_eq!(gpu.stats.file_written_bytes, report.bytes_encoded + framing, "{name}: {}", gpu.stats);
            assert_eq!(timeline.numbers("cuFileWrite").iter().sum::<u64>(), gpu.stats.file_written_bytes, "{name}");
            // One write per strip and file, not one per tile.
            assert_eq!(gpu.stats.file_writes, timeline.count("cuFileWrite") as u64, "{name}: {}", gpu.stats);
            assert!(gpu.stats.file_writes <= 2 * timeline.count("launch chunk_frame") as u64, "{name}: {}", gpu.stats);
            let files = if picture.plan.layout() == FileLayout::Cog { 2 } else { 1 };
            assert_eq!(timeline.count("cuFileHandleRegister"), files, "{name}: {timeline:?}");
            let tiles: u64 = stored(&bytes, 0).iter().map(|span| span.len).sum();
            assert!(tiles <= report.bytes_encoded, "{name}");
        }
    }
}

/// cuFile fails at some write. The host writes the rest, and the fallback is reported, or refused in strict
/// mode.
fn other_way(subject: &Subject, some_by_cufile: bool) {
    for (name, picture) in pictures().into_iter().skip(1).take(1) {
        let file = Temporary::new("failing");
        let (expected, _) = picture.to_bytes(&config(&subject.gpu, Storage::Posix, None));
        let streamed = config(&subject.gpu, Storage::Auto, Some(1));
        let auto = streamed.clone().fallback(FallbackPolicy::Auto);
        let ((bytes, report), timeline) = Timeline::of(|| picture.to_file(&file.0, &auto).expect("the host writes"));
        assert!(bytes == expected, "{name}: other bytes");
        let gpu = device(&report);
        let [entry] = &gpu.fallbacks[..] else { panic!("{name}: {:?}", gpu.fallbacks) };
        assert_eq!(entry.stage, "writing by cuFile", "{entry}");
        assert!(entry.reason.contains("cuFile") && entry.blocks > 0, "{entry}");
        // From then on everything goes through the host, compressed as before.
        assert!(gpu.compressed_by.contains("nvCOMP"), "{gpu:?}");
        assert_eq!(gpu.stats.file_writes > 0, some_by_cufile, "{}", gpu.stats);
        assert_eq!(gpu.written_by.contains("cuFile"), some_by_cufile, "{}", gpu.written_by);
        let (downloads, strips) = (timeline.numbers("download"), timeline.count("launch chunk_frame"));
        assert!(downloads.len() > strips && downloads.len() <= 2 * strips, "{timeline:?}");
        subject.gpu.trim();
        assert_eq!(swath_sim::device_bytes(), 0, "everything was given back");
    }
}

pub(super) fn seed5_short_write_is_reported_and_the_file_is_correct(subject: &Subject) {
    other_way(subject, true);
}

pub(super) fn seed5_host_writes_the_file_when_cufile_always_fails(subject: &Subject) {
    other_way(subject, false);
    // In strict mode the write is an error, and the old file stays.
    let (_, picture) = pictures().swap_remove(1);
    let file = Temporary::new("strict");
    fs::write(&file.0, b"old").expect("room on the disk");
    let strict = config(&subject.gpu, Storage::Auto, Some(1));
    let error = picture.to_file(&file.0, &strict).expect_err("no write succeeds");
    assert!(matches!(&error, Error::Fallback { stage: "writing by cuFile", .. }), "{error}");
    assert_eq!(fs::read(&file.0).expect("it is there"), b"old");
}

pub(super) fn seed5_memory_that_cannot_be_registered_is_reported(subject: &Subject) {
    let (name, picture) = pictures().swap_remove(1);
    let file = Temporary::new("unregistered");
    let (expected, _) = picture.to_bytes(&config(&subject.gpu, Storage::Posix, None));
    let (bytes, report) = picture.to_file(&file.0, &config(&subject.gpu, Storage::CuFile, Some(1))).expect("it writes");
    assert!(bytes == expected, "{name}: other bytes");
    let by = &device(&report).written_by;
    assert!(by.contains("cuFile") && by.contains("could not be registered"), "{by}");
}
