//! Pixels that stay on the device.

use swath::read::OnCorrupt;
use swath::tiff::Compression;
use swath::{Device, FallbackPolicy, Image, Layout, ReadReport, ReadRequest};
use swath_codec::predictor::Predictor;

use crate::files::{Cut, File, Missing, open};
use crate::pixels::CODECS;
use crate::subject::{Subject, same_pixels};

const LAYOUTS: [Layout; 2] = [Layout::BandsFirst, Layout::BandsLast];

/// Reads into the device, downloads the pixels, and compares them with the CPU's. Returns the peak memory
/// without the raster.
fn check(subject: &Subject, name: &str, image: &Image, request: &ReadRequest<'_>) -> u64 {
    let expected = image.read(&request.clone().device(Device::Cpu).threads(1));
    let expected = expected.unwrap_or_else(|error| panic!("{name}: CPU: {error}"));
    subject.gpu.reset_peak();
    let (raster, report) =
        image.read_to_device(request, &subject.gpu).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut pixels = vec![0xA5; raster.bytes() as usize];
    raster.download(&mut pixels).unwrap_or_else(|error| panic!("{name}: {error}"));
    same_pixels(name, expected.pixels.as_bytes(), &pixels);
    let (rows, cols) = (raster.rows() as usize, raster.cols() as usize);
    let shape = if raster.bands_last() { [rows, cols, raster.bands()] } else { [raster.bands(), rows, cols] };
    assert_eq!((shape, raster.dtype()), (expected.shape, image.dtype()), "{name}");
    // In planar files the CPU proceeds band by band and the device position by position.
    let sorted = |report: &ReadReport| {
        let mut filled: Vec<_> =
            report.filled.iter().map(|(block, reason)| (block.to_string(), reason.clone())).collect();
        filled.sort();
        filled
    };
    assert_eq!(sorted(&report), sorted(&expected.report), "{name}");
    let gpu = report.gpu.expect("a device did it");
    gpu.stats.peak_bytes.saturating_sub(raster.bytes())
}

/// Every codec, both planar configurations, both output layouts, windows and lists of bands.
pub(crate) fn raster_holds_the_pixels_of_the_layout_asked_for(subject: &Subject) {
    for (i, compression) in CODECS.into_iter().enumerate().take(subject.amount(5, 2)).skip(subject.amount(0, 1)) {
        for planar in [false, true] {
            let file = File {
                compression,
                planar,
                bands: 3,
                width: subject.amount(50, 20),
                height: subject.amount(40, 20),
                cut: [Cut::Tiles(16, 16), Cut::Strips(9)][i % 2],
                missing: if i == 2 { Missing::SomeWithNodata } else { Missing::None },
                ..File::default()
            };
            let image = file.open();
            for layout in LAYOUTS {
                let request = subject.strict(&ReadRequest::new()).layout(layout);
                let name = format!("{compression:?} {layout:?}, planar {planar}");
                check(subject, &name, &image, &request);
                check(subject, &name, &image, &request.clone().window(7..19, 15..18).bands([2, 0, 2]));
                // Many batches into one raster.
                let budget = if compression == Compression::ZSTD { 300_000 } else { 30_000 };
                check(subject, &name, &image, &request.gpu_memory_budget(budget));
            }
        }
    }
}

/// Blocks that the device refuses are put where they belong by the CPU; so are those that are filled.
pub(crate) fn raster_gets_blocks_that_the_cpu_had_to_read(subject: &Subject) {
    for layout in LAYOUTS {
        for planar in [false, true] {
            let bands = subject.amount(3, 2);
            let (width, height) = subject.amount((50, 40), (33, 20));
            let compression = Compression::DEFLATE;
            let file = File { width, height, compression, bands, planar, bits: 32, ..File::default() };
            let image = open(file.build_with(|number, block| {
                if number % 5 == 2 {
                    block.truncate(block.len() / 2);
                }
            }));
            let name = format!("{layout:?}, planar {planar}");
            let request = ReadRequest::new().layout(layout).on_corrupt(OnCorrupt::Fill);
            if !subject.slow {
                check(subject, &name, &image, &request);
            }
            check(subject, &name, &image, &request.window(10..20, 3..33).bands([1, 0]));
            let image = open(file.build_with(|number, block| {
                if number == 2 {
                    block.truncate(block.len() / 2);
                }
            }));
            let expected = image.read(&ReadRequest::new()).expect_err("a block is corrupt");
            match image.read_to_device(&ReadRequest::new(), &subject.gpu) {
                Ok(_) => panic!("{name}: {expected} was not found"),
                Err(error) => assert_eq!(error.to_string(), expected.to_string(), "{name}"),
            }
            // Nothing of it by the device.
            let file = File { compression: Compression::LZMA, ..file };
            check(subject, &name, &file.open(), &ReadRequest::new().layout(layout).bands([1, 0]));
        }
    }
}

/// The raster is not counted, the batches are; blocks that the CPU read included.
pub(crate) fn raster_keeps_to_the_budget_beside_itself(subject: &Subject) {
    let file =
        File { width: 256, height: 256, cut: Cut::Tiles(32, 32), predictor: Predictor::Horizontal, ..File::default() };
    let sound = file.open();
    let damaged = open(file.build_with(|number, block| {
        if number % 4 == 3 {
            block.truncate(block.len() / 2);
        }
    }));
    let budget = 40_000;
    for (name, image, policy) in
        [("sound", &sound, FallbackPolicy::Strict), ("damaged", &damaged, FallbackPolicy::Auto)]
    {
        subject.gpu.trim();
        let request = ReadRequest::new().gpu_memory_budget(budget).fallback(policy).on_corrupt(OnCorrupt::Fill);
        let held = check(subject, name, image, &request);
        assert!(held <= budget, "{name}: {held} bytes were held beside the raster, {budget} were allowed");
    }
}
