//! `swath demo`: writes, validates and reads COGs in a few seconds, and leaves the files.

use std::f64::consts::TAU;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use swath::tiff::geo::{GeoKeys, GeoTransform, RasterType};
use swath::tiff::nodata::NoData;
use swath::write::ImageShape;
use swath::{
    ArraySource, Compress, DType, Dataset, Layout, ReadRequest, WriteConfig, WriteOptions, WritePlan, validate,
};

use crate::failure::Failure;
use crate::flags::number;
use crate::{npy, picture, read::write_file};

const CODECS: [&str; 5] = ["none", "lzw", "deflate", "zstd", "lerc"];

/// Write, validate and read COGs of synthetic terrain, and print the speed
///
/// Writes synthetic terrain as COG with several codecs, validates each file, reads it back and compares the pixels. The
/// files, a picture and an array stay in the folder. Files of an earlier run are replaced.
#[derive(Args)]
#[command(after_long_help = "Examples:
  swath demo
  swath demo --dir terrain --size 4096")]
pub(crate) struct Demo {
    /// Folder for the files.
    #[arg(long, default_value = "demo")]
    dir: PathBuf,

    /// Rows and columns of the raster, at most 16384.
    #[arg(long, value_name = "N", value_parser = number::<usize>, default_value_t = 2048)]
    size: usize,
}

impl Demo {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let (dir, size) = (&self.dir, self.size.clamp(1, 16384));
        std::fs::create_dir_all(dir).map_err(|error| Failure::file("create", dir, error))?;

        println!(
            "Swath {}: synthetic terrain, {size} x {size} float32, as COG with overviews",
            env!("CARGO_PKG_VERSION")
        );
        let terrain = terrain(size);
        let megabytes = (terrain.len() * 4) as f64 / 1e6;
        println!("{:10}{:>12}{:>16}{:>16}{:>12}", "codec", "file MB", "write MB/s", "read MB/s", "overviews");
        for codec in CODECS {
            let path = dir.join(format!("terrain_{codec}.tif"));
            let start = Instant::now();
            let bytes = write(&path, &terrain, size, codec)?;
            let written = start.elapsed().as_secs_f64();

            let dataset = Dataset::open(&path)?;
            if !validate(&dataset)?.is_valid() {
                return Err(Failure::Failed(format!("{} is not a valid COG", path.display())));
            }
            let mut read = f64::INFINITY;
            for _ in 0..3 {
                let start = Instant::now();
                let raster = Dataset::open(&path)?.image(0)?.read(&ReadRequest::new())?;
                read = read.min(start.elapsed().as_secs_f64());
                if raster.pixels.as_slice::<f32>() != Some(terrain.as_slice()) {
                    return Err(Failure::Failed(format!(
                        "the pixels of {} differ from those that were written",
                        path.display()
                    )));
                }
            }
            let overviews = dataset.image(0)?.levels().len() - 1;
            let (file, written, read) = (bytes as f64 / 1e6, megabytes / written, megabytes / read);
            println!("{codec:10}{file:>12.2}{written:>16.0}{read:>16.0}{overviews:>12}");
        }
        leave_files(dir, size)
    }
}

/// Writes the terrain as a COG in UTM zone 33N and returns the size of the file.
fn write(path: &Path, terrain: &[f32], size: usize, codec: &str) -> Result<u64, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
    let compress = codec.parse::<Compress>().map_err(|error| failed(&error))?;
    let keys = GeoKeys::from_epsg(32633, RasterType::Area).map_err(|error| failed(&error))?;
    let options = WriteOptions::new()
        .cog()
        .compression(compress)
        .nodata(NoData::Float(-9999.0))
        .transform(GeoTransform([500_000.0, 30.0, 0.0, 5_200_000.0, 0.0, -30.0]))
        .geo_keys(keys);
    let side = size as u64;
    let plan = WritePlan::new(ImageShape::new(side, side, 1, DType::F32), options).map_err(|error| failed(&error))?;
    let mut source = ArraySource::new(terrain, 1, side, side, Layout::BandsFirst)?;
    Ok(plan.write_file(path, &mut source, &WriteConfig::new().overwrite(true))?.file_bytes)
}

/// Writes a picture and an array of the ZSTD file, and prints commands to try next.
fn leave_files(dir: &Path, size: usize) -> Result<(), Failure> {
    let tif = dir.join("terrain_zstd.tif");
    let (png, array) = (dir.join("terrain.png"), dir.join("window.npy"));
    let image = Dataset::open(&tif)?.image(0)?;
    picture::write(&png, true, &image, ReadRequest::new())?;
    let side = (size as u64).min(256);
    let raster = image.read(&ReadRequest::new().window(0..side, 0..side))?;
    write_file(&array, true, |out| npy::write(out, &raster.pixels, &raster.shape))?;
    println!(
        "\nAll files are valid COGs, and all pixels were read back unchanged. Look at {} and {}, or try:",
        png.display(),
        array.display()
    );
    println!("  swath info {}", tif.display());
    println!("  swath validate {}", tif.display());
    println!("  swath convert {} chip.tif --window 0,0,{side},{side} --compression deflate", tif.display());
    println!("  swath read {} chip.npy --window 0,0,{side},{side} --timings", tif.display());
    Ok(())
}

/// Computes hills of several sizes, rounded to millimetres as in elevation models, with nodata in one corner.
pub(crate) fn terrain(size: usize) -> Vec<f32> {
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
