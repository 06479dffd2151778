//! The data of a capacity exhaustion, as it is persisted.

use crate::{
    policy::{PolicyRef, Rung},
    tenancy::{GpuModel, Gpus, RegionId, TenantId},
};
use engine::{Procedure, Seat};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::Timestamp;

/// One rung as policy has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RungTerms {
    /// Which one.
    pub rung: Rung,
    /// Who is asked, if anybody.
    pub seats: Vec<Seat>,
    /// How long they have.
    pub within: Duration,
    /// What else policy says about asking them.
    #[serde(default, skip_serializing_if = "Procedure::is_plain")]
    pub procedure: Procedure,
}

/// What holds for one exhaustion, whatever policy says later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExhaustionTerms {
    /// The policy that it comes from.
    pub policy: PolicyRef,
    /// What is tried, in order.
    pub ladder: Vec<RungTerms>,
    /// There has to be enough for so long.
    pub settle: Duration,
    /// How long procurement may take.
    pub procure_within: Duration,
}

/// What became of one rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RungOutcome {
    /// It was taken.
    Taken,
    /// People said no, or nothing.
    Refused,
    /// No actuator here can do it.
    NoHands,
    /// Nothing came of it in time.
    Lapsed,
}

/// What runs short, and what has been learnt and tried. Persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapacityExhaustion {
    /// Where.
    pub region: RegionId,
    /// Of which model.
    pub model: GpuModel,
    /// GPUs that somebody waits for, beside those on waitlists.
    pub wanted: Gpus,
    /// What made it known.
    pub trigger: String,
    /// The region's tenants, as they were when it began: whose loans are looked at, and who may be degraded.
    pub tenants: Vec<TenantId>,
    /// What holds for it. Filled by `Assessing`, with the two that follow.
    pub terms: Option<ExhaustionTerms>,
    /// What was measured, newest last; the last ten alone.
    pub measured: Vec<CapacityMeasurement>,
    /// Tenants of the region that lend GPUs of the model for too long.
    pub overdue: Vec<TenantId>,
    /// Which rung is next.
    pub next: usize,
    /// What became of those before.
    pub tried: Vec<(Rung, RungOutcome)>,
}

/// What a region has of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityMeasurement {
    /// When.
    pub at: Timestamp,
    /// GPUs in all.
    pub total: Gpus,
    /// GPUs that nobody owns, beside the buffer.
    pub free: Gpus,
    /// GPUs kept back.
    pub buffer: Gpus,
    /// GPUs that are waited for.
    pub waited_for: Gpus,
    /// Tenants with loans of the model that have lasted too long.
    pub overdue: Vec<TenantId>,
    /// Whether that is enough.
    pub enough: bool,
}
