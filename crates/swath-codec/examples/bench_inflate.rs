//! Measures the speed of the interleaved inflate relative to libdeflate, with one thread. Both run alternately
//! on the same streams; the result is the best of many passes.
//!
//! ```text
//! cargo run --release -p swath-codec --example bench_inflate [dem | scene | classes] [level]
//! ```
#![allow(clippy::print_stdout)]

mod synthetic;

use std::time::Instant;

use swath_codec::deflate;
use swath_codec::inflate::{Inflater, Stream};
use synthetic::{classes, dem, scene};

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
