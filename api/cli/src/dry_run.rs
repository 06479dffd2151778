//! `--dry-run` and `--exit-code`: options of every command that can preview its effect.
//!
//! Invariant: a command line with `--dry-run` changes nothing. While it runs, the [`Client`](crate::client::Client) rejects every request
//! that changes something, unless the request itself is a dry run.

use clap::{ArgMatches, Args, error::ErrorKind, parser::ValueSource};
use program::exit::Exit;

/// Dry-run options.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct DryRun {
    /// Show the changes and do not make them.
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: exit with 11 if something would change.
    #[arg(long, requires = "dry_run")]
    exit_code: bool,
}

impl DryRun {
    /// Returns true for a dry run.
    pub(crate) fn is_wanted(self) -> bool {
        self.dry_run
    }

    /// Returns the exit code of a dry run. `changes` is true if something would change.
    pub(crate) fn exit(self, changes: bool) -> Exit {
        Exit::of_dry_run(self.exit_code, changes)
    }
}

/// Options that wait for an execution, which a dry run does not start.
const FOLLOWING: [&str; 3] = ["wait", "watch", "timeout"];

/// Returns true if the command line asks for a dry run.
///
/// # Errors
/// The command line also asks to wait for an execution.
pub(crate) fn of(matches: &ArgMatches) -> Result<bool, clap::Error> {
    let mut leaf = matches;
    while let Some((_, inner)) = leaf.subcommand() {
        leaf = inner;
    }
    // Clap fails for an option that the command does not have.
    let is_given = |name: &str| {
        let known = leaf.ids().any(|id| id.as_str() == name);
        known && leaf.value_source(name) == Some(ValueSource::CommandLine)
    };
    if !is_given("dry_run") {
        return Ok(false);
    }
    match FOLLOWING.into_iter().find(|name| is_given(name)) {
        None => Ok(true),
        Some(name) => {
            let why = format!("--{name} cannot be used with --dry-run: a dry run starts no execution\n");
            Err(clap::Error::raw(ErrorKind::ArgumentConflict, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::{Reading, reads};

    fn read(line: &str) -> Reading {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        reads(&words)
    }

    #[test]
    fn an_option_without_effect_is_rejected() {
        for line in [
            "executions cancel 01a2 --cap 5",
            "executions pause 01a2 --rate 5/s",
            "executions retry 01a2 --yes",
            "executions cancel 01a2 --exit-code",
            "executions cancel 01a2 --dry-run --wait",
            "executions resume --filter open=true --dry-run --wait --timeout 5s",
            "repair skip 01a2 --reason x --dry-run --timeout 5s",
            "repair skip 01a2 --reason x --dry-run --wait",
            "tenant onboard -f acme.yaml --timeout 5s",
            "tenant onboard -f acme.yaml --dry-run --timeout 5s",
            "tenant onboard -f acme.yaml --dry-run --watch",
            "reclaim start --workload w --amount 3",
            "reclaim start --overdue --amount 3",
        ] {
            assert_ne!(read(&format!("tenure {line}")), Reading::Whole, "{line}");
        }
    }

    #[test]
    fn one_execution_and_many_accept_the_same_dry_run_options() {
        for verb in ["cancel", "pause", "resume", "retry"] {
            for target in ["01a2", "--filter open=true"] {
                let line = format!("tenure executions {verb} {target} --dry-run --exit-code");
                assert_eq!(read(&line), Reading::Whole, "{line}");
            }
        }
    }
}
