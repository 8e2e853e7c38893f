//! Commands and flags as data: parsing, `--help` and the errors all come from the tables of the commands.

use std::fmt::Display;
use std::process::ExitCode;
use std::str::FromStr;

use swath::{CodecChoice, Device, FallbackPolicy, Storage};

/// One flag of a command.
pub(crate) struct Flag {
    /// With its dashes: `--window`.
    pub(crate) name: &'static str,
    /// What it takes, `None` for a switch.
    pub(crate) value: Option<&'static str>,
    /// A sentence or two.
    pub(crate) help: &'static str,
}

/// One command.
pub(crate) struct Command {
    pub(crate) name: &'static str,
    /// Names of the operands; those in brackets may be left out.
    pub(crate) operands: &'static [&'static str],
    /// One line.
    pub(crate) summary: &'static str,
    /// What a newcomer should know, with examples.
    pub(crate) details: &'static str,
    pub(crate) flags: &'static [Flag],
    pub(crate) run: fn(&Arguments<'_>) -> Result<(), Failure>,
}

/// All commands, in the order of `swath --help`.
const COMMANDS: &[&Command] = &[
    &crate::info::COMMAND,
    &crate::read::COMMAND,
    &crate::convert::COMMAND,
    &crate::validate::COMMAND,
    &crate::bench::COMMAND,
    &crate::devices::COMMAND,
    &crate::demo::COMMAND,
];

/// The threads flag, which several commands share.
pub(crate) const THREADS: Flag = Flag {
    name: "--threads",
    value: Some("N"),
    help: "Threads to use. Default: the cores this process may use, or SWATH_THREADS.",
};

/// The flags that choose a device, which several commands share.
pub(crate) const DEVICE: Flag = Flag {
    name: "--device",
    value: Some(swath::Device::NAMES),
    help: "Where to do the work; auto takes the first GPU there is, else the CPU. Default: cpu, or SWATH_DEVICE.",
};
pub(crate) const FALLBACK: Flag = Flag {
    name: "--fallback",
    value: Some("auto|strict"),
    help: "What the device cannot do: the CPU does it, or it is an error. Default: auto.",
};
pub(crate) const DECODER: Flag = Flag {
    name: "--decoder",
    value: Some(CodecChoice::NAMES),
    help: "Who decodes on a CUDA device: NVIDIA's libraries, or our kernels, which are safe with files from strangers. Default: auto, \
           the libraries where they are installed, or SWATH_DECODER.",
};
pub(crate) const ENCODER: Flag = Flag {
    name: "--encoder",
    value: Some(CodecChoice::NAMES),
    help: "Who compresses when a CUDA device writes: NVIDIA's libraries, which make other bytes of the same pixels, or our own. Default: \
           auto, the libraries where they are installed, or SWATH_ENCODER.",
};
pub(crate) const STORAGE: Flag = Flag {
    name: "--storage",
    value: Some(Storage::NAMES),
    help: "By what bytes reach a CUDA device and leave it: cuFile, or the host. Default: auto, cuFile where it needs no host memory, or \
           SWATH_STORAGE.",
};
pub(crate) const GPU_MEMORY: Flag = Flag {
    name: "--gpu-memory",
    value: Some("MB"),
    help: "Device memory to use at most, in millions of bytes. Default: 256 MiB to read, and what a band of rows takes to write.",
};

/// The flags that choose a part of an image, which several commands share.
pub(crate) const WINDOW: Flag = Flag {
    name: "--window",
    value: Some("R0,C0,R1,C1"),
    help: "Rows R0 to R1 and columns C0 to C1 of the level, the ends not included. Default: all.",
};
pub(crate) const BANDS: Flag =
    Flag { name: "--bands", value: Some("1,3"), help: "Bands to read, counted from 1, in this order. Default: all." };

/// Flags that may be written shorter, by commands that have them.
const SHORT: &[(&str, &str)] = &[("-v", "--verbose")];

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was called wrongly.
    Misuse(String),
    /// It was called rightly and failed.
    Failed(String),
    /// It did its work, the answer is no, and the answer has been printed.
    No,
}

impl Failure {
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Misuse(_) => ExitCode::from(2),
            Failure::Failed(_) | Failure::No => ExitCode::from(1),
        }
    }

    /// A failure to do something with a file.
    pub(crate) fn file(what: &str, path: &str, error: impl Display) -> Failure {
        Failure::Failed(format!("cannot {what} {path}: {error}"))
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Failure::Misuse(message) | Failure::Failed(message)) = self else { return Ok(()) };
        // One sentence on one line, whatever a file name or a library put into it.
        let line: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        f.write_str(&line)
    }
}

impl From<swath::Error> for Failure {
    fn from(error: swath::Error) -> Failure {
        Failure::Failed(match error {
            // The flags count bands from 1.
            swath::Error::Band { band, count } => format!("band {} was asked for, but the image has {count}", band + 1),
            swath::Error::Source(swath::io::Error::Open { path, .. }) if path.to_string_lossy().contains("://") => {
                format!("{} is an address: the command reads files, the Python package addresses too", path.display())
            }
            swath::Error::Exists { file } => format!("{file} exists; --overwrite replaces it"),
            other => other.to_string(),
        })
    }
}

