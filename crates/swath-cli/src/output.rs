//! Printing that does not panic when the reader closes the pipe.
//!
//! `println!` of the standard library panics when the reader has closed the pipe, as in `swath info scene.tif | head -1`. The macros
//! here have the same names and end the program instead: silently if the pipe is closed, with a message on any other error.
//! `eprintln!` ignores errors.
//!
//! Names of files and metadata come from strangers. Everything that is printed as text passes [`printable`], so that it cannot move the
//! cursor, change colours, set the title of the terminal or reverse the order of characters.

use std::fmt::{Arguments, Write as _};
use std::io::{self, ErrorKind, Write};

use swath::Dataset;

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
    ($($text:tt)*) => { $crate::output::write_error(format_args!($($text)*)) };
}

/// Prints, or ends the program on an error. Commands print only after their output files are complete.
pub(crate) fn write(text: Arguments<'_>) {
    if let Err(error) = io::stdout().write_all(printable(&text.to_string()).as_bytes()) {
        if error.kind() == ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        let _ = writeln!(io::stderr(), "swath: standard output: {error}");
        std::process::exit(1);
    }
}

/// Prints a line to standard error.
pub(crate) fn write_error(text: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{}", printable(&text.to_string()));
}

/// Warns that the chain of IFDs is broken. Commands call it after their work, so that a failure is one line.
pub(crate) fn warn_of_chain(dataset: &Dataset) {
    if let Some(broken) = dataset.broken_chain() {
        eprintln!("swath: warning: {}: {broken}", one_line(&dataset.name()));
    }
}

/// Escapes the characters that a terminal does not show as themselves, except line feeds and tabs. The escapes are those of JSON, so
/// that JSON stays valid.
pub(crate) fn printable(text: &str) -> String {
    escape(text, |c| matches!(c, '\n' | '\t'))
}

/// Escapes the same characters, and line feeds and tabs too, so that a text cannot look like several lines.
pub(crate) fn one_line(text: &str) -> String {
    escape(text, |_| false)
}

fn escape(text: &str, kept: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if kept(c) || !is_active(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out
}

/// Whether a character changes what a terminal does or shows instead of being shown: controls (C0, DEL, C1), controls of the writing
/// direction, separators of lines, annotations and tags. The joiners that some scripts need stay.
fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}')
        || matches!(c, '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_direction_controls_are_shown_not_obeyed() {
        assert_eq!(
            printable("\u{1b}[2J\u{7}a\u{9b}31m\u{202e}b\r\n\tc"),
            "\\u001b[2J\\u0007a\\u009b31m\\u202eb\\r\n\tc"
        );
        assert_eq!(one_line("a\nepsg: 4326\t\u{7f}"), "a\\nepsg: 4326\\t\\u007f");
        assert_eq!(printable("\u{e0041}"), "\\udb40\\udc41");
    }

    #[test]
    fn letters_of_all_scripts_stay() {
        let text = "Zürich 東京 عربى ไทย é 🗺 \\u001b";
        assert_eq!(one_line(text), text);
    }
}
