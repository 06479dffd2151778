//! How the program ends: the exit codes that scripts rely on. Listed in `docs/cli.md`.

use serde_json::Value;
use std::{fmt, process::ExitCode};
use strum::VariantArray as _;

/// An exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray)]
pub enum Exit {
    /// It did what was asked.
    Done,
    /// It failed.
    Failed,
    /// The command line was not understood.
    Usage,
    /// There is no such thing.
    NotFound,
    /// The token or its roles do not allow it.
    Denied,
    /// Something has changed, or stands in the way.
    Conflict,
    /// Policy or people said no.
    Refused,
    /// The wait was too long.
    TimedOut,
    /// It finished, and was taken back.
    TakenBack,
    /// The server could not be reached; asking again is safe.
    Unreachable,
    /// It waits for an approval.
    AwaitsApproval,
    /// A dry run found that something would change, and was asked to say so.
    WouldChange,
    /// The store cannot be opened.
    Store,
    /// It was interrupted; what was begun goes on.
    Interrupted,
}

impl Exit {
    /// The number.
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

    /// What a problem of this status means to a script.
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
    /// How a dry run ends: done, or where the command line asks for it, with whether something would change.
    pub fn of_dry_run(asked: bool, changes: bool) -> Self {
        if asked && changes { Self::WouldChange } else { Self::Done }
    }

    /// The status that a server would answer with where it ends so.
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

    /// What to do about a failure that does not say so itself.
    fn remedy(self) -> &'static str {
        match self {
            Self::Usage => "read the detail; `--help` behind the command lists what it takes",
            Self::Unreachable => "see whether the server runs, and ask again",
            Self::TimedOut | Self::Interrupted => "what was begun goes on: `tenure executions wait ID`",
            Self::Store => "read the detail, and docs/store.md",
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

/// Every exit code, for documents and tests.
#[must_use]
pub fn exits() -> Vec<u8> {
    Exit::VARIANTS.iter().map(|exit| exit.code()).collect()
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command did not do what was asked.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// For people.
    pub message: String,
    /// The problem that a server answered with.
    pub problem: Option<Value>,
}

impl Failure {
    /// A failure of this sort.
    pub fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Self { exit, message: message.to_string(), problem: None }
    }

    /// Any other failure.
    pub fn other(message: impl fmt::Display) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// The failure as a problem, for `-o json`. One of the command line itself has the members of any other.
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

/// What is wrong with the settings is a matter of use; the rest is as it is.
pub fn store_failure(error: store::Error) -> Failure {
    match error {
        store::Error::Refused { why } => Failure::new(Exit::Usage, format!("configuration: store: {why}")),
        other => other.into(),
    }
}
