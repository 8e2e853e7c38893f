//! A file that a device helped to write has the same bytes as one that only the CPU wrote, and the device
//! holds one strip, not the whole image.

use std::ops::Range;

use swath::device::{DeviceRaster, DeviceReport, EncoderBackend};
use swath::tiff::Planar;
use swath::tiff::nodata::NoData;
use swath::write::{BlockSize, ImageShape, Overviews, Resampling, Statistics};
use swath::{
    ArraySource, Compress, DType, Dataset, Device, Error, FallbackPolicy, ImageSource, Layout, Predictor, ReadRequest,
    RowFn, WriteConfig, WriteOptions, WritePlan, WriteReport,
};

use crate::subject::Subject;

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// Samples with runs, noise, and values that are difficult for arithmetic.
pub(crate) fn samples(random: &mut Random, dtype: DType, count: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(count * dtype.size());
    for i in 0..count {
        let value = (i / 3 % 200) as f64 + random.below(4) as f64;
        let special = random.below(12) == 0;
        match dtype {
            DType::F32 => {
                let odd = random.pick(&[f32::NAN, f32::INFINITY, -0.0, -9999.0, f32::MAX, 1e-42]);
                out.extend((if special { odd } else { value as f32 / 3.0 }).to_ne_bytes());
            }
            DType::F64 => {
                let odd = random.pick(&[f64::NAN, f64::NEG_INFINITY, -0.0, -9999.0, f64::MAX]);
                out.extend((if special { odd } else { value / 3.0 }).to_ne_bytes());
            }
            DType::F16 => {
                let odd = random.pick(&[0x7e00_u16, 0x7c00, 0x8000, 0x7bff, 1]);
                out.extend((if special { odd } else { 0x4000 + random.below(900) as u16 }).to_ne_bytes());
            }
            _ => {
                let wide = if special { random.below(u64::MAX >> 1).wrapping_mul(3) } else { value as u64 };
                out.extend(&wide.to_ne_bytes()[..dtype.size().min(8)]);
                out.resize(out.len() + dtype.size().saturating_sub(8), 7);
            }
        }
    }
    out
}

fn config(device: Device, fallback: FallbackPolicy) -> WriteConfig<'static> {
    // Other tests check the encoders of devices.
    WriteConfig::new().encoder(EncoderBackend::Cpu).device(device).fallback(fallback).threads(2)
}

fn write(plan: &WritePlan, array: ArraySource<'_>, config: &WriteConfig<'_>) -> (Vec<u8>, WriteReport) {
    plan.to_bytes(&mut { array }, config).unwrap()
}

/// The types of samples that a device writes.
pub(crate) const TYPES: [DType; 14] = [
    DType::U8,
    DType::I8,
    DType::U16,
    DType::I16,
    DType::U32,
    DType::I32,
    DType::U64,
    DType::I64,
    DType::F16,
    DType::F32,
    DType::F64,
    DType::CI16,
    DType::CF32,
    DType::CF64,
];

