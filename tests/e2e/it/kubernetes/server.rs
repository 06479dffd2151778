//! API servers that tests use in turn, and their contents, read without the backend.

use backends::kubernetes::KubernetesTarget;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tests::kit::proxy::{Changes, Proxy, trusting};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    task::JoinSet,
};

/// The maximum wait for anything asynchronous.
pub const PATIENCE: Duration = Duration::from_secs(120);
const BETWEEN: Duration = Duration::from_millis(100);
/// Where priority classes are.
pub const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

/// At most this number of servers run: a test mostly waits for the cluster's own controllers.
const SERVERS: usize = 2;
static TURNS: Semaphore = Semaphore::const_new(SERVERS);
/// Servers that no test uses at the moment.
static IDLE: Mutex<Vec<Arc<Server>>> = Mutex::new(Vec::new());

/// A server, which ends with this process.
struct Server {
    dir: TempDir,
}

/// A server, for one test at a time, with administrator's rights.
pub struct World {
    server: Arc<Server>,
    client: reqwest::Client,
    token: String,
    url: String,
    _turn: SemaphorePermit<'static>,
}

impl Drop for World {
    fn drop(&mut self) {
        IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(self.server.clone());
    }
}

/// The content of every object of the cluster, by `plural.group namespace/name`.
pub type Snapshot = BTreeMap<String, Value>;

/// Takes a server; `None` with a message if it is unavailable.
pub async fn world() -> Option<World> {
    let turn = TURNS.acquire().await.unwrap();
    let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let server = match idle {
        Some(server) => Some(server),
        None => tokio::task::spawn_blocking(start).await.unwrap().map(Arc::new),
    };
    let Some(server) = server else {
        e2e::skipped("a Kubernetes API server", "run tests/servers/kubernetes-build.sh as root");
        return None;
    };
    let read = |name: &str| std::fs::read_to_string(server.dir.path().join(name)).unwrap().trim().to_owned();
    let (url, token) = (read("server"), read("admin.token"));
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().danger_accept_invalid_certs(true).no_proxy().build().unwrap();
    let world = World { server, client, token, url, _turn: turn };
    world.script("kubernetes-apiserver.sh", &["start"], true).await;
    world.settle().await;
    Some(world)
}

fn start() -> Option<Server> {
    let dir = tempfile::Builder::new().prefix("tenure-kubernetes-").tempdir().unwrap();
    let up = Command::new(e2e::scripts().join("kubernetes-up.sh"))
        .arg(dir.path())
        .arg(std::process::id().to_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&up.stderr).into_owned();
    // A failed installation is a reason to skip; a server that does not start is a failure.
    if up.status.code() == Some(3) {
        println!("{said}");
        return None;
    }
    assert!(up.status.success(), "the API server does not start: {said}");
    let kubeconfig = dir.path().join("admin.kubeconfig");
    for definitions in ["kubernetes-kueue.yaml", "kubernetes-gateway.yaml"] {
        let file = e2e::scripts().join(definitions);
        let mut apply = Command::new("kubectl");
        apply.args(["apply", "--validate=false", "-f"]).arg(file).env("KUBECONFIG", &kubeconfig);
        let applied = apply.output().unwrap();
        assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    }
    Some(Server { dir })
}

impl World {
    /// The folder of the server.
    pub fn dir(&self) -> &Path {
        self.server.dir.path()
    }

    /// The server's address and the administrator's token.
    pub fn access(&self) -> (String, String) {
        (self.url.clone(), self.token.clone())
    }

    /// The settings of the backend, with the service account of the shipped manifest.
    pub fn target(&self) -> KubernetesTarget {
        KubernetesTarget {
            kubeconfig: Some(self.kubeconfig("tenure")),
            verifier_kubeconfig: Some(self.kubeconfig("verifier")),
            // An API server of 1.20 has no admission policies.
            admission_webhook: Some("images.example".into()),
            // The tests poll again soon by themselves.
            watch_ms: 300,
            ..KubernetesTarget::default()
        }
    }

    pub fn kubeconfig(&self, who: &str) -> PathBuf {
        self.dir().join(format!("{who}.kubeconfig"))
    }

    /// The same through a proxy in front of the server.
    pub async fn proxied(&self, changes: Changes) -> (Proxy, KubernetesTarget) {
        let client = trusting(&self.dir().join("ca.crt")).unwrap();
        let proxy = Proxy::with(&self.url, client, changes).await.unwrap();
        let plain = std::fs::read_to_string(self.kubeconfig("tenure")).unwrap();
        let path = self.dir().join("proxied.kubeconfig");
        std::fs::write(&path, plain.replace(&self.url, &proxy.url())).unwrap();
        (proxy, KubernetesTarget { kubeconfig: Some(path), ..self.target() })
    }

