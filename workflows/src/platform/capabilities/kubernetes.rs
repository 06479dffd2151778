//! The Kubernetes-shaped capability: objects applied, read and deleted, and the ownership of nodes.
//!
//! Actions build the manifests; a backend only carries them. Invariant: a deletion names the identity it found, so
//! that a late one never takes an object made since.

use crate::platform::{CallMetadata, FoundObject, IsolationKind, Removal, call_metadata::look_again, codes};
use async_trait::async_trait;
use engine::ActionError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Debug;

/// The kinds of object that actions make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
pub enum ObjectKind {
    /// `v1`.
    Namespace,
    /// `v1`.
    ResourceQuota,
    /// `v1`.
    LimitRange,
    /// `scheduling.k8s.io/v1`. Of no tenant.
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

/// Where an object stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRef {
    /// In which cluster.
    pub cluster: String,
    /// Of what kind.
    pub kind: ObjectKind,
    /// In which namespace, for kinds that live in one.
    pub namespace: Option<String>,
    /// Under which name.
    pub name: String,
}

impl ObjectRef {
    /// An object of the whole cluster.
    #[must_use]
    pub fn new(cluster: &str, kind: ObjectKind, name: &str) -> Self {
        Self { cluster: cluster.to_owned(), kind, namespace: None, name: name.to_owned() }
    }

    /// An object in a namespace.
    #[must_use]
    pub fn within(cluster: &str, kind: ObjectKind, namespace: &str, name: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), ..Self::new(cluster, kind, name) }
    }

    /// The name with its namespace.
    #[must_use]
    pub fn full_name(&self) -> String {
        self.namespace.iter().chain([&self.name]).map(String::as_str).collect::<Vec<_>>().join("/")
    }
}

/// An object to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Where it is to stand.
    pub place: ObjectRef,
    /// Whose it is to be; empty for what all tenants share.
    pub tenant: String,
    /// What it asks for.
    pub spec: Value,
}

/// A change of one field of an object, made only while the field is as it was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldSwap {
    /// Which field of the object's `spec`.
    pub field: String,
    /// What it must be; null for absent.
    pub from: Value,
    /// What it is to be; null to remove it.
    pub to: Value,
}

/// Who owns a node, as the node itself says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ownership {
    /// The owner, by label and taint.
    pub tenant: Option<String>,
    /// The owner's epoch, by annotation.
    pub owner_epoch: u64,
    /// Whether a cordon of any step of ours keeps work away. A cordon of others is not looked at and never lifted.
    pub cordoned: bool,
}

/// A cluster's API server, as far as actions need one.
///
/// An implementor promises that a call with a key that took effect before answers as before and changes nothing, that
/// a call with a smaller epoch than it has seen for the step is refused with `call.fenced`, and that the class of
/// every error is known: unreachable is transient, sent without an answer is unknown, refused is permanent.
#[async_trait]
pub trait Kubernetes: Debug + Send + Sync {
    /// What serves this capability, for people: `simulated`, or what it talks to.
    fn backend(&self) -> &'static str;

    /// Makes the object, marked with tenant and step. An equal one of the tenant is left with the mark that it has;
    /// one that differs, or is another's, is left and refused with `object.foreign`. While one of that name is being
    /// deleted the answer is `object.terminating`, pending.
    async fn apply(&self, manifest: &Manifest, stamp: &CallMetadata) -> Result<FoundObject, ActionError>;

    /// Sets the given fields of the tenant's object and no others; `object.missing` if there is none.
    async fn patch(&self, manifest: &Manifest, stamp: &CallMetadata) -> Result<FoundObject, ActionError>;

    /// Sets one field of the tenant's object if it still is as it was read, as a JSON patch with a `test` does. When it is
    /// not, `object.changed`, transient: read again. `object.missing` if there is no such object.
    async fn compare_and_set(
        &self,
        place: &ObjectRef,
        tenant: &str,
        swap: &FieldSwap,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError>;

    /// The object as it stands, if there is one.
    async fn read(&self, place: &ObjectRef, stamp: &CallMetadata)
    -> Result<Option<FoundObject>, ActionError>;

    /// The object once that of this identity is gone, or as it stands after a moment: a backend that is told of changes waits for one, any
    /// other just reads.
    async fn wait_until_gone(
        &self,
        place: &ObjectRef,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<FoundObject>, ActionError> {
        let _ = uid;
        self.read(place, stamp).await
    }

    /// What holds the object while it is being deleted, in words for people: finalizers, contents, a failing controller. `None`
    /// when it is not being deleted, or where the target cannot say.
    async fn deletion_blocker(
        &self,
        place: &ObjectRef,
        stamp: &CallMetadata,
    ) -> Result<Option<String>, ActionError> {
        let (_, _) = (place, stamp);
        Ok(None)
    }

    /// Asks for the deletion of the object with this identity. Success means asked, not gone; an object that is gone
    /// already is success, one with another identity is `object.changed`.
    async fn delete(&self, place: &ObjectRef, uid: &str, stamp: &CallMetadata) -> Result<(), ActionError>;

    /// Gives the node to the tenant: taint, label and epoch in one conditional write. The same owner and epoch again
    /// change nothing; another owner is refused with `node.owned`, an epoch not above all that ended with
    /// `node.epoch_old`.
    async fn take_node(
        &self,
        cluster: &str,
        node: &str,
        to: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError>;

    /// Keeps new work from a node of this owner and epoch, in the name of the stamp's step. Several may do so, and the node
    /// is open once all have let go. A node that is not so owned is left as it is.
    async fn cordon_node(
        &self,
        cluster: &str,
        node: &str,
        of: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError>;

    /// Lifts the cordon that was set in the name of `by`, and nobody else's.
    async fn uncordon_node(
        &self,
        cluster: &str,
        node: &str,
        of: &Ownership,
        by: &str,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError>;

    /// Ends this ownership: label, then our cordon, the taint last. The epoch stays spent, whether or not the node
    /// was ever taken with it. A node of another owner or epoch is left as it is.
    async fn return_node(
        &self,
        cluster: &str,
        node: &str,
        of: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError>;

    /// Tries to break the tenant's isolation and says what happened. Leaves nothing behind.
    async fn probe_isolation(
        &self,
        cluster: &str,
        tenant: &str,
        workspace: &str,
        kind: IsolationKind,
        stamp: &CallMetadata,
    ) -> Result<ProbeFinding, ActionError>;
}

/// Removes an object by name and says what was observed: gone, or left because it is another's. Pending until gone.
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

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeFinding {
    /// True when the guard held.
    pub held: bool,
    /// What was tried and what was answered, as evidence.
    pub transcript: String,
}
