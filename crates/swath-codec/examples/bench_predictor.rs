//! Measures the speed of the loops between the decompressor and the output, in decoded GB/s on one thread.
//!
//! `cargo run --release -p swath-codec --example bench_predictor`
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::{Duration, Instant};
use swath_codec::place::{self, Every};
use swath_codec::{DType, Predictor, SampleFormat, Shape, byteorder, predictor, sample};

/// One tile, which stays in the cache as in a real read.
const SIDE: usize = 512;

fn main() {
    for (name, samples, bits, format) in [
        ("u8 x1", 1, 8, SampleFormat::Uint),
        ("u8 x3", 3, 8, SampleFormat::Uint),
        ("u8 x4", 4, 8, SampleFormat::Uint),
        ("u8 x5", 5, 8, SampleFormat::Uint),
        ("u16 x1", 1, 16, SampleFormat::Uint),
        ("u16 x3", 3, 16, SampleFormat::Uint),
        ("u16 x4", 4, 16, SampleFormat::Uint),
        ("u16 x13", 13, 16, SampleFormat::Uint),
        ("u32 x1", 1, 32, SampleFormat::Uint),
        ("u64 x1", 1, 64, SampleFormat::Uint),
        ("12 bit x1", 1, 12, SampleFormat::Uint),
    ] {
        predict("predictor 2", name, Predictor::Horizontal, samples, bits, format);
    }
    for (name, samples, bits) in [
        ("f16 x1", 1, 16),
        ("f24 x1", 1, 24),
        ("f32 x1", 1, 32),
        ("f32 x3", 3, 32),
        ("f32 x4", 4, 32),
        ("f64 x1", 1, 64),
    ] {
        predict("predictor 3", name, Predictor::FloatingPoint, samples, bits, SampleFormat::Float);
    }
    for width in [2, 3, 4, 8] {
        let mut data = noise(SIDE * SIDE * 12 / width * width);
        report(&format!("swap {width}"), data.len(), || byteorder::swap_in_place(width, black_box(&mut data)));
    }
    let mut data = noise(SIDE * SIDE);
    report("reverse bits", data.len(), || sample::reverse_bits(black_box(&mut data)));
    for bits in [1, 2, 3, 4, 10, 12, 14, 24] {
        unpack("uint", bits, SampleFormat::Uint);
    }
    unpack("float", 24, SampleFormat::Float);
    unpack("complex half", 32, SampleFormat::ComplexFloat);
    for (width, samples) in [(1, 2), (1, 3), (1, 4), (1, 7), (2, 2), (2, 3), (2, 4), (4, 3), (4, 4), (8, 2)] {
        bands(width, samples);
    }
}

fn predict(what: &str, name: &str, predictor: Predictor, samples: usize, bits: usize, format: SampleFormat) {
    let shape = Shape { width: SIDE, height: SIDE, samples, bits, format };
    let mut block = noise(shape.len());
    let mut scratch = Vec::new();
    for (order, big_endian) in [("", false), (" big-endian", true)] {
        report(&format!("{what} {name} undo{order}"), shape.len(), || {
            predictor::undo(predictor, shape, big_endian, black_box(&mut block), &mut scratch).expect("defined");
        });
    }
    report(&format!("{what} {name} apply"), shape.len(), || {
        predictor::apply(predictor, shape, false, black_box(&mut block), &mut scratch).expect("defined");
    });
}

fn unpack(name: &str, bits: usize, format: SampleFormat) {
    let shape = Shape { width: SIDE, height: SIDE, samples: 1, bits, format };
    let block = noise(shape.len());
    let size = DType::for_stored(format, bits).expect("mapped").size();
    let mut row = vec![0; SIDE * size];
    report(&format!("unpack {bits}-bit {name} (output)"), SIDE * SIDE * size, || {
        for stored in black_box(&block).chunks_exact(shape.row_bytes()) {
            sample::unpack_row(shape, stored, black_box(&mut row)).expect("mapped");
        }
    });
}

fn bands(width: usize, samples: usize) {
    let interleaved = noise(SIDE * SIDE * samples * width);
    let plane_bytes = SIDE * SIDE * width;
    let mut planar = vec![0; interleaved.len()];
    report(&format!("{samples} bands of {width} bytes to planes"), interleaved.len(), || {
        for (row, src) in interleaved.chunks_exact(SIDE * samples * width).enumerate() {
            for band in 0..samples {
                let dst = &mut planar[band * plane_bytes + row * SIDE * width..][..SIDE * width];
                place::copy(width, src, Every::nth(band, samples), dst, Every::SAMPLE);
            }
        }
        black_box(&mut planar);
    });
    let mut back = vec![0; interleaved.len()];
    report(&format!("{samples} planes of {width} bytes to bands"), interleaved.len(), || {
        for (row, dst) in back.chunks_exact_mut(SIDE * samples * width).enumerate() {
            for band in 0..samples {
                let src = &planar[band * plane_bytes + row * SIDE * width..][..SIDE * width];
                place::copy(width, src, Every::SAMPLE, dst, Every::nth(band, samples));
            }
        }
        black_box(&mut back);
    });
}

fn report(name: &str, bytes: usize, mut run: impl FnMut()) {
    let mut best = Duration::MAX;
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(200) {
        let one = Instant::now();
        run();
        best = best.min(one.elapsed());
    }
    println!("{name:40} {:6.2} GB/s", bytes as f64 / best.as_secs_f64() / 1e9);
}

/// Returns pseudo-random bytes (xorshift), the same in every run.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}
