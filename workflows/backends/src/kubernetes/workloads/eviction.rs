//! Evicts workloads: sets them inactive, evicts pods, and removes pods by force from fenced nodes.
//!
//! Invariant: a pod is evicted only by uid and never beyond its disruption budget. It is removed by force only if its
//! node cannot run it any more.

use crate::kubernetes::workloads::{
    conditional_write::Change,
    observed::{ObservedWorkload, pod_seen},
};
use crate::kubernetes::{
    client::{
        error::Fault,
        request::{ApiRequest, escaped},
    },
    cluster::KubernetesCluster,
    labels::{LabelNames, at, terminating, text, uid},
    pods::{full_name, is_so, name, node, path},
};
use engine::ActionError;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio::time::Instant;
use workflows::platform::{CallMetadata, WorkloadRef, codes};

/// The taint by which operators confirm that a machine is off.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

impl KubernetesCluster {
    /// Sets the workload inactive or evicts its pods, if it has this identity.
    pub(super) async fn evicted(
        &self,
        of: &WorkloadRef,
        identity: &str,
        stamp: &CallMetadata,
        until: Instant,
    ) -> Result<(), ActionError> {
        let Some(known) = self.known(of, until).await? else { return Ok(()) };
        same(&known, of, identity)?;
        if let Some(queued) = &known.queued {
            let change =
                |_: &Value| Ok(Some(Change { spec: Some(json!({ "active": false })), ..Change::default() }));
            return self.write(&queued.seen(Some(identity)), stamp, until, change).await.map(drop);
        }
        for pod in known.pods.iter().filter(|pod| !terminating(pod)) {
            // An eviction cannot carry our annotation, so the call is recorded on the pod first; a late call is then
            // rejected.
            if self.write(&pod_seen(pod), stamp, until, |_| Ok(Some(Change::default()))).await? {
                self.evict_pod(pod, stamp, until).await?;
            }
        }
        Ok(())
    }

    /// Evicts one pod, conditional on its uid and its disruption budget.
    async fn evict_pod(&self, pod: &Value, stamp: &CallMetadata, until: Instant) -> Result<(), ActionError> {
        let mut options = json!({ "preconditions": { "uid": uid(pod) } });
        if let (Value::Object(options), true) = (&mut options, stamp.dry_run) {
            options.insert("dryRun".into(), json!(["All"]));
        }
        let eviction = json!({
            "apiVersion": format!("policy/{}", self.eviction_version(until).await?),
            "kind": "Eviction",
            "metadata": { "name": name(pod), "namespace": text(pod, &["metadata", "namespace"]) },
            "deleteOptions": options,
        });
        let ask = ApiRequest::post(&format!("{}/eviction", path(pod)), eviction).under(stamp);
        match self.send(&ask, until).await {
            Ok(_) => Ok(()),
            Err(Fault::Refused(refusal)) if refusal.is_missing() => Ok(()),
            Err(Fault::Refused(refusal)) if refusal.is_outdated() => {
                let why = format!("Pod {} was replaced meanwhile", full_name(pod));
                Err(ActionError::transient(codes::OBJECT_CHANGED, why))
            }
            Err(Fault::Refused(refusal)) => Err(refusal.of_eviction(&full_name(pod))),
            Err(fault) => Err(fault.into()),
        }
    }

    /// Removes its pods from fenced nodes: all of them, or none.
    pub(super) async fn forced(
        &self,
        of: &WorkloadRef,
        identity: &str,
        stamp: &CallMetadata,
        until: Instant,
    ) -> Result<(), ActionError> {
        let Some(known) = self.known(of, until).await? else { return Ok(()) };
        same(&known, of, identity)?;
        let nodes: BTreeSet<&str> = known.pods.iter().map(node).filter(|node| !node.is_empty()).collect();
        for node in nodes {
            let live = self.object(&format!("/api/v1/nodes/{}", escaped(node)), until).await?;
            if !live.is_some_and(|live| fenced(&live, &self.marks)) {
                let why = format!(
                    "node {node} under {} is not known to be off: it has to be not ready, and to bear the taint {OUT_OF_SERVICE} or a cordon of ours",
                    of.full_name()
                );
                return Err(ActionError::permanent(codes::NODE_ALIVE, why));
            }
        }
        for pod in &known.pods {
            if self.write(&pod_seen(pod), stamp, until, |_| Ok(Some(Change::default()))).await? {
                self.delete_pod(pod, Some(0), stamp, until).await?;
            }
        }
        Ok(())
    }
}

/// Fails unless the `Workload` has this identity, or all pods belong to it.
fn same(known: &ObservedWorkload, of: &WorkloadRef, identity: &str) -> Result<(), ActionError> {
    let seen: BTreeSet<&str> = identity.split(',').collect();
    let is = match &known.queued {
        Some(queued) => uid(&queued.live) == identity,
        None => known.pods.iter().all(|pod| seen.contains(uid(pod))),
    };
    if is {
        return Ok(());
    }
    let why = format!("{} is another by now: it was {identity}, and is {}", of.full_name(), known.uid());
    Err(ActionError::transient(codes::OBJECT_CHANGED, why))
}

/// Returns true if a node can run nothing: it is not ready, and it is tainted as out of service or cordoned by Tenure.
fn fenced(node: &Value, marks: &LabelNames) -> bool {
    let taints = at(node, &["spec", "taints"]).and_then(Value::as_array).into_iter().flatten();
    let mut keys = taints.map(|taint| text(taint, &["key"]));
    !is_so(node, "Ready") && keys.any(|key| key == OUT_OF_SERVICE || key == marks.cordon())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_fenced_only_if_it_is_unreachable_and_barred() {
        let node = |ready: &str, taint: &str| {
            json!({
                "spec": { "taints": [{ "key": taint }] },
                "status": { "conditions": [{ "type": "Ready", "status": ready }] },
            })
        };
        for (ready, taint, wanted) in [
            ("False", OUT_OF_SERVICE, true),
            ("Unknown", "tenure.dev/cordon", true),
            ("True", OUT_OF_SERVICE, false),
            ("True", "tenure.dev/cordon", false),
            ("Unknown", "node.kubernetes.io/unreachable", false),
            ("False", "tenure.dev/tenant", false),
        ] {
            assert_eq!(
                fenced(&node(ready, taint), &LabelNames::new("tenure.dev")),
                wanted,
                "{ready} {taint}"
            );
        }
    }
}
