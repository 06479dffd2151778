//! A server with real clusters, users who approve everything, and their requests.

use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use std::{
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tests::processes::{Caller, Server};
use tokio::{sync::Mutex, task::JoinHandle};

pub const TENURE: &str = env!("CARGO_BIN_EXE_tenure-on-real-servers");
/// The maximum duration of one execution; real daemons and emulated machines are slow on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Returns a policy with short waits for users and all checks, with `more` over it.
fn policy(version: u64, more: &Value) -> Value {
    let mut policy = json!({
        "policy": "platform", "version": version,
        "lending": { "cool_down": "0s" },
        "quotas": { "borrowing_limit": 4, "lending_limit": 4 },
        "admission": { "max_staleness": "1d" },
        "reclaim": { "grace": "20s", "confirm": { "reads": 3, "apart": "1s" },
                     "scrub": { "same_workspace": "none", "cross_workspace": "none" } },
        "offboarding": { "drain": "2m" },
    });
    if let (Some(fields), Value::Object(more)) = (policy.as_object_mut(), more.clone()) {
        fields.extend(more);
    }
    policy
}

/// A platform with its users.
pub struct House {
    pub staff: Caller,
    server: Mutex<Server>,
    asked: AtomicU32,
    dir: TempDir,
    voting: JoinHandle<()>,
}

impl House {
    /// Starts a server with these targets, sites and nodes.
    pub async fn open(targets: &Value, sites: &str, nodes: &[(&str, &str, &str)]) -> Self {
        Self::open_in(&[], targets, sites, nodes).await
    }

    /// The same, with additional environment variables.
    pub async fn open_in(
        environment: &[(&str, &str)],
        targets: &Value,
        sites: &str,
        nodes: &[(&str, &str, &str)],
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        // JSON is YAML.
        let file = dir.path().join("targets.yaml");
        std::fs::write(&file, targets.to_string()).unwrap();
        let named = file.display().to_string();
        let settings = environment.iter().copied().chain([("TENURE_TARGETS", named.as_str())]);
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let server = Server::start_with(TENURE.as_ref(), &dir.path().join("data"), None, settings);
        let admin = server.caller(&server.admin());
        import(&server, "/v1/fleet:import", "application/yaml", sites).await;
        for (cluster, region, rows) in nodes {
            let path = format!("/v1/fleet:import?cluster={cluster}&region={region}");
            import(&server, &path, "text/csv", &format!("sn,cpu_milli,memory_mib,gpu,model\n{rows}")).await;
        }
        let staff = admin.user("rita", "admin").await;
        let mut voters = Vec::new();
        for role in
            ["platform_ops", "finance", "tenant_owner", "dpo", "compliance", "security", "capacity_manager"]
        {
            voters.push(admin.user(&format!("a-{role}"), role).await);
        }
        let voting = tokio::spawn(async move { vote(&voters).await });
        let house = Self { staff, server: Mutex::new(server), asked: AtomicU32::new(0), dir, voting };
        house.rule(3, &json!({})).await;
        house
    }

    /// Kills the server, and restarts it on its store after `away`.
    pub async fn dies(&self, away: Duration) {
        let mut server = self.server.lock().await;
        server.kill();
        tokio::time::sleep(away).await;
        tokio::task::block_in_place(|| server.restart());
    }

    /// Puts a policy in force: the default of these tests, with `more` over it.
    pub async fn rule(&self, version: u64, more: &Value) {
        let policy = policy(version, more);
        let (status, said) = self.staff.call(Method::POST, "/v1/policies", None, Some(policy)).await;
        assert!(status.is_success(), "{said}");
    }

    /// Returns the certificate of a tenant, with the signed bytes.
    pub async fn certificate(&self, tenant: &str) -> Vec<u8> {
        let all = self.staff.all("/v1/certificates").await;
        let of = all.iter().find(|one| one["tenant"] == tenant).unwrap_or_else(|| panic!("{all:?}"));
        let url =
            format!("{}/v1/certificates/{}", self.server.lock().await.url(), of["id"].as_str().unwrap());
        let answer = Client::new().get(url).bearer_auth(self.staff.token()).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
        answer.bytes().await.unwrap().to_vec()
    }

    /// Stops the server and returns the public key of its signatures.
    pub fn close(mut self) -> String {
        self.server.get_mut().kill();
        let data = self.dir.path().join("data");
        let mut tenure = Command::new(TENURE);
        let said = tenure.arg("--data").arg(data).args(["certificate", "key"]).output().unwrap();
        assert!(said.status.success(), "{said:?}");
        String::from_utf8(said.stdout).unwrap()
    }

    /// Sends a request that starts an execution, waits for its end, and returns it.
    pub async fn done(&self, path: &str, body: Value) -> Value {
        let id = self.asked(path, body).await;
        self.ended(&id).await
    }

    /// Sends a request and returns the id of its execution.
    pub async fn asked(&self, path: &str, body: Value) -> String {
        let (status, said) = self.posted(path, body).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{said}");
        said["id"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned()
    }

    /// Posts once, however often the server is killed meanwhile.
    async fn posted(&self, path: &str, body: Value) -> (StatusCode, Value) {
        let key = format!("asked-{}", self.asked.fetch_add(1, Ordering::Relaxed));
        self.staff.call(Method::POST, path, Some(&key), Some(body)).await
    }

    /// Requests the cancellation of an execution.
    pub async fn take_back(&self, id: &str) {
        let why = json!({ "reason": "another plan" });
        let (status, said) = self.posted(&format!("/v1/executions/{id}:cancel"), why).await;
        assert!(status.is_success(), "{said}");
    }

    /// Returns the execution once it has completed.
    pub async fn ended(&self, id: &str) -> Value {
        let item = self.until(id, |item| item["open"] == false).await;
        assert_eq!(item["reason"], "completed", "{}", self.story().await);
        item
    }

    /// Returns the execution once it matches.
    pub async fn until(&self, id: &str, so: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let item = self.staff.get(&format!("/v1/executions/{id}")).await;
            if so(&item) {
                return item;
            }
            let parked = item["phase"] == "parked";
            assert!(!parked && Instant::now() < deadline, "{item:#}\n{}", self.story().await);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Returns the one execution of a workflow that the server started itself.
    pub async fn begun(&self, workflow: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let all = self.staff.all(&format!("/v1/executions?workflow={workflow}")).await;
            if let [one] = &all[..] {
                return one["id"].as_str().unwrap().to_owned();
            }
            assert!(all.is_empty() && Instant::now() < deadline, "{}", self.story().await);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Offboards a tenant that has no data to export.
    pub async fn leaves(&self, leave: Value) {
        let id = self.asked("/v1/offboardings", leave).await;
        self.until(&id, |item| item["state"] == "ExportWindow").await;
        let path = format!("/v1/executions/{id}:signal");
        let signal = json!({ "signal": "export.confirmed" });
        let (status, said) = self.posted(&path, signal).await;
        assert!(status.is_success(), "{said}");
        self.ended(&id).await;
    }

    /// Returns the last events of every execution, to explain a failed test.
    async fn story(&self) -> String {
        let mut story = String::new();
        for item in self.staff.all("/v1/executions").await {
            let id = item["id"].as_str().unwrap_or_default();
            let all = self.staff.all(&format!("/v1/executions/{id}/journal")).await;
            let why = self.staff.get(&format!("/v1/executions/{id}")).await["cause"].clone();
            story += &format!(
                "{} of {} {} {}: {why}\n",
                item["workflow"], item["subject"], item["state"], item["phase"]
            );
            for entry in &all[all.len().saturating_sub(12)..] {
                story += &format!("    {entry}\n");
            }
        }
        story
    }

    /// Reports that these nodes were observed without workloads on their GPUs.
    pub async fn idle(&self, cluster: &str, model: &str, tenant: &str) {
        let seen = json!({ model: { "usable": 8, "busy": 0 } });
        let nodes = self.staff.all(&format!("/v1/nodes?owner={tenant}")).await;
        let nodes = nodes.iter().map(|node| (node["id"].as_str().unwrap().to_owned(), seen.clone()));
        let facts = json!({ "nodes": nodes.collect::<serde_json::Map<_, _>>() });
        let path = format!("/v1/clusters/{cluster}/facts");
        let (status, said) = self.staff.call(Method::POST, &path, None, Some(facts)).await;
        assert!(status.is_success(), "{said}");
    }

    /// Submits a workload and returns the decision.
    pub async fn submit(&self, body: Value) -> Value {
        let (status, said) = self.staff.call(Method::POST, "/v1/workloads", None, Some(body)).await;
        assert!(status.is_success(), "{said}");
        said
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.voting.abort();
    }
}

async fn import(server: &Server, path: &str, media: &str, text: &str) {
    let request = Client::new().post(format!("{}{path}", server.url())).bearer_auth(server.admin());
    let answer = request.header("content-type", media).body(text.to_owned()).send().await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.text().await.unwrap_or_default());
}

async fn vote(voters: &[Caller]) {
    loop {
        for voter in voters {
            for case in voter.all("/v1/approvals").await {
                let path = format!("/v1/approvals/{}:approve", case["id"].as_str().unwrap_or_default());
                let body = json!({ "digest": case["digest"], "reason": "seen" });
                voter.call(Method::POST, &path, None, Some(body)).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
