//! `swath bench`: measures how fast this process opens and reads a file.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use swath::{Dataset, ReadRequest};

use crate::failure::Failure;
use crate::flags::{DeviceFlags, OpenFlags, Threads, Window, at_least_one, number};

/// Measure how fast a file is opened and read
///
/// Opens and reads FILE several times, each time into new memory, and prints the time of the fastest repeat.
///
/// With a device and no FILE, the CPU and the device read and write synthetic terrain: every codec that the device
/// decodes, with Swath's kernels, with each of NVIDIA's libraries that is installed, and with every predictor. First the
/// results are compared. If a pixel or byte differs, the exit code is 1 and the message names the case. Then each codec is
/// timed from file to pixels and back, and stage by stage. This takes a minute or two. Progress goes to stderr.
#[derive(Args)]
#[command(after_long_help = "Examples:
  swath bench dem.tif --threads 2
  swath bench cog.tif --windows 200 --size 256
  swath bench --device cuda
  swath bench --device cuda --size 16384 --scratch /mnt/nvme \\
      --json > bench.json")]
pub(crate) struct Bench {
    /// The file to read. Omit it to test a device.
    pub(crate) file: Option<PathBuf>,

    /// Number of repeats. Default: 5; fewer for slow cases with a device and no FILE.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) repeat: Option<usize>,

    /// Read only this window.
    #[arg(long, value_name = "R0,C0,R1,C1")]
    window: Option<Window>,

    /// Read K windows at random positions instead of the whole image.
    #[arg(long, value_name = "K", value_parser = number::<u64>)]
    windows: Option<u64>,

    /// Width and height of the random windows, or of the terrain.
    ///
    /// Default: 256 for windows; for the terrain 4096 on a GPU, else 2048.
    #[arg(long, value_name = "S", value_parser = number::<u64>)]
    pub(crate) size: Option<u64>,

    /// Seed of the random positions. Default: 1.
    #[arg(long, value_name = "N", value_parser = number::<u64>)]
    seed: Option<u64>,

    #[command(flatten)]
    pub(crate) threads: Threads,

    #[command(flatten)]
    pub(crate) device: DeviceFlags,

    #[command(flatten)]
    open: OpenFlags,

    /// Folder for the temporary files of the terrain. Default: the system's temporary folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,

    /// Print JSON.
    ///
    /// With a FILE: the seconds of each repeat and the bytes of one repeat. With a device and no FILE: all results
    /// (docs/gpu.md).
    #[arg(long)]
    pub(crate) json: bool,
}

impl Bench {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let repeat = self.repeat.unwrap_or(5);
        let Some(file) = &self.file else { return crate::bench_device::run(self) };
        if self.scratch.is_some() {
            return Err(Failure::Usage("--scratch does not apply when a FILE is given".into()));
        }
        let mut request = self.threads.apply(ReadRequest::new());
        if let Some(window) = &self.window {
            request = window.apply(request);
        }
        let request = self.device.apply(request, &self.device.device()?, self.device.gpu_memory())?;

        let mut seconds = Vec::with_capacity(repeat);
        let mut bytes = 0;
        for _ in 0..repeat {
            let start = Instant::now();
            bytes = match self.windows {
                Some(count) => {
                    let (size, seed) = (self.size.unwrap_or(256), self.seed.unwrap_or(1));
                    read_windows(&self.open.open(file)?, &request, count, size, seed)?
                }
                None => self.open.open(file)?.image(0)?.read(&request)?.pixels.as_bytes().len(),
            };
            seconds.push(start.elapsed().as_secs_f64());
        }
        if self.json {
            println!("{}", serde_json::json!({ "seconds": seconds, "bytes": bytes }));
            return Ok(());
        }
        let best = seconds.iter().copied().fold(f64::INFINITY, f64::min);
        println!("best of {repeat}: {:.3} ms, {:.0} MB/s", best * 1e3, bytes as f64 / 1e6 / best);
        Ok(())
    }

    /// The flags that need a FILE, and whether they were given.
    pub(crate) fn file_flags(&self) -> impl Iterator<Item = (&'static str, bool)> {
        [("--window", self.window.is_some()), ("--windows", self.windows.is_some()), ("--seed", self.seed.is_some())]
            .into_iter()
    }
}

/// Reads `count` windows at positions that depend only on the seed.
fn read_windows(
    dataset: &Dataset,
    request: &ReadRequest<'_>,
    count: u64,
    size: u64,
    seed: u64,
) -> Result<usize, Failure> {
    let image = dataset.image(0)?;
    let (height, width) = (size.min(image.height()), size.min(image.width()));
    let mut state = seed;
    let mut below = |bound: u64| {
        // Knuth's MMIX generator. Its high bits are the most random ones.
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % bound
    };
    let mut bytes = 0;
    for _ in 0..count {
        let (row, col) = (below(image.height() - height + 1), below(image.width() - width + 1));
        let raster = image.read(&request.clone().window(row..row + height, col..col + width))?;
        bytes += raster.pixels.as_bytes().len();
    }
    Ok(bytes)
}
