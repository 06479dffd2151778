//! A tenant's namespace, with pods and workloads in the states that a test sets.

use super::{GATEWAY, KUEUE};
use crate::kubernetes::{
    server::World,
    steps::{CLUSTER, Stage, WORKSPACE, namespace},
};
use backends::kubernetes::KubernetesCluster;
use serde_json::{Value, json};
use workflows::platform::*;

/// A tenant's namespace with workloads in it.
pub(super) struct Scene<'a> {
    pub(super) world: &'a World,
    pub(super) stage: Stage,
    pub(super) on: KubernetesCluster,
    pub(super) space: String,
    pub(super) tenant: &'static str,
}

impl<'a> Scene<'a> {
    pub(super) async fn new(world: &'a World, tenant: &'static str) -> Scene<'a> {
        let space = namespace(tenant);
        if world.get(&format!("/api/v1/namespaces/{space}")).await.is_some() {
            world.delete(&format!("/api/v1/namespaces/{space}")).await;
        }
        let made = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": space } });
        world.post("/api/v1/namespaces", made).await;
        let paths = [
            format!("/api/v1/namespaces/{space}/serviceaccounts/default"),
            format!("{KUEUE}/workloads"),
            format!("{GATEWAY}/httproutes"),
        ];
        for path in &paths {
            world.until(|| async { world.get(path).await.is_some() }).await;
        }
        let on = KubernetesCluster::connect(&world.target()).await.unwrap();
        Self { world, stage: Stage::new(world).await, on, space, tenant }
    }

    pub(super) fn of(&self, name: &str) -> WorkloadRef {
        let text = str::to_owned;
        WorkloadRef {
            cluster: text(CLUSTER),
            tenant: text(self.tenant),
            workspace: text(WORKSPACE),
            name: text(name),
        }
    }

    pub(super) fn stamp(&self, step: &str, epoch: u64) -> CallMetadata {
        self.stage.stamp(step, epoch)
    }

    pub(super) async fn seen(&self, name: &str) -> Option<RunningWorkload> {
        self.on.observe(&self.of(name), &self.stamp("look", 1)).await.unwrap()
    }

    /// Adds an admitted Kueue workload.
    pub(super) async fn queued(&self, name: &str) -> Value {
        let path = format!("{KUEUE}/namespaces/{}/workloads", self.space);
        let workload = json!({
            "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload",
            "metadata": { "name": name, "annotations": { "theirs.example/x": "stays" } },
            "spec": { "queueName": "default" },
        });
        self.world.post(&path, workload).await;
        let reserved = json!({ "type": "QuotaReserved", "status": "True" });
        let status = json!({ "status": { "conditions": [reserved] } });
        self.world.merge(&format!("{path}/{name}/status"), status).await
    }

    pub(super) async fn workload(&self, name: &str) -> Value {
        self.world.get(&format!("{KUEUE}/namespaces/{}/workloads/{name}", self.space)).await.unwrap()
    }

    /// Adds a running pod on a node, as its kubelet would report it.
    pub(super) async fn pod(&self, name: &str, node: &str, metadata: Value) -> Value {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {
                "nodeName": node,
                "containers": [{
                    "name": "main", "image": "registry.example/train",
                    "resources": { "limits": { "nvidia.com/gpu": "2" } },
                }],
            },
        });
        pod["metadata"]["name"] = name.into();
        let path = self.pods();
        self.world.post(&path, pod).await;
        let ready = json!({ "type": "Ready", "status": "True" });
        let status = json!({ "status": { "phase": "Running", "conditions": [ready] } });
        self.world.merge(&format!("{path}/{name}/status"), status).await
    }

    pub(super) fn pods(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.space)
    }

    pub(super) async fn live(&self, pod: &str) -> Option<Value> {
        self.world.get(&format!("{}/{pod}", self.pods())).await
    }

    /// Ends a pod's containers, as its kubelet would report it.
    pub(super) async fn gone(&self, pod: &str) {
        let path = format!("{}/{pod}?gracePeriodSeconds=0", self.pods());
        self.world.delete(&path).await;
    }

    pub(super) async fn end(self) {
        let pods = self.world.get(&self.pods()).await.unwrap();
        for pod in pods["items"].as_array().unwrap() {
            self.gone(pod["metadata"]["name"].as_str().unwrap()).await;
        }
        self.world.delete(&format!("/api/v1/namespaces/{}", self.space)).await;
    }
}
