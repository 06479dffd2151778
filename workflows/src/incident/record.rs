//! The data of an incident response, as it is persisted.

use super::holds::IncidentHold;
use crate::{
    platform::{Recovery, WorkloadRef},
    policy::PolicyRef,
    tenancy::{ClusterId, NodeId, TenantId},
};
use engine::{Procedure, Seat};
use serde::{Deserialize, Serialize};

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum IncidentCause {
    /// GPUs of a node report errors.
    GpuFault {
        /// Whose node it is.
        tenant: TenantId,
        /// The cluster's name.
        cluster: ClusterId,
        /// The node's name.
        node: NodeId,
    },
    /// A cluster's key is known to others (S-9).
    KeyLeak {
        /// Whose it is.
        tenant: TenantId,
        /// Of which cluster.
        cluster: ClusterId,
        /// SHA-256 of the secret of the key that follows, in hexadecimal; without one no key follows.
        next_hash: Option<String>,
    },
    /// Tenants were not kept apart (S-24).
    IsolationBreach {
        /// Whom it concerns.
        tenants: Vec<TenantId>,
    },
    /// Anything else that people have to clear.
    Other {
        /// Whom it concerns.
        tenants: Vec<TenantId>,
        /// What kind of thing it is, such as `sanitisation_failed` or `reclaim_stuck`.
        what: String,
    },
}

/// What happened, and what has been learnt and done about it. Persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IncidentResponse {
    /// What happened.
    pub happening: IncidentCause,
    /// Who saw it.
    pub detector: String,
    /// What was seen.
    pub evidence: String,
    /// How bad it is, and who is asked. Filled by `Triaging`.
    pub opened: Option<IncidentTriage>,
    /// Workloads on the node when it was contained.
    pub running: Vec<WorkloadRef>,
    /// Whether it was this incident that took the node out of service.
    pub rested: bool,
    /// The epoch of the tenant's ownership of the node.
    pub owner_epoch: u64,
    /// In whose names the node is cordoned: this incident's, and those of earlier ones that left it so.
    pub cordons: Vec<String>,
    /// What the driver asks for. Filled by `Inspecting`, with the two that follow.
    pub recovery: Recovery,
    /// Which boot of the node that was.
    pub boot: String,
    /// What was found last.
    pub diagnosis: Option<String>,
    /// Whether the node may serve.
    pub fit: bool,
    /// How it came out; the last question is about that.
    pub settled: Option<String>,
    /// The person or service that reported it; empty in incidents of earlier versions. Its holds are placed in this name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reported_by: String,
    /// The holds of this incident, as they were read after they were placed. Filled by `ReadingHolds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<Vec<IncidentHold>>,
}

/// What opening an incident came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentTriage {
    /// How bad it is, by rule.
    pub severity: Severity,
    /// The policy in force.
    pub policy: PolicyRef,
    /// Who is asked before anybody is disturbed.
    pub seats: Vec<Seat>,
    /// What else policy says about asking them.
    #[serde(default, skip_serializing_if = "Procedure::is_plain")]
    pub procedure: Procedure,
}

/// How bad it is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Severity {
    /// Work is slowed.
    Low,
    /// A promise may be broken.
    Medium,
    /// Tenants are not kept apart, or a secret is out.
    High,
}
