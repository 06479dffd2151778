//! Simulates the missing parts of a cluster of records: scheduler, kubelets and the network between pods.
//!
//! No container runs and no packet is sent. It binds pods to nodes by selector, taint and toleration, and reports bound pods as
//! running and ready. It ends the clients of a probe with the exit code of the network that [`Play`] describes, and confirms
//! deletions. The API server, its records and its conditions are real; the tests show how Tenure reads them.

use reqwest::Client;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::task::JoinHandle;

/// Returns true if a pod of the first namespace reaches one of the second.
pub type Reaches = Box<dyn Fn(&str, &str) -> bool + Send>;

/// The simulated behaviour.
pub struct Play {
    /// The network.
    pub reaches: Reaches,
    /// True if a scheduler is active.
    pub places: bool,
    /// True if it respects taints.
    pub heeds_taints: bool,
    /// True if kubelets are active: otherwise pods neither start nor end.
    pub runs: bool,
    /// How many more clients of probes may end; the others keep running.
    pub ends: usize,
}

impl Default for Play {
    fn default() -> Self {
        Self {
            reaches: Box::new(|from, to| from == to),
            places: true,
            heeds_taints: true,
            runs: true,
            ends: usize::MAX,
        }
    }
}

/// The running simulation; it ends when it is dropped.
pub struct Kubelets {
    work: JoinHandle<()>,
    play: Arc<Mutex<Play>>,
}

impl Drop for Kubelets {
    fn drop(&mut self) {
        self.work.abort();
    }
}

impl Kubelets {
    /// Starts it for an API server, with an administrator's token.
    ///
    /// # Panics
    /// If no client can be made.
    #[must_use]
    pub fn beside(url: String, token: String, play: Play) -> Self {
        let client = Client::builder().danger_accept_invalid_certs(true).no_proxy().build().unwrap();
        let play = Arc::new(Mutex::new(play));
        let mut hand = Hand { client, url, token, play: play.clone(), addresses: BTreeMap::new() };
        let work = tokio::spawn(async move {
            loop {
                hand.look().await;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        Self { work, play }
    }

    /// Changes the simulated behaviour.
    ///
    /// # Panics
    /// If an earlier change panicked.
    pub fn play(&self, change: impl FnOnce(&mut Play)) {
        change(&mut self.play.lock().unwrap());
    }
}

struct Hand {
    client: Client,
    url: String,
    token: String,
    play: Arc<Mutex<Play>>,
    /// The namespace of each allocated address.
    addresses: BTreeMap<String, String>,
}

fn text<'a>(of: &'a Value, pointer: &str) -> &'a str {
    of.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

impl Hand {
    async fn look(&mut self) {
        let (places, runs) = {
            let play = self.play.lock().unwrap();
            (play.places, play.runs)
        };
        for pod in self.list("/api/v1/pods").await {
            let bound = !text(&pod, "/spec/nodeName").is_empty();
            if bound && runs {
                self.run(&pod).await;
            } else if !bound && places && pod["metadata"]["deletionTimestamp"].is_null() {
                self.place(&pod).await;
            }
        }
    }

    /// Acts as a scheduler: by the pod's selector and the nodes' taints, with the messages of a real one if no node
    /// fits.
    async fn place(&self, pod: &Value) {
        let heeds = self.play.lock().unwrap().heeds_taints;
        let none = serde_json::Map::new();
        let selector = pod["spec"]["nodeSelector"].as_object().unwrap_or(&none);
        let mut kept_by = Vec::new();
        for node in self.list("/api/v1/nodes").await {
            if !selector.iter().all(|(key, value)| node["metadata"]["labels"][key] == *value) {
                continue;
            }
            let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
            let tolerations = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
            let tolerated = |taint: &Value| {
                tolerations.iter().any(|one| one["key"] == taint["key"] && one["value"] == taint["value"])
            };
            match taints.iter().find(|taint| heeds && !tolerated(taint)) {
                Some(taint) => {
                    kept_by.push(format!("{{{}: {}}}", text(taint, "/key"), text(taint, "/value")))
                }
                None => return self.bind(pod, text(&node, "/metadata/name")).await,
            }
        }
        let why = match kept_by.first() {
            Some(taint) => format!("0/1 nodes are available: 1 node(s) had untolerated taint {taint}."),
            None => {
                "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.".to_owned()
            }
        };
        let condition =
            json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why });
        self.status(pod, json!({ "conditions": [condition] })).await;
    }