/// A random plan that a device supports completely.
fn plan(random: &mut Random, side: u64) -> (WritePlan, u64, u64, usize, DType) {
    let dtype = random.pick(&TYPES);
    let complex = matches!(dtype, DType::CI16 | DType::CF32 | DType::CF64);
    let (width, height) = (1 + random.below(side), 1 + random.below(side + 10));
    let bands = random.pick(&[1, 1, 2, 3, 5]);
    let cog = random.below(2) == 0;
    let mut options = if cog { WriteOptions::new().cog() } else { WriteOptions::default() };
    let tiled = cog || random.below(3) > 0;
    options = options.blocks(if tiled {
        BlockSize::Tiles { width: 16 * (1 + random.below(4) as u32), height: 16 * (1 + random.below(3) as u32) }
    } else {
        BlockSize::Strips { rows: 1 + random.below(40) as u32 }
    });
    let compress = random.pick(&[
        Compress::None,
        Compress::Lzw,
        Compress::Deflate { level: 1 },
        Compress::Zstd { level: 1 },
        Compress::PackBits,
        Compress::Lz4,
    ]);
    options = options.compression(compress);
    let float = matches!(dtype, DType::F16 | DType::F32 | DType::F64);
    let predictors: &[Predictor] = match (compress.takes_predictor(), float, dtype.size()) {
        (false, ..) | (.., 16) => &[Predictor::None],
        (true, true, _) => &[Predictor::None, Predictor::Horizontal, Predictor::FloatingPoint],
        (true, false, _) => &[Predictor::None, Predictor::Horizontal],
    };
    options = options
        .predictor(random.pick(predictors))
        .planar(random.pick(&[Planar::Chunky, Planar::Separate]))
        .overviews(if width > 8 && height > 8 {
            random.pick(&[Some(()), None]).map_or(Overviews::None, |()| Overviews::Factors(vec![2, 4]))
        } else {
            Overviews::None
        })
        .resampling(if complex {
            Resampling::Nearest
        } else {
            random.pick(&[Resampling::Nearest, Resampling::Mean, Resampling::Min, Resampling::Max, Resampling::Mode])
        })
        .skip_empty(random.below(4) == 0)
        .statistics(if random.below(3) == 0 && !complex { Statistics::Embed } else { Statistics::Off });
    if random.below(2) == 0 && !complex {
        options = options.nodata(if float { NoData::Float(-9999.0) } else { NoData::Uint(7) });
        if dtype == DType::F16 {
            options = options.nodata(NoData::Float(2.5));
        }
        options = options.nan_to_nodata(random.below(2) == 0);
    }
    let plan = WritePlan::new(ImageShape::new(height, width, bands, dtype), options.clone());
    let plan = plan.unwrap_or_else(|error| panic!("{error}: {width} x {height} x {bands} {dtype} {options:?}"));
    (plan, width, height, bands, dtype)
}

pub(crate) fn bytes_are_those_of_the_cpu_however_bands_are_made(subject: &Subject) {
    let gpu = subject.gpu.clone();
    let mut random = Random(7);
    for case in 0..subject.amount(160, 24) {
        let (plan, width, height, bands, dtype) = plan(&mut random, subject.amount(140, 40));
        let pixels = samples(&mut random, dtype, (width * height) as usize * bands);
        let array = ArraySource::from_bytes(&pixels, dtype, bands, height, width, Layout::BandsLast).unwrap();
        let (expected, on_cpu) = write(&plan, array, &config(Device::Cpu, FallbackPolicy::Auto));
        let named = || format!("case {case}: {width} x {height} x {bands} {dtype} {:?}", plan.options());
        let mut on_device = config(Device::Gpu(gpu.clone()), FallbackPolicy::Strict);
        if !matches!(plan.compression(), Compress::Deflate { .. }) {
            on_device = on_device.encoder(EncoderBackend::Builtin);
        }
        let (eager, report) = write(&plan, array, &on_device);
        assert!(eager == expected, "{}", named());
        assert_eq!((report.device, report.statistics.len()), (gpu.info().api.name(), on_cpu.statistics.len()));
        assert!(report.gpu.is_some_and(|gpu| gpu.fallbacks.is_empty()));
        if subject.slow {
            // Oclgrind 21.10 reports a buffer that is copied to and uploaded to as uninitialised in every
            // case. The kernels are the same anyway.
            continue;
        }
        // A row of blocks at a time, and strips that end inside one.
        let mut streamed = on_device.clone();
        streamed = streamed.buffer_bytes(1);
        let chunk = 1 + random.below(height);
        let mut rows = |rows: Range<u64>, out: &mut [u8], _: Option<&mut [u8]>| {
            let row_bytes = width as usize * bands * dtype.size();
            out.copy_from_slice(&pixels[rows.start as usize * row_bytes..rows.end as usize * row_bytes]);
            Ok(())
        };
        let mut source = RowFn::new(ImageShape::new(height, width, bands, dtype), chunk, &mut rows);
        let (bytes, _) = plan.to_bytes(&mut source, &streamed).unwrap();
        assert!(bytes == expected, "in chunks of {chunk} rows, {}", named());
    }
}

