//! What was decided on a workload, in every dimension that was looked at: enough to decide it again and get the same.

use super::{Amounts, Resource, TenantId, WorkspaceName};
use crate::policy::PolicyRef;
use engine::Entity;
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// What a workload is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Answer {
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
pub struct Weighed {
    /// What was looked at.
    pub dimension: Dimension,
    /// Of which resource, where it is about one.
    pub resource: Option<Resource>,
    /// Whether it stands in the way: [`Answer::Admit`] when it does not.
    pub answer: Answer,
    /// What there is, in the resource's unit.
    pub value: Option<u64>,
    /// What it is compared with.
    pub limit: Option<u64>,
    /// A code such as `quota.exceeded` or `facts.stale`; `ok` when it does not stand in the way.
    pub code: String,
    /// A sentence for people.
    pub why: String,
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
    pub answer: Answer,
    /// Every finding.
    pub weighed: Vec<Weighed>,
    /// The policy that was in force.
    pub policy: PolicyRef,
    /// SHA-256 of everything that was looked at.
    pub facts_digest: String,
    /// When.
    pub at: Timestamp,
}

impl Admission {
    /// The id of a tenant's decision.
    #[must_use]
    pub fn key(tenant: &TenantId, number: u64) -> String {
        format!("{tenant}/{number:012}")
    }
}

impl Entity for Admission {
    const COLLECTION: &'static str = "admissions";

    fn id(&self) -> String {
        Self::key(&self.tenant, self.number)
    }
}
