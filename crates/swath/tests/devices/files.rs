//! Small files of every kind: codec, predictor, sample type, layout, byte order, bit order, sparse blocks.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use swath::tiff::{Builder, ByteOrder, Compression, Tag, Value};
use swath::{Dataset, Image};
use swath_codec::predictor::{self, Predictor};
use swath_codec::sample::reverse_bits;
use swath_codec::{SampleFormat, Shape, deflate, jpeg2000, lz4, lzma, lzw, packbits, zstd};

/// How an image is divided into blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Tiles of this width and height.
    Tiles(usize, usize),
    /// Strips of this many rows.
    Strips(usize),
}

/// Blocks that are not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    None,
    /// Some of them; there is no nodata value.
    Some,
    /// Some of them; there is a nodata value.
    SomeWithNodata,
    /// All of them; there is a nodata value.
    AllWithNodata,
}

/// The properties of a test file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct File {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) bands: usize,
    pub(crate) cut: Cut,
    pub(crate) planar: bool,
    pub(crate) compression: Compression,
    pub(crate) predictor: Predictor,
    pub(crate) order: ByteOrder,
    pub(crate) lsb_first: bool,
    pub(crate) format: SampleFormat,
    pub(crate) bits: usize,
    pub(crate) missing: Missing,
}

impl Default for File {
    fn default() -> File {
        File {
            width: 50,
            height: 40,
            bands: 1,
            cut: Cut::Tiles(16, 16),
            planar: false,
            compression: Compression::LZW,
            predictor: Predictor::None,
            order: ByteOrder::Little,
            lsb_first: false,
            format: SampleFormat::Uint,
            bits: 16,
            missing: Missing::None,
        }
    }
}

impl File {
    pub(crate) fn open(&self) -> Image {
        open(self.build())
    }

    /// The bytes of the file.
    pub(crate) fn build(&self) -> Vec<u8> {
        self.build_with(|_, _| {})
    }

    /// Builds the file. `change(number, bytes)` may modify each stored block first.
    pub(crate) fn build_with(&self, change: impl FnMut(usize, &mut Vec<u8>)) -> Vec<u8> {
        let mut builder = Builder::new(self.order, false);
        let tags = self.level(&mut builder, change);
        builder.ifd(&tags);
        builder.finish()
    }

    /// Appends the blocks, each modified first. Returns the tags that describe them.
    pub(crate) fn level(
        &self,
        builder: &mut Builder,
        mut change: impl FnMut(usize, &mut Vec<u8>),
    ) -> Vec<(Tag, Value)> {
        let (mut offsets, mut counts) = (Vec::new(), Vec::new());
        for (number, shape) in self.shapes().into_iter().enumerate() {
            let stored = match self.missing {
                Missing::None => true,
                Missing::Some | Missing::SomeWithNodata => number % 3 != 1,
                Missing::AllWithNodata => false,
            };
            let mut span = Default::default();
            if stored {
                let mut block = self.encode(shape, texture(number as u64, shape.len()));
                change(number, &mut block);
                span = builder.append(&block);
            }
            offsets.push(span.offset);
            counts.push(span.len);
        }
        let format = match self.format {
            SampleFormat::Uint => 1,
            SampleFormat::Int => 2,
            SampleFormat::Float => 3,
            SampleFormat::ComplexInt => 5,
            SampleFormat::ComplexFloat => 6,
        };
        let short = |value: usize| Value::Short(vec![value as u16]);
        let mut tags = vec![
            (Tag::IMAGE_WIDTH, short(self.width)),
            (Tag::IMAGE_LENGTH, short(self.height)),
            (Tag::BITS_PER_SAMPLE, Value::Short(vec![self.bits as u16; self.bands])),
            (Tag::COMPRESSION, short(self.compression.0.into())),
            (Tag::PHOTOMETRIC, short(1)),
            (Tag::FILL_ORDER, short(if self.lsb_first { 2 } else { 1 })),
            (Tag::SAMPLES_PER_PIXEL, short(self.bands)),
            (Tag::PLANAR_CONFIGURATION, short(if self.planar { 2 } else { 1 })),
            (Tag::PREDICTOR, short(self.predictor.tag().into())),
            (Tag::SAMPLE_FORMAT, Value::Short(vec![format; self.bands])),
        ];
        match self.cut {
            Cut::Tiles(width, height) => tags.extend([
                (Tag::TILE_WIDTH, short(width)),
                (Tag::TILE_LENGTH, short(height)),
                (Tag::TILE_OFFSETS, Value::offsets(&offsets)),
                (Tag::TILE_BYTE_COUNTS, Value::offsets(&counts)),
            ]),
            Cut::Strips(rows) => tags.extend([
                (Tag::ROWS_PER_STRIP, short(rows)),
                (Tag::STRIP_OFFSETS, Value::offsets(&offsets)),
                (Tag::STRIP_BYTE_COUNTS, Value::offsets(&counts)),
            ]),
        }
        if matches!(self.missing, Missing::SomeWithNodata | Missing::AllWithNodata) {
            tags.push((Tag::GDAL_NODATA, Value::Text("7".into())));
        }
        tags
    }

