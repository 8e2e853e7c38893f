//! The `swath` command: a thin face over the `swath` library.
//!
//! Errors are one sentence on stderr. Exit code 1: it failed; 2: it was called wrongly.

#[macro_use]
mod output;

mod bench;
mod bench_device;
mod bench_sim;
mod command;
mod convert;
mod demo;
mod devices;
mod info;
mod latency;
mod npy;
mod picture;
mod progress;
mod read;
mod validate;

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args_os().skip(1).map(|text| text.to_string_lossy().into_owned()).collect();
    match command::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !matches!(failure, command::Failure::No) {
                // Nobody to tell is no reason to fail otherwise.
                let _ = writeln!(std::io::stderr(), "swath: {failure}");
            }
            failure.exit_code()
        }
    }
}