/// The operands and flags that a command was called with.
pub(crate) struct Arguments<'a> {
    operands: Vec<&'a str>,
    flags: Vec<(&'static str, &'a str)>,
}

impl<'a> Arguments<'a> {
    /// Operand `i`, which is required; it is there, or the command would not run.
    pub(crate) fn operand(&self, i: usize) -> &'a str {
        self.operands[i]
    }

    /// Operand `i`, which may be left out.
    pub(crate) fn optional_operand(&self, i: usize) -> Option<&'a str> {
        self.operands.get(i).copied()
    }

    /// The names of the flags that were given.
    pub(crate) fn flags(&self) -> impl Iterator<Item = &'static str> {
        self.flags.iter().map(|(name, _)| *name)
    }

    /// Whether a switch was given.
    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|(name, _)| *name == flag)
    }

    /// The value of a flag; the last one counts.
    pub(crate) fn text(&self, flag: &str) -> Option<&'a str> {
        self.flags.iter().rev().find(|(name, _)| *name == flag).map(|(_, value)| *value)
    }

    /// The value of a flag as a number.
    pub(crate) fn number<T: FromStr>(&self, flag: &str) -> Result<Option<T>, Failure> {
        self.text(flag).map(|text| parse(flag, text)).transpose()
    }

    /// The device that was asked for.
    pub(crate) fn device(&self) -> Result<Device, Failure> {
        let variable = std::env::var("SWATH_DEVICE").ok().filter(|name| !name.is_empty());
        let name = self.text("--device").or(variable.as_deref()).unwrap_or("cpu");
        Device::named(name).map_err(|error| match error {
            swath::Error::DeviceName { .. } => Failure::Misuse(format!("--device: {error}")),
            other => other.into(),
        })
    }

    /// What to do when a device cannot.
    pub(crate) fn fallback(&self) -> Result<FallbackPolicy, Failure> {
        match self.text("--fallback") {
            None | Some("auto") => Ok(FallbackPolicy::Auto),
            Some("strict") => Ok(FallbackPolicy::Strict),
            Some(other) => Err(Failure::Misuse(format!("--fallback is auto or strict, not '{other}'"))),
        }
    }

    /// Who decodes or encodes on a device: `--decoder` or `--encoder`.
    pub(crate) fn codec(&self, flag: &'static str) -> Result<CodecChoice, Failure> {
        let variable = if flag == "--decoder" { "SWATH_DECODER" } else { "SWATH_ENCODER" };
        self.choice(flag, variable, CodecChoice::NAMES, CodecChoice::named)
    }

    /// By what bytes reach a device.
    pub(crate) fn storage(&self) -> Result<Storage, Failure> {
        self.choice("--storage", "SWATH_STORAGE", Storage::NAMES, Storage::named)
    }

    /// One of some names, from a flag or else from a variable.
    fn choice<T: Default>(
        &self,
        flag: &str,
        variable: &str,
        names: &str,
        named: impl Fn(&str) -> Option<T>,
    ) -> Result<T, Failure> {
        let told = std::env::var(variable).ok().filter(|name| !name.is_empty());
        let name = match self.text(flag).or(told.as_deref()) {
            Some(name) => name,
            None => return Ok(T::default()),
        };
        named(name).ok_or_else(|| Failure::Misuse(format!("{flag} is one of {names}, not '{name}'")))
    }

    /// The device memory to use at most, in bytes.
    pub(crate) fn gpu_memory(&self) -> Result<Option<u64>, Failure> {
        Ok(self.number::<u64>("--gpu-memory")?.map(|megabytes| megabytes.saturating_mul(1_000_000)))
    }

    /// The value of a flag as numbers with commas between.
    pub(crate) fn numbers<T: FromStr>(&self, flag: &str) -> Result<Option<Vec<T>>, Failure> {
        self.text(flag).map(|text| text.split(',').map(|part| parse(flag, part)).collect()).transpose()
    }
}

fn parse<T: FromStr>(flag: &str, text: &str) -> Result<T, Failure> {
    text.trim().parse().map_err(|_| Failure::Misuse(format!("{flag}: '{text}' is not a number of the kind it takes")))
}

/// Run the command that the arguments name.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let Some(first) = arguments.first() else {
        return Err(Failure::Misuse("no command; see 'swath --help'".into()));
    };
    match first.as_str() {
        "--help" | "-h" | "help" => {
            match arguments.get(1).and_then(|name| COMMANDS.iter().find(|command| command.name == name)) {
                Some(command) => print!("{}", help(command)),
                None => print!("{}", overview()),
            }
            Ok(())
        }
        "--version" | "-V" => {
            println!("swath {}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        name => {
            let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
                return Err(Failure::Misuse(format!("there is no command '{name}'; see 'swath --help'")));
            };
            if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
                print!("{}", help(command));
                return Ok(());
            }
            (command.run)(&arrange(command, &arguments[1..])?)
        }
    }
}

