//! Lists pods, reads their requests, and deletes them by identity.
//!
//! A pod that has ended (`Succeeded`, `Failed`) keeps its record but uses no resources. A terminating pod uses its
//! resources until its record is gone.

use crate::kubernetes::{
    client::{
        error::Fault,
        list,
        request::{ApiRequest, escaped},
    },
    cluster::KubernetesCluster,
    labels::{at, text, uid},
    objects::parse::quantity,
};
use engine::ActionError;
use serde_json::{Value, json};
use tokio::time::Instant;
use workflows::platform::CallMetadata;

impl KubernetesCluster {
    /// Returns all pods of a namespace. An absent namespace has none.
    pub(super) async fn pods_within(
        &self,
        namespace: &str,
        until: Instant,
    ) -> Result<Vec<Value>, ActionError> {
        self.pods(ApiRequest::get(&collection(namespace)), until).await
    }

    /// Returns all pods that are bound to a node, in all namespaces.
    pub(super) async fn pods_on(&self, node: &str, until: Instant) -> Result<Vec<Value>, ActionError> {
        let bound = ApiRequest::get("/api/v1/pods").with("fieldSelector", &format!("spec.nodeName={node}"));
        self.pods(bound, until).await
    }

    async fn pods(&self, ask: ApiRequest, until: Instant) -> Result<Vec<Value>, ActionError> {
        list::whole(&self.client, ask, until).await.map_err(|error| ActionError {
            message: format!("pods cannot be listed: {}", error.message),
            ..error
        })
    }

    /// Returns the object at a path, if it exists.
    pub(super) async fn object(&self, path: &str, until: Instant) -> Result<Option<Value>, ActionError> {
        match self.send(&ApiRequest::get(path), until).await {
            Ok(object) => Ok(Some(object)),
            Err(Fault::Refused(refusal)) if refusal.is_missing() => Ok(None),
            Err(fault) => Err(self.unserved_now(fault)),
        }
    }

    /// Deletes exactly this pod. An absent pod is success; another pod with the same name is not touched.
    ///
    /// `grace` is in seconds; `None` means the pod's own period. With 0, the record is removed immediately, even if
    /// processes still run.
    pub(super) async fn delete_pod(
        &self,
        pod: &Value,
        grace: Option<u32>,
        stamp: &CallMetadata,
        until: Instant,
    ) -> Result<(), ActionError> {
        // If the request has a body, the server ignores `dryRun` in the query and would delete the pod.
        let rehearsal = if stamp.dry_run { json!(["All"]) } else { json!([]) };
        let options = json!({
            "dryRun": rehearsal,
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": grace,
            "preconditions": { "uid": uid(pod) },
        });
        match self.send(&ApiRequest::delete(&path(pod), options).under(stamp), until).await {
            Ok(_) => Ok(()),
            Err(Fault::Refused(refusal)) if refusal.is_missing() || refusal.is_outdated() => Ok(()),
            Err(fault) => Err(fault.into()),
        }
    }
}

/// Returns the path of all pods in a namespace.
pub(super) fn collection(namespace: &str) -> String {
    format!("/api/v1/namespaces/{}/pods", escaped(namespace))
}

/// Returns the path of a pod.
pub(super) fn path(pod: &Value) -> String {
    format!("{}/{}", collection(text(pod, &["metadata", "namespace"])), escaped(name(pod)))
}

pub(super) fn name(pod: &Value) -> &str {
    text(pod, &["metadata", "name"])
}

/// Returns the name with its namespace, such as `t-acme--prod/train-0`.
pub(super) fn full_name(pod: &Value) -> String {
    format!("{}/{}", text(pod, &["metadata", "namespace"]), name(pod))
}

/// Returns true if all containers have ended permanently.
pub(super) fn ended(pod: &Value) -> bool {
    matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed")
}

/// Returns the node of the pod; empty if it is not bound.
pub(super) fn node(pod: &Value) -> &str {
    text(pod, &["spec", "nodeName"])
}

/// Returns the pod's request for all resources that match `wanted`, counted like the scheduler does: the sum of
/// containers and sidecars, or the largest init container.
pub(super) fn asked(pod: &Value, wanted: impl Fn(&str) -> bool) -> u64 {
    let of = |container: &Value| -> u64 {
        // Requests and limits of an extended resource are equal. A server that does not set the default shows only the
        // limits.
        let asked =
            ["requests", "limits"].iter().find_map(|kind| at(container, &["resources", kind])?.as_object());
        let amounts = asked.into_iter().flatten().filter(|(resource, _)| wanted(resource));
        amounts.map(|(_, amount)| amount.as_str().and_then(quantity).or(amount.as_u64()).unwrap_or(1)).sum()
    };
    let list =
        |field: &str| at(pod, &["spec", field]).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let (sidecars, before): (Vec<&Value>, Vec<&Value>) =
        list("initContainers").iter().partition(|one| text(one, &["restartPolicy"]) == "Always");
    let together: u64 = list("containers").iter().chain(sidecars).map(of).sum();
    before.into_iter().map(of).max().unwrap_or_default().max(together)
}

/// Returns true if the object's condition of this type is `True`.
pub(super) fn is_so(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| text(condition, &["status"]) == "True")
}

/// Returns the condition of this type, if present.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let all = at(object, &["status", "conditions"]).and_then(Value::as_array)?;
    all.iter().find(|condition| text(condition, &["type"]) == kind)
}
