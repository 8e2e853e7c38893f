//! The operations for fault injection: reads, writes and a conversion that use all of NVIDIA's libraries,
//! with their expected results.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use swath::device::{CodecBackend, DeviceReport, Gpu, Storage};
use swath::tiff::Compression;
use swath::write::{BlockSize, ImageShape, Overviews, PredictorChoice};
use swath::{
    ArraySource, Compress, DType, Dataset, Device, Error, FallbackPolicy, Image, ImageSource, Layout, ReadRequest,
    Result, WriteConfig, WriteOptions, WritePlan,
};
use swath_codec::SampleFormat;
use swath_codec::jpeg::EncodeColour;
use swath_codec::jpeg2000::Quality;
use swath_codec::predictor::Predictor;

use crate::files::{Cut, Dice, File, open, texture};

/// Longer than any of these operations takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const WIDTH: u64 = 100;
const HEIGHT: u64 = 80;

/// An operation on a device, with its expected result.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) name: &'static str,
    work: Work,
    /// Whether it uses an image codec (JPEG, JPEG 2000), whose compressed bytes always go through the host.
    pictures: bool,
    /// The pixels of every level, computed by the CPU.
    expected: Vec<Vec<u8>>,
}

#[derive(Debug)]
enum Work {
    Read { file: Vec<u8>, budget: u64, to_device: bool },
    Write { plan: Box<WritePlan>, pixels: Vec<u8>, to_file: bool },
    Convert { plan: Box<WritePlan>, file: Vec<u8> },
}

/// The request: how to run the operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choices {
    pub(super) policy: FallbackPolicy,
    pub(super) codec: CodecBackend,
    pub(super) storage: Storage,
}

impl Choices {
    /// Requests NVIDIA's libraries; other ways count as a fallback.
    pub(super) fn of_libraries(policy: FallbackPolicy) -> Choices {
        Choices { policy, codec: CodecBackend::NvComp, storage: Storage::CuFile }
    }
}

/// The result of an operation.
#[derive(Debug)]
pub(super) struct Done {
    levels: Vec<Vec<u8>>,
    pub(super) report: DeviceReport,
}

impl Operation {
    /// Reads a file in several batches.
    fn read(name: &'static str, file: Vec<u8>, pictures: bool, to_device: bool) -> Operation {
        let image = open(file.clone());
        let expected = image.read(&ReadRequest::new()).expect("the CPU reads it").pixels.as_bytes().to_vec();
        let gpu = Gpu::cuda(0).expect("the simulator opens");
        // A little more than the smallest sufficient budget. With the smallest, memory kept from one batch
        // always blocks the next.
        let mut budget = 8_000;
        while image.read(&ReadRequest::new().device(&gpu).gpu_memory_budget(budget)).is_err() {
            budget = budget * 3 / 2;
        }
        budget *= 3;
        let is_one_batch = |budget| {
            let read = image.read(&ReadRequest::new().device(&gpu).gpu_memory_budget(budget));
            read.expect("there is room").report.batches == 1
        };
        while is_one_batch(budget) {
            budget = budget * 4 / 5;
        }
        Operation { name, work: Work::Read { file, budget, to_device }, pictures, expected: vec![expected] }
    }

    /// Writes a COG in several strips.
    fn write(name: &'static str, compress: Compress, pixels: Vec<u8>, to_file: bool) -> Operation {
        Operation::write_as(name, cog(compress), pixels, to_file)
    }

    fn write_as(name: &'static str, plan: WritePlan, pixels: Vec<u8>, to_file: bool) -> Operation {
        let pictures = matches!(plan.compression(), Compress::Jpeg2000(_) | Compress::Jpeg { .. });
        let (bytes, _) = plan.to_bytes(&mut array(&plan, &pixels), &WriteConfig::default()).expect("the CPU writes it");
        let expected = levels(&plan, Dataset::from_bytes(bytes).expect("a file"));
        Operation { name, work: Work::Write { plan: Box::new(plan), pixels, to_file }, pictures, expected }
    }

