//! Measures the speed and the size of Deflate encoding relative to libdeflate at the same level, with one thread. Both
//! run alternately on the same tiles; the result is the best of many passes.
//!
//! ```text
//! cargo run --release -p swath-codec --example bench_deflate [level] [FILE BLOCK_BYTES]
//! ```
//!
//! With a file, its content is encoded in blocks of that size. The predictor must already be applied.
#![allow(clippy::print_stdout)]

mod synthetic;

use std::time::Instant;

use libdeflater::{CompressionLvl, Compressor};
use swath_codec::deflate;
use synthetic::{classes, dem, scene};

/// Enough passes that the best of each runs without interruption on a busy machine.
const PASSES: usize = 15;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let level = args.first().map_or(6, |level| level.parse().unwrap());
    println!("{:>24} {:>12} {:>12} {:>6} {:>6}", "", "libdeflate", "Encoder", "speed", "size");
    if let [_, path, block] = &args[..] {
        let content = std::fs::read(path).unwrap();
        let tiles: Vec<Vec<u8>> = content.chunks_exact(block.parse().unwrap()).map(<[u8]>::to_vec).collect();
        return bench(path, level, &tiles);
    }
    for side in [512, 256] {
        for (name, make) in [("dem", dem as fn(usize, u64) -> Vec<u8>), ("scene", scene), ("classes", classes)] {
            let tiles: Vec<Vec<u8>> = (0..6).map(|i| make(side, 0x9E37_79B9_7F4A_7C15 + i)).collect();
            bench(&format!("{name} {side}"), level, &tiles);
        }
    }
}

fn bench(name: &str, level: i32, tiles: &[Vec<u8>]) {
    let mut encoder = deflate::Encoder::new(level).unwrap();
    let mut compressor = Compressor::new(CompressionLvl::new(level).unwrap());
    let (mut best, mut sizes, mut out) = ([f64::MAX; 2], [0; 2], Vec::new());
    for pass in 0..PASSES * 2 {
        let which = pass % 2;
        sizes[which] = 0;
        let start = Instant::now();
        for tile in tiles {
            out.clear();
            sizes[which] += if which == 0 {
                out.resize(compressor.zlib_compress_bound(tile.len()), 0);
                compressor.zlib_compress(tile, &mut out).unwrap()
            } else {
                encoder.encode(tile, &mut out);
                out.len()
            };
        }
        best[which] = best[which].min(start.elapsed().as_secs_f64());
    }
    let bytes = tiles.iter().map(Vec::len).sum::<usize>() as f64;
    let [libdeflate, own] = best.map(|seconds| bytes / seconds / 1e6);
    let (speed, size) = (own / libdeflate, sizes[1] as f64 / sizes[0] as f64);
    println!("{name:>24} {libdeflate:7.0} MB/s {own:7.0} MB/s {speed:6.2} {size:6.3}");
}
