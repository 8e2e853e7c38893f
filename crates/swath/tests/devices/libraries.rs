//! Tests of NVIDIA's libraries on the simulator: the libraries do the work, every decoder returns the same pixels
//! as the CPU, and the report is correct.

use swath::device::{CodecBackend, DeviceReport, EncoderBackend, Storage};
use swath::tiff::{ByteOrder, Compression};
use swath::write::{BlockSize, ImageShape};
use swath::{
    ArraySource, Compress, DType, Dataset, Device, FallbackPolicy, Image, Layout, ReadRequest, WriteConfig,
    WriteOptions, WritePlan, WriteReport,
};
use swath_codec::{Predictor, SampleFormat};

use crate::files::{Cut, Dice, File, Missing, open};
use crate::subject::{Subject, same_pixels};

/// The codecs that nvCOMP supports.
const NVCOMP: [Compression; 3] = [Compression::DEFLATE, Compression::ZSTD, Compression::LZ4];

/// Counts the calls of a library that the simulator received.
fn calls(prefix: &str) -> usize {
    swath_sim::events().iter().filter(|event| event.starts_with(prefix)).count()
}

fn device(image: &Image, request: &ReadRequest<'_>) -> DeviceReport {
    image.read(request).unwrap_or_else(|error| panic!("{error}")).report.gpu.expect("a device did it")
}

/// Deflate, ZSTD and LZ4 with every predictor that they support, in odd sizes, byte orders and layouts, with
/// sparse blocks and windows that cut blocks: read by cuFile, decoded by nvCOMP.
pub(crate) fn nvcomp_gives_the_pixels_of_the_cpu(subject: &Subject) {
    let mut dice = Dice::new(5);
    for compression in NVCOMP {
        for (format, bits) in [(8, false), (16, false), (32, false), (64, false), (16, true), (32, true), (64, true)]
            .map(|(bits, float)| (if float { SampleFormat::Float } else { SampleFormat::Uint }, bits))
        {
            for predictor in [Predictor::None, Predictor::Horizontal, Predictor::FloatingPoint] {
                if predictor == Predictor::FloatingPoint && format != SampleFormat::Float {
                    continue;
                }
                let file = File {
                    width: 40 + dice.below(60),
                    height: 30 + dice.below(60),
                    bands: 1 + dice.below(4),
                    planar: dice.below(2) == 0,
                    cut: if dice.below(2) == 0 { Cut::Tiles(32, 16) } else { Cut::Strips(1 + dice.below(20)) },
                    compression,
                    predictor,
                    order: if dice.below(2) == 0 { ByteOrder::Big } else { ByteOrder::Little },
                    lsb_first: dice.below(8) == 0,
                    format,
                    bits,
                    missing: if dice.below(3) == 0 { Missing::SomeWithNodata } else { Missing::None },
                };
                let image = file.open();
                let (row, col) = (dice.below(file.height) as u64, dice.below(file.width) as u64);
                let rows = row..row + 1 + dice.below(file.height - row as usize) as u64;
                let cols = col..col + 1 + dice.below(file.width - col as usize) as u64;
                for request in [ReadRequest::new(), ReadRequest::new().window(rows, cols).layout(Layout::BandsLast)] {
                    swath_sim::forget();
                    let raster = subject.check(&format!("{file:?} {request:?}"), &image, &request);
                    let report = raster.report.gpu.expect("a device did it");
                    if raster.report.blocks > 0 {
                        assert_eq!(report.decoded_by, "nvCOMP 6.0.0");
                        assert_eq!(report.read_by, "cuFile (GPUDirect Storage)");
                        assert!(calls("nvcompBatched") > 0 && calls("cuFileRead") > 0);
                    }
                    assert_eq!(calls("reported"), 0, "{:?}", swath_sim::events());
                }
            }
        }
    }
}

