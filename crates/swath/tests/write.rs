//! The bytes of a file do not depend on how it was written, and the pixels survive a round trip.

use std::ops::Range;

use swath::read::Cancel;
use swath::tiff::Planar;
use swath::tiff::nodata::NoData;
use swath::write::{BlockSize, FileLayout, ImageShape, Overviews, PlanError, Resampling, Statistics};
use swath::{
    ArraySource, Compress, DType, Dataset, Error, Layout, ReadRequest, Result, RowFn, RowSource, WriteConfig,
    WriteOptions, WritePlan,
};

const WIDTH: u64 = 203;
const HEIGHT: u64 = 331;

/// Values between terrain and noise, with missing pixels.
fn pixels(bands: usize) -> Vec<f32> {
    let mut state = 1_u32;
    let mut out = Vec::new();
    for row in 0..HEIGHT {
        for col in 0..WIDTH {
            for band in 0..bands {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let noise = (state >> 24) as f32 / 64.0;
                let hole = (row / 16 + col / 24 + band as u64).is_multiple_of(7);
                out.push(if hole { -9999.0 } else { (row as f32).sin() * 50.0 + col as f32 + noise });
            }
        }
    }
    out
}

fn mask() -> Vec<u8> {
    (0..WIDTH * HEIGHT).map(|i| if (i / 50) % 5 == 0 { 0 } else { 255 }).collect()
}

fn options() -> WriteOptions {
    WriteOptions::new()
        .cog()
        .blocks(BlockSize::Tiles { width: 48, height: 32 })
        .compression(Compress::Deflate { level: 1 })
        .nodata(NoData::Float(-9999.0))
        .statistics(Statistics::Embed)
}

/// An array that provides chunks of a number of rows, each once.
struct Chunks<'a> {
    array: ArraySource<'a>,
    rows: u64,
    next: u64,
}

impl RowSource for Chunks<'_> {
    fn shape(&self) -> ImageShape {
        self.array.shape()
    }

    fn chunk_end(&self, row: u64) -> u64 {
        ((row / self.rows + 1) * self.rows).min(HEIGHT)
    }

    fn read(&mut self, rows: Range<u64>, pixels: &mut [u8], mask: Option<&mut [u8]>) -> Result<()> {
        assert_eq!(rows.start, self.next, "rows are requested in order, each once");
        assert!(
            rows.start.is_multiple_of(self.rows) && (rows.end.is_multiple_of(self.rows) || rows.end == HEIGHT),
            "whole chunks only"
        );
        self.next = rows.end;
        self.array.read(rows, pixels, mask)
    }
}

fn written(plan: &WritePlan, array: ArraySource<'_>, chunk: u64, threads: usize, buffer: u64) -> Vec<u8> {
    let mut source = Chunks { array, rows: chunk, next: 0 };
    let config = WriteConfig::default().threads(threads).buffer_bytes(buffer);
    let (bytes, _) = plan.to_bytes(&mut source, &config).unwrap();
    assert_eq!(source.next, HEIGHT);
    bytes
}

/// Checks that all ways to write a file give the same bytes.
fn check_identity(options: WriteOptions, bands: usize) {
    let (last, mask) = (pixels(bands), mask());
    let first: Vec<f32> = (0..bands).flat_map(|band| last.iter().skip(band).step_by(bands).copied()).collect();
    let array = |samples, layout| {
        let array = ArraySource::new::<f32>(samples, bands, HEIGHT, WIDTH, layout).unwrap();
        array.with_mask(&mask).unwrap()
    };
    let (by_pixel, by_band) = (array(&last, Layout::BandsLast), array(&first, Layout::BandsFirst));
    let plan = WritePlan::new(ImageShape::new(HEIGHT, WIDTH, bands, DType::F32), options).unwrap();
    let eager = written(&plan, by_pixel, HEIGHT, 1, u64::MAX);
    for (name, other) in [
        ("2 threads", written(&plan, by_pixel, HEIGHT, 2, u64::MAX)),
        ("7 threads", written(&plan, by_pixel, HEIGHT, 7, u64::MAX)),
        ("run twice", written(&plan, by_pixel, HEIGHT, 1, u64::MAX)),
        ("bands first", written(&plan, by_band, HEIGHT, 2, u64::MAX)),
        ("one tile row at a time", written(&plan, by_pixel, 32, 3, 1)),
        ("chunks that do not divide tiles", written(&plan, by_pixel, 24, 2, 1)),
        ("a row at a time", written(&plan, by_band, 1, 2, 1)),
        ("chunks larger than tiles", written(&plan, by_pixel, 100, 7, 1)),
        ("a small buffer", written(&plan, by_pixel, 7, 2, 300_000)),
    ] {
        assert!(other == eager, "{name}: {} bytes instead of {}", other.len(), eager.len());
    }
    let mut through = Vec::new();
    plan.write_to(&mut through, &mut by_pixel.clone(), &WriteConfig::default()).unwrap();
    assert!(through == eager, "through a writer");
    let path = std::env::temp_dir().join(format!(
        "swath-identity-{}-{:?}.tif",
        std::process::id(),
        std::thread::current().id()
    ));
    plan.write_file(&path, &mut by_pixel.clone(), &WriteConfig::default()).unwrap();
    assert!(std::fs::read(&path).unwrap() == eager, "to a file");
    std::fs::remove_file(path).unwrap();

    let image = Dataset::from_bytes(eager).unwrap().image(0).unwrap();
    assert_eq!(image.levels().len(), plan.levels().len());
    let raster = image.read(&ReadRequest::new().layout(Layout::BandsLast)).unwrap();
    assert!(raster.pixels.as_slice() == Some(&last[..]), "the pixels come back");
}

