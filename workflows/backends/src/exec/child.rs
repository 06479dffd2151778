//! One run of a program, in a process group of its own.

use super::ExecTarget;
use crate::outbound;
use rustix::process::{Pid, Signal, kill_process_group};
use std::{io, os::unix::process::ExitStatusExt, process::Stdio, time::Duration};
use tokio::{
    io::AsyncWriteExt,
    process::{Child, Command},
};

/// How much of what it wrote to its standard error is told of, in bytes.
const LAST_WORDS: usize = 2 << 10;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildExit {
    /// With this code.
    Exit(i32),
    /// By this signal.
    Signal(i32),
    /// Its deadline was over, and it was killed.
    Late,
    /// The system did not say.
    Lost,
}

/// What a program left.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) ended: ChildExit,
    pub(crate) stdout: Vec<u8>,
    /// It wrote more than may be read.
    pub(crate) too_much: bool,
    stderr: Vec<u8>,
}

impl Output {
    /// The end of what it wrote to its standard error, for a message: one line, with `: ` before it where there is any.
    pub(crate) fn last_words(&self) -> String {
        let text = String::from_utf8_lossy(&self.stderr);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = lines.get(lines.len().saturating_sub(3)..).unwrap_or_default().join(" | ");
        if last.is_empty() { String::new() } else { format!(": {last}") }
    }
}

/// A process group that does not outlive this value.
struct Group(Option<Pid>);

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // Nobody left in it is what is wanted.
            let _nobody_left = kill_process_group(group, signal);
        }
    }

    /// Kills whoever is left in it, once. After that its number may be another's.
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

/// Starts the program, gives it its input, and reads what it says until it ends or its time is over.
///
/// # Errors
/// That it cannot be started.
pub(crate) async fn run(target: &ExecTarget, input: &[u8], deadline: Duration) -> io::Result<Output> {
    let mut child = spawn(target)?;
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let mut group = Group(id);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feeding = async {
        if let Some(mut stdin) = stdin {
            // A program that does not want to hear it all may close its input.
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
        // What it left running holds the pipes open: nothing of it goes on.
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

/// Waits for the program; past its deadline asks it to end, and kills it when it does not.
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
