//! The decision on a workload with its finding in every dimension and all facts, so that it can be repeated with the same result.

use crate::tenancy::{
    Allowance, Amounts, ClusterId, GpuKind, PolicyRef, RegionId, Resource, TenantId, WorkloadClass,
    WorkspaceClass, WorkspaceName,
};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use store::{CompositeKey, Timestamp};

/// The verdict on a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AdmissionVerdict {
    /// It gets its GPUs.
    Admit,
    /// It waits in the queue.
    Queue,
    /// It can never be admitted with this request.
    Reject,
}

/// The dimensions of a decision. Each can be the only one that fails.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Dimension {
    /// The workspace's own limits.
    Quota,
    /// The reservations of its workspace and of others.
    Reservation,
    /// The idle amounts that others lend.
    Borrowable,
    /// The tenant's own nodes; nodes of other tenants never count.
    Ownership,
    /// The free amounts of the latest observation.
    Availability,
    /// The rules of the policy in force.
    Policy,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DimensionFinding {
    /// The dimension.
    pub dimension: Dimension,
    /// The resource, if it concerns one.
    pub resource: Option<Resource>,
    /// The verdict of this dimension; [`AdmissionVerdict::Admit`] if it allows the workload.
    pub answer: AdmissionVerdict,
    /// The checked value, in the resource's unit.
    pub value: Option<u64>,
    /// The limit.
    pub limit: Option<u64>,
    /// A code such as `quota.exceeded` or `facts.stale`; `ok` if it allows the workload.
    pub code: String,
    /// A sentence that explains the finding.
    pub why: String,
}

/// The facts of one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceFacts {
    /// The allowance of the workspace, with the borrowing limit in force now.
    pub allowance: Allowance,
    /// That limit is reduced for a while after repeated reclaims.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub slowed: bool,
    /// The most that it may ever use, without that reduction; `None` if only the capacity limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<u64>,
    /// The used and earmarked amount.
    pub taken: u64,
    /// The reserved amount.
    pub reserved: u64,
    /// How much more it could use, by Kueue's arithmetic or because GPUs of its own quota are free.
    pub available: u64,
    /// How much it could use if nothing were in use and no limit were reduced.
    pub potential: u64,
    /// The idle amount of its possible lenders.
    pub lendable: u64,
    /// How much of the tenant's loans would have no lender after this admission.
    pub uncovered: u64,
    /// True if policy separates it from every possible lender.
    pub kept_apart: bool,
    /// The number of open loans in the tenant.
    pub loans: u64,
    /// GPUs on the tenant's nodes that take new workloads.
    pub serving: u64,
    /// The kinds of these nodes if none has the requested kind: another model, whole GPUs or slices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offered: Vec<GpuKind>,
    /// Unused ones among them.
    pub free: u64,
    /// The most of it on one of these nodes, in use or not; `None` without such nodes, or in older decisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest: Option<u64>,
    /// True if the requested amount is free there, in the required groups.
    pub fits: bool,
    /// An overdue workload that younger borrowers must wait behind.
    pub ahead: Option<String>,
}

/// All facts of an admission decision: equal facts and policy give an equal result (I-20).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmissionFacts {
    /// The requested amounts.
    pub requests: Amounts,
    /// The number of GPUs that must be on one node.
    pub together: u64,
    /// The class of the workload.
    pub class: WorkloadClass,
    /// True if it may be evicted for other workloads.
    pub preemptible: bool,
    /// Labels that pins match: the workload's, and its tenant's compliance tags.
    pub labels: BTreeSet<String>,
    /// The class of its workspace.
    pub workspace_class: WorkspaceClass,
    /// True if its workspace takes new workloads.
    pub open: bool,
    /// True if its tenant allows evictions of its workloads.
    pub allow_preemption: bool,
    /// True if it was evicted recently and may not borrow yet.
    pub cooling: bool,
    /// The region and cluster of the tenant's nodes; `None` without nodes.
    pub place: Option<(RegionId, ClusterId)>,
    /// True if its workspace's list of running workloads has room for it.
    pub listable: bool,
    /// True if it waits or ran before. A quota change can make it wait, but never rejects it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queued: bool,
    /// The age of the latest observation; `None` for never.
    pub seen: Option<Duration>,
    /// The kinds of GPU that policy forbids for it, each with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<Resource, String>,
    /// The facts by requested resource.
    pub resources: BTreeMap<Resource, ResourceFacts>,
}

/// A decision on one workload. Never rewritten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// The number, unique within the tenant, from 1.
    pub number: u64,
    /// The tenant.
    pub tenant: TenantId,
    /// The workspace.
    pub workspace: WorkspaceName,
    /// The name of the workload.
    pub workload: String,
    /// The requested amounts.
    pub requests: Amounts,
    /// The verdict.
    pub answer: AdmissionVerdict,
    /// Every finding.
    pub weighed: Vec<DimensionFinding>,
    /// The policy in force.
    pub policy: PolicyRef,
    /// All facts.
    pub grounds: AdmissionFacts,
    /// SHA-256 of the facts, as JSON.
    pub facts_digest: String,
    /// The time of the decision.
    pub at: Timestamp,
}

impl Admission {
    /// Returns the id of a tenant's decision.
    #[must_use]
    pub fn key(tenant: &TenantId, number: u64) -> String {
        CompositeKey::of(&[&tenant, &format_args!("{number:012}")]).into()
    }
}

impl Entity for Admission {
    const COLLECTION: &'static str = "admissions";
    const RETENTION: engine::Retention<Self> =
        engine::Retention::Until(|decided| Some(decided.at.after(engine::DAY * 400)));

    fn id(&self) -> String {
        Self::key(&self.tenant, self.number)
    }
}
