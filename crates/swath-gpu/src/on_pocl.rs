//! Kernels that no pipeline of this crate calls by itself yet, run on PoCL.

use std::time::Instant;

use crate::backend::kernel::{Arg, Kernel};
use crate::memory::buffer::Buffer;
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

/// Launches a kernel and downloads a buffer that it wrote.
fn run(gpu: &Gpu, kernel: Kernel, groups: u32, args: &[Arg<'_>], out: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0; out.bytes() as usize];
    let mut stream = gpu.stream().unwrap();
    // SAFETY: the tests pass the arguments of the kernel, and nothing accesses the bytes before the synchronisation.
    unsafe {
        stream.launch(kernel, groups, args).unwrap();
        stream.download(out, 0, &mut bytes).unwrap();
    }
    stream.synchronize().unwrap();
    bytes
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

#[test]
fn profile_tells_the_time_of_each_kernel_by_its_name() {
    let gpu = pocl();
    let data: Vec<u8> = (0..1 << 20).map(|i| (i >> 3) as u8).collect();
    let (source, packed) = (upload(&gpu, &data), upload(&gpu, &vec![0; data.len()]));
    let table = upload(&gpu, bytemuck::cast_slice(&[0, 0, data.len() as u64]));
    let args = [Arg::Buffer(&table), Arg::Buffer(&source), Arg::Buffer(&packed)];
    // Compiled before it is timed.
    run(&gpu, Kernel::Gather, 1, &args, &packed);
    gpu.profile(true);
    let begun = Instant::now();
    assert!(run(&gpu, Kernel::Gather, 1, &args, &packed) == data);
    let wall = begun.elapsed().as_secs_f64();
    let stages = gpu.profile_report();
    let found: Vec<_> = stages.iter().map(|stage| (stage.name, stage.calls, stage.bytes)).collect();
    assert_eq!(found, [("kernel gather", 1, 0), ("download", 1, 1 << 20), ("synchronise", 1, 0)]);
    assert!(stages[..2].iter().all(|stage| stage.seconds > 0.0), "{stages:?}");
    // Stages do not overlap, so their sum cannot exceed the total time.
    assert!(stages.iter().map(|stage| stage.seconds).sum::<f64>() <= wall, "{stages:?} in {wall} s");
}
