//! The command line: all commands, and usage errors as one sentence.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::failure::Failure;
use crate::{bench, convert, demo, devices, info, read, shell, validate};

/// Read, write and validate GeoTIFF and Cloud Optimized GeoTIFF (COG)
#[derive(Parser)]
#[command(
    name = "swath",
    bin_name = "swath",
    version,
    max_term_width = 100,
    args_override_self = true,
    after_help = "'swath COMMAND --help' describes the flags of a command and shows examples.\n\
                  Exit codes: 0 success, 1 failure or an invalid file, 2 wrong usage. An error is one line on stderr."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// All commands, in the order of `swath --help`.
#[derive(Subcommand)]
enum Command {
    Info(info::Info),
    Read(read::Read),
    Convert(Box<convert::Convert>),
    Validate(validate::Validate),
    Bench(bench::Bench),
    Devices(devices::Devices),
    Demo(demo::Demo),
    Completions(shell::Completions),
    Manpage(shell::Manpage),
}

/// The command line as clap describes it.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command that the arguments name. The first argument is the name of the program.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let parsed = command().try_get_matches_from(&arguments).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            print!("{}", error.render());
            return Ok(());
        }
        Err(error) => return Err(Failure::Usage(sentence(&error, &arguments))),
    };
    match cli.command {
        Command::Info(info) => info.run(),
        Command::Read(read) => read.run(),
        Command::Convert(convert) => convert.run(),
        Command::Validate(validate) => validate.run(),
        Command::Bench(bench) => bench.run(),
        Command::Devices(devices) => devices.run(),
        Command::Demo(demo) => demo.run(),
        Command::Completions(completions) => completions.run(),
        Command::Manpage(manpage) => manpage.run(),
    }
}

/// Turns an error of clap, which has several paragraphs, into one sentence.
fn sentence(error: &clap::Error, arguments: &[OsString]) -> String {
    let text = error.render().to_string();
    // The paragraphs after the first one are tips and the usage.
    let problem = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => "no command is given",
        _ => text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: "),
    };
    let mut sentence = problem.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    match suggestion(error) {
        Some(similar) => sentence += &format!("; did you mean '{similar}'? see 'swath "),
        None => sentence += "; see 'swath ",
    }
    let named = arguments.get(1).and_then(|argument| argument.to_str());
    if let Some(name) = named.filter(|name| command().find_subcommand(name).is_some()) {
        sentence += &format!("{name} ");
    }
    sentence + "--help'"
}

/// The known name that is most similar to the wrong one.
fn suggestion(error: &clap::Error) -> Option<&str> {
    let kinds = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    match kinds.iter().find_map(|kind| error.get(*kind))? {
        ContextValue::String(name) => Some(name),
        ContextValue::Strings(names) => names.last().map(String::as_str),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Cli, String> {
        let words = std::iter::once("swath").chain(arguments.iter().copied());
        let words: Vec<OsString> = words.map(OsString::from).collect();
        Cli::try_parse_from(&words).map_err(|error| sentence(&error, &words))
    }

    fn window(arguments: &[&str]) -> bool {
        match parsed(arguments) {
            Ok(Cli { command: Command::Read(read) }) => read.selection.window.is_some(),
            _ => panic!("{arguments:?}"),
        }
    }

    #[test]
    fn the_description_of_the_commands_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_command_and_flag_has_help() {
        for command in command().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
            }
        }
    }

    #[test]
    fn flags_may_stand_anywhere_and_take_values_either_way() {
        assert!(window(&["read", "--window", "0,0,1,1", "a", "b"]));
        assert!(window(&["read", "a", "--window=0,0,1,1", "b"]));
        assert!(!window(&["read", "a", "--", "--window"]));
        assert!(window(&["read", "a", "b", "--window", "0,0,1,1", "--window", "0,0,2,2"]));
    }

    #[test]
    fn wrong_usage_is_one_sentence() {
        for wrong in [
            &[][..],
            &["read"],
            &["read", "a"],
            &["read", "a", "b", "c"],
            &["read", "a", "b", "--nope"],
            &["read", "a", "b", "--window"],
            &["read", "a", "b", "--mask=1"],
            &["read", "a", "b", "--layout", "diagonal"],
            &["convert", "a", "b", "--tile", "16", "--strips", "4"],
        ] {
            let text = parsed(wrong).err().unwrap_or_else(|| panic!("{wrong:?}"));
            assert!(!text.contains('\n') && text.contains("--help'"), "{text}");
        }
    }

    #[test]
    fn errors_name_the_problem_a_similar_name_and_the_help() {
        for (wrong, text) in [
            (&["raed"][..], "unrecognized subcommand 'raed'; did you mean 'read'? see 'swath --help'"),
            (&[], "no command is given; see 'swath --help'"),
            (&["read", "a"], "the following required arguments were not provided: <OUT>; see 'swath read --help'"),
            (
                &["read", "a", "b", "--overveiw", "1"],
                "unexpected argument '--overveiw' found; did you mean '--overview'? see 'swath read --help'",
            ),
        ] {
            assert_eq!(parsed(wrong).err().as_deref(), Some(text));
        }
    }
}
