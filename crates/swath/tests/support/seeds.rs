//! Small generated files of every kind: codecs, blocks, sample types, byte orders, overviews, masks,
//! georeferencing.

use swath::tiff::{Builder, ByteOrder, Compression, Tag, Value};
use swath_codec::{deflate, lz4, lzw, packbits, zstd};

/// The size of the generated images, odd on purpose.
const W: usize = 37;
const H: usize = 29;

/// The properties of a file.
#[derive(Clone, Copy)]
struct Recipe {
    compression: Compression,
    order: ByteOrder,
    big: bool,
    /// Tiles of this size, else strips of this many rows.
    tile: Option<usize>,
    rows: usize,
    planar: bool,
    samples: usize,
    bits: u16,
    format: u16,
    predictor: u16,
    photometric: u16,
}

const GRAY: Recipe = Recipe {
    compression: Compression::NONE,
    order: ByteOrder::Little,
    big: false,
    tile: None,
    rows: 8,
    planar: false,
    samples: 1,
    bits: 8,
    format: 1,
    predictor: 1,
    photometric: 1,
};

/// All files with their names.
pub(crate) fn all() -> Vec<(String, Vec<u8>)> {
    let codecs = [
        Compression::NONE,
        Compression::LZW,
        Compression::DEFLATE,
        Compression::PACKBITS,
        Compression::ZSTD,
        Compression::LZ4,
    ];
    let mut files = Vec::new();
    for (i, &compression) in codecs.iter().enumerate() {
        let recipe = Recipe { compression, ..GRAY };
        let order = if i % 2 == 0 { ByteOrder::Big } else { ByteOrder::Little };
        let rgb = Recipe { samples: 3, photometric: 2, ..recipe };
        for (kind, recipe) in [
            ("strips", recipe),
            ("tiles16", Recipe { tile: Some(16), bits: 16, predictor: 2, order, ..recipe }),
            ("rgb", Recipe { tile: Some(32), predictor: 2, big: i % 2 == 1, ..rgb }),
            ("planar", Recipe { planar: true, rows: 10, order, ..rgb }),
            ("float", Recipe { tile: Some(16), bits: 32, format: 3, predictor: 3, order, ..recipe }),
            ("bilevel", Recipe { bits: 1, rows: H, photometric: 0, ..recipe }),
        ] {
            files.push((format!("{kind}-{}", compression.0), file(recipe)));
        }
    }
    let complex = Recipe { bits: 64, format: 6, order: ByteOrder::Big, ..GRAY };
    files.push(("complex".into(), file(complex)));
    files.push(("cmyk".into(), file(Recipe { samples: 4, photometric: 5, ..GRAY })));
    files.push(("lab".into(), file(Recipe { samples: 3, photometric: 8, tile: Some(16), ..GRAY })));
    files.push(("twelve-bit".into(), file(Recipe { bits: 12, samples: 2, ..GRAY })));
    files.push(("palette".into(), file(Recipe { bits: 4, photometric: 3, ..GRAY })));
    files.push(("ycbcr".into(), file(Recipe { samples: 3, photometric: 6, rows: H, ..GRAY })));
    files.extend(pictures());
    files
}

/// Samples that compress neither perfectly nor badly.
fn pixels(len: usize) -> Vec<u8> {
    (0..len).map(|i| ((i / 7) ^ (i * i / 300)) as u8 & 0x3F).collect()
}

fn encode(recipe: Recipe, row_bytes: usize, block: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match recipe.compression {
        Compression::LZW => lzw::encode(block, &mut out),
        Compression::DEFLATE => deflate::Encoder::new(6).unwrap().encode(block, &mut out),
        Compression::PACKBITS => packbits::encode(block, row_bytes, &mut out),
        Compression::ZSTD => zstd::Encoder::new(3).unwrap().encode(block, &mut out).unwrap(),
        Compression::LZ4 => lz4::encode(block, &mut out),
        _ => out.extend(block),
    }
    out
}

