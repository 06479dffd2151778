//! A Tenure server as a process.

use super::{Caller, Process, free_port, with_crypto};
use reqwest::Client;
use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

/// The server's output once it accepts calls.
const LISTENS: &str = "listens on";

/// A Tenure server that can be killed and started again on the same folder and port.
#[derive(Debug)]
pub struct Server {
    program: PathBuf,
    dir: PathBuf,
    platform: Option<String>,
    environment: Vec<(String, String)>,
    port: u16,
    process: Option<Process>,
    client: Client,
}

impl Server {
    /// Starts `program` on `dir`, with the simulated platform at `platform` or its own.
    #[must_use]
    pub fn start(program: &Path, dir: &Path, platform: Option<&str>) -> Self {
        Self::start_with(program, dir, platform, Vec::new())
    }

    /// The same, with settings in its environment.
    #[must_use]
    pub fn start_with(
        program: &Path,
        dir: &Path,
        platform: Option<&str>,
        environment: Vec<(String, String)>,
    ) -> Self {
        with_crypto();
        let client = Client::builder().timeout(Duration::from_secs(20)).build().expect("a client");
        let mut server = Self {
            program: program.to_owned(),
            dir: dir.to_owned(),
            platform: platform.map(str::to_owned),
            environment,
            port: free_port(),
            process: None,
            client,
        };
        server.restart();
        server
    }

    /// Restarts it; returns the time until it listens.
    ///
    /// # Panics
    /// If it ends before it listens.
    pub fn restart(&mut self) -> Duration {
        let began = Instant::now();
        let mut command = self.command();
        self.process = Some(Process::start(&mut command, LISTENS).0);
        began.elapsed()
    }

    /// Restarts it as a supervisor does: repeatedly while it ends before it listens, as it does without its database.
    ///
    /// # Panics
    /// If it does not listen within a minute.
    pub fn restart_until_it_listens(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some((process, _)) = Process::try_start(&mut self.command(), LISTENS) {
                self.process = Some(process);
                return;
            }
            assert!(Instant::now() < deadline, "{:?} does not start", self.dir);
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            // It is for the tests; the server has no setting of this name.
            .env_remove("TENURE_SKIP_NONE")
            .env("XDG_CONFIG_HOME", self.dir.join("settings"))
            .arg("serve")
            .arg("--data")
            .arg(&self.dir)
            .args(["--listen", &format!("127.0.0.1:{}", self.port)]);
        if let Some(platform) = &self.platform {
            command.args(["--platform", platform]);
        }
        // One administrator has added all voters here.
        command.env("TENURE_TRIAL", "true");
        // One token sends all requests.
        command.env("TENURE_HTTP_RATE", "0");
        command.env("TENURE_LOG", "error").envs(self.environment.iter().cloned());
        command
    }

    /// Sends SIGKILL.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Sends SIGTERM, and waits for the end; returns its exit code.
    pub fn stop(&mut self) -> Option<i32> {
        let mut process = self.process.take()?;
        let pid = rustix::process::Pid::from_child(&process.child);
        _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        process.child.wait().ok()?.code()
    }

    /// Sets a variable of its environment, from the next start on.
    pub fn set(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    /// Sends SIGSTOP, or SIGCONT.
    pub fn stand_still(&self, still: bool) {
        let signal = if still { rustix::process::Signal::STOP } else { rustix::process::Signal::CONT };
        let pid = self.process.as_ref().map(|process| rustix::process::Pid::from_child(&process.child));
        if let Some(pid) = pid {
            _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// Resident memory, in bytes.
    #[must_use]
    pub fn rss(&self) -> u64 {
        self.process.as_ref().map_or(0, Process::rss)
    }

    /// Returns its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The first admin's token.
    ///
    /// # Panics
    /// If the server has not stored it.
    #[must_use]
    pub fn admin(&self) -> String {
        let file = self.dir.join("admin.token");
        std::fs::read_to_string(file).expect("the admin's token is kept").trim().to_owned()
    }

    /// Returns its port; the server need not run.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns a caller that survives kills of the server.
    #[must_use]
    pub fn caller(&self, token: &str) -> Caller {
        Caller {
            urls: vec![self.url()],
            turn: Arc::default(),
            token: token.to_owned(),
            client: self.client.clone(),
        }
    }
}
