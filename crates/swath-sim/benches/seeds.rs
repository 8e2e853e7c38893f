//! Compares tiles that are moved one by one with tiles that are moved as one batch, as the seed texts do.
//!
//! `make bench-seeds`, or `cargo bench -p swath-sim --bench seeds -- --repeat 5`, moves 256 tiles from a source whose reads take 1 ms to a
//! simulated device whose transfers take 1 ms, and back. Nothing is decoded, and no GPU is measured: the times are those of many small
//! requests against few large ones.
//!
//! The bench checks itself, and `cargo test` runs it too: all bytes must return unchanged, the transfers are counted, and a batch must be
//! several times faster.

#![expect(clippy::print_stdout, reason = "the table is the result")]

use std::error::Error;
use std::time::{Duration, Instant};

use swath_codec::DType;
use swath_gpu::{DeviceRaster, DeviceStats, Gpu};
use swath_io::{Fetch, Memory, ReadAt, Source, Span};
use swath_sim::{CopyDevice, SlowSource};

type Outcome<T> = Result<T, Box<dyn Error>>;

const TILES: usize = 256;
/// Rows and columns of a tile of bytes: 16 KiB.
const SIDE: u64 = 128;
const TILE_BYTES: usize = (SIDE * SIDE) as usize;
/// Distance between tiles in the source. It is so large that one read never covers two tiles.
const TILE_STEP: usize = TILE_BYTES + 8192;
/// Duration of one read and of one transfer.
const LATENCY: Duration = Duration::from_millis(1);
/// Reads that run at once.
const IN_FLIGHT: usize = 8;
/// With 8 reads at once, the ratios are at best 15 and 256. A busy machine wakes threads late, so only the order of magnitude is checked.
const LEAST_RATIO: f64 = 4.0;

/// The best time of a method, and the work of the device in each run.
struct Cost {
    milliseconds: f64,
    stats: DeviceStats,
}

/// The same bytes, moved tile by tile and as one batch.
struct Comparison {
    label: &'static str,
    one_by_one: Cost,
    batched: Cost,
    /// The latencies that each method cannot avoid.
    waits: (usize, usize),
    transfers: fn(&DeviceStats) -> (u64, u64),
}

fn main() -> Outcome<()> {
    let repeat = repeats()?;
    let file = generate();
    let source = SlowSource::new(Memory::new(file.clone()), LATENCY, IN_FLIGHT);
    let expected: Vec<u8> = file.chunks(TILE_STEP).flat_map(|step| &step[..TILE_BYTES]).copied().collect();
    let gpu = Gpu::new(CopyDevice::new().latency(LATENCY));

    let (tiles, one_by_one_up) = best(repeat, &gpu, || read_one_by_one(&source, &gpu))?;
    let (batch, batched_up) = best(repeat, &gpu, || read_batched(&source, &gpu))?;
    let (first, one_by_one_down) = best(repeat, &gpu, || download_one_by_one(&tiles))?;
    let (second, batched_down) = best(repeat, &gpu, || download_batched(&batch))?;
    assert!(first == expected, "tiles that were moved one by one have changed");
    assert!(second == expected, "tiles that were moved as a batch have changed");
    let comparisons = [
        Comparison {
            label: "source to device",
            one_by_one: one_by_one_up,
            batched: batched_up,
            waits: (2 * TILES, TILES / IN_FLIGHT + 1),
            transfers: |stats| (stats.uploads, stats.downloads),
        },
        Comparison {
            label: "device to host",
            one_by_one: one_by_one_down,
            batched: batched_down,
            waits: (TILES, 1),
            transfers: |stats| (stats.downloads, stats.uploads),
        },
    ];
    print(&comparisons, repeat);
    comparisons.iter().for_each(check);
    Ok(())
}

/// `--repeat N`; by default 5 under `cargo bench`, which passes `--bench`, and 1 under `cargo test`.
fn repeats() -> Outcome<usize> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given = arguments.iter().position(|argument| argument == "--repeat");
    match given {
        Some(at) => Ok(arguments.get(at + 1).ok_or("--repeat needs a number")?.parse::<usize>()?.max(1)),
        None if arguments.iter().any(|argument| argument == "--bench") => Ok(5),
        None => Ok(1),
    }
}

