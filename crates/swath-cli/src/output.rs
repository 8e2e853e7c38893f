//! Printing to somebody who may be gone.
//!
//! `println!` of the standard library panics when nobody reads any more, as in `swath info scene.tif | head -1`. The macros of the same
//! names that stand here end the program instead: in silence where the reader has had enough, with a sentence where it is an error.
//! Nobody to warn is no reason to end.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

/// As the macro of the standard library.
macro_rules! print {
    ($($text:tt)*) => { $crate::output::write(format_args!($($text)*)) };
}

/// As the macro of the standard library.
macro_rules! println {
    ($($text:tt)*) => { $crate::output::write(format_args!("{}\n", format_args!($($text)*))) };
}

/// As the macro of the standard library.
macro_rules! eprintln {
    ($($text:tt)*) => { { let _ = ::std::io::Write::write_fmt(&mut ::std::io::stderr(), format_args!("{}\n", format_args!($($text)*))); } };
}

/// Print, or end the program. Whatever a command makes is complete before it tells of it.
pub(crate) fn write(text: Arguments<'_>) {
    if let Err(error) = io::stdout().write_fmt(text) {
        if error.kind() == ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        let _ = writeln!(io::stderr(), "swath: standard output: {error}");
        std::process::exit(1);
    }
}
