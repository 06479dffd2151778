//! What a decision on another quota looks at.

use super::{Direction, GpuHoldings, QuotaRequest};
use crate::{
    placement::Candidate,
    policy::sha256,
    tenancy::{Allowance, ClusterKind, GpuSlicing, Gpus, QuotaEnd, Tenant},
};
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// How the workspace stands in the resource that is to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceStatus {
    /// What it may use; `None` when nothing is said of the resource.
    pub allowance: Option<Allowance>,
    /// What it uses.
    pub used: u64,
    /// What of its quota is reserved.
    pub reserved: u64,
}

/// Everything that a decision looks at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeFacts {
    /// What is asked for.
    pub request: QuotaRequest,
    /// Which way.
    pub direction: Direction,
    /// When it is decided.
    pub at: Timestamp,
    /// The tenant, if there is one of the name.
    pub tenant: Option<Tenant>,
    /// The kind of its cluster, and whether nothing real is behind it.
    pub cluster: Option<(ClusterKind, bool)>,
    /// GPUs or slices that were bought, if the resource is of the kind that was.
    pub bought: Option<Gpus>,
    /// The slices that the tenant's GPUs of the model are cut into, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slicing: Option<GpuSlicing>,
    /// How the workspace stands, if there is one of the name.
    pub standing: Option<ResourceStatus>,
    /// The end of what is temporary in its quota.
    pub ends: Option<QuotaEnd>,
    /// What the tenant owns; nothing for a resource that is not counted by nodes.
    pub stand: GpuHoldings,
    /// The clusters that have or had the model.
    pub candidates: Vec<Candidate>,
}

impl ChangeFacts {
    /// `sha256:` and the digest of the facts.
    #[must_use]
    pub fn digest(&self) -> String {
        sha256(&serde_json::to_vec(self).unwrap_or_default())
    }
}
