//! The names of what Tenure writes on objects: whose they are, which step made them, which calls they have seen.

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

    /// Annotation: the step that made the object.
    pub(super) fn step(&self) -> String {
        self.key("step")
    }

    /// Annotation: the calls that took effect on the object.
    pub(super) fn calls(&self) -> String {
        self.key("calls")
    }

    /// Annotation of a namespace: the names of the labels that were asked for.
    pub(super) fn labels(&self) -> String {
        self.key("labels")
    }

    /// Annotation of a cohort: the record of what its queues are given.
    pub(super) fn quotas(&self) -> String {
        self.key("quotas")
    }

    /// Annotation of an admission policy: what its expressions were made from.
    pub(super) fn asked(&self) -> String {
        self.key("asked")
    }

    /// Annotation of a node: the epoch of its owner.
    pub(super) fn owner_epoch(&self) -> String {
        self.key("owner-epoch")
    }

    /// Annotation of a node: the greatest epoch of an ownership that has ended.
    pub(super) fn spent_epoch(&self) -> String {
        self.key("spent-epoch")
    }

    /// Annotation of a node: the steps that keep work from it.
    pub(super) fn cordons(&self) -> String {
        self.key("cordons")
    }

    /// Label of pods that no Kueue queues: the workload that they are.
    pub(super) fn workload(&self) -> String {
        self.key("workload")
    }

    /// Annotation of a workload and its pods: when it ends.
    pub(super) fn reclaim_at(&self) -> String {
        self.key("reclaim-at")
    }

    /// Annotation of a workload and its pods: it is to save its work. The text is for its owner to repeat.
    pub(super) fn checkpoint(&self) -> String {
        self.key("checkpoint")
    }

    /// Annotation by the owner of a workload: its work is saved, as the repeated text of the question.
    pub(super) fn checkpointed(&self) -> String {
        self.key("checkpointed")
    }

    /// Annotation by the owner of a workload: `ROUTE/SERVICE`, where its requests come from.
    pub(super) fn route(&self) -> String {
        self.key("route")
    }

    /// Annotation of a route: the weights that its back ends had before.
    pub(super) fn weights(&self) -> String {
        self.key("weights")
    }

    /// Annotation of a pod, by what gives out GPUs on its node: their indexes, `0,1`.
    pub(super) fn gpus(&self) -> String {
        self.key("gpus")
    }

    /// Label of a pod: which probe it is of.
    pub(super) fn probe(&self) -> String {
        self.key("probe")
    }

    /// Annotation of an admission policy: the image of the probes, which it lets in besides.
    pub(super) fn probe_image(&self) -> String {
        self.key("probe-image")
    }

    /// Taint: some step of ours keeps work from the node.
    pub(super) fn cordon(&self) -> String {
        self.key("cordon")
    }
}

/// The text at a path of an object; empty when there is none.
pub(super) fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The value at a path of an object.
pub(super) fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, field| value.get(field))
}

/// The label of an object.
pub(super) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    at(object, &["metadata", "labels", key]).and_then(Value::as_str)
}

/// The annotation of an object.
pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    at(object, &["metadata", "annotations", key]).and_then(Value::as_str)
}

/// The identity of an object.
pub(super) fn uid(object: &Value) -> &str {
    text(object, &["metadata", "uid"])
}

/// The version of an object.
pub(super) fn version(object: &Value) -> &str {
    text(object, &["metadata", "resourceVersion"])
}

/// Whether an object is being deleted.
pub(super) fn terminating(object: &Value) -> bool {
    at(object, &["metadata", "deletionTimestamp"]).is_some_and(Value::is_string)
}
