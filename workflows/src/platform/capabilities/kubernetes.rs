//! Kubernetes: applies, reads and deletes objects, and records the ownership of nodes.
//!
//! Actions build the manifests, and a backend only sends them. Invariant: a deletion names the UID that it found, so that a late deletion never
//! removes an object created since.

use crate::platform::{CallMetadata, FoundObject, IsolationKind, Removal, call_metadata::look_again, codes};
use async_trait::async_trait;
use engine::ActionError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Debug;

/// The kinds of objects that actions create.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
pub enum ObjectKind {
    /// `v1`.
    Namespace,
    /// `v1`.
    ResourceQuota,
    /// `v1`.
    LimitRange,
    /// `scheduling.k8s.io/v1`. Shared by all tenants.
    PriorityClass,
    /// `networking.k8s.io/v1`.
    NetworkPolicy,
    /// `rbac.authorization.k8s.io/v1`.
    RoleBinding,
    /// `admissionregistration.k8s.io/v1`, with its binding.
    ValidatingAdmissionPolicy,
    /// `kueue.x-k8s.io`.
    Cohort,
    /// `kueue.x-k8s.io`.
    ResourceFlavor,
    /// `kueue.x-k8s.io`.
    ClusterQueue,
    /// `kueue.x-k8s.io`.
    LocalQueue,
}

/// The place of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRef {
    /// The cluster's name.
    pub cluster: String,
    /// The object's kind.
    pub kind: ObjectKind,
    /// The namespace, for namespaced kinds.
    pub namespace: Option<String>,
    /// The object's name.
    pub name: String,
}

impl ObjectRef {
    /// Returns the place of a cluster-scoped object.
    #[must_use]
    pub fn new(cluster: &str, kind: ObjectKind, name: &str) -> Self {
        Self { cluster: cluster.to_owned(), kind, namespace: None, name: name.to_owned() }
    }

    /// Returns the place of an object in a namespace.
    #[must_use]
    pub fn within(cluster: &str, kind: ObjectKind, namespace: &str, name: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), ..Self::new(cluster, kind, name) }
    }

    /// Returns the name with its namespace.
    #[must_use]
    pub fn full_name(&self) -> String {
        self.namespace.iter().chain([&self.name]).map(String::as_str).collect::<Vec<_>>().join("/")
    }
}

/// An object to create.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The place of the object.
    pub place: ObjectRef,
    /// The owner's id. Empty for an object that all tenants share.
    pub tenant: String,
    /// The object's spec.
    pub spec: Value,
}

/// A change of one field of an object, made only while the field has the value that was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldSwap {
    /// The field of the object's `spec`.
    pub field: String,
    /// The expected value. Null means absent.
    pub from: Value,
    /// The new value. Null removes the field.
    pub to: Value,
}

/// The owner of a node, as the node itself records it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ownership {
    /// The owner, by label and taint.
    pub tenant: Option<String>,
    /// The owner's epoch, by annotation.
    pub owner_epoch: u64,
    /// True if a step of this platform holds a cordon. Cordons of other clients are neither read nor removed.
    pub cordoned: bool,
}

/// The operations on a cluster's API server that actions need.
///
/// A call with a key that took effect earlier answers as before and changes nothing. A call with a smaller epoch than an earlier call of the step
/// fails with `call.fenced`. Every error has a class: an unreachable target is transient, a lost response is unknown, a rejection is permanent.
#[async_trait]
pub trait Kubernetes: Debug + Send + Sync {
    /// Returns the name of the backend, for display: `simulated`, or the kind of server.
    fn backend(&self) -> &'static str;

    /// Creates the object with the marks of tenant and step. An equal object of the tenant keeps its mark. A different object, or one of another
    /// tenant, is left and fails with `object.foreign`. While an object of that name is being deleted, fails with `object.terminating`, pending.
    async fn apply(&self, manifest: &Manifest, stamp: &CallMetadata) -> Result<FoundObject, ActionError>;

    /// Sets the given fields of the tenant's object and no others. Fails with `object.missing` if it does not exist.
    async fn patch(&self, manifest: &Manifest, stamp: &CallMetadata) -> Result<FoundObject, ActionError>;

