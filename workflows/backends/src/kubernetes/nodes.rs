//! Ownership of nodes: label, taint and epoch, changed together under the version that was read.
//!
//! A cordon of Tenure is its own taint with the list of steps that hold it. `spec.unschedulable` belongs to operators
//! and other controllers, and is neither read nor written. After a node is returned, only its highest used epoch
//! remains on it.

use crate::kubernetes::{
    client::{
        TRIES,
        error::Fault,
        request::{ApiRequest, deadline, escaped},
    },
    cluster::KubernetesCluster,
    labels::{LabelNames, annotation, at, label, text, uid, version},
    objects::call_history::{CallHistory, PastCall},
};
use engine::ActionError;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use tokio::time::Instant;
use workflows::platform::{CallMetadata, Ownership, codes};

/// The ownership that a node's metadata states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeOwner {
    pub(super) tenant: Option<String>,
    pub(super) epoch: u64,
    /// The highest epoch of an ownership that has ended or was cancelled.
    pub(super) spent: u64,
    /// The steps that cordon the node.
    pub(super) cordons: BTreeSet<String>,
}

impl NodeOwner {
    /// Reads the ownership.
    ///
    /// # Errors
    ///
    /// `platform.unreadable` (permanent) if Tenure's annotations were changed by others.
    pub(super) fn of(node: &Value, marks: &LabelNames) -> Result<Self, ActionError> {
        let broken = |key: &str, why: String| {
            let why = format!(
                "node {}: annotation {key} was changed by another client ({why}); correct it, then retry",
                text(node, &["metadata", "name"])
            );
            ActionError::permanent(codes::UNREADABLE, why)
        };
        let number = |key: String| match annotation(node, &key) {
            Some(text) => text.parse::<u64>().map_err(|e| broken(&key, e.to_string())),
            None => Ok(0),
        };
        let cordons = match annotation(node, &marks.cordons()) {
            Some(text) => serde_json::from_str(text).map_err(|e| broken(&marks.cordons(), e.to_string()))?,
            None => BTreeSet::new(),
        };
        Ok(Self {
            tenant: label(node, &marks.tenant()).map(str::to_owned),
            epoch: number(marks.owner_epoch())?,
            spent: number(marks.spent_epoch())?,
            cordons,
        })
    }

    fn is(&self, of: &Ownership) -> bool {
        self.tenant.is_some() && self.tenant == of.tenant && self.epoch == of.owner_epoch
    }

    pub(super) fn shown(&self) -> Ownership {
        Ownership {
            tenant: self.tenant.clone(),
            owner_epoch: self.epoch.max(self.spent),
            cordoned: !self.cordons.is_empty(),
        }
    }
}

/// A change to a node's ownership.
pub(super) enum OwnershipChange {
    /// No change.
    Same,
    /// The new ownership.
    Owned(NodeOwner),
}

