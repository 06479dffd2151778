//! The data of a capacity exhaustion, as it is persisted.

use crate::{
    policy::{PolicyRef, Rung},
    tenancy::{GpuModel, Gpus, RegionId, TenantId},
};
use engine::{Procedure, Seat};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::Timestamp;

/// The terms of one rung.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RungTerms {
    /// The rung.
    pub rung: Rung,
    /// The seats that must approve; empty if no approval is required.
    pub seats: Vec<Seat>,
    /// The time limit of the approval.
    pub within: Duration,
    /// Reminders and escalation of the approval.
    #[serde(default, skip_serializing_if = "Procedure::is_plain")]
    pub procedure: Procedure,
}

/// The terms of one exhaustion. Later policies do not change them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExhaustionTerms {
    /// The policy version of these terms.
    pub policy: PolicyRef,
    /// The rungs, in order.
    pub ladder: Vec<RungTerms>,
    /// The duration for which enough must be free.
    pub settle: Duration,
    /// The longest time of procurement.
    pub procure_within: Duration,
}

/// The outcome of one rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RungOutcome {
    /// It was carried out.
    Taken,
    /// Approvers refused it or did not answer.
    Refused,
    /// No actuator is available for it.
    NoHands,
    /// It had no result in time.
    Lapsed,
}

/// The data of an exhaustion. Persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapacityExhaustion {
    /// The region.
    pub region: RegionId,
    /// The model.
    pub model: GpuModel,
    /// GPUs requested in addition to the waitlists.
    pub wanted: Gpus,
    /// The trigger.
    pub trigger: String,
    /// The region's tenants at the start: their loans are checked, and they may be degraded.
    pub tenants: Vec<TenantId>,
    /// The terms. Set by `Assessing`, with the next two.
    pub terms: Option<ExhaustionTerms>,
    /// The last ten measurements, newest last.
    pub measured: Vec<CapacityMeasurement>,
    /// Tenants of the region with overdue loans of the model.
    pub overdue: Vec<TenantId>,
    /// The index of the next rung.
    pub next: usize,
    /// The outcomes of earlier rungs.
    pub tried: Vec<(Rung, RungOutcome)>,
}

/// The measured capacity of a model in a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityMeasurement {
    /// The time.
    pub at: Timestamp,
    /// GPUs in all.
    pub total: Gpus,
    /// GPUs without an owner, above the reserve.
    pub free: Gpus,
    /// The reserve.
    pub buffer: Gpus,
    /// GPUs that requests wait for.
    pub waited_for: Gpus,
    /// Tenants with overdue loans of the model.
    pub overdue: Vec<TenantId>,
    /// True if that is enough.
    pub enough: bool,
}