    /// Compacts etcd's history up to now, as happens by itself after some minutes.
    pub async fn compact(&self) {
        let etcd = std::fs::read_to_string(self.dir().join("etcd.url")).unwrap().trim().to_owned();
        let ask = async |what: &str, body: Value| -> Value {
            let answer = self.client.post(format!("{etcd}/v3/kv/{what}")).json(&body).send().await.unwrap();
            assert!(answer.status().is_success(), "{what}: {}", answer.status());
            answer.json().await.unwrap()
        };
        // Reads a missing key, only for the revision of the answer.
        let seen = ask("range", json!({ "key": "AA==" })).await;
        ask("compaction", json!({ "revision": seen["header"]["revision"], "physical": true })).await;
    }

    /// Returns the events of the first second of a watch from this version on.
    pub async fn watched(&self, path: &str, version: &str) -> String {
        let asked = format!("{}{path}?watch=true&timeoutSeconds=1&resourceVersion={version}", self.url);
        self.client.get(asked).bearer_auth(&self.token).send().await.unwrap().text().await.unwrap()
    }

    /// Kills the API server.
    pub async fn kill(&self) {
        self.script("kubernetes-apiserver.sh", &["kill"], false).await;
    }

    /// Starts the API server again, and waits until it is ready.
    pub async fn start(&self) {
        self.script("kubernetes-apiserver.sh", &["start"], false).await;
    }

    async fn script(&self, name: &str, args: &[&str], only_if_down: bool) {
        if only_if_down && self.get("/readyz").await.is_some() {
            return;
        }
        let mut command = Command::new(e2e::scripts().join(name));
        command.arg(self.dir()).args(args);
        let ran = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        assert!(ran.status.success(), "{name}: {}", String::from_utf8_lossy(&ran.stderr));
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Option<(u16, Value)> {
        let answer = request.bearer_auth(&self.token).send().await.ok()?;
        let status = answer.status().as_u16();
        let body = answer.text().await.ok()?;
        Some((status, serde_json::from_str(&body).unwrap_or(Value::String(body))))
    }

    /// Returns the object at a path.
    pub async fn get(&self, path: &str) -> Option<Value> {
        let (status, body) = self.send(self.client.get(format!("{}{path}", self.url))).await?;
        (status == 200).then_some(body)
    }

    /// Tries to create an object, and returns the server's answer.
    pub async fn try_post(&self, path: &str, body: Value) -> (u16, Value) {
        self.send(self.client.post(format!("{}{path}", self.url)).json(&body)).await.unwrap()
    }

    /// Creates an object as another client, which retries an answer that asks for it: a pod in a namespace whose service account
    /// has no token yet.
    pub async fn post(&self, path: &str, body: Value) -> Value {
        post(self.client.post(format!("{}{path}", self.url)).bearer_auth(&self.token), body).await
    }

    /// Makes many objects, several at a time.
    pub async fn post_all(&self, path: &str, objects: Vec<Value>) {
        let mut making = JoinSet::new();
        for object in objects {
            if making.len() >= 16 {
                making.join_next().await.unwrap().unwrap();
            }
            making.spawn(post(
                self.client.post(format!("{}{path}", self.url)).bearer_auth(&self.token),
                object,
            ));
        }
        while let Some(made) = making.join_next().await {
            made.unwrap();
        }
    }

    /// Merges into an object as another field manager.
    pub async fn merge(&self, path: &str, body: Value) -> Value {
        let request = self.client.patch(format!("{}{path}?fieldManager=somebody-else", self.url));
        let request = request.header("content-type", "application/merge-patch+json").body(body.to_string());
        let (status, body) = self.send(request).await.unwrap();
        assert!(status < 300, "PATCH {path}: {status} {body}");
        body
    }

    /// Applies an object server-side as another field manager, by force.
    pub async fn apply(&self, path: &str, body: Value) -> Value {
        let request = self.client.patch(format!("{}{path}?fieldManager=argocd&force=true", self.url));
        let request = request.header("content-type", "application/apply-patch+yaml").body(body.to_string());
        let (status, body) = self.send(request).await.unwrap();
        assert!(status < 300, "PATCH {path}: {status} {body}");
        body
    }

    /// Deletes an object as another client.
    pub async fn remove(&self, path: &str) {
        self.send(self.client.delete(format!("{}{path}", self.url))).await;
    }

    /// Deletes an object of any owner, and waits until it is gone.
    pub async fn delete(&self, path: &str) {
        self.send(self.client.delete(format!("{}{path}", self.url))).await;
        self.until(|| async { self.get(path).await.is_none() }).await;
    }

    /// Waits until the condition is true.
    pub async fn until<F: Future<Output = bool>>(&self, mut so: impl FnMut() -> F) {
        for _ in 0..PATIENCE.as_millis() / BETWEEN.as_millis() {
            if so().await {
                return;
            }
            tokio::time::sleep(BETWEEN).await;
        }
        panic!("it does not come to be so within {PATIENCE:?}");
    }

    /// Adds a node record without a machine.
    pub async fn node(&self, name: &str) {
        if self.get(&format!("/api/v1/nodes/{name}")).await.is_none() {
            let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } });
            self.post("/api/v1/nodes", node).await;
            // Admission taints a new node until its kubelet is ready; here there is no kubelet.
            self.merge(&format!("/api/v1/nodes/{name}"), json!({ "spec": { "taints": null } })).await;
        }
    }

    /// Returns a priority class as a snapshot would have it. Snapshots leave ours out: the first tenant makes one, and
    /// it stays.
    pub async fn class(&self, name: &str) -> Option<(String, Value)> {
        let class = self.get(&format!("{CLASSES}/{name}")).await?;
        Some(plain(CLASSES, &class))
    }

    /// Returns every listable object, without fields that differ from run to run.
    pub async fn snapshot(&self) -> Snapshot {
        let until = Instant::now() + PATIENCE;
        loop {
            // A restarted server lists groups before it serves them.
            if let Some(snapshot) = self.look().await {
                return snapshot;
            }
            assert!(Instant::now() < until, "not every listed kind is served");
            tokio::time::sleep(BETWEEN).await;
        }
    }

    /// Waits until the cluster's controllers have deleted the objects of earlier tests. They catch up on the time in which the server
    /// was down.
    async fn settle(&self) {
        let until = Instant::now() + PATIENCE / 3;
        let mut before = self.snapshot().await;
        loop {
            tokio::time::sleep(BETWEEN).await;
            let now = self.snapshot().await;
            let goes = now.values().any(|item| !item["metadata"]["deletionTimestamp"].is_null());
            if !goes && now == before {
                return;
            }
            if Instant::now() > until {
                let changes = differences(&before, &now);
                return println!("the cluster does not come to rest: something goes: {goes}; {changes:?}");
            }
            before = now;
        }
    }

    async fn look(&self) -> Option<Snapshot> {
        let mut snapshot = Snapshot::new();
        let groups = self.get("/apis").await?;
        let mut paths = vec![(String::new(), "/api/v1".to_owned())];
        for group in groups["groups"].as_array().unwrap() {
            let name = group["name"].as_str().unwrap();
            for version in group["versions"].as_array().unwrap() {
                paths.push((name.to_owned(), format!("/apis/{}", version["groupVersion"].as_str().unwrap())));
            }
        }
        let mut seen = BTreeSet::new();
        for (group, path) in paths {
            let listed = self.get(&path).await?;
            for resource in listed["resources"].as_array().unwrap() {
                let name = resource["name"].as_str().unwrap();
                let verbs = resource["verbs"].as_array().unwrap();
                // Events come and go by themselves.
                let wanted = !name.contains('/') && name != "events" && verbs.contains(&json!("list"));
                if !wanted || !seen.insert(format!("{group}/{name}")) {
                    continue;
                }
                let list = self.get(&format!("{path}/{name}")).await?;
                for item in list["items"].as_array().into_iter().flatten() {
                    let (key, item) = plain(&format!("{path}/{name}"), item);
                    if !key.starts_with(&format!("{CLASSES} /tenure-")) {
                        snapshot.insert(key, item);
                    }
                }
            }
        }
        Some(snapshot)
    }
}