    fn convert(name: &'static str, file: File, compress: Compress) -> Operation {
        let (plan, file) = (cog(compress), file.build());
        let image = Dataset::from_bytes(file.clone()).and_then(|dataset| dataset.image(0)).expect("a file");
        let mut source = ImageSource::new(&image, ReadRequest::new()).expect("an image");
        let (bytes, _) = plan.to_bytes(&mut source, &WriteConfig::default()).expect("the CPU writes it");
        let expected = levels(&plan, Dataset::from_bytes(bytes).expect("a file"));
        Operation { name, work: Work::Convert { plan: Box::new(plan), file }, pictures: false, expected }
    }

    /// Whether the operation compresses.
    pub(super) fn writes(&self) -> bool {
        !matches!(self.work, Work::Read { .. })
    }

    /// Whether compressed bytes go directly between the file and the device.
    pub(super) fn uses_cufile(&self) -> bool {
        !self.pictures && !matches!(self.work, Work::Write { to_file: false, .. })
    }

    /// Runs the operation in its own thread, which must end.
    pub(super) fn run(self: &Arc<Operation>, gpu: &Gpu, choices: Choices) -> Result<Done> {
        let (done_to, done) = channel();
        let (operation, gpu) = (Arc::clone(self), gpu.clone());
        let worker = std::thread::spawn(move || {
            let done = operation.work(&gpu, choices);
            // Everything is dropped before the result is sent.
            drop((operation, gpu));
            let _ = done_to.send(done);
        });
        match done.recv_timeout(PATIENCE) {
            Ok(done) => {
                worker.join().expect("it has ended");
                done
            }
            Err(RecvTimeoutError::Timeout) => panic!("{}: it hangs", self.name),
            Err(RecvTimeoutError::Disconnected) => panic!("{}: it panicked: {:?}", self.name, worker.join().err()),
        }
    }

    fn work(&self, gpu: &Gpu, mut choices: Choices) -> Result<Done> {
        if !self.uses_cufile() {
            choices.storage = Storage::Auto;
        }
        let request =
            ReadRequest::new().device(gpu).fallback(choices.policy).decoder(choices.codec).storage(choices.storage);
        let config = WriteConfig::new()
            .threads(1)
            .buffer_bytes(1)
            .device(Device::Gpu(gpu.clone()))
            .fallback(choices.policy)
            .encoder(choices.codec)
            .storage(choices.storage);
        match &self.work {
            Work::Read { file, budget, to_device } => {
                let (image, request) = (open(file.clone()), request.gpu_memory_budget(*budget));
                let (pixels, report) = match to_device {
                    false => {
                        let raster = image.read(&request)?;
                        (raster.pixels.as_bytes().to_vec(), raster.report)
                    }
                    true => {
                        let (raster, report) = image.read_to_device(&request, gpu)?;
                        let mut pixels = vec![0; raster.bytes() as usize];
                        raster.download(&mut pixels)?;
                        (pixels, report)
                    }
                };
                Ok(Done { levels: vec![pixels], report: report.gpu.expect("the request names a device") })
            }
            Work::Write { plan, pixels, to_file: false } => {
                let (bytes, report) = plan.to_bytes(&mut array(plan, pixels), &config)?;
                let levels = levels(plan, Dataset::from_bytes(bytes)?);
                Ok(Done { levels, report: report.gpu.expect("the request names a device") })
            }
            Work::Write { plan, pixels, to_file: true } => {
                self.to_file(plan, |path| plan.write_file(path, &mut array(plan, pixels), &config))
            }
            Work::Convert { plan, file } => {
                let image: Image = open(file.clone());
                let mut source = ImageSource::new(&image, request)?;
                self.to_file(plan, |path| plan.write_file(path, &mut source, &config))
            }
        }
    }

