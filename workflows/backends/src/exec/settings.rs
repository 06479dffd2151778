//! The settings of a program behind a hook.

use crate::TargetError;
use serde::Deserialize;
use std::{path::PathBuf, time::Duration};
use workflows::duration;

/// A program that stands behind the name of a hook.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecTarget {
    /// The program, as an absolute path. It is started as it is, without a shell.
    pub program: PathBuf,
    /// What it is given on its command line. Default nothing.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// The folder in which it runs, as an absolute path. Default `/`.
    #[serde(default = "root")]
    pub directory: PathBuf,
    /// The variables of the server's environment that it may see; no other reaches it. Default `PATH`.
    #[serde(default = "path_only")]
    pub environment: Vec<String>,
    /// How long it has, such as `10m`. Default: the call's own deadline, `30s`.
    #[serde(default, with = "duration::maybe")]
    pub deadline: Option<Duration>,
    /// How long it has between being asked to end (`SIGTERM`) and being killed once its deadline is over. Default `2s`.
    #[serde(default = "grace", with = "duration::text")]
    pub grace: Duration,
    /// How much of its output is read, in bytes. Default 1 MiB.
    #[serde(default = "megabyte")]
    pub output_limit_bytes: usize,
    /// Whether it answers the verb `probe`. One that does not is run again after a lost answer. Default true.
    #[serde(default = "yes")]
    pub probes: bool,
    /// Whether it answers the verb `dry_run`. Default false: it is not called for dry runs.
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
    /// The program with default settings.
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

    /// That each setting makes sense by itself.
    ///
    /// # Errors
    /// The field at fault, and what to write.
    pub fn check(&self) -> Result<(), TargetError> {
        let absolute = "write an absolute path, so that it is the same from wherever the server is started";
        if !self.program.is_absolute() {
            return Err(TargetError::new("program", format!("{}: {absolute}", self.program.display())));
        }
        if !self.program.is_file() {
            let why = format!("{} is no file: install it, or correct the path", self.program.display());
            return Err(TargetError::new("program", why));
        }
        if !self.directory.is_absolute() {
            return Err(TargetError::new("directory", format!("{}: {absolute}", self.directory.display())));
        }
        if !self.directory.is_dir() {
            let why = format!("{} is no folder: make it, or correct the path", self.directory.display());
            return Err(TargetError::new("directory", why));
        }
        if let Some(name) = self.environment.iter().find(|name| name.is_empty() || name.contains('=')) {
            let why =
                format!("{name:?} is no name of a variable: write the name alone, its value is the server's");
            return Err(TargetError::new("environment", why));
        }
        if self.deadline.is_some_and(|deadline| deadline < Duration::from_millis(100)) {
            return Err(TargetError::new("deadline", "use at least `1s`, or leave it out"));
        }
        if self.output_limit_bytes == 0 {
            return Err(TargetError::new("output_limit_bytes", "0 would read no answer; use at least 1"));
        }
        Ok(())
    }
}