pub(crate) fn nodata_of_a_raster_on_the_device_becomes_nan(subject: &Subject) {
    let gpu = subject.gpu.clone();
    let near = f32::from_bits((-9999_f32).to_bits() + 1);
    let values = [1.0, -9999.0, near, -0.0, f32::INFINITY, f32::NAN, -9998.0];
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    let raster = DeviceRaster::upload(&gpu, DType::F32, (1, 1, 7), false, &bytes).unwrap();
    swath::read::nodata_to_nan(&raster, NoData::Float(-9999.0)).unwrap();
    let mut out = vec![0; bytes.len()];
    raster.download(&mut out).unwrap();
    let found: Vec<f32> = out.as_chunks::<4>().0.iter().map(|sample| f32::from_ne_bytes(*sample)).collect();
    let missing: Vec<bool> = found.iter().map(|value| value.is_nan()).collect();
    assert_eq!(missing, [false, true, true, false, false, true, false]);
    assert_eq!((found[0], found[3].to_bits(), found[4]), (1.0, (-0_f32).to_bits(), f32::INFINITY));
    // Integers have no NaN, and a nodata value that floats of this width cannot hold matches nothing.
    let whole = DeviceRaster::upload(&gpu, DType::U8, (1, 1, 3), false, &[1, 2, 3]).unwrap();
    swath::read::nodata_to_nan(&whole, NoData::Uint(2)).unwrap();
    let mut out = [0; 3];
    whole.download(&mut out).unwrap();
    assert_eq!(out, [1, 2, 3]);
}

pub(crate) fn raster_on_the_device_is_written_without_passing_through_the_host(subject: &Subject) {
    let gpu = subject.gpu.clone();
    let mut random = Random(3);
    for (bands, bands_last) in [(1, false), (3, true), (3, false), (2, false)] {
        for &dtype in subject.amount(&[DType::U8, DType::U16, DType::F32, DType::F64][..], &[DType::U16]) {
            let (width, height) = subject.amount((75_u64, 90_u64), (35, 40));
            let pixels = samples(&mut random, dtype, (width * height) as usize * bands);
            let layout = if bands_last { Layout::BandsLast } else { Layout::BandsFirst };
            let options = WriteOptions::new()
                .cog()
                .blocks(BlockSize::Tiles { width: 32, height: 32 })
                .compression(Compress::Deflate { level: 1 })
                .nan_to_nodata(true)
                .nodata(NoData::Uint(9));
            let plan = WritePlan::new(ImageShape::new(height, width, bands, dtype), options).unwrap();
            let array = ArraySource::from_bytes(&pixels, dtype, bands, height, width, layout).unwrap();
            let (expected, _) = write(&plan, array, &WriteConfig::default());
            let raster = DeviceRaster::upload(&gpu, dtype, (bands, height, width), bands_last, &pixels).unwrap();
            let before = gpu.stats();
            let on_device = config(Device::Gpu(gpu.clone()), FallbackPolicy::Strict);
            let (bytes, report) = plan.to_bytes(&mut raster.clone(), &on_device).unwrap();
            assert!(bytes == expected, "{bands} bands of {dtype}, last {bands_last}");
            assert_eq!((report.device, gpu.stats().since(&before).uploads), (gpu.info().api.name(), 0));
            // The caller's pixels are unchanged, NaN too.
            let mut after = vec![0; pixels.len()];
            raster.download(&mut after).unwrap();
            assert!(after == pixels);
            // Another device cannot access the memory of this one.
            if let Some(other) = subject.another() {
                let strict = config(Device::Gpu(other.clone()), FallbackPolicy::Strict);
                let error = plan.to_bytes(&mut raster.clone(), &strict).unwrap_err();
                assert!(matches!(error, Error::Fallback { stage: "moving the raster", .. }), "{error}");
                let other = config(Device::Gpu(other), FallbackPolicy::Auto);
                let (bytes, report) = plan.to_bytes(&mut raster.clone(), &other).unwrap();
                assert!(bytes == expected);
                assert_eq!(report.gpu.unwrap().fallbacks[0].stage, "moving the raster");
            }
            // The CPU can write it too.
            let (bytes, _) = plan.to_bytes(&mut raster.clone(), &WriteConfig::default()).unwrap();
            assert!(bytes == expected);
        }
    }
}

