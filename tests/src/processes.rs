//! Real processes, started on free ports, killed without warning and started again.

use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// A port that is free now, below the range from which the kernel hands out ports by itself.
#[must_use]
pub fn free_port() -> u16 {
    let start = 20_000 + u16::try_from(std::process::id() % 5_000).unwrap_or(0) * 2;
    let free = (start..32_000).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.expect("a free port between 20000 and 32000")
}

/// Gives this process a crypto provider, without which no HTTP client is made.
fn with_crypto() {
    // An error means that there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A process that is killed when it goes out of scope.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts `command` and waits for a line of its output that contains `ready`; answers with that line.
    ///
    /// # Panics
    /// When it ends, or says nothing of the kind.
    pub fn start(command: &mut Command, ready: &str) -> (Self, String) {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output is piped")).lines();
        let line = lines.by_ref().map_while(Result::ok).find(|line| line.contains(ready));
        let line = line.unwrap_or_else(|| panic!("{command:?} ended without saying {ready:?}"));
        // Nobody may wait for a reader.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        (Self { child }, line)
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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

/// The simulated world as a process.
#[derive(Debug)]
pub struct World {
    _process: Process,
    /// Where it listens, such as `http://127.0.0.1:20001`.
    pub url: String,
}

impl World {
    /// Starts `program` with its log in `dir`.
    #[must_use]
    pub fn start(program: &Path, dir: &Path) -> Self {
        with_crypto();
        let mut command = Command::new(program);
        command.args(["--listen", "127.0.0.1:0", "--log"]).arg(dir.join("world.log"));
        let (process, line) = Process::start(&mut command, "listening on ");
        let address = line.rsplit(' ').next().unwrap_or_default().to_owned();
        Self { _process: process, url: format!("http://{address}") }
    }

    /// One of the world's own records: `violations`, `effects`, `owners`, `snapshot`.
    ///
    /// # Panics
    /// When the world does not answer.
    pub async fn look(&self, what: &str) -> Value {
        let answer = reqwest::get(format!("{}/{what}", self.url)).await.expect("the world answers");
        answer.json().await.expect("the world speaks JSON")
    }
}

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
    /// Starts `program` on `dir`, acting on the world at `platform` or on one of its own.
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

    /// Starts it again; answers how long it took until it listened.
    pub fn restart(&mut self) -> Duration {
        let began = Instant::now();
        let mut command = Command::new(&self.program);
        command
            .arg("serve")
            .arg("--data")
            .arg(&self.dir)
            .args(["--listen", &format!("127.0.0.1:{}", self.port)]);
        if let Some(platform) = &self.platform {
            command.args(["--platform", platform]);
        }
        command.env("TENURE_LOG", "error").envs(self.environment.iter().cloned());
        let (process, _) = Process::start(&mut command, "listens on");
        self.process = Some(process);
        began.elapsed()
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// SIGSTOP, or SIGCONT.
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

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The first admin's token.
    ///
    /// # Panics
    /// When the server has not kept it.
    #[must_use]
    pub fn admin(&self) -> String {
        let file = self.dir.join("admin.token");
        std::fs::read_to_string(file).expect("the admin's token is kept").trim().to_owned()
    }

    /// A way to call it that outlives kills.
    #[must_use]
    pub fn caller(&self, token: &str) -> Caller {
        Caller { url: self.url(), token: token.to_owned(), client: self.client.clone() }
    }
}

/// Calls a server as one person, again and again until it answers.
#[derive(Clone, Debug)]
pub struct Caller {
    url: String,
    token: String,
    client: Client,
}

impl Caller {
    /// One call, repeated while the server is away or busy with itself; `key` makes that safe.
    ///
    /// # Panics
    /// When it is away for a minute.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: Option<Value>,
    ) -> (StatusCode, Value) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let mut request =
                self.client.request(method.clone(), format!("{}{path}", self.url)).bearer_auth(&self.token);
            if let Some(key) = key {
                request = request.header("Idempotency-Key", key);
            }
            if let Some(body) = &body {
                request = request.json(body);
            }
            if let Ok(answer) = request.send().await {
                let status = answer.status();
                let away = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::BAD_GATEWAY].contains(&status);
                if let (false, Ok(text)) = (away, answer.text().await) {
                    return (status, serde_json::from_str(&text).unwrap_or(Value::String(text)));
                }
            }
            assert!(Instant::now() < deadline, "{path}: the server is away for too long");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// What lies at `path`.
    pub async fn get(&self, path: &str) -> Value {
        self.call(Method::GET, path, None, None).await.1
    }

    /// Every item of the list at `path`.
    ///
    /// # Panics
    /// When it is no list.
    pub async fn all(&self, path: &str) -> Vec<Value> {
        let (mut items, mut cursor) = (Vec::new(), None::<String>);
        let join = if path.contains('?') { '&' } else { '?' };
        loop {
            let more = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
            let page = self.get(&format!("{path}{join}limit=1000{more}")).await;
            items.extend(page["items"].as_array().unwrap_or_else(|| panic!("{path}: {page}")).clone());
            cursor = page["next"].as_str().map(str::to_owned);
            if cursor.is_none() {
                return items;
            }
        }
    }

    /// Adds a user and answers with a way to call as that user.
    ///
    /// # Panics
    /// When the server refuses.
    pub async fn user(&self, name: &str, role: &str) -> Self {
        let (status, body) =
            self.call(Method::POST, "/v1/users", None, Some(json!({ "name": name, "roles": [role] }))).await;
        assert!(status.is_success(), "{body}");
        let token = body["token"].as_str().expect("a token is shown").to_owned();
        Self { token, ..self.clone() }
    }
}