/// A tile goes from the file to the pixels on the device: only the table of the blocks is uploaded, and only
/// the pixels are downloaded.
pub(crate) fn compressed_and_decoded_bytes_do_not_pass_through_the_host(subject: &Subject) {
    for compression in [Compression::DEFLATE, Compression::ZSTD, Compression::LZ4, Compression::LZW, Compression::NONE]
    {
        let (predictor, cut) = (Predictor::None, Cut::Tiles(64, 64));
        let file = File { width: 512, height: 512, cut, compression, predictor, ..File::default() };
        let image = file.open();
        let request = subject.strict(&ReadRequest::new());
        let (_raster, report) = image.read_to_device(&request, &subject.gpu).expect("room");
        let stats = report.gpu.as_ref().expect("a device did it").stats;
        assert_eq!((stats.uploads, stats.downloads, stats.synchronisations), (1, 1, 1), "{compression:?}: {stats}");
        let tables = file.blocks() as u64 * 64 + 1024;
        assert!(stats.uploaded_bytes <= tables && stats.downloaded_bytes <= tables, "{compression:?}: {stats}");
        // Includes the gaps between blocks that are read together.
        let read = report.bytes_fetched..=report.bytes_fetched + tables;
        assert!(read.contains(&stats.file_read_bytes), "{compression:?}: {stats}");
    }
}

/// A caller that does not trust a file or a library can request our kernels. A requested library that cannot
/// be used is reported.
pub(crate) fn requested_decoder_and_storage_are_used(subject: &Subject) {
    let file = File { compression: Compression::DEFLATE, ..File::default() };
    let image = file.open();
    let strict = |decoder, storage| subject.strict(&ReadRequest::new()).decoder(decoder).storage(storage);
    for (decoder, decoded_by, nvcomp) in [
        (CodecBackend::Builtin, "kernel inflate", 0),
        (CodecBackend::NvComp, "nvCOMP 6.0.0", 1),
        (CodecBackend::Auto, "nvCOMP 6.0.0", 1),
    ] {
        for (storage, cufile) in [(Storage::Posix, false), (Storage::CuFile, true), (Storage::Auto, true)] {
            swath_sim::forget();
            let report = device(&image, &strict(decoder, storage));
            assert_eq!(report.decoded_by, decoded_by);
            assert_eq!(calls("nvcompBatchedDeflateDecompressAsync"), nvcomp, "{decoder:?}");
            assert_eq!(calls("cuFileRead") > 0, cufile, "{storage:?}");
            assert_eq!(report.read_by.starts_with("cuFile"), cufile, "{}", report.read_by);
        }
    }
    // Swath has no LZ4 kernel.
    let image = File { compression: Compression::LZ4, ..file }.open();
    let error = image.read(&strict(CodecBackend::Builtin, Storage::Auto)).expect_err("no kernel decodes it");
    assert!(error.to_string().contains("no kernel decodes LZ4"), "{error}");
    // A device cannot directly read a file in memory.
    let image = Dataset::from_bytes(file.build()).and_then(|dataset| dataset.image(0)).expect("it opens");
    let error = image.read(&strict(CodecBackend::Auto, Storage::CuFile)).expect_err("there is no file");
    assert!(error.to_string().contains("cuFile reads only local files"), "{error}");
    let report = device(&image, &strict(CodecBackend::Auto, Storage::CuFile).fallback(FallbackPolicy::Auto));
    assert_eq!(report.fallbacks[0].stage, "reading by cuFile");
}

/// Version 5 has other names for two functions; everything else is the same.
pub(crate) fn nvcomp_5_decodes_and_compresses_too(subject: &Subject) {
    for compression in NVCOMP {
        let image = File { compression, ..File::default() }.open();
        let raster = subject.check("nvCOMP 5", &image, &ReadRequest::new());
        assert_eq!(raster.report.gpu.expect("a device did it").decoded_by, "nvCOMP 5.3.0");
    }
    let plan = plan(64, 64, 1, DType::U8, Compress::Deflate { level: 6 }, true);
    let pixels = vec![7_u8; 64 * 64];
    let (bytes, report) = write(subject, &plan, &pixels, CodecBackend::NvComp);
    assert_eq!(report.gpu.expect("a device did it").compressed_by, "nvCOMP 5.3.0");
    reads_back("nvCOMP 5", &bytes, &pixels);
}

