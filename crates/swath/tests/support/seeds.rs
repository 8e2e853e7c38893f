//! Small files of every kind, made here: codecs, blocks, sample types, byte orders, overviews, masks, georeferencing.

use swath::codec::{deflate, lz4, lzw, packbits, zstd};
use swath::tiff::{Builder, ByteOrder, Compression, Tag, Value};

const W: usize = 37;
const H: usize = 29;

/// What a file is made of.
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
        Compression::ZSTD => zstd::Encoder::new(3).unwrap().encode(block, &mut out),
        Compression::LZ4 => lz4::encode(block, &mut out),
        _ => out.extend(block),
    }
    out
}

/// Blocks of a level and the directory that describes them.
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
            // Chroma of 2 x 2 pixels is stored once.
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

/// A file with all that a GeoTIFF can have beside its pixels; with an overview and a mask if it is tiled.
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

/// Files of one block in a codec that has no encoder here: the streams that the codecs' own tests decode, of 16 x 12 pixels.
fn pictures() -> Vec<(String, Vec<u8>)> {
    let files: [(&str, &[u8], u16, usize, u16, u16); 8] = [
        ("j2k-rgb", include_bytes!("../../../swath-codec/testdata/rgb8.j2k"), 34712, 3, 8, 1),
        ("j2k-int16", include_bytes!("../../../swath-codec/testdata/int16.jp2"), 34712, 1, 16, 2),
        ("j2k-ycc", include_bytes!("../../../swath-codec/testdata/ycc8.j2k"), 33003, 3, 8, 1),
        ("lerc-mask", include_bytes!("../../../swath-codec/testdata/lerc-f32-mask.bin"), 34887, 1, 32, 3),
        ("lerc-bands", include_bytes!("../../../swath-codec/testdata/lerc-f32-band-masks.bin"), 34887, 3, 32, 3),
        ("lerc-alpha", include_bytes!("../../../swath-codec/testdata/lerc-u8-alpha.bin"), 34887, 4, 8, 1),
        ("lerc-f64", include_bytes!("../../../swath-codec/testdata/lerc-v6-f64.bin"), 34887, 1, 64, 3),
        ("lerc-deflate", include_bytes!("../../../swath-codec/testdata/lerc-deflate-u16.bin"), 34887, 1, 16, 1),
    ];
    let build = |(name, stream, compression, samples, bits, format): (&str, &[u8], u16, usize, u16, u16)| {
        let mut builder = Builder::new(ByteOrder::Little, false);
        let span = builder.append(stream);
        builder.ifd(&[
            (Tag::IMAGE_WIDTH, Value::Short(vec![16])),
            (Tag::IMAGE_LENGTH, Value::Short(vec![12])),
            (Tag::BITS_PER_SAMPLE, Value::Short(vec![bits; samples])),
            (Tag::COMPRESSION, Value::Short(vec![compression])),
            (Tag::PHOTOMETRIC, Value::Short(vec![if samples == 3 { 2 } else { 1 }])),
            (Tag::SAMPLES_PER_PIXEL, Value::Short(vec![samples as u16])),
            (Tag::SAMPLE_FORMAT, Value::Short(vec![format; samples])),
            (Tag::STRIP_OFFSETS, Value::offsets(&[span.offset])),
            (Tag::STRIP_BYTE_COUNTS, Value::offsets(&[span.len])),
            (Tag::LERC_PARAMETERS, Value::Long(vec![4, u32::from(name == "lerc-deflate")])),
        ]);
        (name.to_owned(), builder.finish())
    };
    files.into_iter().map(build).collect()
}
