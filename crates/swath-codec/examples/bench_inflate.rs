//! Measures the speed of the interleaved inflate relative to libdeflate, with one thread. Both run alternately
//! on the same streams; the result is the best of many passes.
//!
//! ```text
//! cargo run --release -p swath-codec --example bench_inflate [dem | scene | classes] [level]
//! ```
#![allow(clippy::print_stdout)]

use std::time::Instant;

use swath_codec::deflate;
use swath_codec::inflate::{Inflater, Stream};

/// Enough passes that the best of each runs without interruption on a busy machine.
const PASSES: usize = 60;

fn main() {
    let mut args = std::env::args().skip(1);
    let (only, only_level) = (args.next(), args.next().and_then(|level| level.parse::<i32>().ok()));
    println!("decoded MB/s; batch chooses between the two");
    println!(
        "{:8} {:>4} {:>5} {:>6} {:>10} {:>11} {:>11}",
        "data", "tile", "level", "ratio", "libdeflate", "own", "batch"
    );
    for (side, count) in [(512, 8), (256, 16)] {
        for (name, make) in [("dem", dem as fn(usize, u64) -> Vec<u8>), ("scene", scene), ("classes", classes)] {
            if only.as_ref().is_some_and(|only| only != name) {
                continue;
            }
            let tiles: Vec<Vec<u8>> = (0..count).map(|i| make(side, 0x9E37_79B9_7F4A_7C15 + i)).collect();
            for level in [1, 6, 9] {
                if only_level.is_none_or(|only| only == level) {
                    bench(name, side, level, &tiles);
                }
            }
        }
    }
}

fn bench(name: &str, side: usize, level: i32, tiles: &[Vec<u8>]) {
    let mut encoder = deflate::Encoder::new(level).unwrap();
    let streams: Vec<Vec<u8>> = tiles
        .iter()
        .map(|tile| {
            let mut out = Vec::new();
            encoder.encode(tile, &mut out);
            out
        })
        .collect();
    let mut outs: Vec<Vec<u8>> = tiles.iter().map(|tile| vec![0; tile.len()]).collect();
    let (mut decoder, mut inflater) = (deflate::Decoder::new(), Inflater::new());
    let mut best = [f64::MAX; 3];
    for pass in 0..PASSES * 3 {
        outs.iter_mut().for_each(|out| out.fill(0));
        let mut batch: Vec<Stream<'_>> =
            streams.iter().zip(&mut outs).map(|(stream, out)| Stream::new(stream, out)).collect();
        let start = Instant::now();
        match pass % 3 {
            0 => batch.iter_mut().for_each(|Stream { src, dst, .. }| _ = decoder.decode(src, dst)),
            1 => inflater.decode(&mut batch),
            _ => _ = decoder.decode_batch(&mut batch),
        }
        best[pass % 3] = best[pass % 3].min(start.elapsed().as_secs_f64());
        assert!(outs == tiles, "the decoded bytes differ");
    }
    let size: usize = tiles.iter().map(Vec::len).sum();
    let ratio = size as f64 / streams.iter().map(Vec::len).sum::<usize>() as f64;
    let [libdeflate, own, batch] = best.map(|seconds| size as f64 / seconds / 1e6);
    println!(
        "{name:8} {side:4} {level:5} {ratio:6.2} {libdeflate:10.0} {own:5.0} x{:4.2} {batch:5.0} x{:4.2}",
        own / libdeflate,
        batch / libdeflate
    );
}

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
fn dem(side: usize, seed: u64) -> Vec<u8> {
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
fn scene(side: usize, seed: u64) -> Vec<u8> {
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
fn classes(side: usize, seed: u64) -> Vec<u8> {
    surface(side, seed, 0.5).iter().map(|h| (h * 10.0) as u8 * 10).collect()
}
