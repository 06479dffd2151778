//! What planning came to, and the terms that it was made under.

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

/// What holds for one reclaim, whatever policy says later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReclaimTerms {
    /// The policy that it comes from.
    pub policy: PolicyRef,
    /// When the promise is broken.
    pub deadline: Timestamp,
    /// Who is asked beyond the guard.
    pub seats: Vec<Seat>,
    /// How long they have.
    pub patience: Duration,
    /// What else policy says about asking them.
    #[serde(default, skip_serializing_if = "Procedure::is_plain")]
    pub procedure: Procedure,
    /// How often it is planned at most.
    pub plans: u32,
    /// How long all steps may take together, beside the victims' grace. `None` in terms of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps_within: Option<Duration>,
}

/// What planning came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanVerdict {
    /// Nothing has to be freed, or nothing more than is being freed.
    Satisfied,
    /// These have to give way.
    Evict,
    /// Nobody can.
    Infeasible,
}

/// A plan, with all that evicting its victims takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedReclaim {
    /// What it came to.
    pub verdict: PlanVerdict,
    /// The terms it was made under.
    pub terms: ReclaimTerms,
    /// What is freed besides for others who wait in the demand's line, inside its workspace's own quota.
    #[serde(default)]
    pub more: u64,
    /// Workloads of other workspaces for which is freed besides, as they wait inside their own quota too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Beneficiary>,
    /// Who has to give way, in order.
    pub victims: Vec<Eviction>,
    /// What it breaks of the guard; not empty: people are asked.
    pub breaches: Vec<Breach>,
    /// Why there is no plan, if there is none.
    pub why: Option<String>,
    /// How every candidate was judged.
    pub explanation: Explanation,
    /// Whether the cluster of all this is a simulated one.
    #[serde(default)]
    pub simulated: bool,
}
