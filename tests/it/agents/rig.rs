//! A node with GPUs in a folder, its agent, and its server.

use backends::agents::{Command, Output};
use reqwest::Client;
use serde_json::{Value, json};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command as Program,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tests::{
    processes::{Caller, Process, Server},
    under_test::door::{Asked, Came},
};
use tokio::sync::MutexGuard;
use workflows::platform::GpuLayout;

pub const CLUSTER: &str = "metal-1";
pub const OTHER: &str = "metal-2";
pub const NODE: &str = "n-0";

pub fn tenure() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_tenure-under-test"))
}

/// Generates a key and its hash, as the product does.
pub fn key() -> (String, String) {
    let drawn = Program::new(tenure()).args(["agent", "key", "-o", "json"]).output().unwrap();
    let drawn: Value = serde_json::from_slice(&drawn.stdout).unwrap();
    (drawn["key"].as_str().unwrap().to_owned(), drawn["hash"].as_str().unwrap().to_owned())
}

/// A server in a folder of this name.
fn serve(folder: &Path, name: &str) -> Server {
    let door = folder.join(format!("{name}.door"));
    let settings = [
        ("UNDER_TEST", "door".to_owned()),
        ("UNDER_TEST_DOOR", door.display().to_string()),
        ("TENURE_TARGETS", folder.join("targets.yaml").display().to_string()),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value)).to_vec();
    Server::start_with(tenure(), &folder.join(name), None, settings)
}

pub struct Rig {
    pub folder: TempDir,
    pub server: Server,
    pub key: String,
    pub other_key: String,
    client: Client,
    _alone: MutexGuard<'static, ()>,
}

