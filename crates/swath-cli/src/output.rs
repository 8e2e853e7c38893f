//! Printing that does not panic when the reader closes the pipe.
//!
//! `println!` of the standard library panics when the reader has closed the pipe, as in `swath info scene.tif | head -1`. The macros
//! here have the same names and end the program instead: silently if the pipe is closed, with a message on any other error.
//! `eprintln!` ignores errors.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

/// Like `print!` of the standard library.
macro_rules! print {
    ($($text:tt)*) => { $crate::output::write(format_args!($($text)*)) };
}

/// Like `println!` of the standard library.
macro_rules! println {
    ($($text:tt)*) => { $crate::output::write(format_args!("{}\n", format_args!($($text)*))) };
}

/// Like `eprintln!` of the standard library.
macro_rules! eprintln {
    ($($text:tt)*) => { { let _ = ::std::io::Write::write_fmt(&mut ::std::io::stderr(), format_args!("{}\n", format_args!($($text)*))); } };
}

/// Prints, or ends the program on an error. Commands print only after their output files are complete.
pub(crate) fn write(text: Arguments<'_>) {
    if let Err(error) = io::stdout().write_fmt(text) {
        if error.kind() == ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        let _ = writeln!(io::stderr(), "swath: standard output: {error}");
        std::process::exit(1);
    }
}
