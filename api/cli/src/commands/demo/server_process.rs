//! A server process in a temporary folder that can be killed and restarted.

use crate::client::Client;
use api::config::admin_file;
use engine::{Clock as _, SystemClock};
use program::{encoding::hex, exit::Failure};
use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    os::unix::fs::DirBuilderExt as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

/// The delay of each change in the simulated world, in milliseconds. It leaves time to kill the server.
const DELAY_MS: &str = "120";

/// The folder and the running server, if there is one.
pub(super) struct ServerProcess {
    dir: PathBuf,
    listen: String,
    child: Option<Child>,
}

impl ServerProcess {
    /// Creates a folder and chooses a free port.
    pub(super) fn set() -> Result<Self, Failure> {
        let name = format!("tenure-demo-{}", hex::encode(&SystemClock.entropy()));
        let dir = std::env::temp_dir().join(name);
        fs::DirBuilder::new().mode(0o700).create(&dir).map_err(Failure::other)?;
        let mut stage = Self { dir, listen: String::new(), child: None };
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        stage.listen = free.map_err(Failure::other)?.to_string();
        Ok(stage)
    }

    /// Returns the server's URL.
    pub(super) fn address(&self) -> String {
        format!("http://{}", self.listen)
    }

    /// Starts the server and returns a client with the admin's token.
    pub(super) async fn start(&mut self) -> Result<Client, Failure> {
        let program = std::env::current_exe().map_err(Failure::other)?;
        let mut command = Command::new(program);
        command
            .args(["serve", "--trial", "--listen", &self.listen, "--data"])
            .arg(&self.dir)
            .env("TENURE_LOG", "error")
            .env("TENURE_SIMULATED_DELAY_MS", DELAY_MS)
            .env_remove("TENURE_CONFIG")
            // The first start of a server creates a context. It must not be in the user's file, because the folder is removed.
            .env("XDG_CONFIG_HOME", self.dir.join("settings"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = command.spawn().map_err(Failure::other)?;
        let said = child.stdout.take();
        self.child = Some(child);
        // The first line appears when the server listens. The pipe is read to its end so that the server never blocks.
        let listens = tokio::task::spawn_blocking(move || {
            let mut lines =
                said.into_iter().flat_map(|out| BufReader::new(out).lines()).map_while(Result::ok);
            let first = lines.next();
            std::thread::spawn(move || lines.for_each(drop));
            first.is_some_and(|line| line.contains("listens on"))
        });
        if !listens.await.map_err(Failure::other)? {
            return Err(Failure::other("the server did not start"));
        }
        let file = admin_file(&self.dir);
        let token = fs::read_to_string(&file).map_err(Failure::other)?.trim().to_owned();
        Client::to(self.address(), Some(token), file)
    }

    /// Kills the server with SIGKILL.
    pub(super) fn kill(&mut self) -> Result<(), Failure> {
        if let Some(mut child) = self.child.take() {
            child.kill().and_then(|()| child.wait()).map_err(Failure::other)?;
        }
        Ok(())
    }

    /// Stops the server and removes the folder.
    pub(super) async fn strike(mut self) -> Result<(), Failure> {
        self.kill()?;
        // The kernel may still close files of the killed process.
        for _ in 0..20 {
            if fs::remove_dir_all(&self.dir).is_ok() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(Failure::other(format!("{} could not be removed", self.dir.display())))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.kill();
        let _ = fs::remove_dir_all(&self.dir);
    }
}