impl Rig {
    /// A server whose clusters have agents, of which none runs yet, and a node with these GPUs.
    pub async fn new(gpus: Value) -> Self {
        let alone = tests::alone().await;
        let folder = tempfile::tempdir().unwrap();
        let ((key, hash), (other_key, other)) = (key(), key());
        let agents = |hash: &str| json!({ "agents": { "keys": [hash] } });
        let targets = json!({ "clusters": { CLUSTER: agents(&hash), OTHER: agents(&other) } });
        let file = folder.path().join("targets.yaml");
        fs::write(&file, targets.to_string()).unwrap();
        fs::write(folder.path().join("key"), format!("{key}\n")).unwrap();
        let built = env::current_exe().unwrap().parent().unwrap().join("libnvml_stand_in.so");
        for name in ["libnvidia-ml.so.1", "libcuda.so.1"] {
            fs::copy(&built, folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("gpus.json"), json!({ "gpus": gpus }).to_string()).unwrap();
        let server = serve(folder.path(), "data");
        let client = Client::builder().no_proxy().build().unwrap();
        let rig = Self { folder, server, key, other_key, client, _alone: alone };
        rig.has_nodes(&rig.server).await;
        rig
    }

    /// Another server with the same agents, in a folder of this name.
    pub async fn beside(&self, name: &str) -> Server {
        let server = serve(self.folder.path(), name);
        self.has_nodes(&server).await;
        server
    }

    async fn has_nodes(&self, server: &Server) {
        let admin = server.admin();
        let send = async |query: &str, media: &str, body: String| {
            let url = format!("{}/v1/fleet:import{query}", server.url());
            let sent = self.client.post(url).bearer_auth(&admin).header("content-type", media).body(body);
            let answer = sent.send().await.unwrap();
            let (status, said) = (answer.status(), answer.text().await.unwrap());
            assert!(status.is_success(), "{said}");
        };
        let sites = format!(
            "regions: [{{id: eu, jurisdiction: eu}}]\nclusters:\n  - {{id: {CLUSTER}, region: eu, kind: bare_metal}}\n  - {{id: {OTHER}, region: eu, kind: bare_metal}}\n"
        );
        send("", "application/yaml", sites).await;
        let header = "sn,cpu_milli,memory_mib,gpu,model\n";
        for (cluster, node) in [(CLUSTER, NODE), (OTHER, "m-0")] {
            let csv = format!("{header}{node},96000,786432,8,H100\n");
            send(&format!("?cluster={cluster}&region=eu"), "text/csv", csv).await;
        }
    }

    /// Starts the agent of the node.
    pub fn agent(&self) -> Process {
        self.agent_of(&self.server.url())
    }

    /// Starts the agent with these servers.
    pub fn agent_of(&self, servers: &str) -> Process {
        let mut command = Program::new(tenure());
        command.arg("agent");
        self.started(command, servers)
    }

    /// Starts the agent of the node as the program `tenure-agent`, which contains no server.
    pub fn small_agent(&self) -> Process {
        let mut command = Program::new(tenure());
        command.env("UNDER_TEST", "agent");
        self.started(command, &self.server.url())
    }

    fn started(&self, mut command: Program, servers: &str) -> Process {
        let at = |name: &str| self.folder.path().join(name);
        command.args(["--cluster", CLUSTER, "--node", NODE, "--server", servers]);
        command.arg("--key-file").arg(at("key")).arg("--ledger").arg(at("ledger"));
        command.arg("--library").arg(at("libnvidia-ml.so.1")).arg("--cuda-library").arg(at("libcuda.so.1"));
        command.args(["--looks-apart-ms", "1", "--layout", "mixed=3g.40gb,2g.20gb,1g.10gb"]);
        if at("diagnosis").is_file() {
            command.arg("--diagnosis").arg(at("diagnosis"));
        }
        command.env("TENURE_LOG", "warn");
        Process::start(&mut command, "is ready").0
    }

    /// Starts the agent and waits until the server has its first report.
    pub async fn linked(&self) -> Process {
        let agent = self.agent();
        self.until_present(true).await;
        agent
    }

    pub fn admin(&self) -> Caller {
        self.server.caller(&self.server.admin())
    }

    /// Waits until the server reports the agent as present, or as absent.
    pub async fn until_present(&self, wanted: bool) {
        let (admin, until) = (self.admin(), Instant::now() + Duration::from_secs(30));
        loop {
            let agents = admin.get("/v1/agents").await;
            let present = agents["items"][0]["present"] == json!(true);
            if present == wanted {
                return;
            }
            assert!(Instant::now() < until, "{agents}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the list of agents has a value at this pointer.
    pub async fn until_seen(&self, pointer: &str) {
        let (admin, until) = (self.admin(), Instant::now() + Duration::from_secs(40));
        loop {
            let agents = admin.get("/v1/agents").await;
            if agents.pointer(pointer).is_some_and(|value| !value.is_null()) {
                return;
            }
            assert!(Instant::now() < until, "{agents}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Makes a call through the server.
    pub async fn call(&self, asked: Asked) -> Came {
        self.call_at("data", asked).await
    }

    /// Makes a call through the server in the folder of this name.
    pub async fn call_at(&self, name: &str, asked: Asked) -> Came {
        self.client.post(self.door(name)).json(&asked).send().await.unwrap().json().await.unwrap()
    }

    /// Makes a call in the background.
    pub fn calling(&self, asked: Asked) -> tokio::task::JoinHandle<Came> {
        let (client, url) = (self.client.clone(), self.door("data"));
        tokio::spawn(async move { client.post(url).json(&asked).send().await.unwrap().json().await.unwrap() })
    }

    fn door(&self, name: &str) -> String {
        let file = self.folder.path().join(format!("{name}.door"));
        format!("http://{}/call", fs::read_to_string(file).unwrap())
    }

    pub async fn layout(&self) -> GpuLayout {
        match self.call(asked("look", 1, Command::Layout)).await.unwrap() {
            Output::Layout(layout) => layout,
            other => panic!("{other:?}"),
        }
    }

    /// Changes the GPUs without notifying the server or the agent.
    pub fn edit(&self, change: impl FnOnce(&mut Value)) {
        let changed = |text: &str| {
            let mut state: Value = serde_json::from_str(text).unwrap();
            change(&mut state);
            state.to_string()
        };
        nvml_stand_in::edit(&self.folder.path().join("gpus.json"), changed).unwrap();
    }

    /// Returns the actual number of instances.
    pub fn instances(&self) -> usize {
        let mut count = 0;
        self.edit(|state| {
            let gpus = state["gpus"].as_array().cloned().unwrap_or_default();
            count = gpus.iter().map(|gpu| gpu["instances"].as_array().map_or(0, Vec::len)).sum();
        });
        count
    }

    /// Returns the changes of the GPUs since the last call.
    pub fn log(&self) -> Vec<Value> {
        let mut lines = Vec::new();
        self.edit(|state| lines = state["log"].take().as_array().cloned().unwrap_or_default());
        lines
    }

    /// Makes functions of the driver fail, or slow.
    pub fn trouble(&self, how: Value) {
        self.edit(|state| state["fail"] = how);
    }

    /// Waits until the GPUs have `count` instances.
    pub async fn until_instances(&self, count: usize) {
        let until = Instant::now() + Duration::from_secs(20);
        while self.instances() < count {
            assert!(Instant::now() < until, "{} instances", self.instances());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub fn memory(&self) -> PathBuf {
        self.folder.path().join("gpu-0.memory")
    }
}

/// A call of a step, with its key and epoch.
pub fn asked(step: &str, epoch: u64, command: Command) -> Asked {
    Asked {
        cluster: CLUSTER.into(),
        node: NODE.into(),
        command,
        step: step.into(),
        key: step.into(),
        epoch,
        deadline_ms: 20_000,
        dry_run: false,
    }
}

pub fn set(profile: &str) -> Command {
    Command::SetLayout { profile: profile.into() }
}