/// Retries until the server accepts, if its answer asks for a retry.
async fn post(request: reqwest::RequestBuilder, body: Value) -> Value {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let answer = request.try_clone().unwrap().json(&body).send().await.unwrap();
        let status = answer.status();
        let said: Value = answer.json().await.unwrap();
        if status.is_success() {
            return said;
        }
        let later = said["reason"] == "ServerTimeout" && Instant::now() < until;
        assert!(later, "POST: {status} {said}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn plain(kind: &str, item: &Value) -> (String, Value) {
    let mut item = item.clone();
    let namespace = item["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    let key = format!("{kind} {namespace}/{}", item["metadata"]["name"].as_str().unwrap_or_default());
    let metadata = item["metadata"].as_object_mut().unwrap();
    for field in ["resourceVersion", "managedFields", "selfLink"] {
        metadata.remove(field);
    }
    (key, item)
}

/// Returns the differences between two snapshots, one line each.
pub fn differences(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let mut lines = Vec::new();
    for (key, is) in after {
        match before.get(key) {
            None => lines.push(format!("new: {key}")),
            Some(was) => leaves(key, was, is, &mut lines),
        }
    }
    lines.extend(before.keys().filter(|key| !after.contains_key(*key)).map(|key| format!("gone: {key}")));
    lines
}

fn leaves(at: &str, was: &Value, is: &Value, lines: &mut Vec<String>) {
    if let (Value::Object(was), Value::Object(is)) = (was, is) {
        let mut keys: Vec<&String> = was.keys().chain(is.keys()).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            let none = Value::Null;
            leaves(
                &format!("{at} {key}"),
                was.get(key).unwrap_or(&none),
                is.get(key).unwrap_or(&none),
                lines,
            );
        }
    } else if was != is {
        lines.push(format!("changed: {at}: {was} -> {is}"));
    }
}
