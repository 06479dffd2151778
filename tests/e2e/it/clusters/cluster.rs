//! The cluster that these tests use in turn, with administrator's rights and without the backend.

use backends::kubernetes::KubernetesTarget;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use std::{path::Path, process::Command, sync::OnceLock, time::Duration};
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};

/// The maximum wait for anything asynchronous.
const PATIENCE: Duration = Duration::from_secs(120);
const BETWEEN: Duration = Duration::from_millis(100);
/// Kueue's kinds.
pub const KUEUE: &str = "/apis/kueue.x-k8s.io/v1beta2";
/// Where nodes are.
pub const NODES: &str = "/api/v1/nodes";

/// The folder of the cluster, which ends with this process; none if it cannot be built.
static CLUSTER: OnceLock<Option<TempDir>> = OnceLock::new();
static TURN: Mutex<()> = Mutex::const_new(());

/// The cluster, for one test at a time.
pub struct Cluster {
    dir: &'static Path,
    client: Client,
    token: String,
    url: String,
    _turn: MutexGuard<'static, ()>,
}

/// Takes the cluster; `None` with a message if it cannot be built.
pub async fn cluster() -> Option<Cluster> {
    let turn = TURN.lock().await;
    let started = tokio::task::spawn_blocking(|| CLUSTER.get_or_init(start)).await.unwrap();
    let Some(dir) = started.as_ref().map(TempDir::path) else {
        e2e::skipped("a current Kubernetes", "run tests/servers/cluster-build.sh; it says what it needs");
        return None;
    };
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap().trim().to_owned();
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder().danger_accept_invalid_certs(true).no_proxy().build().unwrap();
    Some(Cluster { dir, client, token: read("admin.token"), url: read("server"), _turn: turn })
}

fn start() -> Option<TempDir> {
    let dir = tempfile::Builder::new().prefix("tenure-cluster-").tempdir().unwrap();
    let version = std::env::var("TENURE_KUBERNETES").unwrap_or_else(|_| "newest".to_owned());
    let up = Command::new(e2e::scripts().join("cluster-up.sh"))
        .arg(dir.path())
        .args([version, std::process::id().to_string()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&up.stderr).into_owned();
    // A failed installation is a reason to skip; a cluster that does not start is a failure.
    if up.status.code() == Some(3) {
        println!("{said}");
        return None;
    }
    assert!(up.status.success(), "the cluster does not start: {said}");
    Some(dir)
}

impl Cluster {
    /// The folder of the cluster.
    pub fn dir(&self) -> &Path {
        self.dir
    }

    /// The settings of the backend, with the service accounts of the shipped manifest.
    pub fn target(&self) -> KubernetesTarget {
        KubernetesTarget {
            kubeconfig: Some(self.dir.join("tenure.kubeconfig")),
            verifier_kubeconfig: Some(self.dir.join("verifier.kubeconfig")),
            watch_ms: 300,
            ..KubernetesTarget::default()
        }
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let mut request =
            self.client.request(method.clone(), format!("{}{path}", self.url)).bearer_auth(&self.token);
        if let Some(body) = body {
            let merge = method == Method::PATCH;
            let media = if merge { "application/merge-patch+json" } else { "application/json" };
            request = request.header("content-type", media).body(body.to_string());
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// Returns the object at a path.
    pub async fn get(&self, path: &str) -> Option<Value> {
        let (status, body) = self.send(Method::GET, path, None).await;
        (status == 200).then_some(body)
    }

    /// Returns the objects of a list.
    pub async fn list(&self, path: &str) -> Vec<Value> {
        let list = self.get(path).await.unwrap_or_else(|| panic!("{path} is not served"));
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Tries to create an object, and returns the server's answer.
    pub async fn try_post(&self, path: &str, body: Value) -> (u16, Value) {
        self.send(Method::POST, path, Some(body)).await
    }

    /// Creates an object.
    pub async fn post(&self, path: &str, body: Value) -> Value {
        let (status, said) = self.try_post(path, body).await;
        assert!(status < 300, "POST {path}: {status} {said}");
        said
    }

    /// Merges into an object.
    pub async fn merge(&self, path: &str, body: Value) {
        let (status, said) = self.send(Method::PATCH, path, Some(body)).await;
        assert!(status < 300, "PATCH {path}: {status} {said}");
    }

    /// Deletes an object with what it owns, and waits until it is gone.
    pub async fn delete(&self, path: &str) {
        self.send(Method::DELETE, &format!("{path}?propagationPolicy=Background"), None).await;
        self.until(path, async || self.get(path).await.is_none()).await;
    }

    /// Waits until the condition is true.
    pub async fn until(&self, what: &str, mut so: impl AsyncFnMut() -> bool) {
        for _ in 0..PATIENCE.as_millis() / BETWEEN.as_millis() {
            if so().await {
                return;
            }
            tokio::time::sleep(BETWEEN).await;
        }
        panic!("not within {PATIENCE:?}: {what}");
    }

    /// Waits until a new namespace has what the controllers make in each: only then does it take pods.
    pub async fn furnished(&self, namespace: &str) {
        for one in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
            let path = format!("/api/v1/namespaces/{namespace}/{one}");
            self.until(&path, async || self.get(&path).await.is_some()).await;
        }
    }

    /// Adds a node with eight GPUs and no machine, instead of an earlier one of this name, and waits until it is ready.
    pub async fn node(&self, name: &str, model: &str) -> String {
        let path = format!("{NODES}/{name}");
        self.delete(&path).await;
        let has = json!({ "cpu": "96", "memory": "1Ti", "ephemeral-storage": "1Ti", "pods": "110", "nvidia.com/gpu": "8" });
        let labels =
            json!({ "type": "kwok", "kubernetes.io/hostname": name, "nvidia.com/gpu.product": model });
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": labels },
            "status": { "capacity": has, "allocatable": has },
        });
        self.post(NODES, node).await;
        // Admission taints a new node until a controller sees that it is ready.
        let ready = async || {
            let node = self.get(&path).await.unwrap();
            is_so(&node, "Ready") && node["spec"]["taints"].is_null()
        };
        self.until("a ready node", ready).await;
        path
    }

    /// Removes every node but this.
    pub async fn only(&self, name: &str) {
        for node in self.list(NODES).await {
            if node["metadata"]["name"] != name {
                self.delete(&format!("{NODES}/{}", node["metadata"]["name"].as_str().unwrap())).await;
            }
        }
    }
}

/// Returns true if the object has this condition.
pub fn is_so(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == kind && one["status"] == "True")
}
