//! Pods as this backend sees them: listed, read for what they ask, deleted by identity.
//!
//! A pod that has ended (`Succeeded`, `Failed`) keeps its record and holds nothing any more; one that is being deleted holds what it
//! held until its record is gone.

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
    /// All pods of a namespace. A namespace that is not there has none.
    pub(super) async fn pods_within(
        &self,
        namespace: &str,
        until: Instant,
    ) -> Result<Vec<Value>, ActionError> {
        self.pods(ApiRequest::get(&collection(namespace)), until).await
    }

    /// All pods that are bound to a node, of whatever namespace.
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

    /// The object at a path, if it is there.
    pub(super) async fn object(&self, path: &str, until: Instant) -> Result<Option<Value>, ActionError> {
        match self.send(&ApiRequest::get(path), until).await {
            Ok(object) => Ok(Some(object)),
            Err(Fault::Refused(refusal)) if refusal.is_missing() => Ok(None),
            Err(fault) => Err(self.unserved_now(fault)),
        }
    }

    /// Asks for the deletion of this very pod. One that is gone is success; one of another identity is left.
    ///
    /// `grace` in seconds; without it the pod's own. With 0 the record goes at once, whatever still runs.
    pub(super) async fn delete_pod(
        &self,
        pod: &Value,
        grace: Option<u32>,
        stamp: &CallMetadata,
        until: Instant,
    ) -> Result<(), ActionError> {
        // Beside a body the server does not read `dryRun` of the query: it would be done in earnest.
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

/// The path of all pods of a namespace.
pub(super) fn collection(namespace: &str) -> String {
    format!("/api/v1/namespaces/{}/pods", escaped(namespace))
}

/// The path of a pod.
pub(super) fn path(pod: &Value) -> String {
    format!("{}/{}", collection(text(pod, &["metadata", "namespace"])), escaped(name(pod)))
}

pub(super) fn name(pod: &Value) -> &str {
    text(pod, &["metadata", "name"])
}

/// `t-acme--prod/train-0`.
pub(super) fn full_name(pod: &Value) -> String {
    format!("{}/{}", text(pod, &["metadata", "namespace"]), name(pod))
}

/// Whether everything in it has ended for good.
pub(super) fn ended(pod: &Value) -> bool {
    matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed")
}

/// The node that it is bound to; empty before.
pub(super) fn node(pod: &Value) -> &str {
    text(pod, &["spec", "nodeName"])
}

/// How much it asks for of every resource that `wanted` names, as the scheduler counts: containers and sidecars together, or the
/// greatest of what runs before them.
pub(super) fn asked(pod: &Value, wanted: impl Fn(&str) -> bool) -> u64 {
    let of = |container: &Value| -> u64 {
        // Of an extended resource requests and limits are the same; a server that has set no default shows the limits alone.
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

/// Whether a condition of this kind is true of a pod, a node or any object with conditions.
pub(super) fn is_so(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| text(condition, &["status"]) == "True")
}

/// The condition of this kind, if anybody has said something about it.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let all = at(object, &["status", "conditions"]).and_then(Value::as_array)?;
    all.iter().find(|condition| text(condition, &["type"]) == kind)
}
