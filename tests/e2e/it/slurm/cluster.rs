//! A test cluster, started by `tests/servers/slurm-up.sh`, with direct access to its state.

use backends::slurm::{NewJob, SlurmCluster, SlurmTarget};
use engine::ActionError;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    future::Future,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};
use store::Epoch;
use tempfile::TempDir;
use workflows::platform::{Associations, CallMetadata, WorkloadRef};

/// The GPUs of a node, by their name in Slurm.
pub(crate) const GPU: &str = "gres/gpu:h200";

/// The output of the script about the started cluster.
#[derive(Debug, Deserialize)]
struct Started {
    url: String,
    cluster: String,
    user: String,
    token_file: PathBuf,
    conf: PathBuf,
    bin: PathBuf,
    run: PathBuf,
}

/// A running cluster; it ends with its last user.
#[derive(Debug)]
pub(crate) struct Cluster {
    dir: TempDir,
    started: Started,
}

static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());

impl Cluster {
    /// Returns the cluster shared by all tests that stop no daemon, or `None` with a message if it is unavailable.
    pub(crate) fn shared() -> Option<Arc<Self>> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = shared.upgrade().filter(|running| running.is_whole()) {
            return Some(running);
        }
        let running = Arc::new(Self::start(6)?);
        *shared = Arc::downgrade(&running);
        Some(running)
    }

    /// Starts a separate cluster with `nodes` nodes of 8 GPUs.
    pub(crate) fn start(nodes: u32) -> Option<Self> {
        let dir = tempfile::Builder::new().prefix("tenure-slurm-").tempdir().unwrap();
        let script = e2e::scripts().join("slurm-up.sh");
        let up = Command::new(script).arg(dir.path()).arg(nodes.to_string()).output().unwrap();
        let said = String::from_utf8_lossy(&up.stdout);
        let last = said.lines().last().unwrap_or_default();
        match serde_json::from_str(last) {
            Ok(started) if up.status.success() => Some(Self { dir, started }),
            _ => {
                down(dir.path());
                e2e::skipped("Slurm", &String::from_utf8_lossy(&up.stderr));
                None
            }
        }
    }

    /// The settings of a backend that trusts the controller's answers: here only tests kill it.
    pub(crate) fn settings(&self) -> Value {
        let Started { url, cluster, user, token_file, conf, .. } = &self.started;
        json!({ "url": url, "cluster": cluster, "user": user, "token_file": token_file, "conf": conf, "saves_within": "0s", "accounting_lock": self.lock() })
    }

    /// Returns the tested backend, with some settings changed.
    pub(crate) fn with(&self, changes: &Value) -> SlurmCluster {
        let mut settings = self.settings();
        let fields = settings.as_object_mut().unwrap();
        fields.extend(changes.as_object().unwrap().clone());
        let target: SlurmTarget = serde_json::from_value(settings).unwrap();
        SlurmCluster::connect(&target).unwrap()
    }

    pub(crate) fn backend(&self) -> SlurmCluster {
        self.with(&json!({}))
    }

    pub(crate) fn url(&self) -> &str {
        &self.started.url
    }

    pub(crate) fn conf(&self) -> &Path {
        &self.started.conf
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the folder of the daemons' process ids.
    pub(crate) fn run(&self) -> &Path {
        &self.started.run
    }

    /// Returns the folder of the scripts that start daemons.
    pub(crate) fn bin(&self) -> &Path {
        &self.started.bin
    }

    pub(crate) fn token(&self) -> String {
        fs::read_to_string(&self.started.token_file).unwrap().trim().to_owned()
    }

    /// Writes a script into the cluster's folder, as a replacement of a tool.
    pub(crate) fn tool(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, format!("#!/bin/bash\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// The lock file of all writers to the accounting.
    fn lock(&self) -> PathBuf {
        self.dir.path().join("accounting.lock")
    }

    /// Returns the output of a Slurm tool, without the backend; under the lock if it writes to the accounting.
    pub(crate) fn says(&self, words: &[&str]) -> String {
        let lock = self.lock();
        let turn: &[&OsStr] = match words {
            ["sacctmgr", "-i", ..] => &["flock".as_ref(), "-w".as_ref(), "20".as_ref(), lock.as_os_str()],
            _ => &[],
        };
        let output = Command::new("timeout")
            .arg("20")
            .args(turn)
            .args(words)
            .env("SLURM_CONF", &self.started.conf)
            .output()
            .unwrap();
        let said = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
        String::from_utf8_lossy(&said).trim().to_owned()
    }

    /// Returns the status and body of a `slurmrestd` answer, without the backend.
    pub(crate) async fn rest(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
        token: &str,
    ) -> (u16, Value) {
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("{}{path}", self.started.url);
        let send = || {
            let request = client.request(method.parse().unwrap(), &url);
            let request = request.header("X-SLURM-USER-NAME", "root").header("X-SLURM-USER-TOKEN", token);
            body.iter().fold(request, |request, body| request.json(body)).send()
        };
        // After losing its connection to slurmdbd it sometimes closes a connection before reading from it.
        let answer = match send().await {
            Ok(answer) => answer,
            Err(_) => send().await.unwrap(),
        };
        let status = answer.status().as_u16();
        (status, answer.json().await.unwrap_or_default())
    }

    /// Kills a daemon, as a crash would.
    pub(crate) fn kill(&self, daemon: &str) {
        let pid = fs::read_to_string(self.started.run.join(daemon)).unwrap();
        let killed =
            Command::new("kill").args(["-KILL", "--", &format!("-{}", pid.trim())]).status().unwrap();
        assert!(killed.success(), "{daemon} was not running");
    }

    /// Returns true if the daemons answer. Some end by themselves; the next test then gets a new cluster.
    fn is_whole(&self) -> bool {
        ["slurmrestd", "slurmdbd", "slurmctld"].iter().all(|daemon| {
            let noted = fs::read_to_string(self.started.run.join(daemon)).unwrap_or_default();
            !noted.trim().is_empty() && Path::new("/proc").join(noted.trim()).exists()
        })
    }

    /// Starts a killed daemon again.
    pub(crate) fn restart(&self, daemon: &str) {
        assert!(Command::new(self.started.bin.join(daemon)).status().unwrap().success());
    }

    /// Returns the command line that kills a daemon.
    pub(crate) fn killing(&self, daemon: &str) -> String {
        format!("kill -KILL -- -$(cat {})", self.started.run.join(daemon).display())
    }

    /// Makes `user` a user of an account.
    pub(crate) fn let_in(&self, user: &str, account: &str) {
        let account = format!("account={account}");
        self.says(&["sacctmgr", "-i", "add", "user", user, &account]);
    }

    /// Returns the limits of an account in the accounting, by `sacctmgr`.
    pub(crate) fn limits(&self, account: &str) -> String {
        let account = format!("account={account}");
        let said =
            self.says(&["sacctmgr", "-nP", "show", "assoc", "where", &account, "format=account,grptres"]);
        // Users of the account have separate lines, without limits.
        let limited = said.lines().find(|line| line.contains('='));
        limited.or_else(|| said.lines().next()).unwrap_or_default().to_owned()
    }

    pub(crate) fn job_state(&self, job: u64) -> String {
        self.says(&["squeue", "-h", "-j", &job.to_string(), "-o", "%T"])
    }

    /// Waits until a job runs; if it does not, prints Slurm's state of it.
    pub(crate) async fn runs(&self, job: u64, within: Duration) {
        let known = || self.says(&["scontrol", "show", "job", &job.to_string()]);
        until_told(|| format!("it runs\n{}", known()), within, || async { self.job_state(job) == "RUNNING" })
            .await;
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        down(self.dir.path());
    }
}

fn down(dir: &Path) {
    let _ended = Command::new(e2e::scripts().join("slurm-down.sh")).arg(dir).status();
}

pub(crate) fn stamp(step: &str) -> CallMetadata {
    CallMetadata {
        action: "Test",
        step: step.to_owned(),
        key: step.to_owned(),
        epoch: Epoch(1),
        undo: false,
        deadline: Duration::from_secs(30),
        dry_run: false,
    }
}

/// Returns the GPU limits of workspaces.
pub(crate) fn gpus(of: &[(&str, u64)]) -> Associations {
    of.iter()
        .map(|(workspace, n)| ((*workspace).to_owned(), BTreeMap::from([(GPU.to_owned(), *n)])))
        .collect()
}

pub(crate) fn workload(tenant: &str, name: &str) -> WorkloadRef {
    let (tenant, workspace) = (tenant.to_owned(), "prod".to_owned());
    WorkloadRef { cluster: "gpu".into(), tenant, workspace, name: name.into() }
}

/// Returns a sleeping job of a workload.
pub(crate) fn sleeper(of: &WorkloadRef, gpus: u64) -> NewJob {
    NewJob {
        name: of.name.clone(),
        account: format!("t-{}--{}", of.tenant, of.workspace),
        script: "#!/bin/bash\nsleep 600\n".into(),
        gpus: format!("gpu:h200:{gpus}"),
        memory_mib: 100,
        cpus: 1,
        requeue: true,
        reservation: String::new(),
    }
}

/// Polls until the condition is true, for at most `within`; on a busy machine, four times that.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, within: Duration, mut so: impl FnMut() -> F) {
    until_told(|| what.to_owned(), within, &mut so).await;
}

/// The same; if it fails, the closure describes the actual state.
pub(crate) async fn until_told<F: Future<Output = bool>>(
    what: impl Fn() -> String,
    within: Duration,
    mut so: impl FnMut() -> F,
) {
    let (began, within) = (Instant::now(), within * 4);
    while !so().await {
        assert!(began.elapsed() < within, "still false after {within:?}: {}", what());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Repeats the call after transient failures.
pub(crate) async fn repeated<T, F: Future<Output = Result<T, ActionError>>>(
    mut call: impl FnMut() -> F,
) -> T {
    let began = Instant::now();
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(error) => {
                let permanent = error.class == engine::Class::Permanent;
                assert!(!permanent && began.elapsed() < Duration::from_secs(60), "{error}");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}