    /// The shapes of all blocks, in table order.
    fn shapes(&self) -> Vec<Shape> {
        let (width, height) = match self.cut {
            Cut::Tiles(width, height) => (width, height),
            Cut::Strips(rows) => (self.width, rows),
        };
        let (planes, samples) = if self.planar { (self.bands, 1) } else { (1, self.bands) };
        let mut shapes = Vec::new();
        for _ in 0..planes {
            for top in (0..self.height).step_by(height) {
                let rows = if self.cut == Cut::Strips(height) { height.min(self.height - top) } else { height };
                let shape = Shape { width, height: rows, samples, bits: self.bits, format: self.format };
                shapes.extend(vec![shape; self.width.div_ceil(width)]);
            }
        }
        shapes
    }

    /// Blocks of the file.
    pub(crate) fn blocks(&self) -> usize {
        self.shapes().len()
    }

    /// Decoded bytes of a whole block.
    pub(crate) fn block_bytes(&self) -> usize {
        self.shapes()[0].len()
    }

    /// Applies predictor, compression and bit order to a block of native samples.
    fn encode(&self, shape: Shape, mut block: Vec<u8>) -> Vec<u8> {
        let big = self.order == ByteOrder::Big;
        predictor::apply(self.predictor, shape, big, &mut block, &mut Vec::new())
            .expect("such blocks have a predictor");
        if self.compression == Compression::JPEG_2000 {
            let params = jpeg2000::EncodeParams { quality: jpeg2000::Quality::Lossless, rgb: false };
            let mut stream = Vec::new();
            jpeg2000::encode(&params, &block, shape, &mut stream).expect("such blocks can be encoded");
            return stream;
        }
        let mut stream = compress(self.compression, 6, shape.row_bytes(), &block);
        if self.lsb_first {
            reverse_bits(&mut stream);
        }
        stream
    }
}

/// Whether files are opened on disk, where a device can read them directly, instead of in memory.
pub(crate) static ON_DISK: AtomicBool = AtomicBool::new(false);

pub(crate) fn open(file: Vec<u8>) -> Image {
    let opened = if ON_DISK.load(Ordering::Relaxed) { open_on_disk(&file) } else { Dataset::from_bytes(file) };
    opened.and_then(|dataset| dataset.image(0)).expect("a file that opens")
}

/// Opens a file whose name is removed at once, so that nothing is left behind.
fn open_on_disk(file: &[u8]) -> swath::Result<Dataset> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("device-{}-{number}.tif", std::process::id()));
    fs::write(&path, file).expect("room on the disk");
    let opened = Dataset::open(&path);
    fs::remove_file(&path).expect("it was just made");
    opened
}

pub(crate) fn compress(compression: Compression, level: i32, row_bytes: usize, block: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match compression {
        Compression::NONE => out.extend(block),
        Compression::LZW => lzw::encode(block, &mut out),
        Compression::DEFLATE => deflate::Encoder::new(level).expect("a level").encode(block, &mut out),
        Compression::PACKBITS => packbits::encode(block, row_bytes, &mut out),
        Compression::ZSTD => zstd::Encoder::new(level).expect("a level").encode(block, &mut out).expect("memory"),
        Compression::LZ4 => lz4::encode(block, &mut out),
        Compression::LZMA => lzma::encode(block, 6, &mut out).expect("a preset"),
        other => panic!("no files of {} are made here", other.name()),
    }
    out
}

/// Bytes with runs, ramps, repetitions and noise, different for each seed: data that suits the codecs, and
/// data that does not.
pub(crate) fn texture(seed: u64, len: usize) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        let count = (1 + dice.below(40)).min(len - bytes.len());
        let byte = dice.below(256) as u8;
        match dice.below(4) {
            0 => bytes.resize(bytes.len() + count, byte),
            1 => bytes.extend((0..count).map(|i| byte.wrapping_add(i as u8))),
            2 if !bytes.is_empty() => {
                let back = 1 + dice.below(bytes.len());
                for _ in 0..count {
                    bytes.push(bytes[bytes.len() - back]);
                }
            }
            _ => bytes.extend((0..count).map(|_| dice.below(256) as u8)),
        }
    }
    bytes
}

/// Random numbers, the same on every machine.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        // Consecutive seeds must not give consecutive numbers.
        Dice(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound.max(1)
    }
}
