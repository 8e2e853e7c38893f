//! Prints the results, as tables or as JSON.

use serde_json::{Value, json};

use super::measure::Profiled;
use super::{Bench, Outcome};
use crate::devices::{describe_libraries, libraries_json};

/// Shorter times are too inexact to compute a speed from.
const SHORTEST: f64 = 10e-6;

/// MB/s, or `-` if it cannot be computed.
fn speed(bytes: u64, seconds: f64) -> String {
    if bytes == 0 || seconds < SHORTEST { "-".into() } else { format!("{:.0}", bytes as f64 / 1e6 / seconds) }
}

/// Prints all results as one JSON object.
pub(super) fn json(bench: &Bench, outcomes: &[Outcome], side: usize) {
    let info = bench.gpu.info();
    let cases: Vec<_> = outcomes.iter().map(case).collect();
    let all = json!({
        "device": info.name,
        "driver": info.driver,
        "api": info.api.name(),
        "gpu": info.is_gpu,
        "memory": info.memory,
        "libraries": bench.libraries.as_ref().map(libraries_json),
        "size": side,
        "repeat": bench.repeat.times,
        "scratch": bench.scratch.folder(),
        "correct": outcomes.iter().all(|outcome| outcome.problem().is_none()),
        "cases": cases,
    });
    println!("{all}");
}

fn case(outcome: &Outcome) -> Value {
    let (case, checked) = (&outcome.case, outcome.checked.as_ref().ok());
    let text = |text: Option<&String>| text.filter(|text| !text.is_empty()).cloned();
    let measured = outcome.measured.as_ref();
    json!({
        "codec": case.codec,
        "decoder": case.by.name(),
        "predictor": case.predictor.tag(),
        "storage": case.storage.name(),
        "same_pixels": checked.map(|checked| checked.same_pixels()),
        "same_bytes": checked.and_then(|checked| checked.same_bytes),
        "largest_difference": checked.and_then(|checked| checked.largest_difference),
        "problem": outcome.problem(),
        "read_by": text(checked.map(|checked| &checked.read_by)),
        "decoded_by": text(checked.map(|checked| &checked.decoded_by)),
        "compressed_by": text(checked.map(|checked| &checked.compressed_by)),
        "written_by": text(checked.map(|checked| &checked.written_by)),
        "fallbacks": checked.map(|checked| &checked.fallbacks),
        "bytes": measured.map(|measured| measured.bytes),
        "seconds": measured.map(|measured| json!({
            "cpu_read": measured.cpu_read,
            "device_read": measured.device_read,
            "device_read_to_device": measured.device_read_to_device,
            "cpu_write": measured.cpu_write,
            "device_write": measured.device_write,
        })),
        "profiled_seconds": measured.map(|measured| json!({
            "read": measured.read.seconds,
            "write": measured.write.seconds,
        })),
        "stages": measured.map(|measured| {
            [stages("read", &measured.read), stages("write", &measured.write)].concat()
        }),
    })
}

fn stages(during: &str, profiled: &Profiled) -> Vec<Value> {
    let stage = |stage: &swath_gpu::Stage| {
        json!({
            "during": during, "name": stage.name, "calls": stage.calls, "seconds": stage.seconds,
            "bytes": (stage.bytes > 0).then_some(stage.bytes),
        })
    };
    profiled.stages.iter().map(stage).collect()
}

/// Prints all results as tables.
pub(super) fn table(bench: &Bench, outcomes: &[Outcome], side: usize) {
    let info = bench.gpu.info();
    println!("{} ({})", info.name, info.driver);
    if let Some(libraries) = &bench.libraries {
        println!("{}", describe_libraries(libraries, true));
    }
    let ways = |way: fn(&super::Checked) -> &String| {
        let mut ways: Vec<&str> = Vec::new();
        for way in outcomes.iter().filter_map(|outcome| outcome.checked.as_ref().ok()).map(way) {
            if !way.is_empty() && !ways.contains(&way.as_str()) {
                ways.push(way);
            }
        }
        ways.join("; ")
    };
    println!("Files in {}, moved to the device by: {}", bench.scratch.folder().display(), ways(|found| &found.read_by));
    println!("Compressed by: {}", ways(|found| &found.compressed_by));
    let direct = ways(|found| &found.written_by);
    println!("Written by: {}", if direct.is_empty() { "the host" } else { &direct });
    let wrong = outcomes.iter().filter(|outcome| outcome.problem().is_some()).count();
    println!("\nCompared with the CPU: {} cases, {wrong} wrong", outcomes.len());
    outcomes.iter().filter_map(Outcome::problem).for_each(|problem| println!("  WRONG: {problem}"));
    if wrong == 0 {
        println!(
            "  All pixels equal those of the CPU, and so do all bytes of files, except Deflate and those of NVIDIA's libraries."
        );
        let checked = outcomes.iter().filter_map(|outcome| outcome.checked.as_ref().ok());
        if let Some(largest) = checked.filter_map(|checked| checked.largest_difference).max() {
            println!("  JPEG decoders round differently: samples differ by at most {largest} from those of the CPU.");
        }
    }
    for outcome in outcomes {
        let fallbacks = outcome.checked.as_ref().map(|checked| &checked.fallbacks[..]).unwrap_or_default();
        fallbacks.iter().for_each(|fallback| println!("  fallback: {}: {fallback}", outcome.case));
    }
    if outcomes.iter().all(|outcome| outcome.measured.is_none()) {
        return;
    }
    println!(
        "\nMB/s of pixels, {side} x {side} as COG from and to files, best of {}; the time of a write includes the sync to disk",
        bench.repeat.times,
    );
    println!("{:<48}{:>30}{:>20}", "", "read", "write");
    println!("{:<48}{:>10}{:>10}{:>10}{:>10}{:>10}", "", "CPU", "to host", "to device", "CPU", "device");
    for outcome in outcomes {
        let Some(measured) = &outcome.measured else { continue };
        let columns = [
            measured.cpu_read,
            measured.device_read,
            measured.device_read_to_device,
            measured.cpu_write,
            measured.device_write,
        ];
        let columns: String =
            columns.into_iter().map(|seconds| format!("{:>10}", speed(measured.bytes as u64, seconds))).collect();
        println!("{:<48}{columns}", outcome.case.to_string());
    }
    println!("\nStages of one more read and write. Each stage is waited for, so the sum is more than the times above");
    println!("{:<48}{:>10}{:>12}{:>12}{:>16}", "", "calls", "ms", "MB/s moved", "MB/s of pixels");
    for outcome in outcomes {
        let Some(measured) = &outcome.measured else { continue };
        for (what, profiled) in [("read", &measured.read), ("write", &measured.write)] {
            println!("{}: {what}, {:.3} ms", outcome.case, profiled.seconds * 1e3);
            for stage in &profiled.stages {
                println!(
                    "  {:<46}{:>10}{:>12.3}{:>12}{:>16}",
                    stage.name,
                    stage.calls,
                    stage.seconds * 1e3,
                    speed(stage.bytes, stage.seconds),
                    speed(measured.bytes as u64, stage.seconds),
                );
            }
            let rest = profiled.rest();
            println!("  {:<46}{:>22.3}{:>28}", "the host alone", rest * 1e3, speed(measured.bytes as u64, rest));
        }
    }
}
