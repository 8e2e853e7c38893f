//! `swath completions` and `swath manpage`: shell completions and manual pages, generated from the clap definitions.

use clap::Args;
use clap_complete::Shell;

use crate::cli;
use crate::failure::Failure;

/// Print a completion script for a shell
#[derive(Args)]
#[command(after_long_help = "Examples:
  swath completions bash > ~/.local/share/bash-completion/completions/swath
  swath completions zsh > ~/.zfunc/_swath
  swath completions fish > ~/.config/fish/completions/swath.fish")]
pub(crate) struct Completions {
    /// The shell.
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut cli::command(), "swath", &mut script);
        print!("{}", String::from_utf8_lossy(&script));
        Ok(())
    }
}

/// Print a manual page
#[derive(Args)]
#[command(after_long_help = "Examples:
  swath manpage > swath.1
  swath manpage read > swath-read.1
  swath manpage convert | man -l -")]
pub(crate) struct Manpage {
    /// The command to describe. Default: swath itself, with a list of all commands.
    command: Option<String>,
}

impl Manpage {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let mut command = cli::command();
        // Gives the commands their full names, such as swath-read.
        command.build();
        let described = match &self.command {
            None => &command,
            Some(name) => command
                .find_subcommand(name)
                .ok_or_else(|| Failure::Usage(format!("there is no command '{name}'; see 'swath --help'")))?,
        };
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(described.clone()).render(&mut page);
        rendered.map_err(|error| Failure::Failed(error.to_string()))?;
        print!("{}", String::from_utf8_lossy(&page));
        Ok(())
    }
}
