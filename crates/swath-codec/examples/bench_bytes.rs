//! Measures the speed of the byte codecs on three typical kinds of raster data, with one thread, as the best of
//! several passes.
//!
//! ```text
//! cargo run --release -p swath-codec --example bench_bytes [directory]
//! ```
//! With a directory, the blocks and their LZW streams are also written there, so that other programs can be
//! timed on them.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use swath_codec::{deflate, lz4, lzma, lzw, packbits, zstd};

/// The number of pixels along the side of a block.
const SIDE: usize = 512;
const PASSES: usize = 25;

fn main() -> std::io::Result<()> {
    let dump = std::env::args().nth(1).map(PathBuf::from);
    println!("{:16} {:14} {:>8} {:>8} {:>7}", "data", "codec", "decode", "encode", "ratio");
    for (name, block) in [("terrain f32 p3", terrain()), ("optical u16 p2", optical()), ("classes u8", classes())] {
        bench(name, &block);
        if let Some(dir) = &dump {
            let stem = name.replace(' ', "-");
            let mut stream = Vec::new();
            lzw::encode(&block, &mut stream);
            std::fs::write(dir.join(format!("{stem}.raw")), &block)?;
            std::fs::write(dir.join(format!("{stem}.lzw")), &stream)?;
        }
    }
    Ok(())
}

fn bench(data: &str, block: &[u8]) {
    let mut decoder = lzw::Decoder::new();
    row(data, "LZW", block, lzw::encode, |src, dst| decoder.decode(src, dst).unwrap());
    row(data, "LZW (weezl)", block, weezl_encode, weezl_decode);
    row(
        data,
        "PackBits",
        block,
        |src, out| packbits::encode(src, SIDE, out),
        |src, dst| packbits::decode(src, dst).unwrap(),
    );
    for level in [1, 6] {
        let mut encoder = deflate::Encoder::new(level).unwrap();
        let mut decoder = deflate::Decoder::new();
        let name = format!("Deflate {level}");
        row(data, &name, block, |src, out| encoder.encode(src, out), |src, dst| decoder.decode(src, dst).unwrap());
    }
    for level in [1, 9] {
        let mut encoder = zstd::Encoder::new(level).unwrap();
        let mut decoder = zstd::Decoder::new();
        let name = format!("ZSTD {level}");
        row(
            data,
            &name,
            block,
            |src, out| encoder.encode(src, out).unwrap(),
            |src, dst| decoder.decode(src, dst).unwrap(),
        );
    }
    row(data, "LZ4", block, lz4::encode, |src, dst| lz4::decode(src, dst).unwrap());
    row(data, "LZMA", block, lzma_encode, |src, dst| lzma::decode(src, dst).unwrap());
}

fn row(
    data: &str,
    codec: &str,
    block: &[u8],
    mut encode: impl FnMut(&[u8], &mut Vec<u8>),
    mut decode: impl FnMut(&[u8], &mut [u8]) -> usize,
) {
    let mut stream = Vec::new();
    let (mut encoding, mut decoding) = (f64::MAX, f64::MAX);
    for _ in 0..PASSES.div_ceil(5) {
        stream.clear();
        let start = Instant::now();
        encode(block, &mut stream);
        encoding = encoding.min(start.elapsed().as_secs_f64());
    }
    let mut decoded = vec![0; block.len()];
    for _ in 0..PASSES {
        let start = Instant::now();
        let len = decode(black_box(&stream), &mut decoded);
        decoding = decoding.min(start.elapsed().as_secs_f64());
        assert!(len == block.len() && decoded == block, "{codec} does not restore {data}");
    }
    let speed = |seconds: f64| block.len() as f64 / seconds / 1e6;
    let ratio = block.len() as f64 / stream.len() as f64;
    println!("{data:16} {codec:14} {:8.0} {:8.0} {ratio:7.2}", speed(decoding), speed(encoding));
}

fn weezl_encode(src: &[u8], out: &mut Vec<u8>) {
    let mut encoder = weezl::encode::Encoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8);
    encoder.into_vec(out).encode_all(src).status.unwrap();
}

fn weezl_decode(src: &[u8], dst: &mut [u8]) -> usize {
    let mut decoder = weezl::decode::Decoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8);
    let (mut read, mut written) = (0, 0);
    while written < dst.len() {
        let step = decoder.decode_bytes(&src[read..], &mut dst[written..]);
        if step.consumed_in + step.consumed_out == 0 {
            break;
        }
        read += step.consumed_in;
        written += step.consumed_out;
    }
    written
}

fn lzma_encode(src: &[u8], out: &mut Vec<u8>) {
    use std::io::Write;
    let options = lzma_rust2::XzOptions::with_preset(1);
    let mut writer = lzma_rust2::XzWriter::new(out, options).unwrap();
    writer.write_all(src).unwrap();
    writer.finish().unwrap();
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
fn surface(seed: u64, roughness: f64) -> Vec<f64> {
    let mut random = Random(seed);
    let mut heights = vec![0.0; SIDE * SIDE];
    let mut weight = 1.0;
    for cells in [2, 4, 8, 16, 32, 64, 128, 256, 512] {
        let lattice: Vec<f64> = (0..(cells + 1) * (cells + 1)).map(|_| random.unit()).collect();
        for (i, height) in heights.iter_mut().enumerate() {
            let (y, x) = (i / SIDE * cells, i % SIDE * cells);
            let smooth = |t: f64| t * t * (3.0 - 2.0 * t);
            let (fy, fx) = (smooth((y % SIDE) as f64 / SIDE as f64), smooth((x % SIDE) as f64 / SIDE as f64));
            let at = y / SIDE * (cells + 1) + x / SIDE;
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
fn terrain() -> Vec<u8> {
    let heights: Vec<f32> = surface(7, 0.42).iter().map(|h| ((h * 1_800_000.0).round() / 1000.0) as f32).collect();
    let mut block = vec![0; SIDE * SIDE * 4];
    for (row, values) in block.chunks_exact_mut(SIDE * 4).zip(heights.chunks_exact(SIDE)) {
        for (x, value) in values.iter().enumerate() {
            for (plane, byte) in value.to_be_bytes().into_iter().enumerate() {
                row[plane * SIDE + x] = byte;
            }
        }
        for x in (1..row.len()).rev() {
            row[x] = row[x].wrapping_sub(row[x - 1]);
        }
    }
    block
}

/// Four bands of 16-bit reflectances with sensor noise, with the horizontal predictor applied.
fn optical() -> Vec<u8> {
    let mut random = Random(11);
    let ground = surface(3, 0.5);
    let mut block = Vec::with_capacity(SIDE * SIDE * 8);
    let mut left = [0u16; 4];
    for (i, value) in ground.iter().enumerate() {
        for (band, before) in left.iter_mut().enumerate() {
            if i % SIDE == 0 {
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
fn classes() -> Vec<u8> {
    surface(5, 0.5).iter().map(|h| (h * 10.0) as u8 * 10).collect()
}