    /// Sets one field of the tenant's object if it has the value that was read, as a JSON patch with a `test` operation does. Fails with
    /// `object.changed`, transient, if it has a different value, so that the caller reads again. Fails with `object.missing` if there is no such
    /// object.
    async fn compare_and_set(
        &self,
        place: &ObjectRef,
        tenant: &str,
        swap: &FieldSwap,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError>;

    /// Returns the object, if it exists.
    async fn read(&self, place: &ObjectRef, stamp: &CallMetadata)
    -> Result<Option<FoundObject>, ActionError>;

    /// Returns the object, after waiting a short time for the one with this UID to be gone. A backend that watches waits for a change; any other
    /// backend reads once.
    async fn wait_until_gone(
        &self,
        place: &ObjectRef,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<FoundObject>, ActionError> {
        let _ = uid;
        self.read(place, stamp).await
    }

    /// Returns the reason why the deletion of an object does not complete, as text: finalizers, contents, a failing controller. `None` if the object
    /// is not being deleted or the target does not report a reason.
    async fn deletion_blocker(
        &self,
        place: &ObjectRef,
        stamp: &CallMetadata,
    ) -> Result<Option<String>, ActionError> {
        let (_, _) = (place, stamp);
        Ok(None)
    }

    /// Requests the deletion of the object with this UID. Success means that the request was accepted. A missing object is a success, and another UID
    /// fails with `object.changed`.
    async fn delete(&self, place: &ObjectRef, uid: &str, stamp: &CallMetadata) -> Result<(), ActionError>;

    /// Assigns the node to the tenant: taint, label and epoch in one conditional write. The same owner and epoch change nothing. Fails with
    /// `node.owned` for another owner, and with `node.epoch_old` if the epoch is not larger than all ended ones.
    async fn take_node(
        &self,
        cluster: &str,
        node: &str,
        to: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError>;

    /// Cordons a node of this owner and epoch on behalf of the step. Several steps may hold a cordon; the node is schedulable once all of them are
    /// removed. A node with another owner or epoch is left unchanged.
    async fn cordon_node(
        &self,
        cluster: &str,
        node: &str,
        of: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError>;

    /// Removes the cordon that `by` holds, and no other.
    async fn uncordon_node(
        &self,
        cluster: &str,
        node: &str,
        of: &Ownership,
        by: &str,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError>;

    /// Ends this ownership: the label first, then this platform's cordon, the taint last. The epoch counts as used even if the node was never taken
    /// with it. A node of another owner or epoch is left unchanged.
    async fn return_node(
        &self,
        cluster: &str,
        node: &str,
        of: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError>;

    /// Tries to break the tenant's isolation and returns the observation. Leaves nothing behind.
    async fn probe_isolation(
        &self,
        cluster: &str,
        tenant: &str,
        workspace: &str,
        kind: IsolationKind,
        stamp: &CallMetadata,
    ) -> Result<ProbeFinding, ActionError>;
}

/// Removes an object by name and returns the outcome: gone, or left because it belongs to another tenant or step. Pending until the object is gone.
pub(in crate::platform) async fn remove(
    kubernetes: &dyn Kubernetes,
    place: &ObjectRef,
    tenant: &str,
    stamp: &CallMetadata,
) -> Result<Removal, ActionError> {
    let Some(found) = kubernetes.read(place, stamp).await? else { return Ok(Removal::Gone) };
    if !found.may_be_removed(tenant, stamp) {
        return Ok(Removal::left(&place.full_name(), &found, stamp));
    }
    if !found.terminating {
        kubernetes.delete(place, &found.uid, stamp).await?;
    }
    match kubernetes.wait_until_gone(place, &found.uid, stamp).await? {
        None => return Ok(Removal::Gone),
        Some(other) if other.uid != found.uid => {
            return Ok(Removal::left(&place.full_name(), &other, stamp));
        }
        Some(_) => {}
    }
    let mut error = look_again(codes::TERMINATING);
    if let Some(held) = kubernetes.deletion_blocker(place, stamp).await? {
        error.message = held;
    }
    Err(error)
}

/// Result of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeFinding {
    /// True if the isolation held.
    pub held: bool,
    /// The attempt and the answer, as evidence.
    pub transcript: String,
}
