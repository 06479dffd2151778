//! How a command line is understood: as the program does, and for tests of the pages that show some.

use crate::{command::Cli, dry_run, output::style};
use clap::{CommandFactory as _, FromArgMatches as _, error::ErrorKind};
use program::colour::ColorMode;

/// What a command line comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It would be done.
    Whole,
    /// It lacks something; as far as it goes, it is understood.
    Lacks(String),
    /// There is no such command or option, or a value is none.
    Wrong(String),
}

/// Reads a command line, the name of the program first, and does nothing of what it says.
#[must_use]
pub fn reads(words: &[String]) -> Reading {
    let matches = Cli::command().try_get_matches_from(words);
    let read =
        matches.and_then(|matches| dry_run::of(&matches).and_then(|_| Cli::from_arg_matches(&matches)));
    let Err(error) = read else { return Reading::Whole };
    let text = error.to_string();
    let why = text.lines().take_while(|line| !line.starts_with("Usage:")).collect::<Vec<_>>().join(" ");
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Reading::Whole,
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Reading::Lacks(why),
        _ => Reading::Wrong(why),
    }
}

/// The command line, understood. How text looks is settled with it.
pub(super) fn parsed() -> Result<Cli, clap::Error> {
    let mut whole = Cli::command().color(ColorMode::asked(std::env::args()).into());
    let matches = whole.try_get_matches_from_mut(std::env::args_os())?;
    let mut cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut whole))?;
    cli.common.dry_run = dry_run::of(&matches).map_err(|error| error.format(&mut whole))?;
    cli.common.settle(&matches);
    style::settle(cli.common.color, cli.common.is_wide());
    Ok(cli)
}

/// Whether a command line that could not be understood wants its answer for a program.
pub(super) fn asks_for_json(arguments: impl Iterator<Item = String>) -> bool {
    let mut before = String::new();
    for argument in arguments {
        let value = argument.strip_prefix("--output=").or_else(|| argument.strip_prefix("-o"));
        let value =
            if matches!(before.as_str(), "-o" | "--output") { Some(argument.as_str()) } else { value };
        if value.is_some_and(|value| matches!(value.trim_start_matches('='), "json" | "yaml")) {
            return true;
        }
        before = argument;
    }
    false
}