/// A library of an unsupported version is not used, regardless of its file name, and the report says so.
pub(crate) fn nvcomp_of_another_version_is_refused(subject: &Subject) {
    let image = File { compression: Compression::DEFLATE, ..File::default() }.open();
    let report = device(&image, &subject.strict(&ReadRequest::new()));
    assert_eq!(report.decoded_by, "kernel inflate");
    let request = subject.strict(&ReadRequest::new()).decoder(CodecBackend::NvComp);
    let message = image.read(&request).expect_err("nvCOMP was requested").to_string();
    assert!(message.contains("4.2"), "{message}");
    let report = device(&image, &request.fallback(FallbackPolicy::Auto));
    assert!(!report.fallbacks.is_empty());
}

/// cuFile in compatibility mode, which copies through host memory, is used only on request, and the report
/// says so.
pub(crate) fn compatibility_mode_of_cufile_does_not_count_as_direct_storage(subject: &Subject) {
    let image = File { compression: Compression::DEFLATE, ..File::default() }.open();
    let request = subject.strict(&ReadRequest::new());
    assert_eq!(device(&image, &request).read_by, "the host, into pinned memory");
    let report = device(&image, &request.storage(Storage::CuFile));
    assert_eq!(report.read_by, "cuFile in compatibility mode, through host memory");
}

/// Direct storage without NVIDIA's kernel module, if the Linux kernel supports it.
pub(crate) fn storage_that_the_kernel_copies_from_is_direct(subject: &Subject) {
    let image = File { compression: Compression::DEFLATE, ..File::default() }.open();
    let raster = subject.check("no module", &image, &ReadRequest::new());
    assert_eq!(raster.report.gpu.expect("a device did it").read_by, "cuFile (GPUDirect Storage)");
    assert_eq!(calls("reported"), 0, "{:?}", swath_sim::events());
}

/// Memory that cuFile cannot register is used anyway, and the report says so.
pub(crate) fn memory_that_cufile_cannot_register_is_named_in_the_report(subject: &Subject) {
    let image = File { compression: Compression::DEFLATE, ..File::default() }.open();
    let raster = subject.check("not registered", &image, &ReadRequest::new());
    let read_by = raster.report.gpu.expect("a device did it").read_by;
    assert_eq!(read_by, "cuFile, through memory of its own: the device's could not be registered");
}

/// Older versions of cuFile accept only files that are opened with O_DIRECT, for reads and for writes.
pub(crate) fn files_are_opened_past_the_page_cache(subject: &Subject) {
    let image = File { compression: Compression::DEFLATE, ..File::default() }.open();
    let raster = subject.check("a strict library", &image, &ReadRequest::new().storage(Storage::CuFile));
    assert_eq!(raster.report.gpu.expect("a device did it").read_by, "cuFile (GPUDirect Storage)");
    let plan = plan(64, 64, 1, DType::U8, Compress::Deflate { level: 6 }, true);
    let pixels = vec![7_u8; 64 * 64];
    let mut source = ArraySource::from_bytes(&pixels, DType::U8, 1, 64, 64, Layout::BandsLast).expect("an array");
    let (device, storage) = (Device::Gpu(subject.gpu.clone()), Storage::CuFile);
    let config = WriteConfig::new().device(device).fallback(FallbackPolicy::Strict).storage(storage);
    let mut written = Vec::new();
    let report = plan.write_to(&mut written, &mut source, &config).expect("it writes");
    assert_eq!(
        report.gpu.expect("a device did it").written_by,
        "cuFile (GPUDirect Storage, parts of pages through host memory)"
    );
    reads_back("a strict library", &written, &pixels);
}

