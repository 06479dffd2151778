//! Parses command lines, for the program and for tests of documentation.

use crate::{command::Cli, dry_run, output::style};
use clap::{CommandFactory as _, FromArgMatches as _, error::ErrorKind};
use program::colour::ColorMode;

/// The result of parsing a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The command line is valid.
    Whole,
    /// A required part is missing; the rest is valid.
    Lacks(String),
    /// A command or an option does not exist, or a value is not valid.
    Wrong(String),
}

/// Parses a command line without running it. The first word is the name of the program.
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

/// Parses the arguments of this process and sets the output style.
pub(super) fn parsed() -> Result<Cli, clap::Error> {
    let mut whole = Cli::command().color(ColorMode::asked(std::env::args()).into());
    let matches = whole.try_get_matches_from_mut(std::env::args_os())?;
    let mut cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut whole))?;
    cli.common.dry_run = dry_run::of(&matches).map_err(|error| error.format(&mut whole))?;
    cli.common.settle(&matches);
    style::settle(cli.common.color, cli.common.is_wide());
    Ok(cli)
}

/// Returns true if an invalid command line requests JSON or YAML output.
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