impl KubernetesCluster {
    pub(super) async fn take(
        &self,
        node: &str,
        to: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError> {
        let taken = self.own(node, stamp, |is| {
            if is.is(to) {
                return Ok(OwnershipChange::Owned(is.clone()));
            }
            let seen = is.spent.max(is.epoch);
            if to.owner_epoch <= seen {
                let why =
                    format!("{node} is at owner epoch {seen}, but the call has epoch {}", to.owner_epoch);
                return Err(ActionError::permanent(codes::EPOCH_OLD, why));
            }
            if let Some(owner) = &is.tenant {
                let why = format!("{node} belongs to {owner:?} at epoch {}", is.epoch);
                return Err(ActionError::permanent(codes::NODE_OWNED, why));
            }
            Ok(OwnershipChange::Owned(NodeOwner {
                tenant: to.tenant.clone(),
                epoch: to.owner_epoch,
                ..is.clone()
            }))
        });
        taken.await?.ok_or_else(|| {
            let why = format!("the cluster has no node {node}: join it, or let another be claimed");
            ActionError::permanent(codes::OBJECT_MISSING, why)
        })
    }

    pub(super) async fn cordon(
        &self,
        node: &str,
        of: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError> {
        let now = self.own(node, stamp, |is| {
            if !is.is(of) || is.cordons.contains(&stamp.step) {
                return Ok(OwnershipChange::Same);
            }
            let mut wanted = is.clone();
            wanted.cordons.insert(stamp.step.clone());
            Ok(OwnershipChange::Owned(wanted))
        });
        Ok(now.await?.unwrap_or_default())
    }

    pub(super) async fn uncordon(
        &self,
        node: &str,
        of: &Ownership,
        by: &str,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError> {
        let now = self.own(node, stamp, |is| {
            if !is.is(of) || !is.cordons.contains(by) {
                return Ok(OwnershipChange::Same);
            }
            let mut wanted = is.clone();
            wanted.cordons.remove(by);
            Ok(OwnershipChange::Owned(wanted))
        });
        Ok(now.await?.unwrap_or_default())
    }

    pub(super) async fn give_back(
        &self,
        node: &str,
        of: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError> {
        let now = self.own(node, stamp, |is| {
            let spent = is.spent.max(of.owner_epoch);
            if !is.is(of) {
                let wanted = NodeOwner { spent, ..is.clone() };
                return Ok(if wanted == *is {
                    OwnershipChange::Same
                } else {
                    OwnershipChange::Owned(wanted)
                });
            }
            Ok(OwnershipChange::Owned(NodeOwner { spent, ..NodeOwner::default() }))
        });
        // A node that has left the cluster has nothing to release.
        Ok(now.await?.unwrap_or_default())
    }

    /// Changes the ownership of a node under the version that was read. Returns `None` if the node does not exist.
    async fn own(
        &self,
        node: &str,
        stamp: &CallMetadata,
        decide: impl Fn(&NodeOwner) -> Result<OwnershipChange, ActionError>,
    ) -> Result<Option<Ownership>, ActionError> {
        let (until, path) = (deadline(stamp), format!("/api/v1/nodes/{}", escaped(node)));
        for _ in 0..TRIES {
            let Some(live) = self.node(&path, until).await? else { return Ok(None) };
            let is = NodeOwner::of(&live, &self.marks)?;
            let calls = CallHistory::of(&live, &self.marks.calls())?;
            let before = calls.check(stamp, &format!("node {node}"))?;
            let wanted = match decide(&is)? {
                OwnershipChange::Same => return Ok(Some(is.shown())),
                OwnershipChange::Owned(_) if before == PastCall::Done && !calls.is_newer(stamp) => {
                    return Ok(Some(is.shown()));
                }
                OwnershipChange::Owned(wanted) => wanted,
            };
            let newer = calls.is_newer(stamp);
            // A free node needs no call history: its highest used epoch rejects every late call.
            let calls = wanted.tenant.as_ref().map(|_| calls.with(stamp));
            let patch = patch(&live, &wanted, calls.as_deref(), newer, &self.marks);
            let Some(patch) = patch else {
                return Ok(Some(is.shown()));
            };
            let ask = ApiRequest::merge(&path, patch).by(&self.target.field_manager).under(stamp);
            match self.send(&ask, until).await {
                Ok(changed) => return Ok(Some(NodeOwner::of(&changed, &self.marks)?.shown())),
                Err(Fault::Refused(refusal)) if refusal.is_outdated() || refusal.is_missing() => {}
                Err(fault) => return Err(fault.into()),
            }
        }
        let why = format!("node {node} changed during each of {TRIES} attempts");
        Err(ActionError::transient(codes::OBJECT_CHANGED, why))
    }

    async fn node(&self, path: &str, until: Instant) -> Result<Option<Value>, ActionError> {
        match self.send(&ApiRequest::get(path), until).await {
            Ok(node) => Ok(Some(node)),
            Err(Fault::Refused(refusal)) if refusal.is_missing() => Ok(None),
            Err(fault) => Err(fault.into()),
        }
    }
}

/// Returns the merge patch to the wanted ownership, conditional on version and uid. Returns `None` if nothing changes
/// and no newer epoch must be recorded.
fn patch(
    node: &Value,
    wanted: &NodeOwner,
    calls: Option<&str>,
    newer: bool,
    marks: &LabelNames,
) -> Option<Value> {
    let number = |value: u64| if value == 0 { Value::Null } else { Value::from(value.to_string()) };
    let cordons =
        if wanted.cordons.is_empty() { Value::Null } else { json!(json!(wanted.cordons).to_string()) };
    let annotations = [
        (marks.owner_epoch(), number(wanted.epoch)),
        (marks.spent_epoch(), number(wanted.spent)),
        (marks.cordons(), cordons),
    ];
    let changed = |(key, value): &(String, Value)| {
        annotation(node, key).map_or(!value.is_null(), |is| value.as_str() != Some(is))
    };
    let mut annotations: Map<String, Value> = annotations.into_iter().filter(changed).collect();
    let (taints, tainted) = taints(node, wanted, marks);
    let labelled = label(node, &marks.tenant()) != wanted.tenant.as_deref();
    if annotations.is_empty() && !tainted && !labelled && !newer {
        return None;
    }
    let calls = (marks.calls(), calls.map_or(Value::Null, Value::from));
    annotations.extend([calls].into_iter().filter(changed));
    let mut patch = json!({
        "metadata": { "uid": uid(node), "resourceVersion": version(node), "annotations": annotations },
    });
    if labelled && let Some(Value::Object(metadata)) = patch.get_mut("metadata") {
        metadata.insert("labels".into(), json!({ marks.tenant(): wanted.tenant }));
    }
    if tainted && let Value::Object(patch) = &mut patch {
        patch.insert("spec".into(), json!({ "taints": taints }));
    }
    Some(patch)
}

/// Returns the new list of taints, which keeps those of others, and whether it differs.
fn taints(node: &Value, wanted: &NodeOwner, marks: &LabelNames) -> (Value, bool) {
    let has = at(node, &["spec", "taints"]).and_then(Value::as_array).cloned().unwrap_or_default();
    let ours =
        |taint: &Value| [marks.tenant(), marks.cordon()].iter().any(|key| text(taint, &["key"]) == key);
    let mut taints: Vec<Value> = has.iter().filter(|taint| !ours(taint)).cloned().collect();
    let mut add = |key: String, value: Option<&str>| {
        let mut taint = json!({ "key": key, "effect": "NoSchedule" });
        if let (Value::Object(taint), Some(value)) = (&mut taint, value) {
            taint.insert("value".into(), value.into());
        }
        taints.push(taint);
    };
    if let Some(tenant) = &wanted.tenant {
        add(marks.tenant(), Some(tenant));
    }
    if !wanted.cordons.is_empty() {
        add(marks.cordon(), None);
    }
    let changed = taints.len() != has.len() || taints.iter().any(|taint| !has.contains(taint));
    (if taints.is_empty() { Value::Null } else { taints.into() }, changed)
}
