//! Prints the mean of a window of every band.
//!
//! ```text
//! cargo run --release --example read_window -- FILE [ROW COL HEIGHT WIDTH]
//! ```

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use swath::{Dataset, ReadRequest};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: read_window FILE [ROW COL HEIGHT WIDTH]")?;
    let numbers: Vec<u64> = arguments.map(|text| text.parse()).collect::<Result<_, _>>()?;

    let image = Dataset::open(path)?.image(0)?;
    let request = match numbers[..] {
        [] => ReadRequest::new(),
        [row, col, height, width] => ReadRequest::new().window(row..row + height, col..col + width),
        _ => return Err("a window is ROW COL HEIGHT WIDTH".into()),
    };
    let raster = image.read(&request)?;
    let [bands, rows, cols] = raster.shape;
    for band in 0..bands {
        let samples = raster.pixels.to_f64(band * rows * cols..(band + 1) * rows * cols);
        println!("band {}: mean {}", band + 1, samples.iter().sum::<f64>() / samples.len() as f64);
    }
    Ok(())
}
