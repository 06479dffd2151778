//! Runs `sacctmgr`, `scontrol` and `scancel` as child processes, without a shell, with a controlled environment. They
//! end with the call.
//!
//! They serve changes that `slurmrestd` does not support or performs incorrectly. Their messages are the only sign of
//! the outcome and are classified here, based on observed output of Slurm 22.05 and 24.11.

use crate::{
    outbound,
    slurm::{SlurmTarget, ToolsBy, locks},
};
use engine::ActionError;
use rustix::process::{Pid, Signal, kill_process_group};
use std::{fmt, io::ErrorKind, path::PathBuf, process::Stdio, time::Duration};
use tokio::process::Command;
use workflows::platform::codes;

/// The largest output that is read per stream, in bytes. The rest is dropped.
const MOST_SAID: usize = 64 << 10;
/// The longest run of a tool. The deadline of the call is usually shorter.
const WITHIN: Duration = Duration::from_secs(300);
/// Authentication or authorisation failed.
const DENIED: [&str; 7] = [
    "authentication error",
    "access/permission denied",
    "failed to unpack slurm_persist_init",
    "unexpected message received",
    "invalid user id",
    "doesn't have privilege",
    "appropriate privileges",
];
/// The request was not sent.
const NOT_REACHED: [&str; 8] = [
    "failed to send persistent connection init message",
    "connection refused",
    "unable to contact slurm controller",
    "no route to host",
    "network is unreachable",
    "host is down",
    "unable to connect to database",
    "temporary failure in name resolution",
];
/// The request was sent and its outcome is unknown. Messages of Slurm and of the operating system.
const NOT_ANSWERED: [&str; 11] = [
    "socket timed out",
    "zero bytes",
    "receive failure",
    "connection reset",
    "broken pipe",
    "connection timed out",
    "transport endpoint is not connected",
    "software caused connection abort",
    "resource temporarily unavailable",
    "interrupted system call",
    "network dropped connection",
];
/// The object does not exist.
const ABSENT: [&str; 4] =
    ["invalid job id", "requested reservation is invalid", "invalid node name", "reservation not found"];
/// The object already has the requested state.
const NOTHING: [&str; 7] = [
    "nothing new added",
    "already existing account",
    "nothing modified",
    "nothing deleted",
    "job is pending execution",
    "already completing or completed",
    "job has already finished",
];

/// The tools of one cluster.
pub(super) struct Tools {
    sacctmgr: PathBuf,
    scontrol: PathBuf,
    scancel: PathBuf,
    conf: PathBuf,
    /// The lock file that serialises changes to a shared accounting database.
    lock: Option<PathBuf>,
    /// The file with the authentication token, if munge is not used.
    token_file: Option<PathBuf>,
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tools").field("conf", &self.conf).finish_non_exhaustive()
    }
}

/// The result of a tool that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToolResult {
    /// The tool made the change.
    Did,
    /// There was nothing to change.
    Nothing,
}

impl Tools {
    pub(super) fn new(target: &SlurmTarget) -> Self {
        Self {
            sacctmgr: target.sacctmgr.clone(),
            scontrol: target.scontrol.clone(),
            scancel: target.scancel.clone(),
            conf: target.conf.clone(),
            lock: target.accounting_lock.clone(),
            token_file: (target.tools_by == ToolsBy::Token).then(|| target.token_file.clone()),
        }
    }

    /// Changes the accounting without a confirmation prompt, while it holds the accounting lock.
    pub(super) async fn sacctmgr(&self, words: &[&str]) -> Result<ToolResult, ActionError> {
        let _turn = locks::accounting(&self.conf, self.lock.as_ref()).await?;
        let all = [&["--immediate"], words].concat();
        self.run(&self.sacctmgr, "sacctmgr", &all).await
    }

    /// Changes the state of the controller.
    pub(super) async fn scontrol(&self, words: &[&str]) -> Result<ToolResult, ActionError> {
        self.run(&self.scontrol, "scontrol", words).await
    }

    /// Sends a signal to every process of a job.
    pub(super) async fn signal(&self, job: u64, signal: &str) -> Result<ToolResult, ActionError> {
        let (signal, job) = (format!("--signal={signal}"), job.to_string());
        self.run(&self.scancel, "scancel", &["--full", &signal, &job]).await
    }

    async fn run(&self, program: &PathBuf, name: &str, words: &[&str]) -> Result<ToolResult, ActionError> {
        let mut command = Command::new(program);
        command.args(words).env_clear().env("SLURM_CONF", &self.conf).env("LC_ALL", "C");
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        if let Some(file) = &self.token_file {
            let token = std::fs::read_to_string(file).map_err(|e| {
                ActionError::permanent(codes::DENIED, format!("token_file {}: {e}", file.display()))
            })?;
            command.env("SLURM_JWT", token.trim());
        }
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.kill_on_drop(true).spawn().map_err(|e| not_started(name, program, &e))?;
        let mut group = Group(child.id());
        let output = outbound::output(child, MOST_SAID, WITHIN).await;
        let output = output.map_err(|e| ActionError::unknown(codes::NO_ANSWER, format!("{name}: {e}")))?;
        let Some((status, stdout, stderr)) = output else {
            let why = format!("{name} did not end within {} s", WITHIN.as_secs());
            return Err(ActionError::unknown(codes::NO_ANSWER, why));
        };
        group.0 = None;
        let said = [stdout.as_slice(), b" ", stderr.as_slice()].concat();
        let said = String::from_utf8_lossy(&said);
        match status.code() {
            Some(0) => Ok(ToolResult::Did),
            Some(_) => meant(&format!("{name} {}", words.join(" ")), &said),
            None => {
                Err(ActionError::unknown(codes::NO_ANSWER, format!("{name} was killed before it answered")))
            }
        }
    }
}

