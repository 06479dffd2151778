//! Real processes: started on free ports, killed, and restarted.

mod caller;
mod server;
mod world;

pub use caller::Caller;
pub use server::Server;
pub use world::World;

use std::{
    io::{BufRead as _, BufReader},
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
};

/// Returns a port that is free now, below the kernel's ephemeral range. No port is returned twice, so that a restarted process finds
/// its own one free.
#[must_use]
pub fn free_port() -> u16 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    const ALL: u16 = 12_000;
    let start = u16::try_from(std::process::id() % 5_000).unwrap_or(0) * 2;
    let mut ports = (0..ALL).map(|_| 20_000 + (start + GIVEN.fetch_add(1, Ordering::Relaxed) % ALL) % ALL);
    let free = ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.expect("a free port between 20000 and 32000")
}

/// Installs a crypto provider, which every HTTP client needs.
fn with_crypto() {
    // An error means that there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A process that is killed when it is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts `command` and waits for an output line that contains `ready`; returns that line.
    ///
    /// # Panics
    /// If it ends without that line.
    pub fn start(command: &mut Command, ready: &str) -> (Self, String) {
        let started = Self::try_start(command, ready);
        started.unwrap_or_else(|| panic!("{command:?} ended without saying {ready:?}"))
    }

    /// The same; `None` if it ends without that line.
    ///
    /// # Panics
    /// If there is no such program.
    pub fn try_start(command: &mut Command, ready: &str) -> Option<(Self, String)> {
        let child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut process = Self { child };
        let mut lines = BufReader::new(process.child.stdout.take().expect("its output is piped")).lines();
        let line = lines.by_ref().map_while(Result::ok).find(|line| line.contains(ready))?;
        // The process must never block on a full pipe.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Some((process, line))
    }

    /// Sends SIGKILL, and waits for the end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        _ = rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal);
    }

    /// Waits until it has ended; returns its exit code.
    pub fn ended(&mut self) -> Option<i32> {
        self.child.wait().ok()?.code()
    }

    /// Resident memory, in bytes.
    #[must_use]
    pub fn rss(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