#[test]
fn cog_has_the_same_bytes_however_it_was_written() {
    check_identity(options(), 1);
}

#[test]
fn cog_with_mask_has_the_same_bytes_however_it_was_written() {
    let options = options().mask(true).resampling(Resampling::Cubic);
    check_identity(options, 3);
}

#[test]
fn planar_cog_has_the_same_bytes_however_it_was_written() {
    let options = options().planar(Planar::Separate).mask(true).skip_empty(true);
    check_identity(options, 2);
}

#[test]
fn plain_file_has_the_same_bytes_however_it_was_written() {
    let options = options()
        .layout(FileLayout::Plain)
        .resampling(Resampling::Gauss)
        .overviews(Overviews::Factors(vec![2, 3, 4, 12]));
    check_identity(options, 2);
}

#[test]
fn striped_file_has_the_same_bytes_however_it_was_written() {
    let options = options().layout(FileLayout::Plain).blocks(BlockSize::Strips { rows: 13 }).mask(true);
    check_identity(options, 3);
}

#[test]
fn uncompressed_file_has_the_same_bytes_however_it_was_written() {
    let plain = || options().layout(FileLayout::Plain).compression(Compress::None).skip_empty(true);
    // Rows of these blocks are long enough to be written from the array without a copy, except at the edges.
    check_identity(plain().blocks(BlockSize::Tiles { width: 96, height: 32 }), 3);
    check_identity(plain().blocks(BlockSize::Strips { rows: 13 }), 2);
    check_identity(plain().blocks(BlockSize::Tiles { width: 96, height: 32 }).planar(Planar::Separate), 3);
    check_identity(plain().blocks(BlockSize::Tiles { width: 96, height: 32 }).mask(true), 3);
    check_identity(plain().layout(FileLayout::Cog).blocks(BlockSize::Tiles { width: 96, height: 32 }), 3);
}

#[test]
fn overviews_do_not_average_nodata_or_nan_and_masks_agree() {
    let last = pixels(1);
    let with_nan: Vec<f32> = last.iter().enumerate().map(|(i, &x)| if i % 31 == 0 { f32::NAN } else { x }).collect();
    let mut source = ArraySource::new(&with_nan, 1, HEIGHT, WIDTH, Layout::BandsLast).unwrap();
    let plan = WritePlan::new(ImageShape::new(HEIGHT, WIDTH, 1, DType::F32), options()).unwrap();
    let (bytes, report) = plan.to_bytes(&mut source, &WriteConfig::default()).unwrap();
    let image = Dataset::from_bytes(bytes).unwrap().image(0).unwrap();
    for level in 1..image.levels().len() {
        let raster = image.read(&ReadRequest::new().level(level)).unwrap();
        let values: &[f32] = raster.pixels.as_slice().unwrap();
        assert!(values.iter().all(|&value| value == -9999.0 || (-60.0..400.0).contains(&value)), "level {level}");
    }
    let valid: Vec<f64> = with_nan.iter().filter(|x| !x.is_nan() && **x != -9999.0).map(|&x| f64::from(x)).collect();
    let mean = valid.iter().sum::<f64>() / valid.len() as f64;
    assert_eq!(report.statistics[0].count(), valid.len() as u64);
    assert!((report.statistics[0].mean().unwrap() - mean).abs() < 1e-9 * mean.abs());
    let stored = image.metadata().bands[0].statistics.unwrap();
    let exact = report.statistics[0].minimum().unwrap();
    assert!((stored.minimum.unwrap() - exact).abs() < 1e-12 * exact.abs(), "GDAL's fourteen digits");
}

