//! The names of what Tenure writes on objects: whose they are, which step made them, which calls they have seen.

use serde_json::Value;

/// The names under one prefix.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    prefix: String,
}

impl Marks {
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