fn plan(width: u64, height: u64, bands: usize, dtype: DType, compress: Compress, cog: bool) -> WritePlan {
    let mut options = if cog { WriteOptions::new().cog() } else { WriteOptions::default() };
    options = options.blocks(BlockSize::Tiles { width: 48, height: 32 }).compression(compress);
    WritePlan::new(ImageShape::new(height, width, bands, dtype), options).expect("a plan")
}

fn write(
    subject: &Subject,
    plan: &WritePlan,
    pixels: &[u8],
    encoder: impl Into<EncoderBackend>,
) -> (Vec<u8>, WriteReport) {
    let (width, height, bands, dtype) = (plan.width(), plan.height(), plan.bands(), plan.dtype());
    let mut source = ArraySource::from_bytes(pixels, dtype, bands, height, width, Layout::BandsLast).expect("an array");
    let config = WriteConfig::new()
        .device(Device::Gpu(subject.gpu.clone()))
        .fallback(FallbackPolicy::Strict)
        .encoder(encoder)
        .buffer_bytes(1);
    plan.to_bytes(&mut source, &config).expect("it is written")
}

fn reads_back(name: &str, file: &[u8], pixels: &[u8]) {
    let request = ReadRequest::new().layout(Layout::BandsLast);
    let raster = open(file.to_vec()).read(&request).unwrap_or_else(|error| panic!("{name}: {error}"));
    same_pixels(name, pixels, raster.pixels.as_bytes());
}

/// The CPU reads what nvCOMP compressed, checksums included: every level of the file, every sample type, and
/// tiles that do not get smaller.
pub(crate) fn cpu_reads_what_nvcomp_compresses(subject: &Subject) {
    let mut dice = Dice::new(3);
    for compress in [
        Compress::Deflate { level: 1 },
        Compress::Deflate { level: 5 },
        Compress::Deflate { level: 6 },
        Compress::Deflate { level: 12 },
        Compress::Zstd { level: 9 },
        Compress::Lz4,
    ] {
        for (dtype, noise) in [(DType::U8, false), (DType::U16, true), (DType::F32, false), (DType::F64, true)] {
            let (width, height, bands) = (60 + dice.below(90) as u64, 50 + dice.below(90) as u64, 1 + dice.below(3));
            let plan = plan(width, height, bands, dtype, compress, dice.below(2) == 0);
            let len = (width * height) as usize * bands * dtype.size();
            let pixels = match noise {
                true => (0..len).map(|_| dice.below(256) as u8).collect(),
                false => crate::files::texture(7, len),
            };
            let name = format!("{compress:?} {dtype} {width} x {height} x {bands}");
            let (bytes, report) = write(subject, &plan, &pixels, CodecBackend::Auto);
            assert_eq!(report.gpu.expect("a device did it").compressed_by, "nvCOMP 6.0.0", "{name}");
            reads_back(&name, &bytes, &pixels);
            // The overviews equal those of the CPU: the pixels do not depend on the encoder.
            let (expected, _) = write(subject, &plan, &pixels, EncoderBackend::Cpu);
            let (ours, theirs) = (open(bytes), open(expected));
            assert_eq!(ours.levels().len(), theirs.levels().len(), "{name}");
            for level in 0..ours.levels().len() {
                let request = ReadRequest::new().level(level);
                let read = |image: &Image| image.read(&request).unwrap_or_else(|error| panic!("{name}: {error}"));
                same_pixels(&name, read(&theirs).pixels.as_bytes(), read(&ours).pixels.as_bytes());
            }
        }
    }
    assert_eq!(calls("reported"), 0);
}

