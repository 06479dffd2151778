//! A real server with its own folder and a free port, and the command line.

use reqwest::{Client, Method, RequestBuilder, StatusCode, header::HeaderMap};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
};
use tempfile::TempDir;

/// The program.
pub(crate) const TENURE: &str = env!("CARGO_BIN_EXE_tenure-under-test");

/// Eight nodes with eight GPUs each.
pub(crate) const NODES: &str = "\
sn,cpu_milli,memory_mib,gpu,model
n-1,96000,786432,8,H100
n-2,96000,786432,8,H100
n-3,96000,786432,8,H100
n-4,96000,786432,8,H100
n-5,96000,786432,8,H100
n-6,96000,786432,8,H100
n-7,96000,786432,8,H100
n-8,96000,786432,8,H100
";

/// Returns a request that policy approves.
pub(crate) fn small(name: &str) -> String {
    request(name, "research", 8)
}

/// Returns a request that needs an approval.
pub(crate) fn large(name: &str) -> String {
    request(name, "enterprise", 16)
}

fn request(name: &str, tier: &str, gpus: u32) -> String {
    format!(
        "name: {name}\ntenant:\n  tier: {tier}\n  isolation: dedicated\n  data_residency: eu-only\n  \
         allow_preemption: false\n  allow_gpu_sharing: false\nentitlement:\n  gpu_model: H100\n  gpus: {gpus}\n"
    )
}

/// Returns a request with a serving and an exploring workspace, four GPUs each, which policy approves.
pub(crate) fn shared(name: &str) -> String {
    format!(
        "name: {name}\ntenant:\n  tier: research\n  isolation: dedicated\n  data_residency: eu-only\n  \
         allow_preemption: true\n  allow_gpu_sharing: false\nentitlement:\n  gpu_model: H100\n  gpus: 8\n\
         workspaces:\n  - {{name: serving, class: production, quotas: {{gpus: 4}}}}\n  \
         - {{name: research, class: research, quotas: {{gpus: 4}}}}\n"
    )
}

/// Reports that all GPUs of a tenant's nodes were observed without workloads.
pub(crate) async fn seen(served: &Served, tenant: &str) {
    let nodes = served.get(&format!("/v1/nodes?owner={tenant}")).await.body;
    let idle = json!({ "H100": { "usable": 8, "busy": 0 } });
    let nodes = nodes["items"].as_array().unwrap().iter().map(|node| (node["id"].as_str().unwrap(), &idle));
    let facts = json!({ "nodes": nodes.collect::<std::collections::BTreeMap<_, _>>() });
    let taken = served.json_as(&served.admin, "/v1/clusters/eu-1/facts", facts).await;
    assert_eq!(taken.status, 200, "{}", taken.body);
}

/// A server process, killed when it is dropped.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) url: String,
    /// The output before the list of first commands.
    pub(crate) said: Vec<String>,
}

impl Running {
    /// Starts a server in `dir` on a free port, with additional environment variables.
    pub(crate) fn start(dir: &Path, variables: &[(&str, &str)]) -> Self {
        Self::start_telling(dir, variables, Stdio::inherit())
    }

    /// The same, with its log in `log`.
    pub(crate) fn start_telling(dir: &Path, variables: &[(&str, &str)], log: Stdio) -> Self {
        Self::start_at("127.0.0.1:0", dir, variables, log)
    }

    fn start_at(at: &str, dir: &Path, variables: &[(&str, &str)], log: Stdio) -> Self {
        let mut command = tenure(dir);
        // Most tests let users of the admin vote; `separation` covers users who may not.
        command.env("TENURE_TRIAL", "true");
        command.args(["serve", "--listen", at]).envs(variables.iter().copied());
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let said: Vec<_> = lines.by_ref().take_while(|line| !line.starts_with("try next")).collect();
        // The server must never block on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let first = said.first().expect("the server starts");
        let url = first.rsplit(' ').next().unwrap().to_owned();
        Self { child, url, said }
    }