fn not_started(name: &str, program: &std::path::Path, error: &std::io::Error) -> ActionError {
    let why =
        format!("{name} as {}: {error}; install Slurm's client tools or give their path", program.display());
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::PermissionDenied => ActionError::permanent(codes::UNSUPPORTED, why),
        _ => ActionError::transient(codes::UNAVAILABLE, why),
    }
}

/// A process group that is killed when the call is dropped.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        let pid = self.0.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(pid) = pid {
            // The group may have exited already.
            let _gone = kill_process_group(pid, Signal::KILL);
        }
    }
}

/// Classifies the message of a failed tool.
fn meant(what: &str, said: &str) -> Result<ToolResult, ActionError> {
    let lower = said.to_ascii_lowercase();
    let any = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let why = format!("{what}: {}", said.split_whitespace().collect::<Vec<_>>().join(" "));
    let why: String = why.chars().take(500).collect();
    if lower.contains("job(s) active") {
        return Err(ActionError::permanent(codes::ACCOUNT_IN_USE, why));
    }
    if lower.contains("no tres known by type") {
        let why = format!("{why}; name it in AccountingStorageTRES of slurm.conf");
        return Err(ActionError::permanent(codes::REFUSED, why));
    }
    if lower.contains("overlaps with another reservation") {
        return Err(ActionError::permanent(codes::NODE_OWNED, why));
    }
    if any(&["nodes are busy", "nodes busy", "reservation is in use"]) {
        return Err(ActionError::transient(codes::NODE_BUSY, why));
    }
    if lower.contains("try again later") {
        return Err(ActionError::transient(codes::UNAVAILABLE, why));
    }
    if lower.contains("presently disabled") {
        return Err(ActionError::permanent(codes::UNSUPPORTED, why));
    }
    if any(&DENIED) {
        return Err(ActionError::permanent(codes::DENIED, why));
    }
    if any(&NOT_REACHED) {
        return Err(ActionError::transient(codes::UNAVAILABLE, why));
    }
    if any(&NOT_ANSWERED) {
        return Err(ActionError::unknown(codes::NO_ANSWER, why));
    }
    if any(&ABSENT) {
        return Err(ActionError::permanent(codes::OBJECT_MISSING, why));
    }
    if any(&NOTHING) {
        return Ok(ToolResult::Nothing);
    }
    Err(ActionError::permanent(codes::REFUSED, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Class;

    /// Every text is observed output of Slurm 22.05 or 24.11.
    #[test]
    fn every_tool_error_has_a_class() {
        let refused = "slurm_persist_conn_open_without_init: failed to open persistent connection to host:127.0.0.1:6819: Connection refused";
        let missing = "slurm_msg_sendto: address:port=127.0.0.1:27590 msg_type=6500: Unexpected missing socket error sacctmgr: error: slurm_persist_conn_open: failed to send persistent connection init message to 127.0.0.1:27590";
        let token = "slurm_persist_conn_open: Something happened with the receiving/processing of the persistent connection init message to 127.0.0.1:6819: Failed to unpack SLURM_PERSIST_INIT message";
        for (said, class, code) in [
            (
                " Error with request: Job(s) active, cancel job(s) before remove",
                Class::Permanent,
                codes::ACCOUNT_IN_USE,
            ),
            (
                "slurmdb_format_tres_str: no TRES known by type gres/gpu:h900",
                Class::Permanent,
                codes::REFUSED,
            ),
            (refused, Class::Transient, codes::UNAVAILABLE),
            (missing, Class::Transient, codes::UNAVAILABLE),
            (token, Class::Permanent, codes::DENIED),
            (" Problem adding accounts: Access/permission denied", Class::Permanent, codes::DENIED),
            ("Unexpected message received for job 1", Class::Permanent, codes::DENIED),
            ("Unable to contact slurm controller (connect failure)", Class::Transient, codes::UNAVAILABLE),
            ("slurm_update error: Socket timed out on send/recv operation", Class::Unknown, codes::NO_ANSWER),
            ("slurm_update error: Transport endpoint is not connected", Class::Unknown, codes::NO_ANSWER),
            ("Requested operation is presently disabled for job 2", Class::Permanent, codes::UNSUPPORTED),
            (
                "Error creating the reservation: Requested reservation overlaps with another reservation",
                Class::Permanent,
                codes::NODE_OWNED,
            ),
            (
                "delete_reservation reservation=t-acme: Requested reservation is in use",
                Class::Transient,
                codes::NODE_BUSY,
            ),
            ("slurm_update error: Invalid node name specified", Class::Permanent, codes::OBJECT_MISSING),
            ("something new", Class::Permanent, codes::REFUSED),
        ] {
            let error = meant("tool", said).unwrap_err();
            assert_eq!((error.class, error.code.as_str()), (class, code), "{said}");
        }
        for said in [
            " Nothing new added.",
            " Already existing account t-acme on cluster gpu",
            " Nothing deleted",
            " Nothing modified",
            "Job is pending execution for job 1",
        ] {
            assert_eq!(meant("tool", said), Ok(ToolResult::Nothing), "{said}");
        }
    }
}
