//! The CPU does what no kernel can do and the report says so, or strict mode refuses.

use swath::tiff::{ByteOrder, Compression};
use swath::{Error, FallbackPolicy, Image, ReadRequest};
use swath_codec::SampleFormat;
use swath_codec::predictor::Predictor;

use crate::files::{Cut, File, compress, open, texture};
use crate::seeds;
use crate::subject::{Subject, same_pixels};

/// Reads with both policies. The CPU reads `blocks` blocks of the image, and the reason contains `named`.
fn falls_back(subject: &Subject, name: &str, image: &Image, blocks: u64, named: &str) {
    let expected = image.read(&ReadRequest::new()).unwrap_or_else(|error| panic!("{name}: CPU: {error}"));
    let request = ReadRequest::new().device(&subject.gpu);
    let raster = image.read(&request).unwrap_or_else(|error| panic!("{name}: {error}"));
    same_pixels(name, expected.pixels.as_bytes(), raster.pixels.as_bytes());
    assert_eq!(raster.report.blocks, expected.report.blocks, "{name}: blocks");
    let fallbacks = raster.report.gpu.expect("the request names a device").fallbacks;
    assert_eq!(fallbacks.len(), 1, "{name}: {fallbacks:?}");
    assert_eq!((fallbacks[0].stage, fallbacks[0].blocks), ("decoding", blocks), "{name}: {fallbacks:?}");
    assert!(fallbacks[0].reason.contains(named), "{name}: {fallbacks:?}");

    let refused = image.read(&request.clone().fallback(FallbackPolicy::Strict)).expect_err("the CPU was ruled out");
    let Error::Fallback { stage: "decoding", reason } = &refused else { panic!("{name}: {refused}") };
    // The error names the block.
    let block = reason.strip_suffix(&fallbacks[0].reason).unwrap_or_else(|| panic!("{name}: {reason}"));
    assert!(block.is_empty() || block.starts_with("tile (") || block.starts_with("strip "), "{name}: {reason}");

    let (resident, report) =
        image.read_to_device(&request, &subject.gpu).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut pixels = vec![0; resident.bytes() as usize];
    resident.download(&mut pixels).expect("it downloads");
    same_pixels(name, expected.pixels.as_bytes(), &pixels);
    let gpu = report.gpu.expect("the request names a device");
    assert_eq!(gpu.fallbacks, fallbacks, "{name}");
    if blocks == expected.report.blocks {
        // Everything that the CPU decoded is uploaded at once, and nothing before.
        let stats = gpu.stats;
        assert_eq!((stats.uploads, stats.uploaded_bytes), (1, pixels.len() as u64), "{name}: {stats}");
        assert_eq!((stats.downloads, stats.launches, stats.file_reads), (0, 0, 0), "{name}: {stats}");
    }
}

/// JPEG, LERC and LZMA.
pub(crate) fn codec_without_a_kernel_is_reported_or_refused(subject: &Subject) {
    let seeds = seeds::all();
    for (seed, named) in [
        ("jpeg-cmyk.jpg", "colours"),
        ("jpeg-12bit.jpg", "JPEG"),
        ("lerc-f32-mask.bin", "LERC"),
        ("webp-lossy.webp", "WebP"),
        ("strips-34925", "LZ4"),
    ] {
        let Some((name, bytes)) = seeds.iter().find(|(name, _)| name == seed) else { continue };
        let image = open(bytes.clone());
        let blocks = image.layout().grid.count().expect("a number");
        falls_back(subject, name, &image, blocks, named);
    }
    let file = File { compression: Compression::LZMA, bands: 3, planar: true, ..File::default() };
    falls_back(subject, "LZMA", &file.open(), file.blocks() as u64, "LZMA");
}

/// Floats of three bytes, integers of three bytes in big-endian order, horizontal differences of samples of
/// few bits.
pub(crate) fn samples_without_a_kernel_are_reported_or_refused(subject: &Subject) {
    let (uint, float) = (SampleFormat::Uint, SampleFormat::Float);
    for (format, bits, predictor, order, named) in [
        (float, 24, Predictor::None, ByteOrder::Little, "samples"),
        (uint, 24, Predictor::None, ByteOrder::Big, "samples"),
        (SampleFormat::ComplexFloat, 32, Predictor::None, ByteOrder::Little, "samples"),
        (uint, 12, Predictor::Horizontal, ByteOrder::Little, "predictor"),
    ] {
        let file = File { format, bits, predictor, order, ..File::default() };
        falls_back(subject, &format!("{file:?}"), &file.open(), file.blocks() as u64, named);
    }
}

/// The CPU reads two ZSTD frames in a row as one block, and accepts thousands of empty blocks. The kernel
/// leaves such a block, and no other, to the CPU.
pub(crate) fn stream_form_without_a_kernel_sends_only_its_block_to_the_cpu(subject: &Subject) {
    for planar in [false, true] {
        let file = File {
            compression: Compression::ZSTD,
            bits: 8,
            bands: 2,
            planar,
            cut: Cut::Tiles(16, 16),
            ..File::default()
        };
        let content = texture(77, file.block_bytes());
        let (first, second) = content.split_at(100);
        let image = open(file.build_with(|number, block| {
            if number == 5 {
                *block = compress(Compression::ZSTD, 3, 16, first);
                block.extend(compress(Compression::ZSTD, 3, 16, second));
            }
        }));
        falls_back(subject, "two frames", &image, 1, "form");

        let empty = open(file.build_with(|number, block| {
            if number == 5 {
                // A frame that does not declare its size, with a window of 4 MB, and empty stored blocks.
                *block = [&[0x28, 0xB5, 0x2F, 0xFD, 0, 0x60][..], &[0; 3 * 2000]].concat();
                block.extend(&((content.len() as u32) << 3 | 1).to_le_bytes()[..3]);
                block.extend(&content);
            }
        }));
        falls_back(subject, "empty blocks", &empty, 1, "form");
    }
}
