//! Measures the speed of the byte codecs on three typical kinds of raster data, with one thread, as the best of
//! several passes.
//!
//! ```text
//! cargo run --release -p swath-codec --example bench_bytes [directory]
//! ```
//! With a directory, the blocks and their LZW streams are also written there, so that other programs can be
//! timed on them.
#![allow(clippy::print_stdout)]

mod synthetic;

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
    let blocks = [
        ("terrain f32 p3", synthetic::dem(SIDE, 7)),
        ("optical u16 p2", synthetic::scene(SIDE, 3)),
        ("classes u8", synthetic::classes(SIDE, 5)),
    ];
    for (name, block) in blocks {
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
