//! `swath bench --device cuda` without a file: does a device give the CPU's pixels and bytes, and how fast is it.
//!
//! The one command for someone with a GPU: synthetic terrain in every codec that a device decodes, read and written by both.

use std::time::Instant;

use serde_json::json;
use swath::codec::Tuning;
use swath::gpu::DeviceCodec;
use swath::{
    ArraySource, BlockSize, Compress, DType, Dataset, Device, DeviceReport, FallbackPolicy, Gpu, Layout, Plan,
    ReadRequest, Running, WriteOptions,
};

use crate::command::{Arguments, Failure};
use crate::demo::terrain;
use crate::read::{on_device, print_device};

/// The flags that mean something here.
const FLAGS: [&str; 6] = ["--device", "--repeat", "--size", "--threads", "--gpu-memory", "--json"];

/// What one codec came to, in seconds.
struct Times {
    codec: &'static str,
    /// Into memory of the host, by the CPU and by the device.
    read: [f64; 2],
    /// Into memory of the device, where the pixels stay.
    read_to_device: f64,
    /// A COG in memory, by the CPU alone and with the device.
    write: [f64; 2],
}

pub(crate) fn run(arguments: &Arguments<'_>, repeat: usize) -> Result<(), Failure> {
    if let Some(flag) = arguments.flags().find(|flag| !FLAGS.contains(flag)) {
        return Err(Failure::Misuse(format!("{flag} needs a FILE")));
    }
    let device = arguments.device()?;
    let gpu = match &device {
        Device::Gpu(gpu) => gpu.clone(),
        Device::NoGpu(reason) => return Err(Failure::Failed(reason.clone())),
        Device::Cpu => return Err(Failure::Misuse("FILE is missing; see 'swath bench --help'".into())),
    };
    let size = arguments.number::<usize>("--size")?.unwrap_or(2048).max(1);
    let request = on_device(crate::read::part(arguments)?, &device, arguments, arguments.gpu_memory()?)?;
    let running = Running {
        threads: arguments.number("--threads")?,
        gpu_memory_budget: arguments.gpu_memory()?,
        ..Running::default()
    };
    let terrain = terrain(size);
    let bytes = terrain.len() * 4;
    if !arguments.has("--json") {
        println!("{} ({})", gpu.info().name, gpu.info().driver);
        println!("{size} x {size} float32 as COG, best of {repeat}; MB/s of pixels, CPU first\n");
        println!("{:<10}{:>20}{:>12}{:>20}", "", "read to host", "to device", "write");
    }
    let mut all = Vec::new();
    let mut written = None;
    for codec in DeviceCodec::ALL.map(DeviceCodec::name) {
        let (times, report) = measure(codec, &gpu, &terrain, size as u64, repeat, &request, &running)?;
        let speed = |seconds: f64| bytes as f64 / 1e6 / seconds;
        if !arguments.has("--json") {
            println!(
                "{codec:<10}{:>9.0} / {:>8.0}{:>12.0}{:>9.0} / {:>8.0}",
                speed(times.read[0]),
                speed(times.read[1]),
                speed(times.read_to_device),
                speed(times.write[0]),
                speed(times.write[1]),
            );
        }
        all.push(times);
        written = report.or(written);
    }
    if arguments.has("--json") {
        let of = |times: &Times| {
            json!({
                "codec": times.codec, "bytes": bytes,
                "read_seconds": { "cpu": times.read[0], "device": times.read[1] },
                "read_to_device_seconds": times.read_to_device,
                "write_seconds": { "cpu": times.write[0], "device": times.write[1] },
            })
        };
        let codecs: Vec<_> = all.iter().map(of).collect();
        println!("{}", json!({ "device": gpu.info().name, "same_pixels": true, "same_bytes": true, "codecs": codecs }));
        return Ok(());
    }
    println!("\nEvery pixel read and every byte written is the CPU's.");
    print_device(written.as_ref());
    Ok(())
}

fn measure(
    codec: &'static str,
    gpu: &Gpu,
    terrain: &[f32],
    side: u64,
    repeat: usize,
    request: &ReadRequest<'_>,
    running: &Running<'_>,
) -> Result<(Times, Option<DeviceReport>), Failure> {
    let mut options = WriteOptions::cog();
    options.blocks = BlockSize::Tiles { width: 256, height: 256 };
    options.compress = Compress::named(codec, Tuning::default()).map_err(|error| Failure::Failed(error.to_string()))?;
    let plan = Plan::new(side, side, 1, DType::F32, options).map_err(swath::Error::from)?;
    let write = |device: Device| {
        let mut running = Running { device, ..running.clone() };
        running.fallback = FallbackPolicy::Strict;
        let mut source = ArraySource::new(terrain, 1, side, side, Layout::BandsFirst)?;
        plan.to_bytes(&mut source, &running)
    };
    let ((expected, _), write_cpu) = best(repeat, || write(Device::Cpu))?;
    let ((bytes, report), write_device) = best(repeat, || write(Device::Gpu(gpu.clone())))?;
    if bytes != expected {
        return Err(Failure::Failed(format!("{codec}: the device wrote other bytes than the CPU")));
    }
    let dataset = Dataset::from_bytes(expected)?;
    let image = dataset.image(0)?;
    let on_cpu = request.clone().device(Device::Cpu);
    let (expected, read_cpu) = best(repeat, || image.read(&on_cpu))?;
    let (raster, read_device) = best(repeat, || image.read(request))?;
    let ((on_device, _), read_to_device) = best(repeat, || image.read_to_device(request, gpu))?;
    let mut pixels = vec![0; expected.pixels.as_bytes().len()];
    on_device.download(&mut pixels).map_err(swath::Error::from)?;
    if raster.pixels.as_bytes() != expected.pixels.as_bytes() || pixels != expected.pixels.as_bytes() {
        return Err(Failure::Failed(format!("{codec}: the device read other pixels than the CPU")));
    }
    let times = Times { codec, read: [read_cpu, read_device], read_to_device, write: [write_cpu, write_device] };
    Ok((times, report.gpu))
}

/// The last result, and the seconds of the fastest.
fn best<T>(repeat: usize, mut work: impl FnMut() -> swath::Result<T>) -> Result<(T, f64), Failure> {
    let mut fastest = f64::INFINITY;
    let mut last = None;
    for _ in 0..repeat.max(1) {
        let start = Instant::now();
        last = Some(work()?);
        fastest = fastest.min(start.elapsed().as_secs_f64());
    }
    last.map(|result| (result, fastest)).ok_or_else(|| Failure::Misuse("--repeat is 0".into()))
}
