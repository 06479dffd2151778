//! General commands: contexts, `get` and `describe`, explanations, the doctor, shell completions, manual pages.

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

/// General commands.
#[derive(Debug, Subcommand)]
pub(crate) enum HelpCommand {
    /// Manage named servers and their tokens.
    #[command(subcommand)]
    Context(ContextCommand),
    /// List a kind of resource, or show one.
    Get(Get),
    /// Show one resource with related data.
    Describe(Describe),
    /// Explain an error, exit code or policy rule.
    Explain {
        /// Code, such as `capacity.short`, `outcome_unknown` or `10` [default: list all].
        code: Option<String>,
    },
    /// Check the installation and suggest remedies.
    Doctor(Doctor),
    /// Print the version.
    Version,
    /// Print shell completions.
    Completions {
        /// Shell.
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print or write manual pages.
    Man {
        /// Folder, created if it does not exist.
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

/// Runs the command. `whole` is the definition of the command line.
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