pub(crate) fn image_is_converted_without_its_pixels_passing_through_the_host(subject: &Subject) {
    let gpu = subject.gpu.clone();
    let (width, height, bands) = (150_u64, 170_u64, 3);
    let pixels: Vec<u8> = (0..width * height * 3).flat_map(|i| ((i / 40) as u16).to_ne_bytes()).collect();
    let array = ArraySource::from_bytes(&pixels, DType::U16, bands, height, width, Layout::BandsLast).unwrap();
    for (planar, compress, resident) in [
        (Planar::Chunky, Compress::Deflate { level: 6 }, true),
        (Planar::Separate, Compress::Zstd { level: 3 }, true),
        // No kernel decodes this codec: the CPU does, and the pixels are uploaded.
        (Planar::Chunky, Compress::Lzma { preset: 0 }, false),
    ] {
        let options = WriteOptions::default()
            .blocks(BlockSize::Tiles { width: 48, height: 16 })
            .planar(planar)
            .compression(compress);
        let file = write(
            &WritePlan::new(ImageShape::new(height, width, bands, DType::U16), options).unwrap(),
            array,
            &WriteConfig::default(),
        )
        .0;
        let dataset = Dataset::from_bytes(file).unwrap();
        let image = dataset.image(0).unwrap();
        let options =
            WriteOptions::new().cog().blocks(BlockSize::Tiles { width: 32, height: 32 }).compression(Compress::Lz4);
        let plan = WritePlan::new(ImageShape::new(height, width, bands, DType::U16), options).unwrap();
        let convert = |device: Device, budget: Option<u64>| {
            let request = ReadRequest::new().device(&device);
            let mut config = config(device, FallbackPolicy::Auto);
            // Several strips, which do not end at block boundaries.
            config = config.buffer_bytes(1).gpu_memory_budget(budget);
            plan.to_bytes(&mut ImageSource::new(&image, request).unwrap(), &config).unwrap()
        };
        let (expected, _) = convert(Device::Cpu, None);
        let (bytes, report) = convert(Device::Gpu(gpu.clone()), None);
        assert!(bytes == expected, "{planar:?} {compress:?}");
        let DeviceReport { stats, fallbacks, .. } = report.gpu.unwrap();
        assert_eq!(fallbacks.is_empty(), resident, "{fallbacks:?}");
        // Compressed blocks with the gaps between them and their tables, and no pixels.
        let most = if resident { pixels.len() as u64 / 2 } else { u64::MAX };
        assert!(stats.uploads > 1 && stats.uploaded_bytes <= most, "{stats}");
        // With a budget the rows go through the host, because the rasters do not count against a budget.
        let (bytes, report) = convert(Device::Gpu(gpu.clone()), Some(1 << 20));
        assert!(bytes == expected && report.gpu.unwrap().stats.uploaded_bytes >= pixels.len() as u64);
    }
}

pub(crate) fn thousand_tiles_cost_one_pool_and_one_download(subject: &Subject) {
    let gpu = subject.gpu.clone();
    let (width, height) = (4096_u64, 4096_u64);
    let mut options = WriteOptions::default();
    // 1,024 tiles of 16 KiB.
    options = options.blocks(BlockSize::Tiles { width: 128, height: 128 }).compression(Compress::Lz4);
    let plan = WritePlan::new(ImageShape::new(height, width, 1, DType::U8), options).unwrap();
    let pixels: Vec<u8> = (0..width * height).map(|i| (i / 7 % 251) as u8).collect();
    let array = ArraySource::new::<u8>(&pixels, 1, height, width, Layout::BandsFirst).unwrap();
    let (_, report) = write(&plan, array, &config(Device::Gpu(gpu.clone()), FallbackPolicy::Strict));
    let stats = report.gpu.unwrap().stats;
    // One allocation for the rows, one for the tiles.
    assert_eq!((stats.allocations, stats.uploads, stats.downloads, stats.synchronisations), (2, 1, 1, 1), "{stats}");
    gpu.trim();
    assert_eq!(gpu.stats().current_bytes, 0, "everything was given back");
}

