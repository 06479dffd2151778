//! GPUs of workloads, as far as the API server knows them: only which pods request GPUs.
//!
//! The indexes of a pod's GPUs, the processes that use them and the content of their memory are known only on the node.

use crate::kubernetes::{
    cluster::KubernetesCluster,
    labels::at,
    pods::{asked, ended, full_name},
};
use engine::ActionError;
use serde_json::Value;
use tokio::time::Instant;
use workflows::platform::{ScrubLevel, Scrubbed, codes};

impl KubernetesCluster {
    /// Returns the unfinished pods on a node that request GPUs or claim devices. Every pod that can have a GPU open by
    /// request is included; processes that use a GPU without a request are not visible.
    pub(in crate::kubernetes) async fn askers(
        &self,
        node: &str,
        until: Instant,
    ) -> Result<Vec<String>, ActionError> {
        // `nvidia.com/gpu` and `nvidia.com/mig-1g.10gb` belong to the same vendor.
        let vendor = self.target.gpu_resource.split_once('/').map_or("", |(vendor, _)| vendor);
        let of_vendor = |resource: &str| {
            resource == self.target.gpu_resource
                || (!vendor.is_empty()
                    && resource.strip_prefix(vendor).is_some_and(|rest| rest.starts_with('/')))
        };
        let claims = |pod: &Value| {
            at(pod, &["spec", "resourceClaims"]).and_then(Value::as_array).is_some_and(|all| !all.is_empty())
        };
        let pods = self.pods_on(node, until).await?;
        let open = pods.iter().filter(|pod| !ended(pod) && (asked(pod, of_vendor) > 0 || claims(pod)));
        Ok(open.map(full_name).collect())
    }
}

/// The API server cannot clear memory.
pub(super) fn scrubbed(cluster: &str, node: &str, level: ScrubLevel) -> Result<Scrubbed, ActionError> {
    if level == ScrubLevel::None {
        return Ok(Scrubbed {
            level,
            driver: "not called: no scrub was requested".to_owned(),
            covered_bytes: 0,
            total_bytes: 0,
            leftovers: false,
        });
    }
    let level: &str = level.into();
    let why = format!(
        "not supported: scrub of level {level} on node {node} of cluster {cluster}: an API server cannot scrub GPU memory; run an agent on the node"
    );
    Err(ActionError::permanent(codes::UNSUPPORTED, why))
}
