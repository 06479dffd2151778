//! The result of planning, and its terms.

use crate::{
    policy::PolicyRef,
    reclaim::eviction::Eviction,
    scheduling::planner::{Breach, Explanation},
    tenancy::Beneficiary,
};
use engine::{Procedure, Seat};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::Timestamp;

/// The terms of one reclaim. Later policies do not change them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReclaimTerms {
    /// The policy version of these terms.
    pub policy: PolicyRef,
    /// The deadline of the promise.
    pub deadline: Timestamp,
    /// The seats that approve plans beyond the guard.
    pub seats: Vec<Seat>,
    /// The time limit of the approval.
    pub patience: Duration,
    /// Reminders and escalation of the approval.
    #[serde(default, skip_serializing_if = "Procedure::is_plain")]
    pub procedure: Procedure,
    /// The most plans.
    pub plans: u32,
    /// The time limit of all steps together, without the victims' grace. `None` in terms of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps_within: Option<Duration>,
}

/// The verdict of planning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanVerdict {
    /// No GPUs must be freed, or enough are already being freed.
    Satisfied,
    /// The victims must be evicted.
    Evict,
    /// No set of victims is enough.
    Infeasible,
}

/// A plan, with the terms of its evictions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedReclaim {
    /// The verdict.
    pub verdict: PlanVerdict,
    /// The terms.
    pub terms: ReclaimTerms,
    /// The amount to free for other workloads of the demand's queue, within the workspace's own quota.
    #[serde(default)]
    pub more: u64,
    /// Beneficiaries in other workspaces, which also wait within their own quota.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Beneficiary>,
    /// The evictions, in order.
    pub victims: Vec<Eviction>,
    /// The exceeded guard limits. If not empty, an approval is required.
    pub breaches: Vec<Breach>,
    /// The reason if there is no plan.
    pub why: Option<String>,
    /// The verdict on every candidate.
    pub explanation: Explanation,
    /// True if the cluster is simulated.
    #[serde(default)]
    pub simulated: bool,
}