/// Rows of 8192 x 8192 floats, computed on request.
pub(crate) fn large(rows: Range<u64>, out: &mut [u8], _: Option<&mut [u8]>) -> swath::Result<()> {
    for (row, line) in rows.zip(out.chunks_exact_mut(8192 * 4)) {
        for (col, sample) in line.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *sample = (row as f32 * 0.5 + (col / 16) as f32).to_ne_bytes();
        }
    }
    Ok(())
}

pub(crate) fn peak_of_device_memory_is_a_band_and_not_the_image(subject: &Subject) {
    let gpu = subject.gpu.clone();
    let options = WriteOptions::new()
        .cog()
        .blocks(BlockSize::Tiles { width: 512, height: 512 })
        .compression(Compress::Zstd { level: 1 });
    let plan = WritePlan::new(ImageShape::new(8192, 8192, 1, DType::F32), options).unwrap();
    let path = std::env::temp_dir().join(format!("swath-device-large-{}.tif", std::process::id()));
    let mut source = RowFn::new(ImageShape::new(8192, 8192, 1, DType::F32), 512, large);
    let report = plan
        .write_file(
            &path,
            &mut source,
            &config(Device::Gpu(gpu.clone()), FallbackPolicy::Strict).overwrite(true).gpu_memory_budget(128_000_000),
        )
        .unwrap();
    let stats = report.gpu.unwrap().stats;
    assert!(stats.peak_bytes <= 128_000_000, "{stats}");
    // 16 strips: each is uploaded once, downloaded once and waited for once. After the first few, nothing is
    // allocated.
    assert_eq!((stats.uploads, stats.downloads, stats.synchronisations), (16, 16, 16), "{stats}");
    // Two row buffers per level and one tile buffer, some of which grow once: not one allocation per strip.
    assert!(stats.allocations <= 16, "{stats}");

    let budget = 256_000_000;
    gpu.reset_peak();
    let dataset = Dataset::open(&path).unwrap();
    let image = dataset.image(0).unwrap();
    let request = ReadRequest::new().fallback(FallbackPolicy::Strict).gpu_memory_budget(budget);
    let (raster, report) = image.read_to_device(&request, &gpu).unwrap();
    let stats = report.gpu.unwrap().stats;
    assert!(stats.peak_bytes <= budget + raster.bytes(), "{stats}");
    let mut rows = vec![0; 8192 * 4 * 2];
    let mut expected = rows.clone();
    for row in [0, 511, 4000, 8190] {
        raster.download_rows(0, row..row + 2, &mut rows).unwrap();
        large(row..row + 2, &mut expected, None).unwrap();
        assert!(rows == expected, "row {row}");
    }
    std::fs::remove_file(path).unwrap();
}

