//! Measures the speed of Swath's ZSTD decoder relative to libzstd, with one thread. Both decode the same tile in turn; the
//! result is the sum of the best times of each tile.
//!
//! ```text
//! cargo run --release -p swath-codec --example bench_zstd [dem | scene | classes]
//! ```
#![allow(clippy::print_stdout)]

mod synthetic;

use std::time::Instant;

use swath_codec::unzstd::Unzstd;
use swath_codec::zstd;
use synthetic::{classes, dem, scene};

/// Enough passes that the best of each runs without interruption on a busy machine.
const PASSES: usize = 40;
const TILES: u64 = 6;

fn main() {
    let only = std::env::args().nth(1);
    println!("decoded MB/s; libzstd decodes the frames for which it is chosen");
    println!("{:8} {:>4} {:>5} {:>6} {:>8} {:>12} {:>7}", "data", "tile", "level", "ratio", "libzstd", "own", "chosen");
    for side in [512, 256] {
        for (name, make) in [("dem", dem as fn(usize, u64) -> Vec<u8>), ("scene", scene), ("classes", classes)] {
            if only.as_ref().is_some_and(|only| only != name) {
                continue;
            }
            let tiles: Vec<Vec<u8>> = (0..TILES).map(|i| make(side, 0x9E37_79B9_7F4A_7C15 + i)).collect();
            for level in [1, 3, 9, 19] {
                bench(name, side, level, &tiles);
            }
        }
    }
}

fn bench(name: &str, side: usize, level: i32, tiles: &[Vec<u8>]) {
    let mut encoder = zstd::Encoder::new(level).unwrap();
    let mut libzstd = zstd_safe::DCtx::create();
    let mut own = Unzstd::try_new().unwrap();
    let (mut stored, mut is_chosen, mut seconds) = (0, true, [0.0; 2]);
    for tile in tiles {
        let mut frame = Vec::new();
        encoder.encode(tile, &mut frame).unwrap();
        stored += frame.len();
        let mut out = vec![0; tile.len()];
        is_chosen &= own.decode(&frame, &mut out).is_some();
        let mut best = [f64::MAX; 2];
        for pass in 0..2 * PASSES {
            out.fill(0);
            let start = Instant::now();
            let len = match pass % 2 {
                0 => libzstd.decompress(&mut out[..], &frame).ok(),
                _ => own.decode_any(&frame, &mut out),
            };
            best[pass % 2] = best[pass % 2].min(start.elapsed().as_secs_f64());
            assert!(len == Some(tile.len()) && out == *tile, "the decoded bytes differ");
        }
        seconds = [seconds[0] + best[0], seconds[1] + best[1]];
    }
    let size: usize = tiles.iter().map(Vec::len).sum();
    let ratio = size as f64 / stored as f64;
    let [libzstd, own] = seconds.map(|seconds| size as f64 / seconds / 1e6);
    let chosen = if is_chosen { "own" } else { "libzstd" };
    println!("{name:8} {side:4} {level:5} {ratio:6.2} {libzstd:8.0} {own:6.0} x{:4.2} {chosen:>7}", own / libzstd);
}