    /// Writes a file in an empty folder. If that fails, the folder must stay empty.
    fn to_file(&self, plan: &WritePlan, write: impl FnOnce(&PathBuf) -> Result<swath::WriteReport>) -> Result<Done> {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("faults-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("written.tif");
        let written = write(&path);
        let left: Vec<_> = fs::read_dir(&folder).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
        let expected: &[&str] = if written.is_ok() { &["written.tif"] } else { &[] };
        assert_eq!(left, expected, "{}: what is left in the folder", self.name);
        let done = written.and_then(|report| {
            let levels = levels(plan, Dataset::open(&path)?);
            Ok(Done { levels, report: report.gpu.expect("the request names a device") })
        });
        let _ = fs::remove_dir_all(&folder);
        done
    }

    /// Checks that all levels equal the CPU's.
    pub(super) fn check(&self, what: &str, done: &Done) {
        assert_eq!(done.levels.len(), self.expected.len(), "{what}: levels");
        for (level, (expected, found)) in self.expected.iter().zip(&done.levels).enumerate() {
            crate::subject::same_pixels(&format!("{what}, level {level}"), expected, found);
        }
    }
}

/// Reads the pixels of every level on the CPU.
fn levels(plan: &WritePlan, dataset: Dataset) -> Vec<Vec<u8>> {
    let image = dataset.image(0).expect("an image");
    let read = |level| image.read(&ReadRequest::new().level(level)).expect("what was written can be read");
    (0..plan.levels().len()).map(|level| read(level).pixels.as_bytes().to_vec()).collect()
}

fn cog(compress: Compress) -> WritePlan {
    let mut options = WriteOptions::new()
        .cog()
        .blocks(BlockSize::Tiles { width: 32, height: 16 })
        .overviews(Overviews::Factors(vec![2, 4]))
        .predictor(PredictorChoice::Always(match compress.takes_predictor() {
            true => Predictor::Horizontal,
            false => Predictor::None,
        }));
    let dtype = if matches!(compress, Compress::Jpeg { .. }) { DType::U8 } else { DType::U16 };
    // Tiles that consist entirely of noise, without padding, grow when they are compressed.
    let width = if compress == Compress::Lz4 { WIDTH / 32 * 32 } else { WIDTH };
    options = options.compression(compress);
    WritePlan::new(ImageShape::new(HEIGHT, width, 1, dtype), options).expect("a plan")
}

/// A plan with tiles of 72 KiB, of which the first is decoded again as a check.
fn large_tiles() -> WritePlan {
    let options = WriteOptions::new()
        .cog()
        .blocks(BlockSize::Tiles { width: 192, height: 192 })
        .overviews(Overviews::Factors(vec![2]))
        .compression(Compress::Deflate { level: 6 });
    WritePlan::new(ImageShape::new(500, 192, 1, DType::U16), options).expect("a plan")
}

fn array<'a>(plan: &WritePlan, pixels: &'a [u8]) -> ArraySource<'a> {
    let (height, width, dtype) = (plan.height(), plan.width(), plan.dtype());
    let bytes = (width * height) as usize * dtype.size();
    ArraySource::from_bytes(&pixels[..bytes], dtype, 1, height, width, Layout::BandsFirst).expect("an array")
}

/// Returns the block of an LZ4 frame as a frame without checksum: the CPU's frames have one, which the device
/// does not check.
fn bare(frame: &[u8]) -> Vec<u8> {
    const STORED: u32 = 1 << 31;
    let (header, rest) = frame.split_at(7);
    let (size, data) = rest.split_at(4);
    let size = u32::from_le_bytes(size.try_into().expect("four bytes"));
    let data = &data[..(size & !STORED) as usize];
    assert_eq!(header[..4], [4, 34, 77, 24], "a frame of LZ4");
    if size & STORED == 0 {
        return data.to_vec();
    }
    // One run of literals.
    let more = data.len() - 15;
    let mut block = vec![0xf0];
    block.extend(std::iter::repeat_n(255, more / 255));
    block.push((more % 255) as u8);
    block.extend(data);
    block
}

/// Pixels that compress well.
fn ramps() -> Vec<u8> {
    texture(5, (WIDTH * HEIGHT * 2) as usize)
}

/// Pixels that grow when they are compressed.
fn noise() -> Vec<u8> {
    let mut dice = Dice::new(9);
    (0..WIDTH * HEIGHT * 2).map(|_| dice.below(256) as u8).collect()
}

