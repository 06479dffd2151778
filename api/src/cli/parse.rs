//! How a command line is understood, for tests of the pages that show some.

use crate::cli::command::Cli;
use clap::{CommandFactory as _, FromArgMatches as _, error::ErrorKind};

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
    let read = Cli::command().try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches));
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
