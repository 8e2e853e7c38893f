//! Writes a Cloud Optimized GeoTIFF row by row, without holding the image in memory.
//!
//! ```text
//! cargo run --release --example write_cog -- OUTPUT
//! ```

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use swath::tiff::geo::{GeoKeys, GeoTransform, RasterType};
use swath::write::ImageShape;
use swath::{Compress, DType, RowFn, WriteConfig, WriteOptions, WritePlan};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: write_cog OUTPUT")?;
    let (height, width) = (4096, 4096);
    let shape = ImageShape::new(height, width, 1, DType::F32);
    let options = WriteOptions::new()
        .cog()
        .compression("zstd".parse::<Compress>()?)
        .geo_keys(GeoKeys::from_epsg(32633, RasterType::Area)?)
        .transform(GeoTransform([500_000.0, 10.0, 0.0, 5_200_000.0, 0.0, -10.0]));

    // The source is called for ranges of rows, from top to bottom. It fills them with samples in native byte order.
    let mut source = RowFn::new(shape, 256, |rows, pixels, _mask| {
        for (row, out) in rows.zip(pixels.chunks_exact_mut(width as usize * 4)) {
            for (col, sample) in out.chunks_exact_mut(4).enumerate() {
                let height = (row as f32 / 300.0).sin() * 400.0 + (col as f32 / 200.0).cos() * 200.0;
                sample.copy_from_slice(&height.to_ne_bytes());
            }
        }
        Ok(())
    });
    let report = WritePlan::new(shape, options)?.write_file(&path, &mut source, &WriteConfig::new())?;
    println!("{path}: {} blocks in {:.2?}", report.blocks, report.wall_time);
    Ok(())
}