/// Appends the blocks of a level and returns the directory that describes them.
fn level(builder: &mut Builder, recipe: Recipe, width: usize, height: usize) -> Vec<(Tag, Value)> {
    let (block_width, block_height) = match recipe.tile {
        Some(side) => (side, side),
        None => (width, recipe.rows.min(height)),
    };
    let (planes, block_samples) = if recipe.planar { (recipe.samples, 1) } else { (1, recipe.samples) };
    let row_bytes = (block_width * block_samples * usize::from(recipe.bits)).div_ceil(8);
    let (mut offsets, mut counts) = (Vec::new(), Vec::new());
    for _ in 0..planes {
        for down in 0..height.div_ceil(block_height) {
            let tail = recipe.tile.is_none().then(|| height - down * block_height);
            let rows = tail.unwrap_or(block_height).min(block_height);
            // The chroma of 2 x 2 pixels is stored once.
            let len =
                if recipe.photometric == 6 { block_width.div_ceil(2) * rows.div_ceil(2) * 6 } else { row_bytes * rows };
            let block = encode(recipe, row_bytes, &pixels(len));
            for _ in 0..width.div_ceil(block_width) {
                let span = builder.append(&block);
                offsets.push(span.offset);
                counts.push(span.len);
            }
        }
    }
    let per_sample = |value: u16| Value::Short(vec![value; recipe.samples]);
    let mut entries = vec![
        (Tag::IMAGE_WIDTH, Value::Short(vec![width as u16])),
        (Tag::IMAGE_LENGTH, Value::Long(vec![height as u32])),
        (Tag::BITS_PER_SAMPLE, per_sample(recipe.bits)),
        (Tag::COMPRESSION, Value::Short(vec![recipe.compression.0])),
        (Tag::PHOTOMETRIC, Value::Short(vec![recipe.photometric])),
        (Tag::SAMPLES_PER_PIXEL, Value::Short(vec![recipe.samples as u16])),
        (Tag::PLANAR_CONFIGURATION, Value::Short(vec![if recipe.planar { 2 } else { 1 }])),
        (Tag::PREDICTOR, Value::Short(vec![recipe.predictor])),
        (Tag::SAMPLE_FORMAT, per_sample(recipe.format)),
    ];
    entries.extend(match recipe.tile {
        Some(side) => vec![
            (Tag::TILE_WIDTH, Value::Short(vec![side as u16])),
            (Tag::TILE_LENGTH, Value::Short(vec![side as u16])),
            (Tag::TILE_OFFSETS, Value::offsets(&offsets)),
            (Tag::TILE_BYTE_COUNTS, Value::offsets(&counts)),
        ],
        None => vec![
            (Tag::ROWS_PER_STRIP, Value::Short(vec![recipe.rows as u16])),
            (Tag::STRIP_OFFSETS, Value::offsets(&offsets)),
            (Tag::STRIP_BYTE_COUNTS, Value::offsets(&counts)),
        ],
    });
    if recipe.photometric == 3 {
        entries.push((Tag::COLOR_MAP, Value::Short((0..3 << recipe.bits).map(|i| i * 1000).collect())));
    }
    entries
}

/// Builds a file with all metadata that a GeoTIFF can have; with an overview and a mask if it is tiled.
fn file(recipe: Recipe) -> Vec<u8> {
    let mut builder = Builder::new(recipe.order, recipe.big);
    let mut full = level(&mut builder, recipe, W, H);
    let keys = [1, 1, 0, 5, 1024, 0, 1, 1, 1025, 0, 1, 1, 1026, 34737, 8, 0, 3072, 0, 1, 32631, 3076, 0, 1, 9001];
    full.extend([
        (Tag::MODEL_PIXEL_SCALE, Value::Double(vec![10.0, 10.0, 0.0])),
        (Tag::MODEL_TIEPOINT, Value::Double(vec![0.0, 0.0, 0.0, 500_000.0, 4_600_000.0, 0.0])),
        (Tag::GEO_KEY_DIRECTORY, Value::Short(keys.to_vec())),
        (Tag::GEO_ASCII_PARAMS, Value::Text("A place|".into())),
    ]);
    if recipe.planar {
        let xml = "<GDALMetadata><Item name=\"AREA\">sea &amp; land</Item>\
                   <Item name=\"SCALE\" sample=\"0\" role=\"scale\">0.5</Item></GDALMetadata>";
        full.push((Tag::GDAL_METADATA, Value::Text(xml.into())));
    } else if recipe.photometric == 1 {
        full.push((Tag::GDAL_NODATA, Value::Text("7".into())));
    }
    builder.ifd(&full);
    if recipe.tile.is_some() {
        let mut half = level(&mut builder, recipe, W.div_ceil(2), H.div_ceil(2));
        half.push((Tag::NEW_SUBFILE_TYPE, Value::Long(vec![1])));
        builder.ifd(&half);
        let mask = Recipe { bits: 1, samples: 1, planar: false, format: 1, predictor: 1, photometric: 4, ..recipe };
        let mut mask = level(&mut builder, mask, W, H);
        mask.push((Tag::NEW_SUBFILE_TYPE, Value::Long(vec![4])));
        builder.ifd(&mask);
    }
    builder.finish()
}

