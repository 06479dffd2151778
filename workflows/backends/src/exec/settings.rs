//! Settings of a hook that runs a program.

use crate::TargetError;
use serde::Deserialize;
use std::{path::PathBuf, time::Duration};
use workflows::duration;

/// A hook that runs a program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecTarget {
    /// The program, as an absolute path. It is started without a shell.
    pub program: PathBuf,
    /// Command-line arguments. Default: none.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// The working directory, as an absolute path. Default `/`.
    #[serde(default = "root")]
    pub directory: PathBuf,
    /// Variables of the server's environment that are passed to the program. Default `PATH`.
    #[serde(default = "path_only")]
    pub environment: Vec<String>,
    /// The longest run of the program, such as `10m`. Default: the deadline of the call, `30s`.
    #[serde(default, with = "duration::maybe")]
    pub deadline: Option<Duration>,
    /// The time between `SIGTERM` and `SIGKILL` after the deadline. Default `2s`.
    #[serde(default = "grace", with = "duration::text")]
    pub grace: Duration,
    /// The largest output that is read, in bytes. Default 1 MiB.
    #[serde(default = "megabyte")]
    pub output_limit_bytes: usize,
    /// True if the program implements the verb `probe`. If false, the program runs again after a lost answer. Default
    /// true.
    #[serde(default = "yes")]
    pub probes: bool,
    /// True if the program implements the verb `dry_run`. If false, dry runs do not call it. Default false.
    #[serde(default)]
    pub dry_runs: bool,
}

fn root() -> PathBuf {
    "/".into()
}

fn path_only() -> Vec<String> {
    vec!["PATH".into()]
}

fn grace() -> Duration {
    Duration::from_secs(2)
}

fn megabyte() -> usize {
    1 << 20
}

fn yes() -> bool {
    true
}

impl ExecTarget {
    /// Creates the settings for a program, with defaults.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            directory: root(),
            environment: path_only(),
            deadline: None,
            grace: grace(),
            output_limit_bytes: megabyte(),
            probes: true,
            dry_runs: false,
        }
    }

    /// Checks each setting by itself.
    ///
    /// # Errors
    ///
    /// If a setting is invalid; the error names the field and the fix.
    pub fn check(&self) -> Result<(), TargetError> {
        let absolute = "write an absolute path, which does not depend on the server's working folder";
        if !self.program.is_absolute() {
            return Err(TargetError::new("program", format!("{}: {absolute}", self.program.display())));
        }
        if !self.program.is_file() {
            let why = format!("{} is not a file: install it, or correct the path", self.program.display());
            return Err(TargetError::new("program", why));
        }
        if !self.directory.is_absolute() {
            return Err(TargetError::new("directory", format!("{}: {absolute}", self.directory.display())));
        }
        if !self.directory.is_dir() {
            let why = format!("{} is not a folder: create it, or correct the path", self.directory.display());
            return Err(TargetError::new("directory", why));
        }
        if let Some(name) = self.environment.iter().find(|name| name.is_empty() || name.contains('=')) {
            let why = format!(
                "{name:?} is not the name of a variable: write only the name; its value is read from the server's environment"
            );
            return Err(TargetError::new("environment", why));
        }
        if self.deadline.is_some_and(|deadline| deadline < Duration::from_millis(100)) {
            return Err(TargetError::new("deadline", "use at least `1s`, or remove the setting"));
        }
        if self.output_limit_bytes == 0 {
            return Err(TargetError::new("output_limit_bytes", "0 is not allowed; use at least 1"));
        }
        Ok(())
    }
}
