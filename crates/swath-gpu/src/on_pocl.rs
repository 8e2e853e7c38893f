//! Kernels that no pipeline of this crate calls by itself yet, run on PoCL.

use crate::buffer::Buffer;
use crate::kernel::{Arg, Kernel};
use crate::{Gpu, OpenCl};

fn pocl() -> Gpu {
    let device = OpenCl::choose(Some("pocl"));
    Gpu::new(
        device.expect("PoCL is needed: packages pocl-opencl-icd and ocl-icd-libopencl1, which `make test` installs"),
    )
}

fn upload(gpu: &Gpu, bytes: &[u8]) -> Buffer {
    let buffer = gpu.alloc("test", Some(bytes.len() as u64)).unwrap();
    let mut stream = gpu.stream().unwrap();
    // SAFETY: the bytes are borrowed until the stream is synchronised.
    unsafe { stream.upload(bytes, &buffer, 0).unwrap() };
    stream.synchronize().unwrap();
    buffer
}

/// Launch a kernel and fetch a buffer that it wrote.
fn run(gpu: &Gpu, kernel: Kernel, groups: u32, args: &[Arg<'_>], out: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0; out.bytes() as usize];
    let mut stream = gpu.stream().unwrap();
    // SAFETY: the tests hand over what the kernel wants, and nobody looks at the bytes before they are there.
    unsafe {
        stream.launch(kernel, groups, args).unwrap();
        stream.download(out, 0, &mut bytes).unwrap();
    }
    stream.synchronize().unwrap();
    bytes
}

/// RFC 1950, word by word.
fn adler32(data: &[u8]) -> u32 {
    let (mut a, mut b) = (1_u32, 0_u32);
    for &byte in data {
        a = (a + u32::from(byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    (b << 16) | a
}

#[test]
fn checksums_of_tiles_are_those_of_the_rfc() {
    let gpu = pocl();
    // Bytes of 255 bring the sums to their largest.
    let data: Vec<u8> = (0..300_000_u32).map(|i| if i < 200_000 { 255 } else { ((i * 7919) >> 5) as u8 }).collect();
    let spans: Vec<u64> = vec![0, 0, 3, 1, 5, 5552, 1, 199_999, 100_000, 200_000, 299_999, 1, 7, 256];
    let expected: Vec<u32> =
        spans.as_chunks::<2>().0.iter().map(|&[at, len]| adler32(&data[at as usize..(at + len) as usize])).collect();
    let (tiles, table) = (upload(&gpu, &data), upload(&gpu, bytemuck::cast_slice(&spans)));
    let sums = upload(&gpu, &vec![0; expected.len() * 4]);
    let args = [Arg::Buffer(&tiles), Arg::Buffer(&table), Arg::Buffer(&sums)];
    let found = run(&gpu, Kernel::Adler32, expected.len() as u32, &args, &sums);
    assert_eq!(bytemuck::cast_slice::<u8, u32>(&found), expected);
}

#[test]
fn pieces_are_gathered_whatever_their_places() {
    let gpu = pocl();
    let data: Vec<u8> = (0..20_000_u32).map(|i| ((i * 31) >> 3) as u8).collect();
    let (mut spans, mut expected) = (Vec::new(), Vec::new());
    for (from, len) in [(0_u64, 4096_u64), (5, 0), (7, 1), (4099, 3000), (16, 33), (13_001, 6999), (3, 4093)] {
        spans.extend([from, expected.len() as u64, len]);
        expected.extend_from_slice(&data[from as usize..(from + len) as usize]);
    }
    let (source, table) = (upload(&gpu, &data), upload(&gpu, bytemuck::cast_slice(&spans)));
    let packed = upload(&gpu, &vec![0; expected.len()]);
    let args = [Arg::Buffer(&table), Arg::Buffer(&source), Arg::Buffer(&packed)];
    assert!(run(&gpu, Kernel::Gather, spans.len() as u32 / 3, &args, &packed) == expected);
}