    async fn bind(&self, pod: &Value, node: &str) {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": { "name": pod["metadata"]["name"] },
            "target": { "apiVersion": "v1", "kind": "Node", "name": node },
        });
        let request = self.client.post(format!("{}{}/binding", self.url, path(pod))).json(&binding);
        let _tried_again_soon = request.bearer_auth(&self.token).send().await;
    }

    /// Acts as a kubelet.
    async fn run(&mut self, pod: &Value) {
        if pod["metadata"]["deletionTimestamp"].is_string() {
            let now = json!({ "gracePeriodSeconds": 0, "preconditions": { "uid": pod["metadata"]["uid"] } });
            let request = self.client.delete(format!("{}{}", self.url, path(pod))).json(&now);
            let _tried_again_soon = request.bearer_auth(&self.token).send().await;
            return;
        }
        let phase = text(pod, "/status/phase");
        if phase == "Pending" || phase.is_empty() {
            let namespace = text(pod, "/metadata/namespace").to_owned();
            let address = format!("10.200.{}.{}", self.addresses.len() / 250, self.addresses.len() % 250 + 1);
            self.addresses.insert(address.clone(), namespace);
            let ready = json!({ "type": "Ready", "status": "True" });
            self.status(pod, json!({ "phase": "Running", "podIP": address, "conditions": [ready] })).await;
        } else if phase == "Running"
            && let Some(code) = self.code(pod)
            && self.may_end()
        {
            let name = &pod["spec"]["containers"][0]["name"];
            let ended = json!({
                "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": { "terminated": { "exitCode": code } },
            });
            let phase = if code == 0 { "Succeeded" } else { "Failed" };
            self.status(pod, json!({ "phase": phase, "containerStatuses": [ended] })).await;
        }
    }

    fn may_end(&self) -> bool {
        let mut play = self.play.lock().unwrap();
        let may = play.ends > 0;
        play.ends = play.ends.saturating_sub(1);
        may
    }

    /// Returns the exit code of a probe's client, by its destination and the simulated network.
    fn code(&self, pod: &Value) -> Option<i64> {
        let env = pod["spec"]["containers"][0]["env"].as_array()?;
        let of =
            |name: &str| env.iter().find(|one| one["name"] == name).map(|one| text(one, "/value").to_owned());
        let (control, target) = (of("CONTROL")?, of("TARGET")?);
        let from = text(pod, "/metadata/namespace");
        let reaches = |address: &str| {
            let ip = address.rsplit_once(':').map_or(address, |(ip, _)| ip);
            let to = self.addresses.get(ip);
            to.is_some_and(|to| (self.play.lock().unwrap().reaches)(from, to))
        };
        Some(match (reaches(&control), reaches(&target)) {
            (false, _) => 20,
            (true, true) => 13,
            (true, false) => 10,
        })
    }

    async fn status(&self, pod: &Value, status: Value) {
        let request = self.client.patch(format!("{}{}/status?fieldManager=kubelet", self.url, path(pod)));
        let request = request.header("content-type", "application/merge-patch+json");
        let request = request.body(json!({ "status": status }).to_string());
        let _tried_again_soon = request.bearer_auth(&self.token).send().await;
    }

    async fn list(&self, path: &str) -> Vec<Value> {
        let request = self.client.get(format!("{}{path}", self.url)).bearer_auth(&self.token);
        let Ok(answer) = request.send().await else { return Vec::new() };
        let list: Value = answer.json().await.unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }
}

fn path(pod: &Value) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", text(pod, "/metadata/namespace"), text(pod, "/metadata/name"))
}
