//! What was decided on a workload, in every dimension that was looked at: enough to decide it again and get the same.

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

/// What a workload is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AdmissionVerdict {
    /// It has its GPUs.
    Admit,
    /// It waits in line.
    Queue,
    /// It can never be admitted as it is.
    Reject,
}

/// What is looked at, each of which can be the only one that fails.
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
    /// What is promised to it, or to others.
    Reservation,
    /// What others leave idle and lend.
    Borrowable,
    /// The tenant's own nodes: none of another's is ever counted.
    Ownership,
    /// What the platform was last seen to have free.
    Availability,
    /// The rules of the policy in force.
    Policy,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DimensionFinding {
    /// What was looked at.
    pub dimension: Dimension,
    /// Of which resource, where it is about one.
    pub resource: Option<Resource>,
    /// Whether it stands in the way: [`AdmissionVerdict::Admit`] when it does not.
    pub answer: AdmissionVerdict,
    /// What there is, in the resource's unit.
    pub value: Option<u64>,
    /// What it is compared with.
    pub limit: Option<u64>,
    /// A code such as `quota.exceeded` or `facts.stale`; `ok` when it does not stand in the way.
    pub code: String,
    /// A sentence for people.
    pub why: String,
}

/// What was found of one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceFacts {
    /// What the workspace may use of it; the borrowing limit as it counts at the moment.
    pub allowance: Allowance,
    /// That limit is cut for a while, because loans had to be called back from it again and again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub slowed: bool,
    /// The most it may ever use, that cut apart; `None` for no limit but what there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<u64>,
    /// What it uses or has set aside.
    pub taken: u64,
    /// What is promised to it.
    pub reserved: u64,
    /// What it could use more, by Kueue's arithmetic, or as GPUs of its own quota are free.
    pub available: u64,
    /// What it could use if nobody used anything, and nothing were cut.
    pub potential: u64,
    /// What others who may lend to it leave idle.
    pub lendable: u64,
    /// What of the tenant's loans would have no lender if this were admitted.
    pub uncovered: u64,
    /// Whether its lenders are only such as policy keeps apart from it.
    pub kept_apart: bool,
    /// Loans that are open in the tenant.
    pub loans: u64,
    /// GPUs on the tenant's own nodes that take new work.
    pub serving: u64,
    /// The kinds that these nodes have, where they have none of what is asked for: another model, whole GPUs or slices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offered: Vec<GpuKind>,
    /// Those of them that nobody uses.
    pub free: u64,
    /// The most of it that one of these nodes has, in use or not; `None` where there is none, or in older decisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest: Option<u64>,
    /// Whether so many can be had there as they are asked for, together where they must be.
    pub fits: bool,
    /// A workload that has waited so long that no younger one may borrow before it.
    pub ahead: Option<String>,
}

/// Everything that a decision on admission rests on: the same grounds and policy give the same answer (I-20).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmissionFacts {
    /// What is asked for.
    pub requests: Amounts,
    /// The most GPUs that must lie on one node.
    pub together: u64,
    /// What the workload is like.
    pub class: WorkloadClass,
    /// Whether it may be evicted for others.
    pub preemptible: bool,
    /// Labels that pins look at: the workload's, and its tenant's compliance tags.
    pub labels: BTreeSet<String>,
    /// What its workspace is for.
    pub workspace_class: WorkspaceClass,
    /// Whether its workspace takes new workloads.
    pub open: bool,
    /// Whether its tenant lets its work be evicted for others.
    pub allow_preemption: bool,
    /// Whether it was evicted a moment ago and may not borrow yet.
    pub cooling: bool,
    /// Where the tenant's nodes lie; `None` while it has none.
    pub place: Option<(RegionId, ClusterId)>,
    /// Whether the list of who runs in its workspace has room for it.
    pub listable: bool,
    /// It waits or ran before: a later quota has it wait, and never rejects it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queued: bool,
    /// How long ago the platform was seen; `None` for never.
    pub seen: Option<Duration>,
    /// The kinds of GPU that policy does not let it have, each with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<Resource, String>,
    /// By resource asked for.
    pub resources: BTreeMap<Resource, ResourceFacts>,
}

/// A decision on one workload. Never rewritten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// Its number within the tenant, from 1.
    pub number: u64,
    /// Whose workload it is.
    pub tenant: TenantId,
    /// Of which workspace.
    pub workspace: WorkspaceName,
    /// Its name.
    pub workload: String,
    /// What it asks for.
    pub requests: Amounts,
    /// What it was told.
    pub answer: AdmissionVerdict,
    /// Every finding.
    pub weighed: Vec<DimensionFinding>,
    /// The policy that was in force.
    pub policy: PolicyRef,
    /// Everything that was looked at.
    pub grounds: AdmissionFacts,
    /// SHA-256 of the grounds, as JSON.
    pub facts_digest: String,
    /// When.
    pub at: Timestamp,
}

impl Admission {
    /// The id of a tenant's decision.
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
