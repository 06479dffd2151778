//! The command line, the program `tenure`: parses the arguments, runs the command, and ends with an exit code for scripts.
//!
//! Without a command it runs the server ([`api::server`]). `agent` runs the node agent. Every other command sends requests to a server
//! or works on files.

mod client;
mod command;
mod commands;
mod common;
mod dispatch;
mod dry_run;
mod execution;
mod output;
mod parse;
mod resources;
mod secret;
mod settings;

pub use command::all_commands as commands;
pub use parse::{Reading, reads};

use api::server::ExtraWorkflows;
use common::Format;
use output::style::{Paint, Stream};
use program::exit::{Exit, Failure};
use std::process::ExitCode;

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    main_with(Ok)
}

/// Runs the program with more workflows in the server. A workflow with the name of an existing one replaces it.
#[must_use]
pub fn main_with(more: ExtraWorkflows) -> ExitCode {
    program::install_tls();
    run(more).into()
}

/// Runs the command line and returns the exit code.
fn run(more: ExtraWorkflows) -> Exit {
    let cli = match parse::parsed() {
        Ok(cli) => cli,
        Err(error) => {
            if error.use_stderr() && parse::asks_for_json(std::env::args()) {
                let text = error.to_string();
                let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
                output::note(&output::json_line(&Failure::new(Exit::Usage, first).body()));
                return Exit::Usage;
            }
            // Help goes to standard output and is not a failure. A closed pipe is not one either.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Done };
        }
    };
    let format = cli.common.output;
    match dispatch::dispatch(cli, more) {
        Ok(exit) => exit,
        Err(failure) => {
            if !failure.message.is_empty() {
                match format {
                    Format::Json | Format::Yaml => output::note(&output::json_line(&failure.body())),
                    Format::Table => {
                        let error = Paint::Red.on(Stream::Err, "error:");
                        output::note(&format!("{error} {failure}"));
                    }
                }
            }
            failure.exit
        }
    }
}
