//! Printing that does not panic when the reader closes the pipe.
//!
//! `println!` of the standard library panics when the reader has closed the pipe, as in `swath info scene.tif | head -1`. The macros
//! here have the same names and end the program instead: silently if the pipe is closed, with a message on any other error.
//! `eprintln!` ignores errors.
//!
//! Names of files and metadata come from strangers. Everything that is printed as text passes [`printable`], so that it cannot move the
//! cursor, change colours, set the title of the terminal or reverse the order of characters.

use std::fmt::{self, Arguments, Write as _};
use std::io::{self, BufWriter, ErrorKind, Write};

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
    let mut printer = Printer { out: BufWriter::new(io::stdout().lock()), failure: None };
    let _ = printer.write_fmt(text);
    let printed = printer.failure.take().map_or_else(|| printer.out.flush(), Err);
    if let Err(error) = printed {
        if error.kind() == ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        let _ = writeln!(io::stderr(), "swath: standard output: {error}");
        std::process::exit(1);
    }
}

/// Prints text piece by piece: metadata can have tens of megabytes, and copies of it would take as much memory again.
struct Printer<W: Write> {
    out: W,
    failure: Option<io::Error>,
}

impl<W: Write> fmt::Write for Printer<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut raw = Raw(self);
        escape(text, |c| matches!(c, '\n' | '\t'), &mut raw)
    }
}

/// Prints without escaping.
struct Raw<'a, W: Write>(&'a mut Printer<W>);

impl<W: Write> fmt::Write for Raw<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.out.write_all(text.as_bytes()).map_err(|error| {
            self.0.failure = Some(error);
            fmt::Error
        })
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
fn printable(text: &str) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = escape(text, |c| matches!(c, '\n' | '\t'), &mut out);
    out
}

/// Escapes the same characters, and line feeds and tabs too, so that a text cannot look like several lines.
pub(crate) fn one_line(text: &str) -> OneLine<'_> {
    OneLine(text)
}

/// A text that is shown in one line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(self.0, |_| false, f)
    }
}

/// Writes a text whose active characters are escaped, except those that are `kept`.
fn escape(text: &str, kept: impl Fn(char) -> bool, out: &mut dyn fmt::Write) -> fmt::Result {
    let mut rest = text;
    while let Some((at, c)) = rest.char_indices().find(|&(_, c)| is_active(c) && !kept(c)) {
        out.write_str(&rest[..at])?;
        match c {
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}")?;
                }
            }
        }
        rest = &rest[at + c.len_utf8()..];
    }
    out.write_str(rest)
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
        assert_eq!(one_line("a\nepsg: 4326\t\u{7f}").to_string(), "a\\nepsg: 4326\\t\\u007f");
        assert_eq!(printable("\u{e0041}"), "\\udb40\\udc41");
    }

    #[test]
    fn letters_of_all_scripts_stay() {
        let text = "Zürich 東京 عربى ไทย é 🗺 \\u001b";
        assert_eq!(one_line(text).to_string(), text);
    }
}
