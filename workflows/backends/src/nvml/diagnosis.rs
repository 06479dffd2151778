//! Tests a node's GPUs with an operator-supplied program: NVML has no test, and test programs differ between vendors.
//!
//! Exit code 0 means fit and 1 means unfit. Every other outcome is a failed call and says nothing about the GPUs.

use crate::exec::{
    ExecTarget,
    child::{self, ChildExit, Output},
};
use engine::ActionError;
use std::{io::ErrorKind, path::Path, time::Duration};
use workflows::platform::{Diagnosis, DiagnosisLevel, codes};

/// Exit code: the GPUs must not serve tenants.
const UNFIT: i32 = 1;
/// The largest part of the program's output that is kept, in bytes. It is written to the journal.
const REPORT: usize = 4 << 10;
/// The variables of the agent's environment that are passed to the program.
const ENVIRONMENT: [&str; 3] = ["PATH", "HOME", "LD_LIBRARY_PATH"];

/// Runs `program LEVEL`, at most for `within`.
///
/// # Errors
///
/// `platform.unsupported` if no program is configured. `platform.unavailable` for exit codes other than 0 (fit) and 1
/// (unfit).
pub(super) async fn run(
    program: Option<&Path>,
    level: DiagnosisLevel,
    within: Duration,
    place: &str,
) -> Result<Diagnosis, ActionError> {
    let Some(program) = program else {
        let why = format!("{place}: NVML has no diagnosis; set a program in `diagnosis`");
        return Err(ActionError::permanent(codes::UNSUPPORTED, why));
    };
    let level = <&str>::from(level);
    let about = format!("{place}: {} {level}", program.display());
    let target = ExecTarget {
        arguments: vec![level.to_owned()],
        environment: ENVIRONMENT.map(str::to_owned).to_vec(),
        output_limit_bytes: REPORT,
        ..ExecTarget::new(program)
    };
    let output = child::run(&target, &[], within).await.map_err(|error| {
        let why = format!("{about}: cannot be started: {error}");
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::PermissionDenied => {
                ActionError::permanent(codes::UNSUPPORTED, why)
            }
            _ => ActionError::transient(codes::UNAVAILABLE, why),
        }
    })?;
    let unknown = |why: &str| {
        let said = format!("{about}: {why}, so the result is unknown{}", output.last_words());
        Err(ActionError::transient(codes::UNAVAILABLE, said))
    };
    match output.ended {
        ChildExit::Exit(0) => Ok(Diagnosis { fit: true, report: report(&output) }),
        ChildExit::Exit(UNFIT) => Ok(Diagnosis { fit: false, report: report(&output) }),
        ChildExit::Exit(code) => unknown(&format!("exit code {code}")),
        ChildExit::Late => unknown("it did not end in time, and was killed"),
        ChildExit::Signal(signal) => unknown(&format!("ended by signal {signal}")),
        ChildExit::Lost => unknown("its outcome is unknown"),
    }
}

/// Returns the kept part of the program's output.
fn report(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout);
    let said = said.trim();
    match (said, output.too_much) {
        ("", _) => format!("it has no output{}", output.last_words()),
        (said, false) => said.to_owned(),
        (said, true) => format!("{said} […]"),
    }
}
