//! Runs a program once, in its own process group.

use super::ExecTarget;
use crate::outbound;
use rustix::process::{Pid, Signal, kill_process_group};
use std::{io, os::unix::process::ExitStatusExt, process::Stdio, time::Duration};
use tokio::{
    io::AsyncWriteExt,
    process::{Child, Command},
};

/// The number of bytes at the end of standard error that error messages quote.
const LAST_WORDS: usize = 2 << 10;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildExit {
    /// It exited with this code.
    Exit(i32),
    /// A signal ended it.
    Signal(i32),
    /// It ran past its deadline and was killed.
    Late,
    /// The system reported neither an exit code nor a signal.
    Lost,
}

/// The output and the exit of a program.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) ended: ChildExit,
    pub(crate) stdout: Vec<u8>,
    /// True if the program wrote more than the output limit.
    pub(crate) too_much: bool,
    stderr: Vec<u8>,
}

impl Output {
    /// Returns the last three lines of standard error on one line, with a leading `: `. Empty if there is no output.
    pub(crate) fn last_words(&self) -> String {
        let text = String::from_utf8_lossy(&self.stderr);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = lines.get(lines.len().saturating_sub(3)..).unwrap_or_default().join(" | ");
        if last.is_empty() { String::new() } else { format!(": {last}") }
    }
}

/// A process group that is killed when this value is dropped.
struct Group(Option<Pid>);

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // An error means that the group is already empty.
            let _nobody_left = kill_process_group(group, signal);
        }
    }

    /// Kills all processes of the group, once. Afterwards the system may reuse the group's number.
    fn end(&mut self) {
        self.signal(Signal::KILL);
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts the program, writes its input, and reads its output until it exits or the deadline passes.
///
/// # Errors
///
/// If the program cannot be started.
pub(crate) async fn run(target: &ExecTarget, input: &[u8], deadline: Duration) -> io::Result<Output> {
    let mut child = spawn(target)?;
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let mut group = Group(id);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feeding = async {
        if let Some(mut stdin) = stdin {
            // A program may close its input before it has read all of it.
            let _closed_early = stdin.write_all(input).await;
        }
    };
    let reading = async {
        tokio::join!(
            outbound::beginning(stdout, target.output_limit_bytes),
            outbound::last_words(stderr, LAST_WORDS),
            feeding
        )
    };
    let ending = async {
        let ended = end(&mut child, &mut group, deadline, target.grace).await;
        // Child processes that still run keep the pipes open, so the whole group is killed.
        group.end();
        ended
    };
    let (((stdout, too_much), stderr, ()), ended) = tokio::join!(reading, ending);
    Ok(Output { ended, stdout, too_much, stderr })
}

fn spawn(target: &ExecTarget) -> io::Result<Child> {
    let mut command = Command::new(&target.program);
    command
        .args(&target.arguments)
        .current_dir(&target.directory)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    for name in &target.environment {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.spawn()
}

/// Waits for the program. After the deadline, sends `SIGTERM`, and kills the program after the grace period.
async fn end(child: &mut Child, group: &mut Group, deadline: Duration, grace: Duration) -> ChildExit {
    if let Ok(status) = tokio::time::timeout(deadline, child.wait()).await {
        return match status {
            Ok(status) => status
                .code()
                .map(ChildExit::Exit)
                .or(status.signal().map(ChildExit::Signal))
                .unwrap_or(ChildExit::Lost),
            Err(_) => ChildExit::Lost,
        };
    }
    group.signal(Signal::TERM);
    if tokio::time::timeout(grace, child.wait()).await.is_err() {
        group.signal(Signal::KILL);
        let _reaped = child.wait().await;
    }
    ChildExit::Late
}
