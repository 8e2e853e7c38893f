//! `swath bench --device sim`: what batching buys where every read and every transfer takes its time.
//!
//! A simulated device and a simulated source: nothing is decoded, and nothing here says how fast a GPU is. What is measured is
//! what many small requests cost against few large ones.

use std::time::{Duration, Instant};

use serde_json::json;
use swath::gpu::{DeviceRaster, DeviceStats, Sim};
use swath::io::{Fetch, Memory, ReadAt, Source, Span};
use swath::{DType, Gpu};

use crate::bench::Bench;
use crate::failure::Failure;
use crate::latency::Latency;

const TILES: usize = 256;
/// Rows and columns of a tile of bytes: 16 KiB.
const SIDE: u64 = 128;
const TILE_BYTES: usize = (SIDE * SIDE) as usize;
/// From one tile to the next in the source: so far apart that no two are read at once.
const TILE_STEP: usize = TILE_BYTES + 8192;
/// What one read and one transfer take.
const LATENCY: Duration = Duration::from_millis(1);
/// Reads that may be under way at once.
const IN_FLIGHT: usize = 8;
/// The best time of a way to do it, and what the device was made to do each time.
struct Cost {
    milliseconds: f64,
    stats: DeviceStats,
}

/// The same bytes moved tile by tile and as one batch.
struct Comparison {
    key: &'static str,
    label: &'static str,
    one_by_one: Cost,
    batched: Cost,
}

pub(crate) fn run(bench: &Bench, repeat: usize) -> Result<(), Failure> {
    if let Some(file) = &bench.file {
        return Err(Failure::Usage(format!("--device sim reads no file; remove '{}'", file.display())));
    }
    if let Some(flag) = bench.file_flags().chain(bench.device_flags()).find(|flag| flag.1) {
        return Err(Failure::Usage(format!("{} does not apply to --device sim", flag.0)));
    }
    let file = generate();
    let source = Latency::new(Memory::new(file.clone()), LATENCY, IN_FLIGHT);
    let expected: Vec<u8> = file.chunks(TILE_STEP).flat_map(|step| &step[..TILE_BYTES]).copied().collect();
    let gpu = Gpu::new(Sim::new().latency(LATENCY));

    let (tiles, one_by_one_up) = best(repeat, &gpu, || read_one_by_one(&source, &gpu))?;
    let (batch, batched_up) = best(repeat, &gpu, || read_batched(&source, &gpu))?;
    let (first, one_by_one_down) = best(repeat, &gpu, || download_one_by_one(&tiles))?;
    let (second, batched_down) = best(repeat, &gpu, || download_batched(&batch))?;
    for (way, bytes) in [("one by one", first), ("batched", second)] {
        if bytes != expected {
            return Err(Failure::Failed(format!("the tiles moved {way} did not come back as they were")));
        }
    }
    let comparisons = [
        Comparison { key: "read", label: "source to device", one_by_one: one_by_one_up, batched: batched_up },
        Comparison { key: "back", label: "device to host", one_by_one: one_by_one_down, batched: batched_down },
    ];
    print(&comparisons, repeat, bench.json);
    Ok(())
}

/// A file that holds the tiles, each followed by bytes that belong to none.
fn generate() -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        // Knuth's MMIX generator; the high bits are the good ones.
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    (0..TILES * TILE_STEP).map(|_| next()).collect()
}

fn spans() -> impl Iterator<Item = Span> {
    (0..TILES).map(|i| Span { offset: (i * TILE_STEP) as u64, len: TILE_BYTES as u64 })
}

/// What it makes and the best of several times.
fn best<T>(repeat: usize, gpu: &Gpu, work: impl Fn() -> Result<T, Failure>) -> Result<(T, Cost), Failure> {
    let measure = || -> Result<(T, Cost), Failure> {
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

fn failed(error: &impl std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}

/// For each tile: read it, upload it, wait.
fn read_one_by_one(source: &impl ReadAt, gpu: &Gpu) -> Result<Vec<DeviceRaster>, Failure> {
    let mut bytes = vec![0; TILE_BYTES];
    let tile = |span: Span| {
        source.read_at(span.offset, &mut bytes).map_err(|error| failed(&error))?;
        DeviceRaster::upload(gpu, DType::U8, (1, SIDE, SIDE), false, &bytes).map_err(|error| failed(&error))
    };
    spans().map(tile).collect()
}

/// Ask for all tiles, upload them at once, wait once.
fn read_batched(source: &impl Source, gpu: &Gpu) -> Result<DeviceRaster, Failure> {
    let fetch = Fetch::plan(&spans().collect::<Vec<_>>()).map_err(|error| failed(&error))?;
    let mut staging = gpu.pin(fetch.bytes()).map_err(|error| failed(&error))?;
    source.fetch_into(&fetch, &mut staging).map_err(|error| failed(&error))?;
    let shape = (1, SIDE * TILES as u64, SIDE);
    DeviceRaster::upload(gpu, DType::U8, shape, false, &staging).map_err(|error| failed(&error))
}

/// For each tile: download it, wait.
fn download_one_by_one(tiles: &[DeviceRaster]) -> Result<Vec<u8>, Failure> {
    let mut bytes = vec![0; TILES * TILE_BYTES];
    for (tile, out) in tiles.iter().zip(bytes.chunks_mut(TILE_BYTES)) {
        tile.download(out).map_err(|error| failed(&error))?;
    }
    Ok(bytes)
}

/// Download all tiles, which lie side by side on the device, at once.
fn download_batched(batch: &DeviceRaster) -> Result<Vec<u8>, Failure> {
    let mut bytes = vec![0; TILES * TILE_BYTES];
    batch.download(&mut bytes).map_err(|error| failed(&error))?;
    Ok(bytes)
}

fn print(comparisons: &[Comparison], repeat: usize, as_json: bool) {
    let ratio = |compared: &Comparison| compared.one_by_one.milliseconds / compared.batched.milliseconds;
    if as_json {
        let cost = |cost: &Cost| {
            json!({
                "ms": cost.milliseconds,
                "uploads": cost.stats.uploads,
                "downloads": cost.stats.downloads,
                "synchronisations": cost.stats.synchronisations,
            })
        };
        let mut all = json!({
            "device": "sim",
            "tiles": TILES,
            "tile_bytes": TILE_BYTES,
            "latency_ms": LATENCY.as_secs_f64() * 1e3,
            "in_flight": IN_FLIGHT,
            "repeats": repeat,
        });
        for compared in comparisons {
            all[compared.key] = json!({
                "one_by_one": cost(&compared.one_by_one),
                "batched": cost(&compared.batched),
                "ratio": ratio(compared),
            });
        }
        println!("{all}");
        return;
    }
    println!(
        "Simulated: {TILES} tiles of {TILE_BYTES} bytes that do not lie side by side; each read and each transfer takes {:?}, {IN_FLIGHT} \
         reads at once; best of {repeat}",
        LATENCY,
    );
    println!("{:20}{:>16}{:>16}{:>10}", "", "one by one ms", "batched ms", "ratio");
    for compared in comparisons {
        let (one_by_one, batched) = (compared.one_by_one.milliseconds, compared.batched.milliseconds);
        println!("{:20}{one_by_one:>16.1}{batched:>16.1}{:>10.1}", compared.label, ratio(compared));
    }
    println!("No GPU is measured here: the device is host memory with delays.");
}