pub(crate) fn budget_too_small_for_a_band_halves_it_and_then_names_what_is_missing(subject: &Subject) {
    let gpu = subject.gpu.clone();
    let (width, height) = (256_u64, 256_u64);
    let pixels: Vec<u8> = (0..width * height).map(|i| (i % 253) as u8).collect();
    let array = ArraySource::new::<u8>(&pixels, 1, height, width, Layout::BandsFirst).unwrap();
    let options = WriteOptions::default().blocks(BlockSize::Tiles { width: 32, height: 32 });
    let plan = WritePlan::new(ImageShape::new(height, width, 1, DType::U8), options).unwrap();
    let (expected, _) = write(&plan, array, &WriteConfig::default());
    let mut small = config(Device::Gpu(gpu.clone()), FallbackPolicy::Strict);
    // Eight rows of tiles of 8 KiB each, and their tiles.
    small = small.gpu_memory_budget(40_000);
    let (bytes, report) = write(&plan, array, &small);
    assert!(bytes == expected);
    let stats = report.gpu.unwrap().stats;
    assert!(stats.uploads > 1 && stats.peak_bytes <= 40_000, "{stats}");

    small = small.gpu_memory_budget(10_000);
    let path = std::env::temp_dir().join(format!("swath-device-budget-{}.tif", std::process::id()));
    std::fs::write(&path, b"old").unwrap();
    let error = plan.write_file(&path, &mut { array }, &small.clone().overwrite(true)).unwrap_err();
    assert!(matches!(&error, Error::Device(swath_gpu::Error::Budget { .. })), "{error}");
    assert!(error.to_string().contains("bytes of device memory"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"old", "a write that fails leaves the old file");
    std::fs::remove_file(path).unwrap();
    assert_eq!(gpu.stats().current_bytes, 0);
}

pub(crate) fn unsupported_writes_fall_back_to_the_cpu_and_are_reported_or_refused(subject: &Subject) {
    let gpu = subject.gpu.clone();
    let (width, height) = (100_u64, 80_u64);
    let pixels: Vec<u8> = (0..width * height).map(|i| (i % 3) as u8).collect();
    let array = ArraySource::new::<u8>(&pixels, 1, height, width, Layout::BandsFirst).unwrap();
    let tiles = BlockSize::Tiles { width: 16, height: 16 };
    let mut masked = WriteOptions::new().cog();
    masked = masked.mask(true);
    let mut packed = WriteOptions::new().cog();
    packed = packed.bits(2);
    let mut cubic = WriteOptions::new().cog();
    cubic = cubic.resampling(Resampling::Cubic);
    let mut third = WriteOptions::default();
    third = third.overviews(Overviews::Factors(vec![3]));
    for (mut options, word) in [(masked, "mask"), (packed, "bytes"), (cubic, "cubic"), (third, "factor 3")] {
        options = options.blocks(tiles);
        let plan = WritePlan::new(ImageShape::new(height, width, 1, DType::U8), options).unwrap();
        let (expected, _) = write(&plan, array, &WriteConfig::default());
        let (bytes, report) = write(&plan, array, &config(Device::Gpu(gpu.clone()), FallbackPolicy::Auto));
        assert!(bytes == expected);
        let fallbacks = report.gpu.unwrap().fallbacks;
        assert!(
            matches!(&fallbacks[..], [one] if one.stage == "cutting" && one.reason.contains(word)),
            "{fallbacks:?}"
        );
        assert_eq!(report.device, "cpu");
        let strict = config(Device::Gpu(gpu.clone()), FallbackPolicy::Strict);
        let error = plan.to_bytes(&mut { array }, &strict).unwrap_err();
        assert!(matches!(&error, Error::Fallback { stage: "cutting", reason } if reason.contains(word)), "{error}");
    }
}

pub(crate) fn device_that_was_looked_for_and_is_not_there_is_told(_: &Subject) {
    let pixels = [1_u8; 64];
    let array = ArraySource::new::<u8>(&pixels, 1, 8, 8, Layout::BandsFirst).unwrap();
    let plan = WritePlan::new(ImageShape::new(8, 8, 1, DType::U8), WriteOptions::default()).unwrap();
    let missing = |reason: &str| {
        Device::from(Err(swath_gpu::Error::NoDevice { api: swath_gpu::Api::Cuda, reason: reason.to_owned() }))
    };
    let none = config(missing("there is none"), FallbackPolicy::Auto);
    let (bytes, report) = write(&plan, array, &none);
    let reason_of = |gpu: Option<swath::device::DeviceReport>| gpu.unwrap().fallbacks[0].reason.clone();
    assert_eq!((report.device, reason_of(report.gpu)), ("cpu", "there is no CUDA device: there is none".to_owned()));
    let dataset = Dataset::from_bytes(bytes).unwrap();
    let request = ReadRequest::new().device(missing("none here"));
    let report = dataset.image(0).unwrap().read(&request).unwrap().report;
    assert_eq!((report.device, reason_of(report.gpu)), ("cpu", "there is no CUDA device: none here".to_owned()));
}
