//! Measures the speed of a case: from file to pixels and back, and stage by stage.

use std::time::{Duration, Instant};

use swath::device::Gpu;
use swath::{Dataset, Layout, Predictor};
use swath_gpu::Stage;

use super::Bench;
use super::case::{Case, Picture};
use super::check::Checked;
use crate::failure::Failure;

/// How often an operation is repeated to find its best time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Repeat {
    pub(super) times: usize,
    /// No further repeat begins after this much time.
    pub(super) patience: Duration,
}

/// The times of the CPU, which do not depend on the decoder of the device. The file that the CPU wrote still exists.
#[derive(Debug)]
pub(super) struct CpuTimes {
    codec: &'static str,
    predictor: Predictor,
    read: f64,
    write: f64,
}

/// An operation whose stages were timed.
#[derive(Debug)]
pub(super) struct Profiled {
    /// The whole operation. Timing the stages makes it slower.
    pub(super) seconds: f64,
    pub(super) stages: Vec<Stage>,
}

impl Profiled {
    /// The time in which the device did nothing.
    pub(super) fn rest(&self) -> f64 {
        (self.seconds - self.stages.iter().map(|stage| stage.seconds).sum::<f64>()).max(0.0)
    }
}

/// Best times in seconds, from file to pixels and back.
#[derive(Debug)]
pub(super) struct Measured {
    /// Bytes of the pixels.
    pub(super) bytes: usize,
    pub(super) cpu_read: f64,
    /// Into host memory.
    pub(super) device_read: f64,
    /// Into device memory, where the pixels stay.
    pub(super) device_read_to_device: f64,
    pub(super) cpu_write: f64,
    pub(super) device_write: f64,
    pub(super) read: Profiled,
    pub(super) write: Profiled,
}

/// Times a case, and compares what is read and written.
pub(super) fn measure(
    bench: &Bench,
    case: &Case,
    picture: &Picture,
    cpu: &mut Option<CpuTimes>,
) -> Result<(Measured, Checked), Failure> {
    let mut checked = Checked::new(case);
    let plan = picture.plan(case)?;
    let (by_cpu, by_device) = (bench.scratch.file("timed.tif"), bench.scratch.file("device.tif"));
    let known = cpu.take().filter(|known| (known.codec, known.predictor) == (case.codec, case.predictor));
    let (repeat, on_cpu) = (bench.repeat, bench.on_cpu().layout(Layout::BandsLast));
    let known = match known {
        Some(known) => known,
        None => {
            let write = || plan.write_file(&by_cpu, &mut picture.source()?, &bench.config);
            let (_, write) = best(repeat, write)?;
            let image = Dataset::open(&by_cpu)?.image(0)?;
            let (_, read) = best(repeat, || image.read(&on_cpu))?;
            CpuTimes { codec: case.codec, predictor: case.predictor, read, write }
        }
    };

    let image = Dataset::open(&by_cpu)?.image(0)?;
    let expected = image.read(&on_cpu)?.pixels;
    let request = bench.request(case).layout(Layout::BandsLast);
    let (raster, device_read) = best(repeat, || image.read(&request))?;
    checked.compare_read(expected.as_bytes(), raster.pixels.as_bytes());
    checked.note(raster.report.gpu.as_ref());
    let ((kept, _), device_read_to_device) = best(repeat, || image.read_to_device(&request, &bench.gpu))?;
    let mut pixels = raster.pixels;
    kept.download(pixels.as_bytes_mut()).map_err(swath::Error::from)?;
    drop(kept);
    checked.compare_read(expected.as_bytes(), pixels.as_bytes());

    let config = bench.config_for(case);
    let write = || plan.write_file(&by_device, &mut picture.source()?, &config);
    let (report, device_write) = best(repeat, write)?;
    checked.note(report.gpu.as_ref());
    let written = Dataset::open(&by_device)?.image(0)?.read(&on_cpu)?;
    checked.compare_written(expected.as_bytes(), written.pixels.as_bytes());

    let read = profiled(&bench.gpu, || image.read(&request))?;
    let write = profiled(&bench.gpu, write)?;
    let measured = Measured {
        bytes: picture.samples.len(),
        cpu_read: known.read,
        device_read,
        device_read_to_device,
        cpu_write: known.write,
        device_write,
        read,
        write,
    };
    *cpu = Some(known);
    Ok((measured, checked))
}

/// Repeats the work. Returns the last result and the seconds of the fastest repeat.
fn best<T>(repeat: Repeat, mut work: impl FnMut() -> swath::Result<T>) -> Result<(T, f64), Failure> {
    let begun = Instant::now();
    let mut fastest = f64::INFINITY;
    let mut round = 0;
    loop {
        let start = Instant::now();
        let made = work()?;
        fastest = fastest.min(start.elapsed().as_secs_f64());
        round += 1;
        if round >= repeat.times || begun.elapsed() >= repeat.patience {
            return Ok((made, fastest));
        }
    }
}

/// Runs the work once more and times every stage.
fn profiled<T>(gpu: &Gpu, mut work: impl FnMut() -> swath::Result<T>) -> Result<Profiled, Failure> {
    gpu.profile(true);
    let start = Instant::now();
    let done = work();
    let seconds = start.elapsed().as_secs_f64();
    gpu.profile(false);
    done?;
    Ok(Profiled { seconds, stages: gpu.profile_report() })
}
