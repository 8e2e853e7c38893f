//! Opens any bytes with the default limits and reads one pixel of each level. The fuzzer limits the memory.

use swath::{Dataset, ReadRequest};

/// Reads the last pixel, so that the whole last block is decoded if its codec needs that.
pub fn run(data: &[u8]) {
    let Ok(dataset) = Dataset::from_bytes(data.to_vec()) else { return };
    for number in 0..dataset.image_count().min(4) {
        let Ok(image) = dataset.image(number) else { continue };
        let _ = (image.metadata().wkt(), image.metadata().crs_name());
        for level in 0..image.levels().len().min(4) {
            let Some(layout) = image.levels().nth(level) else { continue };
            let (width, height) = (layout.grid.width, layout.grid.height);
            let request = ReadRequest::new().level(level).threads(1).window(height - 1..height, width - 1..width);
            let _ = (image.read(&request).is_ok(), image.read_mask(&request).is_ok());
        }
    }
}
