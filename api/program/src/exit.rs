//! Exit codes, on which scripts rely. `docs/cli.md` lists them.

use serde_json::Value;
use std::{fmt, process::ExitCode};
use strum::VariantArray as _;

/// An exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray)]
pub enum Exit {
    /// Success.
    Done,
    /// The command failed.
    Failed,
    /// The command line is not valid.
    Usage,
    /// The resource does not exist.
    NotFound,
    /// The token is not valid, or its roles do not permit the command.
    Denied,
    /// The resource was changed, or its state conflicts with the command.
    Conflict,
    /// Policy or an approver rejected the request.
    Refused,
    /// The wait timed out.
    TimedOut,
    /// The execution ended and was rolled back.
    TakenBack,
    /// The server could not be reached. A retry is safe.
    Unreachable,
    /// An approval is required.
    AwaitsApproval,
    /// A dry run with `--exit-code` found changes.
    WouldChange,
    /// The store cannot be opened.
    Store,
    /// The command was interrupted. An execution that it started continues.
    Interrupted,
}

impl Exit {
    /// Returns the number.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Denied => 4,
            Self::Conflict => 5,
            Self::Refused => 6,
            Self::TimedOut => 7,
            Self::TakenBack => 8,
            Self::Unreachable => 9,
            Self::AwaitsApproval => 10,
            Self::WouldChange => 11,
            Self::Store => 74,
            Self::Interrupted => 130,
        }
    }

    /// Returns the exit code for an HTTP status.
    pub fn of_status(status: u16) -> Self {
        match status {
            401 | 403 => Self::Denied,
            404 => Self::NotFound,
            409 | 412 => Self::Conflict,
            503 => Self::Unreachable,
            507 => Self::Store,
            _ => Self::Failed,
        }
    }
}

impl Exit {
    /// Returns the exit code of a dry run. `asked` is true if `--exit-code` was given.
    pub fn of_dry_run(asked: bool, changes: bool) -> Self {
        if asked && changes { Self::WouldChange } else { Self::Done }
    }

    /// Returns the HTTP status that corresponds to the exit code.
    fn status(self) -> u16 {
        match self {
            Self::Usage => 400,
            Self::Denied => 403,
            Self::NotFound => 404,
            Self::Conflict | Self::TakenBack | Self::AwaitsApproval | Self::WouldChange => 409,
            Self::Refused => 422,
            Self::Unreachable => 503,
            Self::TimedOut => 504,
            Self::Store => 507,
            Self::Done | Self::Failed | Self::Interrupted => 500,
        }
    }

    /// Returns the remedy for a failure that has none of its own.
    fn remedy(self) -> &'static str {
        match self {
            Self::Usage => "read the detail; add `--help` to the command for its options",
            Self::Unreachable => "check that the server runs, then retry",
            Self::TimedOut | Self::Interrupted => {
                "a started execution continues: `tenure executions wait ID`"
            }
            Self::Store => "read the detail, and see the manual, page store",
            Self::Done
            | Self::Failed
            | Self::NotFound
            | Self::Denied
            | Self::Conflict
            | Self::Refused
            | Self::TakenBack
            | Self::AwaitsApproval
            | Self::WouldChange => "read the detail",
        }
    }
}

/// Returns every exit code, for documents and tests.
#[must_use]
pub fn exits() -> Vec<u8> {
    Exit::VARIANTS.iter().map(|exit| exit.code()).collect()
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The error of a command.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// The message for the user.
    pub message: String,
    /// The problem document of the server.
    pub problem: Option<Value>,
}

impl Failure {
    /// Creates a failure with this exit code.
    pub fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Self { exit, message: message.to_string(), problem: None }
    }

    /// Creates a failure with the code [`Exit::Failed`].
    pub fn other(message: impl fmt::Display) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// Returns the failure as a problem document, for `-o json`. Errors of the command line have the same fields as those of the server.
    pub fn body(&self) -> Value {
        let own = || {
            let said = self.message.split_once('\n');
            let (detail, remedy) = said.unwrap_or((&self.message, self.exit.remedy()));
            serde_json::json!({
                "type": "urn:tenure:problem:cli.failed", "title": "The command failed", "code": "cli.failed",
                "status": self.exit.status(), "detail": detail, "remedy": remedy,
            })
        };
        self.problem.clone().unwrap_or_else(own)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        let exit = match error {
            store::Error::Refused { .. }
            | store::Error::Corrupt { .. }
            | store::Error::Unavailable { .. }
            | store::Error::Full { .. } => Exit::Store,
            store::Error::Conflict { .. }
            | store::Error::Busy { .. }
            | store::Error::Fenced { .. }
            | store::Error::TooLarge { .. }
            | store::Error::Invalid { .. } => Exit::Failed,
        };
        Self::new(exit, error)
    }
}

impl From<engine::Error> for Failure {
    fn from(error: engine::Error) -> Self {
        match error {
            engine::Error::Store(error) => error.into(),
            other => Self::other(other),
        }
    }
}

/// Converts an error of a store. Invalid settings are usage errors.
pub fn store_failure(error: store::Error) -> Failure {
    match error {
        store::Error::Refused { why } => Failure::new(Exit::Usage, format!("configuration: store: {why}")),
        other => other.into(),
    }
}
