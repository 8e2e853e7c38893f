//! The `swath` command: a thin layer over the `swath` library.
//!
//! An error is one sentence on stderr. Exit codes: 0 success, 1 failure, 2 wrong usage.

#[macro_use]
mod output;

mod bench;
mod bench_device;
mod cli;
mod convert;
mod demo;
mod devices;
mod failure;
mod flags;
mod info;
mod npy;
mod picture;
mod progress;
mod read;
mod shell;
mod validate;

use std::process::ExitCode;

use crate::failure::Failure;

fn main() -> ExitCode {
    swath::io::share_heap_if_limited();
    swath::io::report_file_size_limit();
    match cli::run(std::env::args_os()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !matches!(failure, Failure::No) {
                eprintln!("swath: {failure}");
            }
            failure.exit_code()
        }
    }
}
