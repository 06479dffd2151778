//! The data of an incident response, as it is persisted.

use super::holds::IncidentHold;
use crate::{
    platform::{Recovery, WorkloadRef},
    policy::PolicyRef,
    tenancy::{ClusterId, NodeId, TenantId},
};
use engine::{Procedure, Seat};
use serde::{Deserialize, Serialize};

/// The cause of an incident.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum IncidentCause {
    /// GPUs of a node report errors.
    GpuFault {
        /// The tenant's id.
        tenant: TenantId,
        /// The cluster's name.
        cluster: ClusterId,
        /// The node's name.
        node: NodeId,
    },
    /// A cluster's key has leaked (S-9).
    KeyLeak {
        /// The tenant's id.
        tenant: TenantId,
        /// The cluster's name.
        cluster: ClusterId,
        /// The SHA-256 of the next key's secret, in hexadecimal. Without it no key is issued.
        next_hash: Option<String>,
    },
    /// The isolation of tenants failed (S-24).
    IsolationBreach {
        /// The ids of the tenants.
        tenants: Vec<TenantId>,
    },
    /// Any other incident that needs an operator.
    Other {
        /// The ids of the tenants.
        tenants: Vec<TenantId>,
        /// The kind of incident, such as `sanitisation_failed` or `reclaim_stuck`.
        what: String,
    },
}

/// The report and the results so far. Persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IncidentResponse {
    /// The cause.
    pub happening: IncidentCause,
    /// The detector.
    pub detector: String,
    /// The evidence.
    pub evidence: String,
    /// The severity and the approval. Set by `Triaging`.
    pub opened: Option<IncidentTriage>,
    /// The workloads on the node when it was contained.
    pub running: Vec<WorkloadRef>,
    /// True if this incident took the node out of service.
    pub rested: bool,
    /// The epoch of the tenant's ownership of the node.
    pub owner_epoch: u64,
    /// The holders of the node's cordons: this incident, and earlier ones that left it cordoned.
    pub cordons: Vec<String>,
    /// The recovery that the driver requests. Set by `Inspecting`, with the next two fields.
    pub recovery: Recovery,
    /// The id of the node's boot at that time.
    pub boot: String,
    /// The last finding.
    pub diagnosis: Option<String>,
    /// True if the node may serve.
    pub fit: bool,
    /// The outcome, which the review is about.
    pub settled: Option<String>,
    /// The user or service that reported it. Empty in incidents of earlier versions. The holds of the incident are placed in this name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reported_by: String,
    /// The holds of this incident, as read after they were placed. Set by `ReadingHolds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<Vec<IncidentHold>>,
}

/// Result of opening an incident.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentTriage {
    /// The severity, by rule.
    pub severity: Severity,
    /// The policy in force.
    pub policy: PolicyRef,
    /// The seats that must approve a disruption.
    pub seats: Vec<Seat>,
    /// The other terms of the approval.
    #[serde(default, skip_serializing_if = "Procedure::is_plain")]
    pub procedure: Procedure,
}

/// The severity of an incident.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Severity {
    /// Workloads are slower.
    Low,
    /// A promise may be broken.
    Medium,
    /// Tenants are not isolated, or a secret has leaked.
    High,
}
