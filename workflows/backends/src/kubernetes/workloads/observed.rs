//! Finds the objects of a workload and derives its state.

use crate::kubernetes::workloads::conditional_write::ObjectRef;
use crate::kubernetes::{
    client::{discovery::WORKLOAD, request::escaped},
    cluster::KubernetesCluster,
    labels::{annotation, at, label, terminating, text, uid},
    objects::parse::quantity,
    pods::{asked, ended, is_so, name, node, path},
};
use chrono::DateTime;
use engine::ActionError;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::Instant;
use workflows::platform::{GpuSet, ObservedGpus, RunningWorkload, WorkloadRef, workspace_name};

/// The annotation by which Kueue names a pod's workload.
const OF_WORKLOAD: &str = "kueue.x-k8s.io/workload";

/// A workload as observed.
#[derive(Debug)]
pub(super) struct ObservedWorkload {
    /// The namespace of its workspace.
    pub(super) namespace: String,
    /// Kueue's `Workload` with its name, if it exists.
    pub(super) queued: Option<KueueWorkload>,
    /// Its unfinished pods, including terminating ones.
    pub(super) pods: Vec<Value>,
}

/// Kueue's `Workload`.
#[derive(Debug)]
pub(super) struct KueueWorkload {
    path: String,
    pub(super) live: Value,
}

impl KueueWorkload {
    /// Returns the reference for a write. With `uid`, only this very object is changed.
    pub(super) fn seen(&self, uid: Option<&str>) -> ObjectRef {
        ObjectRef { path: self.path.clone(), name: self.name(), uid: uid.map(str::to_owned) }
    }

    fn name(&self) -> String {
        format!("Workload {}/{}", text(&self.live, &["metadata", "namespace"]), name(&self.live))
    }

    pub(super) fn active(&self) -> bool {
        !is_so(&self.live, "Finished")
            && at(&self.live, &["spec", "active"]).is_none_or(|active| *active != Value::Bool(false))
    }

    /// Returns true if Kueue counts the workload's quota. Kueue releases the quota after all pods have ended, so this
    /// also covers jobs whose pods cannot be identified.
    pub(super) fn reserved(&self) -> bool {
        !let_go(&self.live)
    }
}

/// Returns true if Kueue has released the quota.
fn let_go(workload: &Value) -> bool {
    is_so(workload, "Finished") || !is_so(workload, "QuotaReserved")
}

impl ObservedWorkload {
    /// Returns the objects that carry notices, the workload first, with their uids.
    pub(super) fn told(&self) -> Vec<(ObjectRef, &Value)> {
        let pods = self.pods.iter().map(|pod| (pod_seen(pod), pod));
        let queued = self.queued.iter().map(|queued| (queued.seen(Some(uid(&queued.live))), &queued.live));
        queued.chain(pods).collect()
    }

    /// Returns the identity that distinguishes workloads with the same name: the uid of the `Workload`, or the uids of
    /// all pods.
    pub(super) fn uid(&self) -> String {
        match &self.queued {
            Some(queued) => uid(&queued.live).to_owned(),
            None => {
                self.pods.iter().map(uid).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(",")
            }
        }
    }

    /// Returns true if a pod exists or Kueue has reserved quota.
    pub(super) fn runs(&self) -> bool {
        !self.pods.is_empty() || self.queued.as_ref().is_some_and(KueueWorkload::reserved)
    }

    /// Returns an annotation of the `Workload`, or of the first pod that has it.
    pub(super) fn says(&self, key: &str) -> Option<&str> {
        let queued = self.queued.iter().map(|queued| &queued.live);
        queued.chain(&self.pods).find_map(|object| annotation(object, key))
    }
}

/// Returns the reference for a write to exactly this pod.
pub(super) fn pod_seen(pod: &Value) -> ObjectRef {
    let name = format!("Pod {}", crate::kubernetes::pods::full_name(pod));
    ObjectRef { path: path(pod), name, uid: Some(uid(pod).to_owned()) }
}

impl KubernetesCluster {
    /// Returns the workload, if the cluster has objects with its name.
    pub(super) async fn known(
        &self,
        of: &WorkloadRef,
        until: Instant,
    ) -> Result<Option<ObservedWorkload>, ActionError> {
        let namespace = workspace_name(&of.tenant, &of.workspace)?;
        let queued = self.queued(&namespace, &of.name, until).await?;
        let mut pods = self.pods_within(&namespace, until).await?;
        pods.retain(|pod| {
            let queued = queued.as_ref().map(|queued| &queued.live);
            !ended(pod) && is_of(pod, &of.name, &self.marks.workload(), queued)
        });
        if queued.is_none() && pods.is_empty() {
            return Ok(None);
        }
        Ok(Some(ObservedWorkload { namespace, queued, pods }))
    }

    /// Waits until `patience` for the pods of the workload to end one by one, and then for Kueue to release the quota.
    pub(super) async fn left_of(
        &self,
        of: &WorkloadRef,
        (patience, until): (Instant, Instant),
    ) -> Result<(), ActionError> {
        while Instant::now() < patience {
            let Some(known) = self.known(of, until).await? else { break };
            let (path, live, so): (_, _, fn(&Value) -> bool) = match (known.pods.first(), &known.queued) {
                (Some(pod), _) => (path(pod), pod, ended),
                (None, Some(queued)) if queued.reserved() => (queued.path.clone(), &queued.live, let_go),
                (None, _) => break,
            };
            let left = self.awaited(&path, live.clone(), so, (patience, until)).await?;
            // Unchanged: the time is up, or the object cannot be watched.
            if left.is_some_and(|left| uid(&left) == uid(live) && !so(&left)) {
                break;
            }
        }
        Ok(())
    }