fn file(compression: Compression, predictor: Predictor) -> File {
    let (width, height) = (WIDTH as usize, HEIGHT as usize);
    let (format, bits) = match predictor {
        Predictor::FloatingPoint => (SampleFormat::Float, 32),
        _ => (SampleFormat::Uint, 16),
    };
    File { width, height, compression, predictor, format, bits, cut: Cut::Tiles(32, 16), ..File::default() }
}

/// Builds the file, with LZ4 in frames without checksum.
fn build(file: &File) -> Vec<u8> {
    file.build_with(|_, block| {
        if file.compression == Compression::LZ4 {
            *block = bare(block);
        }
    })
}

/// A file that the CPU writes.
fn written(compress: Compress) -> Vec<u8> {
    let (plan, pixels) = (cog(compress), ramps());
    plan.to_bytes(&mut array(&plan, &pixels), &WriteConfig::default()).expect("the CPU writes it").0
}

const JPEG_2000: Compress = Compress::Jpeg2000(Quality::Lossless);
const JPEG: Compress = Compress::Jpeg { quality: 85, colour: EncodeColour::Stored };

/// Reads with every decoder, to the host and to the device.
pub(super) fn reads() -> Vec<Arc<Operation>> {
    let read = |name, compression, predictor, to_device| {
        Operation::read(name, build(&file(compression, predictor)), false, to_device)
    };
    let (none, differences, floats) = (Predictor::None, Predictor::Horizontal, Predictor::FloatingPoint);
    let operations = [
        read("Deflate to the host", Compression::DEFLATE, differences, false),
        read("Deflate to a raster", Compression::DEFLATE, differences, true),
        read("ZSTD to the host", Compression::ZSTD, floats, false),
        read("ZSTD to a raster", Compression::ZSTD, floats, true),
        read("LZ4 to the host", Compression::LZ4, none, false),
        read("LZ4 to a raster", Compression::LZ4, none, true),
        read("LZW to a raster", Compression::LZW, none, true),
        read("no codec to the host", Compression::NONE, none, false),
        read("no codec to a raster", Compression::NONE, none, true),
        Operation::read("JPEG 2000 to the host", written(JPEG_2000), true, false),
        Operation::read("JPEG 2000 to a raster", written(JPEG_2000), true, true),
        Operation::read("JPEG to the host", written(JPEG), true, false),
    ];
    operations.into_iter().map(Arc::new).collect()
}

/// Writes with every encoder, to a file and to memory, and a conversion.
pub(super) fn writes() -> Vec<Arc<Operation>> {
    let (deflate, zstd, lz4) = (Compress::Deflate { level: 6 }, Compress::Zstd { level: 3 }, Compress::Lz4);
    let operations = [
        Operation::write("writing Deflate to a file", deflate, ramps(), true),
        Operation::write("writing ZSTD to a file", zstd, ramps(), true),
        Operation::write("writing LZ4 to a file", lz4, noise(), true),
        Operation::write("writing Deflate to memory", deflate, ramps(), false),
        Operation::write_as("writing large tiles of Deflate to a file", large_tiles(), texture(5, 192 * 500 * 2), true),
        Operation::write("writing ZSTD to memory", zstd, ramps(), false),
        Operation::write("writing LZ4 to memory", lz4, noise(), false),
        Operation::write("writing JPEG 2000 to a file", JPEG_2000, ramps(), true),
        Operation::write("writing JPEG to a file", JPEG, ramps(), true),
        Operation::convert("converting Deflate to ZSTD", file(Compression::DEFLATE, Predictor::Horizontal), zstd),
    ];
    operations.into_iter().map(Arc::new).collect()
}

/// Checks that an error has a type that a caller can distinguish, and that its message is a sentence.
pub(super) fn is_typed(what: &str, error: &Error) {
    assert!(matches!(error, Error::Device(_) | Error::Fallback { .. }), "{what}: {error:?}");
    let text = error.to_string();
    assert!(text.contains(' ') && text.len() < 1000 && !text.contains('\n'), "{what}: {text}");
}