#[test]
fn any_shape_gets_overviews_down_to_a_pixel() {
    for (width, height) in [(1, 1), (1, 5000), (5000, 1), (33, 17), (17, 1000), (16, 16)] {
        let samples: Vec<u16> = (0..width * height).map(|i| (i % 60_000) as u16).collect();
        let options = WriteOptions::new().cog().blocks(BlockSize::Tiles { width: 16, height: 16 });
        let plan = WritePlan::new(ImageShape::new(height, width, 1, DType::U16), options).unwrap();
        let mut source = ArraySource::new(&samples, 1, height, width, Layout::BandsFirst).unwrap();
        let (bytes, _) = plan.to_bytes(&mut source, &WriteConfig::default()).unwrap();
        let image = Dataset::from_bytes(bytes).unwrap().image(0).unwrap();
        let last = image.levels().last().unwrap().grid;
        assert!(last.width <= 16 && last.height <= 16, "{width} x {height} ends at {} x {}", last.width, last.height);
        let raster = image.read(&ReadRequest::new()).unwrap();
        assert!(raster.pixels.as_slice() == Some(&samples[..]), "{width} x {height}");
    }
}

#[test]
fn file_becomes_a_bigtiff_only_above_the_classic_limit() {
    let samples = vec![7_u8; 64];
    let mut source = ArraySource::new(&samples, 1, 8, 8, Layout::BandsFirst).unwrap();
    for (choice, big) in
        [(swath::write::BigTiff::Auto, false), (swath::write::BigTiff::Yes, true), (swath::write::BigTiff::No, false)]
    {
        for arrangement in [FileLayout::Cog, FileLayout::Plain] {
            let options = WriteOptions::default().layout(arrangement).big_tiff(choice);
            let plan = WritePlan::new(ImageShape::new(8, 8, 1, DType::U8), options).unwrap();
            let (bytes, report) = plan.to_bytes(&mut source, &WriteConfig::default()).unwrap();
            assert_eq!((report.big_tiff, report.file_bytes), (big, bytes.len() as u64));
            assert_eq!(Dataset::from_bytes(bytes).unwrap().header().big, big);
        }
    }
}

#[test]
fn invalid_options_are_refused_before_anything_is_written() {
    let plan = |options| WritePlan::new(ImageShape::new(100, 100, 3, DType::F32), options).map(|_| ());
    assert!(plan(options()).is_ok());
    let refused = |change: &dyn Fn(WriteOptions) -> WriteOptions| plan(change(options())).unwrap_err();
    assert!(matches!(refused(&|o| o.blocks(BlockSize::Tiles { width: 100, height: 16 })), PlanError::TileSize { .. }));
    assert!(matches!(refused(&|o| o.blocks(BlockSize::Strips { rows: 1 })), PlanError::StripsInCog));
    assert!(matches!(refused(&|o| o.bits(12)), PlanError::Bits { .. }));
    assert!(matches!(refused(&|o| o.compression(Compress::WebP { quality: None })), PlanError::Codec(_)));
    assert!(matches!(refused(&|o| o.overviews(Overviews::Factors(vec![4, 2]))), PlanError::Overview { factor: 2 }));
    assert!(matches!(refused(&|o| o.overviews(Overviews::Factors(vec![1]))), PlanError::Overview { factor: 1 }));
    assert!(matches!(WritePlan::new(ImageShape::new(1, 0, 1, DType::U8), options()), Err(PlanError::Size { .. })));
    let out_of_range = WritePlan::new(ImageShape::new(1, 1, 1, DType::U8), options());
    assert!(matches!(out_of_range, Err(PlanError::NoData { .. })), "nodata -9999 in bytes");
}

