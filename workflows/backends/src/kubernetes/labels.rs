//! Names of Tenure's labels, annotations and taints: owner, creating step, and call history.

use serde_json::Value;

/// The prefix of a MIG profile's resource name, as NVIDIA's device plugin names it.
pub(super) const SLICE: &str = "nvidia.com/mig-";

/// The names under one prefix.
#[derive(Clone, Debug)]
pub(super) struct LabelNames {
    prefix: String,
}

impl LabelNames {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }

    /// Label and taint: the tenant.
    pub(super) fn tenant(&self) -> String {
        self.key("tenant")
    }

    /// Annotation: the step that created the object.
    pub(super) fn step(&self) -> String {
        self.key("step")
    }

    /// Annotation: the calls that took effect on the object.
    pub(super) fn calls(&self) -> String {
        self.key("calls")
    }

    /// Annotation of a namespace: the names of the requested labels.
    pub(super) fn labels(&self) -> String {
        self.key("labels")
    }

    /// Annotation of a cohort: the record of its queues' quotas.
    pub(super) fn quotas(&self) -> String {
        self.key("quotas")
    }

    /// Annotation of a cohort: the bought GPUs, of which its own quota is the part that no queue has.
    pub(super) fn bought(&self) -> String {
        self.key("bought")
    }

    /// Annotation of an object: the requested spec, from which it was derived.
    pub(super) fn asked(&self) -> String {
        self.key("asked")
    }

    /// Annotation of a node: the epoch of its owner.
    pub(super) fn owner_epoch(&self) -> String {
        self.key("owner-epoch")
    }

    /// Annotation of a node: the highest epoch of an ownership that has ended.
    pub(super) fn spent_epoch(&self) -> String {
        self.key("spent-epoch")
    }

    /// Annotation of a node: the steps that cordon it.
    pub(super) fn cordons(&self) -> String {
        self.key("cordons")
    }

    /// Label of pods without a Kueue workload: the workload that they form.
    pub(super) fn workload(&self) -> String {
        self.key("workload")
    }

    /// Annotation of a workload and its pods: the decision that admitted it.
    pub(super) fn decision(&self) -> String {
        self.key("decision")
    }

    /// Annotation of a workload and its pods: the time of the eviction.
    pub(super) fn reclaim_at(&self) -> String {
        self.key("reclaim-at")
    }

    /// Annotation of a workload and its pods: the checkpoint request. Its owner repeats the value in the answer.
    pub(super) fn checkpoint(&self) -> String {
        self.key("checkpoint")
    }

    /// Annotation by the owner of a workload: the checkpoint is complete, with the value of the request.
    pub(super) fn checkpointed(&self) -> String {
        self.key("checkpointed")
    }

    /// Annotation by the owner of a workload: the `ROUTE/SERVICE` that sends its requests.
    pub(super) fn route(&self) -> String {
        self.key("route")
    }

    /// Annotation of a route: the original weights of its backends.
    pub(super) fn weights(&self) -> String {
        self.key("weights")
    }

    /// Annotation of a pod, by the component that assigns GPUs on its node: the indexes, such as `0,1`.
    pub(super) fn gpus(&self) -> String {
        self.key("gpus")
    }

    /// Label of a pod: the probe that it belongs to.
    pub(super) fn probe(&self) -> String {
        self.key("probe")
    }

    /// Annotation of an admission policy: the image of the probes, which it also allows.
    pub(super) fn probe_image(&self) -> String {
        self.key("probe-image")
    }

    /// Taint: a step of Tenure cordons the node.
    pub(super) fn cordon(&self) -> String {
        self.key("cordon")
    }
}

/// Returns the text at a path of an object; empty if absent.
pub(super) fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the value at a path of an object.
pub(super) fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, field| value.get(field))
}

/// Returns a label of an object.
pub(super) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    at(object, &["metadata", "labels", key]).and_then(Value::as_str)
}

/// Returns an annotation of an object.
pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    at(object, &["metadata", "annotations", key]).and_then(Value::as_str)
}

/// Returns the uid of an object.
pub(super) fn uid(object: &Value) -> &str {
    text(object, &["metadata", "uid"])
}

/// Returns the resource version of an object.
pub(super) fn version(object: &Value) -> &str {
    text(object, &["metadata", "resourceVersion"])
}

/// Returns true if the object is being deleted.
pub(super) fn terminating(object: &Value) -> bool {
    at(object, &["metadata", "deletionTimestamp"]).is_some_and(Value::is_string)
}
