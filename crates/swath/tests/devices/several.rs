//! Several devices for one read or write: pixels, bytes and errors are those of one device.

use std::sync::Mutex;

use swath::device::{EncoderBackend, Gpu};
use swath::read::{OnCorrupt, Progress};
use swath::tiff::Compression;
use swath::write::BlockSize;
use swath::{
    ArraySource, Compress, Device, Error, FallbackPolicy, Layout, ReadRequest, RowSource, WriteConfig, WriteOptions,
    WritePlan,
};
use swath_gpu::{Api, OpenCl};

use crate::files::{Cut, File, open};
use crate::subject::{Subject, same_pixels};

/// The device of the subject, and the next one of the machine.
fn devices(subject: &Subject) -> Device {
    let info = subject.gpu.info();
    let other = match info.api {
        Api::Cuda => Gpu::cuda(info.index + 1),
        _ => OpenCl::choose(Some(&(info.index + 1).to_string())).map(Gpu::new),
    };
    Device::several(vec![subject.gpu.clone(), other.expect("there are two devices")]).expect("they are two")
}

/// Every layout and division into blocks; windows that cut blocks; fewer rows of blocks than devices.
pub(crate) fn read_by_two_devices_has_the_pixels_of_the_cpu(subject: &Subject) {
    let devices = devices(subject);
    for planar in [false, true] {
        for cut in [Cut::Tiles(16, 16), Cut::Strips(7), Cut::Strips(40)] {
            let image = File { bands: 3, planar, cut, compression: Compression::DEFLATE, ..File::default() }.open();
            for layout in [Layout::BandsFirst, Layout::BandsLast] {
                for window in [(0..40, 0..50), (3..39, 15..18), (17..18, 0..50)] {
                    let name = format!("planar {planar}, {cut:?}, {layout:?}, {window:?}");
                    let request = ReadRequest::new().layout(layout).window(window.0, window.1).bands([2, 0]);
                    let expected = image.read(&request).expect("the CPU reads");
                    let strict = subject.strict(&request).device(&devices);
                    let raster = image.read(&strict).unwrap_or_else(|error| panic!("{name}: {error}"));
                    same_pixels(&name, expected.pixels.as_bytes(), raster.pixels.as_bytes());
                    assert_eq!(raster.report.blocks, expected.report.blocks, "{name}");
                }
            }
        }
    }
}

/// The report names both devices and adds their counts, and progress reaches its total and never decreases.
pub(crate) fn report_names_each_device(subject: &Subject) {
    let devices = devices(subject);
    let image = File { compression: Compression::PACKBITS, ..File::default() }.open();
    let seen = Mutex::new(Vec::new());
    let progress = |now: Progress| seen.lock().expect("no panic").push((now.done, now.total));
    let request = subject.strict(&ReadRequest::new()).device(&devices).progress(&progress);
    let report = image.read(&request).expect("both read").report;
    let gpu = report.gpu.expect("devices read");
    let names: Vec<_> = devices.gpus().iter().map(|gpu| gpu.info().name.as_str()).collect();
    assert_eq!(gpu.name, names.join(", "));
    assert_eq!((report.batches, gpu.stats.synchronisations, gpu.stats.downloads), (2, 2, 2));
    let seen = seen.into_inner().expect("no panic");
    assert!(seen.is_sorted() && seen.last() == Some(&(12, 12)), "{seen:?}");
}

/// The first corrupt block in file order is reported, whichever device meets it; filled blocks are filled as on the CPU.
pub(crate) fn first_corrupt_block_of_two_devices_is_that_of_the_cpu(subject: &Subject) {
    let devices = devices(subject);
    for planar in [false, true] {
        for corrupt in [[1, 11], [9, 10], [5, 23], [8, 14], [11, 12]] {
            let file = File { bands: 3, planar, compression: Compression::DEFLATE, ..File::default() };
            let image = open(file.build_with(|number, block| {
                if corrupt.contains(&number) {
                    block.truncate(block.len() / 10);
                }
            }));
            let expected = image.read(&ReadRequest::new().threads(1)).map(drop).expect_err("it is corrupt").to_string();
            let request = ReadRequest::new().device(&devices);
            let found = image.read(&request).map(drop).expect_err("it is corrupt").to_string();
            assert_eq!(found, expected, "planar {planar}, {corrupt:?}");
            let request = request.on_corrupt(OnCorrupt::Fill);
            let expected = image.read(&request.clone().device(Device::Cpu)).expect("the CPU fills");
            let raster = image.read(&request).expect("the devices fill");
            same_pixels("filled", expected.pixels.as_bytes(), raster.pixels.as_bytes());
            assert_eq!(raster.report.filled_blocks, expected.report.filled_blocks);
        }
    }
}

/// Strips alternate between the devices; the file has the same bytes. Overviews are made by the first device.
pub(crate) fn file_by_two_devices_has_the_bytes_of_one(subject: &Subject) {
    let devices = devices(subject);
    let (width, height) = (70_u64, 203_u64);
    let pixels: Vec<u16> = (0..width * height * 3).map(|i| (i * i % 1009) as u16).collect();
    let tiles = |side| WriteOptions::new().blocks(BlockSize::Tiles { width: side, height: side });
    for (name, options, encoder, shared) in [
        ("deflate", tiles(16).compression(Compress::Deflate { level: 1 }), EncoderBackend::Cpu, true),
        ("lzw", tiles(48).compression(Compress::Lzw), EncoderBackend::Builtin, true),
        ("packbits", tiles(32).compression(Compress::PackBits), EncoderBackend::Auto, true),
        ("cog", tiles(16).cog().compression(Compress::Lzw), EncoderBackend::Cpu, false),
    ] {
        let write = |device: &Device| {
            let source = ArraySource::new(&pixels, 3, height, width, Layout::BandsLast).expect("an array");
            let plan = WritePlan::new(RowSource::shape(&source), options.clone()).expect("a plan");
            let config = WriteConfig::new().device(device).encoder(encoder).fallback(FallbackPolicy::Auto);
            plan.to_bytes(&mut { source }, &config).unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        let (expected, _) = write(&Device::Gpu(subject.gpu.clone()));
        let (bytes, report) = write(&devices);
        same_pixels(name, &expected, &bytes);
        let gpu = report.gpu.expect("devices wrote");
        assert_eq!(gpu.name.contains(", "), shared, "{name}: {}", gpu.name);
        assert!(!shared || gpu.stats.launches >= 4, "{name}: both cut tiles");
        assert!(encoder == EncoderBackend::Cpu || gpu.compressed_by != "the CPU", "{name}: {}", gpu.compressed_by);
    }
}

/// Devices that are listed twice, and lists with something that is not a GPU, are refused.
pub(crate) fn list_with_a_device_twice_is_refused(subject: &Subject) {
    let gpu = &subject.gpu;
    let twice = Device::several(vec![gpu.clone(), gpu.clone()]);
    assert!(matches!(twice, Err(Error::DeviceTwice { .. })), "{twice:?}");
    assert!(matches!(Device::several(vec![gpu.clone()]), Ok(Device::Gpu(_))));
    assert!(matches!(Device::open("cpu,cpu"), Err(Error::DeviceName { .. })));
}