    async fn queued(
        &self,
        namespace: &str,
        name: &str,
        until: Instant,
    ) -> Result<Option<KueueWorkload>, ActionError> {
        // Other characters would change the path, and no object name can contain them.
        let plain =
            name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.');
        if !plain || name.is_empty() {
            return Ok(None);
        }
        let Some(version) = self.version_of(WORKLOAD, until).await? else { return Ok(None) };
        let path = WORKLOAD.path(&version, &escaped(namespace), &escaped(name));
        let live = self.object(&path, until).await?;
        Ok(live.map(|live| KueueWorkload { path, live }))
    }

    /// Returns the workload's state from its objects.
    pub(super) async fn running(
        &self,
        known: &ObservedWorkload,
        until: Instant,
    ) -> Result<RunningWorkload, ActionError> {
        let active = match &known.queued {
            Some(queued) => queued.active(),
            None => known.pods.iter().any(|pod| !terminating(pod)),
        };
        let told =
            known.says(&self.marks.reclaim_at()).and_then(|text| DateTime::parse_from_rfc3339(text).ok());
        Ok(RunningWorkload {
            uid: known.uid(),
            active,
            pods: known.runs(),
            gpus: ObservedGpus::reported(self.gpus_of(&known.pods, until).await?),
            weight: self.weight_of(known, until).await?,
            reclaim_at: told.and_then(|at| u64::try_from(at.timestamp_millis()).ok()),
            checkpointed: self.has_saved(known),
        })
    }

    /// Returns the GPUs of the pods. Indexes are known if every pod on a node states them, or if the pods together
    /// request all GPUs of the node. Otherwise the node is listed without indexes.
    async fn gpus_of(&self, pods: &[Value], until: Instant) -> Result<GpuSet, ActionError> {
        let resource = &self.target.gpu_resource;
        let mut on: BTreeMap<&str, (u64, Option<BTreeSet<u16>>)> = BTreeMap::new();
        for pod in pods.iter().filter(|pod| !node(pod).is_empty()) {
            let gpus = asked(pod, |one| one == resource);
            if gpus > 0 {
                let said = annotation(pod, &self.marks.gpus()).and_then(indexes);
                let (sum, known) = on.entry(node(pod)).or_insert((0, Some(BTreeSet::new())));
                *sum += gpus;
                *known = known.take().zip(said).map(|(known, said)| &known | &said);
            }
        }
        let mut set = GpuSet::new();
        for (name, (sum, known)) in on {
            let indexes = match known {
                Some(indexes) => indexes,
                None => self.all_if(name, sum, until).await?,
            };
            set.insert(name.to_owned(), indexes);
        }
        Ok(set)
    }

    /// Returns all indexes of a node if it has exactly `sum` GPUs, otherwise none.
    async fn all_if(&self, node: &str, sum: u64, until: Instant) -> Result<BTreeSet<u16>, ActionError> {
        let node = self.object(&format!("/api/v1/nodes/{}", escaped(node)), until).await?.unwrap_or_default();
        let has = at(&node, &["status", "capacity", &self.target.gpu_resource]).and_then(Value::as_str);
        match has.and_then(quantity).map(u16::try_from) {
            Some(Ok(has)) if u64::from(has) == sum => Ok((0..has).collect()),
            Some(Ok(_) | Err(_)) | None => Ok(BTreeSet::new()),
        }
    }
}

/// Parses a list such as `0,1,5`.
fn indexes(text: &str) -> Option<BTreeSet<u16>> {
    text.split(',').map(|one| one.trim().parse().ok()).collect()
}

/// Returns true if a pod belongs to the workload: by Tenure's label, by Kueue's annotation, or by a common owner.
fn is_of(pod: &Value, name: &str, key: &str, queued: Option<&Value>) -> bool {
    let Some(queued) = queued else { return label(pod, key) == Some(name) };
    let owners = |object: &Value| -> BTreeSet<String> {
        let all =
            at(object, &["metadata", "ownerReferences"]).and_then(Value::as_array).into_iter().flatten();
        all.map(|owner| text(owner, &["uid"]).to_owned()).collect()
    };
    let of = owners(queued);
    label(pod, key) == Some(name)
        || annotation(pod, OF_WORKLOAD) == Some(name)
        || of.contains(uid(pod))
        || !of.is_disjoint(&owners(pod))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_belongs_to_a_workload_only_by_label_kueue_name_or_common_owner() {
        let key = "tenure.dev/workload";
        let queued = json!({ "metadata": { "ownerReferences": [{ "uid": "job-1" }] } });
        let pod = |metadata: Value| json!({ "metadata": metadata });
        for (metadata, wanted) in [
            (json!({ "labels": { key: "train" } }), true),
            (json!({ "annotations": { "kueue.x-k8s.io/workload": "train" } }), true),
            (json!({ "ownerReferences": [{ "uid": "job-1" }] }), true),
            (json!({ "uid": "job-1" }), true),
            (json!({ "labels": { key: "other" }, "ownerReferences": [{ "uid": "job-2" }] }), false),
            (json!({ "annotations": { "kueue.x-k8s.io/workload": "train-2" } }), false),
        ] {
            assert_eq!(is_of(&pod(metadata.clone()), "train", key, Some(&queued)), wanted, "{metadata}");
        }
        let by_kueue = pod(json!({ "annotations": { "kueue.x-k8s.io/workload": "train" } }));
        assert!(!is_of(&by_kueue, "train", key, None), "without a Workload only our label counts");
    }

    #[test]
    fn gpu_indexes_are_numbers_or_unknown() {
        assert_eq!(indexes("0, 3"), Some([0, 3].into()));
        assert_eq!(indexes(""), None);
        assert_eq!(indexes("GPU-5f1d"), None);
    }
}
