//! Simulates Kueue's controller, which cannot be installed here.
//!
//! It simulates what Tenure must handle: a finalizer on every queue, removed once the queue is deleted and has no admitted work,
//! and a status on every local queue. It admits no work.

use reqwest::Client;
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinHandle;

use super::server::World;

/// The finalizer that Kueue has on a queue in use.
pub const IN_USE: &str = "kueue.x-k8s.io/resource-in-use";
const GROUP: &str = "/apis/kueue.x-k8s.io/v1beta1";

/// The running controller; it ends when it is dropped.
pub struct Controller {
    work: JoinHandle<()>,
    busy: Arc<AtomicBool>,
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.work.abort();
    }
}

impl Controller {
    /// Starts it for an API server.
    pub fn beside(world: &World) -> Self {
        let busy = Arc::new(AtomicBool::new(false));
        let (url, token) = world.access();
        let client = Client::builder().danger_accept_invalid_certs(true).no_proxy().build().unwrap();
        let hand = Hand { client, url, token };
        let held = busy.clone();
        let work = tokio::spawn(async move {
            loop {
                hand.look(held.load(Ordering::SeqCst)).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        Self { work, busy }
    }

    /// If `busy`, work holds quota in every queue, so that no queue may be deleted.
    pub fn hold(&self, busy: bool) {
        self.busy.store(busy, Ordering::SeqCst);
    }
}

struct Hand {
    client: Client,
    url: String,
    token: String,
}

impl Hand {
    async fn look(&self, busy: bool) {
        for queue in self.list("clusterqueues").await {
            let path = format!("{GROUP}/clusterqueues/{}", queue["metadata"]["name"].as_str().unwrap());
            let finalizers = queue["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
            let (has, going) =
                (finalizers.contains(&json!(IN_USE)), queue["metadata"]["deletionTimestamp"].is_string());
            if !has && !going {
                self.merge(&path, json!({ "metadata": { "finalizers": [IN_USE] } })).await;
            } else if has && going && !busy {
                self.merge(&path, json!({ "metadata": { "finalizers": null } })).await;
            }
        }
        for entrance in self.list("localqueues").await {
            let text = |field: &str| entrance["metadata"][field].as_str().unwrap().to_owned();
            let path =
                format!("{GROUP}/namespaces/{}/localqueues/{}/status", text("namespace"), text("name"));
            if entrance["status"].is_null() {
                let status =
                    json!({ "pendingWorkloads": 0, "conditions": [{ "type": "Active", "status": "True" }] });
                self.merge(&path, json!({ "status": status })).await;
            }
        }
    }

    async fn list(&self, plural: &str) -> Vec<Value> {
        let request = self.client.get(format!("{}{GROUP}/{plural}", self.url)).bearer_auth(&self.token);
        let Ok(answer) = request.send().await else { return Vec::new() };
        let list: Value = answer.json().await.unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    async fn merge(&self, path: &str, body: Value) {
        let request = self.client.patch(format!("{}{path}?fieldManager=kueue-admission", self.url));
        let request = request.header("content-type", "application/merge-patch+json").body(body.to_string());
        let _tried_again_soon = request.bearer_auth(&self.token).send().await;
    }
}