/// A library that reports success but wrote nothing must not expose the data of the previous batch.
pub(crate) fn library_that_wrote_nothing_is_detected(subject: &Subject) {
    for compression in NVCOMP {
        let file = File { compression, ..File::default() };
        let image = file.open();
        let request = ReadRequest::new().device(&subject.gpu);
        let expected = image.read(&ReadRequest::new()).expect("the CPU reads it");
        for round in 0..3 {
            let raster = image.read(&request).unwrap_or_else(|error| panic!("{error}"));
            same_pixels("did nothing", expected.pixels.as_bytes(), raster.pixels.as_bytes());
            let fallbacks = raster.report.gpu.expect("a device did it").fallbacks;
            assert!(!fallbacks.is_empty(), "{compression:?}, round {round}");
        }
    }
    let plan = plan(100, 80, 1, DType::U16, Compress::Zstd { level: 3 }, true);
    let pixels = crate::files::texture(9, 100 * 80 * 2);
    let mut source = ArraySource::from_bytes(&pixels, DType::U16, 1, 80, 100, Layout::BandsLast).expect("an array");
    let config = WriteConfig::new().device(Device::Gpu(subject.gpu.clone()));
    let (bytes, report) = plan.to_bytes(&mut source, &config).expect("it is written");
    reads_back("did nothing", &bytes, &pixels);
    let report = report.gpu.expect("a device did it");
    assert_eq!((report.compressed_by.as_str(), report.fallbacks.len()), ("the CPU", 1), "{:?}", report.fallbacks);
}

/// A library that reports more output than the buffer can hold is rejected too.
pub(crate) fn impossible_compressed_size_is_rejected(subject: &Subject) {
    for compress in [Compress::Deflate { level: 6 }, Compress::Zstd { level: 3 }, Compress::Lz4] {
        let plan = plan(100, 80, 1, DType::U16, compress, true);
        let pixels = crate::files::texture(9, 100 * 80 * 2);
        let mut source = ArraySource::from_bytes(&pixels, DType::U16, 1, 80, 100, Layout::BandsLast).expect("an array");
        let config = WriteConfig::new().device(Device::Gpu(subject.gpu.clone()));
        let (bytes, report) = plan.to_bytes(&mut source, &config).expect("it is written");
        reads_back("too large", &bytes, &pixels);
        assert!(!report.gpu.expect("a device did it").fallbacks.is_empty());
    }
}

/// Makes a frame with a window of 32 MiB, as libzstd's highest compression levels do for data of any size.
fn widen(frame: &mut Vec<u8>) {
    let single = 0x20;
    assert!(frame[4] & single != 0 && frame[4] >> 6 != 0, "the window is the content, whose size is stated");
    frame[4] &= !single;
    frame.insert(5, 0x78);
}

