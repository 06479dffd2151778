//! The facts of a decision on a quota change.

use super::{Direction, GpuHoldings, QuotaRequest};
use crate::{
    placement::Candidate,
    policy::sha256,
    tenancy::{Allowance, ClusterKind, GpuSlicing, Gpus, QuotaEnd, Tenant},
};
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// The workspace's quota and usage of the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceStatus {
    /// The allowance; `None` without an entry.
    pub allowance: Option<Allowance>,
    /// The usage.
    pub used: u64,
    /// The reserved part of its quota.
    pub reserved: u64,
}

/// All facts of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeFacts {
    /// The request.
    pub request: QuotaRequest,
    /// The direction.
    pub direction: Direction,
    /// The time of the decision.
    pub at: Timestamp,
    /// The tenant, if it exists.
    pub tenant: Option<Tenant>,
    /// The kind of its cluster, and true if it has no real target.
    pub cluster: Option<(ClusterKind, bool)>,
    /// The bought GPUs or slices, if the resource is of the bought kind.
    pub bought: Option<Gpus>,
    /// The slices of the tenant's GPUs of the model, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slicing: Option<GpuSlicing>,
    /// The workspace's quota and usage, if it exists.
    pub standing: Option<ResourceStatus>,
    /// The end of a temporary quota.
    pub ends: Option<QuotaEnd>,
    /// The tenant's GPUs; empty for a resource that is not counted by nodes.
    pub stand: GpuHoldings,
    /// The clusters that have or had the model.
    pub candidates: Vec<Candidate>,
}

impl ChangeFacts {
    /// Returns `sha256:` and the digest of the facts.
    #[must_use]
    pub fn digest(&self) -> String {
        sha256(&serde_json::to_vec(self).unwrap_or_default())
    }
}