/// A stream from the tests of the codecs, and its contents.
struct Picture {
    name: &'static str,
    stream: &'static [u8],
    compression: u16,
    size: (u16, u16),
    samples: usize,
    bits: u16,
    format: u16,
    photometric: u16,
}

/// Files of one block with codecs that have no encoder here.
fn pictures() -> Vec<(String, Vec<u8>)> {
    macro_rules! pictures {
        ($($file:literal: $compression:literal, $size:expr, $samples:literal x $bits:literal, $format:literal, $photometric:literal;)*) => {
            [$(Picture {
                name: $file,
                stream: include_bytes!(concat!("../../../swath-codec/testdata/", $file)),
                compression: $compression,
                size: $size,
                samples: $samples,
                bits: $bits,
                format: $format,
                photometric: $photometric,
            }),*]
        };
    }
    let pictures = pictures! {
        "rgb8.j2k": 34712, (16, 12), 3 x 8, 1, 2;
        "int16.jp2": 34712, (16, 12), 1 x 16, 2, 1;
        "gray12.j2k": 34712, (16, 12), 1 x 16, 1, 1;
        "ycc8.j2k": 33003, (16, 12), 3 x 8, 1, 2;
        "lerc-f32-mask.bin": 34887, (16, 12), 1 x 32, 3, 1;
        "lerc-f32-band-masks.bin": 34887, (16, 12), 3 x 32, 3, 2;
        "lerc-u8-alpha.bin": 34887, (16, 12), 4 x 8, 1, 1;
        "lerc-v6-f64.bin": 34887, (16, 12), 1 x 64, 3, 1;
        "lerc-deflate-u16.bin": 34887, (16, 12), 1 x 16, 1, 1;
        "lerc-zstd-i16.bin": 34887, (16, 12), 1 x 16, 2, 1;
        "jpeg-420.jpg": 7, (45, 19), 3 x 8, 1, 6;
        "jpeg-422-progressive.jpg": 7, (37, 27), 3 x 8, 1, 6;
        "jpeg-cmyk.jpg": 7, (32, 16), 4 x 8, 1, 5;
        "jpeg-12bit.jpg": 7, (32, 32), 1 x 12, 1, 1;
        "jpeg-lossless.jpg": 7, (30, 20), 1 x 16, 1, 1;
        "webp-lossy.webp": 50001, (37, 27), 3 x 8, 1, 2;
        "webp-lossless-alpha.webp": 50001, (21, 19), 4 x 8, 1, 2;
        "jxl-u16.jxl": 50002, (20, 24), 3 x 16, 1, 2;
        "jxl-rgba.jxl": 50002, (24, 20), 4 x 8, 1, 2;
        "jxl-f32.jxl": 50002, (24, 20), 1 x 32, 3, 1;
        "jxl-f16.jxl": 52546, (24, 20), 1 x 16, 3, 1;
        "jxl-lossy.jxl": 50002, (37, 27), 3 x 8, 1, 2;
    };
    pictures.iter().map(|picture| (picture.name.to_owned(), picture.file())).collect()
}

impl Picture {
    fn file(&self) -> Vec<u8> {
        let mut builder = Builder::new(ByteOrder::Little, false);
        let span = builder.append(self.stream);
        let wrapper = [("lerc-deflate", 1), ("lerc-zstd", 2)].into_iter().find(|(name, _)| self.name.starts_with(name));
        builder.ifd(&[
            (Tag::IMAGE_WIDTH, Value::Short(vec![self.size.0])),
            (Tag::IMAGE_LENGTH, Value::Short(vec![self.size.1])),
            (Tag::BITS_PER_SAMPLE, Value::Short(vec![self.bits; self.samples])),
            (Tag::COMPRESSION, Value::Short(vec![self.compression])),
            (Tag::PHOTOMETRIC, Value::Short(vec![self.photometric])),
            (Tag::SAMPLES_PER_PIXEL, Value::Short(vec![self.samples as u16])),
            (Tag::SAMPLE_FORMAT, Value::Short(vec![self.format; self.samples])),
            (Tag::STRIP_OFFSETS, Value::offsets(&[span.offset])),
            (Tag::STRIP_BYTE_COUNTS, Value::offsets(&[span.len])),
            (Tag::LERC_PARAMETERS, Value::Long(vec![4, wrapper.map_or(0, |(_, code)| code)])),
        ]);
        builder.finish()
    }
}
