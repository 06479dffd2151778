//! The command line, which is one program, `tenure`: reads it, does what it says, and ends with a code that scripts can rely on.
//!
//! Without a command it serves ([`api::server`]). `agent` runs the node agent. Every other command speaks to a server over HTTP, or
//! works on files.

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

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    main_with(Ok)
}

/// The program, whose server has workflows beside those of the product, or in place of those of the same name.
#[must_use]
pub fn main_with(more: ExtraWorkflows) -> ExitCode {
    program::install_tls();
    run(more).into()
}

/// Does what the command line says.
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
            // Help goes to standard output and is no failure; a closed pipe is none either.
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
