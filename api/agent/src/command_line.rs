//! The command line of `tenure-agent`, the same as `tenure agent`, for nodes without the rest of Tenure.

use crate::{Options, run};
use clap::{CommandFactory as _, FromArgMatches as _, Parser};
use program::{
    colour::ColorMode,
    exit::{Exit, Failure},
    terminal,
};
use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
    process::ExitCode,
};

/// Run the node agent.
#[derive(Debug, Parser)]
#[command(name = "tenure-agent", version, max_term_width = 110)]
struct CommandLine {
    /// Server URLs, separated by commas.
    #[arg(long, env = "TENURE_SERVER", value_name = "URL", hide_env_values = true)]
    server: Option<String>,
    /// Additional certificate authorities (PEM).
    #[arg(long, env = "TENURE_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// When to use colours.
    #[arg(long, value_enum, default_value_t = ColorMode::Auto, value_name = "WHEN")]
    color: ColorMode,
    #[command(flatten)]
    options: Options,
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    program::install_tls();
    let read = CommandLine::command().color(ColorMode::asked(std::env::args()).into()).try_get_matches();
    let line = match read.and_then(|matches| CommandLine::from_arg_matches(&matches)) {
        Ok(line) => line,
        Err(error) => {
            // Help goes to standard output and is not a failure. A closed pipe is not one either.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Done }.into();
        }
    };
    let coloured = line.color.colours(io::stderr().is_terminal());
    let ended = run(&line.options, line.server.as_deref(), line.ca_file.as_deref(), coloured);
    ended.unwrap_or_else(|failure| failed(&failure, coloured)).into()
}

fn failed(failure: &Failure, coloured: bool) -> Exit {
    if !failure.message.is_empty() {
        let error = if coloured { "\u{1b}[31merror:\u{1b}[0m" } else { "error:" };
        terminal::note(&format!("{error} {failure}"));
    }
    failure.exit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_options_of_the_agent_are_parsed() {
        CommandLine::command().debug_assert();
        let words = "tenure-agent --server https://a.example,https://b.example --cluster eu-1 --node gpu-7 --key-file key \
                     --ca-file ca.pem --color never --gpus 8 --layout mixed=3g.40gb --drain 5 --log-format json";
        let line = CommandLine::try_parse_from(words.split_whitespace()).unwrap();
        assert_eq!(line.server.as_deref(), Some("https://a.example,https://b.example"));
        assert_eq!((line.options.gpus, line.options.drain, line.color), (Some(8), 5, ColorMode::Never));
        assert!(CommandLine::try_parse_from(["tenure-agent"]).is_err(), "it needs cluster, node and key");
    }
}
