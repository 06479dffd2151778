//! Hooks that run a program: JSON on standard input, JSON on standard output, and an exit code.
//!
//! The program is started without a shell. Invariant: the program and its child processes are one process group. The
//! group is killed when the deadline passes, when the call is dropped, and when the program itself exits.

pub(crate) mod child;
mod settings;

pub use settings::ExecTarget;

use crate::{
    TargetError,
    hooks::{Answer, ErrorBody, HookBackend, HookTraits, Request},
    http_response,
};
use async_trait::async_trait;
use child::{ChildExit, Output};
use engine::ActionError;
use std::time::Duration;
use workflows::platform::codes;

/// The program rejects the request (`EX_USAGE`, `EX_DATAERR`).
const REFUSED: [i32; 2] = [64, 65];
/// A dependency of the program is unavailable. Nothing was changed (`EX_UNAVAILABLE`).
const UNAVAILABLE: i32 = 69;
/// The program cannot do this at the moment. Nothing was changed (`EX_TEMPFAIL`).
const NOT_NOW: i32 = 75;
/// A system behind the program sent an invalid answer (`EX_PROTOCOL`).
const UNREADABLE: i32 = 76;
/// The program lacks a permission (`EX_NOPERM`).
const DENIED: i32 = 77;
/// The program is not configured for this (`EX_CONFIG`).
const UNSUPPORTED: i32 = 78;
/// A later attempt of the step has already acted. This code is not from `sysexits.h`.
const FENCED: i32 = 80;

/// A hook backend that runs a program.
#[derive(Debug)]
pub struct Program {
    target: ExecTarget,
}

impl Program {
    /// Creates the backend from its settings. The program is not started.
    ///
    /// # Errors
    ///
    /// If a setting is invalid; the error names the field and the fix.
    pub fn connect(target: &ExecTarget) -> Result<Self, TargetError> {
        target.check()?;
        Ok(Self { target: target.clone() })
    }
}

#[async_trait]
impl HookBackend for Program {
    fn backend(&self) -> &'static str {
        "exec"
    }

    fn manners(&self) -> HookTraits {
        HookTraits {
            deadline: self.target.deadline,
            probes: self.target.probes,
            dry_runs: self.target.dry_runs,
        }
    }

    async fn ask(&self, request: &Request) -> Result<Answer, ActionError> {
        let body = serde_json::to_vec(request).map_err(|e| ActionError::permanent(codes::REFUSED, e))?;
        let deadline = Duration::from_millis(request.deadline_ms);
        let output = child::run(&self.target, &body, deadline).await.map_err(|e| {
            let why =
                format!("{}: {} cannot be started: {e}", request.about(), self.target.program.display());
            ActionError::transient(codes::UNAVAILABLE, why)
        })?;
        read(request, &output)
    }
}

/// Converts the exit and the output of the program to an answer or an error.
fn read(request: &Request, output: &Output) -> Result<Answer, ActionError> {
    let (about, changing) = (request.about(), request.changes());
    let unsure = |why: String| {
        let said = format!("{about}: {why}{}", output.last_words());
        if changing {
            ActionError::unknown(codes::NO_ANSWER, said)
        } else {
            ActionError::transient(codes::UNAVAILABLE, said)
        }
    };
    match output.ended {
        ChildExit::Late => {
            Err(unsure(format!("it did not end within {} ms, and was killed", request.deadline_ms)))
        }
        ChildExit::Signal(signal) => Err(unsure(format!("it was ended by signal {signal}"))),
        ChildExit::Lost => Err(unsure("its outcome is unknown".into())),
        ChildExit::Exit(0) if output.too_much => {
            Err(http_response::unreadable(format!("{about}: its output exceeds the limit"), changing))
        }
        ChildExit::Exit(0) => serde_json::from_slice(&output.stdout).map_err(|e| {
            http_response::unreadable(format!("{about}: the answer cannot be read: {e}"), changing)
        }),
        ChildExit::Exit(code) => {
            Err(failed(code, &about, output, changing).unwrap_or_else(|| unsure(format!("exit code {code}"))))
        }
    }
}

/// Returns the error for an exit code, or `None` for an unassigned code.
fn failed(code: i32, about: &str, output: &Output, changing: bool) -> Option<ActionError> {
    let told = ErrorBody::read(&output.stdout);
    let words = told.words();
    let words = if words.is_empty() { output.last_words() } else { format!(": {words}") };
    let said = format!("{about}: exit code {code}{words}");
    let error = match code {
        code if REFUSED.contains(&code) => ActionError::permanent(codes::REFUSED, said),
        UNAVAILABLE | NOT_NOW => ActionError::transient(codes::UNAVAILABLE, said),
        UNREADABLE => http_response::unreadable(said, changing),
        DENIED => ActionError::permanent(codes::DENIED, said),
        UNSUPPORTED => ActionError::permanent(codes::UNSUPPORTED, said),
        FENCED => ActionError::permanent(codes::FENCED, said),
        _ => return None,
    };
    Some(told.over(error))
}
