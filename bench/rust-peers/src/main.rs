//! Runs the Rust crates that the benchmark compares Swath with: `rust-peers tiff` or `rust-peers geotiff-rust`.
//!
//! The protocol is that of bench/worker.py: one job per line on stdin, one measurement per line on stdout, both JSON.

mod by_geotiff_reader;
mod by_tiff;
mod truth;

use std::fs;
use std::io::{BufRead, Write};
use std::time::Instant;

use cpu_time::ProcessTime;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::truth::Truth;

type Error = Box<dyn std::error::Error>;

/// A job as Python sends it. Fields that only other contestants need are ignored.
#[derive(Deserialize)]
struct Job {
    op: String,
    threads: usize,
    path: String,
    paths: Vec<String>,
    source: String,
    mean_error: f64,
    windows: Vec<[usize; 4]>,
    check: bool,
}

/// Receives the pixels of each image or window, with bands interleaved.
type Sink<'a> = &'a mut dyn FnMut(Option<[usize; 4]>, &[u8]) -> Result<(), Error>;

/// One crate. Returns `false` if the crate does not take part in the operation.
type Contestant = fn(&Job, Sink<'_>) -> Result<bool, Error>;

/// The peak memory of the process, or its current memory, in bytes.
fn memory(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn check(contestant: Contestant, job: &Job) -> Result<Value, Error> {
    let truth = Truth::load(&job.source)?;
    let supported = contestant(job, &mut |window, pixels| truth.compare(window, pixels, job.mean_error))?;
    Ok(if supported { json!({}) } else { json!({ "unsupported": "no such operation" }) })
}

fn measure(contestant: Contestant, job: &Job) -> Result<Value, Error> {
    let _ = fs::write("/proc/self/clear_refs", "5");
    let before = memory("VmRSS");
    let (start, cpu) = (Instant::now(), ProcessTime::now());
    let supported = contestant(job, &mut |_, pixels| {
        std::hint::black_box(pixels);
        Ok(())
    })?;
    if !supported {
        return Ok(json!({ "unsupported": "no such operation" }));
    }
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu.elapsed().as_secs_f64());
    Ok(json!({ "seconds": seconds, "cpu": cpu, "memory": memory("VmHWM").saturating_sub(before) }))
}

fn main() -> Result<(), Error> {
    let (contestant, version): (Contestant, &str) = match std::env::args().nth(1).as_deref() {
        Some("tiff") => (by_tiff::run, "tiff 0.11"),
        Some("geotiff-rust") => (by_geotiff_reader::run, "geotiff-reader 0.10"),
        other => return Err(format!("expected tiff or geotiff-rust, got {other:?}").into()),
    };
    let mut out = std::io::stdout();
    writeln!(out, "{}", json!({ "version": version }))?;
    for line in std::io::stdin().lock().lines() {
        let job: Job = serde_json::from_str(&line?)?;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(job.threads).build()?;
        // Errors leave the pool as text, because they need not be `Send`.
        let answer = pool.install(|| {
            let result = if job.check { check(contestant, &job) } else { measure(contestant, &job) };
            result.unwrap_or_else(|error| json!({ "failed": error.to_string() }))
        });
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}
