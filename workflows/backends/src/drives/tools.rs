//! Runs programs as child processes within the call's deadline, and interprets their exit.

use crate::drives::settings::DrivesTarget;
use crate::{
    exec::{
        ExecTarget,
        child::{self, ChildExit, Output},
    },
    http_response,
};
use engine::{ActionError, Stopwatch};
use serde_json::Value;
use std::{io::ErrorKind, path::Path, time::Duration};
use workflows::platform::{CallMetadata, Observer, codes};

/// Exit codes of a shell, `env` or `ssh` for a missing or non-executable program.
const NOT_THERE: [i32; 2] = [126, 127];
/// Exit code of `ssh` for a failed connection.
const NOT_REACHED: i32 = 255;
/// Messages of the C library, `ssh` and cryptsetup for a missing permission. The exit code does not distinguish it, and
/// without a locale the messages are fixed.
const DENIED: [&str; 3] = ["Permission denied", "Operation not permitted", "access denied"];
/// The largest output of a program, in bytes. Samples of a drive are smaller.
const OUTPUT_LIMIT: usize = 256 << 20;

/// The effect of a program: a change has an unknown outcome if its end is not observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Look,
    Change,
}

/// The output of a program that exited by itself.
#[derive(Debug)]
pub(super) struct ToolOutput {
    pub(super) code: i32,
    pub(super) stdout: Vec<u8>,
    /// The end of standard error, for messages.
    pub(super) words: String,
    about: String,
}

impl ToolOutput {
    /// Returns the error for a failed read-only program.
    pub(super) fn failed(&self) -> ActionError {
        let said = format!("{}: exit code {}{}", self.about, self.code, self.words);
        if is_denied(&self.words) {
            return ActionError::permanent(codes::DENIED, said);
        }
        ActionError::transient(codes::UNAVAILABLE, said)
    }

    /// Returns the error for invalid output.
    pub(super) fn unreadable(&self, why: impl std::fmt::Display) -> ActionError {
        http_response::unreadable(format!("{}: {why}", self.about), false)
    }

    /// Parses the output as JSON.
    pub(super) fn json(&self) -> Result<Value, ActionError> {
        serde_json::from_slice(&self.stdout).map_err(|error| self.unreadable(error))
    }
}

/// Runs the programs of one call.
#[derive(Debug)]
pub(super) struct Tools<'a> {
    pub(super) target: &'a DrivesTarget,
    way: &'a [String],
    within: Duration,
    since: Stopwatch,
}

impl<'a> Tools<'a> {
    pub(super) fn of(target: &'a DrivesTarget, eyes: Observer, stamp: &CallMetadata) -> Self {
        let way = target.way(eyes == Observer::Verifier);
        Self { target, way, within: stamp.deadline, since: Stopwatch::start() }
    }

    /// Runs `nvme`, which must succeed, and returns its output.
    pub(super) async fn nvme(&self, words: &[&str]) -> Result<ToolOutput, ActionError> {
        self.good(&self.target.nvme, words).await
    }

    /// Runs a read-only program, which must succeed.
    pub(super) async fn good(&self, program: &Path, words: &[&str]) -> Result<ToolOutput, ActionError> {
        let ran = self.run(program, words, &[], Effect::Look).await?;
        if ran.code == 0 { Ok(ran) } else { Err(ran.failed()) }
    }

    /// Runs a program and returns its output, whatever its exit code.
    pub(super) async fn run(
        &self,
        program: &Path,
        words: &[&str],
        input: &[u8],
        does: Effect,
    ) -> Result<ToolOutput, ActionError> {
        let program = program.to_string_lossy();
        let about = format!("{program} {}", words.join(" "));
        let way = self.way.iter().map(String::as_str);
        let mut line = way.chain([&*program]).chain(words.iter().copied());
        let target = ExecTarget {
            environment: self.target.environment.clone(),
            output_limit_bytes: OUTPUT_LIMIT,
            ..ExecTarget::new(line.next().unwrap_or_default())
        };
        let target = ExecTarget { arguments: line.map(str::to_owned).collect(), ..target };
        let left = self.within.saturating_sub(self.since.elapsed());
        let output = child::run(&target, input, left).await.map_err(|error| not_started(&about, &error))?;
        ended(about, output, does, !self.way.is_empty())
    }
}

fn is_denied(words: &str) -> bool {
    DENIED.iter().any(|said| words.contains(said))
}

fn not_started(about: &str, error: &std::io::Error) -> ActionError {
    let why = format!("{about}: {error}; install it, or set its path in the settings of the machine");
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::PermissionDenied => ActionError::permanent(codes::UNSUPPORTED, why),
        _ => ActionError::transient(codes::UNAVAILABLE, why),
    }
}

/// Checks the end of a program, except its exit code.
fn ended(about: String, output: Output, does: Effect, afar: bool) -> Result<ToolOutput, ActionError> {
    let words = output.last_words();
    let unsure = |why: &str| {
        let said = format!("{about}: {why}{words}");
        match does {
            Effect::Look => ActionError::transient(codes::UNAVAILABLE, said),
            Effect::Change => ActionError::unknown(codes::NO_ANSWER, said),
        }
    };
    let code = match output.ended {
        ChildExit::Exit(_) if output.too_much => return Err(unsure("its output exceeds the limit")),
        // A rejected login means that nothing was run on the machine.
        ChildExit::Exit(NOT_REACHED) if afar && is_denied(&words) => {
            let why = format!("{about}: the machine rejects this user{words}");
            return Err(ActionError::permanent(codes::DENIED, why));
        }
        ChildExit::Exit(NOT_REACHED) if afar => return Err(unsure("the machine was not reached")),
        ChildExit::Exit(code) if afar && NOT_THERE.contains(&code) => {
            let why = format!("{about}: exit code {code}{words}; install it on the machine");
            return Err(ActionError::permanent(codes::UNSUPPORTED, why));
        }
        ChildExit::Exit(code) => code,
        ChildExit::Late => return Err(unsure("it did not end in time, and was killed")),
        ChildExit::Signal(_) => return Err(unsure("it was ended by a signal")),
        ChildExit::Lost => return Err(unsure("its outcome is unknown")),
    };
    Ok(ToolOutput { code, stdout: output.stdout, words, about })
}
