//! `swath demo`: the whole story in a few seconds, with files to look at afterwards.

use std::f64::consts::TAU;
use std::path::{Path, PathBuf};
use std::time::Instant;

use swath::codec::predictor::{self, Predictor};
use swath::codec::{SampleFormat, Shape, deflate, lzw, zstd};
use swath::tiff::{Builder, ByteOrder, Compression, Tag, Value};
use swath::{Dataset, ReadRequest};

use crate::command::{Arguments, Command, Failure, Flag};
use crate::{npy, picture, read::write_file};

const TILE: usize = 256;

pub(crate) const COMMAND: Command = Command {
    name: "demo",
    operands: &[],
    summary: "Make a raster, write it, read it back, and tell how fast that was",
    details: "Makes synthetic terrain, writes it as tiled GeoTIFF with several codecs, reads each file back and compares, and\n\
              leaves the files, a picture and an array to look at.\n",
    flags: &[
        Flag { name: "--dir", value: Some("DIR"), help: "Where the files go. Default: demo." },
        Flag { name: "--size", value: Some("N"), help: "Rows and columns of the raster. Default: 2048." },
    ],
    run,
};

/// How one file of the demo is compressed.
struct Recipe {
    name: &'static str,
    compression: Compression,
    predictor: Predictor,
}

const RECIPES: &[Recipe] = &[
    Recipe { name: "none", compression: Compression::NONE, predictor: Predictor::None },
    Recipe { name: "lzw", compression: Compression::LZW, predictor: Predictor::FloatingPoint },
    Recipe { name: "deflate", compression: Compression::DEFLATE, predictor: Predictor::FloatingPoint },
    Recipe { name: "zstd", compression: Compression::ZSTD, predictor: Predictor::FloatingPoint },
];

fn run(arguments: &Arguments<'_>) -> Result<(), Failure> {
    let dir = PathBuf::from(arguments.text("--dir").unwrap_or("demo"));
    let size = arguments.number::<usize>("--size")?.unwrap_or(2048).clamp(1, 16384);
    std::fs::create_dir_all(&dir).map_err(|error| Failure::file("create", &dir.display().to_string(), error))?;

    println!("Swath {}: synthetic terrain, {size} x {size} float32, {TILE} x {TILE} tiles", env!("CARGO_PKG_VERSION"));
    let terrain = terrain(size);
    let megabytes = (terrain.len() * 4) as f64 / 1e6;
    println!("{:10}{:>12}{:>16}{:>16}", "codec", "file MB", "write MB/s", "read MB/s");
    for recipe in RECIPES {
        let path = dir.join(format!("terrain_{}.tif", recipe.name));
        let start = Instant::now();
        let bytes = geotiff(&terrain, size, recipe)?;
        std::fs::write(&path, &bytes).map_err(|error| Failure::file("write", &path.display().to_string(), error))?;
        let written = start.elapsed().as_secs_f64();

        let mut read = f64::INFINITY;
        for _ in 0..3 {
            let start = Instant::now();
            let raster = Dataset::open(&path)?.image(0)?.read(&ReadRequest::new())?;
            read = read.min(start.elapsed().as_secs_f64());
            if raster.pixels.as_slice::<f32>() != Some(terrain.as_slice()) {
                return Err(Failure::Failed(format!("{} did not come back as it was written", path.display())));
            }
        }
        let file = bytes.len() as f64 / 1e6;
        println!("{:10}{file:>12.2}{:>16.0}{:>16.0}", recipe.name, megabytes / written, megabytes / read);
    }
    leave_files(&dir, size)
}

/// A picture and an array of the last file, and what to try next.
fn leave_files(dir: &Path, size: usize) -> Result<(), Failure> {
    let tif = dir.join("terrain_zstd.tif");
    let (png, array) = (dir.join("terrain.png"), dir.join("window.npy"));
    let image = Dataset::open(&tif)?.image(0)?;
    picture::write(&png.display().to_string(), &image, ReadRequest::new())?;
    let side = (size as u64).min(256);
    let raster = image.read(&ReadRequest::new().window(0..side, 0..side))?;
    write_file(&array.display().to_string(), |out| npy::write(out, &raster.pixels, &raster.shape))?;
    println!("\nAll four files came back bit for bit. Look at {} and {}, or try:", png.display(), array.display());
    println!("  swath info {}", tif.display());
    println!("  swath read {} chip.npy --window 0,0,{side},{side} --stats", tif.display());
    Ok(())
}

