//! Real processes, started on free ports, killed without warning and started again.

use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU16, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// A port that is free now, below the range from which the kernel hands out ports by itself. None is given out twice, so that whoever
/// ends and comes back finds its own free.
#[must_use]
pub fn free_port() -> u16 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    const ALL: u16 = 12_000;
    let start = u16::try_from(std::process::id() % 5_000).unwrap_or(0) * 2;
    let mut ports = (0..ALL).map(|_| 20_000 + (start + GIVEN.fetch_add(1, Ordering::Relaxed) % ALL) % ALL);
    let free = ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.expect("a free port between 20000 and 32000")
}

/// Gives this process a crypto provider, without which no HTTP client is made.
fn with_crypto() {
    // An error means that there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// What a server says once it takes calls.
const LISTENS: &str = "listens on";

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
        let started = Self::try_start(command, ready);
        started.unwrap_or_else(|| panic!("{command:?} ended without saying {ready:?}"))
    }

    /// The same; nothing when it ends without saying so.
    ///
    /// # Panics
    /// When there is no such program.
    pub fn try_start(command: &mut Command, ready: &str) -> Option<(Self, String)> {
        let child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut process = Self { child };
        let mut lines = BufReader::new(process.child.stdout.take().expect("its output is piped")).lines();
        let line = lines.by_ref().map_while(Result::ok).find(|line| line.contains(ready))?;
        // Nobody may wait for a reader.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Some((process, line))
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        _ = rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal);
    }

    /// Waits until it has ended; answers with its exit code.
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

    /// Asks the world for something as one of its own, with the fields of a request, again until it is answered; answers with
    /// what it said.
    ///
    /// # Panics
    /// When the world is away, or does not do it.
    pub async fn call(&self, request: &Value) -> Value {
        let mut said = Value::Null;
        for _ in 0..20 {
            let answer = Client::new().post(format!("{}/call", self.url)).json(request).send().await;
            said = answer.expect("the world answers").json().await.expect("the world speaks JSON");
            if said["Ok"].is_object() {
                return said["Ok"].take();
            }
        }
        panic!("{request}: {said}");
    }

    /// Plays this script of faults from here on, in place of any other.
    ///
    /// # Panics
    /// When the world does not answer.
    pub async fn script(&self, script: &Value) {
        let answer = Client::new().post(format!("{}/script", self.url)).json(script).send().await;
        assert!(answer.expect("the world answers").status().is_success(), "{script}");
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
    ///
    /// # Panics
    /// When it ends before it listens.
    pub fn restart(&mut self) -> Duration {
        let began = Instant::now();
        let mut command = self.command();
        self.process = Some(Process::start(&mut command, LISTENS).0);
        began.elapsed()
    }

    /// The same as a supervisor does it: again while it ends before it listens, as it does where its database is away.
    ///
    /// # Panics
    /// When it does not listen within a minute.
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
            // It speaks to the tests; of a server's own settings there is none of this name.
            .env_remove("TENURE_SKIP_NONE")
            .arg("serve")
            .arg("--data")
            .arg(&self.dir)
            .args(["--listen", &format!("127.0.0.1:{}", self.port)]);
        if let Some(platform) = &self.platform {
            command.args(["--platform", platform]);
        }
        // One token asks for everybody.
        command.env("TENURE_HTTP_RATE", "0");
        command.env("TENURE_LOG", "error").envs(self.environment.iter().cloned());
        command
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// SIGTERM, and waits until it has ended; answers with its exit code.
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

    /// Its port, whether or not it runs.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A way to call it that outlives kills.
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

/// Calls a server as one person, again and again until it answers. Of several that share a store, each in turn.
#[derive(Clone, Debug)]
pub struct Caller {
    urls: Vec<String>,
    turn: Arc<AtomicUsize>,
    token: String,
    client: Client,
}

impl Caller {
    /// The same person, at another address.
    #[must_use]
    pub fn at(&self, url: &str) -> Self {
        Self { urls: vec![url.to_owned()], ..self.clone() }
    }

    /// Who it speaks as.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The same person, who calls whichever of these answers.
    #[must_use]
    pub fn of_any(self, servers: &[&Server]) -> Self {
        Self { urls: servers.iter().map(|server| server.url()).collect(), ..self }
    }

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
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            let url = &self.urls[turn % self.urls.len()];
            let mut request =
                self.client.request(method.clone(), format!("{url}{path}")).bearer_auth(&self.token);
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
                    let said = serde_json::from_str(&text).unwrap_or(Value::String(text));
                    // Whoever hung up is still being answered.
                    if said["code"] != "idempotency.in_progress" {
                        return (status, said);
                    }
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
