//! Commands that help with the others: servers by name, verbs for every kind, explanations, a check of everything, shells and manuals.

use crate::{
    client::block_on,
    commands::{
        context::{self, ContextCommand},
        doctor::{self, Doctor},
        explain,
        get::{self, Describe, Get},
        manual,
    },
    common::{Common, Format},
    output,
};
use clap::Subcommand;
use clap_complete::Shell;
use program::exit::{Exit, Failure};
use std::path::PathBuf;

/// What helps.
#[derive(Debug, Subcommand)]
pub(crate) enum HelpCommand {
    /// Keep servers, each under a name, with the token that opens it.
    #[command(subcommand)]
    Context(ContextCommand),
    /// List all of a kind, or show one; the same as `KIND list` and `KIND show`.
    Get(Get),
    /// Show one in full, with what has happened to it.
    Describe(Describe),
    /// Say what a code of a problem, of a failed attempt, of a parked execution or of an exit means, or a rule of policy, and what to do.
    Explain {
        /// The code, such as `capacity.short`, `outcome_unknown` or `10`; without one, all of them.
        code: Option<String>,
    },
    /// Check configuration, data folder, store, clock, server, token and targets, and say what to do about each.
    Doctor(Doctor),
    /// Print the version of this program.
    Version,
    /// Print what completes commands in a shell.
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print the manual page, or write one for every command into a folder.
    Man {
        /// The folder, made if it is not there.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

/// Prints the version, as `--version` does.
fn version(common: &Common) -> Result<Exit, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    match common.output {
        Format::Table => output::say(&format!("tenure {version}\n"))?,
        format @ (Format::Json | Format::Yaml) => {
            output::one(format, &serde_json::json!({ "name": "tenure", "version": version }))?;
        }
    }
    Ok(Exit::Done)
}

/// `whole` is the command line that is completed and described.
pub(crate) fn run(common: &Common, aid: HelpCommand, whole: clap::Command) -> Result<Exit, Failure> {
    match aid {
        HelpCommand::Context(command) => context::run(common, command),
        HelpCommand::Get(own) => block_on(get::get(common, own)),
        HelpCommand::Describe(own) => block_on(get::describe(common, own)),
        HelpCommand::Explain { code } => explain::run(common, code.as_deref()),
        HelpCommand::Doctor(own) => block_on(doctor::run(common, own)),
        HelpCommand::Version => version(common),
        HelpCommand::Completions { shell } => manual::completions(shell, whole),
        HelpCommand::Man { dir } => manual::manual(common, whole, dir.as_deref()),
    }
}
