//! Tiles that compress like those of real rasters, the same in every run.

struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns an approximately normal number with deviation 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// Returns a fractal surface in 0..1: octaves of smoothed lattice noise, each with `roughness` times the
/// amplitude of the previous one.
fn surface(side: usize, seed: u64, roughness: f64) -> Vec<f64> {
    let mut random = Random(seed);
    let mut heights = vec![0.0; side * side];
    let mut weight = 1.0;
    for cells in (1..=side.ilog2()).map(|power| 1 << power) {
        let lattice: Vec<f64> = (0..(cells + 1) * (cells + 1)).map(|_| random.unit()).collect();
        for (i, height) in heights.iter_mut().enumerate() {
            let (y, x) = (i / side * cells, i % side * cells);
            let smooth = |t: f64| t * t * (3.0 - 2.0 * t);
            let (fy, fx) = (smooth((y % side) as f64 / side as f64), smooth((x % side) as f64 / side as f64));
            let at = y / side * (cells + 1) + x / side;
            let top = lattice[at] * (1.0 - fx) + lattice[at + 1] * fx;
            let bottom = lattice[at + cells + 1] * (1.0 - fx) + lattice[at + cells + 2] * fx;
            *height += weight * (top * (1.0 - fy) + bottom * fy);
        }
        weight *= roughness;
    }
    let (low, high) = heights.iter().fold((f64::MAX, f64::MIN), |(low, high), &h| (low.min(h), high.max(h)));
    heights.iter().map(|h| (h - low) / (high - low)).collect()
}

/// Heights in millimetre steps as 32-bit floats, with the floating point predictor applied.
pub(crate) fn dem(side: usize, seed: u64) -> Vec<u8> {
    let heights = surface(side, seed, 0.42);
    let heights: Vec<f32> = heights.iter().map(|h| ((h * 1_800_000.0).round() / 1000.0) as f32).collect();
    let mut block = vec![0; side * side * 4];
    for (row, values) in block.chunks_exact_mut(side * 4).zip(heights.chunks_exact(side)) {
        for (x, value) in values.iter().enumerate() {
            for (plane, byte) in value.to_be_bytes().into_iter().enumerate() {
                row[plane * side + x] = byte;
            }
        }
        for x in (1..row.len()).rev() {
            row[x] = row[x].wrapping_sub(row[x - 1]);
        }
    }
    block
}

/// Four bands of 16-bit reflectances with sensor noise, with the horizontal predictor applied.
pub(crate) fn scene(side: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed ^ 11);
    let mut block = Vec::with_capacity(side * side * 8);
    let mut left = [0u16; 4];
    for (i, value) in surface(side, seed, 0.5).iter().enumerate() {
        for (band, before) in left.iter_mut().enumerate() {
            if i % side == 0 {
                *before = 0;
            }
            let sample = (400.0 + value * 1000.0 * (band + 1) as f64 + random.normal() * 12.0) as u16;
            block.extend(sample.wrapping_sub(*before).to_le_bytes());
            *before = sample;
        }
    }
    block
}

/// Land cover: ten classes with ragged borders.
pub(crate) fn classes(side: usize, seed: u64) -> Vec<u8> {
    surface(side, seed, 0.5).iter().map(|h| (h * 10.0) as u8 * 10).collect()
}