/// nvCOMP does not receive windows of more than 8 MB. Our kernel decodes them, so the device still does the
/// work.
pub(crate) fn blocks_unsafe_for_nvcomp_are_decoded_by_our_kernel(subject: &Subject) {
    let file = File { compression: Compression::ZSTD, ..File::default() };
    let blocks = file.blocks() as u64;
    let expected = file.open().read(&ReadRequest::new()).expect("the CPU reads it");
    let wide = open(file.build_with(|_, block| widen(block)));
    for fallback in [FallbackPolicy::Auto, FallbackPolicy::Strict] {
        let request = ReadRequest::new().device(&subject.gpu).fallback(fallback);
        let raster = wide.read(&request).unwrap_or_else(|error| panic!("{fallback:?}: {error}"));
        same_pixels("wide windows", expected.pixels.as_bytes(), raster.pixels.as_bytes());
        assert_eq!(raster.report.blocks, blocks, "{fallback:?}");
        let gpu = raster.report.gpu.expect("a device did it");
        assert_eq!(gpu.decoded_by, "kernel zstd", "{fallback:?}");
        let [entry] = &gpu.fallbacks[..] else { panic!("{fallback:?}: {:?}", gpu.fallbacks) };
        assert_eq!((entry.stage, entry.blocks), ("decoding by NVIDIA's library", 0), "{entry}");
    }
    // When the read is divided into batches, two of them were in flight at that time.
    let tall = File { height: 4000, ..file };
    let wide_and_tall = open(tall.build_with(|_, block| widen(block)));
    let all = tall.open().read(&ReadRequest::new()).expect("the CPU reads it");
    for fallback in [FallbackPolicy::Auto, FallbackPolicy::Strict] {
        let request = ReadRequest::new().device(&subject.gpu).fallback(fallback).gpu_memory_budget(700_000);
        let raster = wide_and_tall.read(&request).unwrap_or_else(|error| panic!("{fallback:?}: {error}"));
        same_pixels("many wide windows", all.pixels.as_bytes(), raster.pixels.as_bytes());
        assert!(raster.report.batches > 4 && raster.report.blocks == tall.blocks() as u64, "{:?}", raster.report);
        let fallbacks = raster.report.gpu.expect("a device did it").fallbacks;
        assert!(fallbacks.len() == 1 && fallbacks[0].blocks == 0, "{fallback:?}: {fallbacks:?}");
    }
    let nvcomp = subject.strict(&ReadRequest::new().decoder(CodecBackend::NvComp));
    let refused = wide.read(&nvcomp).expect_err("only nvCOMP was requested");
    assert!(matches!(refused, swath::Error::Fallback { .. }), "{refused}");

    // A single such block does not disable nvCOMP, unless the CPU is not allowed.
    let one = open(file.build_with(|i, block| {
        if i == 3 {
            widen(block)
        }
    }));
    for (fallback, by, left) in [(FallbackPolicy::Auto, "nvCOMP", 1), (FallbackPolicy::Strict, "kernel zstd", 0)] {
        let raster = one.read(&ReadRequest::new().device(&subject.gpu).fallback(fallback)).expect("it is read");
        same_pixels("one wide window", expected.pixels.as_bytes(), raster.pixels.as_bytes());
        assert_eq!(raster.report.blocks, blocks);
        let gpu = raster.report.gpu.expect("a device did it");
        assert!(gpu.decoded_by.contains(by), "{fallback:?}: {gpu:?}");
        assert_eq!(gpu.fallbacks.iter().map(|entry| entry.blocks).collect::<Vec<_>>(), [left], "{fallback:?}");
    }
}

/// nvCOMP needs several times the size of a ZSTD block as working memory, our kernel 128 KiB.
pub(crate) fn block_too_large_for_nvcomp_memory_is_decoded_by_our_kernel(subject: &Subject) {
    let file =
        File { compression: Compression::ZSTD, width: 2048, height: 1024, cut: Cut::Strips(1024), ..File::default() };
    let image = file.open();
    let read = |decoder, budget| {
        let request = ReadRequest::new().decoder(decoder).gpu_memory_budget(budget);
        image.read(&subject.strict(&request)).map(|raster| raster.report.gpu.expect("a device did it"))
    };
    let bytes = file.block_bytes() as u64;
    let budget = (8..).map(|quarters| quarters * bytes / 4).find(|&budget| read(CodecBackend::Builtin, budget).is_ok());
    let budget = budget.expect("there is one");
    let refused = read(CodecBackend::NvComp, budget).expect_err("there is too little for nvCOMP");
    assert!(matches!(refused, swath::Error::Fallback { .. }), "{refused}");
    let gpu = read(CodecBackend::Auto, budget).unwrap_or_else(|error| panic!("{budget}: {error}"));
    assert_eq!(gpu.decoded_by, "kernel zstd");
    assert!(gpu.fallbacks.iter().any(|entry| entry.reason.contains("budget")), "{:?}", gpu.fallbacks);
    assert!(read(CodecBackend::Auto, 16 * bytes).expect("more than enough").decoded_by.contains("nvCOMP"));
}