#[test]
fn failing_source_and_cancel_leave_nothing_behind() {
    let folder = std::env::temp_dir().join(format!("swath-leaves-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("out.tif");
    std::fs::write(&path, "old").unwrap();
    for arrangement in [FileLayout::Cog, FileLayout::Plain] {
        let options = options().layout(arrangement);
        let plan = WritePlan::new(ImageShape::new(HEIGHT, WIDTH, 1, DType::F32), options).unwrap();
        let mut failing = RowFn::new(
            ImageShape::new(HEIGHT, WIDTH, 1, DType::F32),
            40,
            |rows: Range<u64>, _: &mut [u8], _: Option<&mut [u8]>| {
                if rows.end > 200 { Err(Error::Producer { rows, cause: "the sensor broke".into() }) } else { Ok(()) }
            },
        );
        let config = WriteConfig::new().buffer_bytes(1);
        let error = plan.write_file(&path, &mut failing, &config.clone().overwrite(true)).unwrap_err();
        assert!(error.to_string().contains("the sensor broke"), "{error}");

        let cancel = Cancel::new();
        let stop = cancel.clone();
        let mut endless = RowFn::new(
            ImageShape::new(HEIGHT, WIDTH, 1, DType::F32),
            40,
            move |rows: Range<u64>, _: &mut [u8], _: Option<&mut [u8]>| {
                if rows.end > 200 {
                    stop.cancel();
                }
                Ok(())
            },
        );
        let config = config.cancel(&cancel);
        assert!(matches!(plan.write_file(&path, &mut endless, &config.clone().overwrite(true)), Err(Error::Cancelled)));

        let mut fine = RowFn::new(
            ImageShape::new(HEIGHT, WIDTH, 1, DType::F32),
            40,
            |_: Range<u64>, _: &mut [u8], _: Option<&mut [u8]>| Ok(()),
        );
        assert!(matches!(plan.write_file(&path, &mut fine, &WriteConfig::default()), Err(Error::Exists { .. })));
        let nowhere = folder.join("missing").join("out.tif");
        assert!(matches!(plan.write_file(nowhere, &mut fine, &WriteConfig::default()), Err(Error::Write { .. })));
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "no temporary file is left");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn large_cog_in_a_file_has_the_bytes_of_one_in_memory() {
    // Large enough that the file system inserts the overviews before the full resolution; in folders on
    // several kinds of file systems.
    let samples: Vec<u32> = (0..1500_u32 * 1100).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let mut options =
        WriteOptions::new().cog().compression(Compress::None).blocks(BlockSize::Tiles { width: 256, height: 256 });
    for planar in [Planar::Chunky, Planar::Separate] {
        options = options.planar(planar);
        let plan = WritePlan::new(ImageShape::new(750, 1100, 2, DType::U32), options.clone()).unwrap();
        let mut source = ArraySource::new(&samples, 2, 750, 1100, Layout::BandsFirst).unwrap();
        let (bytes, _) = plan.to_bytes(&mut source, &WriteConfig::default()).unwrap();
        assert!(swath::validate(&Dataset::from_bytes(bytes.clone()).unwrap()).unwrap().is_valid());
        for folder in [std::env::temp_dir(), "/dev/shm".into(), ".".into()].iter().filter(|folder| folder.is_dir()) {
            let path = folder.join(format!("swath-large-{}.tif", std::process::id()));
            plan.write_file(&path, &mut source, &WriteConfig::default()).unwrap();
            let written = std::fs::read(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            assert!(written == bytes, "{} differs", folder.display());
        }
    }
}

#[test]
fn file_without_stored_blocks_is_valid() {
    let samples = vec![0_u8; 64 * 64];
    let path = std::env::temp_dir().join(format!("swath-empty-{}.tif", std::process::id()));
    for overviews in [Overviews::None, Overviews::Factors(vec![2, 4])] {
        for arrangement in [FileLayout::Cog, FileLayout::Plain] {
            let options = WriteOptions::default().layout(arrangement).overviews(overviews.clone()).skip_empty(true);
            let plan = WritePlan::new(ImageShape::new(64, 64, 1, DType::U8), options).unwrap();
            let mut source = ArraySource::new(&samples, 1, 64, 64, Layout::BandsFirst).unwrap();
            let report = plan.write_file(&path, &mut source, &WriteConfig::new().overwrite(true)).unwrap();
            assert_eq!(report.blocks, report.sparse_blocks);
            let raster = Dataset::open(&path).unwrap().image(0).unwrap().read(&ReadRequest::new()).unwrap();
            assert!(raster.pixels.as_slice() == Some(&samples[..]));
            let (bytes, _) = plan.to_bytes(&mut source, &WriteConfig::default()).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), bytes);
        }
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn image_too_large_for_memory_is_an_error_not_a_crash() {
    let side = u64::from(u32::MAX);
    let mut options = WriteOptions::new().cog().blocks(BlockSize::Tiles { width: 512, height: 512 });
    assert!(matches!(
        WritePlan::new(ImageShape::new(side, side, 1, DType::U8), options.clone()),
        Err(PlanError::Blocks { .. })
    ));
    options = options.blocks(BlockSize::Tiles { width: 16384, height: 16384 }).overviews(Overviews::None);
    let plan = WritePlan::new(ImageShape::new(16384, side, 3, DType::U8), options).unwrap();
    let make = |_: Range<u64>, _: &mut [u8], _: Option<&mut [u8]>| Ok(());
    let mut source = RowFn::new(ImageShape::new(16384, side, 3, DType::U8), 16384, make);
    assert!(matches!(plan.to_bytes(&mut source, &WriteConfig::default()), Err(Error::Memory { .. })));
}

#[test]
fn source_with_another_shape_is_refused() {
    let plan = WritePlan::new(ImageShape::new(10, 10, 1, DType::U8), WriteOptions::default()).unwrap();
    let samples = [0_u8; 99];
    let mut source = ArraySource::new(&samples, 1, 9, 11, Layout::BandsFirst).unwrap();
    assert!(matches!(plan.to_bytes(&mut source, &WriteConfig::default()), Err(Error::SourceShape { .. })));
}

#[test]
fn file_assembled_from_batches_equals_the_streamed_file_and_must_be_complete() {
    let last = pixels(1);
    let options = options().overviews(Overviews::None).statistics(Statistics::Off);
    let plan = WritePlan::new(ImageShape::new(HEIGHT, WIDTH, 1, DType::F32), options).unwrap();
    let bytes: Vec<u8> = last.iter().flat_map(|x| x.to_ne_bytes()).collect();
    let row = WIDTH as usize * 4;
    let band = |rows: Range<u64>| {
        let pixels = &bytes[rows.start as usize * row..rows.end as usize * row];
        plan.encode(0, rows, pixels, None).unwrap()
    };
    let path = std::env::temp_dir().join(format!("swath-assembled-{}.tif", std::process::id()));
    let mut assembly = plan.begin_file(&path, &WriteConfig::new()).unwrap();
    // In any order, as from the workers of a cluster.
    for rows in [96..320, 320..HEIGHT] {
        assembly.add(&band(rows)).unwrap();
    }
    assert!(matches!(assembly.add(&band(96..128)), Err(Error::BlockTwice { .. })));
    assert!(matches!(assembly.commit(), Err(Error::BlockMissing { .. })));
    assert!(!path.exists());
    let mut assembly = plan.begin_file(&path, &WriteConfig::new()).unwrap();
    for rows in [320..HEIGHT, 0..96, 96..320] {
        assembly.add(&band(rows)).unwrap();
    }
    assembly.commit().unwrap();
    let mut source = ArraySource::new(&last, 1, HEIGHT, WIDTH, Layout::BandsLast).unwrap();
    let (streamed, _) = plan.to_bytes(&mut source, &WriteConfig::default()).unwrap();
    assert!(std::fs::read(&path).unwrap() == streamed);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn separately_encoded_rows_give_the_blocks_of_the_file() {
    let last = pixels(1);
    let options = options().layout(FileLayout::Plain).overviews(Overviews::None);
    let plan = WritePlan::new(ImageShape::new(HEIGHT, WIDTH, 1, DType::F32), options).unwrap();
    let bytes: Vec<u8> = last.iter().flat_map(|x| x.to_ne_bytes()).collect();
    let row = WIDTH as usize * 4;
    let mut apart = Vec::new();
    for rows in [0..96_u64, 96..320, 320..HEIGHT] {
        let band = &bytes[rows.start as usize * row..rows.end as usize * row];
        apart.extend(plan.encode(0, rows, band, None).unwrap().bytes);
    }
    let mut source = ArraySource::new(&last, 1, HEIGHT, WIDTH, Layout::BandsLast).unwrap();
    let (file, _) = plan.to_bytes(&mut source, &WriteConfig::default()).unwrap();
    assert!(file[16..].starts_with(&apart));
    assert!(matches!(plan.encode(0, 0..33, &bytes[..33 * row], None), Err(Error::Rows { .. })));
    assert!(matches!(plan.encode(0, 0..32, &bytes[..31 * row], None), Err(Error::Rows { .. })));
}