/// Hills of several sizes, rounded to millimetres as elevation models are, with a corner of nodata.
fn terrain(size: usize) -> Vec<f32> {
    let waves = [
        (900.0, 1.0, 0.3, 0.0),
        (250.0, 3.1, -2.3, 1.0),
        (60.0, 9.7, 11.3, 2.0),
        (9.0, 37.0, 29.0, 4.0),
        (1.5, 131.0, 149.0, 0.5),
    ];
    let mut heights = Vec::with_capacity(size * size);
    for row in 0..size {
        for col in 0..size {
            let (x, y) = (col as f64 / size as f64, row as f64 / size as f64);
            let height: f64 = waves.iter().map(|(a, fx, fy, phase)| a * (TAU * (fx * x + fy * y) + phase).sin()).sum();
            let missing = x + y < 0.1;
            heights.push(if missing { -9999.0 } else { ((height + 1500.0) * 1e3).round() as f32 / 1e3 });
        }
    }
    heights
}

/// The bytes of a tiled GeoTIFF.
fn geotiff(pixels: &[f32], size: usize, recipe: &Recipe) -> Result<Vec<u8>, Failure> {
    let shape = Shape { width: TILE, height: TILE, samples: 1, bits: 32, format: SampleFormat::Float };
    let mut builder = Builder::new(ByteOrder::Little, false);
    let (mut offsets, mut counts) = (Vec::new(), Vec::new());
    let (mut tile, mut scratch) = (vec![0; shape.len()], Vec::new());
    for tile_row in (0..size).step_by(TILE) {
        for tile_col in (0..size).step_by(TILE) {
            tile.fill(0);
            for (at, row) in (tile_row..size.min(tile_row + TILE)).enumerate() {
                let cells = &pixels[row * size + tile_col..row * size + size.min(tile_col + TILE)];
                let out = &mut tile[at * TILE * 4..(at + 1) * TILE * 4];
                out.chunks_exact_mut(4).zip(cells).for_each(|(out, cell)| out.copy_from_slice(&cell.to_ne_bytes()));
            }
            let failed = |error: swath::codec::Error| Failure::Failed(error.to_string());
            predictor::apply(recipe.predictor, shape, false, &mut tile, &mut scratch).map_err(failed)?;
            let mut data = Vec::new();
            match recipe.compression {
                Compression::LZW => lzw::encode(&tile, &mut data),
                Compression::DEFLATE => deflate::Encoder::new(6).map_err(failed)?.encode(&tile, &mut data),
                Compression::ZSTD => zstd::Encoder::new(9).map_err(failed)?.encode(&tile, &mut data),
                _ => data.extend_from_slice(&tile),
            }
            let span = builder.append(&data);
            offsets.push(span.offset);
            counts.push(span.len);
        }
    }
    builder.ifd(&[
        (Tag::IMAGE_WIDTH, Value::Long(vec![size as u32])),
        (Tag::IMAGE_LENGTH, Value::Long(vec![size as u32])),
        (Tag::BITS_PER_SAMPLE, Value::Short(vec![32])),
        (Tag::COMPRESSION, Value::Short(vec![recipe.compression.0])),
        (Tag::PHOTOMETRIC, Value::Short(vec![1])),
        (Tag::SAMPLES_PER_PIXEL, Value::Short(vec![1])),
        (Tag::PREDICTOR, Value::Short(vec![recipe.predictor.tag()])),
        (Tag::TILE_WIDTH, Value::Short(vec![TILE as u16])),
        (Tag::TILE_LENGTH, Value::Short(vec![TILE as u16])),
        (Tag::TILE_OFFSETS, Value::offsets(&offsets)),
        (Tag::TILE_BYTE_COUNTS, Value::offsets(&counts)),
        (Tag::SAMPLE_FORMAT, Value::Short(vec![3])),
        (Tag::MODEL_PIXEL_SCALE, Value::Double(vec![30.0, 30.0, 0.0])),
        (Tag::MODEL_TIEPOINT, Value::Double(vec![0.0, 0.0, 0.0, 500_000.0, 5_200_000.0, 0.0])),
        // Projected, PixelIsArea, WGS 84 / UTM zone 33N.
        (Tag::GEO_KEY_DIRECTORY, Value::Short(vec![1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32633])),
        (Tag::GDAL_NODATA, Value::Text("-9999".into())),
    ]);
    Ok(builder.finish())
}