/// Returns a file that contains the tiles, each followed by bytes that belong to no tile.
fn generate() -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        // Knuth's MMIX generator. Its high bits are the most random.
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    (0..TILES * TILE_STEP).map(|_| next()).collect()
}

fn spans() -> impl Iterator<Item = Span> {
    (0..TILES).map(|i| Span { offset: (i * TILE_STEP) as u64, len: TILE_BYTES as u64 })
}

/// The result of the last run, and the cost of the fastest.
fn best<T>(repeat: usize, gpu: &Gpu, work: impl Fn() -> Outcome<T>) -> Outcome<(T, Cost)> {
    let measure = || -> Outcome<(T, Cost)> {
        let (before, start) = (gpu.stats(), Instant::now());
        let made = work()?;
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        Ok((made, Cost { milliseconds, stats: gpu.stats().since(&before) }))
    };
    let (mut made, mut cost) = measure()?;
    for _ in 1..repeat {
        let (again, new) = measure()?;
        made = again;
        cost.milliseconds = cost.milliseconds.min(new.milliseconds);
    }
    Ok((made, cost))
}

/// For each tile: read it, upload it, wait.
fn read_one_by_one(source: &impl ReadAt, gpu: &Gpu) -> Outcome<Vec<DeviceRaster>> {
    let mut bytes = vec![0; TILE_BYTES];
    let tile = |span: Span| {
        source.read_at(span.offset, &mut bytes)?;
        Ok(DeviceRaster::upload(gpu, DType::U8, (1, SIDE, SIDE), false, &bytes)?)
    };
    spans().map(tile).collect()
}

/// Request all tiles, upload them in one transfer, wait once.
fn read_batched(source: &impl Source, gpu: &Gpu) -> Outcome<DeviceRaster> {
    let fetch = Fetch::plan(&spans().collect::<Vec<_>>())?;
    let mut staging = gpu.pin(fetch.bytes())?;
    source.fetch_into(&fetch, &mut staging)?;
    let shape = (1, SIDE * TILES as u64, SIDE);
    Ok(DeviceRaster::upload(gpu, DType::U8, shape, false, &staging)?)
}

/// For each tile: download it, wait.
fn download_one_by_one(tiles: &[DeviceRaster]) -> Outcome<Vec<u8>> {
    let mut bytes = vec![0; TILES * TILE_BYTES];
    for (tile, out) in tiles.iter().zip(bytes.chunks_mut(TILE_BYTES)) {
        tile.download(out)?;
    }
    Ok(bytes)
}

/// Download all tiles, which are contiguous on the device, in one transfer.
fn download_batched(batch: &DeviceRaster) -> Outcome<Vec<u8>> {
    let mut bytes = vec![0; TILES * TILE_BYTES];
    batch.download(&mut bytes)?;
    Ok(bytes)
}

fn ratio(compared: &Comparison) -> f64 {
    compared.one_by_one.milliseconds / compared.batched.milliseconds
}

fn print(comparisons: &[Comparison], repeat: usize) {
    println!(
        "Simulated: {TILES} tiles of {TILE_BYTES} bytes that are not adjacent; each read and each transfer takes {LATENCY:?}, {IN_FLIGHT} \
         reads at once; best of {repeat}",
    );
    println!("{:20}{:>16}{:>16}{:>10}", "", "one by one ms", "batched ms", "ratio");
    for compared in comparisons {
        let (one_by_one, batched) = (compared.one_by_one.milliseconds, compared.batched.milliseconds);
        println!("{:20}{one_by_one:>16.1}{batched:>16.1}{:>10.1}", compared.label, ratio(compared));
    }
    println!("No GPU is measured: the device is host memory with delays.");
}

fn check(compared: &Comparison) {
    let Comparison { label, one_by_one, batched, waits, transfers } = compared;
    assert!(ratio(compared) >= LEAST_RATIO, "{label}: a batch is only {:.1} times faster", ratio(compared));
    for (cost, waits, count) in [(one_by_one, waits.0, TILES as u64), (batched, waits.1, 1)] {
        // Faster than the latencies means that nothing was simulated.
        let least = waits as f64 * LATENCY.as_secs_f64() * 1e3;
        assert!(cost.milliseconds >= least, "{label}: {} ms, but at least {least} were expected", cost.milliseconds);
        assert_eq!((transfers(&cost.stats), cost.stats.synchronisations), ((count, 0), count), "{label}");
    }
}
