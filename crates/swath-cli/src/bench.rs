//! `swath bench`: how fast a file is opened and read, in this process.

use std::time::Instant;

use swath::{Dataset, ReadRequest};

use crate::command::{Arguments, Command, DECODER, DEVICE, FALLBACK, Failure, Flag, GPU_MEMORY, STORAGE, THREADS};

pub(crate) const COMMAND: Command = Command {
    name: "bench",
    operands: &["[FILE]"],
    summary: "Measure how fast a file is opened and read",
    details: "Opens and reads the file again and again, each time into fresh memory, and prints the time of each repeat.\n\
              With a device and no FILE, synthetic terrain is read and written by the CPU and by the device, in every codec that the device\n\
              decodes, by our kernels and by each of NVIDIA's libraries that is installed, with every predictor. First everything is\n\
              compared; a pixel or byte that differs is exit code 1 and names the case. Then each codec is timed from file to pixels and\n\
              back, and stage by stage. That takes a minute or two; progress goes to stderr.\n\
              With --device sim there is no FILE: tiles are moved one by one and as one batch from a source whose reads take 1 ms to a\n\
              simulated device whose transfers take 1 ms, and back. That shows what batching buys, not how fast a GPU is.\n\n\
              Examples:\n  \
              swath bench dem.tif --threads 2\n  \
              swath bench cog.tif --windows 200 --size 256\n  \
              swath bench --device cuda\n  \
              swath bench --device cuda --size 16384 --scratch /mnt/nvme --json > bench.json\n  \
              swath bench --device sim\n",
    flags: &[
        Flag {
            name: "--repeat",
            value: Some("N"),
            help: "How often. Default: 5; with a device and no FILE fewer where that would take long.",
        },
        Flag { name: "--window", value: Some("R0,C0,R1,C1"), help: "Read only this window." },
        Flag {
            name: "--windows",
            value: Some("K"),
            help: "Read K windows at random places instead of the whole image.",
        },
        Flag {
            name: "--size",
            value: Some("S"),
            help: "Width and height of the random windows. Default: 256. Of the terrain: 4096 on a GPU, else 2048.",
        },
        Flag { name: "--seed", value: Some("N"), help: "Seed of the random places. Default: 1." },
        THREADS,
        Flag {
            help: "Where to do the work, as in 'swath read'; or sim, a simulated device. Default: cpu, or SWATH_DEVICE.",
            ..DEVICE
        },
        FALLBACK,
        DECODER,
        STORAGE,
        GPU_MEMORY,
        Flag {
            name: "--scratch",
            value: Some("DIR"),
            help: "Where the files of the terrain are while it runs. Default: the folder for temporary files.",
        },
        Flag {
            name: "--json",
            value: None,
            help: "Print JSON: seconds of each repeat, bytes of one repeat; with a device and no FILE all that was found (docs/gpu.md); \
                   with --device sim the milliseconds of each way.",
        },
    ],
    run,
};

fn run(arguments: &Arguments<'_>) -> Result<(), Failure> {
    let repeat = arguments.number::<usize>("--repeat")?.unwrap_or(5).max(1);
    let variable = std::env::var("SWATH_DEVICE").ok();
    if arguments.text("--device").or(variable.as_deref()) == Some("sim") {
        return crate::bench_sim::run(arguments, repeat);
    }
    let Some(file) = arguments.optional_operand(0) else { return crate::bench_device::run(arguments) };
    if arguments.has("--scratch") {
        return Err(Failure::Misuse("--scratch means nothing with a FILE".into()));
    }
    let request = crate::read::request(arguments)?;
    let windows = arguments.number::<u64>("--windows")?;
    let size = arguments.number::<u64>("--size")?.unwrap_or(256);
    let seed = arguments.number::<u64>("--seed")?.unwrap_or(1);

    let mut seconds = Vec::with_capacity(repeat);
    let mut bytes = 0;
    for _ in 0..repeat {
        let start = Instant::now();
        bytes = match windows {
            Some(count) => read_windows(file, &request, count, size, seed)?,
            None => Dataset::open(file)?.image(0)?.read(&request)?.pixels.as_bytes().len(),
        };
        seconds.push(start.elapsed().as_secs_f64());
    }
    if arguments.has("--json") {
        println!("{}", serde_json::json!({ "seconds": seconds, "bytes": bytes }));
        return Ok(());
    }
    let best = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    println!("best of {repeat}: {:.3} ms, {:.0} MB/s", best * 1e3, bytes as f64 / 1e6 / best);
    Ok(())
}

/// Open the file once and read `count` windows at places that depend on the seed alone.
fn read_windows(file: &str, request: &ReadRequest<'_>, count: u64, size: u64, seed: u64) -> Result<usize, Failure> {
    let dataset = Dataset::open(file)?;
    let image = dataset.image(0)?;
    let (height, width) = (size.min(image.height()), size.min(image.width()));
    let mut state = seed;
    let mut below = |bound: u64| {
        // Knuth's MMIX generator; the high bits are the good ones.
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