/// Sort the arguments into operands and flags. `--flag value` and `--flag=value` are the same; `--` ends the flags.
fn arrange<'a>(command: &Command, arguments: &'a [String]) -> Result<Arguments<'a>, Failure> {
    let misuse = |message: String| Failure::Misuse(format!("{message}; see 'swath {} --help'", command.name));
    let mut arranged = Arguments { operands: Vec::new(), flags: Vec::new() };
    let mut rest = arguments.iter().map(String::as_str);
    let mut flags_ended = false;
    while let Some(argument) = rest.next() {
        let argument = match SHORT.iter().find(|(short, _)| *short == argument) {
            Some((_, long)) if !flags_ended && command.flags.iter().any(|flag| flag.name == *long) => long,
            _ => argument,
        };
        if flags_ended || !argument.starts_with("--") {
            arranged.operands.push(argument);
            continue;
        }
        if argument == "--" {
            flags_ended = true;
            continue;
        }
        let (name, attached) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument, None),
        };
        let flag = command.flags.iter().find(|flag| flag.name == name);
        let flag = flag.ok_or_else(|| misuse(format!("there is no flag {name}")))?;
        let value = match (flag.value, attached) {
            (None, None) => "",
            (None, Some(_)) => return Err(misuse(format!("{name} takes no value"))),
            (Some(_), Some(value)) => value,
            (Some(what), None) => rest.next().ok_or_else(|| misuse(format!("{name} needs a value: {what}")))?,
        };
        arranged.flags.push((flag.name, value));
    }
    match command.operands.get(arranged.operands.len()).filter(|name| !name.starts_with('[')) {
        Some(missing) => Err(misuse(format!("{missing} is missing"))),
        None if arranged.operands.len() > command.operands.len() => {
            Err(misuse(format!("'{}' is one operand too many", arranged.operands[command.operands.len()])))
        }
        None => Ok(arranged),
    }
}

fn overview() -> String {
    let mut text = String::from(
        "swath reads and writes GeoTIFF and Cloud Optimized GeoTIFF, correctly and fast.\n\nUsage: swath COMMAND ...\n\nCommands:\n",
    );
    for command in COMMANDS {
        text += &format!("  {:<10}{}\n", command.name, command.summary);
    }
    text + "\n'swath COMMAND --help' tells the flags of a command and shows examples.\n\
            Exit code 0: done; 1: failed, with one sentence on stderr, or not valid; 2: called wrongly.\n"
}

fn help(command: &Command) -> String {
    let operands: String = command.operands.iter().map(|name| format!(" {name}")).collect();
    let mut text = format!("{}\n\nUsage: swath {}{operands} [FLAGS]\n\n", command.summary, command.name);
    text += command.details;
    if !command.flags.is_empty() {
        text += "\nFlags:\n";
    }
    for flag in command.flags {
        let short = SHORT.iter().find(|(_, long)| *long == flag.name).map(|(short, _)| format!("{short}, "));
        let name = short.unwrap_or_default() + flag.name;
        let usage = flag.value.map_or(name.clone(), |value| format!("{name} {value}"));
        text += &format!("  {usage}\n      {}\n", flag.help);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arranged(arguments: &[&str]) -> Result<(usize, Option<String>), Failure> {
        let owned: Vec<String> = arguments.iter().map(|&text| text.into()).collect();
        let arranged = arrange(&crate::read::COMMAND, &owned)?;
        Ok((arranged.operands.len(), arranged.text("--window").map(str::to_owned)))
    }

    #[test]
    fn flags_may_stand_anywhere_and_take_values_either_way() {
        assert_eq!(arranged(&["--window", "0,0,1,1", "a", "b"]).unwrap(), (2, Some("0,0,1,1".into())));
        assert_eq!(arranged(&["a", "--window=0,0,1,1", "b"]).unwrap(), (2, Some("0,0,1,1".into())));
        assert_eq!(arranged(&["a", "--", "--window"]).unwrap(), (2, None));
    }

    #[test]
    fn short_flag_is_a_flag_only_where_the_long_one_is() {
        let short = vec!["-v".to_owned()];
        assert!(arrange(&crate::devices::COMMAND, &short).unwrap().has("--verbose"));
        assert!(help(&crate::devices::COMMAND).contains("-v, --verbose"));
        // A file may have this name.
        assert_eq!(arranged(&["a", "-v"]).unwrap(), (2, None));
        let ended = vec!["--".to_owned(), "-v".to_owned()];
        assert!(arrange(&crate::devices::COMMAND, &ended).is_err());
    }

    #[test]
    fn misuse_is_told_apart_from_failure() {
        for wrong in
            [&["a"][..], &["a", "b", "c"], &["a", "b", "--nope"], &["a", "b", "--window"], &["a", "b", "--mask=1"]]
        {
            assert!(matches!(arranged(wrong), Err(Failure::Misuse(_))), "{wrong:?}");
        }
    }

    #[test]
    fn every_flag_starts_with_dashes_and_has_help() {
        for command in COMMANDS {
            for flag in command.flags {
                assert!(flag.name.starts_with("--") && flag.help.ends_with('.'), "{} {}", command.name, flag.name);
            }
        }
    }
}
