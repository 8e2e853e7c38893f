//! `swath bench`: how fast a file is opened and read, in this process.

use std::time::Instant;

use swath::{Dataset, ReadRequest};

use crate::command::{Arguments, Command, Failure, Flag, THREADS};

pub(crate) const COMMAND: Command = Command {
    name: "bench",
    operands: &["FILE"],
    summary: "Measure how fast a file is opened and read",
    details: "Opens and reads the file again and again, each time into fresh memory, and prints the time of each repeat.\n\n\
              Examples:\n  \
              swath bench dem.tif --threads 2\n  \
              swath bench cog.tif --windows 200 --size 256\n",
    flags: &[
        Flag { name: "--repeat", value: Some("N"), help: "How often. Default: 5." },
        Flag { name: "--window", value: Some("R0,C0,R1,C1"), help: "Read only this window." },
        Flag {
            name: "--windows",
            value: Some("K"),
            help: "Read K windows at random places instead of the whole image.",
        },
        Flag { name: "--size", value: Some("S"), help: "Width and height of the random windows. Default: 256." },
        Flag { name: "--seed", value: Some("N"), help: "Seed of the random places. Default: 1." },
        THREADS,
        Flag { name: "--json", value: None, help: "Print JSON: seconds of each repeat, bytes of one repeat." },
    ],
    run,
};

fn run(arguments: &Arguments<'_>) -> Result<(), Failure> {
    let file = arguments.operand(0);
    let repeat = arguments.number::<usize>("--repeat")?.unwrap_or(5).max(1);
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