    /// Stops it by `signal`; returns its exit code.
    pub(crate) fn stop(mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running server.
pub(crate) struct Served {
    pub(crate) dir: TempDir,
    pub(crate) url: String,
    pub(crate) admin: String,
    _process: Running,
    http: Client,
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }

    pub(crate) fn id(&self) -> String {
        self.body["id"].as_str().unwrap_or_else(|| panic!("{}", self.body)).to_owned()
    }
}

/// Runs the program in the folder `dir`, without logs and independent of the tester's environment.
pub(crate) fn tenure(dir: &Path) -> Command {
    let mut command = Command::new(TENURE);
    let own = ["TENURE_SERVER", "TENURE_TOKEN", "TENURE_CONTEXT", "TENURE_DATA", "TENURE_CONFIG", "RUST_LOG"];
    // The last two are for the tests: the program would warn about unknown settings.
    for name in own.into_iter().chain(["NO_COLOR", "CLICOLOR_FORCE", "TENURE_SKIP_NONE", "TENURE_BLESS"]) {
        command.env_remove(name);
    }
    // The tester's own contexts are not used.
    command.env("XDG_CONFIG_HOME", dir.join("settings"));
    // Tests send requests without a pause; `edge` tests the rate limit.
    command.envs([("TENURE_HTTP_RATE", "100000"), ("TENURE_HTTP_RATE_BURST", "100000")]);
    command.env("TENURE_LOG", "error").current_dir(dir).stdin(Stdio::null());
    command
}

impl Served {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts with additional environment variables.
    pub(crate) fn start_with(variables: &[(&str, &str)]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), variables, Stdio::inherit())
    }

    /// Starts with a complete log, in `log.txt` of its folder.
    pub(crate) fn start_logged(variables: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = std::fs::File::create(dir.path().join("log.txt")).unwrap();
        Self::start_in(dir, &[variables, &[("TENURE_LOG", "debug")]].concat(), log.into())
    }

    /// Starts on an address that other machines can reach.
    pub(crate) fn listening(at: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let process = Running::start_at(at, dir.path(), &[], Stdio::inherit());
        Self::of(dir, process)
    }

    fn start_in(dir: TempDir, variables: &[(&str, &str)], log: Stdio) -> Self {
        let process = Running::start_telling(dir.path(), variables, log);
        Self::of(dir, process)
    }

    fn of(dir: TempDir, process: Running) -> Self {
        program::install_tls();
        let url = process.url.clone();
        // Empty if the store is shared and another server has made the first admin.
        let admin = std::fs::read_to_string(dir.path().join("tenure-data/admin.token")).unwrap_or_default();
        // The target of a redirect is part of the answer.
        let http = Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { dir, url, admin: admin.trim().into(), _process: process, http }
    }

    /// The same server, with another client.
    pub(crate) fn asking_by(self, http: Client) -> Self {
        Self { http, ..self }
    }

    /// Sends it a signal that does not end it.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self._process.child), signal).unwrap();
    }

    /// Stops it by `signal`; returns its exit code.
    pub(crate) fn stopped(self, signal: Signal) -> Option<i32> {
        self._process.stop(signal)
    }

    /// Stops it by `signal`; returns its folder and the admin's token.
    pub(crate) fn kept_after(self, signal: Signal) -> (TempDir, String) {
        assert_eq!(self._process.stop(signal), Some(0));
        (self.dir, self.admin)
    }

    /// Starts a server again in the folder of a killed server.
    pub(crate) fn again(dir: TempDir, admin: String) -> Self {
        Self { admin, ..Self::start_in(dir, &[], Stdio::inherit()) }
    }

    /// Kills it; returns its folder and the admin's token.
    pub(crate) fn killed(self) -> (TempDir, String) {
        drop(self._process);
        (self.dir, self.admin)
    }

    /// A server with eight nodes.
    pub(crate) async fn with_nodes() -> Self {
        let served = Self::start();
        let answer = served.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        served
    }

    /// A server with eight nodes that does not observe them itself: facts are pushed, as for a real cluster.
    pub(crate) async fn unobserved() -> Self {
        let served = Self::start_with(&[("TENURE_SIMULATED_OBSERVE", "false")]);
        let answer = served.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        served
    }

    pub(crate) fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    pub(crate) async fn send(&self, request: RequestBuilder) -> Answer {
        let answer = request.send().await.unwrap();
        let (status, headers) = (answer.status(), answer.headers().clone());
        // A stream does not end; the tests of `streams` read them.
        if headers.get("content-type").is_some_and(|media| media == "text/event-stream") {
            return Answer { status, headers, body: Value::Null };
        }
        let text = answer.text().await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Answer { status, headers, body }
    }

    /// Reads as the admin.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.get_as(&self.admin, path).await
    }

    pub(crate) async fn get_as(&self, token: &str, path: &str) -> Answer {
        self.send(self.ask(Method::GET, path).bearer_auth(token)).await
    }

    /// Sends a body as the admin.
    pub(crate) async fn post(&self, path: &str, media: &str, body: &str) -> Answer {
        self.post_as(&self.admin, path, media, body).await
    }

    pub(crate) async fn post_as(&self, token: &str, path: &str, media: &str, body: &str) -> Answer {
        let request = self.ask(Method::POST, path).bearer_auth(token).header("content-type", media);
        self.send(request.body(body.to_owned())).await
    }

    /// Sends JSON as the holder of `token`.
    pub(crate) async fn json_as(&self, token: &str, path: &str, body: Value) -> Answer {
        self.post_as(token, path, "application/json", &body.to_string()).await
    }

    /// Adds a user and returns the token.
    pub(crate) async fn user(&self, name: &str, roles: &[&str], tenant: Option<&str>) -> String {
        let body = json!({ "name": name, "roles": roles, "tenant": tenant });
        let added = self.json_as(&self.admin, "/v1/users", body).await;
        assert_eq!(added.status, 201, "{}", added.body);
        added.body["token"].as_str().unwrap().to_owned()
    }

    /// Requests a tenant as the admin; returns the execution's id.
    pub(crate) async fn onboard(&self, document: &str) -> String {
        let started = self.post("/v1/tenants", "application/yaml", document).await;
        assert_eq!(started.status, 202, "{}", started.body);
        started.id()
    }

    /// Returns the execution once `holds` is true.
    pub(crate) async fn until(&self, id: &str, holds: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..1_000 {
            let item = self.get(&format!("/v1/executions/{id}")).await.body;
            if holds(&item) {
                return item;
            }
            tokio::task::yield_now().await;
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("execution {id} did not get there: {}", self.get(&format!("/v1/executions/{id}")).await.body);
    }

    /// Returns the execution once it waits for approval.
    pub(crate) async fn asked(&self, id: &str) -> Value {
        self.until(id, |item| !item["waiting_for"]["approval"].is_null()).await
    }

    /// Returns the execution once it has ended.
    pub(crate) async fn ended(&self, id: &str) -> Value {
        self.until(id, |item| item["open"] == false).await
    }

    /// Runs a command of the command line against this server.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(tenure(self.dir.path()).args(["--server", &self.url]).args(arguments))
    }
}

/// The output and exit code of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) exit: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(command: &mut Command) -> Self {
        let Output { status, stdout, stderr } = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { exit: status.code().unwrap_or(-1), out: text(stdout), err: text(stderr) }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

/// Returns the files within `dir` that contain the bytes of `text`.
pub(crate) fn files_with(dir: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if std::fs::read(&path)
            .is_ok_and(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
        {
            found.push(path.display().to_string());
        }
    }
    found
}

/// Returns the text of a documentation page.
pub(crate) fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Fails unless the part of a page between the marks named `part` equals `text`; `BLESS=1` writes it.
pub(crate) fn generated(name: &str, part: &str, text: &str) {
    let page = page(name);
    let (begin, end) = (format!("<!-- {part}:begin -->\n"), format!("<!-- {part}:end -->"));
    let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("docs/{name} lacks {begin}"));
    let (stands, after) = rest.split_once(&end).unwrap_or_else(|| panic!("docs/{name} lacks {end}"));
    if std::env::var_os("BLESS").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
        return std::fs::write(path, format!("{before}{begin}{text}{end}{after}")).unwrap();
    }
    assert_eq!(stands, text, "docs/{name} is out of date: run with BLESS=1");
}
